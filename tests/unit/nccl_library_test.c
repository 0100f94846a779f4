// Proves: of the NCCL that is installed here all entry points resolve, and it has a version, ids, and words for errors
// without a GPU; starting a communicator without one is an error, and no crash.
#include <stdlib.h>

#include "runtime/nccl/library.h"
#include "tests/support/unit.h"

// The library itself leaves the job of an empty group behind; the leak checker asks this.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:ncclGroupEnd"; }

static ptc_nccl_t *open_installed(void) {
  unsetenv("PTC_NCCL");
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_nccl_t *nccl = ptc_nccl_open(&diag);
  if (!nccl) {
    printf("skipped: no NCCL here\n");
    UNIT_CHECK(strcmp(diag.items[0].id, "nccl-missing") == 0, "nccl-missing");
    UNIT_CHECK(strstr(diag.items[0].message, "libnccl.so.2") != NULL, "names its file");
  }
  ptc_diag_deinit(&diag);
  return nccl;
}

static void test_installed(void) {
  ptc_nccl_t *nccl = open_installed();
  if (!nccl) return;
  printf("NCCL %d ", nccl->version);
  UNIT_CHECK(nccl->version >= PTC_NCCL_LEAST_VERSION, "version");
  if (nccl->version >= 21800) UNIT_CHECK(nccl->CommSplit && nccl->GetLastError, "ncclCommSplit");
  ptc_nccl_id_t ids[2] = {0};
  for (int i = 0; i < 2; i++)
    UNIT_CHECK(nccl->GetUniqueId(&ids[i]) == PTC_NCCL_SUCCESS, "ncclGetUniqueId");
  UNIT_CHECK(memcmp(&ids[0], &ids[1], sizeof ids[0]) != 0, "two ids");
  UNIT_CHECK(strstr(nccl->GetErrorString(PTC_NCCL_INVALID_USAGE), "invalid usage") != NULL,
             "words");
  UNIT_CHECK(strstr(nccl->GetErrorString(PTC_NCCL_IN_PROGRESS), "progress") != NULL, "progress");
  UNIT_CHECK(nccl->GroupStart() == PTC_NCCL_SUCCESS && nccl->GroupEnd() == PTC_NCCL_SUCCESS,
             "an empty group");
  // What it makes of a config of 2.18, and of no GPU.
  void *comm = NULL;
  ptc_nccl_config_t config = ptc_nccl_config();
  const int code = nccl->CommInitRankConfig(&comm, 1, ids[0], 0, &config);
  if (code != PTC_NCCL_SUCCESS && code != PTC_NCCL_IN_PROGRESS)
    UNIT_CHECK(code == PTC_NCCL_CUDA_ERROR || code == PTC_NCCL_SYSTEM_ERROR, "no GPU");
  if (comm) nccl->CommAbort(comm);
  ptc_nccl_close(nccl);
}

static const unit_test_t tests[] = {{"installed", test_installed}};
UNIT_MAIN("nccl library", tests)

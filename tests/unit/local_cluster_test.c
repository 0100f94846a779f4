// Proves: this machine is measured, its figures are plausible and kept; the cluster `local` divides them among ranks;
// the model of CPU kernels follows shapes, and that of its ranks their number.
#include "frontend/driver/local_cluster.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "passes/planner/kernel_cost.h"
#include "passes/planner/net_cost.h"
#include "runtime/cpu/cores.h"
#include "runtime/measure.h"
#include "tests/support/unit.h"

static char folder[32];
static ptc_diag_t diag;
static ptc_arena_t arena;

static const ptc_cluster_t *find(const char *spec) {
  ptc_cluster_t *cluster = NULL;
  const ptc_status_t status = ptc_driver_find_cluster(&diag, &arena, NULL, spec, true, &cluster);
  if (status != PTC_OK) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  CU_ASSERT_FATAL(status == PTC_OK);
  return cluster;
}

static void test_measured(void) {
  unit_make_folder(folder);
  setenv("PTC_CACHE", folder, 1);
  const ptc_cluster_t *one = find("local");
  const ptc_node_model_t *node = &one->groups[0].node;
  const ptc_device_model_t *d = node->device;
  CU_ASSERT(one->num_devices == 1 && d->arch == 0 && d->sms == ptc_num_cores());
  const double core = d->peak[PTC_PREC_F32] / d->sms;
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CU_ASSERT(core > 5e9 && core < 500e9);
#else
  CU_ASSERT(core > 1e8);
#endif
  CU_ASSERT(d->memory_rate > 1e8 && d->memory_rate < 2e12);
  CU_ASSERT(d->memory_bytes > 5e8);
  CU_ASSERT(d->launch_s >= 1e-6 && d->launch_s < 1e-2);
  CU_ASSERT(node->link_busbw > 1e7 && node->link_latency > 0);
}

static void test_kept(void) {
  char path[64];
  snprintf(path, sizeof(path), "%s/local.ptm", folder);
  FILE *file = fopen(path, "r+");
  CU_ASSERT_FATAL(file != NULL);
  // What the file says counts, until its first line is another machine's.
  char text[4096];
  const size_t len = fread(text, 1, sizeof(text) - 1, file);
  text[len] = '\0';
  char *number = strstr(text, "gemm = 0.86");
  CU_ASSERT_FATAL(number != NULL);
  memcpy(number, "gemm = 0.42", 11);
  rewind(file);
  fwrite(text, 1, len, file);
  fclose(file);
  CU_ASSERT(find("local")->groups[0].node.device->gemm_eff == .42);
  text[3] = '?';
  file = fopen(path, "w");
  CU_ASSERT_FATAL(file != NULL);
  fwrite(text, 1, len, file);
  fclose(file);
  CU_ASSERT(find("local")->groups[0].node.device->gemm_eff == .86);
}

static void test_ranks(void) {
  const ptc_device_model_t *whole = find("local")->groups[0].node.device;
  const ptc_cluster_t *four = find("local:4");
  const ptc_device_model_t *part = four->groups[0].node.device;
  CU_ASSERT(four->num_devices == 4 && four->groups[0].node.devices == 4);
  CU_ASSERT(fabs(part->peak[PTC_PREC_F32] * 4 / whole->peak[PTC_PREC_F32] - 1) < 1e-9);
  CU_ASSERT(fabs(part->memory_rate * 4 / whole->memory_rate - 1) < 1e-9);
  CU_ASSERT(part->sms == (whole->sms >= 4 ? whole->sms / 4 : 1));
  const int64_t size[PTC_NUM_DEVICE_AXES] = {1, 4, 1, 1, 1};
  const ptc_group_shape_t shape = ptc_group_shape(four, size, 1u << PTC_AXIS_DP);
  CU_ASSERT(shape.ranks == 4 && shape.nodes == 1);
  const double reduce = ptc_net_seconds(four, PTC_NET_ALL_REDUCE, shape, 1e8, NULL);
  const double gather = ptc_net_seconds(four, PTC_NET_ALL_GATHER, shape, 1e8, NULL);
  const double busbw = four->groups[0].node.link_busbw;
  CU_ASSERT(reduce > 1.5e8 / busbw && reduce > gather && gather > .75e8 / busbw);
  ptc_cluster_t *none;
  CU_ASSERT(ptc_driver_find_cluster(&diag, &arena, NULL, "local:0", true, &none) ==
            PTC_INVALID_INPUT);
  CU_ASSERT(ptc_driver_find_cluster(&diag, &arena, NULL, "local:two", true, &none) ==
            PTC_INVALID_INPUT);
  CU_ASSERT(diag.num_errors > 0);
}

static void test_kernels(void) {
  const ptc_device_model_t *d = find("local")->groups[0].node.device;
  const double peak = d->peak[PTC_PREC_F32];
  ptc_kernel_work_t work = {
      .kind = PTC_KW_GEMM, .prec = PTC_PREC_F32, .m = 1024, .n = 768, .k = 768};
  const double square = ptc_kernel_seconds(d, &work, NULL);
  const double rate = 2. * 1024 * 768 * 768 / square / peak;
  CU_ASSERT(rate > .7 && rate < .86);
  work.costly = 1024 * 768;
  CU_ASSERT(ptc_kernel_seconds(d, &work, NULL) > 1.04 * square);
  // 16-bit values are computed in f32 here.
  work.costly = 0;
  work.prec = PTC_PREC_BF16;
  CU_ASSERT(ptc_kernel_seconds(d, &work, NULL) == square);
  work = (ptc_kernel_work_t){.kind = PTC_KW_ATTENTION,
                             .prec = PTC_PREC_F32,
                             .heads = 4,
                             .rows = 1024,
                             .cols = 1024,
                             .qk_dim = 64,
                             .v_dim = 64};
  const double full = ptc_kernel_seconds(d, &work, NULL);
  work.causal = true;
  const double half = ptc_kernel_seconds(d, &work, NULL);
  CU_ASSERT(half > .5 * full && half < .62 * full);
  // Beyond the last cache memory is the limit.
  work = (ptc_kernel_work_t){.kind = PTC_KW_MEMORY, .bytes = 1e9};
  const double large = ptc_kernel_seconds(d, &work, NULL);
  CU_ASSERT(large >= 1e9 / d->memory_rate);
}

static const unit_test_t tests[] = {{"measured", test_measured},
                                    {"kept", test_kept},
                                    {"ranks", test_ranks},
                                    {"kernels", test_kernels}};

int main(void) {
  ptc_diag_init(&diag);
  ptc_arena_init(&arena);
  const int status = unit_main("local_cluster", tests, sizeof(tests) / sizeof(*tests));
  ptc_arena_deinit(&arena);
  ptc_diag_deinit(&diag);
  char path[64];
  snprintf(path, sizeof(path), "%s/local.ptm", folder);
  unlink(path);
  rmdir(folder);
  return status;
}

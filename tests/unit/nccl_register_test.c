// Proves: the arena of a GPU that exchanges data is NCCL's memory, and registered with the communicator of every group, each
// once; PTC_NCCL_REGISTER=0 does without, and collectives give the same; the simulated library refuses what is no
// buffer of the GPU, and what it does not know.
#include <stdlib.h>

#include "runtime/nccl/nccl_impl.h"
#include "tests/support/gpu_world.h"
#include "tests/support/unit.h"

enum { WORLD = 4 };

typedef struct script_s {
  bool registers;
  uint64_t seed;
} script_t;

// How many of the endpoint's groups do not have what |registers| says.
static int64_t count_wrong(const ptc_nccl_endpoint_t *e, bool registers) {
  int64_t num_wrong = 0;
  for (int32_t g = 0; g < e->num_groups; g++)
    num_wrong += (e->groups[g].arena != NULL) != (registers && e->groups[g].comm != NULL);
  return num_wrong;
}

static int64_t try_wrong_calls(gpu_rank_t *rank, ptc_nccl_endpoint_t *e) {
  const ptc_nccl_t *nccl = e->nccl;
  void *comm = e->groups[PTC_COMM_WORLD].comm, *handle = NULL;
  void *arena = (void *)(uintptr_t)rank->device->arena;
  int64_t num_wrong = 0;
  int here = 0;
  num_wrong += nccl->CommRegister(comm, &here, sizeof here, &handle) != PTC_NCCL_INVALID_ARGUMENT;
  num_wrong += nccl->CommRegister(comm, arena, 1 << 30, &handle) != PTC_NCCL_INVALID_ARGUMENT;
  num_wrong += nccl->CommRegister(comm, arena, 0, &handle) != PTC_NCCL_INVALID_ARGUMENT;
  num_wrong += nccl->CommDeregister(comm, &here) != PTC_NCCL_INVALID_ARGUMENT;
  num_wrong += nccl->CommRegister(comm, arena, 8, &handle) != PTC_NCCL_SUCCESS;
  num_wrong += nccl->CommDeregister(comm, handle) != PTC_NCCL_SUCCESS;
  num_wrong += nccl->CommDeregister(comm, handle) != PTC_NCCL_INVALID_ARGUMENT;
  num_wrong += nccl->MemAlloc(&handle, 0) != PTC_NCCL_INVALID_ARGUMENT;
  num_wrong += nccl->MemAlloc(&handle, 100) != PTC_NCCL_SUCCESS;
  num_wrong += nccl->MemFree(handle) != PTC_NCCL_SUCCESS;
  return num_wrong;
}

static int64_t run(gpu_rank_t *rank, ptc_diag_t *diag, void *arg) {
  const script_t *script = arg;
  ptc_nccl_endpoint_t *e = (ptc_nccl_endpoint_t *)rank->comm;
  const int32_t me = rank->comm->rank, pair[2] = {me / 2 * 2, me / 2 * 2 + 1};
  int32_t group;
  if (rank->device->arena_bytes != 64) return 1;
  if (count_wrong(e, script->registers)) return 1;
  if (ptc_comm_group(rank->comm, diag, pair, 2, &group) != PTC_OK) return 1;
  if (ptc_comm_ready(rank->comm, diag) != PTC_OK) return 1;
  if (e->num_groups != 2 || !e->groups[1].comm || count_wrong(e, script->registers)) return 1;
  comm_case_t test;
  comm_case_random(&test, script->seed + (uint64_t)(me / 2), 2);
  if (comm_case_run(&test, rank->comm, diag, group, me % 2, &rank->memory)) return 1;
  return script->registers ? try_wrong_calls(rank, e) : e->nccl->MemAlloc != NULL;
}

static void test_arena(void) {
  UNIT_CHECK(gpu_world_prepare(WORLD), "the simulator's library");
  for (int registers = 1; registers >= 0; registers--) {
    script_t script = {registers, unit_seed()};
    if (!registers) setenv("PTC_NCCL_REGISTER", "0", 1);
    ptc_cuda_memory_t memory;
    ptc_nccl_memory(&memory);
    UNIT_CHECK((memory.close != NULL) == script.registers, "memory");
    if (memory.close) memory.close(memory.arg);
    UNIT_CHECK(gpu_world_run(WORLD, run, &script) == 0, registers ? "registered" : "not");
    unsetenv("PTC_NCCL_REGISTER");
  }
}

static const unit_test_t tests[] = {{"arena", test_arena}};
UNIT_MAIN("nccl register", tests)

#include "runtime/agree.h"

ptc_status_t ptc_agree_most(ptc_comm_t *comm, ptc_diag_t *diag, int64_t value, int64_t *out_most) {
  *out_most = value;
  if (!comm || comm->world == 1) return PTC_OK;
  ptc_collective_part_t part = {.in = {1, sizeof value, sizeof value},
                                .out = {1, sizeof value, sizeof value}};
  const ptc_collective_t most = {.kind = PTC_COLLECTIVE_ALL_REDUCE,
                                 .reduce = PTC_REDUCE_MAX,
                                 .dtype = PTC_I64,
                                 .num_parts = 1,
                                 .parts = &part};
  void *const args[2] = {&value, out_most};
  return ptc_comm_collective(comm, diag, PTC_COMM_WORLD, &most, args);
}

ptc_status_t ptc_agree_status(ptc_comm_t *comm, ptc_diag_t *diag, ptc_status_t status) {
  int64_t most;
  PTC_TRY(ptc_agree_most(comm, diag, status == PTC_OK ? 0 : 1, &most));
  if (status != PTC_OK) return status;
  return most ? PTC_DEVICE : PTC_OK;
}

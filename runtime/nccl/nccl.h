// Ranks that each have a GPU, and exchange what lies on it through NCCL.
#ifndef PTC_RUNTIME_NCCL_NCCL_H_
#define PTC_RUNTIME_NCCL_NCCL_H_

#include "runtime/communicator.h"
#include "runtime/cuda/device.h"
#include "runtime/device.h"

// The endpoint of the rank of |host| whose GPU is |device|; all ranks open theirs. Addresses are the GPU's, and
// collectives, send and recv come back when they are queued on the stream of |device| that ptc_comm_set_stream named. Barriers and what ranks agree upon are those of |host|, which also names who does not call the same: the first
// calls of each group are compared before they are queued. While the device is waited for (device.h), errors of NCCL,
// of other ranks, and the watchdog end the wait, after all of the endpoint's NCCL communicators have been aborted: those
// of groups, the latest first, then that of all ranks. Keeps |device| and |host| (not owned), which outlive it.
//
// Sums: NCCL promises no order, and adds f16 and bf16 in their own precision between ranks; a maximum may drop NaN.
// The device's arena is registered with each communicator, where NCCL can (2.19; PTC_NCCL_REGISTER=0: not), so that what lies
// there need not be copied on its way. Diagnostics beside those of |host|: "nccl-missing" (library.h), "nccl-failed" (PTC_DEVICE; NCCL's own words).
ptc_status_t ptc_comm_open_nccl(ptc_diag_t *diag, ptc_device_t *device, ptc_comm_t *host,
                                ptc_comm_t **out_comm);

// Memory of NCCL's, for the arena of a device that exchanges data: some of its ways need that. All NULL where the library is
// missing or has none.
void ptc_nccl_memory(ptc_cuda_memory_t *out_memory);

#endif  // PTC_RUNTIME_NCCL_NCCL_H_

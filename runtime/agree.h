// Small decisions that all ranks make alike.
#ifndef PTC_RUNTIME_AGREE_H_
#define PTC_RUNTIME_AGREE_H_

#include "runtime/communicator.h"

// |*out_most| becomes the largest |value| of all ranks. All of them call it. |comm| NULL: there is one rank.
ptc_status_t ptc_agree_most(ptc_comm_t *comm, ptc_diag_t *diag, int64_t value, int64_t *out_most);

// The status that all ranks go on with: |status| if it is an error, else an error if another rank has one (which
// has the diagnostic), else PTC_OK. All of them call it.
ptc_status_t ptc_agree_status(ptc_comm_t *comm, ptc_diag_t *diag, ptc_status_t status);

#endif  // PTC_RUNTIME_AGREE_H_

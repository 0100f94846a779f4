// A collective where members cannot read each other's arrays: what one gives another passes through stages, in
// windows. How a stage's content gets across is the caller's.
#ifndef PTC_RUNTIME_STAGED_H_
#define PTC_RUNTIME_STAGED_H_

#include "runtime/transfer.h"

typedef struct ptc_staged_s ptc_staged_t;

struct ptc_staged_s {
  int32_t size, me;
  int64_t stage_bytes;  // of one window; at least 64 * size
  // This member's stage of the current window: a slot for each receiver, |slot_bytes| apart; where all get the same,
  // the one slot is for all (slot_bytes 0).
  char *stage;
  int64_t slot_bytes;
  const int64_t *out_bytes, *in_bytes;  // in this window: for each receiver, from each sender
  const char **in;  // after an exchange: what each other member has for this one
  // Ends a window: |stage| is filled. Sets |in|, which stays until the next exchange, and |stage| for the next window.
  ptc_status_t (*exchange)(ptc_staged_t *staged, ptc_diag_t *diag);
  void *arg;
  // Scratch for |size| members: 2 * size walks, 2 * size sizes, size addresses.
  ptc_walk_t *walks;
  int64_t *sizes;
  const void **ins;
};

// One step of |collective|. |*bytes_read| grows by what comes from other members.
ptc_status_t ptc_staged_run(ptc_staged_t *staged, ptc_diag_t *diag, ptc_transfer_kind_t kind,
                            const ptc_collective_t *collective, void *const *args,
                            int64_t *bytes_read);
// All steps of |collective|.
ptc_status_t ptc_staged_collective(ptc_staged_t *staged, ptc_diag_t *diag,
                                   const ptc_collective_t *collective, void *const *args,
                                   int64_t *bytes_read);

#endif  // PTC_RUNTIME_STAGED_H_

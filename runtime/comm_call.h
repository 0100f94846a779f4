// What communicators say of calls: whether members call the same, and why a run has ended.
#ifndef PTC_RUNTIME_COMM_CALL_H_
#define PTC_RUNTIME_COMM_CALL_H_

#include <stddef.h>

#include "ir/plan.h"

enum { PTC_COMM_REASON = 640, PTC_COMM_CONTEXT = 160 };  // bytes of texts

// Why the run has ended; the first reason counts.
typedef enum ptc_comm_end_e {
  PTC_COMM_ABORTED,
  PTC_COMM_MISMATCH,
  PTC_COMM_LOST,
  PTC_COMM_STUCK
} ptc_comm_end_t;

// The id of its diagnostic, "comm-aborted".
const char *ptc_comm_end_id(ptc_comm_end_t end);

// What a member of a group says of the call that it is in. Equal byte for byte for all members, or it is a mismatch.
typedef struct ptc_comm_call_s {
  int32_t kind, reduce, dtype, num_parts;  // kind -1: a barrier
  int64_t bytes;                           // of its operands
  uint64_t hash;                           // of the parts' forms
} ptc_comm_call_t;

ptc_comm_call_t ptc_comm_call_of(const ptc_collective_t *collective);
// "ranks 0 and 2 do not call the same: ..." for the members with these calls, of a group of |size|.
void ptc_comm_describe_mismatch(const ptc_comm_call_t *first, int32_t first_rank,
                                const ptc_comm_call_t *other, int32_t other_rank, int32_t size,
                                char out[PTC_COMM_REASON]);
// "step 17 all_reduce over tp (gpt.ptm:30)"; the rest of |out| becomes zero.
void ptc_comm_describe_context(const char *step, ptc_loc_t loc, char out[PTC_COMM_CONTEXT]);

#endif  // PTC_RUNTIME_COMM_CALL_H_

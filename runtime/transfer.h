// Which bytes go from which member of a group to which: a collective as copies between arrays.
#ifndef PTC_RUNTIME_TRANSFER_H_
#define PTC_RUNTIME_TRANSFER_H_

#include "ir/plan.h"

// The steps that collectives consist of. An ALL_REDUCE is a SCATTER whose sums go to their place in the result,
// then a SPREAD of these.
typedef enum ptc_transfer_kind_e {
  PTC_TRANSFER_SUM,       // REDUCE_SCATTER: its piece of everybody's operand, added
  PTC_TRANSFER_SLICE,     // ALL_REDUCE: the same of slices, into the slice's place
  PTC_TRANSFER_SPREAD,    // ALL_REDUCE: everybody's slice of the result
  PTC_TRANSFER_GATHER,    // ALL_GATHER
  PTC_TRANSFER_EXCHANGE,  // ALL_TO_ALL
  PTC_TRANSFER_SHIFT      // RING_SHIFT
} ptc_transfer_kind_t;

// Runs of |run| bytes, n[0] x n[1] of them; the two sides have the same runs at different places.
typedef struct ptc_transfer_s {
  int64_t n[2], run;
  int64_t from, from_step[2];  // in the sender's array: its operand (SPREAD: its result)
  int64_t to, to_step[2];      // in the receiver's result
} ptc_transfer_t;

// Of an ALL_REDUCE the first of its two.
ptc_transfer_kind_t ptc_transfer_kind_of(ptc_collective_kind_t kind);

// What member |sender| gives member |receiver| of a part, in a group of |size|.
ptc_transfer_t ptc_transfer_of(ptc_transfer_kind_t kind, const ptc_collective_part_t *part,
                               ptc_dtype_t dtype, int32_t size, int32_t sender, int32_t receiver);
int64_t ptc_transfer_bytes(const ptc_transfer_t *transfer);
// Copies all of it.
void ptc_transfer_copy(const ptc_transfer_t *transfer, const char *from, char *to);

// A walk over what one member gives another of all parts, in order: both sides meet the same runs.
typedef struct ptc_walk_s {
  ptc_transfer_kind_t kind;
  const ptc_collective_t *collective;
  int32_t size, sender, receiver;
  int32_t part;  // where it is
  ptc_transfer_t transfer;
  int64_t i[2], done;  // run, and the bytes of it that lie behind
} ptc_walk_t;

typedef struct ptc_walk_run_s {
  int32_t part;
  int64_t from, to, bytes;  // offsets in the two arrays
} ptc_walk_run_t;

void ptc_walk_start(ptc_walk_t *walk, ptc_transfer_kind_t kind, const ptc_collective_t *collective,
                    int32_t size, int32_t sender, int32_t receiver);
// The next bytes, at most |limit| (a multiple of 8, so that no element is cut); false at the end.
bool ptc_walk_next(ptc_walk_t *walk, int64_t limit, ptc_walk_run_t *out_run);
// Bytes of a whole walk.
int64_t ptc_walk_bytes(ptc_transfer_kind_t kind, const ptc_collective_t *collective, int32_t size,
                       int32_t sender, int32_t receiver);

#endif  // PTC_RUNTIME_TRANSFER_H_

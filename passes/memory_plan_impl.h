// Private to passes/memory_plan*.c.
//
// A node is one instance of a buffer. Its life is a list of segments, one per value that it holds: from the
// step that writes the value to the last one that reads it. Nodes that may have one address (a copy and its
// source, a result in place of an operand) become one group; a group is what is placed.
#ifndef PTC_PASSES_MEMORY_PLAN_IMPL_H_
#define PTC_PASSES_MEMORY_PLAN_IMPL_H_

#include "ir/base/vec.h"
#include "ir/plan.h"

// Steps |begin| to |end|, both included.
typedef struct ptc_segment_s {
  int32_t begin, end;
  int32_t value;  // equal numbers: equal bytes
} ptc_segment_t;
typedef PTC_VEC(ptc_segment_t) ptc_segment_list_t;

typedef struct ptc_node_s {
  ptc_segment_list_t life;  // of a group's root: of all its nodes, sorted by begin
  int32_t parent;           // union-find
  bool pinned;              // a global: its address is its own in all tasks
  bool spread;    // touched in turns that the timeline leaves out: lives from first to last touch
  int64_t bytes;  // padded
  int64_t offset;
} ptc_node_t;

// Nodes that would best have one address from step |time| on: |from| is read there, |to| written.
typedef struct ptc_union_wish_s {
  int32_t from, to, time;
  bool copy;               // one value; else |to| is made in place of |from|
  const ptc_step_t *step;  // the launch or collective
  int32_t first_arg;       // of its nodes in args
} ptc_union_wish_t;

typedef struct ptc_timeline_s {
  const ptc_plan_t *plan;
  int32_t *first_node;  // per buffer
  int32_t num_nodes;
  ptc_node_t *nodes;
  int32_t time;  // number of steps so far
  int32_t next_value;
  PTC_VEC(ptc_union_wish_t) wishes;
  PTC_VEC(int32_t) args;  // nodes of the operands of launches with wishes
} ptc_timeline_t;

// --- memory_plan_life.c

// Lives and wishes of all nodes, over all tasks one after another. PTC_UNSUPPORTED ("plan-too-long").
ptc_status_t ptc_timeline_build(ptc_diag_t *diag, const ptc_plan_t *plan, ptc_timeline_t *out);
void ptc_timeline_deinit(ptc_timeline_t *timeline);

// --- memory_plan_merge.c

int32_t ptc_timeline_root(ptc_timeline_t *timeline, int32_t node);
// Grants the wishes that change no value.
void ptc_timeline_merge(ptc_timeline_t *timeline);

// --- memory_plan_place.c

// A rectangle to place: |bytes| high, as long as its segments (disjoint, sorted) say.
typedef struct ptc_placed_s {
  int32_t node;  // root
  int64_t bytes, offset;
  int32_t num_segments;
  const ptc_segment_t *segments;
  int64_t duration;
} ptc_placed_t;

// Gives every item an offset; returns the least height found. |bound|: no height is less; |enough|: a height
// that needs no further attempt.
int64_t ptc_place(ptc_placed_t *items, int32_t count, int32_t num_steps, int64_t bound,
                  int64_t enough);

#endif  // PTC_PASSES_MEMORY_PLAN_IMPL_H_

// The steps of a task in the order of launching, with the bytes of the arena that each touches: what the proof of a plan's
// events and the pass that makes them have in common.
#ifndef PTC_IR_PLAN_ORDER_H_
#define PTC_IR_PLAN_ORDER_H_

#include "ir/plan.h"

// Bytes [begin, end) of the arena, on any rank: where a part depends on the coordinates, from the least to the largest.
typedef struct ptc_access_s {
  int64_t begin, end;
  bool write;
  int32_t arg;  // of the step
} ptc_access_t;

// One step, as it is launched.
typedef struct ptc_launched_s {
  const ptc_step_t *step;
  int64_t number;  // in the order of launching, from 1 on
  const int64_t *turns;
  const ptc_access_t *accesses;
  int32_t num_accesses;
} ptc_launched_t;

typedef ptc_status_t (*ptc_launched_fn_t)(void *arg, const ptc_launched_t *launched);

// Calls |fn| for every launch, copy, collective and transfer of |task| and what it calls, all turns, until it fails;
// PTC_UNSUPPORTED where there are too many. The plan is placed, and one that ptc_plan_check accepts.
ptc_status_t ptc_plan_walk(const ptc_plan_t *plan, const ptc_task_t *task, ptc_launched_fn_t fn,
                           void *arg);

// For a walk that may leave out what only repeats: turns of a repeat, or calls that recur with the same slots for later
// micro-batches.
typedef struct ptc_fold_s {
  // Whether it counts where |ref| of |step| lies, which moves from one to the next: then they are all walked.
  bool (*matters)(const void *arg, const ptc_step_t *step, const ptc_ref_t *ref);
  // Called after each of them, |first| after the first. Whether |arg| is as it was after the one before, so that |fn| would
  // find the same in all that follow: then they are counted, not walked.
  bool (*recurs)(void *arg, bool first);
} ptc_fold_t;

// ptc_plan_walk that is folded so.
ptc_status_t ptc_plan_walk_folded(const ptc_plan_t *plan, const ptc_task_t *task,
                                  ptc_launched_fn_t fn, const ptc_fold_t *fold, void *arg);

// Whether |step| writes its argument |arg|. What it only writes in part counts.
bool ptc_step_writes(const ptc_plan_t *plan, const ptc_step_t *step, int32_t arg);
bool ptc_step_reads(const ptc_plan_t *plan, const ptc_step_t *step, int32_t arg);

// The line of the model that |step| (LAUNCH, COPY, COLLECTIVE, SEND, RECV) comes from, for words in parentheses:
// "model.ptm:12, ", or "" if it is not known.
const char *ptc_plan_step_origin(const ptc_plan_t *plan, ptc_arena_t *arena,
                                 const ptc_step_t *step);

// Who touched a span last.
typedef struct ptc_toucher_s {
  int64_t begin, end;
  int64_t position;  // on its stream, from 1 on
  int64_t number;    // in the order of launching
  const ptc_step_t *step;
  int32_t arg;
} ptc_toucher_t;

// Disjoint spans, sorted.
typedef struct ptc_touch_map_s {
  ptc_toucher_t *items;
  int64_t len, cap;
} ptc_touch_map_t;

// |toucher| is now the last one of its span.
void ptc_touch_map_set(ptc_touch_map_t *map, ptc_toucher_t toucher);
// The latest one on [begin, end), or NULL.
const ptc_toucher_t *ptc_touch_map_latest(const ptc_touch_map_t *map, int64_t begin, int64_t end);
void ptc_touch_map_deinit(ptc_touch_map_t *map);

// The spans that steps of streams but 0 touch, over all tasks: nothing else can meet anything. Merged and sorted.
typedef struct ptc_shared_spans_s {
  ptc_access_t *items;
  int64_t len, cap;
} ptc_shared_spans_t;

ptc_status_t ptc_shared_spans_find(const ptc_plan_t *plan, ptc_shared_spans_t *out);
// Whether one of |spans|, which are sorted and apart, has some of the bytes [begin, end).
bool ptc_spans_meet(const ptc_access_t *spans, int64_t len, int64_t begin, int64_t end);
static inline bool ptc_shared_spans_meet(const ptc_shared_spans_t *spans, int64_t begin,
                                         int64_t end) {
  return ptc_spans_meet(spans->items, spans->len, begin, end);
}
void ptc_shared_spans_deinit(ptc_shared_spans_t *spans);

#endif  // PTC_IR_PLAN_ORDER_H_

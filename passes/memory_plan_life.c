// The timeline: every step in order, turn by turn, and what each does to the lives of nodes.
//
// A repeat whose turns use the same instances again (a shared one) is walked for its first and last turn
// only: all the turns between meet the same lives. An instance of which each turn has its own is touched by
// all turns in both, and lives from its first touch to its last.
#include <stdlib.h>
#include <string.h>

#include "ir/plan_order.h"
#include "passes/memory_plan_impl.h"

enum { MAX_STEPS = 1 << 23 };

// A step of a stream but 0 that may not be done yet: what it touches lies in |touched| from |first| on.
typedef struct pending_s {
  const ptc_step_t *step;
  int64_t first, count;
} pending_t;

typedef struct touched_s {
  int32_t node;
  bool write;
} touched_t;

typedef struct walker_s {
  ptc_timeline_t *t;
  PTC_VEC(pending_t) pending;  // in order of launching
  PTC_VEC(touched_t) touched;
  int64_t turns[PTC_PLAN_MAX_LEVELS], counts[PTC_PLAN_MAX_LEVELS];
  bool collapsed[PTC_PLAN_MAX_LEVELS];
  int32_t depth;
  bool too_long;
} walker_t;

// --- what a step does to a node

static void touch(ptc_node_t *node, int32_t time, int32_t value) {
  if (!node->life.len) PTC_VEC_PUSH(&node->life, ((ptc_segment_t){time, time, value}));
  node->life.data[node->life.len - 1].end = time;
}

static void node_read(ptc_timeline_t *t, int32_t node) {
  // What was never written has some value, too.
  if (!t->nodes[node].life.len) t->next_value++;
  touch(&t->nodes[node], t->time, t->next_value);
}

// |whole|: nothing of the former value remains.
static void node_write(ptc_timeline_t *t, int32_t node, bool whole, int32_t value) {
  ptc_node_t *n = &t->nodes[node];
  if (!whole && n->life.len) n->life.data[n->life.len - 1].end = t->time;
  PTC_VEC_PUSH(&n->life, ((ptc_segment_t){t->time, t->time, value}));
}

static int32_t current_value(const ptc_timeline_t *t, int32_t node) {
  const ptc_segment_list_t *life = &t->nodes[node].life;
  return life->data[life->len - 1].value;
}

// --- steps that are under way
//
// What they touch lives on until something waits for them: a step of stream 0 that touches the same nodes, in a way that
// counts, and then all that the stream was given before; or their own next turn, so that memory does not grow with the
// number of turns. Addresses that were shared earlier would be right, too (overlap_events.c makes the sharer wait), but
// nothing would happen at the same time.

static bool meets_pending(const walker_t *w, const pending_t *pending, int32_t node, bool write) {
  bool found = false;
  for (int64_t i = 0; i < pending->count && !found; ++i) {
    const touched_t *touched = &w->touched.data[pending->first + i];
    found = touched->node == node && (write || touched->write);
  }
  return found;
}

// Those up to |index| of its stream are done.
static void end_pending(walker_t *w, int64_t index) {
  const int32_t stream = w->pending.data[index].step->stream;
  int64_t left = 0;
  for (int64_t i = 0; i < w->pending.len; ++i) {
    const pending_t *pending = &w->pending.data[i];
    if (i > index || pending->step->stream != stream) {
      w->pending.data[left++] = *pending;
      continue;
    }
    for (int64_t n = 0; n < pending->count; ++n) {
      ptc_node_t *node = &w->t->nodes[w->touched.data[pending->first + n].node];
      if (node->life.len) node->life.data[node->life.len - 1].end = w->t->time;
    }
  }
  w->pending.len = left;
  if (!left) w->touched.len = 0;
}

// --- references

static bool is_whole(const ptc_plan_t *plan, const ptc_ref_t *ref) {
  bool whole = ref->byte_offset.base == 0 && ref->bytes == plan->buffers[ref->buffer].bytes;
  for (int32_t l = 0; l < PTC_PLAN_MAX_LEVELS; ++l) whole = whole && !ref->byte_offset.coef[l];
  return whole;
}

static bool is_spread(const walker_t *w, const ptc_ref_t *ref) {
  bool spread = false;
  for (int32_t l = 0; l < w->depth; ++l)
    spread = spread || (w->collapsed[l] && ref->instance.coef[l]);
  return spread;
}

static int32_t node_of(const walker_t *w, const ptc_ref_t *ref) {
  return w->t->first_node[ref->buffer] + (int32_t)ptc_affine_at(&ref->instance, w->turns);
}

// Touches the instances of all turns of collapsed repeats from |level| on.
static void touch_all(walker_t *w, const ptc_ref_t *ref, int32_t level) {
  while (level < w->depth && !(w->collapsed[level] && ref->instance.coef[level])) level++;
  if (level == w->depth) {
    ptc_node_t *node = &w->t->nodes[node_of(w, ref)];
    node->spread = true;
    touch(node, w->t->time, ++w->t->next_value);
    return;
  }
  const int64_t turn = w->turns[level];
  for (w->turns[level] = 0; w->turns[level] < w->counts[level]; w->turns[level]++)
    touch_all(w, ref, level + 1);
  w->turns[level] = turn;
}

// --- steps

static void add_wish(walker_t *w, const ptc_step_t *step, int32_t from, int32_t to, bool copy) {
  ptc_timeline_t *t = w->t;
  if (from == to) return;
  const ptc_union_wish_t wish = {from, to, t->time, copy, step, (int32_t)t->args.len};
  PTC_VEC_PUSH(&t->wishes, wish);
}

static void walk_copy(walker_t *w, const ptc_step_t *step) {
  ptc_timeline_t *t = w->t;
  const ptc_ref_t *from = &step->args[0], *to = &step->args[1];
  const bool exact =
      !is_spread(w, from) && !is_spread(w, to) && is_whole(t->plan, from) && is_whole(t->plan, to);
  if (is_spread(w, from))
    touch_all(w, from, 0);
  else
    node_read(t, node_of(w, from));
  if (is_spread(w, to)) {
    touch_all(w, to, 0);
  } else if (exact) {
    node_write(t, node_of(w, to), true, current_value(t, node_of(w, from)));
    add_wish(w, step, node_of(w, from), node_of(w, to), true);
  } else {
    node_write(t, node_of(w, to), is_whole(t->plan, to), ++t->next_value);
  }
}

static void walk_reads(walker_t *w, const ptc_step_t *step, const ptc_plan_kernel_t *kernel) {
  for (int32_t a = 0; a < kernel->num_params; ++a) {
    if (kernel->modes[a] == 1) continue;
    if (is_spread(w, &step->args[a]))
      touch_all(w, &step->args[a], 0);
    else
      node_read(w->t, node_of(w, &step->args[a]));
  }
}

static void walk_writes(walker_t *w, const ptc_step_t *step, const ptc_plan_kernel_t *kernel) {
  for (int32_t a = 0; a < step->num_args; ++a) {
    const ptc_ref_t *ref = &step->args[a];
    if (a < kernel->num_params && kernel->modes[a] == 0) continue;
    if (is_spread(w, ref)) {
      touch_all(w, ref, 0);
      continue;
    }
    const bool inout = a < kernel->num_params && kernel->modes[a] == 2;
    node_write(w->t, node_of(w, ref), is_whole(w->t->plan, ref) && !inout, ++w->t->next_value);
  }
}

static void walk_launch(walker_t *w, const ptc_step_t *step) {
  const ptc_plan_kernel_t *kernel = &w->t->plan->kernels[step->kernel];
  walk_reads(w, step, kernel);
  walk_writes(w, step, kernel);
  bool wished = false;
  for (int32_t a = 0; a < kernel->num_params; ++a) {
    const int32_t place = kernel->in_place[a];
    if (place < 0) continue;
    const ptc_ref_t *from = &step->args[place], *to = &step->args[a];
    if (is_spread(w, from) || is_spread(w, to) || !is_whole(w->t->plan, from) ||
        !is_whole(w->t->plan, to))
      continue;
    add_wish(w, step, node_of(w, from), node_of(w, to), false);
    wished = true;
  }
  for (int32_t a = 0; wished && a < kernel->num_params; ++a)
    PTC_VEC_PUSH(&w->t->args, node_of(w, &step->args[a]));
}

// All operands of a collective are read before, and until, all results are there.
static void walk_collective(walker_t *w, const ptc_step_t *step) {
  for (int32_t a = 0; a < step->num_args; ++a) {
    const ptc_ref_t *ref = &step->args[a];
    if (is_spread(w, ref))
      touch_all(w, ref, 0);
    else if (a % 2 == 0)
      node_read(w->t, node_of(w, ref));
    else
      node_write(w->t, node_of(w, ref), is_whole(w->t->plan, ref), ++w->t->next_value);
  }
  if (step->collective->kind != PTC_COLLECTIVE_ALL_REDUCE) return;
  bool wished = false;
  for (int32_t a = 0; a < step->num_args; a += 2) {
    const ptc_ref_t *from = &step->args[a], *to = &step->args[a + 1];
    if (is_spread(w, from) || is_spread(w, to) || !is_whole(w->t->plan, from) ||
        !is_whole(w->t->plan, to))
      continue;
    add_wish(w, step, node_of(w, from), node_of(w, to), false);
    wished = true;
  }
  for (int32_t a = 0; wished && a < step->num_args; ++a)
    PTC_VEC_PUSH(&w->t->args, node_of(w, &step->args[a]));
}

// Ends what a step of stream 0 waits for.
static void wait_for_pending(walker_t *w, const ptc_step_t *step) {
  for (int64_t p = w->pending.len - 1; p >= 0; --p) {
    if (p >= w->pending.len) continue;
    const pending_t *pending = &w->pending.data[p];
    bool waits = false;
    for (int32_t a = 0; a < step->num_args && !waits; ++a)
      if (!is_spread(w, &step->args[a]))
        waits = meets_pending(w, pending, node_of(w, &step->args[a]),
                              ptc_step_writes(w->t->plan, step, a));
    if (waits) end_pending(w, p);
  }
}

// A step of another stream begins; its former turn ends.
static void begin_pending(walker_t *w, const ptc_step_t *step) {
  for (int64_t p = w->pending.len - 1; p >= 0; --p)
    if (w->pending.data[p].step == step) {
      end_pending(w, p);
      break;
    }
  pending_t pending = {.step = step, .first = w->touched.len};
  // The operand of an all_reduce may be where its result is.
  const bool in_place =
      step->kind == PTC_STEP_COLLECTIVE && step->collective->kind == PTC_COLLECTIVE_ALL_REDUCE;
  for (int32_t a = 0; a < step->num_args; ++a) {
    const bool write = ptc_step_writes(w->t->plan, step, a);
    if (is_spread(w, &step->args[a]) || (in_place && !write)) continue;
    PTC_VEC_PUSH(&w->touched, ((touched_t){node_of(w, &step->args[a]), write}));
    pending.count++;
  }
  PTC_VEC_PUSH(&w->pending, pending);
}

// Whether some instance is written anew in every turn of the repeat at |level|.
static bool reuses_instances(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t count,
                             int32_t level) {
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    if (step->kind == PTC_STEP_REPEAT) {
      if (reuses_instances(plan, step->body, step->num_steps, level)) return true;
      continue;
    }
    for (int32_t a = 0; a < step->num_args; ++a) {
      const ptc_ref_t *ref = &step->args[a];
      const bool transfer = step->kind == PTC_STEP_SEND || step->kind == PTC_STEP_RECV;
      const bool written = transfer ? step->kind == PTC_STEP_RECV
                           : step->kind != PTC_STEP_LAUNCH
                               ? a % 2 == 1
                               : a < plan->kernels[step->kernel].num_params &&
                                     plan->kernels[step->kernel].modes[a] != 0;
      if (written && !ref->instance.coef[level] && !ref->byte_offset.coef[level]) return true;
    }
  }
  return false;
}

static bool has_ahead(const ptc_step_t *repeat) {
  bool ahead = false;
  for (int32_t i = 0; i < repeat->num_steps; ++i) ahead = ahead || repeat->body[i].ahead;
  return ahead;
}

static void walk_steps(walker_t *w, const ptc_step_t *steps, int32_t count,
                       const ptc_step_t *repeat, int64_t trip);

static void walk_trip(walker_t *w, const ptc_step_t *step, int64_t trip) {
  walk_steps(w, step->body, step->num_steps, step, trip);
}

static void walk_repeat(walker_t *w, const ptc_step_t *step) {
  const int32_t level = w->depth++;
  w->counts[level] = step->count;
  w->collapsed[level] = step->count > 2 && !has_ahead(step) &&
                        reuses_instances(w->t->plan, step->body, step->num_steps, level);
  if (w->collapsed[level]) {
    walk_trip(w, step, 0);
    walk_trip(w, step, step->count - 1);
  } else {
    int64_t trip, end;
    for (ptc_repeat_trips(step, &trip, &end); trip < end && !w->too_long; ++trip)
      walk_trip(w, step, trip);
  }
  w->turns[level] = 0;
  w->depth--;
}

static void walk_call(walker_t *w, const ptc_step_t *step) {
  const ptc_task_t *task = &w->t->plan->tasks[step->task];
  const int32_t level = w->depth;
  w->counts[level] = task->num_micro;
  w->counts[level + 1] = task->num_slots;
  w->collapsed[level] = w->collapsed[level + 1] = false;
  w->turns[level] = step->micro;
  w->turns[level + 1] = step->slot;
  w->depth += 2;
  walk_steps(w, task->steps, task->num_steps, NULL, 0);
  w->depth -= 2;
  w->turns[level] = w->turns[level + 1] = 0;
}

static void walk_transfer(walker_t *w, const ptc_step_t *step) {
  const ptc_ref_t *ref = &step->args[0];
  if (is_spread(w, ref))
    touch_all(w, ref, 0);
  else if (step->kind == PTC_STEP_SEND)
    node_read(w->t, node_of(w, ref));
  else
    node_write(w->t, node_of(w, ref), is_whole(w->t->plan, ref), ++w->t->next_value);
}

// |repeat|: whose trip |trip| they are, or NULL.
static void walk_steps(walker_t *w, const ptc_step_t *steps, int32_t count,
                       const ptc_step_t *repeat, int64_t trip) {
  for (int32_t i = 0; i < count && !w->too_long; ++i) {
    if (!ptc_repeat_turn(repeat, &steps[i], trip, &w->turns[repeat ? w->depth - 1 : 0])) continue;
    if (steps[i].kind == PTC_STEP_REPEAT) {
      walk_repeat(w, &steps[i]);
      continue;
    }
    if (steps[i].kind == PTC_STEP_CALL) {
      walk_call(w, &steps[i]);
      continue;
    }
    if (steps[i].stream)
      begin_pending(w, &steps[i]);
    else if (w->pending.len)
      wait_for_pending(w, &steps[i]);
    if (steps[i].kind == PTC_STEP_COPY)
      walk_copy(w, &steps[i]);
    else if (steps[i].kind == PTC_STEP_COLLECTIVE)
      walk_collective(w, &steps[i]);
    else if (steps[i].kind == PTC_STEP_SEND || steps[i].kind == PTC_STEP_RECV)
      walk_transfer(w, &steps[i]);
    else
      walk_launch(w, &steps[i]);
    w->too_long = ++w->t->time >= MAX_STEPS;
  }
}

// --- tasks

// Before a task its globals have values, after it they are needed, and its results.
static void walk_task(walker_t *w, const ptc_task_t *task) {
  ptc_timeline_t *t = w->t;
  for (int32_t n = 0; n < t->num_nodes; ++n)
    if (t->nodes[n].pinned) node_write(t, n, true, ++t->next_value);
  t->time++;
  walk_steps(w, task->steps, task->num_steps, NULL, 0);
  while (w->pending.len) end_pending(w, w->pending.len - 1);
  for (int32_t n = 0; n < t->num_nodes; ++n)
    if (t->nodes[n].pinned) node_read(t, n);
  for (int32_t r = 0; r < task->num_results; ++r)
    for (int64_t i = 0; i < task->results[r].num_instances; ++i)
      node_read(t, t->first_node[task->results[r].buffer] +
                       (int32_t)(task->results[r].first_instance + i));
  t->time++;
}

static void make_nodes(ptc_timeline_t *t) {
  const ptc_plan_t *plan = t->plan;
  int64_t total = 0;
  t->first_node = ptc_xmalloc((size_t)(plan->num_buffers + 1) * sizeof *t->first_node);
  for (int32_t b = 0; b < plan->num_buffers; ++b) {
    t->first_node[b] = (int32_t)total;
    total += plan->buffers[b].num_instances;
  }
  t->num_nodes = (int32_t)total;
  t->nodes = ptc_xmalloc((size_t)(total + 1) * sizeof *t->nodes);
  memset(t->nodes, 0, (size_t)(total + 1) * sizeof *t->nodes);
  for (int32_t b = 0, n = 0; b < plan->num_buffers; ++b) {
    const int64_t bytes =
        (plan->buffers[b].bytes + PTC_PLAN_ALIGN - 1) / PTC_PLAN_ALIGN * PTC_PLAN_ALIGN;
    for (int64_t i = 0; i < plan->buffers[b].num_instances; ++i, ++n) {
      t->nodes[n].parent = n;
      t->nodes[n].bytes = bytes;
    }
  }
  for (int32_t g = 0; g < plan->num_globals; ++g) {
    const ptc_plan_global_t *global = &plan->globals[g];
    int64_t instances = 1;
    for (int32_t c = 0; c < global->num_counts; ++c) instances *= global->counts[c];
    for (int64_t i = 0; i < instances; ++i)
      t->nodes[t->first_node[global->buffer] + global->first_instance + i].pinned = true;
  }
}

ptc_status_t ptc_timeline_build(ptc_diag_t *diag, const ptc_plan_t *plan, ptc_timeline_t *out) {
  *out = (ptc_timeline_t){.plan = plan};
  int64_t instances = 0;
  for (int32_t b = 0; b < plan->num_buffers; ++b) instances += plan->buffers[b].num_instances;
  // No instance depends on the coordinates of a rank: they are left at 0.
  walker_t walker = {.t = out, .depth = plan->mesh.num_axes, .too_long = instances > MAX_STEPS};
  for (int32_t a = 0; a < plan->mesh.num_axes; ++a) walker.counts[a] = plan->mesh.axes[a].size;
  if (!walker.too_long) {
    make_nodes(out);
    for (int32_t i = 0; i < plan->num_tasks && !walker.too_long; ++i)
      if (plan->tasks[i].num_micro == 0) walk_task(&walker, &plan->tasks[i]);
  }
  PTC_VEC_FREE(&walker.pending);
  PTC_VEC_FREE(&walker.touched);
  if (walker.too_long)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_UNSUPPORTED, "plan-too-long",
                     "the program has more than %d steps or instances, all turns counted",
                     MAX_STEPS);
  // What the walk left out lies between the first and the last touch.
  for (int32_t n = 0; n < out->num_nodes; ++n) {
    ptc_segment_list_t *life = &out->nodes[n].life;
    if (!out->nodes[n].spread || life->len < 2) continue;
    life->data[0].end = life->data[life->len - 1].end;
    life->data[0].value = ++out->next_value;
    life->len = 1;
  }
  return PTC_OK;
}

void ptc_timeline_deinit(ptc_timeline_t *timeline) {
  for (int32_t n = 0; n < timeline->num_nodes; ++n) PTC_VEC_FREE(&timeline->nodes[n].life);
  free(timeline->nodes);
  free(timeline->first_node);
  PTC_VEC_FREE(&timeline->wishes);
  PTC_VEC_FREE(&timeline->args);
}

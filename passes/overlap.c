// overlap: when collectives and transfers are launched, and on which stream.
//
// Works on the steps of a plan before its buffers have addresses, so that different buffers do not meet. In this order:
// a repeat that does nothing but communicate moves into the repeat before or after it that makes or uses what it moves,
// turn by turn (gradients are reduced while the next layer's are computed, parameters gathered one layer at a time);
// what a turn needs first of a collective whose operands the repeat does not write is launched in the turn before
// (ahead); all others move up to behind the step that makes their operands. Communicating steps never pass one another
// but so: the order of launching is one for all communicators, and the same on all ranks.
#include "passes/overlap.h"

#include <inttypes.h>
#include <string.h>

typedef struct overlap_s {
  ptc_plan_t *plan;
  ptc_diag_t *diag;
  // Per stream, the collective or transfer that it is for.
  const ptc_step_t *streams[PTC_PLAN_MAX_STREAMS];
  int32_t num_streams;
} overlap_t;

static bool communicates(const ptc_step_t *step) {
  return step->kind == PTC_STEP_COLLECTIVE || step->kind == PTC_STEP_SEND ||
         step->kind == PTC_STEP_RECV;
}

// Whether only ranks of this stage take part. What others take part in keeps its place among such steps: their programs
// are not the same.
static bool stays_in_stage(const ptc_plan_t *plan, const ptc_step_t *step) {
  bool stays = step->kind == PTC_STEP_COLLECTIVE;
  for (int32_t i = 0; stays && plan->num_stages > 1 && i < step->collective->num_axes; ++i)
    stays = step->collective->axes[i].axis != plan->mesh.axes[0].name;
  return stays;
}

// --- streams

static bool shares_stream(const ptc_step_t *a, const ptc_step_t *b) {
  // A pipeline's messages have one communicator, which keeps their order: a receive does not overtake the sends before it.
  const bool messages = a->kind != PTC_STEP_COLLECTIVE;
  if (messages || b->kind != PTC_STEP_COLLECTIVE)
    return messages == (b->kind != PTC_STEP_COLLECTIVE);
  const ptc_collective_t *x = a->collective, *y = b->collective;
  bool same = x->num_axes == y->num_axes;
  for (int32_t i = 0; same && i < x->num_axes; ++i)
    same = ptc_axis_ref_equal(x->axes[i], y->axes[i]);
  return same;
}

// Communicators without a stream of their own share the last.
static int32_t stream_of(overlap_t *o, const ptc_step_t *step) {
  for (int32_t s = 1; s < o->num_streams; ++s)
    if (shares_stream(o->streams[s], step)) return s;
  if (o->num_streams == PTC_PLAN_MAX_STREAMS) return PTC_PLAN_MAX_STREAMS - 1;
  o->streams[o->num_streams] = step;
  return o->num_streams++;
}

static void assign_streams(overlap_t *o, ptc_step_t *steps, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT) assign_streams(o, steps[i].body, steps[i].num_steps);
    if (communicates(&steps[i])) steps[i].stream = stream_of(o, &steps[i]);
  }
}

// --- what meets

static bool writes(const ptc_plan_t *plan, const ptc_step_t *step, int32_t arg) {
  if (step->kind == PTC_STEP_SEND || step->kind == PTC_STEP_RECV)
    return step->kind == PTC_STEP_RECV;
  if (step->kind != PTC_STEP_LAUNCH) return arg % 2 == 1;
  const ptc_plan_kernel_t *kernel = &plan->kernels[step->kernel];
  return arg >= kernel->num_params || kernel->modes[arg] != 0;
}

static bool same_coefs(const ptc_affine_t *a, const ptc_affine_t *b) {
  return memcmp(a->coef, b->coef, sizeof a->coef) == 0;
}

// How two references to one buffer lie to each other at equal turns; deeper turns than |depth| are anything.
static bool may_meet(const ptc_ref_t *a, const ptc_ref_t *b, int32_t depth) {
  for (int32_t l = depth; l < PTC_PLAN_MAX_LEVELS; ++l)
    if (a->instance.coef[l] || b->instance.coef[l] || a->byte_offset.coef[l] ||
        b->byte_offset.coef[l])
      return true;
  if (!same_coefs(&a->instance, &b->instance)) return true;
  if (a->instance.base != b->instance.base) return false;
  if (!same_coefs(&a->byte_offset, &b->byte_offset)) return true;
  const int64_t x = a->byte_offset.base, y = b->byte_offset.base;
  return x < y + b->bytes && y < x + a->bytes;
}

// Whether some step in |tree| may not change places with |step|, in one turn of what is around both.
static bool conflicts(const ptc_plan_t *plan, const ptc_step_t *tree, const ptc_step_t *step,
                      int32_t depth) {
  if (tree->kind == PTC_STEP_CALL) return true;
  if (tree->kind == PTC_STEP_REPEAT) {
    for (int32_t i = 0; i < tree->num_steps; ++i)
      if (conflicts(plan, &tree->body[i], step, depth)) return true;
    return false;
  }
  for (int32_t a = 0; a < tree->num_args; ++a)
    for (int32_t b = 0; b < step->num_args; ++b)
      if (tree->args[a].buffer == step->args[b].buffer &&
          (writes(plan, tree, a) || writes(plan, step, b)) &&
          may_meet(&tree->args[a], &step->args[b], depth))
        return true;
  return false;
}

static bool has_communication(const ptc_step_t *step) {
  if (step->kind == PTC_STEP_CALL || communicates(step)) return true;
  bool found = false;
  for (int32_t i = 0; step->kind == PTC_STEP_REPEAT && i < step->num_steps; ++i)
    found = found || has_communication(&step->body[i]);
  return found;
}

// Whether |step|, in the body of a repeat with turns at |level|, and what is in |tree|, beside it, meet in equal turns
// alone, if at all: each turn has bytes of its own there.
static bool meets_in_turn(const ptc_plan_t *plan, const ptc_step_t *tree, const ptc_step_t *step,
                          int32_t level) {
  if (tree->kind == PTC_STEP_CALL) return false;
  if (tree->kind == PTC_STEP_REPEAT) {
    for (int32_t i = 0; i < tree->num_steps; ++i)
      if (!meets_in_turn(plan, &tree->body[i], step, level)) return false;
    return true;
  }
  for (int32_t a = 0; a < tree->num_args; ++a)
    for (int32_t b = 0; b < step->num_args; ++b) {
      const ptc_ref_t *x = &tree->args[a], *y = &step->args[b];
      if (x->buffer != y->buffer || !(writes(plan, tree, a) || writes(plan, step, b))) continue;
      if (!same_coefs(&x->instance, &y->instance) || x->instance.base != y->instance.base ||
          x->instance.coef[level] == 0)
        return false;
    }
  return true;
}

static bool body_meets_in_turn(const ptc_plan_t *plan, const ptc_step_t *repeat,
                               const ptc_step_t *step, int32_t level) {
  for (int32_t i = 0; i < repeat->num_steps; ++i)
    if (&repeat->body[i] != step && !meets_in_turn(plan, &repeat->body[i], step, level))
      return false;
  return true;
}

// Whether |tree| writes what |step| reads, in any turn.
static bool writes_operand(const ptc_plan_t *plan, const ptc_step_t *tree, const ptc_step_t *step) {
  if (tree->kind == PTC_STEP_CALL) return true;
  for (int32_t i = 0; tree->kind == PTC_STEP_REPEAT && i < tree->num_steps; ++i)
    if (writes_operand(plan, &tree->body[i], step)) return true;
  for (int32_t a = 0; tree->kind != PTC_STEP_REPEAT && a < tree->num_args; ++a)
    for (int32_t b = 0; b < step->num_args; ++b)
      if (writes(plan, tree, a) && !writes(plan, step, b) &&
          tree->args[a].buffer == step->args[b].buffer)
        return true;
  return false;
}

static bool touches_result(const ptc_plan_t *plan, const ptc_step_t *tree, const ptc_step_t *step) {
  if (tree->kind == PTC_STEP_CALL) return true;
  for (int32_t i = 0; tree->kind == PTC_STEP_REPEAT && i < tree->num_steps; ++i)
    if (touches_result(plan, &tree->body[i], step)) return true;
  for (int32_t a = 0; tree->kind != PTC_STEP_REPEAT && a < tree->num_args; ++a)
    for (int32_t b = 0; b < step->num_args; ++b)
      if (writes(plan, step, b) && tree->args[a].buffer == step->args[b].buffer) return true;
  return false;
}

// --- repeats that communicate, into those that compute

// Whether a collective of |from|, which does nothing else, may happen in the turns of |into|.
static bool can_join(const ptc_plan_t *plan, const ptc_step_t *from, const ptc_step_t *into,
                     int32_t level) {
  return into->kind == PTC_STEP_REPEAT && into->count == from->count &&
         body_meets_in_turn(plan, into, from->body, level);
}

static bool only_communicates(const ptc_plan_t *plan, const ptc_step_t *step) {
  return step->kind == PTC_STEP_REPEAT && step->num_steps == 1 && stays_in_stage(plan, step->body);
}

static void add_to_body(ptc_plan_t *plan, ptc_step_t *repeat, int32_t at, const ptc_step_t *step) {
  ptc_step_t *body = PTC_ARENA_ARRAY(&plan->arena, ptc_step_t, repeat->num_steps + 1);
  memcpy(body, repeat->body, (size_t)at * sizeof *body);
  body[at] = *step;
  memcpy(body + at + 1, repeat->body + at, (size_t)(repeat->num_steps - at) * sizeof *body);
  repeat->body = body;
  repeat->num_steps++;
}

// The repeat that steps[at], a repeat that only communicates, may move into: the latest one before it that makes what it
// sends, or the next one after it that uses what it brings. No communication lies between. -1: none.
static int32_t find_host(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t count, int32_t at,
                         int32_t level) {
  const ptc_step_t *step = steps[at].body;
  for (int32_t i = at - 1; i >= 0; --i) {
    if (writes_operand(plan, &steps[i], step))
      return can_join(plan, &steps[at], &steps[i], level) ? i : -1;
    if (steps[i].kind == PTC_STEP_CALL || touches_result(plan, &steps[i], step)) break;
  }
  for (int32_t i = at + 1; i < count; ++i) {
    if (touches_result(plan, &steps[i], step))
      return can_join(plan, &steps[at], &steps[i], level) ? i : -1;
    if (steps[i].kind == PTC_STEP_CALL || writes_operand(plan, &steps[i], step)) break;
  }
  return -1;
}

static int32_t join_repeats(ptc_plan_t *plan, ptc_step_t *steps, int32_t count, int32_t level) {
  int32_t left = count;
  for (int32_t i = 0; i < left;) {
    const int32_t host =
        only_communicates(plan, &steps[i]) ? find_host(plan, steps, left, i, level) : -1;
    if (host < 0) {
      ++i;
      continue;
    }
    ptc_step_t *into = &steps[host];
    add_to_body(plan, into, host < i ? into->num_steps : 0, steps[i].body);
    memmove(&steps[i], &steps[i + 1], (size_t)(left - i - 1) * sizeof *steps);
    left--;
  }
  return left;
}

// --- a turn ahead

static void move_step(ptc_step_t *steps, int32_t from, int32_t to) {
  const ptc_step_t step = steps[from];
  if (to < from)
    memmove(&steps[to + 1], &steps[to], (size_t)(from - to) * sizeof *steps);
  else
    memmove(&steps[from], &steps[from + 1], (size_t)(to - from) * sizeof *steps);
  steps[to] = step;
}

// Launches body[at] a turn ahead, directly after what first uses it in the turn: the event that this waits for is then
// the one of its own turn.
static bool launch_ahead(const ptc_plan_t *plan, ptc_step_t *repeat, int32_t at, int32_t level) {
  const ptc_step_t *step = &repeat->body[at];
  int32_t user = -1;
  for (int32_t i = 0; i < repeat->num_steps; ++i) {
    if (i == at) continue;
    if (writes_operand(plan, &repeat->body[i], step)) return false;
    if (!touches_result(plan, &repeat->body[i], step)) continue;
    if (i < at) return false;
    if (user < 0) user = i;
  }
  if (user < 0 || !body_meets_in_turn(plan, repeat, step, level)) return false;
  repeat->body[at].ahead = 1;
  move_step(repeat->body, at, user);
  return true;
}

static void launch_all_ahead(const ptc_plan_t *plan, ptc_step_t *repeat, int32_t level) {
  for (int32_t i = 0; repeat->count > 1 && i < repeat->num_steps;)
    if (!stays_in_stage(plan, &repeat->body[i]) || repeat->body[i].ahead ||
        !launch_ahead(plan, repeat, i, level))
      ++i;
}

// --- as early as can be

static void launch_early(const ptc_plan_t *plan, ptc_step_t *steps, int32_t count, int32_t depth) {
  for (int32_t i = 0; i < count; ++i) {
    if (!communicates(&steps[i]) || steps[i].ahead) continue;
    int32_t to = i;
    while (to > 0 && !has_communication(&steps[to - 1]) &&
           !conflicts(plan, &steps[to - 1], &steps[i], depth))
      to--;
    move_step(steps, i, to);
  }
}

// |depth|: number of axes and repeats around.
static int32_t overlap_steps(ptc_plan_t *plan, ptc_step_t *steps, int32_t count, int32_t depth) {
  count = join_repeats(plan, steps, count, depth);
  for (int32_t i = 0; i < count; ++i) {
    ptc_step_t *step = &steps[i];
    if (step->kind != PTC_STEP_REPEAT) continue;
    step->num_steps = overlap_steps(plan, step->body, step->num_steps, depth + 1);
    launch_all_ahead(plan, step, depth);
  }
  launch_early(plan, steps, count, depth);
  return count;
}

ptc_status_t ptc_plan_overlap(ptc_diag_t *diag, ptc_plan_t *plan) {
  overlap_t overlap = {.plan = plan, .diag = diag, .num_streams = 1};
  for (int32_t t = 0; t < plan->num_tasks; ++t) {
    ptc_task_t *task = &plan->tasks[t];
    const int32_t depth = plan->mesh.num_axes + (task->num_micro > 0 ? 2 : 0);
    assign_streams(&overlap, task->steps, task->num_steps);
    task->num_steps = overlap_steps(plan, task->steps, task->num_steps, depth);
  }
  return PTC_OK;
}

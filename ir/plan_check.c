// What a run relies on: bounds, alignment, arguments, overlaps. See ptc_plan_check.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/map.h"
#include "ir/plan_check_impl.h"
#include "ir/plan_order.h"

enum {
  MAX_PARAMS = 64,
  MAX_NAME = 200,
  // Pairs of arguments whose bytes are compared, over all turns; a plan of 96 layers and 64 micro-batches
  // needs a fraction of it.
  MAX_WORK = 1 << 26,
};
static const int64_t max_turns = INT64_C(1) << 40;

static ptc_loc_t steps_loc(const ptc_plan_checker_t *c, int32_t line) {
  return (ptc_loc_t){c->plan->steps_file, line, 1};
}

static ptc_loc_t json_loc(const ptc_plan_checker_t *c, int32_t line) {
  return (ptc_loc_t){c->plan->json_file, line, 1};
}

#define FAULT(loc, id, ...) ptc_error(c->diag, (loc), PTC_INVALID_INPUT, (id), __VA_ARGS__)

// --- kernels

static bool is_identifier(const char *name) {
  const size_t len = strlen(name);
  return len > 0 && len <= MAX_NAME && !(name[0] >= '0' && name[0] <= '9') &&
         strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == len;
}

static ptc_status_t check_runs(ptc_plan_checker_t *c, const ptc_plan_kernel_t *kernel) {
  int64_t total = 0;
  for (int32_t r = 0; r < kernel->num_runs; ++r) {
    const ptc_phase_run_t *run = &kernel->runs[r];
    int64_t phases;
    bool ok = run->count >= 1 && run->num_phases >= 1 &&
              !__builtin_mul_overflow(run->count, run->num_phases, &phases) &&
              !__builtin_add_overflow(total, phases, &total) && total <= max_turns;
    for (int32_t p = 0; ok && p < run->num_phases; ++p)
      ok = run->tiles[p] >= 1 && run->tiles[p] <= INT32_MAX;
    if (!ok)
      return FAULT(steps_loc(c, kernel->line), "plan-kernel",
                   "kernel \"%s\" has phases of an impossible number of turns or tiles",
                   kernel->name);
  }
  if (!kernel->num_runs && c->plan->arena_bytes >= 0)
    return FAULT(steps_loc(c, kernel->line), "plan-kernel", "kernel \"%s\" has no phases",
                 kernel->name);
  return PTC_OK;
}

static ptc_status_t check_kernel(ptc_plan_checker_t *c, const ptc_plan_kernel_t *kernel) {
  const ptc_loc_t loc = steps_loc(c, kernel->line);
  if (!is_identifier(kernel->name))
    return FAULT(loc, "plan-kernel", "\"%s\" is no name of a kernel: letters, digits and _ are",
                 kernel->name);
  if (kernel->num_params < 0 || kernel->num_params > MAX_PARAMS)
    return FAULT(loc, "plan-kernel", "kernel \"%s\" has %" PRId32 " parameters; at most %d can be",
                 kernel->name, kernel->num_params, MAX_PARAMS);
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    const int32_t over = kernel->in_place[p];
    const bool over_ok = over == -1 || (over >= 0 && over < kernel->num_params &&
                                        kernel->modes[p] == 1 && kernel->modes[over] == 0 &&
                                        kernel->param_bytes[over] == kernel->param_bytes[p]);
    if (kernel->modes[p] > 2 || kernel->param_bytes[p] < 0)
      return FAULT(loc, "plan-kernel", "kernel \"%s\": parameter %" PRId32 " is impossible",
                   kernel->name, p);
    if (!over_ok)
      return FAULT(loc, "plan-kernel",
                   "kernel \"%s\": parameter %" PRId32 " cannot take the place of %" PRId32
                   ", which must be read only and of equal size",
                   kernel->name, p, over);
  }
  if (kernel->workspace_bytes < 0 || kernel->scratch_bytes < 0 ||
      kernel->scratch_bytes > INT64_C(1) << 40 || kernel->min_bytes < 0)
    return FAULT(loc, "plan-kernel", "kernel \"%s\" needs an impossible amount of memory",
                 kernel->name);
  if (kernel->gemm && !ptc_plan_gemm_fits(kernel))
    return FAULT(loc, "plan-kernel",
                 "kernel \"%s\": its matrix product does not fit its parameters and workspace",
                 kernel->name);
  return check_runs(c, kernel);
}

static ptc_status_t check_kernels(ptc_plan_checker_t *c) {
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  ptc_interner_t names;
  ptc_interner_init(&names, &arena);
  ptc_map_t seen = {0};
  ptc_status_t status = PTC_OK;
  for (int32_t k = 0; k < c->plan->num_kernels && status == PTC_OK; ++k) {
    const ptc_plan_kernel_t *kernel = &c->plan->kernels[k];
    const char *name = ptc_intern(&names, kernel->name);
    if (ptc_map_get(&seen, name))
      status =
          FAULT(steps_loc(c, kernel->line), "plan-kernel", "two kernels are called \"%s\"", name);
    ptc_map_set(&seen, name, (void *)1);
    if (status == PTC_OK) status = check_kernel(c, kernel);
  }
  ptc_map_deinit(&seen);
  ptc_interner_deinit(&names);
  ptc_arena_deinit(&arena);
  return status;
}

// --- buffers

static ptc_status_t check_buffer(ptc_plan_checker_t *c, int32_t number) {
  const ptc_buffer_t *buffer = &c->plan->buffers[number];
  const ptc_loc_t loc = steps_loc(c, buffer->line);
  int64_t bytes = ptc_dtype_bytes(buffer->dtype);
  bool ok = buffer->num_dims >= 0 && buffer->num_dims <= PTC_MAX_DIMS;
  for (int32_t d = 0; ok && d < buffer->num_dims; ++d)
    ok = buffer->extents[d] >= 0 && !__builtin_mul_overflow(bytes, buffer->extents[d], &bytes);
  if (!ok || bytes != buffer->bytes || buffer->num_instances < 1)
    return FAULT(loc, "plan-buffer",
                 "buffer %" PRId32 " has no size, or not the one that it states", number);
  PTC_TRY(ptc_plan_check_layout(c, buffer));
  if (c->plan->arena_bytes < 0) return PTC_OK;
  for (int64_t i = 0; i < buffer->num_instances; ++i) {
    const int64_t at = buffer->offsets[i];
    if (at < 0 || at % PTC_PLAN_ALIGN || at > c->plan->arena_bytes ||
        bytes > c->plan->arena_bytes - at)
      return FAULT(loc, "plan-buffer",
                   "buffer %" PRId32 ", instance %" PRId64 ": address %" PRId64
                   " is not a multiple of %d inside the arena of %" PRId64 " bytes",
                   number, i, at, PTC_PLAN_ALIGN, c->plan->arena_bytes);
  }
  return PTC_OK;
}

// --- references

// The least and the largest value over all turns; false if it overflows or names a repeat that is not there.
static bool affine_range(const ptc_plan_checker_t *c, const ptc_affine_t *affine, int64_t *out_min,
                         int64_t *out_max) {
  *out_min = *out_max = affine->base;
  for (int32_t l = 0; l < PTC_PLAN_MAX_LEVELS; ++l) {
    int64_t span;
    if (!affine->coef[l]) continue;
    if (l >= c->depth || __builtin_mul_overflow(affine->coef[l], c->counts[l] - 1, &span))
      return false;
    int64_t *end = span < 0 ? out_min : out_max;
    if (__builtin_add_overflow(*end, span, end)) return false;
  }
  return true;
}

static bool is_aligned(const ptc_ref_t *ref, int64_t size) {
  bool ok = ref->byte_offset.base % size == 0 && ref->bytes % size == 0;
  for (int32_t l = 0; l < PTC_PLAN_MAX_LEVELS; ++l) ok = ok && ref->byte_offset.coef[l] % size == 0;
  return ok;
}

static ptc_status_t check_ref(ptc_plan_checker_t *c, const ptc_step_t *step, int32_t arg) {
  const ptc_ref_t *ref = &step->args[arg];
  const ptc_loc_t loc = steps_loc(c, step->line);
  if (ref->buffer < 0 || ref->buffer >= c->plan->num_buffers)
    return FAULT(loc, "plan-ref", "argument %" PRId32 ": there is no buffer %" PRId32, arg,
                 ref->buffer);
  const ptc_buffer_t *buffer = &c->plan->buffers[ref->buffer];
  int64_t min, max, end;
  if (!affine_range(c, &ref->instance, &min, &max) || min < 0 || max >= buffer->num_instances)
    return FAULT(loc, "plan-ref",
                 "argument %" PRId32 ": an instance that is none of the %" PRId64
                 " of buffer %" PRId32,
                 arg, buffer->num_instances, ref->buffer);
  if (!affine_range(c, &ref->byte_offset, &min, &max) || min < 0 || ref->bytes < 0 ||
      __builtin_add_overflow(max, ref->bytes, &end) || end > buffer->bytes)
    return FAULT(loc, "plan-ref",
                 "argument %" PRId32 ": it reaches beyond the %" PRId64 " bytes of buffer %" PRId32,
                 arg, buffer->bytes, ref->buffer);
  // Which bytes live when is the same on every rank.
  for (int32_t a = 0; a < c->plan->mesh.num_axes; ++a)
    if (ref->instance.coef[a])
      return FAULT(loc, "plan-ref", "argument %" PRId32 ": the instance depends on the rank", arg);
  if (!is_aligned(ref, ptc_dtype_bytes(buffer->dtype)))
    return FAULT(loc, "plan-ref", "argument %" PRId32 ": it does not begin at an element", arg);
  return PTC_OK;
}

// --- overlaps

typedef struct span_s {
  int64_t begin, end;
} span_t;

static span_t span_at(const ptc_plan_checker_t *c, const ptc_ref_t *ref, const int64_t *turns) {
  const int64_t begin =
      c->plan->buffers[ref->buffer].offsets[ptc_affine_at(&ref->instance, turns)] +
      ptc_affine_at(&ref->byte_offset, turns);
  return (span_t){begin, begin + ref->bytes};
}

static bool overlap(span_t a, span_t b) { return a.begin < b.end && b.begin < a.end; }

// The argument that |arg| may lie upon, or -1.
static int32_t taken_place(const ptc_plan_t *plan, const ptc_step_t *step, int32_t arg) {
  if (step->kind == PTC_STEP_COLLECTIVE)
    return step->collective->kind == PTC_COLLECTIVE_ALL_REDUCE ? arg - 1 : -1;
  if (step->kind != PTC_STEP_LAUNCH) return -1;
  const ptc_plan_kernel_t *kernel = &plan->kernels[step->kernel];
  return arg < kernel->num_params ? kernel->in_place[arg] : -1;
}

// The arguments of one launch, at |turns|.
static ptc_status_t check_spans(ptc_plan_checker_t *c, const ptc_step_t *step,
                                const int64_t *turns) {
  span_t spans[2 * PTC_PLAN_MAX_PARTS];
  for (int32_t a = 0; a < step->num_args; ++a) spans[a] = span_at(c, &step->args[a], turns);
  for (int32_t a = 0; a < step->num_args; ++a) {
    if (!ptc_step_writes(c->plan, step, a)) continue;
    const int32_t place = taken_place(c->plan, step, a);
    c->work += step->num_args;
    for (int32_t b = 0; b < step->num_args; ++b) {
      if (b == a || (b < a && ptc_step_writes(c->plan, step, b)) || !overlap(spans[a], spans[b]))
        continue;
      // A copy onto itself does nothing.
      const bool same = spans[a].begin == spans[b].begin;
      if (same && (b == place || step->kind == PTC_STEP_COPY)) continue;
      return FAULT(steps_loc(c, step->line), "plan-overlap",
                   "argument %" PRId32 " is written where argument %" PRId32 " lies", a, b);
    }
  }
  return PTC_OK;
}

static ptc_status_t check_overlaps(ptc_plan_checker_t *c, const ptc_step_t *step) {
  if (c->plan->arena_bytes < 0) return PTC_OK;
  int64_t turns[PTC_PLAN_MAX_LEVELS] = {0}, counts[PTC_PLAN_MAX_LEVELS];
  // A repeat whose turn no argument depends on is looked at once.
  for (int32_t l = 0; l < c->depth; ++l) {
    counts[l] = 1;
    for (int32_t a = 0; a < step->num_args; ++a)
      if (step->args[a].instance.coef[l] || step->args[a].byte_offset.coef[l])
        counts[l] = c->counts[l];
  }
  for (;;) {
    PTC_TRY(check_spans(c, step, turns));
    if (++c->work > MAX_WORK)
      return FAULT(steps_loc(c, step->line), "plan-limit",
                   "the plan has more turns than can be checked");
    int32_t l = c->depth - 1;
    while (l >= 0 && ++turns[l] == counts[l]) turns[l--] = 0;
    if (l < 0) return PTC_OK;
  }
}

// --- steps

static ptc_status_t check_args(ptc_plan_checker_t *c, const ptc_step_t *step) {
  const ptc_loc_t loc = steps_loc(c, step->line);
  if (step->kind == PTC_STEP_COLLECTIVE) {
    const int32_t parts = step->collective->num_parts;
    if (parts < 1 || parts > PTC_PLAN_MAX_PARTS || step->num_args != 2 * parts)
      return FAULT(loc, "plan-collective", "a collective has 1 to %d parts of two arguments each",
                   PTC_PLAN_MAX_PARTS);
  } else if (step->kind == PTC_STEP_SEND || step->kind == PTC_STEP_RECV) {
    if (step->num_args != 1 || step->tag < 0 || step->peer < 0 ||
        step->peer >= c->plan->num_stages || step->peer == c->plan->stage)
      return FAULT(loc, "plan-transfer",
                   "a transfer has one argument, a tag, and another stage of the %" PRId32
                   " at its end",
                   c->plan->num_stages);
  } else if (step->kind == PTC_STEP_COPY) {
    if (step->num_args != 2) return FAULT(loc, "plan-ref", "a copy has two arguments");
  } else {
    if (step->kernel < 0 || step->kernel >= c->plan->num_kernels)
      return FAULT(loc, "plan-ref", "there is no kernel %" PRId32, step->kernel);
    const ptc_plan_kernel_t *kernel = &c->plan->kernels[step->kernel];
    const int32_t expected = kernel->num_params + (kernel->workspace_bytes > 0);
    if (step->num_args != expected)
      return FAULT(loc, "plan-ref",
                   "kernel \"%s\" has %" PRId32 " arguments; %" PRId32 " are given", kernel->name,
                   expected, step->num_args);
  }
  for (int32_t a = 0; a < step->num_args; ++a) PTC_TRY(check_ref(c, step, a));
  if (step->kind == PTC_STEP_COLLECTIVE) return ptc_plan_check_collective(c, step);
  if (step->kind == PTC_STEP_COPY) {
    if (step->args[0].bytes != step->args[1].bytes)
      return FAULT(loc, "plan-ref", "a copy of %" PRId64 " bytes to %" PRId64, step->args[0].bytes,
                   step->args[1].bytes);
    return PTC_OK;
  }
  if (step->kind != PTC_STEP_LAUNCH) return PTC_OK;
  const ptc_plan_kernel_t *kernel = &c->plan->kernels[step->kernel];
  for (int32_t a = 0; a < step->num_args; ++a) {
    const int64_t bytes = a < kernel->num_params ? kernel->param_bytes[a] : kernel->workspace_bytes;
    if (step->args[a].bytes != bytes)
      return FAULT(loc, "plan-ref",
                   "argument %" PRId32 " of \"%s\" is %" PRId64 " bytes, not %" PRId64, a,
                   kernel->name, bytes, step->args[a].bytes);
  }
  return PTC_OK;
}

static ptc_status_t check_steps(ptc_plan_checker_t *c, const ptc_step_t *steps, int32_t count,
                                bool in_repeat);

static ptc_status_t check_repeat(ptc_plan_checker_t *c, const ptc_step_t *step) {
  int64_t turns = step->count;
  bool ok = step->count >= 1;
  for (int32_t l = c->plan->mesh.num_axes; ok && l < c->depth; ++l)
    ok = !__builtin_mul_overflow(turns, c->counts[l], &turns);
  if (!ok || turns > max_turns)
    return FAULT(steps_loc(c, step->line), "plan-limit", "an impossible number of turns");
  if (c->depth == PTC_PLAN_MAX_LEVELS)
    return FAULT(steps_loc(c, step->line), "plan-limit", "more than %d nested repeats",
                 PTC_PLAN_MAX_LEVELS - c->plan->mesh.num_axes);
  c->counts[c->depth++] = step->count;
  ptc_status_t status = check_steps(c, step->body, step->num_steps, true);
  c->depth--;
  return status;
}

// A task calls those before it, and not from within a repeat or a part.
static ptc_status_t check_call(ptc_plan_checker_t *c, const ptc_step_t *step) {
  const ptc_task_t *task =
      step->task >= 0 && step->task < c->task ? &c->plan->tasks[step->task] : NULL;
  if (!task || task->num_micro == 0 || c->plan->tasks[c->task].num_micro > 0 ||
      c->depth != c->plan->mesh.num_axes || step->num_args)
    return FAULT(steps_loc(c, step->line), "plan-task",
                 "a call stands in no repeat and names a part that comes before the task");
  if (step->micro < 0 || step->micro >= task->num_micro || step->slot < 0 ||
      step->slot >= task->num_slots)
    return FAULT(steps_loc(c, step->line), "plan-task",
                 "task \"%s\" has no micro-batch %" PRId64 " or no slot %" PRId64, task->name,
                 step->micro, step->slot);
  return PTC_OK;
}

// Streams and events of one step; |in_repeat|: it stands in the body of one.
static ptc_status_t check_order(ptc_plan_checker_t *c, const ptc_step_t *step, bool in_repeat) {
  const ptc_loc_t loc = steps_loc(c, step->line);
  const bool runs = step->kind != PTC_STEP_REPEAT && step->kind != PTC_STEP_CALL;
  const bool exchanges = runs && step->kind != PTC_STEP_LAUNCH && step->kind != PTC_STEP_COPY;
  if (!runs && (step->stream || step->ahead || step->record || step->num_waits))
    return FAULT(loc, "plan-order", "a repeat or a call has no stream and no events of its own");
  if (step->stream < 0 || step->stream >= PTC_PLAN_MAX_STREAMS || (step->stream && !exchanges))
    return FAULT(loc, "plan-order",
                 "stream %" PRId32
                 ": kernels and copies are on stream 0, collectives and transfers "
                 "on one below %d",
                 step->stream, PTC_PLAN_MAX_STREAMS);
  if (step->ahead && !in_repeat)
    return FAULT(loc, "plan-order", "a step that stands in no repeat runs ahead of no turn");
  bool ok = step->record >= 0 && step->record <= PTC_PLAN_MAX_EVENTS;
  for (int32_t w = 0; w < step->num_waits; ++w)
    ok = ok && step->waits[w] >= 1 && step->waits[w] <= PTC_PLAN_MAX_EVENTS;
  return ok ? PTC_OK
            : FAULT(loc, "plan-order", "events are numbered from 1 to %d", PTC_PLAN_MAX_EVENTS);
}

static ptc_status_t check_steps(ptc_plan_checker_t *c, const ptc_step_t *steps, int32_t count,
                                bool in_repeat) {
  for (int32_t i = 0; i < count; ++i) {
    PTC_TRY(check_order(c, &steps[i], in_repeat));
    if (steps[i].kind == PTC_STEP_CALL) {
      PTC_TRY(check_call(c, &steps[i]));
    } else if (steps[i].kind == PTC_STEP_REPEAT) {
      PTC_TRY(check_repeat(c, &steps[i]));
    } else {
      PTC_TRY(check_args(c, &steps[i]));
      PTC_TRY(check_overlaps(c, &steps[i]));
    }
  }
  return PTC_OK;
}

// --- tasks, globals, settings

// Whether |count| instances from |first| on are of |buffer|.
static bool has_instances(const ptc_plan_checker_t *c, int32_t buffer, int64_t first,
                          int64_t count) {
  return buffer >= 0 && buffer < c->plan->num_buffers && first >= 0 && count >= 1 &&
         first <= c->plan->buffers[buffer].num_instances &&
         count <= c->plan->buffers[buffer].num_instances - first;
}

static ptc_status_t check_ledger(ptc_plan_checker_t *c, const ptc_task_t *task) {
  const ptc_ledger_t *ledger = task->ledger;
  bool ok = true;
  for (int32_t i = 0; ok && i < ledger->num_launches; ++i)
    ok = ledger->launches[i].kernel >= 0 && ledger->launches[i].kernel < c->plan->num_kernels;
  for (int32_t i = 0; ok && i < ledger->num_made; ++i)
    ok = ledger->made[i].number >= 0 &&
         ledger->made[i].number <
             (ledger->made[i].is_result ? task->num_results : c->plan->num_globals);
  if (ok) return PTC_OK;
  return FAULT(steps_loc(c, ledger->line), "plan-ledger",
               "task \"%s\" owes launches or values that the plan has not", task->name);
}

static ptc_status_t check_task(ptc_plan_checker_t *c, int32_t number) {
  const ptc_task_t *task = &c->plan->tasks[number];
  for (int32_t i = 0; i < number; ++i)
    if (strcmp(c->plan->tasks[i].name, task->name) == 0)
      return FAULT(steps_loc(c, 0), "plan-task", "two tasks are called \"%s\"", task->name);
  for (int32_t r = 0; r < task->num_results; ++r) {
    const ptc_plan_result_t *result = &task->results[r];
    static const char *const roles[] = {"loss", "metric", "output", "value", "grad"};
    bool known = false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; ++i)
      known = known || strcmp(roles[i], result->role) == 0;
    if (!known || !has_instances(c, result->buffer, result->first_instance, result->num_instances))
      return FAULT(steps_loc(c, result->line), "plan-task",
                   "result \"%s\" has an unknown role or is no part of a buffer", result->name);
  }
  if (task->ledger) PTC_TRY(check_ledger(c, task));
  c->task = number;
  if (task->num_micro == 0) return check_steps(c, task->steps, task->num_steps, false);
  if (task->num_micro < 0 || task->num_micro > INT32_MAX || task->num_slots < 1 ||
      task->num_slots > task->num_micro || c->depth + 2 > PTC_PLAN_MAX_LEVELS)
    return FAULT(steps_loc(c, 0), "plan-task",
                 "task \"%s\" has an impossible number of micro-batches or slots", task->name);
  c->counts[c->depth++] = task->num_micro;
  c->counts[c->depth++] = task->num_slots;
  const ptc_status_t status = check_steps(c, task->steps, task->num_steps, false);
  c->depth -= 2;
  return status;
}

static int32_t count_stars(const char *path) {
  int32_t count = 0;
  for (; *path; ++path) count += *path == '*';
  return count;
}

static ptc_status_t check_global(ptc_plan_checker_t *c, const ptc_plan_global_t *global) {
  static const struct {
    const char *kind;
    ptc_buffer_class_t cls;
  } kinds[] = {{"input", PTC_BUFFER_INPUT},
               {"param", PTC_BUFFER_PARAM},
               {"moment", PTC_BUFFER_MOMENT},
               {"counter", PTC_BUFFER_SCALAR},
               {"setting", PTC_BUFFER_SCALAR}};
  const ptc_loc_t loc = json_loc(c, global->line);
  int64_t instances = 1;
  bool ok = global->num_counts >= 0 && global->num_counts <= PTC_MAX_COUNTS &&
            count_stars(global->path) == global->num_counts;
  for (int32_t i = 0; ok && i < global->num_counts; ++i) {
    int64_t last;
    ok = global->counts[i] >= 1 && global->first[i] >= 0 && global->step[i] >= 1 &&
         !__builtin_mul_overflow(instances, global->counts[i], &instances) &&
         !__builtin_mul_overflow(global->counts[i], global->step[i], &last) &&
         !__builtin_add_overflow(last, global->first[i], &last);
  }
  if (!ok)
    return FAULT(loc, "plan-global",
                 "global \"%s\" has turns that its path lacks, or impossible ones", global->path);
  if (!has_instances(c, global->buffer, global->first_instance, instances))
    return FAULT(loc, "plan-global", "global \"%s\" is no part of a buffer", global->path);
  const ptc_buffer_t *buffer = &c->plan->buffers[global->buffer];
  size_t k = 0;
  while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k].kind, global->kind) != 0) ++k;
  if (k == sizeof kinds / sizeof *kinds || kinds[k].cls != buffer->cls ||
      (buffer->cls == PTC_BUFFER_SCALAR && buffer->num_dims))
    return FAULT(loc, "plan-global", "global \"%s\" is of no kind that buffer %" PRId32 " can hold",
                 global->path, global->buffer);
  if (global->batch_dim < -1 || global->batch_dim >= buffer->num_dims || global->range < 0)
    return FAULT(loc, "plan-global", "global \"%s\" has an impossible batch dim or range",
                 global->path);
  if (buffer->cls == PTC_BUFFER_INPUT && !global->source && !global->dist)
    return FAULT(loc, "plan-global", "input \"%s\" has neither source nor distribution",
                 global->path);
  return PTC_OK;
}

static ptc_status_t check_setting(ptc_plan_checker_t *c, const ptc_plan_setting_t *setting) {
  if (!setting->global) return PTC_OK;
  const ptc_plan_global_t *global = ptc_plan_find_global(c->plan, setting->global);
  if (!global || strcmp(global->kind, "setting") != 0)
    return FAULT(json_loc(c, setting->line), "plan-setting",
                 "setting \"%s\" sets \"%s\", which is no global setting", setting->name,
                 setting->global);
  return PTC_OK;
}

// The ranks of a stage are those of one coordinate on the outermost axis.
static ptc_status_t check_stage(ptc_plan_checker_t *c) {
  const ptc_plan_t *plan = c->plan;
  const bool axis = plan->mesh.num_axes > 0 && strcmp(plan->mesh.axes[0].name, "pp") == 0;
  const int64_t stages = axis ? plan->mesh.axes[0].size : 1;
  if (plan->num_stages == stages && plan->stage >= 0 && plan->stage < stages) return PTC_OK;
  return FAULT(json_loc(c, 0), "plan-mesh",
               "stage %" PRId32 " of %" PRId32 " does not fit the outermost axis of the mesh",
               plan->stage, plan->num_stages);
}

ptc_status_t ptc_plan_check(ptc_diag_t *diag, const ptc_plan_t *plan) {
  ptc_plan_checker_t checker = {.diag = diag, .plan = plan}, *c = &checker;
  PTC_TRY(ptc_plan_check_mesh(diag, plan));
  PTC_TRY(check_stage(c));
  for (int32_t a = 0; a < plan->mesh.num_axes; ++a) c->counts[c->depth++] = plan->mesh.axes[a].size;
  PTC_TRY(check_kernels(c));
  for (int32_t i = 0; i < plan->num_buffers; ++i) PTC_TRY(check_buffer(c, i));
  for (int32_t i = 0; i < plan->num_tasks; ++i) PTC_TRY(check_task(c, i));
  for (int32_t i = 0; i < plan->num_globals; ++i) PTC_TRY(check_global(c, &plan->globals[i]));
  for (int32_t i = 0; i < plan->num_settings; ++i) PTC_TRY(check_setting(c, &plan->settings[i]));
  return PTC_OK;
}

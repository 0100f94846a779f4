#include "ir/plan_order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAUNCHED = 1 << 24, MIN_FOLDED = 4, MAX_COMPARED = 8 };

// --- the walk

typedef struct walker_s {
  const ptc_plan_t *plan;
  ptc_launched_fn_t fn;
  void *arg;
  int64_t number;
  int64_t turns[PTC_PLAN_MAX_LEVELS];
  ptc_access_t accesses[2 * PTC_PLAN_MAX_PARTS];
} walker_t;

bool ptc_step_writes(const ptc_plan_t *plan, const ptc_step_t *step, int32_t arg) {
  switch (step->kind) {
    case PTC_STEP_LAUNCH: {
      const ptc_plan_kernel_t *kernel = &plan->kernels[step->kernel];
      return arg >= kernel->num_params || kernel->modes[arg] != 0;
    }
    case PTC_STEP_SEND: return false;
    case PTC_STEP_RECV: return true;
    default: return arg % 2 == 1;
  }
}

bool ptc_step_reads(const ptc_plan_t *plan, const ptc_step_t *step, int32_t arg) {
  if (step->kind == PTC_STEP_LAUNCH) {
    const ptc_plan_kernel_t *kernel = &plan->kernels[step->kernel];
    return arg < kernel->num_params && kernel->modes[arg] != 1;
  }
  return !ptc_step_writes(plan, step, arg);
}

const char *ptc_plan_step_origin(const ptc_plan_t *plan, ptc_arena_t *arena,
                                 const ptc_step_t *step) {
  const char *file;
  int32_t line;
  if (step->kind == PTC_STEP_LAUNCH) {
    file = plan->kernels[step->kernel].loc_file;
    line = plan->kernels[step->kernel].loc_line;
  } else if (step->kind == PTC_STEP_COLLECTIVE) {
    file = step->collective->loc_file;
    line = step->collective->loc_line;
  } else {
    file = plan->buffers[step->args[0].buffer].loc_file;
    line = plan->buffers[step->args[0].buffer].loc_line;
  }
  return file ? ptc_arena_printf(arena, "%s:%" PRId32 ", ", file, line) : "";
}

static ptc_access_t access_of(const walker_t *w, const ptc_step_t *step, int32_t arg) {
  const ptc_ref_t *ref = &step->args[arg];
  const ptc_buffer_t *buffer = &w->plan->buffers[ref->buffer];
  const int64_t begin = buffer->offsets[ptc_affine_at(&ref->instance, w->turns)] +
                        ptc_affine_at(&ref->byte_offset, w->turns);
  ptc_access_t access = {begin, begin + ref->bytes, ptc_step_writes(w->plan, step, arg), arg};
  for (int32_t a = 0; a < w->plan->mesh.num_axes; ++a) {
    const int64_t reach = ref->byte_offset.coef[a] * (w->plan->mesh.axes[a].size - 1);
    *(reach < 0 ? &access.begin : &access.end) += reach;
  }
  return access;
}

static ptc_status_t launch(walker_t *w, const ptc_step_t *step) {
  if (++w->number > MAX_LAUNCHED) return PTC_UNSUPPORTED;
  for (int32_t a = 0; a < step->num_args; ++a) w->accesses[a] = access_of(w, step, a);
  const ptc_launched_t launched = {step, w->number, w->turns, w->accesses, step->num_args};
  return w->fn(w->arg, &launched);
}

// |repeat|: whose trip |trip| they are, or NULL.
static ptc_status_t walk(walker_t *w, const ptc_step_t *steps, int32_t count, int32_t depth,
                         const ptc_step_t *repeat, int64_t trip) {
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    if (!ptc_repeat_turn(repeat, step, trip, &w->turns[repeat ? depth - 1 : 0])) continue;
    if (step->kind == PTC_STEP_REPEAT) {
      int64_t next, end;
      for (ptc_repeat_trips(step, &next, &end); next < end; ++next)
        PTC_TRY(walk(w, step->body, step->num_steps, depth + 1, step, next));
      w->turns[depth] = 0;
    } else if (step->kind == PTC_STEP_CALL) {
      const ptc_task_t *task = &w->plan->tasks[step->task];
      w->turns[depth] = step->micro;
      w->turns[depth + 1] = step->slot;
      PTC_TRY(walk(w, task->steps, task->num_steps, depth + 2, NULL, 0));
      w->turns[depth] = w->turns[depth + 1] = 0;
    } else {
      PTC_TRY(launch(w, step));
    }
  }
  return PTC_OK;
}

ptc_status_t ptc_plan_walk(const ptc_plan_t *plan, const ptc_task_t *task, ptc_launched_fn_t fn,
                           void *arg) {
  walker_t *walker = ptc_xmalloc(sizeof *walker);
  *walker = (walker_t){.plan = plan, .fn = fn, .arg = arg};
  const ptc_status_t status =
      walk(walker, task->steps, task->num_steps, plan->mesh.num_axes, NULL, 0);
  free(walker);
  return status;
}

// --- the same, folded

// Whether something in |steps| that counts moves with the level of a call or an outermost repeat.
static bool moves(const walker_t *w, const ptc_fold_t *fold, const ptc_step_t *steps,
                  int32_t count) {
  const int32_t level = w->plan->mesh.num_axes;
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    if (step->kind == PTC_STEP_REPEAT && moves(w, fold, step->body, step->num_steps)) return true;
    for (int32_t a = 0; a < step->num_args; ++a) {
      const ptc_ref_t *ref = &step->args[a];
      if ((ref->instance.coef[level] || ref->byte_offset.coef[level]) &&
          fold->matters(w->arg, step, ref))
        return true;
    }
  }
  return false;
}

static bool same_call(const ptc_step_t *a, const ptc_step_t *b) {
  return a->kind == PTC_STEP_CALL && b->kind == PTC_STEP_CALL && a->task == b->task &&
         a->slot == b->slot;
}

// How often the calls that |*out_period| steps from |at| on make recur, themselves included.
static int64_t count_periods(const ptc_task_t *task, int32_t at, int32_t *out_period) {
  int32_t next = at + 1;
  while (next < task->num_steps && !same_call(&task->steps[at], &task->steps[next])) ++next;
  const int32_t period = next - at;
  int64_t same = 0;
  while (at + same + period < task->num_steps &&
         same_call(&task->steps[at + same], &task->steps[at + same + period]))
    ++same;
  *out_period = period;
  return 1 + same / period;
}

// |count| times |walk_one|, the first for |first|.
typedef ptc_status_t (*walk_one_fn_t)(walker_t *w, const ptc_step_t *steps, int32_t count,
                                      int64_t number);

static ptc_status_t walk_times(walker_t *w, const ptc_fold_t *fold, walk_one_fn_t walk_one,
                               const ptc_step_t *steps, int32_t count, int64_t first,
                               int64_t times) {
  for (int64_t i = 0; i < times; ++i) {
    const int64_t before = w->number;
    PTC_TRY(walk_one(w, steps, count, first + i));
    if (i < MAX_COMPARED && fold->recurs(w->arg, i == 0)) {
      w->number += (times - i - 1) * (w->number - before);
      return PTC_OK;
    }
  }
  return PTC_OK;
}

static ptc_status_t walk_calls(walker_t *w, const ptc_step_t *steps, int32_t count,
                               int64_t number) {
  return walk(w, steps + number * count, count, w->plan->mesh.num_axes, NULL, 0);
}

static ptc_status_t walk_trip(walker_t *w, const ptc_step_t *repeat, int32_t count, int64_t trip) {
  (void)count;
  return walk(w, repeat->body, repeat->num_steps, w->plan->mesh.num_axes + 1, repeat, trip);
}

static ptc_status_t walk_repeat(walker_t *w, const ptc_fold_t *fold, const ptc_step_t *repeat) {
  int64_t trip, end, late = 0, early = 0;
  for (int32_t i = 0; i < repeat->num_steps; ++i) {
    if (repeat->body[i].ahead < -late) late = -repeat->body[i].ahead;
    if (repeat->body[i].ahead > early) early = repeat->body[i].ahead;
  }
  const int64_t full =
      repeat->count - early - late;  // trips in which all steps run, from |late| on
  ptc_repeat_trips(repeat, &trip, &end);
  if (full < MIN_FOLDED || moves(w, fold, repeat->body, repeat->num_steps))
    return walk(w, repeat, 1, w->plan->mesh.num_axes, NULL, 0);
  for (; trip < late; ++trip) PTC_TRY(walk_trip(w, repeat, 1, trip));
  PTC_TRY(walk_times(w, fold, walk_trip, repeat, 1, late, full));
  for (trip = late + full; trip < end; ++trip) PTC_TRY(walk_trip(w, repeat, 1, trip));
  w->turns[w->plan->mesh.num_axes] = 0;
  return PTC_OK;
}

static ptc_status_t walk_folded(walker_t *w, const ptc_fold_t *fold, const ptc_task_t *task) {
  bool calls_move = false;
  for (int32_t t = 0; t < w->plan->num_tasks; ++t)
    if (w->plan->tasks[t].num_micro > 0)
      calls_move |= moves(w, fold, w->plan->tasks[t].steps, w->plan->tasks[t].num_steps);
  for (int32_t i = 0; i < task->num_steps; ++i) {
    const ptc_step_t *step = &task->steps[i];
    int32_t period;
    if (step->kind == PTC_STEP_REPEAT) {
      PTC_TRY(walk_repeat(w, fold, step));
      continue;
    }
    const int64_t times =
        step->kind == PTC_STEP_CALL && !calls_move ? count_periods(task, i, &period) : 0;
    if (times >= MIN_FOLDED) {
      PTC_TRY(walk_times(w, fold, walk_calls, step, period, 0, times));
      i += (int32_t)(times * period) - 1;
    } else {
      PTC_TRY(walk(w, step, 1, w->plan->mesh.num_axes, NULL, 0));
    }
  }
  return PTC_OK;
}

ptc_status_t ptc_plan_walk_folded(const ptc_plan_t *plan, const ptc_task_t *task,
                                  ptc_launched_fn_t fn, const ptc_fold_t *fold, void *arg) {
  walker_t *walker = ptc_xmalloc(sizeof *walker);
  *walker = (walker_t){.plan = plan, .fn = fn, .arg = arg};
  ptc_status_t status = walk_folded(walker, fold, task);
  if (walker->number > MAX_LAUNCHED) status = PTC_UNSUPPORTED;
  free(walker);
  return status;
}

// --- who touched a span last

// The first item that ends after |at|.
static int64_t find_item(const ptc_touch_map_t *map, int64_t at) {
  int64_t low = 0, high = map->len;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (map->items[middle].end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

void ptc_touch_map_set(ptc_touch_map_t *map, ptc_toucher_t toucher) {
  if (toucher.begin >= toucher.end) return;
  const int64_t first = find_item(map, toucher.begin);
  int64_t last = first;
  while (last < map->len && map->items[last].begin < toucher.end) last++;
  ptc_toucher_t kept[3];
  int64_t count = 0;
  if (first < last && map->items[first].begin < toucher.begin) {
    kept[count] = map->items[first];
    kept[count++].end = toucher.begin;
  }
  kept[count++] = toucher;
  if (first < last && map->items[last - 1].end > toucher.end) {
    kept[count] = map->items[last - 1];
    kept[count++].begin = toucher.end;
  }
  const int64_t len = map->len + count - (last - first);
  if (len > map->cap) {
    map->cap = 2 * len;
    map->items = ptc_xrealloc(map->items, (size_t)map->cap * sizeof *map->items);
  }
  memmove(map->items + first + count, map->items + last,
          (size_t)(map->len - last) * sizeof *map->items);
  map->len = len;
  for (int64_t i = 0; i < count; ++i) map->items[first + i] = kept[i];
}

const ptc_toucher_t *ptc_touch_map_latest(const ptc_touch_map_t *map, int64_t begin, int64_t end) {
  const ptc_toucher_t *latest = NULL;
  if (begin >= end) return NULL;
  for (int64_t i = find_item(map, begin); i < map->len && map->items[i].begin < end; ++i)
    if (!latest || map->items[i].position > latest->position) latest = &map->items[i];
  return latest;
}

void ptc_touch_map_deinit(ptc_touch_map_t *map) {
  free(map->items);
  *map = (ptc_touch_map_t){0};
}

// --- spans that can meet

static ptc_status_t add_spans(void *arg, const ptc_launched_t *launched) {
  ptc_shared_spans_t *spans = arg;
  if (launched->step->stream == 0) return PTC_OK;
  for (int32_t a = 0; a < launched->num_accesses; ++a) {
    if (spans->len == spans->cap) {
      spans->cap = spans->cap ? 2 * spans->cap : 64;
      spans->items = ptc_xrealloc(spans->items, (size_t)spans->cap * sizeof *spans->items);
    }
    spans->items[spans->len++] = launched->accesses[a];
  }
  return PTC_OK;
}

// The spans of all turns count, but once seen they are known.
static bool is_shared(const void *arg, const ptc_step_t *step, const ptc_ref_t *ref) {
  (void)arg, (void)ref;
  return step->stream != 0;
}

static bool is_known(void *arg, bool first) {
  (void)arg, (void)first;
  return true;
}

static int by_begin(const void *a, const void *b) {
  const ptc_access_t *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

ptc_status_t ptc_shared_spans_find(const ptc_plan_t *plan, ptc_shared_spans_t *out) {
  static const ptc_fold_t fold = {is_shared, is_known};
  *out = (ptc_shared_spans_t){0};
  for (int32_t t = 0; t < plan->num_tasks; ++t)
    if (plan->tasks[t].num_micro == 0)
      PTC_TRY(ptc_plan_walk_folded(plan, &plan->tasks[t], add_spans, &fold, out));
  if (out->len) qsort(out->items, (size_t)out->len, sizeof *out->items, by_begin);
  int64_t n = 0;
  for (int64_t i = 0; i < out->len; ++i) {
    if (n && out->items[i].begin <= out->items[n - 1].end) {
      if (out->items[i].end > out->items[n - 1].end) out->items[n - 1].end = out->items[i].end;
    } else {
      out->items[n++] = out->items[i];
    }
  }
  out->len = n;
  return PTC_OK;
}

bool ptc_spans_meet(const ptc_access_t *spans, int64_t len, int64_t begin, int64_t end) {
  int64_t low = 0, high = len;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (spans[middle].end > begin)
      high = middle;
    else
      low = middle + 1;
  }
  return low < len && spans[low].begin < end;
}

void ptc_shared_spans_deinit(ptc_shared_spans_t *spans) {
  free(spans->items);
  *spans = (ptc_shared_spans_t){0};
}

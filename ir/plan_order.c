#include "ir/plan_order.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LAUNCHED = 1 << 24 };

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

static int by_begin(const void *a, const void *b) {
  const ptc_access_t *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

ptc_status_t ptc_shared_spans_find(const ptc_plan_t *plan, ptc_shared_spans_t *out) {
  *out = (ptc_shared_spans_t){0};
  for (int32_t t = 0; t < plan->num_tasks; ++t)
    if (plan->tasks[t].num_micro == 0)
      PTC_TRY(ptc_plan_walk(plan, &plan->tasks[t], add_spans, out));
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

bool ptc_shared_spans_meet(const ptc_shared_spans_t *spans, int64_t begin, int64_t end) {
  int64_t low = 0, high = spans->len;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (spans->items[middle].end > begin)
      high = middle;
    else
      low = middle + 1;
  }
  return low < spans->len && spans->items[low].begin < end;
}

void ptc_shared_spans_deinit(ptc_shared_spans_t *spans) {
  free(spans->items);
  *spans = (ptc_shared_spans_t){0};
}

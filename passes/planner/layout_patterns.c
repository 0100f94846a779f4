// How values lay under earlier choices.
//
// What lies where follows from how the parameters lie, which axes have more than one part, and a few questions of
// sizes: whether they divide an extent, which of two ways sends less. Where a choice has the same answers to them as
// an earlier one, its values lie the same, and only the sizes differ.
#include <string.h>

#include "passes/planner/layout_impl.h"

enum { NUM_BUCKETS = 256 };

struct ptc_pattern_s {
  // What it was made from.
  const ptc_wprogram_t *program;
  bool sequence_parallel;
  uint16_t many;  // axes of more than one part
  uint16_t overlap[PTC_MAX_REFS];
  const ptc_lay_t *params;
  const ptc_lay_test_t *tests;
  int32_t num_tests, num_dims;
  const ptc_lay_dim_t *dims;
  // What came of it; sizes and bytes in it are of that choice.
  bool depends;
  ptc_layout_t laid;
  // Dims that grow with the micro-batch, each once.
  const ptc_lay_test_t *growing;
  int32_t num_growing;
  bool all_on_dp;
  ptc_pattern_t *next;
};

// Kernels of a program follow from which of them wait for collectives, but for their numbers.
typedef struct kernels_s {
  const ptc_wprogram_t *program;
  const uint8_t *waits;
  ptc_kernel_work_t *items;
  struct kernels_s *next;
} kernels_t;

struct ptc_patterns_s {
  ptc_arena_t *arena, scratch;
  ptc_pattern_t *buckets[NUM_BUCKETS];
  kernels_t *kernels;
};

ptc_patterns_t *ptc_patterns_new(ptc_arena_t *arena) {
  ptc_patterns_t *patterns = PTC_ARENA_NEW(arena, ptc_patterns_t);
  patterns->arena = arena;
  return patterns;
}

void ptc_patterns_end(ptc_patterns_t *patterns) { ptc_arena_deinit(&patterns->scratch); }

ptc_arena_t *ptc_patterns_scratch(ptc_patterns_t *patterns) {
  ptc_arena_reset(&patterns->scratch);
  return &patterns->scratch;
}

// --- what sizes decide

static void *grown(ptc_arena_t *arena, void *items, int32_t count, int32_t *capacity, size_t size) {
  if (count < *capacity) return items;
  *capacity = *capacity ? 2 * *capacity : 64;
  void *larger = ptc_arena_alloc_raw(arena, size * (size_t)*capacity);
  if (count > 0) memcpy(larger, items, size * (size_t)count);
  return larger;
}

static void log_test(ptc_lay_log_t *log, ptc_lay_test_t test) {
  for (int32_t i = 0; i < log->num_tests; i++) {
    const ptc_lay_test_t *other = &log->tests[i];
    if (other->axes == test.axes && other->extent == test.extent && other->left == test.left &&
        other->right == test.right)
      return;
  }
  log->tests = grown(log->arena, log->tests, log->num_tests, &log->cap_tests, sizeof(*log->tests));
  log->tests[log->num_tests++] = test;
}

bool ptc_lay_divides(const ptc_layout_t *l, int64_t extent, ptc_laid_t axes, int32_t ref) {
  const bool divides = extent % (ptc_laid_judged_size(l, axes) * (ref ? l->size[ref] : 1)) == 0;
  if (!l->log) return divides;
  l->log->lost |= ref && ptc_laid_len(axes) == PTC_LAID_MAX;
  const ptc_laid_t all = ref ? ptc_laid_append(axes, (ptc_laid_t)ref) : axes;
  log_test(l->log, (ptc_lay_test_t){.axes = all, .extent = extent, .outcome = divides});
  return divides;
}

static int8_t sign_of(double left, int64_t size, double right) {
  const double share = left / (double)size;
  return (int8_t)((share > right) - (share < right));
}

int ptc_lay_compare(const ptc_layout_t *l, double left, const ptc_laid_t *axes, int32_t count,
                    double right) {
  int64_t size = 1;
  ptc_laid_t all = 0;
  bool lost = false;
  for (int32_t i = 0; i < count; i++) {
    size *= ptc_laid_judged_size(l, axes[i]);
    lost |= ptc_laid_len(all) + ptc_laid_len(axes[i]) > PTC_LAID_MAX;
    all = ptc_laid_append(all, axes[i]);
  }
  const int8_t sign = sign_of(left, size, right);
  if (!l->log) return sign;
  l->log->lost |= lost;
  log_test(l->log, (ptc_lay_test_t){.axes = all, .left = left, .right = right, .outcome = sign});
  return sign;
}

void ptc_lay_log_dim(const ptc_layout_t *l, int32_t size, int32_t role, int64_t extent,
                     ptc_laid_t axes) {
  ptc_lay_log_t *log = l->log;
  if (!log) return;
  log->dims = grown(log->arena, log->dims, log->num_dims, &log->cap_dims, sizeof(*log->dims));
  log->dims[log->num_dims++] = (ptc_lay_dim_t){size, role, extent, axes};
}

static bool agrees(const ptc_layout_t *l, const ptc_lay_test_t *test) {
  const int64_t size = ptc_laid_size(l, test->axes);
  if (test->extent > 0) return (test->extent % size == 0) == test->outcome;
  return sign_of(test->left, size, test->right) == test->outcome;
}

// --- dims that grow with the micro-batch

typedef void (*dim_fn_t)(const ptc_layout_t *l, int64_t extent, ptc_laid_t axes, void *arg);

static void each_growing(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_laid_t *axes,
                         dim_fn_t fn, void *arg) {
  for (int32_t d = 0; d < value->num_dims; d++)
    if (ptc_laid_by_micro(axes[d]))
      fn(l, l->w->dims[l->p->dims[value->dims + d]].extent, axes[d], arg);
}

static void each_value_growing(const ptc_layout_t *l, dim_fn_t fn, void *arg) {
  for (int32_t v = 0; v < l->p->num_values; v++)
    each_growing(l, &l->p->values[v], l->axes + l->p->values[v].dims, fn, arg);
}

static void each_built_growing(const ptc_layout_t *l, dim_fn_t fn, void *arg) {
  for (int32_t i = 0; i < l->num_cache; i++)
    each_growing(l, &l->p->values[l->cache[i].value], l->cache[i].lay.axes, fn, arg);
}

static void check_even(const ptc_layout_t *l, int64_t extent, ptc_laid_t axes, void *arg) {
  *(bool *)arg &= extent % ptc_laid_size(l, axes) == 0;
}

bool ptc_lay_all_even(const ptc_layout_t *l) {
  bool even = true;
  const ptc_pattern_t *p = l->pattern;
  for (int32_t i = 0; p && i < p->num_growing && even; i++)
    check_even(l, p->growing[i].extent, p->growing[i].axes, &even);
  if (p) return even;
  each_value_growing(l, check_even, &even);
  each_built_growing(l, check_even, &even);
  return even;
}

// Samples that lie whole on each rank of dp, as zeros do that are made in place: a micro-batch of all ranks has more of
// them the more ranks there are.
static void check_on_dp(const ptc_layout_t *l, int64_t extent, ptc_laid_t axes, void *arg) {
  const int32_t dp = PTC_REF_AXIS + PTC_AXIS_DP;
  (void)extent;
  *(bool *)arg &= (ptc_laid_set(axes) >> dp & 1) || l->size[dp] == 1;
}

bool ptc_lay_all_on_dp(const ptc_layout_t *l) {
  if (l->pattern) return l->pattern->all_on_dp;
  bool all = true;
  each_value_growing(l, check_on_dp, &all);
  return all;
}

static void log_growing(const ptc_layout_t *l, int64_t extent, ptc_laid_t axes, void *arg) {
  (void)l;
  log_test(arg, (ptc_lay_test_t){.axes = axes, .extent = extent});
}

// --- finding one

static uint16_t many_of(const ptc_layout_t *l) {
  uint16_t many = 0;
  for (int32_t i = 1; i < l->num_refs; i++) many |= (uint16_t)((l->size[i] > 1) << i);
  return many;
}

static ptc_pattern_t **bucket_of(const ptc_patterns_t *patterns, const ptc_layout_t *l) {
  uint64_t hash = many_of(l) ^ (uint64_t)l->choice->sequence_parallel << 16 ^
                  (uint64_t)l->choice->recompute << 17;
  for (int32_t i = 0; i < l->w->num_params; i++)
    for (int32_t d = 0; d < l->w->params[i].num_dims; d++)
      hash = (hash ^ l->params[i].axes[d]) * UINT64_C(0x9e3779b97f4a7c15);
  return (ptc_pattern_t **)&patterns->buckets[(hash >> 32) % NUM_BUCKETS];
}

static bool same_params(const ptc_layout_t *l, const ptc_lay_t *params) {
  for (int32_t i = 0; i < l->w->num_params; i++)
    if (!ptc_lay_equal(&l->params[i], &params[i], l->w->params[i].num_dims)) return false;
  return true;
}

static bool is_like(const ptc_layout_t *l, const ptc_pattern_t *p) {
  if (p->program != l->p || p->sequence_parallel != l->choice->sequence_parallel ||
      p->laid.num_refs != l->num_refs || p->many != many_of(l) ||
      memcmp(p->overlap, l->overlap, sizeof(p->overlap)) != 0 || !same_params(l, p->params))
    return false;
  for (int32_t i = 0; i < p->num_tests; i++)
    if (!agrees(l, &p->tests[i])) return false;
  return true;
}

// Those numbers of |p| in which sizes are.
static void measure(const ptc_pattern_t *p, ptc_layout_t *l) {
  const size_t sizes = (size_t)l->p->num_sizes + 1;
  l->sizes = ptc_arena_alloc_raw(l->arena, sizes * sizeof(*l->sizes));
  memcpy(l->sizes, p->laid.sizes, sizes * sizeof(*l->sizes));
  for (int32_t i = 0; i < p->num_dims; i++) {
    const ptc_lay_dim_t *dim = &p->dims[i];
    int64_t *size = l->sizes[dim->size];
    if (dim->role == PTC_NUM_WROLES) {
      for (int role = 0; role < PTC_NUM_WROLES; role++) size[role] = 1;
      continue;
    }
    const int64_t shards = ptc_laid_size(l, dim->axes);
    size[dim->role] *= (dim->extent + shards - 1) / shards;
  }
  l->nets = ptc_arena_alloc_raw(l->arena, (size_t)l->cap_nets * sizeof(*l->nets));
  for (int32_t i = 0; i < l->num_nets; i++) {
    l->nets[i] = p->laid.nets[i];
    l->nets[i].bytes = ptc_lay_net_bytes(l, &l->nets[i]);
  }
}

bool ptc_patterns_find(const ptc_patterns_t *patterns, ptc_layout_t *l) {
  const ptc_pattern_t *p = *bucket_of(patterns, l);
  while (p && !is_like(l, p)) p = p->next;
  if (!p) return false;
  const ptc_layout_t *from = &p->laid;
  l->axes = from->axes;
  l->partial = from->partial;
  l->max = from->max;
  l->built = from->built;
  l->gathered = from->gathered;
  l->by_micro = from->by_micro;
  l->waits = from->waits;
  l->cache = from->cache;
  l->targets = from->targets;
  l->num_cache = from->num_cache;
  l->num_targets = from->num_targets;
  l->num_nets = from->num_nets;
  l->cap_nets = from->cap_nets;
  *l->depends = p->depends;
  l->pattern = p;
  measure(p, l);
  return true;
}

// --- keeping one

static void *copy(ptc_arena_t *arena, const void *items, size_t count, size_t size) {
  void *own = ptc_arena_alloc_raw(arena, count * size + 1);
  if (count > 0) memcpy(own, items, count * size);
  return own;
}

void ptc_patterns_keep(ptc_patterns_t *patterns, ptc_layout_t *l) {
  const ptc_lay_log_t *log = l->log;
  if (log->lost) return;
  ptc_arena_t *arena = patterns->arena;
  ptc_pattern_t *p = PTC_ARENA_NEW(arena, ptc_pattern_t), **bucket = bucket_of(patterns, l);
  *p = (ptc_pattern_t){.program = l->p,
                       .sequence_parallel = l->choice->sequence_parallel,
                       .many = many_of(l),
                       .num_tests = log->num_tests,
                       .num_dims = log->num_dims,
                       .depends = *l->depends,
                       .laid = *l,
                       .next = *bucket};
  memcpy(p->overlap, l->overlap, sizeof(p->overlap));
  p->tests = copy(arena, log->tests, (size_t)log->num_tests, sizeof(*log->tests));
  p->dims = copy(arena, log->dims, (size_t)log->num_dims, sizeof(*log->dims));
#define COPY(field, count) p->laid.field = copy(arena, l->field, (size_t)(count), sizeof(*l->field))
  COPY(params, l->w->num_params);
  COPY(axes, l->p->num_dims);
  COPY(partial, l->p->num_values);
  COPY(max, l->p->num_values);
  COPY(built, l->p->num_values);
  COPY(gathered, l->p->num_values);
  COPY(sizes, l->p->num_sizes + 1);
  COPY(by_micro, l->p->num_sizes);
  COPY(waits, l->p->num_groups);
  COPY(cache, l->num_cache);
  COPY(targets, l->num_targets);
  COPY(nets, l->num_nets);
#undef COPY
  p->params = p->laid.params;
  ptc_lay_log_t growing = {.arena = l->arena};
  each_value_growing(l, log_growing, &growing);
  p->all_on_dp = true;
  for (int32_t i = 0; i < growing.num_tests; i++)
    check_on_dp(l, growing.tests[i].extent, growing.tests[i].axes, &p->all_on_dp);
  each_built_growing(l, log_growing, &growing);
  p->growing = copy(arena, growing.tests, (size_t)growing.num_tests, sizeof(*growing.tests));
  p->num_growing = growing.num_tests;
  l->pattern = p;
  *bucket = p;
}

ptc_kernel_work_t *ptc_patterns_kernels(const ptc_patterns_t *patterns, const ptc_layout_t *l) {
  for (const kernels_t *k = patterns->kernels; k; k = k->next)
    if (k->program == l->p && memcmp(k->waits, l->waits, (size_t)l->p->num_groups) == 0)
      return k->items;
  return NULL;
}

void ptc_patterns_keep_kernels(ptc_patterns_t *patterns, const ptc_layout_t *l,
                               ptc_kernel_work_t *kernels) {
  kernels_t *kept = PTC_ARENA_NEW(patterns->arena, kernels_t);
  const uint8_t *waits =
      copy(patterns->arena, l->waits, (size_t)l->p->num_groups, sizeof(*l->waits));
  *kept = (kernels_t){l->p, waits, kernels, patterns->kernels};
  patterns->kernels = kept;
}

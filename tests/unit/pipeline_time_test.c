// Proves: the simulated pipeline is that of an event loop over every task of the schedules' lists, for uneven parts, late
// begins and latency, also where whole turns are left out; its bound is none above it; on equal parts both are the
// closed forms (planners.md C8: Huang 2019, Narayanan 2021, Qi et al. 2023).
#include "passes/planner/pipeline_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

enum { MOST_STAGES = 16, MOST_PARTS = 64 };

typedef struct case_s {
  ptc_pipeline_t pipeline;
  ptc_part_time_t parts[MOST_PARTS];
  double begin[MOST_STAGES];
} case_t;

// --- the other way: of all tasks that can start, always the earliest

typedef struct loop_s {
  const ptc_pipeline_t *p;
  const ptc_schedule_t *lists;
  double *done[2];  // by part * micro-batches + micro-batch; negative: not yet
  double free[MOST_STAGES];
  int32_t next[MOST_STAGES];
} loop_t;

static const ptc_schedule_work_t *next_task(loop_t *l, int32_t stage) {
  const ptc_stage_order_t *order = &l->lists->stages[stage];
  while (l->next[stage] < order->count && order->work[l->next[stage]].kind > PTC_WORK_W)
    l->next[stage]++;  // transfers
  return l->next[stage] < order->count ? &order->work[l->next[stage]] : NULL;
}

static double start_of(const loop_t *l, int32_t stage, const ptc_schedule_work_t *task) {
  const int32_t part = task->chunk * l->p->num_stages + stage;
  const int32_t last = l->p->num_stages * l->p->num_chunks - 1;
  const int32_t source = task->kind == PTC_WORK_F                  ? part - 1
                         : task->kind == PTC_WORK_B && part < last ? part + 1
                                                                   : -1;
  if (source < 0) return l->free[stage];
  const double there = l->done[task->kind == PTC_WORK_B][source * l->p->num_micro + task->micro];
  const double latency = l->p->num_stages > 1 ? l->p->latency : 0;
  return there < 0 ? INFINITY : fmax(l->free[stage], there + latency);
}

static void event_loop(const ptc_pipeline_t *p, double *ends) {
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  loop_t l = {.p = p};
  l.lists = ptc_schedule_new(&arena, p->kind, p->num_stages, p->num_chunks, p->num_micro, NULL);
  const int32_t cells = p->num_stages * p->num_chunks * p->num_micro;
  for (int k = 0; k < 2; k++) {
    l.done[k] = ptc_xmalloc(sizeof(double) * (size_t)cells);
    for (int32_t i = 0; i < cells; i++) l.done[k][i] = -1;
  }
  for (int32_t s = 0; s < p->num_stages; s++) l.free[s] = p->begin[s];
  for (;;) {
    int32_t stage = -1;
    double earliest = INFINITY;
    for (int32_t s = 0; s < p->num_stages; s++) {
      const ptc_schedule_work_t *task = next_task(&l, s);
      const double start = task ? start_of(&l, s, task) : INFINITY;
      if (start < earliest) {
        earliest = start;
        stage = s;
      }
    }
    if (stage < 0) break;
    const ptc_schedule_work_t *task = next_task(&l, stage);
    const int32_t part = task->chunk * p->num_stages + stage;
    const ptc_part_time_t *time = &p->parts[part];
    const double own = task->kind == PTC_WORK_F   ? time->f
                       : task->kind == PTC_WORK_W ? time->w
                       : l.lists->split_w         ? time->b
                                                  : time->b + time->w;
    l.free[stage] = earliest + own;
    if (task->kind != PTC_WORK_W)
      l.done[task->kind == PTC_WORK_B][part * p->num_micro + task->micro] = l.free[stage];
    l.next[stage]++;
  }
  for (int32_t s = 0; s < p->num_stages; s++) {
    CU_ASSERT_PTR_NULL(next_task(&l, s));
    ends[s] = l.free[s];
  }
  for (int k = 0; k < 2; k++) free(l.done[k]);
  ptc_arena_deinit(&arena);
}

// --- cases

static double random_time(uint64_t *seed, double unit) {
  return unit * (double)(1 + unit_random(seed) % 40);
}

// |spread|: 0: all parts are equal; else how many of them are not, one in so many.
static void make_case(uint64_t *seed, int32_t micro, int spread, case_t *c) {
  ptc_pipeline_t *p = &c->pipeline;
  p->kind = (ptc_schedule_kind_t)(unit_random(seed) % PTC_NUM_SCHEDULES);
  p->num_stages = 1 + (int32_t)(unit_random(seed) % 9);
  p->num_chunks = p->kind == PTC_SCHEDULE_INTERLEAVED ? 1 + (int32_t)(unit_random(seed) % 4) : 1;
  p->num_micro = micro > 0 ? micro : 1 + (int32_t)(unit_random(seed) % 60);
  if (p->kind == PTC_SCHEDULE_INTERLEAVED && (spread == 0 || unit_random(seed) % 4))
    p->num_micro = (p->num_micro + p->num_stages - 1) / p->num_stages * p->num_stages;
  p->parts = c->parts;
  p->begin = c->begin;
  p->latency = 0;
  // Whole numbers add up exactly, others do not.
  const double unit = unit_random(seed) % 2 ? 1 : 1.1e-3;
  const ptc_part_time_t usual = {random_time(seed, unit), random_time(seed, unit),
                                 random_time(seed, unit)};
  for (int32_t i = 0; i < p->num_stages * p->num_chunks; i++) {
    c->parts[i] = usual;
    if (spread == 0 || unit_random(seed) % (uint64_t)spread) continue;
    // Some nearly alike: then the steady state comes late.
    const bool nearly = unit_random(seed) % 3 == 0;
    ptc_part_time_t *t = &c->parts[i];
    t->f = nearly ? usual.f + unit * 0.25 : random_time(seed, unit);
    t->b = nearly ? usual.b : random_time(seed, unit);
    t->w = nearly ? usual.w : random_time(seed, unit);
  }
  for (int32_t s = 0; s < p->num_stages; s++) c->begin[s] = 0;
  if (spread == 0) return;
  if (unit_random(seed) % 2) p->latency = random_time(seed, unit / 8);
  if (unit_random(seed) % 2)
    for (int32_t s = 0; s < p->num_stages; s++) c->begin[s] = random_time(seed, unit);
}

static void describe(const case_t *c, uint64_t seed, char row[512]) {
  const ptc_pipeline_t *p = &c->pipeline;
  int at =
      snprintf(row, 512, "seed %llu: %s S=%d v=%d m=%d latency %g:", (unsigned long long)seed,
               ptc_schedule_name(p->kind), p->num_stages, p->num_chunks, p->num_micro, p->latency);
  for (int32_t i = 0; i < p->num_stages * p->num_chunks && at < 440; i++)
    at += snprintf(row + at, 512 - (size_t)at, " %g/%g/%g", c->parts[i].f, c->parts[i].b,
                   c->parts[i].w);
}

static double latest(const ptc_pipeline_t *p, const double *ends) {
  double most = 0;
  for (int32_t s = 0; s < p->num_stages; s++) most = fmax(most, ends[s]);
  return most;
}

static void compare(const case_t *c, uint64_t seed) {
  const ptc_pipeline_t *p = &c->pipeline;
  double ends[MOST_STAGES], loop[MOST_STAGES], least[MOST_STAGES];
  char row[512];
  describe(c, seed, row);
  ptc_pipeline_simulate(p, ends);
  event_loop(p, loop);
  ptc_pipeline_least(p, least);
  for (int32_t s = 0; s < p->num_stages; s++) {
    const size_t at = strlen(row);
    snprintf(row + at, sizeof(row) - at, "; %d: %.12g, loop %.12g, least %.12g", s, ends[s],
             loop[s], least[s]);
    UNIT_CHECK(fabs(ends[s] - loop[s]) <= 1e-10 * loop[s], row);
    UNIT_CHECK(least[s] <= ends[s] * (1 + 1e-12), row);
    row[at] = '\0';
  }
}

static int cases(int usual) {
  const char *text = getenv("PTC_CASES");
  return text ? atoi(text) : usual;
}

static void test_event_loop(void) {
  uint64_t seed = unit_seed();
  for (int turn = 0; turn < cases(3000); turn++) {
    const uint64_t own = seed;
    case_t c;
    make_case(&seed, 0, 1 + (int)(unit_random(&seed) % 4), &c);
    compare(&c, own);
  }
}

// Far more micro-batches than a steady state needs.
static void test_many_micro_batches(void) {
  uint64_t seed = unit_seed();
  for (int turn = 0; turn < cases(150) / 5 + 1; turn++) {
    const uint64_t own = seed;
    case_t c;
    make_case(&seed, 500 + (int32_t)(unit_random(&seed) % 2000), 1 + (int)(unit_random(&seed) % 4),
              &c);
    compare(&c, own);
  }
}

// Task by task this would take minutes. In the long run each micro-batch takes what it takes on the slowest stage.
static void test_cost(void) {
  uint64_t seed = unit_seed();
  for (int turn = 0; turn < 60; turn++) {
    const uint64_t own = seed;
    case_t c;
    char row[512];
    make_case(&seed, 1000, 1 + (int)(unit_random(&seed) % 4), &c);
    ptc_pipeline_t *p = &c.pipeline;
    // Interleaved parts may settle into states of several turns, which are not left out.
    const int32_t num_parts = p->num_stages * p->num_chunks;
    const bool any = p->kind != PTC_SCHEDULE_INTERLEAVED;
    for (int32_t i = 0; i < num_parts; i++)
      c.parts[i] =
          (ptc_part_time_t){random_time(&seed, 1), random_time(&seed, 1), random_time(&seed, 1)};
    p->latency = 0;
    double slowest = 0;
    for (int32_t s = 0; s < p->num_stages; s++) {
      double work = 0;
      for (int32_t i = s; i < num_parts; i += p->num_stages)
        work += c.parts[i].f + c.parts[i].b + c.parts[i].w;
      slowest = fmax(slowest, work);
    }
    double ends[MOST_STAGES], before = 0;
    for (int32_t i = 1; i <= 2; i++) {
      p->num_micro = i * (any ? 100000000 : 10000) / p->num_stages * p->num_stages;
      ptc_pipeline_simulate(p, ends);
      describe(&c, own, row);
      // Interleaved stages wait for one another within a turn; those of gpipe have a slowest one each way.
      const double least = p->num_micro * slowest;
      UNIT_CHECK(latest(p, ends) >= least, row);
      if (p->kind == PTC_SCHEDULE_1F1B || p->kind == PTC_SCHEDULE_ZB_H1)
        UNIT_CHECK(latest(p, ends) <= least + 1e5, row);
      UNIT_CHECK(latest(p, ends) > before * 1.9, row);
      before = latest(p, ends);
    }
  }
}

// planners.md C8: what all micro-batches take on a stage, and the bubble.
static double closed_form(const ptc_pipeline_t *p) {
  const ptc_part_time_t *t = p->parts;
  const double all = t->f + t->b + t->w, fill = p->num_stages - 1;
  const double work = (double)p->num_micro * p->num_chunks * all;
  return work + fill * (p->kind == PTC_SCHEDULE_ZB_H1 ? t->f + t->b - t->w : all);
}

static void test_closed_forms(void) {
  uint64_t seed = unit_seed();
  for (int turn = 0; turn < cases(1000); turn++) {
    const uint64_t own = seed;
    case_t c;
    make_case(&seed, 0, 0, &c);
    ptc_pipeline_t *p = &c.pipeline;
    if (p->num_micro < p->num_stages) p->num_micro = p->num_stages;
    // The closed form of ZB-H1 holds where a weight gradient fits into what it fills.
    if (p->kind == PTC_SCHEDULE_ZB_H1)
      for (int32_t i = 0; i < p->num_stages; i++) c.parts[i].b = c.parts[i].w = c.parts[i].f;
    double ends[MOST_STAGES], least[MOST_STAGES];
    char row[512];
    describe(&c, own, row);
    ptc_pipeline_simulate(p, ends);
    ptc_pipeline_least(p, least);
    const double closed = closed_form(p), made = latest(p, ends), bound = latest(p, least);
    const size_t at = strlen(row);
    snprintf(row + at, sizeof(row) - at, ": %.12g, least %.12g, closed form %.12g", made, bound,
             closed);
    UNIT_CHECK(fabs(made - closed) <= 1e-12 * closed, row);
    UNIT_CHECK(fabs(bound - closed) <= 1e-12 * closed, row);
  }
}

static const unit_test_t tests[] = {
    {"an event loop", test_event_loop},
    {"many micro-batches", test_many_micro_batches},
    {"cost", test_cost},
    {"closed forms", test_closed_forms},
};
UNIT_MAIN("pipeline_time", tests)

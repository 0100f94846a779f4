#include "tests/support/cover_design.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/arena.h"
#include "passes/schedule.h"
#include "tests/support/cover_models.h"
#include "tests/support/unit.h"

// The settings as columns of levels. Level -1: it has no effect.
enum { MODEL, MESH, ZERO, SCHEDULE, RECOMPUTE, SEQUENCE, MICRO, NUM_COLUMNS };
enum { MAX_MESHES = 64, MAX_LEVELS = MAX_MESHES, NUM_TRIALS = 60 };

// Numbers of micro-batches: none of its own, fewer than stages, more than stages and odd.
static const int micros[] = {1, 2, 5};
enum { NUM_MICROS = sizeof micros / sizeof *micros, MAX_PARTS_OF_BATCH = 10 };

const char *const cover_recompute_names[COVER_NUM_RECOMPUTE] = {"none", "selective", "full"};

typedef struct mesh_s {
  int dp, tp, pp, cp;
} mesh_t;

typedef struct design_s {
  int num_models, num_meshes;
  mesh_t meshes[MAX_MESHES];
  bool seen[NUM_COLUMNS][NUM_COLUMNS][MAX_LEVELS][MAX_LEVELS];
  int num_missing;
} design_t;

// All meshes of 1, 2, 4 and 8 ranks.
static void list_meshes(design_t *d) {
  for (int world = 1; world <= 8; world *= 2)
    for (int dp = 1; dp <= world; dp *= 2)
      for (int tp = 1; dp * tp <= world; tp *= 2)
        for (int pp = 1; dp * tp * pp <= world; pp *= 2)
          d->meshes[d->num_meshes++] = (mesh_t){dp, tp, pp, world / (dp * tp * pp)};
}

static int num_levels(const design_t *d, int column) {
  const int levels[NUM_COLUMNS] = {
      d->num_models, d->num_meshes, 4, COVER_NUM_SCHEDULES, COVER_NUM_RECOMPUTE, 2, NUM_MICROS};
  return levels[column];
}

static int mesh_of(const design_t *d, const cover_case_t *c) {
  int at = 0;
  while (memcmp(&d->meshes[at], &(mesh_t){c->dp, c->tp, c->pp, c->cp}, sizeof(mesh_t)) != 0) at++;
  return at;
}

static void levels_of(const design_t *d, const cover_case_t *c, int out[NUM_COLUMNS]) {
  out[MODEL] = c->model;
  out[MESH] = mesh_of(d, c);
  out[ZERO] = c->dp * c->cp > 1 ? c->zero : -1;
  out[SCHEDULE] = c->pp > 1 ? c->schedule : -1;
  out[RECOMPUTE] = c->recompute;
  out[SEQUENCE] = c->tp > 1 ? c->sequence_parallel : -1;
  for (int i = 0; i < NUM_MICROS; i++)
    if (micros[i] == c->num_micro) out[MICRO] = i;
}

// What has no effect is not set.
static void normalize(cover_case_t *c) {
  if (c->pp == 1) c->schedule = PTC_SCHEDULE_GPIPE;
  if (c->tp == 1) c->sequence_parallel = false;
  for (int i = NUM_MICROS - 1; c->num_micro * c->dp > MAX_PARTS_OF_BATCH; i--)
    c->num_micro = micros[i];
}

static cover_case_t random_case(const design_t *d, uint64_t *random) {
  const mesh_t *mesh = &d->meshes[unit_random(random) % (uint64_t)d->num_meshes];
  cover_case_t c = {.model = (int)(unit_random(random) % (uint64_t)d->num_models),
                    .dp = mesh->dp,
                    .tp = mesh->tp,
                    .pp = mesh->pp,
                    .cp = mesh->cp,
                    .zero = (int)(unit_random(random) % 4),
                    .schedule = (int)(unit_random(random) % COVER_NUM_SCHEDULES),
                    .recompute = (int)(unit_random(random) % COVER_NUM_RECOMPUTE),
                    .sequence_parallel = unit_random(random) % 2,
                    .num_micro = micros[unit_random(random) % NUM_MICROS]};
  normalize(&c);
  return c;
}

// The pairs of |c| that were not seen; |mark|: they are now.
static int visit_pairs(design_t *d, const cover_case_t *c, bool mark) {
  int levels[NUM_COLUMNS], count = 0;
  levels_of(d, c, levels);
  for (int a = 0; a < NUM_COLUMNS; a++)
    for (int b = a + 1; b < NUM_COLUMNS; b++) {
      if (levels[a] < 0 || levels[b] < 0 || d->seen[a][b][levels[a]][levels[b]]) continue;
      count++;
      if (mark) d->seen[a][b][levels[a]][levels[b]] = true;
    }
  return count;
}

static void set_level(const design_t *d, cover_case_t *c, int column, int level) {
  switch (column) {
    case MODEL: c->model = level; break;
    case MESH:
      c->dp = d->meshes[level].dp;
      c->tp = d->meshes[level].tp;
      c->pp = d->meshes[level].pp;
      c->cp = d->meshes[level].cp;
      break;
    case ZERO: c->zero = level; break;
    case SCHEDULE: c->schedule = level; break;
    case RECOMPUTE: c->recompute = level; break;
    case SEQUENCE: c->sequence_parallel = level != 0; break;
    case MICRO: c->num_micro = micros[level]; break;
    default: break;
  }
}

// A case with both levels, from |c|; false if they cannot go together.
static bool with_levels(const design_t *d, cover_case_t *c, const int pair[4]) {
  int levels[NUM_COLUMNS];
  set_level(d, c, pair[0], pair[2]);
  set_level(d, c, pair[1], pair[3]);
  normalize(c);
  levels_of(d, c, levels);
  return levels[pair[0]] == pair[2] && levels[pair[1]] == pair[3];
}

// Whether some case has both; |out_case| is one, else random.
static bool find_case(const design_t *d, uint64_t *random, const int pair[4],
                      cover_case_t *out_case) {
  for (int trial = 0; trial < NUM_TRIALS; trial++) {
    *out_case = random_case(d, random);
    if (with_levels(d, out_case, pair)) return true;
  }
  return false;
}

// Marks pairs that no case can have as seen. The others are missing.
static void rule_out(design_t *d) {
  uint64_t random = 1;
  cover_case_t c;
  for (int a = 0; a < NUM_COLUMNS; a++)
    for (int b = a + 1; b < NUM_COLUMNS; b++)
      for (int i = 0; i < num_levels(d, a); i++)
        for (int k = 0; k < num_levels(d, b); k++) {
          d->seen[a][b][i][k] = !find_case(d, &random, (int[4]){a, b, i, k}, &c);
          d->num_missing += !d->seen[a][b][i][k];
        }
}

static bool next_missing(const design_t *d, int out_pair[4]) {
  for (int a = 0; a < NUM_COLUMNS; a++)
    for (int b = a + 1; b < NUM_COLUMNS; b++)
      for (int i = 0; i < num_levels(d, a); i++)
        for (int k = 0; k < num_levels(d, b); k++)
          if (!d->seen[a][b][i][k]) {
            memcpy(out_pair, (int[4]){a, b, i, k}, 4 * sizeof(int));
            return true;
          }
  return false;
}

static design_t *new_design(int num_models) {
  design_t *d = ptc_xmalloc(sizeof *d);
  memset(d, 0, sizeof *d);
  d->num_models = num_models;
  list_meshes(d);
  return d;
}

// Greedy (Cohen et al. 1997, AETG): of many cases that have a pair which is missing, the one with the most such pairs.
int cover_design(int num_models, cover_case_t **out_cases) {
  design_t *d = new_design(num_models);
  rule_out(d);
  *out_cases = ptc_xmalloc(sizeof **out_cases * (size_t)d->num_missing);
  uint64_t random = 20;
  int count = 0, pair[4];
  while (next_missing(d, pair)) {
    cover_case_t best = {0};
    int most = 0;
    for (int trial = 0; trial < NUM_TRIALS; trial++) {
      cover_case_t c;
      if (!find_case(d, &random, pair, &c)) continue;
      const int found = visit_pairs(d, &c, false);
      if (found > most) best = c;
      if (found > most) most = found;
    }
    d->num_missing -= visit_pairs(d, &best, true);
    (*out_cases)[count++] = best;
  }
  free(d);
  return count;
}

int cover_missing_pairs(int num_models, const cover_case_t *cases, int count) {
  design_t *d = new_design(num_models);
  rule_out(d);
  for (int i = 0; i < count; i++) d->num_missing -= visit_pairs(d, &cases[i], true);
  const int missing = d->num_missing;
  free(d);
  return missing;
}

cover_case_t cover_random(int num_models, uint64_t *random) {
  design_t *d = new_design(num_models);
  const cover_case_t c = random_case(d, random);
  free(d);
  return c;
}

// --- a case

int cover_world(const cover_case_t *c) { return c->dp * c->tp * c->pp * c->cp; }

int cover_batch(const cover_case_t *c) { return COVER_SAMPLES * c->dp * c->num_micro; }

int cover_layers(const cover_case_t *c) {
  const int parts = c->pp * (c->schedule == PTC_SCHEDULE_INTERLEAVED ? 2 : 1);
  const int least = parts * cover_models[c->model].period + 1;
  return least < 5 ? 5 : least;
}

void cover_name(const cover_case_t *c, char out_name[160]) {
  snprintf(out_name, 160, "%s dp=%d,tp=%d,pp=%d,cp=%d,zero=%d,schedule=%s,recompute=%s,sp=%s,m=%d",
           cover_models[c->model].name, c->dp, c->tp, c->pp, c->cp, c->zero,
           c->pp > 1 ? ptc_schedule_name((ptc_schedule_kind_t)c->schedule) : "-",
           cover_recompute_names[c->recompute], c->sequence_parallel ? "on" : "off", c->num_micro);
}

cover_case_t cover_plainest(const cover_case_t *c) {
  cover_case_t plain = *c;
  plain.pp = 1;
  plain.schedule = PTC_SCHEDULE_GPIPE;
  plain.recompute = 0;
  plain.zero = c->num_micro == 1 || c->zero < 2 ? 0 : 2;
  return plain;
}

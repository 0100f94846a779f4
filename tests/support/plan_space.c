#include "tests/support/plan_space.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/compile.h"
#include "passes/pass.h"
#include "tests/support/unit.h"

// --- models

static bool load(plan_model_t *m, const char *path, const ptc_override_t *overrides, int count) {
  *m = (plan_model_t){0};
  ptc_diag_init(&m->diag);
  ptc_arena_init(&m->arena);
  const ptc_lower_options_t options = {
      .overrides = overrides, .num_overrides = count, .parallel = "dp=1,tp=1,pp=1"};
  const char *files[] = {path};
  ptc_status_t status = ptc_compile_files(&m->diag, files, 1, &options, &m->module);
  if (status == PTC_OK) {
    const ptc_pass_options_t passes = {.stop_after = "optimizer"};
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, &passes);
    status = ptc_pipeline_train(&ctx, m->module);
    ptc_pass_ctx_deinit(&ctx);
  }
  if (status == PTC_OK) status = ptc_work_new(m->module, &m->arena, &m->work);
  if (status != PTC_OK) ptc_diag_print(&m->diag, stderr, PTC_DIAG_TEXT, false);
  return status == PTC_OK;
}

bool plan_model_file(plan_model_t *m, const char *path, const ptc_override_t *overrides,
                     int count) {
  char whole[1024];
  snprintf(whole, sizeof(whole), "%s/%s", PTC_SOURCE_DIR, path);
  return load(m, whole, overrides, count);
}

bool plan_model_text(plan_model_t *m, const char *text) {
  char folder[32], path[64];
  unit_make_folder(folder);
  snprintf(path, sizeof(path), "%s/m.ptm", folder);
  FILE *file = fopen(path, "w");
  if (!file) return false;
  fputs(text, file);
  fclose(file);
  const bool ok = load(m, path, NULL, 0);
  unlink(path);
  rmdir(folder);
  return ok;
}

bool plan_model_random(plan_model_t *m, uint64_t *seed, int layers, int vocab,
                       const int64_t batches[4]) {
  static const int widths[] = {256, 1024, 4096};
  const int width = widths[unit_random(seed) % 3], seq = 128 << unit_random(seed) % 4;
  char text[1024];
  snprintf(text, sizeof(text),
           "model m(layers = %d, d = %d, seq = %d, vocab = %d) {\n"
           "  dim d, b = batch, s = seq, v = vocab\n"
           "  param wte[v, d], head[d, v] ~ normal(0.02)\n"
           "  layer mlp(x[b, s, d]) {\n"
           "    dim f = 4 * d\n"
           "    param w1[d, f], w2[f, d] ~ normal(0.02)\n"
           "    u[b, s, f] = x[b, s, d] * w1[d, f]\n"
           "    y[b, s, d] = gelu(u[b, s, f]) * w2[f, d]\n"
           "    return y\n  }\n"
           "  input tokens[b, s] : int from text\n"
           "  input targets[b, s] : int from text + 1\n"
           "  x[b, s, d] = wte[tokens[b, s], d]\n"
           "  repeat layers { x = x + mlp(rmsnorm@n[d](x)) }\n"
           "  logits[b, s, v] = rmsnorm@nf[d](x)[b, s, d] * head[d, v]\n"
           "  loss = cross_entropy[v](logits, targets)\n}\n"
           "train { batch = %d optimizer = adamw(lr = 1e-4) precision = bf16 }\n",
           layers, width, seq, vocab, (int)batches[unit_random(seed) % 4]);
  return plan_model_text(m, text);
}

void plan_model_end(plan_model_t *m) {
  if (m->module) ptc_module_destroy(m->module);
  ptc_arena_deinit(&m->arena);
  ptc_diag_deinit(&m->diag);
}

void plan_each_sample(const char *batch, int cases,
                      void (*fn)(const plan_model_t *m, const char *name, void *arg), void *arg) {
  static const char *const samples[] = {"gpt2",   "gptj",    "llama3",      "mamba2",    "bert",
                                        "gemma2", "mixtral", "deepseek_v2", "two_branch"};
  const char *text = getenv("PTC_CASES");
  const ptc_override_t overrides[] = {{"train.batch", batch}};
  if (text) cases = atoi(text);
  for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
    char path[64];
    snprintf(path, sizeof(path), "samples/%s.ptm", samples[i]);
    plan_model_t m;
    const bool loaded = plan_model_file(&m, path, overrides, 1);
    UNIT_CHECK(loaded, path);
    for (int c = 0; loaded && c < cases; c++) fn(&m, samples[i], arg);
    plan_model_end(&m);
  }
}

// Each candidate that pieces share, and each other one in each of its pieces, is on or off. Returns how many there are.
static int32_t set_switches(const ptc_work_t *work, uint64_t switches, ptc_choice_t *choice) {
  int32_t count = 0;
  memset(choice->names, 0, sizeof(choice->names));
  for (int32_t i = 0; i < work->num_names; i++) {
    const uint32_t pieces = work->names[i].pieces;
    for (uint32_t left = pieces; left;
         left = work->names[i].shared ? 0 : left & (left - 1), count++)
      for (int32_t p = 0; p < work->num_pieces && (switches >> (count & 63) & 1); p++)
        if ((work->names[i].shared ? pieces : left & -left) >> p & 1)
          choice->names[p] |= UINT32_C(1) << i;
  }
  return count;
}

void plan_random_names(const ptc_work_t *work, uint64_t *seed, ptc_choice_t *choice) {
  choice->sequence_parallel = unit_random(seed) % 2;
  choice->recompute = (int32_t)(unit_random(seed) % PTC_NUM_RECOMPUTE_MODES);
  const uint64_t switches = unit_random(seed);
  set_switches(work, switches, choice);
  if (unit_random(seed) % 2) return;
  for (int i = 0; i < PTC_MAX_PIECES; i++)
    choice->names[i] = (uint32_t)(switches % (UINT64_C(1) << work->num_names));
}

uint32_t plan_names(const ptc_work_t *work, const char *text) {
  char copy[256];
  snprintf(copy, sizeof(copy), "%s", text);
  uint32_t set = 0;
  char *rest = NULL;
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    set |= ptc_work_find_names(work, word, strlen(word));
  return set;
}

// --- the front

static bool beats(const plan_point_t *a, const plan_point_t *b) {
  return a->seconds <= b->seconds && a->memory <= b->memory;
}

static void keep(plan_front_t *front, const plan_point_t *point) {
  int32_t left = 0;
  for (int32_t i = 0; i < front->count; i++)
    if (beats(&front->points[i], point)) return;
  for (int32_t i = 0; i < front->count; i++)
    if (!beats(point, &front->points[i])) front->points[left++] = front->points[i];
  if (left == front->capacity) {
    front->capacity = front->capacity ? 2 * front->capacity : 64;
    front->points = ptc_xrealloc(front->points, sizeof(*front->points) * (size_t)front->capacity);
  }
  int32_t at = left;
  for (; at > 0 && front->points[at - 1].seconds > point->seconds; at--)
    front->points[at] = front->points[at - 1];
  front->points[at] = *point;
  front->count = left + 1;
}

void plan_front_end(plan_front_t *front) {
  free(front->points);
  *front = (plan_front_t){0};
}

const plan_point_t *plan_front_best(const plan_front_t *front, double bytes) {
  for (int32_t i = 0; i < front->count; i++)
    if (front->points[i].memory <= bytes) {
      plan_point_t *p = &front->points[i];
      if (p->choice.cuts) p->choice.cuts = p->cuts;  // the point has moved
      return p;
    }
  return NULL;
}

// --- the walk

typedef struct walk_s {
  const ptc_work_t *work;
  const ptc_cluster_t *cluster;
  const ptc_stack_t *stack;
  const plan_space_t *space;
  const ptc_work_pieces_t *pieces;
  ptc_piece_time_t times[PTC_MAX_PIECES];
  int64_t turns;  // of all repeats
  plan_front_t *front;
} walk_t;

// Turns of the stage that has most.
static int64_t most_turns(const walk_t *w, const ptc_choice_t *choice,
                          const ptc_part_range_t *parts) {
  const int64_t stages = choice->size[PTC_AXIS_PP], num_parts = stages * choice->chunks;
  int64_t most = 0;
  for (int64_t stage = 0; stage < stages && num_parts > 1; stage++) {
    int64_t own = 0;
    for (int64_t p = stage; p < num_parts; p += stages) own += parts[p].to - parts[p].from;
    if (own > most) most = own;
  }
  return num_parts > 1 ? most : w->turns;
}

static void judge(walk_t *w, const ptc_choice_t *choice) {
  ptc_prediction_t p;
  ptc_part_range_t parts[PTC_MAX_PARTS];
  ptc_stage_pieces_t stages[PTC_MAX_STAGES];
  if (!ptc_predict_stages(w->pieces, w->times, w->cluster, w->stack, choice, parts, stages)) return;
  // So many are all of them.
  if (choice->recompute_turns >= most_turns(w, choice, parts)) return;
  w->front->predictions++;
  ptc_predict_timed(w->pieces, w->times, parts, stages, w->cluster, w->stack, choice, NULL, &p);
  plan_point_t point = {.choice = *choice, .seconds = p.step_s, .memory = p.memory_bytes};
  if (choice->cuts)
    memcpy(point.cuts, choice->cuts, sizeof(*choice->cuts) * (size_t)choice->num_cuts);
  keep(w->front, &point);
}

// All ascending cuts from the one at |at| on.
static void walk_cuts(walk_t *w, ptc_choice_t *choice, int64_t *cuts, int32_t at) {
  if (at == choice->num_cuts) {
    judge(w, choice);
    return;
  }
  const int64_t last = w->turns - (choice->num_cuts - at);
  for (cuts[at] = at ? cuts[at - 1] + 1 : 1; cuts[at] <= last; cuts[at]++)
    walk_cuts(w, choice, cuts, at + 1);
}

static void walk_turns(walk_t *w, ptc_choice_t choice) {
  const int64_t parts = choice.size[PTC_AXIS_PP] * choice.chunks;
  int64_t cuts[PLAN_MAX_CUTS], even_cuts[PLAN_MAX_CUTS];
  const bool even = parts > 1 && w->turns % parts == 0 && parts - 1 <= PLAN_MAX_CUTS;
  if (w->space->even_cuts && parts > 1 && !even) return;
  ptc_choice_t evenly = choice;
  if (even) {
    for (int64_t p = 1; p < parts; p++) even_cuts[p - 1] = p * (w->turns / parts);
    evenly.cuts = even_cuts;
    evenly.num_cuts = (int32_t)parts - 1;
  }
  if (w->space->even_cuts) choice = evenly;
  const bool some = choice.recompute != PTC_RECOMPUTE_NONE && !w->space->whole_turns;
  for (int64_t turns = -1; turns < (some ? w->turns : 0); turns++) {
    if (turns == 0) continue;  // that is none
    choice.recompute_turns = evenly.recompute_turns = turns;
    judge(w, &choice);
    if (even && !w->space->even_cuts) judge(w, &evenly);
    if (!w->space->all_cuts || parts == 1 || parts > w->turns || parts - 1 > PLAN_MAX_CUTS)
      continue;
    ptc_choice_t cut = choice;
    cut.cuts = cuts;
    cut.num_cuts = (int32_t)parts - 1;
    walk_cuts(w, &cut, cuts, 0);
  }
}

static void walk_schedules(walk_t *w, ptc_choice_t choice) {
  const int64_t pp = choice.size[PTC_AXIS_PP];
  for (int64_t zero = 0; zero < 4; zero++) {
    if (!(w->space->zeros >> zero & 1)) continue;
    choice.zero = zero;
    for (int kind = 0; kind < PTC_NUM_SCHEDULES; kind++) {
      choice.schedule = (ptc_schedule_kind_t)kind;
      const bool in_chunks = kind == PTC_SCHEDULE_INTERLEAVED;
      // Interleaving needs stages, and whole rounds of them.
      if (in_chunks && (pp == 1 || w->pieces->micro_batches % pp)) continue;
      const int64_t most = in_chunks ? w->turns / pp : 1;
      for (choice.chunks = in_chunks ? 2 : 1; choice.chunks <= most; choice.chunks++)
        walk_turns(w, choice);
    }
  }
}

static void walk_layout(walk_t *w, ptc_choice_t choice) {
  const int64_t together = choice.size[PTC_AXIS_DP] * choice.size[PTC_AXIS_EP] * choice.micro_batch;
  if (w->work->batch % together) return;
  for (choice.recompute = 0; choice.recompute < PTC_NUM_RECOMPUTE_MODES; choice.recompute++) {
    ptc_arena_t arena = {0};
    ptc_work_pieces_t pieces;
    w->front->layouts++;
    if (ptc_layout_pieces(w->work, &arena, &choice, w->stack->saves, &pieces) == PTC_OK) {
      w->pieces = &pieces;
      ptc_predict_pieces(&pieces, w->cluster, w->stack, &choice, w->times);
      w->turns = 0;
      for (int32_t i = 0; i < pieces.count; i++)
        if (pieces.items[i].count > 1) w->turns += pieces.items[i].count;
      walk_schedules(w, choice);
    }
    ptc_arena_deinit(&arena);
  }
}

static void walk_names(walk_t *w, ptc_choice_t choice) {
  const bool split = choice.size[PTC_AXIS_TP] > 1;
  const int64_t all =
      w->space->sets ? w->space->num_sets : (int64_t)1 << set_switches(w->work, 0, &choice);
  for (int64_t n = 0; n < (split ? all : 1); n++) {
    set_switches(w->work, split ? (uint64_t)n : 0, &choice);
    if (split && w->space->sets)
      for (int32_t i = 0; i < PTC_MAX_PIECES; i++) choice.names[i] = w->space->sets[n];
    for (int sp = 0; sp < (split ? 2 : 1); sp++) {
      choice.sequence_parallel = sp;
      for (choice.micro_batch = 1; choice.micro_batch <= w->work->batch; choice.micro_batch++)
        walk_layout(w, choice);
    }
  }
}

static void walk_axes(walk_t *w, ptc_choice_t choice, int axis, int64_t left) {
  if (axis == PTC_NUM_DEVICE_AXES) {
    if (left == 1) walk_names(w, choice);
    return;
  }
  const int64_t fixed = w->space->size[axis], most = w->space->most_tp;
  for (int64_t n = 1; n <= left; n++) {
    if (left % n || (fixed && fixed != n) || (axis == PTC_AXIS_TP && most && n > most)) continue;
    choice.size[axis] = n;
    walk_axes(w, choice, axis + 1, left / n);
  }
}

void plan_space_walk(const ptc_work_t *work, const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                     const plan_space_t *space, plan_front_t *out) {
  *out = (plan_front_t){0};
  walk_t walk = {.work = work, .cluster = cluster, .stack = stack, .space = space, .front = out};
  walk_axes(&walk, (ptc_choice_t){.chunks = 1, .recompute_turns = -1}, 0, space->devices);
}

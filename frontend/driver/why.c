#include "frontend/driver/why.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/base/str.h"
#include "passes/planner/cuts.h"
#include "passes/planner/rule.h"
#include "passes/split_stages.h"

// --- one choice

// By the rule no seconds are predicted, but bytes.
static void to_bytes(json_t *all, const ptc_planner_t *p, const ptc_candidate_t *c) {
  const ptc_prediction_t *t = &c->predicted;
  static const char *const seconds[] = {"step_s",      "tokens_per_s", "mfu",       "compute_s",
                                        "recompute_s", "bubble_s",     "exposed_s", "optimizer_s"};
  for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++) json_object_del(all, seconds[i]);
  const double work = t->compute_s + t->recompute_s + t->optimizer_s;
  json_t *sent = json_object();
  double bytes[PTC_NUM_DEVICE_AXES];
  ptc_rule_sent(p, c, bytes);
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    json_object_set_new(sent, ptc_device_axis_names[a], json_real(bytes[a]));
  json_object_set_new(all, "cost_bytes", json_real(t->step_s * ptc_rule_rate));
  json_object_set_new(all, "work_bytes", json_real(work * ptc_rule_rate));
  json_object_set_new(all, "sent_bytes", sent);
  json_object_set_new(all, "bubble_bytes", json_real(t->bubble_s * ptc_rule_rate));
}

json_t *ptc_why_candidate(const ptc_planner_t *p, const ptc_candidate_t *c) {
  ptc_str_t text = {0};
  ptc_choice_print(p->work, &c->choice, &text);
  ptc_str_t recompute = {0};
  ptc_choice_print_recompute(&c->choice, &recompute);
  const ptc_prediction_t *t = &c->predicted;
  json_t *exposed = json_object(), *sizes = json_object();
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) {
    json_object_set_new(exposed, ptc_device_axis_names[a], json_real(t->exposed_s[a]));
    json_object_set_new(sizes, ptc_device_axis_names[a], json_integer(c->choice.size[a]));
  }
  json_t *all = json_pack(
      "{s:s, s:o, s:I, s:I, s:b, s:s, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:f}",
      "choice", text.data, "axes", sizes, "zero", (json_int_t)c->choice.zero, "micro_batch",
      (json_int_t)c->choice.micro_batch, "sequence_parallel", (int)c->choice.sequence_parallel,
      "schedule", ptc_schedule_name(c->choice.schedule), "chunks", (json_int_t)c->choice.chunks,
      "recompute", recompute.data, "step_s", t->step_s, "tokens_per_s", t->tokens_per_s, "mfu",
      t->mfu, "compute_s", t->compute_s, "recompute_s", t->recompute_s, "exposed_s", exposed,
      "bubble_s", t->bubble_s, "optimizer_s", t->optimizer_s, "memory_bytes", t->memory_bytes,
      "capacity_bytes", t->capacity_bytes);
  ptc_str_deinit(&text);
  ptc_str_deinit(&recompute);
  if (p->rule) to_bytes(all, p, c);
  json_t *cuts = json_array();
  for (int32_t i = 0; i < c->choice.num_cuts; i++)
    json_array_append_new(cuts, json_integer(c->choice.cuts[i]));
  if (c->choice.cuts) json_object_set(all, "cuts", cuts);
  if (t->bubble_s > 0 && !p->rule)
    json_object_set_new(all, "waits",
                        json_pack("{s:i, s:f, s:f, s:f}", "slowest_stage", (int)t->slowest_stage,
                                  "fill_s", t->fill_s, "wait_s", t->wait_s, "drain_s", t->drain_s));
  json_decref(cuts);
  return all;
}

// --- alternatives

ptc_status_t ptc_why_search(const ptc_planner_t *p, const ptc_fixed_t *fixed, ptc_arena_t *arena,
                            ptc_search_result_t *out) {
  return ptc_search(p->work, p->cluster, p->stack, fixed, p->devices, p->objective, arena, out);
}

// Which part of a step grows most, and by how many seconds; NULL: none does.
static const char *cause_of(const ptc_prediction_t *a, const ptc_prediction_t *b,
                            double *out_seconds) {
  const struct {
    const char *what;
    double more;
  } parts[] = {{"compute", a->compute_s - b->compute_s},
               {"recompute", a->recompute_s - b->recompute_s},
               {"tp", a->exposed_s[PTC_AXIS_TP] - b->exposed_s[PTC_AXIS_TP]},
               {"cp", a->exposed_s[PTC_AXIS_CP] - b->exposed_s[PTC_AXIS_CP]},
               {"ep", a->exposed_s[PTC_AXIS_EP] - b->exposed_s[PTC_AXIS_EP]},
               {"gradients and parameters", a->exposed_s[PTC_AXIS_DP] - b->exposed_s[PTC_AXIS_DP]},
               {"sends", a->exposed_s[PTC_AXIS_PP] - b->exposed_s[PTC_AXIS_PP]},
               {"bubble", a->bubble_s - b->bubble_s},
               {"update", a->optimizer_s - b->optimizer_s}};
  int32_t most = 0;
  for (int32_t i = 1; i < (int32_t)(sizeof(parts) / sizeof(*parts)); i++)
    if (parts[i].more > parts[most].more) most = i;
  *out_seconds = parts[most].more;
  return parts[most].more > 0 ? parts[most].what : NULL;
}

json_t *ptc_why_alternative(const ptc_planner_t *p, const char *setting,
                            const ptc_search_result_t *other, ptc_status_t status) {
  json_t *all = json_pack("{s:s}", "setting", setting);
  if (status != PTC_OK) {
    json_object_set_new(all, "outcome", json_string("impossible"));
    return all;
  }
  const ptc_prediction_t *a = &other->best.predicted;
  ptc_str_t text = {0};
  ptc_choice_print(p->work, &other->best.choice, &text);
  json_object_set_new(all, "outcome", json_string(other->feasible ? "possible" : "memory"));
  json_object_set_new(all, "choice", json_string(text.data));
  json_object_set_new(all, "memory_bytes", json_real(a->memory_bytes));
  ptc_str_deinit(&text);
  if (!other->feasible) {
    json_object_set_new(all, "short_bytes", json_real(a->memory_bytes - a->capacity_bytes));
    return all;
  }
  if (p->within_s > 0 && a->step_s > p->within_s) {
    json_object_set_new(all, "outcome", json_string("late"));
    json_object_set_new(all, "late_s", json_real(a->step_s - p->within_s));
  }
  double seconds;
  const char *cause = cause_of(a, &p->found.best.predicted, &seconds);
  json_object_set_new(all, "loss", json_real(other->best.value / p->found.best.value - 1));
  const bool rule = p->rule;
  const double unit = rule ? ptc_rule_rate : 1;
  json_object_set_new(all, rule ? "cost_bytes" : "step_s", json_real(a->step_s * unit));
  if (rule)
    json_object_set_new(all, "more_bytes",
                        json_real((a->step_s - p->found.best.predicted.step_s) * unit));
  if (cause) {
    json_object_set_new(all, "cause", json_string(cause));
    json_object_set_new(all, rule ? "cause_bytes" : "cause_s", json_real(seconds * unit));
  }
  return all;
}

// --- decisions

enum { MOST_MESHES = 64, SHOWN_MESHES = 8 };

typedef struct why_s {
  const ptc_planner_t *p;
  const ptc_module_t *module;
  json_t *decisions, *alternatives;  // of the decision at hand
  int64_t meshes[MOST_MESHES]
                [PTC_NUM_DEVICE_AXES];  // of the alternatives; the choice's is the first
  int32_t num_meshes;
} why_t;

static void note_mesh(why_t *w, const int64_t *size) {
  for (int32_t i = 0; i < w->num_meshes; i++)
    if (memcmp(w->meshes[i], size, sizeof(*w->meshes)) == 0) return;
  if (w->num_meshes < MOST_MESHES) memcpy(w->meshes[w->num_meshes++], size, sizeof(*w->meshes));
}

static json_t *new_decision(json_t *decisions, const char *name, const char *value, const char *by,
                            const char *place) {
  json_t *decision = json_pack("{s:s, s:s, s:s, s:o}", "name", name, "value", value, "by", by,
                               "alternatives", json_array());
  if (place) json_object_set_new(decision, "place", json_string(place));
  json_array_append_new(decisions, decision);
  return json_object_get(decision, "alternatives");
}

// The best plan on |devices| with what is |fixed|.
static void weigh_on(why_t *w, int64_t devices, const ptc_fixed_t *fixed, const char *name,
                     const char *value) {
  const ptc_planner_t *p = w->p;
  ptc_arena_t arena = {0};
  ptc_search_result_t *other = PTC_ARENA_NEW(&arena, ptc_search_result_t);
  const ptc_status_t status =
      ptc_search(p->work, p->cluster, p->stack, fixed, devices, p->objective, &arena, other);
  const char *setting = ptc_arena_printf(&arena, "%s=%s", name, value);
  json_array_append_new(w->alternatives, ptc_why_alternative(p, setting, other, status));
  if (status == PTC_OK && other->feasible && devices == p->devices)
    note_mesh(w, other->best.choice.size);
  ptc_arena_deinit(&arena);
}

static void weigh(why_t *w, const ptc_fixed_t *fixed, const char *name, const char *value) {
  weigh_on(w, w->p->devices, fixed, name, value);
}

static void weigh_int(why_t *w, const ptc_fixed_t *fixed, const char *name, int64_t value) {
  char text[32];
  snprintf(text, sizeof(text), "%" PRId64, value);
  weigh(w, fixed, name, text);
}

// The decision about train.|name|: |fixed| where it was given; |freed| is what is fixed without it (NULL: the planner
// never decides it). Whether it was open, so that it has alternatives.
static bool decide(why_t *w, const char *name, const char *value, bool fixed,
                   const ptc_fixed_t *freed) {
  char full[64];
  snprintf(full, sizeof(full), "train.%s", name);
  const ptc_origin_t *origin = ptc_module_find_origin(w->module, full);
  const bool given = fixed && origin;
  w->alternatives = new_decision(w->decisions, name, value,
                                 !fixed  ? w->p->origin
                                 : given ? "user"
                                         : "default",
                                 given ? origin->place : NULL);
  if (fixed && freed) weigh(w, freed, name, "auto");
  return !fixed;
}

static bool decide_int(why_t *w, const char *name, int64_t value, bool fixed,
                       const ptc_fixed_t *freed) {
  char text[32];
  snprintf(text, sizeof(text), "%" PRId64, value);
  return decide(w, name, text, fixed, freed);
}

// The counts beside the least one: what the smaller lacks, what the larger gains.
static void add_devices(why_t *w) {
  const ptc_planner_t *p = w->p;
  if (p->objective != PTC_OBJECTIVE_DEVICES) return;
  decide_int(w, "devices", p->devices, false, NULL);
  int64_t before = 0;
  for (int64_t n = ptc_devices_after(p->cluster, 0); n > 0 && n < p->devices;
       n = ptc_devices_after(p->cluster, n))
    before = n;
  const int64_t others[2] = {before, ptc_devices_after(p->cluster, p->devices)};
  for (int i = 0; i < 2; i++) {
    if (others[i] == 0) continue;
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64, others[i]);
    weigh_on(w, others[i], &p->fixed, "devices", text);
  }
}

static void add_sizes(why_t *w) {
  const ptc_choice_t *c = &w->p->found.best.choice;
  for (int32_t a = PTC_NUM_DEVICE_AXES - 1; a >= 0; a--) {
    const char *name = ptc_device_axis_names[a];
    ptc_fixed_t freed = w->p->fixed;
    freed.size[a] = 0;
    if (!decide_int(w, name, c->size[a], w->p->fixed.size[a] > 0, &freed)) continue;
    const int64_t others[2] = {c->size[a] / 2, c->size[a] * 2};
    for (int i = 0; i < 2; i++) {
      if (others[i] < 1 || w->p->devices % others[i]) continue;
      if (a == PTC_AXIS_EP && c->size[a] == 1 && c->size[PTC_AXIS_DP] == 1) continue;
      ptc_fixed_t with = w->p->fixed;
      with.size[a] = others[i];
      weigh_int(w, &with, name, others[i]);
    }
  }
}

static void names_of(const ptc_work_t *work, const uint32_t *names, ptc_str_t *out) {
  ptc_choice_print_names(work, names, out);
  if (out->len == 0) ptc_str_append(out, "nothing");
}

// What lies on tp: the same without one of the names.
static void add_names(why_t *w) {
  const ptc_choice_t *c = &w->p->found.best.choice;
  const ptc_work_t *work = w->p->work;
  if (c->size[PTC_AXIS_TP] == 1) return;
  uint32_t set = 0;
  for (int32_t p = 0; p < work->num_pieces; p++) set |= c->names[p];
  ptc_str_t text = {0};
  names_of(work, c->names, &text);
  ptc_fixed_t freed = w->p->fixed;
  freed.has_names = false;
  const bool open = decide(w, "tp_dims", text.data, w->p->fixed.has_names, &freed);
  for (int32_t i = 0; i < work->num_names && open; i++) {
    if (!(set >> i & 1)) continue;
    ptc_fixed_t with = w->p->fixed;
    with.has_names = true;
    for (int32_t p = 0; p < PTC_MAX_PIECES; p++) with.names[p] = c->names[p] & ~(1u << i);
    ptc_str_t less = {0};
    names_of(work, with.names, &less);
    weigh(w, &with, "tp_dims", less.data);
    ptc_str_deinit(&less);
  }
  ptc_str_deinit(&text);
}

static void add_memory(why_t *w) {
  const ptc_fixed_t *fixed = &w->p->fixed;
  const ptc_choice_t *c = &w->p->found.best.choice;
  ptc_fixed_t any_zero = *fixed, any_mode = *fixed;
  any_zero.zero = any_mode.recompute = -1;
  any_mode.recompute_every = 0;
  const bool open = decide_int(w, "zero", c->zero, fixed->zero >= 0, &any_zero);
  for (int64_t zero = 0; zero <= 3 && open; zero++) {
    if (zero == c->zero) continue;
    ptc_fixed_t with = *fixed;
    with.zero = zero;
    weigh_int(w, &with, "zero", zero);
  }
  ptc_str_t mode_text = {0};
  ptc_choice_print_recompute(c, &mode_text);
  const bool modes = decide(w, "recompute", mode_text.data, fixed->recompute >= 0, &any_mode);
  ptc_str_deinit(&mode_text);
  for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES && modes; mode++) {
    if (mode == c->recompute) continue;
    ptc_fixed_t with = *fixed;
    with.recompute = mode;
    weigh(w, &with, "recompute", ptc_recompute_names[mode]);
  }
}

static void add_batches(why_t *w) {
  const ptc_fixed_t *fixed = &w->p->fixed;
  const ptc_choice_t *c = &w->p->found.best.choice;
  ptc_fixed_t any_batch = *fixed, any_order = *fixed;
  any_batch.micro_batch = 0;
  any_order.sequence_parallel = -1;
  if (decide_int(w, "micro_batch", c->micro_batch, fixed->micro_batch > 0, &any_batch)) {
    const int64_t others[2] = {c->micro_batch / 2, c->micro_batch * 2};
    for (int i = 0; i < 2; i++) {
      if (others[i] < 1 || w->p->work->batch % others[i]) continue;
      ptc_fixed_t with = *fixed;
      with.micro_batch = others[i];
      weigh_int(w, &with, "micro_batch", others[i]);
    }
  }
  if (c->size[PTC_AXIS_TP] == 1) return;
  if (!decide(w, "sequence_parallel", c->sequence_parallel ? "on" : "off",
              fixed->sequence_parallel >= 0, &any_order))
    return;
  ptc_fixed_t with = *fixed;
  with.size[PTC_AXIS_TP] = c->size[PTC_AXIS_TP];
  with.sequence_parallel = !c->sequence_parallel;
  weigh(w, &with, "sequence_parallel", c->sequence_parallel ? "off" : "on");
}

// Where the pipeline is cut: beside the cuts with as many turns in each part.
static void add_cuts(why_t *w) {
  const ptc_choice_t *c = &w->p->found.best.choice;
  if (!c->cuts) return;
  ptc_str_t text = {0};
  ptc_cuts_print(w->p->work, w->p->cluster, c, &text);
  ptc_fixed_t freed = w->p->fixed;
  freed.cuts = NULL;
  freed.num_cuts = 0;
  if (decide(w, "cut", text.data, w->p->given_cuts, &freed)) {
    const int64_t turns = ptc_cuts_turns(w->p->work);
    int64_t even[PTC_SPLIT_MAX_PARTS];
    for (int32_t i = 0; i < c->num_cuts; i++) even[i] = turns * (i + 1) / (c->num_cuts + 1);
    ptc_fixed_t with = w->p->fixed;
    with.cuts = even;
    with.num_cuts = c->num_cuts;
    weigh(w, &with, "cut", "even");
  }
  ptc_str_deinit(&text);
}

static void add_schedule(why_t *w) {
  const ptc_fixed_t *fixed = &w->p->fixed;
  const ptc_choice_t *c = &w->p->found.best.choice;
  if (c->size[PTC_AXIS_PP] == 1) return;
  add_cuts(w);
  ptc_fixed_t freed = *fixed;
  freed.schedule = -1;
  freed.chunks = 0;
  const bool open =
      decide(w, "schedule", ptc_schedule_name(c->schedule), fixed->schedule >= 0, &freed);
  for (int32_t kind = 0; kind < PTC_NUM_SCHEDULES && open; kind++) {
    if (kind == (int32_t)c->schedule) continue;
    ptc_fixed_t with = *fixed;
    with.schedule = kind;
    weigh(w, &with, "schedule", ptc_schedule_name((ptc_schedule_kind_t)kind));
  }
  if (c->schedule != PTC_SCHEDULE_INTERLEAVED) return;
  freed.schedule = fixed->schedule;
  if (!decide_int(w, "chunks", c->chunks, fixed->chunks > 0, &freed)) return;
  for (int64_t chunks = c->chunks > 2 ? c->chunks - 1 : 2; chunks <= c->chunks + 1; chunks++) {
    if (chunks == c->chunks) continue;
    ptc_fixed_t with = *fixed;
    with.schedule = PTC_SCHEDULE_INTERLEAVED;
    with.chunks = chunks;
    weigh_int(w, &with, "chunks", chunks);
  }
}

// What the planner leaves alone: as the user gave it, or the default.
static void add_rest(why_t *w) {
  static const char *const words[][2] = {{"cp_attention", "auto"}, {"cp_order", "contiguous"}};
  const ptc_attrs_t *config = &w->module->config;
  for (int32_t i = 0; i < 2 && w->p->found.best.choice.size[PTC_AXIS_CP] > 1; i++)
    decide(w, words[i][0], ptc_attrs_string(config, words[i][0], words[i][1]), true, NULL);
  decide(w, "overlap", ptc_attrs_bool(config, "overlap", false) ? "on" : "off", true, NULL);
}

json_t *ptc_why_gap(const ptc_planner_t *p) {
  const ptc_search_result_t *found = &p->found;
  const double unit = p->rule ? ptc_rule_rate : 1;
  if (found->uncertified)
    return json_pack("{s:n, s:n, s:s}", "gap", "bound", "uncertified", found->uncertified);
  return json_pack("{s:f, s:f}", "gap", found->gap, "bound", found->bound * unit);
}

// The best of each mesh that an alternative took, best first. A search prunes what is worse than its best, so that what it
// met of other meshes is no measure of them: each is searched for itself.
static json_t *meshes_of(const why_t *w) {
  const ptc_planner_t *p = w->p;
  ptc_arena_t arena = {0};
  ptc_search_result_t *found = PTC_ARENA_NEW(&arena, ptc_search_result_t);
  ptc_candidate_t *best = PTC_ARENA_ARRAY(&arena, ptc_candidate_t, MOST_MESHES);
  int32_t count = 0;
  for (int32_t i = 1; i < w->num_meshes; i++) {
    ptc_fixed_t fixed = p->fixed;
    memcpy(fixed.size, w->meshes[i], sizeof(fixed.size));
    if (ptc_why_search(p, &fixed, &arena, found) != PTC_OK || !found->feasible) continue;
    int32_t at = count++;
    for (; at > 0 && best[at - 1].value > found->best.value; at--) best[at] = best[at - 1];
    best[at] = found->best;
  }
  json_t *meshes = json_array();
  for (int32_t i = 0; i < count && i < SHOWN_MESHES; i++) {
    json_t *mesh = ptc_why_candidate(p, &best[i]);
    json_object_set_new(mesh, "loss", json_real(best[i].value / p->found.best.value - 1));
    if (p->rule)
      json_object_set_new(mesh, "more_bytes",
                          json_real((best[i].value - p->found.best.value) * ptc_rule_rate));
    json_array_append_new(meshes, mesh);
  }
  ptc_arena_deinit(&arena);
  return meshes;
}

json_t *ptc_why_new(const ptc_planner_t *p, const ptc_module_t *module) {
  why_t w = {.p = p, .module = module, .decisions = json_array()};
  note_mesh(&w, p->found.best.choice.size);
  add_devices(&w);
  add_sizes(&w);
  add_names(&w);
  add_memory(&w);
  add_batches(&w);
  add_schedule(&w);
  add_rest(&w);
  json_t *all = json_pack(
      "{s:b, s:b, s:s, s:I, s:I, s:s, s:f, s:o, s:o, s:o}", "planner", 1, "rule", (int)p->rule,
      "cluster", p->cluster->name, "devices", (json_int_t)p->cluster->num_devices, "used",
      (json_int_t)p->devices, "objective", ptc_objective_names[p->objective], "value",
      p->found.best.value * (p->rule ? ptc_rule_rate : 1), "best",
      ptc_why_candidate(p, &p->found.best), "decisions", w.decisions, "meshes", meshes_of(&w));
  json_object_update_new(all, ptc_why_gap(p));
  return all;
}

json_t *ptc_why_of_settings(const ptc_plan_t *plan) {
  static const char *const split[] = {
      "world",    "pp",           "dp",       "ep",     "cp",        "tp",
      "zero",     "micro_batch",  "schedule", "chunks", "recompute", "sequence_parallel",
      "cp_order", "cp_attention", "shard",    "cut",    "overlap",   "tp_dims"};
  json_t *decisions = json_array();
  for (int32_t i = 0; i < plan->num_settings; i++) {
    const ptc_plan_setting_t *setting = &plan->settings[i];
    if (strncmp(setting->name, "train.", 6) != 0) continue;
    const char *name = setting->name + 6;
    for (size_t k = 0; k < sizeof(split) / sizeof(*split); k++) {
      if (strcmp(name, split[k]) != 0) continue;
      const bool by_default = strcmp(setting->origin, "default") == 0;
      const bool by_rule = strcmp(setting->origin, "rule") == 0;
      const char *by = by_default ? "default" : by_rule ? "rule" : "user";
      new_decision(decisions, name, setting->value, by,
                   by_default || by_rule ? NULL : setting->origin);
    }
  }
  return json_pack("{s:b, s:I, s:o, s:o}", "planner", 0, "devices",
                   (json_int_t)ptc_plan_world(plan), "decisions", decisions, "meshes",
                   json_array());
}

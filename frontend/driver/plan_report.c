#include "frontend/driver/plan_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/units.h"
#include "ir/base/str.h"

static void print_choice(const ptc_planner_t *p, const ptc_choice_t *choice, FILE *out) {
  ptc_str_t text = {0};
  ptc_choice_print(p->work, choice, &text);
  fputs(text.data ? text.data : "", out);
  ptc_str_deinit(&text);
}

static void print_time(const ptc_prediction_t *t, FILE *out) {
  fprintf(out, "  step       %.4g s: compute %.1f %%", t->step_s, 100 * t->compute_s / t->step_s);
  if (t->recompute_s > 0) fprintf(out, ", recompute %.1f %%", 100 * t->recompute_s / t->step_s);
  for (int32_t a = PTC_NUM_DEVICE_AXES - 1; a >= 0; a--)
    if (t->exposed_s[a] > 0)
      fprintf(out, ", waiting for %s %.1f %%",
              a == PTC_AXIS_PP ? "sends" : ptc_device_axis_names[a],
              100 * t->exposed_s[a] / t->step_s);
  if (t->bubble_s > 0) fprintf(out, ", bubble %.1f %%", 100 * t->bubble_s / t->step_s);
  fprintf(out, ", update %.1f %%\n", 100 * t->optimizer_s / t->step_s);
  fprintf(out,
          "  speed      %.4g tokens/s, %.1f %% of the devices' peak in model FLOPs (what masks "
          "hide left out)\n",
          t->tokens_per_s, 100 * t->mfu);
}

static void print_memory(const ptc_prediction_t *m, FILE *out) {
  fprintf(out,
          "  memory     %.2f of %.2f GB on stage %d: parameters %.2f, gradients %.2f, states %.2f, "
          "saved %.2f, "
          "temporary %.2f, context and buffers %.2f\n",
          m->memory_bytes / 1e9, m->capacity_bytes / 1e9, (int)m->worst_stage,
          m->params_bytes / 1e9, m->grads_bytes / 1e9, m->states_bytes / 1e9, m->saved_bytes / 1e9,
          m->temp_bytes / 1e9, m->fixed_bytes / 1e9);
}

void ptc_plan_report(const ptc_planner_t *p, FILE *out) {
  const ptc_candidate_t *best = &p->found.best;
  fprintf(out, "ptc: planned for %s, %" PRId64 " devices: ", p->cluster->name,
          p->cluster->num_devices);
  print_choice(p, &best->choice, out);
  fprintf(out, "\n");
  print_time(&best->predicted, out);
  print_memory(&best->predicted, out);
  fprintf(out,
          "  search     %" PRId64 " layouts, %" PRId64 " predictions, %" PRId64 " pruned, %.3f s\n",
          p->found.layouts, p->found.predictions, p->found.pruned, p->seconds[0] + p->seconds[1]);
}

// --- why

// Against the chosen plan: "+12.3 % time" or what keeps it out.
static void print_loss(const ptc_planner_t *p, const ptc_search_result_t *other,
                       ptc_status_t status, FILE *out) {
  const ptc_candidate_t *best = &p->found.best;
  if (status != PTC_OK) {
    fprintf(out, "not possible: no sizes that multiply to the devices and divide the batch\n");
    return;
  }
  if (!other->feasible) {
    fprintf(out, "%.2f GB too much memory at best (",
            (other->best.predicted.memory_bytes - other->best.predicted.capacity_bytes) / 1e9);
    print_choice(p, &other->best.choice, out);
    fprintf(out, ")\n");
    return;
  }
  const double loss = other->best.value / best->value - 1;
  const ptc_prediction_t *a = &other->best.predicted, *b = &best->predicted;
  fprintf(out, "%+.1f %%", 100 * loss);
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
               {"bubble", a->bubble_s - b->bubble_s}};
  int32_t most = 0;
  for (int32_t i = 1; i < (int32_t)(sizeof(parts) / sizeof(*parts)); i++)
    if (parts[i].more > parts[most].more) most = i;
  if (parts[most].more > 0) fprintf(out, ", most of it %s", parts[most].what);
  fprintf(out, "  (");
  print_choice(p, &other->best.choice, out);
  fprintf(out, ")\n");
}

static ptc_status_t search_with(const ptc_planner_t *p, const ptc_fixed_t *fixed,
                                ptc_arena_t *arena, ptc_search_result_t *out) {
  int64_t devices = 1;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) devices *= p->found.best.choice.size[a];
  return ptc_search(p->work, p->cluster, p->stack, fixed, devices, p->objective, arena, out);
}

static void print_alternative(const ptc_planner_t *p, const ptc_fixed_t *fixed, const char *what,
                              FILE *out) {
  ptc_arena_t arena = {0};
  ptc_search_result_t *other = PTC_ARENA_NEW(&arena, ptc_search_result_t);
  const ptc_status_t status = search_with(p, fixed, &arena, other);
  fprintf(out, "    %-24s ", what);
  print_loss(p, other, status, out);
  ptc_arena_deinit(&arena);
}

static void head(const char *name, const char *value, bool fixed, FILE *out) {
  fprintf(out, "  %s = %s, %s\n", name, value, fixed ? "given" : "chosen");
}

ptc_status_t ptc_plan_report_why(const ptc_planner_t *p, FILE *out) {
  const ptc_choice_t *c = &p->found.best.choice;
  char value[64], what[64];
  fprintf(out, "why: each decision, and the best plan with another one\n");
  for (int32_t a = PTC_NUM_DEVICE_AXES - 1; a >= 0; a--) {
    const bool fixed = p->fixed.size[a] > 0;
    snprintf(value, sizeof(value), "%" PRId64, c->size[a]);
    head(ptc_device_axis_names[a], value, fixed, out);
    if (fixed) continue;
    const int64_t others[2] = {c->size[a] / 2, c->size[a] * 2};
    for (int i = 0; i < 2; i++) {
      if (others[i] < 1 || p->cluster->num_devices % others[i]) continue;
      if (a == PTC_AXIS_EP && c->size[a] == 1 && c->size[PTC_AXIS_DP] == 1) continue;
      ptc_fixed_t with = p->fixed;
      with.size[a] = others[i];
      snprintf(what, sizeof(what), "%s=%" PRId64, ptc_device_axis_names[a], others[i]);
      print_alternative(p, &with, what, out);
    }
  }
  snprintf(value, sizeof(value), "%" PRId64, c->zero);
  head("zero", value, p->fixed.zero >= 0, out);
  for (int64_t zero = 0; zero <= 3 && p->fixed.zero < 0; zero++) {
    if (zero == c->zero) continue;
    ptc_fixed_t with = p->fixed;
    with.zero = zero;
    snprintf(what, sizeof(what), "zero=%" PRId64, zero);
    print_alternative(p, &with, what, out);
  }
  head("recompute", ptc_recompute_names[c->recompute], p->fixed.recompute >= 0, out);
  for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES && p->fixed.recompute < 0; mode++) {
    if (mode == c->recompute) continue;
    ptc_fixed_t with = p->fixed;
    with.recompute = mode;
    snprintf(what, sizeof(what), "recompute=%s", ptc_recompute_names[mode]);
    print_alternative(p, &with, what, out);
  }
  if (c->size[PTC_AXIS_PP] > 1) {
    head("schedule", ptc_schedule_name(c->schedule), p->fixed.schedule >= 0, out);
    for (int32_t kind = 0; kind < PTC_NUM_SCHEDULES && p->fixed.schedule < 0; kind++) {
      if (kind == (int32_t)c->schedule) continue;
      ptc_fixed_t with = p->fixed;
      with.schedule = kind;
      snprintf(what, sizeof(what), "schedule=%s", ptc_schedule_name((ptc_schedule_kind_t)kind));
      print_alternative(p, &with, what, out);
    }
  }
  fprintf(out, "  other meshes, best first\n");
  for (int32_t i = 0; i < p->found.num_top; i++) {
    const ptc_candidate_t *t = &p->found.top[i];
    fprintf(out, "    %+7.1f %%  %.4g s  %.1f GB  ", 100 * (t->value / p->found.best.value - 1),
            t->predicted.step_s, t->predicted.memory_bytes / 1e9);
    print_choice(p, &t->choice, out);
    fprintf(out, "\n");
  }
  return PTC_OK;
}

// --- why not

static bool apply_setting(ptc_fixed_t *fixed, const char *name, const char *value) {
  char *end;
  const int64_t number = strtoll(value, &end, 10);
  const bool is_number = end != value && !*end && number >= 0;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    if (strcmp(name, ptc_device_axis_names[a]) == 0) {
      fixed->size[a] = number;
      return is_number && number > 0;
    }
  if (strcmp(name, "zero") == 0) {
    fixed->zero = number;
    return is_number && number <= 3;
  }
  if (strcmp(name, "micro_batch") == 0) {
    fixed->micro_batch = number;
    return is_number && number > 0;
  }
  if (strcmp(name, "chunks") == 0) {
    fixed->chunks = number;
    return is_number && number > 0;
  }
  if (strcmp(name, "sequence_parallel") == 0) {
    fixed->sequence_parallel = strcmp(value, "on") == 0;
    return fixed->sequence_parallel || strcmp(value, "off") == 0;
  }
  if (strcmp(name, "schedule") == 0) {
    ptc_schedule_kind_t kind;
    if (!ptc_schedule_parse(value, &kind)) return false;
    fixed->schedule = kind;
    return true;
  }
  for (int32_t i = 0; strcmp(name, "recompute") == 0 && i < PTC_NUM_RECOMPUTE_MODES; i++)
    if (strcmp(value, ptc_recompute_names[i]) == 0) {
      fixed->recompute = i;
      return true;
    }
  return false;
}

ptc_status_t ptc_plan_report_why_not(ptc_diag_t *diag, const ptc_planner_t *p, const char *settings,
                                     FILE *out) {
  ptc_arena_t arena = {0};
  ptc_fixed_t fixed = p->fixed;
  char *text = ptc_arena_strdup(&arena, settings), *rest = NULL;
  for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    char *equals = strchr(word, '=');
    if (equals) *equals = '\0';
    if (equals && apply_setting(&fixed, word, equals + 1)) continue;
    const ptc_status_t status = ptc_error(
        diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "setting",
        "--why-not takes settings such as tp=4,zero=1,schedule=1f1b,recompute=full, not \"%s\"",
        settings);
    ptc_arena_deinit(&arena);
    return status;
  }
  fprintf(out, "why not %s: ", settings);
  ptc_search_result_t *other = PTC_ARENA_NEW(&arena, ptc_search_result_t);
  const ptc_status_t found = search_with(p, &fixed, &arena, other);
  print_loss(p, other, found, out);
  if (found == PTC_OK && other->feasible) {
    print_time(&other->best.predicted, out);
    print_memory(&other->best.predicted, out);
  }
  ptc_arena_deinit(&arena);
  return PTC_OK;
}

// --- json

static json_t *json_candidate(const ptc_planner_t *p, const ptc_candidate_t *c) {
  ptc_str_t text = {0};
  ptc_choice_print(p->work, &c->choice, &text);
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
      "recompute", ptc_recompute_names[c->choice.recompute], "step_s", t->step_s, "tokens_per_s",
      t->tokens_per_s, "mfu", t->mfu, "compute_s", t->compute_s, "recompute_s", t->recompute_s,
      "exposed_s", exposed, "bubble_s", t->bubble_s, "optimizer_s", t->optimizer_s, "memory_bytes",
      t->memory_bytes, "capacity_bytes", t->capacity_bytes);
  ptc_str_deinit(&text);
  return all;
}

ptc_status_t ptc_plan_report_json(const ptc_planner_t *p, FILE *out) {
  json_t *others = json_array();
  for (int32_t i = 0; i < p->found.num_top; i++)
    json_array_append_new(others, json_candidate(p, &p->found.top[i]));
  json_t *all = json_pack("{s:s, s:I, s:s, s:o, s:f, s:f, s:I, s:I, s:o}", "cluster",
                          p->cluster->name, "devices", (json_int_t)p->cluster->num_devices,
                          "objective", ptc_objective_names[p->objective], "best",
                          json_candidate(p, &p->found.best), "bound", p->found.bound, "seconds",
                          p->seconds[0] + p->seconds[1], "layouts", (json_int_t)p->found.layouts,
                          "predictions", (json_int_t)p->found.predictions, "meshes", others);
  const bool ok = all && json_dumpf(all, out, JSON_INDENT(1)) == 0 && fputc('\n', out) != EOF;
  json_decref(all);
  return ok ? PTC_OK : PTC_IO;
}

#include "frontend/driver/plan_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/units.h"
#include "ir/base/str.h"
#include "passes/planner/cuts.h"
#include "passes/planner/rule.h"

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

static void print_waits(const ptc_prediction_t *t, FILE *out) {
  if (t->bubble_s <= 0) return;
  fprintf(out,
          "  pipeline   stage %d is the slowest: it waits %.1f %% of the step for its first "
          "micro-batch, %.1f %% between its tasks, %.1f %% for the others at the end\n",
          (int)t->slowest_stage, 100 * t->fill_s / t->step_s, 100 * t->wait_s / t->step_s,
          100 * t->drain_s / t->step_s);
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

static void print_cuts(const ptc_planner_t *p, FILE *out) {
  const ptc_choice_t *choice = &p->found.best.choice;
  if (!choice->cuts) return;
  ptc_str_t text = {0};
  ptc_cuts_print(p->work, p->cluster, choice, &text);
  fprintf(out, "  %s     %s\n", choice->chunks > 1 ? "parts " : "stages", text.data);
  ptc_str_deinit(&text);
}

// By rule: what it costs, and the best of the other meshes.
static void report_rule(const ptc_planner_t *p, FILE *out) {
  json_t *all = json_pack("{s:I, s:o}", "used", (json_int_t)p->devices, "best",
                          ptc_why_candidate(p, &p->found.best));
  fputs("ptc: ", out);
  ptc_why_print_rule(all, out);
  json_decref(all);
  print_cuts(p, out);
  ptc_candidate_t next;
  if (!ptc_rule_next(p, &next)) return;
  char more[PTC_UNIT_CHARS];
  const double bytes = (next.value - p->found.best.value) * ptc_rule_rate;
  fprintf(out, "  next       ");
  print_choice(p, &next.choice, out);
  fprintf(out, ": %s more\n", ptc_unit_bytes((int64_t)bytes, more));
}

void ptc_plan_report(const ptc_planner_t *p, FILE *out) {
  if (p->rule) {
    report_rule(p, out);
    return;
  }
  const ptc_candidate_t *best = &p->found.best;
  fprintf(out, "ptc: planned for %s, %" PRId64, p->cluster->name, p->devices);
  if (p->devices < p->cluster->num_devices) fprintf(out, " of %" PRId64, p->cluster->num_devices);
  fprintf(out, " devices: ");
  print_choice(p, &best->choice, out);
  fprintf(out, "\n");
  print_time(&best->predicted, out);
  print_waits(&best->predicted, out);
  print_memory(&best->predicted, out);
  print_cuts(p, out);
  fprintf(out,
          "  search     %" PRId64 " layouts, %" PRId64 " predictions, %" PRId64 " pruned, %.3f s\n",
          p->found.layouts, p->found.predictions, p->found.pruned, p->seconds[0] + p->seconds[1]);
  json_t *gap = ptc_why_gap(p);
  fprintf(out, "  ");
  ptc_why_print_gap(gap, out);
  json_decref(gap);
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
    if (sscanf(value, "interleaved(chunks=%" SCNd64 ")", &fixed->chunks) == 1) {
      fixed->schedule = PTC_SCHEDULE_INTERLEAVED;
      return fixed->chunks > 0;
    }
    if (!ptc_schedule_parse(value, &kind)) return false;
    fixed->schedule = kind;
    return true;
  }
  for (int32_t i = 0; strcmp(name, "recompute") == 0 && i < PTC_NUM_RECOMPUTE_MODES; i++)
    if (strcmp(value, ptc_recompute_names[i]) == 0) {
      fixed->recompute = i;
      fixed->recompute_every = 0;
      return true;
    }
  int64_t every;
  if (strcmp(name, "recompute") == 0 && sscanf(value, "every(%" SCNd64 ")", &every) == 1 &&
      every > 0) {
    fixed->recompute = PTC_RECOMPUTE_FULL;
    fixed->recompute_every = every;
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
  const ptc_status_t found = ptc_why_search(p, &fixed, &arena, other);
  json_t *alternative = ptc_why_alternative(p, settings, other, found);
  ptc_why_print_alternative(alternative, out);
  json_decref(alternative);
  if (found == PTC_OK && other->feasible && !p->rule) {
    print_time(&other->best.predicted, out);
    print_memory(&other->best.predicted, out);
  }
  ptc_arena_deinit(&arena);
  return PTC_OK;
}

// --- json

ptc_status_t ptc_plan_report_json(const ptc_planner_t *p, json_t *why, FILE *out) {
  json_t *all =
      json_pack("{s:s, s:I, s:I, s:s, s:o, s:f, s:I, s:I}", "cluster", p->cluster->name, "devices",
                (json_int_t)p->cluster->num_devices, "used", (json_int_t)p->devices, "objective",
                ptc_objective_names[p->objective], "best", ptc_why_candidate(p, &p->found.best),
                "seconds", p->seconds[0] + p->seconds[1], "layouts", (json_int_t)p->found.layouts,
                "predictions", (json_int_t)p->found.predictions);
  json_object_update_new(all, ptc_why_gap(p));
  if (why) json_object_set(all, "why", why);
  const bool ok = all && json_dumpf(all, out, JSON_INDENT(1)) == 0 && fputc('\n', out) != EOF;
  json_decref(all);
  return ok ? PTC_OK : PTC_IO;
}

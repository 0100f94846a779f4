// why.json, read and printed. Nothing of it is trusted: what is missing prints as nothing.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/units.h"
#include "frontend/driver/why.h"
#include "ir/base/str.h"

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static double number_of(const json_t *object, const char *key) {
  return json_number_value(json_object_get(object, key));
}

ptc_status_t ptc_why_read(ptc_diag_t *diag, const char *path, const ptc_plan_t *plan,
                          json_t **out_why) {
  ptc_str_t file = {0};
  ptc_str_printf(&file, "%s/" PTC_WHY_FILE, path);
  ptc_status_t status = PTC_OK;
  json_error_t error = {0};
  *out_why = NULL;
  if (access(file.data, F_OK) != 0) {
    *out_why = ptc_why_of_settings(plan);
  } else {
    json_t *why = json_load_file(file.data, 0, &error);
    if (why && json_is_boolean(json_object_get(why, "planner")) &&
        json_is_array(json_object_get(why, "decisions"))) {
      *out_why = why;
    } else {
      json_decref(why);
      status = ptc_error(diag, (ptc_loc_t){.file = file.data}, PTC_INVALID_INPUT, "broken-why",
                         "this is not what ptc wrote here%s%s; make the plan again",
                         error.text[0] ? ": " : "", error.text);
    }
  }
  ptc_str_deinit(&file);
  return status;
}

char *ptc_why_text(const json_t *why) {
  char *text = json_dumps(why, JSON_INDENT(1));
  ptc_str_t lines = {0};
  ptc_str_printf(&lines, "%s\n", text ? text : "");
  free(text);
  return lines.data;
}

// |more|: with its sign.
static const char *read_bytes(const json_t *object, const char *key, bool more,
                              char out[PTC_UNIT_CHARS + 1]) {
  const double bytes = number_of(object, key);
  char size[PTC_UNIT_CHARS];
  snprintf(out, PTC_UNIT_CHARS + 1, "%s%s",
           bytes < 0 ? "-"
           : more    ? "+"
                     : "",
           ptc_unit_bytes((int64_t)(bytes < 0 ? -bytes : bytes), size));
  return out;
}

// By the rule (rule.h): what it costs more than the choice.
static void print_more(const json_t *a, FILE *out) {
  char more[PTC_UNIT_CHARS + 1], cause[PTC_UNIT_CHARS + 1];
  fprintf(out, "%s", read_bytes(a, "more_bytes", true, more));
  if (json_object_get(a, "cause"))
    fprintf(out, "; most of it %s, %s", text_of(a, "cause"),
            read_bytes(a, "cause_bytes", true, cause));
  fprintf(out, "  (%s)\n", text_of(a, "choice"));
}

void ptc_why_print_alternative(const json_t *a, FILE *out) {
  const char *outcome = text_of(a, "outcome");
  if (strcmp(outcome, "impossible") == 0) {
    fprintf(out, "not possible: no sizes that multiply to the devices and divide the batch\n");
    return;
  }
  if (strcmp(outcome, "memory") == 0) {
    fprintf(out, "%.2f GB too much memory at best (%s)\n", number_of(a, "short_bytes") / 1e9,
            text_of(a, "choice"));
    return;
  }
  if (json_object_get(a, "more_bytes")) {
    print_more(a, out);
    return;
  }
  if (strcmp(outcome, "late") == 0) fprintf(out, "%.4g s too long: ", number_of(a, "late_s"));
  fprintf(out, "%+.1f %%: %.4g s, %.2f GB", 100 * number_of(a, "loss"), number_of(a, "step_s"),
          number_of(a, "memory_bytes") / 1e9);
  if (json_object_get(a, "cause"))
    fprintf(out, "; most of it %s, %+.3g s", text_of(a, "cause"), number_of(a, "cause_s"));
  fprintf(out, "  (%s)\n", text_of(a, "choice"));
}

static void print_decision(const json_t *d, FILE *out) {
  const char *by = text_of(d, "by"), *place = text_of(d, "place");
  fprintf(out, "  %s = %s, ", text_of(d, "name"), text_of(d, "value"));
  if (strcmp(by, "planner") == 0)
    fprintf(out, "chosen by the planner\n");
  else if (strcmp(by, "user") == 0)
    fprintf(out, "given by the user (%s)\n", place);
  else if (strcmp(by, "rule") == 0)
    fprintf(out, "chosen by rule: fewest bytes sent and least waiting\n");
  else
    fprintf(out, "the default\n");
  const json_t *all = json_object_get(d, "alternatives");
  for (size_t i = 0; i < json_array_size(all); i++) {
    const json_t *a = json_array_get(all, i);
    fprintf(out, "    %-24s ", text_of(a, "setting"));
    ptc_why_print_alternative(a, out);
  }
}

static void print_planned(const json_t *why, FILE *out) {
  static const char *const objectives[][2] = {{"time", "least time of a step"},
                                              {"cost", "least price of a token"},
                                              {"memory", "least memory of the fullest device"},
                                              {"devices", "fewest devices, on them least time"}};
  const char *words = text_of(why, "objective");
  for (size_t i = 0; i < sizeof(objectives) / sizeof(*objectives); i++)
    if (strcmp(words, objectives[i][0]) == 0) words = objectives[i][1];
  const json_t *best = json_object_get(why, "best");
  if (json_is_true(json_object_get(why, "rule"))) {
    fprintf(out, "why: each decision, and what the best split with another one costs more\n  ");
    ptc_why_print_rule(why, out);
    return;
  }
  fprintf(out, "why: each decision, and the best plan with another one\n");
  fprintf(out, "  planned for %s, %.0f of %.0f devices, %s: %.4g s, %.2f GB  (%s)\n",
          text_of(why, "cluster"), number_of(why, "used"), number_of(why, "devices"), words,
          number_of(best, "step_s"), number_of(best, "memory_bytes") / 1e9,
          text_of(best, "choice"));
  fprintf(out, "  ");
  ptc_why_print_gap(why, out);
}

void ptc_why_print_rule(const json_t *why, FILE *out) {
  const json_t *best = json_object_get(why, "best"), *sent = json_object_get(best, "sent_bytes");
  char a[PTC_UNIT_CHARS + 1], b[PTC_UNIT_CHARS + 1];
  fprintf(out, "chosen by rule for %.0f ranks: %s\n", number_of(why, "used"),
          text_of(best, "choice"));
  fprintf(out, "  in a step a rank reads from others");
  const char *axis;
  json_t *value;
  int any = 0;
  json_object_foreach((json_t *)sent, axis, value) if (json_number_value(value) > 0)
      fprintf(out, "%s %s over %s", any++ ? "," : "", read_bytes(sent, axis, false, a), axis);
  if (number_of(best, "bubble_bytes") > 0)
    fprintf(out, "%s a bubble like %s", any++ ? "," : "",
            read_bytes(best, "bubble_bytes", false, a));
  fprintf(out, "%s; its work takes as long as %s, its memory is %s\n", any ? "" : " nothing",
          read_bytes(best, "work_bytes", false, a), read_bytes(best, "memory_bytes", false, b));
}

void ptc_why_print_gap(const json_t *gap, FILE *out) {
  const double share = number_of(gap, "gap");
  if (json_object_get(gap, "uncertified"))
    fprintf(out, "gap        not certified: nothing is proved %s\n", text_of(gap, "uncertified"));
  else if (json_is_number(json_object_get(gap, "gap")) && share <= 0)
    fprintf(out, "gap        0 %%: proved: no split is better\n");
  else if (json_is_number(json_object_get(gap, "gap")))
    fprintf(out,
            "gap        <= %.3g %%: no split is better by more; not every set of names on tp was "
            "tried, or not all cuts\n",
            100 * share);
}

void ptc_why_print(const json_t *why, FILE *out) {
  if (json_is_true(json_object_get(why, "planner")))
    print_planned(why, out);
  else
    fprintf(out,
            "why: made without a planner (--cluster), for %.0f rank%s; no alternatives were "
            "weighed\n",
            number_of(why, "devices"), number_of(why, "devices") == 1 ? "" : "s");
  const json_t *decisions = json_object_get(why, "decisions");
  for (size_t i = 0; i < json_array_size(decisions); i++)
    print_decision(json_array_get(decisions, i), out);
  if (json_array_size(decisions) == 0)
    fprintf(out, "  nothing was decided: one rank, all at once\n");
  const json_t *meshes = json_object_get(why, "meshes");
  if (json_array_size(meshes) > 0) fprintf(out, "  the best on other meshes near it\n");
  for (size_t i = 0; i < json_array_size(meshes); i++) {
    const json_t *mesh = json_array_get(meshes, i);
    if (json_object_get(mesh, "more_bytes")) {
      char more[PTC_UNIT_CHARS + 1];
      fprintf(out, "    %-12s %s\n", read_bytes(mesh, "more_bytes", true, more),
              text_of(mesh, "choice"));
      continue;
    }
    fprintf(out, "    %+7.1f %%  %.4g s  %.1f GB  %s\n", 100 * number_of(mesh, "loss"),
            number_of(mesh, "step_s"), number_of(mesh, "memory_bytes") / 1e9,
            text_of(mesh, "choice"));
  }
}

// The plan folder: both files, written and read.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/plan_text_impl.h"

void ptc_plan_print(const ptc_plan_t *plan, ptc_str_t *out_json, ptc_str_t *out_steps) {
  ptc_plan_print_json(plan, out_json);
  ptc_plan_print_steps(plan, out_steps);
}

static ptc_status_t write_file(ptc_diag_t *diag, const char *folder, const char *name,
                               const ptc_str_t *text) {
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/%s", folder, name);
  FILE *file = fopen(path.data, "wb");
  bool ok = file && fwrite(text->data, 1, text->len, file) == text->len;
  if (file && fclose(file) != 0) ok = false;
  ptc_status_t status = PTC_OK;
  if (!ok)
    status = ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "write-plan", "cannot write \"%s\": %s",
                       path.data, strerror(errno));
  ptc_str_deinit(&path);
  return status;
}

enum { FILE_CHARS = 32 };

// Stage 0 is also that of a plan that has no stages.
static void name_files(int32_t stage, char json[FILE_CHARS], char steps[FILE_CHARS]) {
  if (stage == 0)
    snprintf(json, FILE_CHARS, "%s", PTC_PLAN_JSON);
  else
    snprintf(json, FILE_CHARS, "stage%" PRId32 ".json", stage);
  snprintf(steps, FILE_CHARS, "stage%" PRId32 ".steps", stage);
}

ptc_status_t ptc_plan_write(ptc_diag_t *diag, const ptc_plan_t *plan, const char *folder) {
  ptc_str_t json = {0}, steps = {0};
  char json_file[FILE_CHARS], steps_file[FILE_CHARS];
  name_files(plan->stage, json_file, steps_file);
  ptc_plan_print(plan, &json, &steps);
  ptc_status_t status = write_file(diag, folder, steps_file, &steps);
  if (status == PTC_OK) status = write_file(diag, folder, json_file, &json);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  return status;
}

ptc_status_t ptc_plan_parse(ptc_diag_t *diag, const char *json_file, const char *json,
                            size_t json_len, const char *steps_file, const char *steps,
                            size_t steps_len, ptc_plan_t **out_plan) {
  ptc_plan_t *plan = ptc_plan_create();
  *out_plan = NULL;
  plan->json_file = ptc_arena_strdup(&plan->arena, json_file);
  plan->steps_file = ptc_arena_strdup(&plan->arena, steps_file);
  ptc_status_t status = ptc_plan_parse_mesh(diag, plan, json, json_len);
  if (status == PTC_OK) status = ptc_plan_parse_steps(diag, plan, steps, steps_len);
  if (status == PTC_OK) status = ptc_plan_parse_json(diag, plan, json, json_len);
  if (status == PTC_OK) status = ptc_plan_check(diag, plan);
  if (status != PTC_OK)
    ptc_plan_destroy(plan);
  else
    *out_plan = plan;
  return status;
}

static ptc_status_t read_file(ptc_diag_t *diag, const char *folder, const char *name,
                              ptc_str_t *out_path, char **out_text, size_t *out_len) {
  ptc_str_printf(out_path, "%s/%s", folder, name);
  if (ptc_read_file(out_path->data, out_text, out_len) == PTC_OK) {
    ptc_diag_add_source(diag, out_path->data, *out_text, *out_len);
    return PTC_OK;
  }
  return ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "read-plan",
                   "cannot read \"%s\": %s; a plan is a folder that `ptc MODEL.ptm -o` wrote",
                   out_path->data, strerror(errno));
}

ptc_status_t ptc_plan_read(ptc_diag_t *diag, const char *folder, ptc_plan_t **out_plan) {
  return ptc_plan_read_stage(diag, folder, 0, out_plan);
}

ptc_status_t ptc_plan_read_stage(ptc_diag_t *diag, const char *folder, int32_t stage,
                                 ptc_plan_t **out_plan) {
  char json_file[FILE_CHARS], steps_file[FILE_CHARS];
  name_files(stage, json_file, steps_file);
  ptc_str_t json_path = {0}, steps_path = {0};
  char *json = NULL, *steps = NULL;
  size_t json_len = 0, steps_len = 0;
  *out_plan = NULL;
  ptc_status_t status = read_file(diag, folder, json_file, &json_path, &json, &json_len);
  if (status == PTC_OK)
    status = read_file(diag, folder, steps_file, &steps_path, &steps, &steps_len);
  if (status == PTC_OK)
    status = ptc_plan_parse(diag, json_path.data, json, json_len, steps_path.data, steps, steps_len,
                            out_plan);
  if (status == PTC_OK && (*out_plan)->stage != stage) {
    status = ptc_error(diag, (ptc_loc_t){.file = (*out_plan)->json_file}, PTC_INVALID_INPUT,
                       "plan-json", "this is stage %" PRId32 ", and its name says %" PRId32,
                       (*out_plan)->stage, stage);
    ptc_plan_destroy(*out_plan);
    *out_plan = NULL;
  }
  free(json);
  free(steps);
  ptc_str_deinit(&json_path);
  ptc_str_deinit(&steps_path);
  return status;
}

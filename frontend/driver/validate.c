#include "frontend/driver/validate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/compile.h"
#include "ir/base/map.h"
#include "passes/pass.h"

// A model's program, kept for the rows that have the same.
typedef struct model_s {
  const char *text;
  ptc_module_t *module;
  ptc_work_t *work;
  struct model_s *next;
} model_t;

typedef struct validator_s {
  ptc_arena_t arena, scratch;  // scratch: of one row
  model_t *models;
  ptc_measured_catalog_t catalog;
  const ptc_validate_options_t *options;
} validator_t;

static ptc_status_t compile(validator_t *v, const char *text, model_t *model) {
  static const char *const passes[] = {"infer-shapes", "canonicalize", "raise-attention",
                                       "canonicalize", "precision",    "autodiff",
                                       "optimizer",    "canonicalize"};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status =
      ptc_compile_text(&diag, "row.ptm", text, strlen(text), NULL, &model->module);
  const ptc_pass_options_t options = {.no_verify = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  for (size_t i = 0; i < sizeof(passes) / sizeof(*passes) && status == PTC_OK; i++)
    status = ptc_pass_run(&ctx, model->module, passes[i]);
  ptc_pass_ctx_deinit(&ctx);
  if (status == PTC_OK) status = ptc_work_new(model->module, &v->arena, &model->work);
  ptc_diag_deinit(&diag);
  if (model->module) model->module->diag = NULL;
  return status;
}

static const ptc_work_t *work_of(validator_t *v, const ptc_measured_run_t *run) {
  ptc_str_t text = {0};
  ptc_measured_run_model(run, &text);
  model_t *model = v->models;
  while (model && strcmp(model->text, text.data) != 0) model = model->next;
  if (!model) {
    model = PTC_ARENA_NEW(&v->arena, model_t);
    *model =
        (model_t){.text = ptc_arena_strndup(&v->arena, text.data, text.len), .next = v->models};
    v->models = model;
    if (compile(v, model->text, model) != PTC_OK) model->work = NULL;
  }
  ptc_str_deinit(&text);
  return model->work;
}

static double cost_of_names(const ptc_work_t *work, ptc_arena_t *scratch, ptc_choice_t *choice,
                            uint32_t set, const ptc_cluster_t *cluster, const ptc_stack_t *stack) {
  for (int32_t i = 0; i < PTC_MAX_PIECES; i++) choice->names[i] = set;
  ptc_work_pieces_t pieces = {0};
  ptc_prediction_t predicted;
  if (ptc_layout_pieces(work, scratch, choice, stack->saves, &pieces) != PTC_OK ||
      !ptc_predict(&pieces, cluster, stack, choice, &predicted))
    return INFINITY;
  return predicted.step_s;
}

// The names that lie on tp: added and taken away as long as that makes the step faster.
static void choose_names(const ptc_work_t *work, ptc_arena_t *scratch, ptc_choice_t *choice,
                         const ptc_cluster_t *cluster, const ptc_stack_t *stack) {
  uint32_t set = 0;
  double best = cost_of_names(work, scratch, choice, set, cluster, stack);
  for (bool again = choice->size[PTC_AXIS_TP] > 1; again;) {
    again = false;
    uint32_t next = set;
    for (int32_t i = 0; i < work->num_names; i++) {
      const double cost = cost_of_names(work, scratch, choice, set ^ 1u << i, cluster, stack);
      if (cost >= best) continue;
      best = cost;
      next = set ^ 1u << i;
      again = true;
    }
    set = next;
  }
  for (int32_t i = 0; i < PTC_MAX_PIECES; i++) choice->names[i] = set;
}

static bool predict_with(validator_t *v, const ptc_work_t *work, ptc_choice_t *choice,
                         const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                         ptc_prediction_t *out) {
  choose_names(work, &v->scratch, choice, cluster, stack);
  ptc_work_pieces_t pieces = {0};
  return ptc_layout_pieces(work, &v->scratch, choice, stack->saves, &pieces) == PTC_OK &&
         ptc_predict(&pieces, cluster, stack, choice, out);
}

// What a row leaves open (micro-batch, recompute) is chosen as its authors would: the fastest that fits.
static bool predict_run(validator_t *v, ptc_measured_run_t *run, ptc_prediction_t *out) {
  const ptc_work_t *work = work_of(v, run);
  const ptc_cluster_t *cluster = ptc_measured_run_cluster(&v->catalog, &v->scratch, run);
  if (!work) {
    run->reason = "the model cannot be written as a .ptm that compiles";
    return false;
  }
  if (!cluster) {
    run->reason = "the device is not in the catalog";
    return false;
  }
  ptc_stack_t stack = *run->stack;
  if (strstr(run->precision, "fp8")) stack.gemm_precision = PTC_PREC_FP8;
  if (strstr(run->precision, "fp4")) stack.gemm_precision = PTC_PREC_FP4;
  const int64_t replicas = run->choice.size[PTC_AXIS_DP] * run->choice.size[PTC_AXIS_EP];
  const int64_t given = run->choice.micro_batch;
  bool any = false;
  for (int64_t mb = given ? given : 1; mb <= (given ? given : 16); mb *= 2) {
    if (run->shape.batch % (replicas * mb)) continue;
    for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
      if (run->recompute_unknown ? mode == PTC_RECOMPUTE_SELECTIVE : mode != run->choice.recompute)
        continue;
      ptc_choice_t choice = run->choice;
      choice.micro_batch = mb;
      choice.recompute = mode;
      ptc_prediction_t predicted;
      if (!predict_with(v, work, &choice, cluster, &stack, &predicted)) continue;
      const bool better = !any || (predicted.fits && !out->fits) ||
                          (predicted.fits == out->fits && predicted.step_s < out->step_s);
      if (!better) continue;
      *out = predicted;
      any = true;
    }
  }
  if (!any) run->reason = "the split does not fit the model";
  return any;
}

static bool wanted(const ptc_measured_run_t *run, const ptc_validate_options_t *options) {
  if (options->only && strncmp(run->id, options->only, strlen(options->only)) != 0) return false;
  return !*run->quality || strpbrk(run->quality, options->quality) != NULL;
}

static void show_progress(const ptc_validate_options_t *options, int32_t done, int32_t all) {
  if (options->quiet || !isatty(2)) return;
  if (done % 16 == 0 || done == all)
    fprintf(stderr, "\rptc: %d of %d rows%s", done, all, done == all ? "\r\033[K" : "");
}

static ptc_status_t draw(ptc_diag_t *diag, const char *path, const ptc_validated_t *rows,
                         int32_t count) {
  FILE *file = fopen(path, "w");
  if (file) ptc_validate_draw(rows, count, file);
  if (!file || fclose(file) != 0)
    return ptc_error(diag, (ptc_loc_t){path, 0, 0}, PTC_IO, "write", "cannot write: %s",
                     strerror(errno));
  return PTC_OK;
}

ptc_status_t ptc_validate(ptc_diag_t *diag, const char *const *paths, int32_t num_paths,
                          const ptc_validate_options_t *options, FILE *out) {
  validator_t v = {.options = options};
  ptc_status_t status = ptc_measured_catalog_read(diag, &v.arena, &v.catalog);
  ptc_validated_t *rows = NULL;
  const ptc_measured_run_t **refused = NULL;
  int32_t count = 0, num_refused = 0;
  for (int32_t f = 0; f < num_paths && status == PTC_OK; f++) {
    ptc_csv_table_t table;
    ptc_measured_run_t *runs = NULL;
    int32_t num_runs = 0;
    status = ptc_csv_table_read(diag, &v.arena, paths[f], &table);
    if (status == PTC_OK)
      status = ptc_measured_runs_read(diag, &v.arena, &table, options->stack, &runs, &num_runs);
    if (status != PTC_OK) break;
    rows = realloc(rows, sizeof(*rows) * (size_t)(count + num_runs + 1));
    refused = realloc(refused, sizeof(*refused) * (size_t)(num_refused + num_runs + 1));
    if (!rows || !refused) abort();
    for (int32_t i = 0; i < num_runs; i++) {
      ptc_measured_run_t *run = &runs[i];
      show_progress(options, i + 1, num_runs);
      if (!wanted(run, options)) continue;
      ptc_validated_t *row = &rows[count];
      *row = (ptc_validated_t){.run = run, .time_error = NAN, .memory_error = NAN};
      if (run->reason || !predict_run(&v, run, &row->predicted)) {
        refused[num_refused++] = run;
      } else {
        if (run->step_s > 0) row->time_error = log(row->predicted.step_s / run->step_s);
        if (run->memory_bytes > 0)
          row->memory_error = log(row->predicted.memory_bytes / run->memory_bytes);
        count++;
      }
      ptc_arena_deinit(&v.scratch);
    }
  }
  if (status == PTC_OK) ptc_validate_report(rows, count, refused, num_refused, options, out);
  if (status == PTC_OK && options->svg) status = draw(diag, options->svg, rows, count);
  for (model_t *m = v.models; m; m = m->next)
    if (m->module) ptc_module_destroy(m->module);
  free(rows);
  free(refused);
  ptc_arena_deinit(&v.scratch);
  ptc_arena_deinit(&v.arena);
  return status;
}

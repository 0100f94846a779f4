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
typedef struct ptc_validate_model_s {
  const char *text;
  ptc_module_t *module;
  ptc_work_t *work;
  struct ptc_validate_model_s *next;
} model_t;

static ptc_status_t compile(ptc_validator_t *v, const char *text, model_t *model) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status =
      ptc_compile_text(&diag, "row.ptm", text, strlen(text), NULL, &model->module);
  const ptc_pass_options_t options = {.no_verify = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  if (status == PTC_OK) status = ptc_pipeline_step(&ctx, model->module);
  ptc_pass_ctx_deinit(&ctx);
  if (status == PTC_OK) status = ptc_work_new(model->module, &v->arena, &model->work);
  ptc_diag_deinit(&diag);
  if (model->module) model->module->diag = NULL;
  return status;
}

static const ptc_work_t *work_of(ptc_validator_t *v, const ptc_measured_run_t *run) {
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

// Heads, widths and the vocabulary: the names that the rows' models have for what frameworks lay on tp.
static uint32_t usual_names(const ptc_work_t *work, int64_t tp) {
  uint32_t set = 0;
  for (int32_t i = 0; i < work->num_names; i++) {
    const ptc_work_name_t *name = &work->names[i];
    const bool usual = strchr("nfv", *name->name) && !name->name[1];
    if (usual && (name->extent % tp == 0 || *name->name == 'v')) set |= 1u << i;
  }
  return set;
}

// The names that lie on tp: of all sets with the usual names the one whose step is fastest.
static void choose_names(const ptc_work_t *work, ptc_arena_t *scratch, ptc_choice_t *choice,
                         const ptc_cluster_t *cluster, const ptc_stack_t *stack) {
  const int32_t bits = choice->size[PTC_AXIS_TP] == 1 ? 0
                       : work->num_names < 8          ? work->num_names
                                                      : 8;
  const uint32_t usual = usual_names(work, choice->size[PTC_AXIS_TP]) & ((1u << bits) - 1);
  uint32_t best_set = 0;
  double best = INFINITY;
  for (int any = 0; any < 2 && isinf(best); any++)
    for (uint32_t set = bits > 0; set < 1u << bits; set++) {
      if (!any && (set & usual) != usual) continue;
      const double cost = cost_of_names(work, scratch, choice, set, cluster, stack);
      if (cost >= best) continue;
      best = cost;
      best_set = set;
    }
  for (int32_t i = 0; i < PTC_MAX_PIECES; i++) choice->names[i] = best_set;
}

// What a row leaves open (micro-batch, recompute) is chosen as its authors would: the fastest that fits.
static bool prepare(ptc_validator_t *v, ptc_measured_run_t *run, ptc_prepared_t *out) {
  const ptc_work_t *work = work_of(v, run);
  if (!work) {
    run->reason = "the model cannot be written as a .ptm that compiles";
    return false;
  }
  *out = (ptc_prepared_t){.run = run,
                          .cluster = ptc_measured_run_cluster(&v->catalog, &v->arena, run)};
  if (!out->cluster) {
    run->reason = "the device is not in the catalog";
    return false;
  }
  const ptc_stack_t stack = ptc_validate_stack(run, run->stack);
  const int64_t replicas = run->choice.size[PTC_AXIS_DP] * run->choice.size[PTC_AXIS_EP];
  const int64_t given = run->choice.micro_batch;
  ptc_choice_t choice = run->choice;
  choice.micro_batch = given ? given : 1;
  choose_names(work, &v->scratch, &choice, out->cluster, &stack);
  for (int64_t mb = given ? given : 1; mb <= (given ? given : 16); mb *= 2) {
    if (run->shape.batch % (replicas * mb)) continue;
    for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
      if (run->recompute_unknown ? mode == PTC_RECOMPUTE_SELECTIVE && !stack.unfused_attention
                                 : mode != run->choice.recompute)
        continue;
      choice.micro_batch = mb;
      choice.recompute = mode;
      choice.recompute_turns = -1;
      if (mode == PTC_RECOMPUTE_SELECTIVE && stack.keeps_products) {
        choice.recompute = PTC_RECOMPUTE_FULL;
        choice.recompute_turns = (run->shape.layers / choice.size[PTC_AXIS_PP] + 1) / 2;
      }
      ptc_alternative_t *next = &out->items[out->count];
      *next = (ptc_alternative_t){.choice = choice};
      if (ptc_layout_pieces(work, &v->arena, &choice, stack.saves, &next->pieces) == PTC_OK)
        out->count++;
    }
  }
  if (out->count == 0) run->reason = "the split does not fit the model";
  return out->count > 0;
}

ptc_stack_t ptc_validate_stack(const ptc_measured_run_t *run, const ptc_stack_t *base) {
  ptc_stack_t stack = *base;
  if (strstr(run->precision, "fp8")) stack.gemm_precision = PTC_PREC_FP8;
  if (strstr(run->precision, "fp4")) stack.gemm_precision = PTC_PREC_FP4;
  return stack;
}

// What was measured: of the device, of the allocator, or of tensors.
static double memory_like(const ptc_measured_run_t *run, const ptc_stack_t *stack,
                          const ptc_prediction_t *p) {
  if (run->memory_kind == PTC_MEMORY_USED) return p->memory_bytes;
  const double live = run->memory_of_last ? p->last_allocated_bytes : p->allocated_bytes;
  return run->memory_kind == PTC_MEMORY_RESERVED ? live * stack->allocator : live;
}

static bool predict(const ptc_prepared_t *row, const ptc_stack_t *stack,
                    const ptc_alternative_t *item, int64_t recompute_turns, ptc_prediction_t *out) {
  ptc_choice_t choice = item->choice;
  if (recompute_turns >= 0) choice.recompute_turns = recompute_turns;
  if (!ptc_predict(&item->pieces, row->cluster, stack, &choice, out)) return false;
  // What the authors ran did fit: the estimate may be a tenth too high.
  out->fits = out->memory_bytes <= 1.1 * out->capacity_bytes;
  return true;
}

// Where the row does not say how many turns compute again: no more than have to.
static bool predict_fewest(const ptc_prepared_t *row, const ptc_stack_t *stack,
                           const ptc_alternative_t *item, ptc_prediction_t *out) {
  if (!predict(row, stack, item, -1, out)) return false;
  const ptc_choice_t *c = &item->choice;
  if (!out->fits || !row->run->recompute_unknown || c->recompute != PTC_RECOMPUTE_FULL ||
      c->recompute_turns >= 0)
    return true;
  int64_t few = 0, enough = (row->run->shape.layers - 1) / c->size[PTC_AXIS_PP] + 1;
  while (enough - few > 1) {
    const int64_t turns = (few + enough) / 2;
    ptc_prediction_t own;
    const bool fits = predict(row, stack, item, turns, &own) && own.fits;
    if (fits) *out = own;
    *(fits ? &enough : &few) = turns;
  }
  return true;
}

bool ptc_validate_predict(const ptc_prepared_t *row, const ptc_stack_t *base,
                          ptc_validated_t *out) {
  *out = (ptc_validated_t){.run = row->run, .time_error = NAN, .memory_error = NAN};
  const ptc_stack_t stack = ptc_validate_stack(row->run, base);
  bool any = false;
  for (int32_t i = 0; i < row->count; i++) {
    ptc_prediction_t own;
    if (!predict_fewest(row, &stack, &row->items[i], &own)) continue;
    const ptc_prediction_t *best = &out->predicted;
    if (any && !(own.fits && !best->fits) && !(own.fits == best->fits && own.step_s < best->step_s))
      continue;
    out->predicted = own;
    any = true;
  }
  if (any && row->run->step_s > 0) out->time_error = log(out->predicted.step_s / row->run->step_s);
  out->memory_bytes = memory_like(row->run, &stack, &out->predicted);
  if (any && row->run->memory_bytes > 0)
    out->memory_error = log(out->memory_bytes / row->run->memory_bytes);
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

// --- all rows

static void add_file(ptc_validator_t *v, ptc_measured_run_t *runs, int32_t count,
                     const ptc_validate_options_t *options) {
  for (int32_t i = 0; i < count; i++) {
    ptc_measured_run_t *run = &runs[i];
    show_progress(options, i + 1, count);
    if (!wanted(run, options)) continue;
    ptc_prepared_t *row = PTC_ARENA_NEW(&v->arena, ptc_prepared_t);
    if (!run->reason && prepare(v, run, row))
      PTC_VEC_PUSH(&v->rows, row);
    else
      PTC_VEC_PUSH(&v->refused, run);
    ptc_arena_deinit(&v->scratch);
  }
}

ptc_status_t ptc_validator_open(ptc_diag_t *diag, const char *const *paths, int32_t num_paths,
                                const ptc_validate_options_t *options, ptc_validator_t **out) {
  ptc_validator_t *v = *out = ptc_xmalloc(sizeof *v);
  *v = (ptc_validator_t){0};
  PTC_TRY(ptc_measured_catalog_read(diag, &v->arena, &v->catalog));
  for (int32_t f = 0; f < num_paths; f++) {
    ptc_csv_table_t table;
    ptc_measured_run_t *runs;
    int32_t count;
    PTC_TRY(ptc_csv_table_read(diag, &v->arena, paths[f], &table));
    PTC_TRY(ptc_measured_runs_read(diag, &v->arena, &table, options->stack, &runs, &count));
    add_file(v, runs, count, options);
  }
  return PTC_OK;
}

void ptc_validator_close(ptc_validator_t *v) {
  for (model_t *m = v->models; m; m = m->next)
    if (m->module) ptc_module_destroy(m->module);
  ptc_arena_deinit(&v->scratch);
  ptc_arena_deinit(&v->arena);
  PTC_VEC_FREE(&v->rows);
  PTC_VEC_FREE(&v->refused);
  free(v);
}

ptc_status_t ptc_validate(ptc_diag_t *diag, const char *const *paths, int32_t num_paths,
                          const ptc_validate_options_t *options, FILE *out) {
  ptc_validator_t *v;
  ptc_status_t status = ptc_validator_open(diag, paths, num_paths, options, &v);
  ptc_validated_t *rows = ptc_xmalloc(sizeof *rows * (size_t)(v->rows.len + 1));
  int32_t count = 0;
  for (int64_t i = 0; i < v->rows.len && status == PTC_OK; i++) {
    const ptc_prepared_t *row = v->rows.data[i];
    if (ptc_validate_predict(row, row->run->stack, &rows[count]))
      count++;
    else
      row->run->reason = "more parts of the pipeline than turns";
    if (row->run->reason) PTC_VEC_PUSH(&v->refused, row->run);
  }
  if (status == PTC_OK)
    ptc_validate_report(rows, count, v->refused.data, (int32_t)v->refused.len, options, out);
  if (status == PTC_OK && options->svg) status = draw(diag, options->svg, rows, count);
  free(rows);
  ptc_validator_close(v);
  return status;
}

#include "frontend/driver/sample_plan.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/driver/compile.h"
#include "frontend/driver/emit.h"
#include "runtime/plan_folder.h"

static void folder_of(const char *plan, ptc_str_t *out) {
  ptc_str_printf(out, "%s/" PTC_SAMPLE_PLAN, plan);
}

// The one function that is left gives the logits alone. Whether it has some.
static bool keep_logits(ptc_module_t *module) {
  ptc_func_t *eval = ptc_module_find_func(module, "eval");
  if (!eval) return false;
  module->funcs = eval;
  eval->next = NULL;
  ptc_op_t *ret = ptc_func_return(eval);
  for (int32_t i = eval->num_results; i-- > 0;) {
    const ptc_result_t *result = &eval->results[i];
    if (result->role && strcmp(result->role, "output") == 0 && strcmp(result->name, "logits") == 0)
      continue;
    ptc_op_erase_operand(ret, i);
    memmove(&eval->results[i], &eval->results[i + 1],
            sizeof *result * (size_t)(eval->num_results - i - 1));
    eval->num_results--;
  }
  return eval->num_results == 1;
}

static ptc_status_t run_passes(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  PTC_TRY(ptc_pass_run(ctx, module, "infer-shapes"));
  PTC_TRY(ptc_pass_run(ctx, module, "canonicalize"));
  PTC_TRY(ptc_pass_run(ctx, module, "raise-attention"));
  PTC_TRY(ptc_pass_run(ctx, module, "canonicalize"));
  PTC_TRY(ptc_pass_run(ctx, module, "precision"));
  return ptc_pass_run(ctx, module, "canonicalize");
}

static ptc_status_t write_module(ptc_module_t *module, const char *target, const char *plan) {
  ptc_pass_ctx_t ctx;
  ptc_emitted_t emitted = {0};
  ptc_str_t folder = {0};
  folder_of(plan, &folder);
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_status_t status = run_passes(&ctx, module);
  if (status == PTC_OK) status = ptc_emit(&ctx, module, target, &emitted);
  if (status == PTC_OK) status = ptc_emit_write(module, &emitted, folder.data);
  ptc_emitted_deinit(&emitted);
  ptc_pass_ctx_deinit(&ctx);
  ptc_str_deinit(&folder);
  return status;
}

void ptc_sample_plan_write(const char *const *files, int32_t num_files,
                           const ptc_lower_options_t *options, const char *target,
                           const char *plan) {
  for (int32_t i = 0; i < num_files; i++)
    if (strcmp(files[i], "-") == 0) return;  // it has been read
  const int32_t count = options->num_overrides + 1;
  ptc_override_t *overrides = ptc_xmalloc(sizeof *overrides * (size_t)count);
  if (count > 1) memcpy(overrides, options->overrides, sizeof *overrides * (size_t)(count - 1));
  overrides[count - 1] = (ptc_override_t){.name = "batch", .text = "1"};
  ptc_diag_t diag;  // a plan that cannot be is no error
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  const ptc_lower_options_t alone = {.overrides = overrides, .num_overrides = count};
  if (ptc_compile_files(&diag, files, num_files, &alone, &module) == PTC_OK && module &&
      keep_logits(module))
    (void)write_module(module, target, plan);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  free(overrides);
}

char *ptc_sample_plan_find(const char *plan) {
  ptc_str_t folder = {0};
  folder_of(plan, &folder);
  char *path = strdup(ptc_plan_folder_is(folder.data) ? folder.data : plan);
  ptc_str_deinit(&folder);
  if (!path) abort();
  return path;
}

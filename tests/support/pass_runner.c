#include "tests/support/pass_runner.h"

#include <stdlib.h>
#include <string.h>

#include "ir/text.h"
#include "ir/verify.h"

void program_parse(program_t *program, const char *text) {
  ptc_diag_init(&program->diag);
  ptc_status_t status =
      ptc_module_parse(&program->diag, "test.ptir", text, strlen(text), &program->module);
  if (status == PTC_OK) status = ptc_module_infer_shapes(program->module);
  if (status == PTC_OK) status = ptc_module_verify(program->module);
  if (program->module) ptc_module_derive_properties(program->module);
  if (status == PTC_OK) return;
  ptc_diag_print(&program->diag, stderr, PTC_DIAG_TEXT, false);
  ptc_module_destroy(program->module);
  program->module = NULL;
}

void program_load(program_t *program, const char *name) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/tests/ir/%s.ptir", PTC_SOURCE_DIR, name);
  char *text = NULL;
  size_t len = 0;
  if (ptc_read_file(path, &text, &len) != PTC_OK) {
    fprintf(stderr, "cannot read %s\n", path);
    memset(program, 0, sizeof(*program));
    ptc_diag_init(&program->diag);
    return;
  }
  program_parse(program, text);
  free(text);
}

void program_deinit(program_t *program) {
  ptc_module_destroy(program->module);
  ptc_diag_deinit(&program->diag);
}

bool program_has_error(const program_t *program, const char *id) {
  for (int64_t i = 0; i < program->diag.num_items; i++)
    if (program->diag.items[i].severity == PTC_ERROR && strcmp(program->diag.items[i].id, id) == 0)
      return true;
  return false;
}

static ptc_status_t run(ptc_module_t *module, const char *passes, bool quiet, bool check) {
  const ptc_pass_options_t options = {.check_semantics = check, .check_seed = 7};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  char *list = strdup(passes), *rest = NULL;
  ptc_status_t status = PTC_OK;
  for (char *name = strtok_r(list, " ", &rest); name && status == PTC_OK;
       name = strtok_r(NULL, " ", &rest))
    status = ptc_pass_run(&ctx, module, name);
  free(list);
  ptc_pass_ctx_deinit(&ctx);
  if (status != PTC_OK && !quiet) ptc_diag_print(module->diag, stderr, PTC_DIAG_TEXT, false);
  return status;
}

ptc_status_t run_passes(ptc_module_t *module, const char *passes, bool quiet) {
  return run(module, passes, quiet, true);
}

ptc_status_t run_passes_unchecked(ptc_module_t *module, const char *passes, bool quiet) {
  return run(module, passes, quiet, false);
}

typedef struct counter_s {
  ptc_opcode_t opcode;
  int count;
} counter_t;

static void count_op(ptc_op_t *op, void *arg) {
  counter_t *counter = arg;
  counter->count += op->opcode == counter->opcode;
}

int count_ops(const ptc_module_t *module, ptc_opcode_t opcode) {
  counter_t counter = {opcode, 0};
  for (const ptc_func_t *func = module->funcs; func; func = func->next)
    ptc_block_walk(func->body, count_op, &counter);
  return counter.count;
}

const ptc_tensor_t *result_value(const ptc_interp_t *interp, const ptc_func_t *func,
                                 const char *name) {
  for (int32_t i = 0; i < func->num_results; i++)
    if (func->results[i].kind == PTC_RESULT_VALUE && strcmp(func->results[i].name, name) == 0)
      return ptc_interp_result(interp, i);
  return NULL;
}

const ptc_tensor_t *result_of(const ptc_interp_t *interp, const ptc_func_t *func,
                              ptc_result_kind_t kind, const char *path) {
  for (int32_t i = 0; i < func->num_results; i++)
    if (func->results[i].kind == kind && strcmp(func->results[i].global->path, path) == 0)
      return ptc_interp_result(interp, i);
  return NULL;
}

double *global_data(ptc_interp_t *interp, const ptc_module_t *module, const char *path) {
  const ptc_global_t *global = ptc_module_find_global(module, path);
  return global ? ptc_interp_global(interp, global)->data : NULL;
}

#include "passes/pass.h"

#include <string.h>

#include "ir/op.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/check_semantics.h"

static const ptc_pass_info_t pass_table[] = {
#define NONE PTC_PROPERTY_NONE
#define SHAPED PTC_PROPERTY_SHAPED
#define CANONICAL PTC_PROPERTY_CANONICAL
#define PRECISION PTC_PROPERTY_PRECISION
#define BACKWARD PTC_PROPERTY_BACKWARD
#define OPTIMIZER PTC_PROPERTY_OPTIMIZER
#define MICRO PTC_PROPERTY_MICRO
#define RECOMPUTE PTC_PROPERTY_RECOMPUTE
#define PARTITION PTC_PROPERTY_PARTITION
#define FUSED PTC_PROPERTY_FUSED
#define PTC_PASS(fn, name, needs, establishes, destroys, summary) \
  {name, ptc_pass_##fn, needs, establishes, destroys, summary},
#include "passes/passes.def"
#undef PTC_PASS
#undef NONE
#undef SHAPED
#undef CANONICAL
#undef PRECISION
#undef BACKWARD
#undef OPTIMIZER
#undef MICRO
#undef RECOMPUTE
#undef PARTITION
#undef FUSED
};

static const char *const property_names[] = {
#define PTC_PROPERTY(id, text) text,
    PTC_PROPERTIES(PTC_PROPERTY)
#undef PTC_PROPERTY
};

enum { NUM_PASSES = sizeof(pass_table) / sizeof(pass_table[0]) };

void ptc_pass_ctx_init(ptc_pass_ctx_t *ctx, const ptc_pass_options_t *options) {
  memset(ctx, 0, sizeof(*ctx));
  if (options) ctx->options = *options;
  ptc_arena_init(&ctx->scratch);
}

void ptc_pass_ctx_deinit(ptc_pass_ctx_t *ctx) { ptc_arena_deinit(&ctx->scratch); }

const ptc_pass_info_t *ptc_pass_at(int32_t index) {
  return index >= 0 && index < NUM_PASSES ? &pass_table[index] : NULL;
}

const ptc_pass_info_t *ptc_pass_find(const char *name) {
  for (int i = 0; i < NUM_PASSES; i++)
    if (strcmp(pass_table[i].name, name) == 0) return &pass_table[i];
  return NULL;
}

static void see_untyped(ptc_op_t *op, void *arg) {
  for (int32_t i = 0; i < op->num_results; i++)
    if (!op->results[i]->type) *(bool *)arg = true;
}

void ptc_module_derive_properties(ptc_module_t *module) {
  bool untyped = false;
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    ptc_block_walk(func->body, see_untyped, &untyped);
  if (!untyped) module->properties |= PTC_PROPERTY_SHAPED;
  const ptc_func_t *train = ptc_module_find_func(module, "train");
  for (int32_t i = 0; train && i < train->num_results; i++) {
    const ptc_result_t *result = &train->results[i];
    if (result->kind == PTC_RESULT_GRAD) module->properties |= PTC_PROPERTY_BACKWARD;
    if (result->kind == PTC_RESULT_STATE && result->global->kind == PTC_GLOBAL_PARAM)
      module->properties |= PTC_PROPERTY_BACKWARD | PTC_PROPERTY_OPTIMIZER;
  }
  for (int32_t i = 0; i < module->mesh.num_axes; i++)
    if (strcmp(module->mesh.axes[i].name, "micro") == 0) module->properties |= PTC_PROPERTY_MICRO;
}

static ptc_status_t check_needs(const ptc_pass_info_t *pass, ptc_module_t *module) {
  const uint32_t missing = pass->needs & ~module->properties;
  for (int i = 0; i < PTC_NUM_PROPERTIES; i++)
    if (missing >> i & 1)
      return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "pass-order",
                       "pass \"%s\" needs a module that is \"%s\"", pass->name, property_names[i]);
  return PTC_OK;
}

static void print_module(const ptc_pass_ctx_t *ctx, const ptc_module_t *module, const char *pass) {
  FILE *out = ctx->options.print_to ? ctx->options.print_to : stderr;
  ptc_str_t text = {0};
  ptc_module_print(module, ctx->options.print_locations, &text);
  fprintf(out, "# after %s\n%s\n", pass, text.data ? text.data : "");
  ptc_str_deinit(&text);
}

static bool named(const char *option, const char *pass) {
  return option && (strcmp(option, pass) == 0 || strcmp(option, "all") == 0);
}

ptc_status_t ptc_pass_run(ptc_pass_ctx_t *ctx, ptc_module_t *module, const char *name) {
  if (ctx->stopped) return PTC_OK;
  const ptc_pass_options_t *options = &ctx->options;
  const ptc_pass_info_t *pass = ptc_pass_find(name);
  if (!pass) {
    const char *names[NUM_PASSES];
    for (int i = 0; i < NUM_PASSES; i++) names[i] = pass_table[i].name;
    const char *near = ptc_nearest_name(name, names, NUM_PASSES);
    ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "unknown-pass", "no pass \"%s\"",
              name);
    if (near) ptc_note(module->diag, (ptc_loc_t){0}, "did you mean \"%s\"", near);
    return PTC_INVALID_INPUT;
  }
  PTC_TRY(check_needs(pass, module));
  if (options->print_pipeline)
    fprintf(options->print_to ? options->print_to : stderr, "%s\n", pass->name);

  ptc_semantics_t *before = NULL;
  const bool shaped = (module->properties & PTC_PROPERTY_SHAPED) != 0;
  if (options->check_semantics && shaped)
    PTC_TRY(ptc_semantics_take(module, options->check_seed, &before));
  ptc_status_t status = pass->run(ctx, module);
  if (status == PTC_OK) {
    module->properties = (module->properties & ~pass->destroys) | pass->establishes;
    if (!options->no_verify && (module->properties & PTC_PROPERTY_SHAPED))
      status = ptc_module_verify(module);
  }
  ptc_arena_deinit(&ctx->scratch);
  ptc_arena_init(&ctx->scratch);
  // A module that fails its verification is worth seeing, too.
  if (named(options->print_after, pass->name)) print_module(ctx, module, pass->name);
  if (status == PTC_OK && before) status = ptc_semantics_compare(before, module, pass->name);
  ptc_semantics_destroy(before);
  if (options->stop_after && strcmp(options->stop_after, pass->name) == 0) ctx->stopped = true;
  return status;
}

#include "tests/support/grad_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/pass.h"
#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

void case_init(grad_case_t *c, uint64_t *random) {
  memset(c, 0, sizeof(*c));
  ptc_diag_init(&c->diag);
  c->random = random;
  c->module = ptc_module_create(&c->diag, "case");
  c->func = ptc_module_add_func(c->module, "train", (ptc_loc_t){0});
  c->b = ptc_builder_at_end(c->module, c->func->body);
  for (int i = 0; i < 26; i++) c->extent[i] = 1 + (int64_t)(unit_random(random) % 4);
}

void case_deinit(grad_case_t *c) {
  ptc_module_destroy(c->module);
  ptc_diag_deinit(&c->diag);
}

static const char *name_of(grad_case_t *c, char letter) {
  const char text[] = {letter, 0};
  return ptc_module_intern(c->module, text);
}

const char *const *case_names(grad_case_t *c, const char *dims) {
  const char **names = PTC_ARENA_ARRAY(&c->module->arena, const char *, strlen(dims) + 1);
  for (size_t i = 0; dims[i]; i++) names[i] = name_of(c, dims[i]);
  return names;
}

const ptc_type_t *case_type(grad_case_t *c, ptc_dtype_t dtype, const char *dims,
                            const int64_t *counts) {
  ptc_dim_t list[PTC_MAX_DIMS] = {{0}};
  int32_t num_dims = 0, num_counts = 0;
  for (; dims[num_dims]; num_dims++) {
    list[num_dims].name = name_of(c, dims[num_dims]);
    list[num_dims].extent = c->extent[dims[num_dims] - 'a'];
  }
  ptc_type_t *type = ptc_type_new(&c->module->arena, dtype, list, num_dims);
  while (counts && counts[num_counts]) num_counts++;
  while (num_counts > 0) type = ptc_type_bundle(&c->module->arena, type, counts[--num_counts]);
  return type;
}

ptc_value_t *case_global(grad_case_t *c, ptc_global_kind_t kind, const char *path,
                         const ptc_type_t *type, case_fill_t fill) {
  const int64_t index = c->module->num_globals;
  if (index >= CASE_MAX_GLOBALS) abort();
  c->fills[index] = fill;
  const ptc_loc_t loc = {"case", 1, (int32_t)index};
  return ptc_func_add_arg(c->func, ptc_module_add_global(c->module, kind, path, type, loc));
}

static ptc_value_t *add_global(grad_case_t *c, ptc_global_kind_t kind, const char *letter,
                               const ptc_type_t *type, case_fill_t fill) {
  const char *path =
      ptc_arena_printf(&c->module->arena, "%s%d%.*s", letter, (int)c->module->num_globals,
                       2 * type->num_counts, ".*.*.*.*");
  return case_global(c, kind, path, type, fill);
}

ptc_value_t *case_param(grad_case_t *c, const char *dims, double low, double high) {
  const ptc_type_t *type = case_type(c, PTC_F32, dims, NULL);
  return add_global(c, PTC_GLOBAL_PARAM, "p", type, (case_fill_t){low, high, false});
}

ptc_value_t *case_bundle(grad_case_t *c, const char *dims, const int64_t *counts) {
  const ptc_type_t *type = case_type(c, PTC_F32, dims, counts);
  return add_global(c, PTC_GLOBAL_PARAM, "p", type, (case_fill_t){-1, 1, false});
}

ptc_value_t *case_input(grad_case_t *c, ptc_dtype_t dtype, const char *dims, double low,
                        double high) {
  const ptc_type_t *type = case_type(c, dtype, dims, NULL);
  const case_fill_t fill = {low, high, !ptc_dtype_is_float(dtype)};
  return add_global(c, PTC_GLOBAL_INPUT, "x", type, fill);
}

ptc_op_t *case_op(grad_case_t *c, ptc_opcode_t opcode, ptc_value_t *const *operands,
                  int32_t num_operands, int32_t num_results, const char *attrs) {
  return ptc_build_op(&c->b, opcode, operands, num_operands, num_results,
                      maker_attrs(c->module, attrs));
}

// sum of w * v over all elements and instances
static ptc_value_t *functional(ptc_builder_t *b, ptc_value_t *w, ptc_value_t *v) {
  if (v->type->num_counts == 0) {
    const char *over[PTC_MAX_DIMS];
    for (int32_t i = 0; i < v->type->num_dims; i++) over[i] = v->type->dims[i].name;
    if (v->type->num_dims == 0) return ptc_build_binary(b, PTC_OP_MUL, w, v);
    return ptc_build_einsum(b, w, v, over, v->type->num_dims);
  }
  ptc_value_t *init = ptc_build_constant(b, v->type->dtype, 0), *each[] = {w, v};
  ptc_op_t *repeat = ptc_build_repeat_begin(b, v->type->counts[0], false, &init, 1, each, 2);
  ptc_value_t *const *args = repeat->body->args;
  ptc_builder_t inner = ptc_builder_at_end(b->module, repeat->body);
  ptc_value_t *turn = functional(&inner, args[2], args[3]);
  ptc_value_t *next = ptc_build_binary(&inner, PTC_OP_ADD, args[1], turn);
  ptc_build_repeat_end(b->module, repeat, &next, 1);
  return repeat->results[0];
}

void case_use(grad_case_t *c, ptc_value_t *value) {
  if (!value || !value->type) return;
  case_fill_t fill = {-1, 1, false};
  case_use_weighted(c, add_global(c, PTC_GLOBAL_INPUT, "w", value->type, fill), value);
}

void case_use_weighted(grad_case_t *c, ptc_value_t *weights, ptc_value_t *value) {
  if (!value || !value->type) return;
  ptc_value_t *part = ptc_build_cast(&c->b, functional(&c->b, weights, value), PTC_F32);
  c->loss = c->loss ? ptc_build_binary(&c->b, PTC_OP_ADD, c->loss, part) : part;
}

bool case_differentiate(grad_case_t *c) {
  if (!c->loss || c->diag.num_errors) {
    ptc_diag_print(&c->diag, stdout, PTC_DIAG_TEXT, false);
    return false;
  }
  const ptc_result_t result = {.kind = PTC_RESULT_VALUE,
                               .name = ptc_module_intern(c->module, "loss"),
                               .role = ptc_module_intern(c->module, "loss")};
  ptc_build_return(&c->b, c->func, &c->loss, &result, 1);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  c->module->properties |= PTC_PROPERTY_SHAPED;
  const ptc_status_t status = ptc_pass_run(&ctx, c->module, "autodiff");
  ptc_pass_ctx_deinit(&ctx);
  if (status != PTC_OK) ptc_diag_print(&c->diag, stdout, PTC_DIAG_TEXT, false);
  return status == PTC_OK;
}

static double unit_uniform(uint64_t *random) {
  return (double)(unit_random(random) >> 11) * 0x1p-53;
}

// Slots of a permutation of 0 to 1008 keep all numbers drawn in one range apart.
static double distinct(grad_case_t *c, const case_fill_t *fill, uint64_t factor, uint64_t *count) {
  enum { NUM_SLOTS = 1009 };
  for (;;) {
    const uint64_t slot = ++*count * factor % NUM_SLOTS;
    const double at = ((double)slot + 0.3 * unit_uniform(c->random)) / NUM_SLOTS;
    const double value = fill->low + (fill->high - fill->low) * at;
    if (fabs(value - round(value)) > 1e-3) return value;
  }
}

ptc_interp_t *case_interpret(grad_case_t *c) {
  ptc_interp_t *interp = ptc_interp_create(c->module, PTC_INTERP_EXACT);
  const uint64_t factor = 1 + unit_random(c->random) % 1000;
  uint64_t count = 0;
  for (int64_t g = 0; g < c->module->num_globals; g++) {
    const ptc_global_t *global = c->module->globals[g];
    ptc_tensor_t *tensor = ptc_interp_global(interp, global);
    const case_fill_t *fill = &c->fills[g];
    for (int64_t i = 0; i < tensor->num_elements * tensor->num_instances; i++) {
      if (global->kind == PTC_GLOBAL_PARAM)
        tensor->data[i] = distinct(c, fill, factor, &count);
      else if (fill->whole)
        tensor->data[i] = floor(fill->low + (fill->high - fill->low) * unit_uniform(c->random));
      else
        tensor->data[i] = fill->low + (fill->high - fill->low) * unit_uniform(c->random);
    }
  }
  return interp;
}

static bool loss_at(ptc_interp_t *interp, double *element, double value, double *out_loss) {
  const double kept = *element;
  *element = value;
  const bool ok = ptc_interp_run(interp, "train") == PTC_OK;
  if (ok) *out_loss = ptc_interp_result(interp, 0)->data[0];
  *element = kept;
  return ok;
}

// Of the gradient |grad| by |global|. The differences are of fourth order in the step.
static double error_of(ptc_interp_t *interp, const ptc_global_t *global, const double *grad,
                       int64_t count) {
  static const double step = 2e-4;
  double largest = 1, worst = 0;
  for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(grad[i]));
  ptc_tensor_t *tensor = ptc_interp_global(interp, global);
  for (int64_t i = 0; i < count; i++) {
    double *x = &tensor->data[i], f[4];
    static const double at[] = {-2, -1, 1, 2};
    for (int k = 0; k < 4; k++)
      if (!loss_at(interp, x, *x + at[k] * step, &f[k])) return INFINITY;
    const double difference = (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * step);
    const double error = fabs(difference - grad[i]) / largest;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

double case_error(grad_case_t *c) {
  ptc_interp_t *interp = case_interpret(c);
  double worst = 0;
  for (int32_t r = 1; r < c->func->num_results; r++) {
    const ptc_global_t *global = c->func->results[r].global;
    if (ptc_interp_run(interp, "train") != PTC_OK) {
      ptc_diag_print(&c->diag, stdout, PTC_DIAG_TEXT, false);
      worst = INFINITY;
      break;
    }
    const ptc_tensor_t *result = ptc_interp_result(interp, r);
    const int64_t count = result->num_elements * result->num_instances;
    double *grad = ptc_xmalloc((size_t)(count + 1) * sizeof(*grad));
    memcpy(grad, result->data, (size_t)count * sizeof(*grad));
    const double error = error_of(interp, global, grad, count);
    if (!(error <= worst)) worst = error;
    free(grad);
  }
  ptc_interp_destroy(interp);
  return worst;
}

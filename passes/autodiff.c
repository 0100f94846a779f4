// autodiff: differentiates the sum of train's losses by every trained parameter, in reverse
// (Griewank and Walther 2008, chapter 3). Each gradient becomes a result of the function.
//
// Backward code is ordinary ops behind the forward code. A gradient has its value's type; a
// parameter's is added up in the parameter's dtype.
#include <string.h>

#include "ir/base/vec.h"
#include "passes/grad.h"
#include "passes/pass.h"

typedef PTC_VEC(ptc_value_t *) values_t;

static bool is_trained(const ptc_global_t *global) {
  return global->kind == PTC_GLOBAL_PARAM && ptc_dtype_is_float(global->type->dtype) &&
         !ptc_attrs_bool(&global->attrs, "frozen", false);
}

static ptc_value_t *find_arg(const ptc_func_t *func, const ptc_global_t *global) {
  for (int32_t i = 0; i < func->body->num_args; i++)
    if (func->arg_globals[i] == global) return func->body->args[i];
  return NULL;
}

// Losses are float scalars: return-c3.
static ptc_status_t find_losses(ptc_module_t *module, const ptc_func_t *func, values_t *out) {
  const ptc_op_t *ret = ptc_func_return(func);
  for (int32_t i = 0; i < func->num_results; i++) {
    const ptc_result_t *result = &func->results[i];
    if (result->kind == PTC_RESULT_GRAD)
      return ptc_error(module->diag, func->loc, PTC_INVALID_INPUT, "already-differentiated",
                       "\"%s\" returns gradients already", func->name);
    if (result->kind != PTC_RESULT_VALUE || strcmp(result->role, "loss") != 0) continue;
    PTC_VEC_PUSH(out, ret->operands[i]);
  }
  if (out->len == 0)
    return ptc_error(module->diag, func->loc, PTC_INVALID_INPUT, "no-loss",
                     "\"%s\" has no loss to differentiate", func->name);
  return PTC_OK;
}

// The gradient of each loss by itself: 1, or the loss scale of f16.
static void seed(ptc_grad_t *g, ptc_func_t *func, const values_t *losses) {
  const ptc_global_t *scale = ptc_module_find_global(g->module, "loss_scale");
  const bool scaled = scale && scale->kind == PTC_GLOBAL_COUNTER;
  ptc_value_t *start = scaled ? ptc_func_get_arg(func, scale) : NULL;
  for (int64_t i = 0; i < losses->len; i++) {
    ptc_value_t *loss = losses->data[i];
    if (!ptc_activity_has(g->activity, loss)) continue;
    ptc_value_t *part = start ? start : ptc_build_constant(&g->b, loss->type->dtype, 1);
    ptc_grad_give_to(g, loss, part);
  }
}

static void return_gradients(ptc_grad_t *g, ptc_func_t *func) {
  for (int64_t i = 0; i < g->module->num_globals; i++) {
    const ptc_global_t *global = g->module->globals[i];
    if (!is_trained(global)) continue;
    const ptc_value_t *arg = find_arg(func, global);
    ptc_value_t *grad = arg ? ptc_map_get(&g->grads, arg) : NULL;
    g->b.loc = global->loc;
    if (!grad) {
      ptc_warning(g->module->diag, global->loc, "unused-parameter",
                  "no loss depends on parameter \"%s\"", global->path);
      grad = ptc_grad_zeros(&g->b, global->type);
    }
    if (!grad) continue;
    ptc_func_add_result(func, (ptc_result_t){.kind = PTC_RESULT_GRAD, .global = global}, grad);
  }
}

static ptc_status_t differentiate(ptc_module_t *module, ptc_func_t *func, const values_t *params,
                                  const values_t *losses) {
  ptc_activity_t activity;
  ptc_activity_init(&activity, func, params->data, (int32_t)params->len, losses->data,
                    (int32_t)losses->len);
  ptc_op_t *ret = ptc_func_return(func);
  ptc_grad_t g = {.module = module, .activity = &activity, .b = ptc_builder_before(module, ret)};
  const int64_t errors = module->diag->num_errors;
  ptc_op_t *last = ret->prev;  // the forward code ends here
  seed(&g, func, losses);
  ptc_status_t status = PTC_OK;
  if (last) status = ptc_grad_ops(&g, last);
  if (status == PTC_OK) return_gradients(&g, func);
  // Builders report through the sink alone.
  if (status == PTC_OK && module->diag->num_errors > errors) status = PTC_INTERNAL;
  ptc_grad_deinit(&g);
  ptc_activity_deinit(&activity);
  return status;
}

ptc_status_t ptc_pass_autodiff(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  (void)ctx;
  ptc_func_t *func = ptc_module_find_func(module, "train");
  if (!func || !ptc_func_return(func)) return PTC_OK;
  values_t params = {0}, losses = {0};
  for (int32_t i = 0; i < func->body->num_args; i++)
    if (is_trained(func->arg_globals[i])) PTC_VEC_PUSH(&params, func->body->args[i]);
  ptc_status_t status = find_losses(module, func, &losses);
  if (status == PTC_OK) status = differentiate(module, func, &params, &losses);
  PTC_VEC_FREE(&params);
  PTC_VEC_FREE(&losses);
  return status;
}

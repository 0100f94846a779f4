// optimizer: turns the gradients that train returns into new parameters and optimizer state.
//
//   adamw  Loshchilov and Hutter 2019 (arXiv:1711.05101), bias-corrected, decoupled decay
//   sgd    momentum without dampening, decay added to the gradient, optionally Nesterov
//
// Everything that varies from step to step is a counter or a setting of the module: the host
// decides nothing. `step` counts all steps; `applied` counts those whose update was applied and
// drives the schedule and the bias correction. With f16, the loss is scaled by the counter
// loss_scale (autodiff does it); a step with a non-finite gradient changes no parameter.
#include <string.h>

#include "ir/builder.h"
#include "ir/limbs.h"
#include "ir/op.h"
#include "passes/lr_schedule.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

typedef struct trained_s {
  const ptc_global_t *param;
  ptc_value_t *grad;
} trained_t;

typedef struct optimizer_s {
  ptc_module_t *module;
  ptc_func_t *func;
  ptc_builder_t b;
  bool adamw, nesterov, scaled;  // scaled: dynamic loss scaling
  trained_t *trained;
  int32_t num_trained;
  ptc_value_t *lr, *t, *gscale, *skip;
  ptc_value_t *beta1, *beta2, *eps, *decay, *momentum, *zero;
} optimizer_t;

static ptc_value_t *binary(optimizer_t *o, ptc_opcode_t opcode, ptc_value_t *x, ptc_value_t *y) {
  return ptc_build_binary(&o->b, opcode, x, y);
}

static ptc_value_t *constant(optimizer_t *o, ptc_dtype_t dtype, double value) {
  return ptc_build_constant(&o->b, dtype, value);
}

static ptc_global_t *counter(optimizer_t *o, const char *name, ptc_dtype_t dtype, double value) {
  ptc_global_t *global = ptc_module_find_global(o->module, name);
  if (global) return global;
  global = ptc_module_add_global(o->module, PTC_GLOBAL_COUNTER, name,
                                 ptc_type_scalar(&o->module->arena, dtype), o->func->loc);
  ptc_attrs_set_float(o->module, &global->attrs, "value", value);
  return global;
}

static bool has_state(const optimizer_t *o, const ptc_global_t *global) {
  for (int32_t i = 0; i < o->func->num_results; i++)
    if (o->func->results[i].kind == PTC_RESULT_STATE && o->func->results[i].global == global)
      return true;
  return false;
}

static void return_state(optimizer_t *o, const ptc_global_t *global, ptc_value_t *value) {
  ptc_func_add_result(o->func, (ptc_result_t){.kind = PTC_RESULT_STATE, .global = global}, value);
}

static void return_metric(optimizer_t *o, const char *name, ptc_value_t *value) {
  const ptc_result_t result = {.kind = PTC_RESULT_VALUE,
                               .name = ptc_module_intern(o->module, name),
                               .role = ptc_module_intern(o->module, "metric")};
  ptc_func_add_result(o->func, result, value);
}

// Takes the gradients out of the function's results, or leaves them there, too (|keep|).
static void collect_gradients(optimizer_t *o, ptc_arena_t *scratch, bool keep) {
  const ptc_op_t *ret = ptc_func_return(o->func);
  o->trained = PTC_ARENA_ARRAY(scratch, trained_t, o->func->num_results + 1);
  for (int32_t i = 0; i < o->func->num_results; i++) {
    const ptc_result_t *result = &o->func->results[i];
    if (result->kind != PTC_RESULT_GRAD) continue;
    if (!ptc_attrs_bool(&result->global->attrs, "frozen", false))
      o->trained[o->num_trained++] = (trained_t){result->global, ret->operands[i]};
  }
  for (int32_t i = o->func->num_results; !keep && i-- > 0;)
    if (o->func->results[i].kind == PTC_RESULT_GRAD) ptc_func_erase_result(o->func, i);
}

// Whether the gradients are combined by their squares or by being finite.
typedef struct combine_s {
  ptc_opcode_t each, join;
  ptc_dtype_t dtype;
  double neutral;
} combine_t;
// As limbs: integers, so that the sum does not depend on the order, nor on how gradients are sharded.
static const combine_t sum_of_squares = {PTC_OP_SQUARE_SUM, PTC_OP_ADD, PTC_I64, 0};
static const combine_t all_finite = {PTC_OP_ALL_FINITE, PTC_OP_AND, PTC_BOOL, 1};

// The start of a repeat's sum.
static ptc_value_t *build_neutral(ptc_builder_t *b, const combine_t *how) {
  ptc_value_t *scalar = ptc_build_constant(b, how->dtype, how->neutral);
  if (how->each != PTC_OP_SQUARE_SUM) return scalar;
  const ptc_dim_t limb = {.name = ptc_module_intern(b->module, PTC_LIMBS_DIM), .extent = PTC_LIMBS};
  return ptc_build_broadcast(b, scalar, &limb, 1);
}

// One gradient; a bundle is walked turn by turn.
static ptc_value_t *build_combine_one(ptc_builder_t *b, const combine_t *how, ptc_value_t *grad) {
  if (grad->type->num_counts == 0) {
    ptc_op_t *op = ptc_build_op(b, how->each, &grad, 1, 1, (ptc_attrs_t){0});
    return op ? op->results[0] : NULL;
  }
  ptc_value_t *init = build_neutral(b, how);
  ptc_op_t *repeat = ptc_build_repeat_begin(b, grad->type->counts[0], false, &init, 1, &grad, 1);
  if (!repeat) return NULL;
  ptc_builder_t inner = ptc_builder_at_end(b->module, repeat->body);
  inner.loc = b->loc;
  ptc_value_t *one = build_combine_one(&inner, how, repeat->body->args[2]);
  ptc_value_t *next = ptc_build_binary(&inner, how->join, repeat->body->args[1], one);
  if (!next) return NULL;
  ptc_build_repeat_end(b->module, repeat, &next, 1);
  return repeat->results[0];
}

static ptc_value_t *build_combine(optimizer_t *o, const combine_t *how) {
  ptc_value_t *all = NULL;
  for (int32_t i = 0; i < o->num_trained; i++) {
    ptc_value_t *one = build_combine_one(&o->b, how, o->trained[i].grad);
    all = all ? binary(o, how->join, all, one) : one;
  }
  return all;
}

// The scale and its tracker after this step, as torch.amp.GradScaler.update: an overflow multiplies
// the scale by backoff; |interval| good steps in a row multiply it by growth, unless that is
// infinite.
static void update_loss_scale(optimizer_t *o, const ptc_global_t *scale_global,
                              ptc_value_t *scale) {
  ptc_builder_t *b = &o->b;
  const ptc_global_t *tracker_global = counter(o, "growth_tracker", PTC_I64, 0);
  ptc_value_t *tracker = ptc_func_get_arg(o->func, tracker_global);
  ptc_value_t *growth = ptc_setting(o->func, "loss_scale_growth", PTC_F32, 2);
  ptc_value_t *backoff = ptc_setting(o->func, "loss_scale_backoff", PTC_F32, 0.5);
  ptc_value_t *interval = ptc_setting(o->func, "loss_scale_interval", PTC_I64, 2000);

  ptc_value_t *count = ptc_build_binary_const(b, PTC_OP_ADD, tracker, 1);
  ptc_value_t *full = binary(o, PTC_OP_EQ, count, interval);
  ptc_value_t *grown = binary(o, PTC_OP_MUL, scale, growth);
  ptc_value_t *grows = binary(o, PTC_OP_AND, full, ptc_build_unary(b, PTC_OP_IS_FINITE, grown));
  ptc_value_t *good = ptc_build_where(b, grows, grown, scale);
  ptc_value_t *zero = constant(o, PTC_I64, 0);
  count = ptc_build_where(b, full, zero, count);
  return_state(o, scale_global,
               ptc_build_where(b, o->skip, binary(o, PTC_OP_MUL, scale, backoff), good));
  return_state(o, tracker_global, ptc_build_where(b, o->skip, zero, count));
}

// One parameter (or one instance of a bundle): the update op, or a repeat over its turns.
// |state| is param, m[, v]; |out| receives their new values. False if an op could not be built.
static bool build_update(optimizer_t *o, ptc_builder_t *b, ptc_value_t *grad,
                         ptc_value_t *const *state, int32_t num_state, ptc_value_t *lr,
                         ptc_value_t *decay, ptc_value_t **out) {
  const ptc_type_t *type = state[0]->type;
  if (type->num_counts > 0) {
    ptc_value_t *each[4] = {grad};
    for (int32_t i = 0; i < num_state; i++) each[1 + i] = state[i];
    ptc_op_t *repeat =
        ptc_build_repeat_begin(b, type->counts[0], false, NULL, 0, each, 1 + num_state);
    if (!repeat) return false;
    ptc_builder_t inner = ptc_builder_at_end(o->module, repeat->body);
    inner.loc = b->loc;
    ptc_value_t **args = repeat->body->args + 1, *yields[3];
    if (!build_update(o, &inner, args[0], args + 1, num_state, lr, decay, yields)) return false;
    ptc_build_repeat_end(o->module, repeat, yields, num_state);
    memcpy(out, repeat->results, (size_t)num_state * sizeof(*out));
    return true;
  }
  ptc_attrs_t attrs = {0};
  ptc_op_t *op;
  if (o->adamw) {
    ptc_value_t *operands[] = {state[0], grad,   state[1], state[2], lr,        o->beta1,
                               o->beta2, o->eps, decay,    o->t,     o->gscale, o->skip};
    op = ptc_build_op(b, PTC_OP_ADAMW, operands, 12, 3, attrs);
  } else {
    if (o->nesterov) ptc_attrs_set_bool(o->module, &attrs, "nesterov", true);
    ptc_value_t *operands[] = {state[0],    grad,  state[1],  lr,
                               o->momentum, decay, o->gscale, o->skip};
    op = ptc_build_op(b, PTC_OP_SGD, operands, 8, 2, attrs);
  }
  if (!op) return false;
  memcpy(out, op->results, (size_t)num_state * sizeof(*out));
  return true;
}

static ptc_global_t *add_moment(optimizer_t *o, const ptc_global_t *param, const char *which) {
  const char *path = ptc_arena_printf(&o->module->arena, "%s.%s", which, param->path);
  ptc_global_t *moment =
      ptc_module_add_global(o->module, PTC_GLOBAL_MOMENT, path, param->type, param->loc);
  memcpy(moment->turn_first, param->turn_first, sizeof(moment->turn_first));
  memcpy(moment->turn_step, param->turn_step, sizeof(moment->turn_step));
  ptc_attrs_set_string(o->module, &moment->attrs, "owner", param->path);
  ptc_attrs_set_string(o->module, &moment->attrs, "which", which);
  return moment;
}

static ptc_status_t update_param(optimizer_t *o, const trained_t *trained) {
  const ptc_global_t *param = trained->param;
  const ptc_global_t *globals[3] = {param, add_moment(o, param, "m"), NULL};
  const int32_t num_state = o->adamw ? 3 : 2;
  if (o->adamw) globals[2] = add_moment(o, param, "v");
  ptc_value_t *state[3], *next[3];
  for (int32_t i = 0; i < num_state; i++) state[i] = ptc_func_get_arg(o->func, globals[i]);

  o->b.loc = param->loc;
  ptc_value_t *lr = o->lr;
  const double factor = ptc_attrs_float(&param->attrs, "lr", 1);
  if (factor != 1) lr = ptc_build_binary_const(&o->b, PTC_OP_MUL, lr, factor);
  ptc_value_t *decay = ptc_attrs_bool(&param->attrs, "decay", false) ? o->decay : o->zero;
  if (!build_update(o, &o->b, trained->grad, state, num_state, lr, decay, next))
    return PTC_INVALID_INPUT;
  for (int32_t i = 0; i < num_state; i++) return_state(o, globals[i], next[i]);
  return PTC_OK;
}

static ptc_value_t *build_unscaled(ptc_builder_t *b, ptc_value_t *grad, ptc_value_t *inverse) {
  if (grad->type->num_counts == 0)
    return ptc_build_binary(b, PTC_OP_MUL, grad, ptc_build_cast(b, inverse, grad->type->dtype));
  ptc_op_t *repeat = ptc_build_repeat_begin(b, grad->type->counts[0], false, NULL, 0, &grad, 1);
  if (!repeat) return NULL;
  ptc_builder_t inner = ptc_builder_at_end(b->module, repeat->body);
  inner.loc = b->loc;
  ptc_value_t *one = build_unscaled(&inner, repeat->body->args[1], inverse);
  if (!one) return NULL;
  ptc_build_repeat_end(b->module, repeat, &one, 1);
  return repeat->results[0];
}

// Gradients that stay results are those of the loss, not of the scaled loss.
static void unscale_results(optimizer_t *o, ptc_value_t *inverse) {
  ptc_op_t *ret = ptc_func_return(o->func);
  for (int32_t i = 0; i < o->func->num_results; i++)
    if (o->func->results[i].kind == PTC_RESULT_GRAD)
      ret->operands[i] = build_unscaled(&o->b, ret->operands[i], inverse);
}

// Gradient scale: the clip coefficient over the loss scale. Also returns the norm as a metric.
static void build_gscale(optimizer_t *o, ptc_value_t *scale) {
  ptc_builder_t *b = &o->b;
  // Each element once, squares summed exactly.
  ptc_value_t *norm = ptc_build_unary(b, PTC_OP_LIMBS_VALUE, build_combine(o, &sum_of_squares));
  norm = ptc_build_unary(b, PTC_OP_SQRT, norm);
  ptc_value_t *inverse = NULL;
  if (scale) {
    inverse = binary(o, PTC_OP_DIV, constant(o, PTC_F64, 1), ptc_build_cast(b, scale, PTC_F64));
    norm = binary(o, PTC_OP_MUL, norm, inverse);
  }
  ptc_value_t *coefficient = inverse ? inverse : constant(o, PTC_F64, 1);
  if (ptc_config_number(o->module, "clip", 0) > 0) {
    ptc_value_t *clip = ptc_build_cast(b, ptc_setting(o->func, "clip", PTC_F32, 0), PTC_F64);
    ptc_value_t *ratio =
        binary(o, PTC_OP_DIV, clip, ptc_build_binary_const(b, PTC_OP_ADD, norm, 1e-6));
    ratio = ptc_build_binary_const(b, PTC_OP_MIN, ratio, 1);
    coefficient = inverse ? binary(o, PTC_OP_MUL, ratio, inverse) : ratio;
  }
  o->gscale = ptc_build_cast(b, coefficient, PTC_F32);
  if (inverse) unscale_results(o, ptc_build_cast(b, inverse, PTC_F32));
  return_metric(o, "grad_norm", ptc_build_cast(b, norm, PTC_F32));
}

static void build_settings(optimizer_t *o) {
  if (o->adamw) {
    o->beta1 = ptc_setting(o->func, "beta1", PTC_F32, 0.9);
    o->beta2 = ptc_setting(o->func, "beta2", PTC_F32, 0.999);
    o->eps = ptc_setting(o->func, "eps", PTC_F32, 1e-8);
  } else {
    o->momentum = ptc_setting(o->func, "momentum", PTC_F32, 0);
  }
  o->decay = ptc_setting(o->func, "weight_decay", PTC_F32, o->adamw ? 0.01 : 0);
  o->zero = constant(o, PTC_F32, 0);
}

static ptc_status_t build_step(optimizer_t *o) {
  ptc_builder_t *b = &o->b;
  const ptc_global_t *step_global = counter(o, "step", PTC_I64, 0);
  const ptc_global_t *applied_global = counter(o, "applied", PTC_I64, 0);
  ptc_value_t *step = ptc_func_get_arg(o->func, step_global);
  ptc_value_t *applied = ptc_func_get_arg(o->func, applied_global);
  const ptc_global_t *scale_global =
      o->scaled ? ptc_module_find_global(o->module, "loss_scale") : NULL;
  ptc_value_t *scale = scale_global ? ptc_func_get_arg(o->func, scale_global) : NULL;

  // The next version of the counter, which this step counts by: the old one is read no more.
  o->t = ptc_build_binary_const(b, PTC_OP_ADD, applied, 1);
  PTC_TRY(ptc_build_lr(b, o->func, o->t, &o->lr));
  build_settings(o);
  build_gscale(o, scale);
  return_metric(o, "lr", o->lr);
  o->skip = scale ? ptc_build_unary(b, PTC_OP_NOT, build_combine(o, &all_finite))
                  : constant(o, PTC_BOOL, 0);
  for (int32_t i = 0; i < o->num_trained; i++) PTC_TRY(update_param(o, &o->trained[i]));

  if (!has_state(o, step_global))
    return_state(o, step_global, ptc_build_binary_const(b, PTC_OP_ADD, step, 1));
  return_state(o, applied_global, scale ? ptc_build_where(b, o->skip, applied, o->t) : o->t);
  if (scale) update_loss_scale(o, scale_global, scale);
  return PTC_OK;
}

ptc_status_t ptc_pass_optimizer(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  ptc_func_t *func = ptc_module_find_func(module, "train");
  if (!func) return PTC_OK;
  const char *kind = ptc_attrs_string(&module->config, "optimizer", "adamw");
  optimizer_t o = {.module = module, .func = func, .adamw = strcmp(kind, "adamw") == 0};
  if (!o.adamw && strcmp(kind, "sgd") != 0)
    return ptc_error(module->diag, func->loc, PTC_INVALID_INPUT, "optimizer-kind",
                     "unknown optimizer \"%s\" (adamw, sgd)", kind);
  o.nesterov = ptc_attrs_bool(&module->config, "nesterov", false);
  o.scaled = ptc_module_find_global(module, "loss_scale") != NULL;
  collect_gradients(&o, &ctx->scratch, ctx->options.keep_grads);
  if (o.num_trained == 0)
    return ptc_error(module->diag, func->loc, PTC_INVALID_INPUT, "optimizer-nothing",
                     "\"train\" has no gradient of a parameter that is not frozen");
  o.b = ptc_builder_before(module, ptc_func_return(func));
  o.b.loc = func->loc;
  return build_step(&o);
}

// precision: chooses the dtype of every f32 value and makes the conversions explicit.
//
// A model is lowered in f32. With config precision bf16 or f16 (the compute dtype C below):
//
//   contractions    einsum, attention: operands and result in C (attention's lse stays f32)
//   whole           norms, softmax, cross entropy, exponentials, sums: operands and result in f32
//   the rest        result in C if one float operand is in C, else f32: a norm's scale and bias
//   apply
//                   in f32, and the next contraction casts; a residual sum stays in C
//
// Kept in f32 besides: what elementwise ops and sums make between the losses (and metrics) and the
// nearest contraction or whole op; the contraction that feeds a topk (a router) and all between;
// what the model itself put in f32 (a cast to f32, a parameter with precision = "f32").
//
// A value has at most one cast, beside its definition; an instance of a bundle is cast with the
// whole bundle, outside of the region. So a parameter is cast once per step.
#include <string.h>

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/lr_schedule.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

// Where an f32 value of the model is computed, weakest first: an op with operands of several homes
// computes in the strongest.
typedef enum home_e { HOME_FULL, HOME_COMPUTE, HOME_PINNED } home_t;

typedef enum class_e { CLASS_FOLLOW, CLASS_CONTRACT, CLASS_WHOLE } class_t;

static const struct {
  ptc_opcode_t opcode;
  class_t class;
} classes[] = {
    {PTC_OP_EINSUM, CLASS_CONTRACT},  {PTC_OP_ATTENTION, CLASS_CONTRACT},
    {PTC_OP_EXP, CLASS_WHOLE},        {PTC_OP_LOG, CLASS_WHOLE},
    {PTC_OP_SIN, CLASS_WHOLE},        {PTC_OP_COS, CLASS_WHOLE},
    {PTC_OP_SQRT, CLASS_WHOLE},       {PTC_OP_RSQRT, CLASS_WHOLE},
    {PTC_OP_ERF, CLASS_WHOLE},        {PTC_OP_SOFTPLUS, CLASS_WHOLE},
    {PTC_OP_POW, CLASS_WHOLE},        {PTC_OP_MOD, CLASS_WHOLE},
    {PTC_OP_REDUCE_SUM, CLASS_WHOLE}, {PTC_OP_CUMSUM, CLASS_WHOLE},
    {PTC_OP_SOFTMAX, CLASS_WHOLE},    {PTC_OP_LAYERNORM, CLASS_WHOLE},
    {PTC_OP_RMSNORM, CLASS_WHOLE},    {PTC_OP_CROSS_ENTROPY, CLASS_WHOLE},
    {PTC_OP_TOPK, CLASS_WHOLE},       {PTC_OP_CONSTANT, CLASS_WHOLE},
    {PTC_OP_RANDOM, CLASS_WHOLE},
};

typedef struct precision_s {
  ptc_module_t *module;
  ptc_func_t *func;
  ptc_dtype_t compute;
  ptc_map_t homes;   // value -> home + 1
  ptc_map_t needed;  // value -> itself: must be computed in f32
  ptc_map_t casts;   // value -> the same in the other dtype
} precision_t;

static bool concerns(const ptc_value_t *value) { return value->type->dtype == PTC_F32; }

static class_t class_of(const ptc_op_t *op) {
  for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
    if (classes[i].opcode == op->opcode) return classes[i].class;
  return CLASS_FOLLOW;
}

static home_t home_of(const precision_t *p, const ptc_value_t *value) {
  const uintptr_t home = (uintptr_t)ptc_map_get(&p->homes, value);
  return home ? (home_t)(home - 1) : HOME_FULL;
}

// Returns whether that is new.
static bool set_home(precision_t *p, const ptc_value_t *value, home_t home) {
  if (ptc_map_get(&p->homes, value) && home_of(p, value) == home) return false;
  ptc_map_set(&p->homes, value, (void *)(uintptr_t)(home + 1));
  return true;
}

// --- what must be f32

static bool is_explicit(const ptc_op_t *op) {
  return op->opcode == PTC_OP_CAST && concerns(op->operands[0]) && concerns(op->results[0]);
}

// Marks |value| and, through ops that are neither whole nor contractions, what it is made of;
// |contractions|: up to and including these.
static void need_full(precision_t *p, ptc_value_t *value, bool contractions) {
  if (!concerns(value) || ptc_map_get(&p->needed, value)) return;
  const ptc_op_t *op = value->def;
  const class_t class = op ? class_of(op) : CLASS_FOLLOW;
  if (class == CLASS_CONTRACT && !contractions) return;
  ptc_map_set(&p->needed, value, value);
  if (!op || class == CLASS_CONTRACT) return;
  if (op->opcode == PTC_OP_REPEAT) {
    if (value->type->num_dims > 0) return;  // an accumulator of the loss, not the residual stream
    need_full(p, op->body->last->operands[value->index], contractions);
    if (value->index < op->num_carry) need_full(p, op->body->args[1 + value->index], false);
    return;
  }
  const bool sum = op->opcode == PTC_OP_REDUCE_SUM;
  if (class == CLASS_WHOLE && !sum && !contractions) return;
  for (int32_t i = 0; i < op->num_operands; i++) need_full(p, op->operands[i], contractions);
}

static void find_routers(ptc_op_t *op, void *arg) {
  if (op->opcode == PTC_OP_TOPK) need_full(arg, op->operands[0], true);
}

static void find_needs(precision_t *p) {
  ptc_block_walk(p->func->body, find_routers, p);
  const ptc_op_t *ret = ptc_func_return(p->func);
  for (int32_t i = 0; i < p->func->num_results; i++) {
    const ptc_result_t *result = &p->func->results[i];
    if (result->kind == PTC_RESULT_VALUE && strcmp(result->role, "output") != 0)
      need_full(p, ret->operands[i], false);
  }
}

// --- where values are computed

// Ops that only move or choose elements of their one operand.
static bool is_view(const ptc_op_t *op) {
  return (ptc_op_has_trait(op, PTC_TRAIT_VIEW) && op->num_operands == 1) ||
         op->opcode == PTC_OP_WINDOW || op->opcode == PTC_OP_TRANSPOSE ||
         op->opcode == PTC_OP_BROADCAST;
}

// Whether |value| is a parameter, an instance of one, or a view of it.
static bool is_param(const ptc_value_t *value) {
  for (;;) {
    if (value->def && is_view(value->def))
      value = value->def->operands[0];
    else if (!value->def && value->block->parent_op && value->index > 0)
      value = value->block->parent_op->operands[value->index - 1];
    else
      break;
  }
  if (value->def || value->block->parent_op) return false;
  return value->block->func->arg_globals[value->index]->kind == PTC_GLOBAL_PARAM;
}

static home_t home_of_op(const precision_t *p, const ptc_op_t *op) {
  if (is_explicit(op)) return HOME_PINNED;
  home_t strongest = HOME_FULL;
  for (int32_t i = 0; i < op->num_operands; i++)
    if (concerns(op->operands[i]) && home_of(p, op->operands[i]) > strongest)
      strongest = home_of(p, op->operands[i]);
  for (int32_t i = 0; i < op->num_results; i++)
    if (ptc_map_get(&p->needed, op->results[i])) return HOME_FULL;
  switch (class_of(op)) {
    case CLASS_WHOLE: return HOME_FULL;
    case CLASS_CONTRACT: return strongest == HOME_PINNED ? HOME_FULL : HOME_COMPUTE;
    case CLASS_FOLLOW: break;
  }
  if (op->opcode == PTC_OP_GATHER && strongest == HOME_FULL && is_param(op->operands[0]))
    return HOME_COMPUTE;
  return strongest;
}

static void place_block(precision_t *p, ptc_block_t *block);

static void place_repeat(precision_t *p, ptc_op_t *repeat) {
  ptc_block_t *body = repeat->body;
  for (int32_t i = 0; i < repeat->num_operands; i++)
    set_home(p, body->args[1 + i], home_of(p, repeat->operands[i]));
  // A carried value lives where the strongest of its versions does. Homes only get stronger.
  for (bool again = true; again;) {
    again = false;
    place_block(p, body);
    for (int32_t i = 0; i < repeat->num_carry; i++) {
      const home_t next = home_of(p, body->last->operands[i]);
      const bool needed = ptc_map_get(&p->needed, repeat->results[i]) != NULL;
      if (!needed && next > home_of(p, body->args[1 + i]))
        again |= set_home(p, body->args[1 + i], next);
    }
  }
  for (int32_t i = 0; i < repeat->num_results; i++)
    set_home(p, repeat->results[i],
             i < repeat->num_carry ? home_of(p, body->args[1 + i])
                                   : home_of(p, body->last->operands[i]));
}

static void place_block(precision_t *p, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) {
      place_repeat(p, op);
    } else if (op->num_results > 0) {
      const home_t home = home_of_op(p, op);
      for (int32_t i = 0; i < op->num_results; i++) set_home(p, op->results[i], home);
    }
  }
}

// --- rewriting

static ptc_dtype_t dtype_at(const precision_t *p, home_t home) {
  return home == HOME_COMPUTE ? p->compute : PTC_F32;
}

static ptc_value_t *version(precision_t *p, ptc_value_t *value, ptc_dtype_t dtype);

// A view of a cast instead of a cast of a view: what is viewed is cast once.
static ptc_value_t *build_view(precision_t *p, ptc_op_t *view, ptc_dtype_t dtype) {
  ptc_value_t *operand = version(p, view->operands[0], dtype);
  ptc_builder_t b = ptc_builder_before(p->module, view->next);
  b.loc = view->loc;
  return ptc_build_op(&b, view->opcode, &operand, 1, 1, ptc_attrs_clone(p->module, &view->attrs))
      ->results[0];
}

// |value|, which has its final type, in |dtype|.
static ptc_value_t *version(precision_t *p, ptc_value_t *value, ptc_dtype_t dtype) {
  if (value->type->dtype == dtype) return value;
  ptc_value_t *other = ptc_map_get(&p->casts, value);
  if (other) return other;
  ptc_block_t *block = ptc_value_block(value);
  ptc_op_t *repeat = block->parent_op;
  if (!value->def && repeat && value->index > repeat->num_carry) {
    ptc_value_t *bundle = version(p, repeat->operands[value->index - 1], dtype);
    other = ptc_repeat_add_each(p->module, repeat, bundle);
  } else if (value->def && is_view(value->def)) {
    other = build_view(p, value->def, dtype);
  } else {
    ptc_op_t *before = value->def ? value->def->next : block->first;
    ptc_builder_t b = ptc_builder_before(p->module, before);
    b.loc = value->def ? value->def->loc : before->loc;
    if (value->def && value->def->opcode == PTC_OP_CONSTANT)
      other = ptc_build_constant(&b, dtype, ptc_op_float(value->def, "value"));
    else
      other = ptc_build_cast(&b, value, dtype);
    if (!other->name) other->name = value->name;
  }
  ptc_map_set(&p->casts, value, other);
  return other;
}

static void bring(precision_t *p, ptc_op_t *op, int32_t operand, ptc_dtype_t dtype) {
  ptc_value_t *value = op->operands[operand];
  const ptc_dtype_t now = value->type->dtype;
  if (now == PTC_F32 || now == p->compute) op->operands[operand] = version(p, value, dtype);
}

static ptc_status_t rewrite_block(precision_t *p, ptc_block_t *block);

static ptc_status_t rewrite_repeat(precision_t *p, ptc_op_t *repeat) {
  ptc_arena_t *arena = &p->module->arena;
  ptc_block_t *body = repeat->body;
  for (int32_t i = 0; i < repeat->num_carry; i++) {
    if (!concerns(body->args[1 + i])) continue;
    const ptc_dtype_t dtype = dtype_at(p, home_of(p, body->args[1 + i]));
    bring(p, repeat, i, dtype);
    body->args[1 + i]->type = ptc_type_with_dtype(arena, body->args[1 + i]->type, dtype);
  }
  for (int32_t i = repeat->num_carry; i < repeat->num_operands; i++) {
    ptc_value_t *arg = body->args[1 + i];
    arg->type = ptc_type_with_dtype(arena, arg->type, repeat->operands[i]->type->dtype);
  }
  PTC_TRY(rewrite_block(p, body));
  for (int32_t i = 0; i < repeat->num_results; i++) {
    if (i < repeat->num_carry) bring(p, body->last, i, body->args[1 + i]->type->dtype);
    const ptc_dtype_t dtype = body->last->operands[i]->type->dtype;
    repeat->results[i]->type = ptc_type_with_dtype(arena, repeat->results[i]->type, dtype);
  }
  return PTC_OK;
}

static ptc_status_t rewrite_op(precision_t *p, ptc_op_t *op) {
  if (op->num_results == 0) return PTC_OK;
  bool float_operand = false;
  for (int32_t i = 0; i < op->num_operands; i++)
    float_operand |= ptc_dtype_is_float(op->operands[i]->type->dtype);
  if (!float_operand || (op->opcode == PTC_OP_CAST && !is_explicit(op))) return PTC_OK;
  // A comparison yields a bool: its operands go where the strongest of them is.
  home_t home = home_of(p, op->results[0]);
  if (!concerns(op->results[0])) home = home_of_op(p, op);
  // A position that rope turns by is an operand of its own dtype.
  const int32_t num = op->opcode == PTC_OP_ROPE ? 1 : op->num_operands;
  for (int32_t i = 0; i < num; i++) bring(p, op, i, dtype_at(p, home));
  // The dtype of a sum is the one that its type was given.
  if (op->num_results == 1 && concerns(op->results[0]))
    op->results[0]->type =
        ptc_type_with_dtype(&p->module->arena, op->results[0]->type, dtype_at(p, home));
  const ptc_type_t *types[8];
  if (op->num_results > 8) return PTC_INTERNAL;
  PTC_TRY(ptc_op_info(op->opcode)->shape(p->module, op, types));
  for (int32_t i = 0; i < op->num_results; i++) op->results[i]->type = types[i];
  return PTC_OK;
}

static ptc_status_t rewrite_block(precision_t *p, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next)
    PTC_TRY(op->body ? rewrite_repeat(p, op) : rewrite_op(p, op));
  return PTC_OK;
}

// Losses, metrics and state leave in f32; outputs as they are.
static void rewrite_return(precision_t *p) {
  ptc_op_t *ret = ptc_func_return(p->func);
  for (int32_t i = 0; i < p->func->num_results; i++) {
    const ptc_result_t *result = &p->func->results[i];
    if (result->kind == PTC_RESULT_VALUE && strcmp(result->role, "output") == 0) continue;
    if (ret->operands[i]->type->dtype == p->compute) bring(p, ret, i, PTC_F32);
  }
}

static ptc_status_t rewrite_func(ptc_module_t *module, ptc_func_t *func, ptc_dtype_t compute) {
  precision_t p = {.module = module, .func = func, .compute = compute};
  for (int32_t i = 0; i < func->body->num_args; i++) {
    const ptc_global_t *global = func->arg_globals[i];
    const char *own = ptc_attrs_string(&global->attrs, "precision", "");
    if (strcmp(own, "f32") == 0) set_home(&p, func->body->args[i], HOME_PINNED);
  }
  find_needs(&p);
  place_block(&p, func->body);
  const ptc_status_t status = rewrite_block(&p, func->body);
  if (status == PTC_OK) rewrite_return(&p);
  ptc_map_deinit(&p.homes);
  ptc_map_deinit(&p.needed);
  ptc_map_deinit(&p.casts);
  return status;
}

// The counter that autodiff multiplies the loss by.
static void add_loss_scale(ptc_module_t *module, const ptc_func_t *train) {
  ptc_global_t *scale = ptc_module_add_global(module, PTC_GLOBAL_COUNTER, "loss_scale",
                                              ptc_type_scalar(&module->arena, PTC_F32), train->loc);
  ptc_attrs_set_float(module, &scale->attrs, "value",
                      ptc_config_number(module, "loss_scale", 65536));
}

ptc_status_t ptc_pass_precision(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  (void)ctx;
  const char *name = ptc_attrs_string(&module->config, "precision", "f32");
  ptc_dtype_t compute;
  if (!ptc_dtype_parse(name, &compute) || !ptc_dtype_is_float(compute) || compute == PTC_F64)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "precision-kind",
                     "unknown precision \"%s\" (f32, bf16, f16)", name);
  if (compute == PTC_F32) return PTC_OK;
  if (module->properties & PTC_PROPERTY_BACKWARD)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "pass-order",
                     "pass \"precision\" must run before \"autodiff\"");
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    if (strcmp(func->name, "init") != 0) PTC_TRY(rewrite_func(module, func, compute));
  const ptc_func_t *train = ptc_module_find_func(module, "train");
  if (compute == PTC_F16 && train && !ptc_module_find_global(module, "loss_scale"))
    add_loss_scale(module, train);
  return PTC_OK;
}

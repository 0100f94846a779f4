// The backward code of one block: values it needs of the forward block, gradients as they add up.
#include "passes/grad.h"

#include "passes/rewrite.h"

static const ptc_grad_fn_t hooks[PTC_NUM_OPS] = {
#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, interp, \
               grad, cost)                                                                        \
  ptc_grad_##grad,
#include "ir/ops.def"
#undef PTC_OP
};

bool ptc_grad_stops(const ptc_op_t *op) {
  return hooks[op->opcode] == ptc_grad_zero || hooks[op->opcode] == ptc_grad_none_leaf;
}

void ptc_grad_deinit(ptc_grad_t *g) {
  ptc_map_deinit(&g->grads);
  ptc_map_deinit(&g->values);
  ptc_map_deinit(&g->cheap);
}

// --- hooks without a gradient

ptc_status_t ptc_grad_zero(ptc_grad_t *g, const ptc_op_t *op) {
  (void)g, (void)op;
  return PTC_OK;
}

ptc_status_t ptc_grad_none_leaf(ptc_grad_t *g, const ptc_op_t *op) {
  (void)g, (void)op;
  return PTC_OK;
}

ptc_status_t ptc_grad_refuse(const ptc_grad_t *g, const ptc_op_t *op, const char *what) {
  return ptc_error(g->module->diag, op->loc, PTC_INVALID_INPUT, "no-gradient",
                   "cannot differentiate through %s of \"%s\"", what,
                   ptc_op_info(op->opcode)->mnemonic);
}

ptc_status_t ptc_grad_none(ptc_grad_t *g, const ptc_op_t *op) {
  return ptc_grad_refuse(g, op, "the result");
}

// --- values

// Ops that cost next to nothing and whose operand is no larger than their result, so that it is
// saved instead.
static bool is_move(const ptc_op_t *op) {
  if (op->opcode == PTC_OP_CAST)
    return ptc_dtype_bytes(op->operands[0]->type->dtype) <=
           ptc_dtype_bytes(op->results[0]->type->dtype);
  return ptc_op_has_trait(op, PTC_TRAIT_VIEW) || op->opcode == PTC_OP_BROADCAST ||
         op->opcode == PTC_OP_TRANSPOSE;
}

static bool is_light(const ptc_op_t *op) {
  if (ptc_op_has_trait(op, PTC_TRAIT_RANDOM) || op->num_results != 1) return false;
  return is_move(op) || ptc_op_has_trait(op, PTC_TRAIT_EWISE) || op->opcode == PTC_OP_CONSTANT ||
         op->opcode == PTC_OP_IOTA;
}

// Whether |value| is made by light ops from what the backward turn has anyway: the turn, the
// per-turn inputs, captured values.
static bool is_cheap(ptc_grad_t *g, ptc_value_t *value) {
  static const char yes = 'y', no = 'n';
  if (ptc_value_block(value) != g->forward->body) return true;
  if (!value->def) return value->index == 0 || value->index > g->forward->num_carry;
  const char *known = ptc_map_get(&g->cheap, value);
  if (known) return *known == yes;
  bool cheap = is_light(value->def);
  for (int32_t i = 0; cheap && i < value->def->num_operands; i++)
    cheap = is_cheap(g, value->def->operands[i]);
  ptc_map_set(&g->cheap, value, (void *)(uintptr_t)(cheap ? &yes : &no));
  return cheap;
}

// The instance of |bundle|, a value around the backward region.
static ptc_value_t *take_instance(ptc_grad_t *g, ptc_value_t *bundle) {
  if (!bundle) return NULL;
  const ptc_op_t *backward = g->backward;
  for (int32_t i = backward->num_carry; i < backward->num_operands; i++)
    if (backward->operands[i] == bundle) return backward->body->args[1 + i];
  return ptc_repeat_add_each(g->module, g->backward, bundle);
}

// Every turn of the forward region hands |value| over.
static ptc_value_t *save(ptc_grad_t *g, ptc_value_t *value) {
  ptc_op_t *forward = g->forward;
  for (int32_t i = forward->num_carry; i < forward->num_results; i++)
    if (forward->body->last->operands[i] == value)
      return take_instance(g, ptc_grad_value(g->outer, forward->results[i]));
  ptc_value_t *bundle = ptc_repeat_add_collect(g->module, forward, value);
  return take_instance(g, ptc_grad_value(g->outer, bundle));
}

static ptc_value_t *compute_again(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_op_t *copy = ptc_op_new(g->module, op->opcode, op->loc, op->operands, op->num_operands, 1);
  for (int32_t i = 0; i < op->num_operands; i++) {
    copy->operands[i] = ptc_grad_value(g, op->operands[i]);
    if (!copy->operands[i]) return NULL;
  }
  copy->attrs = ptc_attrs_clone(g->module, &op->attrs);
  copy->results[0]->type = op->results[0]->type;
  copy->results[0]->name = op->results[0]->name;
  ptc_op_insert(copy, g->b.block, g->b.before);
  return copy->results[0];
}

ptc_value_t *ptc_grad_value(ptc_grad_t *g, ptc_value_t *value) {
  if (!g->forward) return value;
  if (ptc_value_block(value) != g->forward->body) return ptc_grad_value(g->outer, value);
  ptc_value_t *there = ptc_map_get(&g->values, value);
  if (there) return there;
  if (!value->def && value->index == 0)
    there = g->backward->body->args[0];
  else if (!value->def && value->index > g->forward->num_carry)
    there = take_instance(g, ptc_grad_value(g->outer, g->forward->operands[value->index - 1]));
  else if (value->def && (is_move(value->def) || is_cheap(g, value)))
    there = compute_again(g, value->def);
  else
    there = save(g, value);
  if (there) ptc_map_set(&g->values, value, there);
  return there;
}

ptc_value_t *ptc_grad_operand(ptc_grad_t *g, const ptc_op_t *op, int32_t index) {
  return ptc_grad_value(g, op->operands[index]);
}

ptc_value_t *ptc_grad_result(ptc_grad_t *g, const ptc_op_t *op, int32_t index) {
  return ptc_grad_value(g, op->results[index]);
}

// --- gradients

static bool is_function_arg(const ptc_value_t *value) {
  return !value->def && !value->block->parent_op;
}

ptc_value_t *ptc_grad_root(ptc_value_t *value) {
  const ptc_op_t *def = value->def;
  const bool cast = def && def->opcode == PTC_OP_CAST && is_function_arg(def->operands[0]) &&
                    ptc_dtype_is_float(def->operands[0]->type->dtype);
  return cast ? def->operands[0] : value;
}

ptc_value_t *ptc_grad_of(const ptc_grad_t *g, const ptc_op_t *op, int32_t index) {
  return ptc_map_get(&g->grads, op->results[index]);
}

bool ptc_grad_wants(const ptc_grad_t *g, const ptc_op_t *op, int32_t index) {
  return ptc_activity_has(g->activity, op->operands[index]);
}

void ptc_grad_give(ptc_grad_t *g, const ptc_op_t *op, int32_t index, ptc_value_t *part) {
  ptc_grad_give_to(g, op->operands[index], part);
}

ptc_dtype_t ptc_grad_dtype(const ptc_value_t *value) {
  const ptc_op_t *repeat = value->def ? NULL : value->block->parent_op;
  const bool param = !value->def && (!repeat || value->index > repeat->num_carry);
  const ptc_dtype_t dtype = value->type->dtype;
  return param && (dtype == PTC_BF16 || dtype == PTC_F16) ? PTC_F32 : dtype;
}

void ptc_grad_give_to(ptc_grad_t *g, ptc_value_t *value, ptc_value_t *part) {
  if (!ptc_activity_has(g->activity, value) || !part || !part->type) return;
  value = ptc_grad_root(value);
  if (value->type->num_counts == 0) part = ptc_build_fit(&g->b, part, value->type);
  part = ptc_build_cast(&g->b, part, ptc_grad_dtype(value));
  ptc_value_t *so_far = ptc_map_get(&g->grads, value);
  if (so_far) part = ptc_grad_sum(&g->b, so_far, part);
  if (part) ptc_map_set(&g->grads, value, part);
}

ptc_status_t ptc_grad_ops(ptc_grad_t *g, const ptc_op_t *last) {
  ptc_status_t status = PTC_OK;
  for (const ptc_op_t *op = last, *prev; op; op = prev) {
    prev = op->prev;
    bool any = false;
    for (int32_t i = 0; i < op->num_results; i++) any |= ptc_grad_of(g, op, i) != NULL;
    if (!any) continue;
    g->b.loc = op->loc;
    const ptc_status_t one = hooks[op->opcode](g, op);
    if (status == PTC_OK) status = one;
  }
  return status;
}

// --- arithmetic on gradients

static ptc_builder_t inside(const ptc_builder_t *b, const ptc_op_t *repeat) {
  ptc_builder_t inner = ptc_builder_at_end(b->module, repeat->body);
  inner.loc = b->loc;
  return inner;
}

ptc_value_t *ptc_grad_zeros(ptc_builder_t *b, const ptc_type_t *type) {
  if (type->num_counts == 0) return ptc_build_fit(b, ptc_build_constant(b, type->dtype, 0), type);
  ptc_op_t *repeat = ptc_build_repeat_begin(b, type->counts[0], false, NULL, 0, NULL, 0);
  if (!repeat) return NULL;
  ptc_builder_t inner = inside(b, repeat);
  ptc_value_t *zeros = ptc_grad_zeros(&inner, ptc_type_instance(&b->module->arena, type));
  if (!zeros) return NULL;
  ptc_build_repeat_end(b->module, repeat, &zeros, 1);
  return repeat->results[0];
}

ptc_value_t *ptc_grad_sum(ptc_builder_t *b, ptc_value_t *x, ptc_value_t *y) {
  if (!x || !y || !x->type || !y->type) return NULL;
  if (x->type->num_counts == 0) return ptc_build_binary(b, PTC_OP_ADD, x, y);
  ptc_value_t *each[] = {x, y};
  ptc_op_t *repeat = ptc_build_repeat_begin(b, x->type->counts[0], false, NULL, 0, each, 2);
  if (!repeat) return NULL;
  ptc_builder_t inner = inside(b, repeat);
  ptc_value_t *sum = ptc_grad_sum(&inner, repeat->body->args[1], repeat->body->args[2]);
  if (!sum) return NULL;
  ptc_build_repeat_end(b->module, repeat, &sum, 1);
  return repeat->results[0];
}

ptc_value_t *ptc_grad_build(ptc_grad_t *g, ptc_opcode_t opcode, ptc_value_t *const *operands,
                            int32_t num_operands, ptc_attrs_t attrs) {
  const ptc_op_t *op = ptc_build_op(&g->b, opcode, operands, num_operands, 1, attrs);
  return op ? op->results[0] : NULL;
}

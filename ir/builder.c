#include "ir/builder.h"

ptc_builder_t ptc_builder_at_end(ptc_module_t *module, ptc_block_t *block) {
  return (ptc_builder_t){.module = module, .block = block};
}

ptc_builder_t ptc_builder_before(ptc_module_t *module, ptc_op_t *op) {
  return (ptc_builder_t){.module = module, .block = op->parent, .before = op, .loc = op->loc};
}

// --- general

ptc_op_t *ptc_build_op_as(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *const *operands,
                          int32_t num_operands, int32_t num_results, ptc_attrs_t attrs,
                          const ptc_type_t *given) {
  for (int32_t i = 0; i < num_operands; i++)
    if (!operands[i] || !operands[i]->type) return NULL;
  ptc_op_t *op = ptc_op_new(b->module, opcode, b->loc, operands, num_operands, num_results);
  op->attrs = attrs;
  if (num_results) op->results[0]->type = given;
  const ptc_type_t **types = PTC_ARENA_ARRAY(&b->module->arena, const ptc_type_t *, num_results);
  if (ptc_op_info(opcode)->shape(b->module, op, types) != PTC_OK) return NULL;
  for (int32_t i = 0; i < num_results; i++) op->results[i]->type = types[i];
  ptc_op_insert(op, b->block, b->before);
  return op;
}

ptc_op_t *ptc_build_op(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *const *operands,
                       int32_t num_operands, int32_t num_results, ptc_attrs_t attrs) {
  return ptc_build_op_as(b, opcode, operands, num_operands, num_results, attrs, NULL);
}

static ptc_value_t *first_result(const ptc_op_t *op) { return op ? op->results[0] : NULL; }

static ptc_value_t *build1(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x,
                           ptc_attrs_t attrs) {
  return first_result(ptc_build_op(b, opcode, &x, 1, 1, attrs));
}

// --- leaves and elementwise ops

ptc_value_t *ptc_build_constant(ptc_builder_t *b, ptc_dtype_t dtype, double value) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_float(b->module, &attrs, "value", value);
  const ptc_type_t *type = ptc_type_scalar(&b->module->arena, dtype);
  return first_result(ptc_build_op_as(b, PTC_OP_CONSTANT, NULL, 0, 1, attrs, type));
}

ptc_value_t *ptc_build_iota(ptc_builder_t *b, const ptc_dim_t *dim) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(b->module, &attrs, "dim", dim->name);
  const ptc_type_t *type = ptc_type_new(&b->module->arena, PTC_I32, dim, 1);
  return first_result(ptc_build_op_as(b, PTC_OP_IOTA, NULL, 0, 1, attrs, type));
}

ptc_value_t *ptc_build_unary(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x) {
  return build1(b, opcode, x, (ptc_attrs_t){0});
}

ptc_value_t *ptc_build_binary(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x,
                              ptc_value_t *y) {
  ptc_value_t *operands[] = {x, y};
  return first_result(ptc_build_op(b, opcode, operands, 2, 1, (ptc_attrs_t){0}));
}

ptc_value_t *ptc_build_where(ptc_builder_t *b, ptc_value_t *cond, ptc_value_t *x, ptc_value_t *y) {
  ptc_value_t *operands[] = {cond, x, y};
  return first_result(ptc_build_op(b, PTC_OP_WHERE, operands, 3, 1, (ptc_attrs_t){0}));
}

ptc_value_t *ptc_build_cast(ptc_builder_t *b, ptc_value_t *x, ptc_dtype_t dtype) {
  if (!x || !x->type || x->type->dtype == dtype) return x;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_string(b->module, &attrs, "to", ptc_dtype_name(dtype));
  return build1(b, PTC_OP_CAST, x, attrs);
}

ptc_value_t *ptc_build_binary_const(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x,
                                    double value) {
  if (!x || !x->type) return NULL;
  return ptc_build_binary(b, opcode, x, ptc_build_constant(b, x->type->dtype, value));
}

// --- dims

ptc_value_t *ptc_build_reduce(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x,
                              const char *const *over, int32_t num_over) {
  if (num_over == 0) return x;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(b->module, &attrs, "over", over, num_over);
  return build1(b, opcode, x, attrs);
}

ptc_value_t *ptc_build_rename(ptc_builder_t *b, ptc_value_t *x, const char *const *from,
                              const char *const *to, int32_t count) {
  if (count == 0) return x;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(b->module, &attrs, "from", from, count);
  ptc_attrs_set_dims(b->module, &attrs, "to", to, count);
  return build1(b, PTC_OP_RENAME, x, attrs);
}

ptc_value_t *ptc_build_broadcast(ptc_builder_t *b, ptc_value_t *x, const ptc_dim_t *dims,
                                 int32_t num_dims) {
  if (!x || !x->type) return NULL;
  ptc_arena_t *arena = &b->module->arena;
  const char **names = PTC_ARENA_ARRAY(arena, const char *, num_dims);
  int64_t *extents = PTC_ARENA_ARRAY(arena, int64_t, num_dims);
  for (int32_t i = 0; i < num_dims; i++) {
    names[i] = dims[i].name;
    extents[i] = dims[i].extent;
  }
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(b->module, &attrs, "dims", names, num_dims);
  ptc_attrs_set_ints(b->module, &attrs, "extents", extents, num_dims);
  // The given type carries the sharding of the new dims.
  const ptc_type_t *given = ptc_type_new(arena, x->type->dtype, dims, num_dims);
  return first_result(ptc_build_op_as(b, PTC_OP_BROADCAST, &x, 1, 1, attrs, given));
}

ptc_value_t *ptc_build_transpose(ptc_builder_t *b, ptc_value_t *x, const char *const *dims,
                                 int32_t num_dims) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(b->module, &attrs, "dims", dims, num_dims);
  return build1(b, PTC_OP_TRANSPOSE, x, attrs);
}

static const char *const *dim_names(ptc_builder_t *b, const ptc_type_t *type) {
  const char **names = PTC_ARENA_ARRAY(&b->module->arena, const char *, type->num_dims);
  for (int32_t i = 0; i < type->num_dims; i++) names[i] = type->dims[i].name;
  return names;
}

ptc_value_t *ptc_build_fit(ptc_builder_t *b, ptc_value_t *x, const ptc_type_t *like) {
  if (!x || !x->type) return NULL;
  const char **over = PTC_ARENA_ARRAY(&b->module->arena, const char *, x->type->num_dims);
  int32_t num_over = 0;
  for (int32_t i = 0; i < x->type->num_dims; i++)
    if (!ptc_type_has_dim(like, x->type->dims[i].name)) over[num_over++] = x->type->dims[i].name;
  x = ptc_build_reduce(b, PTC_OP_REDUCE_SUM, x, over, num_over);
  if (!x) return NULL;
  if (x->type->num_dims < like->num_dims)
    return ptc_build_broadcast(b, x, like->dims, like->num_dims);
  for (int32_t i = 0; i < like->num_dims; i++)
    if (x->type->dims[i].name != like->dims[i].name)
      return ptc_build_transpose(b, x, dim_names(b, like), like->num_dims);
  return x;
}

// --- contraction

static ptc_value_t *build_einsum(ptc_builder_t *b, ptc_value_t *x, ptc_value_t *y,
                                 const char *const *over, int32_t num_over,
                                 const char *const *order, int32_t num_order) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(b->module, &attrs, "over", over, num_over);
  if (order) ptc_attrs_set_dims(b->module, &attrs, "dims", order, num_order);
  ptc_value_t *operands[] = {x, y};
  return first_result(ptc_build_op(b, PTC_OP_EINSUM, operands, 2, 1, attrs));
}

ptc_value_t *ptc_build_einsum(ptc_builder_t *b, ptc_value_t *x, ptc_value_t *y,
                              const char *const *over, int32_t num_over) {
  return build_einsum(b, x, y, over, num_over, NULL, 0);
}

ptc_value_t *ptc_build_einsum_fit(ptc_builder_t *b, ptc_value_t *x, ptc_value_t *y,
                                  const ptc_type_t *like) {
  if (!x || !y || !x->type || !y->type) return NULL;
  const ptc_type_t *types[] = {x->type, y->type};
  int32_t room = x->type->num_dims + y->type->num_dims;
  const char **over = PTC_ARENA_ARRAY(&b->module->arena, const char *, room);
  const char **order = PTC_ARENA_ARRAY(&b->module->arena, const char *, like->num_dims);
  int32_t num_over = 0, num_order = 0;
  for (int t = 0; t < 2; t++) {
    for (int32_t i = 0; i < types[t]->num_dims; i++) {
      const char *name = types[t]->dims[i].name;
      bool seen = t == 1 && ptc_type_has_dim(types[0], name);
      if (!seen && !ptc_type_has_dim(like, name)) over[num_over++] = name;
    }
  }
  if (num_over == 0) return ptc_build_fit(b, ptc_build_binary(b, PTC_OP_MUL, x, y), like);
  for (int32_t i = 0; i < like->num_dims; i++) {
    const char *name = like->dims[i].name;
    if (ptc_type_has_dim(types[0], name) || ptc_type_has_dim(types[1], name))
      order[num_order++] = name;
  }
  return ptc_build_fit(b, build_einsum(b, x, y, over, num_over, order, num_order), like);
}

// --- control

ptc_op_t *ptc_build_repeat_begin(ptc_builder_t *b, int64_t count, bool reverse,
                                 ptc_value_t *const *carry, int32_t num_carry,
                                 ptc_value_t *const *each, int32_t num_each) {
  ptc_module_t *module = b->module;
  for (int32_t i = 0; i < num_carry; i++)
    if (!carry[i] || !carry[i]->type) return NULL;
  for (int32_t i = 0; i < num_each; i++)
    if (!each[i] || !each[i]->type || !each[i]->type->num_counts) return NULL;
  ptc_op_t *op = ptc_op_new(module, PTC_OP_REPEAT, b->loc, NULL, 0, 0);
  for (int32_t i = 0; i < num_carry; i++) ptc_op_add_operand(module, op, i, carry[i]);
  for (int32_t i = 0; i < num_each; i++) ptc_op_add_operand(module, op, num_carry + i, each[i]);
  op->num_carry = num_carry;
  op->num_each = num_each;
  ptc_attrs_set_int(module, &op->attrs, "count", count);
  if (reverse) ptc_attrs_set_bool(module, &op->attrs, "reverse", true);
  op->body = ptc_block_new(module, b->block->func, op);
  ptc_block_add_arg(op->body, ptc_type_scalar(&module->arena, PTC_I32), NULL);
  for (int32_t i = 0; i < num_carry; i++)
    ptc_block_add_arg(op->body, carry[i]->type, carry[i]->name);
  for (int32_t i = 0; i < num_each; i++)
    ptc_block_add_arg(op->body, ptc_type_instance(&module->arena, each[i]->type), each[i]->name);
  ptc_op_insert(op, b->block, b->before);
  return op;
}

void ptc_build_repeat_end(ptc_module_t *module, ptc_op_t *repeat, ptc_value_t *const *yields,
                          int32_t num_yields) {
  if (!repeat) return;
  ptc_op_t *yield = ptc_op_new(module, PTC_OP_YIELD, repeat->loc, yields, num_yields, 0);
  bool complete = true;
  for (int32_t i = 0; i < num_yields; i++) {
    if (yields[i] && yields[i]->type) continue;
    // After an error: keep the block well-formed; the result of this yield has no type.
    complete = false;
    yield->operands[i] = repeat->body->args[i < repeat->num_carry ? 1 + i : 0];
  }
  ptc_op_insert(yield, repeat->body, NULL);
  const ptc_type_t **types = PTC_ARENA_ARRAY(&module->arena, const ptc_type_t *, num_yields);
  for (int32_t i = 0; i < num_yields; i++) ptc_op_add_result(module, repeat, NULL);
  if (complete && ptc_op_info(PTC_OP_REPEAT)->shape(module, repeat, types) != PTC_OK)
    complete = false;
  for (int32_t i = 0; i < num_yields; i++) repeat->results[i]->type = complete ? types[i] : NULL;
}

void ptc_build_return(ptc_builder_t *b, ptc_func_t *func, ptc_value_t *const *values,
                      const ptc_result_t *results, int32_t count) {
  if (!ptc_func_return(func)) {
    ptc_op_t *ret = ptc_op_new(b->module, PTC_OP_RETURN, b->loc, NULL, 0, 0);
    ptc_op_insert(ret, func->body, NULL);
  }
  for (int32_t i = 0; i < count; i++)
    if (values[i]) ptc_func_add_result(func, results[i], values[i]);
}

// The types of ops in the loop over micro-batches.
#include <string.h>

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/microbatch_impl.h"

typedef struct retype_s {
  ptc_micro_t *m;
  bool settled;  // the types of carried values are known: values may be repaired
  const ptc_op_t *at;
  const char *reason;
} retype_t;

static bool retype_block(retype_t *r, ptc_block_t *block);

static bool is_partial(const ptc_value_t *value) { return value->type->num_partial > 0; }

static const ptc_type_t *as_partial(const ptc_micro_t *m, const ptc_type_t *type) {
  ptc_type_t *partial = ptc_type_with_dtype(&m->module->arena, type, type->dtype);
  partial->partial = m->axis_ref;
  partial->num_partial = 1;
  partial->partial_kind = PTC_REDUCE_SUM;
  return partial;
}

// The shape function's verdict; its complaint is kept as the reason, not as an error.
static bool infer(retype_t *r, ptc_op_t *op, const ptc_type_t **types) {
  ptc_module_t *module = r->m->module;
  ptc_diag_t *diag = module->diag, scratch;
  ptc_diag_init(&scratch);
  module->diag = &scratch;
  const bool fine = ptc_op_info(op->opcode)->shape(module, op, types) == PTC_OK;
  module->diag = diag;
  if (!fine) {
    r->at = op;
    r->reason =
        scratch.num_items > 0 ? ptc_arena_strdup(&module->arena, scratch.items[0].message) : NULL;
  }
  ptc_diag_deinit(&scratch);
  return fine;
}

static const ptc_type_t *with_sharded_batch(const ptc_micro_t *m, const ptc_type_t *type) {
  const int32_t at = ptc_type_find_dim(type, m->dim);
  if (at < 0 || type->dims[at].num_axes > 0) return type;
  ptc_dim_t dims[PTC_MAX_DIMS];
  memcpy(dims, type->dims, (size_t)type->num_dims * sizeof(dims[0]));
  dims[at].axes = m->axis_ref;
  dims[at].num_axes = 1;
  return ptc_type_new(&m->module->arena, type->dtype, dims, type->num_dims);
}

// 1 for the first sample of the step, 0 for the others, summed: exactly 1 over all micro-batches.
static ptc_value_t *partial_one(ptc_micro_t *m, ptc_dtype_t dtype) {
  if (m->ones[dtype]) return m->ones[dtype];
  ptc_op_t *before = m->first_in_loop ? m->first_in_loop : m->loop->body->last;
  ptc_builder_t b = ptc_builder_before(m->module, before);
  b.loc = m->func->loc;
  ptc_dim_t dim = {.name = m->dim, .extent = 0};
  for (int32_t i = 0; i < m->func->body->num_args; i++) {
    const ptc_type_t *type = m->func->body->args[i]->type;
    const int32_t at = ptc_type_find_dim(type, m->dim);
    if (at >= 0) dim.extent = type->dims[at].extent;
  }
  dim.axes = m->axis_ref;
  dim.num_axes = 1;
  ptc_value_t *sample = ptc_build_iota(&b, &dim);
  ptc_value_t *first = ptc_build_binary_const(&b, PTC_OP_EQ, sample, 0);
  ptc_value_t *one = ptc_build_cast(&b, first, dtype);
  m->ones[dtype] = ptc_build_reduce(&b, PTC_OP_REDUCE_SUM, one, &m->dim, 1);
  return m->ones[dtype];
}

static ptc_value_t *make_partial(retype_t *r, ptc_value_t *value, ptc_op_t *before) {
  ptc_builder_t b = ptc_builder_before(r->m->module, before);
  return ptc_build_binary(&b, PTC_OP_MUL, value, partial_one(r->m, value->type->dtype));
}

// A sum of a partial and a whole value: the whole one is counted once, in the first micro-batch.
static bool retype_mixed_sum(retype_t *r, ptc_op_t *op, const ptc_type_t **types) {
  if (op->opcode != PTC_OP_ADD && op->opcode != PTC_OP_SUB) return false;
  const bool left = is_partial(op->operands[0]), right = is_partial(op->operands[1]);
  if (left == right) return false;
  ptc_value_t **whole = &op->operands[left ? 1 : 0];
  if (r->settled) {
    *whole = make_partial(r, *whole, op);
    return *whole && infer(r, op, types);
  }
  const ptc_type_t *type = (*whole)->type;
  (*whole)->type = as_partial(r->m, type);
  const bool fine = infer(r, op, types);
  (*whole)->type = type;
  return fine;
}

static bool retype_repeat(retype_t *r, ptc_op_t *repeat) {
  ptc_arena_t *arena = &r->m->module->arena;
  ptc_value_t **args = repeat->body->args + 1;
  ptc_op_t *yield = repeat->body->last;
  for (int32_t i = 0; i < repeat->num_operands; i++) {
    const ptc_type_t *type = repeat->operands[i]->type;
    const bool forced = ptc_map_get(&r->m->partials, args[i]) && type->num_partial == 0;
    if (forced && r->settled) repeat->operands[i] = make_partial(r, repeat->operands[i], repeat);
    if (forced && !repeat->operands[i]) return false;
    args[i]->type = i >= repeat->num_carry ? ptc_type_instance(arena, type)
                    : forced               ? as_partial(r->m, type)
                                           : type;
  }
  for (bool again = true; again;) {
    again = false;
    if (!retype_block(r, repeat->body)) return false;
    for (int32_t i = 0; i < repeat->num_carry && !r->settled; i++) {
      if (!is_partial(yield->operands[i]) || is_partial(args[i])) continue;
      ptc_map_set(&r->m->partials, args[i], args[i]);
      args[i]->type = as_partial(r->m, args[i]->type);
      again = true;
    }
  }
  const int64_t count = ptc_op_int(repeat, "count");
  for (int32_t i = 0; i < repeat->num_results; i++) {
    const bool carried = i < repeat->num_carry;
    if (carried && is_partial(args[i]) && !is_partial(yield->operands[i]) && r->settled)
      yield->operands[i] = make_partial(r, yield->operands[i], yield);
    if (!yield->operands[i]) return false;
    repeat->results[i]->type =
        carried ? args[i]->type : ptc_type_bundle(arena, yield->operands[i]->type, count);
  }
  const ptc_type_t **types = PTC_ARENA_ARRAY(arena, const ptc_type_t *, repeat->num_results);
  return !r->settled || infer(r, repeat, types);
}

static bool retype_op(retype_t *r, ptc_op_t *op) {
  if (op->body) return retype_repeat(r, op);
  if (op->num_results == 0) return true;
  // Ops whose result brings dims of its own read them off the type that they were given.
  for (int32_t i = 0; i < op->num_results; i++)
    if (op->opcode == PTC_OP_BROADCAST || op->opcode == PTC_OP_IOTA || op->opcode == PTC_OP_RANDOM)
      op->results[i]->type = with_sharded_batch(r->m, op->results[i]->type);
  const ptc_type_t **types =
      PTC_ARENA_ARRAY(&r->m->module->arena, const ptc_type_t *, op->num_results);
  if (!infer(r, op, types) && !retype_mixed_sum(r, op, types)) return false;
  for (int32_t i = 0; i < op->num_results; i++) {
    const bool max = types[i]->num_partial > 0 && types[i]->partial_kind == PTC_REDUCE_MAX;
    if (max) {
      r->at = op;
      r->reason = "it is a maximum over them";
      return false;
    }
    op->results[i]->type = types[i];
  }
  return true;
}

static bool retype_block(retype_t *r, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next)
    if (!retype_op(r, op)) return false;
  return true;
}

bool ptc_micro_retype(ptc_micro_t *m, ptc_op_t *op, const ptc_op_t **out_at,
                      const char **out_reason) {
  retype_t r = {.m = m, .at = op};
  bool fine = retype_op(&r, op);
  r.settled = true;
  fine = fine && retype_op(&r, op);
  *out_at = r.at;
  *out_reason = fine ? NULL : r.reason;
  return fine;
}

// partition: which dims of parameters lie on ep.
//
// A product of groups is an einsum of data and a parameter with a dim that all three values have: every group multiplies
// its own rows by its own matrix. The experts of a mixture are such groups, however they are written and named. Laid
// on ep, the samples' rows go to the owners of their groups by an all_to_all, and the results back by another.
#include "ir/op.h"
#include "passes/partition.h"

typedef struct search_s {
  const char *batch;
  bool found, other;  // products of groups; others
} search_t;

static const char *renamed(const ptc_op_t *op, const char *dim) {
  const ptc_attr_t *from = ptc_op_attr(op, "from"), *to = ptc_op_attr(op, "to");
  for (int32_t i = 0; i < from->count; i++)
    if (from->u.dims[i] == dim) return to->u.dims[i];
  return dim;
}

static bool has(const ptc_value_t *value, const char *dim) {
  return ptc_type_has_dim(value->type, dim);
}

// Whether |op| multiplies the matrices of |weight| group by group along |dim|: beside it there are a dim that is summed
// and one that the data do not have.
static bool is_grouped(const ptc_op_t *op, const ptc_value_t *weight, const ptc_value_t *data,
                       const char *dim) {
  if (!has(data, dim) || !has(op->results[0], dim)) return false;
  bool summed = false, own = false;
  for (int32_t i = 0; i < weight->type->num_dims; i++) {
    const char *name = weight->type->dims[i].name;
    summed |= ptc_op_dims_contain(op, "over", name) && has(data, name);
    own |= !has(data, name);
  }
  return summed && own;
}

static void follow(search_t *s, const ptc_block_t *block, const ptc_value_t *value,
                   const char *dim);

static void follow_use(search_t *s, const ptc_op_t *op, int32_t index, const char *dim) {
  const ptc_value_t *value = op->operands[index];
  switch (op->opcode) {
    case PTC_OP_CAST:
    case PTC_OP_TRANSPOSE:
    case PTC_OP_LIST_SLICE:
    case PTC_OP_LIST_CONCAT:
    case PTC_OP_LIST_GROUP:
    case PTC_OP_LIST_UNGROUP: follow(s, op->parent, op->results[0], dim); break;
    case PTC_OP_RENAME: follow(s, op->parent, op->results[0], renamed(op, dim)); break;
    case PTC_OP_REPEAT:
      if (index >= op->num_carry) follow(s, op->body, op->body->args[1 + index], dim);
      break;
    case PTC_OP_EINSUM: {
      const ptc_value_t *data = op->operands[1 - index];
      if (!has(data, s->batch)) break;
      const bool grouped = is_grouped(op, value, data, dim);
      s->found |= grouped;
      s->other |= !grouped;
      break;
    }
    default: break;
  }
}

static void follow(search_t *s, const ptc_block_t *block, const ptc_value_t *value,
                   const char *dim) {
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    for (int32_t i = 0; i < op->num_operands; i++)
      if (op->operands[i] == value) follow_use(s, op, i, dim);
    if (op->body) follow(s, op->body, value, dim);
  }
}

static bool is_group(const ptc_module_t *module, const char *batch, const ptc_global_t *global,
                     const char *dim) {
  search_t s = {.batch = batch};
  for (const ptc_func_t *func = module->funcs; func; func = func->next)
    for (int32_t i = 0; i < func->body->num_args; i++)
      if (func->arg_globals[i] == global) follow(&s, func->body, func->body->args[i], dim);
  return s.found && !s.other;
}

const char *ptc_partition_group_dim(const ptc_module_t *module, const char *batch,
                                    const ptc_global_t *global) {
  for (int32_t i = 0; i < global->type->num_dims; i++)
    if (is_group(module, batch, global, global->type->dims[i].name))
      return global->type->dims[i].name;
  return NULL;
}

// The gradients of parameters on their way to the optimizer.
#include "ir/op.h"
#include "passes/planner/work_build_impl.h"

ptc_value_t *ptc_work_source(ptc_value_t *value) {
  for (;;) {
    if (value->def) {
      const ptc_opcode_t opcode = value->def->opcode;
      if (opcode != PTC_OP_LIST_SLICE && opcode != PTC_OP_LIST_GROUP &&
          opcode != PTC_OP_LIST_UNGROUP && opcode != PTC_OP_LIST_CONCAT)
        return value;
      value = value->def->operands[0];
      continue;
    }
    const ptc_op_t *repeat = value->block->parent_op;
    if (!repeat || value->index <= repeat->num_carry) return value;
    value = repeat->operands[value->index - 1];
  }
}

static void mark(ptc_wbuild_t *b, ptc_value_t *value, const ptc_wmark_t *m);

static void mark_arg(ptc_wbuild_t *b, ptc_value_t *arg, const ptc_wmark_t *m) {
  ptc_op_t *repeat = arg->block->parent_op;
  if (!repeat || arg->index == 0) return;
  const int32_t i = arg->index - 1;
  mark(b, repeat->operands[i], m);
  if (i >= repeat->num_carry) return;
  mark(b, repeat->body->last->operands[i], m);
  mark(b, repeat->results[i], m);
}

static const ptc_wmark_t *before_rename(ptc_wbuild_t *b, const ptc_op_t *rename,
                                        const ptc_wmark_t *m) {
  const ptc_attr_t *from = ptc_op_attr(rename, "from"), *to = ptc_op_attr(rename, "to");
  ptc_wmark_t *old = PTC_ARENA_NEW(b->scratch, ptc_wmark_t);
  *old = *m;
  for (int32_t d = 0; d < m->num_dims; d++)
    for (int32_t i = 0; i < from->count; i++)
      if (m->names[d] == to->u.dims[i]) old->names[d] = from->u.dims[i];
  return old;
}

// Marks |value| and what it is made of, back through ops that a sum not taken yet can pass.
static void mark(ptc_wbuild_t *b, ptc_value_t *value, const ptc_wmark_t *m) {
  if (ptc_map_get(&b->marks, value)) return;
  ptc_map_set(&b->marks, value, (void *)(uintptr_t)m);
  ptc_op_t *def = value->def;
  if (!def) {
    mark_arg(b, value, m);
    return;
  }
  switch (def->opcode) {
    case PTC_OP_REPEAT:
      mark(b, def->body->last->operands[value->index], m);
      if (value->index < def->num_carry) {
        mark(b, def->operands[value->index], m);
        mark(b, def->body->args[1 + value->index], m);
      }
      break;
    case PTC_OP_RENAME: mark(b, def->operands[0], before_rename(b, def, m)); break;
    case PTC_OP_CAST:
    case PTC_OP_TRANSPOSE:
    case PTC_OP_ADD:
    case PTC_OP_SUB:
    case PTC_OP_ACCUMULATE:
    case PTC_OP_LIST_SLICE:
    case PTC_OP_LIST_CONCAT:
    case PTC_OP_LIST_GROUP:
    case PTC_OP_LIST_UNGROUP:
      for (int32_t i = 0; i < def->num_operands; i++) mark(b, def->operands[i], m);
      break;
    default: break;
  }
}

static void mark_update(ptc_op_t *op, void *arg) {
  ptc_wbuild_t *b = arg;
  if (op->opcode != PTC_OP_ADAMW && op->opcode != PTC_OP_SGD) return;
  const ptc_value_t *source = ptc_work_source(op->operands[0]);
  if (source->def || source->block != b->func->body) return;
  const ptc_global_t *global = b->func->arg_globals[source->index];
  ptc_wmark_t *m = PTC_ARENA_NEW(b->scratch, ptc_wmark_t);
  *m = (ptc_wmark_t){.param = (int32_t)(intptr_t)ptc_map_get(&b->params, global) - 1,
                     .num_dims = global->type->num_dims};
  for (int32_t d = 0; d < m->num_dims; d++) m->names[d] = global->type->dims[d].name;
  if (m->param >= 0) mark(b, op->operands[1], m);
}

void ptc_work_mark_gradients(ptc_wbuild_t *b) { ptc_block_walk(b->func->body, mark_update, b); }

// partition: the types of all values of a function, in program order.
//
// Carried values of a repeat have one type. It begins as that of the initial value; what the body makes of it may be
// finer (that costs the initial value nothing) or, where it begins at zero, anything: then the body is inferred again.
// After a few rounds the type stands, and the yield brings the value to it.
#include <string.h>

#include "ir/op.h"
#include "passes/partition_impl.h"

enum { MAX_ROUNDS = 6 };

static ptc_status_t infer_block(ptc_part_t *p, ptc_block_t *block);

// --- how a body uses an argument

// Whether every use of |value| in |block| hands sums on or adds to them.
static bool only_adds(const ptc_part_t *p, const ptc_block_t *block, const ptc_value_t *value) {
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body && !only_adds(p, op->body, value)) return false;
    for (int32_t i = 0; i < op->num_operands; i++) {
      if (op->operands[i] != value) continue;
      if (op->opcode == PTC_OP_YIELD || op->opcode == PTC_OP_ACCUMULATE) continue;
      if (op->opcode == PTC_OP_ADD || op->opcode == PTC_OP_SUB || ptc_part_keeps_home(op)) {
        if (op->opcode != PTC_OP_ADAMW && op->opcode != PTC_OP_SGD &&
            only_adds(p, op->parent, op->results[0]))
          continue;
      }
      if (op->opcode == PTC_OP_REPEAT && only_adds(p, op->body, op->body->args[1 + i])) continue;
      return false;
    }
  }
  return true;
}

// Whether an op of |block| needs the parameter |value| itself, not only its stored part.
static bool needs_gather(const ptc_block_t *block, const ptc_value_t *value) {
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body && needs_gather(op->body, value)) return true;
    for (int32_t i = 0; i < op->num_operands; i++) {
      if (op->operands[i] != value) continue;
      if (op->opcode == PTC_OP_ADAMW || op->opcode == PTC_OP_SGD) continue;
      if (op->opcode == PTC_OP_REPEAT) {
        if (needs_gather(op->body, op->body->args[1 + i])) return true;
      } else if (!ptc_part_keeps_home(op) || needs_gather(op->parent, op->results[0])) {
        return true;
      }
    }
  }
  return false;
}

// --- repeats

static void begin_each(ptc_part_t *p, ptc_op_t *op, int32_t index) {
  ptc_value_t *bundle = op->operands[index], *arg = op->body->args[1 + index];
  ptc_arena_t *arena = &p->module->arena;
  const ptc_type_t *type = bundle->type, *home = ptc_map_get(&p->home, bundle);
  if (home && needs_gather(op->body, arg)) {
    if (p->parallel.zero < 3)
      type = home;
    else
      ptc_map_set(&p->home, arg, (void *)ptc_type_instance(arena, home));
  }
  if (ptc_map_get(&p->weights, bundle)) ptc_map_set(&p->weights, arg, arg);
  if (ptc_part_is_partial(type) && !only_adds(p, op->body, arg))
    type = ptc_part_resolved(p, bundle, type);
  arg->type = ptc_type_instance(arena, type);
}

static void begin_carry(ptc_part_t *p, ptc_op_t *op, int32_t index) {
  ptc_value_t *init = op->operands[index], *arg = op->body->args[1 + index];
  const ptc_type_t *home = ptc_map_get(&p->home, init);
  arg->type = ptc_part_resolved(p, init, home ? home : init->type);
  if (ptc_part_is_zero(init)) ptc_map_set(&p->zeros, arg, arg);
}

const ptc_type_t *ptc_part_yield_target(ptc_part_t *p, const ptc_op_t *repeat, int32_t index) {
  const ptc_value_t *value = repeat->body->last->operands[index];
  if (index < repeat->num_carry) return repeat->body->args[1 + index]->type;
  const ptc_type_t *wanted = ptc_map_get(&p->wanted, repeat->results[index]);
  if (wanted) return ptc_type_instance(&p->module->arena, wanted);
  const ptc_type_t *home = ptc_map_get(&p->home, value);
  const ptc_type_t *type = home ? home : value->type;
  const char *axis = ptc_op_string(repeat, "axis");
  if (axis) {
    // The shards of all turns are put together: the dim has no other axes then.
    type = ptc_part_resolved(p, value, type);
    for (int32_t i = 0; i < type->num_dims; i++)
      for (int32_t a = 0; a < type->dims[i].num_axes; a++)
        if (type->dims[i].axes[a].axis == axis) return ptc_part_whole(p, type, NULL);
    return type;
  }
  // The backward pass needs whole what the forward pass gathered: it is not sent twice.
  const ptc_type_t *gathered = ptc_map_get(&p->gathered, value);
  if (gathered) return gathered;
  // A gradient is complete in the turn that makes it, unless micro-batches add to it.
  const bool early = ptc_map_get(&p->grads, value) && (p->parallel.zero >= 2 || !p->has_micro);
  const bool moves = early || ptc_part_is_activation(p, type);
  return moves ? ptc_part_resolved(p, value, type) : type;
}

static bool overlaps(const ptc_type_t *type, int32_t except, ptc_axis_ref_t ref) {
  for (int32_t i = 0; i < type->num_dims; i++)
    for (int32_t a = 0; i != except && a < type->dims[i].num_axes; a++)
      if (ptc_axis_refs_overlap(type->dims[i].axes[a], ref)) return true;
  for (int32_t i = 0; i < type->num_partial; i++)
    if (ptc_axis_refs_overlap(type->partial[i], ref)) return true;
  return false;
}

// The type that a carried value goes on with, after a body that makes |next| of |type|.
static const ptc_type_t *join(ptc_part_t *p, const ptc_value_t *arg, const ptc_value_t *value) {
  const ptc_type_t *type = arg->type, *next = value->type;
  const ptc_type_t *home = ptc_map_get(&p->home, value);
  if (home) next = home;
  if (ptc_map_get(&p->zeros, arg))
    return ptc_part_is_activation(p, next) ? ptc_part_resolved(p, value, next) : next;
  next = ptc_part_resolved(p, value, next);
  for (int32_t i = 0; i < type->num_dims; i++) {
    const int32_t at = ptc_type_find_dim(next, type->dims[i].name);
    const ptc_dim_t *old = &type->dims[i], *new = at >= 0 ? &next->dims[at] : NULL;
    if (!new || new->num_axes <= old->num_axes ||
        !ptc_axes_equal(old->axes, old->num_axes, new->axes, old->num_axes))
      continue;
    bool free = true;
    for (int32_t a = old->num_axes; a < new->num_axes; a++)
      free &= !overlaps(type, i, new->axes[a]);
    if (free) type = ptc_part_with_axes(p, type, i, new->axes, new->num_axes);
  }
  return type;
}

static ptc_status_t infer_repeat(ptc_part_t *p, ptc_op_t *op) {
  ptc_op_t *yield = op->body->last;
  ptc_value_t **args = op->body->args + 1;
  for (int32_t i = 0; i < op->num_operands; i++) {
    if (i < op->num_carry)
      begin_carry(p, op, i);
    else
      begin_each(p, op, i);
  }
  bool again = true;
  for (int round = 0; again; round++) {
    PTC_TRY(infer_block(p, op->body));
    again = false;
    for (int32_t i = 0; i < op->num_carry && round < MAX_ROUNDS; i++) {
      const ptc_type_t *type = join(p, args[i], yield->operands[i]);
      if (ptc_type_equal(type, args[i]->type)) continue;
      args[i]->type = type;
      again = true;
    }
  }
  for (int32_t i = 0; i < op->num_results; i++) {
    const ptc_type_t *type = ptc_part_yield_target(p, op, i);
    op->results[i]->type = i < op->num_carry
                               ? type
                               : ptc_type_bundle(&p->module->arena, type, ptc_op_int(op, "count"));
  }
  return PTC_OK;
}

// --- other ops

// The type that the result has where the operands are gathered.
static ptc_status_t infer_home(ptc_part_t *p, ptc_op_t *op) {
  const ptc_type_t **stored = PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, op->num_operands);
  bool any = false;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *home = ptc_map_get(&p->home, op->operands[i]);
    stored[i] = op->operands[i]->type;
    if (home) op->operands[i]->type = home;
    any |= home != NULL;
  }
  const ptc_type_t *result = NULL;
  const ptc_status_t status = any ? ptc_op_info(op->opcode)->shape(p->module, op, &result) : PTC_OK;
  for (int32_t i = 0; i < op->num_operands; i++) op->operands[i]->type = stored[i];
  if (result) ptc_map_set(&p->home, op->results[0], (void *)(uintptr_t)result);
  return status;
}

// Whether all_to_all alone leads from one type to the other: the value takes as many bytes there.
static bool only_moves(ptc_part_t *p, const ptc_type_t *from, const ptc_type_t *to) {
  ptc_part_step_t steps[PTC_PART_MAX_STEPS];
  const int32_t count = ptc_part_plan(p, from, to, steps);
  for (int32_t i = 0; i < count; i++)
    if (steps[i].opcode != PTC_OP_ALL_TO_ALL) return false;
  return count > 0;
}

// |value|, used as |target|, is returned so, and so is what it is another view of.
static void note_moved(ptc_part_t *p, const ptc_value_t *value, const ptc_type_t *target) {
  ptc_map_set(&p->gathered, value, (void *)(uintptr_t)target);
  while (value->def && value->def->opcode == PTC_OP_RENAME) {
    target = ptc_part_operand_target(p, value->def, value->def->operands[0]->type, target);
    value = value->def->operands[0];
    ptc_map_set(&p->gathered, value, (void *)(uintptr_t)target);
  }
}

// Remembers what the op needs of an activation: whole what lies in parts on tp, elsewhere what all_to_all moves.
static void note_gathered(ptc_part_t *p, const ptc_op_t *op, const ptc_type_t *const *operands) {
  const ptc_axis_ref_t *tp = &p->axis[PTC_AXIS_TP];
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *type = op->operands[i]->type, *target = operands[i];
    if (ptc_part_is_activation(p, type) && only_moves(p, type, target))
      note_moved(p, op->operands[i], target);
    if (!p->parallel.sequence_parallel || !ptc_part_is_activation(p, type) ||
        ptc_part_is_partial(type))
      continue;
    bool gathers = !ptc_part_is_free(type, tp, 1) && ptc_part_is_free(target, tp, 1);
    for (int32_t d = 0; d < type->num_dims && gathers; d++) {
      const ptc_dim_t *from = &type->dims[d], *to = &target->dims[d];
      const int32_t own =
          from->num_axes - !ptc_axes_equal(from->axes, from->num_axes, to->axes, to->num_axes);
      gathers = own == to->num_axes && ptc_axes_equal(from->axes, own, to->axes, own);
    }
    if (gathers) ptc_map_set(&p->gathered, op->operands[i], (void *)(uintptr_t)target);
  }
}

static bool all_weights(const ptc_part_t *p, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++)
    if (!ptc_map_get(&p->weights, op->operands[i])) return false;
  return op->num_operands > 0;
}

static ptc_status_t infer_op(ptc_part_t *p, ptc_op_t *op) {
  if (op->opcode == PTC_OP_REPEAT) return infer_repeat(p, op);
  if (op->opcode == PTC_OP_YIELD || op->opcode == PTC_OP_RETURN) return PTC_OK;
  const ptc_type_t **operands =
      PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, op->num_operands + 1);
  const ptc_type_t **results = PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, op->num_results + 1);
  if (!ptc_part_rule(p, op, operands, results)) return PTC_UNSUPPORTED;
  for (int32_t i = 0; i < op->num_results; i++) {
    op->results[i]->type = results[i];
    if (ptc_map_get(&p->gathered, op->results[i])) ptc_map_set(&p->gathered, op->results[i], NULL);
  }
  note_gathered(p, op, operands);
  if (!ptc_part_keeps_home(op) || op->num_results != 1) return PTC_OK;
  if (all_weights(p, op)) ptc_map_set(&p->weights, op->results[0], op->results[0]);
  return infer_home(p, op);
}

static ptc_status_t infer_block(ptc_part_t *p, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next) PTC_TRY(infer_op(p, op));
  return PTC_OK;
}

const ptc_type_t *ptc_part_return_target(ptc_part_t *p, const ptc_op_t *ret, int32_t index) {
  const ptc_value_t *value = ret->operands[index];
  const ptc_result_t *result = &p->func->results[index];
  if (result->kind == PTC_RESULT_STATE) {
    const ptc_part_layout_t *layout = &p->layouts[result->global->index];
    if (layout->home) return layout->stored;
  }
  const ptc_type_t *home = ptc_map_get(&p->home, value);
  const ptc_type_t *type = ptc_part_resolved(p, value, home ? home : value->type);
  return result->kind == PTC_RESULT_GRAD ? type : ptc_part_whole(p, type, NULL);
}

ptc_status_t ptc_part_infer(ptc_part_t *p) { return infer_block(p, p->func->body); }

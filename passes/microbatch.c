// microbatch: splits the step's batch into M micro-batches that run one after another.
//
// The dim b is sharded over a mesh axis "micro" of size M that is laid out in time: everything that
// has b moves into a repeat over that axis. What is summed over b in there is a partial sum; an
// accumulator (f32 or wider) carries it from turn to turn, and what follows works on the total.
//
//   before the loop   what does not depend on b; sums over b that no parameter enters (the count of
//                     unmasked targets: one divisor for all micro-batches), over the whole batch
//   in the loop       every op with b among its dims
//   after the loop    what depends on totals: the loss's division, clipping, the optimizer
//
// An op in the loop that needs a total which depends on parameters, or b whole, mixes samples: the
// batch cannot be split (id "microbatch-mixes-samples").
//
// Which results are partial follows from the ops' shape functions on the sharded types.
#include <inttypes.h>
#include <string.h>

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/lr_schedule.h"
#include "passes/microbatch_impl.h"
#include "passes/pad_masks.h"
#include "passes/parallel.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/simplify.h"

static bool has_batch(const ptc_micro_t *m, const ptc_value_t *value) {
  return ptc_type_has_dim(value->type, m->dim);
}

static bool varies(const ptc_micro_t *m, const ptc_value_t *value) {
  for (int32_t i = 0; i < value->type->num_dims; i++)
    for (int32_t a = 0; a < value->type->dims[i].num_axes; a++)
      if (value->type->dims[i].axes[a].axis == m->axis) return true;
  return has_batch(m, value);
}

// --- what a value depends on

enum { ON_PARAM = 1, ON_BATCH = 2, ON_BOTH = 3 };

static uintptr_t deps(const ptc_micro_t *m, const ptc_value_t *value) {
  return (uintptr_t)ptc_map_get(&m->deps, value);
}

// Returns whether that is new.
static bool add_deps(ptc_micro_t *m, const ptc_value_t *value, uintptr_t more) {
  const uintptr_t now = deps(m, value);
  if ((now | more) == now) return false;
  ptc_map_set(&m->deps, value, (void *)(now | more));
  return true;
}

static void find_deps(ptc_micro_t *m, ptc_block_t *block);

static void find_repeat_deps(ptc_micro_t *m, ptc_op_t *repeat) {
  ptc_value_t **args = repeat->body->args + 1;
  for (int32_t i = 0; i < repeat->num_operands; i++)
    add_deps(m, args[i], deps(m, repeat->operands[i]));
  const ptc_op_t *yield = repeat->body->last;
  for (bool again = true; again;) {
    again = false;
    find_deps(m, repeat->body);
    for (int32_t i = 0; i < repeat->num_carry; i++)
      again |= add_deps(m, args[i], deps(m, yield->operands[i]));
  }
  for (int32_t i = 0; i < repeat->num_results; i++) {
    add_deps(m, repeat->results[i], deps(m, yield->operands[i]));
    if (i < repeat->num_carry) add_deps(m, repeat->results[i], deps(m, args[i]));
  }
}

static void find_deps(ptc_micro_t *m, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) {
      find_repeat_deps(m, op);
      continue;
    }
    uintptr_t on = 0;
    for (int32_t i = 0; i < op->num_operands; i++) on |= deps(m, op->operands[i]);
    for (int32_t i = 0; i < op->num_results; i++)
      add_deps(m, op->results[i], on | (has_batch(m, op->results[i]) ? ON_BATCH : 0));
  }
}

static void find_func_deps(ptc_micro_t *m) {
  for (int32_t i = 0; i < m->func->body->num_args; i++) {
    const ptc_value_t *arg = m->func->body->args[i];
    const ptc_global_kind_t kind = m->func->arg_globals[i]->kind;
    add_deps(m, arg, kind == PTC_GLOBAL_PARAM ? ON_PARAM : has_batch(m, arg) ? ON_BATCH : 0);
  }
  find_deps(m, m->func->body);
}

// --- where an op goes

typedef enum place_e { PLACE_BEFORE, PLACE_LOOP, PLACE_AFTER } place_t;

static bool op_varies(const ptc_micro_t *m, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++)
    if (varies(m, op->operands[i])) return true;
  for (int32_t i = 0; i < op->num_results; i++)
    if (varies(m, op->results[i])) return true;
  for (const ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    if (op_varies(m, inner)) return true;
  return false;
}

// Whether the value over the whole batch can be had before the loop, for all to use.
static bool is_early(const ptc_micro_t *m, const ptc_value_t *value) {
  return deps(m, value) != ON_BOTH && !has_batch(m, value);
}

static place_t place_of(const ptc_micro_t *m, const ptc_op_t *op) {
  bool early = true;
  for (int32_t i = 0; i < op->num_results; i++) early &= is_early(m, op->results[i]);
  if (early) return PLACE_BEFORE;
  return op_varies(m, op) || ptc_map_get(&m->pulled, op) ? PLACE_LOOP : PLACE_AFTER;
}

static void pull_operands(ptc_micro_t *m, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    ptc_op_t *def = op->operands[i]->def;
    if (def && def->parent == m->func->body && place_of(m, def) == PLACE_AFTER)
      ptc_map_set(&m->pulled, def, def);
  }
  for (const ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    pull_operands(m, inner);
}

// What the loop needs is in the loop: an op on a partial sum stays there if it is linear.
static void pull_into_loop(ptc_micro_t *m, const ptc_op_t *first) {
  for (const ptc_op_t *op = ptc_func_return(m->func)->prev; op; op = op->prev) {
    if (place_of(m, op) == PLACE_LOOP) pull_operands(m, op);
    if (op == first) return;
  }
}

static ptc_status_t mixes_samples(const ptc_micro_t *m, const ptc_op_t *op, const char *reason) {
  ptc_error(m->module->diag, op->loc, PTC_INVALID_INPUT, "microbatch-mixes-samples",
            "\"%s\" mixes the samples of a step, so that the batch cannot be split into %" PRId64
            " micro-batches",
            ptc_op_info(op->opcode)->mnemonic, m->count);
  if (reason) ptc_note(m->module->diag, op->loc, "%s", reason);
  return PTC_INVALID_INPUT;
}

// --- in the loop

static ptc_builder_t at_start(const ptc_micro_t *m) {
  ptc_builder_t b = ptc_builder_before(m->module, m->loop->body->last);
  if (m->first_in_loop) b.before = m->first_in_loop;
  b.loc = m->func->loc;
  return b;
}

static ptc_value_t *build_axis_op(ptc_builder_t *b, const ptc_micro_t *m, ptc_opcode_t opcode,
                                  ptc_value_t *value) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(m->module, &attrs, "dim", m->dim);
  ptc_attrs_set_string(m->module, &attrs, "axis", m->axis);
  ptc_op_t *op = ptc_build_op(b, opcode, &value, 1, 1, attrs);
  if (!op) return NULL;
  op->results[0]->name = value->name;
  return op->results[0];
}

// What stands for |value| in the loop, or NULL.
static ptc_value_t *in_loop(ptc_micro_t *m, ptc_value_t *value) {
  ptc_value_t *known = ptc_map_get(&m->loop_values, value);
  if (known) return known;
  if (!value->def && value->block == m->func->body) {
    if (!has_batch(m, value)) return value;
    ptc_builder_t b = at_start(m);
    ptc_value_t *part = build_axis_op(&b, m, PTC_OP_SHARD, value);
    ptc_map_set(&m->loop_values, value, part);
    return part;
  }
  if (!ptc_map_get(&m->tops, value)) return value;
  if (is_early(m, value)) return ptc_map_get(&m->whole, value);
  return ptc_value_block(value) == m->loop->body ? value : NULL;
}

static ptc_status_t use_loop_values(ptc_micro_t *m, ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    op->operands[i] = in_loop(m, op->operands[i]);
    if (!op->operands[i]) return mixes_samples(m, op, "it needs a sum over all of them");
  }
  for (ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    PTC_TRY(use_loop_values(m, inner));
  return PTC_OK;
}

// An op that needs b whole, but no parameter: its part of the whole result.
static bool take_part_of_whole(ptc_micro_t *m, const ptc_op_t *op, ptc_builder_t *b) {
  for (int32_t i = 0; i < op->num_results; i++)
    if (deps(m, op->results[i]) == ON_BOTH || !has_batch(m, op->results[i])) return false;
  for (int32_t i = 0; i < op->num_results; i++) {
    ptc_value_t *whole = ptc_map_get(&m->whole, op->results[i]);
    ptc_map_set(&m->loop_values, op->results[i], build_axis_op(b, m, PTC_OP_SHARD, whole));
  }
  return true;
}

static ptc_status_t move_into_loop(ptc_micro_t *m, ptc_op_t *op) {
  PTC_TRY(use_loop_values(m, op));
  ptc_op_remove(op);
  ptc_op_insert(op, m->loop->body, m->loop->body->last);
  if (!m->first_in_loop) m->first_in_loop = op;
  const char *reason = NULL;
  const ptc_op_t *at = NULL;
  if (ptc_micro_retype(m, op, &at, &reason)) return PTC_OK;
  ptc_builder_t b = ptc_builder_before(m->module, op);
  if (!take_part_of_whole(m, op, &b)) return mixes_samples(m, at, reason);
  if (m->first_in_loop == op) m->first_in_loop = NULL;
  ptc_op_remove(op);
  return PTC_OK;
}

// --- totals

static ptc_value_t *build_zeros(ptc_builder_t *b, const ptc_type_t *type) {
  if (type->num_counts == 0) {
    ptc_value_t *zero = ptc_build_constant(b, type->dtype, 0);
    return type->num_dims == 0 ? zero : ptc_build_broadcast(b, zero, type->dims, type->num_dims);
  }
  ptc_op_t *repeat = ptc_build_repeat_begin(b, type->counts[0], false, NULL, 0, NULL, 0);
  ptc_builder_t inner = ptc_builder_at_end(b->module, repeat->body);
  inner.loc = b->loc;
  ptc_value_t *zeros = build_zeros(&inner, ptc_type_instance(&b->module->arena, type));
  ptc_build_repeat_end(b->module, repeat, &zeros, 1);
  return repeat->results[0];
}

// A bundle that a repeat of the loop collects is added up there, turn by turn: no more than one part at a time
// lives beside the accumulators.
static ptc_value_t *build_accumulate(ptc_builder_t *b, const ptc_micro_t *m, ptc_value_t *acc,
                                     ptc_value_t *part) {
  ptc_value_t *operands[] = {acc, part};
  ptc_op_t *source = part->def;
  if (acc->type->num_counts > 0 && source && source->opcode == PTC_OP_REPEAT &&
      source->parent == b->block && part->index >= source->num_carry) {
    ptc_op_t *yield = source->body->last;
    ptc_builder_t inner = ptc_builder_before(b->module, yield);
    inner.loc = b->loc;
    ptc_value_t *acc_part = ptc_repeat_add_each(m->module, source, acc);
    ptc_value_t *sum = build_accumulate(&inner, m, acc_part, yield->operands[part->index]);
    return sum ? ptc_repeat_add_collect(m->module, source, sum) : NULL;
  }
  if (acc->type->num_counts == 0) {
    ptc_attrs_t attrs = {0};
    ptc_attrs_set_string(m->module, &attrs, "axis", m->axis);
    ptc_op_t *op = ptc_build_op(b, PTC_OP_ACCUMULATE, operands, 2, 1, attrs);
    return op ? op->results[0] : NULL;
  }
  ptc_op_t *repeat = ptc_build_repeat_begin(b, acc->type->counts[0], false, NULL, 0, operands, 2);
  if (!repeat) return NULL;
  ptc_builder_t inner = ptc_builder_at_end(b->module, repeat->body);
  inner.loc = b->loc;
  ptc_value_t *sum = build_accumulate(&inner, m, repeat->body->args[1], repeat->body->args[2]);
  ptc_build_repeat_end(m->module, repeat, &sum, 1);
  return repeat->results[0];
}

// The sum of |part|, a partial sum in the loop, over all turns.
static ptc_value_t *total_of(ptc_micro_t *m, ptc_value_t *part) {
  ptc_dtype_t dtype = part->type->dtype;
  if (dtype == PTC_BF16 || dtype == PTC_F16) dtype = PTC_F32;
  ptc_type_t *type = ptc_type_with_dtype(&m->module->arena, part->type, dtype);
  type->num_partial = 0;
  type->partial = NULL;

  ptc_builder_t before = ptc_builder_before(m->module, m->loop);
  ptc_value_t *zeros = build_zeros(&before, type);
  if (!zeros) return NULL;
  ptc_op_t *yield = m->loop->body->last;
  ptc_builder_t b = ptc_builder_before(m->module, yield);
  b.loc = part->def->loc;
  ptc_value_t *acc = ptc_block_add_arg(m->loop->body, type, part->name);
  ptc_value_t *next = build_accumulate(&b, m, acc, part);
  if (!next) return NULL;
  ptc_op_add_operand(m->module, m->loop, m->loop->num_operands, zeros);
  ptc_op_add_operand(m->module, yield, yield->num_operands, next);
  m->loop->num_carry++;
  ptc_value_t *total = ptc_op_add_result(m->module, m->loop, type);
  total->name = part->name;
  ptc_map_set(&m->after_values, part, total);
  return total;
}

// What stands for |value| after the loop, or NULL.
static ptc_value_t *after_loop(ptc_micro_t *m, ptc_value_t *value) {
  ptc_value_t *known = ptc_map_get(&m->after_values, value);
  if (known || !ptc_map_get(&m->tops, value)) return known ? known : value;
  if (is_early(m, value)) return ptc_map_get(&m->whole, value);
  if (ptc_value_block(value) != m->loop->body) return value;
  return value->type->num_partial > 0 ? total_of(m, value) : NULL;
}

// A view of a total that is wider than the sum was: it is wide, too. |op| goes; its result's uses are after it.
static bool widen_view(ptc_micro_t *m, ptc_op_t *op) {
  const bool moves = ptc_op_has_trait(op, PTC_TRAIT_VIEW) || op->opcode == PTC_OP_TRANSPOSE;
  if (!moves || op->num_operands != 1 || op->num_results != 1) return false;
  ptc_value_t *value = after_loop(m, op->operands[0]);
  if (!value || value->type->dtype == op->operands[0]->type->dtype) return false;
  ptc_builder_t b = ptc_builder_before(m->module, op);
  b.loc = op->loc;
  ptc_op_t *wide =
      ptc_build_op(&b, op->opcode, &value, 1, 1, ptc_attrs_clone(m->module, &op->attrs));
  if (!wide) return false;
  wide->results[0]->name = op->results[0]->name;
  ptc_map_set(&m->after_values, op->results[0], wide->results[0]);
  ptc_op_remove(op);
  return true;
}

static ptc_status_t use_totals(ptc_micro_t *m, ptc_op_t *op) {
  if (widen_view(m, op)) return PTC_OK;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_dtype_t dtype = op->operands[i]->type->dtype;
    ptc_value_t *value = after_loop(m, op->operands[i]);
    if (!value) return mixes_samples(m, op, NULL);
    // An accumulator may be wider than the sum that it accumulates.
    const bool widens = op->opcode == PTC_OP_CAST && value->type->dtype != dtype;
    if (widens && op->results[0]->type->dtype == value->type->dtype)
      ptc_map_set(&m->after_values, op->results[0], value);
    ptc_builder_t b = ptc_builder_before(m->module, op);
    op->operands[i] = ptc_build_cast(&b, value, dtype);
  }
  for (ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    PTC_TRY(use_totals(m, inner));
  return PTC_OK;
}

// The samples of all turns, one after another: an output.
static ptc_value_t *whole_output(ptc_micro_t *m, ptc_op_t *ret, ptc_value_t *part) {
  if (part->type->num_counts > 0 || part->type->num_partial > 0) return NULL;
  ptc_value_t *bundle = ptc_repeat_add_collect(m->module, m->loop, part);
  ptc_builder_t b = ptc_builder_before(m->module, ret);
  return build_axis_op(&b, m, PTC_OP_UNSHARD, bundle);
}

// The same where micro-batches have room for more samples than there are: each turn adds its rows to zeros. Within the
// loop the dim has a name of its own: it is not that of the turn's samples.
static ptc_value_t *gathered_output(ptc_micro_t *m, ptc_op_t *ret, ptc_value_t *part) {
  const ptc_type_t *type = part->type;
  if (type->num_counts > 0 || type->num_partial > 0) return NULL;
  ptc_builder_t b = ptc_builder_before(m->module, m->loop->body->last);
  b.loc = part->def->loc;
  if (type->dtype == PTC_BOOL) part = ptc_build_cast(&b, part, PTC_I32);
  const ptc_dim_t *samples = &type->dims[ptc_type_find_dim(type, m->dim)];
  const char *row = ptc_module_intern(m->module, "b.whole"), *names[PTC_MAX_DIMS];
  int64_t extents[PTC_MAX_DIMS];
  for (int32_t i = 0; i < type->num_dims; i++) {
    names[i] = &type->dims[i] == samples ? row : type->dims[i].name;
    extents[i] = type->dims[i].extent;
  }
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(m->module, &attrs, "dims", &row, 1);
  ptc_attrs_set_dims(m->module, &attrs, "result", names, type->num_dims);
  ptc_attrs_set_ints(m->module, &attrs, "extents", extents, type->num_dims);
  ptc_value_t *operands[] = {part, ptc_build_iota(&b, samples)};
  const ptc_op_t *op = ptc_build_op(&b, PTC_OP_SCATTER_ADD, operands, 2, 1, attrs);
  if (!op) return NULL;
  op->results[0]->name = part->name;
  ptc_value_t *total = total_of(m, op->results[0]);
  b = ptc_builder_before(m->module, ret);
  return total ? ptc_build_rename(&b, total, &row, &m->dim, 1) : NULL;
}

// All totals come before the first output: carried results stand before collected ones.
static ptc_status_t finish_return(ptc_micro_t *m) {
  ptc_op_t *ret = ptc_func_return(m->func);
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < ret->num_operands; i++) {
      ptc_value_t *value = ret->operands[i];
      if (!ptc_map_get(&m->tops, value)) continue;
      const bool data_only = deps(m, value) != ON_BOTH;
      const bool output = !data_only && varies(m, value), collected = output && !m->padded;
      if (collected != (pass == 1)) continue;
      ptc_value_t *result = data_only   ? ptc_map_get(&m->whole, value)
                            : collected ? whole_output(m, ret, value)
                            : output    ? gathered_output(m, ret, value)
                                        : after_loop(m, value);
      if (!result) return mixes_samples(m, value->def, NULL);
      ptc_builder_t b = ptc_builder_before(m->module, ret);
      ret->operands[i] = ptc_build_cast(&b, result, value->type->dtype);
    }
  }
  return PTC_OK;
}

// --- the pass

// A copy of the whole function computes what is needed before the loop; dce removes the rest of it.
static ptc_op_t *clone_whole(ptc_micro_t *m) {
  ptc_op_t *first = m->func->body->first;
  const ptc_op_t *ret = ptc_func_return(m->func);
  for (ptc_op_t *op = first; op != ret; op = op->next) {
    ptc_op_insert(ptc_op_clone(m->module, op, &m->whole), m->func->body, first);
    for (int32_t i = 0; i < op->num_results; i++)
      ptc_map_set(&m->tops, op->results[i], op->results[i]);
  }
  return first;
}

static void begin_loop(ptc_micro_t *m, ptc_op_t *before) {
  m->loop = ptc_op_new(m->module, PTC_OP_REPEAT, m->func->loc, NULL, 0, 0);
  ptc_attrs_set_int(m->module, &m->loop->attrs, "count", m->count);
  ptc_attrs_set_string(m->module, &m->loop->attrs, "axis", m->axis);
  m->loop->body = ptc_block_new(m->module, m->func, m->loop);
  const ptc_type_t *turn = ptc_type_scalar(&m->module->arena, PTC_I32);
  ptc_block_add_arg(m->loop->body, turn, ptc_module_intern(m->module, "micro"));
  ptc_op_t *yield = ptc_op_new(m->module, PTC_OP_YIELD, m->func->loc, NULL, 0, 0);
  ptc_op_insert(yield, m->loop->body, NULL);
  ptc_op_insert(m->loop, m->func->body, before);
}

static bool is_used_before(const ptc_block_t *block, const ptc_op_t *def, const ptc_op_t *end) {
  for (const ptc_op_t *op = block->first; op && op != end; op = op->next) {
    for (int32_t i = 0; i < op->num_operands; i++)
      if (op->operands[i]->def == def) return true;
    if (op->body && is_used_before(op->body, def, NULL)) return true;
  }
  return false;
}

// The loop may read a state's old version: a new one that nothing else needs is made last.
static void sink_states(ptc_micro_t *m) {
  ptc_op_t *ret = ptc_func_return(m->func);
  for (int32_t i = 0; i < m->func->num_results; i++) {
    ptc_op_t *def = ret->operands[i]->def;
    if (m->func->results[i].kind != PTC_RESULT_STATE || !def || def->parent != m->func->body ||
        def->body || is_used_before(m->func->body, def, ret))
      continue;
    ptc_op_remove(def);
    ptc_op_insert(def, m->func->body, ret);
  }
}

// The last micro-batches may have fewer samples than they have room for.
static ptc_status_t mask_block(ptc_micro_t *m, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) PTC_TRY(mask_block(m, op->body));
    PTC_TRY(ptc_mask_operands(m->module, op));
  }
  return PTC_OK;
}

static ptc_status_t split_func(ptc_micro_t *m) {
  find_func_deps(m);
  ptc_op_t *first = clone_whole(m);
  const ptc_op_t *ret = ptc_func_return(m->func);
  pull_into_loop(m, first);
  begin_loop(m, first);
  for (ptc_op_t *op = first, *next; op != ret; op = next) {
    next = op->next;
    switch (place_of(m, op)) {
      case PLACE_BEFORE: ptc_op_remove(op); break;
      case PLACE_LOOP: PTC_TRY(move_into_loop(m, op)); break;
      case PLACE_AFTER: PTC_TRY(use_totals(m, op)); break;
    }
  }
  PTC_TRY(finish_return(m));
  PTC_TRY(mask_block(m, m->loop->body));
  sink_states(m);
  return PTC_OK;
}

static bool func_has_batch(const ptc_micro_t *m, int64_t *out_extent) {
  for (int32_t i = 0; i < m->func->body->num_args; i++) {
    const int32_t at = ptc_type_find_dim(m->func->body->args[i]->type, m->dim);
    if (at < 0 || m->func->arg_globals[i]->kind != PTC_GLOBAL_INPUT) continue;
    *out_extent = m->func->body->args[i]->type->dims[at].extent;
    return true;
  }
  return false;
}

static void add_axis(ptc_module_t *module, const char *name, int64_t size) {
  for (int32_t i = 0; i < module->mesh.num_axes; i++)
    if (module->mesh.axes[i].name == name) return;
  const int32_t count = module->mesh.num_axes;
  ptc_mesh_axis_t *axes = PTC_ARENA_ARRAY(&module->arena, ptc_mesh_axis_t, count + 1);
  for (int32_t i = 0; i < count; i++) axes[i] = module->mesh.axes[i];
  axes[count] = (ptc_mesh_axis_t){name, size};
  ptc_module_set_mesh(module, axes, count + 1);
}

// |micro_batch|: samples of one micro-batch on all |num_parts| devices over which b lies.
static ptc_status_t visit_func(ptc_module_t *module, ptc_func_t *func, int64_t micro_batch,
                               int64_t num_parts, bool pipeline) {
  ptc_micro_t m = {.module = module, .func = func};
  m.dim = ptc_module_intern(module, ptc_attrs_string(&module->config, "batch_dim", "b"));
  m.axis = ptc_module_intern(module, "micro");
  ptc_axis_ref_t *axis_ref = PTC_ARENA_NEW(&module->arena, ptc_axis_ref_t);
  axis_ref->axis = m.axis;
  m.axis_ref = axis_ref;
  int64_t batch = 0;
  if (!func_has_batch(&m, &batch)) return PTC_OK;
  if (micro_batch == 0) micro_batch = batch;
  m.count = (batch + micro_batch - 1) / micro_batch;
  m.padded = batch % (m.count * num_parts) != 0;
  if (m.count <= 1 && !pipeline) return PTC_OK;
  add_axis(module, m.axis, m.count);
  const ptc_status_t status = split_func(&m);
  ptc_map_deinit(&m.deps);
  ptc_map_deinit(&m.tops);
  ptc_map_deinit(&m.whole);
  ptc_map_deinit(&m.loop_values);
  ptc_map_deinit(&m.after_values);
  ptc_map_deinit(&m.partials);
  ptc_map_deinit(&m.pulled);
  return status;
}

ptc_status_t ptc_pass_microbatch(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  (void)ctx;
  const ptc_attr_t *attr = ptc_attrs_find(&module->config, "micro_batch");
  ptc_parallel_t parallel;
  PTC_TRY(ptc_parallel_read(module, &parallel));
  // The stages of a pipeline work on micro-batches, even if there is but one.
  const bool pipeline = parallel.size[PTC_AXIS_PP] > 1;
  if (!attr && !pipeline) return PTC_OK;
  const double micro_batch = ptc_config_number(module, "micro_batch", 0);
  const int64_t parts = parallel.size[PTC_AXIS_DP] * parallel.size[PTC_AXIS_EP];
  if (attr && micro_batch < 1)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "microbatch-divides",
                     "micro_batch must be at least 1");
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    if (strcmp(func->name, "init") != 0)
      PTC_TRY(visit_func(module, func, (int64_t)micro_batch * parts, parts, pipeline));
  ptc_simplify_dce(module);
  return PTC_OK;
}

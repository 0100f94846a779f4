// Collectives: neighbours of one kind over one group, none of which needs another's result, are one step; neighbouring
// repeats of such (parameters gathered bundle by bundle) are one repeat, so that a turn waits for its peers once.
#include <string.h>

#include "ir/axes.h"
#include "ir/op.h"
#include "passes/lower_plan_impl.h"

enum { MAX_BYTES = 64 << 20 };  // of operands and results of repeats that are joined

static ptc_collective_kind_t kind_of(const ptc_op_t *op) {
  switch (op->opcode) {
    case PTC_OP_ALL_REDUCE: return PTC_COLLECTIVE_ALL_REDUCE;
    case PTC_OP_REDUCE_SCATTER: return PTC_COLLECTIVE_REDUCE_SCATTER;
    case PTC_OP_ALL_GATHER: return PTC_COLLECTIVE_ALL_GATHER;
    case PTC_OP_RING_SHIFT: return PTC_COLLECTIVE_RING_SHIFT;
    default: return PTC_COLLECTIVE_ALL_TO_ALL;
  }
}

// --- which ops go together

static bool agree(const ptc_op_t *a, const ptc_op_t *b) {
  const ptc_type_t *x = a->operands[0]->type, *y = b->operands[0]->type;
  bool same =
      a->opcode == b->opcode && strcmp(ptc_op_string(a, "axes"), ptc_op_string(b, "axes")) == 0 &&
      x->dtype == y->dtype && x->partial_kind == y->partial_kind && x->num_counts == y->num_counts;
  for (int32_t c = 0; same && c < x->num_counts; ++c) same = x->counts[c] == y->counts[c];
  return same;
}

static bool needs(const ptc_op_t *op, const ptc_op_t *maker) {
  const ptc_value_t *value = op->operands[0];
  while (value->def && value->def != maker && ptc_lower_is_view(value->def))
    value = value->def->operands[0];
  return value->def == maker;
}

static int32_t count_group(ptc_op_t *first) {
  int32_t count = 1;
  for (const ptc_op_t *op = first->next; op && count < PTC_PLAN_MAX_PARTS; op = op->next, ++count) {
    if (!ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE) || !agree(first, op)) break;
    bool free = true;
    for (const ptc_op_t *other = first; free && other != op; other = other->next)
      free = !needs(op, other);
    if (!free) break;
  }
  return count;
}

// --- pieces

// Elements of the dims from |first| up to |last|, which is left out.
static int64_t product(const ptc_mesh_t *mesh, const ptc_type_t *type, int32_t first,
                       int32_t last) {
  int64_t count = 1;
  for (int32_t d = first; d < last; ++d) count *= ptc_dim_local_extent(mesh, &type->dims[d]);
  return count;
}

// |whole| is cut along dim |at| into pieces that have the extents of |part| there.
static ptc_pieces_t cut(const ptc_mesh_t *mesh, const ptc_type_t *whole, const ptc_type_t *part,
                        int32_t at) {
  const int64_t inner =
      product(mesh, whole, at + 1, whole->num_dims) * ptc_dtype_bytes(whole->dtype);
  return (ptc_pieces_t){product(mesh, whole, 0, at),
                        inner * ptc_dim_local_extent(mesh, &part->dims[at]),
                        inner * ptc_dim_local_extent(mesh, &whole->dims[at])};
}

static ptc_collective_part_t part_of(const ptc_lower_t *lower, const ptc_op_t *op) {
  const ptc_mesh_t *mesh = &lower->module->mesh;
  const ptc_type_t *x = op->operands[0]->type, *y = op->results[0]->type;
  const int64_t in_bytes = ptc_lower_bytes(lower, x), out_bytes = ptc_lower_bytes(lower, y);
  ptc_collective_part_t part = {{1, in_bytes, in_bytes}, {1, out_bytes, out_bytes}};
  switch (op->opcode) {
    case PTC_OP_REDUCE_SCATTER:
      part.in = cut(mesh, x, y, ptc_type_find_dim(x, ptc_op_string(op, "dim")));
      break;
    case PTC_OP_ALL_GATHER:
      part.out = cut(mesh, y, x, ptc_type_find_dim(y, ptc_op_string(op, "dim")));
      break;
    case PTC_OP_ALL_TO_ALL:
      // A member keeps of the operand what lies in its part of `to`; of the result it fills what lies in the
      // part of `from` that the sender had. Dims keep their order, so that both streams do.
      part.in = cut(mesh, x, y, ptc_type_find_dim(x, ptc_op_string(op, "to")));
      part.out = cut(mesh, y, x, ptc_type_find_dim(y, ptc_op_string(op, "from")));
      break;
    default: break;
  }
  return part;
}

// --- the step

static ptc_collective_t *new_collective(ptc_lower_t *lower, const ptc_op_t *op, int32_t count) {
  ptc_collective_t *c = PTC_ARENA_NEW(lower->arena, ptc_collective_t);
  ptc_axis_ref_t refs[PTC_MAX_AXES];
  if (!ptc_axes_parse(lower->module, ptc_op_string(op, "axes"), refs, &c->num_axes)) return NULL;
  ptc_axis_ref_t *axes = PTC_ARENA_ARRAY(lower->arena, ptc_axis_ref_t, c->num_axes);
  for (int32_t i = 0; i < c->num_axes; ++i) {
    if (ptc_devices_level(&lower->module->mesh, refs[i].axis) < 0) return NULL;
    axes[i] = ptc_lower_axis(lower, refs[i]);
  }
  c->axes = axes;
  c->kind = kind_of(op);
  c->reduce = op->operands[0]->type->partial_kind;
  c->dtype = op->operands[0]->type->dtype;
  c->num_parts = count;
  c->parts = PTC_ARENA_ARRAY(lower->arena, ptc_collective_part_t, count);
  if (op->loc.file) {
    c->loc_file = ptc_arena_strdup(lower->arena, op->loc.file);
    c->loc_line = op->loc.line;
  }
  return c;
}

static ptc_status_t fill_part(ptc_lower_t *lower, const ptc_op_t *op, int32_t first_level,
                              ptc_collective_part_t *part, ptc_ref_t *args) {
  const ptc_value_t *x = op->operands[0], *y = op->results[0];
  const ptc_place_t *from = ptc_lower_place(lower, x);
  if (!from) return PTC_INTERNAL;
  const ptc_place_t *to = ptc_map_get(&lower->wanted, y);
  if (!to) to = ptc_lower_new_place(lower, y, y->type, PTC_BUFFER_TEMP);
  ptc_map_set(&lower->places, y, (void *)to);
  *part = part_of(lower, op);
  args[0] = ptc_lower_ref(from, x->type, first_level, ptc_lower_bytes(lower, x->type));
  args[1] = ptc_lower_ref(to, y->type, first_level, ptc_lower_bytes(lower, y->type));
  return PTC_OK;
}

ptc_status_t ptc_lower_collective(ptc_lower_t *lower, ptc_op_t *first, ptc_op_t **out_next,
                                  ptc_step_list_t *out) {
  const int32_t count = count_group(first);
  ptc_collective_t *c = new_collective(lower, first, count);
  if (!c)
    return ptc_error(lower->diag, first->loc, PTC_UNSUPPORTED, "plan-axis",
                     "\"%s\" exchanges data over \"%s\", which are not axes of devices alone",
                     ptc_op_info(first->opcode)->mnemonic, ptc_op_string(first, "axes"));
  ptc_step_t step = {.kind = PTC_STEP_COLLECTIVE, .num_args = 2 * count, .collective = c};
  step.args = PTC_ARENA_ARRAY(lower->arena, ptc_ref_t, step.num_args);
  const ptc_type_t *type = first->operands[0]->type;
  const int32_t first_level = lower->depth;
  ptc_step_list_t steps[PTC_MAX_COUNTS + 1] = {0};
  ptc_status_t status = PTC_OK;
  ptc_op_t *op = first;
  for (int32_t p = 0; p < count && status == PTC_OK; ++p, op = op->next)
    status = fill_part(lower, op, first_level, &c->parts[p], &step.args[2 * p]);
  *out_next = op;
  int64_t turns = ptc_lower_turns(first);
  for (int32_t d = 0; d < type->num_counts; ++d) turns *= type->counts[d];
  lower->num_exchanged += turns * count;
  // Of a bundle, one instance after another.
  int32_t depth = 0;
  while (status == PTC_OK && depth < type->num_counts) {
    status = ptc_lower_push(lower, NULL, type->counts[depth], false, first->loc);
    depth += status == PTC_OK;
  }
  if (status == PTC_OK) PTC_VEC_PUSH(depth ? &steps[depth] : out, step);
  for (int32_t d = depth - 1; d >= 0; --d)
    ptc_lower_pop(lower, false, &steps[d + 1], d ? &steps[d] : out);
  return status;
}

// --- repeats of collectives

// Repeats of as many turns that do nothing but one collective each, of one kind over one group.
static bool repeats_agree(const ptc_step_t *a, const ptc_step_t *b) {
  if (a->kind != PTC_STEP_REPEAT || b->kind != PTC_STEP_REPEAT || a->count != b->count ||
      a->reverse != b->reverse || a->num_steps != 1 || b->num_steps != 1 ||
      a->body[0].kind != PTC_STEP_COLLECTIVE || b->body[0].kind != PTC_STEP_COLLECTIVE)
    return false;
  const ptc_collective_t *x = a->body[0].collective, *y = b->body[0].collective;
  bool same = x->kind == y->kind && x->reduce == y->reduce && x->dtype == y->dtype &&
              x->num_axes == y->num_axes && x->num_parts + y->num_parts <= PTC_PLAN_MAX_PARTS;
  for (int32_t i = 0; same && i < x->num_axes; ++i)
    same = ptc_axis_ref_equal(x->axes[i], y->axes[i]);
  return same;
}

// Whether no buffer of one is a result of the other.
static bool are_apart(const ptc_step_t *a, const ptc_step_t *b) {
  for (int32_t i = 0; i < a->num_args; ++i)
    for (int32_t j = 0; j < b->num_args; ++j)
      if ((i % 2 || j % 2) && a->args[i].buffer == b->args[j].buffer) return false;
  return true;
}

static int64_t bytes_of(const ptc_step_t *step) {
  int64_t bytes = 0;
  for (int32_t a = 0; a < step->num_args; ++a) bytes += step->args[a].bytes;
  return bytes;
}

// The parts of |b| become parts of |a|.
static void join(ptc_arena_t *arena, ptc_step_t *a, const ptc_step_t *b) {
  const ptc_collective_t *x = a->collective, *y = b->collective;
  ptc_collective_t *c = PTC_ARENA_NEW(arena, ptc_collective_t);
  *c = *x;
  c->num_parts = x->num_parts + y->num_parts;
  c->parts = PTC_ARENA_ARRAY(arena, ptc_collective_part_t, c->num_parts);
  ptc_ref_t *args = PTC_ARENA_ARRAY(arena, ptc_ref_t, 2 * c->num_parts);
  memcpy(c->parts, x->parts, (size_t)x->num_parts * sizeof *x->parts);
  memcpy(c->parts + x->num_parts, y->parts, (size_t)y->num_parts * sizeof *y->parts);
  memcpy(args, a->args, (size_t)a->num_args * sizeof *args);
  memcpy(args + a->num_args, b->args, (size_t)b->num_args * sizeof *args);
  a->collective = c;
  a->args = args;
  a->num_args = 2 * c->num_parts;
}

int32_t ptc_lower_join_repeats(ptc_arena_t *arena, ptc_step_t *steps, int32_t count) {
  int32_t left = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT)
      steps[i].num_steps = ptc_lower_join_repeats(arena, steps[i].body, steps[i].num_steps);
    ptc_step_t *before = left ? &steps[left - 1] : NULL;
    if (before && repeats_agree(before, &steps[i]) && are_apart(before->body, steps[i].body) &&
        bytes_of(before->body) + bytes_of(steps[i].body) <= MAX_BYTES)
      join(arena, before->body, steps[i].body);
    else
      steps[left++] = steps[i];
  }
  return left;
}

// partition: from one type of a value to another.
//
// The steps: sums are taken (reduce_scatter where the target keeps a part, else all_reduce), then axes move from dim to
// dim (all_to_all), parts are taken (shard), shards gathered. A gradient of parameters is summed over tp first, then
// over the data axes, so that ZeRO changes no bit.

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/partition_impl.h"
#include "passes/rewrite.h"

// --- planning

typedef struct planner_s {
  ptc_part_t *p;
  const ptc_type_t *type, *to;
  ptc_part_step_t *steps;
  int32_t count;
  bool overflow;
} planner_t;

static ptc_part_step_t *add_step(planner_t *s, ptc_opcode_t opcode, const ptc_axis_ref_t *axes,
                                 int32_t num_axes, const char *dim) {
  if (s->count == PTC_PART_MAX_STEPS) {
    s->overflow = true;
    return &s->steps[s->count - 1];
  }
  ptc_part_step_t *step = &s->steps[s->count++];
  *step = (ptc_part_step_t){.opcode = opcode, .num_axes = num_axes, .dim = dim, .before = s->type};
  for (int32_t i = 0; i < num_axes; i++) step->axes[i] = axes[i];
  return step;
}

static void drop_partial(planner_t *s, const ptc_axis_ref_t *axes, int32_t num_axes) {
  ptc_axis_ref_t rest[PTC_MAX_AXES];
  int32_t count = 0;
  for (int32_t i = 0; i < s->type->num_partial; i++)
    if (ptc_axes_find(axes, num_axes, s->type->partial[i]) < 0) rest[count++] = s->type->partial[i];
  s->type = ptc_part_with_partial(s->p, s->type, rest, count);
}

// Partial over the axis, and the target is not.
static bool is_due(const planner_t *s, ptc_axis_ref_t ref) {
  return ptc_axis_is_device(ref.axis) &&
         ptc_axes_find(s->type->partial, s->type->num_partial, ref) >= 0 &&
         ptc_axes_find(s->to->partial, s->to->num_partial, ref) < 0;
}

static bool is_data(const planner_t *s, ptc_axis_ref_t ref) {
  return ptc_axes_find(s->p->data, s->p->num_data, ref) >= 0;
}

// The due sums over axes that the target does not scatter.
static void all_reduce(planner_t *s, const ptc_axis_ref_t *scattered, int32_t num_scattered,
                       bool data) {
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  int32_t count = 0;
  for (int32_t i = 0; i < s->type->num_partial; i++) {
    const ptc_axis_ref_t ref = s->type->partial[i];
    if (is_due(s, ref) && ptc_axes_find(scattered, num_scattered, ref) < 0 &&
        is_data(s, ref) == data)
      axes[count++] = ref;
  }
  if (!count) return;
  add_step(s, PTC_OP_ALL_REDUCE, axes, count, NULL);
  drop_partial(s, axes, count);
}

// The due axes that |dim| of the target has inside of those of the value.
static int32_t find_scattered(const planner_t *s, int32_t dim, ptc_axis_ref_t *out) {
  const ptc_dim_t *from = &s->type->dims[dim], *to = &s->to->dims[dim];
  if (to->num_axes <= from->num_axes ||
      !ptc_axes_equal(from->axes, from->num_axes, to->axes, from->num_axes) ||
      s->type->partial_kind != PTC_REDUCE_SUM)
    return 0;
  int32_t count = 0;
  for (int32_t i = from->num_axes; i < to->num_axes && is_due(s, to->axes[i]); i++)
    out[count++] = to->axes[i];
  return count;
}

static void append_axes(planner_t *s, int32_t dim, const ptc_axis_ref_t *axes, int32_t num_axes) {
  const ptc_dim_t *old = &s->type->dims[dim];
  ptc_axis_ref_t all[2 * PTC_MAX_AXES];
  for (int32_t i = 0; i < old->num_axes; i++) all[i] = old->axes[i];
  for (int32_t i = 0; i < num_axes; i++) all[old->num_axes + i] = axes[i];
  s->type = ptc_part_with_axes(s->p, s->type, dim, all, old->num_axes + num_axes);
}

static void plan_sums(planner_t *s) {
  const bool activation = ptc_part_is_activation(s->p, s->type);
  ptc_axis_ref_t scattered[PTC_MAX_AXES];
  int32_t dim = -1, count = 0;
  for (int32_t i = 0; i < s->type->num_dims && !count; i++) {
    count = find_scattered(s, i, scattered);
    dim = i;
  }
  if (!activation) all_reduce(s, scattered, count, false);
  if (count) {
    add_step(s, PTC_OP_REDUCE_SCATTER, scattered, count, s->type->dims[dim].name);
    drop_partial(s, scattered, count);
    append_axes(s, dim, scattered, count);
  }
  if (activation) all_reduce(s, NULL, 0, false);
  all_reduce(s, NULL, 0, true);
}

static int32_t common_prefix(const ptc_dim_t *a, const ptc_dim_t *b) {
  int32_t n = 0;
  while (n < a->num_axes && n < b->num_axes && ptc_axis_ref_equal(a->axes[n], b->axes[n])) n++;
  return n;
}

// Axes that leave one dim for the inner end of another.
static void plan_moves(planner_t *s) {
  for (int32_t i = 0; i < s->type->num_dims; i++) {
    for (int32_t j = 0; j < s->type->num_dims; j++) {
      const ptc_dim_t *from = &s->type->dims[i], *left = &s->to->dims[i];
      const ptc_dim_t *into = &s->type->dims[j], *goal = &s->to->dims[j];
      const int32_t keep = common_prefix(from, left), num = from->num_axes - keep;
      if (i == j || num == 0 || keep != left->num_axes || goal->num_axes < into->num_axes + num ||
          common_prefix(into, goal) != into->num_axes ||
          !ptc_axes_equal(from->axes + keep, num, goal->axes + into->num_axes, num))
        continue;
      ptc_axis_ref_t axes[PTC_MAX_AXES];
      for (int32_t a = 0; a < num; a++) axes[a] = from->axes[keep + a];
      add_step(s, PTC_OP_ALL_TO_ALL, axes, num, from->name)->to = into->name;
      s->type = ptc_part_with_axes(s->p, s->type, i, from->axes, keep);
      append_axes(s, j, axes, num);
    }
  }
}

static bool is_used(const ptc_type_t *type, ptc_axis_ref_t ref) {
  for (int32_t i = 0; i < type->num_dims; i++)
    for (int32_t a = 0; a < type->dims[i].num_axes; a++)
      if (ptc_axis_refs_overlap(type->dims[i].axes[a], ref)) return true;
  return false;
}

// Parts that can be taken now.
static void plan_shards(planner_t *s) {
  for (int32_t i = 0; i < s->type->num_dims; i++) {
    const ptc_dim_t *from = &s->type->dims[i], *to = &s->to->dims[i];
    if (to->num_axes <= from->num_axes || common_prefix(from, to) != from->num_axes) continue;
    const ptc_axis_ref_t *axes = to->axes + from->num_axes;
    const int32_t num = to->num_axes - from->num_axes;
    bool free = true;
    for (int32_t a = 0; a < num; a++) free &= !is_used(s->type, axes[a]);
    if (!free) continue;
    add_step(s, PTC_OP_SHARD, axes, num, from->name);
    append_axes(s, i, axes, num);
  }
}

static void plan_gathers(planner_t *s) {
  for (int32_t i = 0; i < s->type->num_dims; i++) {
    const ptc_dim_t *from = &s->type->dims[i], *to = &s->to->dims[i];
    const int32_t keep = common_prefix(from, to);
    if (keep == from->num_axes) continue;
    add_step(s, PTC_OP_ALL_GATHER, from->axes + keep, from->num_axes - keep, from->name);
    s->type = ptc_part_with_axes(s->p, s->type, i, from->axes, keep);
  }
}

int32_t ptc_part_plan(ptc_part_t *p, const ptc_type_t *from, const ptc_type_t *to,
                      ptc_part_step_t *steps) {
  planner_t s = {.p = p, .type = from, .to = to, .steps = steps};
  if (from->num_dims != to->num_dims) return -1;
  plan_sums(&s);
  plan_moves(&s);
  plan_shards(&s);
  plan_gathers(&s);
  plan_shards(&s);
  return s.overflow || !ptc_type_equal(s.type, to) ? -1 : s.count;
}

// --- building

static ptc_value_t *build_blocks(ptc_builder_t *b, ptc_value_t *value,
                                 const ptc_part_step_t *step) {
  ptc_attrs_t attrs = {0};
  const char *axes = ptc_axes_text(b->module, step->axes, step->num_axes);
  ptc_attrs_set_string(b->module, &attrs, step->opcode == PTC_OP_SHARD ? "axis" : "axes", axes);
  if (step->to) {
    ptc_attrs_set_dim(b->module, &attrs, "from", step->dim);
    ptc_attrs_set_dim(b->module, &attrs, "to", step->to);
  } else if (step->dim) {
    ptc_attrs_set_dim(b->module, &attrs, "dim", step->dim);
  }
  ptc_op_t *op = ptc_build_op(b, step->opcode, &value, 1, 1, attrs);
  if (!op) return NULL;
  op->results[0]->name = value->name;
  return op->results[0];
}

// Whether the step takes its axes from a zigzag, or lays them out as one.
static bool leaves_zigzag(const ptc_part_step_t *step) {
  const bool leaves = step->opcode == PTC_OP_ALL_GATHER || step->opcode == PTC_OP_ALL_TO_ALL;
  const int32_t at = leaves ? ptc_type_find_dim(step->before, step->dim) : -1;
  return at >= 0 && step->before->dims[at].dist == PTC_DIST_ZIGZAG;
}

static const char *zigzag_made(const ptc_part_t *p, const ptc_part_step_t *step) {
  const char *dim = step->opcode == PTC_OP_ALL_TO_ALL ? step->to : step->dim;
  if (!dim || step->opcode == PTC_OP_ALL_GATHER) return NULL;
  return ptc_part_is_zigzag(p, dim, step->axes, step->num_axes) ? dim : NULL;
}

static ptc_value_t *build_step(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value,
                               const ptc_part_step_t *step) {
  const char *name = value->name, *made = zigzag_made(p, step);
  const bool leaves = leaves_zigzag(step);
  if (leaves) value = ptc_part_reorder(p, b, value, step->dim, false);
  if (made && value) value = ptc_part_deal(p, b, value, made);
  value = value ? build_blocks(b, value, step) : NULL;
  if (leaves && value) value = ptc_part_collect(p, b, value, step->dim);
  if (made) value = ptc_part_reorder(p, b, value, made, true);
  if (value) value->name = name;
  return value;
}

static ptc_value_t *no_way(ptc_part_t *p, const ptc_type_t *from, const ptc_type_t *to,
                           ptc_loc_t loc) {
  ptc_str_t text = {0};
  ptc_type_print(&text, from);
  ptc_str_append(&text, " to ");
  ptc_type_print(&text, to);
  ptc_error(p->module->diag, loc, PTC_UNSUPPORTED, "partition-reshard",
            "no exchange between devices leads from %s", text.data);
  ptc_str_deinit(&text);
  return NULL;
}

static ptc_value_t *build_steps(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value,
                                const ptc_type_t *target);

// The repeat before the insertion point, if it reshards other bundles of as many instances: one group of
// collectives per turn then serves all of them.
static ptc_op_t *group_at(const ptc_part_t *p, const ptc_builder_t *b, const ptc_value_t *bundle) {
  ptc_op_t *op = b->before ? b->before->prev : b->block->last;
  const bool fits = op && op != bundle->def && ptc_map_get(&p->groups, op) &&
                    ptc_op_int(op, "count") == bundle->type->counts[0];
  return fits ? op : NULL;
}

// A bundle: turn by turn.
static ptc_value_t *build_turns(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *bundle,
                                const ptc_type_t *target) {
  const ptc_type_t *instance = ptc_type_instance(&p->module->arena, target);
  ptc_op_t *repeat = group_at(p, b, bundle);
  if (repeat) {
    ptc_value_t *arg = ptc_repeat_add_each(p->module, repeat, bundle);
    arg->name = bundle->name;
    ptc_builder_t inner = ptc_builder_before(p->module, repeat->body->last);
    inner.loc = b->loc;
    ptc_value_t *one = build_steps(p, &inner, arg, instance);
    if (!one) return NULL;
    ptc_value_t *result = ptc_repeat_add_collect(p->module, repeat, one);
    result->name = bundle->name;
    return result;
  }
  repeat = ptc_build_repeat_begin(b, bundle->type->counts[0], false, NULL, 0, &bundle, 1);
  if (!repeat) return NULL;
  ptc_builder_t inner = ptc_builder_at_end(b->module, repeat->body);
  inner.loc = b->loc;
  repeat->body->args[1]->name = bundle->name;
  ptc_value_t *one = build_steps(p, &inner, repeat->body->args[1], instance);
  if (!one) return NULL;
  ptc_build_repeat_end(b->module, repeat, &one, 1);
  repeat->results[0]->name = bundle->name;
  ptc_map_set(&p->groups, repeat, repeat);
  return repeat->results[0];
}

static ptc_value_t *build_steps(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value,
                                const ptc_type_t *target) {
  if (value->type->num_counts > 0) return build_turns(p, b, value, target);
  ptc_part_step_t steps[PTC_PART_MAX_STEPS];
  const int32_t count = ptc_part_plan(p, value->type, target, steps);
  if (count < 0) return no_way(p, value->type, target, b->loc);
  for (int32_t i = 0; value && i < count; i++) value = build_step(p, b, value, &steps[i]);
  return value;
}

static ptc_value_t *build_zeros(ptc_part_t *p, ptc_builder_t *b, const ptc_type_t *type) {
  if (type->num_counts > 0) {
    ptc_op_t *repeat = ptc_build_repeat_begin(b, type->counts[0], false, NULL, 0, NULL, 0);
    if (!repeat) return NULL;
    ptc_builder_t inner = ptc_builder_at_end(b->module, repeat->body);
    inner.loc = b->loc;
    ptc_value_t *one = build_zeros(p, &inner, ptc_type_instance(&p->module->arena, type));
    if (!one) return NULL;
    ptc_build_repeat_end(b->module, repeat, &one, 1);
    return repeat->results[0];
  }
  ptc_type_t *scalar = ptc_type_scalar(&p->module->arena, type->dtype);
  scalar->partial = type->partial;
  scalar->num_partial = type->num_partial;
  scalar->partial_kind = type->partial_kind;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_float(p->module, &attrs, "value", 0);
  ptc_op_t *zero = ptc_build_op_as(b, PTC_OP_CONSTANT, NULL, 0, 1, attrs, scalar);
  if (!zero || type->num_dims == 0) return zero ? zero->results[0] : NULL;
  const char *names[PTC_MAX_DIMS];
  int64_t extents[PTC_MAX_DIMS];
  for (int32_t i = 0; i < type->num_dims; i++) {
    names[i] = type->dims[i].name;
    extents[i] = type->dims[i].extent;
  }
  ptc_attrs_t shape = {0};
  ptc_attrs_set_dims(p->module, &shape, "dims", names, type->num_dims);
  ptc_attrs_set_ints(p->module, &shape, "extents", extents, type->num_dims);
  ptc_op_t *op = ptc_build_op_as(b, PTC_OP_BROADCAST, zero->results, 1, 1, shape, type);
  return op ? op->results[0] : NULL;
}

// --- values that are made in parts from the start

enum { MAX_CHAIN = 24 };

const ptc_type_t *ptc_part_operand_target(ptc_part_t *p, const ptc_op_t *op, const ptc_type_t *type,
                                          const ptc_type_t *target) {
  for (int32_t i = 0; i < type->num_dims; i++) {
    const char *name = type->dims[i].name;
    const ptc_attr_t *from = op->opcode == PTC_OP_RENAME ? ptc_op_attr(op, "from") : NULL;
    for (int32_t k = 0; from && k < from->count; k++) {
      if (from->u.dims[k] != type->dims[i].name) continue;
      name = ptc_op_attr(op, "to")->u.dims[k];
      break;
    }
    const int32_t at = ptc_type_find_dim(target, name);
    if (at >= 0)
      type = ptc_part_with_axes(p, type, i, target->dims[at].axes, target->dims[at].num_axes);
  }
  return type;
}

// Whether the value can be made with the type |target|: of indices, random numbers, scalars, and of what has that type
// already.
static bool is_made_here(ptc_part_t *p, const ptc_value_t *value, const ptc_type_t *target,
                         int depth) {
  const ptc_op_t *def = value->def;
  if (ptc_type_equal(value->type, target)) return true;
  if (!def || depth == MAX_CHAIN || value->type->num_partial > 0) return false;
  if (def->opcode == PTC_OP_IOTA || def->opcode == PTC_OP_RANDOM) return true;
  const bool moves = def->opcode == PTC_OP_BROADCAST || def->opcode == PTC_OP_TRANSPOSE ||
                     def->opcode == PTC_OP_RENAME || ptc_op_has_trait(def, PTC_TRAIT_EWISE);
  for (int32_t i = 0; moves && i < def->num_operands; i++) {
    const ptc_value_t *x = def->operands[i];
    if (!is_made_here(p, x, ptc_part_operand_target(p, def, x->type, target), depth + 1))
      return false;
  }
  return moves;
}

static ptc_value_t *make_part(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value,
                              const ptc_type_t *target) {
  if (ptc_type_equal(value->type, target)) return value;
  const ptc_op_t *def = value->def;
  ptc_value_t **operands = PTC_ARENA_ARRAY(p->scratch, ptc_value_t *, def->num_operands + 1);
  for (int32_t i = 0; i < def->num_operands; i++) {
    const ptc_type_t *type = def->operands[i]->type;
    operands[i] = make_part(p, b, def->operands[i], ptc_part_operand_target(p, def, type, target));
    if (!operands[i]) return NULL;
  }
  const ptc_loc_t loc = b->loc;
  b->loc = def->loc;
  ptc_op_t *op = ptc_build_op_as(b, def->opcode, operands, def->num_operands, 1,
                                 ptc_attrs_clone(p->module, &def->attrs), target);
  b->loc = loc;
  if (!op) return NULL;
  op->results[0]->name = value->name;
  return op->results[0];
}

static bool only_shards(ptc_part_t *p, const ptc_type_t *from, const ptc_type_t *to) {
  ptc_part_step_t steps[PTC_PART_MAX_STEPS];
  const int32_t count = from->num_counts ? -1 : ptc_part_plan(p, from, to, steps);
  for (int32_t i = 0; i < count; i++)
    if (steps[i].opcode != PTC_OP_SHARD) return false;
  return count > 0;
}

// --- what is there already

typedef struct entry_s {
  ptc_value_t *value;
  struct entry_s *next;
} entry_t;

static ptc_value_t *find_built(ptc_part_t *p, const ptc_value_t *value, const ptc_type_t *target,
                               const ptc_op_t *use) {
  for (entry_t *e = ptc_map_get(&p->cache, value); e; e = e->next)
    if (ptc_type_equal(e->value->type, target) &&
        ptc_block_contains(ptc_value_block(e->value), use->parent))
      return e->value;
  return NULL;
}

static void note_built(ptc_part_t *p, const ptc_value_t *value, ptc_value_t *built) {
  entry_t *entry = PTC_ARENA_NEW(p->scratch, entry_t);
  *entry = (entry_t){built, ptc_map_get(&p->cache, value)};
  ptc_map_set(&p->cache, value, entry);
}

// The op before which a reshard of |value| for |use| stands: as far out as the value is known. The exceptions: ZeRO-3
// gathers a parameter in the turn that uses it, all of a turn at its start; sums of gradients stand together after
// the repeat that makes them.
static ptc_op_t *place_for(const ptc_part_t *p, const ptc_value_t *value, ptc_op_t *use) {
  const ptc_block_t *block = ptc_value_block(value);
  if (p->parallel.zero >= 3 && ptc_map_get(&p->home, value)) {
    ptc_op_t *first = !value->def && block->parent_op ? ptc_map_get(&p->firsts, block) : NULL;
    return first && use->parent == block ? first : use;
  }
  while (use->parent != block && use->parent->parent_op) use = use->parent->parent_op;
  if (value->type->num_counts == 0 || !value->def || !ptc_map_get(&p->grads, value)) return use;
  ptc_op_t *place = value->def->next;
  while (place != use && ptc_map_get(&p->groups, place)) place = place->next;
  return place;
}

// Another view of a parameter, which is gathered once, or of an activation that is returned as all_to_all moves it.
static bool is_shared_view(ptc_part_t *p, const ptc_value_t *value, const ptc_type_t *target) {
  const ptc_op_t *def = value->def;
  if (!def || def->opcode != PTC_OP_RENAME) return false;
  const ptc_value_t *source = def->operands[0];
  if (ptc_map_get(&p->home, value)) return ptc_map_get(&p->home, source) != NULL;
  const ptc_type_t *moved = ptc_map_get(&p->gathered, source);
  return moved && ptc_type_equal(moved, ptc_part_operand_target(p, def, source->type, target));
}

ptc_value_t *ptc_part_reshard(ptc_part_t *p, ptc_value_t *value, const ptc_type_t *target,
                              ptc_op_t *use) {
  if (ptc_type_equal(value->type, target)) return value;
  ptc_value_t *built = find_built(p, value, target, use);
  if (built) return built;
  ptc_builder_t b = ptc_builder_before(p->module, place_for(p, value, use));
  if (value->def) b.loc = value->def->loc;
  const ptc_op_t *def = value->def;
  const bool view = is_shared_view(p, value, target);
  if (ptc_part_is_zero(value)) {
    built = build_zeros(p, &b, target);
  } else if (view) {
    // A view of what others may use, too.
    ptc_value_t *source = ptc_part_reshard(
        p, def->operands[0], ptc_part_operand_target(p, def, def->operands[0]->type, target), use);
    ptc_op_t *op = source ? ptc_build_op(&b, def->opcode, &source, 1, 1,
                                         ptc_attrs_clone(p->module, &def->attrs))
                          : NULL;
    built = op ? op->results[0] : NULL;
  } else if (only_shards(p, value->type, target) && is_made_here(p, value, target, 0)) {
    built = make_part(p, &b, value, target);
  } else {
    built = build_steps(p, &b, value, target);
  }
  if (built) note_built(p, value, built);
  return built;
}

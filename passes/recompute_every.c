// every(N): a region of n turns becomes n / N groups of N turns. Forward keeps the carried values
// at the start of each group; backward runs the group's turns again before it walks them in
// reverse.
//
//   forward        repeat g (carry c) { inner: repeat N (carry c) {body} }    collects c per group
//   backward       repeat g reverse { again: repeat N (c of the group) {body}, collects saved
//   values
//                                     inner: repeat N reverse {gradient of body} }
//
// The n % N last turns form one more group, whose start is the carried value between the regions.
#include "ir/builder.h"
#include "ir/op.h"
#include "passes/recompute_impl.h"
#include "passes/rewrite.h"

typedef struct every_s {
  const ptc_pair_t *pair;
  ptc_module_t *module;
  int64_t period, groups, rest;
} every_t;

typedef struct list_s {
  ptc_value_t **items;
  int32_t count;
} list_t;

static void copy(ptc_value_t **to, ptc_value_t *const *from, int32_t count) {
  for (int32_t i = 0; i < count; i++) to[i] = from[i];
}

static list_t list_new(const every_t *e, int32_t count) {
  return (list_t){PTC_ARENA_ARRAY(&e->module->arena, ptc_value_t *, count), count};
}

static ptc_value_t *build_list_op(ptc_builder_t *b, ptc_opcode_t opcode,
                                  ptc_value_t *const *operands, int32_t num, ptc_attrs_t attrs) {
  ptc_op_t *op = ptc_build_op(b, opcode, operands, num, 1, attrs);
  return op ? op->results[0] : NULL;
}

// Turns [first, first + count) of a bundle, |outer| groups of them if that is positive.
static ptc_value_t *slice(ptc_builder_t *b, ptc_value_t *bundle, int64_t first, int64_t count,
                          int64_t outer) {
  ptc_attrs_t attrs = {0};
  if (first != 0 || count != bundle->type->counts[0]) {
    ptc_attrs_set_int(b->module, &attrs, "first", first);
    ptc_attrs_set_int(b->module, &attrs, "count", count);
    bundle = build_list_op(b, PTC_OP_LIST_SLICE, &bundle, 1, attrs);
  }
  if (outer == 0 || !bundle) return bundle;
  attrs = (ptc_attrs_t){0};
  ptc_attrs_set_int(b->module, &attrs, "outer", outer);
  return build_list_op(b, PTC_OP_LIST_GROUP, &bundle, 1, attrs);
}

static void mark_remat(ptc_op_t *op, void *arg) {
  (void)arg;
  op->remat = true;
}

// A copy of |repeat| of |count| turns on other operands, in which turn t is turn |first| + t of the
// original.
static ptc_op_t *clone_turns(const every_t *e, ptc_builder_t *b, const ptc_op_t *repeat,
                             int64_t count, ptc_value_t *first, ptc_value_t *const *operands,
                             bool remat) {
  ptc_map_t map = {0};
  ptc_op_t *clone = ptc_op_clone(e->module, repeat, &map);
  ptc_map_deinit(&map);
  copy(clone->operands, operands, clone->num_operands);
  ptc_attrs_set_int(e->module, &clone->attrs, "count", count);
  for (int32_t i = clone->num_carry; i < clone->num_results; i++)
    clone->results[i]->type =
        ptc_type_bundle(&e->module->arena, clone->body->last->operands[i]->type, count);
  ptc_op_insert(clone, b->block, b->before);

  ptc_value_t *turn = clone->body->args[0];
  ptc_builder_t inner = ptc_builder_before(e->module, clone->body->first);
  ptc_value_t *original = ptc_build_binary(&inner, PTC_OP_ADD, first, turn);
  ptc_block_replace_uses(clone->body, turn, original);
  original->def->operands[1] = turn;
  if (remat) {
    clone->remat = true;
    ptc_block_walk(clone->body, mark_remat, NULL);
  }
  return clone;
}

// The operands of |repeat|'s copy: |carry|, then each bundle as |each| gives it.
static ptc_value_t *const *join(const every_t *e, list_t carry, list_t each) {
  ptc_value_t **all = PTC_ARENA_ARRAY(&e->module->arena, ptc_value_t *, carry.count + each.count);
  copy(all, carry.items, carry.count);
  copy(all + carry.count, each.items, each.count);
  return all;
}

static list_t list_of(const every_t *e, ptc_value_t *const *values, int32_t count) {
  list_t list = list_new(e, count);
  copy(list.items, values, count);
  return list;
}

static list_t slices(const every_t *e, ptc_builder_t *b, const ptc_op_t *repeat, int64_t first,
                     int64_t count, int64_t outer) {
  list_t list = list_new(e, repeat->num_each);
  for (int32_t i = 0; i < repeat->num_each; i++) {
    ptc_value_t *bundle = repeat->operands[repeat->num_carry + i];
    list.items[i] = bundle->def == e->pair->forward ? NULL : slice(b, bundle, first, count, outer);
  }
  return list;
}

static ptc_value_t *first_turn(const every_t *e, ptc_builder_t *b, ptc_value_t *group) {
  return ptc_build_binary_const(b, PTC_OP_MUL, group, (double)e->period);
}

// One group backward: its turns forward again from |start|, then in reverse.
// |forward_each|: forward's bundles of the group; |each|: backward's, NULL where a value is saved.
static ptc_op_t *build_group_backward(const every_t *e, ptc_builder_t *b, int64_t count,
                                      ptc_value_t *first, list_t start, list_t forward_each,
                                      list_t carry, list_t each) {
  const ptc_op_t *forward = e->pair->forward, *backward = e->pair->backward;
  ptc_op_t *again = clone_turns(e, b, forward, count, first, join(e, start, forward_each), true);
  list_t full = list_of(e, each.items, each.count);
  for (int32_t i = 0; i < each.count; i++)
    if (!full.items[i]) {
      const ptc_value_t *saved = backward->operands[backward->num_carry + i];
      full.items[i] = again->results[saved->index];
    }
  return clone_turns(e, b, backward, count, first, join(e, carry, full), false);
}

// The results of a region: carried ones from |last|, per-turn ones joined.
static void replace_results(ptc_builder_t *b, ptc_op_t *old, ptc_op_t *grouped, ptc_op_t *rest,
                            ptc_op_t *last) {
  for (int32_t i = 0; i < old->num_results; i++) {
    ptc_value_t *value = last->results[i];
    if (i >= old->num_carry) {
      ptc_value_t *parts[2];
      int32_t num = 0;
      if (grouped)
        parts[num++] =
            build_list_op(b, PTC_OP_LIST_UNGROUP, &grouped->results[i], 1, (ptc_attrs_t){0});
      if (rest) parts[num++] = rest->results[i];
      value =
          num == 1 ? parts[0] : build_list_op(b, PTC_OP_LIST_CONCAT, parts, num, (ptc_attrs_t){0});
    }
    value->name = old->results[i]->name;
    ptc_block_replace_uses(old->parent, old->results[i], value);
  }
}

// Ends the outer region whose body is the one region |inner|; |extra| are collected besides.
static void end_outer(const every_t *e, ptc_op_t *outer, const ptc_op_t *inner, list_t extra) {
  list_t yields = list_new(e, inner->num_results + extra.count);
  copy(yields.items, inner->results, inner->num_results);
  copy(yields.items + inner->num_results, extra.items, extra.count);
  ptc_build_repeat_end(e->module, outer, yields.items, yields.count);
}

ptc_status_t ptc_recompute_every(const ptc_pair_t *pair, int64_t period) {
  ptc_op_t *forward = pair->forward, *backward = pair->backward;
  const int64_t turns = ptc_op_int(forward, "count");
  every_t e = {.pair = pair, .module = pair->module, .period = period};
  e.groups = turns / period;
  e.rest = turns % period;
  const int64_t grouped_turns = turns - e.rest;
  const list_t none = {NULL, 0};

  // Forward.
  ptc_builder_t b = ptc_builder_before(e.module, forward);
  list_t carry = list_of(&e, forward->operands, forward->num_carry);
  ptc_op_t *outer = NULL, *rest = NULL;
  list_t starts = none;  // per group
  if (e.groups > 0) {
    list_t each = slices(&e, &b, forward, 0, grouped_turns, e.groups);
    outer = ptc_build_repeat_begin(&b, e.groups, false, carry.items, carry.count, each.items,
                                   each.count);
    if (!outer) return PTC_INTERNAL;
    ptc_value_t **args = outer->body->args;
    ptc_builder_t in = ptc_builder_at_end(e.module, outer->body);
    in.loc = forward->loc;
    starts = list_of(&e, args + 1, carry.count);
    ptc_op_t *inner =
        clone_turns(&e, &in, forward, period, first_turn(&e, &in, args[0]),
                    join(&e, starts, list_of(&e, args + 1 + carry.count, each.count)), false);
    end_outer(&e, outer, inner, starts);
    carry = list_of(&e, outer->results, carry.count);
    starts = list_of(&e, outer->results + forward->num_results, carry.count);
  }
  ptc_value_t *rest_first = NULL;
  list_t rest_each = none;
  if (e.rest > 0) {
    rest_first = ptc_build_constant(&b, PTC_I32, (double)grouped_turns);
    rest_each = slices(&e, &b, forward, grouped_turns, e.rest, 0);
    rest = clone_turns(&e, &b, forward, e.rest, rest_first, join(&e, carry, rest_each), false);
  }

  // Backward, the remaining turns first.
  ptc_builder_t bb = ptc_builder_before(e.module, backward);
  list_t grad = list_of(&e, backward->operands, backward->num_carry);
  ptc_op_t *outer_grad = NULL, *rest_grad = NULL;
  if (e.rest > 0) {
    // Slices are made again: what forward made would have to be kept.
    rest_first = ptc_build_constant(&bb, PTC_I32, (double)grouped_turns);
    rest_each = slices(&e, &bb, forward, grouped_turns, e.rest, 0);
    rest_grad = build_group_backward(&e, &bb, e.rest, rest_first, carry, rest_each, grad,
                                     slices(&e, &bb, backward, grouped_turns, e.rest, 0));
    grad = list_of(&e, rest_grad->results, grad.count);
  }
  if (e.groups > 0) {
    list_t own = slices(&e, &bb, backward, 0, grouped_turns, e.groups);
    list_t theirs = slices(&e, &bb, forward, 0, grouped_turns, e.groups);
    list_t each = list_new(&e, starts.count + theirs.count + own.count);
    copy(each.items, starts.items, starts.count);
    copy(each.items + starts.count, theirs.items, theirs.count);
    each.count = starts.count + theirs.count;
    for (int32_t i = 0; i < own.count; i++)
      if (own.items[i]) each.items[each.count++] = own.items[i];
    outer_grad =
        ptc_build_repeat_begin(&bb, e.groups, true, grad.items, grad.count, each.items, each.count);
    if (!outer_grad) return PTC_INTERNAL;
    ptc_value_t **args = outer_grad->body->args, **next = args + 1 + grad.count;
    ptc_builder_t in = ptc_builder_at_end(e.module, outer_grad->body);
    in.loc = backward->loc;
    const list_t start = list_of(&e, next, starts.count);
    const list_t mine = list_of(&e, next + starts.count, theirs.count);
    next += starts.count + theirs.count;
    for (int32_t i = 0; i < own.count; i++)
      if (own.items[i]) own.items[i] = *next++;
    ptc_op_t *inner = build_group_backward(&e, &in, period, first_turn(&e, &in, args[0]), start,
                                           mine, list_of(&e, args + 1, grad.count), own);
    end_outer(&e, outer_grad, inner, none);
  }
  replace_results(&bb, backward, outer_grad, rest_grad, outer_grad ? outer_grad : rest_grad);
  ptc_op_remove(backward);
  replace_results(&b, forward, outer, rest, rest ? rest : outer);
  ptc_op_remove(forward);
  return PTC_OK;
}

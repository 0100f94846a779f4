// Attention that the text spells out becomes the attention op:
//
//   z = einsum(q, key over k)                  also of renamed, split or merged dims
//   z = scale * z, cap * tanh(z / cap), z + bias, where(mask, z, -inf)      in this order, each optional
//   p = softmax[t](z), perhaps dropped         out = einsum(p, val over t)
//
// It means the same up to rounding, with two differences: in 16-bit precision the scores and weights are no
// longer rounded to 16 bits (attention keeps them in f32), and a row whose keys are all masked by -inf gives 0,
// where softmax gives NaN. A mask by a finite number (-1e9) is taken only where the mask provably leaves every
// row a key, since softmax of such a row is uniform. Dropout draws the same numbers: they follow the order of
// the weights' dims, which q and key are brought to.
//
// What looks like attention but cannot be raised gets a warning with the bytes of its scores. A softmax whose
// keys and values differ from row to row (routing, say) is none.
#include <inttypes.h>
#include <string.h>

#include "ir/base/vec.h"
#include "passes/pass.h"
#include "passes/raise_attention_impl.h"
#include "passes/rewrite.h"

// --- views of the scores, applied to what they are made of

// The dims of |list| that |type| has: all, some or none of them.
static int32_t count_dims(const ptc_type_t *type, const char *const *dims, int32_t count) {
  int32_t found = 0;
  for (int32_t i = 0; i < count; i++) found += ptc_type_has_dim(type, dims[i]);
  return found;
}

// |value| as the view |op| leaves it; a view of dims that it lacks changes nothing. NULL: it cannot be.
static ptc_value_t *apply_view(ptc_builder_t *b, const ptc_op_t *op, ptc_value_t *value) {
  const ptc_type_t *type = value->type;
  if (op->opcode == PTC_OP_RENAME) {
    const ptc_attr_t *from = ptc_op_attr(op, "from"), *to = ptc_op_attr(op, "to");
    const char *old[PTC_MAX_DIMS], *fresh[PTC_MAX_DIMS];
    int32_t count = 0;
    for (int32_t i = 0; i < from->count && count < PTC_MAX_DIMS; i++) {
      if (!ptc_type_has_dim(type, from->u.dims[i])) {
        if (ptc_type_has_dim(type, to->u.dims[i])) return NULL;  // its own dim of that name
        continue;
      }
      old[count] = from->u.dims[i];
      fresh[count++] = to->u.dims[i];
    }
    return count ? ptc_build_rename(b, value, old, fresh, count) : value;
  }
  if (op->opcode == PTC_OP_SPLIT) {
    const ptc_attr_t *into = ptc_op_attr(op, "into");
    if (!ptc_type_has_dim(type, ptc_op_string(op, "dim")))
      return count_dims(type, into->u.dims, into->count) ? NULL : value;
  } else {
    const ptc_attr_t *dims = ptc_op_attr(op, "dims");
    const int32_t found = count_dims(type, dims->u.dims, dims->count);
    const char *const into = ptc_op_string(op, "into");
    if (!found) return ptc_type_has_dim(type, into) ? NULL : value;
    if (found < dims->count) return NULL;
  }
  ptc_op_t *made =
      ptc_build_op(b, op->opcode, &value, 1, 1, ptc_attrs_clone(b->module, &op->attrs));
  return made ? made->results[0] : NULL;
}

static ptc_value_t *apply_views(ptc_builder_t *b, const ptc_raise_match_t *m, int32_t first,
                                ptc_value_t *value) {
  for (int32_t i = first; value && i < m->num_views; i++) value = apply_view(b, m->views[i], value);
  return value;
}

// --- dropout: the order in which it numbers the weights

typedef struct order_s {
  const char *names[2 * PTC_MAX_DIMS];
  int32_t count;
} order_t;

// The dims of the dropped weights in order, seen through the views that follow. False: a view takes dims
// together that do not follow one another.
static bool follow_view(order_t *order, const ptc_op_t *op) {
  order_t next = {0};
  if (op->opcode == PTC_OP_RENAME) {
    const ptc_attr_t *from = ptc_op_attr(op, "from"), *to = ptc_op_attr(op, "to");
    for (int32_t i = 0; i < order->count; i++) {
      const char *name = order->names[i];
      for (int32_t j = 0; j < from->count; j++)
        if (from->u.dims[j] == order->names[i]) name = to->u.dims[j];
      next.names[next.count++] = name;
    }
  } else if (op->opcode == PTC_OP_SPLIT) {
    const ptc_attr_t *into = ptc_op_attr(op, "into");
    for (int32_t i = 0; i < order->count; i++) {
      const bool here = order->names[i] == ptc_op_string(op, "dim");
      for (int32_t j = 0; here && j < into->count; j++) next.names[next.count++] = into->u.dims[j];
      if (!here) next.names[next.count++] = order->names[i];
      if (next.count > PTC_MAX_DIMS) return false;
    }
  } else {
    const ptc_attr_t *dims = ptc_op_attr(op, "dims");
    for (int32_t i = 0; i < order->count;) {
      if (order->names[i] != dims->u.dims[0]) {
        next.names[next.count++] = order->names[i++];
        continue;
      }
      for (int32_t j = 0; j < dims->count; j++)
        if (i + j >= order->count || order->names[i + j] != dims->u.dims[j]) return false;
      next.names[next.count++] = ptc_op_string(op, "into");
      i += dims->count;
    }
  }
  *order = next;
  return true;
}

static ptc_value_t *reorder(ptc_builder_t *b, ptc_value_t *value, const char *const *names,
                            int32_t count) {
  bool same = true;
  for (int32_t i = 0; i < count; i++) same &= value->type->dims[i].name == names[i];
  return same ? value : ptc_build_transpose(b, value, names, count);
}

// Brings q and key to the order in which |m|'s dropout numbers the weights: q's dims, then those of key
// alone. False where the order mixes them.
static bool order_operands(ptc_builder_t *b, const ptc_raise_match_t *m, const char *dot,
                           ptc_value_t **q, ptc_value_t **key) {
  if (!m->dropout) return true;
  const ptc_type_t *type = m->dropout->operands[0]->type;
  order_t order = {0};
  for (int32_t i = 0; i < type->num_dims; i++) order.names[order.count++] = type->dims[i].name;
  for (int32_t i = m->dropout_views; i < m->num_views; i++)
    if (!follow_view(&order, m->views[i])) return false;
  const int32_t of_q = (*q)->type->num_dims - 1;
  const char *names[2 * PTC_MAX_DIMS];
  int32_t count = 0;
  for (int32_t i = 0; i < order.count; i++)
    if (ptc_type_has_dim((*q)->type, order.names[i]) != (i < of_q)) return false;
  // The dot dim stays where it is among q's dims: it is not counted.
  for (int32_t i = 0, next = 0; i < (*q)->type->num_dims; i++)
    names[count++] = (*q)->type->dims[i].name == dot ? dot : order.names[next++];
  *q = reorder(b, *q, names, count);
  count = 0;
  for (int32_t i = 0, next = of_q; i < (*key)->type->num_dims; i++) {
    const char *name = (*key)->type->dims[i].name;
    names[count++] = ptc_type_has_dim((*q)->type, name) ? name : order.names[next++];
  }
  *key = reorder(b, *key, names, count);
  return true;
}

// --- the rewrite

// What the op gets.
typedef struct parts_s {
  ptc_value_t *q, *key, *val, *mask, *bias;
  const char *attend, *dot;
} parts_t;

static bool has_shared_rows(const parts_t *parts) {
  for (int32_t i = 0; i < parts->q->type->num_dims; i++) {
    const ptc_dim_t *dim = &parts->q->type->dims[i];
    if (dim->extent > 1 && !ptc_type_has_dim(parts->key->type, dim->name) &&
        !ptc_type_has_dim(parts->val->type, dim->name))
      return true;
  }
  return false;
}

static const char *find_operands(ptc_builder_t *b, const ptc_raise_match_t *m, parts_t *out) {
  out->attend = ptc_op_attr(m->values, "over")->u.dims[0];
  out->dot = ptc_op_attr(m->scores, "over")->u.dims[0];
  out->val = m->values->operands[1 - m->values_from];
  ptc_value_t *x = apply_views(b, m, 0, m->scores->operands[0]);
  ptc_value_t *y = apply_views(b, m, 0, m->scores->operands[1]);
  if (!x || !y) return "a view of the scores is none of q and key";
  const bool first = ptc_type_has_dim(x->type, out->attend);
  if (first == ptc_type_has_dim(y->type, out->attend))
    return "the softmax runs over a dim that q and key share";
  out->q = first ? y : x;
  out->key = first ? x : y;
  if (!ptc_type_has_dim(out->q->type, out->dot) || !ptc_type_has_dim(out->key->type, out->dot))
    return "a view of the scores has the name of the dim that q and key are multiplied along";
  // The softmax must be over the same dim, seen through the views after it.
  order_t over = {.names = {ptc_op_attr(m->softmax, "over")->u.dims[0]}, .count = 1};
  int32_t after = 0;
  for (int32_t i = 1; i < m->softmax_at; i++) {
    const ptc_opcode_t opcode = m->steps[i].op->opcode;
    after += opcode == PTC_OP_RENAME || opcode == PTC_OP_SPLIT || opcode == PTC_OP_MERGE;
  }
  for (int32_t i = after; i < m->num_views; i++)
    if (!follow_view(&over, m->views[i]))
      return "the attended dim is split or merged after the softmax";
  if (over.count != 1 || over.names[0] != out->attend)
    return "the softmax and the product with the values run over different dims";
  return NULL;
}

static const char *join_masks(ptc_builder_t *b, const ptc_raise_match_t *m, parts_t *out) {
  for (int32_t i = 0; i < m->num_masks; i++) {
    ptc_value_t *mask = apply_views(b, m, m->masks[i].num_views, m->masks[i].value);
    if (!mask) return "a view of the scores is none of the mask";
    if (m->masks[i].negated) mask = ptc_build_unary(b, PTC_OP_NOT, mask);
    if (m->masks[i].finite && m->num_masks > 1)
      return "of several masks one is by a finite number, not -inf";
    out->mask = out->mask ? ptc_build_binary(b, PTC_OP_AND, out->mask, mask) : mask;
  }
  if (m->num_masks == 1 && m->masks[0].finite) {
    const ptc_type_t *key = out->key->type, *q = out->q->type;
    const ptc_dim_t *attend = &key->dims[ptc_type_find_dim(key, out->attend)];
    if (!ptc_raise_mask_leaves_some(out->mask, attend, q->dims, q->num_dims))
      return "the mask is by a finite number, not -inf, and may leave a row nothing";
  }
  return NULL;
}

static const char *join_biases(ptc_builder_t *b, const ptc_raise_match_t *m, parts_t *out) {
  for (int32_t i = 0; i < m->num_biases; i++) {
    ptc_value_t *bias = apply_views(b, m, m->biases[i].num_views, m->biases[i].value);
    if (!bias) return "a view of the scores is none of the bias";
    if (m->biases[i].negated) bias = ptc_build_unary(b, PTC_OP_NEG, bias);
    if (!out->bias)
      out->bias = bias;
    else
      out->bias = ptc_build_binary(b, PTC_OP_ADD, out->bias, bias);
  }
  return NULL;
}

static ptc_value_t *build(ptc_builder_t *b, const ptc_raise_match_t *m, const parts_t *parts) {
  ptc_module_t *module = m->module;
  ptc_value_t *operands[5 + 2 + PTC_MAX_COUNTS] = {parts->q, parts->key, parts->val};
  int32_t count = 3;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(module, &attrs, "attend", parts->attend);
  ptc_attrs_set_dim(module, &attrs, "dot", parts->dot);
  ptc_attrs_set_float(module, &attrs, "scale", m->scale);
  if (m->cap > 0) ptc_attrs_set_float(module, &attrs, "softcap", m->cap);
  if (parts->mask) {
    ptc_attrs_set_bool(module, &attrs, "mask", true);
    operands[count++] = parts->mask;
  }
  if (parts->bias) {
    ptc_attrs_set_bool(module, &attrs, "bias", true);
    operands[count++] = parts->bias;
  }
  if (m->dropout && ptc_op_float(m->dropout, "p") > 0) {
    ptc_attrs_set_float(module, &attrs, "p", ptc_op_float(m->dropout, "p"));
    ptc_attrs_set_string(module, &attrs, "path", ptc_op_string(m->dropout, "path"));
    for (int32_t i = 1; i < m->dropout->num_operands; i++)
      operands[count++] = m->dropout->operands[i];
  }
  const ptc_op_t *op = ptc_build_op(b, PTC_OP_ATTENTION, operands, count, 2, attrs);
  if (!op) return NULL;
  const ptc_type_t *wanted = m->values->results[0]->type;
  const char *names[PTC_MAX_DIMS];
  for (int32_t i = 0; i < wanted->num_dims; i++) names[i] = wanted->dims[i].name;
  op->results[0]->name = m->values->results[0]->name;
  return reorder(b, op->results[0], names, wanted->num_dims);
}

// Removes the ops from |first| on up to |end|: a rewrite that was given up.
static void remove_built(ptc_op_t *last_kept, ptc_op_t *end) {
  while (end->prev != last_kept) ptc_op_remove(end->prev);
}

// Once for each place: train and eval are made of the same text.
static void warn(const ptc_raise_match_t *m, const char *reason) {
  static const char id[] = "attention-not-fused";
  const ptc_diag_t *diag = m->module->diag;
  const ptc_loc_t loc = m->softmax->loc;
  for (int64_t i = 0; i < diag->num_items; i++)
    if (strcmp(diag->items[i].id, id) == 0 && diag->items[i].loc.line == loc.line &&
        diag->items[i].loc.column == loc.column)
      return;
  ptc_warning(m->module->diag, loc, id,
              "the scores of this softmax are stored, %" PRId64 " bytes: %s",
              ptc_type_num_bytes(m->softmax->results[0]->type), reason);
}

static void raise(ptc_raise_match_t *m) {
  ptc_op_t *before = m->values->prev;
  ptc_builder_t b = ptc_builder_before(m->module, m->values);
  b.loc = m->softmax->loc;
  parts_t parts = {0};
  const char *reason = find_operands(&b, m, &parts);
  const bool is_attention = reason || has_shared_rows(&parts);
  if (!reason && is_attention) reason = join_masks(&b, m, &parts);
  if (!reason && is_attention) reason = join_biases(&b, m, &parts);
  if (!reason && is_attention && !order_operands(&b, m, parts.dot, &parts.q, &parts.key))
    reason = "dropout numbers the weights in an order that mixes dims of q and key";
  ptc_value_t *out = reason || !is_attention ? NULL : build(&b, m, &parts);
  if (!out) {
    remove_built(before, m->values);
    if (reason) warn(m, reason);
    return;
  }
  ptc_block_replace_uses(m->values->parent, m->values->results[0], out);
  ptc_op_remove(m->values);
  for (int32_t i = m->num_steps - 1; i >= 0; i--) ptc_op_remove(m->steps[i].op);
}

// --- the pass

static void count_uses(ptc_op_t *op, void *arg) {
  ptc_raise_uses_t *uses = arg;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_value_t *value = op->operands[i];
    const intptr_t count = (intptr_t)ptc_map_get(&uses->count, value);
    ptc_map_set(&uses->count, value, (void *)(count + 1));
    // Of several users the one that may go on to the values.
    if (!count || op->opcode == PTC_OP_EINSUM || op->opcode == PTC_OP_DROPOUT)
      ptc_map_set(&uses->user, value, op);
  }
}

typedef PTC_VEC(ptc_op_t *) ops_t;

static void collect_softmax(ptc_op_t *op, void *arg) {
  ops_t *softmaxes = arg;
  if (op->opcode == PTC_OP_SOFTMAX) PTC_VEC_PUSH(softmaxes, op);
}

ptc_status_t ptc_pass_raise_attention(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  (void)ctx;
  for (ptc_func_t *func = module->funcs; func; func = func->next) {
    ptc_raise_uses_t uses = {0};
    ops_t softmaxes = {0};
    ptc_block_walk(func->body, count_uses, &uses);
    ptc_block_walk(func->body, collect_softmax, &softmaxes);
    for (int64_t i = 0; i < softmaxes.len; i++) {
      ptc_raise_match_t match;
      if (ptc_raise_match(module, &uses, softmaxes.data[i], &match))
        raise(&match);
      else if (match.reason)
        warn(&match, match.reason);
    }
    PTC_VEC_FREE(&softmaxes);
    ptc_map_deinit(&uses.count);
    ptc_map_deinit(&uses.user);
  }
  return PTC_OK;
}

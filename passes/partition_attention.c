// partition: attention where the sequence lies on cp, by exchanges that leave it there.
//
//   ring         keys and values go round, block by block (partition_ring.c)
//   all_to_all   the sequence becomes whole and heads lie on cp instead, before attention; the results go back
//
// Source: Jacobs et al. 2023, DeepSpeed Ulysses (arXiv:2309.14509).
#include "ir/builder.h"
#include "ir/op.h"
#include "passes/pad_masks.h"
#include "passes/partition_impl.h"

// --- which way

static const ptc_axis_ref_t *cp_of(const ptc_part_t *p) { return &p->axis[PTC_AXIS_CP]; }

static bool lies_on_cp(const ptc_part_t *p, const ptc_dim_t *dim) {
  return ptc_axes_find(dim->axes, dim->num_axes, *cp_of(p)) >= 0;
}

// Whether cp divides the dim inside of what else any operand has on it: all operands will have that, too.
static bool divides(const ptc_part_t *p, const ptc_op_t *op, const char *name) {
  const int64_t cp = p->parallel.size[PTC_AXIS_CP];
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *type = op->operands[i]->type;
    const int32_t at = ptc_type_find_dim(type, name);
    if (at < 0) continue;
    const ptc_dim_t *dim = &type->dims[at];
    const int64_t others =
        ptc_dim_num_shards(&p->module->mesh, dim) / (lies_on_cp(p, dim) ? cp : 1);
    if (dim->extent % (others * cp)) return false;
  }
  return true;
}

// A dim of q, keys and values that cp divides.
static const char *find_heads(const ptc_part_t *p, const ptc_op_t *op) {
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const ptc_type_t *q = op->operands[at.q]->type, *key = op->operands[at.key]->type;
  const ptc_type_t *val = op->operands[at.val]->type;
  for (int32_t i = 0; i < q->num_dims; i++) {
    const char *name = q->dims[i].name;
    if (name == p->batch || name == ptc_op_string(op, "dot") || !ptc_type_has_dim(key, name) ||
        !ptc_type_has_dim(val, name))
      continue;
    if (divides(p, op, name)) return name;
  }
  return NULL;
}

static double bytes_of(const ptc_op_t *op, int32_t index) {
  return (double)ptc_type_num_bytes(op->operands[index]->type);
}

// Of c devices each reads (c - 1) / c of keys and values where they are gathered; of 1 / c of q, keys, values and the
// result where heads are moved.
static bool moves_less(const ptc_part_t *p, const ptc_op_t *op) {
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const double pair = bytes_of(op, at.key) + bytes_of(op, at.val);
  const double out = bytes_of(op, at.q) / bytes_of(op, at.key) * bytes_of(op, at.val);
  return (bytes_of(op, at.q) + pair + out) / (double)p->parallel.size[PTC_AXIS_CP] < pair;
}

bool ptc_part_attention_way(const ptc_part_t *p, const ptc_op_t *op, ptc_part_attention_t *out) {
  *out = (ptc_part_attention_t){0};
  if ((op->opcode != PTC_OP_ATTENTION && op->opcode != PTC_OP_ATTENTION_GRAD) ||
      p->parallel.size[PTC_AXIS_CP] == 1 || p->parallel.cp_attention == PTC_CP_GATHER)
    return false;
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const ptc_type_t *q = op->operands[at.q]->type, *key = op->operands[at.key]->type;
  out->attend = ptc_op_string(op, "attend");
  bool on_cp = lies_on_cp(p, &key->dims[ptc_type_find_dim(key, out->attend)]);
  for (int32_t i = 0; i < q->num_dims; i++) {
    if (ptc_part_is_sequence(p, q->dims[i].name) && !ptc_type_has_dim(key, q->dims[i].name))
      out->rows = q->dims[i].name;
    on_cp |= lies_on_cp(p, &q->dims[i]);
  }
  if (!out->rows || !ptc_part_is_sequence(p, out->attend) || !on_cp) return false;
  if (p->parallel.cp_attention == PTC_CP_RING) {
    out->way = PTC_CP_RING;
    return ptc_part_ring_fits(p, out, op);
  }
  out->heads = find_heads(p, op);
  const bool moves = p->parallel.cp_attention == PTC_CP_ALL_TO_ALL ||
                     (p->parallel.cp_attention == PTC_CP_AUTO && moves_less(p, op));
  if (!moves || !out->heads) return false;
  out->way = PTC_CP_ALL_TO_ALL;
  return true;
}

// --- types

static const ptc_type_t *without_cp(ptc_part_t *p, const ptc_type_t *type, int32_t at) {
  const ptc_dim_t *dim = &type->dims[at];
  ptc_axis_ref_t rest[PTC_MAX_AXES];
  int32_t count = 0;
  for (int32_t i = 0; i < dim->num_axes; i++)
    if (!ptc_axis_ref_equal(dim->axes[i], *cp_of(p))) rest[count++] = dim->axes[i];
  return ptc_part_with_axes(p, type, at, rest, count);
}

static const ptc_type_t *with_cp(ptc_part_t *p, const ptc_type_t *type, const char *name) {
  const int32_t at = name ? ptc_type_find_dim(type, name) : -1;
  if (at < 0 || type->dims[at].num_axes == PTC_MAX_AXES) return type;
  const ptc_dim_t *dim = &type->dims[at];
  ptc_axis_ref_t all[PTC_MAX_AXES];
  for (int32_t i = 0; i < dim->num_axes; i++) all[i] = dim->axes[i];
  all[dim->num_axes] = *cp_of(p);
  return ptc_part_with_axes(p, type, at, all, dim->num_axes + 1);
}

const ptc_type_t *ptc_part_attention_bare(ptc_part_t *p, const ptc_part_attention_t *a,
                                          const ptc_type_t *type) {
  for (int32_t i = 0; i < type->num_dims; i++) {
    const char *name = type->dims[i].name;
    type = name == a->rows || name == a->attend ? ptc_part_with_axes(p, type, i, NULL, 0)
                                                : without_cp(p, type, i);
  }
  return type;
}

const ptc_type_t *ptc_part_attention_laid(ptc_part_t *p, const ptc_part_attention_t *a,
                                          const ptc_op_t *op, int32_t index,
                                          const ptc_type_t *type) {
  if (a->way == PTC_CP_ALL_TO_ALL) return with_cp(p, type, a->heads);
  // A mask or bias has places for all keys.
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const bool scores = index == at.mask || index == at.bias;
  return with_cp(p, with_cp(p, type, a->rows), scores ? NULL : a->attend);
}

// The sequence of result |index|, on which it lies in the end; NULL: it stays on heads.
static const char *home_dim(const ptc_part_attention_t *a, const ptc_op_t *op, int32_t index) {
  if (op->opcode == PTC_OP_ATTENTION) return index == 0 ? a->rows : NULL;
  return index == 0 ? a->rows : index < 3 ? a->attend : NULL;
}

static ptc_dim_t laid_out(const ptc_op_t *op, const ptc_type_t *const *types, ptc_dim_t dim) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int32_t at = ptc_type_find_dim(types[i], dim.name);
    if (at >= 0) return types[i]->dims[at];
  }
  return dim;
}

void ptc_part_attention_results(ptc_part_t *p, const ptc_part_attention_t *a, const ptc_op_t *op,
                                const ptc_type_t *const *types, const ptc_type_t *const *inferred,
                                const ptc_type_t **results) {
  for (int32_t r = 0; r < op->num_results; r++) {
    const ptc_type_t *like = op->results[r]->type;
    ptc_dim_t dims[PTC_MAX_DIMS];
    for (int32_t d = 0; d < like->num_dims; d++) dims[d] = laid_out(op, types, like->dims[d]);
    // Turns of a ring add in f32; what is rounded then is summed before.
    const bool rounds = a->way == PTC_CP_RING && ptc_dtype_bytes(like->dtype) < 4;
    const ptc_type_t *sums = inferred && !rounds ? inferred[r] : NULL;
    results[r] = ptc_type_new(&p->module->arena, like->dtype, dims, like->num_dims);
    if (sums) results[r] = ptc_part_with_partial(p, results[r], sums->partial, sums->num_partial);
    const char *home = a->way == PTC_CP_RING ? NULL : home_dim(a, op, r);
    if (home) results[r] = with_cp(p, ptc_part_attention_bare(p, a, results[r]), home);
  }
}

// --- building

static ptc_value_t *move_home(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value,
                              const char *heads, const char *home) {
  if (p->parallel.balanced) value = ptc_part_deal(p, b, value, home);
  if (!value) return NULL;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_string(p->module, &attrs, "axes", ptc_axes_text(p->module, cp_of(p), 1));
  ptc_attrs_set_dim(p->module, &attrs, "from", heads);
  ptc_attrs_set_dim(p->module, &attrs, "to", home);
  ptc_op_t *op = ptc_build_op(b, PTC_OP_ALL_TO_ALL, &value, 1, 1, attrs);
  value = op ? op->results[0] : NULL;
  return p->parallel.balanced ? ptc_part_reorder(p, b, value, home, true) : value;
}

ptc_status_t ptc_part_attention_build(ptc_part_t *p, const ptc_part_attention_t *a, ptc_op_t *op,
                                      ptc_value_t **out_results) {
  if (a->way == PTC_CP_RING) return ptc_part_ring_build(p, a, op, out_results);
  PTC_TRY(ptc_mask_operands(p->module, op));
  const ptc_type_t **types = PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, op->num_results);
  PTC_TRY(ptc_op_info(op->opcode)->shape(p->module, op, types));
  ptc_builder_t b = ptc_builder_before(p->module, op->next);
  b.loc = op->loc;
  for (int32_t r = 0; r < op->num_results; r++) {
    op->results[r]->type = types[r];
    out_results[r] = op->results[r];
    const char *home = home_dim(a, op, r);
    if (home) out_results[r] = move_home(p, &b, op->results[r], a->heads, home);
    if (!out_results[r]) return PTC_UNSUPPORTED;
  }
  return PTC_OK;
}

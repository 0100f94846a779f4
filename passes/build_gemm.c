// Contractions as GEMMs: roles of the dims, operands with their prologue, the rest of the group as epilogue;
// attention as a template.
#include "passes/build_impl.h"

enum { MIN_SIDE = 8, MIN_DEPTH = 8 };

typedef enum role_e { BATCH, M, N, K, LONE, NUM_ROLES } role_t;

static role_t role_of(const ptc_op_t *op, const char *name) {
  const bool in_a = ptc_type_has_dim(op->operands[0]->type, name);
  const bool in_b = ptc_type_has_dim(op->operands[1]->type, name);
  if (ptc_type_has_dim(op->results[0]->type, name)) return in_a && in_b ? BATCH : in_a ? M : N;
  return in_a && in_b ? K : LONE;
}

static bool is_gemm_dtype(ptc_dtype_t dtype) {
  return dtype == PTC_F32 || dtype == PTC_F16 || dtype == PTC_BF16;
}

bool ptc_einsum_is_gemm(const ptc_op_t *op) {
  if (op->opcode != PTC_OP_EINSUM) return false;
  const ptc_mesh_t *mesh = &op->parent->func->module->mesh;
  int64_t size[NUM_ROLES] = {1, 1, 1, 1, 0};
  int32_t num_dims = 0;
  for (int32_t i = 0; i < 2; i++) {
    const ptc_type_t *type = op->operands[i]->type;
    if (!is_gemm_dtype(type->dtype) || type->num_counts) return false;
    for (int32_t d = 0; d < type->num_dims; d++) {
      if (i == 1 && ptc_type_has_dim(op->operands[0]->type, type->dims[d].name)) continue;
      const role_t role = role_of(op, type->dims[d].name);
      size[role] *= ptc_dim_local_extent(mesh, &type->dims[d]);
      if (role == LONE) return false;
      num_dims++;
    }
  }
  if (!is_gemm_dtype(op->results[0]->type->dtype) || num_dims > PTC_KERNEL_MAX_DIMS) return false;
  return size[M] >= MIN_SIDE && size[N] >= MIN_SIDE && size[K] >= MIN_DEPTH;
}

const ptc_op_t *ptc_kbuild_find_gemm(ptc_op_t *const *ops, int32_t num_ops) {
  for (int32_t i = 0; i < num_ops; i++)
    if (ptc_einsum_is_gemm(ops[i])) return ops[i];
  return NULL;
}

// Adds the dims of |type| with role |role| that are no loops yet.
static uint32_t add_role(ptc_kbuild_t *b, const ptc_op_t *op, const ptc_type_t *type, role_t role) {
  uint32_t mask = 0;
  for (int32_t d = 0; d < type->num_dims; d++) {
    const ptc_dim_t *dim = &type->dims[d];
    if (role_of(op, dim->name) != role || ptc_kbuild_loop(b, dim->name) >= 0) continue;
    mask |= UINT32_C(1) << ptc_kb_dim(&b->kb, dim->name, ptc_kbuild_extent(b, dim));
  }
  return mask;
}

ptc_status_t ptc_kbuild_gemm(ptc_kbuild_t *b, const ptc_op_t *op) {
  ptc_gemm_t *gemm = &b->kb.kernel->gemm;
  const ptc_type_t *out = op->results[0]->type;
  gemm->batch = add_role(b, op, out, BATCH);
  gemm->m = add_role(b, op, out, M);
  gemm->n = add_role(b, op, out, N);
  gemm->k = add_role(b, op, op->operands[0]->type, K);
  gemm->a = ptc_kbuild_here(b, op->operands[0]);
  gemm->b = ptc_kbuild_here(b, op->operands[1]);
  b->hole_value = op->results[0];
  ptc_kbuild_stores(b);
  return b->status;
}

// --- attention

static int32_t *dims_of(ptc_kbuild_t *b, const ptc_value_t *value) {
  const ptc_type_t *type = value->type;
  int32_t *dims = PTC_ARENA_ARRAY(b->arena, int32_t, type->num_dims + 1);
  for (int32_t i = 0; i < type->num_dims; i++) dims[i] = ptc_kbuild_loop(b, type->dims[i].name);
  return dims;
}

static void add_dims(ptc_kbuild_t *b, const ptc_type_t *type, const char *without) {
  for (int32_t i = 0; i < type->num_dims; i++) {
    const ptc_dim_t *dim = &type->dims[i];
    if (dim->name == without || ptc_kbuild_loop(b, dim->name) >= 0) continue;
    if (b->kb.kernel->num_dims == PTC_KERNEL_MAX_DIMS)
      ptc_kbuild_unsupported(b, b->ops[0], "it has too many dims");
    else
      ptc_kb_dim(&b->kb, dim->name, ptc_kbuild_extent(b, dim));
  }
}

// The number of a score: row-major over q's dims without |dot|, then key's that q lacks.
static ptc_kx_t score_number(ptc_kbuild_t *b, const ptc_type_t *q, const ptc_type_t *key,
                             const char *dot) {
  ptc_dim_t dims[2 * PTC_MAX_DIMS];
  ptc_kx_t index[2 * PTC_MAX_DIMS];
  int32_t count = 0;
  for (int32_t i = 0; i < q->num_dims; i++)
    if (q->dims[i].name != dot) dims[count++] = q->dims[i];
  for (int32_t i = 0; i < key->num_dims; i++)
    if (key->dims[i].name != dot && !ptc_type_has_dim(q, key->dims[i].name))
      dims[count++] = key->dims[i];
  for (int32_t i = 0; i < count; i++)
    index[i] = ptc_kb_index(&b->kb, ptc_kbuild_loop(b, dims[i].name));
  return ptc_kbuild_number(b, dims, count, index);
}

static void add_dropout(ptc_kbuild_t *b, const ptc_op_t *op, int32_t seed, ptc_kattention_t *out) {
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  out->seed = ptc_kbuild_cast(b, PTC_I64, ptc_kbuild_scalar(b, op, seed));
  out->step = ptc_kbuild_cast(b, PTC_I64, ptc_kbuild_scalar(b, op, seed + 1));
  ptc_kx_t *turns = PTC_ARENA_ARRAY(b->arena, ptc_kx_t, op->num_operands + 1);
  for (int32_t i = seed + 2; i < op->num_operands; i++)
    turns[out->num_turns++] = ptc_kbuild_cast(b, PTC_I32, ptc_kbuild_scalar(b, op, i));
  out->turns = turns;
  out->element = score_number(b, op->operands[at.q]->type, op->operands[at.key]->type,
                              ptc_op_string(op, "dot"));
}

ptc_status_t ptc_kbuild_attention(ptc_kbuild_t *b, const ptc_op_t *op) {
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const bool grad = op->opcode == PTC_OP_ATTENTION_GRAD;
  const char *dot = ptc_op_string(op, "dot"), *attend = ptc_op_string(op, "attend");
  ptc_value_t *q = op->operands[at.q], *key = op->operands[at.key], *val = op->operands[at.val];
  add_dims(b, q->type, dot);
  add_dims(b, key->type, dot);
  const ptc_dim_t *width = &q->type->dims[ptc_type_find_dim(q->type, dot)];
  const int32_t dot_loop = ptc_kb_dim(&b->kb, dot, ptc_kbuild_extent(b, width));
  add_dims(b, val->type, NULL);
  PTC_TRY(b->status);
  ptc_kattention_t kept = {.op = op,
                           .attend = ptc_kbuild_loop(b, attend),
                           .dot = dot_loop,
                           .mask = PTC_KX_NONE,
                           .bias = PTC_KX_NONE,
                           .seed = PTC_KX_NONE,
                           .step = PTC_KX_NONE,
                           .element = PTC_KX_NONE,
                           .dout = -1,
                           .dq = -1,
                           .dkey = -1,
                           .dval = -1,
                           .dbias = -1};
  kept.q = ptc_kbuild_here(b, q);
  kept.key = ptc_kbuild_here(b, key);
  kept.val = ptc_kbuild_here(b, val);
  if (at.mask >= 0) kept.mask = ptc_kbuild_here(b, op->operands[at.mask]);
  if (at.bias >= 0) kept.bias = ptc_kbuild_here(b, op->operands[at.bias]);
  if (at.seed >= 0 && ptc_op_float(op, "p") > 0) add_dropout(b, op, at.seed, &kept);
  ptc_value_t *out = grad ? op->operands[at.out] : op->results[0];
  ptc_value_t *lse = grad ? op->operands[at.lse] : op->results[1];
  const ptc_kparam_mode_t mode = grad ? PTC_KPARAM_IN : PTC_KPARAM_OUT;
  kept.out = ptc_kbuild_param(b, out, mode);
  kept.lse = ptc_kbuild_param(b, lse, mode);
  kept.out_dims = dims_of(b, out);
  kept.lse_dims = dims_of(b, lse);
  if (grad) {
    kept.dout = ptc_kbuild_param(b, op->operands[at.dout], PTC_KPARAM_IN);
    kept.dq = ptc_kbuild_param(b, op->results[0], PTC_KPARAM_OUT);
    kept.dkey = ptc_kbuild_param(b, op->results[1], PTC_KPARAM_OUT);
    kept.dval = ptc_kbuild_param(b, op->results[2], PTC_KPARAM_OUT);
    kept.dq_dims = dims_of(b, op->results[0]);
    kept.dkey_dims = dims_of(b, op->results[1]);
    kept.dval_dims = dims_of(b, op->results[2]);
    if (op->num_results > 3) {
      kept.dbias = ptc_kbuild_param(b, op->results[3], PTC_KPARAM_OUT);
      kept.dbias_dims = dims_of(b, op->results[3]);
    }
  }
  b->kb.kernel->attention = kept;
  return b->status;
}

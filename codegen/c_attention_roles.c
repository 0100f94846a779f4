// Roles of the loop dims of an attention kernel, and how its tensors move along them.
#include <inttypes.h>

#include "codegen/c_attention_impl.h"
#include "ir/op.h"

int64_t ptc_dim_set_points(const ptc_kernel_t *kernel, const ptc_dim_set_t *set) {
  int64_t points = 1;
  for (int32_t i = 0; i < set->count; ++i) points *= kernel->dims[set->dims[i]].extent;
  return points;
}

bool ptc_attention_has(const ptc_attention_tensor_t *tensor, int32_t dim) {
  return tensor->address.coef[dim] != 0;
}

static ptc_status_t refuse(const ptc_attention_c_t *self, const char *what) {
  return ptc_error(self->diag, self->kernel->loc, PTC_INVALID_INPUT, "codegen-unsupported",
                   "attention kernel \"%s\": %s", self->kernel->name, what);
}

static ptc_status_t check_dtype(const ptc_attention_c_t *self, int32_t param) {
  const ptc_dtype_t dtype = self->kernel->params[param].dtype;
  if (dtype == PTC_F32 || dtype == PTC_F16 || dtype == PTC_BF16) return PTC_OK;
  return refuse(self, "blocked attention computes in f32; q, key and val must be f32, f16 or bf16");
}

static ptc_status_t operand(ptc_attention_c_t *self, ptc_kx_t expr, ptc_attention_tensor_t *out) {
  const ptc_kexpr_t *e = &self->kernel->exprs[expr];
  if (e->kind != PTC_KX_LOAD || e->guard != PTC_KX_NONE || e->checked)
    return refuse(self, "q, key and val must be plain loads");
  *out =
      (ptc_attention_tensor_t){e->param, e->dtype, ptc_c_address(self->kernel, e->param, e->args)};
  if (out->address.num_terms)
    return refuse(self, "q, key and val must be loaded at affine indices");
  return check_dtype(self, e->param);
}

// A parameter whose dims are the loop dims |dims|.
static void parameter(ptc_attention_c_t *self, int32_t param, const int32_t *dims,
                      ptc_attention_tensor_t *out) {
  *out = (ptc_attention_tensor_t){.param = param};
  if (param < 0) return;
  const ptc_kparam_t *p = &self->kernel->params[param];
  out->dtype = p->dtype;
  int64_t stride = 1;
  for (int32_t i = p->num_dims - 1; i >= 0; --i) {
    out->address.coef[dims[i]] += stride;
    stride *= p->extents[i];
  }
}

// Appends |dim| so that coefficients in |tensor| fall: the order of the memory.
static void insert(ptc_dim_set_t *set, int32_t dim, const ptc_attention_tensor_t *tensor) {
  int32_t at = set->count++;
  for (; at > 0 && tensor->address.coef[set->dims[at - 1]] < tensor->address.coef[dim]; --at)
    set->dims[at] = set->dims[at - 1];
  set->dims[at] = dim;
}

static void sort_dims(ptc_attention_c_t *self) {
  const ptc_kernel_t *kernel = self->kernel;
  const int32_t attend = self->at->attend, dot = self->at->dot;
  for (int32_t d = 0; d < dot; ++d) {
    if (d == attend) continue;
    if (ptc_attention_has(&self->key, d) || ptc_attention_has(&self->val, d)) {
      self->outer.dims[self->outer.count++] = d;
      self->outer_mask |= UINT32_C(1) << d;
    } else {
      insert(&self->rows, d, &self->q);
      self->rows_mask |= UINT32_C(1) << d;
    }
  }
  if (ptc_attention_has(&self->val, dot)) insert(&self->own, dot, &self->val);
  for (int32_t d = dot + 1; d < kernel->num_dims; ++d) insert(&self->own, d, &self->val);
  self->num_outer = ptc_dim_set_points(kernel, &self->outer);
  self->num_rows = ptc_dim_set_points(kernel, &self->rows);
  self->num_own = ptc_dim_set_points(kernel, &self->own);
  self->num_keys = kernel->dims[attend].extent;
  self->dot = kernel->dims[dot].extent;
  self->dot_ld = (self->dot + 15) / 16 * 16;
  self->own_ld = (self->num_own + 15) / 16 * 16;
}

// The kernel with one more expression: the uniform number of a score.
static const ptc_kernel_t *extend(ptc_attention_c_t *self, const ptc_kernel_t *kernel) {
  const ptc_kattention_t *at = &kernel->attention;
  self->random = PTC_KX_NONE;
  if (self->p == 0) return kernel;
  ptc_kernel_t *copy = PTC_ARENA_NEW(self->arena, ptc_kernel_t);
  *copy = *kernel;
  copy->exprs = PTC_ARENA_ARRAY(self->arena, ptc_kexpr_t, kernel->num_exprs + 1);
  for (int32_t i = 0; i < kernel->num_exprs; ++i) copy->exprs[i] = kernel->exprs[i];
  ptc_kx_t *operands = PTC_ARENA_ARRAY(self->arena, ptc_kx_t, at->num_turns + 3);
  operands[0] = at->element;
  operands[1] = at->seed;
  operands[2] = at->step;
  for (int32_t i = 0; i < at->num_turns; ++i) operands[3 + i] = at->turns[i];
  self->random = copy->num_exprs++;
  copy->exprs[self->random] = (ptc_kexpr_t){.kind = PTC_KX_RANDOM,
                                            .dtype = PTC_F32,
                                            .guard = PTC_KX_NONE,
                                            .dist = "bits01",
                                            .path = ptc_op_string(at->op, "path"),
                                            .num_args = 3 + at->num_turns,
                                            .args = operands,
                                            .varies = kernel->exprs[at->element].varies};
  return copy;
}

// Letters of what the kernel has: m mask, b bias, c softcap (n none), d dropout (p none), z gradient of the
// bias.
static const char *flags_of(const ptc_attention_c_t *self) {
  return ptc_arena_printf(self->arena, "%s%s%s%s%s", self->at->mask != PTC_KX_NONE ? "m" : "",
                          self->at->bias != PTC_KX_NONE ? "b" : "", self->softcap > 0 ? "c" : "n",
                          self->p > 0 ? "d" : "p", self->dbias.param >= 0 ? "z" : "");
}

ptc_status_t ptc_attention_roles(ptc_attention_c_t *self, ptc_diag_t *diag, ptc_arena_t *arena,
                                 const ptc_kernel_t *kernel, ptc_str_t *out) {
  *self = (ptc_attention_c_t){.diag = diag, .arena = arena, .kernel = kernel, .out = out};
  self->at = &kernel->attention;
  self->grad = kernel->kind == PTC_KERNEL_ATTENTION_GRAD;
  const ptc_op_t *op = self->at->op;
  self->scale = ptc_op_float(op, "scale");
  self->softcap = ptc_op_float(op, "softcap");
  self->p = ptc_op_float(op, "p");
  self->kernel = extend(self, kernel);
  self->at = &self->kernel->attention;
  PTC_TRY(operand(self, self->at->q, &self->q));
  PTC_TRY(operand(self, self->at->key, &self->key));
  PTC_TRY(operand(self, self->at->val, &self->val));
  sort_dims(self);
  parameter(self, self->at->out, self->at->out_dims, &self->out_tensor);
  parameter(self, self->at->lse, self->at->lse_dims, &self->lse);
  parameter(self, self->grad ? self->at->dout : -1, self->at->out_dims, &self->dout);
  parameter(self, self->grad ? self->at->dq : -1, self->at->dq_dims, &self->dq);
  parameter(self, self->grad ? self->at->dkey : -1, self->at->dkey_dims, &self->dkey);
  parameter(self, self->grad ? self->at->dval : -1, self->at->dval_dims, &self->dval);
  parameter(self, self->grad ? self->at->dbias : -1, self->at->dbias_dims, &self->dbias);
  self->flags = flags_of(self);
  return PTC_OK;
}

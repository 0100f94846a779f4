// Builds GEMM kernels and evaluates them point by point.
#include "tests/support/gemm_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

void gemm_case_in_order(gemm_case_t *c) {
  for (int32_t d = 0; d < c->num_dims; ++d) c->order_a[d] = c->order_b[d] = c->order_out[d] = d;
}

// --- building
static bool in_operand(int32_t role, int32_t without) { return role != without; }

// A parameter with the dims of |order| whose role is not |without|, and its place at the current point.
static int32_t add_param(ptc_kernel_builder_t *kb, const gemm_case_t *c, const char *name,
                         ptc_kparam_mode_t mode, ptc_dtype_t dtype, const int32_t *order,
                         int32_t without, ptc_kx_t *index) {
  int64_t extents[GEMM_CASE_DIMS];
  int32_t count = 0;
  for (int32_t i = 0; i < c->num_dims; ++i) {
    if (!in_operand(c->roles[order[i]], without)) continue;
    extents[count] = c->extents[order[i]];
    index[count++] = ptc_kb_index(kb, order[i]);
  }
  return ptc_kb_param(kb, name, mode, dtype, extents, count);
}

// A parameter over the dims of |role| alone, loaded.
static ptc_kx_t load_vector(ptc_kernel_builder_t *kb, const gemm_case_t *c, const char *name,
                            int32_t role) {
  int64_t extents[GEMM_CASE_DIMS];
  ptc_kx_t index[GEMM_CASE_DIMS];
  int32_t count = 0;
  for (int32_t d = 0; d < c->num_dims; ++d) {
    if (c->roles[d] != role) continue;
    extents[count] = c->extents[d];
    index[count++] = ptc_kb_index(kb, d);
  }
  const int32_t param = ptc_kb_param(kb, name, PTC_KPARAM_IN, PTC_F32, extents, count);
  return ptc_kb_load(kb, param, index);
}

static ptc_kx_t add_operand(ptc_kernel_builder_t *kb, const gemm_case_t *c, bool is_a) {
  ptc_kx_t index[GEMM_CASE_DIMS];
  const ptc_dtype_t dtype = is_a ? c->dtype_a : c->dtype_b;
  const int32_t param = add_param(kb, c, is_a ? "a" : "b", PTC_KPARAM_IN, dtype,
                                  is_a ? c->order_a : c->order_b, is_a ? GEMM_N : GEMM_M, index);
  const ptc_kx_t load = ptc_kb_load(kb, param, index);
  switch (is_a ? c->prologue_a : c->prologue_b) {
    case GEMM_SCALED: {
      const ptc_kx_t scale = load_vector(kb, c, is_a ? "a_scale" : "b_scale", GEMM_K);
      const ptc_kx_t shift =
          load_vector(kb, c, is_a ? "a_shift" : "b_shift", is_a ? GEMM_M : GEMM_N);
      const ptc_kx_t wide = ptc_kb_cast(kb, PTC_F32, load);
      const ptc_kx_t scaled = ptc_kb_op2(kb, PTC_OP_MUL, PTC_F32, wide, scale);
      return ptc_kb_cast(kb, dtype, ptc_kb_op2(kb, PTC_OP_ADD, PTC_F32, scaled, shift));
    }
    case GEMM_GELU: {
      const ptc_kexpr_t gelu = {.kind = PTC_KX_OP,
                                .dtype = PTC_F32,
                                .opcode = PTC_OP_GELU,
                                .gelu_tanh = true,
                                .num_args = 1,
                                .args = &load};
      return ptc_kb_expr(kb, gelu);
    }
    default: return load;
  }
}

static void add_stores(ptc_kernel_builder_t *kb, const gemm_case_t *c, uint32_t varies) {
  ptc_kx_t index[GEMM_CASE_DIMS];
  ptc_kx_t sum = ptc_kb_hole(kb, 0, PTC_F32, varies);
  const ptc_kparam_mode_t mode = c->epilogue == GEMM_RESIDUAL ? PTC_KPARAM_INOUT : PTC_KPARAM_OUT;
  const int32_t out = add_param(kb, c, "out", mode, c->dtype_out, c->order_out, GEMM_K, index);
  if (c->epilogue == GEMM_BIAS || c->epilogue == GEMM_GELU_TWO)
    sum = ptc_kb_op2(kb, PTC_OP_ADD, PTC_F32, sum, load_vector(kb, c, "bias", GEMM_N));
  if (c->epilogue == GEMM_RESIDUAL)
    sum = ptc_kb_op2(kb, PTC_OP_ADD, PTC_F32, ptc_kb_cast(kb, PTC_F32, ptc_kb_load(kb, out, index)),
                     sum);
  ptc_kb_store(kb, out, index, ptc_kb_cast(kb, c->dtype_out, sum));
  if (c->epilogue != GEMM_GELU_TWO) return;
  const ptc_kexpr_t gelu = {.kind = PTC_KX_OP,
                            .dtype = PTC_F32,
                            .opcode = PTC_OP_GELU,
                            .gelu_tanh = true,
                            .num_args = 1,
                            .args = &sum};
  const ptc_kx_t act = ptc_kb_expr(kb, gelu);
  const int32_t second =
      add_param(kb, c, "act", PTC_KPARAM_OUT, c->dtype_out, c->order_out, GEMM_K, index);
  ptc_kb_store(kb, second, index, ptc_kb_cast(kb, c->dtype_out, act));
}

const ptc_kernel_t *gemm_case_build(ptc_arena_t *arena, const gemm_case_t *c) {
  ptc_kernel_builder_t kb;
  ptc_kb_begin(&kb, arena, c->name, PTC_KERNEL_GEMM, (ptc_loc_t){0});
  uint32_t masks[GEMM_NUM_ROLES] = {0};
  for (int32_t d = 0; d < c->num_dims; ++d)
    masks[c->roles[d]] |=
        UINT32_C(1) << ptc_kb_dim(&kb, ptc_arena_printf(arena, "%c%d", "zmnk"[c->roles[d]], d),
                                  c->extents[d]);
  ptc_gemm_t *gemm = &kb.kernel->gemm;
  *gemm = (ptc_gemm_t){
      .batch = masks[GEMM_BATCH], .m = masks[GEMM_M], .n = masks[GEMM_N], .k = masks[GEMM_K]};
  gemm->a = add_operand(&kb, c, true);
  gemm->b = add_operand(&kb, c, false);
  add_stores(&kb, c, masks[GEMM_BATCH] | masks[GEMM_M] | masks[GEMM_N]);
  return kb.kernel;
}

// --- data
int64_t gemm_case_elements(const ptc_kernel_t *kernel, int32_t param) {
  int64_t count = 1;
  for (int32_t i = 0; i < kernel->params[param].num_dims; ++i)
    count *= kernel->params[param].extents[i];
  return count;
}

// The high half of the f32; exact for values rounded to bf16.
static uint16_t bf16_bits(double value) {
  const float f = (float)ptc_dtype_round(PTC_BF16, value);
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return (uint16_t)(u >> 16);
}

// |value| is of the form j / 256, |j| < 256, so that it is exact and normal (or zero) in f16.
static uint16_t f16_bits(double value) {
  if (value == 0) return 0;
  int exponent;
  const double mantissa = frexp(fabs(value), &exponent);
  return (uint16_t)((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                    (int)((mantissa * 2 - 1) * 1024));
}

static double f16_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size =
      exponent ? ldexp(1 + fraction / 1024.0, exponent - 15) : ldexp(fraction / 1024.0, -14);
  return bits >> 15 ? -size : size;
}

double gemm_case_element(const ptc_kernel_t *kernel, int32_t param, const void *data, int64_t at) {
  switch (kernel->params[param].dtype) {
    case PTC_F16: return f16_value(((const uint16_t *)data)[at]);
    case PTC_BF16: {
      const uint32_t u = (uint32_t)((const uint16_t *)data)[at] << 16;
      float f;
      memcpy(&f, &u, sizeof f);
      return (double)f;
    }
    default: return (double)((const float *)data)[at];
  }
}

static void set_element(ptc_dtype_t dtype, void *data, int64_t at, double value) {
  if (dtype == PTC_F32)
    ((float *)data)[at] = (float)value;
  else
    ((uint16_t *)data)[at] = dtype == PTC_BF16 ? bf16_bits(value) : f16_bits(value);
}

void **gemm_case_data(const ptc_kernel_t *kernel, uint64_t *seed) {
  void **data = ptc_xmalloc((size_t)kernel->num_params * sizeof *data);
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    const ptc_kparam_t *param = &kernel->params[p];
    const int64_t count = gemm_case_elements(kernel, p);
    const size_t bytes = (size_t)count * (size_t)ptc_dtype_bytes(param->dtype);
    data[p] = ptc_xmalloc(bytes + 1);
    memset(data[p], 0xff, bytes);
    for (int64_t i = 0; i < count && param->mode != PTC_KPARAM_OUT; ++i) {
      const double whole = (double)(int64_t)(unit_random(seed) % 511) - 255;
      set_element(param->dtype, data[p], i,
                  whole / 256 + (param->dtype == PTC_F32 ? whole * 1e-5 : 0));
    }
  }
  return data;
}

void gemm_case_free(const ptc_kernel_t *kernel, void **data) {
  for (int32_t p = 0; p < kernel->num_params; ++p) free(data[p]);
  free(data);
}

// --- expected values
typedef struct point_s {
  const ptc_kernel_t *kernel;
  void *const *data;
  const int64_t *index;
  double hole;
} point_t;

static double evaluate(const point_t *point, ptc_kx_t expr);

static int64_t place(const point_t *point, int32_t param, const ptc_kx_t *index) {
  int64_t at = 0;
  for (int32_t i = 0; i < point->kernel->params[param].num_dims; ++i)
    at = at * point->kernel->params[param].extents[i] + (int64_t)evaluate(point, index[i]);
  return at;
}

static double operation(const ptc_kexpr_t *e, double a, double b) {
  switch (e->opcode) {
    case PTC_OP_ADD: return a + b;
    case PTC_OP_MUL: return a * b;
    case PTC_OP_GELU: return 0.5 * a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)));
    default: return a;  // CAST
  }
}

static double evaluate(const point_t *point, ptc_kx_t expr) {
  const ptc_kexpr_t *e = &point->kernel->exprs[expr];
  switch (e->kind) {
    case PTC_KX_INDEX: return (double)point->index[e->dim];
    case PTC_KX_HOLE: return point->hole;
    case PTC_KX_LOAD:
      return gemm_case_element(point->kernel, e->param, point->data[e->param],
                               place(point, e->param, e->args));
    default: break;
  }
  const double a = evaluate(point, e->args[0]);
  const double value = operation(e, a, e->num_args > 1 ? evaluate(point, e->args[1]) : 0);
  return ptc_dtype_round(e->dtype, ptc_dtype_round(PTC_F32, value));
}

// The next point of the dims in |mask|; false after the last.
static bool advance(const ptc_kernel_t *kernel, uint32_t mask, int64_t *index) {
  for (int32_t d = kernel->num_dims - 1; d >= 0; --d) {
    if (!(mask >> d & 1)) continue;
    if (++index[d] < kernel->dims[d].extent) return true;
    index[d] = 0;
  }
  return false;
}

gemm_point_t gemm_case_expect(const ptc_kernel_t *kernel, void *const *data, int32_t store,
                              int64_t *index, int64_t *out_at) {
  point_t point = {kernel, data, index, 0};
  gemm_point_t result = {0};
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    if (kernel->gemm.k >> d & 1) index[d] = 0;
  do {
    const double term = evaluate(&point, kernel->gemm.a) * evaluate(&point, kernel->gemm.b);
    point.hole += term;
    result.terms += fabs(term);
  } while (advance(kernel, kernel->gemm.k, index));
  const ptc_kstore_t *s = &kernel->stores[store];
  result.value = evaluate(&point, s->value);
  *out_at = place(&point, s->param, s->index);
  return result;
}

#include "tests/support/bad_kernels.h"

// Numbers of the good kernel's parts, in the order in which they are built.
enum { PARAM_X, PARAM_C, PARAM_Y, PARAM_S };
enum { AT_B, AT_D, LOAD_X, MAX_X, CENTRED, EXP, SUM, NUMBER, SEED, DRAW, LOAD_C, PICKED };

ptc_kernel_t *good_kernel(ptc_arena_t *arena) {
  static const int64_t extents[] = {4, 8};
  ptc_kernel_builder_t kb;
  ptc_kb_begin(&kb, arena, "good", PTC_KERNEL_NEST, (ptc_loc_t){0});
  const int32_t b = ptc_kb_dim(&kb, "b", 4), d = ptc_kb_dim(&kb, "d", 8);
  kb.kernel->num_col = 1;
  ptc_kb_param(&kb, "x", PTC_KPARAM_IN, PTC_F32, extents, 2);
  ptc_kb_param(&kb, "c", PTC_KPARAM_IN, PTC_BOOL, NULL, 0);
  ptc_kb_param(&kb, "y", PTC_KPARAM_OUT, PTC_F32, extents, 2);
  ptc_kb_param(&kb, "s", PTC_KPARAM_OUT, PTC_F32, extents + 1, 1);
  const ptc_kx_t index[] = {ptc_kb_index(&kb, b), ptc_kb_index(&kb, d)};
  const ptc_kx_t x = ptc_kb_load(&kb, PARAM_X, index);
  const ptc_kx_t max = ptc_kb_reduce(&kb, PTC_KX_MAX, PTC_F32, x, 1u << d);
  const ptc_kx_t centred = ptc_kb_op2(&kb, PTC_OP_SUB, PTC_F32, x, max);
  const ptc_kx_t y = ptc_kb_op1(&kb, PTC_OP_EXP, PTC_F32, centred);
  const ptc_kx_t sum = ptc_kb_reduce(&kb, PTC_KX_SUM, PTC_F32, y, 1u << b);
  const ptc_kx_t number = ptc_kb_cast(&kb, PTC_I64, index[1]);
  const ptc_kx_t seed = ptc_kb_const(&kb, PTC_I64, 1);
  const ptc_kx_t draw =
      ptc_kb_expr(&kb, (ptc_kexpr_t){.kind = PTC_KX_RANDOM,
                                     .dtype = PTC_F32,
                                     .dist = "bits01",
                                     .path = "p",
                                     .num_args = 3,
                                     .args = (const ptc_kx_t[]){number, seed, seed}});
  const ptc_kx_t c = ptc_kb_load(&kb, PARAM_C, NULL);
  const ptc_kx_t picked =
      ptc_kb_op(&kb, PTC_OP_WHERE, PTC_F32, (const ptc_kx_t[]){c, draw, sum}, 3);
  ptc_kb_store(&kb, PARAM_Y, index, y);
  ptc_kb_store(&kb, PARAM_S, &index[1], picked);
  return kb.kernel;
}

static void set_arg(ptc_kernel_t *kernel, ptc_kx_t expr, int32_t arg, ptc_kx_t value) {
  ((ptc_kx_t *)kernel->exprs[expr].args)[arg] = value;
}

static void too_many_dims(ptc_kernel_t *k) { k->params[PARAM_X].num_dims = PTC_MAX_DIMS + 1; }
static void negative_extent(ptc_kernel_t *k) { k->params[PARAM_X].extents[1] = -1; }
static void too_many_params(ptc_kernel_t *k) { k->num_params = PTC_KERNEL_MAX_PARAMS + 1; }
static void in_place_of_output(ptc_kernel_t *k) { k->params[PARAM_Y].in_place = PARAM_S; }
static void in_place_of_another_dtype(ptc_kernel_t *k) { k->params[PARAM_Y].in_place = PARAM_C; }
static void too_many_columns(ptc_kernel_t *k) { k->num_col = 3; }
static void negative_loop(ptc_kernel_t *k) { k->dims[0].extent = -1; }
static void too_many_loops(ptc_kernel_t *k) { k->num_dims = PTC_KERNEL_MAX_DIMS + 1; }
static void two_roles(ptc_kernel_t *k) {
  k->kind = PTC_KERNEL_GEMM;
  k->gemm = (ptc_gemm_t){.m = 1, .n = 3, .k = 2};
}
static void no_role(ptc_kernel_t *k) {
  k->kind = PTC_KERNEL_GEMM;
  k->gemm = (ptc_gemm_t){.m = 1};
}
static void reduces_nothing(ptc_kernel_t *k) { k->exprs[MAX_X].over = 0; }
static void reduces_in_gemm(ptc_kernel_t *k) {
  k->kind = PTC_KERNEL_GEMM;
  k->gemm = (ptc_gemm_t){.m = 1, .n = 2};
}
static void fma_of_no_product(ptc_kernel_t *k) { k->exprs[SUM].fma = true; }
static void argmax_as_float(ptc_kernel_t *k) { k->exprs[MAX_X].reduce = PTC_KX_ARGMAX; }
static void all_as_float(ptc_kernel_t *k) { k->exprs[MAX_X].reduce = PTC_KX_ALL; }
static void no_elementwise_op(ptc_kernel_t *k) { k->exprs[EXP].opcode = PTC_OP_SOFTMAX; }
static void two_dtypes(ptc_kernel_t *k) { set_arg(k, CENTRED, 0, AT_D); }
static void condition_of_floats(ptc_kernel_t *k) { set_arg(k, PICKED, 0, SUM); }
static void no_distribution(ptc_kernel_t *k) { k->exprs[DRAW].dist = NULL; }
static void i32_seed(ptc_kernel_t *k) { set_arg(k, DRAW, 1, AT_D); }
static void later_operand(ptc_kernel_t *k) { set_arg(k, EXP, 0, SUM); }
static void later_guard(ptc_kernel_t *k) { k->exprs[LOAD_X].guard = PICKED; }
static void no_such_loop(ptc_kernel_t *k) { k->exprs[AT_B].dim = 7; }
static void no_such_repeat(ptc_kernel_t *k) { k->exprs[SEED].kind = PTC_KX_TURN; }
static void load_of_output(ptc_kernel_t *k) { k->exprs[LOAD_X].param = PARAM_Y; }
static void load_of_another_dtype(ptc_kernel_t *k) { k->exprs[LOAD_X].dtype = PTC_F64; }
static void guard_of_floats(ptc_kernel_t *k) { k->exprs[LOAD_C].guard = SUM; }
static void float_index(ptc_kernel_t *k) { k->exprs[AT_D].dtype = PTC_F32; }
static void hole_in_nest(ptc_kernel_t *k) { k->exprs[SEED].kind = PTC_KX_HOLE; }
static void varies_less(ptc_kernel_t *k) { k->exprs[EXP].varies = 0; }
static void store_of_input(ptc_kernel_t *k) { k->stores[0].param = PARAM_X; }
static void store_of_another_dtype(ptc_kernel_t *k) { k->stores[0].value = LOAD_C; }
static void float_store_index(ptc_kernel_t *k) { ((ptc_kx_t *)k->stores[0].index)[0] = EXP; }
static void many_values(ptc_kernel_t *k) { k->stores[1].value = EXP; }
static void nothing_stored(ptc_kernel_t *k) { k->num_stores = 1; }
static void varies_after_columns(ptc_kernel_t *k) {
  set_arg(k, PICKED, 1, EXP);
  k->exprs[PICKED].varies = 3;
  k->num_stores = 1;
  k->params[PARAM_S].mode = PTC_KPARAM_IN;
}
static void attention_without_loads(ptc_kernel_t *k) {
  k->kind = PTC_KERNEL_ATTENTION;
  k->num_exprs = 3;
  k->num_stores = 0;
  k->attention = (ptc_kattention_t){.q = AT_B};
}
static void attention_without_loop(ptc_kernel_t *k) {
  attention_without_loads(k);
  k->attention = (ptc_kattention_t){.q = LOAD_X, .key = LOAD_X, .val = LOAD_X, .attend = 9};
}
static void attention_without_out(ptc_kernel_t *k) {
  attention_without_loads(k);
  k->attention = (ptc_kattention_t){.q = LOAD_X, .key = LOAD_X, .val = LOAD_X, .out = -1};
}
static void scan_without_op(ptc_kernel_t *k) {
  k->kind = PTC_KERNEL_SCAN;
  k->num_exprs = 3;
  k->num_stores = 0;
}

const bad_kernel_t bad_kernels[] = {
    {"kernel-params", too_many_params},
    {"kernel-params", too_many_dims},
    {"kernel-params", negative_extent},
    {"kernel-in-place", in_place_of_output},
    {"kernel-in-place", in_place_of_another_dtype},
    {"kernel-dims", too_many_columns},
    {"kernel-dims", negative_loop},
    {"kernel-dims", too_many_loops},
    {"kernel-gemm", two_roles},
    {"kernel-gemm", no_role},
    {"kernel-reduce", reduces_nothing},
    {"kernel-reduce", reduces_in_gemm},
    {"kernel-reduce", fma_of_no_product},
    {"kernel-reduce", argmax_as_float},
    {"kernel-reduce", all_as_float},
    {"kernel-op", no_elementwise_op},
    {"kernel-op", two_dtypes},
    {"kernel-op", condition_of_floats},
    {"kernel-random", no_distribution},
    {"kernel-random", i32_seed},
    {"kernel-order", later_operand},
    {"kernel-order", later_guard},
    {"kernel-index", no_such_loop},
    {"kernel-index", no_such_repeat},
    {"kernel-load", load_of_output},
    {"kernel-load", load_of_another_dtype},
    {"kernel-load", guard_of_floats},
    {"kernel-load", float_index},
    {"kernel-hole", hole_in_nest},
    {"kernel-varies", varies_less},
    {"kernel-store", store_of_input},
    {"kernel-store", store_of_another_dtype},
    {"kernel-store", float_store_index},
    {"kernel-store", many_values},
    {"kernel-store", nothing_stored},
    {"kernel-columns", varies_after_columns},
    {"kernel-attention", attention_without_loads},
    {"kernel-attention", attention_without_loop},
    {"kernel-attention", attention_without_out},
    {"kernel-single", scan_without_op},
};
const int num_bad_kernels = sizeof(bad_kernels) / sizeof(bad_kernels[0]);

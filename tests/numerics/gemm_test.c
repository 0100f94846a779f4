// Proves: printed GEMM kernels of any roles, dim orders, extents, dtypes, prologues and epilogues store the sums
// within 2 eps (1 + sum |terms|), within 8 where all terms have one sign; the same bits whatever the order of the
// tiles.
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/gemm_case.h"
#include "tests/support/kernel_run.h"
#include "tests/support/unit.h"

enum { MAX_POINTS = 150 };

static double eps_of(ptc_dtype_t dtype) {
  return dtype == PTC_BF16 ? 0x1p-7 : dtype == PTC_F16 ? 0x1p-10 : (double)FLT_EPSILON;
}

// |data| is what the kernel read, |results| what it left.
static void check_points(const ptc_kernel_t *kernel, void *const *data, void *const *results,
                         double slack, uint64_t *seed) {
  for (int32_t i = 0; i < MAX_POINTS; ++i) {
    const int32_t store = (int32_t)(unit_random(seed) % (uint64_t)kernel->num_stores);
    const int32_t param = kernel->stores[store].param;
    int64_t index[PTC_KERNEL_MAX_DIMS], at;
    for (int32_t d = 0; d < kernel->num_dims; ++d) {
      const int64_t extent = kernel->dims[d].extent;
      // The last of each dim, too: the edges.
      index[d] = i < 4 ? extent - 1 : (int64_t)(unit_random(seed) % (uint64_t)extent);
    }
    const gemm_point_t expect = gemm_case_expect(kernel, data, store, index, &at);
    const double got = gemm_case_element(kernel, param, results[param], at);
    const double bound = slack * (double)FLT_EPSILON * (1 + expect.terms) +
                         eps_of(kernel->params[param].dtype) * fabs(expect.value);
    if (fabs(got - expect.value) <= bound) continue;
    printf("\n%s store %d element %lld: %.9g, expected %.9g, bound %g\n", kernel->name, store,
           (long long)at, got, expect.value, bound);
    UNIT_CHECK(false, kernel->name);
    return;
  }
}

// Fresh buffers for what |kernel| writes; the rest is shared.
static void **copy_results(const ptc_kernel_t *kernel, void *const *data) {
  void **copy = ptc_xmalloc((size_t)kernel->num_params * sizeof *copy);
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    copy[p] = data[p];
    if (kernel->params[p].mode == PTC_KPARAM_IN) continue;
    const size_t bytes =
        (size_t)gemm_case_elements(kernel, p) * (size_t)ptc_dtype_bytes(kernel->params[p].dtype);
    copy[p] = ptc_xmalloc(bytes);
    memcpy(copy[p], data[p], bytes);
  }
  return copy;
}

static void free_results(const ptc_kernel_t *kernel, void **copy) {
  for (int32_t p = 0; p < kernel->num_params; ++p)
    if (kernel->params[p].mode != PTC_KPARAM_IN) free(copy[p]);
  free(copy);
}

static void check_same_bits(const ptc_kernel_t *kernel, void *const *one, void *const *two) {
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    const size_t bytes =
        (size_t)gemm_case_elements(kernel, p) * (size_t)ptc_dtype_bytes(kernel->params[p].dtype);
    UNIT_CHECK(memcmp(one[p], two[p], bytes) == 0, kernel->name);
  }
}

// Terms of one sign: nothing cancels, so errors of a long sum add up.
static void clear_signs(const ptc_kernel_t *kernel, void *const *data) {
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    if (kernel->params[p].mode != PTC_KPARAM_IN) continue;
    const size_t size = (size_t)ptc_dtype_bytes(kernel->params[p].dtype);
    unsigned char *last = (unsigned char *)data[p] + size - 1;
    for (int64_t i = gemm_case_elements(kernel, p); i > 0; --i, last += size) *last &= 0x7f;
  }
}

// Compiled apart: the sources of two GEMMs define the same helpers.
static void run_case(const gemm_case_t *c, bool one_sign, uint64_t *seed) {
  ptc_arena_t arena = {0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_kernel_t *kernel = gemm_case_build(&arena, c);
  kernel_set_t *set = kernel_set_create(&diag);
  const bool ok = kernel_set_add(set, kernel) == 0 && kernel_set_build(set, NULL);
  UNIT_CHECK(ok, c->name);
  ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  if (ok) {
    void **data = gemm_case_data(kernel, seed);
    if (one_sign) clear_signs(kernel, data);
    void **one = copy_results(kernel, data), **two = copy_results(kernel, data);
    CU_ASSERT_EQUAL(kernel_set_run(set, 0, one, NULL, 0), 0);
    kernel_set_run(set, 0, two, NULL, unit_random(seed) | 1);
    // A prologue is not exact: its error is that of the terms.
    const bool exact = c->prologue_a != GEMM_GELU && c->prologue_b != GEMM_GELU;
    // A part of 256 terms of one sign strays by 1.8 eps in the mean square.
    check_points(kernel, data, one, one_sign ? 8 : exact ? 2 : 4, seed);
    check_same_bits(kernel, one, two);
    free_results(kernel, one);
    free_results(kernel, two);
    gemm_case_free(kernel, data);
  }
  kernel_set_free(set);
  ptc_diag_deinit(&diag);
  ptc_arena_deinit(&arena);
}

// --- named cases: every mode of packing and of keeping sums
typedef struct named_s {
  const char *name;
  int64_t batch, m, n, k;
  bool a_turned, b_turned;  // the operand's k is its outermost (a) or innermost (b) dim
  ptc_dtype_t dtype;
  gemm_epilogue_t epilogue;
  bool one_sign;
} named_t;

static const named_t named_cases[] = {
    {"gemm_t_direct", 1, 100, 70, 90, 0, 1, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_blocks_of_k", 1, 37, 300, 1700, 0, 0, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_scratch", 1, 53, 100, 1700, 0, 1, PTC_F32, GEMM_GELU_TWO, 0},
    {"gemm_t_packed", 1, 500, 200, 300, 1, 0, PTC_F32, GEMM_BIAS, 0},
    {"gemm_t_packed_bf16", 1, 500, 200, 300, 0, 1, PTC_BF16, GEMM_BIAS, 0},
    {"gemm_t_chunks_of_k", 1, 150, 96, 14000, 1, 0, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_chunks_of_k_work", 1, 96, 99, 14000, 1, 1, PTC_F32, GEMM_RESIDUAL, 0},
    {"gemm_t_chunks_of_k_bf16", 1, 96, 99, 14000, 0, 1, PTC_BF16, GEMM_BIAS, 0},
    {"gemm_t_chunks_of_m", 1, 2999, 100, 900, 1, 0, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_chunks_of_batch", 3, 700, 100, 1000, 1, 1, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_batches", 50, 16, 18, 20, 0, 1, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_many_batches", 2000, 5, 9, 3, 1, 0, PTC_F32, GEMM_BIAS, 0},
    {"gemm_t_one", 1, 1, 1, 1, 0, 0, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_row", 1, 1, 77, 50, 0, 0, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_column", 1, 77, 1, 50, 0, 1, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_in_place_edge", 1, 5, 107, 1000, 0, 0, PTC_F32, GEMM_SUM, 0},
    {"gemm_t_f16", 2, 33, 40, 100, 1, 1, PTC_F16, GEMM_GELU_TWO, 0},
    {"gemm_t_one_sign_part", 1, 60, 50, 256, 0, 1, PTC_F32, GEMM_SUM, 1},
    {"gemm_t_one_sign", 1, 40, 50, 768, 0, 0, PTC_F32, GEMM_SUM, 1},
    {"gemm_t_one_sign_blocks", 1, 40, 50, 4096, 0, 1, PTC_F32, GEMM_SUM, 1},
    {"gemm_t_one_sign_turned", 1, 90, 64, 3000, 1, 0, PTC_F32, GEMM_BIAS, 1},
    {"gemm_t_one_sign_bf16", 1, 40, 50, 4096, 0, 1, PTC_BF16, GEMM_SUM, 1},
    {"gemm_t_one_sign_f16", 1, 41, 33, 2500, 1, 1, PTC_F16, GEMM_SUM, 1},
};
enum { NUM_NAMED = sizeof named_cases / sizeof *named_cases };

static void test_named(void) {
  uint64_t seed = 7;
  for (int32_t i = 0; i < NUM_NAMED; ++i) {
    const named_t *n = &named_cases[i];
    gemm_case_t c = (gemm_case_t){.name = n->name,
                                  .num_dims = 4,
                                  .roles = {GEMM_BATCH, GEMM_M, GEMM_N, GEMM_K},
                                  .extents = {n->batch, n->m, n->n, n->k},
                                  .dtype_a = n->dtype,
                                  .dtype_b = n->dtype,
                                  .dtype_out = n->dtype,
                                  .epilogue = n->epilogue};
    gemm_case_in_order(&c);
    if (n->a_turned) memcpy(c.order_a, (int32_t[]){0, 3, 1, 2}, 4 * sizeof(int32_t));
    if (!n->b_turned) memcpy(c.order_b, (int32_t[]){0, 3, 2, 1}, 4 * sizeof(int32_t));
    run_case(&c, n->one_sign, &seed);
  }
}

// --- random cases
static void shuffle(int32_t *order, int32_t count, uint64_t *seed) {
  for (int32_t i = 0; i < count; ++i) order[i] = i;
  for (int32_t i = count - 1; i > 0; --i) {
    const int32_t j = (int32_t)(unit_random(seed) % (uint64_t)(i + 1)), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
}

static int64_t random_extent(uint64_t *seed, int64_t limit) {
  static const int64_t extents[] = {1, 2, 3, 5, 6, 7, 8, 12, 16, 17, 31, 33, 48, 64, 96, 130, 257};
  for (;;) {
    const int64_t extent = extents[unit_random(seed) % (sizeof extents / sizeof *extents)];
    if (extent <= limit) return extent;
  }
}

static gemm_case_t random_case(uint64_t *seed, const char *name) {
  static const ptc_dtype_t dtypes[] = {PTC_F32, PTC_F32, PTC_BF16, PTC_F16};
  gemm_case_t c = {.name = name};
  double work = 3e7;
  for (int32_t role = 0; role < GEMM_NUM_ROLES; ++role) {
    const int32_t most = role == GEMM_BATCH ? 2 : 3;
    const int32_t count = (int32_t)(unit_random(seed) % (uint64_t)most) + (role == GEMM_K);
    for (int32_t i = 0; i < count && c.num_dims < GEMM_CASE_DIMS; ++i) {
      c.roles[c.num_dims] = role;
      c.extents[c.num_dims] = random_extent(seed, (int64_t)fmax(1, fmin(work, 300)));
      work /= (double)c.extents[c.num_dims++];
    }
  }
  shuffle(c.order_a, c.num_dims, seed);
  shuffle(c.order_b, c.num_dims, seed);
  shuffle(c.order_out, c.num_dims, seed);
  c.dtype_a = dtypes[unit_random(seed) % 4];
  c.dtype_b = dtypes[unit_random(seed) % 4];
  c.dtype_out = dtypes[unit_random(seed) % 4];
  // Of one operand: scaled twice, a term has the rounding errors of both prologues.
  const gemm_prologue_t prologue = (gemm_prologue_t)(unit_random(seed) % GEMM_NUM_PROLOGUES);
  if (unit_random(seed) % 2)
    c.prologue_a = prologue;
  else
    c.prologue_b = prologue;
  if (c.prologue_a == GEMM_GELU && c.dtype_a != PTC_F32) c.prologue_a = GEMM_SCALED;
  if (c.prologue_b == GEMM_GELU && c.dtype_b != PTC_F32) c.prologue_b = GEMM_PLAIN;
  c.epilogue = (gemm_epilogue_t)(unit_random(seed) % GEMM_NUM_EPILOGUES);
  return c;
}

static void test_random(void) {
  uint64_t seed = unit_seed();
  const char *text = getenv("PTC_CASES");
  const int32_t num_cases = text ? atoi(text) : 4;
  ptc_arena_t arena = {0};
  for (int32_t i = 0; i < num_cases; ++i) {
    const gemm_case_t c = random_case(&seed, ptc_arena_printf(&arena, "gemm_random_%d", i));
    run_case(&c, unit_random(&seed) % 2, &seed);
  }
  ptc_arena_deinit(&arena);
}

// --- what is refused
static void test_unsupported(void) {
  ptc_arena_t arena = {0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_kernel_builder_t kb;
  ptc_kb_begin(&kb, &arena, "gemm_f64", PTC_KERNEL_GEMM, (ptc_loc_t){"x.ptm", 3, 1});
  const int32_t k = ptc_kb_dim(&kb, "k", 4);
  const int64_t extent = 4;
  const ptc_kx_t at = ptc_kb_index(&kb, k);
  const ptc_kx_t load =
      ptc_kb_load(&kb, ptc_kb_param(&kb, "a", PTC_KPARAM_IN, PTC_F64, &extent, 1), &at);
  kb.kernel->gemm = (ptc_gemm_t){.k = 1, .a = load, .b = load};
  ptc_str_t out = {0};
  ptc_kernel_shape_t shape;
  CU_ASSERT_EQUAL(ptc_codegen_c(&diag, &arena, kb.kernel, &(ptc_c_target_t){0}, &out, &shape),
                  PTC_INVALID_INPUT);
  CU_ASSERT_EQUAL(diag.num_errors, 1);
  CU_ASSERT_STRING_EQUAL(diag.items[0].id, "codegen-unsupported");
  ptc_str_deinit(&out);
  ptc_diag_deinit(&diag);
  ptc_arena_deinit(&arena);
}

static const unit_test_t tests[] = {
    {"named", test_named}, {"random", test_random}, {"unsupported", test_unsupported}};
UNIT_MAIN("gemm", tests)

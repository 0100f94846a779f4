// Proves: kernels that C cannot express are refused with a diagnostic; an index out of range is a fault, and
// nothing is read there; the text names what the model names.
#include <stdlib.h>

#include "ir/op.h"
#include "tests/support/kernel_run.h"
#include "tests/support/unit.h"

enum { COUNT = 1000, ROWS = 7 };

static void begin(ptc_kernel_builder_t *kb, ptc_arena_t *arena, const char *name) {
  ptc_kb_begin(kb, arena, name, PTC_KERNEL_NEST, (ptc_loc_t){"model.ptm", 12, 3});
  kb->kernel->about = "gather, add";
}

// y[n] = table[index[n], 2]
static ptc_kernel_t *gather_kernel(ptc_arena_t *arena) {
  ptc_kernel_builder_t kb;
  begin(&kb, arena, "k_gather");
  const ptc_kx_t n = ptc_kb_index(&kb, ptc_kb_dim(&kb, "position", COUNT));
  const int32_t index =
      ptc_kb_param(&kb, "index", PTC_KPARAM_IN, PTC_I32, (const int64_t[]){COUNT}, 1);
  const int32_t table =
      ptc_kb_param(&kb, "block.wte", PTC_KPARAM_IN, PTC_F32, (const int64_t[]){ROWS, 3}, 2);
  const int32_t y = ptc_kb_param(&kb, "y", PTC_KPARAM_OUT, PTC_F32, (const int64_t[]){COUNT}, 1);
  const ptc_kx_t at[] = {ptc_kb_load(&kb, index, &n), ptc_kb_const(&kb, PTC_I32, 2)};
  const ptc_kx_t value = ptc_kb_expr(&kb, (ptc_kexpr_t){.kind = PTC_KX_LOAD,
                                                        .dtype = PTC_F32,
                                                        .param = table,
                                                        .guard = PTC_KX_NONE,
                                                        .checked = true,
                                                        .num_args = 2,
                                                        .args = at});
  ptc_kb_store(&kb, y, &n, value);
  return kb.kernel;
}

static void test_fault(void) {
  ptc_arena_t arena = {0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  kernel_set_t *set = kernel_set_create(&diag);
  CU_ASSERT_EQUAL_FATAL(kernel_set_add(set, gather_kernel(&arena)), 0);
  const char *source = kernel_set_source(set, 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(source, "p_block_wte"));
  CU_ASSERT_PTR_NOT_NULL(strstr(source, "i_position"));
  CU_ASSERT_PTR_NOT_NULL(strstr(source, "// gather, add  (model.ptm:12)"));
  CU_ASSERT_FATAL(kernel_set_build(set, NULL));
  int32_t *index = malloc(COUNT * sizeof *index);
  float *table = malloc(ROWS * 3 * sizeof *table), *y = malloc(COUNT * sizeof *y);
  for (int i = 0; i < COUNT; ++i) index[i] = i % ROWS;
  for (int i = 0; i < ROWS * 3; ++i) table[i] = (float)i;
  void *const params[] = {index, table, y};
  CU_ASSERT_EQUAL(kernel_set_run(set, 0, params, NULL, 0), 0);
  int wrong = 0;
  for (int i = 0; i < COUNT; ++i) wrong += y[i] != (float)(i % ROWS * 3 + 2);
  CU_ASSERT_EQUAL(wrong, 0);
  static const int32_t bad[] = {ROWS, -1, INT32_MAX, INT32_MIN};
  for (int k = 0; k < 4; ++k) {
    index[977] = bad[k];
    CU_ASSERT_EQUAL(kernel_set_run(set, 0, params, NULL, 0), 1);
  }
  free(index);
  free(table);
  free(y);
  kernel_set_free(set);
  ptc_arena_deinit(&arena);
  ptc_diag_deinit(&diag);
}

static void check_refused(ptc_kernel_t *kernel, const char *row) {
  ptc_arena_t arena = {0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_str_t out = {0};
  ptc_kernel_shape_t shape;
  const ptc_c_target_t target = {.march = "native"};
  UNIT_CHECK(ptc_codegen_c(&diag, &arena, kernel, &target, &out, &shape) == PTC_INVALID_INPUT, row);
  UNIT_CHECK(diag.num_errors == 1 && strcmp(diag.items[0].id, "codegen-unsupported") == 0, row);
  ptc_str_deinit(&out);
  ptc_diag_deinit(&diag);
  ptc_arena_deinit(&arena);
}

static void test_refused(void) {
  ptc_arena_t arena = {0};
  ptc_kernel_builder_t kb;
  // An op that is not elementwise.
  begin(&kb, &arena, "k_softmax");
  ptc_kx_t n = ptc_kb_index(&kb, ptc_kb_dim(&kb, "n", 4));
  int32_t x = ptc_kb_param(&kb, "x", PTC_KPARAM_IN, PTC_F32, (const int64_t[]){4}, 1);
  int32_t y = ptc_kb_param(&kb, "y", PTC_KPARAM_OUT, PTC_F32, (const int64_t[]){4}, 1);
  ptc_kb_store(&kb, y, &n, ptc_kb_op1(&kb, PTC_OP_SOFTMAX, PTC_F32, ptc_kb_load(&kb, x, &n)));
  check_refused(kb.kernel, "softmax");
  // exp of an integer.
  begin(&kb, &arena, "k_exp");
  n = ptc_kb_index(&kb, ptc_kb_dim(&kb, "n", 4));
  y = ptc_kb_param(&kb, "y", PTC_KPARAM_OUT, PTC_I32, (const int64_t[]){4}, 1);
  ptc_kb_store(&kb, y, &n, ptc_kb_op1(&kb, PTC_OP_EXP, PTC_I32, n));
  check_refused(kb.kernel, "exp of integers");
  // A column reduction that waits for another.
  begin(&kb, &arena, "k_columns");
  const ptc_kx_t grid = ptc_kb_index(&kb, ptc_kb_dim(&kb, "g", 2));
  const uint32_t over = 1u << ptc_kb_dim(&kb, "c", 3);
  kb.kernel->num_grid = kb.kernel->num_col = 1;
  const ptc_kx_t at[] = {grid, ptc_kb_index(&kb, 1)};
  x = ptc_kb_param(&kb, "x", PTC_KPARAM_IN, PTC_F32, (const int64_t[]){2, 3}, 2);
  y = ptc_kb_param(&kb, "y", PTC_KPARAM_OUT, PTC_F32, (const int64_t[]){2}, 1);
  const ptc_kx_t load = ptc_kb_load(&kb, x, at);
  const ptc_kx_t sum = ptc_kb_reduce(&kb, PTC_KX_SUM, PTC_F32, load, over);
  const ptc_kx_t less = ptc_kb_op2(&kb, PTC_OP_SUB, PTC_F32, load, sum);
  ptc_kb_store(&kb, y, &grid, ptc_kb_reduce(&kb, PTC_KX_SUM, PTC_F32, less, over));
  check_refused(kb.kernel, "columns of columns");
  ptc_arena_deinit(&arena);
}

// Every value is used twice by the next: as a tree there are 2^60.
static void test_shared(void) {
  ptc_arena_t arena = {0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_kernel_builder_t kb;
  begin(&kb, &arena, "k_shared");
  const ptc_kx_t n = ptc_kb_index(&kb, ptc_kb_dim(&kb, "n", 100));
  const int64_t extents[] = {100};
  const int32_t x = ptc_kb_param(&kb, "x", PTC_KPARAM_IN, PTC_F32, extents, 1);
  const int32_t y = ptc_kb_param(&kb, "y", PTC_KPARAM_OUT, PTC_F32, extents, 1);
  ptc_kx_t value = ptc_kb_load(&kb, x, &n);
  for (int i = 0; i < 60; ++i) {
    const ptc_kx_t half = ptc_kb_op1(&kb, PTC_OP_TANH, PTC_F32, value);
    value = ptc_kb_op2(&kb, PTC_OP_ADD, PTC_F32, value, half);
    if (i % 20 == 10) {
      const ptc_kx_t sum = ptc_kb_reduce(&kb, PTC_KX_SUM, PTC_F32, value, 1);
      value = ptc_kb_op2(&kb, PTC_OP_DIV, PTC_F32, value, sum);
    }
  }
  ptc_kb_store(&kb, y, &n, value);
  ptc_str_t out = {0};
  ptc_kernel_shape_t shape;
  const ptc_c_target_t target = {.march = "native"};
  CU_ASSERT_EQUAL(ptc_codegen_c(&diag, &arena, kb.kernel, &target, &out, &shape), PTC_OK);
  CU_ASSERT(out.len > 1000 && out.len < 100000);
  ptc_str_deinit(&out);
  ptc_diag_deinit(&diag);
  ptc_arena_deinit(&arena);
}

static const unit_test_t tests[] = {
    {"fault", test_fault}, {"refused", test_refused}, {"shared", test_shared}};

UNIT_MAIN("codegen", tests)

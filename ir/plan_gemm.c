// Kernels that a library of matrix products can do: as text, and whether they stay inside their parameters.
#include <inttypes.h>
#include <string.h>

#include "ir/plan_check_impl.h"
#include "ir/plan_text_impl.h"

static const char *const activations[] = {"none", "relu", "gelu_tanh"};
enum { NUM_ACTIVATIONS = sizeof activations / sizeof *activations };

static void print_matrix(const char *name, const ptc_plan_matrix_t *matrix, ptc_str_t *out) {
  if (matrix->param < 0) return;
  ptc_str_printf(out, " %s %" PRId32 " %s %s %" PRId64 " %" PRId64, name, matrix->param,
                 matrix->transposed ? "t" : "n", ptc_dtype_name(matrix->dtype), matrix->ld,
                 matrix->stride);
}

void ptc_plan_print_gemm(const ptc_plan_gemm_t *gemm, ptc_str_t *out) {
  ptc_str_printf(out, "  cublaslt %" PRId64 " %" PRId64 " %" PRId64 " batch %" PRId64, gemm->m,
                 gemm->n, gemm->k, gemm->batch);
  print_matrix("a", &gemm->a, out);
  print_matrix("b", &gemm->b, out);
  print_matrix("c", &gemm->c, out);
  print_matrix("d", &gemm->d, out);
  if (gemm->bias >= 0) ptc_str_printf(out, " bias %" PRId32, gemm->bias);
  if (gemm->activation) ptc_str_printf(out, " act %s", activations[gemm->activation]);
  if (gemm->tf32) ptc_str_append(out, " tf32");
  ptc_str_printf(out, " workspace %" PRId64 "\n", gemm->workspace_bytes);
}

static ptc_status_t read_matrix(ptc_plan_reader_t *r, ptc_plan_matrix_t *matrix) {
  const char *word;
  PTC_TRY(ptc_scan_int32(r, &matrix->param));
  matrix->transposed = ptc_scan_take_word(r, "t");
  if (!matrix->transposed) PTC_TRY(ptc_scan_expect_word(r, "n"));
  PTC_TRY(ptc_scan_word(r, &word));
  if (!ptc_dtype_parse(word, &matrix->dtype))
    return ptc_error(r->diag, ptc_scan_here(r), PTC_INVALID_INPUT, "plan-text",
                     "\"%s\" is no dtype", word);
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &matrix->ld));
  return ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &matrix->stride);
}

static ptc_status_t read_activation(ptc_plan_reader_t *r, ptc_gemm_activation_t *out) {
  for (int i = 1; i < NUM_ACTIVATIONS; ++i)
    if (ptc_scan_take_word(r, activations[i])) {
      *out = (ptc_gemm_activation_t)i;
      return PTC_OK;
    }
  return ptc_error(r->diag, ptc_scan_here(r), PTC_INVALID_INPUT, "plan-text",
                   "expected an activation: relu or gelu_tanh");
}

ptc_status_t ptc_plan_read_gemm(ptc_plan_reader_t *r, ptc_plan_kernel_t *kernel) {
  const ptc_plan_reader_t before = *r;
  ptc_scan_skip_lines(r);
  if (!ptc_scan_take_word(r, "cublaslt")) {
    r->at = before.at;
    r->line = before.line;
    r->line_start = before.line_start;
    return PTC_OK;
  }
  ptc_plan_gemm_t *gemm = PTC_ARENA_NEW(r->arena, ptc_plan_gemm_t);
  *gemm = (ptc_plan_gemm_t){.c.param = -1, .bias = -1};
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &gemm->m));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &gemm->n));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &gemm->k));
  PTC_TRY(ptc_scan_expect_word(r, "batch"));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &gemm->batch));
  PTC_TRY(ptc_scan_expect_word(r, "a"));
  PTC_TRY(read_matrix(r, &gemm->a));
  PTC_TRY(ptc_scan_expect_word(r, "b"));
  PTC_TRY(read_matrix(r, &gemm->b));
  if (ptc_scan_take_word(r, "c")) PTC_TRY(read_matrix(r, &gemm->c));
  PTC_TRY(ptc_scan_expect_word(r, "d"));
  PTC_TRY(read_matrix(r, &gemm->d));
  if (ptc_scan_take_word(r, "bias")) PTC_TRY(ptc_scan_int32(r, &gemm->bias));
  if (ptc_scan_take_word(r, "act")) PTC_TRY(read_activation(r, &gemm->activation));
  gemm->tf32 = ptc_scan_take_word(r, "tf32");
  PTC_TRY(ptc_scan_expect_word(r, "workspace"));
  PTC_TRY(ptc_scan_number(r, PTC_PLAN_MAX_NUMBER, &gemm->workspace_bytes));
  kernel->gemm = gemm;
  return ptc_scan_expect_line_end(r);
}

// --- does it fit?

// Whether |count| * |step| + |*end| is a number of the plan; then |*end| is that.
static bool reach(int64_t count, int64_t step, int64_t *end) {
  int64_t by;
  return count >= 0 && step >= 0 && !__builtin_mul_overflow(count, step, &by) &&
         !__builtin_add_overflow(*end, by, end) && *end < PTC_PLAN_MAX_NUMBER;
}

static bool matrix_fits(const ptc_plan_kernel_t *kernel, const ptc_plan_matrix_t *matrix,
                        int64_t rows, int64_t columns, bool writes) {
  if (matrix->param < 0 || matrix->param >= kernel->num_params) return false;
  // 0: it is read, 1: written, 2: both.
  const uint8_t mode = kernel->modes[matrix->param];
  if (writes ? mode == 0 : mode == 1) return false;
  const int64_t stored_rows = matrix->transposed ? columns : rows,
                stored_columns = matrix->transposed ? rows : columns;
  int64_t end = stored_rows, bytes = 0;
  return matrix->ld >= stored_rows && reach(stored_columns - 1, matrix->ld, &end) &&
         reach(kernel->gemm->batch - 1, matrix->stride, &end) &&
         reach(end, ptc_dtype_bytes(matrix->dtype), &bytes) &&
         bytes <= kernel->param_bytes[matrix->param];
}

static bool is_product_dtype(ptc_dtype_t dtype) {
  return dtype == PTC_F32 || dtype == PTC_BF16 || dtype == PTC_F16;
}

bool ptc_plan_gemm_fits(const ptc_plan_kernel_t *kernel) {
  const ptc_plan_gemm_t *g = kernel->gemm;
  if (!is_product_dtype(g->a.dtype) || g->b.dtype != g->a.dtype ||
      (g->d.dtype != g->a.dtype && g->d.dtype != PTC_F32))
    return false;
  if (g->m < 1 || g->n < 1 || g->k < 1 || g->batch < 1 || g->workspace_bytes < 0) return false;
  if (g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX || g->batch > INT32_MAX)
    return false;
  if (!matrix_fits(kernel, &g->a, g->m, g->k, false) ||
      !matrix_fits(kernel, &g->b, g->k, g->n, false) ||
      !matrix_fits(kernel, &g->d, g->m, g->n, true) || g->d.transposed)
    return false;
  // No product overwrites another's result.
  int64_t extent = g->m;
  if (g->batch > 1 && (!reach(g->n - 1, g->d.ld, &extent) || g->d.stride < extent)) return false;
  if (g->c.param >= 0 && (!matrix_fits(kernel, &g->c, g->m, g->n, false) || g->c.transposed ||
                          g->c.dtype != g->d.dtype))
    return false;
  if (g->bias >= kernel->num_params) return false;
  if (g->bias >= 0 && (kernel->modes[g->bias] != 0 ||
                       kernel->param_bytes[g->bias] < g->m * ptc_dtype_bytes(g->d.dtype)))
    return false;
  int64_t workspace = g->workspace_bytes;
  return reach(1, PTC_PLAN_GEMM_ALIGN, &workspace) && workspace <= kernel->workspace_bytes;
}

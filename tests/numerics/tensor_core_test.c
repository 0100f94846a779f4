// Proves: GEMMs and attention on tensor cores, in the simulator of GPUs with all its checks on, give what the
// typed interpreter gives, where tiles are many, cut off, split along k, masked, and of every width of heads. GEMMs of
// f32 as tf32: within its rounding; operands that tf32 holds give the sums of f32; 99 % of the FLOPs are in mma.
// Attention of f32, without tensor cores: likewise. Attention has no bank conflicts in shared memory.
// PTC_CASES: how many cases of each (default 2); PTC_SEED chooses which. Without NVRTC it says so and passes.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "passes/check_semantics.h"
#include "passes/pass.h"
#include "tests/support/generated.h"
#include "tests/support/interp_case.h"
#include "tests/support/unit.h"

// To 11 significant bits, ties away from zero: what cvt.rna.tf32 does to numbers of normal size.
static double to_tf32(double x) {
  int exponent;
  const double fraction = frexp(x, &exponent);
  return ldexp(round(ldexp(fraction, 11)), exponent - 11);
}

static void round_inputs(interp_case_t *c) {
  for (int64_t g = 0; g < c->module->num_globals; g++) {
    ptc_tensor_t *tensor = ptc_interp_global(c->interp, c->module->globals[g]);
    for (int64_t i = 0; i < tensor->num_elements; i++) tensor->data[i] = to_tf32(tensor->data[i]);
  }
}

typedef struct form_s {
  const char *tensor_core;  // what some kernel must contain
  generated_bound_t bound;
  bool tf32, round_inputs, no_conflicts;
} form_t;

static void check(const char *text, form_t form, const char *what) {
  interp_case_t *c = interp_case_open(text, PTC_INTERP_TYPED);
  UNIT_CHECK(c != NULL, what);
  if (!c) return;
  ptc_semantics_fill(c->interp, c->module, unit_seed());
  if (form.round_inputs) round_inputs(c);
  ptc_module_derive_properties(c->module);
  if (form.tf32) ptc_attrs_set_string(c->module, &c->module->config, "f32_matmul", "tf32");
  generated_t generated;
  ptc_str_t report = {0};
  const sim_counters_t before = generated_counters();
  const bool opened = generated_open_gpusim(&generated, c->module);
  const bool ok = opened && generated_compare(&generated, c->interp, "f", form.bound, &report);
  UNIT_CHECK(ok, what);
  if (!ok) {
    fprintf(stderr, "\n%s\n%s", what, report.data ? report.data : "");
    ptc_diag_print(&c->diag, stderr, PTC_DIAG_TEXT, false);
  }
  bool found = false;
  for (int32_t k = 0; opened && k < generated.emitted.plan->num_kernels; k++)
    found |= strstr(generated.emitted.sources[k].text, form.tensor_core) != NULL;
  UNIT_CHECK(!opened || found, what);
  const sim_counters_t after = generated_counters();
  const double in_mma = (double)(after.mma_flops - before.mma_flops),
               outside = (double)(after.flops - before.flops);
  const int64_t conflicts = after.shared_conflicts - before.shared_conflicts;
  if (form.tf32) UNIT_CHECK(in_mma > 0 && outside <= 0.01 * (in_mma + outside), what);
  if (form.no_conflicts) UNIT_CHECK(conflicts == 0, what);
  if (getenv("PTC_SHOW"))
    printf("%s: %.0f FLOP in mma, %.0f outside, %" PRId64 " bank conflicts\n", what, in_mma,
           outside, conflicts);
  generated_close(&generated);
  ptc_str_deinit(&report);
  interp_case_close(c);
}

// Products of 16-bit numbers, added in f32, some rounded to 16 bits in between.
static form_t form_of(const char *dtype) {
  const double eps = strcmp(dtype, "bf16") == 0 ? 0x1p-8 : 0x1p-11;
  return (form_t){"mma.sync", {.relative = 4 * eps, .absolute = eps}, false, false, false};
}

// Sums of f32, in another order.
static const form_t exact_form = {
    "fmaf", {.relative = 0x1p-18, .absolute = 0x1p-18}, false, false, true};

typedef struct attention_row_s {
  int rows, keys, heads, group, dot, own;
  const char *mask;  // "", "causal", "window"
  const char *more;  // attributes
  bool bias, drops;
  double scale;  // with a large one later blocks of keys have far larger scores than the first
} attention_row_t;

static const attention_row_t attention_rows[] = {
    {150, 150, 1, 1, 64, 64, "causal", "", false, false, 0.2},
    {40, 260, 1, 1, 64, 64, "", "", false, false, 4},
    {70, 130, 2, 1, 16, 16, "", "", false, false, 0.2},
    {40, 40, 1, 3, 32, 32, "causal", ", softcap = 2.0", false, false, 0.2},
    {90, 90, 1, 2, 128, 128, "window", "", false, false, 0.2},
    {37, 75, 1, 1, 192, 128, "", "", false, false, 0.2},
    {20, 33, 1, 1, 256, 256, "causal", "", false, false, 0.2},
    {66, 66, 2, 1, 72, 40, "causal", ", softcap = 3.0", false, false, 0.2},
    {100, 148, 2, 2, 64, 64, "causal", "", false, true, 2},
    {67, 71, 1, 1, 32, 136, "window", ", softcap = 2.0", false, true, 0.2},
    {35, 45, 1, 2, 33, 17, "causal", ", softcap = 2.0", false, false, 0.2},
    {80, 70, 1, 1, 64, 64, "causal", "", true, false, -0.2},
};
enum { NUM_ATTENTION_ROWS = sizeof attention_rows / sizeof *attention_rows };

static void check_attention(const attention_row_t *row, const char *dtype) {
  ptc_str_t text = {0};
  ptc_str_printf(
      &text,
      "module \"t\"\n"
      "input @q : %s[b=2, s=%d, n=%d, g=%d, k=%d]\ninput @key : %s[b=2, t=%d, n=%d, k=%d]\n"
      "input @val : %s[b=2, t=%d, n=%d, w=%d]\ninput @dout : %s[b=2, s=%d, n=%d, g=%d, w=%d]\n"
      "input @bias : %s[n=%d, s=%d, t=%d]\n"
      "setting @seed : i64[] {value = 5}\ncounter @step : i64[] {value = 2}\n"
      "func @f(%%q = @q, %%key = @key, %%val = @val, %%dout = @dout, %%bias = @bias, "
      "%%seed = @seed, %%step = @step) {\n",
      dtype, row->rows, row->heads, row->group, row->dot, dtype, row->keys, row->heads, row->dot,
      dtype, row->keys, row->heads, row->own, dtype, row->rows, row->heads, row->group, row->own,
      dtype, row->heads, row->rows, row->keys);
  const bool masked = row->mask[0] != 0, exact = strcmp(dtype, "f32") == 0;
  if (masked) {
    ptc_str_printf(&text,
                   "  %%it = iota {dim = t} : i32[t=%d]\n  %%is = iota {dim = s} : i32[s=%d]\n"
                   "  %%before = le %%it, %%is\n",
                   row->keys, row->rows);
    if (strcmp(row->mask, "window") == 0)
      ptc_str_append(&text,
                     "  %width = constant {value = 37} : i32[]\n  %far = sub %is, %it\n"
                     "  %near = lt %far, %width\n  %mask = and %before, %near\n");
  }
  // A causal mask is `before` itself.
  const char *mask = !masked ? "" : strcmp(row->mask, "window") == 0 ? ", %mask" : ", %before";
  const char *bias = row->bias ? ", %bias" : "", *random = row->drops ? ", %seed, %step" : "";
  ptc_str_t attrs = {0};
  ptc_str_printf(&attrs, "{attend = t, dot = k, scale = %g%s%s%s%s}", row->scale,
                 masked ? ", mask = true" : "", row->bias ? ", bias = true" : "", row->more,
                 row->drops ? ", p = 0.3, path = \"block.attn\"" : "");
  ptc_str_printf(&text, "  %%out, %%lse = attention %%q, %%key, %%val%s%s%s %s\n", mask, bias,
                 random, attrs.data);
  // The gradient of a bias is not for tensor cores.
  const bool has_grad = !row->bias || exact;
  if (has_grad)
    ptc_str_printf(&text,
                   "  %%dq, %%dk, %%dv%s = attention_grad %%q, %%key, %%val%s%s, %%out, %%lse, "
                   "%%dout%s %s\n",
                   row->bias ? ", %dbias" : "", mask, bias, random, attrs.data);
  ptc_str_append(&text, "  return output \"out\" = %out, output \"lse\" = %lse");
  if (has_grad)
    ptc_str_append(&text, ", output \"dq\" = %dq, output \"dk\" = %dk, output \"dv\" = %dv");
  if (has_grad && row->bias) ptc_str_append(&text, ", output \"dbias\" = %dbias");
  ptc_str_append(&text, "\n}\n");
  ptc_str_deinit(&attrs);
  char what[120];
  snprintf(what, sizeof what, "attention of %d rows, %d keys, %d and %d columns, %s, %s%s%s",
           row->rows, row->keys, row->dot, row->own, row->mask, dtype, row->bias ? ", bias" : "",
           row->drops ? ", dropout" : "");
  form_t form = exact ? exact_form : form_of(dtype);
  form.no_conflicts = true;
  // The error of a score, which grows with it, is one of its exponential.
  if (exact && row->scale > 1) form.bound.relative *= 2 * row->scale;
  if (row->dot % 8 || row->own % 8) form.tensor_core = "fmaf";  // no chunks of 16 bytes
  check(text.data, form, what);
  ptc_str_deinit(&text);
}

static void test_attention(void) {
  if (!generated_has_nvrtc()) return;
  const char *cases = getenv("PTC_CASES");
  const int count = cases ? atoi(cases) : 2;
  uint64_t state = unit_seed();
  static const char *const types[] = {"bf16", "f16", "f32"};
  for (int i = 0; i < 3 * NUM_ATTENTION_ROWS; i++) {
    const bool all = count >= 3 * NUM_ATTENTION_ROWS;
    if (!all && i >= count) break;
    const int at = all ? i : (int)(unit_random(&state) % (3 * NUM_ATTENTION_ROWS));
    check_attention(&attention_rows[at / 3], types[at % 3]);
  }
}

// m, n, k, and whether each operand's rows come first in memory.
static const int gemm_rows[][5] = {
    {200, 150, 72, 1, 1}, {129, 136, 1100, 1, 0}, {136, 264, 40, 0, 1},
    {8, 16, 2048, 0, 0},  {65, 67, 33, 1, 0},
};
enum { NUM_GEMM_ROWS = sizeof gemm_rows / sizeof *gemm_rows };

static void check_gemm(const int *row, const char *dtype) {
  ptc_str_t text = {0};
  const int m = row[0], n = row[1], k = row[2];
  ptc_str_printf(&text, "module \"t\"\ninput @a : %s[%s=%d, %s=%d]\ninput @b : %s[%s=%d, %s=%d]\n",
                 dtype, row[3] ? "m" : "k", row[3] ? m : k, row[3] ? "k" : "m", row[3] ? k : m,
                 dtype, row[4] ? "n" : "k", row[4] ? n : k, row[4] ? "k" : "n", row[4] ? k : n);
  ptc_str_append(&text,
                 "func @f(%a = @a, %b = @b) {\n  %y = einsum %a, %b {over = [k], dims = [m, n]}\n"
                 "  return output \"y\" = %y\n}\n");
  char what[120];
  snprintf(what, sizeof what, "einsum of %d x %d x %d, %s", m, n, k, dtype);
  check(text.data, form_of(dtype), what);
  ptc_str_deinit(&text);
}

static void test_gemm(void) {
  if (!generated_has_nvrtc()) return;
  const char *cases = getenv("PTC_CASES");
  const int count = cases ? atoi(cases) : 2;
  uint64_t state = unit_seed();
  for (int i = 0; i < 2 * NUM_GEMM_ROWS; i++) {
    const bool all = count >= 2 * NUM_GEMM_ROWS;
    if (!all && i >= count) break;
    const int at = all ? i : (int)(unit_random(&state) % (2 * NUM_GEMM_ROWS));
    check_gemm(gemm_rows[at / 2], at % 2 ? "f16" : "bf16");
  }
}

// --- f32 as tf32

typedef struct tf32_row_s {
  int batch, m, n, k;
  bool a_rows, b_rows;  // whether the operand's rows come first in memory
  const char *prologue, *epilogue;
} tf32_row_t;

static const tf32_row_t tf32_rows[] = {
    {1, 200, 150, 72, true, true, "", ""},
    {1, 132, 260, 100, true, false, "", ""},
    {1, 132, 136, 1100, false, true, "", "%o = add %y, %r"},
    {3, 40, 132, 68, false, false, "", ""},
    {1, 65, 67, 33, true, false, "", "%s = add %y, %r; %o = relu %s"},
    {2, 130, 20, 24, true, true, "%x = relu %a", ""},
    {1, 16, 24, 2048, false, false, "", "%o = mul %y, %r"},
};
enum { NUM_TF32_ROWS = sizeof tf32_rows / sizeof *tf32_rows };

static void append_input(ptc_str_t *text, const char *name, const tf32_row_t *row, const char *rows,
                         int count, bool rows_first) {
  ptc_str_printf(text, "input @%s : f32[", name);
  if (row->batch > 1) ptc_str_printf(text, "z=%d, ", row->batch);
  if (rows_first)
    ptc_str_printf(text, "%s=%d, k=%d]\n", rows, count, row->k);
  else
    ptc_str_printf(text, "k=%d, %s=%d]\n", row->k, rows, count);
}

static void check_tf32(const tf32_row_t *row, bool round_inputs) {
  ptc_str_t text = {0};
  const char *z = row->batch > 1 ? "z, " : "";
  ptc_str_append(&text, "module \"t\"\n");
  append_input(&text, "a", row, "m", row->m, row->a_rows);
  append_input(&text, "b", row, "n", row->n, row->b_rows);
  if (row->epilogue[0]) ptc_str_printf(&text, "input @r : f32[m=%d, n=%d]\n", row->m, row->n);
  ptc_str_printf(&text, "func @f(%%a = @a, %%b = @b%s) {\n", row->epilogue[0] ? ", %r = @r" : "");
  if (row->prologue[0]) ptc_str_printf(&text, "  %s\n", row->prologue);
  ptc_str_printf(&text, "  %%y = einsum %s, %%b {over = [k], dims = [%sm, n]}\n",
                 row->prologue[0] ? "%x" : "%a", z);
  for (const char *at = row->epilogue; *at; at += *at == ';') {
    const size_t len = strcspn(at, ";");
    ptc_str_printf(&text, "  %.*s\n", (int)len, at);
    at += len;
  }
  ptc_str_printf(&text, "  return output \"y\" = %s\n}\n", row->epilogue[0] ? "%o" : "%y");
  // Each operand is off by eps at most, and errors of random signs add up to far less than their sum.
  const double eps = round_inputs ? 0x1p-20 : 0x1p-11;
  char what[160];
  snprintf(what, sizeof what, "tf32 einsum of %d x %d x %d x %d, %d %d%s%s", row->batch, row->m,
           row->n, row->k, row->a_rows, row->b_rows,
           round_inputs ? ", operands of 11 bits, " : ", ", row->epilogue);
  const generated_bound_t bound = {.relative = 2 * eps, .absolute = 2 * eps};
  check(text.data, (form_t){"m16n8k8", bound, true, round_inputs, true}, what);
  ptc_str_deinit(&text);
}

static void test_tf32(void) {
  if (!generated_has_nvrtc()) return;
  const char *cases = getenv("PTC_CASES");
  const int count = cases ? atoi(cases) : 2;
  uint64_t state = unit_seed();
  for (int i = 0; i < 2 * NUM_TF32_ROWS; i++) {
    const bool all = count >= 2 * NUM_TF32_ROWS;
    if (!all && i >= count) break;
    const int at = all ? i : (int)(unit_random(&state) % (2 * NUM_TF32_ROWS));
    check_tf32(&tf32_rows[at / 2], at % 2);
  }
}

static const unit_test_t tests[] = {
    {"attention", test_attention}, {"gemm", test_gemm}, {"tf32", test_tf32}};

int main(void) {
  setenv("PTC_GPUSIM_CHECKS", "1", 1);
  setenv("PTC_GPUSIM_COUNTERS", "1", 1);
  return unit_main("tensor cores", tests, sizeof tests / sizeof *tests);
}

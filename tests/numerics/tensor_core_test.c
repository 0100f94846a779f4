// Proves: GEMMs and attention on tensor cores, in the simulator of GPUs with all its checks on, give what the
// typed interpreter gives, where tiles are many, cut off, split along k, masked, and of every width of heads.
// PTC_CASES: how many cases of each (default 2); PTC_SEED chooses which. Without NVRTC it says so and passes.
#include <math.h>
#include <stdlib.h>

#include "passes/check_semantics.h"
#include "passes/pass.h"
#include "tests/support/generated.h"
#include "tests/support/interp_case.h"
#include "tests/support/unit.h"

static void check(const char *text, const char *dtype, const char *tensor_core, const char *what) {
  interp_case_t *c = interp_case_open(text, PTC_INTERP_TYPED);
  UNIT_CHECK(c != NULL, what);
  if (!c) return;
  ptc_semantics_fill(c->interp, c->module, unit_seed());
  ptc_module_derive_properties(c->module);
  const double eps = strcmp(dtype, "bf16") == 0 ? 0x1p-8 : 0x1p-11;
  generated_t generated;
  ptc_str_t report = {0};
  // Products of 16-bit numbers, added in f32, some rounded to 16 bits in between.
  const generated_bound_t bound = {.relative = 4 * eps, .absolute = eps};
  const bool opened = generated_open_gpusim(&generated, c->module);
  const bool ok = opened && generated_compare(&generated, c->interp, "f", bound, &report);
  UNIT_CHECK(ok, what);
  if (!ok) {
    fprintf(stderr, "\n%s\n%s", what, report.data ? report.data : "");
    ptc_diag_print(&c->diag, stderr, PTC_DIAG_TEXT, false);
  }
  bool found = false;
  for (int32_t k = 0; opened && k < generated.emitted.plan->num_kernels; k++)
    found |= strstr(generated.emitted.sources[k].text, tensor_core) != NULL;
  UNIT_CHECK(!opened || found, what);
  generated_close(&generated);
  ptc_str_deinit(&report);
  interp_case_close(c);
}

typedef struct attention_row_s {
  int rows, keys, heads, group, dot, own;
  const char *mask;  // "", "causal", "window"
  const char *more;  // attributes
} attention_row_t;

static const attention_row_t attention_rows[] = {
    {150, 150, 1, 1, 64, 64, "causal", ""},
    {70, 130, 2, 1, 16, 16, "", ""},
    {40, 40, 1, 3, 32, 32, "causal", ", softcap = 2.0"},
    {90, 90, 1, 2, 128, 128, "window", ""},
    {37, 75, 1, 1, 192, 128, "", ""},
    {20, 33, 1, 1, 256, 256, "causal", ""},
    {66, 66, 2, 1, 72, 40, "causal", ", softcap = 3.0"},
};
enum { NUM_ATTENTION_ROWS = sizeof attention_rows / sizeof *attention_rows };

static void check_attention(const attention_row_t *row, const char *dtype) {
  ptc_str_t text = {0};
  ptc_str_printf(
      &text,
      "module \"t\"\n"
      "input @q : %s[b=2, s=%d, n=%d, g=%d, k=%d]\ninput @key : %s[b=2, t=%d, n=%d, k=%d]\n"
      "input @val : %s[b=2, t=%d, n=%d, w=%d]\ninput @dout : %s[b=2, s=%d, n=%d, g=%d, w=%d]\n"
      "func @f(%%q = @q, %%key = @key, %%val = @val, %%dout = @dout) {\n",
      dtype, row->rows, row->heads, row->group, row->dot, dtype, row->keys, row->heads, row->dot,
      dtype, row->keys, row->heads, row->own, dtype, row->rows, row->heads, row->group, row->own);
  const bool masked = row->mask[0] != 0;
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
  ptc_str_printf(
      &text,
      "  %%out, %%lse = attention %%q, %%key, %%val%s {attend = t, dot = k, scale = 0.2%s%s}\n"
      "  %%dq, %%dk, %%dv = attention_grad %%q, %%key, %%val%s, %%out, %%lse, %%dout {attend = t, "
      "dot = k, scale = 0.2%s%s}\n"
      "  return output \"out\" = %%out, output \"lse\" = %%lse, output \"dq\" = %%dq, output "
      "\"dk\" = "
      "%%dk, output \"dv\" = %%dv\n}\n",
      mask, masked ? ", mask = true" : "", row->more, mask, masked ? ", mask = true" : "",
      row->more);
  char what[120];
  snprintf(what, sizeof what, "attention of %d rows, %d keys, %d and %d columns, %s, %s", row->rows,
           row->keys, row->dot, row->own, row->mask, dtype);
  check(text.data, dtype, "mma.sync", what);
  ptc_str_deinit(&text);
}

static void test_attention(void) {
  if (!generated_has_nvrtc()) return;
  const char *cases = getenv("PTC_CASES");
  const int count = cases ? atoi(cases) : 2;
  uint64_t state = unit_seed();
  for (int i = 0; i < 2 * NUM_ATTENTION_ROWS; i++) {
    const bool all = count >= 2 * NUM_ATTENTION_ROWS;
    if (!all && i >= count) break;
    const int at = all ? i : (int)(unit_random(&state) % (2 * NUM_ATTENTION_ROWS));
    check_attention(&attention_rows[at / 2], at % 2 ? "f16" : "bf16");
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
  check(text.data, dtype, "mma.sync", what);
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

static const unit_test_t tests[] = {{"attention", test_attention}, {"gemm", test_gemm}};

int main(void) {
  setenv("PTC_GPUSIM_CHECKS", "1", 1);
  return unit_main("tensor cores", tests, sizeof tests / sizeof *tests);
}

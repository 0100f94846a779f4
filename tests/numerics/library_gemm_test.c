// Proves: matrix products that a plan leaves to cuBLASLt, here its stand-in over simulated GPUs with all checks on, give
// what the typed interpreter gives: all transposes, batches, bias, activation, addend, f32, bf16 and tf32; what the
// library cannot express stays generated, as does all where it is missing or refuses; auto chooses by cost; the plan's
// text says it all. PTC_CASES: how many products (default 3); PTC_SEED chooses which. Without NVRTC it says so.
#include <stdlib.h>
#include <unistd.h>

#include "passes/check_semantics.h"
#include "runtime/cuda/device.h"
#include "tests/support/generated.h"
#include "tests/support/interp_case.h"
#include "tests/support/unit.h"

typedef struct row_s {
  const char *name, *dtype, *a, *b, *result, *more;
  const char *inputs;  // beside a and b, as "%r = @r"
  bool tf32, is_library;
} row_t;

static const row_t rows[] = {
    {"plain", "f32", "m=24, k=40", "k=40, n=16", "m, n", "", "", false, true},
    {"both across", "f32", "k=40, m=24", "n=16, k=40", "m, n", "", "", false, true},
    {"result across", "bf16", "m=24, k=40", "n=16, k=40", "n, m", "", "", false, true},
    {"tf32", "f32", "m=40, k=72", "n=24, k=72", "m, n", "", "", true, true},
    {"batch", "f16", "z=3, m=24, k=40", "z=3, k=40, n=16", "z, m, n", "", "", false, true},
    {"two dims of rows", "f32", "p=4, q=6, k=24", "k=24, n=16", "p, q, n", "", "", false, true},
    {"relu", "f32", "m=24, k=40", "k=40, n=16", "m, n", "%o = relu %y", "", false, true},
    {"bias", "bf16", "m=24, k=40", "k=40, n=16", "m, n",
     "%w = broadcast %v {dims = [m, n], extents = [24, 16]}; %o = add %y, %w", "%v = @v", false,
     true},
    {"bias and gelu", "f32", "m=24, k=40", "n=16, k=40", "m, n",
     "%w = broadcast %v {dims = [m, n], extents = [24, 16]}; %s = add %y, %w; %o = gelu %s {approx "
     "= \"tanh\"}",
     "%v = @v", false, true},
    {"addend", "f32", "k=40, m=24", "k=40, n=16", "m, n", "%o = add %y, %r", "%r = @r", false,
     true},
    {"exact gelu", "f32", "m=24, k=40", "k=40, n=16", "m, n", "%o = gelu %y", "", false, false},
    {"two results", "f32", "m=24, k=40", "k=40, n=16", "m, n", "%o = relu %y; output %y", "", false,
     false},
    {"rows apart", "f32", "p=4, k=24, q=6", "k=24, n=16", "p, q, n", "", "", false, false},
};
enum { NUM_ROWS = sizeof rows / sizeof *rows };

static void print_row(const row_t *row, ptc_str_t *text) {
  ptc_str_printf(text, "module \"t\"\ninput @a : %s[%s]\ninput @b : %s[%s]\n", row->dtype, row->a,
                 row->dtype, row->b);
  if (strstr(row->inputs, "@v")) ptc_str_printf(text, "input @v : %s[n=16]\n", row->dtype);
  if (strstr(row->inputs, "@r")) ptc_str_printf(text, "input @r : %s[m=24, n=16]\n", row->dtype);
  ptc_str_printf(text, "func @f(%%a = @a, %%b = @b%s%s) {\n", row->inputs[0] ? ", " : "",
                 row->inputs);
  ptc_str_printf(text, "  %%y = einsum %%a, %%b {over = [k], dims = [%s]}\n", row->result);
  bool both = false;
  for (const char *at = row->more; *at; at += *at == ';') {
    const size_t len = strcspn(at, ";");
    both |= strncmp(at, " output", 7) == 0;
    if (strncmp(at, " output", 7) != 0) ptc_str_printf(text, "  %.*s\n", (int)len, at);
    at += len;
  }
  ptc_str_printf(text, "  return output \"o\" = %s%s\n}\n", row->more[0] ? "%o" : "%y",
                 both ? ", output \"y\" = %y" : "");
}

static int32_t count_products(const ptc_plan_t *plan) {
  int32_t count = 0;
  for (int32_t k = 0; k < plan->num_kernels; k++) count += plan->kernels[k].gemm != NULL;
  return count;
}

static bool has_id(const ptc_diag_t *diag, const char *id) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (strcmp(diag->items[i].id, id) == 0) return true;
  return false;
}

static interp_case_t *open_row(const row_t *row, bool fill) {
  ptc_str_t text = {0};
  print_row(row, &text);
  interp_case_t *c = interp_case_open(text.data, PTC_INTERP_TYPED);
  ptc_str_deinit(&text);
  if (!c) return NULL;
  if (fill) ptc_semantics_fill(c->interp, c->module, unit_seed());
  ptc_module_derive_properties(c->module);
  ptc_attrs_set_string(c->module, &c->module->config, "gemm", "cublaslt");
  if (row->tf32) ptc_attrs_set_string(c->module, &c->module->config, "f32_matmul", "tf32");
  return c;
}

static void check_row(const row_t *row, bool missing) {
  interp_case_t *c = open_row(row, true);
  UNIT_CHECK(c != NULL, row->name);
  if (!c) return;
  setenv("PTC_CUBLASLT",
         missing ? "/nowhere/libcublasLt.so" : PTC_BINARY_DIR "/libptc_gpusim_cublaslt.so", 1);
  const double eps = strcmp(row->dtype, "bf16") == 0               ? 0x1p-8
                     : strcmp(row->dtype, "f16") == 0 || row->tf32 ? 0x1p-11
                                                                   : 0x1p-21;
  generated_t generated;
  ptc_str_t report = {0};
  const generated_bound_t bound = {.relative = 4 * eps, .absolute = eps};
  const bool opened = generated_open_gpusim(&generated, c->module);
  const bool ok = opened && generated_compare(&generated, c->interp, "f", bound, &report);
  UNIT_CHECK(ok, row->name);
  if (!ok) {
    fprintf(stderr, "\n%s\n%s", row->name, report.data ? report.data : "");
    ptc_diag_print(&c->diag, stderr, PTC_DIAG_TEXT, false);
  }
  UNIT_CHECK(!opened || (count_products(generated.emitted.plan) == 1) == row->is_library,
             row->name);
  UNIT_CHECK(has_id(&c->diag, "cublaslt-missing") == (missing && row->is_library), row->name);
  UNIT_CHECK(!has_id(&c->diag, "cublaslt-refused"), row->name);
  generated_close(&generated);
  ptc_str_deinit(&report);
  interp_case_close(c);
}

static void test_rows(void) {
  if (!generated_has_nvrtc()) return;
  const char *cases = getenv("PTC_CASES");
  const int count = cases ? atoi(cases) : 3;
  uint64_t state = unit_seed();
  for (int i = 0; i < NUM_ROWS && i < count; i++)
    check_row(&rows[count >= NUM_ROWS ? (uint64_t)i : unit_random(&state) % NUM_ROWS], false);
  check_row(&rows[unit_random(&state) % NUM_ROWS], true);
}

// --- what is chosen, without a GPU

static void emit_row(const row_t *row, const char *how, const char *target,
                     ptc_emitted_t *emitted) {
  interp_case_t *c = open_row(row, false);
  UNIT_CHECK(c != NULL, row->name);
  *emitted = (ptc_emitted_t){0};
  if (!c) return;
  ptc_attrs_set_string(c->module, &c->module->config, "gemm", how);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  UNIT_CHECK(ptc_emit(&ctx, c->module, target, emitted) == PTC_OK, row->name);
  ptc_pass_ctx_deinit(&ctx);
  interp_case_close(c);
}

static int32_t products_of(const row_t *row, const char *how, const char *target) {
  ptc_emitted_t emitted;
  emit_row(row, how, target, &emitted);
  const int32_t count = emitted.plan ? count_products(emitted.plan) : -1;
  ptc_emitted_deinit(&emitted);
  return count;
}

static void test_choice(void) {
  for (int i = 0; i < NUM_ROWS; i++) {
    CU_ASSERT_EQUAL(products_of(&rows[i], "cublaslt", "sm_90a"), rows[i].is_library);
    CU_ASSERT_EQUAL(products_of(&rows[i], "generated", "sm_90a"), 0);
  }
  CU_ASSERT_EQUAL(products_of(&rows[0], "cublaslt", "cpu"), 0);
  static const row_t large = {"large", "bf16", "m=4096, k=1024", "k=1024, n=4096", "m, n", "", "",
                              false,   true},
                     thin = {"thin", "bf16", "m=16, k=64", "k=64, n=16", "m, n",
                             "",     "",     false,        true};
  // mma.sync reaches a part of what Hopper's and Blackwell's own instructions do.
  CU_ASSERT_EQUAL(products_of(&large, "auto", "sm_90a"), 1);
  CU_ASSERT_EQUAL(products_of(&large, "auto", "sm_100"), 1);
  CU_ASSERT_EQUAL(products_of(&thin, "auto", "sm_90a"), 0);
}

// The workspace is a buffer of the plan, and the text of the plan says what the library is given.
static void test_text(void) {
  ptc_emitted_t emitted;
  emit_row(&rows[8], "cublaslt", "sm_80", &emitted);
  CU_ASSERT_FATAL(emitted.plan != NULL);
  const ptc_plan_kernel_t *kernel = &emitted.plan->kernels[0];
  CU_ASSERT_FATAL(kernel->gemm != NULL);
  CU_ASSERT(kernel->gemm->bias >= 0 && kernel->gemm->activation == PTC_GEMM_GELU_TANH);
  CU_ASSERT_EQUAL(kernel->workspace_bytes, (4 << 20) + PTC_PLAN_GEMM_ALIGN);
  int64_t workspace = 0;
  for (int32_t b = 0; b < emitted.plan->num_buffers; b++)
    if (emitted.plan->buffers[b].cls == PTC_BUFFER_WORKSPACE)
      workspace += emitted.plan->buffers[b].bytes;
  CU_ASSERT_EQUAL(workspace, kernel->workspace_bytes);
  ptc_str_t json = {0}, steps = {0}, json2 = {0}, steps2 = {0};
  ptc_plan_print(emitted.plan, &json, &steps);
  CU_ASSERT(strstr(steps.data, "\n  cublaslt 16 24 40 batch 1 a ") != NULL);
  CU_ASSERT(strstr(steps.data, " act gelu_tanh workspace 4194304\n") != NULL);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  CU_ASSERT_EQUAL(
      ptc_plan_parse(&diag, "j", json.data, json.len, "s", steps.data, steps.len, &plan), PTC_OK);
  if (plan) ptc_plan_print(plan, &json2, &steps2);
  CU_ASSERT(plan && strcmp(steps.data, steps2.data) == 0);
  ptc_plan_destroy(plan);
  // One number at a time that does not fit.
  static const struct {
    const char *from, *to, *id;
  } wrong[] = {{"cublaslt 16 24 40", "cublaslt 17 24 40", "plan-kernel"},
               {"cublaslt 16 24 40", "cublaslt 16 24 80", "plan-kernel"},
               {"cublaslt 16 24 40", "cublaslt 16 0 40", "plan-kernel"},
               {"batch 1 a", "batch 2000000000 a", "plan-kernel"},
               {"workspace 4194304\n", "workspace 4194305\n", "plan-kernel"},
               {"act gelu_tanh", "act gelu", "plan-text"},
               {" f32 ", " f64 ", "plan-kernel"},
               {" f32 ", " f33 ", "plan-text"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ptc_str_t text = {0};
    const char *line = strstr(steps.data, "\n  cublaslt"), *at = strstr(line, wrong[i].from);
    CU_ASSERT_FATAL(at != NULL);
    ptc_str_append_n(&text, steps.data, (size_t)(at - steps.data));
    ptc_str_append(&text, wrong[i].to);
    ptc_str_append(&text, at + strlen(wrong[i].from));
    ptc_diag_deinit(&diag);
    ptc_diag_init(&diag);
    CU_ASSERT(ptc_plan_parse(&diag, "j", json.data, json.len, "s", text.data, text.len, &plan) !=
                  PTC_OK ||
              ptc_plan_check(&diag, plan) != PTC_OK);
    UNIT_CHECK(has_id(&diag, wrong[i].id), wrong[i].to);
    ptc_plan_destroy(plan);
    plan = NULL;
    ptc_str_deinit(&text);
  }
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  ptc_str_deinit(&json2);
  ptc_str_deinit(&steps2);
  ptc_emitted_deinit(&emitted);
}

// --- what the library refuses

static void test_refused(void) {
  if (!generated_has_nvrtc()) return;
  interp_case_t *c = open_row(&rows[8], false);
  CU_ASSERT_FATAL(c != NULL);
  setenv("PTC_CUBLASLT", PTC_BINARY_DIR "/libptc_gpusim_cublaslt.so", 1);
  generated_t generated;
  CU_ASSERT_FATAL(generated_open_gpusim(&generated, c->module));
  ptc_plan_t *plan = generated.emitted.plan;
  const ptc_plan_gemm_t *stated = plan->kernels[0].gemm;
  CU_ASSERT_FATAL(stated != NULL);
  // f16 times f16 is no product for tf32.
  ptc_plan_gemm_t odd = *stated;
  odd.tf32 = true;
  odd.a.dtype = odd.b.dtype = PTC_F16;
  plan->kernels[0].gemm = &odd;
  ptc_device_t *device = NULL;
  CU_ASSERT_EQUAL(ptc_cuda_device_create(&c->diag, plan, generated.images.images, 0, &device),
                  PTC_OK);
  CU_ASSERT(has_id(&c->diag, "cublaslt-refused"));
  if (device) device->destroy(device);
  // A bias that lies nowhere is refused when it is launched.
  plan->kernels[0].gemm = stated;
  CU_ASSERT_EQUAL(ptc_cuda_device_create(&c->diag, plan, generated.images.images, 0, &device),
                  PTC_OK);
  uint64_t args[PTC_PLAN_MAX_LEVELS] = {0};
  const int64_t turns[PTC_PLAN_MAX_LEVELS] = {0};
  for (int32_t p = 0; p <= plan->kernels[0].num_params; p++) args[p] = device->arena;
  args[stated->bias] = 0;
  CU_ASSERT_EQUAL(
      device->launch(device, &c->diag, 0, 0, args, plan->kernels[0].num_params + 1, turns),
      PTC_DEVICE);
  CU_ASSERT(has_id(&c->diag, "cublaslt-failed"));
  device->destroy(device);
  generated_close(&generated);
  interp_case_close(c);
}

static const unit_test_t tests[] = {{"products", test_rows},
                                    {"choice", test_choice},
                                    {"text", test_text},
                                    {"refused", test_refused}};

int main(void) {
  setenv("PTC_GPUSIM_CHECKS", "1", 1);
  return unit_main("library products", tests, sizeof tests / sizeof *tests);
}

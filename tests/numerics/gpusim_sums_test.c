// Proves: sums over rows and columns, norms with the gradients of their scales, losses over long rows of logits, rope, and
// scatter_add, in CUDA on the simulator of GPUs with all its checks on: for random odd shapes they give what the typed interpreter gives, sums
// within 2 eps (1 + the sum of |terms|); for aligned shapes they move at most 1.05 times their least bytes, and
// no access of a warp touches a sector that it does not use. PTC_CASES: how many random cases of each form (default 2),
// and how many aligned ones (default 3); PTC_SEED chooses them; PTC_SHOW=1 prints what aligned ones move. Without NVRTC it
// says so and passes. What is infinite, masked or no number in a long row gives what it gives in the interpreter; sines and
// cosines of doubles of any size are within 2 units of the last place of 1.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/pass.h"
#include "tests/support/generated.h"
#include "tests/support/interp_case.h"
#include "tests/support/unit.h"

static const struct {
  const char *name;
  double eps;  // distance of 1 to the next number
} dtypes[] = {{"f32", 0x1p-23}, {"bf16", 0x1p-7}, {"f16", 0x1p-10}};

static int64_t num_cases(int64_t otherwise) {
  const char *cases = getenv("PTC_CASES");
  return cases ? atoll(cases) : otherwise;
}

// Inputs of |c|: floats of a wide range of sizes, or their magnitudes; indices below |extent|, the low ones often.
static void fill(interp_case_t *c, uint64_t seed, int64_t extent, bool magnitudes) {
  for (int64_t g = 0; g < c->module->num_globals; g++) {
    ptc_tensor_t *tensor = ptc_interp_global(c->interp, c->module->globals[g]);
    uint64_t state = seed + (uint64_t)g;
    for (int64_t i = 0; i < tensor->num_elements; i++) {
      const double unit = (double)(unit_random(&state) >> 11) * 0x1p-53;
      double x = ldexp(2 * unit - 1, (int)(unit_random(&state) % 4) - 2);
      if (ptc_dtype_is_int(tensor->type->dtype)) x = floor((double)extent * unit * unit * unit);
      x = ptc_dtype_round(tensor->type->dtype, x);
      tensor->data[i] = magnitudes ? fabs(x) : x;
    }
  }
}

typedef struct expected_s {
  double *terms[8];  // per result: the sums of |terms|
} expected_t;

// All operations of |text| are linear in each input, but for results that begin with "norm": those may be 8 eps of the
// largest element off. A "place" is exact.
static bool compare(interp_case_t *c, generated_t *generated, const expected_t *expected,
                    double eps, const char *what) {
  const ptc_func_t *func = ptc_module_find_func(c->module, "f");
  bool ok = true;
  for (int32_t r = 0; r < func->num_results; r++) {
    const ptc_tensor_t *wanted = ptc_interp_result(c->interp, r);
    double *got = generated_result(generated, func, r), most = 0, worst = 0;
    const double *want = wanted->data;
    const bool norm = strncmp(func->results[r].name, "norm", 4) == 0;
    const bool place = strcmp(func->results[r].name, "place") == 0;
    for (int64_t i = 0; i < wanted->num_elements; i++)
      if (isfinite(want[i])) most = fmax(most, fabs(want[i]));
    for (int64_t i = 0; got && i < wanted->num_elements; i++) {
      const double bound = place  ? 0.5
                           : norm ? 8 * eps * (1 + most)
                                  : 2 * eps * (1 + expected->terms[r][i]);
      const bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
      const double error = same ? 0 : fabs(got[i] - want[i]) / bound;
      if (!(error <= worst)) worst = error;
    }
    if (!(worst <= 1))
      fprintf(stderr, "\n%s: %s is %g times its bound off\n", what, func->results[r].name, worst);
    ok &= got && worst <= 1;
    free(got);
  }
  return ok;
}

// Runs @f of |text| both ways. |out|, if given, stays open for its plan.
static void check(const char *text, int64_t extent, double eps, uint64_t seed, const char *what,
                  generated_t *out) {
  interp_case_t *c = interp_case_open(text, PTC_INTERP_TYPED);
  UNIT_CHECK(c != NULL, what);
  if (!c) return;
  ptc_module_derive_properties(c->module);
  expected_t expected = {0};
  fill(c, seed, extent, true);
  bool ok = ptc_interp_run(c->interp, "f") == PTC_OK;
  const ptc_func_t *func = ptc_module_find_func(c->module, "f");
  for (int32_t r = 0; ok && r < func->num_results; r++) {
    const ptc_tensor_t *result = ptc_interp_result(c->interp, r);
    expected.terms[r] = malloc(sizeof(double) * (size_t)(result->num_elements + 1));
    memcpy(expected.terms[r], result->data, sizeof(double) * (size_t)result->num_elements);
  }
  fill(c, seed, extent, false);
  generated_t generated = {0};
  ok = ok && ptc_interp_run(c->interp, "f") == PTC_OK &&
       generated_open_gpusim(&generated, c->module);
  if (ok) generated_load(&generated, c->interp);
  ok = ok && generated_run(&generated, "f") && compare(c, &generated, &expected, eps, what);
  UNIT_CHECK(ok, what);
  if (!ok) {
    fprintf(stderr, "\n%s\n%s", what, text);
    ptc_diag_print(&c->diag, stderr, PTC_DIAG_TEXT, false);
  }
  for (int32_t r = 0; r < 8; r++) free(expected.terms[r]);
  if (out)
    *out = generated;
  else
    generated_close(&generated);
  interp_case_close(c);
}

// --- texts

// x[a, b, d] summed over |over|; |max| instead.
static void sum_text(ptc_str_t *out, const char *dtype, const int64_t *extents, const char *over,
                     const char *op) {
  ptc_str_printf(
      out,
      "module \"t\"\ninput @x : %s[a=%" PRId64 ", b=%" PRId64 ", d=%" PRId64
      "]\n"
      "func @f(%%x = @x) {\n  %%y = %s %%x {over = [%s]}\n  return output \"y\" = %%y\n}\n",
      dtype, extents[0], extents[1], extents[2], op, over);
}

// A norm of a * b rows of d, its scale and bias.
static void norm_text(ptc_str_t *out, const char *dtype, const int64_t *e) {
  ptc_str_printf(out,
                 "module \"t\"\n"
                 "input @x : %s[a=%" PRId64 ", b=%" PRId64 ", d=%" PRId64
                 "]\n"
                 "input @scale : f32[d=%" PRId64 "]\ninput @bias : f32[d=%" PRId64
                 "]\n"
                 "func @f(%%x = @x, %%scale = @scale, %%bias = @bias) {\n"
                 "  %%wide = cast %%x {to = \"f32\"}\n"
                 "  %%norm, %%mean, %%rstd = layernorm %%wide {over = [d], eps = 0.5}\n"
                 "  %%scaled = mul %%norm, %%scale\n  %%moved = add %%scaled, %%bias\n"
                 "  %%y = cast %%moved {to = \"%s\"}\n"
                 "  return output \"norm\" = %%y\n}\n",
                 dtype, e[0], e[1], e[2], e[2], e[2], dtype);
}

// The gradients of a norm, of its bias and scale.
static void norm_grad_text(ptc_str_t *out, const char *dtype, const int64_t *e, const char *over) {
  ptc_str_printf(
      out,
      "module \"t\"\n"
      "input @x : %s[a=%" PRId64 ", b=%" PRId64 ", d=%" PRId64
      "]\n"
      "input @rstd : f32[a=%" PRId64 ", b=%" PRId64 "]\ninput @scale : f32[d=%" PRId64
      "]\n"
      "input @g : %s[a=%" PRId64 ", b=%" PRId64 ", d=%" PRId64
      "]\n"
      "func @f(%%x = @x, %%rstd = @rstd, %%scale = @scale, %%g = @g) {\n"
      "  %%wx = cast %%x {to = \"f32\"}\n  %%wg = cast %%g {to = \"f32\"}\n"
      "  %%bias = reduce_sum %%wg {over = [%s]}\n"
      "  %%p = mul %%wg, %%wx\n  %%own = reduce_sum %%p {over = [%s]}\n"
      "  %%s = mul %%wg, %%scale\n  %%dx = rmsnorm_grad %%wx, %%rstd, %%s {over = [d]}\n"
      "  %%y = cast %%dx {to = \"%s\"}\n"
      "  return output \"bias\" = %%bias, output \"scale\" = %%own, output \"norm\" = %%y\n}\n",
      dtype, e[0], e[1], e[2], e[0], e[1], e[2], dtype, e[0], e[1], e[2], over, over, dtype);
}

// The losses of a * b rows of d logits, what normalizes them, and the places of the largest.
static void loss_text(ptc_str_t *out, const char *dtype, const int64_t *e) {
  ptc_str_printf(
      out,
      "module \"t\"\ninput @x : %s[a=%" PRId64 ", b=%" PRId64 ", d=%" PRId64
      "]\ninput @at : i32[a=%" PRId64 ", b=%" PRId64
      "]\n"
      "func @f(%%x = @x, %%at = @at) {\n  %%wide = cast %%x {to = \"f32\"}\n"
      "  %%nll, %%lse = cross_entropy %%wide, %%at {dim = d}\n"
      "  %%place = argmax %%wide {dim = d}\n"
      "  return output \"norm_nll\" = %%nll, output \"norm_lse\" = %%lse, output \"place\" = "
      "%%place\n}\n",
      dtype, e[0], e[1], e[2], e[0], e[1]);
}

// a * b rows of d turned by their positions, there and back in other pairs.
static void rope_text(ptc_str_t *out, const char *dtype, const int64_t *e) {
  ptc_str_printf(out,
                 "module \"t\"\ninput @x : %s[a=%" PRId64 ", b=%" PRId64 ", d=%" PRId64
                 "]\ninput @at : i32[b=%" PRId64
                 "]\n"
                 "func @f(%%x = @x, %%at = @at) {\n"
                 "  %%y = rope %%x, %%at {base = 10000.0, dim = d, dims = %" PRId64
                 ", style = \"half\"}\n"
                 "  %%z = rope %%x, %%at {base = 500000.0, dim = d, dims = %" PRId64
                 ", style = \"interleaved\", inverse = true}\n"
                 "  return output \"norm_y\" = %%y, output \"norm_z\" = %%z\n}\n",
                 dtype, e[0], e[1], e[2], e[1], e[2], e[2]);
}

// Rows x[a, d] to rows of a table of e[1]; or, in |batches|, elements x[a, d] to y[a, v].
static void scatter_text(ptc_str_t *out, const char *dtype, const int64_t *e, bool batches) {
  ptc_str_printf(
      out, "module \"t\"\ninput @x : %s[a=%" PRId64 ", d=%" PRId64 "]\ninput @at : i32[a=%" PRId64,
      dtype, e[0], e[2], e[0]);
  if (batches) ptc_str_printf(out, ", d=%" PRId64, e[2]);
  ptc_str_append(out, "]\nfunc @f(%x = @x, %at = @at) {\n  %y = scatter_add %x, %at {dims = [v], ");
  if (batches)
    ptc_str_printf(out, "result = [a, v], extents = [%" PRId64 ", %" PRId64 "]}\n", e[0], e[1]);
  else
    ptc_str_printf(out, "result = [v, d], extents = [%" PRId64 ", %" PRId64 "]}\n", e[1], e[2]);
  ptc_str_append(out, "  return output \"y\" = %y\n}\n");
}

typedef enum form_e {
  FORM_SUM,
  FORM_MAX,
  FORM_NORM,
  FORM_NORM_GRAD,
  FORM_SCATTER,
  FORM_BATCHES,
  FORM_LOSS,
  FORM_ROPE,
  NUM_FORMS
} form_t;
static const char *const form_names[NUM_FORMS] = {
    "sum", "max", "norm", "norm_grad", "scatter_add", "scatter_add of batches", "loss", "rope"};

static void print_form(ptc_str_t *out, form_t form, const char *dtype, const int64_t *e,
                       const char *over) {
  switch (form) {
    case FORM_SUM: sum_text(out, dtype, e, over, "reduce_sum"); break;
    case FORM_MAX: sum_text(out, dtype, e, over, "reduce_max"); break;
    case FORM_NORM: norm_text(out, dtype, e); break;
    case FORM_NORM_GRAD: norm_grad_text(out, dtype, e, over); break;
    case FORM_LOSS: loss_text(out, dtype, e); break;
    case FORM_ROPE: rope_text(out, dtype, e); break;
    default: scatter_text(out, dtype, e, form == FORM_BATCHES); break;
  }
}

// --- random shapes

static int64_t odd_extent(uint64_t *state) {
  static const int64_t extents[] = {1,   2,   3,   5,   7,   31,   32,   33,   63,   100,  129,
                                    255, 257, 300, 515, 700, 1025, 1100, 2100, 4099, 8200, 9001};
  return extents[unit_random(state) % (sizeof extents / sizeof *extents)];
}

// What indices are below.
static int64_t num_places(form_t form, const int64_t *e) {
  return form == FORM_ROPE ? 1 << 20 : e[form == FORM_LOSS ? 2 : 1];
}

static void check_random(form_t form, uint64_t seed) {
  uint64_t state = seed;
  const bool scatters = form == FORM_SCATTER || form == FORM_BATCHES;
  int64_t e[3];
  do
    for (int i = 0; i < 3; i++)
      e[i] = form == FORM_LOSS && i == 2 ? 8193 + (int64_t)(unit_random(&state) % 5000)
                                         : odd_extent(&state);
  while ((scatters ? e[0] * e[2] : e[0] * e[1] * e[2]) > 60000 ||
         (form == FORM_SCATTER   ? e[1] * e[2]
          : form == FORM_BATCHES ? e[0] * e[1]
                                 : 0) > 60000 ||
         (form == FORM_NORM_GRAD && e[2] == 1) || (form == FORM_ROPE && e[2] % 2));
  static const char *const overs[] = {"a", "b", "a, b", "d", "a, d", "b, d", "a, b, d"};
  const char *over = overs[unit_random(&state) % (form == FORM_NORM_GRAD ? 3 : 7)];
  const int dtype = (int)(unit_random(&state) % 3);
  char what[160];
  snprintf(what, sizeof what,
           "%s of %s[%" PRId64 ", %" PRId64 ", %" PRId64 "] over %s, seed %" PRIu64,
           form_names[form], dtypes[dtype].name, e[0], e[1], e[2], over, seed);
  if (getenv("PTC_SHOW")) printf("%s\n", what);
  ptc_str_t text = {0};
  print_form(&text, form, dtypes[dtype].name, e, over);
  check(text.data, num_places(form, e), dtypes[dtype].eps, seed, what, NULL);
  ptc_str_deinit(&text);
}

static void test_random(void) {
  if (!generated_has_nvrtc()) return;
  uint64_t state = unit_seed();
  const int64_t count = num_cases(2);
  for (int64_t i = 0; i < count; i++)
    for (int form = 0; form < NUM_FORMS; form++) check_random((form_t)form, unit_random(&state));
}

// --- aligned shapes

// Rows of hidden sizes as models have them; as many as a small step has, where that is quick.
static const struct {
  form_t form;
  int64_t extents[3];
  const char *over;
} aligned[] = {
    {FORM_SUM, {8, 512, 256}, "a, b"},
    {FORM_SUM, {16, 64, 256}, "a"},
    {FORM_SUM, {2, 32, 8192}, "a, b"},
    {FORM_NORM, {8, 512, 64}, ""},
    {FORM_NORM, {4, 256, 768}, ""},
    {FORM_NORM, {1, 64, 4096}, ""},
    {FORM_NORM_GRAD, {8, 512, 64}, "a, b"},
    {FORM_NORM_GRAD, {4, 256, 768}, "a, b"},
    {FORM_NORM_GRAD, {1, 128, 2048}, "a, b"},
    {FORM_NORM_GRAD, {16, 64, 128}, "a"},
    {FORM_SCATTER, {1024, 1024, 256}, ""},
    {FORM_SCATTER, {256, 512, 768}, ""},
    {FORM_SCATTER, {256, 16384, 128}, ""},
    {FORM_LOSS, {2, 16, 16384}, ""},
    {FORM_ROPE, {8, 512, 64}, ""},
    {FORM_ROPE, {2, 64, 128}, ""},
};
enum { NUM_ALIGNED = sizeof aligned / sizeof *aligned };

static void check_aligned(int row, int dtype) {
  char what[120];
  const int64_t *e = aligned[row].extents;
  snprintf(what, sizeof what, "%s of %s[%" PRId64 ", %" PRId64 ", %" PRId64 "] over %s",
           form_names[aligned[row].form], dtypes[dtype].name, e[0], e[1], e[2], aligned[row].over);
  ptc_str_t text = {0};
  print_form(&text, aligned[row].form, dtypes[dtype].name, e, aligned[row].over);
  generated_t generated = {0};
  const sim_counters_t before = generated_counters();
  check(text.data, num_places(aligned[row].form, e), dtypes[dtype].eps, 1, what, &generated);
  const sim_counters_t after = generated_counters();
  double least = 0;
  const ptc_plan_t *plan = generated.emitted.plan;
  for (int32_t k = 0; plan && k < plan->num_kernels; k++)
    least += (double)plan->kernels[k].min_bytes;
  const double moved = 32.0 * (double)(after.moved_sectors - before.moved_sectors);
  const int64_t touched = after.global_sectors - before.global_sectors,
                needed = after.least_sectors - before.least_sectors;
  if (getenv("PTC_SHOW"))
    printf("%s: %d kernels move %.3f times their least bytes, touch %.3f of the least sectors\n",
           what, plan ? plan->num_kernels : 0, moved / least, (double)touched / (double)needed);
  UNIT_CHECK(moved > 0 && moved <= 1.05 * least, what);
  UNIT_CHECK(touched == needed, what);
  if (plan) generated_close(&generated);
  ptc_str_deinit(&text);
}

static void test_aligned(void) {
  if (!generated_has_nvrtc()) return;
  const int64_t all = 3 * (int64_t)NUM_ALIGNED, count = num_cases(3);
  const uint64_t seed = unit_seed();
  for (int64_t i = 0; i < count && i < all; i++) {
    const int64_t at = (int64_t)((seed + (uint64_t)i * 7) % (uint64_t)all);
    check_aligned((int)(at / 3), (int)(at % 3));
  }
}

// --- long rows of logits that are no ordinary numbers

enum { SPECIAL_ROWS = 10, SPECIAL_WIDTH = 9001 };

static double special(int64_t row, int64_t at, uint64_t *state) {
  const double x = 8 * ((double)(unit_random(state) >> 11) * 0x1p-53) - 4;
  switch (row) {
    case 0: return -INFINITY;
    case 1: return at < 8900 ? -INFINITY : x;   // threads that see nothing else for long
    case 2: return at == 4711 ? x : -INFINITY;  // one counts
    case 3: return at == 5000 ? (double)NAN : x;
    case 4: return at == 8999 ? INFINITY : x;
    case 5: return (double)at / 128;  // the maximum grows with each
    case 6: return -(double)at / 128;
    case 7: return at % 3 ? -3e38 : 3e38 * (x > 0);  // differences overflow
    case 8: return at % 2 ? -INFINITY : 100 * x;
    default: return at == 0 ? INFINITY : at == 9000 ? -INFINITY : x;
  }
}

static void test_special(void) {
  if (!generated_has_nvrtc()) return;
  const int64_t e[3] = {1, SPECIAL_ROWS, SPECIAL_WIDTH};
  ptc_str_t text = {0};
  loss_text(&text, "f32", e);
  interp_case_t *c = interp_case_open(text.data, PTC_INTERP_TYPED);
  UNIT_CHECK(c != NULL, "loss");
  if (c) {
    ptc_module_derive_properties(c->module);
    ptc_tensor_t *x = ptc_interp_global(c->interp, c->module->globals[0]),
                 *at = ptc_interp_global(c->interp, c->module->globals[1]);
    uint64_t state = unit_seed();
    for (int64_t i = 0; i < x->num_elements; i++)
      x->data[i] = ptc_dtype_round(PTC_F32, special(i / SPECIAL_WIDTH, i % SPECIAL_WIDTH, &state));
    for (int64_t i = 0; i < at->num_elements; i++) at->data[i] = i % 4 == 3 ? -1 : 4711;
    generated_t generated = {0};
    const expected_t none = {0};
    bool ok =
        ptc_interp_run(c->interp, "f") == PTC_OK && generated_open_gpusim(&generated, c->module);
    if (ok) generated_load(&generated, c->interp);
    ok = ok && generated_run(&generated, "f") && compare(c, &generated, &none, 0x1p-23, "special");
    UNIT_CHECK(ok, "special");
    const ptc_tensor_t *lse = ptc_interp_result(c->interp, 1);
    UNIT_CHECK(isnan(lse->data[0]) && isfinite(lse->data[1]) && isfinite(lse->data[8]), "rows");
    generated_close(&generated);
    interp_case_close(c);
  }
  ptc_str_deinit(&text);
}

// --- angles

// Small and large ones, also those that the math library reduces.
static void test_angles(void) {
  if (!generated_has_nvrtc()) return;
  static const double factors[] = {0, 1, 1000, 1e8, 1e9, 1e12, 1e300};
  const uint64_t seed = unit_seed();
  for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
    ptc_str_t text = {0};
    ptc_str_append(&text,
                   "module \"t\"\ninput @x : f64[a=300]\nfunc @f(%x = @x) {\n"
                   "  %c = constant {value = ");
    ptc_str_printf(&text,
                   "%.1f} : f64[]\n  %%w = mul %%x, %%c\n  %%s = sin %%w\n  %%t = cos %%w\n"
                   "  return output \"s\" = %%s, output \"t\" = %%t\n}\n",
                   factors[i]);
    interp_case_t *c = interp_case_open(text.data, PTC_INTERP_TYPED);
    UNIT_CHECK(c != NULL, "angles");
    if (c) {
      ptc_module_derive_properties(c->module);
      fill(c, seed, 1, false);
      generated_t generated = {0};
      bool ok =
          ptc_interp_run(c->interp, "f") == PTC_OK && generated_open_gpusim(&generated, c->module);
      if (ok) generated_load(&generated, c->interp);
      ok = ok && generated_run(&generated, "f");
      const ptc_func_t *func = ptc_module_find_func(c->module, "f");
      for (int32_t r = 0; ok && r < 2; r++) {
        double *got = generated_result(&generated, func, r);
        const double *want = ptc_interp_result(c->interp, r)->data;
        for (int64_t k = 0; k < 300; k++) ok &= fabs(got[k] - want[k]) <= 2 * 0x1p-53;
        free(got);
      }
      UNIT_CHECK(ok, "angles");
      if (!ok) ptc_diag_print(&c->diag, stderr, PTC_DIAG_TEXT, false);
      generated_close(&generated);
      interp_case_close(c);
    }
    ptc_str_deinit(&text);
  }
}

static const unit_test_t tests[] = {{"random", test_random},
                                    {"aligned", test_aligned},
                                    {"special", test_special},
                                    {"angles", test_angles}};

int main(void) {
  setenv("PTC_GPUSIM_CHECKS", "1", 1);
  setenv("PTC_GPUSIM_COUNTERS", "1", 1);
  generated_counters();  // the library stays loaded, and with it its counters
  return unit_main("gpusim sums", tests, sizeof tests / sizeof *tests);
}

// Proves: a function of a module runs on data from a file and leaves its values, gradients and
// states in another; wrong files and settings are reported; inputs can be drawn.
#include "frontend/driver/run_module.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/safetensors.h"
#include "tests/support/unit.h"

static char folder[] = "/tmp/ptc_run_XXXXXX";
static char in_path[64], out_path[64];

// y = x * w[0] * w[1]; turns 3 and 5 of a source repeat.
static const char text[] =
    "module \"t\"\n"
    "input @x : f32[a=2]\n"
    "input @n : i32[] {range = 4}\n"
    "param @\"block.*.w\" turns (3:2) : 2 x f32[a=2]\n"
    "counter @step : i64[] {value = 0}\n"
    "func @init() {\n"
    "  %0 = constant {value = 2.0} : f32[]\n"
    "  %1 = broadcast %0 {dims = [a], extents = [2]} : f32[a=2]\n"
    "  %2 = repeat {count = 2} index %i {\n    yield collect(%1)\n  } : 2 x f32[a=2]\n"
    "  return state @\"block.*.w\" (3:2) = %2\n}\n"
    "func @train(%x = @x, %n = @n, %w = @\"block.*.w\" (3:2), %t = @step) {\n"
    "  %0, %1 = repeat {count = 2} index %i carry(%y = %x) each(%u = %w) {\n"
    "    %2 = mul %y, %u : f32[a=2]\n    yield carry(%2) collect(%2)\n"
    "  } : f32[a=2], 2 x f32[a=2]\n"
    "  %3 = reduce_sum %0 {over = [a]} : f32[]\n"
    "  %one = constant {value = 1.0} : i64[]\n  %4 = add %t, %one : i64[]\n"
    "  return loss \"loss\" = %3, loss \"aux\" = %3, metric \"m\" = %3, output \"y\" = %0, "
    "output \"all\" = %1, state @step = %4, grad @\"block.*.w\" (3:2) = %1\n}\n";

static ptc_module_t *parse(ptc_diag_t *diag) {
  ptc_module_t *module;
  ptc_diag_init(diag);
  CU_ASSERT_EQUAL_FATAL(ptc_module_parse(diag, "t", text, strlen(text), &module), PTC_OK);
  CU_ASSERT_EQUAL(ptc_module_verify(module), PTC_OK);
  return module;
}

static void write_input(const char *const *names, const double *values, int count, int32_t extent) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_named_tensor_t tensors[8];
  for (int i = 0; i < count; i++) {
    bool scalar = strcmp(names[i], "n") == 0;
    tensors[i] = (ptc_named_tensor_t){.name = names[i],
                                      .dtype = PTC_F64,
                                      .num_dims = scalar ? 0 : 1,
                                      .shape = {extent},
                                      .num_elements = scalar ? 1 : extent,
                                      .data = values + 2 * i};
  }
  CU_ASSERT_EQUAL(ptc_safetensors_write(&diag, in_path, tensors, count), PTC_OK);
  ptc_diag_deinit(&diag);
}

static void check(const ptc_tensor_file_t *file, const char *name, ptc_dtype_t dtype,
                  double first) {
  const ptc_named_tensor_t *tensor = ptc_tensor_file_find(file, name);
  UNIT_CHECK(tensor != NULL, name);
  if (!tensor) return;
  UNIT_CHECK(tensor->dtype == dtype, name);
  UNIT_CHECK(tensor->data[0] == first, name);
}

static const char *const all_names[] = {"x", "n", "block.3.w", "block.5.w", "loss"};
static const double all_values[] = {0.1, 2, 3, 0, 5, 6, 7, 8, 1, 1};

static void test_load_and_dump(void) {
  for (int mode = 0; mode < 2; mode++) {
    ptc_diag_t diag;
    ptc_module_t *module = parse(&diag);
    write_input(all_names, all_values, 5, 2);
    ptc_run_options_t options = {.mode = mode ? PTC_INTERP_TYPED : PTC_INTERP_EXACT,
                                 .load_path = in_path,
                                 .dump_path = out_path,
                                 .sets = (const char *const[]){"step=41"},
                                 .num_sets = 1};
    CU_ASSERT_EQUAL(ptc_run_module(module, "train", &options), PTC_OK);
    CU_ASSERT_EQUAL(diag.num_items, 0);
    ptc_tensor_file_t file;
    CU_ASSERT_EQUAL(ptc_safetensors_read(&diag, out_path, &file), PTC_OK);
    ptc_dtype_t dtype = mode ? PTC_F32 : PTC_F64;
    double x = mode ? (double)0.1f : 0.1;
    double y3 = mode ? (double)(float)(x * 5) : x * 5, y5 = mode ? (double)(float)(y3 * 7) : y3 * 7;
    double loss = mode ? (double)(float)(y5 + 96) : y5 + 96;
    check(&file, "loss", dtype, loss);
    check(&file, "loss.aux", dtype, loss);
    check(&file, "metric.m", dtype, loss);
    check(&file, "output.y", dtype, y5);
    check(&file, "output.all.0", dtype, y3);
    check(&file, "output.all.1", dtype, y5);
    check(&file, "grad.block.3.w", dtype, y3);
    check(&file, "grad.block.5.w", dtype, y5);
    check(&file, "block.3.w", dtype, 5);
    check(&file, "block.5.w", dtype, 7);
    check(&file, "x", dtype, x);
    check(&file, "n", PTC_I32, 3);
    check(&file, "step", PTC_I64, 42);
    CU_ASSERT_EQUAL(file.count, 13);
    ptc_tensor_file_deinit(&file);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static void test_init_and_draw(void) {
  ptc_diag_t diag;
  ptc_module_t *module = parse(&diag);
  ptc_run_options_t options = {.init = true, .draw_inputs = true, .dump_path = out_path};
  CU_ASSERT_EQUAL(ptc_run_module(module, "train", &options), PTC_OK);
  ptc_tensor_file_t file;
  CU_ASSERT_EQUAL(ptc_safetensors_read(&diag, out_path, &file), PTC_OK);
  double x =
      2 * ((ptc_philox(PTC_RUN_DATA_SEED, 0, 0, ptc_path_hash("data.x", NULL, 0)) >> 8) * 0x1p-24) -
      1;
  double n = floor((ptc_philox(PTC_RUN_DATA_SEED, 0, 0, ptc_path_hash("data.n", NULL, 0)) >> 8) *
                   0x1p-24 * 4);
  check(&file, "x", PTC_F64, x);
  check(&file, "n", PTC_I32, n);
  check(&file, "output.y", PTC_F64, 4 * x);
  check(&file, "block.5.w", PTC_F64, 2);
  ptc_tensor_file_deinit(&file);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_errors(void) {
  static const struct {
    const char *func, *set;
    int32_t num_names, extent;
    ptc_status_t status;
    const char *id;
  } rows[] = {
      {"train", NULL, 4, 2, PTC_OK, ""},
      {"train", NULL, 4, 1, PTC_INVALID_INPUT, "load-shape"},
      {"train", NULL, 3, 2, PTC_INVALID_INPUT, "load-missing"},
      {"train", NULL, 0, 2, PTC_INVALID_INPUT, "load-missing"},
      {"train", "weight=3", 4, 2, PTC_INVALID_INPUT, "unknown-global"},
      {"train", "step", 4, 2, PTC_INVALID_INPUT, "unknown-global"},
      {"train", "n=4", 4, 2, PTC_INVALID_INPUT, "input-range"},
      {"eval", NULL, 4, 2, PTC_INVALID_INPUT, "unknown-function"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_diag_t diag;
    ptc_module_t *module = parse(&diag);
    write_input(all_names, all_values, rows[i].num_names, rows[i].extent);
    ptc_run_options_t options = {
        .load_path = in_path, .sets = &rows[i].set, .num_sets = rows[i].set ? 1 : 0};
    UNIT_CHECK(ptc_run_module(module, rows[i].func, &options) == rows[i].status, rows[i].id);
    UNIT_CHECK(strcmp(diag.num_items ? diag.items[0].id : "", rows[i].id) == 0, rows[i].id);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// A name that the module does not know is a warning: the run goes on.
static void test_unknown_name(void) {
  static const char *const names[] = {"x", "n", "block.3.w", "block.5.w", "block.4.w"};
  ptc_diag_t diag;
  ptc_module_t *module = parse(&diag);
  write_input(names, all_values, 5, 2);
  ptc_run_options_t options = {.load_path = in_path};
  CU_ASSERT_EQUAL(ptc_run_module(module, "train", &options), PTC_OK);
  CU_ASSERT_EQUAL_FATAL(diag.num_items, 1);
  CU_ASSERT_STRING_EQUAL(diag.items[0].id, "load-unknown");
  CU_ASSERT_EQUAL(diag.items[0].severity, PTC_WARNING);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_set_up(void) {
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  snprintf(in_path, sizeof(in_path), "%s/in", folder);
  snprintf(out_path, sizeof(out_path), "%s/out", folder);
}

static void test_clean_up(void) {
  unlink(in_path);
  unlink(out_path);
  CU_ASSERT_EQUAL(rmdir(folder), 0);
}

static const unit_test_t tests[] = {
    {"set up", test_set_up},
    {"load and dump", test_load_and_dump},
    {"init and draw", test_init_and_draw},
    {"errors", test_errors},
    {"unknown name", test_unknown_name},
    {"clean up", test_clean_up},
};
UNIT_MAIN("run_module", tests)

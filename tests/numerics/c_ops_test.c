// Proves: every op that a loop nest or a kernel of its own executes, printed as C, gives what the typed
// interpreter gives, on random shapes in each dtype: |error| <= 2 eps (1 + sum |terms|), inf and NaN the same;
// whatever the order of the tiles. PTC_CASES: how many cases of the table (0: all), PTC_SEED which.
#include <math.h>
#include <stdlib.h>

#include "ir/builder.h"
#include "ir/interp.h"
#include "passes/build_kernels.h"
#include "tests/support/kernel_run.h"
#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

typedef struct row_s {
  const char *op, *attrs, *operands, *given, *dtypes, *data;
  char terms;
} row_t;

static const row_t rows[] = {
#include "c_ops.def"
};

enum {
  NUM_ROWS = sizeof rows / sizeof *rows,
  MAX_CASES = 4096,
  DEFAULT_CASES = 60,
  MAX_TENSORS = 16
};

typedef struct case_s {
  const row_t *row;
  char label[256];
  ptc_diag_t diag;
  ptc_module_t *module;
  ptc_func_t *func;
  ptc_op_t *op;
  ptc_built_kernel_t built;
  int64_t extents[3];  // A, B, C
  int32_t number;      // in the set
} case_t;

// |text| with $ and the extents filled in.
static void expand(const case_t *c, const char *text, ptc_dtype_t dtype, ptc_str_t *out) {
  ptc_str_append(out, "");
  for (const char *at = text; *at; ++at) {
    const bool extent = *at >= 'A' && *at <= 'C' && at > text &&
                        (at[-1] == '=' || at[-1] == ',' || at[-1] == ':') && at[1] != ':';
    if (*at == '$')
      ptc_str_append(out, ptc_dtype_name(dtype));
    else if (extent)
      ptc_str_printf(out, "%lld", (long long)c->extents[*at - 'A']);
    else
      ptc_str_append_n(out, at, 1);
  }
}

static const int64_t shapes[][3] = {{1, 1, 1},    {3, 5, 7},     {2, 33, 65},  {70, 3, 9},
                                    {1, 700, 3},  {40, 40, 40},  {5, 1030, 2}, {300, 17, 1},
                                    {17, 64, 33}, {1, 70001, 1}, {129, 256, 2}};

static bool open_case(case_t *c, const row_t *row, ptc_dtype_t dtype, const int64_t *extents) {
  *c = (case_t){.row = row};
  for (int i = 0; i < 3; ++i) c->extents[i] = extents[i];
  snprintf(c->label, sizeof c->label, "%s %s %s A=%lld B=%lld C=%lld", row->op, row->attrs,
           ptc_dtype_name(dtype), (long long)extents[0], (long long)extents[1],
           (long long)extents[2]);
  ptc_diag_init(&c->diag);
  c->module = maker_module(&c->diag);
  c->func = ptc_module_add_func(c->module, "f", (ptc_loc_t){0});
  ptc_str_t operands = {0}, attrs = {0}, given = {0};
  expand(c, row->operands, dtype, &operands);
  expand(c, row->attrs, dtype, &attrs);
  expand(c, row->given, dtype, &given);
  ptc_value_t *args[MAX_TENSORS];
  int32_t count = 0;
  for (char *save, *text = strtok_r(operands.data, ";", &save); text;
       text = strtok_r(NULL, ";", &save)) {
    char path[16];
    snprintf(path, sizeof path, "x%d", count);
    ptc_global_t *global = ptc_module_add_global(c->module, PTC_GLOBAL_INPUT, path,
                                                 maker_type(c->module, text), (ptc_loc_t){0});
    args[count++] = ptc_func_add_arg(c->func, global);
  }
  ptc_opcode_t opcode;
  bool ok = ptc_opcode_parse(row->op, &opcode);
  ptc_builder_t builder = ptc_builder_at_end(c->module, c->func->body);
  const ptc_type_t *type = given.len ? maker_type(c->module, given.data) : NULL;
  c->op = ok ? ptc_build_op_as(&builder, opcode, args, count, ptc_op_info(opcode)->num_results,
                               maker_attrs(c->module, attrs.data), type)
             : NULL;
  ptc_str_deinit(&operands);
  ptc_str_deinit(&attrs);
  ptc_str_deinit(&given);
  if (!c->op) return false;
  ptc_op_t *end = ptc_op_new(c->module, PTC_OP_RETURN, (ptc_loc_t){0}, NULL, 0, 0);
  ptc_op_insert(end, c->func->body, NULL);
  for (int32_t i = 0; i < c->op->num_results; ++i) {
    char name[16];
    snprintf(name, sizeof name, "y%d", i);
    ptc_func_add_result(c->func,
                        (ptc_result_t){.kind = PTC_RESULT_VALUE,
                                       .name = ptc_module_intern(c->module, name),
                                       .role = ptc_module_intern(c->module, "output")},
                        c->op->results[i]);
  }
  return ptc_build_kernel(&c->diag, &c->module->arena, "k", &c->op, 1, &c->built) == PTC_OK;
}

static void close_case(case_t *c) {
  ptc_module_destroy(c->module);
  ptc_diag_deinit(&c->diag);
}

// --- data

static double unit_uniform(uint64_t *random) {
  return (double)(unit_random(random) >> 11) * 0x1p-53;
}

static double special(ptc_dtype_t dtype, uint64_t *random) {
  static const double floats[] = {0,     -0.0,   INFINITY, -INFINITY, NAN,      1,       -1,
                                  1e-40, -1e-42, 1e30,     -1e30,     88.7,     -87.5,   -103.9,
                                  104.5, 1e5,    -1e5,     1e-6,      12.56637, 0x1p-14, 65504};
  static const double ints[] = {0, 1, -1, 2147483647, -2147483648.0, 65536, -46341};
  const uint64_t r = unit_random(random);
  if (ptc_dtype_is_float(dtype)) return floats[r % (sizeof floats / sizeof *floats)];
  const double value = ints[r % (sizeof ints / sizeof *ints)];
  return value;
}

static double datum(const case_t *c, char kind, ptc_dtype_t dtype, uint64_t *random) {
  const double u = unit_uniform(random);
  const bool is_float = ptc_dtype_is_float(dtype);
  switch (kind) {
    case 'x':
      if (u < 0.06) return special(dtype, random);
      return is_float ? (unit_uniform(random) - 0.5) * 12 : floor(unit_uniform(random) * 21) - 10;
    case 's': return (u - 0.5) * 4;
    case 'p': return is_float ? 0.05 + u * 3 : 1 + floor(u * 40);
    case 'u': return u;
    case 'q': return 2 * u / (double)c->extents[1];
    case 't': return u < 0.5;
    case '0': return 0;
    case '1': return 1;
    case 'A':
    case 'B':
    case 'C': return floor(u * (double)c->extents[kind - 'A']);
    case 'o': return floor(u * ((double)c->extents[1] + 2)) - 1;
    default: return is_float ? (u - 0.5) * 4 : floor(u * 200) - 100;
  }
}

// --- one case

typedef struct data_s {
  int32_t num_in, num_out;
  int64_t size[2 * MAX_TENSORS];
  double *in[MAX_TENSORS], *out[MAX_TENSORS], *terms[MAX_TENSORS];
} data_t;

static double eps_of(ptc_dtype_t dtype) {
  return dtype == PTC_BF16  ? 0x1p-7
         : dtype == PTC_F16 ? 0x1p-10
         : dtype == PTC_F64 ? 0x1p-45  // sums in another order, libm
                            : 0x1p-23;
}

// The results of the interpreter; |absolute|: for the absolute values of what it reads.
static bool interpret(case_t *c, data_t *d, bool absolute, double **out) {
  ptc_interp_t *interp =
      ptc_interp_create(c->module, absolute ? PTC_INTERP_EXACT : PTC_INTERP_TYPED);
  for (int32_t i = 0; i < d->num_in; ++i) {
    double *to = ptc_interp_global(interp, c->func->arg_globals[i])->data;
    const bool is_float = ptc_dtype_is_float(c->op->operands[i]->type->dtype);
    for (int64_t k = 0; k < d->size[i]; ++k)
      to[k] = absolute && (is_float || i == 0) ? fabs(d->in[i][k]) : d->in[i][k];
  }
  const bool ok = ptc_interp_run(interp, "f") == PTC_OK;
  for (int32_t i = 0; ok && i < d->num_out; ++i) {
    const ptc_tensor_t *y = ptc_interp_result(interp, i);
    out[i] = malloc(((size_t)y->num_elements + 1) * sizeof(double));
    memcpy(out[i], y->data, (size_t)y->num_elements * sizeof(double));
  }
  ptc_interp_destroy(interp);
  return ok;
}

static double largest(const double *values, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i)
    if (isfinite(values[i]) && fabs(values[i]) > most) most = fabs(values[i]);
  return most;
}

static bool is_near(double got, double want, double bound, ptc_dtype_t dtype) {
  if (isnan(want)) return isnan(got);
  if (isinf(want) || isinf(got)) {
    // Next to the largest number the rounding decides.
    const double most = dtype == PTC_F16 ? 65504 : 3.3e38;
    return got == want || (fabs(isinf(want) ? got : want) >= 0.99 * most && got * want > 0);
  }
  return fabs(got - want) <= bound;
}

static void check_result(case_t *c, const data_t *d, int32_t i, const void *first,
                         const void *second) {
  const ptc_dtype_t dtype = c->op->results[i]->type->dtype;
  const int64_t size = d->size[d->num_in + i];
  double *got = malloc(((size_t)size + 1) * sizeof *got);
  kernel_unpack(dtype, first, size, got);
  const double most = largest(d->out[i], size);
  ptc_dtype_t narrow = dtype;  // of all that is rounded
  for (int32_t k = 0; k < d->num_in; ++k)
    if (ptc_dtype_is_float(dtype) && eps_of(c->op->operands[k]->type->dtype) > eps_of(narrow) &&
        ptc_dtype_is_float(c->op->operands[k]->type->dtype) && c->row->terms == 'w')
      narrow = c->op->operands[k]->type->dtype;
  int64_t wrong = 0;
  for (int64_t k = 0; k < size; ++k) {
    const double want = d->out[i][k];
    const double terms = c->row->terms == 'a'   ? fabs(d->terms[i][k])
                         : c->row->terms == 'w' ? 2 * most
                                                : fabs(want);
    const double bound =
        c->row->terms == 'x' || !ptc_dtype_is_float(dtype) ? 0 : 2 * eps_of(narrow) * (1 + terms);
    if (is_near(got[k], want, bound, dtype)) continue;
    if (!wrong++)
      fprintf(stderr, "%s: y%d[%lld] is %.9g, want %.9g, bound %.3g\n", c->label, i, (long long)k,
              got[k], want, bound);
  }
  UNIT_CHECK(wrong == 0, c->label);
  UNIT_CHECK(memcmp(first, second, (size_t)(size * ptc_dtype_bytes(dtype))) == 0, c->label);
  free(got);
}

static void data_init(case_t *c, data_t *d, uint64_t *random) {
  *d = (data_t){.num_in = c->op->num_operands, .num_out = c->op->num_results};
  for (int32_t i = 0; i < d->num_in + d->num_out; ++i) {
    const ptc_value_t *value = i < d->num_in ? c->op->operands[i] : c->op->results[i - d->num_in];
    d->size[i] = ptc_type_num_elements(value->type);
    if (i >= d->num_in) continue;
    d->in[i] = malloc(((size_t)d->size[i] + 1) * sizeof(double));
    for (int64_t k = 0; k < d->size[i]; ++k)
      d->in[i][k] = ptc_dtype_round(value->type->dtype,
                                    datum(c, c->row->data[i], value->type->dtype, random));
  }
}

static void data_free(data_t *d) {
  for (int32_t i = 0; i < MAX_TENSORS; ++i) {
    free(d->in[i]);
    free(d->out[i]);
    free(d->terms[i]);
  }
}

// The buffers of all parameters, from the data by value.
static void make_buffers(case_t *c, const data_t *d, void **out) {
  const ptc_kernel_t *kernel = c->built.kernel;
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    const ptc_value_t *value = c->built.inputs[p] ? c->built.inputs[p] : c->built.values[p];
    int64_t size = 1;
    for (int32_t k = 0; k < kernel->params[p].num_dims; ++k) size *= kernel->params[p].extents[k];
    const size_t bytes = (size_t)(size * ptc_dtype_bytes(kernel->params[p].dtype));
    out[p] = malloc(bytes ? bytes : 1);
    memset(out[p], 0x5A, bytes);
    for (int32_t i = 0; i < d->num_in; ++i)
      if (c->op->operands[i] == value && value->type->dtype == kernel->params[p].dtype)
        kernel_pack(kernel->params[p].dtype, d->in[i], size, out[p]);
  }
}

static void check_case(const kernel_set_t *set, case_t *c, uint64_t *random) {
  const ptc_kernel_t *kernel = c->built.kernel;
  const int64_t turns[8] = {0};
  data_t d;
  data_init(c, &d, random);
  void *first[PTC_KERNEL_MAX_PARAMS], *second[PTC_KERNEL_MAX_PARAMS];
  make_buffers(c, &d, first);
  make_buffers(c, &d, second);
  bool ok = interpret(c, &d, false, d.out);
  if (ok && c->row->terms == 'a') ok = interpret(c, &d, true, d.terms);
  ok = ok && kernel_set_run(set, c->number, first, turns, 0) == 0;
  ok = ok && kernel_set_run(set, c->number, second, turns, unit_random(random) | 1) == 0;
  UNIT_CHECK(ok, c->label);
  for (int32_t p = 0; ok && p < kernel->num_params; ++p)
    for (int32_t i = 0; i < d.num_out; ++i)
      if (c->op->results[i] == c->built.values[p] && kernel->params[p].mode != PTC_KPARAM_IN)
        check_result(c, &d, i, first[p], second[p]);
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    free(first[p]);
    free(second[p]);
  }
  data_free(&d);
}

// --- which cases

static bool takes(const row_t *row, ptc_dtype_t dtype) {
  switch (row->dtypes[0]) {
    case 'f': return ptc_dtype_is_float(dtype);
    case 'h': return ptc_dtype_is_float(dtype) && dtype != PTC_F64;
    case 'n': return dtype != PTC_BOOL;
    case 'i': return ptc_dtype_is_int(dtype);
    case 'a': return true;
    default: return dtype == PTC_F32;
  }
}

static int32_t choose(case_t **out, kernel_set_t *set, uint64_t *random) {
  const char *given = getenv("PTC_CASES"), *only = getenv("PTC_OP");
  const int wanted = given ? atoi(given) : DEFAULT_CASES;
  int32_t count = 0, total = 0;
  for (int r = 0; r < NUM_ROWS; ++r)
    for (int t = 0; t < PTC_NUM_DTYPES; ++t) total += takes(&rows[r], (ptc_dtype_t)t);
  for (int r = 0; r < NUM_ROWS; ++r)
    for (int t = 0; t < PTC_NUM_DTYPES; ++t) {
      if (!takes(&rows[r], (ptc_dtype_t)t)) continue;
      const uint64_t pick = unit_random(random);
      if (only && strcmp(only, rows[r].op) != 0) continue;
      if (wanted && pick % (uint64_t)total >= (uint64_t)wanted) continue;
      const int64_t *shape = shapes[unit_random(random) % (sizeof shapes / sizeof *shapes)];
      case_t *c = malloc(sizeof *c);
      const bool opened = open_case(c, &rows[r], (ptc_dtype_t)t, shape);
      UNIT_CHECK(opened, c->label);
      if (!opened)
        fprintf(stderr, "%s\n", c->label), ptc_diag_print(&c->diag, stderr, PTC_DIAG_TEXT, false);
      const bool printed = opened && c->built.kernel->kind != PTC_KERNEL_GEMM;
      if (printed) c->number = kernel_set_add(set, c->built.kernel);
      UNIT_CHECK(!printed || c->number >= 0, c->label);
      if (printed && c->number >= 0 && count < MAX_CASES) {
        out[count++] = c;
      } else {
        close_case(c);
        free(c);
      }
    }
  return count;
}

static void test_ops(void) {
  uint64_t random = unit_seed();
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  kernel_set_t *set = kernel_set_create(&diag);
  case_t **cases = calloc(MAX_CASES, sizeof *cases);
  const int32_t count = choose(cases, set, &random);
  ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  const bool built = kernel_set_build(set, getenv("PTC_TEST_CFLAGS"));
  UNIT_CHECK(built, "compile");
  for (int32_t i = 0; i < count; ++i) {
    if (built) check_case(set, cases[i], &random);
    close_case(cases[i]);
    free(cases[i]);
  }
  fprintf(stderr, "  (%d cases)", count);
  free(cases);
  kernel_set_free(set);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"ops", test_ops}};

UNIT_MAIN("c_ops", tests)

// Proves: printed attention and its gradient give what the typed interpreter gives, for random sets and orders
// of dims, grouped and shared heads, masks, bias, softcap, dropout and dtypes; the order in which tiles run
// changes no bit; numbers that are not finite spread as in the interpreter.
//
// PTC_CASES: number of random cases (default 1). Each compiles two kernels.
#include <math.h>
#include <stdlib.h>

#include "ir/op.h"
#include "passes/build_kernels.h"
#include "tests/support/interp_case.h"
#include "tests/support/kernel_run.h"
#include "tests/support/unit.h"

enum { MAX_TEXT_DIMS = 8 };

// Letters of a tensor's dims, in order.
typedef struct spec_s {
  char q[MAX_TEXT_DIMS + 1], key[MAX_TEXT_DIMS + 1], val[MAX_TEXT_DIMS + 1],
      bias[MAX_TEXT_DIMS + 1];
  char mask[24];  // "", "causal", "window", "prefix", "doc", "tensor"
  double softcap, p, scale;
  const char *dtype, *bias_dtype;
  int64_t extent[26];
} spec_t;

static bool has(const char *dims, char dim) { return strchr(dims, dim) != NULL; }

static void append_type(ptc_str_t *out, const spec_t *s, const char *dtype, const char *dims) {
  ptc_str_printf(out, "%s[", dtype);
  for (const char *d = dims; *d; d++)
    ptc_str_printf(out, "%s%c=%d", d == dims ? "" : ", ", *d, (int)s->extent[*d - 'a']);
  ptc_str_append(out, "]");
}

static void append_input(ptc_str_t *out, const spec_t *s, const char *name, const char *dtype,
                         const char *dims) {
  ptc_str_printf(out, "input @%s : ", name);
  append_type(out, s, dtype, dims);
  ptc_str_append(out, "\n");
}

// Dims of the scores, of a row, of out.
static void derive(const spec_t *s, char *scores, char *rows, char *out) {
  int n = 0, r = 0, o = 0;
  for (const char *d = s->q; *d; d++)
    if (*d != 'k') scores[n++] = *d;
  for (const char *d = s->key; *d; d++)
    if (*d != 'k' && !has(s->q, *d)) scores[n++] = *d;
  scores[n] = 0;
  for (int i = 0; i < n; i++)
    if (scores[i] != 't') rows[r++] = out[o++] = scores[i];
  rows[r] = out[o] = 0;
  for (const char *d = s->val; *d; d++)
    if (*d != 't' && !has(rows, *d)) out[o++] = *d;
  out[o] = 0;
}

static void append_mask(ptc_str_t *out, const spec_t *s) {
  if (!s->mask[0] || strcmp(s->mask, "tensor") == 0) return;
  ptc_str_printf(out, "  %%it = iota {dim = t} : i32[t=%d]\n  %%is = iota {dim = s} : i32[s=%d]\n",
                 (int)s->extent['t' - 'a'], (int)s->extent['s' - 'a']);
  const bool causal = strcmp(s->mask, "causal") == 0;
  ptc_str_printf(out, "  %%%s = le %%it, %%is\n", causal ? "mask" : "before");
  if (strcmp(s->mask, "window") == 0)
    ptc_str_append(out,
                   "  %width = constant {value = 17} : i32[]\n  %far = sub %is, %it\n"
                   "  %near = lt %far, %width\n  %mask = and %before, %near\n");
  if (strcmp(s->mask, "prefix") == 0)
    ptc_str_append(out, "  %in = lt %it, %prefix\n  %mask = or %before, %in\n");
  if (strcmp(s->mask, "doc") == 0)
    ptc_str_append(out, "  %same = eq %doct, %docs\n  %mask = and %before, %same\n");
}

// The program: every operand is an input; out, lse and all gradients are results.
static void append_program(ptc_str_t *out, const spec_t *s) {
  char scores[16], rows[16], out_dims[16];
  derive(s, scores, rows, out_dims);
  const bool mask = s->mask[0], tensor = strcmp(s->mask, "tensor") == 0;
  ptc_str_append(out, "module \"t\"\n");
  append_input(out, s, "q", s->dtype, s->q);
  append_input(out, s, "key", s->dtype, s->key);
  append_input(out, s, "val", s->dtype, s->val);
  append_input(out, s, "dout", s->dtype, out_dims);
  append_input(out, s, "bias", s->bias_dtype, s->bias);
  append_input(out, s, "prefix", "i32", has(scores, 'b') ? "b" : "");
  append_input(out, s, "doct", "i32", has(scores, 'b') ? "bt" : "t");
  append_input(out, s, "docs", "i32", has(scores, 'b') ? "bs" : "s");
  append_input(out, s, "mask", "bool", scores);
  ptc_str_append(out,
                 "setting @seed : i64[] {value = 5}\ncounter @step : i64[] {value = 2}\n"
                 "input @turn : i32[]\n"
                 "func @f(%q = @q, %key = @key, %val = @val, %dout = @dout, %bias = @bias, "
                 "%prefix = @prefix, %doct = @doct, %docs = @docs, ");
  ptc_str_printf(out, "%%%s = @mask, %%seed = @seed, %%step = @step, %%turn = @turn) {\n",
                 tensor ? "mask" : "unused");
  append_mask(out, s);
  ptc_str_t operands = {0}, attrs = {0};
  ptc_str_printf(&operands, "%%q, %%key, %%val%s%s", mask ? ", %mask" : "",
                 s->bias[0] ? ", %bias" : "");
  ptc_str_printf(&attrs, "{attend = t, dot = k, scale = %g%s%s", s->scale,
                 mask ? ", mask = true" : "", s->bias[0] ? ", bias = true" : "");
  if (s->softcap > 0) ptc_str_printf(&attrs, ", softcap = %g", s->softcap);
  if (s->p > 0) ptc_str_printf(&attrs, ", p = %g, path = \"block.*.attn\"", s->p);
  ptc_str_append(&attrs, "}");
  const char *random = s->p > 0 ? ", %seed, %step, %turn" : "";
  ptc_str_printf(out, "  %%out, %%lse = attention %s%s %s\n", operands.data, random, attrs.data);
  ptc_str_printf(out, "  %%dq, %%dkey, %%dval%s = attention_grad %s, %%out, %%lse, %%dout%s %s\n",
                 s->bias[0] ? ", %dbias" : "", operands.data, random, attrs.data);
  ptc_str_printf(out,
                 "  return output \"out\" = %%out, output \"lse\" = %%lse, output \"dq\" = %%dq, "
                 "output \"dkey\" = %%dkey, output \"dval\" = %%dval%s\n}\n",
                 s->bias[0] ? ", output \"dbias\" = %dbias" : "");
  ptc_str_deinit(&operands);
  ptc_str_deinit(&attrs);
}

// --- data

static double uniform(uint64_t *random) {
  return (double)(unit_random(random) >> 11) * 0x1p-52 - 1;
}

static void fill(interp_case_t *c, uint64_t *random) {
  for (int64_t g = 0; g < c->module->num_globals; g++) {
    const ptc_global_t *global = c->module->globals[g];
    if (global->kind != PTC_GLOBAL_INPUT) continue;
    ptc_tensor_t *tensor = ptc_interp_global(c->interp, global);
    for (int64_t i = 0; i < tensor->num_elements; i++) {
      const double x = uniform(random);
      const ptc_dtype_t dtype = global->type->dtype;
      tensor->data[i] = ptc_dtype_is_float(dtype) ? ptc_dtype_round(dtype, x)
                        : dtype == PTC_BOOL       ? x > -0.5
                                                  : floor(3 * (x + 1));
    }
  }
}

// --- the kernels of attention ops

// What |value| holds: an input, or a result of the last run. NULL if neither.
static const double *data_of(const interp_case_t *c, const ptc_value_t *value) {
  const ptc_func_t *func = c->module->funcs;
  for (int32_t i = 0; i < func->body->num_args; i++)
    if (func->body->args[i] == value)
      return ptc_interp_global(c->interp, func->arg_globals[i])->data;
  const ptc_op_t *end = ptc_func_return(func);
  for (int32_t i = 0; i < end->num_operands; i++)
    if (end->operands[i] == value) return ptc_interp_result(c->interp, i)->data;
  return NULL;
}

static ptc_op_t *find_op(interp_case_t *c, ptc_opcode_t opcode) {
  ptc_op_t *op = c->module->funcs->body->first;
  while (op && op->opcode != opcode) op = op->next;
  return op;
}

typedef struct attention_run_s {
  kernel_set_t *set;
  ptc_built_kernel_t built;
  ptc_arena_t arena;
  void **buffers;  // one per parameter, of exactly its size
} attention_run_t;

static int64_t elements_of(const ptc_kernel_t *kernel, int32_t param) {
  int64_t count = 1;
  for (int32_t i = 0; i < kernel->params[param].num_dims; i++)
    count *= kernel->params[param].extents[i];
  return count;
}

static size_t bytes_of(const ptc_kernel_t *kernel, int32_t param) {
  return (size_t)(elements_of(kernel, param) * ptc_dtype_bytes(kernel->params[param].dtype));
}

// Builds the kernel of |opcode|; the ops before it, which make the mask, are computed inside.
static bool open_run(attention_run_t *run, interp_case_t *c, ptc_opcode_t opcode) {
  *run = (attention_run_t){0};
  ptc_op_t *op = find_op(c, opcode);
  for (ptc_op_t *other = c->module->funcs->body->first; other; other = other->next)
    if (other->opcode != PTC_OP_ATTENTION && other->opcode != PTC_OP_ATTENTION_GRAD &&
        other->opcode != PTC_OP_RETURN)
      ptc_attrs_set_bool(c->module, &other->attrs, "inline", true);
  ptc_attrs_set_int(c->module, &op->attrs, "kernel", 1);
  if (ptc_build_kernel(&c->diag, &run->arena, "k1_attention", &op, 1, &run->built) != PTC_OK ||
      ptc_kernel_verify(&c->diag, run->built.kernel) != PTC_OK) {
    ptc_diag_print(&c->diag, stderr, PTC_DIAG_TEXT, false);
    return false;
  }
  const ptc_kernel_t *kernel = run->built.kernel;
  run->set = kernel_set_create(&c->diag);
  if (kernel_set_add(run->set, kernel) < 0 ||
      !kernel_set_build(run->set, getenv("PTC_KERNEL_CFLAGS")))
    return false;
  run->buffers = ptc_xmalloc(sizeof(void *) * (size_t)(kernel->num_params + 1));
  for (int32_t i = 0; i < kernel->num_params; i++)
    run->buffers[i] = ptc_xmalloc(bytes_of(kernel, i) + 1);
  return true;
}

static void close_run(attention_run_t *run) {
  for (int32_t i = 0; run->buffers && i < run->built.kernel->num_params; i++) free(run->buffers[i]);
  free(run->buffers);
  if (run->set) kernel_set_free(run->set);
  ptc_arena_deinit(&run->arena);
}

static void set_inputs(attention_run_t *run, interp_case_t *c) {
  for (int32_t i = 0; i < run->built.kernel->num_params; i++)
    if (run->built.kernel->params[i].mode == PTC_KPARAM_IN) {
      const double *data = data_of(c, run->built.values[i]);
      UNIT_CHECK(data != NULL, "an operand is an input");
      const ptc_kernel_t *kernel = run->built.kernel;
      if (data) kernel_pack(kernel->params[i].dtype, data, elements_of(kernel, i), run->buffers[i]);
    }
}

static double largest(const double *x, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++)
    if (isfinite(x[i])) most = fmax(most, fabs(x[i]));
  return most;
}

static double storage_error(ptc_dtype_t dtype, double x) {
  if (dtype == PTC_BF16) return 0x1p-7 * fabs(x);
  if (dtype == PTC_F16) return 0x1p-10 * fabs(x) + 0x1p-24;
  return 0x1p-23 * fabs(x);
}

// Runs the kernel in order and in random orders, and compares with the interpreter. |amplify|: how much an
// error of one rounding can grow.
static void check_run(attention_run_t *run, interp_case_t *c, double amplify, uint64_t *random,
                      const char *row) {
  const ptc_kernel_t *kernel = run->built.kernel;
  set_inputs(run, c);
  const int64_t turns[PTC_MAX_COUNTS] = {0};
  UNIT_CHECK(kernel_set_run(run->set, 0, run->buffers, turns, 0) == 0, row);
  for (int32_t i = 0; i < kernel->num_params; i++) {
    if (kernel->params[i].mode == PTC_KPARAM_IN) continue;
    const int64_t count = elements_of(kernel, i);
    const double *wanted = data_of(c, run->built.values[i]);
    double *got = ptc_xmalloc(sizeof(double) * (size_t)(count + 1));
    kernel_unpack(kernel->params[i].dtype, run->buffers[i], count, got);
    const double scale = 1 + largest(wanted, count);
    int64_t worst = -1;
    double most = 1;
    for (int64_t e = 0; e < count; e++) {
      double error = fabs(got[e] - wanted[e]);
      if (got[e] == wanted[e] || (isnan(got[e]) && isnan(wanted[e]))) continue;
      error /= 0x1p-22 * amplify * scale + storage_error(kernel->params[i].dtype, wanted[e]);
      if (error <= most) continue;
      most = error;
      worst = e;
    }
    if (worst >= 0)
      fprintf(stderr, "%s: %s[%d] is %.9g, not %.9g (%.2f of the bound)\n", row,
              kernel->params[i].name, (int)worst, got[worst], wanted[worst], most);
    UNIT_CHECK(worst < 0, row);
    free(got);
  }
  // The same bits whatever the order of tiles.
  for (int round = 0; round < 2; round++) {
    void *old[PTC_KERNEL_MAX_PARAMS] = {NULL};
    for (int32_t i = 0; i < kernel->num_params; i++) {
      if (kernel->params[i].mode == PTC_KPARAM_IN) continue;
      const size_t bytes =
          (size_t)(elements_of(kernel, i) * ptc_dtype_bytes(kernel->params[i].dtype));
      old[i] = ptc_xmalloc(bytes + 1);
      memcpy(old[i], run->buffers[i], bytes);
      memset(run->buffers[i], 0xff, bytes);
    }
    UNIT_CHECK(kernel_set_run(run->set, 0, run->buffers, turns, unit_random(random) | 1) == 0, row);
    for (int32_t i = 0; i < kernel->num_params; i++) {
      if (!old[i]) continue;
      const size_t bytes =
          (size_t)(elements_of(kernel, i) * ptc_dtype_bytes(kernel->params[i].dtype));
      UNIT_CHECK(memcmp(old[i], run->buffers[i], bytes) == 0, row);
      free(old[i]);
    }
  }
}

// Scores are sums of products of numbers up to 1, and so is P's gradient.
static double amplification(const spec_t *s, bool grad) {
  const double score = 1 + fabs(s->scale) * (double)s->extent['k' - 'a'];
  double own = 1;
  for (const char *d = s->val; grad && *d; d++)
    if (*d == 'k' || *d == 'w' || *d == 'x') own *= (double)s->extent[*d - 'a'];
  return score * (grad ? 1 + own / 4 : 1);
}

static void check_spec(const spec_t *s, const char *row, uint64_t *random,
                       void (*change)(interp_case_t *c)) {
  ptc_str_t text = {0};
  append_program(&text, s);
  interp_case_t *c = interp_case_open(text.data, PTC_INTERP_TYPED);
  UNIT_CHECK(c != NULL, row);
  if (!c) return;
  fill(c, random);
  if (change) change(c);
  UNIT_CHECK(ptc_interp_run(c->interp, "f") == PTC_OK, row);
  static const ptc_opcode_t opcodes[] = {PTC_OP_ATTENTION, PTC_OP_ATTENTION_GRAD};
  for (int i = 0; i < 2; i++) {
    attention_run_t run;
    const unsigned failures = CU_get_number_of_failure_records();
    const bool open = open_run(&run, c, opcodes[i]);
    UNIT_CHECK(open, row);
    if (open) check_run(&run, c, amplification(s, i == 1), random, row);
    if (CU_get_number_of_failure_records() > failures)
      fprintf(stderr, "%s: q[%s] key[%s] val[%s] bias[%s] mask %s\n%s\n", row, s->q, s->key, s->val,
              s->bias, s->mask, text.data);
    close_run(&run);
  }
  interp_case_close(c);
  ptc_str_deinit(&text);
}

// --- random cases

static int64_t pick(uint64_t *random, int64_t low, int64_t high) {
  return low + (int64_t)(unit_random(random) % (uint64_t)(high - low + 1));
}

static void shuffle(char *dims, uint64_t *random) {
  for (int64_t i = (int64_t)strlen(dims) - 1; i > 0; i--) {
    const int64_t j = pick(random, 0, i);
    const char other = dims[j];
    dims[j] = dims[i];
    dims[i] = other;
  }
}

// b, e: batch dims; s, g: query positions and groups; n: heads; t, k, w, x: attended, dotted, val's own.
static spec_t random_spec(uint64_t *random) {
  static const char *const q[] = {"bsnk", "bsngk", "snk", "sk", "bsgk", "bsngk"};
  static const char *const key[] = {"btnk", "btnk", "btnk", "btk", "btk", "tk"};
  static const char *const val[] = {"btnk", "btnw", "btnwx", "btw", "btgw", "bntw"};
  static const char *const masks[] = {"", "causal", "window", "prefix", "doc", "tensor"};
  spec_t s = {.scale = 0.25, .dtype = "f32", .bias_dtype = "f32"};
  const int64_t form = pick(random, 0, 5);
  snprintf(s.q, sizeof s.q, "%s", q[form]);
  snprintf(s.key, sizeof s.key, "%s", key[form]);
  snprintf(s.val, sizeof s.val, "%s", val[form]);
  shuffle(s.q, random);
  shuffle(s.key, random);
  shuffle(s.val, random);
  for (int i = 0; i < 26; i++) s.extent[i] = pick(random, 1, 3);
  s.extent['s' - 'a'] = pick(random, 1, pick(random, 0, 1) ? 20 : 150);
  s.extent['t' - 'a'] = pick(random, 1, pick(random, 0, 1) ? 20 : 210);
  s.extent['k' - 'a'] = pick(random, 1, 40);
  s.extent['w' - 'a'] = pick(random, 1, 40);
  snprintf(s.mask, sizeof s.mask, "%s", masks[pick(random, 0, 5)]);
  char scores[16], rows[16], out[16];
  derive(&s, scores, rows, out);
  if (pick(random, 0, 1)) {
    int n = 0;
    shuffle(scores, random);
    for (const char *d = scores; *d; d++)
      if (pick(random, 0, 1)) s.bias[n++] = *d;
  }
  if (pick(random, 0, 2) == 0) s.softcap = 1.5;
  if (pick(random, 0, 2) == 0) s.p = 0.3;
  static const char *const dtypes[] = {"f32", "f32", "bf16", "f16"};
  s.dtype = dtypes[pick(random, 0, 3)];
  s.bias_dtype = dtypes[pick(random, 0, 3)];
  return s;
}

static void test_random(void) {
  uint64_t random = unit_seed();
  const char *wanted = getenv("PTC_CASES");
  const int cases = wanted ? atoi(wanted) : 1;
  for (int i = 0; i < cases; i++) {
    char row[32];
    snprintf(row, sizeof row, "case %d", i);
    const spec_t s = random_spec(&random);
    check_spec(&s, row, &random, NULL);
  }
}

// --- numbers that are not finite

static void spoil(interp_case_t *c) {
  double *val = interp_case_global(c, "val"), *key = interp_case_global(c, "key");
  // Positions near the end, which early rows do not attend to.
  const int64_t row = 8;
  val[95 * row + 1] = NAN;
  val[101 * row + 2] = INFINITY;
  key[119 * row + 3] = INFINITY;
}

static void test_not_finite(void) {
  spec_t s = {.q = "sk",
              .key = "tk",
              .val = "tw",
              .mask = "causal",
              .scale = 0.5,
              .dtype = "f32",
              .bias_dtype = "f32"};
  for (int i = 0; i < 26; i++) s.extent[i] = 1;
  s.extent['s' - 'a'] = s.extent['t' - 'a'] = 121;  // two blocks of keys
  s.extent['k' - 'a'] = s.extent['w' - 'a'] = 8;
  uint64_t random = 11;
  check_spec(&s, "not finite", &random, spoil);
}

// What the printers do not know is refused with its name.
static void test_unsupported(void) {
  spec_t s = {.q = "sk", .key = "tk", .val = "tw", .scale = 1, .dtype = "f64", .bias_dtype = "f32"};
  for (int i = 0; i < 26; i++) s.extent[i] = 2;
  ptc_str_t text = {0};
  append_program(&text, &s);
  interp_case_t *c = interp_case_open(text.data, PTC_INTERP_TYPED);
  CU_ASSERT_FATAL(c != NULL);
  static const ptc_opcode_t opcodes[] = {PTC_OP_ATTENTION, PTC_OP_ATTENTION_GRAD};
  for (int i = 0; i < 2; i++) {
    ptc_op_t *op = find_op(c, opcodes[i]);
    ptc_arena_t arena = {0};
    ptc_built_kernel_t built;
    ptc_attrs_set_int(c->module, &op->attrs, "kernel", 1);
    CU_ASSERT_EQUAL(ptc_build_kernel(&c->diag, &arena, "k1", &op, 1, &built), PTC_OK);
    ptc_str_t source = {0};
    ptc_kernel_shape_t shape;
    const ptc_c_target_t target = {.march = "native"};
    CU_ASSERT_EQUAL(ptc_codegen_c(&c->diag, &arena, built.kernel, &target, &source, &shape),
                    PTC_INVALID_INPUT);
    CU_ASSERT_STRING_EQUAL(interp_case_id(c), "codegen-unsupported");
    ptc_str_deinit(&source);
    ptc_arena_deinit(&arena);
  }
  interp_case_close(c);
  ptc_str_deinit(&text);
}

static const unit_test_t tests[] = {
    {"unsupported", test_unsupported},
    {"random", test_random},
    {"not finite", test_not_finite},
};
UNIT_MAIN("c_attention", tests)

// Proves: an op whose working dim is sharded, rewritten into its split form and executed on all devices, gives
// what the op gives on one: random shapes and meshes, extents that do not divide, 16-bit and wider floats,
// ignored targets, special values. Of cross entropy, three collectives of rows and no other leave a device.
#include "passes/split_forms.h"

#include <math.h>
#include <stdlib.h>

#include "ir/axes.h"
#include "ir/builder.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/interp_case.h"
#include "tests/support/unit.h"

// Operands: types with $ for the dtype and extents to be filled in by name; what data they take, by letter: n normal,
// x with special values, p positive, i an index of v, t a target of v or negative.
typedef struct row_s {
  const char *op, *attrs, *operands, *data, *result;
} row_t;

static const row_t rows[] = {
    {"softmax", "over = [v]", "$[b, v]", "n", NULL},
    {"softmax", "over = [s, v]", "$[v, b, s]", "n", NULL},
    {"softmax_grad", "over = [v]", "$[b, v]; $[v, b]", "nn", NULL},
    {"layernorm", "over = [v], eps = 1e-5", "$[b, s, v]", "n", NULL},
    {"layernorm", "over = [v, s], eps = 1e-5", "$[s, b, v]", "n", NULL},
    {"layernorm_grad", "over = [v]", "$[b, v]; #[b]; #[b]; $[v, b]", "nnpn", NULL},
    {"rmsnorm", "over = [v], eps = 1e-5", "$[v, b]", "n", NULL},
    {"rmsnorm_grad", "over = [v]", "$[b, v]; #[b]; $[b, v]", "npn", NULL},
    {"cross_entropy", "dim = v", "$[b, s, v]; i32[s, b]", "nt", NULL},
    {"cross_entropy", "dim = v", "$[v, b]; i64[b]", "nt", NULL},
    {"cross_entropy_grad", "dim = v", "$[b, v]; i32[b]; #[b]; #[b]", "ntpn", NULL},
    {"argmax", "dim = v", "$[b, v]", "x", NULL},
    {"all_finite", "", "$[b, v]", "x", NULL},
    {"all_finite", "", "$[b, v]", "n", NULL},
    {"gather", "dims = [v]", "$[v, d]; i32[b, s]", "ni", NULL},
    {"gather", "dims = [v], fill = 0.0", "$[d, v]; i64[b]", "nt", NULL},
    {"gather", "dims = [v, s]", "$[v, d, s]; i32[b]; i32[b]", "n00", NULL},
    {"scatter_add", "dims = [v], result = [v, d], extents = [V, D]", "$[b, s, d]; i32[b, s]", "nt",
     "v"},
};
enum { NUM_ROWS = sizeof(rows) / sizeof(rows[0]), NUM_NAMES = 4, MAX_OPERANDS = 4 };

static const char names[NUM_NAMES + 1] = "bsvd";

typedef struct case_s {
  const row_t *row;
  ptc_dtype_t dtype;
  int64_t extent[NUM_NAMES];
  const char *mesh, *axes[NUM_NAMES];  // the axes of the dims, "" for none
  char label[256];
} case_t;

static uint64_t below(uint64_t *random, uint64_t bound) { return unit_random(random) % bound; }

static void draw_case(case_t *c, const row_t *row, uint64_t *random) {
  static const ptc_dtype_t dtypes[] = {PTC_F32, PTC_BF16, PTC_F16, PTC_F64};
  static const struct {
    const char *mesh, *v, *b, *s;
  } meshes[] = {{"\"tp\"=4", "tp", "", ""},
                {"\"dp\"=2, \"tp\"=3", "tp", "dp", ""},
                {"\"cp\"=2, \"tp\"=2", "cp tp", "", ""},
                {"\"cp\"=2, \"tp\"=2", "tp", "", "cp"},
                {"\"tp\"=6", "tp:1:3", "tp:3:2", ""}};
  const int m = (int)below(random, 5);
  *c = (case_t){.row = row, .dtype = dtypes[below(random, 4)], .mesh = meshes[m].mesh};
  for (int i = 0; i < NUM_NAMES; i++) c->extent[i] = 1 + (int64_t)below(random, 9);
  c->extent[2] = below(random, 3) ? 1 + (int64_t)below(random, 60) : 43;
  const char *axes[] = {meshes[m].b, meshes[m].s, meshes[m].v, ""};
  for (int i = 0; i < NUM_NAMES; i++) c->axes[i] = axes[i];
  snprintf(c->label, sizeof c->label, "%s %s %s [%s] b=%d s=%d v=%d d=%d", row->op, row->operands,
           ptc_dtype_name(c->dtype), c->mesh, (int)c->extent[0], (int)c->extent[1],
           (int)c->extent[2], (int)c->extent[3]);
}

// The program of one device, on a mesh.
static void print_program(const case_t *c, ptc_str_t *out) {
  ptc_str_printf(out, "module \"m\"\nmesh [%s]\n", c->mesh);
  int count = 0;
  bool starts = true, inside = false;
  for (const char *at = c->row->operands; *at; at++) {
    if (starts && *at != ' ') ptc_str_printf(out, "input @x%d : ", count++);
    starts = *at == ';' || (starts && *at == ' ');
    inside = *at == '[' || (inside && *at != ']');
    const char *name = strchr(names, *at);
    if (*at == '$')
      ptc_str_append(out, ptc_dtype_name(c->dtype));
    else if (*at == '#')
      ptc_str_append(out, c->dtype == PTC_F64 ? "f64" : "f32");
    else if (*at == ';')
      ptc_str_append(out, "\n");
    else if (inside && name)
      ptc_str_printf(out, "%c=%d", *at, (int)c->extent[name - names]);
    else if (!starts)
      ptc_str_append_n(out, at, 1);
  }
  ptc_str_append(out, "\nfunc @f(");
  for (int i = 0; i < count; i++) ptc_str_printf(out, "%s%%x%d = @x%d", i ? ", " : "", i, i);
  ptc_opcode_t opcode = PTC_OP_NEG;
  ptc_opcode_parse(c->row->op, &opcode);
  const int results = ptc_op_info(opcode)->num_results;
  ptc_str_append(out, ") {\n  ");
  for (int i = 0; i < results; i++) ptc_str_printf(out, "%s%%y%d", i ? ", " : "", i);
  ptc_str_printf(out, " = %s ", c->row->op);
  for (int i = 0; i < count; i++) ptc_str_printf(out, "%s%%x%d", i ? ", " : "", i);
  ptc_str_append(out, " {");
  for (const char *at = c->row->attrs; *at; at++) {
    if (*at == 'V' || *at == 'D')
      ptc_str_printf(out, "%d", (int)c->extent[*at == 'V' ? 2 : 3]);
    else
      ptc_str_append_n(out, at, 1);
  }
  ptc_str_append(out, "}\n  return ");
  for (int i = 0; i < results; i++)
    ptc_str_printf(out, "%soutput \"y%d\" = %%y%d", i ? ", " : "", i, i);
  ptc_str_append(out, "\n}\n");
}

// --- sharding and rewriting

static const ptc_type_t *sharded(const case_t *c, ptc_module_t *module, const ptc_type_t *type) {
  ptc_dim_t dims[PTC_MAX_DIMS];
  for (int32_t d = 0; d < type->num_dims; d++) {
    dims[d] = type->dims[d];
    const char *axes = c->axes[strchr(names, dims[d].name[0]) - names];
    // In two ways: v is looked up, so an index may not lie on its axes.
    ptc_axis_ref_t *refs = PTC_ARENA_ARRAY(&module->arena, ptc_axis_ref_t, PTC_MAX_AXES);
    int32_t count = 0;
    if (*axes) ptc_axes_parse(module, axes, refs, &count);
    dims[d].axes = refs;
    dims[d].num_axes = count;
  }
  return ptc_type_new(&module->arena, type->dtype, dims, type->num_dims);
}

static ptc_value_t *summed(ptc_builder_t *b, ptc_value_t *x) {
  if (!x || !x->type->num_partial) return x;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_string(b->module, &attrs, "axes",
                       ptc_axes_text(b->module, x->type->partial, x->type->num_partial));
  ptc_op_t *op = ptc_build_op(b, PTC_OP_ALL_REDUCE, &x, 1, 1, attrs);
  return op ? op->results[0] : NULL;
}

// Gives the inputs their shardings and puts the split form in the place of the op. False on failure.
static bool split(const case_t *c, ptc_module_t *module) {
  ptc_func_t *func = module->funcs;
  ptc_op_t *op = func->body->first;
  const ptc_type_t *types[MAX_OPERANDS], *due[4] = {NULL};
  for (int64_t i = 0; i < module->num_globals; i++) {
    types[i] = sharded(c, module, module->globals[i]->type);
    module->globals[i]->type = types[i];
    func->body->args[i]->type = types[i];
  }
  ptc_builder_t b = ptc_builder_before(module, op);
  ptc_value_t *results[4] = {NULL};
  if (op->opcode == PTC_OP_CROSS_ENTROPY_GRAD) {
    op->results[0]->type = types[0];
    return !ptc_has_split_form(op, types) && ptc_module_verify(module) == PTC_OK;
  }
  if (c->row->result) {
    ptc_axis_ref_t axes[PTC_MAX_AXES];
    int32_t count;
    const char dim[] = {c->row->result[0], '\0'};
    ptc_axes_parse(module, c->axes[2], axes, &count);
    results[0] = ptc_split_scatter_add(&b, op, ptc_module_intern(module, dim), axes, count);
  } else {
    if (!ptc_has_split_form(op, types)) return false;
    ptc_split_form_types(module, op, types, due);
    if (ptc_split_form(&b, op, results) != PTC_OK) return false;
    for (int32_t i = 0; i < op->num_results; i++)
      if (!ptc_type_equal(results[i]->type, due[i])) return false;
  }
  ptc_op_t *ret = ptc_func_return(func);
  for (int32_t i = 0; i < op->num_results; i++) {
    ret->operands[i] = summed(&b, results[i]);
    if (!ret->operands[i]) return false;
  }
  ptc_op_remove(op);
  return ptc_module_verify(module) == PTC_OK;
}

// --- data and comparison

static double datum(const case_t *c, char kind, uint64_t *random) {
  static const double specials[] = {INFINITY, -INFINITY, NAN, 1, 1, -1};
  const double u = (double)below(random, 1 << 24) * 0x1p-24;
  switch (kind) {
    case 'x':
      if (u < 0.02) return specials[below(random, 6)];
      return floor(u * 40);  // ties
    case 'p': return 0.2 + u;
    case 'i': return floor(u * (double)c->extent[2]);
    case 't': return u < 0.2 ? -1 - floor(u * 100) : floor(u * (double)c->extent[2]);
    case '0': return 0;
    default: return (u - 0.5) * 6;
  }
}

// A mean that is rounded to f32 shows where the elements of a short row are nearly equal.
static double eps_of(const case_t *c, ptc_interp_mode_t mode) {
  if (mode == PTC_INTERP_EXACT || c->dtype == PTC_F64) return 1e-11;
  if (c->dtype != PTC_F32) return c->dtype == PTC_F16 ? 0x1p-9 : 0x1p-6;
  return strcmp(c->row->op, "layernorm") == 0 ? 1e-3 : 3e-6;
}

static void compare(const case_t *c, ptc_interp_t *got, ptc_interp_t *want, int32_t result,
                    ptc_interp_mode_t mode) {
  const ptc_tensor_t *y = ptc_interp_result(want, result);
  double *whole = malloc((size_t)(y->num_elements + 1) * sizeof(double)), most = 1;
  UNIT_CHECK(ptc_interp_get_result(got, result, whole) == PTC_OK, c->label);
  for (int64_t i = 0; i < y->num_elements; i++)
    if (isfinite(y->data[i]) && fabs(y->data[i]) > most) most = fabs(y->data[i]);
  int wrong = 0;
  for (int64_t i = 0; i < y->num_elements; i++) {
    const bool same = interp_near(whole[i], y->data[i], eps_of(c, mode) * most);
    if (!same && !wrong++)
      fprintf(stderr, "%s: y%d[%d] is %.9g, want %.9g\n", c->label, (int)result, (int)i, whole[i],
              y->data[i]);
  }
  UNIT_CHECK(wrong == 0, c->label);
  free(whole);
}

static int num_collectives(const ptc_module_t *module, int64_t *out_most) {
  int count = 0;
  *out_most = 0;
  for (const ptc_op_t *op = module->funcs->body->first; op; op = op->next) {
    if (!ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE)) continue;
    count++;
    const int64_t size = ptc_type_num_elements(op->results[0]->type);
    if (size > *out_most) *out_most = size;
  }
  return count;
}

static void run_case(const case_t *c, uint64_t *random) {
  ptc_str_t text = {0};
  print_program(c, &text);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *whole = NULL, *parts = NULL;
  bool ok = ptc_module_parse(&diag, "m", text.data, text.len, &whole) == PTC_OK &&
            ptc_module_parse(&diag, "m", text.data, text.len, &parts) == PTC_OK;
  ok = ok && split(c, parts);
  UNIT_CHECK(ok, c->label);
  if (!ok) {
    fprintf(stderr, "%s\n%s", c->label, text.data);
    ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  }
  int64_t most;
  if (ok && strcmp(c->row->op, "cross_entropy") == 0) {
    UNIT_CHECK(num_collectives(parts, &most) == 3, c->label);
    const ptc_type_t *rows_type = whole->funcs->body->first->results[0]->type;
    UNIT_CHECK(most == ptc_type_num_elements(rows_type), c->label);
  }
  for (int mode = PTC_INTERP_EXACT; ok && mode <= PTC_INTERP_TYPED; mode++) {
    ptc_interp_t *want = ptc_interp_create(whole, (ptc_interp_mode_t)mode);
    ptc_interp_t *got = ptc_interp_create(parts, (ptc_interp_mode_t)mode);
    for (int64_t g = 0; g < whole->num_globals; g++) {
      const ptc_type_t *type = whole->globals[g]->type;
      ptc_tensor_t *x = ptc_interp_global(want, whole->globals[g]);
      for (int64_t i = 0; i < x->num_elements; i++)
        x->data[i] = ptc_dtype_round(type->dtype, datum(c, c->row->data[g], random));
      ptc_interp_set(want, whole->globals[g], x->data);
      ptc_interp_set(got, parts->globals[g], x->data);
    }
    ok = ptc_interp_run(want, "f") == PTC_OK && ptc_interp_run(got, "f") == PTC_OK;
    UNIT_CHECK(ok, c->label);
    if (!ok) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
    for (int32_t r = 0; ok && r < whole->funcs->num_results; r++)
      compare(c, got, want, r, (ptc_interp_mode_t)mode);
    ptc_interp_destroy(want);
    ptc_interp_destroy(got);
  }
  if (whole) ptc_module_destroy(whole);
  if (parts) ptc_module_destroy(parts);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&text);
}

static void test_ops(void) {
  uint64_t random = unit_seed();
  const char *given = getenv("PTC_CASES");
  const int cases = given ? atoi(given) : 12;
  for (int r = 0; r < NUM_ROWS; r++)
    for (int i = 0; i < cases; i++) {
      case_t c;
      draw_case(&c, &rows[r], &random);
      run_case(&c, &random);
    }
}

// What has no split form, and what needs none.
static void test_none(void) {
  static const char text[] =
      "module \"m\"\nmesh [\"tp\"=2]\ninput @x : f32[b=4, v=6]\ninput @i : i32[b=4]\n"
      "func @f(%x = @x, %i = @i) {\n  %0 = softmax %x {over = [v]}\n"
      "  %1 = cumsum %x {dim = v}\n  %2 = gather %x, %i {dims = [v], fill = 1.0}\n"
      "  return output \"a\" = %0, output \"b\" = %1, output \"c\" = %2\n}\n";
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_module_parse(&diag, "m", text, strlen(text), &module), PTC_OK);
  const ptc_op_t *softmax = module->funcs->body->first, *scan = softmax->next;
  const ptc_axis_ref_t tp = {.axis = ptc_module_intern(module, "tp")};
  const ptc_type_t *whole = softmax->operands[0]->type, *index = scan->next->operands[1]->type;
  for (int d = 0; d < 2; d++) {
    ptc_dim_t dims[] = {whole->dims[0], whole->dims[1]};
    dims[d].axes = &tp;
    dims[d].num_axes = 1;
    const ptc_type_t *types[] = {ptc_type_new(&module->arena, PTC_F32, dims, 2), index};
    CU_ASSERT_EQUAL(ptc_has_split_form(softmax, types), d == 1);
    CU_ASSERT(!ptc_has_split_form(scan, types));
    CU_ASSERT(!ptc_has_split_form(scan->next, types));
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"ops", test_ops}, {"none", test_none}};
UNIT_MAIN("split forms", tests)

// Proves: the interpreter runs all devices of a mesh side by side. Whole tensors are cut into the parts of devices and
// put together again; every collective gives what plain arithmetic on whole tensors gives, for random shapes that need
// not divide, on random meshes of up to 8 devices, over axes, several axes and parts of axes; sums have the order of
// the members and round as stated. PTC_SEED, PTC_CASES (per collective).
#include <math.h>
#include <stdlib.h>

#include "ir/axes.h"
#include "tests/support/interp_case.h"
#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

#define NANV ((double)NAN)

static int64_t num_cases(void) {
  const char *text = getenv("PTC_CASES");
  return text ? strtoll(text, NULL, 10) : 300;
}

static int64_t pick(uint64_t *random, int64_t count) {
  return (int64_t)(unit_random(random) % (uint64_t)count);
}

// --- random layouts

// A mesh of at most 8 devices and the axes, or parts of axes, that a type may use, in random order.
typedef struct layout_s {
  char mesh[128];
  const char *refs[6];   // as in types: "a", or "a":1:2
  const char *names[6];  // as in lists: a, a:1:2
  int32_t num_refs;
} layout_t;

static void add_ref(layout_t *layout, const char *ref, const char *name) {
  layout->refs[layout->num_refs] = ref;
  layout->names[layout->num_refs++] = name;
}

static layout_t random_layout(uint64_t *random) {
  static const int64_t sizes[][3] = {{2, 2, 2}, {4, 2, 1}, {3, 2, 1}, {2, 3, 1}, {8, 1, 1},
                                     {5, 1, 1}, {2, 1, 2}, {4, 1, 2}, {1, 1, 1}, {7, 1, 1}};
  const int64_t *size = sizes[pick(random, 10)];
  layout_t layout = {.num_refs = 0};
  snprintf(layout.mesh, sizeof layout.mesh, "mesh [\"a\"=%lld, \"b\"=%lld, \"c\"=%lld]",
           (long long)size[0], (long long)size[1], (long long)size[2]);
  if (size[0] % 4 == 0 && pick(random, 2)) {
    add_ref(&layout, "\"a\":1:2", "a:1:2");
    add_ref(&layout, size[0] == 4 ? "\"a\":2:2" : "\"a\":2:4", size[0] == 4 ? "a:2:2" : "a:2:4");
  } else {
    add_ref(&layout, "\"a\"", "a");
  }
  add_ref(&layout, "\"b\"", "b");
  add_ref(&layout, "\"c\"", "c");
  for (int32_t i = layout.num_refs - 1; i > 0; i--) {
    int64_t j = pick(random, i + 1);
    const char *ref = layout.refs[i], *name = layout.names[i];
    layout.refs[i] = layout.refs[j], layout.names[i] = layout.names[j];
    layout.refs[j] = ref, layout.names[j] = name;
  }
  return layout;
}

// Entries [from, to) of |list|, each after a space but the first.
static const char *join(char out[128], const char *const *list, int32_t from, int32_t to) {
  out[0] = '\0';
  for (int32_t i = from; i < to; i++) {
    if (i > from) strcat(out, " ");
    strcat(out, list[i]);
  }
  return out;
}

static int64_t shards_of(const layout_t *layout, int32_t from, int32_t to) {
  int64_t shards = 1;
  for (int32_t i = from; i < to; i++) {
    long long part = 0, size[3];
    sscanf(layout->mesh, "mesh [\"a\"=%lld, \"b\"=%lld, \"c\"=%lld]", &size[0], &size[1], &size[2]);
    if (sscanf(layout->names[i], "a:%*d:%lld", &part) != 1) part = size[layout->names[i][0] - 'a'];
    shards *= part;
  }
  return shards;
}

// --- running

static void fill(uint64_t *random, double *data, int64_t count) {
  for (int64_t i = 0; i < count; i++) data[i] = (double)pick(random, 2001) - 1000;
}

static int64_t size_of(const ptc_type_t *type) {
  return ptc_type_num_elements(type) * ptc_type_num_instances(type);
}

// Runs @f of |text| with |x| as input @x; the whole of result 0, or NULL. The caller frees it.
static double *run(const char *text, const double *x, int64_t *out_count) {
  interp_case_t *c = interp_case_open(text, PTC_INTERP_TYPED);
  if (!c) return NULL;
  const ptc_func_t *f = ptc_module_find_func(c->module, ptc_module_intern(c->module, "f"));
  *out_count = size_of(ptc_func_return(f)->operands[0]->type);
  double *y = ptc_xmalloc((size_t)(*out_count + 1) * sizeof(double));
  ptc_interp_set(c->interp, c->module->globals[0], x);
  ptc_status_t status = ptc_interp_run(c->interp, "f");
  if (status == PTC_OK) status = ptc_interp_get_result(c->interp, 0, y);
  if (status != PTC_OK) {
    ptc_diag_print(&c->diag, stderr, PTC_DIAG_TEXT, false);
    free(y);
    y = NULL;
  }
  interp_case_close(c);
  return y;
}

static void expect(const char *text, const double *x, const double *want, int64_t num_want) {
  int64_t count = 0;
  double *y = run(text, x, &count);
  bool same = y && count == num_want && memcmp(y, want, (size_t)count * sizeof(double)) == 0;
  if (!same) printf("\n%s", text);
  UNIT_CHECK(same, "result");
  free(y);
}

// --- parts and wholes

static void test_whole(void) {
  uint64_t random = unit_seed();
  for (int64_t n = 0; n < num_cases(); n++) {
    layout_t layout = random_layout(&random);
    int32_t first = (int32_t)pick(&random, layout.num_refs + 1);
    int32_t second = first + (int32_t)pick(&random, layout.num_refs - first + 1);
    char a[128], b[128], text[512];
    int64_t A = pick(&random, 12), B = pick(&random, 5) + 1;
    snprintf(text, sizeof text,
             "module \"t\"\n%s\nparam @\"x.*\" turns (0:1) : 2 x f64[u=%lld %s%s, v=%lld %s]\n"
             "func @f(%%x = @\"x.*\" (0:1)) {\n  return state @\"x.*\" (0:1) = %%x\n}\n",
             layout.mesh, (long long)A, join(a, layout.refs, 0, first),
             first && pick(&random, 3) == 0 ? " zigzag" : "", (long long)B,
             join(b, layout.refs, first, second));
    double x[128], y[128];
    int64_t count = 2 * A * B;
    fill(&random, x, count);
    expect(text, x, x, count);
    // The state is the argument again.
    interp_case_t *c = interp_case_open(text, PTC_INTERP_EXACT);
    ptc_interp_set(c->interp, c->module->globals[0], x);
    UNIT_CHECK(ptc_interp_get(c->interp, c->module->globals[0], y) == PTC_OK, text);
    UNIT_CHECK(memcmp(x, y, (size_t)count * sizeof(double)) == 0, text);
    interp_case_close(c);
  }
}

// By hand: 5 elements over 3 devices are stored as 2, 2, 1 and one of padding.
static void test_parts(void) {
  interp_case_t *c = interp_case_open(
      "module \"t\"\nmesh [\"a\"=3, \"micro\"=2]\ninput @x : f64[u=5 \"a\"]\ninput @i : i32[u=5 "
      "\"a\"]\n"
      "func @f(%x = @x, %i = @i) {\n  return output \"x\" = %x\n}\n",
      PTC_INTERP_EXACT);
  CU_ASSERT_EQUAL_FATAL(ptc_interp_num_devices(c->interp), 3);
  const double whole[] = {1, 2, 3, 4, 5};
  static const double parts[3][2] = {{1, 2}, {3, 4}, {5, NAN}};
  for (int g = 0; g < 2; g++) {
    ptc_interp_set(c->interp, c->module->globals[g], whole);
    for (int d = 0; d < 3; d++) {
      const ptc_tensor_t *part = ptc_interp_global_on(c->interp, c->module->globals[g], d);
      CU_ASSERT_EQUAL_FATAL(part->num_elements, 2);
      CU_ASSERT_EQUAL(part->data[0], parts[d][0]);
      if (d < 2) CU_ASSERT_EQUAL(part->data[1], parts[d][1]);
    }
  }
  CU_ASSERT(isnan(ptc_interp_global_on(c->interp, c->module->globals[0], 2)->data[1]));
  CU_ASSERT_EQUAL(ptc_interp_global_on(c->interp, c->module->globals[1], 2)->data[1], 0);
  interp_case_close(c);
}

static void test_replicas(void) {
  interp_case_t *c = interp_case_open(
      "module \"t\"\nmesh [\"a\"=2, \"b\"=2]\nparam @w : f64[u=3 \"a\"]\n"
      "func @f(%w = @w) {\n  return state @w = %w\n}\n",
      PTC_INTERP_EXACT);
  double whole[] = {0, 2, 3};
  const ptc_global_t *w = c->module->globals[0];
  ptc_interp_set(c->interp, w, whole);
  // Device 1 holds what device 0 holds. A zero of another sign is another value.
  ptc_interp_global_on(c->interp, w, 1)->data[0] = -0.0;
  CU_ASSERT_EQUAL(ptc_interp_get(c->interp, w, whole), PTC_INTERNAL);
  CU_ASSERT_STRING_EQUAL(interp_case_id(c), "interp-replicas");
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  CU_ASSERT_EQUAL(ptc_interp_get_result(c->interp, 0, whole), PTC_INTERNAL);
  CU_ASSERT_PTR_NOT_NULL(strstr(c->diag.items[1].message, "\"w\""));
  // Padding may differ.
  double again[] = {0, 2, 3};
  ptc_interp_set(c->interp, w, again);
  ptc_interp_global_on(c->interp, w, 3)->data[1] = 7;
  CU_ASSERT_EQUAL(ptc_interp_get(c->interp, w, whole), PTC_OK);
  interp_case_close(c);
}

// --- collectives

static void test_all_gather(void) {
  uint64_t random = unit_seed();
  for (int64_t n = 0; n < num_cases(); n++) {
    layout_t layout = random_layout(&random);
    int32_t stay = (int32_t)pick(&random, layout.num_refs);
    int32_t end = stay + 1 + (int32_t)pick(&random, layout.num_refs - stay);
    int64_t A = pick(&random, 9), B = 1 + pick(&random, 3);
    if (stay) A *= shards_of(&layout, 0, end);
    char before[128], after[128], axes[128], other[128], text[1024];
    join(other, layout.refs, end, layout.num_refs);
    snprintf(text, sizeof text,
             "module \"t\"\n%s\ninput @x : f64[u=%lld %s, v=%lld %s]\nfunc @f(%%x = @x) {\n"
             "  %%y = all_gather %%x {axes = \"%s\", dim = u} : f64[u=%lld %s, v=%lld %s]\n"
             "  return output \"y\" = %%y\n}\n",
             layout.mesh, (long long)A, join(before, layout.refs, 0, end), (long long)B, other,
             join(axes, layout.names, stay, end), (long long)A, join(after, layout.refs, 0, stay),
             (long long)B, other);
    double x[512];
    fill(&random, x, A * B);
    expect(text, x, x, A * B);
  }
}

static void test_all_to_all(void) {
  uint64_t random = unit_seed();
  for (int64_t n = 0; n < num_cases(); n++) {
    layout_t layout = random_layout(&random);
    // Axes of u that stay; those that move; those of v.
    int32_t stay = (int32_t)pick(&random, layout.num_refs);
    int32_t end = stay + 1 + (int32_t)pick(&random, layout.num_refs - stay);
    int64_t A = pick(&random, 7), B = pick(&random, 7);
    if (stay) A *= shards_of(&layout, 0, end);
    if (end < layout.num_refs) B *= shards_of(&layout, stay, layout.num_refs);
    char before[128], moved[128], after[128], axes[128], other[128], text[1024];
    join(other, layout.refs, end, layout.num_refs);
    snprintf(text, sizeof text,
             "module \"t\"\n%s\ninput @x : f64[u=%lld %s, v=%lld %s]\nfunc @f(%%x = @x) {\n"
             "  %%y = all_to_all %%x {axes = \"%s\", from = u, to = v} :"
             " f64[u=%lld %s, v=%lld %s %s]\n"
             "  return output \"y\" = %%y\n}\n",
             layout.mesh, (long long)A, join(before, layout.refs, 0, end), (long long)B, other,
             join(axes, layout.names, stay, end), (long long)A, join(after, layout.refs, 0, stay),
             (long long)B, other, join(moved, layout.refs, stay, end));
    double *x = ptc_xmalloc((size_t)(A * B + 1) * sizeof(double));
    fill(&random, x, A * B);
    expect(text, x, x, A * B);
    free(x);
  }
}

// u has one element per member; v lies on the other axes.
static void test_ring_shift(void) {
  uint64_t random = unit_seed();
  for (int64_t n = 0; n < num_cases(); n++) {
    layout_t layout = random_layout(&random);
    const int32_t end = 1 + (int32_t)pick(&random, layout.num_refs);
    const int64_t A = shards_of(&layout, 0, end), B = pick(&random, 7);
    char on[128], axes[128], other[128], text[1024];
    snprintf(text, sizeof text,
             "module \"t\"\n%s\ninput @x : f64[u=%lld %s, v=%lld %s]\nfunc @f(%%x = @x) {\n"
             "  %%y = ring_shift %%x {axes = \"%s\", dim = u}\n  return output \"y\" = %%y\n}\n",
             layout.mesh, (long long)A, join(on, layout.refs, 0, end), (long long)B,
             join(other, layout.refs, end, layout.num_refs), join(axes, layout.names, 0, end));
    double x[512], y[512];
    fill(&random, x, A * B);
    for (int64_t i = 0; i < A * B; i++) y[(i + B) % (A * B)] = x[i];
    expect(text, x, y, A * B);
  }
}

// The sum, or maximum, over u of x[u, v].
static void reduce(const double *x, int64_t A, int64_t B, bool max, double *y) {
  for (int64_t j = 0; j < B; j++) {
    y[j] = max ? -INFINITY : 0;
    for (int64_t i = 0; i < A; i++) y[j] = max ? fmax(y[j], x[i * B + j]) : y[j] + x[i * B + j];
  }
}

// u is summed on each device, then over its axes: some by one collective, the rest by another.
static void test_reductions(void) {
  uint64_t random = unit_seed();
  for (int64_t n = 0; n < num_cases(); n++) {
    layout_t layout = random_layout(&random);
    int32_t split = (int32_t)pick(&random, layout.num_refs);
    int32_t end = split + 1 + (int32_t)pick(&random, layout.num_refs - split);
    bool max = pick(&random, 2), scatter = pick(&random, 2), first_scatter = pick(&random, 2);
    int64_t A = 1 + pick(&random, 9), B = pick(&random, 9);
    bool outer = end < layout.num_refs;  // v is sharded over the others
    if ((outer && (scatter || first_scatter)) || (split && scatter && first_scatter))
      B *= shards_of(&layout, 0, layout.num_refs);
    char u[128], v[128], head[128], tail[128];
    join(head, layout.names, 0, split);
    ptc_str_t text = {0};
    ptc_str_printf(&text,
                   "module \"t\"\n%s\ninput @x : f64[u=%lld %s, v=%lld %s]\nfunc @f(%%x = @x) {\n"
                   "  %%0 = reduce_%s %%x {over = [u]}\n",
                   layout.mesh, (long long)A, join(u, layout.refs, 0, end), (long long)B,
                   join(v, layout.refs, end, layout.num_refs), max ? "max" : "sum");
    if (split && first_scatter)
      ptc_str_printf(&text, "  %%1 = reduce_scatter %%0 {axes = \"%s\", dim = v}\n", head);
    else if (split)
      ptc_str_printf(&text, "  %%1 = all_reduce %%0 {axes = \"%s\"}\n", head);
    join(tail, layout.names, split, end);
    if (scatter)
      ptc_str_printf(&text, "  %%2 = reduce_scatter %%%d {axes = \"%s\", dim = v}\n", split > 0,
                     tail);
    else
      ptc_str_printf(&text, "  %%2 = all_reduce %%%d {axes = \"%s\"}\n", split > 0, tail);
    ptc_str_append(&text, "  return output \"y\" = %2\n}\n");
    double *x = ptc_xmalloc((size_t)(A * B + 1) * sizeof(double));
    double *y = ptc_xmalloc((size_t)(B + 1) * sizeof(double));
    fill(&random, x, A * B);
    reduce(x, A, B, max, y);
    expect(text.data, x, y, B);
    free(x);
    free(y);
    ptc_str_deinit(&text);
  }
}

// One number per device, summed in the order of the members.
static void test_order(void) {
  static const struct {
    const char *dtype;
    double x[3], sum, exact;
  } rows[] = {
      // ((x0 + x1) + x2), each sum rounded: the order shows.
      {"f32", {1, 0x1p-24, 0x1p-24}, 1, 1 + 0x1p-23},
      {"f32", {0x1p-24, 0x1p-24, 1}, 1 + 0x1p-23, 1 + 0x1p-23},
      {"f64", {1, 0x1p-53, 0x1p-53}, 1, 1},
      // In f32, rounded once: 1 + 2^-8 + 2^-8 is a number of bf16, 1 + 2^-8 is a tie that would go down.
      {"bf16", {1, 0x1p-8, 0x1p-8}, 1 + 0x1p-7, 1 + 0x1p-7},
      {"f16", {2048, 1, 1}, 2050, 2050},
      // 2^-26 is lost in f32.
      {"bf16", {0x1p-26, 1, -1}, 0, 0x1p-26},
      {"i32", {2147483647, 1, -5}, 2147483642, 2147483642},
      {"i32", {3, -5, 7}, 5, 5},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    for (int mode = 0; mode < 2; mode++) {
      char text[512];
      snprintf(text, sizeof text,
               "module \"t\"\nmesh [\"a\"=3]\ninput @x : %s[u=3 \"a\"]\nfunc @f(%%x = @x) {\n"
               "  %%0 = reduce_sum %%x {over = [u]}\n  %%1 = all_reduce %%0 {axes = \"a\"}\n"
               "  return output \"y\" = %%1\n}\n",
               rows[r].dtype);
      interp_case_t *c = interp_case_open(text, mode ? PTC_INTERP_TYPED : PTC_INTERP_EXACT);
      CU_ASSERT_PTR_NOT_NULL_FATAL(c);
      ptc_interp_set(c->interp, c->module->globals[0], rows[r].x);
      double y = 0;
      UNIT_CHECK(ptc_interp_run(c->interp, "f") == PTC_OK, text);
      UNIT_CHECK(ptc_interp_get_result(c->interp, 0, &y) == PTC_OK, text);
      double want = mode ? rows[r].sum : rows[r].exact;
      if (y != want) printf("\n    row %d: %.17g, not %.17g", (int)r, y, want);
      UNIT_CHECK(y == want, rows[r].dtype);
      interp_case_close(c);
    }
  }
}

// A maximum hands a NaN on, whoever has it.
static void test_max_nan(void) {
  const char *text =
      "module \"t\"\nmesh [\"a\"=3]\ninput @x : f64[u=3 \"a\"]\nfunc @f(%x = @x) {\n"
      "  %0 = reduce_max %x {over = [u]}\n  %1 = all_reduce %0 {axes = \"a\"}\n"
      "  return output \"y\" = %1\n}\n";
  for (int at = 0; at < 3; at++) {
    double x[] = {1, 2, 3};
    x[at] = NANV;
    int64_t count;
    double *y = run(text, x, &count);
    UNIT_CHECK(y && isnan(y[0]), "NaN");
    free(y);
  }
}

// A maximum that was taken is a plain value: linear ops take it beside others.
static void test_max_taken(void) {
  const double x[] = {3, 7, 5}, want[] = {-4, 0, -2};
  expect(
      "module \"t\"\nmesh [\"a\"=3]\ninput @x : f64[u=3 \"a\"]\nfunc @f(%x = @x) {\n"
      "  %0 = reduce_max %x {over = [u]}\n  %1 = all_reduce %0 {axes = \"a\"}\n"
      "  %2 = sub %x, %1\n  return output \"y\" = %2\n}\n",
      x, want, 3);
}

static void test_axis_index(void) {
  static const struct {
    const char *axes;
    double at[8];
  } rows[] = {{"a", {0, 0, 1, 1, 2, 2, 3, 3}},
              {"b", {0, 1, 0, 1, 0, 1, 0, 1}},
              {"b a", {0, 4, 1, 5, 2, 6, 3, 7}},
              {"a:2:2", {0, 0, 1, 1, 0, 0, 1, 1}},
              {"a:1:2 b", {0, 1, 0, 1, 2, 3, 2, 3}}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    char text[256];
    snprintf(text, sizeof text,
             "module \"t\"\nmesh [\"a\"=4, \"b\"=2]\nfunc @f() {\n"
             "  %%0 = axis_index {axes = \"%s\"}\n  return output \"y\" = %%0\n}\n",
             rows[r].axes);
    interp_case_t *c = interp_case_open(text, PTC_INTERP_TYPED);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    UNIT_CHECK(ptc_interp_run(c->interp, "f") == PTC_OK, rows[r].axes);
    for (int d = 0; d < 8; d++)
      UNIT_CHECK(ptc_interp_result_on(c->interp, 0, d)->data[0] == rows[r].at[d], rows[r].axes);
    interp_case_close(c);
  }
}

// --- regions

// Sample j = (micro * 2 + rank) * 2 + i: a batch over two micro-batches, each over two devices; a matrix over two
// others.
static void test_repeat(void) {
  const char *program =
      "module \"t\"\nmesh [\"dp\"=2, \"tp\"=2, \"micro\"=2]\ninput @x : f64[b=8, d=3]\n"
      "param @w : f64[d=3, f=3 \"tp\"]\nfunc @f(%x = @x, %w = @w) {\n"
      "  %l = repeat {axis = \"micro\", count = 2} index %i {\n"
      "    %m = shard %x {axis = \"micro dp\", dim = b}\n"
      "    %y = einsum %m, %w {over = [d]}\n"
      "    %g = all_gather %y {axes = \"dp\", dim = b}\n"
      "    %h = all_gather %g {axes = \"tp\", dim = f}\n"
      "    yield collect(%h)\n  }\n"
      "  %z = unshard %l {axis = \"micro\", dim = b}\n  return output \"z\" = %z\n}\n";
  interp_case_t *c = interp_case_open(program, PTC_INTERP_EXACT);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  CU_ASSERT_EQUAL(ptc_interp_num_devices(c->interp), 4);
  double x[24], w[9], z[24];
  for (int i = 0; i < 24; i++) x[i] = i % 7 - 3;
  for (int i = 0; i < 9; i++) w[i] = i - 4;
  ptc_interp_set(c->interp, c->module->globals[0], x);
  ptc_interp_set(c->interp, c->module->globals[1], w);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  CU_ASSERT_EQUAL(ptc_interp_get_result(c->interp, 0, z), PTC_OK);
  for (int b = 0; b < 8; b++) {
    for (int f = 0; f < 3; f++) {
      double sum = 0;
      for (int d = 0; d < 3; d++) sum += x[b * 3 + d] * w[d * 3 + f];
      CU_ASSERT_EQUAL(z[b * 3 + f], sum);
    }
  }
  interp_case_close(c);
}

static const unit_test_t tests[] = {
    {"whole tensors", test_whole},
    {"parts", test_parts},
    {"replicas", test_replicas},
    {"all_gather", test_all_gather},
    {"all_to_all", test_all_to_all},
    {"ring_shift", test_ring_shift},
    {"all_reduce, reduce_scatter", test_reductions},
    {"order of sums", test_order},
    {"maximum of NaN", test_max_nan},
    {"maximum taken", test_max_taken},
    {"axis_index", test_axis_index},
    {"repeat", test_repeat},
};
UNIT_MAIN("interp_mesh", tests)

// Proves: texts become the trees of ast.h (precedence, forms, locations), printing is stable, limits
// and includes hold, and broken parts leave the rest of the tree.
#include "frontend/parse.h"

#include <stdlib.h>
#include <unistd.h>

#include "frontend/ast_print.h"
#include "tests/support/unit.h"

typedef struct parsed_s {
  ptc_diag_t diag;
  ptc_ast_t ast;
  ptc_status_t status;
} parsed_t;

static void parse(parsed_t *p, const char *text) {
  ptc_diag_init(&p->diag);
  ptc_ast_init(&p->ast);
  p->status = ptc_parse_text(&p->diag, &p->ast, "t.ptm", text, strlen(text));
}

static void drop(parsed_t *p) {
  ptc_ast_deinit(&p->ast);
  ptc_diag_deinit(&p->diag);
}

// ---- expressions ----

static const struct {
  const char *text, *tree;
} expr_cases[] = {
    {"a", "a"},
    {"1e-5", "1e-5"},
    {"007.50E+3", "007.50E+3"},
    {"\"s t\"", "\"s t\""},
    {"on", "on"},
    {"off", "off"},
    {"f@i", "f@i"},
    {"a + b + c", "(+ (+ a b) c)"},
    {"a - b - c", "(- (- a b) c)"},
    {"a + b * c", "(+ a (* b c))"},
    {"a * b / c % d", "(% (/ (* a b) c) d)"},
    {"a ^ b ^ c", "(^ a (^ b c))"},
    {"-a ^ b", "(- (^ a b))"},
    {"a ^ -b", "(^ a (- b))"},
    {"-a * b", "(* (- a) b)"},
    {"- - a", "(- (- a))"},
    {"a - -b", "(- a (- b))"},
    {"a < b + c", "(< a (+ b c))"},
    {"a <= b and c >= d", "(and (<= a b) (>= c d))"},
    {"a or b and c", "(or a (and b c))"},
    {"a and b or c and d", "(or (and a b) (and c d))"},
    {"not a == b", "(not (== a b))"},
    {"not a and b", "(and (not a) b)"},
    {"not not a", "(not (not a))"},
    {"a != b", "(!= a b)"},
    {"a > b", "(> a b)"},
    {"(a + b) * c", "(* (paren (+ a b)) c)"},
    {"((a))", "(paren (paren a))"},
    {"x[b, s, d]", "(index x b s d)"},
    {"x[b, s - w, (h, k), 0]", "(index x b (- s w) (tuple h k) 0)"},
    {"x[((a, b), c)]", "(index x (tuple (tuple a b) c))"},
    {"x[(a)]", "(index x (paren a))"},
    {"w[t[b, s], d]", "(index w (index t b s) d)"},
    {"f()", "(call f)"},
    {"f(x, y = 2, z)", "(call f x y=2 z)"},
    {"f(x,)", "(call f x)"},
    {"f@i[d](x)[b, d]", "(index (call (index f@i d) x) b d)"},
    {"-f(x) * y[b]", "(* (- (call f x)) (index y b))"},
    {"[1, 2, 3,]", "(list 1 2 3)"},
    {"[[1], [2]]", "(list (list 1) (list 2))"},
    {"s[i]", "(index s i)"},
    {"f(a)(b)", "(call (call f a) b)"},
    {"f(g(h(x)))", "(call f (call g (call h x)))"},
    {"a\n  + b\n  * c", "(+ a (* b c))"},
    {"f(a,  # a comment\n    b)", "(call f a b)"},
};

static void test_expressions(void) {
  for (size_t i = 0; i < sizeof(expr_cases) / sizeof(expr_cases[0]); i++) {
    ptc_str_t text = {0}, tree = {0};
    ptc_str_printf(&text, "model m { y = %s }", expr_cases[i].text);
    parsed_t p;
    parse(&p, text.data);
    UNIT_CHECK(p.status == PTC_OK && p.ast.num_items == 1, expr_cases[i].text);
    if (p.status == PTC_OK && p.ast.items[0].body.count == 1)
      ptc_expr_print_prefix(p.ast.items[0].body.items[0]->value, &tree);
    bool ok = tree.data && strcmp(tree.data, expr_cases[i].tree) == 0;
    if (!ok) printf("\n%s: %s\n", expr_cases[i].text, tree.data ? tree.data : "(nothing)");
    UNIT_CHECK(ok, expr_cases[i].text);
    drop(&p);
    ptc_str_deinit(&text);
    ptc_str_deinit(&tree);
  }
}

// ---- statements and items: text, and its canonical form (NULL: the text itself) ----

static const struct {
  const char *text, *printed;
} print_cases[] = {
    {"model m {\n}\n", NULL},
    {"model m() {}", "model m {\n}\n"},
    {"model m(a = 1, b) {\n  x[b, s] = a\n}\n", NULL},
    {"model m { dim d, b = batch  dim k = d / h }",
     "model m {\n  dim d, b = batch\n  dim k = d / h\n}\n"},
    {"model m {\n  param w[d, f], v[] : f32 ~ normal(0.02)\n}\n", NULL},
    {"model m {\n  param(decay = off, lr = 0.1) w[d]\n}\n", NULL},
    {"model m {\n  param() w[d] ~ ones\n}\n", NULL},
    {"model m {\n  input t[b, s] : int from text + 1\n}\n", NULL},
    {"model m {\n  input u[b] ~ uniform(0, 1)\n}\n", NULL},
    {"model m {\n  input o[b] : int ~ uniform(0, vocab)\n}\n", NULL},
    {"model m {\n  loss = x\n  loss aux = 0.1 * y\n  metric acc = z\n  output a, b\n}\n", NULL},
    {"model m {\n  a, b[i, j], c[] = f(x)\n}\n", NULL},
    {"model m {\n  x[(h, k), 0] = y[h, k]\n}\n", NULL},
    {"model m {\n  repeat n {\n    x = f(x)\n  }\n  repeat 2 * n as i {\n  }\n}\n", NULL},
    {"model m { if a { x = 1 } else if b { x = 2 } else { x = 3 } }",
     "model m {\n  if a {\n    x = 1\n  } else {\n    if b {\n      x = 2\n    } else {\n"
     "      x = 3\n    }\n  }\n}\n"},
    {"model m { if a { } else { } }", "model m {\n  if a {\n  } else {\n  }\n}\n"},
    {"model m {\n  layer f(x[b, s], n, k = 3, t[]) {\n    return x, n\n  }\n  layer g = f\n}\n",
     NULL},
    {"layer f(x[b]) {\n  return x\n}\nlayer g = f\n", NULL},
    {"layer f(x[b],) { return x }", "layer f(x[b]) {\n  return x\n}\n"},
    {"train {\n  lr = 3e-4\n  optimizer = adamw(lr = 1, eps = 1e-8)\n}\n", NULL},
    {"parallel { dp = 2 tp = 4  schedule = 1f1b\n shard a.*.w[d, h] on tp over h\n"
     " shard w on tp over h\n cut a.8, b.2..3 zero = on }",
     "parallel {\n  dp = 2\n  tp = 4\n  schedule = 1f1b\n  zero = on\n"
     "  shard a.*.w[d, h] on tp over h\n  shard w on tp over h\n  cut a.8\n  cut b.2..3\n}\n"},
    {"cluster c(n = 2) {\n  node 8 x h100 {\n    link nv bandwidth = 450 GB/s latency = 1 us\n"
     "  }\n  network ib bandwidth = 8 x 50 GB/s rails = 8 kind = fat\n  host memory = 2 TB\n}\n",
     NULL},
    {"cluster c { node n x h100 { node 2 x die { } } }",
     "cluster c {\n  node n x h100 {\n    node 2 x die {\n    }\n  }\n}\n"},
    {"device d {\n  memory = 80 GB\n  bf16 = 989 TFLOP/s\n}\n", NULL},
    {"\xef\xbb\xbfmodel m { }\r\n", "model m {\n}\n"},
    {"", ""},
    {"# only a comment", ""},
};

static void test_printing(void) {
  for (size_t i = 0; i < sizeof(print_cases) / sizeof(print_cases[0]); i++) {
    const char *expected = print_cases[i].printed ? print_cases[i].printed : print_cases[i].text;
    parsed_t p, again;
    ptc_str_t first = {0}, second = {0};
    ptc_str_append(&first, "");
    ptc_str_append(&second, "");
    parse(&p, print_cases[i].text);
    ptc_ast_print(&p.ast, &first);
    parse(&again, first.data);
    ptc_ast_print(&again.ast, &second);
    UNIT_CHECK(p.status == PTC_OK && again.status == PTC_OK, print_cases[i].text);
    UNIT_CHECK(strcmp(first.data, expected) == 0, print_cases[i].text);
    UNIT_CHECK(strcmp(first.data, second.data) == 0, print_cases[i].text);
    ptc_str_deinit(&first);
    ptc_str_deinit(&second);
    drop(&p);
    drop(&again);
  }
}

static void test_samples(void) {
  static const char *const names[] = {"bert",   "cluster", "deepseek_v2", "gemma2",
                                      "gpt2",   "gptj",    "llama3",      "llama3_packed",
                                      "mamba2", "mixtral", "two_branch"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    ptc_str_t path = {0}, first = {0}, second = {0};
    ptc_str_printf(&path, "%s/samples/%s.ptm", PTC_SOURCE_DIR, names[i]);
    parsed_t p, again;
    ptc_diag_init(&p.diag);
    ptc_ast_init(&p.ast);
    p.status = ptc_parse_file(&p.diag, &p.ast, path.data);
    ptc_ast_print(&p.ast, &first);
    UNIT_CHECK(p.status == PTC_OK && first.len > 100, names[i]);
    parse(&again, first.data ? first.data : "");
    ptc_ast_print(&again.ast, &second);
    UNIT_CHECK(again.status == PTC_OK && second.data && strcmp(first.data, second.data) == 0,
               names[i]);
    drop(&p);
    drop(&again);
    ptc_str_deinit(&path);
    ptc_str_deinit(&first);
    ptc_str_deinit(&second);
  }
}

// ---- places ----

static bool is_at(ptc_loc_t loc, int32_t line, int32_t column) {
  return loc.file && strcmp(loc.file, "t.ptm") == 0 && loc.line == line && loc.column == column;
}

static void test_locations(void) {
  parsed_t p;
  parse(&p,
        "model m(a) {\n"
        "  y[b] = x[b] +\n"
        "         w[b] * 2\n"
        "  input t[b, s] : int from text\n"
        "  layer f(x[b]) { return -x }\n"
        "}\n"
        "parallel { shard w on tp over h }\n");
  CU_ASSERT_EQUAL_FATAL(p.status, PTC_OK);
  const ptc_item_t *model = &p.ast.items[0];
  CU_ASSERT(is_at(model->loc, 1, 7));
  CU_ASSERT(is_at(model->formals.items[0].loc, 1, 9));
  const ptc_stmt_t *assign = model->body.items[0], *input = model->body.items[1];
  CU_ASSERT(is_at(assign->loc, 2, 3));
  CU_ASSERT(is_at(assign->value->loc, 2, 15));       // the operator
  CU_ASSERT(is_at(assign->value->lhs->loc, 2, 10));  // of an index, its first token
  CU_ASSERT(is_at(assign->value->rhs->loc, 3, 15));
  CU_ASSERT(is_at(input->loc, 4, 3));
  CU_ASSERT(is_at(input->decls.items[0].dim_locs[1], 4, 14));
  CU_ASSERT(is_at(input->type.loc, 4, 19));
  CU_ASSERT(is_at(input->source_loc, 4, 28));
  const ptc_layer_t *layer = model->body.items[2]->layer;
  CU_ASSERT(is_at(layer->loc, 5, 9));
  CU_ASSERT(is_at(layer->body.items[0]->values[0]->loc, 5, 26));
  CU_ASSERT(is_at(p.ast.items[1].shards[0].axis_loc, 7, 23));
  CU_ASSERT(is_at(p.ast.items[1].shards[0].over_loc, 7, 31));
  drop(&p);
}

// ---- limits ----

// |head|, then |open| and |close| |count| times around |middle|.
static void parse_nested(parsed_t *p, const char *head, const char *open, const char *middle,
                         const char *close, int count, const char *tail) {
  ptc_str_t text = {0};
  ptc_str_append(&text, head);
  for (int i = 0; i < count; i++) ptc_str_append(&text, open);
  ptc_str_append(&text, middle);
  for (int i = 0; i < count; i++) ptc_str_append(&text, close);
  ptc_str_append(&text, tail);
  parse(p, text.data);
  ptc_str_deinit(&text);
}

static void test_depth(void) {
  static const struct {
    const char *head, *open, *middle, *close, *tail;
  } cases[] = {
      {"model m { y = ", "(", "x", ")", " }"},
      {"model m { y = ", "f(", "x", ")", " }"},
      {"model m { y = ", "[", "x", "]", " }"},
      {"model m { y = ", "x[", "b", "]", " }"},
      {"model m { y = ", "-", "x", "", " }"},
      {"model m { y = ", "not ", "x", "", " }"},
      {"model m { y = ", "x ^ ", "x", "", " }"},
      {"model m { y = ", "x + ", "x", "", " }"},
      {"model m { y = x", "", "", "[b]", " }"},
      {"model m { ", "repeat 2 { ", "x = y", " }", " }"},
      {"model m { ", "if a { x = 1 } else ", "{ x = 2 }", "", " }"},
      {"cluster c { ", "node 2 x y { ", "", " }", " }"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    for (int count = 100; count <= 100000; count *= 1000) {
      parsed_t p;
      // "else if" chains need the `if` of each link.
      const char *open = i == 10 ? "if a { x = 1 } else " : cases[i].open;
      parse_nested(&p, cases[i].head, open, cases[i].middle, cases[i].close, count, cases[i].tail);
      bool is_deep = count > 1000;
      UNIT_CHECK((p.status == PTC_OK) == !is_deep, cases[i].open);
      bool found = false;
      for (int64_t j = 0; j < p.diag.num_items; j++)
        if (p.diag.items[j].message) found |= strcmp(p.diag.items[j].id, "too-deep") == 0;
      UNIT_CHECK(found == is_deep, cases[i].open);
      drop(&p);
    }
  }
}

// A long list is no nesting.
static void test_long(void) {
  parsed_t p;
  parse_nested(&p, "model m { ", "x = y\n", "", "", 20000, "}");
  CU_ASSERT_EQUAL(p.status, PTC_OK);
  CU_ASSERT_EQUAL(p.ast.items[0].body.count, 20000);
  drop(&p);
  parse_nested(&p, "model m { x = [1", ", 2", "", "", 20000, "] }");
  CU_ASSERT_EQUAL(p.status, PTC_OK);
  CU_ASSERT_EQUAL(p.ast.items[0].body.items[0]->value->num_items, 20001);
  drop(&p);
}

// Proves: texts of nothing but mistakes are read in time that grows with their length.
static void test_many_errors(void) {
  parsed_t p;
  parse_nested(&p, "model m {\n", "x y\n", "", "", 50000, "}");
  CU_ASSERT_EQUAL(p.diag.num_errors, 50000);
  drop(&p);
  parse_nested(&p, "model m { x = )", "(", "", ")", 300000, "\ny = 3 3 }");
  CU_ASSERT_EQUAL(p.diag.num_errors, 2);
  drop(&p);
  parse_nested(&p, "model m { x = )", "{ ", "", "}", 1000, "\ny = 3 3 }");
  CU_ASSERT(p.diag.num_errors > 2);
  drop(&p);
}

static void test_include_depth(void) {
  char folder[] = "/tmp/ptc-parse-XXXXXX";
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  ptc_str_t path = {0};
  enum { NUM_FILES = 40 };
  for (int i = 0; i < NUM_FILES; i++) {
    path.len = 0;
    ptc_str_printf(&path, "%s/f%d.ptm", folder, i);
    FILE *file = fopen(path.data, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fprintf(file, "include \"f%d.ptm\"\nlayer l%d(x[b]) { return x }\n", i + 1, i);
    fclose(file);
  }
  parsed_t p;
  ptc_diag_init(&p.diag);
  ptc_ast_init(&p.ast);
  path.len = 0;
  ptc_str_printf(&path, "%s/f0.ptm", folder);
  p.status = ptc_parse_file(&p.diag, &p.ast, path.data);
  CU_ASSERT_EQUAL(p.status, PTC_INVALID_INPUT);
  CU_ASSERT_EQUAL_FATAL(p.diag.num_errors, 1);
  CU_ASSERT_STRING_EQUAL(p.diag.items[0].id, "too-deep");
  CU_ASSERT_EQUAL(p.ast.num_items, 32);  // the innermost first
  CU_ASSERT_STRING_EQUAL(p.ast.items[31].name, "l0");
  drop(&p);
  for (int i = 0; i < NUM_FILES; i++) {
    path.len = 0;
    ptc_str_printf(&path, "%s/f%d.ptm", folder, i);
    unlink(path.data);
  }
  rmdir(folder);
  ptc_str_deinit(&path);
}

static void test_missing_file(void) {
  parsed_t p;
  ptc_diag_init(&p.diag);
  ptc_ast_init(&p.ast);
  p.status = ptc_parse_file(&p.diag, &p.ast, "/nowhere/m.ptm");
  CU_ASSERT_EQUAL(p.status, PTC_IO);
  CU_ASSERT_EQUAL_FATAL(p.diag.num_errors, 1);
  CU_ASSERT_STRING_EQUAL(p.diag.items[0].id, "cannot-read");
  drop(&p);
}

// ---- what survives an error ----

static void test_rest_survives(void) {
  parsed_t p;
  parse(&p,
        "model m {\n"
        "  a = 1\n"
        "  layer f(x[b]) {\n"
        "    u = x[b] y[b]\n"
        "    return u\n"
        "  }\n"
        "  b = = 2\n"
        "  c = 3\n"
        "}\n"
        "train { lr = 1\n"
        "  seed 2\n"
        "  batch = 3 }\n"
        "layer g = f\n");
  CU_ASSERT_EQUAL(p.status, PTC_INVALID_INPUT);
  CU_ASSERT_EQUAL(p.diag.num_errors, 3);
  CU_ASSERT_EQUAL_FATAL(p.ast.num_items, 3);
  const ptc_item_t *model = &p.ast.items[0];
  CU_ASSERT_EQUAL_FATAL(model->body.count, 3);
  CU_ASSERT_STRING_EQUAL(model->body.items[0]->targets[0].name, "a");
  CU_ASSERT_EQUAL_FATAL(model->body.items[1]->kind, PTC_STMT_LAYER);
  CU_ASSERT_EQUAL(model->body.items[1]->layer->body.count, 1);
  CU_ASSERT_STRING_EQUAL(model->body.items[2]->targets[0].name, "c");
  CU_ASSERT_EQUAL(p.ast.items[1].num_settings, 2);
  CU_ASSERT_STRING_EQUAL(p.ast.items[2].layer->alias_of, "f");
  drop(&p);
}

// Proves: cutting a sample anywhere, or breaking any one token of it, gives messages and no crash,
// and few of them: one mistake is not many.
static void test_mutations(void) {
  char *text;
  size_t len;
  ptc_status_t status = ptc_read_file(PTC_SOURCE_DIR "/samples/gpt2.ptm", &text, &len);
  CU_ASSERT_EQUAL_FATAL(status, PTC_OK);
  uint64_t state = unit_seed();
  static const char marks[] = "(){}[],=+*:~@$#\"x3 \n";
  for (int i = 0; i < 2000; i++) {
    char *copy = malloc(len + 1);
    memcpy(copy, text, len + 1);
    size_t copy_len = len, at = (size_t)(unit_random(&state) % len);
    if (i % 4 == 0)
      copy_len = at;
    else
      copy[at] = marks[unit_random(&state) % (sizeof(marks) - 1)];
    parsed_t p;
    ptc_diag_init(&p.diag);
    ptc_ast_init(&p.ast);
    p.status = ptc_parse_text(&p.diag, &p.ast, "t.ptm", copy, copy_len);
    CU_ASSERT_EQUAL(p.status == PTC_OK, p.diag.num_errors == 0);
    // A brace in the wrong place closes or opens blocks that it should not.
    int64_t limit = copy_len == len && (copy[at] == '{' || copy[at] == '}') ? 6 : 3;
    if (p.diag.num_errors > limit)
      printf("\n%d errors after byte %zu: %.40s\n", (int)p.diag.num_errors, at, copy + at);
    CU_ASSERT(p.diag.num_errors <= limit);
    drop(&p);
    free(copy);
  }
  free(text);
}

static const unit_test_t tests[] = {
    {"expressions", test_expressions},
    {"printing", test_printing},
    {"samples", test_samples},
    {"locations", test_locations},
    {"depth", test_depth},
    {"long lists", test_long},
    {"many errors", test_many_errors},
    {"include depth", test_include_depth},
    {"missing file", test_missing_file},
    {"the rest survives", test_rest_survives},
    {"mutations", test_mutations},
};

UNIT_MAIN("parse", tests)

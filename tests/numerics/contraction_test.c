// Proves: the contraction rule of the language. Chosen and random index statements are accepted or
// refused (and with which diagnostic) as an independent reading of the rule decides, and what is
// accepted computes the value of a direct evaluation of the statement's tree.
#include <math.h>
#include <stdlib.h>

#include "frontend/driver/compile.h"
#include "ir/base/str.h"
#include "ir/interp.h"
#include "tests/support/sum_rule.h"
#include "tests/support/unit.h"

enum { NUM_ACCEPTED = 1000, NUM_REFUSED = 1500, MAX_DEPTH = 2 };

// Accepted ones, then refused ones, of all kinds that the reference names.
static const char *const chosen[] = {
    "y[b,d] = a[b,f]*w[f,d] + c[d]",
    "y[b,d] = a[b,f]*w[f,d] + h[b,f]*u[f,d]",
    "y[b,d] = a[b,f]*w[f,d] + n[f]",
    "y[b,d] = (a[b,f] + n[f]) * w[f,d]",
    "y[b,d] = (a[b,f]*w[f,d] + c[d]) * g[d]",
    "y[b,d] = (a[b,f]*n[f] + g[d]) * w[f,d]",
    "y[b,d] = gelu(a[b,f]) * w[f,d]",
    "y[b,d] = gelu(a[b,f]*w[f,d])",
    "y[b,d] = gelu(a[b,f]*w[f,d]) * g[d]",
    "y[b,d] = gelu(a[b,f]*n[f]) * w[f,d]",
    "y[b,f] = silu(x[b,e]*p[e,f]) * (x[b,e]*q[e,f])",
    "y[b,f] = (x[b,e]*p[e,f]) * (x[b,e]*q[e,f])",
    "y[b,d] = silu(x[b,e]*p[e,f]) * (x[b,e]*q[e,f]) * w[f,d]",
    "y[b,d] = silu(s1[b,f]) * a[b,f] * w[f,d]",
    "y[b,d] = (a[b,f]*n[f]) * w[f,d]",
    "y[b,d] = a[b,f]*w[f,d] / (a[b,f]*n[f])",
    "y[b,d] = a[b,f]*w[f,d] / n[f]",
    "y[b] = a[b,f] / n[f]",
    "y[b] = a[b,f] * a[b,f]",
    "y[b] = a[b,f]",
    "y[b] = sum[f](a[b,f]) * n[f]",
    "y[b,d] = gelu(sum[f](a[b,f]*w[f,d])) * g[d]",
    "y[b] = p1[b,t] / sum[t](p1[b,t]) * r[t]",
    "y[b,d] = m1[b,t] * wte[tok[b,t],d]",
    "y[b,d] = wte[tok[b,t],d]",
    "y[b] = (a[b,f]*w[f,d] + c[d]) * g[d]",
    "y[s,k] = softmax[t](q1[s,k]*k1[t,k]) * v1[t,k]",
    "y[s,k] = softmax[t](q1[s,j]*k2[t,j]) * v1[t,k]",
    "y[s,k] = softmax[t](s2[s,t]) * v1[t,k]",
};

static int num_accepted, num_refused, num_ambiguous;

// --- random statements, as text

typedef struct writer_s {
  ptc_str_t text;
  uint64_t *state;
} writer_t;

static uint64_t roll(writer_t *w, uint64_t n) { return unit_random(w->state) % n; }

static void write_leaf(writer_t *w) {
  static const char all[] = "bdef";
  char dims[3] = "", c;
  int n = 1 + (int)roll(w, 2);
  for (int i = 0; i < n;) {
    c = all[roll(w, 4)];
    if (i && dims[0] == c) continue;
    dims[i++] = c;
  }
  if (roll(w, 12) == 0) {
    // A gather: from a table with another dim, or a vector.
    if (n == 2)
      ptc_str_printf(&w->text, "g%c[x%c[%c],%c]", dims[1], dims[0], dims[0], dims[1]);
    else
      ptc_str_printf(&w->text, "g[x%c[%c]]", dims[0], dims[0]);
    return;
  }
  if (n == 2)
    ptc_str_printf(&w->text, "t%s[%c,%c]", dims, dims[0], dims[1]);
  else
    ptc_str_printf(&w->text, "t%s[%s]", dims, dims);
}

static void write_expr(writer_t *w, int depth);

// One factor: what needs no parentheses in a product.
static void write_factor(writer_t *w, int depth) {
  static const char *const calls[] = {"gelu", "silu", "tanh", "sigmoid", "sin", "cos"};
  switch (depth == 0 ? 0 : roll(w, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
    case 7: write_leaf(w); break;
    case 8:
    case 9:
    case 10:
      ptc_str_append(&w->text, "(");
      write_expr(w, depth - 1);
      ptc_str_append(&w->text, ")");
      break;
    case 11:
    case 12:
      ptc_str_printf(&w->text, "%s(", calls[roll(w, 6)]);
      write_expr(w, depth - 1);
      ptc_str_append(&w->text, ")");
      break;
    case 13:
      ptc_str_append(&w->text, "-");
      write_factor(w, depth - 1);
      break;
    case 14:
      // A reduction over a dim that the operand surely has.
      ptc_str_append(&w->text, roll(w, 2) ? "sum[f](tf[f] * " : "max[f](tf[f] + ");
      write_factor(w, depth - 1);
      ptc_str_append(&w->text, ")");
      break;
    default:
      ptc_str_append(&w->text, roll(w, 2) ? "(" : "softmax[e](te[e] * ");
      write_expr(w, depth - 1);
      ptc_str_append(&w->text, ")");
      if (roll(w, 3) == 0) ptc_str_append(&w->text, " ^ 2");
      break;
  }
}

static void write_product(writer_t *w, int depth) {
  int n = 1 + (int)roll(w, 3);
  for (int i = 0; i < n; i++) {
    if (i) ptc_str_append(&w->text, roll(w, 5) == 0 ? " / " : " * ");
    if (roll(w, 20) == 0)
      ptc_str_append(&w->text, "0.5");
    else
      write_factor(w, depth);
  }
}

static void write_expr(writer_t *w, int depth) {
  int n = roll(w, 3) == 0 ? 2 : 1;
  for (int i = 0; i < n; i++) {
    if (i) ptc_str_append(&w->text, roll(w, 3) == 0 ? " - " : " + ");
    write_product(w, depth);
  }
}

static void write_statement(writer_t *w) {
  static const char *const left[] = {"b", "d", "b,d", "e,f", "f,b", "d,f", "b,e", "f", "b,d,e"};
  ptc_str_printf(&w->text, "y[%s] = ", left[roll(w, 9)]);
  write_expr(w, MAX_DEPTH);
}

// --- the statement in a model

static void write_model(const rule_t *rule, const char *statement, ptc_str_t *out) {
  ptc_str_append(out, "model m() {\n  dim");
  for (const char *dim = "bdefjkstv"; *dim; dim++)
    ptc_str_printf(out, "%s %c = %d", *dim == 'b' ? "" : ",", *dim, (int)rule_extent(*dim));
  for (int i = 0; i < rule->num_tensors; i++) {
    const rule_tensor_t *tensor = &rule->tensors[i];
    ptc_str_printf(out, "\n  input %s[", tensor->name);
    for (int k = 0; tensor->dims[k]; k++)
      ptc_str_printf(out, "%s%c", k ? ", " : "", tensor->dims[k]);
    ptc_str_append(out, tensor->is_index ? "] : int" : "]");
  }
  ptc_str_printf(out, "\n  %s\n  loss = 0\n  output y\n}\n", statement);
}

static void compare_values(const rule_t *rule, ptc_module_t *module, const char *row) {
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_EXACT);
  for (int i = 0; i < rule->num_tensors; i++) {
    const ptc_global_t *global =
        ptc_module_find_global(module, ptc_module_intern(module, rule->tensors[i].name));
    if (!global) continue;  // contracted away
    memcpy(ptc_interp_global(interp, global)->data, rule->tensors[i].data,
           (size_t)rule->tensors[i].num_elements * sizeof(double));
  }
  bool ran = ptc_interp_run(interp, "eval") == PTC_OK;
  UNIT_CHECK(ran, row);
  const ptc_func_t *func = ptc_module_find_func(module, "eval");
  for (int32_t r = 0; ran && r < func->num_results; r++) {
    if (strcmp(func->results[r].name, "y") != 0) continue;
    const ptc_tensor_t *y = ptc_interp_result(interp, r);
    int64_t at[26] = {0};
    bool equal = true;
    for (int64_t k = 0; k < y->num_elements; k++) {
      int64_t rest = k;
      for (int d = (int)strlen(rule->left) - 1; d >= 0; d--) {
        at[rule->left[d] - 'a'] = rest % rule_extent(rule->left[d]);
        rest /= rule_extent(rule->left[d]);
      }
      double want = rule_eval(rule, at), got = y->data[k];
      // Quotients of sums may be ill-conditioned: what both find not finite is equal.
      equal &= fabs(want - got) <= 1e-7 * (1 + fabs(want) + fabs(got)) ||
               (!isfinite(want) && !isfinite(got));
    }
    UNIT_CHECK(equal, row);
  }
  ptc_interp_destroy(interp);
}

// The compiler's verdict must be the rule's, and the value that of the tree.
static void check_statement(rule_t *rule, const char *statement, uint64_t *state) {
  ptc_str_t text = {0};
  write_model(rule, statement, &text);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  ptc_status_t status = ptc_compile_text(&diag, "m.ptm", text.data, text.len, NULL, &module);
  if (rule->refused || rule->ambiguous) {
    UNIT_CHECK(status == PTC_INVALID_INPUT && diag.num_errors > 0, statement);
    for (int64_t i = 0; i < diag.num_items; i++) {
      if (!diag.items[i].message) continue;  // one of equal errors at one place
      bool is_ambiguous = strcmp(diag.items[i].id, "contraction-ambiguous") == 0;
      bool is_refused = strcmp(diag.items[i].id, "contraction") == 0;
      UNIT_CHECK((is_ambiguous && rule->ambiguous) || (is_refused && rule->refused), statement);
    }
    num_refused += !rule->ambiguous;
    num_ambiguous += rule->ambiguous;
  } else {
    UNIT_CHECK(status == PTC_OK, statement);
    if (status != PTC_OK) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    rule_fill(rule, state);
    if (module) compare_values(rule, module, statement);
    num_accepted++;
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&text);
}

static void test_chosen(void) {
  uint64_t state = 1;
  static rule_t rule;
  for (size_t i = 0; i < sizeof(chosen) / sizeof(*chosen); i++) {
    bool read = rule_parse(&rule, chosen[i]);
    UNIT_CHECK(read, chosen[i]);
    if (read) rule_place(&rule);
    if (read) check_statement(&rule, chosen[i], &state);
    rule_deinit(&rule);
  }
  printf(" %d accepted, %d refused, %d ambiguous ", num_accepted, num_refused, num_ambiguous);
  CU_ASSERT_EQUAL(num_accepted + num_refused + num_ambiguous, 29);
}

static void test_random(void) {
  uint64_t state = unit_seed();
  num_accepted = num_refused = num_ambiguous = 0;
  static rule_t rule;
  while (num_accepted < NUM_ACCEPTED) {
    writer_t w = {.state = &state};
    write_statement(&w);
    // Statements that contract nothing show nothing.
    if (rule_parse(&rule, w.text.data) && rule_missing(&rule)) {
      rule_place(&rule);
      bool accepted = !rule.refused && !rule.ambiguous;
      if (accepted || num_refused + num_ambiguous < NUM_REFUSED)
        check_statement(&rule, w.text.data, &state);
    }
    rule_deinit(&rule);
    ptc_str_deinit(&w.text);
  }
  printf(" %d accepted, %d refused, %d ambiguous ", num_accepted, num_refused, num_ambiguous);
  CU_ASSERT(num_accepted >= 1000 && num_refused >= 500 && num_ambiguous >= 100);
}

static const unit_test_t tests[] = {{"chosen statements", test_chosen},
                                    {"random statements", test_random}};
UNIT_MAIN("contraction", tests)

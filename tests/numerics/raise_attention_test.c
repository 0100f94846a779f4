// Proves: attention written as index statements becomes the attention op in all its variants, with the same
// results and gradients in exact mode, dropout included; what does not match exactly is left as it is, with
// a warning where it looks like attention.
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/compile.h"
#include "ir/op.h"
#include "ir/text.h"
#include "passes/check_semantics.h"
#include "tests/support/pass_runner.h"
#include "tests/support/unit.h"

// From q[b, s, h, k], key[b, t, h, k], val[b, t, h, k] (one head each: x...) to o[b, s, h, k].
typedef struct variant_s {
  const char *name, *body;
  const char
      *reason;  // NULL: becomes attention; "": stays, without a word; else a part of the warning
} variant_t;

#define SCORES "  z[b, h, s, t] = q[b, s, h, k] * key[b, t, h, k] / sqrt(k)\n"
#define OUT "  o[b, s, h, k] = p[b, h, s, t] * val[b, t, h, k]\n"
#define CAUSAL "  m[b, h, s, t] = where(index(t) <= index(s), z[b, h, s, t], -inf)\n"

static const variant_t variants[] = {
    {"plain", SCORES "  p = softmax[t](z)\n" OUT, NULL},
    {"causal", SCORES CAUSAL "  p = softmax[t](m)\n" OUT, NULL},
    {"query scaled",
     "  r = q * 0.3\n  z[b, h, s, t] = r[b, s, h, k] * key[b, t, h, k]\n" CAUSAL
     "  p = softmax[t](m)\n" OUT,
     NULL},
    {"scale after mask",
     "  z[b, h, s, t] = q[b, s, h, k] * key[b, t, h, k]\n" CAUSAL "  p = softmax[t](0.5 * m)\n" OUT,
     NULL},
    {"negative scale", SCORES "  p = softmax[t](-2 * z)\n" OUT, NULL},
    {"softcap", SCORES "  c = 5 * tanh(z / 5)\n  p = softmax[t](c)\n" OUT, NULL},
    {"negative softcap", SCORES "  c = -5 * tanh(z / 5)\n  p = softmax[t](c)\n" OUT, NULL},
    {"softcap and mask",
     SCORES "  c = 2 * tanh(z)\n"
            "  m[b, h, s, t] = where(index(t) <= index(s), c[b, h, s, t], -inf)\n  p = "
            "softmax[t](m)\n" OUT,
     NULL},
    {"bias", SCORES "  p = softmax[t](z[b, h, s, t] + rel[h, s, t])\n" OUT, NULL},
    {"two biases",
     SCORES "  p = softmax[t](z[b, h, s, t] + rel[h, s, t] - rel[h, s, t] * rel[h, s, t])\n" OUT,
     NULL},
    {"bias minus scores",
     SCORES "  w[b, h, s, t] = rel[h, s, t] - z[b, h, s, t]\n  p = softmax[t](w)\n" OUT, NULL},
    {"mask as bias",
     SCORES "  f[s, t] = where(index(t) <= index(s), 0, -inf)\n"
            "  p = softmax[t](z[b, h, s, t] + f[s, t])\n" OUT,
     NULL},
    {"mask as large bias",
     SCORES "  f[s, t] = where(index(s) < index(t), -1e9, 0)\n"
            "  p = softmax[t](z[b, h, s, t] + f[s, t])\n" OUT,
     NULL},
    {"masked by -1e30",
     SCORES "  m[b, h, s, t] = where(index(s) < index(t), -1e30, z[b, h, s, t])\n  p = "
            "softmax[t](m)\n" OUT,
     NULL},
    {"window by -1e9",
     SCORES "  m[b, h, s, t] = where(index(t) <= index(s) and index(s) - index(t) < 3, z[b, h, s, "
            "t], -1e9)\n"
            "  p = softmax[t](m)\n" OUT,
     NULL},
    {"documents by -1e9",
     SCORES "  doc[b, s] = tokens[b, s] % 2\n"
            "  m[b, h, s, t] = where(index(t) <= index(s) and doc[b, t] == doc[b, s], z[b, h, s, "
            "t], -1e9)\n"
            "  p = softmax[t](m)\n" OUT,
     NULL},
    {"two masks",
     SCORES CAUSAL "  w[b, h, s, t] = where(index(s) - index(t) < 3, m[b, h, s, t], -inf)\n  p = "
                   "softmax[t](w)\n" OUT,
     NULL},
    {"dropout", SCORES CAUSAL "  p = dropout(softmax[t](m), 0.3)\n" OUT, NULL},
    {"dropout, other order",
     "  z[h, b, s, t] = q[b, s, h, k] * key[b, t, h, k] / sqrt(k)\n"
     "  p = dropout(softmax[t](z), 0.3)\n  o[b, s, h, k] = p[h, b, s, t] * val[b, t, h, k]\n",
     NULL},
    {"grouped",
     "  z[b, n, g, s, t] = q[b, s, (n, g), k] * kn[b, t, n, k]\n  p = softmax[t](z)\n"
     "  o[b, s, (n, g), k] = p[b, n, g, s, t] * vn[b, t, n, k]\n",
     NULL},
    {"grouped, dropout",
     "  z[b, n, g, s, t] = q[b, s, (n, g), k] * kn[b, t, n, k]\n"
     "  p = dropout(softmax[t](z), 0.2)\n  o[b, s, (n, g), k] = p[b, n, g, s, t] * vn[b, t, n, "
     "k]\n",
     NULL},
    {"split after the softmax",
     SCORES "  p = softmax[t](z)\n"
            "  o[b, s, (n, g), k] = p[b, (n, g), s, t] * vn[b, t, n, k]\n",
     NULL},
    {"renamed after the softmax",
     SCORES "  p = softmax[t](z)\n  o[b, s, h, k] = p[b, h, s, u] * val[b, u, h, k]\n", NULL},
    {"shared keys",
     "  z[b, h, s, t] = q[b, s, h, k] * k1[b, t, k]\n  p = softmax[t](z)\n"
     "  o[b, s, h, k] = p[b, h, s, t] * k1[b, t, k]\n",
     NULL},
    {"f32 scores", SCORES "  p = softmax[t](f32(z))\n" OUT, NULL},
    // --- near misses
    {"dropout, mixed order",
     "  z[b, t, h, s] = q[b, s, h, k] * key[b, t, h, k] / sqrt(k)\n"
     "  p = dropout(softmax[t](z), 0.3)\n  o[b, s, h, k] = p[b, t, h, s] * val[b, t, h, k]\n",
     "dropout numbers the weights"},
    {"weights used twice",
     SCORES "  p = softmax[t](z)\n" OUT "  metric peak = max[b, h, s, t](p)\n",
     "the weights are used elsewhere"},
    {"scores used twice", SCORES "  p = softmax[t](z)\n" OUT "  metric peak = max[b, h, s, t](z)\n",
     "used elsewhere"},
    {"weights changed", SCORES "  p = 2 * softmax[t](z)\n" OUT, "the weights are changed"},
    {"relu of the scores", SCORES "  p = softmax[t](max(z, 0))\n" OUT, "more than scale"},
    {"scaled by a tensor", SCORES "  p = softmax[t](z[b, h, s, t] * rel[h, s, t])\n" OUT,
     "multiplied by a tensor"},
    {"tanh of biased scores", SCORES "  p = softmax[t](tanh(z[b, h, s, t] + rel[h, s, t]))\n" OUT,
     "tanh is taken twice"},
    {"masked by -10",
     SCORES "  m[b, h, s, t] = where(index(t) <= index(s), z[b, h, s, t], -10)\n"
            "  p = softmax[t](m)\n" OUT,
     "neither -inf"},
    {"empty rows by -1e9",
     SCORES "  m[b, h, s, t] = where(index(t) < index(s), z[b, h, s, t], -1e9)\n"
            "  p = softmax[t](m)\n" OUT,
     "may leave a row nothing"},
    {"padding by -1e9",
     SCORES "  m[b, h, s, t] = where(tokens[b, t] > 3, z[b, h, s, t], -1e9)\n"
            "  p = softmax[t](m)\n" OUT,
     "may leave a row nothing"},
    {"softmax over rows", SCORES "  p = softmax[s](z)\n" OUT, "different dims"},
    {"softmax over two dims", SCORES "  p = softmax[t, h](z)\n" OUT, ""},
    {"no softmax", SCORES CAUSAL "  p = exp(m)\n" OUT, ""},
    // Keys and values of its own for every row: a mixture, not attention.
    {"mixture",
     "  z[b, s, h, t] = q[b, s, h, k] * mix[k, t]\n  p = softmax[t](z)\n"
     "  y[b, s, h, t, k] = q[b, s, h, k] * mix[k, t]\n  o[b, s, h, k] = p[b, s, h, t] * y[b, s, h, "
     "t, k]\n",
     ""},
};
enum { NUM_VARIANTS = sizeof variants / sizeof *variants };

static void append_model(ptc_str_t *out, const variant_t *v) {
  ptc_str_printf(out,
                 "model spelled(d = 8, heads = 4, kv = 2, seq = 6, vocab = 11) {\n"
                 "  dim d, b = batch, s = seq, t = seq, u = seq, h = heads, n = kv, g = heads / "
                 "kv, k = d / heads\n"
                 "  dim v = vocab\n"
                 "  param wq[d, h, k], wk[d, h, k], wv[d, h, k], wn[d, n, k], wm[d, n, k], w1[d, "
                 "k], wo[h, k, d] ~ "
                 "normal(0.5)\n"
                 "  param rel[h, s, t], mix[k, t] ~ normal(0.5)\n"
                 "  param embed[v, d] ~ normal(1)\n"
                 "  input tokens[b, s] : int from text\n"
                 "  input targets[b, s] : int from text + 1\n"
                 "  x[b, s, d] = embed[tokens[b, s], d]\n"
                 "  q[b, s, h, k] = x[b, s, d] * wq[d, h, k]\n"
                 "  key[b, s, h, k] = x[b, s, d] * wk[d, h, k]\n"
                 "  val[b, s, h, k] = x[b, s, d] * wv[d, h, k]\n"
                 "  kn[b, s, n, k] = x[b, s, d] * wn[d, n, k]\n"
                 "  vn[b, s, n, k] = x[b, s, d] * wm[d, n, k]\n"
                 "  k1[b, s, k] = x[b, s, d] * w1[d, k]\n"
                 "%s"
                 "  y1[b, s, d] = o[b, s, h, k] * wo[h, k, d]\n"
                 "  logits[b, s, v] = y1[b, s, d] * embed[v, d]\n"
                 "  loss = cross_entropy[v](logits, targets)\n"
                 "}\ntrain { batch = 2 }\n",
                 v->body);
}

static ptc_module_t *lower(ptc_diag_t *diag, const variant_t *v) {
  ptc_str_t text = {0};
  append_model(&text, v);
  ptc_diag_init(diag);
  ptc_module_t *module = NULL;
  if (ptc_compile_text(diag, "spelled.ptm", text.data, text.len, NULL, &module) != PTC_OK) {
    ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
    module = NULL;
  }
  // train alone: eval has no dropout.
  if (module) {
    module->funcs = ptc_module_find_func(module, "train");
    module->funcs->next = NULL;
  }
  ptc_str_deinit(&text);
  return module;
}

static char *text_of(const ptc_module_t *module) {
  ptc_str_t text = {0};
  ptc_module_print(module, false, &text);
  return text.data;
}

static const char *warning_of(const ptc_diag_t *diag) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (strcmp(diag->items[i].id, "attention-not-fused") == 0) return diag->items[i].message;
  return "";
}

static int64_t warnings_of(const ptc_diag_t *diag) {
  int64_t count = 0;
  for (int64_t i = 0; i < diag->num_items; i++)
    count += strcmp(diag->items[i].id, "attention-not-fused") == 0;
  return count;
}

static void test_variants(void) {
  for (int i = 0; i < NUM_VARIANTS; i++) {
    const variant_t *v = &variants[i];
    ptc_diag_t diag;
    ptc_module_t *module = lower(&diag, v);
    UNIT_CHECK(module != NULL, v->name);
    if (!module) continue;
    UNIT_CHECK(run_passes_unchecked(module, "infer-shapes canonicalize", false) == PTC_OK, v->name);
    char *before = text_of(module);
    // Compares all results before and after.
    UNIT_CHECK(run_passes(module, "raise-attention canonicalize", false) == PTC_OK, v->name);
    char *after = text_of(module);
    const bool raised = v->reason == NULL;
    const int attentions = count_ops(module, PTC_OP_ATTENTION);
    UNIT_CHECK(raised ? attentions > 0 && count_ops(module, PTC_OP_SOFTMAX) == 0 : attentions == 0,
               v->name);
    UNIT_CHECK((strcmp(before, after) != 0) == raised, v->name);
    if (v->reason && v->reason[0])
      UNIT_CHECK(strstr(warning_of(&diag), v->reason) != NULL && warnings_of(&diag) == 1, v->name);
    else
      UNIT_CHECK(warnings_of(&diag) == 0, v->name);
    if (CU_get_number_of_failure_records() > 0 && getenv("PTC_VERBOSE"))
      fprintf(stderr, "%s: %s\n%s\n", v->name, warning_of(&diag), after ? after : "");
    free(before);
    free(after);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// The gradients of the raised program are those of the other.
static void test_gradients(void) {
  for (int i = 0; i < NUM_VARIANTS; i++) {
    const variant_t *v = &variants[i];
    if (v->reason) continue;
    ptc_diag_t diags[2];
    ptc_module_t *modules[2] = {lower(&diags[0], v), lower(&diags[1], v)};
    CU_ASSERT_FATAL(modules[0] && modules[1]);
    UNIT_CHECK(
        run_passes_unchecked(modules[0], "infer-shapes canonicalize autodiff", false) == PTC_OK,
        v->name);
    UNIT_CHECK(run_passes_unchecked(
                   modules[1], "infer-shapes canonicalize raise-attention canonicalize autodiff",
                   false) == PTC_OK,
               v->name);
    ptc_semantics_t *semantics = NULL;
    UNIT_CHECK(ptc_semantics_take(modules[0], 5, &semantics) == PTC_OK, v->name);
    UNIT_CHECK(ptc_semantics_compare(semantics, modules[1], v->name) == PTC_OK, v->name);
    if (diags[1].num_errors) ptc_diag_print(&diags[1], stderr, PTC_DIAG_TEXT, false);
    ptc_semantics_destroy(semantics);
    for (int m = 0; m < 2; m++) {
      ptc_module_destroy(modules[m]);
      ptc_diag_deinit(&diags[m]);
    }
  }
}

// The warning names the line of the softmax and the bytes of the scores: b 2, h 4, s 6, t 6, f32.
static void test_warning(void) {
  const variant_t v = {
      "twice", SCORES "  p = softmax[t](z)\n" OUT "  metric peak = max[b, h, s, t](p)\n", NULL};
  ptc_diag_t diag;
  ptc_module_t *module = lower(&diag, &v);
  CU_ASSERT_FATAL(module != NULL);
  CU_ASSERT_EQUAL(run_passes_unchecked(module, "infer-shapes canonicalize raise-attention", false),
                  PTC_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(warning_of(&diag), "1152 bytes"));
  for (int64_t i = 0; i < diag.num_items; i++)
    if (strcmp(diag.items[i].id, "attention-not-fused") == 0)
      CU_ASSERT_EQUAL(diag.items[i].loc.line, 17);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"variants", test_variants},
    {"gradients", test_gradients},
    {"warning", test_warning},
};
UNIT_MAIN("raise_attention", tests)

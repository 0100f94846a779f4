// Proves: sequences on cp, attention by each of its ways. A partitioned module computes on all devices what the module
// computes on one; the plan, run on threads, trains as the plan of one rank does, and reads the bytes that it states.
// What a device reads in attention is what the way promises.
#include <stdlib.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/op.h"
#include "passes/pass.h"
#include "tests/support/mesh_case.h"
#include "tests/support/rank_runs.h"
#include "tests/support/unit.h"

static void test_semantics(void) {
  static const struct {
    const char *model;
    mesh_setup_t setup;
  } rows[] = {
      {"llama3", {.cp = 2, .cp_attention = "all_to_all"}},
      {"gpt2_dropout", {.cp = 2, .tp = 2, .cp_attention = "all_to_all", .sequence_parallel = true}},
      {"gemma2", {.dp = 2, .cp = 2, .zero = 3, .micro_batch = 1, .cp_attention = "all_to_all"}},
      {"bert", {.cp = 2, .recompute = "full", .cp_attention = "all_to_all"}},
      {"llama3", {.cp = 2, .cp_attention = "ring"}},
      {"gemma2", {.dp = 2, .cp = 2, .zero = 3, .micro_batch = 1, .cp_attention = "ring"}},
      {"gptj", {.cp = 4, .cp_attention = "ring"}},
      {"llama3_packed", {.cp = 2, .tp = 2, .cp_attention = "ring", .sequence_parallel = true}},
      {"deepseek_v2", {.cp = 4, .recompute = "full", .cp_attention = "ring"}},
      {"gpt2_dropout", {.cp = 2, .cp_attention = "ring"}},
      {"gpt2_dropout", {.cp = 2, .tp = 2, .zero = 1, .cp_order = "balanced", .seq = "16"}},
      {"deepseek_v2", {.dp = 2, .cp = 2, .zero = 3, .cp_order = "balanced", .seq = "16"}},
      {"llama3", {.cp = 4, .zero = 2, .cp_attention = "ring", .cp_order = "balanced", .seq = "16"}},
      {"llama3_packed", {.cp = 2, .cp_attention = "ring", .cp_order = "balanced", .seq = "16"}},
      {"gemma2",
       {.cp = 2,
        .micro_batch = 1,
        .cp_attention = "all_to_all",
        .cp_order = "balanced",
        .seq = "16"}},
      {"mixtral", {.cp = 2, .ep = 2, .recompute = "selective", .cp_attention = "all_to_all"}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    (void)mesh_case_compare(small_model_find(rows[i].model), &rows[i].setup);
}

// --- runs

static bool run_on(const char *model, const mesh_setup_t *setup, rank_run_t *out_run) {
  const ptc_override_t more[] = {{"train.clip", "0.5"}, {"train.precision", "f32"}, {"seq", "8"}};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = small_model_lower(small_model_find(model), more, 3, &diag);
  if (module) mesh_setup_apply(module, setup);
  *out_run = (rank_run_t){0};
  const bool ok = module && rank_run(module, 11, out_run);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return ok;
}

static void test_runs(void) {
  static const struct {
    const char *model;
    mesh_setup_t setup;
  } rows[] = {
      {"llama3", {.cp = 2, .cp_attention = "all_to_all"}},
      {"llama3", {.cp = 4, .cp_attention = "ring"}},
      {"gpt2_dropout", {.cp = 2, .zero = 1, .cp_order = "balanced"}},
      {"llama3", {.cp = 2, .cp_attention = "ring", .cp_order = "balanced"}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const mesh_setup_t alone = {0};
    rank_run_t one, many;
    char name[160];
    mesh_setup_describe(rows[i].model, &rows[i].setup, name);
    bool ok = run_on(rows[i].model, &alone, &one);
    ok &= run_on(rows[i].model, &rows[i].setup, &many);
    UNIT_CHECK(ok, name);
    if (ok) {
      const rank_difference_t d = rank_run_compare(&one, &many);
      UNIT_CHECK(d.initial == 0 && d.loss <= 1e-5 && d.final <= 1e-3, name);
      UNIT_CHECK(many.replicas_agree && many.bytes_agree && many.bytes_read > 0, name);
    }
    rank_run_deinit(&one);
    rank_run_deinit(&many);
  }
}

// --- sums over tp within attention

// Values that are already projected lie on tp along the dim that scores' gradients are summed over; a bias is summed
// over the batch.
static const char model_of_sums[] =
    "layer joined(x[b, s, d]) {\n"
    "  dim k = 3, t = s\n"
    "  param wq[d, k], wk[d, k], wv[d, k], wo[k, d] ~ normal(0.3)\n"
    "  q[b, s, k] = x[b, s, d] * wq[d, k]\n"
    "  key[b, s, k] = x[b, s, d] * wk[d, k]\n"
    "  val[b, s, k] = x[b, s, d] * wv[d, k]\n"
    "  z[b, s, t] = q[b, s, k] * key[b, t, k] / sqrt(k)\n"
    "  m[b, s, t] = where(index(t) <= index(s), z[b, s, t], -inf)\n"
    "  y[b, s, d] = softmax[t](m)[b, s, t] * val[b, t, k] * wo[k, d]\n"
    "  return x + y\n"
    "}\n"
    "layer biased(x[b, s, d]) {\n"
    "  dim h = 2, k = 4, t = s\n"
    "  param wq[d, h, k], wk[d, h, k], wv[d, h, k], wo[h, k, d] ~ normal(0.3)\n"
    "  param rel[h] ~ normal(0.2)\n"
    "  q[b, s, h, k] = x[b, s, d] * wq[d, h, k]\n"
    "  key[b, s, h, k] = x[b, s, d] * wk[d, h, k]\n"
    "  val[b, s, h, k] = x[b, s, d] * wv[d, h, k]\n"
    "  a = attention[t](q, key[b, t, h, k], val[b, t, h, k], dot = k, mask = index(t) <= index(s), "
    "bias = rel[h] * (index(t) - index(s)))\n"
    "  y[b, s, d] = a[b, s, h, k] * wo[h, k, d]\n"
    "  return x + y\n"
    "}\n"
    "model m(d = 2, seq = 4, vocab = 9) {\n"
    "  dim d, b = batch, s = seq, v = vocab\n"
    "  param emb[v, d] ~ normal(0.5)\n"
    "  input tokens[b, s] : int from text\n"
    "  input targets[b, s] : int from text + 1\n"
    "  x[b, s, d] = emb[tokens[b, s], d]\n"
    "  repeat 2 { x = joined(x) }\n"
    "  x = biased(x)\n"
    "  logits[b, s, v] = x[b, s, d] * emb[v, d]\n"
    "  loss = cross_entropy[v](logits, targets)\n"
    "}\n";

static void test_sums(void) {
  for (int i = 0; i < 4; i++) {
    const char *way = i / 2 ? "all_to_all" : "ring", *precision = i % 2 ? "bf16" : "f32";
    ptc_str_t text = {0};
    ptc_str_printf(&text,
                   "%strain {\n  batch = 4\n  optimizer = sgd(lr = 0.1)\n  precision = %s\n}\n"
                   "parallel {\n  dp = 2\n  cp = 2\n  tp = 2\n  cp_attention = %s\n"
                   "  shard emb on tp over d\n}\n",
                   model_of_sums, precision, way);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = NULL;
    const ptc_pass_options_t options = {.check_semantics = true, .stop_after = "partition"};
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, &options);
    const bool ok =
        ptc_compile_text(&diag, "sums.ptm", text.data, text.len, NULL, &module) == PTC_OK &&
        ptc_pipeline_train(&ctx, module) == PTC_OK;
    UNIT_CHECK(ok, way);
    if (!ok) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    ptc_pass_ctx_deinit(&ctx);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
    ptc_str_deinit(&text);
  }
}

// --- volume

typedef struct volume_s {
  double ring_shift, all_to_all, all_gather, reduce_scatter, all_reduce;
} volume_t;

static double local_bytes(const ptc_module_t *module, const ptc_type_t *type) {
  double bytes = (double)ptc_dtype_bytes(type->dtype);
  for (int32_t d = 0; d < type->num_dims; d++)
    bytes *= (double)ptc_dim_local_extent(&module->mesh, &type->dims[d]);
  return bytes;
}

// Bytes of activations that a device reads in a turn of the forward or the backward region.
static volume_t volume_of(const ptc_module_t *module, bool reverse) {
  volume_t v = {0};
  const ptc_op_t *region = ptc_module_find_func(module, "train")->body->first;
  while (region &&
         !(region->body && region->num_carry >= 1 && ptc_op_bool(region, "reverse") == reverse))
    region = region->next;
  CU_ASSERT_FATAL(region != NULL);
  for (const ptc_op_t *op = region->body->first; op; op = op->next) {
    if (!ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE) || op->results[0]->type->num_dims < 4) continue;
    if (!ptc_type_has_dim(op->results[0]->type, ptc_module_intern((ptc_module_t *)module, "b")))
      continue;
    ptc_axis_ref_t axes[PTC_MAX_AXES];
    int32_t num_axes;
    CU_ASSERT_FATAL(ptc_axes_parse(module, ptc_op_string(op, "axes"), axes, &num_axes));
    const double n = (double)ptc_axes_size(&module->mesh, axes, num_axes);
    const double x = local_bytes(module, op->operands[0]->type);
    switch (op->opcode) {
      case PTC_OP_RING_SHIFT: v.ring_shift += x; break;
      case PTC_OP_ALL_TO_ALL: v.all_to_all += x * (n - 1) / n; break;
      case PTC_OP_ALL_GATHER: v.all_gather += x * (n - 1); break;
      case PTC_OP_REDUCE_SCATTER: v.reduce_scatter += x * (n - 1) / n; break;
      default: v.all_reduce += 2 * x * (n - 1) / n; break;
    }
  }
  return v;
}

static ptc_module_t *compile(const mesh_setup_t *setup, ptc_diag_t *diag) {
  const ptc_override_t more[] = {{"layers", "3"}, {"d", "64"},          {"seq", "32"},
                                 {"vocab", "64"}, {"heads", "8"},       {"kv_heads", "4"},
                                 {"ffn", "96"},   {"train.batch", "4"}, {"train.precision", "f32"}};
  ptc_module_t *module = small_model_lower(small_model_find("llama3"), more, 9, diag);
  CU_ASSERT_PTR_NOT_NULL_FATAL(module);
  mesh_setup_apply(module, setup);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  const ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ptc_pass_ctx_deinit(&ctx);
  if (status != PTC_OK) ptc_diag_print(diag, stdout, PTC_DIAG_TEXT, false);
  CU_ASSERT_EQUAL_FATAL(status, PTC_OK);
  return module;
}

// Of b = 4, s = 32, 8 heads of q, 4 of keys and values, each 8 wide, in f32.
static const double q_bytes = 4.0 * 32 * 8 * 8 * 4, kv_bytes = 4.0 * 32 * 4 * 8 * 4;

// q, keys, values in and the result back; in backward the result and its gradient in, three gradients back.
static void test_all_to_all_volume(void) {
  for (int cp = 2; cp <= 4; cp *= 2) {
    const mesh_setup_t setup = {.cp = cp, .cp_attention = "all_to_all"};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = compile(&setup, &diag);
    const volume_t f = volume_of(module, false), b = volume_of(module, true);
    const double part = (cp - 1) / (double)(cp * cp);
    CU_ASSERT_EQUAL(f.all_to_all, (2 * q_bytes + 2 * kv_bytes) * part);
    CU_ASSERT_EQUAL(b.all_to_all, (3 * q_bytes + 2 * kv_bytes) * part);
    CU_ASSERT_EQUAL(f.all_gather + f.reduce_scatter + f.all_reduce, 0);
    CU_ASSERT_EQUAL(b.all_gather + b.reduce_scatter + b.all_reduce, 0);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// Keys and values move c - 1 times; in backward they and their gradients do.
static void test_ring_volume(void) {
  for (int cp = 2; cp <= 4; cp *= 2) {
    const mesh_setup_t setup = {.cp = cp, .cp_attention = "ring"};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = compile(&setup, &diag);
    const volume_t f = volume_of(module, false), b = volume_of(module, true);
    CU_ASSERT_EQUAL(f.ring_shift, (cp - 1) * 2 * kv_bytes / cp);
    CU_ASSERT_EQUAL(b.ring_shift, 2 * (cp - 1) * 2 * kv_bytes / cp);
    CU_ASSERT_EQUAL(f.all_to_all + f.all_gather + f.reduce_scatter + f.all_reduce, 0);
    CU_ASSERT_EQUAL(b.all_to_all + b.all_gather + b.reduce_scatter + b.all_reduce, 0);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// --- the balanced order

static const ptc_type_t *type_of_attention(const ptc_module_t *module, ptc_opcode_t opcode) {
  const ptc_op_t *region = ptc_module_find_func(module, "train")->body->first;
  while (region && !region->body) region = region->next;
  for (const ptc_op_t *op = region ? region->body->first : NULL; op; op = op->next)
    if (op->opcode == opcode) return op->operands[0]->type;
  return NULL;
}

// Pairs of positions under a causal mask: every device has as many in the balanced order; in the other the last has
// nearly twice those of the mean. Keys and values are read as in the other order.
static void test_balance(void) {
  for (int balanced = 0; balanced < 2; balanced++) {
    const mesh_setup_t setup = {
        .cp = 4, .cp_order = balanced ? "balanced" : "contiguous", .cp_attention = "gather"};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = compile(&setup, &diag);
    const ptc_type_t *q = type_of_attention(module, PTC_OP_ATTENTION);
    CU_ASSERT_FATAL(q != NULL);
    const ptc_dim_t *s = &q->dims[ptc_type_find_dim(q, ptc_module_intern(module, "s"))];
    CU_ASSERT_EQUAL(s->dist, balanced ? PTC_DIST_ZIGZAG : PTC_DIST_BLOCK);
    int64_t pairs[4] = {0};
    for (int64_t r = 0; r < 4; r++)
      for (int64_t i = 0; i < ptc_dim_local_extent(&module->mesh, s); i++)
        pairs[r] += 1 + ptc_dim_global_index(&module->mesh, s, r, i);
    for (int r = 0; r < 4; r++) CU_ASSERT_EQUAL(pairs[r] == 32 * 33 / 2 / 4, balanced);
    CU_ASSERT_EQUAL(volume_of(module, false).all_gather, 3 * 2 * kv_bytes / 4);
    CU_ASSERT_EQUAL(volume_of(module, true).all_gather, 3 * 2 * kv_bytes / 4);
    CU_ASSERT_EQUAL(volume_of(module, true).reduce_scatter, 3 * 2 * kv_bytes / 4);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static void test_refused(void) {
  static const struct {
    mesh_setup_t setup;
    const char *id;
  } rows[] = {
      {{.cp = 2, .cp_order = "balanced", .seq = "10"}, "partition-divides"},
      {{.cp = 2, .tp = 2, .sequence_parallel = true, .cp_order = "balanced", .seq = "16"},
       "partition-order"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    const ptc_override_t more = {"seq", rows[i].setup.seq};
    ptc_module_t *module = small_model_lower(small_model_find("llama3"), &more, 1, &diag);
    CU_ASSERT_PTR_NOT_NULL_FATAL(module);
    mesh_setup_apply(module, &rows[i].setup);
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, NULL);
    CU_ASSERT_NOT_EQUAL(ptc_pipeline_train(&ctx, module), PTC_OK);
    UNIT_CHECK(diag.num_items > 0 && strcmp(diag.items[0].id, rows[i].id) == 0, rows[i].id);
    ptc_pass_ctx_deinit(&ctx);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static const unit_test_t tests[] = {
    {"semantics", test_semantics},
    {"sums over tp", test_sums},
    {"runs", test_runs},
    {"volume of all_to_all", test_all_to_all_volume},
    {"volume of the ring", test_ring_volume},
    {"balance", test_balance},
    {"refused", test_refused},
};
UNIT_MAIN("context", tests)

// Proves: the compact program of a model says what it is made of (pieces, names, parameters); activations that
// Megatron-LM keeps, and parameters with optimizer state, are the figures of Korthikanti et al. 2022 to the byte, and
// the states of the ZeRO paper; a split is read off it in microseconds; choices that do not fit are refused with
// a reason; what cannot be planned is a diagnostic.
#include "passes/planner/work.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "frontend/driver/compile.h"
#include "passes/pass.h"
#include "tests/support/unit.h"

// No biases and norms without parameters: 12 d^2 a layer, as the figures have it.
static const char gpt[] =
    "model gpt(layers = 2, d = 64, heads = 4, seq = 32, vocab = 96, drop = 0.1) {\n"
    "  dim d, b = batch, s = seq, h = heads, k = d / heads, f = 4 * d, v = vocab\n"
    "  param wte[v, d] ~ normal(0.02)\n"
    "  layer attn(x[b, s, d]) {\n"
    "    param wq[d, h, k], wk[d, h, k], wv[d, h, k], wo[h, k, d] ~ normal(0.02)\n"
    "    q[b, s, h, k] = x[b, s, d] * wq[d, h, k]\n"
    "    key[b, s, h, k] = x[b, s, d] * wk[d, h, k]\n"
    "    val[b, s, h, k] = x[b, s, d] * wv[d, h, k]\n"
    "    a = attention[s](q, key, val, dot = k, causal, dropout = drop)\n"
    "    y[b, s, d] = a[b, s, h, k] * wo[h, k, d]\n"
    "    return dropout(y, drop)\n"
    "  }\n"
    "  layer mlp(x[b, s, d]) {\n"
    "    param w1[d, f], w2[f, d] ~ normal(0.02)\n"
    "    u[b, s, f] = x[b, s, d] * w1[d, f]\n"
    "    y[b, s, d] = gelu(u[b, s, f]) * w2[f, d]\n"
    "    return dropout(y, drop)\n"
    "  }\n"
    "  layer block(x[b, s, d]) {\n"
    "    x = x + attn(layernorm@ln1[d](x, affine = off))\n"
    "    x = x + mlp(layernorm@ln2[d](x, affine = off))\n"
    "    return x\n"
    "  }\n"
    "  input tokens[b, s] : int from text\n"
    "  input targets[b, s] : int from text + 1\n"
    "  x[b, s, d] = wte[tokens[b, s], d]\n"
    "  repeat layers { x = block(x) }\n"
    "  logits[b, s, v] = layernorm@ln_f[d](x, affine = off)[b, s, d] * wte[v, d]\n"
    "  loss = cross_entropy[v](logits, targets)\n"
    "}\n"
    "train { batch = 8 optimizer = adamw(lr = 1e-4) precision = bf16 }\n";

typedef struct planned_s {
  ptc_diag_t diag;
  ptc_arena_t arena;
  ptc_module_t *module;
  ptc_work_t *work;
  ptc_status_t status;
} planned_t;

static void plan_text(planned_t *p, const char *text, const ptc_override_t *overrides, int count) {
  char folder[32], path[64];
  unit_make_folder(folder);
  snprintf(path, sizeof(path), "%s/m.ptm", folder);
  FILE *file = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  fputs(text, file);
  fclose(file);
  *p = (planned_t){.status = PTC_INTERNAL};
  ptc_diag_init(&p->diag);
  ptc_arena_init(&p->arena);
  const ptc_lower_options_t options = {
      .overrides = overrides, .num_overrides = count, .parallel = "dp=1,tp=1,pp=1"};
  const char *files[] = {path};
  CU_ASSERT_EQUAL_FATAL(ptc_compile_files(&p->diag, files, 1, &options, &p->module), PTC_OK);
  unlink(path);
  rmdir(folder);
  const ptc_pass_options_t passes = {.stop_after = "optimizer"};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &passes);
  p->status = ptc_pipeline_train(&ctx, p->module);
  ptc_pass_ctx_deinit(&ctx);
  CU_ASSERT_EQUAL_FATAL(p->status, PTC_OK);
  p->status = ptc_work_new(p->module, &p->arena, &p->work);
}

static void plan_end(planned_t *p) {
  ptc_module_destroy(p->module);
  ptc_arena_deinit(&p->arena);
  ptc_diag_deinit(&p->diag);
}

// Names h and f lie on tp.
static ptc_choice_t megatron(const ptc_work_t *work, int tp, int micro_batch, bool sp) {
  ptc_choice_t c = {.size = {1, 1, 1, 1, tp},
                    .micro_batch = micro_batch,
                    .sequence_parallel = sp,
                    .chunks = 1,
                    .recompute_turns = -1};
  for (int32_t i = 0; i < work->num_names; i++)
    if (strcmp(work->names[i].name, "h") == 0 || strcmp(work->names[i].name, "f") == 0)
      for (int k = 0; k < PTC_MAX_PIECES; k++) c.names[k] |= 1u << i;
  return c;
}

static const ptc_piece_t *find_piece(const ptc_work_pieces_t *pieces, const char *name) {
  for (int32_t i = 0; i < pieces->count; i++)
    if (strcmp(pieces->items[i].name, name) == 0) return &pieces->items[i];
  return NULL;
}

// --- the program

static void test_program(void) {
  planned_t p;
  plan_text(&p, gpt, NULL, 0);
  CU_ASSERT_EQUAL_FATAL(p.status, PTC_OK);
  CU_ASSERT_STRING_EQUAL(p.work->model, "gpt");
  CU_ASSERT_EQUAL(p.work->batch, 8);
  CU_ASSERT_EQUAL(p.work->tokens_per_sample, 32);
  CU_ASSERT_EQUAL(p.work->precision, PTC_PREC_BF16);
  CU_ASSERT_EQUAL(p.work->params, 2 * 12 * 64 * 64 + 96 * 64);
  CU_ASSERT_EQUAL_FATAL(p.work->num_pieces, 3);
  CU_ASSERT_STRING_EQUAL(p.work->pieces[0].name, "begin");
  CU_ASSERT_STRING_EQUAL(p.work->pieces[1].name, "block");
  CU_ASSERT_EQUAL(p.work->pieces[1].count, 2);
  CU_ASSERT_STRING_EQUAL(p.work->pieces[2].name, "end");
  const ptc_choice_t c = megatron(p.work, 2, 1, false);
  ptc_work_pieces_t pieces;
  CU_ASSERT_EQUAL_FATAL(ptc_layout_pieces(p.work, &p.arena, &c, PTC_SAVE_PTC, &pieces), PTC_OK);
  CU_ASSERT_EQUAL(pieces.micro_batches, 8);
  // The embedding is the output layer's, too: the same parameter in the first and the last piece.
  CU_ASSERT_EQUAL(pieces.items[2].num_groups, 1);
  CU_ASSERT_EQUAL(pieces.items[2].groups[0].shared_with, 0);
  CU_ASSERT_EQUAL(pieces.items[0].groups[0].shared_with, -1);
  // Activations of one sample in 16 bits.
  CU_ASSERT_EQUAL(pieces.items[0].boundary_bytes, 32 * 64 * 2);
  CU_ASSERT_EQUAL(pieces.items[1].boundary_bytes, 32 * 64 * 2);
  CU_ASSERT_EQUAL(pieces.items[2].boundary_bytes, 0);
  // Two sums over tp forward, two backward, 2 b s d bytes each.
  CU_ASSERT_EQUAL(pieces.items[1].forward.num_nets, 2);
  for (int32_t i = 0; i < pieces.items[1].forward.num_nets; i++) {
    CU_ASSERT_EQUAL(pieces.items[1].forward.nets[i].kind, PTC_NET_ALL_REDUCE);
    CU_ASSERT_EQUAL(pieces.items[1].forward.nets[i].bytes, 32 * 64 * 2);
    CU_ASSERT_EQUAL(pieces.items[1].forward.nets[i].ranks, 2);
  }
  // Weight gradients are apart from what hands gradients on.
  double weights = 0, others = 0;
  for (int32_t i = 0; i < pieces.items[1].weight_grad.num_kernels; i++)
    weights += pieces.items[1].weight_grad.kernels[i].flops;
  for (int32_t i = 0; i < pieces.items[1].backward.num_kernels; i++)
    if (pieces.items[1].backward.kernels[i].kind == PTC_KW_GEMM)
      others += pieces.items[1].backward.kernels[i].flops;
  CU_ASSERT_EQUAL(weights, 2.0 * 32 * 12 * 64 * 64 / 2);
  CU_ASSERT_EQUAL(others, weights);
  plan_end(&p);
}

// --- Korthikanti et al. 2022, figure 1 and section 4; bytes per device of the first stage

static const struct {
  const char *layers, *d, *heads;
  int tp, stages, chunks, micro_batch;
  double gib, full_gib,
      least_gib;  // parameters with state; TP alone; TP, SP and selective recomputation
} figures[] = {
    {"48", "6144", "64", 8, 1, 1, 4, 45.5625, 59.25, 9.5625},
    {"96", "12288", "96", 8, 8, 3, 1, 45.5625, 66.84375, 12.3515625},
    {"105", "20480", "128", 8, 35, 3, 1, 31.640625, 114.0234375, 23.076171875},
    {"128", "25600", "160", 8, 64, 1, 1, 32.958984375, 131.25, 26.5625},
};

static void test_korthikanti(void) {
  for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
    const ptc_override_t sizes[] = {{"layers", figures[i].layers},
                                    {"d", figures[i].d},
                                    {"heads", figures[i].heads},
                                    {"seq", "2048"},
                                    {"vocab", "51200"},
                                    {"train.batch", "64"}};
    planned_t p;
    plan_text(&p, gpt, sizes, 6);
    CU_ASSERT_EQUAL_FATAL(p.status, PTC_OK);
    ptc_work_pieces_t pieces;
    ptc_choice_t c = megatron(p.work, figures[i].tp, figures[i].micro_batch, false);
    CU_ASSERT_EQUAL_FATAL(ptc_layout_pieces(p.work, &p.arena, &c, PTC_SAVE_MEGATRON, &pieces),
                          PTC_OK);
    const ptc_piece_t *block = find_piece(&pieces, "block");
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    const double gib = 1024.0 * 1024 * 1024, layers = (double)block->count;
    const double stage = layers / figures[i].stages;
    // As many micro-batches of 1/p of the layers as there are stages; interleaving keeps some more.
    const double p1 = figures[i].stages - 1, pv = figures[i].stages * (double)figures[i].chunks;
    const double live = layers * (figures[i].chunks > 1 ? 1 + p1 / pv : 1);
    const double states = block->param_bytes + block->grad_bytes + block->state_bytes;
    CU_ASSERT_EQUAL(states * stage / gib, figures[i].gib);
    CU_ASSERT_EQUAL((block->saved_bytes[PTC_RECOMPUTE_NONE] + block->scores_bytes) * live / gib,
                    figures[i].full_gib);
    const double input = block->saved_bytes[PTC_RECOMPUTE_FULL];
    CU_ASSERT_EQUAL(input, 2.0 * 2048 * figures[i].micro_batch * atof(figures[i].d));
    c = megatron(p.work, figures[i].tp, figures[i].micro_batch, true);
    c.recompute = PTC_RECOMPUTE_SELECTIVE;
    CU_ASSERT_EQUAL_FATAL(ptc_layout_pieces(p.work, &p.arena, &c, PTC_SAVE_MEGATRON, &pieces),
                          PTC_OK);
    block = find_piece(&pieces, "block");
    CU_ASSERT_EQUAL(block->saved_bytes[PTC_RECOMPUTE_SELECTIVE] * live / gib, figures[i].least_gib);
    plan_end(&p);
  }
}

// A batch of one sample has the same pieces as a larger one's micro-batches of one.
static void test_one_sample(void) {
  ptc_work_pieces_t pieces[2];
  planned_t p[2];
  for (int i = 0; i < 2; i++) {
    const ptc_override_t batch[] = {{"train.batch", i ? "8" : "1"}};
    plan_text(&p[i], gpt, batch, 1);
    CU_ASSERT_EQUAL_FATAL(p[i].status, PTC_OK);
    const ptc_choice_t c = {.size = {1, 1, 1, 1, 1}, .micro_batch = 1, .chunks = 1};
    CU_ASSERT_EQUAL_FATAL(ptc_layout_pieces(p[i].work, &p[i].arena, &c, PTC_SAVE_PTC, &pieces[i]),
                          PTC_OK);
    CU_ASSERT_EQUAL(pieces[i].micro_batches, i ? 8 : 1);
  }
  CU_ASSERT_EQUAL_FATAL(pieces[0].count, pieces[1].count);
  for (int32_t i = 0; i < pieces[0].count; i++) {
    const ptc_piece_t *one = &pieces[0].items[i], *of_many = &pieces[1].items[i];
    CU_ASSERT_EQUAL(one->forward.num_kernels, of_many->forward.num_kernels);
    CU_ASSERT_EQUAL(one->backward.num_kernels, of_many->backward.num_kernels);
    CU_ASSERT_EQUAL(one->weight_grad.num_kernels, of_many->weight_grad.num_kernels);
    CU_ASSERT_EQUAL(one->saved_bytes[PTC_RECOMPUTE_NONE], of_many->saved_bytes[PTC_RECOMPUTE_NONE]);
  }
  CU_ASSERT(find_piece(&pieces[0], "block")->backward.num_kernels > 0);
  for (int i = 0; i < 2; i++) plan_end(&p[i]);
}

// Selective recompute by ops (torchtitan): a turn's input, attention's result, and every second product: q, val, up.
static void test_products(void) {
  planned_t p;
  plan_text(&p, gpt, NULL, 0);
  CU_ASSERT_EQUAL_FATAL(p.status, PTC_OK);
  const ptc_choice_t c = {.size = {1, 1, 1, 1, 1}, .micro_batch = 1, .chunks = 1};
  ptc_work_pieces_t pieces;
  CU_ASSERT_EQUAL_FATAL(ptc_layout_pieces(p.work, &p.arena, &c, PTC_SAVE_TORCH, &pieces), PTC_OK);
  const ptc_piece_t *block = find_piece(&pieces, "block");
  CU_ASSERT_PTR_NOT_NULL_FATAL(block);
  const double input = block->saved_bytes[PTC_RECOMPUTE_FULL];
  CU_ASSERT_EQUAL(block->products_bytes, input * (1 + 1 + 1 + 1 + 4));
  // The loss stands in the last piece.
  const ptc_piece_t *end = &pieces.items[pieces.count - 1];
  CU_ASSERT(block->logits == 0 && end->logits > 0);
  plan_end(&p);
}

// Attention's mask is read off the program, the window too; casts and broadcasts alone are known as such.
static void test_attention(void) {
  char text[4096];
  const char *at = strstr(gpt, ", dropout = drop");
  snprintf(text, sizeof(text), "%.*s, window = 8%s", (int)(at - gpt), gpt, at);
  planned_t p;
  plan_text(&p, text, NULL, 0);
  CU_ASSERT_EQUAL_FATAL(p.status, PTC_OK);
  const ptc_choice_t c = {.size = {1, 1, 1, 1, 1}, .micro_batch = 1, .chunks = 1};
  ptc_work_pieces_t pieces;
  CU_ASSERT_EQUAL_FATAL(ptc_layout_pieces(p.work, &p.arena, &c, PTC_SAVE_PTC, &pieces), PTC_OK);
  const ptc_piece_t *block = find_piece(&pieces, "block");
  CU_ASSERT_PTR_NOT_NULL_FATAL(block);
  const ptc_phase_work_t *phases[] = {&block->forward, &block->backward};
  for (int k = 0; k < 2; k++) {
    int found = 0;
    for (int32_t i = 0; i < phases[k]->num_kernels; i++) {
      const ptc_kernel_work_t *one = &phases[k]->kernels[i];
      CU_ASSERT(!one->folds || one->unfused_bytes == 0);
      if (one->kind != PTC_KW_ATTENTION && one->kind != PTC_KW_ATTENTION_GRAD) continue;
      found++;
      CU_ASSERT(one->causal && one->window == 8 && one->cols == 32);
    }
    CU_ASSERT_EQUAL(found, 1);
  }
  plan_end(&p);
}

// --- Rajbhandari et al. 2020, figure 1: 7.5e9 parameters, 64 ranks, gradients in 16 bits

static void test_zero(void) {
  planned_t p;
  plan_text(&p, gpt, NULL, 0);
  CU_ASSERT_EQUAL_FATAL(p.status, PTC_OK);
  const ptc_choice_t c = {.size = {1, 8, 1, 1, 1}, .micro_batch = 1, .chunks = 1};
  ptc_work_pieces_t pieces;
  CU_ASSERT_EQUAL_FATAL(ptc_layout_pieces(p.work, &p.arena, &c, PTC_SAVE_MEGATRON, &pieces),
                        PTC_OK);
  double params = 0, copies = 0, states = 0;
  for (int32_t i = 0; i < pieces.count; i++)
    for (int32_t g = 0; g < pieces.items[i].num_groups; g++) {
      const ptc_param_group_t *group = &pieces.items[i].groups[g];
      CU_ASSERT_EQUAL(group->axes, 1u << PTC_AXIS_DP);
      if (group->shared_with >= 0) continue;
      const double turns = (double)pieces.items[i].count;
      params += turns * group->params;
      copies += turns * group->param_bytes;
      states += turns * group->state_bytes;
    }
  const double scale = 7.5e9 / params, ranks = 64, grads = 2 * params;
  const double gb[] = {(copies + grads + states) * scale / 1e9,
                       (copies + grads + states / ranks) * scale / 1e9,
                       (copies + (grads + states) / ranks) * scale / 1e9,
                       (copies + grads + states) / ranks * scale / 1e9};
  CU_ASSERT_DOUBLE_EQUAL(gb[0], 120, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(gb[1], 31.40625, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(gb[2], 16.640625, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(gb[3], 1.875, 1e-9);
  plan_end(&p);
}

// --- choices that do not fit; speed

static void test_refusals(void) {
  planned_t p;
  plan_text(&p, gpt, NULL, 0);
  CU_ASSERT_EQUAL_FATAL(p.status, PTC_OK);
  ptc_work_pieces_t pieces;
  ptc_choice_t c = {.size = {1, 3, 1, 1, 1}, .micro_batch = 1, .chunks = 1};
  CU_ASSERT_EQUAL(ptc_layout_pieces(p.work, &p.arena, &c, PTC_SAVE_PTC, &pieces), PTC_INFEASIBLE);
  CU_ASSERT_PTR_NOT_NULL(pieces.reason);
  c = (ptc_choice_t){.size = {1, 1, 1, 64, 1}, .micro_batch = 1, .chunks = 1};
  CU_ASSERT_EQUAL(ptc_layout_pieces(p.work, &p.arena, &c, PTC_SAVE_PTC, &pieces), PTC_INFEASIBLE);
  CU_ASSERT_PTR_NOT_NULL(pieces.reason);
  // A model without a train block.
  ptc_module_t *empty = ptc_module_create(&p.diag, "empty");
  ptc_work_t *work;
  CU_ASSERT_EQUAL(ptc_work_new(empty, &p.arena, &work), PTC_UNSUPPORTED);
  CU_ASSERT_PTR_NULL(work);
  CU_ASSERT_STRING_EQUAL(p.diag.items[p.diag.num_items - 1].id, "planner-train");
  ptc_module_destroy(empty);
  plan_end(&p);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A guard against what is a hundred times too slow, whatever else the machine does.
static void test_speed(void) {
  planned_t p;
  plan_text(&p, gpt, NULL, 0);
  CU_ASSERT_EQUAL_FATAL(p.status, PTC_OK);
  const ptc_choice_t c = megatron(p.work, 2, 1, true);
  double best = 1;
  for (int i = 0; i < 50; i++) {
    ptc_arena_t arena;
    ptc_arena_init(&arena);
    ptc_work_pieces_t pieces;
    const double start = seconds();
    CU_ASSERT_EQUAL(ptc_layout_pieces(p.work, &arena, &c, PTC_SAVE_PTC, &pieces), PTC_OK);
    best = fmin(best, seconds() - start);
    ptc_arena_deinit(&arena);
  }
  printf(" %.0f us ", best * 1e6);
  CU_ASSERT_TRUE(best < 5e-3);
  plan_end(&p);
}

static const unit_test_t tests[] = {
    {"what a program says", test_program},
    {"figures of Korthikanti et al.", test_korthikanti},
    {"the states of ZeRO", test_zero},
    {"what op-wise recompute keeps", test_products},
    {"attention's mask", test_attention},
    {"one sample", test_one_sample},
    {"choices and models that do not fit", test_refusals},
    {"microseconds", test_speed},
};
UNIT_MAIN("work", tests)

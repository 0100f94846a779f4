// Proves: a partitioned module, interpreted on all devices of its mesh, computes what the module computed before:
// losses, gradients, new states; initial values to the bit. Devices that hold the same element agree in every bit.
// All small models, meshes of dp, tp, cp and products, ZeRO 0 to 3, sequence parallelism, micro-batches, recomputation.
// In f32, ZeRO 0 and 1 train to the same bits, so do 2 and 3, and all four where a step has one micro-batch; initial
// parameters have the bits of one device on any mesh. GPT-2 on tp is Megatron's layout, with its collectives.
#include <stdlib.h>

#include "ir/axes.h"
#include "ir/op.h"
#include "ir/text.h"
#include "passes/check_semantics.h"
#include "passes/parallel.h"
#include "passes/pass.h"
#include "tests/support/mesh_case.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

static const mesh_setup_t setups[] = {
    {.dp = 2},
    {.dp = 2, .micro_batch = 1, .zero = 1},
    {.dp = 2, .micro_batch = 1, .zero = 2, .recompute = "full"},
    {.dp = 2, .micro_batch = 1, .zero = 3, .recompute = "full"},
    {.dp = 4, .zero = 3},
    {.tp = 2},
    {.tp = 2, .sequence_parallel = true, .micro_batch = 2},
    {.tp = 4, .recompute = "selective"},
    {.cp = 2, .zero = 1},
    {.dp = 2, .tp = 2, .zero = 1, .micro_batch = 1},
    {.dp = 2, .tp = 2, .zero = 3, .sequence_parallel = true, .recompute = "full"},
    {.dp = 2, .cp = 2, .zero = 2, .micro_batch = 1},
    {.cp = 2, .tp = 2, .sequence_parallel = true},
    {.dp = 2, .cp = 2, .tp = 2, .zero = 3, .micro_batch = 1, .sequence_parallel = true},
};
enum { NUM_SETUPS = sizeof(setups) / sizeof(*setups) };

// For mixtures of experts, which lie on ep.
static const mesh_setup_t expert_setups[] = {
    {.ep = 2},
    {.ep = 4, .zero = 1},
    {.dp = 2, .ep = 2, .zero = 3, .micro_batch = 1, .recompute = "full"},
    {.ep = 2, .tp = 2, .zero = 2, .sequence_parallel = true},
    {.ep = 2, .cp = 2, .micro_batch = 1, .recompute = "selective"},
};

// Every model meets a few setups, GPT-2, Llama and Gemma all of them; PTC_CASES=all: every pair.
static void test_models(void) {
  const char *cases = getenv("PTC_CASES");
  const bool all = cases && strcmp(cases, "all") == 0;
  const char *only = getenv("PTC_CASE");
  for (int m = 0; m < num_small_models; m++) {
    const char *name = small_models[m].name;
    if (only && strcmp(only, name) != 0) continue;
    for (int i = 0; i < NUM_SETUPS; i++)
      if (all || only || (i + 5 * m) % 7 == 0)
        (void)mesh_case_compare(&small_models[m], &setups[i]);
  }
}

// Batches that the devices do not divide: padded samples change nothing.
static void test_uneven_batches(void) {
  static const mesh_setup_t uneven[] = {
      {.dp = 3},
      {.dp = 3, .micro_batch = 1, .zero = 1},
      {.dp = 3, .micro_batch = 1, .zero = 2, .recompute = "full"},
      {.dp = 3, .tp = 2, .zero = 3, .sequence_parallel = true},
      {.dp = 3, .cp = 2, .micro_batch = 1, .zero = 3, .recompute = "selective"},
      {.micro_batch = 3},
      {.dp = 5},
  };
  static const mesh_setup_t experts[] = {{.ep = 3}};
  const char *cases = getenv("PTC_CASES");
  const bool all = cases && strcmp(cases, "all") == 0;
  for (int m = 0; m < num_small_models; m++)
    for (int i = 0; i < (int)(sizeof(uneven) / sizeof(*uneven)); i++)
      if (all || (i + 3 * m) % 7 == 0) (void)mesh_case_compare(&small_models[m], &uneven[i]);
  for (size_t i = 0; i < sizeof(experts) / sizeof(*experts); i++)
    (void)mesh_case_compare(small_model_find("mixtral"), &experts[i]);
}

static void test_experts(void) {
  static const char *const models[] = {"mixtral", "deepseek_v2"};
  for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++)
    for (size_t i = 0; i < sizeof(expert_setups) / sizeof(*expert_setups); i++)
      (void)mesh_case_compare(small_model_find(models[m]), &expert_setups[i]);
}

// --- bits

static ptc_module_t *compile(const char *name, const mesh_setup_t *s, const ptc_override_t *more,
                             int num_more, ptc_diag_t *diag) {
  ptc_module_t *module = small_model_lower(small_model_find(name), more, num_more, diag);
  CU_ASSERT_PTR_NOT_NULL_FATAL(module);
  mesh_setup_apply(module, s);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  const ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ptc_pass_ctx_deinit(&ctx);
  if (status != PTC_OK) ptc_diag_print(diag, stdout, PTC_DIAG_TEXT, false);
  CU_ASSERT_EQUAL_FATAL(status, PTC_OK);
  return module;
}

// All parameters and moments, one after another.
typedef struct state_s {
  double *data;
  int64_t count;
} state_t;

static state_t take_state(ptc_interp_t *interp, const ptc_module_t *module) {
  state_t state = {0};
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    if (global->kind != PTC_GLOBAL_PARAM && global->kind != PTC_GLOBAL_MOMENT) continue;
    const int64_t count =
        ptc_type_num_elements(global->type) * ptc_type_num_instances(global->type);
    state.data = realloc(state.data, (size_t)(state.count + count) * sizeof(double));
    CU_ASSERT_EQUAL(ptc_interp_get(interp, global, state.data + state.count), PTC_OK);
    state.count += count;
  }
  return state;
}

// The state after init and |steps| steps in f32.
static state_t train(const char *name, const mesh_setup_t *s, int steps) {
  const ptc_override_t more[] = {
      {"seq", "8"},          {"train.clip", "0.1"}, {"train.precision", "f32"},
      {"train.warmup", "1"}, {"vocab", "44"},       {"heads", "2"}};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = compile(name, s, more, 6, &diag);
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_TYPED);
  ptc_semantics_fill(interp, module, 11);
  CU_ASSERT_EQUAL(ptc_interp_run(interp, "init"), PTC_OK);
  for (int i = 0; i < steps; i++) CU_ASSERT_EQUAL(ptc_interp_run(interp, "train"), PTC_OK);
  state_t state = take_state(interp, module);
  ptc_interp_destroy(interp);
  ptc_module_destroy(module);
  if (diag.num_errors) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  ptc_diag_deinit(&diag);
  return state;
}

static bool same_bits(const state_t *a, const state_t *b) {
  return a->count == b->count && a->count > 0 &&
         memcmp(a->data, b->data, (size_t)a->count * sizeof(double)) == 0;
}

static void test_initial_bits(void) {
  const mesh_setup_t one = {0};
  state_t expected = train("gpt2", &one, 0);
  for (int i = 0; i < NUM_SETUPS; i += 3) {
    state_t state = train("gpt2", &setups[i], 0);
    char name[160];
    mesh_setup_describe("init", &setups[i], name);
    UNIT_CHECK(same_bits(&expected, &state), name);
    free(state.data);
  }
  free(expected.data);
}

static void test_zero_bits(void) {
  static const mesh_setup_t rows[] = {
      {.dp = 2}, {.dp = 2, .micro_batch = 1}, {.dp = 2, .tp = 2, .sequence_parallel = true}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    state_t states[4];
    for (int zero = 0; zero < 4; zero++) {
      mesh_setup_t s = rows[i];
      s.zero = zero;
      states[zero] = train("gpt2_dropout", &s, 2);
    }
    char name[160];
    mesh_setup_describe("zero", &rows[i], name);
    UNIT_CHECK(same_bits(&states[0], &states[1]), name);
    UNIT_CHECK(same_bits(&states[2], &states[3]), name);
    UNIT_CHECK(same_bits(&states[1], &states[2]) || rows[i].micro_batch > 0, name);
    for (int zero = 0; zero < 4; zero++) free(states[zero].data);
  }
}

// --- Megatron

typedef struct counts_s {
  int all_reduce, all_gather, reduce_scatter, all_to_all;
} counts_t;

// Collectives of activations in the region.
static counts_t count_collectives(const ptc_op_t *region) {
  counts_t counts = {0};
  for (const ptc_op_t *op = region->body->first; op; op = op->next) {
    const bool activation = op->num_results == 1 && op->results[0]->type->num_dims > 2;
    counts.all_reduce += activation && op->opcode == PTC_OP_ALL_REDUCE;
    counts.all_gather += activation && op->opcode == PTC_OP_ALL_GATHER;
    counts.reduce_scatter += activation && op->opcode == PTC_OP_REDUCE_SCATTER;
    counts.all_to_all += activation && op->opcode == PTC_OP_ALL_TO_ALL;
  }
  return counts;
}

static const ptc_op_t *find_region(const ptc_module_t *module, bool reverse) {
  const ptc_func_t *func = ptc_module_find_func(module, "train");
  for (const ptc_op_t *op = func->body->first; op; op = op->next)
    if (op->body && ptc_op_bool(op, "reverse") == reverse && op->num_carry >= 1 &&
        op->results[0]->type->num_dims == 3)
      return op;
  return NULL;
}

// The text of a partitioned module reads back exactly.
static void check_text(ptc_module_t *module, ptc_diag_t *diag) {
  ptc_str_t text = {0}, again = {0};
  ptc_module_t *copy = NULL;
  ptc_module_print(module, true, &text);
  CU_ASSERT_EQUAL_FATAL(ptc_module_parse(diag, "m.ptir", text.data, text.len, &copy), PTC_OK);
  ptc_module_print(copy, true, &again);
  CU_ASSERT_STRING_EQUAL(text.data, again.data);
  ptc_module_destroy(copy);
  ptc_str_deinit(&text);
  ptc_str_deinit(&again);
}

static void test_megatron(void) {
  const ptc_override_t more[] = {
      {"layers", "3"}, {"d", "64"}, {"seq", "32"}, {"vocab", "256"}, {"heads", "2"}};
  static const struct {
    const char *path, *dim;
  } layout[] = {{"wte", "v"},
                {"block.*.attn.wq", "h"},
                {"block.*.attn.bk", "h"},
                {"block.*.attn.wo", "h"},
                {"block.*.mlp.w1", "f"},
                {"block.*.mlp.b1", "f"},
                {"block.*.mlp.w2", "f"},
                {"wpe", NULL},
                {"block.*.ln1.scale", NULL},
                {"block.*.mlp.b2", NULL}};
  for (int sp = 0; sp < 2; sp++) {
    const mesh_setup_t s = {.tp = 2, .sequence_parallel = sp};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = compile("gpt2", &s, more, 5, &diag);
    for (size_t i = 0; i < sizeof(layout) / sizeof(*layout); i++) {
      const ptc_type_t *type = ptc_module_find_global(module, layout[i].path)->type;
      for (int32_t d = 0; d < type->num_dims; d++) {
        const bool wanted = layout[i].dim && strcmp(type->dims[d].name, layout[i].dim) == 0;
        UNIT_CHECK(type->dims[d].num_axes == wanted, layout[i].path);
      }
    }
    check_text(module, &diag);
    const ptc_op_t *forward = find_region(module, false), *backward = find_region(module, true);
    CU_ASSERT_FATAL(forward && backward);
    const counts_t f = count_collectives(forward), b = count_collectives(backward);
    CU_ASSERT_EQUAL(f.all_reduce, sp ? 0 : 2);
    CU_ASSERT_EQUAL(b.all_reduce, sp ? 0 : 2);
    CU_ASSERT_EQUAL(f.all_gather, sp ? 2 : 0);
    CU_ASSERT_EQUAL(f.reduce_scatter, sp ? 2 : 0);
    CU_ASSERT_EQUAL(b.all_gather, sp ? 2 : 0);
    CU_ASSERT_EQUAL(b.reduce_scatter, sp ? 2 : 0);
    CU_ASSERT_EQUAL(f.all_to_all + b.all_to_all, 0);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// --- volume

// Bytes that a device reads from its peers in one run of |block|: 2 (n - 1) / n of an all_reduce's, (n - 1) / n of the
// whole value's in the others.
static double sent_bytes(const ptc_module_t *module, const ptc_block_t *block, bool scalars) {
  double bytes = 0;
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) bytes += (double)ptc_op_int(op, "count") * sent_bytes(module, op->body, scalars);
    if (!ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE)) continue;
    ptc_axis_ref_t axes[PTC_MAX_AXES];
    int32_t num_axes;
    CU_ASSERT_FATAL(ptc_axes_parse(module, ptc_op_string(op, "axes"), axes, &num_axes));
    const double group = (double)ptc_axes_size(&module->mesh, axes, num_axes);
    const bool gather = op->opcode == PTC_OP_ALL_GATHER;
    const ptc_type_t *type = gather ? op->results[0]->type : op->operands[0]->type;
    // Losses, metrics and the sum of squares.
    const bool small = type->num_dims == 0 || type->dtype == PTC_I64;
    if (small != scalars) continue;
    double whole = (double)ptc_dtype_bytes(type->dtype);
    for (int32_t d = 0; d < type->num_dims; d++)
      whole *= (double)ptc_dim_local_extent(&module->mesh, &type->dims[d]);
    bytes += (op->opcode == PTC_OP_ALL_REDUCE ? 2 : 1) * whole * (group - 1) / group;
  }
  return bytes;
}

// The same of the all_to_all of a region's turn.
static double all_to_all_bytes(const ptc_module_t *module, const ptc_op_t *region) {
  double bytes = 0;
  for (const ptc_op_t *op = region->body->first; op; op = op->next) {
    if (op->opcode != PTC_OP_ALL_TO_ALL) continue;
    ptc_axis_ref_t axes[PTC_MAX_AXES];
    int32_t num_axes;
    CU_ASSERT_FATAL(ptc_axes_parse(module, ptc_op_string(op, "axes"), axes, &num_axes));
    const double group = (double)ptc_axes_size(&module->mesh, axes, num_axes);
    const ptc_type_t *type = op->operands[0]->type;
    double local = (double)ptc_dtype_bytes(type->dtype);
    for (int32_t d = 0; d < type->num_dims; d++)
      local *= (double)ptc_dim_local_extent(&module->mesh, &type->dims[d]);
    bytes += local * (group - 1) / group;
  }
  return bytes;
}

// Elements of all parameters; of those outside of the repeats alone.
static double num_parameters(const ptc_module_t *module, bool outside) {
  double count = 0;
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    if (global->kind != PTC_GLOBAL_PARAM || (outside && global->type->num_counts > 0)) continue;
    count += (double)(ptc_type_num_elements(global->type) * ptc_type_num_instances(global->type));
  }
  return count;
}

static double train_bytes(const mesh_setup_t *s, double *out_all, double *out_outside,
                          int64_t *out_stored) {
  const ptc_override_t more[] = {
      {"layers", "3"}, {"d", "64"},          {"seq", "32"},   {"vocab", "256"},
      {"heads", "4"},  {"train.batch", "8"}, {"drop", "0.1"}, {"train.precision", "f32"}};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = compile("gpt2", s, more, 8, &diag);
  *out_all = num_parameters(module, false);
  *out_outside = num_parameters(module, true);
  *out_stored = 0;
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_type_t *type = module->globals[g]->type;
    const ptc_global_kind_t kind = module->globals[g]->kind;
    if (kind != PTC_GLOBAL_PARAM && kind != PTC_GLOBAL_MOMENT) continue;
    int64_t bytes = ptc_dtype_bytes(type->dtype) * ptc_type_num_instances(type);
    for (int32_t d = 0; d < type->num_dims; d++)
      bytes *= ptc_dim_local_extent(&module->mesh, &type->dims[d]);
    *out_stored += bytes;
  }
  const ptc_func_t *func = ptc_module_find_func(module, "train");
  const double bytes = sent_bytes(module, func->body, false);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return bytes;
}

// In f32 with P parameters: 2 P of all_reduce without ZeRO; a gather and a reduce_scatter with 1 and 2; with 3 one more
// gather of what lies in repeats (the rest is gathered once for both passes). All times (n - 1) / n. States take 12 P
// bytes, over n devices with ZeRO.
static void test_zero_volume(void) {
  for (int dp = 2; dp <= 8; dp *= 2) {
    for (int zero = 0; zero <= 3; zero++) {
      const mesh_setup_t s = {.dp = dp, .zero = zero};
      double all, outside;
      int64_t stored;
      const double bytes = train_bytes(&s, &all, &outside, &stored);
      const double part = (dp - 1) / (double)dp;
      const double expected = (zero == 3 ? 2 * all + (all - outside) : 2 * all) * 4 * part;
      char name[160];
      mesh_setup_describe("volume", &s, name);
      // In backward a region gathers only the parameters that it reads: biases are not among them.
      UNIT_CHECK(zero == 3 ? bytes <= expected && bytes > 0.97 * expected : bytes == expected,
                 name);
      UNIT_CHECK(stored == (int64_t)(12 * all) / (zero > 0 ? dp : 1), name);
    }
  }
}

// Megatron: 4 times 2 (t - 1) / t of b s d per layer, with and without sequence parallelism.
static void test_tensor_volume(void) {
  for (int tp = 2; tp <= 4; tp *= 2) {
    double volumes[2];
    for (int sp = 0; sp < 2; sp++) {
      const mesh_setup_t few = {.tp = tp, .sequence_parallel = sp};
      const ptc_override_t more[] = {
          {"layers", "2"},           {"d", "64"},    {"seq", "32"},
          {"vocab", "256"},          {"heads", "4"}, {"train.batch", "8"},
          {"train.precision", "f32"}};
      ptc_diag_t diag;
      ptc_diag_init(&diag);
      ptc_module_t *module = compile("gpt2", &few, more, 7, &diag);
      volumes[sp] = 0;
      for (int reverse = 0; reverse < 2; reverse++) {
        const ptc_op_t *region = find_region(module, reverse);
        CU_ASSERT_FATAL(region != NULL);
        const counts_t c = count_collectives(region);
        const double whole = 8.0 * 32 * 64 * 4 * (tp - 1) / tp;
        volumes[sp] += whole * (2 * c.all_reduce + c.all_gather + c.reduce_scatter);
      }
      ptc_module_destroy(module);
      ptc_diag_deinit(&diag);
    }
    CU_ASSERT_EQUAL(volumes[0], 4 * 2.0 * (tp - 1) / tp * 8 * 32 * 64 * 4);
    CU_ASSERT_EQUAL(volumes[1], volumes[0]);
  }
}

// Experts on ep: two all_to_all of the experts' slots forward and two backward, each of (e - 1) / e of the slots for the
// samples of a device. The slots are those of the tokens' choices and the room that the model leaves: 1.25 times.
static void test_expert_volume(void) {
  const ptc_override_t more[] = {{"layers", "3"},
                                 {"d", "32"},
                                 {"seq", "16"},
                                 {"train.batch", "8"},
                                 {"train.precision", "f32"}};
  const double choices = 16 * 2, slots = 4 * 10, d = 32;
  for (int ep = 2; ep <= 4; ep *= 2) {
    const mesh_setup_t s = {.dp = 8 / (2 * ep), .ep = ep};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = compile("mixtral", &s, more, 5, &diag);
    double bytes = 0;
    for (int reverse = 0; reverse < 2; reverse++) {
      const ptc_op_t *region = find_region(module, reverse);
      CU_ASSERT_FATAL(region != NULL);
      const counts_t c = count_collectives(region);
      CU_ASSERT_EQUAL(c.all_to_all, 2);
      CU_ASSERT_EQUAL(c.all_gather + c.reduce_scatter, 0);
      bytes += all_to_all_bytes(module, region);
    }
    const double samples = 2, one = samples * choices * d * 4 * (ep - 1) / ep;
    CU_ASSERT_EQUAL(bytes, 4 * one * slots / choices);
    const ptc_type_t *gate = ptc_module_find_global(module, "moe.*.gate")->type;
    CU_ASSERT_EQUAL(gate->dims[0].num_axes, 1);
    CU_ASSERT_EQUAL(ptc_module_find_global(module, "moe.*.router")->type->dims[1].num_axes, 0);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// Two key heads on four devices: they lie on the major part of tp, the groups of query heads on the minor one.
static void test_few_key_heads(void) {
  const ptc_override_t more[] = {
      {"heads", "8"}, {"d", "256"}, {"seq", "64"}, {"ffn", "1024"}, {"vocab", "1024"}};
  const mesh_setup_t s = {.tp = 4};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = compile("llama3", &s, more, 5, &diag);
  ptc_str_t text = {0};
  ptc_type_print(&text, ptc_module_find_global(module, "attn.*.wq")->type);
  CU_ASSERT_STRING_EQUAL(text.data, "2 x f32[d=256, n=2 \"tp\":1:2, g=4 \"tp\":2:2, k=32]");
  ptc_str_deinit(&text);
  const ptc_type_t *wk = ptc_module_find_global(module, "attn.*.wk")->type;
  CU_ASSERT_EQUAL(wk->dims[1].num_axes, 1);
  CU_ASSERT_EQUAL(wk->dims[1].axes[0].size, 2);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// --world alone: the axes are chosen; what is given stays.
static void test_world(void) {
  static const struct {
    const char *model;
    int world, dp, tp;  // dp, tp 0: open
  } rows[] = {{"gpt2", 4, 0, 0}, {"llama3", 2, 0, 2}, {"mixtral", 4, 2, 0}, {"gemma2", 8, 0, 0}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = small_model_lower(small_model_find(rows[i].model), NULL, 0, &diag);
    CU_ASSERT_PTR_NOT_NULL_FATAL(module);
    ptc_attrs_set_int(module, &module->config, "world", rows[i].world);
    ptc_attrs_remove(&module->config, ptc_module_intern(module, "dp"));
    ptc_attrs_remove(&module->config, ptc_module_intern(module, "tp"));
    if (rows[i].dp) ptc_attrs_set_int(module, &module->config, "dp", rows[i].dp);
    if (rows[i].tp) ptc_attrs_set_int(module, &module->config, "tp", rows[i].tp);
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, NULL);
    const ptc_status_t status = ptc_pipeline_train(&ctx, module);
    if (status != PTC_OK) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    UNIT_CHECK(status == PTC_OK, rows[i].model);
    ptc_parallel_t parallel;
    UNIT_CHECK(ptc_parallel_read(module, &parallel) == PTC_OK, rows[i].model);
    const int64_t dp = parallel.size[PTC_AXIS_DP], tp = parallel.size[PTC_AXIS_TP];
    UNIT_CHECK(parallel.world == rows[i].world, rows[i].model);
    UNIT_CHECK((!rows[i].dp || dp == rows[i].dp) && (!rows[i].tp || tp == rows[i].tp),
               rows[i].model);
    ptc_pass_ctx_deinit(&ctx);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// Errors: no mesh of that many ranks divides the batch; a statement wants more parts than there are elements.
static void test_refused(void) {
  static const struct {
    const char *id, *key, *value;
    int64_t number;
    int micro_batch;
  } rows[] = {{"no-mesh", "world", NULL, 7, 0},
              {"partition-divides", "ep", NULL, 3, 1},
              {"partition-divides", "shard", "block.*.attn.wq on tp over h", 0, 0}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = small_model_lower(small_model_find("gpt2"), NULL, 0, &diag);
    CU_ASSERT_PTR_NOT_NULL_FATAL(module);
    if (rows[i].value) {
      ptc_attrs_set_string(module, &module->config, rows[i].key, rows[i].value);
      ptc_attrs_set_int(module, &module->config, "tp", 4);
    } else {
      ptc_attrs_remove(&module->config, ptc_module_intern(module, "dp"));
      ptc_attrs_set_int(module, &module->config, "tp", 1);
      ptc_attrs_set_int(module, &module->config, rows[i].key, rows[i].number);
    }
    for (int a = 0; a < PTC_NUM_DEVICE_AXES && i == 0; a++)
      if (a != PTC_AXIS_DP)
        ptc_attrs_set_int(module, &module->config, ptc_device_axis_names[a], 1);
    if (rows[i].micro_batch)
      ptc_attrs_set_int(module, &module->config, "micro_batch", rows[i].micro_batch);
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, NULL);
    UNIT_CHECK(ptc_pipeline_train(&ctx, module) != PTC_OK, rows[i].id);
    UNIT_CHECK(diag.num_items > 0 && strcmp(diag.items[0].id, rows[i].id) == 0, rows[i].id);
    ptc_pass_ctx_deinit(&ctx);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static const unit_test_t tests[] = {{"models", test_models},
                                    {"uneven batches", test_uneven_batches},
                                    {"experts", test_experts},
                                    {"initial bits", test_initial_bits},
                                    {"bits of ZeRO", test_zero_bits},
                                    {"Megatron", test_megatron},
                                    {"volume of ZeRO", test_zero_volume},
                                    {"volume of tensor parallelism", test_tensor_volume},
                                    {"volume of experts", test_expert_volume},
                                    {"few key heads", test_few_key_heads},
                                    {"world", test_world},
                                    {"refused", test_refused}};
UNIT_MAIN("partition", tests)

// Proves: what the planner says of a split is what partition makes of the module: the collectives of a micro-batch, kind
// by kind and axis by axis, byte by byte; operations of contractions and attention; bytes of parameters and of what
// the forward pass leaves for the backward pass. All small models on many meshes, recomputation, sequence parallelism.
#include <math.h>
#include <stdlib.h>

#include "ir/axes.h"
#include "ir/op.h"
#include "passes/parallel.h"
#include "passes/pass.h"
#include "passes/planner/planner.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

typedef struct setup_s {
  int dp, ep, cp, tp, micro_batch;
  bool sequence_parallel;
  ptc_recompute_mode_t recompute;
} setup_t;

static void describe(const char *model, const setup_t *s, char out[160]) {
  snprintf(out, 160, "%s dp=%d ep=%d cp=%d tp=%d micro_batch=%d%s recompute=%s", model, s->dp,
           s->ep, s->cp, s->tp, s->micro_batch, s->sequence_parallel ? " sp" : "",
           ptc_recompute_names[s->recompute]);
}

// --- what a step does, by kind and axes

enum { NUM_MASKS = 1 << PTC_NUM_DEVICE_AXES };

typedef struct sums_s {
  double bytes[PTC_NUM_NET_KINDS][NUM_MASKS];  // per step and device, whole buffers
  double flops, params, saved;
} sums_t;

static bool is_loop(const ptc_op_t *op) {
  const char *axis = op->opcode == PTC_OP_REPEAT ? ptc_op_string(op, "axis") : NULL;
  return axis && strcmp(axis, "micro") == 0;
}

static double local_bytes(const ptc_mesh_t *mesh, const ptc_type_t *type) {
  double bytes = (double)ptc_dtype_bytes(type->dtype) * (double)ptc_type_num_instances(type);
  for (int32_t i = 0; i < type->num_dims; i++)
    bytes *= (double)ptc_dim_local_extent(mesh, &type->dims[i]);
  return bytes;
}

static int kind_of(ptc_opcode_t opcode) {
  switch (opcode) {
    case PTC_OP_ALL_REDUCE: return PTC_NET_ALL_REDUCE;
    case PTC_OP_REDUCE_SCATTER: return PTC_NET_REDUCE_SCATTER;
    case PTC_OP_ALL_GATHER: return PTC_NET_ALL_GATHER;
    case PTC_OP_ALL_TO_ALL: return PTC_NET_ALL_TO_ALL;
    default: return -1;
  }
}

static double einsum_flops(const ptc_mesh_t *mesh, const ptc_op_t *op) {
  double all = 2, m = 1, n = 1, k = 1;
  for (int32_t i = 0; i < 2; i++) {
    const ptc_type_t *type = op->operands[i]->type;
    for (int32_t d = 0; d < type->num_dims; d++) {
      const ptc_dim_t *dim = &type->dims[d];
      const bool both = ptc_type_has_dim(op->operands[1 - i]->type, dim->name);
      if (i == 1 && both) continue;
      const bool summed = ptc_op_dims_contain(op, "over", dim->name);
      if (summed && !both) return 0;
      all *= (double)ptc_dim_local_extent(mesh, dim);
      if (summed)
        k *= (double)dim->extent;
      else if (!both)
        *(i == 0 ? &m : &n) *= (double)dim->extent;
    }
  }
  return m < 2 || n < 2 || k < 2 ? 0 : all;
}

static double attention_flops(const ptc_mesh_t *mesh, const ptc_op_t *op) {
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const ptc_type_t *q = op->operands[at.q]->type, *key = op->operands[at.key]->type;
  const ptc_type_t *val = op->operands[at.val]->type;
  const char *dot = ptc_op_string(op, "dot");
  double scores = 1, depth = 1, own = 1;
  for (int32_t i = 0; i < q->num_dims; i++) {
    const double extent = (double)ptc_dim_local_extent(mesh, &q->dims[i]);
    *(q->dims[i].name == dot ? &depth : &scores) *= extent;
  }
  for (int32_t i = 0; i < key->num_dims; i++)
    if (key->dims[i].name != dot && !ptc_type_has_dim(q, key->dims[i].name))
      scores *= (double)ptc_dim_local_extent(mesh, &key->dims[i]);
  for (int32_t i = 0; i < val->num_dims; i++)
    if (!ptc_type_has_dim(q, val->dims[i].name) && !ptc_type_has_dim(key, val->dims[i].name))
      own *= (double)ptc_dim_local_extent(mesh, &val->dims[i]);
  if (ptc_type_has_dim(val, dot)) own = depth;
  const bool grad = op->opcode == PTC_OP_ATTENTION_GRAD;
  return scores * ((grad ? 6 : 2) * depth + (grad ? 4 : 2) * own);
}

static void add_block(sums_t *sums, const ptc_module_t *module, const ptc_block_t *block,
                      double turns, bool in_loop) {
  const ptc_mesh_t *mesh = &module->mesh;
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body)
      add_block(sums, module, op->body, turns * (double)ptc_op_int(op, "count"),
                in_loop || is_loop(op));
    if (!in_loop) continue;
    if (op->opcode == PTC_OP_EINSUM) sums->flops += turns * einsum_flops(mesh, op);
    if (op->opcode == PTC_OP_ATTENTION || op->opcode == PTC_OP_ATTENTION_GRAD)
      sums->flops += turns * attention_flops(mesh, op);
    const int kind = kind_of(op->opcode);
    if (kind < 0) continue;
    ptc_axis_ref_t refs[PTC_MAX_AXES];
    int32_t num_refs = 0;
    ptc_axes_parse(module, ptc_op_string(op, "axes"), refs, &num_refs);
    uint32_t mask = 0;
    for (int32_t r = 0; r < num_refs; r++)
      for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++)
        if (strcmp(refs[r].axis, ptc_device_axis_names[a]) == 0) mask |= 1u << a;
    double bytes = local_bytes(mesh, op->operands[0]->type);
    if (kind == PTC_NET_ALL_GATHER) bytes = local_bytes(mesh, op->results[0]->type);
    sums->bytes[kind][mask] += turns * bytes;
    if (getenv("PTC_DUMP"))
      printf("\n  plan   %s %#x %.0f x %.0f  %s:%d", ptc_net_kind_names[kind], mask, bytes, turns,
             op->results[0]->name ? op->results[0]->name : "", op->loc.line);
  }
}

static void add_state(sums_t *sums, const ptc_module_t *module) {
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    if (global->kind == PTC_GLOBAL_PARAM)
      sums->params +=
          local_bytes(&module->mesh, global->type) / (double)ptc_dtype_bytes(global->type->dtype);
  }
}

// Bundles that go from a repeat of the loop to a reversed one, per micro-batch.
static void add_saved(sums_t *sums, const ptc_module_t *module, const ptc_block_t *body) {
  for (const ptc_op_t *op = body->first; op; op = op->next) {
    if (op->opcode != PTC_OP_REPEAT || !ptc_op_bool(op, "reverse")) continue;
    for (int32_t i = op->num_carry; i < op->num_operands; i++) {
      const ptc_value_t *value = op->operands[i];
      if (value->def && value->def->opcode == PTC_OP_REPEAT && value->def->parent == body &&
          value->index >= value->def->num_carry && !ptc_op_bool(value->def, "reverse"))
        sums->saved += local_bytes(&module->mesh, value->type);
    }
  }
}

// --- the two sides

// The module is partitioned and fused afterwards. False where that is impossible.
static bool sum_module(ptc_module_t *module, const ptc_work_t *work, const ptc_choice_t *choice,
                       sums_t *out) {
  static const char *const passes[] = {"microbatch", "recompute",    "canonicalize",
                                       "partition",  "canonicalize", "fuse"};
  *out = (sums_t){0};
  if (ptc_work_write_choice(work, choice, module) != PTC_OK) return false;
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  bool fine = true;
  const ptc_func_t *func = ptc_module_find_func(module, "train");
  for (size_t i = 0; i < sizeof(passes) / sizeof(*passes) && fine; i++) {
    if (strcmp(passes[i], "fuse") == 0) add_block(out, module, func->body, 1, false);
    fine = ptc_pass_run(&ctx, module, passes[i]) == PTC_OK;
  }
  ptc_pass_ctx_deinit(&ctx);
  if (!fine) return false;
  add_state(out, module);
  for (const ptc_op_t *op = func->body->first; op; op = op->next)
    if (is_loop(op)) add_saved(out, module, op->body);
  return true;
}

static void add_phase(sums_t *sums, const ptc_phase_work_t *work, double turns) {
  for (int32_t i = 0; i < work->num_nets; i++) {
    const ptc_net_item_t *net = &work->nets[i];
    sums->bytes[net->kind][net->axes] += turns * net->bytes * net->times;
    if (getenv("PTC_DUMP"))  // what a difference comes from
      printf("\n  pieces %s %#x %.0f x %.0f  %s:%d", ptc_net_kind_names[net->kind], net->axes,
             net->bytes, turns * net->times, net->label, net->loc.line);
  }
  for (int32_t i = 0; i < work->num_kernels; i++) {
    const ptc_kernel_work_t *k = &work->kernels[i];
    // The IR's attention says nothing of what a mask hides.
    double flops = k->flops;
    if (k->kind == PTC_KW_ATTENTION || k->kind == PTC_KW_ATTENTION_GRAD) {
      const bool grad = k->kind == PTC_KW_ATTENTION_GRAD;
      flops = (double)k->batch * (double)k->heads * (double)k->rows * (double)k->cols *
              ((grad ? 6 : 2) * (double)k->qk_dim + (grad ? 4 : 2) * (double)k->v_dim);
    }
    sums->flops += turns * flops * k->times;
  }
}

static void sum_pieces(const ptc_work_pieces_t *pieces, const setup_t *s, sums_t *out) {
  *out = (sums_t){0};
  for (int32_t i = 0; i < pieces->count; i++) {
    const ptc_piece_t *piece = &pieces->items[i];
    const double turns = (double)piece->count * (double)pieces->micro_batches;
    if (getenv("PTC_DUMP"))  // what a difference comes from
      printf("\n  piece %s x %d: kernels %d %d %d %d, saved %.0f", piece->name, (int)piece->count,
             piece->forward.num_kernels, piece->backward.num_kernels,
             piece->weight_grad.num_kernels, piece->again.num_kernels,
             piece->saved_bytes[s->recompute]);
    add_phase(out, &piece->forward, turns);
    add_phase(out, &piece->backward, turns);
    add_phase(out, &piece->weight_grad, turns);
    add_phase(out, &piece->again, turns);
    for (int32_t g = 0; g < piece->num_groups; g++)
      if (piece->groups[g].shared_with < 0)
        out->params += piece->groups[g].params * (double)piece->count;
    if (piece->count > 1) out->saved += piece->saved_bytes[s->recompute] * (double)piece->count;
  }
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

static bool compare(const char *name, const sums_t *plan, const sums_t *pieces) {
  bool same = true;
  for (int kind = 0; kind < PTC_NUM_NET_KINDS; kind++)
    for (int mask = 0; mask < NUM_MASKS; mask++) {
      if (near(plan->bytes[kind][mask], pieces->bytes[kind][mask])) continue;
      printf("\n%s: %s over axes %#x: %.0f bytes in the plan, %.0f in the pieces", name,
             ptc_net_kind_names[kind], mask, plan->bytes[kind][mask], pieces->bytes[kind][mask]);
      same = false;
    }
  if (!near(plan->flops, pieces->flops)) {
    printf("\n%s: %.6g operations in the plan, %.6g in the pieces", name, plan->flops,
           pieces->flops);
    same = false;
  }
  if (!near(plan->params, pieces->params)) {
    printf("\n%s: %.0f parameters in the plan, %.0f in the pieces", name, plan->params,
           pieces->params);
    same = false;
  }
  if (!near(plan->saved, pieces->saved)) {
    printf("\n%s: %.0f bytes saved in the plan, %.0f in the pieces", name, plan->saved,
           pieces->saved);
    same = false;
  }
  UNIT_CHECK(same, name);
  return same;
}

// The module up to the optimizer.
static ptc_module_t *load(const small_model_t *model, const ptc_override_t *more, int num_more,
                          ptc_diag_t *diag) {
  ptc_module_t *module = small_model_lower(model, more, num_more, diag);
  CU_ASSERT_PTR_NOT_NULL_FATAL(module);
  const ptc_pass_options_t options = {.stop_after = "optimizer"};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ctx.stopped = false;
  ctx.options.stop_after = NULL;
  if (status == PTC_OK) status = ptc_pass_run(&ctx, module, "canonicalize");
  ptc_pass_ctx_deinit(&ctx);
  if (status != PTC_OK) ptc_diag_print(diag, stdout, PTC_DIAG_TEXT, false);
  CU_ASSERT_EQUAL_FATAL(status, PTC_OK);
  return module;
}

static void check(const small_model_t *model, const ptc_override_t *more, int num_more,
                  const setup_t *s, uint32_t names) {
  char name[160];
  describe(model->name, s, name);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  ptc_module_t *module = load(model, more, num_more, &diag);
  ptc_work_t *work = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_work_new(module, &arena, &work), PTC_OK);
  ptc_choice_t choice = {.size = {1, s->dp, s->ep, s->cp, s->tp},
                         .micro_batch = s->micro_batch,
                         .sequence_parallel = s->sequence_parallel,
                         .chunks = 1,
                         .recompute = (int32_t)s->recompute,
                         .recompute_turns = -1};
  // Names that pieces do not share lie otherwise in each.
  uint32_t shared = 0;
  for (int32_t i = 0; i < work->num_names; i++) shared |= (uint32_t)work->names[i].shared << i;
  for (int i = 0; i < PTC_MAX_PIECES; i++)
    choice.names[i] = (names & shared) | ((names << i | names >> (32 - i) % 32) & ~shared);
  ptc_str_t list = {0};
  ptc_choice_print_names(work, choice.names, &list);
  ptc_work_pieces_t pieces;
  sums_t plan, said;
  const ptc_status_t status = ptc_layout_pieces(work, &arena, &choice, PTC_SAVE_PTC, &pieces);
  const bool fine = sum_module(module, work, &choice, &plan);
  if ((status == PTC_OK) != fine) {
    printf("\n%s: %s", name, fine ? pieces.reason : "the module cannot be partitioned");
    ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    UNIT_CHECK(false, name);
  }
  if (status == PTC_OK && fine) {
    sum_pieces(&pieces, s, &said);
    if (!compare(name, &plan, &said)) printf(" (tp: %s)\n", list.data ? list.data : "nothing");
  }
  ptc_str_deinit(&list);
  ptc_module_destroy(module);
  ptc_arena_deinit(&arena);
  ptc_diag_deinit(&diag);
}

static const setup_t setups[] = {
    {1, 1, 1, 1, 1, false, 0}, {2, 1, 1, 1, 1, false, 0}, {1, 1, 1, 2, 2, false, 0},
    {1, 1, 1, 2, 2, true, 0},  {2, 1, 1, 2, 1, true, 1},  {1, 1, 1, 4, 2, false, 1},
    {2, 1, 1, 2, 1, false, 2}, {1, 1, 1, 2, 2, true, 2},  {1, 1, 2, 1, 2, false, 0},
    {1, 2, 1, 1, 1, false, 0}, {2, 1, 2, 2, 1, false, 1}, {1, 2, 1, 2, 1, true, 2},
    {1, 1, 2, 2, 2, true, 0},  {2, 2, 1, 1, 1, false, 2},
};

static void test_models(void) {
  const char *only = getenv("PTC_CASE");
  const char *names = getenv("PTC_NAMES");
  const ptc_override_t more[] = {{"train.batch", "8"}};
  // Of the names that may lie on tp: all, or some.
  static const uint32_t sets[] = {~0u, 0xaaaaaaaa, 0x66666666, ~0u, 0x55555555, ~0u, 0xcccccccc};
  for (int m = 0; m < num_small_models; m++) {
    if (only && strcmp(only, small_models[m].name) != 0) continue;
    for (size_t i = 0; i < sizeof(setups) / sizeof(*setups); i++)
      check(&small_models[m], more, 1, &setups[i],
            names ? (uint32_t)strtoul(names, NULL, 0) : sets[i % (sizeof(sets) / sizeof(*sets))]);
  }
}

// Many sets. The dim of experts may lie on tp besides ep (mixtral); what is normalized may be a sum (deepseek_v2).
static void test_sets(void) {
  static const setup_t cases[] = {{1, 2, 1, 2, 1, true, 2},
                                  {1, 2, 1, 2, 1, false, 0},
                                  {2, 2, 1, 2, 1, true, 1},
                                  {1, 1, 1, 2, 2, true, 0}};
  static const char *const models[] = {"mixtral", "deepseek_v2"};
  const ptc_override_t more[] = {{"train.batch", "8"}};
  for (int m = 0; m < 2; m++)
    for (uint32_t names = 0; names < 32; names++)
      check(small_model_find(models[m]), more, 1, &cases[names % 4],
            (names * 11 + 3 * (names / 4)) & 127);
}

static const unit_test_t tests[] = {
    {"pieces are what partition makes", test_models},
    {"experts on ep and tp, sums that are normalized", test_sets},
};
UNIT_MAIN("layout", tests)

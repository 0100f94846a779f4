// fuse: decides how every op is executed, and writes that into the IR as attributes (build_kernels.h).
#include <string.h>

#include "ir/op.h"
#include "passes/fuse_impl.h"
#include "passes/pass.h"

typedef struct fuse_s {
  ptc_module_t *module;
  ptc_map_t in_memory;  // values whose bytes something reads: they cannot be inline
  ptc_map_t masks;      // ops of attention's masks
  ptc_arena_t *scratch;
  int64_t num_kernels;
  bool alone;  // every op is a kernel of its own
} fuse_t;

// --- which values are never stored

// Ops that read memory, whatever made it: everything that is no expression.
static bool reads_memory(const ptc_op_t *op) {
  return op->opcode == PTC_OP_REPEAT || op->opcode == PTC_OP_YIELD || op->opcode == PTC_OP_RETURN ||
         (!ptc_view_is_alias(op) && !ptc_kbuild_fn(op->opcode) && op->opcode != PTC_OP_MERGE);
}

static void see_reads(ptc_op_t *op, void *arg) {
  fuse_t *fuse = arg;
  if (!reads_memory(op)) return;
  const bool attention = op->opcode == PTC_OP_ATTENTION || op->opcode == PTC_OP_ATTENTION_GRAD;
  const ptc_attention_operands_t at =
      attention ? ptc_attention_operands(op) : (ptc_attention_operands_t){.mask = -1, .bias = -1};
  for (int32_t i = 0; i < op->num_operands; i++) {
    // Mask, bias, seed, step and turns of attention are expressions.
    if (attention && (i == at.mask || i == at.bias || (at.seed >= 0 && i >= at.seed))) continue;
    for (ptc_value_t *value = op->operands[i]; value;
         value = value->def && ptc_view_is_alias(value->def) ? value->def->operands[0] : NULL)
      ptc_map_set(&fuse->in_memory, value, value);
  }
}

// Whether |value| is cheaper to compute again than to load: made of constants, positions and turns, or a
// scalar spread out.
static bool is_inline(const fuse_t *fuse, const ptc_value_t *value) {
  const ptc_op_t *op = value->def;
  return op && ptc_op_bool(op, "inline") && !ptc_map_get(&fuse->in_memory, value);
}

static bool is_turn(const ptc_value_t *value) {
  return !value->def && value->block->parent_op && value->index == 0;
}

static bool can_be_inline(const fuse_t *fuse, const ptc_op_t *op) {
  if (op->num_results != 1 || op->results[0]->type->num_counts ||
      ptc_map_get(&fuse->in_memory, op->results[0]))
    return false;
  if (op->opcode == PTC_OP_CONSTANT || op->opcode == PTC_OP_IOTA || op->opcode == PTC_OP_AXIS_INDEX)
    return true;
  if (ptc_map_get(&fuse->masks, op)) return true;
  const bool spread = op->opcode == PTC_OP_BROADCAST || op->opcode == PTC_OP_TRANSPOSE;
  if (spread && op->operands[0]->type->num_dims == 0) return true;
  if (!spread && !ptc_op_has_trait(op, PTC_TRAIT_EWISE)) return false;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_value_t *value = op->operands[i];
    while (value->def && ptc_view_is_alias(value->def)) value = value->def->operands[0];
    if (!is_inline(fuse, value) && !is_turn(value)) return false;
  }
  return true;
}

static void mark_inline(fuse_t *fuse, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    ptc_attrs_remove(&op->attrs, "kernel");
    ptc_attrs_remove(&op->attrs, "inline");
    if (op->body) mark_inline(fuse, op->body);
    const bool control = op->body || ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR);
    if (!control && !ptc_view_is_alias(op) && can_be_inline(fuse, op))
      ptc_attrs_set_bool(fuse->module, &op->attrs, "inline", true);
  }
}

// --- which ops form one kernel

static bool clone_cheap(fuse_t *fuse, ptc_block_t *block, const ptc_use_map_t *uses) {
  bool changed = false;
  for (ptc_op_t *op = block->first; op; op = op->next)
    if (op->body) changed |= clone_cheap(fuse, op->body, uses);
  return ptc_fuse_clone_cheap(fuse->module, block, uses) || changed;
}

static void group_block(fuse_t *fuse, ptc_block_t *block, const ptc_use_map_t *uses) {
  for (ptc_op_t *op = block->first; op; op = op->next)
    if (op->body) group_block(fuse, op->body, uses);
  ptc_fuse_block_t f = {.arena = fuse->scratch, .block = block, .uses = uses};
  ptc_fuse_graph(&f);
  if (!fuse->alone) {
    ptc_fuse_merge_groups(&f);
    ptc_fuse_merge_collectives(&f, &fuse->module->mesh);
  }
  ptc_fuse_reorder(&f);
  int64_t *number = PTC_ARENA_ARRAY(fuse->scratch, int64_t, f.num_nodes + 1);
  for (ptc_op_t *op = block->first; op; op = op->next) {
    const int32_t node = (int32_t)(intptr_t)ptc_map_get(&f.node_of, op) - 1;
    if (f.nodes[node].kind == PTC_FUSE_OTHER) continue;
    int64_t *kernel = &number[f.nodes[node].group];
    if (!*kernel) *kernel = ++fuse->num_kernels;
    ptc_attrs_set_int(fuse->module, &op->attrs, "kernel", *kernel - 1);
  }
  ptc_map_deinit(&f.node_of);
}

ptc_status_t ptc_pass_fuse(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  fuse_t fuse = {.module = module, .scratch = &ctx->scratch};
  fuse.alone = ctx->options.no_fusion;
  if (!fuse.alone) ptc_fuse_norms(module, &ctx->scratch);
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    ptc_block_walk(func->body, see_reads, &fuse);
  for (ptc_func_t *func = module->funcs; func; func = func->next) {
    ptc_use_map_t uses;
    ptc_uses_init(&uses, &ctx->scratch, func->body);
    if (!fuse.alone) ptc_fuse_masks(func->body, &uses, &fuse.masks);
    mark_inline(&fuse, func->body);
    if (!fuse.alone && clone_cheap(&fuse, func->body, &uses)) {
      ptc_uses_deinit(&uses);
      ptc_uses_init(&uses, &ctx->scratch, func->body);
    }
    group_block(&fuse, func->body, &uses);
    ptc_uses_deinit(&uses);
  }
  ptc_map_deinit(&fuse.in_memory);
  ptc_map_deinit(&fuse.masks);
  return PTC_OK;
}

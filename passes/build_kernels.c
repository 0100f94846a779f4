// The kernel of a group of ops: its kind, its parameters, what it stores.
#include "passes/build_kernels.h"

#include <inttypes.h>
#include <string.h>

#include "passes/build_impl.h"
#include "passes/cost.h"
#include "passes/devices.h"

// --- views

// Whether the operand's elements lie in the order of the result's: merged dims are neighbours, in order.
static bool merge_is_alias(const ptc_op_t *op) {
  const ptc_type_t *x = op->operands[0]->type;
  const ptc_attr_t *dims = ptc_op_attr(op, "dims");
  const int32_t first = ptc_type_find_dim(x, dims->u.dims[0]);
  for (int32_t i = 1; i < dims->count; i++)
    if (first + i >= x->num_dims || x->dims[first + i].name != dims->u.dims[i]) return false;
  return true;
}

// A part of the outermost dim is a run of bytes; where it begins is a sum of multiples of coordinates.
static bool shard_is_alias(const ptc_op_t *op) {
  const ptc_mesh_t *mesh = &op->parent->func->module->mesh;
  const ptc_type_t *x = op->operands[0]->type, *y = op->results[0]->type;
  const int32_t at = ptc_type_find_dim(x, ptc_op_string(op, "dim"));
  int64_t parts = 1;
  for (int32_t i = x->dims[at].num_axes; i < y->dims[at].num_axes; i++) {
    if (y->dims[at].axes[i].size) return false;
    parts *= ptc_axis_ref_size(mesh, y->dims[at].axes[i]);
  }
  for (int32_t i = 0; i < at; i++)
    if (ptc_dim_local_extent(mesh, &x->dims[i]) != 1) return false;
  const int64_t whole = ptc_dim_local_extent(mesh, &x->dims[at]);
  const int64_t part = ptc_dim_local_extent(mesh, &y->dims[at]);
  // Of padded parts the last ones would reach beyond the whole.
  return y->dims[at].dist == PTC_DIST_BLOCK && part * parts == whole;
}

bool ptc_view_is_alias(const ptc_op_t *op) {
  switch (op->opcode) {
    case PTC_OP_RENAME:
    case PTC_OP_REORDER:
    case PTC_OP_SPLIT:
    case PTC_OP_LIST_SLICE:
    case PTC_OP_LIST_CONCAT:
    case PTC_OP_LIST_GROUP:
    case PTC_OP_LIST_UNGROUP: return true;
    case PTC_OP_MERGE: return op->operands[0]->type->num_counts > 0 || merge_is_alias(op);
    case PTC_OP_SHARD: return shard_is_alias(op);
    default: return false;
  }
}

// --- kinds

ptc_kernel_kind_t ptc_op_kernel_kind(const ptc_op_t *op) {
  switch (op->opcode) {
    case PTC_OP_ATTENTION: return PTC_KERNEL_ATTENTION;
    case PTC_OP_ATTENTION_GRAD: return PTC_KERNEL_ATTENTION_GRAD;
    case PTC_OP_CUMSUM:
    case PTC_OP_CUMMAX:
    case PTC_OP_CUMARGMAX: return PTC_KERNEL_SCAN;
    case PTC_OP_TOPK: return PTC_KERNEL_TOPK;
    case PTC_OP_DISPATCH_SLOT: return PTC_KERNEL_DISPATCH_SLOT;
    case PTC_OP_SCATTER_ADD: return PTC_KERNEL_SCATTER_ADD;
    case PTC_OP_WINDOW_ADD: return PTC_KERNEL_WINDOW_ADD;
    case PTC_OP_SQUARE_SUM: return PTC_KERNEL_SQUARE_SUM;
    case PTC_OP_LIMBS_VALUE: return PTC_KERNEL_LIMBS_VALUE;
    default: return ptc_einsum_is_gemm(op) ? PTC_KERNEL_GEMM : PTC_KERNEL_NEST;
  }
}

// --- stores

typedef struct use_search_s {
  const ptc_kbuild_t *b;
  const ptc_value_t *value;
  bool found;
} use_search_t;

static void see_use(ptc_op_t *op, void *arg) {
  use_search_t *search = arg;
  if (search->found || ptc_map_get(&search->b->members, op)) return;
  for (int32_t i = 0; i < op->num_operands; i++) search->found |= op->operands[i] == search->value;
}

bool ptc_kbuild_is_stored(const ptc_kbuild_t *b, const ptc_value_t *value) {
  if (b->uses) {
    for (const ptc_use_t *use = ptc_uses_of(b->uses, value); use; use = use->next)
      if (!ptc_map_get(&b->members, use->op)) return true;
    return false;
  }
  use_search_t search = {.b = b, .value = value};
  ptc_block_walk(value->def->parent, see_use, &search);
  return search.found;
}

// The index of the result of |op| as loops run: one loop per dim, but merged dims have several.
static void store_index(ptc_kbuild_t *b, const ptc_op_t *op, const ptc_type_t *type,
                        ptc_kx_t *out_index) {
  for (int32_t i = 0; i < type->num_dims; i++) {
    const int32_t loop = ptc_kbuild_loop(b, type->dims[i].name);
    const bool merged =
        op->opcode == PTC_OP_MERGE && type->dims[i].name == ptc_op_string(op, "into");
    if (!merged) {
      // A dim that no loop runs over has one element.
      out_index[i] = loop >= 0 ? ptc_kb_index(&b->kb, loop) : ptc_kb_const(&b->kb, PTC_I32, 0);
      continue;
    }
    const ptc_attr_t *dims = ptc_op_attr(op, "dims");
    for (int32_t d = 0; d < dims->count; d++) {
      const int32_t part = ptc_kbuild_loop(b, dims->u.dims[d]);
      const ptc_kx_t at = ptc_kb_index(&b->kb, part);
      out_index[i] =
          d == 0 ? at
                 : ptc_kbuild_2(b, PTC_OP_ADD, PTC_I32,
                                ptc_kbuild_scale(b, out_index[i], b->kb.kernel->dims[part].extent),
                                at);
    }
  }
}

// The operand whose bytes result |result| of |op| takes, or NULL.
ptc_value_t *ptc_op_taken_operand(const ptc_op_t *op, int32_t result) {
  static const int32_t adamw[] = {0, 2, 3}, sgd[] = {0, 2};
  switch (op->opcode) {
    case PTC_OP_ADAMW: return op->operands[adamw[result]];
    case PTC_OP_SGD: return op->operands[sgd[result]];
    case PTC_OP_ACCUMULATE: return op->operands[0];
    default: return NULL;
  }
}

static void store(ptc_kbuild_t *b, ptc_op_t *op, int32_t result) {
  ptc_value_t *value = op->results[result];
  ptc_kx_t index[PTC_MAX_DIMS];
  store_index(b, op, value->type, index);
  const ptc_kx_t x = op->opcode == PTC_OP_MERGE ? ptc_kbuild_here(b, op->operands[0])
                                                : ptc_kbuild_value(b, value, index);
  if (x < 0) return;
  ptc_kb_store(&b->kb, ptc_kbuild_param(b, value, PTC_KPARAM_OUT), index, x);
}

void ptc_kbuild_stores(ptc_kbuild_t *b) {
  for (int32_t i = 0; i < b->num_ops; i++)
    for (int32_t r = 0; r < b->ops[i]->num_results; r++)
      if (ptc_op_taken_operand(b->ops[i], r) && ptc_kbuild_is_stored(b, b->ops[i]->results[r]))
        ptc_kbuild_inout(b, b->ops[i]->results[r], ptc_op_taken_operand(b->ops[i], r));
  for (int32_t i = 0; i < b->num_ops && b->status == PTC_OK; i++)
    for (int32_t r = 0; r < b->ops[i]->num_results; r++)
      if (ptc_kbuild_is_stored(b, b->ops[i]->results[r])) store(b, b->ops[i], r);
}

// One shard goes to its place in the whole; the kernel runs once per shard, as the turns of one more repeat.
static void build_unshard(ptc_kbuild_t *b, const ptc_op_t *op) {
  const ptc_type_t *x = op->operands[0]->type, *y = op->results[0]->type;
  const int32_t at = ptc_type_find_dim(y, ptc_op_string(op, "dim"));
  int32_t level = ptc_func_first_level(op->parent->func);
  for (const ptc_op_t *outer = op->parent->parent_op; outer; outer = outer->parent->parent_op)
    level++;
  ptc_kx_t from[PTC_MAX_DIMS], to[PTC_MAX_DIMS];
  ptc_kbuild_index_of(b, x, from);
  for (int32_t i = 0; i < y->num_dims; i++) to[i] = from[ptc_type_find_dim(x, y->dims[i].name)];
  const int64_t part = ptc_kbuild_extent(b, &x->dims[ptc_type_find_dim(x, y->dims[at].name)]);
  if (part * x->counts[0] != ptc_kbuild_extent(b, &y->dims[at])) {
    ptc_kbuild_unsupported(b, op, "the shards do not divide the dim");
    return;
  }
  to[at] = ptc_kbuild_2(b, PTC_OP_ADD, PTC_I32,
                        ptc_kbuild_scale(b, ptc_kb_turn(&b->kb, level), part), to[at]);
  const ptc_kx_t value = ptc_kbuild_value(b, op->operands[0], from);
  if (value >= 0)
    ptc_kb_store(&b->kb, ptc_kbuild_param(b, op->results[0], PTC_KPARAM_OUT), to, value);
}

// --- the kernel

static void build_single(ptc_kbuild_t *b, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    // An operand may occur twice; each position has its parameter.
    const int32_t before = b->kb.kernel->num_params;
    if (ptc_kbuild_param(b, op->operands[i], PTC_KPARAM_IN) != before)
      ptc_kbuild_unsupported(b, op, "two of its operands are one value");
  }
  for (int32_t i = 0; i < op->num_results; i++) ptc_kbuild_param(b, op->results[i], PTC_KPARAM_OUT);
  b->kb.kernel->op = op;
}

static const char *about(ptc_kbuild_t *b) {
  ptc_str_t text = {0};
  for (int32_t i = 0; i < b->num_ops; i++)
    ptc_str_printf(&text, "%s%s", i ? ", " : "", ptc_op_info(b->ops[i]->opcode)->mnemonic);
  const char *kept = ptc_arena_strdup(b->arena, text.data);
  ptc_str_deinit(&text);
  return kept;
}

// How many times larger the whole of |op|'s work is than the part on this device.
static double num_parts(const ptc_kbuild_t *b, const ptc_op_t *op) {
  double most = 1;
  for (int32_t i = 0; i < op->num_operands + op->num_results; i++) {
    const ptc_value_t *value =
        i < op->num_operands ? op->operands[i] : op->results[i - op->num_operands];
    double parts = 1;
    for (int32_t d = 0; d < value->type->num_dims; d++)
      parts *= (double)ptc_dim_num_shards(&b->module->mesh, &value->type->dims[d]);
    if (parts > most) most = parts;
  }
  return most;
}

static void count_work(ptc_kbuild_t *b) {
  ptc_kernel_t *kernel = b->kb.kernel;
  for (int32_t i = 0; i < b->num_ops; i++)
    kernel->flops += (double)ptc_op_cost(b->ops[i]).flops / num_parts(b, b->ops[i]);
  for (int32_t i = 0; i < kernel->num_params; i++) {
    const int64_t bytes = ptc_kparam_bytes(&kernel->params[i]);
    kernel->min_bytes += kernel->params[i].mode == PTC_KPARAM_INOUT ? 2 * bytes : bytes;
  }
}

static void build(ptc_kbuild_t *b, ptc_kernel_kind_t kind, const ptc_op_t *gemm) {
  ptc_op_t *first = b->ops[0];
  switch (kind) {
    case PTC_KERNEL_NEST:
      if (ptc_kbuild_nest_dims(b) != PTC_OK) return;
      if (first->opcode == PTC_OP_UNSHARD)
        build_unshard(b, first);
      else
        ptc_kbuild_stores(b);
      return;
    case PTC_KERNEL_GEMM: ptc_kbuild_gemm(b, gemm); return;
    case PTC_KERNEL_ATTENTION:
    case PTC_KERNEL_ATTENTION_GRAD: ptc_kbuild_attention(b, first); return;
    default: build_single(b, first); return;
  }
}

ptc_status_t ptc_build_kernel(ptc_diag_t *diag, ptc_arena_t *arena, const char *name,
                              ptc_op_t *const *ops, int32_t num_ops,
                              ptc_built_kernel_t *out_built) {
  return ptc_build_kernel_by_uses(diag, arena, NULL, name, ops, num_ops, out_built);
}

ptc_status_t ptc_build_kernel_by_uses(ptc_diag_t *diag, ptc_arena_t *arena,
                                      const ptc_use_map_t *uses, const char *name,
                                      ptc_op_t *const *ops, int32_t num_ops,
                                      ptc_built_kernel_t *out_built) {
  *out_built = (ptc_built_kernel_t){0};
  ptc_kbuild_t b = {.diag = diag,
                    .arena = arena,
                    .module = ops[0]->parent->func->module,
                    .ops = ops,
                    .num_ops = num_ops,
                    .uses = uses,
                    .guard = PTC_KX_NONE};
  for (int32_t i = 0; i < num_ops; i++) ptc_map_set(&b.members, ops[i], ops[i]);
  const ptc_op_t *gemm = ptc_kbuild_find_gemm(ops, num_ops);
  const ptc_kernel_kind_t kind = gemm ? PTC_KERNEL_GEMM : ptc_op_kernel_kind(ops[0]);
  ptc_kb_begin(&b.kb, arena, name, kind, ops[0]->loc);
  b.kb.kernel->about = about(&b);
  build(&b, kind, gemm);
  if (b.status == PTC_OK) {
    b.kb.kernel = ptc_kernel_flatten(arena, b.kb.kernel);
    count_work(&b);
    ptc_kbuild_in_place(&b);
    const int32_t count = b.kb.kernel->num_params;
    out_built->kernel = b.kb.kernel;
    out_built->values = PTC_ARENA_ARRAY(arena, ptc_value_t *, count + 1);
    out_built->inputs = PTC_ARENA_ARRAY(arena, ptc_value_t *, count + 1);
    for (int32_t i = 0; i < count; i++) {
      out_built->values[i] = b.values[i];
      out_built->inputs[i] = b.inputs[i];
    }
  }
  ptc_map_deinit(&b.members);
  ptc_map_deinit(&b.known);
  return b.status;
}

// Values as expressions: what is computed here is expanded, what is not is loaded.
#include <inttypes.h>
#include <string.h>

#include "passes/build_impl.h"
#include "passes/devices.h"

static const ptc_kbuild_fn_t functions[PTC_NUM_OPS] = {
    [PTC_OP_CONSTANT] = ptc_kbuild_constant,
    [PTC_OP_IOTA] = ptc_kbuild_iota,
    [PTC_OP_AXIS_INDEX] = ptc_kbuild_axis_index,
    [PTC_OP_RANDOM] = ptc_kbuild_random,
    [PTC_OP_DROPOUT] = ptc_kbuild_dropout,
    [PTC_OP_WHERE] = ptc_kbuild_where,
    [PTC_OP_BROADCAST] = ptc_kbuild_broadcast,
    [PTC_OP_TRANSPOSE] = ptc_kbuild_broadcast,
    [PTC_OP_RENAME] = ptc_kbuild_rename,
    [PTC_OP_REORDER] = ptc_kbuild_rename,
    [PTC_OP_SPLIT] = ptc_kbuild_split,
    [PTC_OP_CONCAT] = ptc_kbuild_concat,
    [PTC_OP_WINDOW] = ptc_kbuild_window,
    [PTC_OP_GATHER] = ptc_kbuild_gather,
    [PTC_OP_SHARD] = ptc_kbuild_shard,
    [PTC_OP_REDUCE_SUM] = ptc_kbuild_reduce_sum,
    [PTC_OP_REDUCE_MAX] = ptc_kbuild_reduce_max,
    [PTC_OP_ARGMAX] = ptc_kbuild_argmax,
    [PTC_OP_EINSUM] = ptc_kbuild_einsum,
    [PTC_OP_SOFTMAX] = ptc_kbuild_softmax,
    [PTC_OP_SOFTMAX_GRAD] = ptc_kbuild_softmax_grad,
    [PTC_OP_LAYERNORM] = ptc_kbuild_layernorm,
    [PTC_OP_LAYERNORM_GRAD] = ptc_kbuild_layernorm_grad,
    [PTC_OP_RMSNORM] = ptc_kbuild_rmsnorm,
    [PTC_OP_RMSNORM_GRAD] = ptc_kbuild_rmsnorm_grad,
    [PTC_OP_CROSS_ENTROPY] = ptc_kbuild_cross_entropy,
    [PTC_OP_CROSS_ENTROPY_GRAD] = ptc_kbuild_cross_entropy_grad,
    [PTC_OP_ROPE] = ptc_kbuild_rope,
    [PTC_OP_ADAMW] = ptc_kbuild_adamw,
    [PTC_OP_SGD] = ptc_kbuild_sgd,
    [PTC_OP_ALL_FINITE] = ptc_kbuild_all_finite,
    [PTC_OP_ACCUMULATE] = ptc_kbuild_elementwise,
};

ptc_kbuild_fn_t ptc_kbuild_fn(ptc_opcode_t opcode) {
  if (functions[opcode]) return functions[opcode];
  const bool ewise = (ptc_op_info(opcode)->traits & PTC_TRAIT_EWISE) != 0;
  return ewise ? ptc_kbuild_elementwise : NULL;
}

ptc_kx_t ptc_kbuild_unsupported(ptc_kbuild_t *b, const ptc_op_t *op, const char *what) {
  if (b->status == PTC_OK)
    b->status =
        ptc_error(b->diag, op->loc, PTC_INVALID_INPUT, "kernel-unsupported",
                  "%s: no kernel can be made of it: %s", ptc_op_info(op->opcode)->mnemonic, what);
  return PTC_KX_NONE;
}

// --- parameters

static int32_t find_param(const ptc_kbuild_t *b, const ptc_value_t *value) {
  for (int32_t i = 0; i < b->kb.kernel->num_params; i++)
    if (b->values[i] == value || b->inputs[i] == value) return i;
  return -1;
}

static int32_t add_param(ptc_kbuild_t *b, ptc_value_t *value, ptc_kparam_mode_t mode) {
  const ptc_type_t *type = value->type;
  int64_t extents[PTC_MAX_DIMS];
  for (int32_t i = 0; i < type->num_dims; i++) extents[i] = ptc_kbuild_extent(b, &type->dims[i]);
  const int32_t number = b->kb.kernel->num_params;
  if (number == PTC_KERNEL_MAX_PARAMS) {
    ptc_kbuild_unsupported(b, b->ops[0], "it has more than 64 operands and results");
    return 0;
  }
  const char *name = value->name ? ptc_arena_printf(b->arena, "%s", value->name)
                                 : ptc_arena_printf(b->arena, "v%" PRId32, number);
  for (int32_t i = 0; i < number; i++)
    if (strcmp(b->kb.kernel->params[i].name, name) == 0) {
      name = ptc_arena_printf(b->arena, "%s_%" PRId32, name, number);
      break;
    }
  b->values[number] = value;
  b->inputs[number] = NULL;
  return ptc_kb_param(&b->kb, name, mode, type->dtype, extents, type->num_dims);
}

int32_t ptc_kbuild_param(ptc_kbuild_t *b, ptc_value_t *value, ptc_kparam_mode_t mode) {
  const int32_t found = find_param(b, value);
  return found >= 0 ? found : add_param(b, value, mode);
}

int32_t ptc_kbuild_inout(ptc_kbuild_t *b, ptc_value_t *result, ptc_value_t *input) {
  const int32_t number = add_param(b, result, PTC_KPARAM_INOUT);
  b->inputs[number] = input;
  return number;
}

// --- dims

int64_t ptc_kbuild_extent(const ptc_kbuild_t *b, const ptc_dim_t *dim) {
  return ptc_dim_local_extent(&b->module->mesh, dim);
}

int32_t ptc_kbuild_loop(const ptc_kbuild_t *b, const char *name) {
  for (int32_t i = 0; i < b->kb.kernel->num_dims; i++)
    if (b->kb.kernel->dims[i].name == name) return i;
  return -1;
}

uint32_t ptc_kbuild_loops(const ptc_kbuild_t *b, const ptc_attr_t *names) {
  uint32_t mask = 0;
  const int32_t count = names->kind == PTC_ATTR_DIM ? 1 : names->count;
  for (int32_t i = 0; i < count; i++) {
    const int32_t loop =
        ptc_kbuild_loop(b, names->kind == PTC_ATTR_DIM ? names->u.s : names->u.dims[i]);
    if (loop >= 0) mask |= UINT32_C(1) << loop;
  }
  return mask;
}

static ptc_kx_t loop_index(ptc_kbuild_t *b, const char *name) {
  const int32_t loop = ptc_kbuild_loop(b, name);
  if (loop >= 0) return ptc_kb_index(&b->kb, loop);
  return ptc_kbuild_unsupported(b, b->ops[0], "its loops lack a dim of an operand");
}

void ptc_kbuild_index_of(ptc_kbuild_t *b, const ptc_type_t *type, ptc_kx_t *out_index) {
  for (int32_t i = 0; i < type->num_dims; i++) out_index[i] = loop_index(b, type->dims[i].name);
}

// The level of the repeat around the group whose turns are the coordinates of |axis|, or of the devices' axis; -1.
static int32_t axis_level(const ptc_kbuild_t *b, const char *axis) {
  int32_t level = -1, found = -1;
  for (const ptc_block_t *block = b->ops[0]->parent; block->parent_op;
       block = block->parent_op->parent) {
    const char *name = ptc_op_string(block->parent_op, "axis");
    level++;
    if (found < 0 && name && strcmp(name, axis) == 0) found = level;
  }
  const ptc_func_t *func = b->ops[0]->parent->func;
  if (found < 0) return ptc_func_axis_level(func, axis);
  return ptc_func_first_level(func) + level - found;  // counted from the outermost
}

ptc_kx_t ptc_kbuild_shard_index(ptc_kbuild_t *b, const ptc_axis_ref_t *axes, int32_t num_axes) {
  const ptc_mesh_t *mesh = &b->module->mesh;
  ptc_kx_t shard = ptc_kbuild_int(b, 0);
  for (int32_t i = 0; i < num_axes; i++) {
    const ptc_axis_ref_t ref = axes[i];
    const int64_t size = ptc_axis_ref_size(mesh, ref);
    const int32_t level = axis_level(b, ref.axis);
    if (size <= 1) continue;
    if (level < 0)
      return ptc_kbuild_unsupported(b, b->ops[0], "a dim lies on an axis of other devices");
    ptc_kx_t at = ptc_kb_turn(&b->kb, level);
    if (ref.size) {
      // Of (pre, size, post): at / post % size.
      const int64_t whole = ptc_axis_ref_size(mesh, (ptc_axis_ref_t){.axis = ref.axis});
      const int64_t post = whole / (ref.pre * ref.size);
      if (post > 1) at = ptc_kbuild_2(b, PTC_OP_DIV, PTC_I32, at, ptc_kbuild_int(b, post));
      if (ref.pre > 1) at = ptc_kbuild_2(b, PTC_OP_MOD, PTC_I32, at, ptc_kbuild_int(b, size));
    }
    shard = ptc_kbuild_scale(b, shard, size);
    const bool first = b->kb.kernel->exprs[shard].kind == PTC_KX_CONST;
    shard = first ? at : ptc_kbuild_2(b, PTC_OP_ADD, PTC_I32, shard, at);
  }
  return shard;
}

ptc_kx_t ptc_kbuild_global_index(ptc_kbuild_t *b, const ptc_dim_t *dim, ptc_kx_t local) {
  if (!dim->num_axes || local < 0) return local;
  const ptc_kx_t shard = ptc_kbuild_shard_index(b, dim->axes, dim->num_axes);
  if (shard < 0) return PTC_KX_NONE;
  const int64_t extent = ptc_kbuild_extent(b, dim);
  if (dim->dist == PTC_DIST_BLOCK)
    return ptc_kbuild_2(b, PTC_OP_ADD, PTC_I32, ptc_kbuild_scale(b, shard, extent), local);
  // Chunks shard and 2 n - 1 - shard of 2 n.
  const int64_t chunk = extent / 2, num = 2 * ptc_dim_num_shards(&b->module->mesh, dim);
  const ptc_kx_t low =
      ptc_kbuild_2(b, PTC_OP_ADD, PTC_I32, ptc_kbuild_scale(b, shard, chunk), local);
  const ptc_kx_t back = ptc_kbuild_scale(b, shard, -chunk);
  const ptc_kx_t high =
      ptc_kbuild_shift(b, ptc_kbuild_2(b, PTC_OP_ADD, PTC_I32, back, local), (num - 2) * chunk);
  const ptc_kx_t first = ptc_kbuild_2(b, PTC_OP_LT, PTC_BOOL, local, ptc_kbuild_int(b, chunk));
  return ptc_kbuild_select(b, first, low, high);
}

ptc_kx_t ptc_kbuild_number(ptc_kbuild_t *b, const ptc_dim_t *dims, int32_t num_dims,
                           const ptc_kx_t *index) {
  ptc_kx_t number = ptc_kb_const(&b->kb, PTC_I64, 0);
  int64_t stride = 1;
  for (int32_t i = num_dims - 1; i >= 0; i--) {
    ptc_kx_t at = ptc_kbuild_global_index(b, &dims[i], index[i]);
    at = ptc_kbuild_cast(b, PTC_I64, at);
    if (stride != 1)
      at = ptc_kbuild_2(b, PTC_OP_MUL, PTC_I64, at, ptc_kb_const(&b->kb, PTC_I64, (double)stride));
    number = i == num_dims - 1 ? at : ptc_kbuild_2(b, PTC_OP_ADD, PTC_I64, number, at);
    stride *= dims[i].extent;
  }
  return number;
}

// --- small expressions

ptc_dtype_t ptc_kbuild_wide(ptc_dtype_t dtype) {
  return dtype == PTC_F16 || dtype == PTC_BF16 ? PTC_F32 : dtype;
}

ptc_kx_t ptc_kbuild_select(ptc_kbuild_t *b, ptc_kx_t c, ptc_kx_t x, ptc_kx_t y) {
  if (c < 0 || x < 0 || y < 0) return PTC_KX_NONE;
  const ptc_kexpr_t *cond = &b->kb.kernel->exprs[c];
  if (cond->kind == PTC_KX_CONST) return cond->value != 0 ? x : y;
  if (x == y) return x;
  return ptc_kb_op(&b->kb, PTC_OP_WHERE, b->kb.kernel->exprs[x].dtype, (ptc_kx_t[]){c, x, y}, 3);
}

ptc_kx_t ptc_kbuild_both(ptc_kbuild_t *b, ptc_kx_t x, ptc_kx_t y) {
  if (x < 0 || y < 0) return x < 0 ? y : x;
  return x == y ? x : ptc_kb_op2(&b->kb, PTC_OP_AND, PTC_BOOL, x, y);
}

ptc_kx_t ptc_kbuild_shift(ptc_kbuild_t *b, ptc_kx_t x, int64_t shift) {
  if (x < 0 || shift == 0) return x;
  const ptc_kexpr_t *e = &b->kb.kernel->exprs[x];
  if (e->kind == PTC_KX_CONST) return ptc_kb_const(&b->kb, e->dtype, e->value + (double)shift);
  return ptc_kb_op2(&b->kb, PTC_OP_ADD, e->dtype, x, ptc_kb_const(&b->kb, e->dtype, (double)shift));
}

ptc_kx_t ptc_kbuild_scale(ptc_kbuild_t *b, ptc_kx_t x, int64_t factor) {
  if (x < 0 || factor == 1) return x;
  const ptc_kexpr_t *e = &b->kb.kernel->exprs[x];
  if (e->kind == PTC_KX_CONST) return ptc_kb_const(&b->kb, e->dtype, e->value * (double)factor);
  return ptc_kb_op2(&b->kb, PTC_OP_MUL, e->dtype, x,
                    ptc_kb_const(&b->kb, e->dtype, (double)factor));
}

// --- values

typedef struct known_s {
  ptc_kx_t index[PTC_MAX_DIMS];
  ptc_kx_t guard, result;
  double fill;
  bool checked;
  struct known_s *next;
} known_t;

static ptc_kx_t find_known(const ptc_kbuild_t *b, const ptc_value_t *value, const ptc_kx_t *index) {
  for (known_t *k = ptc_map_get(&b->known, value); k; k = k->next) {
    bool same = k->guard == b->guard && k->checked == b->checked &&
                memcmp(&k->fill, &b->fill, sizeof(k->fill)) == 0;
    for (int32_t i = 0; same && i < value->type->num_dims; i++) same = k->index[i] == index[i];
    if (same) return k->result;
  }
  return PTC_KX_NONE;
}

static void remember(ptc_kbuild_t *b, const ptc_value_t *value, const ptc_kx_t *index,
                     ptc_kx_t result) {
  known_t *k = PTC_ARENA_NEW(b->arena, known_t);
  *k = (known_t){.guard = b->guard,
                 .fill = b->fill,
                 .checked = b->checked,
                 .result = result,
                 .next = ptc_map_get(&b->known, value)};
  for (int32_t i = 0; i < value->type->num_dims; i++) k->index[i] = index[i];
  ptc_map_set(&b->known, value, k);
}

// The turn of a repeat: argument 0 of its body.
static bool is_turn(const ptc_value_t *value) {
  return !value->def && value->block->parent_op && value->index == 0;
}

static int32_t depth_of(const ptc_block_t *block) {
  int32_t depth = 0;
  for (const ptc_op_t *op = block->parent_op; op; op = op->parent->parent_op) depth++;
  return depth;
}

// Whether the bytes of |value| are another op's that is never stored: a view of an inline value.
static bool is_computed(const ptc_kbuild_t *b, const ptc_value_t *value) {
  const ptc_op_t *op = value->def;
  if (!op) return is_turn(value);
  if (ptc_map_get(&b->members, op) || ptc_op_bool(op, "inline")) return true;
  return ptc_view_is_alias(op) && value->type->num_counts == 0 && ptc_kbuild_fn(op->opcode) &&
         is_computed(b, op->operands[0]);
}

static ptc_kx_t load(ptc_kbuild_t *b, ptc_value_t *value, const ptc_kx_t *index) {
  const int32_t param = ptc_kbuild_param(b, value, PTC_KPARAM_IN);
  return ptc_kb_expr(&b->kb, (ptc_kexpr_t){.kind = PTC_KX_LOAD,
                                           .dtype = value->type->dtype,
                                           .param = param,
                                           .guard = b->guard,
                                           .value = b->guard < 0 ? 0 : b->fill,
                                           .checked = b->checked,
                                           .num_args = value->type->num_dims,
                                           .args = index});
}

static ptc_kx_t make_value(ptc_kbuild_t *b, ptc_value_t *value, const ptc_kx_t *index) {
  if (!is_computed(b, value)) return load(b, value, index);
  if (!value->def)
    return ptc_kb_turn(&b->kb, ptc_func_first_level(value->block->func) + depth_of(value->block) - 1);
  const ptc_kbuild_fn_t fn = ptc_kbuild_fn(value->def->opcode);
  if (!fn) return ptc_kbuild_unsupported(b, value->def, "it cannot be part of another kernel");
  return ptc_kbuild_cast(b, value->type->dtype, fn(b, value->def, value->index, index));
}

ptc_kx_t ptc_kbuild_value(ptc_kbuild_t *b, ptc_value_t *value, const ptc_kx_t *index) {
  for (int32_t i = 0; i < value->type->num_dims; i++)
    if (index[i] < 0) return PTC_KX_NONE;
  if (value == b->hole_value)
    return ptc_kbuild_cast(
        b, value->type->dtype,
        ptc_kb_hole(&b->kb, 0, PTC_F32,
                    b->kb.kernel->gemm.batch | b->kb.kernel->gemm.m | b->kb.kernel->gemm.n));
  ptc_kx_t result = find_known(b, value, index);
  if (result >= 0) return result;
  result = make_value(b, value, index);
  if (result >= 0) remember(b, value, index, result);
  return result;
}

ptc_kx_t ptc_kbuild_operand(ptc_kbuild_t *b, const ptc_op_t *op, int32_t operand,
                            const ptc_type_t *type, const ptc_kx_t *index) {
  ptc_value_t *value = op->operands[operand];
  ptc_kx_t own[PTC_MAX_DIMS];
  for (int32_t i = 0; i < value->type->num_dims; i++) {
    const int32_t at = ptc_type_find_dim(type, value->type->dims[i].name);
    own[i] = at >= 0 ? index[at] : loop_index(b, value->type->dims[i].name);
  }
  return ptc_kbuild_value(b, value, own);
}

ptc_kx_t ptc_kbuild_here(ptc_kbuild_t *b, ptc_value_t *value) {
  ptc_kx_t index[PTC_MAX_DIMS];
  ptc_kbuild_index_of(b, value->type, index);
  return ptc_kbuild_value(b, value, index);
}

ptc_kx_t ptc_kbuild_scalar(ptc_kbuild_t *b, const ptc_op_t *op, int32_t operand) {
  if (op->operands[operand]->type->num_dims)
    return ptc_kbuild_unsupported(b, op, "an operand that should be a scalar has dims");
  return ptc_kbuild_value(b, op->operands[operand], NULL);
}

// Building kernels: parameters, loop dims, and expressions with value numbering.
#include "ir/kernel.h"

#include <assert.h>
#include <string.h>

void ptc_kb_begin(ptc_kernel_builder_t *kb, ptc_arena_t *arena, const char *name,
                  ptc_kernel_kind_t kind, ptc_loc_t loc) {
  *kb = (ptc_kernel_builder_t){.arena = arena, .kernel = PTC_ARENA_NEW(arena, ptc_kernel_t)};
  kb->kernel->name = name;
  kb->kernel->kind = kind;
  kb->kernel->loc = loc;
  kb->kernel->about = "";
}

// Room for one more element of |elem_bytes| in |*array|, which has |count| of |*capacity|.
static void grow(ptc_arena_t *arena, void *array, size_t elem_bytes, int32_t count,
                 int32_t *capacity) {
  if (count < *capacity) return;
  void **slot = array;
  const int32_t room = *capacity ? 2 * *capacity : 16;
  void *larger = ptc_arena_calloc(arena, (size_t)room, elem_bytes);
  if (count) memcpy(larger, *slot, (size_t)count * elem_bytes);
  *slot = larger;
  *capacity = room;
}

int32_t ptc_kb_dim(ptc_kernel_builder_t *kb, const char *name, int64_t extent) {
  assert(kb->kernel->num_dims < PTC_KERNEL_MAX_DIMS);
  kb->kernel->dims[kb->kernel->num_dims] = (ptc_kdim_t){name, extent};
  return kb->kernel->num_dims++;
}

int32_t ptc_kb_param(ptc_kernel_builder_t *kb, const char *name, ptc_kparam_mode_t mode,
                     ptc_dtype_t dtype, const int64_t *extents, int32_t num_dims) {
  ptc_kernel_t *kernel = kb->kernel;
  grow(kb->arena, &kernel->params, sizeof *kernel->params, kernel->num_params, &kb->cap_params);
  ptc_kparam_t *param = &kernel->params[kernel->num_params];
  *param = (ptc_kparam_t){
      .name = name, .dtype = dtype, .mode = mode, .num_dims = num_dims, .in_place = -1};
  for (int32_t i = 0; i < num_dims; ++i) param->extents[i] = extents[i];
  return kernel->num_params++;
}

static bool same_args(const ptc_kexpr_t *a, const ptc_kexpr_t *b) {
  if (a->num_args != b->num_args) return false;
  for (int32_t i = 0; i < a->num_args; ++i)
    if (a->args[i] != b->args[i]) return false;
  return true;
}

static bool same_expr(const ptc_kexpr_t *a, const ptc_kexpr_t *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->dim == b->dim && a->level == b->level &&
         a->param == b->param && a->hole == b->hole &&
         memcmp(&a->value, &b->value, sizeof a->value) == 0 && a->opcode == b->opcode &&
         a->gelu_tanh == b->gelu_tanh && a->guard == b->guard && a->checked == b->checked &&
         a->fma == b->fma && a->reduce == b->reduce && a->over == b->over && a->dist == b->dist &&
         a->path == b->path && memcmp(&a->a, &b->a, sizeof a->a) == 0 &&
         memcmp(&a->b, &b->b, sizeof a->b) == 0 && same_args(a, b);
}

ptc_kx_t ptc_kb_expr(ptc_kernel_builder_t *kb, ptc_kexpr_t expr) {
  ptc_kernel_t *kernel = kb->kernel;
  if (expr.kind != PTC_KX_LOAD) expr.guard = PTC_KX_NONE;
  if (expr.kind == PTC_KX_INDEX) expr.varies = UINT32_C(1) << expr.dim;
  for (int32_t i = 0; i < expr.num_args; ++i) expr.varies |= kernel->exprs[expr.args[i]].varies;
  if (expr.kind == PTC_KX_LOAD && expr.guard != PTC_KX_NONE)
    expr.varies |= kernel->exprs[expr.guard].varies;
  if (expr.kind == PTC_KX_REDUCE) expr.varies &= ~expr.over;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i)
    if (same_expr(&kernel->exprs[i], &expr)) return i;
  ptc_kx_t *args = PTC_ARENA_ARRAY(kb->arena, ptc_kx_t, expr.num_args ? expr.num_args : 1);
  for (int32_t i = 0; i < expr.num_args; ++i) args[i] = expr.args[i];
  expr.args = args;
  grow(kb->arena, &kernel->exprs, sizeof *kernel->exprs, kernel->num_exprs, &kb->cap_exprs);
  kernel->exprs[kernel->num_exprs] = expr;
  return kernel->num_exprs++;
}

ptc_kx_t ptc_kb_const(ptc_kernel_builder_t *kb, ptc_dtype_t dtype, double value) {
  return ptc_kb_expr(kb, (ptc_kexpr_t){.kind = PTC_KX_CONST, .dtype = dtype, .value = value});
}

ptc_kx_t ptc_kb_index(ptc_kernel_builder_t *kb, int32_t dim) {
  return ptc_kb_expr(kb, (ptc_kexpr_t){.kind = PTC_KX_INDEX, .dtype = PTC_I32, .dim = dim});
}

ptc_kx_t ptc_kb_turn(ptc_kernel_builder_t *kb, int32_t level) {
  if (kb->kernel->num_levels <= level) kb->kernel->num_levels = level + 1;
  return ptc_kb_expr(kb, (ptc_kexpr_t){.kind = PTC_KX_TURN, .dtype = PTC_I32, .level = level});
}

ptc_kx_t ptc_kb_load(ptc_kernel_builder_t *kb, int32_t param, const ptc_kx_t *index) {
  const ptc_kparam_t *p = &kb->kernel->params[param];
  return ptc_kb_expr(kb, (ptc_kexpr_t){.kind = PTC_KX_LOAD,
                                       .dtype = p->dtype,
                                       .param = param,
                                       .guard = PTC_KX_NONE,
                                       .num_args = p->num_dims,
                                       .args = index});
}

ptc_kx_t ptc_kb_op(ptc_kernel_builder_t *kb, ptc_opcode_t opcode, ptc_dtype_t dtype,
                   const ptc_kx_t *args, int32_t num_args) {
  return ptc_kb_expr(
      kb,
      (ptc_kexpr_t){
          .kind = PTC_KX_OP, .dtype = dtype, .opcode = opcode, .num_args = num_args, .args = args});
}

ptc_kx_t ptc_kb_op1(ptc_kernel_builder_t *kb, ptc_opcode_t opcode, ptc_dtype_t dtype, ptc_kx_t a) {
  return ptc_kb_op(kb, opcode, dtype, (const ptc_kx_t[]){a}, 1);
}

ptc_kx_t ptc_kb_op2(ptc_kernel_builder_t *kb, ptc_opcode_t opcode, ptc_dtype_t dtype, ptc_kx_t a,
                    ptc_kx_t b) {
  return ptc_kb_op(kb, opcode, dtype, (const ptc_kx_t[]){a, b}, 2);
}

ptc_kx_t ptc_kb_cast(ptc_kernel_builder_t *kb, ptc_dtype_t dtype, ptc_kx_t a) {
  if (kb->kernel->exprs[a].dtype == dtype) return a;
  return ptc_kb_op1(kb, PTC_OP_CAST, dtype, a);
}

ptc_kx_t ptc_kb_reduce(ptc_kernel_builder_t *kb, ptc_kx_reduce_t reduce, ptc_dtype_t dtype,
                       ptc_kx_t a, uint32_t over) {
  return ptc_kb_expr(kb, (ptc_kexpr_t){.kind = PTC_KX_REDUCE,
                                       .dtype = dtype,
                                       .reduce = reduce,
                                       .over = over,
                                       .num_args = 1,
                                       .args = (const ptc_kx_t[]){a}});
}

ptc_kx_t ptc_kb_hole(ptc_kernel_builder_t *kb, int32_t hole, ptc_dtype_t dtype, uint32_t varies) {
  return ptc_kb_expr(
      kb, (ptc_kexpr_t){.kind = PTC_KX_HOLE, .dtype = dtype, .hole = hole, .varies = varies});
}

void ptc_kb_store(ptc_kernel_builder_t *kb, int32_t param, const ptc_kx_t *index, ptc_kx_t value) {
  ptc_kernel_t *kernel = kb->kernel;
  grow(kb->arena, &kernel->stores, sizeof *kernel->stores, kernel->num_stores, &kb->cap_stores);
  const int32_t n = kernel->params[param].num_dims;
  ptc_kx_t *copy = PTC_ARENA_ARRAY(kb->arena, ptc_kx_t, n ? n : 1);
  for (int32_t i = 0; i < n; ++i) copy[i] = index[i];
  kernel->stores[kernel->num_stores++] = (ptc_kstore_t){param, copy, value};
}

// Kernels as text: parameters, loops, one line per expression that is no index, stores.
#include <inttypes.h>

#include "ir/kernel.h"
#include "ir/op.h"

static const char *const kind_names[] = {
    [PTC_KERNEL_NEST] = "nest",
    [PTC_KERNEL_GEMM] = "gemm",
    [PTC_KERNEL_ATTENTION] = "attention",
    [PTC_KERNEL_ATTENTION_GRAD] = "attention_grad",
    [PTC_KERNEL_SCAN] = "scan",
    [PTC_KERNEL_TOPK] = "topk",
    [PTC_KERNEL_DISPATCH_SLOT] = "dispatch_slot",
    [PTC_KERNEL_SCATTER_ADD] = "scatter_add",
    [PTC_KERNEL_WINDOW_ADD] = "window_add",
    [PTC_KERNEL_SQUARE_SUM] = "square_sum",
    [PTC_KERNEL_LIMBS_VALUE] = "limbs_value",
};
static const char *const reduce_names[] = {
    [PTC_KX_SUM] = "sum", [PTC_KX_MAX] = "max", [PTC_KX_ARGMAX] = "argmax", [PTC_KX_ALL] = "all"};
static const char *const mode_names[] = {
    [PTC_KPARAM_IN] = "in", [PTC_KPARAM_OUT] = "out", [PTC_KPARAM_INOUT] = "inout"};

// Leaves, and integer arithmetic on positions, are written where they are used.
static bool is_written_in_place(const ptc_kernel_t *kernel, ptc_kx_t x) {
  const ptc_kexpr_t *e = &kernel->exprs[x];
  if (e->kind == PTC_KX_CONST || e->kind == PTC_KX_INDEX || e->kind == PTC_KX_TURN ||
      e->kind == PTC_KX_HOLE)
    return true;
  if (e->kind != PTC_KX_OP || (e->dtype != PTC_I32 && e->dtype != PTC_I64)) return false;
  if (e->opcode != PTC_OP_ADD && e->opcode != PTC_OP_MUL && e->opcode != PTC_OP_CAST) return false;
  for (int32_t i = 0; i < e->num_args; i++)
    if (!is_written_in_place(kernel, e->args[i])) return false;
  return true;
}

static void print_dims(const ptc_kernel_t *kernel, uint32_t mask, ptc_str_t *out) {
  bool first = true;
  ptc_str_append(out, "{");
  for (int32_t i = 0; i < kernel->num_dims; i++) {
    if (!(mask >> i & 1)) continue;
    ptc_str_printf(out, "%s%s", first ? "" : ", ", kernel->dims[i].name);
    first = false;
  }
  ptc_str_append(out, "}");
}

static void print_use(const ptc_kernel_t *kernel, ptc_kx_t x, ptc_str_t *out);

static void print_in_place(const ptc_kernel_t *kernel, const ptc_kexpr_t *e, ptc_str_t *out) {
  switch (e->kind) {
    case PTC_KX_CONST:
      if (ptc_dtype_is_float(e->dtype))
        ptc_str_append_double(out, e->value);
      else
        ptc_str_printf(out, "%.0f", e->value);
      return;
    case PTC_KX_INDEX: ptc_str_append(out, kernel->dims[e->dim].name); return;
    case PTC_KX_TURN: ptc_str_printf(out, "turn%" PRId32, e->level); return;
    case PTC_KX_HOLE: ptc_str_printf(out, "hole%" PRId32, e->hole); return;
    default: break;
  }
  if (e->opcode == PTC_OP_CAST) {
    print_use(kernel, e->args[0], out);
    return;
  }
  ptc_str_append(out, "(");
  print_use(kernel, e->args[0], out);
  ptc_str_append(out, e->opcode == PTC_OP_ADD ? " + " : " * ");
  print_use(kernel, e->args[1], out);
  ptc_str_append(out, ")");
}

static void print_use(const ptc_kernel_t *kernel, ptc_kx_t x, ptc_str_t *out) {
  if (x < 0)
    ptc_str_append(out, "none");
  else if (is_written_in_place(kernel, x))
    print_in_place(kernel, &kernel->exprs[x], out);
  else
    ptc_str_printf(out, "%%%" PRId32, x);
}

static void print_uses(const ptc_kernel_t *kernel, const ptc_kx_t *args, int32_t count,
                       ptc_str_t *out) {
  for (int32_t i = 0; i < count; i++) {
    if (i) ptc_str_append(out, ", ");
    print_use(kernel, args[i], out);
  }
}

static void print_element(const ptc_kernel_t *kernel, int32_t param, const ptc_kx_t *index,
                          ptc_str_t *out) {
  ptc_str_printf(out, "%s[", kernel->params[param].name);
  print_uses(kernel, index, kernel->params[param].num_dims, out);
  ptc_str_append(out, "]");
}

static void print_expr(const ptc_kernel_t *kernel, const ptc_kexpr_t *e, ptc_str_t *out) {
  switch (e->kind) {
    case PTC_KX_LOAD:
      print_element(kernel, e->param, e->args, out);
      if (e->checked) ptc_str_append(out, " checked");
      if (e->guard >= 0) {
        ptc_str_append(out, " if ");
        print_use(kernel, e->guard, out);
        ptc_str_append(out, " else ");
        ptc_str_append_double(out, e->value);
      }
      return;
    case PTC_KX_REDUCE:
      ptc_str_printf(out, "%s%s over ", reduce_names[e->reduce], e->fma ? " fma" : "");
      print_dims(kernel, e->over, out);
      ptc_str_append(out, " of ");
      print_uses(kernel, e->args, e->num_args, out);
      return;
    case PTC_KX_RANDOM:
      ptc_str_printf(out, "random %s ", e->dist);
      print_uses(kernel, e->args, e->num_args, out);
      ptc_str_append(out, " a = ");
      ptc_str_append_double(out, e->a);
      ptc_str_append(out, " b = ");
      ptc_str_append_double(out, e->b);
      ptc_str_append(out, " path = ");
      ptc_str_append_quoted(out, e->path);
      return;
    default:
      ptc_str_printf(out, "%s%s ", ptc_op_info(e->opcode)->mnemonic, e->gelu_tanh ? " tanh" : "");
      print_uses(kernel, e->args, e->num_args, out);
      return;
  }
}

static void print_loops(const ptc_kernel_t *kernel, const char *label, uint32_t mask,
                        ptc_str_t *out) {
  if (!mask) return;
  ptc_str_printf(out, " %s", label);
  for (int32_t i = 0; i < kernel->num_dims; i++)
    if (mask >> i & 1)
      ptc_str_printf(out, " %s=%" PRId64, kernel->dims[i].name, kernel->dims[i].extent);
}

static uint32_t bits(int32_t from, int32_t to) {
  uint32_t mask = 0;
  for (int32_t i = from; i < to; i++) mask |= UINT32_C(1) << i;
  return mask;
}

static void print_dim_list(const ptc_kernel_t *kernel, const char *label, int32_t param,
                           const int32_t *dims, ptc_str_t *out) {
  if (param < 0) return;
  ptc_str_printf(out, "  %s %s[", label, kernel->params[param].name);
  for (int32_t i = 0; dims && i < kernel->params[param].num_dims; i++)
    ptc_str_printf(out, "%s%s", i ? ", " : "", kernel->dims[dims[i]].name);
  ptc_str_append(out, "]\n");
}

static void print_line(const ptc_kernel_t *kernel, const char *label, ptc_kx_t x, ptc_str_t *out) {
  if (x < 0) return;
  ptc_str_printf(out, "  %s = ", label);
  print_use(kernel, x, out);
  ptc_str_append(out, "\n");
}

static void print_attention(const ptc_kernel_t *kernel, ptc_str_t *out) {
  const ptc_kattention_t *at = &kernel->attention;
  ptc_str_printf(out, "  attend %s dot %s\n", kernel->dims[at->attend].name,
                 kernel->dims[at->dot].name);
  print_line(kernel, "q", at->q, out);
  print_line(kernel, "key", at->key, out);
  print_line(kernel, "val", at->val, out);
  print_line(kernel, "mask", at->mask, out);
  print_line(kernel, "bias", at->bias, out);
  print_line(kernel, "seed", at->seed, out);
  print_line(kernel, "step", at->step, out);
  print_line(kernel, "element", at->element, out);
  for (int32_t i = 0; i < at->num_turns; i++) print_line(kernel, "turn", at->turns[i], out);
  print_dim_list(kernel, "out", at->out, at->out_dims, out);
  print_dim_list(kernel, "lse", at->lse, at->lse_dims, out);
  print_dim_list(kernel, "dout", at->dout, at->out_dims, out);
  print_dim_list(kernel, "dq", at->dq, at->dq_dims, out);
  print_dim_list(kernel, "dkey", at->dkey, at->dkey_dims, out);
  print_dim_list(kernel, "dval", at->dval, at->dval_dims, out);
  print_dim_list(kernel, "dbias", at->dbias, at->dbias_dims, out);
}

static void print_params(const ptc_kernel_t *kernel, ptc_str_t *out) {
  for (int32_t i = 0; i < kernel->num_params; i++) {
    const ptc_kparam_t *param = &kernel->params[i];
    ptc_str_printf(out, "  %s %s : %s[", mode_names[param->mode], param->name,
                   ptc_dtype_name(param->dtype));
    for (int32_t d = 0; d < param->num_dims; d++)
      ptc_str_printf(out, "%s%" PRId64, d ? ", " : "", param->extents[d]);
    ptc_str_append(out, "]");
    if (param->in_place >= 0)
      ptc_str_printf(out, " in place of %s", kernel->params[param->in_place].name);
    ptc_str_append(out, "\n");
  }
}

void ptc_kernel_print(const ptc_kernel_t *kernel, ptc_str_t *out) {
  ptc_str_printf(out, "kernel %s %s  # %s\n", kernel->name, kind_names[kernel->kind],
                 kernel->about);
  print_params(kernel, out);
  ptc_str_append(out, "  loops");
  if (kernel->kind == PTC_KERNEL_GEMM) {
    print_loops(kernel, "batch", kernel->gemm.batch, out);
    print_loops(kernel, "m", kernel->gemm.m, out);
    print_loops(kernel, "n", kernel->gemm.n, out);
    print_loops(kernel, "k", kernel->gemm.k, out);
  } else {
    const int32_t col = kernel->num_grid, row = kernel->num_grid + kernel->num_col;
    print_loops(kernel, "grid", bits(0, col), out);
    print_loops(kernel, "col", bits(col, row), out);
    print_loops(kernel, "row", bits(row, kernel->num_dims), out);
  }
  ptc_str_append(out, "\n");
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) {
    if (is_written_in_place(kernel, i)) continue;
    ptc_str_printf(out, "  %%%" PRId32 " = ", i);
    print_expr(kernel, &kernel->exprs[i], out);
    ptc_str_printf(out, " : %s\n", ptc_dtype_name(kernel->exprs[i].dtype));
  }
  if (kernel->kind == PTC_KERNEL_GEMM) {
    print_line(kernel, "a", kernel->gemm.a, out);
    print_line(kernel, "b", kernel->gemm.b, out);
  }
  if (kernel->attention.op) print_attention(kernel, out);
  if (kernel->op) ptc_str_printf(out, "  op %s\n", ptc_op_info(kernel->op->opcode)->mnemonic);
  for (int32_t i = 0; i < kernel->num_stores; i++) {
    ptc_str_append(out, "  ");
    print_element(kernel, kernel->stores[i].param, kernel->stores[i].index, out);
    ptc_str_append(out, " = ");
    print_use(kernel, kernel->stores[i].value, out);
    ptc_str_append(out, "\n");
  }
}

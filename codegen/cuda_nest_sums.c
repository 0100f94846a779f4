// Accumulators of reductions in CUDA: f32 for a few values of f32, f64 for their sums.
#include "codegen/cuda_nest_impl.h"

const char *ptc_cuda_nest_acc_type(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e) {
  const ptc_dtype_t from = ptc_cuda_nest_at(nest, e->args[0])->dtype;
  if (e->reduce == PTC_KX_ALL) return "bool";
  if (e->reduce == PTC_KX_ARGMAX) return ptc_c_type(from);
  if (ptc_dtype_is_int(e->dtype)) return "int64_t";
  return e->dtype == PTC_F64 || from == PTC_F64 ? "double" : "float";
}

const char *ptc_cuda_nest_sum_type(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e) {
  const char *type = ptc_cuda_nest_acc_type(nest, e);
  return e->reduce == PTC_KX_SUM && type[0] == 'f' ? "double" : type;
}

const char *ptc_cuda_nest_acc_start(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e) {
  const ptc_dtype_t from = ptc_cuda_nest_at(nest, e->args[0])->dtype;
  switch (e->reduce) {
    case PTC_KX_ALL: return "true";
    case PTC_KX_SUM: return "0";
    default:
      if (!ptc_dtype_is_int(from)) return "-INFINITY";
      return from == PTC_I32 && e->reduce == PTC_KX_ARGMAX ? "INT32_MIN" : "INT64_MIN";
  }
}

void ptc_cuda_nest_join(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e, const char *acc,
                        const char *value, int32_t indent) {
  ptc_str_t *out = nest->out;
  ptc_c_indent(out, indent);
  switch (e->reduce) {
    case PTC_KX_SUM: ptc_str_printf(out, "%s += %s;\n", acc, value); break;
    case PTC_KX_ALL: ptc_str_printf(out, "%s = %s && %s;\n", acc, acc, value); break;
    // A NaN that was met stays; one that comes is taken.
    default:
      ptc_str_printf(out, "%s = (%s > %s || %s != %s) ? %s : %s;\n", acc, value, acc, value, value,
                     value, acc);
      break;
  }
}

void ptc_cuda_nest_add(ptc_cuda_nest_t *nest, ptc_kx_t expr, const char *acc, bool is_sum,
                       int32_t indent) {
  const ptc_kexpr_t *e = ptc_cuda_nest_at(nest, expr);
  const ptc_kexpr_t *addend = ptc_cuda_nest_at(nest, e->args[0]);
  if (e->fma && addend->kind == PTC_KX_OP && addend->opcode == PTC_OP_MUL &&
      addend->dtype == PTC_F32) {
    const char **text = nest->scope.value_text;
    ptc_c_eval(&nest->scope, addend->args[0], indent, nest->out);
    ptc_c_eval(&nest->scope, addend->args[1], indent, nest->out);
    ptc_str_printf(nest->out,
                   is_sum ? "%*s%s += (double)%s * %s;\n" : "%*s%s = fmaf(%s, %s, %s);\n", indent,
                   "", acc, text[addend->args[0]], text[addend->args[1]], acc);
    return;
  }
  ptc_c_eval(&nest->scope, e->args[0], indent, nest->out);
  ptc_cuda_nest_join(nest, e, acc, nest->scope.value_text[e->args[0]], indent);
}

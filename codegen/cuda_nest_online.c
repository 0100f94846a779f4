// The maximum of a long row and the sum of exp(x - maximum) in one pass over it (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018): a thread has its own maximum and sum, which shrinks when the maximum grows.
// It takes a few elements at a time, so that their reads overlap and the sum is scaled rarely. Then the block has one
// maximum, to which all sums are scaled before they are added, in the order of every other sum.
//
// As in two passes: a NaN or +inf in the row makes the sum NaN, and so does a row of nothing but -inf.
#include <inttypes.h>

#include "codegen/cuda_nest_impl.h"

enum { AT_ONCE = 8 };

// Whether SUM |expr| is of exp(x - max x) over the same dims; |out_max|: the maximum.
static bool is_online_sum(const ptc_cuda_nest_t *nest, ptc_kx_t expr, ptc_kx_t *out_max) {
  const ptc_kexpr_t *sum = ptc_cuda_nest_at(nest, expr);
  if (sum->kind != PTC_KX_REDUCE || sum->reduce != PTC_KX_SUM || sum->over & nest->col ||
      !(sum->over & nest->row) || (sum->dtype != PTC_F32 && sum->dtype != PTC_F64))
    return false;
  const ptc_kexpr_t *power = ptc_cuda_nest_at(nest, sum->args[0]);
  if (power->kind != PTC_KX_OP || power->opcode != PTC_OP_EXP) return false;
  const ptc_kexpr_t *difference = ptc_cuda_nest_at(nest, power->args[0]);
  if (difference->kind != PTC_KX_OP || difference->opcode != PTC_OP_SUB) return false;
  *out_max = difference->args[1];
  const ptc_kexpr_t *max = ptc_cuda_nest_at(nest, *out_max);
  return max->kind == PTC_KX_REDUCE && max->reduce == PTC_KX_MAX && max->over == sum->over &&
         max->args[0] == difference->args[0] && max->dtype == sum->dtype &&
         power->dtype == sum->dtype && difference->dtype == sum->dtype &&
         ptc_cuda_nest_at(nest, max->args[0])->dtype == sum->dtype;
}

void ptc_cuda_nest_find_online(ptc_cuda_nest_t *nest) {
  nest->online_max = nest->online_sum = PTC_KX_NONE;
  if (ptc_cuda_nest_in_registers(nest) || nest->team != PTC_CUDA_THREADS) return;
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!is_online_sum(nest, i, &nest->online_max)) continue;
    nest->online_sum = i;
    return;
  }
  nest->online_max = PTC_KX_NONE;
}

static const char *type_of(const ptc_cuda_nest_t *nest) {
  return ptc_c_type(ptc_cuda_nest_at(nest, nest->online_sum)->dtype);
}

// exp(|x| - |max|) of C texts, whose statements are printed: its C text, good until the scope is restored.
static const char *power_text(ptc_cuda_nest_t *nest, const char *x, const char *max,
                              int32_t indent) {
  const ptc_kx_t power = ptc_cuda_nest_at(nest, nest->online_sum)->args[0];
  nest->scope.value_text[ptc_cuda_nest_at(nest, nest->online_max)->args[0]] = x;
  nest->scope.value_text[nest->online_max] = max;
  ptc_c_eval(&nest->scope, power, indent, nest->out);
  return nest->scope.value_text[power];
}

void ptc_cuda_nest_open_online(ptc_cuda_nest_t *nest, int32_t indent) {
  ptc_str_printf(nest->out,
                 "%*s%s acc%d = 0;\n"
                 "%*sfor (int start = lane; start < %" PRId64
                 "; start += %d) {\n"
                 "%*s  %s some%d[%d];\n"
                 "#pragma unroll\n"
                 "%*s  for (int item = 0; item < %d; ++item) {\n"
                 "%*s    some%d[item] = -INFINITY;\n"
                 "%*s    const int e = start + item * %d;\n"
                 "%*s    if (e >= %" PRId64 ") continue;\n",
                 indent, "", type_of(nest), nest->online_sum, indent, "", nest->num_row,
                 AT_ONCE * nest->team, indent, "", type_of(nest), nest->online_max, AT_ONCE, indent,
                 "", AT_ONCE, indent, "", nest->online_max, indent, "", nest->team, indent, "",
                 nest->num_row);
  ptc_cuda_decode(&nest->scope, nest->row, "e", indent + 4, nest->out);
}

void ptc_cuda_nest_add_online(ptc_cuda_nest_t *nest, int32_t indent) {
  const ptc_kx_t x = ptc_cuda_nest_at(nest, nest->online_max)->args[0];
  ptc_c_eval(&nest->scope, x, indent, nest->out);
  ptc_str_printf(nest->out, "%*ssome%d[item] = %s;\n", indent, "", nest->online_max,
                 nest->scope.value_text[x]);
}

void ptc_cuda_nest_close_online(ptc_cuda_nest_t *nest, const char **saved, int32_t indent) {
  ptc_str_t *out = nest->out;
  const ptc_kx_t max = nest->online_max, sum = nest->online_sum;
  const char *acc = ptc_arena_printf(nest->arena, "acc%d", max);
  ptc_c_scope_restore(&nest->scope, saved);
  const char **outside = ptc_c_scope_save(&nest->scope);
  ptc_str_printf(out,
                 "%*s  }\n"
                 "%*s  %s top = %s;\n"
                 "#pragma unroll\n"
                 "%*s  for (int item = 0; item < %d; ++item) top = ptc_nan_max(top, "
                 "some%d[item]);\n"
                 "%*s  if (top > %s || top != top) {\n",
                 indent, "", indent, "", type_of(nest), acc, indent, "", AT_ONCE, max, indent, "",
                 acc);
  const char *shrink = power_text(nest, acc, "top", indent + 4);
  ptc_str_printf(out,
                 "%*s    acc%d *= %s;\n"
                 "%*s    %s = top;\n"
                 "%*s  }\n"
                 // -inf so far: exp(x - max) would be NaN, though something larger may come.
                 "%*s  if (%s != -INFINITY) {\n"
                 "#pragma unroll\n"
                 "%*s    for (int item = 0; item < %d; ++item) {\n",
                 indent, "", sum, shrink, indent, "", acc, indent, "", indent, "", acc, indent, "",
                 AT_ONCE);
  ptc_c_scope_restore(&nest->scope, outside);
  outside = ptc_c_scope_save(&nest->scope);
  const char *term =
      power_text(nest, ptc_arena_printf(nest->arena, "some%d[item]", max), acc, indent + 6);
  ptc_str_printf(out, "%*s      acc%d += %s;\n%*s    }\n%*s  }\n%*s}\n", indent, "", sum, term,
                 indent, "", indent, "", indent, "");
  ptc_c_scope_restore(&nest->scope, outside);
}

void ptc_cuda_nest_join_online(ptc_cuda_nest_t *nest, int32_t indent) {
  ptc_str_t *out = nest->out;
  const ptc_kx_t max = nest->online_max, sum = nest->online_sum;
  ptc_str_printf(out, "%*sconst %s v%d = ptc_block_max(acc%d);\n%*s{\n", indent, "", type_of(nest),
                 max, max, indent, "");
  const char **saved = ptc_c_scope_save(&nest->scope);
  const char *shrink = power_text(nest, ptc_arena_printf(nest->arena, "acc%d", max),
                                  ptc_arena_printf(nest->arena, "v%d", max), indent + 2);
  ptc_str_printf(out,
                 "%*s  acc%d *= %s;\n"
                 "%*s}\n"
                 "%*sconst %s v%d = ptc_block_sum(acc%d);\n",
                 indent, "", sum, shrink, indent, "", indent, "", type_of(nest), sum, sum);
  ptc_c_scope_restore(&nest->scope, saved);
  nest->scope.value_text[max] = ptc_arena_printf(nest->arena, "v%d", max);
  nest->scope.value_text[sum] = ptc_arena_printf(nest->arena, "v%d", sum);
}

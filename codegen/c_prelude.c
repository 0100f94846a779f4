// What every printed C source begins with, and the head of its entry point.
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "codegen/c_math.h"
#include "codegen/codegen.h"
#include "ir/op.h"

static const char head_text[] =
    "#include <math.h>\n"
    "#include <stdbool.h>\n"
    "#include <stdint.h>\n"
    "#include <string.h>\n"
    "\n"
    "typedef struct ptc_kernel_call_s {\n"
    "  void *const *params;\n"
    "  const int64_t *turns;\n"
    "  void *scratch;\n"
    "  int32_t *fault;\n"
    "} ptc_kernel_call_t;\n"
    "\n"
    "static inline void ptc_fault(const ptc_kernel_call_t *call) {\n"
    "  __atomic_store_n(call->fault, 1, __ATOMIC_RELAXED);\n"
    "}\n"
    "static inline uint32_t ptc_bits(float x) {\n"
    "  uint32_t u;\n"
    "  memcpy(&u, &x, sizeof u);\n"
    "  return u;\n"
    "}\n"
    "static inline float ptc_float(uint32_t u) {\n"
    "  float x;\n"
    "  memcpy(&x, &u, sizeof x);\n"
    "  return x;\n"
    "}\n"
    "static inline uint64_t ptc_bits64(double x) {\n"
    "  uint64_t u;\n"
    "  memcpy(&u, &x, sizeof u);\n"
    "  return u;\n"
    "}\n";

void ptc_c_indent(ptc_str_t *out, int32_t count) {
  for (int32_t i = 0; i < count; ++i) ptc_str_append(out, " ");
}

// --- which helpers a kernel uses

static const char *snippet_of_op(const ptc_kexpr_t *e, ptc_dtype_t from) {
  const bool wide = from == PTC_F64;
  switch (e->opcode) {
    case PTC_OP_EXP: return "exp";
    case PTC_OP_LOG: return "log";
    case PTC_OP_SIN:
    case PTC_OP_COS: return wide ? "sincos64" : "sincos";
    case PTC_OP_TANH: return "tanh";
    case PTC_OP_ERF: return "erf";
    case PTC_OP_POW: return "pow";
    case PTC_OP_MOD: return "mod";
    case PTC_OP_SIGMOID: return wide ? "wide" : "sigmoid";
    case PTC_OP_SILU:
    case PTC_OP_SILU_GRAD: return wide ? "wide" : "silu";
    case PTC_OP_SOFTPLUS: return wide ? "wide" : "softplus";
    case PTC_OP_GELU:
    case PTC_OP_GELU_GRAD: return wide ? "wide" : e->gelu_tanh ? "gelu_tanh" : "gelu";
    default: return "";
  }
}

static void mark(bool *used, const char *names) {
  for (size_t i = 0; i < ptc_c_num_snippets; ++i) {
    const char *name = ptc_c_snippets[i].name;
    const size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += length) {
      const bool starts = at == names || at[-1] == ' ';
      if (!starts || (at[length] && at[length] != ' ') || used[i]) continue;
      used[i] = true;
      mark(used, ptc_c_snippets[i].needs);
    }
  }
}

static void mark_dtype(bool *used, ptc_dtype_t dtype) {
  if (dtype == PTC_BF16) mark(used, "bf16");
  if (dtype == PTC_F16) mark(used, "f16");
}

static void mark_kernel(bool *used, const ptc_kernel_t *kernel) {
  for (int32_t i = 0; i < kernel->num_params; ++i) mark_dtype(used, kernel->params[i].dtype);
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    mark_dtype(used, e->dtype);
    if (e->kind == PTC_KX_REDUCE) mark(used, "rows integer");
    if (e->kind == PTC_KX_RANDOM) {
      mark(used, "philox");
      if (strstr(e->dist, "normal")) mark(used, "normal");
    }
    const bool is_op = e->kind == PTC_KX_OP && e->num_args > 0;
    if (is_op) mark(used, snippet_of_op(e, kernel->exprs[e->args[0]].dtype));
    if (ptc_dtype_is_int(e->dtype) && e->kind != PTC_KX_INDEX && e->kind != PTC_KX_CONST)
      mark(used, "integer");
    if (is_op && ptc_dtype_is_int(kernel->exprs[e->args[0]].dtype)) mark(used, "integer");
  }
  if (kernel->op) mark(used, "integer");
  if (kernel->kind == PTC_KERNEL_SQUARE_SUM) mark(used, "squares");
  if (kernel->kind == PTC_KERNEL_LIMBS_VALUE) mark(used, "limbs_value");
  if (kernel->kind == PTC_KERNEL_ATTENTION || kernel->kind == PTC_KERNEL_ATTENTION_GRAD)
    mark(used, kernel->attention.seed == PTC_KX_NONE ? "exp log tanh" : "exp log tanh philox");
}

void ptc_c_helpers(ptc_str_t *out, const ptc_kernel_t *kernel, bool cuda) {
  enum { MAX_SNIPPETS = 32 };
  bool used[MAX_SNIPPETS] = {false};
  if (kernel) mark_kernel(used, kernel);
  for (size_t i = 0; i < ptc_c_num_snippets; ++i) {
    if (kernel && !used[i]) continue;
    // Sums by vectors of a CPU.
    const char *name = ptc_c_snippets[i].name;
    if (cuda && strstr("sums rows squares", name)) continue;
    if (strcmp(name, "sincos") == 0) ptc_c_pi_table(out);
    const ptc_c_snippet_t *snippet = &ptc_c_snippets[i];
    ptc_str_append(out, cuda && snippet->cuda ? snippet->cuda : snippet->text);
  }
  ptc_str_append(out, "// --- end of the prelude\n\n");
}

void ptc_c_prelude(ptc_str_t *out, const ptc_kernel_t *kernel) {
  ptc_str_append(out, head_text);
  ptc_c_helpers(out, kernel, false);
}

// --- names

// Letters, digits and _ of |name|.
static const char *identifier(ptc_arena_t *arena, const char *name) {
  char *text = ptc_arena_strdup(arena, name && *name ? name : "x");
  for (char *c = text; *c; ++c)
    if (!isalnum((unsigned char)*c)) *c = '_';
  return text;
}

const char *ptc_c_param_name(ptc_arena_t *arena, const ptc_kernel_t *kernel, int32_t param) {
  if (param == kernel->num_params) return "workspace";
  const char *name = identifier(arena, kernel->params[param].name);
  bool unique = true;
  for (int32_t i = 0; i < kernel->num_params; ++i)
    unique &= i == param || strcmp(identifier(arena, kernel->params[i].name), name) != 0;
  if (unique) return ptc_arena_printf(arena, "p_%s", name);
  return ptc_arena_printf(arena, "p%d_%s", param, name);
}

const char *ptc_c_index_name(ptc_arena_t *arena, const ptc_kernel_t *kernel, int32_t dim) {
  const char *name = identifier(arena, kernel->dims[dim].name);
  bool unique = true;
  for (int32_t i = 0; i < kernel->num_dims; ++i)
    unique &= i == dim || strcmp(identifier(arena, kernel->dims[i].name), name) != 0;
  if (unique) return ptc_arena_printf(arena, "i_%s", name);
  return ptc_arena_printf(arena, "i%d_%s", dim, name);
}

// --- head

// A comment must not end early or continue on the next line.
static void append_plain(ptc_str_t *out, const char *text) {
  for (const char *c = text ? text : ""; *c; ++c)
    ptc_str_append_n(out, (unsigned char)*c < 0x20 || *c == '\\' ? " " : c, 1);
}

void ptc_c_comment(ptc_str_t *out, const ptc_kernel_t *kernel) {
  ptc_str_append(out, "// ");
  append_plain(out, kernel->about);
  if (kernel->loc.file) {
    ptc_str_append(out, "  (");
    append_plain(out, kernel->loc.file);
    ptc_str_printf(out, ":%d)", kernel->loc.line);
  }
  ptc_str_append(out, "\n//");
  for (int32_t i = 0; i < kernel->num_dims; ++i) {
    ptc_str_append(out, i ? ", " : " ");
    append_plain(out, kernel->dims[i].name);
    ptc_str_printf(out, " = %" PRId64, kernel->dims[i].extent);
  }
  ptc_str_append(out, "\n");
  for (int32_t i = 0; i < kernel->num_params; ++i) {
    const ptc_kparam_t *p = &kernel->params[i];
    static const char *const modes[] = {"in ", "out", "in and out"};
    ptc_str_printf(out, "//   %s ", modes[p->mode]);
    append_plain(out, p->name);
    ptc_str_printf(out, ": %s[", ptc_dtype_name(p->dtype));
    for (int32_t d = 0; d < p->num_dims; ++d)
      ptc_str_printf(out, "%s%" PRId64, d ? ", " : "", p->extents[d]);
    ptc_str_append(out, "]\n");
  }
}

// Parameters that may share bytes with another are not restrict.
static bool shares(const ptc_kernel_t *kernel, int32_t param) {
  for (int32_t i = 0; i < kernel->num_params; ++i) {
    const ptc_kparam_t *p = &kernel->params[i];
    if (p->mode == PTC_KPARAM_OUT && p->in_place >= 0 && (i == param || p->in_place == param))
      return true;
  }
  return false;
}

void ptc_c_params(ptc_str_t *out, const ptc_kernel_t *kernel, int32_t indent) {
  ptc_arena_t arena = {0};
  for (int32_t i = 0; i < kernel->num_params; ++i) {
    const ptc_kparam_t *p = &kernel->params[i];
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "%s%s *%sconst %s = call->params[%d];\n",
                   p->mode == PTC_KPARAM_IN ? "const " : "", ptc_c_storage_type(p->dtype),
                   shares(kernel, i) ? "" : "restrict ", ptc_c_param_name(&arena, kernel, i), i);
  }
  ptc_arena_deinit(&arena);
}

void ptc_c_open(ptc_str_t *out, const ptc_kernel_t *kernel, const char *helpers) {
  ptc_c_comment(out, kernel);
  ptc_c_prelude(out, kernel);
  ptc_str_append(out, helpers);
  ptc_str_printf(out, "void %s(const ptc_kernel_call_t *call, int64_t phase, int64_t tile);\n",
                 kernel->name);
  ptc_str_printf(out, "void %s(const ptc_kernel_call_t *call, int64_t phase, int64_t tile) {\n",
                 kernel->name);
  ptc_c_params(out, kernel, 2);
}

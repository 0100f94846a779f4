// Expressions of kernels as C: values one statement each, addresses as affine sums, stores.
#include "codegen/c_expr.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "codegen/codegen.h"

const char *ptc_c_type(ptc_dtype_t dtype) {
  switch (dtype) {
    case PTC_BOOL: return "bool";
    case PTC_I32: return "int32_t";
    case PTC_I64: return "int64_t";
    case PTC_F64: return "double";
    default: return "float";
  }
}

const char *ptc_c_storage_type(ptc_dtype_t dtype) {
  switch (dtype) {
    case PTC_BOOL: return "uint8_t";
    case PTC_F16:
    case PTC_BF16: return "uint16_t";
    default: return ptc_c_type(dtype);
  }
}

const char *ptc_c_from_storage(ptc_arena_t *arena, ptc_dtype_t dtype, const char *text) {
  if (dtype == PTC_BOOL) return ptc_arena_printf(arena, "%s != 0", text);
  if (dtype == PTC_F16 || dtype == PTC_BF16)
    return ptc_arena_printf(arena, "ptc_from_%s(%s)", ptc_dtype_name(dtype), text);
  return text;
}

const char *ptc_c_to_storage(ptc_arena_t *arena, ptc_dtype_t dtype, const char *text) {
  if (dtype == PTC_F16 || dtype == PTC_BF16)
    return ptc_arena_printf(arena, "ptc_to_%s(%s)", ptc_dtype_name(dtype), text);
  return text;
}

const char *ptc_c_round(ptc_arena_t *arena, ptc_dtype_t dtype, const char *text) {
  if (dtype == PTC_F16 || dtype == PTC_BF16)
    return ptc_arena_printf(arena, "ptc_round_%s(%s)", ptc_dtype_name(dtype), text);
  return text;
}

// --- scopes

void ptc_c_scope_init(ptc_c_scope_t *scope, ptc_arena_t *arena, const ptc_kernel_t *kernel) {
  *scope = (ptc_c_scope_t){.kernel = kernel, .arena = arena};
  const size_t count = (size_t)kernel->num_exprs + 1;
  scope->value_text = PTC_ARENA_ARRAY(arena, const char *, count);
  scope->hash_text = PTC_ARENA_ARRAY(arena, const char *, count);
  scope->word_array = PTC_ARENA_ARRAY(arena, const char *, count);
  scope->word_place = PTC_ARENA_ARRAY(arena, const char *, count);
  scope->normal_array = PTC_ARENA_ARRAY(arena, const char *, count);
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    scope->index_text[d] = ptc_c_index_name(arena, kernel, d);
}

// Values, then hashes.
const char **ptc_c_scope_save(const ptc_c_scope_t *scope) {
  const size_t count = (size_t)scope->kernel->num_exprs;
  const char **saved = PTC_ARENA_ARRAY(scope->arena, const char *, 2 * count + 1);
  for (size_t i = 0; i < count; ++i) {
    saved[i] = scope->value_text[i];
    saved[count + i] = scope->hash_text ? scope->hash_text[i] : NULL;
  }
  return saved;
}

void ptc_c_scope_restore(ptc_c_scope_t *scope, const char *const *saved) {
  const size_t count = (size_t)scope->kernel->num_exprs;
  for (size_t i = 0; i < count; ++i) {
    scope->value_text[i] = saved[i];
    if (scope->hash_text) scope->hash_text[i] = saved[count + i];
  }
}

// --- values

static const char *constant_text(ptc_arena_t *arena, ptc_dtype_t dtype, double value) {
  if (dtype == PTC_BOOL) return value != 0 ? "true" : "false";
  if (dtype == PTC_I32 && value == INT32_MIN) return "INT32_MIN";
  if (dtype == PTC_I64 && value <= -0x1p63) return "INT64_MIN";
  if (dtype == PTC_I64) return ptc_arena_printf(arena, "INT64_C(%" PRId64 ")", (int64_t)value);
  if (dtype == PTC_I32) return ptc_arena_printf(arena, "%" PRId32, (int32_t)value);
  value = ptc_dtype_round(dtype, value);
  const bool wide = dtype == PTC_F64;
  const char *cast = wide ? "(double)" : "";
  if (isnan(value)) return ptc_arena_printf(arena, "%sNAN", cast);
  if (isinf(value)) return ptc_arena_printf(arena, "%s%sINFINITY", cast, value < 0 ? "-" : "");
  const double whole = nearbyint(value);
  if (whole == value && fabs(value) < 1e6)
    return ptc_arena_printf(arena, "%.1f%s", value, wide ? "" : "f");
  const char *digits = ptc_arena_printf(arena, wide ? "%.17g" : "%.9g", value);
  const char *point = strpbrk(digits, ".e") ? "" : ".0";
  return ptc_arena_printf(arena, "%s%s%s", digits, point, wide ? "" : "f");
}

static void need(ptc_c_scope_t *scope, const ptc_c_affine_t *form, int32_t indent, ptc_str_t *out) {
  for (int32_t i = 0; i < form->num_terms; ++i) ptc_c_eval(scope, form->terms[i], indent, out);
}

// Makes the C bool okN: whether every index of a checked load that data give lies inside its dim.
static void check_index(ptc_c_scope_t *scope, ptc_kx_t expr, const char *guard, int32_t indent,
                        ptc_str_t *out) {
  const ptc_kexpr_t *e = &scope->kernel->exprs[expr];
  const ptc_kparam_t *param = &scope->kernel->params[e->param];
  ptc_str_t test = {0};
  ptc_str_append(&test, "");
  for (int32_t i = 0; i < e->num_args; ++i) {
    ptc_c_affine_t form = ptc_c_affine_of(scope->kernel, e->args[i]);
    if (!form.num_terms) continue;
    ptc_str_printf(&test, "%s(uint64_t)(%s) < UINT64_C(%" PRId64 ")", test.len ? " && " : "",
                   ptc_c_affine_text(scope, &form), param->extents[i]);
  }
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "const bool ok%d = %s;\n", expr, test.len ? test.data : "true");
  ptc_c_indent(out, indent);
  const char *bad = guard ? ptc_arena_printf(scope->arena, "%s && !ok%d", guard, expr)
                          : ptc_arena_printf(scope->arena, "!ok%d", expr);
  if (scope->fault_text)
    ptc_str_printf(out, "%s |= %s;\n", scope->fault_text, bad);
  else
    ptc_str_printf(out, "if (%s) ptc_fault(call);\n", bad);
  ptc_str_deinit(&test);
}

static const char *load_text(ptc_c_scope_t *scope, ptc_kx_t expr, int32_t indent, ptc_str_t *out) {
  const ptc_kernel_t *kernel = scope->kernel;
  const ptc_kexpr_t *e = &kernel->exprs[expr];
  ptc_arena_t *arena = scope->arena;
  const char *guard = NULL;
  if (e->guard != PTC_KX_NONE) {
    ptc_c_eval(scope, e->guard, indent, out);
    guard = scope->value_text[e->guard];
  }
  ptc_c_affine_t address = ptc_c_address(kernel, e->param, e->args);
  need(scope, &address, indent, out);
  if (e->checked) {
    for (int32_t i = 0; i < e->num_args; ++i) {
      ptc_c_affine_t form = ptc_c_affine_of(kernel, e->args[i]);
      need(scope, &form, indent, out);
    }
    check_index(scope, expr, guard, indent, out);
    guard = guard ? ptc_arena_printf(arena, "%s && ok%d", guard, expr)
                  : ptc_arena_printf(arena, "ok%d", expr);
  }
  const char *element = ptc_arena_printf(arena, "%s[%s]", ptc_c_param_name(arena, kernel, e->param),
                                         ptc_c_affine_text(scope, &address));
  element = ptc_c_from_storage(arena, kernel->params[e->param].dtype, element);
  if (!guard) return element;
  return ptc_arena_printf(arena, "%s ? %s : %s", guard, element,
                          constant_text(arena, e->dtype, e->value));
}

const char *ptc_c_hash(ptc_c_scope_t *scope, ptc_kx_t expr, int32_t indent, ptc_str_t *out) {
  if (scope->hash_text && scope->hash_text[expr]) return scope->hash_text[expr];
  const ptc_kexpr_t *e = &scope->kernel->exprs[expr];
  ptc_str_t turns = {0};
  ptc_str_append(&turns, "");
  for (int32_t i = 3; i < e->num_args; ++i) {
    ptc_c_eval(scope, e->args[i], indent, out);
    ptc_str_printf(&turns, "%s%s", i > 3 ? ", " : "", scope->value_text[e->args[i]]);
  }
  // An array of its own: CUDA C++ has no compound literals.
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "const int64_t path%d[] = {%s};\n", expr, turns.len ? turns.data : "0");
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "const uint32_t hash%d = ptc_path_hash(", expr);
  ptc_str_append_quoted(out, e->path);
  ptc_str_printf(out, ", path%d, %d);\n", expr, e->num_args - 3);
  ptc_str_deinit(&turns);
  const char *name = ptc_arena_printf(scope->arena, "hash%d", expr);
  if (scope->hash_text) scope->hash_text[expr] = name;
  return name;
}

static const char *random_text(ptc_c_scope_t *scope, ptc_kx_t expr, int32_t indent,
                               ptc_str_t *out) {
  const ptc_kexpr_t *e = &scope->kernel->exprs[expr];
  ptc_arena_t *arena = scope->arena;
  const bool normal = strcmp(e->dist, "normal") == 0;
  const char *word, *even = NULL, *odd = NULL, *is_odd = NULL;
  if (scope->word_array && scope->word_array[expr]) {
    const char *words = scope->word_array[expr], *place = scope->word_place[expr];
    word = ptc_arena_printf(arena, "%s[%s]", words, place);
    even = ptc_arena_printf(arena, "%s[(%s) & ~1]", words, place);
    odd = ptc_arena_printf(arena, "%s[(%s) | 1]", words, place);
    is_odd = ptc_arena_printf(arena, "((%s) & 1)", place);
  } else {
    const char *hash = ptc_c_hash(scope, expr, indent, out);
    ptc_c_affine_t place = ptc_c_affine_of(scope->kernel, e->args[0]);
    need(scope, &place, indent, out);
    for (int32_t i = 1; i < 3; ++i) ptc_c_eval(scope, e->args[i], indent, out);
    const char *element = ptc_arena_printf(arena, "(%s)", ptc_c_affine_text(scope, &place));
    const char *form = "ptc_philox(%s, (uint64_t)%s%s, %s, %s)";
    const char *seed = scope->value_text[e->args[1]], *step = scope->value_text[e->args[2]];
    seed = ptc_arena_printf(arena, "(uint64_t)%s", seed);
    step = ptc_arena_printf(arena, "(uint32_t)%s", step);
    word = ptc_arena_printf(arena, form, seed, element, "", step, hash);
    even = ptc_arena_printf(arena, form, seed, element, " & ~UINT64_C(1)", step, hash);
    odd = ptc_arena_printf(arena, form, seed, element, " | 1", step, hash);
    is_odd = ptc_arena_printf(arena, "((uint64_t)%s & 1)", element);
  }
  if (strcmp(e->dist, "bits01") == 0)
    return ptc_c_round(arena, e->dtype, ptc_arena_printf(arena, "ptc_bits01(%s)", word));
  const char *value;
  if (normal && scope->normal_array && scope->normal_array[expr])
    value = ptc_arena_printf(arena, "%.17g + %.17g * %s[%s]", e->b, e->a, scope->normal_array[expr],
                             scope->word_place[expr]);
  else if (normal)
    value = ptc_arena_printf(arena, "%.17g + %.17g * ptc_normal(%s, %s, %s)", e->b, e->a, even, odd,
                             is_odd);
  else if (strcmp(e->dist, "truncated_normal") == 0)
    value = ptc_arena_printf(arena, "%.17g + %.17g * ptc_truncated_normal(%s)", e->b, e->a, word);
  else
    value = ptc_arena_printf(arena, "%.17g + ptc_uniform(%s) * %.17g", e->a, word, e->b - e->a);
  if (e->dtype == PTC_I32 || e->dtype == PTC_I64)
    return ptc_arena_printf(arena, "ptc_%s_of_double(floor(%s))", ptc_dtype_name(e->dtype), value);
  if (e->dtype == PTC_F64) return value;
  return ptc_c_round(arena, e->dtype, ptc_arena_printf(arena, "(float)(%s)", value));
}

static const char *op_text(ptc_c_scope_t *scope, ptc_kx_t expr, int32_t indent, ptc_str_t *out) {
  const ptc_kexpr_t *e = &scope->kernel->exprs[expr];
  const char *args[4] = {NULL};
  for (int32_t i = 0; i < e->num_args && i < 4; ++i) {
    ptc_c_eval(scope, e->args[i], indent, out);
    args[i] = scope->value_text[e->args[i]];
  }
  return ptc_c_op_text(scope->arena, scope->kernel, expr, args);
}

void ptc_c_eval(ptc_c_scope_t *scope, ptc_kx_t root, int32_t indent, ptc_str_t *out) {
  if (scope->value_text[root]) return;
  const ptc_kexpr_t *e = &scope->kernel->exprs[root];
  ptc_arena_t *arena = scope->arena;
  const char *text = NULL;
  switch (e->kind) {
    case PTC_KX_CONST:
      text = constant_text(arena, e->dtype, e->value);
      scope->value_text[root] = text[0] == '-' ? ptc_arena_printf(arena, "(%s)", text) : text;
      return;
    case PTC_KX_INDEX:
      scope->value_text[root] = ptc_arena_printf(arena, "(int32_t)(%s)", scope->index_text[e->dim]);
      return;
    case PTC_KX_TURN:
      scope->value_text[root] = ptc_arena_printf(arena, "(int32_t)call->turns[%d]", e->level);
      return;
    case PTC_KX_HOLE: scope->value_text[root] = scope->hole_text[e->hole]; return;
    case PTC_KX_REDUCE: return;  // the caller's duty
    case PTC_KX_LOAD: text = load_text(scope, root, indent, out); break;
    case PTC_KX_RANDOM: text = random_text(scope, root, indent, out); break;
    case PTC_KX_OP: text = op_text(scope, root, indent, out); break;
  }
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "const %s v%d = %s;\n", ptc_c_type(e->dtype), root, text);
  scope->value_text[root] = ptc_arena_printf(arena, "v%d", root);
}

// One call of ptc_c_hoist. Expressions share operands, so each is looked at once.
typedef struct hoist_s {
  ptc_c_scope_t *scope;
  uint32_t inner;
  int32_t indent;
  ptc_str_t *out;
  int8_t *ready;  // 0 unknown, 1 yes, -1 no
  bool *visited;
} hoist_t;

// Whether |expr| can be computed now: no reduction or hole is missing.
static bool is_ready(hoist_t *h, ptc_kx_t expr) {
  const ptc_c_scope_t *scope = h->scope;
  if (scope->value_text[expr]) return true;
  if (h->ready[expr]) return h->ready[expr] > 0;
  const ptc_kexpr_t *e = &scope->kernel->exprs[expr];
  bool ready = e->kind != PTC_KX_REDUCE;
  if (e->kind == PTC_KX_HOLE) ready = scope->hole_text[e->hole] != NULL;
  if (e->kind == PTC_KX_LOAD && e->guard != PTC_KX_NONE) ready = is_ready(h, e->guard);
  for (int32_t i = 0; ready && i < e->num_args; ++i) ready = is_ready(h, e->args[i]);
  h->ready[expr] = ready ? 1 : -1;
  return ready;
}

static void hoist(hoist_t *h, ptc_kx_t root);

static void hoist_terms(hoist_t *h, const ptc_c_affine_t *form) {
  for (int32_t i = 0; i < form->num_terms; ++i) hoist(h, form->terms[i]);
}

static void hoist_random(hoist_t *h, ptc_kx_t root) {
  const ptc_kexpr_t *e = &h->scope->kernel->exprs[root];
  ptc_c_affine_t place = ptc_c_affine_of(h->scope->kernel, e->args[0]);
  hoist_terms(h, &place);
  for (int32_t i = 3; i < e->num_args; ++i)
    if (h->scope->kernel->exprs[e->args[i]].varies & h->inner) return;
  ptc_c_hash(h->scope, root, h->indent, h->out);
}

static void hoist(hoist_t *h, ptc_kx_t root) {
  ptc_c_scope_t *scope = h->scope;
  const ptc_kexpr_t *e = &scope->kernel->exprs[root];
  if (scope->value_text[root] || e->kind == PTC_KX_CONST || e->kind == PTC_KX_INDEX) return;
  if (h->visited[root]) return;
  h->visited[root] = true;
  if (!(e->varies & h->inner) && is_ready(h, root)) {
    ptc_c_eval(scope, root, h->indent, h->out);
    return;
  }
  if (e->kind == PTC_KX_REDUCE) return;
  if (e->kind == PTC_KX_LOAD) {
    if (e->guard != PTC_KX_NONE) hoist(h, e->guard);
    ptc_c_affine_t address = ptc_c_address(scope->kernel, e->param, e->args);
    hoist_terms(h, &address);
    return;
  }
  const bool random = e->kind == PTC_KX_RANDOM;
  for (int32_t i = random; i < e->num_args; ++i) hoist(h, e->args[i]);
  if (random) hoist_random(h, root);
}

void ptc_c_hoist(ptc_c_scope_t *scope, ptc_kx_t root, uint32_t inner, int32_t indent,
                 ptc_str_t *out) {
  if (scope->value_text[root]) return;
  hoist_t h = {.scope = scope, .inner = inner, .indent = indent, .out = out};
  h.ready = PTC_ARENA_ARRAY(scope->arena, int8_t, scope->kernel->num_exprs);
  h.visited = PTC_ARENA_ARRAY(scope->arena, bool, scope->kernel->num_exprs);
  hoist(&h, root);
}

void ptc_c_store(ptc_c_scope_t *scope, const ptc_kstore_t *store, int32_t indent, ptc_str_t *out) {
  const ptc_kernel_t *kernel = scope->kernel;
  const ptc_dtype_t dtype = kernel->params[store->param].dtype;
  ptc_c_affine_t address = ptc_c_address(kernel, store->param, store->index);
  need(scope, &address, indent, out);
  ptc_c_eval(scope, store->value, indent, out);
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "%s[%s] = %s;\n", ptc_c_param_name(scope->arena, kernel, store->param),
                 ptc_c_affine_text(scope, &address),
                 ptc_c_to_storage(scope->arena, dtype, scope->value_text[store->value]));
}

// Names, compile-time numbers and dims of the lowering.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/lower_impl.h"
#include "ir/base/vec.h"

const char *lower_intern(lower_t *L, const char *text) {
  return ptc_module_intern(L->module, text);
}

void scope_push(lower_t *L, scope_t *scope, bool transparent) {
  *scope = (scope_t){.parent = L->scope, .transparent = transparent};
  L->scope = scope;
}

void scope_pop(lower_t *L) { L->scope = L->scope->parent; }

symbol_t *scope_find_here(scope_t *scope, const char *name) {
  for (symbol_t *symbol = scope->symbols; symbol; symbol = symbol->next)
    if (symbol->name == name) return symbol;
  return NULL;
}

symbol_t *scope_find(lower_t *L, const char *name) {
  name = lower_intern(L, name);
  for (scope_t *scope = L->scope; scope; scope = scope->parent) {
    symbol_t *symbol = scope_find_here(scope, name);
    if (symbol) return symbol;
  }
  return NULL;
}

symbol_t *scope_define(lower_t *L, const char *name, ptc_loc_t loc, uint32_t kind) {
  name = lower_intern(L, name);
  symbol_t *old = scope_find_here(L->scope, name);
  if (old && old->kinds == SYM_NUMBER && kind == SYM_DIM) return old;  // `dim d` of parameter d
  if (old && !(old->kinds & SYM_ERROR)) {
    LOWER_ERROR(L, loc, "duplicate-name", "\"%s\" is already declared here; choose another name",
                name);
    ptc_note(L->diag, old->loc, "the first declaration of \"%s\"", name);
  }
  bool is_batch = L->scope->parent && strcmp(name, "batch") == 0;
  if (is_batch || strcmp(name, "inf") == 0 || strcmp(name, "pi") == 0)
    LOWER_ERROR(L, loc, "reserved-name", "\"%s\" is a %s of the language; choose another name",
                name, is_batch ? "number" : "constant");
  symbol_t *symbol = PTC_ARENA_NEW(&L->module->arena, symbol_t);
  *symbol = (symbol_t){.next = L->scope->symbols, .name = name, .loc = loc, .kinds = kind};
  L->scope->symbols = symbol;
  return symbol;
}

void scope_unknown(lower_t *L, const char *name, ptc_loc_t loc, const char *what) {
  PTC_VEC(const char *) names = {0};
  for (scope_t *scope = L->scope; scope; scope = scope->parent)
    for (symbol_t *symbol = scope->symbols; symbol; symbol = symbol->next)
      PTC_VEC_PUSH(&names, symbol->name);
  const char *near = ptc_nearest_name(name, names.data, names.len);
  PTC_VEC_FREE(&names);
  if (!near && strcmp(what, "name") == 0) near = lower_nearest_builtin(name);
  if (near)
    LOWER_ERROR(L, loc, "unknown-name", "unknown %s \"%s\"; did you mean \"%s\"?", what, name,
                near);
  else
    LOWER_ERROR(L, loc, "unknown-name", "unknown %s \"%s\"; declare it before its use", what, name);
}

bool fdim_from_number(lower_t *L, const char *name, ptc_number_t extent, ptc_loc_t loc,
                      fdim_t *out_dim) {
  const char *expr = ptc_number_key(&L->numbers, extent);
  if (!ptc_number_is_int(extent)) {
    if (extent.exact)
      LOWER_ERROR(L, loc, "extent-not-integer",
                  "extent of dim \"%s\" is %" PRId64 "/%" PRId64 " (%s), which is no integer", name,
                  extent.num, extent.den, expr);
    else
      LOWER_ERROR(L, loc, "extent-not-integer",
                  "extent of dim \"%s\" is %g (%s), which is no exact integer", name, extent.value,
                  expr);
    return false;
  }
  if (extent.num < 1 || extent.num > ((int64_t)1 << 40)) {
    LOWER_ERROR(L, loc, "extent-range",
                "extent of dim \"%s\" is %" PRId64 "; it must lie between 1 and 2^40", name,
                extent.num);
    return false;
  }
  ptc_number_t *number = PTC_ARENA_NEW(&L->module->arena, ptc_number_t);
  *number = extent;
  *out_dim =
      (fdim_t){.name = lower_intern(L, name), .extent = extent.num, .key = expr, .number = number};
  return true;
}

// Evaluates a dim's extent on first use; dims may refer to dims declared later.
static bool resolve_dim(lower_t *L, symbol_t *symbol) {
  if (!symbol->pending) return !(symbol->kinds & SYM_ERROR);
  if (symbol->resolving) {
    LOWER_ERROR(L, symbol->loc, "dim-cycle", "extent of dim \"%s\" depends on itself",
                symbol->name);
    symbol->kinds |= SYM_ERROR;
    return false;
  }
  symbol->resolving = true;
  ptc_number_t extent;
  bool ok = lower_static(L, symbol->pending, &extent) &&
            fdim_from_number(L, symbol->name, extent, symbol->loc, &symbol->dim);
  symbol->resolving = false;
  symbol->pending = NULL;
  if (ok)
    symbol->number = extent;
  else
    symbol->kinds |= SYM_ERROR;
  return ok;
}

bool scope_try_dim(lower_t *L, const char *name, fdim_t *out_dim) {
  symbol_t *symbol = scope_find(L, name);
  if (!symbol || !(symbol->kinds & SYM_DIM) || (symbol->kinds & SYM_ERROR)) return false;
  if (!resolve_dim(L, symbol)) return false;
  *out_dim = symbol->dim;
  return true;
}

bool scope_dim(lower_t *L, const char *name, ptc_loc_t loc, fdim_t *out_dim) {
  symbol_t *symbol = scope_find(L, name);
  if (symbol && (symbol->kinds & SYM_ERROR)) return false;
  if (!symbol) {
    scope_unknown(L, name, loc, "dim");
    return false;
  }
  if (!(symbol->kinds & SYM_DIM)) {
    LOWER_ERROR(L, loc, "not-a-dim",
                "\"%s\" is not a dim here; declare it with `dim %s` or `dim %s = ...`", name, name,
                name);
    return false;
  }
  if (!resolve_dim(L, symbol)) return false;
  *out_dim = symbol->dim;
  return true;
}

// `dim d` names the parameter d of an enclosing scope as a dim of its own.
static void declare_dim(lower_t *L, const ptc_formal_t *decl) {
  symbol_t *outer = decl->value ? NULL : scope_find(L, decl->name);
  bool is_number = outer && (outer->kinds & SYM_NUMBER);
  ptc_number_t number = is_number ? outer->number : (ptc_number_t){0};
  bool outer_error = outer && (outer->kinds & SYM_ERROR);
  if (outer && !is_number && !outer_error && outer == scope_find_here(L->scope, outer->name)) {
    LOWER_ERROR(L, decl->loc, "dim-without-extent",
                "dim \"%s\" has no extent: \"%s\" is no number; write `dim %s = ...`", decl->name,
                decl->name, decl->name);
    return;
  }
  symbol_t *symbol = scope_define(L, decl->name, decl->loc, SYM_DIM);
  symbol->kinds |= SYM_DIM;
  if (decl->value) {
    symbol->pending = decl->value;
    return;
  }
  if (outer_error) {
    symbol->kinds |= SYM_ERROR;
  } else if (!is_number) {
    LOWER_ERROR(L, decl->loc, "dim-without-extent",
                "dim \"%s\" has no extent: no parameter has that name; write `dim %s = ...`",
                decl->name, decl->name);
    symbol->kinds |= SYM_ERROR;
  } else if (fdim_from_number(L, decl->name, number, decl->loc, &symbol->dim)) {
    symbol->number = number;
  } else {
    symbol->kinds |= SYM_ERROR;
  }
}

void scope_hoist(lower_t *L, const ptc_stmts_t *stmts) {
  for (int32_t i = 0; i < stmts->count; i++) {
    const ptc_stmt_t *stmt = stmts->items[i];
    if (stmt->kind == PTC_STMT_LAYER) {
      symbol_t *symbol = scope_define(L, stmt->layer->name, stmt->layer->loc, SYM_LAYER);
      symbol->layer = stmt->layer;
      symbol->layer_instance = L->instance;
    } else if (stmt->kind == PTC_STMT_DIM) {
      for (int32_t d = 0; d < stmt->decls.count; d++) declare_dim(L, &stmt->decls.items[d]);
    }
  }
  for (int32_t i = 0; i < stmts->count; i++) {
    const ptc_stmt_t *stmt = stmts->items[i];
    if (stmt->kind != PTC_STMT_DIM) continue;
    for (int32_t d = 0; d < stmt->decls.count; d++) {
      symbol_t *symbol = scope_find_here(L->scope, lower_intern(L, stmt->decls.items[d].name));
      if (symbol) (void)resolve_dim(L, symbol);
    }
  }
}

#include "frontend/lower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/lower_impl.h"

enum { DEFAULT_BATCH = 8 };

// --- losses

loss_t *lower_find_loss(lower_t *L, const char *name) {
  for (int32_t i = 0; i < L->num_losses; i++)
    if (strcmp(L->losses[i].name, name) == 0) return &L->losses[i];
  return NULL;
}

loss_t *lower_add_loss(lower_t *L, const char *name, const char *role, const ptc_stmt_t *stmt) {
  if (L->num_losses == MAX_LOSSES) {
    LOWER_ERROR(L, stmt->loc, "too-many-losses", "a model has at most %d losses and metrics",
                MAX_LOSSES);
    return NULL;
  }
  loss_t *loss = &L->losses[L->num_losses++];
  *loss = (loss_t){
      .name = lower_intern(L, name), .role = lower_intern(L, role), .stmt = stmt, .loc = stmt->loc};
  return loss;
}

static void lower_loss(lower_t *L, const ptc_stmt_t *stmt) {
  const char *name = stmt->name ? stmt->name : "loss";
  const char *what = stmt->kind == PTC_STMT_LOSS ? "loss" : "metric";
  val_t val = lower_expr(L, stmt->value);
  if (val.kind == VAL_ERROR) return;
  if (val.kind == VAL_NUMBER || val.kind == VAL_BOOL) val = val_as_tensor(L, val, PTC_F32);
  if (val.kind != VAL_TENSOR || val.num_dims) {
    LOWER_ERROR(L, stmt->loc, "loss-not-scalar",
                "a %s is one number, but this has the dims %s; reduce it: mean[...](...) or "
                "sum[...](...)",
                what, val_describe(L, &val));
    return;
  }
  val = val_cast(L, val, PTC_F32);
  loss_t *loss = lower_find_loss(L, name);
  for (int32_t i = 0; i < L->num_outputs; i++) {
    if (strcmp(L->output_names[i], name) != 0) continue;
    LOWER_ERROR(L, stmt->loc, "duplicate-output",
                "another result of the model is called \"%s\" already", name);
    return;
  }
  if (loss && loss->stmt != stmt) {
    LOWER_ERROR(L, stmt->loc, "duplicate-loss", "a second %s is called \"%s\"; name it", what,
                name);
    ptc_note(L->diag, loss->loc, "the first one");
    return;
  }
  // In a repeat, or in a layer that is called again, it adds up.
  if (loss && loss->ir) {
    L->b.loc = stmt->loc;
    loss->ir = ptc_build_binary(&L->b, PTC_OP_ADD, loss->ir, val.ir);
    return;
  }
  if (!loss) loss = lower_add_loss(L, name, what, stmt);
  if (loss) loss->ir = val.ir;
}

static void lower_output(lower_t *L, const ptc_stmt_t *stmt) {
  for (int32_t i = 0; i < stmt->decls.count; i++) {
    const ptc_formal_t *decl = &stmt->decls.items[i];
    symbol_t *symbol = scope_find(L, decl->name);
    if (!symbol) {
      scope_unknown(L, decl->name, decl->loc, "variable");
      continue;
    }
    if (symbol->kinds & SYM_ERROR) continue;
    if (!(symbol->kinds & SYM_VALUE) || symbol->value->kind != VAL_TENSOR) {
      if (!(symbol->kinds & SYM_VALUE) || symbol->value->kind != VAL_ERROR)
        LOWER_ERROR(L, decl->loc, "output-not-tensor", "output \"%s\" is no tensor", decl->name);
      continue;
    }
    if (L->turn || L->instance->parent) {
      LOWER_ERROR(L, decl->loc, "output-place", "output stands in the model's body, not in a %s",
                  L->turn ? "repeat" : "layer");
      continue;
    }
    if (L->num_outputs == MAX_LOSSES) {
      LOWER_ERROR(L, decl->loc, "too-many-losses", "a model has at most %d outputs", MAX_LOSSES);
      return;
    }
    bool taken = lower_find_loss(L, symbol->name) != NULL;
    for (int32_t k = 0; k < L->num_outputs; k++) taken |= L->output_names[k] == symbol->name;
    if (taken) {
      LOWER_ERROR(L, decl->loc, "duplicate-output",
                  "another result of the model is called \"%s\" already", symbol->name);
      continue;
    }
    L->output_names[L->num_outputs] = symbol->name;
    L->outputs[L->num_outputs++] = symbol->value->ir;
  }
}

// --- inputs

static bool read_input_init(lower_t *L, const ptc_stmt_t *stmt, double *lo, double *hi) {
  const ptc_call_t *init = &stmt->init;
  ptc_number_t a, b;
  if (strcmp(init->name, "uniform") != 0 && strcmp(init->name, "normal") != 0) {
    LOWER_ERROR(L, init->loc, "unknown-init",
                "an input is drawn from uniform(lo, hi) or normal(std), not from \"%s\"",
                init->name);
    return false;
  }
  bool uniform = init->name[0] == 'u';
  if (init->num_args < (uniform ? 2 : 1) || init->num_args > 2) {
    LOWER_ERROR(L, init->loc, "argument-count", "%s takes %s", init->name,
                uniform ? "two numbers" : "one or two numbers");
    return false;
  }
  if (!lower_static(L, init->args[0], &a)) return false;
  *lo = a.value;
  *hi = 0;
  if (init->num_args == 1) return true;
  if (!lower_static(L, init->args[1], &b)) return false;
  *hi = b.value;
  return true;
}

static ptc_value_t *random_input(lower_t *L, const ptc_stmt_t *stmt, const ptc_formal_t *decl,
                                 const ptc_type_t *type, double a, double b) {
  ptc_value_t *operands[2] = {lower_state(L, "seed"), lower_state(L, "step")};
  ptc_op_t *op = ptc_op_new(L->module, PTC_OP_RANDOM, decl->loc, operands, 2, 1);
  ptc_attrs_set_string(L->module, &op->attrs, "dist", stmt->init.name);
  ptc_attrs_set_float(L->module, &op->attrs, "a", a);
  ptc_attrs_set_float(L->module, &op->attrs, "b", b);
  ptc_attrs_set_string(L->module, &op->attrs, "path", decl->name);
  op->results[0]->type = type;
  ptc_op_insert(op, L->b.block, L->b.before);
  return op->results[0];
}

static ptc_global_t *input_global(lower_t *L, const ptc_stmt_t *stmt, const ptc_formal_t *decl,
                                  const ptc_type_t *type) {
  const char *path = lower_intern(L, decl->name);
  ptc_global_t *global = ptc_module_find_global(L->module, path);
  if (global) {
    if (global->kind == PTC_GLOBAL_INPUT) return global;
    LOWER_ERROR(L, decl->loc, "duplicate-name", "input \"%s\" has the name of a %s", decl->name,
                ptc_global_kind_name(global->kind));
    return NULL;
  }
  global = ptc_module_add_global(L->module, PTC_GLOBAL_INPUT, path, type, decl->loc);
  ptc_attrs_set_string(L->module, &global->attrs, "source",
                       stmt->source ? stmt->source : decl->name);
  ptc_attrs_set_int(L->module, &global->attrs, "offset", stmt->offset ? atoll(stmt->offset) : 0);
  return global;
}

// Which dim counts the step's sequences: what micro-batches and data parallelism split.
static void note_batch_dim(lower_t *L, const val_t *dims) {
  for (int32_t i = 0; i < dims->num_dims; i++)
    if (strcmp(dims->dims[i].key, "batch") == 0 &&
        !ptc_attrs_find(&L->module->config, lower_intern(L, "batch_dim")))
      ptc_attrs_set_string(L->module, &L->module->config, "batch_dim", dims->dims[i].name);
}

static void lower_input(lower_t *L, const ptc_stmt_t *stmt) {
  ptc_dtype_t dtype = PTC_F32;
  bool ok = true;
  double a = 0, b = 0;
  if (L->turn || L->instance->parent) {
    LOWER_ERROR(L, stmt->loc, "input-place", "input stands in the model's body, not in a %s",
                L->turn ? "repeat" : "layer");
    ok = false;
  }
  if (stmt->type.name && strcmp(stmt->type.name, "int") == 0) {
    dtype = PTC_I32;
  } else if (stmt->type.name && strcmp(stmt->type.name, "f32") != 0) {
    LOWER_ERROR(L, stmt->type.loc, "unknown-type", "unknown type \"%s\"; an input is int or f32",
                stmt->type.name);
    ok = false;
  }
  if (stmt->offset && (strpbrk(stmt->offset, ".eE") || strlen(stmt->offset) > 9)) {
    LOWER_ERROR(L, stmt->source_loc, "input-offset", "the offset of a source is a whole number");
    ok = false;
  }
  if (stmt->init.name && stmt->source) {
    LOWER_ERROR(L, stmt->source_loc, "input-source",
                "an input is read from a source or drawn, not both");
    ok = false;
  }
  if (ok && stmt->init.name) ok = read_input_init(L, stmt, &a, &b);
  for (int32_t i = 0; i < stmt->decls.count; i++) {
    const ptc_formal_t *decl = &stmt->decls.items[i];
    val_t like = {.num_dims = decl->num_dims};
    bool dims_ok = decl->num_dims <= PTC_MAX_DIMS;
    if (!dims_ok)
      LOWER_ERROR(L, decl->loc, "too-many-dims", "a tensor has at most %d dims", PTC_MAX_DIMS);
    for (int32_t d = 0; dims_ok && d < decl->num_dims; d++) {
      dims_ok = scope_dim(L, decl->dims[d], decl->dim_locs[d], &like.dims[d]);
      for (int32_t k = 0; dims_ok && k < d; k++) {
        if (like.dims[k].name != like.dims[d].name) continue;
        LOWER_ERROR(L, decl->dim_locs[d], "repeated-dim",
                    "a tensor has a dim once, \"%s\" is twice", decl->dims[d]);
        dims_ok = false;
      }
    }
    if (dims_ok) note_batch_dim(L, &like);
    symbol_t *symbol = scope_define(L, decl->name, decl->loc, SYM_VALUE);
    symbol->value = PTC_ARENA_NEW(&L->module->arena, val_t);
    if (!ok || !dims_ok) {
      symbol->kinds |= SYM_ERROR;
      continue;
    }
    const ptc_type_t *type = val_type(L, &like, dtype);
    if (ptc_type_num_bytes(type) < 0) {
      LOWER_ERROR(L, decl->loc, "extent-range", "input \"%s\" has too many elements", decl->name);
      symbol->kinds |= SYM_ERROR;
      continue;
    }
    L->b.loc = decl->loc;
    ptc_global_t *global = NULL;
    ptc_value_t *value;
    if (stmt->init.name) {
      value = random_input(L, stmt, decl, type, a, b);
    } else {
      global = input_global(L, stmt, decl, type);
      if (!global) {
        symbol->kinds |= SYM_ERROR;
        continue;
      }
      value = ptc_func_get_arg(L->func, global);
    }
    *symbol->value = val_tensor(value, like.dims, like.num_dims, false);
    symbol->value->global = global;
  }
}

// --- assignments

symbol_t *lower_find_variable(lower_t *L, const char *name) {
  name = lower_intern(L, name);
  for (scope_t *scope = L->scope; scope; scope = scope->parent) {
    symbol_t *symbol = scope_find_here(scope, name);
    if (symbol) return symbol->kinds & SYM_VALUE ? symbol : NULL;
    if (!scope->transparent) return NULL;
  }
  return NULL;
}

void lower_assign_symbol(lower_t *L, const char *name, ptc_loc_t loc, val_t val) {
  symbol_t *symbol = lower_find_variable(L, name);
  if (!symbol) symbol = scope_define(L, name, loc, SYM_VALUE);
  val_t *stored = PTC_ARENA_NEW(&L->module->arena, val_t);
  *stored = val;
  if (val.kind == VAL_TENSOR) stored->bracketed = false;
  symbol->value = stored;
  if (val.kind == VAL_ERROR)
    symbol->kinds |= SYM_ERROR;
  else
    symbol->kinds &= ~(uint32_t)SYM_ERROR;
  if (val.kind == VAL_TENSOR && !val.ir->name) val.ir->name = symbol->name;
}

// The dims written on the left; a tuple's dims one by one.
static bool read_target(lower_t *L, const ptc_target_t *target, val_t *out) {
  *out = (val_t){0};
  for (int32_t i = 0; i < target->num_indices; i++) {
    const ptc_expr_t *item = target->indices[i];
    bool tuple = item->kind == PTC_EXPR_TUPLE;
    for (int32_t k = 0; k < (tuple ? item->num_items : 1); k++) {
      const ptc_expr_t *name = tuple ? item->items[k] : item;
      if (name->kind != PTC_EXPR_NAME) {
        LOWER_ERROR(L, name->loc, "target-dim",
                    "the left side of \"%s\" holds names of dims and tuples of them", target->name);
        return false;
      }
      fdim_t dim;
      if (!scope_dim(L, name->text, name->loc, &dim)) return false;
      if (val_find_dim(out, dim.name) >= 0) {
        LOWER_ERROR(L, name->loc, "repeated-dim",
                    "a tensor has a dim once; give the second \"%s\" a name of its own", dim.name);
        return false;
      }
      if (out->num_dims == PTC_MAX_DIMS) {
        LOWER_ERROR(L, name->loc, "too-many-dims", "a tensor has at most %d dims", PTC_MAX_DIMS);
        return false;
      }
      out->dims[out->num_dims++] = dim;
    }
  }
  return true;
}

// y[b, (h, k)]: the tuple's dims become one, called h_k.
static val_t merge_tuples(lower_t *L, const ptc_target_t *target, val_t val) {
  for (int32_t i = 0; i < target->num_indices && val.kind == VAL_TENSOR; i++) {
    const ptc_expr_t *item = target->indices[i];
    if (item->kind != PTC_EXPR_TUPLE) continue;
    ptc_str_t text = {0};
    const char *names[PTC_MAX_DIMS];
    ptc_number_t product = ptc_number_from_int(&L->numbers, 1);
    for (int32_t k = 0; k < item->num_items; k++) {
      names[k] = lower_intern(L, item->items[k]->text);
      ptc_str_printf(&text, "%s%s", k ? "_" : "", names[k]);
      product = ptc_number_binary(&L->numbers, PTC_OPR_MUL, product,
                                  *val.dims[val_find_dim(&val, names[k])].number);
    }
    while (val_find_dim(&val, lower_intern(L, text.data)) >= 0) ptc_str_append(&text, "_");
    fdim_t merged;
    bool ok = fdim_from_number(L, text.data, product, item->loc, &merged);
    ptc_str_deinit(&text);
    if (!ok) return val_error();
    ptc_attrs_t attrs = {0};
    ptc_attrs_set_dims(L->module, &attrs, "dims", names, item->num_items);
    ptc_attrs_set_dim(L->module, &attrs, "into", merged.name);
    ptc_op_t *op = ptc_build_op(&L->b, PTC_OP_MERGE, &val.ir, 1, 1, attrs);
    if (!op) return val_error();
    fdim_t dims[PTC_MAX_DIMS + 1];
    memcpy(dims, val.dims, sizeof(val.dims));
    dims[val.num_dims] = merged;
    val = val_tensor(op->results[0], dims, val.num_dims + 1, true);
  }
  return val;
}

// Checks that |val| has the dims of the left side and puts them in its order.
static val_t fit_target(lower_t *L, const ptc_target_t *target, const val_t *dims, val_t val) {
  if (val.kind == VAL_ERROR) return val;
  if (val.kind == VAL_NUMBER || val.kind == VAL_BOOL) val = val_as_tensor(L, val, PTC_F32);
  if (val.kind != VAL_TENSOR) {
    LOWER_ERROR(L, target->loc, "operand-kind", "\"%s\" is a tensor and gets a list or a word",
                target->name);
    return val_error();
  }
  for (int32_t i = 0; i < val.num_dims; i++) {
    int32_t at = val_find_dim(dims, val.dims[i].name);
    if (at >= 0 && dims->dims[at].key == val.dims[i].key) continue;
    if (at >= 0)
      LOWER_ERROR(L, target->loc, "dim-mismatch",
                  "dim \"%s\" of \"%s\" is %s, but the value's is %s", val.dims[i].name,
                  target->name, dims->dims[at].key, val.dims[i].key);
    else
      LOWER_ERROR(
          L, target->loc, "extra-dim",
          "the value of \"%s\" has dim \"%s\", which the left side lacks; write the operand "
          "that carries it with brackets, or reduce it: sum[%s](...)",
          target->name, val.dims[i].name, val.dims[i].name);
    return val_error();
  }
  L->b.loc = target->loc;
  return merge_tuples(L, target, val_fit(L, val, dims->dims, dims->num_dims));
}

static void assign_one(lower_t *L, const ptc_stmt_t *stmt) {
  const ptc_target_t *target = &stmt->targets[0];
  val_t val, dims;
  if (!target->has_brackets) {
    val = lower_expr(L, stmt->value);
    if (val.kind == VAL_WORD) {
      LOWER_ERROR(L, stmt->value->loc, "operand-kind", "a word is no value");
      val = val_error();
    }
  } else if (read_target(L, target, &dims)) {
    val = lower_contraction(L, stmt->value, dims.dims, dims.num_dims);
    val = fit_target(L, target, &dims, val);
  } else {
    val = val_error();
  }
  lower_assign_symbol(L, target->name, target->loc, val);
}

static void assign_many(lower_t *L, const ptc_stmt_t *stmt) {
  const ptc_expr_t *call = stmt->value;
  while (call->kind == PTC_EXPR_PAREN) call = call->lhs;
  val_t results[PTC_MAX_DIMS];
  int32_t count = 0;
  if (call->kind == PTC_EXPR_CALL) {
    L->b.loc = call->loc;
    (void)lower_call(L, call, stmt->targets, stmt->num_targets, results, &count);
  }
  // A call without results has been reported.
  if (call->kind != PTC_EXPR_CALL)
    LOWER_ERROR(L, call->loc, "result-count", "several variables take the results of one call");
  else if (count && count != stmt->num_targets)
    LOWER_ERROR(L, call->loc, "result-count", "the call has %d result%s for %d variables",
                (int)count, count == 1 ? "" : "s", (int)stmt->num_targets);
  for (int32_t i = 0; i < stmt->num_targets; i++) {
    const ptc_target_t *target = &stmt->targets[i];
    val_t val = count == stmt->num_targets ? results[i] : val_error(), dims;
    if (target->has_brackets && val.kind != VAL_ERROR)
      val = read_target(L, target, &dims) ? fit_target(L, target, &dims, val) : val_error();
    lower_assign_symbol(L, target->name, target->loc, val);
  }
}

static void lower_if(lower_t *L, const ptc_stmt_t *stmt, val_t *returns, int32_t *num_returns) {
  ptc_number_t condition;
  if (!lower_static(L, stmt->value, &condition)) return;
  const ptc_stmts_t *taken = condition.value != 0 ? &stmt->body : &stmt->else_body;
  if (condition.value == 0 && !stmt->has_else) return;
  scope_hoist(L, taken);
  lower_stmts(L, taken, returns, num_returns);
}

static void lower_return(lower_t *L, const ptc_stmt_t *stmt, val_t *returns, int32_t *num_returns) {
  if (!returns || !L->instance->parent) {
    LOWER_ERROR(L, stmt->loc, "return-place", "return ends a layer; it cannot stand in a %s",
                returns ? "model" : "repeat or a model");
    return;
  }
  if (stmt->num_values > PTC_MAX_DIMS) {
    LOWER_ERROR(L, stmt->loc, "result-count", "a layer returns at most %d values", PTC_MAX_DIMS);
    *num_returns = 0;
    return;
  }
  for (int32_t i = 0; i < stmt->num_values; i++) returns[i] = lower_expr(L, stmt->values[i]);
  *num_returns = stmt->num_values;
}

void lower_stmts(lower_t *L, const ptc_stmts_t *stmts, val_t *returns, int32_t *num_returns) {
  for (int32_t i = 0; i < stmts->count; i++) {
    const ptc_stmt_t *stmt = stmts->items[i];
    L->b.loc = stmt->loc;
    if (++L->num_stmts > MAX_STMTS) {
      LOWER_ERROR(
          L, L->func->loc, "too-large",
          "the model grows beyond %d statements once its layers and unequal turns are written "
          "out",
          MAX_STMTS);
      return;
    }
    if (returns && *num_returns >= 0) {
      LOWER_ERROR(L, stmt->loc, "return-place", "nothing may follow return");
      return;
    }
    switch (stmt->kind) {
      case PTC_STMT_ASSIGN:
        if (stmt->num_targets == 1)
          assign_one(L, stmt);
        else
          assign_many(L, stmt);
        break;
      case PTC_STMT_PARAM: lower_param_stmt(L, stmt); break;
      case PTC_STMT_INPUT: lower_input(L, stmt); break;
      case PTC_STMT_LOSS:
      case PTC_STMT_METRIC: lower_loss(L, stmt); break;
      case PTC_STMT_OUTPUT: lower_output(L, stmt); break;
      case PTC_STMT_RETURN: lower_return(L, stmt, returns, num_returns); break;
      case PTC_STMT_REPEAT: lower_repeat(L, stmt); break;
      case PTC_STMT_IF: lower_if(L, stmt, returns, num_returns); break;
      case PTC_STMT_LAYER:
        if (L->instance->parent)
          LOWER_ERROR(L, stmt->loc, "layer-in-layer", "a layer cannot be declared inside a layer");
        break;
      case PTC_STMT_DIM: break;  // hoisted
    }
  }
}

// --- the model

static const char *find_override(lower_t *L, const char *name) {
  const char *text = NULL;
  for (int32_t i = 0; i < L->options->num_overrides; i++)
    if (strcmp(L->options->overrides[i].name, name) == 0) text = L->options->overrides[i].text;
  return text;
}

// `--set name=TEXT`: a number, or numbers with commas for a list.
static bool define_from_text(lower_t *L, symbol_t *symbol, const char *text) {
  ptc_number_t numbers[1024];
  int32_t count = 0;
  if (strcmp(text, "on") == 0 || strcmp(text, "off") == 0) {
    symbol->kinds = SYM_NUMBER;
    symbol->number = ptc_number_from_int(&L->numbers, text[1] == 'n');
    return true;
  }
  const char *p = text;
  while (count < 1024) {
    char *end;
    bool negative = *p == '-';
    (void)strtod(p, &end);
    if (end == p || (*end && *end != ',') || !strchr("0123456789.", p[negative])) break;
    char *digits = ptc_arena_strndup(&L->module->arena, p + negative, (size_t)(end - p) - negative);
    if (strspn(digits, "0123456789.eE+-") != strlen(digits)) break;
    numbers[count] = ptc_number_parse(&L->numbers, digits);
    if (negative) numbers[count] = ptc_number_neg(&L->numbers, numbers[count]);
    count++;
    p = *end ? end + 1 : end;
    if (!*p) break;
  }
  if (!count || *p) {
    LOWER_ERROR(L, (ptc_loc_t){0}, "override-value",
                "--set %s=%s: a number, or numbers with commas, is needed", symbol->name, text);
    return false;
  }
  if (count == 1 && !(symbol->kinds & SYM_LIST)) {
    symbol->number = ptc_number_named(&L->numbers, symbol->name, numbers[0]);
    return true;
  }
  ptc_number_t *list = PTC_ARENA_ARRAY(&L->module->arena, ptc_number_t, count);
  memcpy(list, numbers, (size_t)count * sizeof(*list));
  symbol->kinds = SYM_LIST;
  symbol->list = list;
  symbol->list_len = count;
  return true;
}

// The value of a parameter of the model as text, "12" or "8,16,24".
static void note_formal(lower_t *L, const symbol_t *symbol, const ptc_formal_t *formal,
                        bool overridden) {
  if (symbol->kinds & SYM_ERROR) return;
  ptc_str_t text = {0};
  const bool list = symbol->kinds & SYM_LIST;
  for (int32_t i = 0; i < (list ? symbol->list_len : 1); i++) {
    if (i) ptc_str_append(&text, ",");
    ptc_str_append_double(&text, list ? symbol->list[i].value : symbol->number.value);
  }
  L->origin = overridden ? "command line" : NULL;
  lower_note_origin(L, formal->name, text.data ? text.data : "", formal->loc);
  L->origin = NULL;
  ptc_str_deinit(&text);
}

static void define_model_formals(lower_t *L, const ptc_item_t *model) {
  for (int32_t i = 0; i < model->formals.count; i++) {
    const ptc_formal_t *formal = &model->formals.items[i];
    symbol_t *symbol = scope_define(L, formal->name, formal->loc, SYM_NUMBER);
    const char *text = find_override(L, formal->name);
    if (formal->is_tensor) {
      LOWER_ERROR(L, formal->loc, "model-parameter",
                  "a model's parameters are numbers; tensors come from `input`");
      symbol->kinds |= SYM_ERROR;
      continue;
    }
    if (formal->value) {
      val_t val = lower_expr(L, formal->value);
      if (val.kind == VAL_NUMBER) {
        symbol->number = ptc_number_named(&L->numbers, symbol->name, val.number);
      } else if (val.kind == VAL_LIST) {
        symbol->kinds = SYM_LIST;
        symbol->list = val.list;
        symbol->list_len = val.list_len;
      } else if (val.kind == VAL_BOOL) {
        symbol->number = ptc_number_from_int(&L->numbers, val.on);
      } else {
        if (val.kind != VAL_ERROR)
          LOWER_ERROR(L, formal->loc, "model-parameter", "the default of \"%s\" is no number",
                      formal->name);
        symbol->kinds |= SYM_ERROR;
      }
    } else if (!text) {
      LOWER_ERROR(L, formal->loc, "missing-parameter",
                  "parameter \"%s\" has no value; give it a default, or --set %s=...", formal->name,
                  formal->name);
      symbol->kinds |= SYM_ERROR;
    }
    if (text && !define_from_text(L, symbol, text)) symbol->kinds |= SYM_ERROR;
    note_formal(L, symbol, formal, text != NULL);
  }
}

static void check_overrides(lower_t *L, const ptc_item_t *model) {
  for (int32_t i = 0; i < L->options->num_overrides; i++) {
    const char *name = L->options->overrides[i].name;
    if (strcmp(name, "batch") == 0 || strncmp(name, "train.", 6) == 0) continue;
    const char *names[256] = {"batch"};
    int32_t count = 1;
    bool known = false;
    for (int32_t k = 0; k < model->formals.count; k++) {
      known |= strcmp(model->formals.items[k].name, name) == 0;
      if (count < 256) names[count++] = model->formals.items[k].name;
    }
    if (known) continue;
    const char *near = ptc_nearest_name(name, names, count);
    LOWER_ERROR(L, model->loc, "override-name",
                "--set %s: model \"%s\" has no such parameter%s%s%s", name, model->name,
                near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  }
}

static void define_root(lower_t *L, scope_t *root, instance_t *instance) {
  scope_push(L, root, false);
  L->instance = instance;
  symbol_t *batch = scope_define(L, "batch", (ptc_loc_t){0}, SYM_NUMBER);
  int64_t size = ptc_attrs_int(&L->module->config, "batch", DEFAULT_BATCH);
  batch->number = ptc_number_named(&L->numbers, "batch", ptc_number_from_int(&L->numbers, size));
  for (int64_t i = 0; i < L->ast->num_items; i++) {
    const ptc_item_t *item = &L->ast->items[i];
    if (item->kind != PTC_ITEM_LAYER) continue;
    symbol_t *symbol = scope_define(L, item->layer->name, item->layer->loc, SYM_LAYER);
    symbol->layer = item->layer;
    symbol->layer_instance = instance;
  }
}

static void lower_function(lower_t *L, const ptc_item_t *model, const char *name, bool training) {
  instance_t *instance = PTC_ARENA_NEW(&L->module->arena, instance_t);
  *instance = (instance_t){.path = "", .plain = "", .echo = ""};
  scope_t root, body;
  L->func = ptc_module_add_func(L->module, name, model->loc);
  L->b = ptc_builder_at_end(L->module, L->func->body);
  L->training = training;
  L->num_stmts = 0;
  L->num_losses = L->num_outputs = 0;
  L->scope = NULL;
  L->turn = NULL;
  L->region = NULL;
  define_root(L, &root, instance);
  scope_push(L, &body, false);
  define_model_formals(L, model);
  scope_hoist(L, &model->body);
  val_t returns[PTC_MAX_DIMS];
  int32_t num_returns = -1;
  lower_stmts(L, &model->body, returns, &num_returns);
  bool has_loss = false;
  ptc_value_t *values[2 * MAX_LOSSES];
  ptc_result_t results[2 * MAX_LOSSES];
  int32_t count = 0;
  for (int32_t i = 0; i < L->num_losses; i++) {
    if (!L->losses[i].ir) continue;
    has_loss |= strcmp(L->losses[i].role, "loss") == 0;
    values[count] = L->losses[i].ir;
    results[count++] = (ptc_result_t){
        .kind = PTC_RESULT_VALUE, .name = L->losses[i].name, .role = L->losses[i].role};
  }
  for (int32_t i = 0; i < L->num_outputs && !training; i++) {
    values[count] = L->outputs[i];
    results[count++] = (ptc_result_t){
        .kind = PTC_RESULT_VALUE, .name = L->output_names[i], .role = lower_intern(L, "output")};
  }
  if (!has_loss && !L->diag->num_errors)
    LOWER_ERROR(L, model->loc, "no-loss", "model \"%s\" has no loss; add `loss = ...`",
                model->name);
  L->b.loc = model->loc;
  ptc_build_return(&L->b, L->func, values, results, count);
  L->scope = NULL;
}

static void add_scalar(lower_t *L, ptc_global_kind_t kind, const char *path, double value) {
  ptc_global_t *global =
      ptc_module_add_global(L->module, kind, lower_intern(L, path),
                            ptc_type_scalar(&L->module->arena, PTC_I64), (ptc_loc_t){0});
  ptc_attrs_set_float(L->module, &global->attrs, "value", value);
}

static void lower_model(lower_t *L, const ptc_item_t *model) {
  add_scalar(L, PTC_GLOBAL_SETTING, "seed", (double)ptc_attrs_int(&L->module->config, "seed", 0));
  add_scalar(L, PTC_GLOBAL_COUNTER, "step", 0);
  check_overrides(L, model);
  lower_function(L, model, "train", true);
  if (L->diag->num_errors) return;
  lower_function(L, model, "eval", false);
  for (int64_t i = 0; i < L->module->num_globals; i++) {
    ptc_global_t *global = L->module->globals[i];
    if (global->kind == PTC_GLOBAL_PARAM &&
        !ptc_attrs_find(&global->attrs, lower_intern(L, "decay")))
      ptc_attrs_set_bool(L->module, &global->attrs, "decay", false);
  }
  lower_init_func(L);
}

// The one model of the program; two are an error.
static const ptc_item_t *find_model(lower_t *L) {
  const ptc_item_t *model = NULL;
  for (int64_t i = 0; i < L->ast->num_items; i++) {
    const ptc_item_t *item = &L->ast->items[i];
    if (item->kind != PTC_ITEM_MODEL) continue;
    if (model) {
      LOWER_ERROR(L, item->loc, "two-models", "a program has one model; \"%s\" is the second",
                  item->name);
      ptc_note(L->diag, model->loc, "the first one");
    } else {
      model = item;
    }
  }
  return model;
}

ptc_status_t ptc_lower_ast(ptc_diag_t *diag, ptc_ast_t *ast, const ptc_lower_options_t *options,
                           ptc_module_t **out_module) {
  *out_module = NULL;
  static const ptc_lower_options_t no_options = {0};
  lower_t *L = ptc_xmalloc(sizeof(*L));
  *L = (lower_t){.diag = diag, .ast = ast, .options = options ? options : &no_options};
  L->module = ptc_module_create(diag, "module");
  L->numbers = (ptc_number_ctx_t){&L->module->arena, &L->module->names};
  L->inits_tail = &L->inits;
  const ptc_item_t *model = find_model(L);
  for (int64_t i = 0; i < ast->num_items; i++) {
    const ptc_item_t *item = &ast->items[i];
    if (item->kind == PTC_ITEM_TRAIN) lower_train_block(L, item);
    if (item->kind == PTC_ITEM_PARALLEL) lower_parallel_block(L, item);
    if (item->kind == PTC_ITEM_CLUSTER || item->kind == PTC_ITEM_DEVICE)
      lower_cluster_item(L, item);
  }
  lower_train_defaults(L);
  if (L->options->world > 0) {
    ptc_attrs_set_int(L->module, &L->module->config, "world", L->options->world);
    ptc_module_set_origin(L->module, "train.world", NULL, "command line");
  }
  if (model) {
    L->module->name = lower_intern(L, model->name);
    lower_model(L, model);
    for (int64_t i = 0; i < ast->num_items && !diag->num_errors; i++)
      if (ast->items[i].kind == PTC_ITEM_PARALLEL) lower_check_directives(L, &ast->items[i]);
  }
  if (diag->num_errors || !model)
    ptc_module_destroy(L->module);
  else
    *out_module = L->module;
  free(L);
  return diag->num_errors ? PTC_INVALID_INPUT : PTC_OK;
}

// repeat: equal turns, or equal periods of turns, become one region; other turns stand alone.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/lower_impl.h"
#include "ir/base/vec.h"

enum { MAX_TURNS = 100000, MAX_PERIOD = 16, MAX_CARRY = 256 };

ptc_value_t *region_each(lower_t *L, region_t *region, ptc_value_t *value) {
  ptc_op_t *op = region->op;
  for (int32_t i = 0; i < op->num_each; i++)
    if (op->operands[op->num_carry + i] == value) return op->body->args[1 + op->num_carry + i];
  ptc_op_add_operand(L->module, op, op->num_operands, value);
  op->num_each++;
  return ptc_block_add_arg(op->body, ptc_type_instance(&L->module->arena, value->type),
                           value->name);
}

ptc_value_t *lower_turn_value(ptc_builder_t *b, ptc_value_t *index, int64_t first, int64_t step) {
  ptc_value_t *turn = index;
  if (step != 1) turn = ptc_build_binary_const(b, PTC_OP_MUL, turn, (double)step);
  if (first != 0) turn = ptc_build_binary_const(b, PTC_OP_ADD, turn, (double)first);
  return turn;
}

// --- which turns are equal

typedef PTC_VEC(const ptc_expr_t *) exprs_t;

static bool mentions(const ptc_expr_t *expr, const char *name) {
  if (!expr) return false;
  if (expr->kind == PTC_EXPR_NAME && strcmp(expr->text, name) == 0) return true;
  if (mentions(expr->lhs, name) || mentions(expr->rhs, name)) return true;
  for (int32_t i = 0; i < expr->num_items; i++)
    if (mentions(expr->items[i], name)) return true;
  return false;
}

// The largest compile-time parts of |expr| in which |index| occurs: they decide what a turn is.
static void collect_expr(lower_t *L, const ptc_expr_t *expr, const char *index, exprs_t *out) {
  if (!mentions(expr, index)) return;
  if (lower_is_static(L, expr)) {
    PTC_VEC_PUSH(out, expr);
    return;
  }
  if (expr->lhs) collect_expr(L, expr->lhs, index, out);
  if (expr->rhs) collect_expr(L, expr->rhs, index, out);
  for (int32_t i = 0; i < expr->num_items; i++) collect_expr(L, expr->items[i], index, out);
}

static void collect_call(lower_t *L, const ptc_call_t *call, const char *index, exprs_t *out) {
  for (int32_t i = 0; i < call->num_args; i++) collect_expr(L, call->args[i], index, out);
}

static void collect_stmts(lower_t *L, const ptc_stmts_t *stmts, const char *index, exprs_t *out) {
  for (int32_t i = 0; i < stmts->count; i++) {
    const ptc_stmt_t *stmt = stmts->items[i];
    if (stmt->value) collect_expr(L, stmt->value, index, out);
    for (int32_t k = 0; k < stmt->num_values; k++) collect_expr(L, stmt->values[k], index, out);
    for (int32_t k = 0; k < stmt->decls.count; k++)
      if (stmt->decls.items[k].value) collect_expr(L, stmt->decls.items[k].value, index, out);
    collect_call(L, &stmt->options, index, out);
    collect_call(L, &stmt->init, index, out);
    // Of an `if` that is known, only the branch taken exists.
    ptc_number_t condition;
    bool known = stmt->kind == PTC_STMT_IF && lower_is_static(L, stmt->value) &&
                 lower_static(L, stmt->value, &condition);
    if (!known || condition.value != 0) collect_stmts(L, &stmt->body, index, out);
    if (!known || condition.value == 0) collect_stmts(L, &stmt->else_body, index, out);
  }
}

static void define_index(lower_t *L, const ptc_stmt_t *stmt, int64_t turn) {
  if (!stmt->name) return;
  symbol_t *symbol = scope_define(L, stmt->name, stmt->name_loc, SYM_NUMBER);
  symbol->number = ptc_number_from_int(&L->numbers, turn);
}

// --- turns that shard statements tell apart

static bool calls_stmts(const ptc_stmts_t *stmts, const char *name, size_t len);

static bool is_named(const char *text, const char *name, size_t len) {
  return text && strlen(text) == len && memcmp(text, name, len) == 0;
}

// Whether the layer or instance is called.
static bool calls_expr(const ptc_expr_t *expr, const char *name, size_t len) {
  if (!expr) return false;
  if (expr->kind == PTC_EXPR_NAME &&
      (is_named(expr->text, name, len) || is_named(expr->instance, name, len)))
    return true;
  if (calls_expr(expr->lhs, name, len) || calls_expr(expr->rhs, name, len)) return true;
  for (int32_t i = 0; i < expr->num_items; i++)
    if (calls_expr(expr->items[i], name, len)) return true;
  return false;
}

static bool calls_stmts(const ptc_stmts_t *stmts, const char *name, size_t len) {
  for (int32_t i = 0; i < stmts->count; i++) {
    const ptc_stmt_t *stmt = stmts->items[i];
    if (calls_expr(stmt->value, name, len)) return true;
    for (int32_t k = 0; k < stmt->num_values; k++)
      if (calls_expr(stmt->values[k], name, len)) return true;
    if (calls_stmts(&stmt->body, name, len) || calls_stmts(&stmt->else_body, name, len))
      return true;
  }
  return false;
}

// Adds to |text| which shard statements name parameters of this turn, of those that name some turns' alone.
static void add_statements(const lower_t *L, const ptc_stmt_t *stmt, int64_t turn,
                           ptc_str_t *text) {
  int32_t depth = 0;
  for (const turn_t *outer = L->turn; outer; outer = outer->parent) depth++;
  for (int64_t i = 0; i < L->ast->num_items; i++) {
    const ptc_item_t *item = &L->ast->items[i];
    for (int32_t s = 0; item->kind == PTC_ITEM_PARALLEL && s < item->num_shards; s++) {
      const char *segment, *name;
      size_t len, name_len;
      if (!ptc_path_turn_segment(item->shards[s].path, depth, &segment, &len, &name, &name_len) ||
          *segment == '*' || !calls_stmts(&stmt->body, name, name_len))
        continue;
      ptc_str_append(text, ptc_path_segment_has_turn(segment, len, turn) ? "y" : "n");
    }
  }
}

// One interned text per turn: equal texts, equal turns. NULL after an error.
static const char **turn_classes(lower_t *L, const ptc_stmt_t *stmt, int64_t count) {
  const char **classes = PTC_ARENA_ARRAY(&L->module->arena, const char *, count);
  exprs_t exprs = {0};
  bool ok = true;
  const char *same = lower_intern(L, "");
  for (int64_t turn = 0; turn < count && ok; turn++) {
    classes[turn] = same;
    ptc_str_t text = {0};
    add_statements(L, stmt, turn, &text);
    if (!stmt->name) {
      if (text.data) classes[turn] = lower_intern(L, text.data);
      ptc_str_deinit(&text);
      continue;
    }
    scope_t scope;
    scope_push(L, &scope, true);
    define_index(L, stmt, turn);
    exprs.len = 0;
    int64_t errors = L->diag->num_errors;
    collect_stmts(L, &stmt->body, stmt->name, &exprs);
    ok = L->diag->num_errors == errors;
    for (int64_t i = 0; i < exprs.len && ok; i++) {
      ptc_number_t number;
      val_t val = lower_expr(L, exprs.data[i]);
      if (val.kind == VAL_NUMBER) {
        number = val.number;
        ptc_str_printf(&text, "%a;", number.value);
      } else if (val.kind == VAL_LIST) {
        for (int32_t k = 0; k < val.list_len; k++) ptc_str_printf(&text, "%a,", val.list[k].value);
      } else {
        ok = val.kind != VAL_ERROR;
      }
    }
    scope_pop(L);
    if (text.data) classes[turn] = lower_intern(L, text.data);
    ptc_str_deinit(&text);
  }
  PTC_VEC_FREE(&exprs);
  return ok ? classes : NULL;
}

// The period at |first| that covers the most turns by at least two rounds; the smaller on ties.
static int64_t best_period(const char *const *classes, int64_t first, int64_t count,
                           int64_t *out_rounds) {
  int64_t best = 1, best_cover = 1;
  *out_rounds = 1;
  for (int64_t period = 1; period <= MAX_PERIOD && first + 2 * period <= count; period++) {
    int64_t end = first + period;
    while (end < count && classes[end] == classes[end - period]) end++;
    int64_t rounds = (end - first) / period;
    if (rounds < 2 || rounds * period <= best_cover) continue;
    best = period;
    best_cover = rounds * period;
    *out_rounds = rounds;
  }
  return best;
}

// --- what a body assigns

static void collect_assigned(const ptc_stmts_t *stmts, const char **names, int32_t *count) {
  for (int32_t i = 0; i < stmts->count; i++) {
    const ptc_stmt_t *stmt = stmts->items[i];
    for (int32_t k = 0; k < stmt->num_targets; k++) {
      bool known = false;
      for (int32_t n = 0; n < *count && n < MAX_CARRY; n++)
        known |= strcmp(names[n], stmt->targets[k].name) == 0;
      if (known) continue;
      if (*count < MAX_CARRY) names[*count] = stmt->targets[k].name;
      (*count)++;  // beyond the limit: only counted
    }
    collect_assigned(&stmt->body, names, count);
    collect_assigned(&stmt->else_body, names, count);
  }
}

// Losses and metrics in the body and in the layers that it may call: they are summed over the turns.
static void collect_losses_stmts(lower_t *L, const ptc_stmts_t *stmts, int32_t depth);

static void collect_losses_expr(lower_t *L, const ptc_expr_t *expr, int32_t depth) {
  if (!expr || depth > MAX_LAYER_DEPTH) return;
  if (expr->kind == PTC_EXPR_CALL && expr->lhs->kind == PTC_EXPR_NAME) {
    symbol_t *symbol = scope_find(L, expr->lhs->text);
    for (int hops = 0;
         symbol && (symbol->kinds & SYM_LAYER) && symbol->layer->alias_of && hops < 16; hops++)
      symbol = scope_find(L, symbol->layer->alias_of);
    if (symbol && (symbol->kinds & SYM_LAYER) && !symbol->layer->alias_of)
      collect_losses_stmts(L, &symbol->layer->body, depth + 1);
  }
  collect_losses_expr(L, expr->lhs, depth);
  collect_losses_expr(L, expr->rhs, depth);
  for (int32_t i = 0; i < expr->num_items; i++) collect_losses_expr(L, expr->items[i], depth);
}

static void collect_losses_stmts(lower_t *L, const ptc_stmts_t *stmts, int32_t depth) {
  if (depth > MAX_LAYER_DEPTH) return;
  for (int32_t i = 0; i < stmts->count; i++) {
    const ptc_stmt_t *stmt = stmts->items[i];
    if (stmt->kind == PTC_STMT_LOSS || stmt->kind == PTC_STMT_METRIC) {
      const char *name = stmt->name ? stmt->name : "loss";
      loss_t *loss = lower_find_loss(L, name);
      if (!loss)
        loss = lower_add_loss(L, name, stmt->kind == PTC_STMT_LOSS ? "loss" : "metric", stmt);
      if (loss && !loss->ir) {
        ptc_loc_t loc = L->b.loc;
        L->b.loc = stmt->loc;
        loss->ir = ptc_build_constant(&L->b, PTC_F32, 0);
        L->b.loc = loc;
      }
    }
    collect_losses_expr(L, stmt->value, depth);
    for (int32_t k = 0; k < stmt->num_values; k++) collect_losses_expr(L, stmt->values[k], depth);
    collect_losses_stmts(L, &stmt->body, depth);
    collect_losses_stmts(L, &stmt->else_body, depth);
  }
}

// --- turns

static void lower_turn(lower_t *L, const ptc_stmt_t *stmt, region_t *region, int64_t first,
                       int64_t step) {
  turn_t turn = {.parent = L->turn, .repeat = stmt, .region = region, .first = first, .step = step};
  scope_t scope;
  scope_push(L, &scope, true);
  L->turn = &turn;
  define_index(L, stmt, first);
  scope_hoist(L, &stmt->body);
  lower_stmts(L, &stmt->body, NULL, NULL);
  L->turn = turn.parent;
  scope_pop(L);
}

// What the body made of a carried value, in the form that it came in.
static ptc_value_t *next_value(lower_t *L, const ptc_stmt_t *stmt, const symbol_t *symbol,
                               const val_t *before, ptc_value_t *arg) {
  val_t now = *symbol->value;
  if (now.kind == VAL_ERROR || (symbol->kinds & SYM_ERROR)) return arg;
  if (now.kind == VAL_NUMBER) now = val_as_tensor(L, now, before->ir->type->dtype);
  bool same = now.kind == VAL_TENSOR && now.num_dims == before->num_dims;
  for (int32_t i = 0; same && i < before->num_dims; i++) {
    int32_t at = val_find_dim(&now, before->dims[i].name);
    same = at >= 0 && now.dims[at].key == before->dims[i].key;
  }
  if (!same) {
    LOWER_ERROR(L, stmt->loc, "repeat-carry",
                "\"%s\" is carried from turn to turn, but its dims change from %s to %s",
                symbol->name, val_describe(L, before), val_describe(L, &now));
    return arg;
  }
  if (now.ir->type->dtype != before->ir->type->dtype) {
    LOWER_ERROR(L, stmt->loc, "repeat-carry",
                "\"%s\" is carried from turn to turn, but its type changes from %s to %s",
                symbol->name, ptc_dtype_name(before->ir->type->dtype),
                ptc_dtype_name(now.ir->type->dtype));
    return arg;
  }
  now = val_fit(L, now, before->dims, before->num_dims);
  return now.kind == VAL_TENSOR ? now.ir : arg;
}

// |rounds| rounds of |period| turns from |first| on, as one repeat op.
static void lower_region(lower_t *L, const ptc_stmt_t *stmt, int64_t first, int64_t period,
                         int64_t rounds) {
  const char *names[MAX_CARRY];
  int32_t num_names = 0, num_carry = 0;
  collect_assigned(&stmt->body, names, &num_names);
  if (num_names > MAX_CARRY) {
    LOWER_ERROR(L, stmt->loc, "repeat-carry", "a repeat assigns at most %d variables", MAX_CARRY);
    return;
  }
  symbol_t **symbols = PTC_ARENA_ARRAY(&L->module->arena, symbol_t *, MAX_CARRY);
  val_t **before = PTC_ARENA_ARRAY(&L->module->arena, val_t *, MAX_CARRY);
  ptc_value_t *carry[MAX_CARRY + MAX_LOSSES], *yields[MAX_CARRY + MAX_LOSSES];
  for (int32_t i = 0; i < num_names; i++) {
    symbol_t *symbol = lower_find_variable(L, names[i]);
    if (!symbol || (symbol->kinds & SYM_ERROR) || symbol->value->kind == VAL_ERROR) continue;
    if (symbol->value->kind == VAL_NUMBER || symbol->value->kind == VAL_BOOL)
      *symbol->value = val_as_tensor(L, *symbol->value, PTC_F32);
    if (symbol->value->kind != VAL_TENSOR) {
      LOWER_ERROR(L, stmt->loc, "repeat-carry",
                  "\"%s\" is a list and cannot be carried from turn to turn", symbol->name);
      symbol->kinds |= SYM_ERROR;
      continue;
    }
    symbols[num_carry] = symbol;
    before[num_carry] = symbol->value;
    carry[num_carry++] = symbol->value->ir;
  }
  int32_t num_losses = L->num_losses;
  for (int32_t i = 0; i < num_losses; i++) carry[num_carry + i] = L->losses[i].ir;
  ptc_builder_t outside = L->b;
  ptc_op_t *op =
      ptc_build_repeat_begin(&L->b, rounds, false, carry, num_carry + num_losses, NULL, 0);
  region_t region = {.parent = L->region, .op = op, .count = rounds};
  L->b = ptc_builder_at_end(L->module, op->body);
  L->b.loc = stmt->loc;
  L->region = &region;
  for (int32_t i = 0; i < num_carry; i++) {
    val_t *inside = PTC_ARENA_NEW(&L->module->arena, val_t);
    *inside = *before[i];
    inside->ir = op->body->args[1 + i];
    inside->global = NULL;
    op->body->args[1 + i]->name = symbols[i]->name;
    symbols[i]->value = inside;
  }
  for (int32_t i = 0; i < num_losses; i++) L->losses[i].ir = op->body->args[1 + num_carry + i];
  for (int64_t i = 0; i < period; i++) lower_turn(L, stmt, &region, first + i, period);
  for (int32_t i = 0; i < num_carry; i++)
    yields[i] = next_value(L, stmt, symbols[i], before[i], op->body->args[1 + i]);
  for (int32_t i = 0; i < num_losses; i++) yields[num_carry + i] = L->losses[i].ir;
  ptc_build_repeat_end(L->module, op, yields, num_carry + num_losses);
  L->b = outside;
  L->region = region.parent;
  for (int32_t i = 0; i < num_carry; i++) {
    val_t *after = PTC_ARENA_NEW(&L->module->arena, val_t);
    *after = *before[i];
    after->ir = op->results[i];
    after->global = NULL;
    symbols[i]->value = after;
  }
  for (int32_t i = 0; i < num_losses; i++) L->losses[i].ir = op->results[num_carry + i];
}

void lower_repeat(lower_t *L, const ptc_stmt_t *stmt) {
  ptc_number_t number;
  if (!lower_static(L, stmt->value, &number)) return;
  if (!ptc_number_is_int(number) || number.num < 0 || number.num > MAX_TURNS) {
    LOWER_ERROR(L, stmt->value->loc, "repeat-count",
                "repeat runs a whole number of turns between 0 and %d, not %g", MAX_TURNS,
                number.value);
    return;
  }
  int64_t count = number.num;
  const char **classes = turn_classes(L, stmt, count);
  if (!classes) return;
  collect_losses_stmts(L, &stmt->body, 0);
  int64_t errors = L->diag->num_errors;
  for (int64_t first = 0; first < count;) {
    int64_t rounds, period = best_period(classes, first, count, &rounds);
    if (rounds > 1)
      lower_region(L, stmt, first, period, rounds);
    else
      lower_turn(L, stmt, NULL, first, 1);
    first += rounds > 1 ? rounds * period : 1;
    // Later turns would repeat the errors.
    if (L->diag->num_errors > errors) return;
  }
}

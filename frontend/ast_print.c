#include "frontend/ast_print.h"

static void print_expr(const ptc_expr_t *expr, ptc_str_t *out);

static void print_leaf(const ptc_expr_t *expr, ptc_str_t *out) {
  switch (expr->kind) {
    case PTC_EXPR_STRING: ptc_str_printf(out, "\"%s\"", expr->text); break;
    case PTC_EXPR_ON: ptc_str_append(out, expr->is_on ? "on" : "off"); break;
    default:
      ptc_str_append(out, expr->text);
      if (expr->instance) ptc_str_printf(out, "@%s", expr->instance);
      break;
  }
}

static void print_list(ptc_expr_t *const *items, const char *const *names, int32_t count,
                       ptc_str_t *out) {
  for (int32_t i = 0; i < count; i++) {
    if (i) ptc_str_append(out, ", ");
    if (names && names[i]) ptc_str_printf(out, "%s = ", names[i]);
    print_expr(items[i], out);
  }
}

static void print_expr(const ptc_expr_t *expr, ptc_str_t *out) {
  switch (expr->kind) {
    case PTC_EXPR_NUMBER:
    case PTC_EXPR_STRING:
    case PTC_EXPR_NAME:
    case PTC_EXPR_ON: print_leaf(expr, out); break;
    case PTC_EXPR_UNARY:
      ptc_str_printf(out, expr->op == PTC_OPR_NOT ? "%s " : "%s", ptc_operator_text(expr->op));
      print_expr(expr->lhs, out);
      break;
    case PTC_EXPR_BINARY:
      print_expr(expr->lhs, out);
      ptc_str_printf(out, " %s ", ptc_operator_text(expr->op));
      print_expr(expr->rhs, out);
      break;
    case PTC_EXPR_INDEX:
    case PTC_EXPR_CALL: {
      bool is_index = expr->kind == PTC_EXPR_INDEX;
      print_expr(expr->lhs, out);
      ptc_str_append(out, is_index ? "[" : "(");
      print_list(expr->items, expr->arg_names, expr->num_items, out);
      ptc_str_append(out, is_index ? "]" : ")");
      break;
    }
    case PTC_EXPR_PAREN:
      ptc_str_append(out, "(");
      print_expr(expr->lhs, out);
      ptc_str_append(out, ")");
      break;
    case PTC_EXPR_LIST:
    case PTC_EXPR_TUPLE:
      ptc_str_append(out, expr->kind == PTC_EXPR_LIST ? "[" : "(");
      print_list(expr->items, NULL, expr->num_items, out);
      ptc_str_append(out, expr->kind == PTC_EXPR_LIST ? "]" : ")");
      break;
  }
}

static void print_prefix_list(const ptc_expr_t *expr, ptc_str_t *out) {
  for (int32_t i = 0; i < expr->num_items; i++) {
    ptc_str_append(out, " ");
    if (expr->arg_names && expr->arg_names[i]) ptc_str_printf(out, "%s=", expr->arg_names[i]);
    ptc_expr_print_prefix(expr->items[i], out);
  }
}

void ptc_expr_print_prefix(const ptc_expr_t *expr, ptc_str_t *out) {
  const char *head = NULL;
  switch (expr->kind) {
    case PTC_EXPR_NUMBER:
    case PTC_EXPR_STRING:
    case PTC_EXPR_NAME:
    case PTC_EXPR_ON: print_leaf(expr, out); return;
    case PTC_EXPR_UNARY:
    case PTC_EXPR_BINARY: head = ptc_operator_text(expr->op); break;
    case PTC_EXPR_INDEX: head = "index"; break;
    case PTC_EXPR_CALL: head = "call"; break;
    case PTC_EXPR_PAREN: head = "paren"; break;
    case PTC_EXPR_LIST: head = "list"; break;
    case PTC_EXPR_TUPLE: head = "tuple"; break;
  }
  ptc_str_printf(out, "(%s", head);
  for (int i = 0; i < 2; i++) {
    const ptc_expr_t *child = i ? expr->rhs : expr->lhs;
    if (!child) continue;
    ptc_str_append(out, " ");
    ptc_expr_print_prefix(child, out);
  }
  print_prefix_list(expr, out);
  ptc_str_append(out, ")");
}

// ---- declarations and statements ----

static void print_stmts(const ptc_stmts_t *stmts, int indent, ptc_str_t *out);

static void print_names(const char *const *names, int32_t count, ptc_str_t *out) {
  for (int32_t i = 0; i < count; i++) ptc_str_printf(out, i ? ", %s" : "%s", names[i]);
}

static void print_formals(const ptc_formals_t *formals, ptc_str_t *out) {
  for (int32_t i = 0; i < formals->count; i++) {
    const ptc_formal_t *formal = &formals->items[i];
    ptc_str_printf(out, i ? ", %s" : "%s", formal->name);
    if (formal->is_tensor) {
      ptc_str_append(out, "[");
      print_names(formal->dims, formal->num_dims, out);
      ptc_str_append(out, "]");
    }
    if (formal->value) {
      ptc_str_append(out, " = ");
      print_expr(formal->value, out);
    }
  }
}

static void print_call(const char *lead, const ptc_call_t *call, ptc_str_t *out) {
  if (!call->name && !call->has_args) return;
  ptc_str_append(out, lead);
  if (call->name) ptc_str_append(out, call->name);
  if (!call->has_args) return;
  ptc_str_append(out, "(");
  print_list(call->args, call->arg_names, call->num_args, out);
  ptc_str_append(out, ")");
}

static void print_block(const ptc_stmts_t *body, int indent, ptc_str_t *out) {
  ptc_str_append(out, " {\n");
  print_stmts(body, indent + 2, out);
  ptc_str_printf(out, "%*s}", indent, "");
}

static void print_layer(const ptc_layer_t *layer, int indent, ptc_str_t *out) {
  ptc_str_printf(out, "layer %s", layer->name);
  if (layer->alias_of) {
    ptc_str_printf(out, " = %s", layer->alias_of);
    return;
  }
  ptc_str_append(out, "(");
  print_formals(&layer->formals, out);
  ptc_str_append(out, ")");
  print_block(&layer->body, indent, out);
}

static void print_targets(const ptc_stmt_t *stmt, ptc_str_t *out) {
  for (int32_t i = 0; i < stmt->num_targets; i++) {
    const ptc_target_t *target = &stmt->targets[i];
    ptc_str_printf(out, i ? ", %s" : "%s", target->name);
    if (!target->has_brackets) continue;
    ptc_str_append(out, "[");
    print_list(target->indices, NULL, target->num_indices, out);
    ptc_str_append(out, "]");
  }
}

static void print_if(const ptc_stmt_t *stmt, int indent, ptc_str_t *out) {
  ptc_str_append(out, "if ");
  print_expr(stmt->value, out);
  print_block(&stmt->body, indent, out);
  if (!stmt->has_else) return;
  ptc_str_append(out, " else");
  print_block(&stmt->else_body, indent, out);
}

static void print_stmt(const ptc_stmt_t *stmt, int indent, ptc_str_t *out) {
  switch (stmt->kind) {
    case PTC_STMT_ASSIGN:
      print_targets(stmt, out);
      ptc_str_append(out, " = ");
      print_expr(stmt->value, out);
      break;
    case PTC_STMT_DIM:
      ptc_str_append(out, "dim ");
      print_formals(&stmt->decls, out);
      break;
    case PTC_STMT_PARAM:
      ptc_str_append(out, "param");
      print_call("", &stmt->options, out);
      ptc_str_append(out, " ");
      print_formals(&stmt->decls, out);
      print_call(" : ", &stmt->type, out);
      print_call(" ~ ", &stmt->init, out);
      break;
    case PTC_STMT_INPUT:
      ptc_str_append(out, "input ");
      print_formals(&stmt->decls, out);
      print_call(" : ", &stmt->type, out);
      if (stmt->source) ptc_str_printf(out, " from %s", stmt->source);
      if (stmt->offset) ptc_str_printf(out, " + %s", stmt->offset);
      print_call(" ~ ", &stmt->init, out);
      break;
    case PTC_STMT_LOSS:
    case PTC_STMT_METRIC:
      ptc_str_append(out, stmt->kind == PTC_STMT_LOSS ? "loss" : "metric");
      if (stmt->name) ptc_str_printf(out, " %s", stmt->name);
      ptc_str_append(out, " = ");
      print_expr(stmt->value, out);
      break;
    case PTC_STMT_OUTPUT:
      ptc_str_append(out, "output ");
      print_formals(&stmt->decls, out);
      break;
    case PTC_STMT_RETURN:
      ptc_str_append(out, "return ");
      print_list(stmt->values, NULL, stmt->num_values, out);
      break;
    case PTC_STMT_REPEAT:
      ptc_str_append(out, "repeat ");
      print_expr(stmt->value, out);
      if (stmt->name) ptc_str_printf(out, " as %s", stmt->name);
      print_block(&stmt->body, indent, out);
      break;
    case PTC_STMT_IF: print_if(stmt, indent, out); break;
    case PTC_STMT_LAYER: print_layer(stmt->layer, indent, out); break;
  }
}

static void print_stmts(const ptc_stmts_t *stmts, int indent, ptc_str_t *out) {
  // Deep blocks are not indented for ever: the text of a nest of n blocks would grow as n².
  int shown = indent < 40 ? indent : 40;
  for (int32_t i = 0; i < stmts->count; i++) {
    ptc_str_printf(out, "%*s", shown, "");
    print_stmt(stmts->items[i], shown, out);
    ptc_str_append(out, "\n");
  }
}

// ---- items ----

static void print_settings(const ptc_item_t *item, ptc_str_t *out) {
  ptc_str_append(out, item->kind == PTC_ITEM_TRAIN ? "train {\n" : "parallel {\n");
  for (int32_t i = 0; i < item->num_settings; i++) {
    ptc_str_printf(out, "  %s = ", item->settings[i].name);
    print_expr(item->settings[i].value, out);
    ptc_str_append(out, "\n");
  }
  for (int32_t i = 0; i < item->num_shards; i++) {
    const ptc_shard_stmt_t *shard = &item->shards[i];
    ptc_str_printf(out, "  shard %s", shard->path);
    if (shard->num_dims) {
      ptc_str_append(out, "[");
      print_names(shard->dims, shard->num_dims, out);
      ptc_str_append(out, "]");
    }
    ptc_str_printf(out, " on %s over %s\n", shard->axis, shard->over);
  }
  for (int32_t i = 0; i < item->num_cuts; i++)
    ptc_str_printf(out, "  cut %s\n", item->cuts[i].path);
  ptc_str_append(out, "}\n");
}

static void print_quantity(const ptc_quantity_t *value, ptc_str_t *out) {
  if (value->name) {
    ptc_str_append(out, value->name);
    return;
  }
  if (value->times) ptc_str_printf(out, "%s x ", value->times);
  ptc_str_append(out, value->number);
  if (value->unit) ptc_str_printf(out, " %s", value->unit);
}

static void print_props(const ptc_prop_t *props, int32_t count, const char *lead, ptc_str_t *out) {
  for (int32_t i = 0; i < count; i++) {
    ptc_str_printf(out, "%s%s = ", lead, props[i].name);
    print_quantity(&props[i].value, out);
  }
}

static void print_cluster_items(const ptc_cluster_item_t *items, int32_t count, int indent,
                                ptc_str_t *out) {
  for (int32_t i = 0; i < count; i++) {
    const ptc_cluster_item_t *item = &items[i];
    ptc_str_printf(out, "%*s", indent, "");
    switch (item->kind) {
      case PTC_CLUSTER_NODE:
        ptc_str_printf(out, "node %s x %s {\n", item->count, item->name);
        print_cluster_items(item->items, item->num_items, indent < 40 ? indent + 2 : 40, out);
        ptc_str_printf(out, "%*s}", indent, "");
        break;
      case PTC_CLUSTER_LINK: ptc_str_printf(out, "link %s", item->name); break;
      case PTC_CLUSTER_NETWORK: ptc_str_printf(out, "network %s", item->name); break;
      case PTC_CLUSTER_HOST: ptc_str_append(out, "host"); break;
    }
    print_props(item->props, item->num_props, " ", out);
    ptc_str_append(out, "\n");
  }
}

static void print_head(const char *keyword, const ptc_item_t *item, ptc_str_t *out) {
  ptc_str_printf(out, "%s %s", keyword, item->name);
  if (!item->formals.count) return;
  ptc_str_append(out, "(");
  print_formals(&item->formals, out);
  ptc_str_append(out, ")");
}

static void print_item(const ptc_item_t *item, ptc_str_t *out) {
  switch (item->kind) {
    case PTC_ITEM_MODEL:
      print_head("model", item, out);
      print_block(&item->body, 0, out);
      ptc_str_append(out, "\n");
      break;
    case PTC_ITEM_LAYER:
      print_layer(item->layer, 0, out);
      ptc_str_append(out, "\n");
      break;
    case PTC_ITEM_TRAIN:
    case PTC_ITEM_PARALLEL: print_settings(item, out); break;
    case PTC_ITEM_CLUSTER:
      print_head("cluster", item, out);
      ptc_str_append(out, " {\n");
      print_cluster_items(item->cluster_items, item->num_cluster_items, 2, out);
      ptc_str_append(out, "}\n");
      break;
    case PTC_ITEM_DEVICE:
      print_head("device", item, out);
      ptc_str_append(out, " {");
      print_props(item->props, item->num_props, "\n  ", out);
      ptc_str_append(out, "\n}\n");
      break;
    case PTC_ITEM_INCLUDE: break;
  }
}

void ptc_ast_print(const ptc_ast_t *ast, ptc_str_t *out) {
  for (int64_t i = 0; i < ast->num_items; i++) print_item(&ast->items[i], out);
}

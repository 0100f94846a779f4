// Nodes of the tree, one function per form of the grammar. Everything lies in the tree's arena, so
// that nothing is lost or left over when the parser drops half-built parts after an error.
#include <string.h>

#include "frontend/parse_impl.h"

#define NEW(type) PTC_ARENA_NEW(&p->ast->arena, type)
#define NEW_ARRAY(type, count) PTC_ARENA_ARRAY(&p->ast->arena, type, count)

ptm_list_t *ptm_list(ptm_parse_t *p, ptm_list_t *list, void *item) {
  if (!list) list = NEW(ptm_list_t);
  if (list->count == list->capacity) {
    int32_t capacity = list->capacity ? 2 * list->capacity : 4;
    void **items = NEW_ARRAY(void *, capacity);
    if (list->count) memcpy(items, list->items, (size_t)list->count * sizeof(*items));
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = item;
  return list;
}

ptm_name_t *ptm_name(ptm_parse_t *p, ptc_loc_t loc, const char *text) {
  ptm_name_t *name = NEW(ptm_name_t);
  *name = (ptm_name_t){text, loc};
  return name;
}

static int32_t count_of(const ptm_list_t *list) { return list ? list->count : 0; }

// ---- expressions ----

static ptc_expr_t *new_expr(ptm_parse_t *p, ptc_expr_kind_t kind, ptc_loc_t loc) {
  ptc_expr_t *expr = NEW(ptc_expr_t);
  expr->kind = kind;
  expr->loc = loc;
  expr->depth = 1;
  return expr;
}

// Makes |child| count for the depth of |expr|. A chain `a + a + …` makes a deep tree without a deep
// parser stack, so the limit is checked here.
static void deepen(ptm_parse_t *p, ptc_expr_t *expr, const ptc_expr_t *child) {
  if (!child || child->depth < expr->depth) return;
  expr->depth = child->depth + 1;
  if (expr->depth > PTC_MAX_EXPR_DEPTH) {
    ptm_too_deep(p, expr->loc);
    expr->depth = 1;
    expr->kind = PTC_EXPR_NAME;
    expr->text = ptc_intern(&p->ast->names, "_");
    expr->lhs = expr->rhs = NULL;
    expr->items = NULL;
    expr->num_items = 0;
  }
}

static ptc_expr_t **expr_array(ptm_parse_t *p, const ptm_list_t *list) {
  if (!count_of(list)) return NULL;
  ptc_expr_t **exprs = NEW_ARRAY(ptc_expr_t *, list->count);
  for (int32_t i = 0; i < list->count; i++) exprs[i] = list->items[i];
  return exprs;
}

ptc_expr_t *ptm_leaf(ptm_parse_t *p, ptc_expr_kind_t kind, ptc_loc_t loc, const char *text) {
  ptc_expr_t *expr = new_expr(p, kind, loc);
  expr->text = text;
  return expr;
}

ptc_expr_t *ptm_unary(ptm_parse_t *p, ptc_operator_t op, ptc_loc_t loc, ptc_expr_t *operand) {
  ptc_expr_t *expr = new_expr(p, PTC_EXPR_UNARY, loc);
  expr->op = op;
  expr->lhs = operand;
  deepen(p, expr, operand);
  return expr;
}

ptc_expr_t *ptm_binary(ptm_parse_t *p, ptc_operator_t op, ptc_loc_t loc, ptc_expr_t *lhs,
                       ptc_expr_t *rhs) {
  ptc_expr_t *expr = new_expr(p, PTC_EXPR_BINARY, loc);
  expr->op = op;
  expr->lhs = lhs;
  expr->rhs = rhs;
  deepen(p, expr, lhs);
  deepen(p, expr, rhs);
  return expr;
}

ptc_expr_t *ptm_paren(ptm_parse_t *p, ptc_loc_t loc, ptc_expr_t *inner) {
  ptc_expr_t *expr = new_expr(p, PTC_EXPR_PAREN, loc);
  expr->lhs = inner;
  deepen(p, expr, inner);
  return expr;
}

static void set_items(ptm_parse_t *p, ptc_expr_t *expr, const ptm_list_t *items) {
  expr->items = expr_array(p, items);
  expr->num_items = count_of(items);
  for (int32_t i = 0; i < expr->num_items; i++) deepen(p, expr, expr->items[i]);
}

ptc_expr_t *ptm_items(ptm_parse_t *p, ptc_expr_kind_t kind, ptc_loc_t loc, ptm_list_t *items) {
  ptc_expr_t *expr = new_expr(p, kind, loc);
  set_items(p, expr, items);
  return expr;
}

ptc_expr_t *ptm_index(ptm_parse_t *p, ptc_expr_t *base, ptm_list_t *indices) {
  ptc_expr_t *expr = new_expr(p, PTC_EXPR_INDEX, base->loc);
  expr->lhs = base;
  deepen(p, expr, base);
  set_items(p, expr, indices);
  return expr;
}

ptm_arg_t *ptm_arg(ptm_parse_t *p, const char *name, ptc_expr_t *value) {
  ptm_arg_t *arg = NEW(ptm_arg_t);
  *arg = (ptm_arg_t){name, value};
  return arg;
}

static void split_args(ptm_parse_t *p, const ptm_list_t *args, ptc_expr_t ***out_values,
                       const char ***out_names) {
  *out_values = NULL;
  *out_names = NULL;
  if (!count_of(args)) return;
  *out_values = NEW_ARRAY(ptc_expr_t *, args->count);
  *out_names = NEW_ARRAY(const char *, args->count);
  for (int32_t i = 0; i < args->count; i++) {
    const ptm_arg_t *arg = args->items[i];
    (*out_values)[i] = arg->value;
    (*out_names)[i] = arg->name;
  }
}

ptc_expr_t *ptm_call_expr(ptm_parse_t *p, ptc_expr_t *callee, ptm_list_t *args) {
  ptc_expr_t *expr = new_expr(p, PTC_EXPR_CALL, callee->loc);
  expr->lhs = callee;
  deepen(p, expr, callee);
  split_args(p, args, &expr->items, &expr->arg_names);
  expr->num_items = count_of(args);
  for (int32_t i = 0; i < expr->num_items; i++) deepen(p, expr, expr->items[i]);
  return expr;
}

// ---- declarations ----

static const char **name_array(ptm_parse_t *p, const ptm_list_t *list, ptc_loc_t **out_locs) {
  if (out_locs) *out_locs = NULL;
  if (!count_of(list)) return NULL;
  const char **names = NEW_ARRAY(const char *, list->count);
  if (out_locs) *out_locs = NEW_ARRAY(ptc_loc_t, list->count);
  for (int32_t i = 0; i < list->count; i++) {
    const ptm_name_t *name = list->items[i];
    names[i] = name->text;
    if (out_locs) (*out_locs)[i] = name->loc;
  }
  return names;
}

ptc_formal_t *ptm_formal(ptm_parse_t *p, ptc_loc_t loc, const char *name, bool is_tensor,
                         ptm_list_t *dims, ptc_expr_t *value) {
  ptc_formal_t *formal = NEW(ptc_formal_t);
  formal->name = name;
  formal->loc = loc;
  formal->is_tensor = is_tensor;
  formal->dims = name_array(p, dims, &formal->dim_locs);
  formal->num_dims = count_of(dims);
  formal->value = value;
  return formal;
}

static ptc_formals_t formals_of(ptm_parse_t *p, const ptm_list_t *list) {
  ptc_formals_t formals = {.count = count_of(list)};
  if (formals.count) formals.items = NEW_ARRAY(ptc_formal_t, formals.count);
  for (int32_t i = 0; i < formals.count; i++)
    formals.items[i] = *(const ptc_formal_t *)list->items[i];
  return formals;
}

ptc_call_t ptm_call(ptm_parse_t *p, ptc_loc_t loc, const char *name, bool has_args,
                    ptm_list_t *args) {
  ptc_call_t call = {.name = name, .loc = loc, .has_args = has_args, .num_args = count_of(args)};
  split_args(p, args, &call.args, &call.arg_names);
  return call;
}

ptc_target_t *ptm_target(ptm_parse_t *p, ptc_loc_t loc, const char *name, bool has_brackets,
                         ptm_list_t *indices) {
  ptc_target_t *target = NEW(ptc_target_t);
  target->name = name;
  target->loc = loc;
  target->has_brackets = has_brackets;
  target->indices = expr_array(p, indices);
  target->num_indices = count_of(indices);
  return target;
}

// ---- statements ----

ptc_stmt_t *ptm_stmt(ptm_parse_t *p, ptc_stmt_kind_t kind, ptc_loc_t loc) {
  ptc_stmt_t *stmt = NEW(ptc_stmt_t);
  stmt->kind = kind;
  stmt->loc = loc;
  return stmt;
}

ptc_stmt_t *ptm_named_stmt(ptm_parse_t *p, ptc_stmt_kind_t kind, ptc_loc_t loc, ptm_name_t name,
                           ptc_expr_t *value) {
  ptc_stmt_t *stmt = ptm_stmt(p, kind, loc);
  stmt->name = name.text;
  stmt->name_loc = name.loc;
  stmt->value = value;
  return stmt;
}

ptc_stmt_t *ptm_assign(ptm_parse_t *p, ptm_list_t *targets, ptc_expr_t *value) {
  const ptc_target_t *first = targets->items[0];
  ptc_stmt_t *stmt = ptm_stmt(p, PTC_STMT_ASSIGN, first->loc);
  stmt->num_targets = targets->count;
  stmt->targets = NEW_ARRAY(ptc_target_t, targets->count);
  for (int32_t i = 0; i < targets->count; i++)
    stmt->targets[i] = *(const ptc_target_t *)targets->items[i];
  stmt->value = value;
  return stmt;
}

void ptm_decls(ptm_parse_t *p, ptc_stmt_t *stmt, ptm_list_t *decls) {
  stmt->decls = formals_of(p, decls);
}

ptc_stmt_t *ptm_output(ptm_parse_t *p, ptc_loc_t loc, ptm_list_t *names) {
  ptc_stmt_t *stmt = ptm_stmt(p, PTC_STMT_OUTPUT, loc);
  stmt->decls.count = names->count;
  stmt->decls.items = NEW_ARRAY(ptc_formal_t, names->count);
  for (int32_t i = 0; i < names->count; i++) {
    const ptm_name_t *name = names->items[i];
    stmt->decls.items[i] = (ptc_formal_t){.name = name->text, .loc = name->loc};
  }
  return stmt;
}

ptc_stmt_t *ptm_return(ptm_parse_t *p, ptc_loc_t loc, ptm_list_t *values) {
  ptc_stmt_t *stmt = ptm_stmt(p, PTC_STMT_RETURN, loc);
  stmt->values = expr_array(p, values);
  stmt->num_values = values->count;
  return stmt;
}

ptc_stmts_t ptm_stmts(ptm_parse_t *p, ptm_list_t *list) {
  ptc_stmts_t stmts = {.count = count_of(list)};
  if (stmts.count) stmts.items = NEW_ARRAY(ptc_stmt_t *, stmts.count);
  for (int32_t i = 0; i < stmts.count; i++) stmts.items[i] = list->items[i];
  return stmts;
}

ptc_stmt_t *ptm_if(ptm_parse_t *p, ptc_loc_t loc, ptc_expr_t *condition, ptm_list_t *body,
                   ptm_else_t other) {
  ptc_stmt_t *stmt = ptm_stmt(p, PTC_STMT_IF, loc);
  stmt->value = condition;
  stmt->body = ptm_stmts(p, body);
  stmt->has_else = other.has_else;
  stmt->else_body = ptm_stmts(p, other.body);
  return stmt;
}

ptc_layer_t *ptm_layer(ptm_parse_t *p, ptm_name_t name, const char *alias_of, ptm_list_t *formals,
                       ptm_list_t *body) {
  ptc_layer_t *layer = NEW(ptc_layer_t);
  layer->name = name.text;
  layer->loc = name.loc;
  layer->alias_of = alias_of;
  layer->formals = formals_of(p, formals);
  layer->body = ptm_stmts(p, body);
  return layer;
}

// ---- train, parallel, cluster, device ----

ptc_setting_t *ptm_setting(ptm_parse_t *p, ptc_loc_t loc, const char *name, ptc_expr_t *value) {
  ptc_setting_t *setting = NEW(ptc_setting_t);
  *setting = (ptc_setting_t){name, loc, value};
  return setting;
}

ptm_par_stmt_t *ptm_par_setting(ptm_parse_t *p, ptc_setting_t *setting) {
  ptm_par_stmt_t *stmt = NEW(ptm_par_stmt_t);
  stmt->setting = setting;
  return stmt;
}

ptm_par_stmt_t *ptm_par_shard(ptm_parse_t *p, ptc_cut_t *path, ptm_list_t *dims, ptm_name_t axis,
                              ptm_name_t over) {
  ptm_par_stmt_t *stmt = NEW(ptm_par_stmt_t);
  stmt->shard = NEW(ptc_shard_stmt_t);
  *stmt->shard = (ptc_shard_stmt_t){.path = path->path,
                                    .loc = path->loc,
                                    .dims = name_array(p, dims, NULL),
                                    .num_dims = count_of(dims),
                                    .axis = axis.text,
                                    .over = over.text,
                                    .axis_loc = axis.loc,
                                    .over_loc = over.loc};
  return stmt;
}

ptm_par_stmt_t *ptm_par_cuts(ptm_parse_t *p, ptm_list_t *paths) {
  ptm_par_stmt_t *stmt = NEW(ptm_par_stmt_t);
  stmt->cuts = paths;
  return stmt;
}

ptc_cut_t *ptm_path(ptm_parse_t *p, ptc_loc_t loc, const char *text) {
  ptc_cut_t *path = NEW(ptc_cut_t);
  *path = (ptc_cut_t){text, loc};
  return path;
}

static ptc_prop_t *prop_array(ptm_parse_t *p, const ptm_list_t *list) {
  if (!count_of(list)) return NULL;
  ptc_prop_t *props = NEW_ARRAY(ptc_prop_t, list->count);
  for (int32_t i = 0; i < list->count; i++) props[i] = *(const ptc_prop_t *)list->items[i];
  return props;
}

ptc_prop_t *ptm_prop(ptm_parse_t *p, ptc_loc_t loc, const char *name, ptc_quantity_t value) {
  ptc_prop_t *prop = NEW(ptc_prop_t);
  *prop = (ptc_prop_t){name, loc, value};
  return prop;
}

ptc_cluster_item_t *ptm_cluster_item(ptm_parse_t *p, ptc_cluster_item_kind_t kind, ptc_loc_t loc,
                                     const char *name, ptm_list_t *props) {
  ptc_cluster_item_t *item = NEW(ptc_cluster_item_t);
  item->kind = kind;
  item->loc = loc;
  item->name = name;
  item->props = prop_array(p, props);
  item->num_props = count_of(props);
  return item;
}

static ptc_cluster_item_t *cluster_item_array(ptm_parse_t *p, const ptm_list_t *list) {
  if (!count_of(list)) return NULL;
  ptc_cluster_item_t *items = NEW_ARRAY(ptc_cluster_item_t, list->count);
  for (int32_t i = 0; i < list->count; i++) items[i] = *(const ptc_cluster_item_t *)list->items[i];
  return items;
}

void ptm_set_cluster_items(ptm_parse_t *p, ptc_cluster_item_t *node, ptm_list_t *items) {
  node->items = cluster_item_array(p, items);
  node->num_items = count_of(items);
}

// ---- items ----

static ptc_item_t *add_item(ptm_parse_t *p, ptc_item_kind_t kind, ptc_loc_t loc) {
  ptc_ast_t *ast = p->ast;
  if (ast->num_items == ast->capacity) {
    ast->capacity = ast->capacity ? 2 * ast->capacity : 8;
    ast->items = ptc_xrealloc(ast->items, (size_t)ast->capacity * sizeof(*ast->items));
  }
  ptc_item_t *item = &ast->items[ast->num_items++];
  *item = (ptc_item_t){.kind = kind, .loc = loc};
  return item;
}

void ptm_add_model(ptm_parse_t *p, ptm_name_t name, ptm_list_t *formals, ptm_list_t *body) {
  ptc_item_t *item = add_item(p, PTC_ITEM_MODEL, name.loc);
  item->name = name.text;
  item->formals = formals_of(p, formals);
  item->body = ptm_stmts(p, body);
}

void ptm_add_layer(ptm_parse_t *p, ptc_layer_t *layer) {
  ptc_item_t *item = add_item(p, PTC_ITEM_LAYER, layer->loc);
  item->name = layer->name;
  item->layer = layer;
}

void ptm_add_settings(ptm_parse_t *p, ptc_item_kind_t kind, ptc_loc_t loc, ptm_list_t *stmts) {
  ptc_item_t *item = add_item(p, kind, loc);
  int32_t count = count_of(stmts), num_cuts = 0;
  for (int32_t i = 0; i < count; i++)
    num_cuts += count_of(((const ptm_par_stmt_t *)stmts->items[i])->cuts);
  item->settings = NEW_ARRAY(ptc_setting_t, count);
  item->shards = NEW_ARRAY(ptc_shard_stmt_t, count);
  item->cuts = NEW_ARRAY(ptc_cut_t, num_cuts);
  for (int32_t i = 0; i < count; i++) {
    const ptm_par_stmt_t *stmt = stmts->items[i];
    if (stmt->setting) item->settings[item->num_settings++] = *stmt->setting;
    if (stmt->shard) item->shards[item->num_shards++] = *stmt->shard;
    for (int32_t j = 0; j < count_of(stmt->cuts); j++)
      item->cuts[item->num_cuts++] = *(const ptc_cut_t *)stmt->cuts->items[j];
  }
}

void ptm_add_cluster(ptm_parse_t *p, ptm_name_t name, ptm_list_t *formals, ptm_list_t *items) {
  ptc_item_t *item = add_item(p, PTC_ITEM_CLUSTER, name.loc);
  item->name = name.text;
  item->formals = formals_of(p, formals);
  item->cluster_items = cluster_item_array(p, items);
  item->num_cluster_items = count_of(items);
}

void ptm_add_device(ptm_parse_t *p, ptm_name_t name, ptm_list_t *props) {
  ptc_item_t *item = add_item(p, PTC_ITEM_DEVICE, name.loc);
  item->name = name.text;
  item->props = prop_array(p, props);
  item->num_props = count_of(props);
}

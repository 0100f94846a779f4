// The syntax tree of .ptm files: what was written, nothing looked up. All nodes live in one arena.
#ifndef PTC_FRONTEND_AST_H_
#define PTC_FRONTEND_AST_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/map.h"

typedef enum ptc_expr_kind_e {
  PTC_EXPR_NUMBER,  // text: as written
  PTC_EXPR_STRING,  // text: without quotes
  PTC_EXPR_NAME,    // text; instance: what follows @, or NULL
  PTC_EXPR_ON,      // on / off: is_on
  PTC_EXPR_UNARY,   // op: PTC_OPR_NEG or PTC_OPR_NOT; lhs
  PTC_EXPR_BINARY,  // op; lhs, rhs
  PTC_EXPR_INDEX,   // lhs[items]   items may be TUPLE
  PTC_EXPR_CALL,    // lhs(items); arg_names[i] is NULL for a positional argument
  PTC_EXPR_PAREN,   // (lhs): parentheses stay in the tree
  PTC_EXPR_LIST,    // [items]
  PTC_EXPR_TUPLE,   // (a, b) in an index place
} ptc_expr_kind_t;

typedef enum ptc_operator_e {
  PTC_OPR_ADD,
  PTC_OPR_SUB,
  PTC_OPR_MUL,
  PTC_OPR_DIV,
  PTC_OPR_MOD,
  PTC_OPR_POW,
  PTC_OPR_EQ,
  PTC_OPR_NE,
  PTC_OPR_LT,
  PTC_OPR_LE,
  PTC_OPR_GT,
  PTC_OPR_GE,
  PTC_OPR_AND,
  PTC_OPR_OR,
  PTC_OPR_NOT,
  PTC_OPR_NEG,
} ptc_operator_t;
const char *ptc_operator_text(ptc_operator_t op);  // "+", "==", "and"

typedef struct ptc_expr_s ptc_expr_t;
struct ptc_expr_s {
  ptc_expr_kind_t kind;
  ptc_operator_t op;
  bool is_on;
  ptc_loc_t loc;         // first token; of a BINARY: the operator
  const char *text;      // interned
  const char *instance;  // interned
  ptc_expr_t *lhs, *rhs;
  ptc_expr_t **items;
  const char **arg_names;
  int32_t num_items;
  int32_t depth;  // 1 for a leaf, else 1 + the deepest child; at most PTC_MAX_EXPR_DEPTH
};
// A deeper expression is an error of the parser, so walkers of the tree may recurse.
enum { PTC_MAX_EXPR_DEPTH = 500 };

// `name`, `name = value`, `name[dims]` (is_tensor), `name[]` (is_tensor, no dims). Also declarations.
typedef struct ptc_formal_s {
  const char *name;
  ptc_loc_t loc;
  bool is_tensor;
  const char **dims;
  ptc_loc_t *dim_locs;
  int32_t num_dims;
  ptc_expr_t *value;  // default, or the extent of a dim declaration; may be NULL
} ptc_formal_t;

typedef struct ptc_formals_s {
  ptc_formal_t *items;
  int32_t count;
} ptc_formals_t;

// name(args): a type `: int(…)`, an init `~ normal(0.02)`, param options.
typedef struct ptc_call_s {
  const char *name;  // NULL if absent (param options have none, and say has_args)
  ptc_loc_t loc;
  bool has_args;
  ptc_expr_t **args;
  const char **arg_names;
  int32_t num_args;
} ptc_call_t;

typedef enum ptc_stmt_kind_e {
  PTC_STMT_ASSIGN,  // targets = value
  PTC_STMT_DIM,     // decls: name, value
  PTC_STMT_PARAM,   // options, decls, type, init
  PTC_STMT_INPUT,   // decls, type, source + offset, init
  PTC_STMT_LOSS,    // name (or NULL), value
  PTC_STMT_METRIC,  // name, value
  PTC_STMT_OUTPUT,  // decls: names only
  PTC_STMT_RETURN,  // values
  PTC_STMT_REPEAT,  // value (count), name (index or NULL), body
  PTC_STMT_IF,      // value (condition), body, else_body (may be NULL; `else if` is one IF in it)
  PTC_STMT_LAYER,   // layer
} ptc_stmt_kind_t;

typedef struct ptc_target_s {
  const char *name;
  ptc_loc_t loc;
  bool has_brackets;
  ptc_expr_t **indices;
  int32_t num_indices;
} ptc_target_t;

typedef struct ptc_layer_s ptc_layer_t;
typedef struct ptc_stmt_s ptc_stmt_t;
typedef struct ptc_stmts_s {
  ptc_stmt_t **items;
  int32_t count;
} ptc_stmts_t;

struct ptc_stmt_s {
  ptc_stmt_kind_t kind;
  ptc_loc_t loc;
  ptc_target_t *targets;
  int32_t num_targets;
  ptc_expr_t *value;
  ptc_expr_t **values;
  int32_t num_values;
  const char *name;
  ptc_loc_t name_loc;
  ptc_formals_t decls;
  ptc_call_t options, type, init;
  const char *source;  // `from text + 1`: "text"; NULL if absent
  ptc_loc_t source_loc;
  const char *offset;  // number as written, or NULL
  ptc_stmts_t body, else_body;
  bool has_else;
  ptc_layer_t *layer;
};

struct ptc_layer_s {
  const char *name;
  ptc_loc_t loc;
  const char *alias_of;  // `layer shared = block`; else NULL
  ptc_formals_t formals;
  ptc_stmts_t body;
};

// A `name = value` line of train and parallel blocks.
typedef struct ptc_setting_s {
  const char *name;
  ptc_loc_t loc;
  ptc_expr_t *value;
} ptc_setting_t;

// `shard PATH[dims] on AXIS over DIM`, `cut PATH, PATH`.
typedef struct ptc_shard_stmt_s {
  const char *path;
  ptc_loc_t loc;
  const char **dims;  // as written; num_dims 0: none given
  int32_t num_dims;
  const char *axis, *over;
  ptc_loc_t axis_loc, over_loc;
} ptc_shard_stmt_t;
typedef struct ptc_cut_s {
  const char *path;
  ptc_loc_t loc;
} ptc_cut_t;

// `8 x 50 GB/s`: times 8, number 50, unit "GB/s". A bare name: name.
typedef struct ptc_quantity_s {
  const char *name;                   // or NULL
  const char *times, *number, *unit;  // as written; times and unit may be NULL
  ptc_loc_t loc;
} ptc_quantity_t;
typedef struct ptc_prop_s {
  const char *name;
  ptc_loc_t loc;
  ptc_quantity_t value;
} ptc_prop_t;
typedef enum ptc_cluster_item_kind_e {
  PTC_CLUSTER_NODE,  // count x device { items }
  PTC_CLUSTER_LINK,
  PTC_CLUSTER_NETWORK,
  PTC_CLUSTER_HOST,
} ptc_cluster_item_kind_t;
typedef struct ptc_cluster_item_s ptc_cluster_item_t;
struct ptc_cluster_item_s {
  ptc_cluster_item_kind_t kind;
  ptc_loc_t loc;
  const char *count;  // NODE: number or parameter name as written
  const char *name;   // device, link or network type
  ptc_prop_t *props;
  int32_t num_props;
  ptc_cluster_item_t *items;  // NODE
  int32_t num_items;
};

typedef enum ptc_item_kind_e {
  PTC_ITEM_MODEL,
  PTC_ITEM_LAYER,
  PTC_ITEM_TRAIN,
  PTC_ITEM_PARALLEL,
  PTC_ITEM_CLUSTER,
  PTC_ITEM_DEVICE,
  PTC_ITEM_INCLUDE,  // INCLUDE: never in a finished tree
} ptc_item_kind_t;

typedef struct ptc_item_s {
  ptc_item_kind_t kind;
  ptc_loc_t loc;
  const char *name;       // model, cluster, device; INCLUDE: the file as written
  ptc_formals_t formals;  // MODEL, CLUSTER
  ptc_stmts_t body;       // MODEL
  ptc_layer_t *layer;
  ptc_setting_t *settings;  // TRAIN, PARALLEL
  int32_t num_settings;
  ptc_shard_stmt_t *shards;
  int32_t num_shards;
  ptc_cut_t *cuts;
  int32_t num_cuts;
  ptc_cluster_item_t *cluster_items;
  int32_t num_cluster_items;
  ptc_prop_t *props;  // DEVICE
  int32_t num_props;
} ptc_item_t;

// All items of all files, in order; included files stand in place of their include.
typedef struct ptc_ast_s {
  ptc_arena_t arena;
  ptc_interner_t names;
  ptc_item_t *items;
  int64_t num_items, capacity;
  const char **files;  // every file read, in order; a file is included once
  int64_t num_files;
} ptc_ast_t;

void ptc_ast_init(ptc_ast_t *ast);
void ptc_ast_deinit(ptc_ast_t *ast);

#endif  // PTC_FRONTEND_AST_H_

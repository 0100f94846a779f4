// Shared by the files of the lowering (lower*.c, scope.c, settings.c); nobody else includes it.
#ifndef PTC_FRONTEND_LOWER_IMPL_H_
#define PTC_FRONTEND_LOWER_IMPL_H_

#include "frontend/lower.h"
#include "frontend/number.h"
#include "ir/builder.h"

// A dim as the text sees it: name, extent, and the canonical expression of the extent, by which
// dims of different names are compared.
typedef struct fdim_s {
  const char *name;  // interned in the module
  int64_t extent;
  const char *key;
  const ptc_number_t *number;  // the extent with its expression
} fdim_t;

typedef enum val_kind_e {
  VAL_ERROR,   // already reported: whoever meets it stays silent
  VAL_NUMBER,  // known when compiling
  VAL_LIST,    // a list of numbers
  VAL_WORD,    // an option's word: tanh, half, "text"
  VAL_BOOL,    // on, off
  VAL_TENSOR,
} val_kind_t;

typedef struct val_s {
  val_kind_t kind;
  bool bracketed;  // TENSOR: its dims were written out, so arithmetic may form outer products
  bool on;
  int32_t num_dims;
  const char *word;
  ptc_number_t number;
  const ptc_number_t *list;
  int32_t list_len;
  ptc_value_t *ir;  // TENSOR; dims in the order of |dims|
  // TENSOR: the parameter or input of which this is a plain reading, or NULL.
  ptc_global_t *global;
  fdim_t dims[PTC_MAX_DIMS];
} val_t;

typedef enum symbol_kind_e {
  SYM_NUMBER = 1,  // parameter of a model or layer, index of a repeat
  SYM_DIM = 2,     // may go together with SYM_NUMBER: `dim d`
  SYM_LIST = 4,
  SYM_VALUE = 8,
  SYM_LAYER = 16,
  SYM_ERROR = 32,
} symbol_kind_t;

typedef struct scope_s scope_t;
typedef struct instance_s instance_t;
typedef struct region_s region_t;

typedef struct symbol_s {
  struct symbol_s *next;
  const char *name;
  ptc_loc_t loc;
  uint32_t kinds;
  ptc_number_t number;
  const ptc_number_t *list;
  int32_t list_len;
  fdim_t dim;
  const ptc_expr_t *pending;  // a dim whose extent is not evaluated yet
  bool resolving;
  val_t *value;
  const ptc_layer_t *layer;
  instance_t *layer_instance;  // where the layer was declared: an alias's one instance lives there
} symbol_t;

struct scope_s {
  scope_t *parent;
  symbol_t *symbols;
  bool transparent;  // a repeat's body: assignments reach through it
};

// One name used in an instance's path, to find accidental sharing.
typedef struct claim_s {
  struct claim_s *next;
  const char *name;
  const void *site;    // the call's node
  const void *repeat;  // innermost repeat statement, or NULL
  const char *turns;
  int32_t number;  // of random streams: which place of its name this is, from 1
  bool named;
  ptc_loc_t loc;
} claim_t;

// A model's or layer's body being lowered: owner of the path that its parameters get.
struct instance_s {
  instance_t *parent;
  const char *path;  // "" for the model; "block.*" for a layer
  region_t *stars[PTC_MAX_COUNTS];
  int64_t star_first[PTC_MAX_COUNTS], star_step[PTC_MAX_COUNTS];
  int32_t num_stars;
  claim_t *claims;
  const ptc_layer_t *layer;      // NULL for the model
  struct turn_s *turns_outside;  // the turns that enclosed the instance's call
  const char *plain;             // the path without turns
  // Which call of a shared instance this is; it ends the names of random ops, so that their streams
  // differ: "" or "@2" for calls in text order, ":7" or ":*" for the turns around an alias's call.
  const char *echo;
  region_t *echo_stars[PTC_MAX_COUNTS];
  int64_t echo_first[PTC_MAX_COUNTS], echo_step[PTC_MAX_COUNTS];
  int32_t num_echo_stars;
};

// The turn of a source repeat in which lowering stands.
typedef struct turn_s {
  struct turn_s *parent;
  const ptc_stmt_t *repeat;
  region_t *region;     // NULL: this turn stands alone and has the number |first|
  int64_t first, step;  // in a region: number = first + step * region turn
} turn_t;

struct region_s {
  region_t *parent;
  ptc_op_t *op;
  int64_t count;
};

typedef struct loss_s {
  const char *name, *role;
  const ptc_stmt_t *stmt;
  ptc_value_t *ir;
  ptc_loc_t loc;
} loss_t;

enum { MAX_LOSSES = 64, MAX_LAYER_DEPTH = 64, MAX_EXPR_DEPTH = 200, MAX_STMTS = 100000 };

typedef struct lower_s {
  ptc_diag_t *diag;
  ptc_ast_t *ast;
  ptc_module_t *module;
  const ptc_lower_options_t *options;
  ptc_number_ctx_t numbers;
  ptc_func_t *func;
  ptc_builder_t b;
  scope_t *scope;
  instance_t *instance;
  turn_t *turn;
  region_t *region;
  bool training;    // dropout is on
  bool index_mode;  // inside an index: a bare dim is its position
  int32_t layer_depth, expr_depth;
  int64_t num_stmts;  // lowered so far: layers that call layers grow without bound otherwise
  loss_t losses[MAX_LOSSES];
  int32_t num_losses;
  ptc_value_t *outputs[MAX_LOSSES];
  const char *output_names[MAX_LOSSES];
  int32_t num_outputs;
  const char *origin;  // who sets what is set now; NULL: the place in the text
  // Initial values of the parameters, for @init: one per global, in order.
  struct param_init_s *inits, **inits_tail;
} lower_t;

// How a parameter starts: `~ dist(a, b)`.
typedef struct param_init_s {
  struct param_init_s *next;
  const ptc_global_t *global;
  const char *dist;  // normal, truncated_normal, uniform, constant
  double a, b;
} param_init_t;

#define LOWER_ERROR(L, where, id, ...) \
  ((void)ptc_error((L)->diag, (where), PTC_INVALID_INPUT, (id), __VA_ARGS__))

// --- scope.c: names, numbers, dims
const char *lower_intern(lower_t *L, const char *text);
void scope_push(lower_t *L, scope_t *scope, bool transparent);
void scope_pop(lower_t *L);
symbol_t *scope_find_here(scope_t *scope, const char *name);
symbol_t *scope_find(lower_t *L, const char *name);
// A new symbol in the innermost scope; an error if the name is taken there by something else than a
// value (or at all, if |unique|). Never NULL.
symbol_t *scope_define(lower_t *L, const char *name, ptc_loc_t loc, uint32_t kind);
// "unknown name" with a suggestion.
void scope_unknown(lower_t *L, const char *name, ptc_loc_t loc, const char *what);
// Declares all dims and layers of a body before its statements run; then resolves the dims.
void scope_hoist(lower_t *L, const ptc_stmts_t *stmts);
// The dim called |name|; false, after an error, if there is none.
bool scope_dim(lower_t *L, const char *name, ptc_loc_t loc, fdim_t *out_dim);
// The dim |name| if it is one; no error.
bool scope_try_dim(lower_t *L, const char *name, fdim_t *out_dim);
// The dim |name| with |extent|; errors name |loc|.
bool fdim_from_number(lower_t *L, const char *name, ptc_number_t extent, ptc_loc_t loc,
                      fdim_t *out_dim);

// --- lower_expr.c
val_t val_error(void);
val_t val_number(ptc_number_t number);
val_t val_tensor(ptc_value_t *ir, const fdim_t *dims, int32_t num_dims, bool bracketed);
const ptc_type_t *val_type(lower_t *L, const val_t *val, ptc_dtype_t dtype);  // of its dims
val_t lower_expr(lower_t *L, const ptc_expr_t *expr);
// Like lower_expr; an error unless the result is known when compiling.
bool lower_static(lower_t *L, const ptc_expr_t *expr, ptc_number_t *out);
// Whether |expr| is made of numbers alone (parameters, dims, indices of repeats).
bool lower_is_static(lower_t *L, const ptc_expr_t *expr);
// A number becomes a scalar constant of |dtype|.
val_t val_as_tensor(lower_t *L, val_t val, ptc_dtype_t dtype);
val_t val_cast(lower_t *L, val_t val, ptc_dtype_t dtype);
val_t val_to_float(lower_t *L, val_t val);  // bool and int to f32; a number to an f32 scalar
val_t val_binary(lower_t *L, ptc_operator_t op, val_t a, val_t b, ptc_loc_t loc);
val_t val_unary(lower_t *L, ptc_opcode_t opcode, val_t a);
// Dims of both, by name, in order of first appearance; checks extents. False after an error.
bool val_merge_dims(lower_t *L, val_t *out, const val_t *a, const val_t *b, ptc_loc_t loc);
int32_t val_find_dim(const val_t *val, const char *name);
const char *val_describe(lower_t *L, const val_t *val);  // "[b, s, d]"
// |val| with exactly |dims|: transposed and broadcast.
val_t val_fit(lower_t *L, val_t val, const fdim_t *dims, int32_t num_dims);
val_t val_drop_dims(val_t val, const char *const *names, int32_t count, ptc_value_t *ir);

// --- lower_index.c: brackets and contraction
// |base| read with brackets; |fill|: out of range gives it, NULL: out of range is an error.
val_t lower_index(lower_t *L, val_t base, const ptc_expr_t *expr, const double *fill);
// Right side of an index statement: every dim that |expr| holds and |keep| lacks is contracted.
val_t lower_contraction(lower_t *L, const ptc_expr_t *expr, const fdim_t *keep, int32_t num_keep);

// --- lower_ops.c: functions of the language
val_t lower_call(lower_t *L, const ptc_expr_t *call, const ptc_target_t *targets,
                 int32_t num_targets, val_t *out_more, int32_t *out_count);
const char *lower_nearest_builtin(const char *name);
// How free dims pass through a call of |name|: 0 not at all, 1 those of all arguments, 2 those of
// the first, 3 those of the arguments without the dims in brackets.
int lower_builtin_flow(const char *name);

// --- lower_layer.c: instances, parameters, paths
// Fills |out_count| results (at most PTC_MAX_DIMS) of calling |symbol|.
void lower_layer_call(lower_t *L, const symbol_t *symbol, const ptc_expr_t *call, val_t *out,
                      int32_t *out_count);
// Declares (or finds, if it is shared) the parameter |name| of the current instance.
val_t lower_param(lower_t *L, const char *name, ptc_loc_t loc, const fdim_t *dims, int32_t num_dims,
                  ptc_dtype_t dtype, const param_init_t *init);
// Notes that a statement contracts or gathers |val|: if it is a parameter, it decays.
void lower_note_weight(lower_t *L, const val_t *val);
// Notes that |val| indexes |dim|: if it is an input, its values are range-checked on reading.
void lower_note_index(lower_t *L, const val_t *val, const fdim_t *dim);
// The same of the targets of a cross entropy, where a negative one is ignored.
void lower_note_targets(lower_t *L, const val_t *val, const fdim_t *dim);
void lower_param_stmt(lower_t *L, const ptc_stmt_t *stmt);
// A name for an unnamed or named part of the current instance (norm, layer): reports sharing by
// accident. The path of the part, with its stars.
instance_t *instance_enter(lower_t *L, const char *name, bool named, const ptc_expr_t *call);
// A path for a random op of the current instance: name, name_2, ...
instance_t *instance_random(lower_t *L, const char *name, const ptc_expr_t *call);
void instance_leave(lower_t *L, instance_t *instance);
// The operands seed, step and one turn per star of |instance|; returns their number.
int32_t lower_random_operands(lower_t *L, const instance_t *instance, ptc_value_t **out);
ptc_value_t *lower_state(lower_t *L, const char *path);  // the function's argument for a scalar

// --- lower_repeat.c
void lower_repeat(lower_t *L, const ptc_stmt_t *stmt);
// The region's own instance of bundle |value|: an each-argument, added if there is none.
ptc_value_t *region_each(lower_t *L, region_t *region, ptc_value_t *value);
// The number of the turn of star |i| of |instance| as an i32[] value.
ptc_value_t *lower_turn_value(ptc_builder_t *b, ptc_value_t *index, int64_t first, int64_t step);

// --- lower.c
void lower_stmts(lower_t *L, const ptc_stmts_t *stmts, val_t *returns, int32_t *num_returns);
void lower_assign_symbol(lower_t *L, const char *name, ptc_loc_t loc, val_t val);
// The variable that an assignment to |name| would overwrite, or NULL.
symbol_t *lower_find_variable(lower_t *L, const char *name);
loss_t *lower_find_loss(lower_t *L, const char *name);
loss_t *lower_add_loss(lower_t *L, const char *name, const char *role, const ptc_stmt_t *stmt);

// --- lower_init.c
void lower_init_func(lower_t *L);

// --- settings.c: train, parallel, cluster, device
// Records who gave |name| its value: L->origin, or the place |loc|. |value|: of a parameter of the model; NULL
// for a setting "train.NAME".
void lower_note_origin(lower_t *L, const char *name, const char *value, ptc_loc_t loc);
void lower_train_block(lower_t *L, const ptc_item_t *item);
void lower_train_defaults(lower_t *L);
void lower_parallel_block(lower_t *L, const ptc_item_t *item);
void lower_cluster_item(lower_t *L, const ptc_item_t *item);
// After the model is known: shard and cut statements against its parameters and repeats.
void lower_check_directives(lower_t *L, const ptc_item_t *item);

#endif  // PTC_FRONTEND_LOWER_IMPL_H_

// The IR: a module of globals and functions; functions of blocks; blocks of ops; SSA values.
//
// Everything lives in the module's arena. Names (dims, paths, attributes) are interned in the
// module and compare by pointer. Not thread-safe.
#ifndef PTC_IR_MODULE_H_
#define PTC_IR_MODULE_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/diag.h"
#include "ir/base/map.h"
#include "ir/opcode.h"
#include "ir/type.h"

typedef struct ptc_value_s ptc_value_t;
typedef struct ptc_op_s ptc_op_t;
typedef struct ptc_block_s ptc_block_t;
typedef struct ptc_func_s ptc_func_t;
typedef struct ptc_module_s ptc_module_t;

typedef enum ptc_attr_kind_e {
  PTC_ATTR_INT,
  PTC_ATTR_FLOAT,
  PTC_ATTR_BOOL,
  PTC_ATTR_STRING,
  PTC_ATTR_DIM,   // one dim name
  PTC_ATTR_DIMS,  // dim names
  PTC_ATTR_INTS,
  PTC_ATTR_FLOATS,
} ptc_attr_kind_t;

typedef struct ptc_attr_s {
  const char *name;  // interned
  ptc_attr_kind_t kind;
  int32_t count;  // of DIMS, INTS, FLOATS
  union {
    int64_t i;
    double f;
    bool b;
    const char *s;  // STRING, DIM: interned
    const char *const *dims;
    const int64_t *ints;
    const double *floats;
  } u;
} ptc_attr_t;

typedef struct ptc_attrs_s {
  ptc_attr_t *items;  // sorted in the order in which they were set
  int32_t count, capacity;
} ptc_attrs_t;

// Result of an op or argument of a block.
struct ptc_value_s {
  const ptc_type_t *type;  // NULL only before infer_shapes
  ptc_op_t *def;           // NULL for a block argument
  ptc_block_t *block;      // the block of which it is an argument; NULL for a result
  int32_t index;           // which result or argument
  const char *name;        // hint for printing, interned, may be NULL
  int64_t id;              // unique in the module, increasing in order of creation
};

struct ptc_op_s {
  ptc_opcode_t opcode;
  ptc_loc_t loc;
  ptc_value_t **operands;
  int32_t num_operands, num_results;
  ptc_value_t **results;
  ptc_attrs_t attrs;
  ptc_block_t *body;  // PTC_OP_REPEAT only
  ptc_block_t *parent;
  ptc_op_t *prev, *next;
  int32_t cap_operands;  // room in |operands|
  // A clone made by recompute: cse must not merge it with its original.
  bool remat;
  // REPEAT: operands are num_carry initial values, then num_each bundles.
  // Results are num_carry final values, then the collected bundles.
  // The body's arguments: the turn (i32[]), the carried values, one instance of each bundle.
  // Its yield: num_carry next values, then the values to collect (instance r of the result is what
  // turn r yields). The body may use values of enclosing blocks (captures).
  // RETURN: operand i is described by the function's results[i].
  int32_t num_carry, num_each;
};

struct ptc_block_s {
  ptc_value_t **args;
  int32_t num_args, cap_args;
  ptc_op_t *first, *last;  // last is the terminator once the block is complete
  ptc_op_t *parent_op;     // the repeat, or NULL for a function's body
  ptc_func_t *func;
};

typedef enum ptc_global_kind_e {
  PTC_GLOBAL_INPUT,    // data of a step, range-checked
  PTC_GLOBAL_PARAM,    // trained (or frozen) weights; in f32 the master weights
  PTC_GLOBAL_MOMENT,   // optimizer state of the parameter |owner|
  PTC_GLOBAL_COUNTER,  // scalars that the step advances: step, applied steps, loss scale
  PTC_GLOBAL_SETTING,  // scalars that only the user changes: seed, lr, betas, clip
  PTC_GLOBAL_SLOT,     // what one function of a stage leaves for another within a step
} ptc_global_kind_t;

// State and inputs, shared by all functions. A global of a bundle type has a path with one `*` per
// count: "block.*.attn.wq"; instance r stands for turn first + r * step.
typedef struct ptc_global_s {
  const char *path;  // interned, unique in the module together with turns
  ptc_global_kind_t kind;
  const ptc_type_t *type;
  ptc_loc_t loc;
  int64_t turn_first[PTC_MAX_COUNTS], turn_step[PTC_MAX_COUNTS];  // one per count
  // Attributes, by kind:
  //   INPUT  source:s ("text"; absent: drawn at random by init of the step), offset:i, range:i
  //          (values lie in [0, range)), ignorable:b (a target: negative values, too)
  //   PARAM  decay:b lr:f (factor) frozen:b
  //   MOMENT owner:s which:s ("m", "v")    COUNTER, SETTING value:f (initial)
  //   SLOT   slots:i (its instances: function runs for micro-batch i use instance i mod slots; absent: one for
  //          all) grad:b (a sum of gradients over micro-batches)
  ptc_attrs_t attrs;
  int64_t index;  // in the module
} ptc_global_t;

typedef enum ptc_result_kind_e {
  PTC_RESULT_VALUE,  // a named value: loss, metric, output
  PTC_RESULT_STATE,  // the new version of a global
  PTC_RESULT_GRAD,   // the gradient of the loss by a parameter
} ptc_result_kind_t;

// What one operand of `return` is.
typedef struct ptc_result_s {
  ptc_result_kind_t kind;
  const char *name;            // VALUE: interned
  const char *role;            // VALUE: "loss", "metric", "output" or "value", interned
  const ptc_global_t *global;  // STATE, GRAD
} ptc_result_t;

struct ptc_func_s {
  const char *name;  // interned: "init", "train", "eval"
  ptc_module_t *module;
  ptc_block_t *body;
  ptc_loc_t loc;
  // Runs for one micro-batch at a time: that coordinate of the axis "micro" is given, and arguments and states that
  // are slots are the micro-batch's. Elsewhere a slot global of n slots is a bundle of n.
  bool each_micro;
  const ptc_global_t **arg_globals;  // one per argument of the body
  ptc_result_t *results;             // one per operand of the return
  int32_t num_results, cap_results;
  ptc_func_t *next;
};

// Who gave a setting of the config ("train.lr"), or a parameter of the model ("layers"), its value. For people: no
// part of the text form.
typedef struct ptc_origin_s {
  const char *name;
  const char *value;  // of a parameter of the model; NULL: see the config
  const char *place;  // "gpt2.ptm:47", "command line", "default"
} ptc_origin_t;

struct ptc_module_s {
  ptc_arena_t arena;
  ptc_interner_t names;
  ptc_diag_t *diag;  // not owned
  const char *name;  // interned
  ptc_mesh_t mesh;
  ptc_attrs_t config;      // the train block: optimizer:s precision:s batch:i ... (LANGUAGE.md)
  ptc_global_t **globals;  // in order
  int64_t num_globals, cap_globals;
  ptc_func_t *funcs;  // in order
  int64_t next_value_id;
  // Properties that hold (bits of passes/pass.h); maintained by the pass manager.
  uint32_t properties;
  ptc_origin_t *origins;
  int32_t num_origins, cap_origins;
};

// --- module
ptc_module_t *ptc_module_create(ptc_diag_t *diag, const char *name);
void ptc_module_destroy(ptc_module_t *module);  // NULL is allowed
const char *ptc_module_intern(ptc_module_t *module, const char *text);
ptc_func_t *ptc_module_find_func(const ptc_module_t *module, const char *name);
// By path; NULL if there is none. Where several globals share a path (runs of turns): the first.
ptc_global_t *ptc_module_find_global(const ptc_module_t *module, const char *path);
ptc_func_t *ptc_module_add_func(ptc_module_t *module, const char *name, ptc_loc_t loc);
ptc_global_t *ptc_module_add_global(ptc_module_t *module, ptc_global_kind_t kind, const char *path,
                                    const ptc_type_t *type, ptc_loc_t loc);
const char *ptc_global_kind_name(ptc_global_kind_t kind);  // "input", "param", ...
// The type that |global| has as an argument or state of |func|: with its slots as leading count unless |func| runs
// for each micro-batch.
const ptc_type_t *ptc_global_type_in(const ptc_global_t *global, const ptc_func_t *func);
// The instance's own path: "block.7.attn.wq" for turns[] = {7 as instance number of each count}.
void ptc_global_instance_path(const ptc_global_t *global, const int64_t *instance, ptc_str_t *out);
// Whether |pattern| names instances of |global|: "block.*.w", "block.7.w", "block.2..5.w". The whole path, or
// (|prefix|) the start of one.
bool ptc_global_path_fits(const ptc_global_t *global, const char *pattern, bool prefix);
// Segment |depth| (from 0) of those of |pattern| that are turns, as text and length, and the name before it. False if there
// are not so many.
bool ptc_path_turn_segment(const char *pattern, int32_t depth, const char **out_segment,
                           size_t *out_len, const char **out_name, size_t *out_name_len);
// Whether a segment of a pattern ("*", "7", "2..5") names the turn.
bool ptc_path_segment_has_turn(const char *segment, size_t len, int64_t turn);
void ptc_module_set_mesh(ptc_module_t *module, const ptc_mesh_axis_t *axes, int32_t num_axes);
// Records an origin; a later one of the same name replaces it. Texts are copied; |value| may be NULL.
void ptc_module_set_origin(ptc_module_t *module, const char *name, const char *value,
                           const char *place);
// NULL if nobody recorded one.
const ptc_origin_t *ptc_module_find_origin(const ptc_module_t *module, const char *name);
// Number of ops in all functions, nested ones included.
int64_t ptc_module_num_ops(const ptc_module_t *module);

// --- functions
// Adds an argument bound to |global|; its type is the global's.
ptc_value_t *ptc_func_add_arg(ptc_func_t *func, const ptc_global_t *global);
// The argument bound to |global|, added if there is none.
ptc_value_t *ptc_func_get_arg(ptc_func_t *func, const ptc_global_t *global);
// The return op, or NULL.
ptc_op_t *ptc_func_return(const ptc_func_t *func);
// Appends a result to the function's return op.
void ptc_func_add_result(ptc_func_t *func, ptc_result_t result, ptc_value_t *value);

// --- blocks and ops
ptc_block_t *ptc_block_new(ptc_module_t *module, ptc_func_t *func, ptc_op_t *parent_op);
ptc_value_t *ptc_block_add_arg(ptc_block_t *block, const ptc_type_t *type, const char *name);
// A detached op with |num_results| results of NULL type. Operands are copied.
ptc_op_t *ptc_op_new(ptc_module_t *module, ptc_opcode_t opcode, ptc_loc_t loc,
                     ptc_value_t *const *operands, int32_t num_operands, int32_t num_results);
// Inserts |op| before |before|, or at the end of |block| if |before| is NULL.
void ptc_op_insert(ptc_op_t *op, ptc_block_t *block, ptc_op_t *before);
void ptc_op_remove(ptc_op_t *op);  // detaches; its values must be unused
void ptc_op_add_operand(ptc_module_t *module, ptc_op_t *op, int32_t at, ptc_value_t *value);
void ptc_op_erase_operand(ptc_op_t *op, int32_t at);
ptc_value_t *ptc_op_add_result(ptc_module_t *module, ptc_op_t *op, const ptc_type_t *type);
// The block in which |value| is defined.
ptc_block_t *ptc_value_block(const ptc_value_t *value);
// Whether |inner| is |outer| or nested in it.
bool ptc_block_contains(const ptc_block_t *outer, const ptc_block_t *inner);
// Replaces every use of |from| in |block| and nested blocks by |to|.
void ptc_block_replace_uses(ptc_block_t *block, ptc_value_t *from, ptc_value_t *to);
// Clones |op| (with its body), mapping operands through |map| (value -> value; absent: itself), and
// records its results in |map|. The clone is detached.
ptc_op_t *ptc_op_clone(ptc_module_t *module, const ptc_op_t *op, ptc_map_t *map);
// Calls |visit| for every op of |block| and nested blocks, in order; the visited op may be removed.
void ptc_block_walk(ptc_block_t *block, void (*visit)(ptc_op_t *op, void *arg), void *arg);

// --- attributes; setters overwrite. Getters return the default if the attribute is absent.
const ptc_attr_t *ptc_attrs_find(const ptc_attrs_t *attrs, const char *name);
int64_t ptc_attrs_int(const ptc_attrs_t *attrs, const char *name, int64_t otherwise);
double ptc_attrs_float(const ptc_attrs_t *attrs, const char *name, double otherwise);
bool ptc_attrs_bool(const ptc_attrs_t *attrs, const char *name, bool otherwise);
const char *ptc_attrs_string(const ptc_attrs_t *attrs, const char *name, const char *otherwise);
void ptc_attrs_set(ptc_module_t *module, ptc_attrs_t *attrs, ptc_attr_t attr);  // copies arrays
void ptc_attrs_set_int(ptc_module_t *module, ptc_attrs_t *attrs, const char *name, int64_t value);
void ptc_attrs_set_float(ptc_module_t *module, ptc_attrs_t *attrs, const char *name, double value);
void ptc_attrs_set_bool(ptc_module_t *module, ptc_attrs_t *attrs, const char *name, bool value);
void ptc_attrs_set_string(ptc_module_t *module, ptc_attrs_t *attrs, const char *name,
                          const char *value);
void ptc_attrs_set_dim(ptc_module_t *module, ptc_attrs_t *attrs, const char *name,
                       const char *value);
void ptc_attrs_set_dims(ptc_module_t *module, ptc_attrs_t *attrs, const char *name,
                        const char *const *dims, int32_t count);
void ptc_attrs_set_ints(ptc_module_t *module, ptc_attrs_t *attrs, const char *name,
                        const int64_t *values, int32_t count);
void ptc_attrs_remove(ptc_attrs_t *attrs, const char *name);
bool ptc_attrs_equal(const ptc_attrs_t *a, const ptc_attrs_t *b);  // order does not matter
ptc_attrs_t ptc_attrs_clone(ptc_module_t *module, const ptc_attrs_t *attrs);

#endif  // PTC_IR_MODULE_H_

// Private to partition*.c.
//
// The pass works in two phases on each function. Inference gives every value the type it has on the devices
// (partition_infer.c), by the rules of partition_rules.c, and changes nothing but types; so layouts of the parameters
// can be tried and costed (partition_search.c). Insertion then puts the collectives between values and the uses that
// need another type (partition_insert.c, partition_reshard.c).
#ifndef PTC_PASSES_PARTITION_IMPL_H_
#define PTC_PASSES_PARTITION_IMPL_H_

#include "ir/axes.h"
#include "ir/builder.h"
#include "ir/module.h"
#include "passes/parallel.h"

enum {
  PTC_PART_MAX_NAMES = 64,
  // A dim is padded only where a shard has this many elements: a small part of the room stays empty then.
  PTC_PART_MIN_SHARD = 4
};

// How a parameter lies: |home| is what the ops that use it see; |stored| is home with ZeRO's axes on one dim.
typedef struct ptc_part_layout_s {
  const ptc_type_t *home, *stored;
} ptc_part_layout_t;

// The gradient of a parameter.
typedef struct ptc_part_mark_s {
  const ptc_type_t *home;  // the parameter's, with the dim names of this value; may be NULL
  const char *dim;         // where ZeRO wants it; NULL: the state is not sharded
  ptc_axis_ref_t axes[PTC_MAX_AXES];  // over which: the data axes that the parameter leaves free
  int32_t num_axes;
  bool tied;  // the parameter's other uses have gradients of their own, which are added to this one
} ptc_part_mark_t;

typedef struct ptc_part_s {
  ptc_module_t *module;
  ptc_arena_t *scratch;
  ptc_parallel_t parallel;
  const char *batch, *micro;                 // dim and axis, interned
  ptc_axis_ref_t axis[PTC_NUM_DEVICE_AXES];  // whole axes; those of size 1 are not in the mesh
  ptc_axis_ref_t data[PTC_NUM_DEVICE_AXES];  // those over which samples and positions lie: dp ep cp
  int32_t num_data;
  const char
      *sequence[PTC_PART_MAX_NAMES];  // dims along which inputs are sequences, and renamed ones
  int32_t num_sequence;
  ptc_axis_ref_t named[PTC_PART_MAX_NAMES];  // tp, or a part of it, over dim names[i] of parameters
  const char *names[PTC_PART_MAX_NAMES];
  int32_t num_names;
  ptc_part_layout_t *layouts;  // by index of the global; parameters and moments
  // Of the function at hand:
  ptc_func_t *func;
  bool has_micro;     // it has a loop over micro-batches
  ptc_map_t home;     // value of a stored parameter -> its type once gathered
  ptc_map_t weights;  // value that parameters alone determine -> itself
  ptc_map_t grads;    // value on the way from the gradient's producer to the optimizer -> its mark
  ptc_map_t wanted;   // result that a repeat collects -> the type as which it is returned
  ptc_map_t zeros;    // carried argument of a repeat that starts at zero -> itself
  ptc_map_t
      gathered;  // activation that sequence parallelism leaves in parts -> the type that an op needs
  ptc_map_t groups;  // repeat that reshards bundles -> itself
  ptc_map_t firsts;  // block -> the first op that it had
  ptc_map_t cache;   // value -> list of its reshards (partition_reshard.c)
} ptc_part_t;

// --- partition_seed.c
ptc_status_t ptc_part_make_mesh(ptc_part_t *p);
// Finds the sequence dims of inputs; inserts the shards of inputs into all functions.
ptc_status_t ptc_part_seed_inputs(ptc_part_t *p);
// Gives every parameter and moment its layout, by p->names and the shard statements.
ptc_status_t ptc_part_lay_out(ptc_part_t *p);
// The maps of |func| and the types of its arguments.
void ptc_part_begin_func(ptc_part_t *p, ptc_func_t *func);
void ptc_part_end_func(ptc_part_t *p);

// --- partition_type.c: types with other shardings; all in the module's arena
// |type| with these axes on its dim at |at|.
const ptc_type_t *ptc_part_with_axes(ptc_part_t *p, const ptc_type_t *type, int32_t at,
                                     const ptc_axis_ref_t *axes, int32_t num_axes);
const ptc_type_t *ptc_part_with_partial(ptc_part_t *p, const ptc_type_t *type,
                                        const ptc_axis_ref_t *axes, int32_t num_axes);
// Without device axes on its dims; time axes stay. |keep|: but for this dim; may be NULL.
const ptc_type_t *ptc_part_whole(ptc_part_t *p, const ptc_type_t *type, const char *keep);
// The device axes over which |type| is partial, into |out|, which has room for PTC_MAX_AXES.
int32_t ptc_part_partial(const ptc_type_t *type, ptc_axis_ref_t *out);
bool ptc_part_is_partial(const ptc_type_t *type);
// Whether neither a dim nor a partial sum of |type| uses any of |axes|.
bool ptc_part_is_free(const ptc_type_t *type, const ptc_axis_ref_t *axes, int32_t num_axes);
// What |value|, of |type|, becomes when its sum over |axes| is taken: ZeRO and sequence parallelism leave each device
// a part of it.
const ptc_type_t *ptc_part_reduced(ptc_part_t *p, const ptc_value_t *value, const ptc_type_t *type,
                                   const ptc_axis_ref_t *axes, int32_t num_axes);
// The same for all device axes.
const ptc_type_t *ptc_part_resolved(ptc_part_t *p, const ptc_value_t *value,
                                    const ptc_type_t *type);
bool ptc_part_is_activation(const ptc_part_t *p, const ptc_type_t *type);
bool ptc_part_is_sequence(const ptc_part_t *p, const char *name);
// Zero everywhere, however it is built.
bool ptc_part_is_zero(const ptc_value_t *value);

// --- partition_rules.c
// The types that |op|, no repeat, yield or return, needs its operands to have, given the types of the values; and
// the types of its results then. False if no sharding fits, not even none: the diagnostic is recorded.
bool ptc_part_rule(ptc_part_t *p, ptc_op_t *op, const ptc_type_t **operands,
                   const ptc_type_t **results);
// Of a scatter_add: the addressed dim of the result that lies on axes of its own, NULL if there is none.
const char *ptc_part_scattered_dim(ptc_part_t *p, const ptc_op_t *op, const ptc_axis_ref_t **axes,
                                   int32_t *num_axes);
// Ops that hand a stored parameter on as it is.
bool ptc_part_keeps_home(const ptc_op_t *op);

// --- partition_order.c
// Whether dim |name| on |axes| is a zigzag: the balanced order of a sequence on cp.
bool ptc_part_is_zigzag(const ptc_part_t *p, const char *name, const ptc_axis_ref_t *axes,
                        int32_t num_axes);
// |value|, whose dim lies on cp, with the same bytes as a zigzag or as blocks.
ptc_value_t *ptc_part_reorder(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value, const char *dim,
                              bool zigzag);
// |value|, whose dim is whole, with the chunks in the devices' order; and back in their own.
ptc_value_t *ptc_part_deal(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value, const char *dim);
ptc_value_t *ptc_part_collect(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value, const char *dim);

// --- partition_attention.c
// Attention, or its gradient, along a sequence on cp that is not gathered.
typedef struct ptc_part_attention_s {
  ptc_cp_attention_t way;             // RING or ALL_TO_ALL
  const char *rows, *attend, *heads;  // of q; of keys and values; of all of them (ALL_TO_ALL)
} ptc_part_attention_t;
// Whether |op| is such, and how it is computed.
bool ptc_part_attention_way(const ptc_part_t *p, const ptc_op_t *op, ptc_part_attention_t *out);
// |type|, of an operand, without cp; and as the op needs it, its other axes as they are.
const ptc_type_t *ptc_part_attention_bare(ptc_part_t *p, const ptc_part_attention_t *a,
                                          const ptc_type_t *type);
const ptc_type_t *ptc_part_attention_laid(ptc_part_t *p, const ptc_part_attention_t *a,
                                          const ptc_op_t *op, int32_t index,
                                          const ptc_type_t *type);
// The types of the results, given those of the operands; partial as |inferred|, the shape function's, are (NULL: not).
void ptc_part_attention_results(ptc_part_t *p, const ptc_part_attention_t *a, const ptc_op_t *op,
                                const ptc_type_t *const *types, const ptc_type_t *const *inferred,
                                const ptc_type_t **results);
// What computes |op|, whose operands are as it needs them. Values that are not |op|'s own results stand for them
// from here on.
ptc_status_t ptc_part_attention_build(ptc_part_t *p, const ptc_part_attention_t *a, ptc_op_t *op,
                                      ptc_value_t **out_results);

// --- partition_ring.c
// Whether keys and values of |op| can go round.
bool ptc_part_ring_fits(const ptc_part_t *p, const ptc_part_attention_t *a, const ptc_op_t *op);
// Builds before |op| what stands for its results.
ptc_status_t ptc_part_ring_build(ptc_part_t *p, const ptc_part_attention_t *a, ptc_op_t *op,
                                 ptc_value_t **out_results);

// --- partition_infer.c
ptc_status_t ptc_part_infer(ptc_part_t *p);  // p->func
// What a yield or return needs operand |index| to be.
const ptc_type_t *ptc_part_yield_target(ptc_part_t *p, const ptc_op_t *repeat, int32_t index);
const ptc_type_t *ptc_part_return_target(ptc_part_t *p, const ptc_op_t *ret, int32_t index);

// --- partition_reshard.c
typedef struct ptc_part_step_s {
  ptc_opcode_t opcode;  // ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL or SHARD
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  int32_t num_axes;
  const char *dim, *to;
  const ptc_type_t *before;  // of the value that the step takes
} ptc_part_step_t;
enum { PTC_PART_MAX_STEPS = 48 };
// The steps from one type to the other; -1 if there are none that lead there.
int32_t ptc_part_plan(ptc_part_t *p, const ptc_type_t *from, const ptc_type_t *to,
                      ptc_part_step_t *steps);
// |type|, of an operand of the elementwise or view op |op|, laid out as the result |target|.
const ptc_type_t *ptc_part_operand_target(ptc_part_t *p, const ptc_op_t *op, const ptc_type_t *type,
                                          const ptc_type_t *target);
// What stands for |value| as |target| before |use|, built if it is not there yet. NULL with a diagnostic on error.
ptc_value_t *ptc_part_reshard(ptc_part_t *p, ptc_value_t *value, const ptc_type_t *target,
                              ptc_op_t *use);

// --- partition_sums.c
// Orders the sums of integers in p->func, after inference.
ptc_status_t ptc_part_order_sums(ptc_part_t *p);

// --- partition_insert.c
ptc_status_t ptc_part_insert(ptc_part_t *p);  // p->func

// --- partition_search.c
// Chooses p->names: the dims of parameters that lie on tp.
ptc_status_t ptc_part_choose_names(ptc_part_t *p);

#endif  // PTC_PASSES_PARTITION_IMPL_H_

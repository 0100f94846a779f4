// Private to passes/lower_plan*.c.
//
// Every value that lies in memory has a place: instances of a buffer, addressed by the turns of the repeats
// around it and by its own counts. A place is written once per turn, so that places may be shared freely; what
// must take over other bytes (states, accumulators, carried values) gets a place of its own and a COPY, which
// memory_plan undoes by giving both one address.
//
// A repeat is *shared* if the values of its body have one instance for all turns (the time axis, and repeats
// of too many turns); what leaves its turn then is copied at the turn's end.
#ifndef PTC_PASSES_LOWER_PLAN_IMPL_H_
#define PTC_PASSES_LOWER_PLAN_IMPL_H_

#include "ir/base/vec.h"
#include "passes/build_kernels.h"
#include "passes/devices.h"
#include "passes/lower_plan.h"

typedef struct ptc_place_s {
  int32_t buffer;
  ptc_affine_t instance;     // of the turns around the value
  ptc_affine_t byte_offset;  // the same
  int64_t instance_stride[PTC_MAX_COUNTS], byte_stride[PTC_MAX_COUNTS];  // of its own counts
} ptc_place_t;

typedef PTC_VEC(ptc_step_t) ptc_step_list_t;

// A repeat around the current block; outermost, the axes of devices, which have a coordinate for a turn.
typedef struct ptc_level_s {
  const ptc_op_t *op;  // NULL: a repeat over the instances of a bundle, or an axis
  int64_t count;
  bool shared;
} ptc_level_t;

typedef struct ptc_lower_s {
  ptc_pass_ctx_t *ctx;
  ptc_module_t *module;
  ptc_diag_t *diag;
  ptc_plan_t *plan;
  ptc_arena_t *arena;          // the plan's
  ptc_arena_t *scratch;        // of this pass
  const ptc_func_t *func;      // that is lowered
  ptc_use_map_t uses;          // of it
  const ptc_stages_t *stages;  // NULL: no pipeline
  ptc_map_t slots;             // slot global -> number of its buffer + 1
  ptc_map_t places;            // value -> ptc_place_t *
  ptc_map_t wanted;            // value -> ptc_place_t * where it should be made
  ptc_map_t grads;             // values that are gradients of parameters -> what they are called
  ptc_level_t levels[PTC_PLAN_MAX_LEVELS];
  int32_t depth;
  PTC_VEC(ptc_buffer_t) buffers;
  PTC_VEC(ptc_plan_kernel_t) kernels;
  PTC_VEC(const ptc_kernel_t *) bodies;  // one per kernel
  PTC_VEC(ptc_launches_t) launches;      // that the ops of the present task need
  int64_t num_exchanged, num_transfers;
  ptc_interner_t keys;  // kernels as text
  ptc_map_t by_key;     // interned key -> number + 1
} ptc_lower_t;

// --- lower_plan_place.c

// Bytes of one instance of |type| on this device; -1 on overflow.
int64_t ptc_lower_bytes(const ptc_lower_t *lower, const ptc_type_t *type);
// An axis of devices by the name that it has in the plan.
ptc_axis_ref_t ptc_lower_axis(const ptc_lower_t *lower, ptc_axis_ref_t ref);
// A buffer for |value| with an instance per turn of the repeats around (shared ones apart) and per count.
ptc_place_t *ptc_lower_new_place(ptc_lower_t *lower, const ptc_value_t *value,
                                 const ptc_type_t *type, ptc_buffer_class_t cls);
int32_t ptc_lower_new_buffer(ptc_lower_t *lower, const char *name, const ptc_type_t *type,
                             ptc_buffer_class_t cls, int64_t num_instances, ptc_loc_t loc);
// NULL, with a diagnostic, if |value| lies nowhere.
const ptc_place_t *ptc_lower_place(ptc_lower_t *lower, const ptc_value_t *value);
// The instance of |place| in turn t of the repeat at |level|.
ptc_place_t *ptc_lower_enter(ptc_lower_t *lower, const ptc_place_t *place, int32_t level);
// All instances of |place| over the repeat at |level|, as a bundle.
ptc_place_t *ptc_lower_leave(ptc_lower_t *lower, const ptc_place_t *place, int32_t level);
bool ptc_lower_same_place(const ptc_place_t *a, const ptc_place_t *b, const ptc_type_t *type);
// The operand for a step; counts of |type| are bound to the repeats from lower->depth - num_counts on.
ptc_ref_t ptc_lower_ref(const ptc_place_t *place, const ptc_type_t *type, int32_t first_level,
                        int64_t bytes);
// Appends copies of all instances; nothing if the places are one.
ptc_status_t ptc_lower_copy(ptc_lower_t *lower, const ptc_place_t *from, const ptc_place_t *to,
                            const ptc_type_t *type, ptc_loc_t loc, ptc_step_list_t *out);
// Opens a repeat around steps that follow, over instances; PTC_UNSUPPORTED ("plan-levels") if too deep.
ptc_status_t ptc_lower_push(ptc_lower_t *lower, const ptc_op_t *op, int64_t count, bool shared,
                            ptc_loc_t loc);
// Closes it: |body|, freed, becomes one step of |out|.
void ptc_lower_pop(ptc_lower_t *lower, bool reverse, ptc_step_list_t *body, ptc_step_list_t *out);

// --- lower_plan_view.c

// Whether |op|'s result is its operands' bytes: nothing runs for it, or copies.
bool ptc_lower_is_view(const ptc_op_t *op);
// Before the ops of |block|: where operands of its views, and of its terminator, should be made.
void ptc_lower_plan_views(ptc_lower_t *lower, const ptc_block_t *block);
ptc_status_t ptc_lower_view(ptc_lower_t *lower, const ptc_op_t *op, ptc_step_list_t *out);
// Asks that |value| be made at |place|, if it is made in this block and nothing else was asked.
void ptc_lower_want(ptc_lower_t *lower, const ptc_block_t *block, ptc_value_t *value,
                    const ptc_place_t *place);

// --- lower_plan_block.c

ptc_status_t ptc_lower_block(ptc_lower_t *lower, const ptc_block_t *block, ptc_step_list_t *out);

// --- lower_plan_kernel.c

// The launch of |count| ops that form one kernel.
ptc_status_t ptc_lower_kernel(ptc_lower_t *lower, ptc_op_t *const *ops, int32_t count,
                              ptc_step_list_t *out);

// --- lower_plan_collective.c

// The step of |first| and the collectives after it that go with it; |*out_next| is the op after them.
ptc_status_t ptc_lower_collective(ptc_lower_t *lower, ptc_op_t *first, ptc_op_t **out_next,
                                  ptc_step_list_t *out);

// Makes one of neighbouring repeats that do nothing but alike collectives; returns how many steps are left.
int32_t ptc_lower_join_repeats(ptc_arena_t *arena, ptc_step_t *steps, int32_t count);

// --- lower_plan.c

// How often |op| runs in its function, counted from the repeats of the IR around it.
int64_t ptc_lower_turns(const ptc_op_t *op);
// Appends the steps of |func|; its results become those of |task|.
ptc_status_t ptc_lower_func(ptc_lower_t *lower, const ptc_func_t *func, ptc_task_t *task,
                            ptc_step_list_t *out);
// |steps|, freed, become those of |task|, which owes what was counted since the last task.
void ptc_lower_end_task(ptc_lower_t *lower, ptc_task_t *task, ptc_step_list_t *steps);

// --- lower_plan_stage.c

// Where a slot global lies, as the function that is lowered sees it.
ptc_place_t *ptc_lower_slot(ptc_lower_t *lower, const ptc_global_t *global);
// A send or a recv.
ptc_status_t ptc_lower_transfer(ptc_lower_t *lower, ptc_op_t *op, ptc_step_list_t *out);
// All tasks of a stage.
ptc_status_t ptc_lower_stage_tasks(ptc_lower_t *lower);

// --- lower_plan_tables.c

// Marks the gradients of |func|'s parameters, for the class of their buffers.
void ptc_lower_find_grads(ptc_lower_t *lower, const ptc_func_t *func);
ptc_status_t ptc_lower_globals(ptc_lower_t *lower);
ptc_status_t ptc_lower_settings(ptc_lower_t *lower);

#endif  // PTC_PASSES_LOWER_PLAN_IMPL_H_

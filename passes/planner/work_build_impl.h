// Private to passes/planner/work*.c: how a program is read off a module.
#ifndef PTC_PASSES_PLANNER_WORK_BUILD_IMPL_H_
#define PTC_PASSES_PLANNER_WORK_BUILD_IMPL_H_

#include "ir/base/vec.h"
#include "passes/planner/work_impl.h"

// The gradient of a parameter, or what becomes one: the parameter's dims by the names that they have here.
typedef struct ptc_wmark_s {
  int32_t param;
  int32_t num_dims;
  const char *names[PTC_MAX_DIMS];
} ptc_wmark_t;

typedef struct ptc_wplace_s {
  ptc_work_phase_t phase;
  int32_t piece;  // 2 r + 1: forward repeat r; 2 r: what stands before it
} ptc_wplace_t;

typedef struct ptc_wbuild_s {
  ptc_work_t *work;
  ptc_work_impl_t *impl;
  ptc_arena_t *arena;  // of the result
  ptc_arena_t *scratch;
  ptc_module_t *module;  // a copy, after recompute
  ptc_func_t *func;
  ptc_op_t *loop;     // over micro-batches; NULL: there is none
  ptc_block_t *body;  // what a micro-batch runs
  ptc_op_t *forward[PTC_WORK_MAX_REPEATS];
  int32_t forward_at[PTC_WORK_MAX_REPEATS];  // its number among the repeats of the forward pass
  int32_t num_forward;
  ptc_map_t needed;   // op -> itself
  ptc_map_t numbers;  // value -> its number + 1
  ptc_map_t names;    // dim name -> its number + 1
  ptc_map_t params;   // global -> its number + 1
  ptc_map_t marks;    // value -> ptc_wmark_t
  ptc_map_t places;   // op -> ptc_wplace_t
  ptc_wprogram_t *program;
  PTC_VEC(ptc_wvalue_t) values;
  PTC_VEC(int32_t) dims;
  PTC_VEC(ptc_wblock_t) blocks;
  PTC_VEC(ptc_wgrad_t) grads;
} ptc_wbuild_t;

// --- work_place.c
// The loop, the forward repeats, and which ops belong to the program. PTC_UNSUPPORTED with a diagnostic.
ptc_status_t ptc_work_find_ops(ptc_wbuild_t *b);
// Phase and piece of each.
void ptc_work_place(ptc_wbuild_t *b);
const ptc_wplace_t *ptc_work_place_of(const ptc_wbuild_t *b, const ptc_op_t *op);
// The forward repeat whose gradient |reversed| is; -1: none.
int32_t ptc_work_forward_of(const ptc_wbuild_t *b, const ptc_op_t *reversed);

// --- work_marks.c
// The argument or computed value that |value| is an instance or a view of.
ptc_value_t *ptc_work_source(ptc_value_t *value);
void ptc_work_mark_gradients(ptc_wbuild_t *b);

// --- work_program.c
ptc_status_t ptc_work_build_program(ptc_wbuild_t *b);
int32_t ptc_work_number(const ptc_wbuild_t *b, const ptc_value_t *value);  // -1: it has none
int32_t ptc_work_dim_name(ptc_wbuild_t *b, const char *name);
int32_t ptc_work_dim(ptc_wbuild_t *b, const char *name, int64_t extent);

// --- work_op.c
// What |op|, of tracked operands |in| (their numbers in the IR's op), needs of them and makes of them.
void ptc_work_rule(ptc_wbuild_t *b, ptc_wop_t *out, const ptc_op_t *op, const int32_t *in);

// --- work_cost.c
// Which dims of a contraction or of attention are what; what a framework launches.
void ptc_work_cost(ptc_wbuild_t *b, ptc_wop_t *out, const int32_t *in);

// --- work_groups.c
// Kernels, after |b->module| went through fuse.
void ptc_work_find_groups(ptc_wbuild_t *b);

// --- work_room.c
// Sorts the kernels by piece and phase; finds what needs room between them. The pieces are known.
void ptc_work_find_room(ptc_work_t *work, ptc_wprogram_t *p, ptc_arena_t *arena);

// --- work_lives.c
// The places of kernels and what lives between them. What is kept is known.
void ptc_work_find_lives(ptc_work_t *work, ptc_wprogram_t *p, ptc_arena_t *arena);

// --- work_save.c
// What frameworks keep, per piece. The rooms are there.
void ptc_work_find_saves(ptc_work_t *work, ptc_wprogram_t *p, ptc_arena_t *arena);

// --- work_pieces.c
void ptc_work_name_pieces(ptc_wbuild_t *b);
// Drops empty pieces; finds where the parameters are used. PTC_UNSUPPORTED with a diagnostic.
ptc_status_t ptc_work_finish(ptc_work_t *work, ptc_arena_t *arena, ptc_diag_t *diag);

#endif  // PTC_PASSES_PLANNER_WORK_BUILD_IMPL_H_

// Private to passes/planner/work*.c and layout*.c: the compact program.
//
// A program is what a step does under one recompute mode: blocks of ops over values whose dims are numbers. The same
// program serves every choice; a layout (layout_impl.h) says for one choice where each dim lies.
//
// Axes of a dim are a word of four bits each, outermost first in the lowest. The numbers: time, the device axes, and
// parts of tp, which each choice makes as it needs them.
#ifndef PTC_PASSES_PLANNER_WORK_IMPL_H_
#define PTC_PASSES_PLANNER_WORK_IMPL_H_

#include "ir/op.h"
#include "passes/planner/work.h"

typedef uint32_t ptc_laid_t;

enum { PTC_WORK_MAX_REPEATS = 64 };  // of a model, one after another

enum {
  PTC_REF_MICRO = 1,
  PTC_REF_AXIS = 2,  // + ptc_device_axis_t
  PTC_REF_PART = PTC_REF_AXIS + PTC_NUM_DEVICE_AXES,
  PTC_MAX_REFS = 16,
  PTC_LAID_MAX = 8,  // axes of one dim
  PTC_WORK_NO_FACTOR = -1,
  PTC_WORK_MICRO_FACTOR = -2  // of a result: the samples of a micro-batch, no operand's
};

typedef enum ptc_work_phase_e {
  PTC_WORK_FORWARD,
  PTC_WORK_BACKWARD,
  PTC_WORK_WEIGHT,  // gradients of parameters
  PTC_WORK_AGAIN,   // forward, once more
  PTC_WORK_STEP,    // once per step
  PTC_WORK_NUM_PHASES
} ptc_work_phase_t;

typedef struct ptc_wop_s ptc_wop_t;

typedef struct ptc_wvalue_s {
  int32_t
      dims;  // first of its dims in the program's list; the same place in a layout has their axes
  int16_t num_dims;
  uint8_t dtype;
  bool activation;   // has samples
  bool weight;       // parameters alone determine it
  bool zero;         // is zero
  bool starts_zero;  // a carried value that begins as zero
  bool only_adds;    // every use hands sums on or adds to them
  bool is_stored;    // has bytes in memory: no view, not computed where it is used
  bool is_input;     // data of the step
  int32_t param;     // of a weight: the parameter that it is made of; else -1
  int32_t grad;      // the parameter on the way to whose gradient it is; else -1
  int32_t block;
  ptc_wop_t *def;    // NULL: an argument
  double instances;  // of a bundle
  double bytes;      // of all of it, on all devices
} ptc_wvalue_t;

typedef enum ptc_wclass_e {
  PTC_WCLASS_PLAIN,
  PTC_WCLASS_ADD,         // add, sub
  PTC_WCLASS_SPLIT,       // a dim into several
  PTC_WCLASS_MERGE,       // and back
  PTC_WCLASS_ACCUMULATE,  // the gradient of a micro-batch joins those before: one operand, no result
  PTC_WCLASS_SEED,        // the samples of a device
  PTC_WCLASS_REPEAT
} ptc_wclass_t;

// Which sums an op hands on.
typedef enum ptc_wpass_e { PTC_WPASS_NONE, PTC_WPASS_SUMS, PTC_WPASS_ALL } ptc_wpass_t;

// What a dim of a contraction is, or of attention.
typedef enum ptc_wrole_e {
  PTC_WROLE_BATCH,
  PTC_WROLE_M,
  PTC_WROLE_N,
  PTC_WROLE_K,
  PTC_WROLE_KV_HEADS,  // of q, key and val
  PTC_WROLE_HEADS,     // of q alone
  PTC_WROLE_ROWS,
  PTC_WROLE_COLS,
  PTC_WROLE_QK,
  PTC_WROLE_V,
  PTC_WROLE_NONE,
  PTC_NUM_WROLES
} ptc_wrole_t;

// Ops whose split form exchanges rows: how many exchanges of which rows.
typedef struct ptc_wsplit_s {
  bool exists;
  bool gathers;  // the result is partial over the axes of the dims that it looks up
  int8_t num_rows;
  uint8_t row_bytes[4];  // of an element of the rows, per exchange
} ptc_wsplit_t;

typedef struct ptc_wcarry_s {
  int32_t init, arg, next, result;
} ptc_wcarry_t;
typedef struct ptc_weach_s {
  int32_t bundle, arg;
} ptc_weach_t;
typedef struct ptc_wcollect_s {
  int32_t value, result;
  bool is_saved;  // the backward pass reads it from memory
  // Else, of a normalized value: it is computed again beside this gradient, if neither is split.
  const ptc_wop_t *norm_grad;
} ptc_wcollect_t;

typedef struct ptc_wrepeat_s {
  int32_t body;  // block
  int64_t count;
  ptc_wcarry_t *carries;
  ptc_weach_t *eaches;
  ptc_wcollect_t *collects;
  int32_t num_carries, num_eaches, num_collects;
} ptc_wrepeat_t;

struct ptc_wop_s {
  ptc_opcode_t opcode;
  ptc_wclass_t wclass;
  int32_t num_operands, num_results, num_factors;
  const int32_t *operands;
  int32_t results;          // the first; they follow one another
  const int8_t *places;     // per dim of each operand its factor, then per dim of each result
  uint64_t whole, summed;   // sets of factors
  const uint64_t *missing;  // per result: factors whose axes it becomes partial over
  ptc_reduce_kind_t reduces;
  ptc_wpass_t passes;
  ptc_wsplit_t split;
  int64_t split_outer;    // SPLIT: extent of the outermost new dim
  uint64_t merge_inner;   // MERGE: factors that must be whole
  int32_t merge_outer;    // MERGE: the dim's number that keeps its axes
  int32_t scatter_param;  // a gradient that lands where the parameter lies; -1
  const int8_t
      *scatter_dims;  // per dim of the result that is addressed: the parameter's dim; else -1
  ptc_wrepeat_t *repeat;
  // What it costs and where that belongs.
  ptc_work_phase_t phase;
  int32_t piece;
  int32_t block;
  double turns;          // executions per turn of the piece
  int32_t group;         // kernel; -1: none
  const uint8_t *roles;  // per factor, of a contraction that is a GEMM, and of attention; else NULL
  bool grouped;          // a GEMM whose weights differ from batch to batch
  bool drops;            // attention with dropout
  bool causal;           // attention
  int64_t window;
  int32_t
      size;  // where a layout keeps its sizes, or whether a norm takes its operands as they lie; -1
  bool folds;  // a framework without fusion launches nothing for it
  // Exps, tanhs and the like in exps, for each element of the operand |costly_of|.
  double costly;
  int32_t costly_of;
  const char *label;
  ptc_loc_t loc;
  const ptc_op_t *source;  // while the program is built
};

// Block 0 runs once per step, block 1 for each micro-batch, the others are bodies of repeats.
typedef struct ptc_wblock_s {
  ptc_wop_t *ops;
  int32_t num_ops;
  int32_t parent;  // -1
  double turns;    // executions per micro-batch (block 0: per step)
} ptc_wblock_t;

// A result that a kernel may make where an operand lay.
typedef struct ptc_wtake_s {
  int32_t from, to;  // values
} ptc_wtake_t;

// Ops that are one kernel.
typedef struct ptc_wgroup_s {
  ptc_wop_t *main;          // contraction, attention, or the first op
  int32_t *reads, *writes;  // values in memory
  int32_t num_reads, num_writes;
  ptc_wop_t **ops;
  int32_t num_ops, num_mains;
  ptc_wtake_t *takes;
  int32_t num_takes;
  int32_t order;        // of running, among all
  int32_t pass, place;  // where it runs (work_lives.c)
  int32_t piece;
  ptc_work_phase_t phase;
} ptc_wgroup_t;

typedef enum ptc_wlife_kind_e {
  PTC_WLIFE_TEMP,    // made and used up in this pass of the piece
  PTC_WLIFE_SUM,     // the same, of a gradient that is then added to its accumulator
  PTC_WLIFE_SPAN,    // comes from another piece, or goes to one
  PTC_WLIFE_SAVED,   // from the forward to the backward pass
  PTC_WLIFE_WEIGHT,  // a parameter, where it has to be gathered first
  PTC_WLIFE_GRAD,    // of a parameter: it stays where there is no accumulator
  PTC_WLIFE_WHOLE  // the same, where a kernel adds it to its accumulator unless ranks add it up before
} ptc_wlife_kind_t;

// A value that lives in memory from one kernel to another, by place in the order of a piece's pass.
typedef struct ptc_wlife_s {
  int32_t value, from, to;
  ptc_wlife_kind_t kind;
  int32_t
      taken_by;  // the value that is made at |to| in its place, where that has as many bytes; -1
  // SAVED by a repeat: as it is handed out; NULL: as it lies. Where it is not, after all, it lives |to_unsaved| at last.
  const ptc_wcollect_t *collect;
  int32_t to_unsaved;
  int32_t each_bytes;  // GRAD, WHOLE: of an element of it
} ptc_wlife_t;

// What a framework keeps of a forward op.
typedef enum ptc_wsave_kind_e {
  PTC_WSAVE_VALUE,      // the value
  PTC_WSAVE_WIDE,       // the same in f32
  PTC_WSAVE_MASK,       // a byte for each of its elements
  PTC_WSAVE_STATISTIC,  // of rows: PyTorch alone
  PTC_WSAVE_PRODUCT,    // only where selective recompute keeps every second product
  PTC_WSAVE_SCORES      // what attention that makes it keeps of its scores, where it is not fused
} ptc_wsave_kind_t;

typedef struct ptc_wsave_s {
  int32_t value;
  ptc_wsave_kind_t kind;
} ptc_wsave_t;

// What a piece needs room for besides parameters.
typedef struct ptc_wroom_s {
  const int32_t *kept;  // values outside of repeats that the backward pass reads
  int32_t num_kept;
  const int32_t *passed;  // to later pieces
  int32_t num_passed;
  const ptc_wlife_t *lives[2];  // forward, backward
  int32_t num_lives[2], num_places[2];
  const ptc_wlife_t *held;  // what gradients of parameters are made of
  int32_t num_held;
  const ptc_wsave_t *saves;
  int32_t num_saves;
  const ptc_wop_t *repeat;  // the forward repeat; NULL
  int32_t base;             // the first value of its body
} ptc_wroom_t;

typedef struct ptc_wgrad_s {
  int32_t param, value;
  int32_t bytes;  // of an element of the accumulator
  int32_t piece;
  int8_t dims[PTC_MAX_DIMS];  // of the value: the parameter's
} ptc_wgrad_t;

typedef struct ptc_wprogram_s {
  bool has_micro;
  ptc_wvalue_t *values;
  int32_t num_values;
  int32_t *dims;  // numbers of the work's dims
  int32_t num_dims;
  ptc_wblock_t *blocks;
  int32_t num_blocks;
  ptc_wgroup_t *groups;
  int32_t num_groups;
  ptc_wgrad_t *grads;
  int32_t num_grads;
  int32_t num_sizes;      // ops that have a place for their sizes
  ptc_wroom_t *rooms;     // per piece
  int32_t *param_values;  // the argument of each parameter; -1
} ptc_wprogram_t;

typedef struct ptc_wparam_s {
  const char *path;
  const char *pattern;  // of a shard statement: "block.2..5.w"
  int32_t num_dims, dims[PTC_MAX_DIMS];
  double instances;
  int32_t
      copy_bytes;  // of an element of the copies that contractions read; 0: they read the parameter
  int32_t state_bytes;  // of its moments
  int32_t bytes;        // of the parameter itself
  bool frozen;
  int8_t
      fixed_axis[PTC_MAX_DIMS];  // per dim: the device axis that a shard statement lays it on, + 1
  int32_t group_dim;             // that experts lie along: on ep; -1
  uint32_t pieces;               // set of those that use it
  int32_t piece;                 // the first
} ptc_wparam_t;

typedef struct ptc_wdim_s {
  int32_t name;  // number
  int64_t extent;
} ptc_wdim_t;

struct ptc_work_impl_s {
  const char **dim_names;
  bool *is_sequence;  // per name
  int32_t num_dim_names, batch_name;
  ptc_wdim_t *dims;
  int32_t num_dims;
  ptc_wparam_t *params;
  int32_t num_params;
  int32_t name_of[PTC_WORK_MAX_NAMES];  // number of each candidate
  uint32_t
      together[PTC_WORK_MAX_NAMES];  // per candidate: those that stand beside it in some parameter
  // Before those without kernels are dropped.
  ptc_work_piece_t all_pieces[2 * PTC_WORK_MAX_REPEATS + 1];
  ptc_wprogram_t programs[PTC_NUM_RECOMPUTE_MODES];
};

#endif  // PTC_PASSES_PLANNER_WORK_IMPL_H_

// The plan of one stage: kernels by name, buffers with addresses, and the steps that use them. Plain data;
// what lower_steps builds, memory_plan completes, the plan folder stores and the runtime executes
// (DESIGN.md section 5).
//
// All ranks of a stage run this one program; rank r has the r-th coordinates on the mesh, in row-major order. The
// coordinates enter as numbers alone: in addresses inside an instance, in kernels, in who is of a group.
#ifndef PTC_IR_PLAN_H_
#define PTC_IR_PLAN_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/str.h"
#include "ir/type.h"

enum {
  PTC_PLAN_VERSION = 3,       // of the files, and of what compiled kernels are given
  PTC_PLAN_MAX_LEVELS = 12,   // axes of the mesh and nested repeats
  PTC_PLAN_MAX_PARTS = 1024,  // of a collective
  PTC_PLAN_MAX_STREAMS = 16,
  PTC_PLAN_MAX_EVENTS = 1 << 16,
  PTC_PLAN_ALIGN = 64
};

//        id          text            what
#define PTC_BUFFER_CLASSES(X)                                                       \
  X(INPUT, "input")         /* data of a step */                                    \
  X(PARAM, "param")         /* weights; in f32 the master weights */                \
  X(MOMENT, "moment")       /* optimizer state */                                   \
  X(SCALAR, "scalar")       /* settings and counters */                             \
  X(GRAD, "grad")           /* gradients of parameters, accumulators included */    \
  X(SAVED, "saved")         /* forward values that live until backward (bundles) */ \
  X(TEMP, "temp")           /* everything else inside a step */                     \
  X(RESULT, "result")       /* losses, metrics, outputs */                          \
  X(WORKSPACE, "workspace") /* of one kernel */

typedef enum ptc_buffer_class_e {
#define PTC_BUFFER_CLASS(id, text) PTC_BUFFER_##id,
  PTC_BUFFER_CLASSES(PTC_BUFFER_CLASS)
#undef PTC_BUFFER_CLASS
      PTC_NUM_BUFFER_CLASSES
} ptc_buffer_class_t;

// A family of equal dense row-major tensors, one per turn of the repeats that it belongs to. Every instance
// has an address of its own.
typedef struct ptc_buffer_s {
  const char *name;  // the value's name or the global's path; not unique
  ptc_buffer_class_t cls;
  ptc_dtype_t dtype;
  int32_t num_dims;
  const char *const *dim_names;
  const int64_t *extents;  // on one rank
  // How the whole tensor is laid over the mesh: per dim the whole extent and the axes that it is sharded over,
  // names those of plan->mesh. NULL: every rank holds all of it.
  const ptc_dim_t *layout;
  // The axes of devices that some dim is sharded over; those over which the content is a partial result, and how it is
  // completed. Collectives are checked against them.
  const ptc_axis_ref_t *over, *partial;
  int32_t num_over, num_partial;
  ptc_reduce_kind_t partial_kind;
  int64_t num_instances;  // >= 1
  int64_t bytes;          // of one instance, unpadded
  int64_t
      *offsets;  // one per instance: bytes from the arena's start, a multiple of PTC_PLAN_ALIGN; -1
                 // before memory_plan
  const char *loc_file;  // where the value is made in the .ptm; NULL: nowhere
  int32_t loc_line;
  int32_t line;  // in the text that it was read from, 0: none
} ptc_buffer_t;

// base + sum of coef[l] * turn[l]. With A axes in the plan's mesh, turn[l] is the rank's coordinate on axis l for
// l < A, then (in a task for micro-batches) the micro-batch and the slot, then the turns of the enclosing repeats, the
// outermost first.
typedef struct ptc_affine_s {
  int64_t base;
  int64_t coef[PTC_PLAN_MAX_LEVELS];
} ptc_affine_t;

// A buffer's instance, or a part of it, as an operand of a step.
typedef struct ptc_ref_s {
  int32_t buffer;
  ptc_affine_t instance;
  ptc_affine_t byte_offset;  // within the instance; a view's start
  int64_t bytes;             // accessed from there
} ptc_ref_t;

// A run of phases: |count| times the |num_tiles| phases in order. All tiles of a phase are independent; a
// phase begins when the one before is done.
typedef struct ptc_phase_run_s {
  int64_t count;
  int32_t num_phases;
  const int64_t *tiles;
} ptc_phase_run_t;

// A kernel as one call of a library of matrix products (cuBLASLt), in its terms: matrices lie by columns,
//   D = activation(op(A) op(B) + C + bias),   op(A) m x k, op(B) k x n, C and D m x n, bias along m, |batch| times.
typedef enum ptc_gemm_activation_e {
  PTC_GEMM_LINEAR,
  PTC_GEMM_RELU,
  PTC_GEMM_GELU_TANH
} ptc_gemm_activation_t;

typedef struct ptc_plan_matrix_s {
  int32_t param;  // of the kernel; -1: no such matrix
  bool transposed;
  ptc_dtype_t dtype;
  int64_t ld, stride;  // elements from column to column, from product to product
} ptc_plan_matrix_t;

typedef struct ptc_plan_gemm_s {
  int64_t m, n, k, batch;
  ptc_plan_matrix_t a, b, c, d;  // c: like d, or absent
  int32_t bias;                  // a parameter of d's dtype, or -1
  ptc_gemm_activation_t activation;
  bool tf32;  // f32 operands may be rounded to tf32
  int64_t
      workspace_bytes;  // that the call may use, at a multiple of PTC_PLAN_GEMM_ALIGN; of the kernel's
} ptc_plan_gemm_t;
enum { PTC_PLAN_GEMM_ALIGN = 256 };

typedef struct ptc_plan_kernel_s {
  const char *name;   // entry point; the source is kernels/NAME.c
  const char *about;  // one line: the ops
  const char *loc_file;
  int32_t loc_line;
  int32_t num_params;
  const uint8_t *modes;        // ptc_kparam_mode_t per parameter: 0 in, 1 out, 2 in and out
  const int64_t *param_bytes;  // bytes that it accesses of each
  // Per parameter: the IN parameter whose bytes an OUT may take (same address, same bytes), or -1.
  const int32_t *in_place;
  int32_t num_runs;
  const ptc_phase_run_t *runs;
  int64_t
      workspace_bytes;  // shared by the tiles of one launch: the last argument of the step, in the arena
  int64_t scratch_bytes;  // of one thread
  // What does the same where the library is there, and is preferred; NULL: nothing.
  const ptc_plan_gemm_t *gemm;
  double flops;
  int64_t min_bytes;
  const char *hash;  // of the source, hexadecimal
  int32_t line;      // in the text that it was read from, 0: none
} ptc_plan_kernel_t;

// A group is the ranks that differ in the coordinates of some axes alone; its members are numbered in row-major
// order of the axes as they are listed. 16-bit values are added in f32 and rounded once.
//         id              text              what
#define PTC_COLLECTIVES(X)                                                                      \
  X(ALL_REDUCE, "all_reduce")         /* out = ((in of member 0 + in of 1) + in of 2) + ... */  \
  X(REDUCE_SCATTER, "reduce_scatter") /* out = that sum of the piece that is this member's */   \
  X(ALL_GATHER, "all_gather")         /* piece g of out = in of member g */                     \
  X(ALL_TO_ALL, "all_to_all")         /* piece g of out = the piece of member g that is mine */ \
  X(RING_SHIFT, "ring_shift")         /* out = in of the member before, the last one's first */

typedef enum ptc_collective_kind_e {
#define PTC_COLLECTIVE(id, text) PTC_COLLECTIVE_##id,
  PTC_COLLECTIVES(PTC_COLLECTIVE)
#undef PTC_COLLECTIVE
      PTC_NUM_COLLECTIVES
} ptc_collective_kind_t;

// How an array is cut into one piece per member: |outer| rows of |row| bytes; of each, member g's piece is the
// |chunk| bytes from g * chunk on. A row may be shorter than all chunks together: the last pieces are then cut off,
// and what is cut off is neither sent nor written. The chunks of a piece in order, one after another and as if
// none were cut off, are its stream; what goes from one array to another keeps its place in the stream.
typedef struct ptc_pieces_s {
  int64_t outer, chunk, row;
} ptc_pieces_t;

// One operand and one result of a collective: args[2 p] and args[2 p + 1] of its step are part p's.
typedef struct ptc_collective_part_s {
  ptc_pieces_t
      in;  // REDUCE_SCATTER, ALL_TO_ALL; else one row, which is everybody's: {1, bytes, bytes}
  ptc_pieces_t out;  // ALL_GATHER, ALL_TO_ALL; else one row
} ptc_collective_part_t;

// What every member of a group calls together. The parts are exchanged as one.
typedef struct ptc_collective_s {
  ptc_collective_kind_t kind;
  ptc_reduce_kind_t reduce;  // ALL_REDUCE, REDUCE_SCATTER
  ptc_dtype_t dtype;
  int32_t num_axes, num_parts;
  const ptc_axis_ref_t *axes;  // outermost first; names those of plan->mesh
  ptc_collective_part_t *parts;
  const char *loc_file;  // where the first of them comes from in the .ptm; NULL: nowhere
  int32_t loc_line;
} ptc_collective_t;

typedef enum ptc_step_kind_e {
  PTC_STEP_LAUNCH,
  PTC_STEP_COPY,        // args[1] = args[0]
  PTC_STEP_REPEAT,      // body, count times; turns 0.., or count - 1 down to 0 if reverse
  PTC_STEP_COLLECTIVE,  // args: per part its operand and its result, which may be one in an ALL_REDUCE
  PTC_STEP_CALL,        // all steps of task |task|, for micro-batch |micro| and |slot|
  PTC_STEP_SEND,        // args[0] to the same rank of stage |peer|, by |tag|
  PTC_STEP_RECV,        // args[0] from there
} ptc_step_kind_t;

// Streams and events. The steps are launched in the order of the text, all turns unrolled. A stream runs its steps in
// that order; steps of different streams run at the same time, unless events say otherwise: a step that waits for an
// event begins when the latest step launched before it that records the event is done (if there is none: at once). A
// task begins with nothing under way and ends when all streams are done. To run all steps one after another in the order
// of launching is always right.
//
// A step in the body of a repeat may be launched |ahead| turns early (late, where negative): with the turn k it runs for
// turn k + ahead, before turn 0 and after the last turn it runs alone (ptc_repeat_trips).
typedef struct ptc_step_s ptc_step_t;
struct ptc_step_s {
  ptc_step_kind_t kind;
  int32_t kernel;  // LAUNCH
  int32_t num_args;
  ptc_ref_t *args;  // LAUNCH: the kernel's parameters, then its workspace if it has one
  int64_t count;    // REPEAT
  bool reverse;
  ptc_step_t *body;
  int32_t num_steps;
  const ptc_collective_t *collective;  // COLLECTIVE
  int32_t task;                        // CALL: one of an earlier number
  int64_t micro, slot;                 // CALL
  int32_t peer, tag;                   // SEND, RECV
  // LAUNCH, COPY, COLLECTIVE, SEND, RECV:
  int32_t stream;  // 0: computing; 1, ...: one per communicator
  int32_t ahead;   // in a repeat
  int32_t record;  // the event that it records, 1, 2, ..., 0: none
  int32_t num_waits;
  const int32_t *waits;  // events
  int32_t line;          // in the text that it was read from, 0: none
};

// A named result of a task.
typedef struct ptc_plan_result_s {
  const char *name,
      *role;  // role: "loss", "metric", "output", "value", "grad" (name: the parameter's path)
  int32_t buffer;
  int64_t first_instance, num_instances;
  int32_t line;  // in the text that it was read from, 0: none
} ptc_plan_result_t;

// What a task owes: stated from the ops that it was lowered from, before anything is placed, so that the steps can be
// checked against it whoever changed them. A digest names a value by how it is made: kernels, turns, operands.
typedef struct ptc_launches_s {
  int32_t kernel;
  int64_t count;  // in all turns
} ptc_launches_t;

typedef struct ptc_made_s {
  bool is_result;
  int32_t number;   // of the global or the result
  uint64_t digest;  // of all its instances, when the task ends
} ptc_made_t;

typedef struct ptc_ledger_s {
  // Of the task itself, without those that it calls: by kernel; operands of collectives; sends and receives.
  int32_t num_launches;
  ptc_launches_t *launches;
  int64_t num_exchanged, num_transfers;
  // With those that it calls: globals that it changes, results; all that it sends. Of a part: none.
  int32_t num_made;
  ptc_made_t *made;
  uint64_t sent;
  int32_t line;  // in the text that it was read from, 0: none
} ptc_ledger_t;

typedef struct ptc_task_s {
  const char *name;  // "init", "train", "eval"; parts of them that are called: "train.f"
  // A part, which runs for one micro-batch at a time: two levels come after the axes, that of the micro-batch, below
  // |num_micro|, and that of the slot which is free for it, below |num_slots|. 0: no part.
  int64_t num_micro, num_slots;
  ptc_step_t *steps;
  int32_t num_steps;
  int32_t num_results;
  ptc_plan_result_t *results;
  ptc_ledger_t *ledger;  // NULL: nothing is stated
} ptc_task_t;

// A tensor (or bundle) of the module that outlives a step.
typedef struct ptc_plan_global_s {
  const char *kind;  // "input", "param", "moment", "counter", "setting"
  const char *path;  // "block.*.attn.wq"
  int32_t buffer;    // its instances in order of turns
  int64_t first_instance;
  int32_t num_counts;
  int64_t counts[PTC_MAX_COUNTS], first[PTC_MAX_COUNTS], step[PTC_MAX_COUNTS];  // as in ir/module.h
  // input
  const char *source;  // NULL: drawn anew each step from dist
  int64_t offset, range;
  int32_t batch_dim;  // position of the dim that counts samples, -1: none
  bool ignorable;     // targets: negative values are ignored, and fill up a short batch
  const char *dist;
  double a, b;
  double value;  // counter, setting: initial
  int32_t line;  // in the text that it was read from, 0: none
} ptc_plan_global_t;

typedef struct ptc_plan_setting_s {
  const char *name, *value,
      *origin;         // "train.lr", "0.0006", "gpt2.ptm:47" | "command line" | "default"
  bool open;           // may be changed by `ptc run --set`
  const char *global;  // path of the setting that it sets, or NULL
  int32_t line;        // in the text that it was read from, 0: none
} ptc_plan_setting_t;

typedef struct ptc_plan_s {
  ptc_arena_t arena;
  const char *model;   // name
  const char *target;  // "cpu" | "cpu:x86-64-v3"
  const char *compiler_flags;
  ptc_mesh_t mesh;  // the axes of devices, outermost first; none: one rank
  // A pipeline has a plan for each stage: this one's ranks have the coordinate |stage| on the axis "pp", which is the
  // outermost. Else 0 of 1.
  int32_t stage, num_stages;
  int64_t arena_bytes;  // exactly what the run of one rank allocates; -1 before memory_plan
  int64_t bound_bytes;  // the largest sum of live buffers: no plan can be smaller
  int64_t batch, seq;   // sequences and positions of a step (0: the model has no such dim)
  double flops_per_step;
  int32_t num_kernels, num_buffers, num_tasks, num_globals, num_settings;
  ptc_plan_kernel_t *kernels;
  ptc_buffer_t *buffers;
  ptc_task_t *tasks;
  ptc_plan_global_t *globals;
  ptc_plan_setting_t *settings;
  const char *json_file, *steps_file;  // where it was read from, or NULL
} ptc_plan_t;

const char *ptc_buffer_class_name(ptc_buffer_class_t cls);    // "input", "param", ...
const char *ptc_collective_name(ptc_collective_kind_t kind);  // "all_reduce", ...

// "sm_90a", "compute_80": a target of NVRTC; else it is a CPU.
bool ptc_plan_target_is_cuda(const char *target);

// Empty, and not placed: arena_bytes is -1.
ptc_plan_t *ptc_plan_create(void);
void ptc_plan_destroy(ptc_plan_t *plan);  // NULL is allowed
const ptc_task_t *ptc_plan_find_task(const ptc_plan_t *plan, const char *name);
const ptc_plan_global_t *ptc_plan_find_global(const ptc_plan_t *plan, const char *path);
// The parameter whose gradient result |result| of |task| is. Where a path has several globals, one for each
// run of turns, their gradients come in the same order. NULL: the result is no gradient.
const ptc_plan_global_t *ptc_plan_grad_of(const ptc_plan_t *plan, const ptc_task_t *task,
                                          int32_t result);
int64_t ptc_affine_at(const ptc_affine_t *affine, const int64_t *turns);

// --- the order of launching

// The trips of a repeat, from |*out_first| up to |*out_end|, which is left out: its turns, and those before and after them
// in which steps run ahead or late alone.
void ptc_repeat_trips(const ptc_step_t *repeat, int64_t *out_first, int64_t *out_end);
// Whether |step| of the body runs in trip |trip|, and for which turn. With |repeat| NULL (no repeat) it does, and
// |*out_turn| stays.
bool ptc_repeat_turn(const ptc_step_t *repeat, const ptc_step_t *step, int64_t trip,
                     int64_t *out_turn);
// One more than the largest number of a stream; of an event: the number of events.
int32_t ptc_plan_num_streams(const ptc_plan_t *plan);
int32_t ptc_plan_num_events(const ptc_plan_t *plan);

// --- ranks

// The number of ranks: the product of the axes, 1 without any.
int64_t ptc_plan_world(const ptc_plan_t *plan);
// One coordinate per axis of |mesh|.
void ptc_mesh_coords(const ptc_mesh_t *mesh, int64_t rank, int64_t *out_coords);
int64_t ptc_mesh_rank(const ptc_mesh_t *mesh, const int64_t *coords);
// The number of members of the group over |axes|.
int64_t ptc_group_size(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes);
// The rank that is member |member| of the group over |axes| that |rank| is of.
int64_t ptc_group_rank(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes,
                       int64_t rank, int64_t member);
// Which member of that group |rank| is.
int64_t ptc_group_member(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes,
                         int64_t rank);
// Whether |rank|, of the plan's stage, is the one that speaks for the bytes of |buffer| that it holds: of all ranks of
// the stage with the same part, the one of the lowest coordinates.
bool ptc_plan_is_owner(const ptc_plan_t *plan, const ptc_buffer_t *buffer, int64_t rank);
// Bytes that |rank| reads from its peers in one step. In an ALL_REDUCE of n elements over N members, for each part,
// member g sums the g-th ceil(n / N) of them and reads the sums of the others.
int64_t ptc_collective_bytes(const ptc_mesh_t *mesh, const ptc_collective_t *collective,
                             int64_t rank);

// The path of instance |i| of a global, "block.7.attn.wq".
void ptc_plan_instance_path(const ptc_plan_global_t *global, int64_t i, ptc_str_t *out);

// Where the files of a plan folder lie in it.
#define PTC_PLAN_JSON "plan.json"
#define PTC_PLAN_STEPS "stage0.steps"

// Writes plan.json and stage0.steps (of a later stage: stage1.json and stage1.steps) into |folder|, which exists. The text is canonical: what was read is
// written back byte for byte. PTC_IO with "write-plan" if a file cannot be written.
ptc_status_t ptc_plan_write(ptc_diag_t *diag, const ptc_plan_t *plan, const char *folder);

// Reads a plan folder and checks it (ptc_plan_check): any content is allowed. Errors name the file and the
// line: "read-plan" (PTC_IO), "plan-version" (compile again), "plan-json", "plan-text", "plan-number", "plan-name", "plan-limit" and those of
// ptc_plan_check (PTC_INVALID_INPUT). |out_plan| is NULL on error; the caller destroys it.
ptc_status_t ptc_plan_read(ptc_diag_t *diag, const char *folder, ptc_plan_t **out_plan);

// The same of a stage of a pipeline.
ptc_status_t ptc_plan_read_stage(ptc_diag_t *diag, const char *folder, int32_t stage,
                                 ptc_plan_t **out_plan);

// The same in memory. The names of the files are for diagnostics.
void ptc_plan_print(const ptc_plan_t *plan, ptc_str_t *out_json, ptc_str_t *out_steps);
ptc_status_t ptc_plan_parse(ptc_diag_t *diag, const char *json_file, const char *json,
                            size_t json_len, const char *steps_file, const char *steps,
                            size_t steps_len, ptc_plan_t **out_plan);

// What a run relies on, whatever the plan's origin: every part of a buffer that a step names lies inside the
// buffer in every turn, every buffer inside the arena and aligned; kernels get as many arguments as they have
// parameters, of the bytes that they access; what a launch writes overlaps neither its other results nor (but
// for a result in place) its operands. Errors: "plan-kernel", "plan-buffer", "plan-ref", "plan-overlap",
// "plan-task", "plan-order", "plan-global", "plan-setting", "plan-limit", and of many ranks "plan-mesh", "plan-layout",
// "plan-collective": axes are the mesh's, each rank's part has the extents that its buffer has, what the members of
// a group exchange has one size.
ptc_status_t ptc_plan_check(ptc_diag_t *diag, const ptc_plan_t *plan);

// The mesh alone: names, sizes, the number of ranks.
ptc_status_t ptc_plan_check_mesh(ptc_diag_t *diag, const ptc_plan_t *plan);

// Proves that the ranks of a plan meet: |stages| are the plans of all stages, in order (one without a pipeline), each
// accepted by ptc_plan_check. Replays what the stages send, receive and reduce together, where a send waits for its
// receive; ranks of one stage run one program, so that one of each stage stands for all. Errors, each with the steps
// that wait for each other: "plan-stages" (the stages are not of one plan), "plan-transfer" (a message of two sizes, or a
// collective that members see differently), "plan-deadlock" (somebody waits forever), "plan-limit".
ptc_status_t ptc_plan_verify_stages(ptc_diag_t *diag, const ptc_plan_t *const *stages,
                                    int32_t num_stages);

// Proves a placed plan that ptc_plan_check accepts, apart from whoever placed it: replays every task, all
// turns, and checks that each read, and at the end each global and result, finds the bytes that were last
// written to its instance; and that each task does what its ledger states, no more and no less. Errors:
// "plan-uninitialized", "plan-overwritten", "plan-stale", "plan-calls", "plan-ledger" (PTC_INVALID_INPUT), "plan-limit".
ptc_status_t ptc_plan_verify(ptc_diag_t *diag, const ptc_plan_t *plan);

// Proves of a placed plan that ptc_plan_check accepts that its events order all that must be: of two steps that touch the
// same bytes, one of which writes them, the later one begins when the earlier one is done. What is touched is taken over
// all ranks at once. Errors: "plan-race" (two steps, and what they touch), "plan-event" (nothing records it), "plan-limit".
ptc_status_t ptc_plan_verify_order(ptc_diag_t *diag, const ptc_plan_t *plan);

// All three for the stages of a whole plan: first that they meet, then each.
ptc_status_t ptc_plan_prove(ptc_diag_t *diag, const ptc_plan_t *const *stages, int32_t num_stages);

// Completes the ledger of each task that has one: the digests of what it makes, by a replay apart from memory. Before
// ptc_plan_memory. Errors are those of ptc_plan_verify.
ptc_status_t ptc_plan_state_values(ptc_diag_t *diag, ptc_plan_t *plan);

#endif  // PTC_IR_PLAN_H_

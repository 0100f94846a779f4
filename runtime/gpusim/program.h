// A kernel made ready to run: calls inlined, branches with the place where their lanes meet again, registers
// on slots, every instruction decoded to what executes it.
//
// Registers: a slot holds the 32 lanes of one register, side by side (64, 128 or 256 bytes); a predicate is
// one word. Slots are shared by registers that are never alive together. Operands are byte offsets into a
// warp's registers, or, complemented, into the program's constants, which are stored as 32 equal lanes.
#ifndef PTC_RUNTIME_GPUSIM_PROGRAM_H_
#define PTC_RUNTIME_GPUSIM_PROGRAM_H_

#include "runtime/gpusim/ptx.h"

enum { SIM_LANES = 32, SIM_MAX_THREADS = 1024, SIM_MAX_WARPS = SIM_MAX_THREADS / SIM_LANES };

typedef struct sim_op_s sim_op_t;
typedef struct sim_warp_s sim_warp_t;

// Computes all 32 lanes from operands of one width each; |d| may be one of the operands.
typedef void (*sim_alu_fn_t)(void *d, const void *a, const void *b, const void *c);
// The lanes where the relation holds.
typedef uint32_t (*sim_compare_fn_t)(const void *a, const void *b);
// Executes |op| for the lanes of |mask|, which is not empty.
typedef void (*sim_handler_fn_t)(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

typedef enum sim_kind_e {
  SIM_ALU,
  SIM_COMPARE,
  SIM_SELECT,   // dst = predicate c ? a : b
  SIM_HANDLER,  // anything else that neither branches nor waits
  SIM_BRANCH,
  SIM_EXIT,
  SIM_BARRIER,
} sim_kind_t;

typedef enum sim_class_e {
#define SIM_CLASS(id, name) SIM_CLASS_##id,
#include "runtime/gpusim/classes.def"
#undef SIM_CLASS
  SIM_NUM_CLASSES
} sim_class_t;

struct sim_op_s {
  sim_kind_t kind;
  sim_class_t class;
  ptx_width_t width;  // of the destination
  int32_t guard;      // offset of a predicate, or -1
  bool guard_negated;
  int32_t dst, a, b, c;
  union {
    sim_alu_fn_t alu;
    sim_compare_fn_t compare;
    sim_handler_fn_t handler;
  } fn;
  const void *extra;  // of the handler
  int32_t target, meet;
  int32_t line, cuda_line;
  const char *cuda_file;
  const char *opcode;
  int32_t flops;  // of one lane
};

typedef struct sim_special_s {
  const char *name;
  int32_t offset;
} sim_special_t;

typedef struct sim_param_s {
  int64_t offset, bytes;
} sim_param_t;

typedef struct sim_program_s {
  ptc_arena_t arena;
  const char *name;
  sim_op_t *ops;
  int32_t num_ops;
  unsigned char *constants;
  int64_t constant_bytes, reg_bytes;
  sim_special_t *specials;
  int32_t num_specials;
  int64_t param_bytes, local_bytes, shared_bytes;
  int32_t max_threads;
  sim_param_t *params;
  int32_t num_params;
} sim_program_t;

// Where a variable of the module lies: an address for .global and .const, an offset for .shared.
typedef struct sim_placed_s {
  const ptx_variable_t *variable;
  uint64_t address;
} sim_placed_t;

// Prepares the entry |func|. Diagnostics: "ptx-unknown" (PTC_UNSUPPORTED) names an instruction that is not
// supported, with its line; "ptx-syntax". Release |out_program| in any case.
ptc_status_t sim_program_create(ptc_diag_t *diag, const ptx_module_t *module,
                                const ptx_func_t *func, const sim_placed_t *placed,
                                int32_t num_placed, sim_program_t *out_program);
void sim_program_deinit(sim_program_t *program);

#endif  // PTC_RUNTIME_GPUSIM_PROGRAM_H_

// PTX text as data: what the parser reads out of it, before anything is decided about how to run it.
//
// Only what NVRTC writes is read: entries and functions with registers, variables in the .param, .local,
// .shared, .global and .const spaces, labels, instructions. Debug sections are skipped; `.loc` gives each
// instruction its line in the CUDA source.
#ifndef PTC_RUNTIME_GPUSIM_PTX_H_
#define PTC_RUNTIME_GPUSIM_PTX_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/vec.h"

enum { PTX_MAX_PARTS = 16, PTX_MAX_OPERANDS = 8, PTX_MAX_ELEMENTS = 16 };

typedef enum ptx_space_e {
  PTX_SPACE_NONE,  // generic
  PTX_SPACE_PARAM,
  PTX_SPACE_LOCAL,
  PTX_SPACE_SHARED,
  PTX_SPACE_GLOBAL,
  PTX_SPACE_CONST,
} ptx_space_t;

// A register's storage: one value per lane, predicates as a mask.
typedef enum ptx_width_e { PTX_WIDTH_PRED, PTX_WIDTH_16, PTX_WIDTH_32, PTX_WIDTH_64 } ptx_width_t;

typedef struct ptx_reg_s {
  ptx_width_t width;
  const char *special;  // "%tid.x"; NULL: an ordinary register
} ptx_reg_t;

typedef struct ptx_variable_s {
  const char *name;
  ptx_space_t space;
  int64_t bytes, align;
  bool is_extern;             // of dynamic shared memory
  const unsigned char *init;  // |bytes| of them, or NULL: zeros
} ptx_variable_t;

typedef enum ptx_operand_kind_e {
  PTX_REG,      // a register; reg < 0 is the sink `_`
  PTX_IMM,      // bits in |imm|
  PTX_SYMBOL,   // a variable's address, a label or a function, as the instruction demands
  PTX_ADDRESS,  // [register or symbol or nothing + offset]
  PTX_LIST,     // {a, b}, d|p, or the arguments of a call: |elements|
} ptx_operand_kind_t;

typedef struct ptx_operand_s ptx_operand_t;
struct ptx_operand_s {
  ptx_operand_kind_t kind;
  int32_t reg;  // PTX_REG; PTX_ADDRESS: -1 without a register
  bool negated;
  char float_kind;  // of PTX_IMM: 'f' or 'd' for 0f and 0d bits, 0 for an integer
  uint64_t imm;     // PTX_ADDRESS: the offset
  const char *symbol;
  ptx_space_t space;               // of the variable, once it has a place
  const ptx_variable_t *variable;  // that |symbol| names, or NULL
  const ptx_operand_t *elements;
  int32_t num_elements;
};

typedef struct ptx_inst_s {
  const char *opcode;                // whole: "ld.global.v4.f32"
  const char *parts[PTX_MAX_PARTS];  // "ld", "global", "v4", "f32"
  int32_t num_parts;
  int32_t guard;  // a predicate register, or -1
  bool guard_negated;
  ptx_operand_t operands[PTX_MAX_OPERANDS];
  int32_t num_operands;
  int32_t target;  // of bra: an index of an instruction
  int32_t line;    // of the PTX text
  int32_t cuda_line, cuda_file;
} ptx_inst_t;

typedef struct ptx_label_s {
  const char *name;
  int32_t at;  // index of the instruction that follows
} ptx_label_t;

typedef struct ptx_func_s {
  const char *name;
  bool is_entry, has_body;
  int32_t max_threads;  // of .maxntid; 0: not said
  const ptx_variable_t **params;
  const ptx_variable_t **results;
  int32_t num_params, num_results;
  PTC_VEC(ptx_reg_t) regs;
  PTC_VEC(ptx_inst_t) insts;
  PTC_VEC(ptx_label_t) labels;
} ptx_func_t;

typedef struct ptx_module_s {
  ptc_arena_t arena;
  const char *name;  // for messages
  PTC_VEC(ptx_func_t *) funcs;
  PTC_VEC(const ptx_variable_t *) globals;  // .global, .const and .shared at module level
  PTC_VEC(const char *) files;              // by number; NULL where none is
} ptx_module_t;

// Reads |text|. Diagnostics: "ptx-syntax" (PTC_INVALID_INPUT) with the PTX line. Release |out_module| in any
// case.
ptc_status_t ptx_parse(ptc_diag_t *diag, const char *name, const char *text,
                       ptx_module_t *out_module);
void ptx_module_deinit(ptx_module_t *module);
// NULL if there is none with a body.
ptx_func_t *ptx_module_find(const ptx_module_t *module, const char *name);

#endif  // PTC_RUNTIME_GPUSIM_PTX_H_

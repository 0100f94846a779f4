// A kernel as one list of instructions, before they are decoded.
#ifndef PTC_RUNTIME_GPUSIM_FLAT_IMPL_H_
#define PTC_RUNTIME_GPUSIM_FLAT_IMPL_H_

#include "runtime/gpusim/program.h"

typedef struct flat_s {
  ptc_diag_t *diag;
  const ptx_module_t *module;
  sim_program_t *program;
  const sim_placed_t *placed;
  int32_t num_placed;
  PTC_VEC(ptx_inst_t) insts;     // the last one is an exit
  PTC_VEC(ptx_reg_t) regs;       // register 0 is the carry flag
  PTC_VEC(sim_placed_t) shared;  // variables of functions
  int32_t *meet;                 // per instruction: where diverging lanes meet again
  int32_t *offsets;              // per register: its place among a warp's registers
  int32_t depth;
} flat_t;

enum { FLAT_CARRY = 0 };

// Inlines all calls; operands then hold registers of |flat|, addresses and offsets, no variables.
ptc_status_t flat_inline(flat_t *flat, const ptx_func_t *func);
// Finds meet, from the immediate postdominators of the branches.
void flat_find_meets(flat_t *flat);
// Finds offsets; sets the program's reg_bytes and specials.
void flat_place_regs(flat_t *flat);
void flat_deinit(flat_t *flat);

// Whether |part| is one of the opcode's parts after the first.
bool ptx_has_part(const ptx_inst_t *inst, const char *part);
// Whether operand 0 of |inst| is a destination.
bool ptx_has_destination(const ptx_inst_t *inst);

// Basic blocks.
typedef struct flat_block_s {
  int32_t first, last;  // instructions
  int32_t next[2];      // blocks, or -1
} flat_block_t;

typedef struct flat_blocks_s {
  flat_block_t *blocks;
  int32_t num_blocks;
} flat_blocks_t;

// In |arena|.
flat_blocks_t flat_find_blocks(const flat_t *flat, ptc_arena_t *arena);
// Whether control never goes on to the next instruction.
bool flat_ends(const ptx_inst_t *inst);

// Decodes all instructions into the program's ops and constants.
ptc_status_t flat_decode(flat_t *flat);

#endif  // PTC_RUNTIME_GPUSIM_FLAT_IMPL_H_

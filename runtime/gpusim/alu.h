// Arithmetic on all 32 lanes at once: one row per instruction form.
#ifndef PTC_RUNTIME_GPUSIM_ALU_H_
#define PTC_RUNTIME_GPUSIM_ALU_H_

#include "runtime/gpusim/program.h"

typedef struct sim_alu_row_s {
  const char *opcode;  // "add.rn.f32"
  sim_alu_fn_t fn;
  int8_t num_sources;
  uint8_t width, sources[3];  // ptx_width_t
  uint8_t class;              // sim_class_t
  uint8_t flops;
} sim_alu_row_t;

typedef struct sim_compare_row_s {
  const char *name;  // "lt.ftz.f32"
  sim_compare_fn_t fn;
  uint8_t source;  // ptx_width_t
} sim_compare_row_t;

extern const sim_alu_row_t sim_alu_int_rows[], sim_alu_float_rows[], sim_alu_move_rows[];
extern const int32_t sim_num_alu_int_rows, sim_num_alu_float_rows, sim_num_alu_move_rows;
extern const sim_compare_row_t sim_compare_rows[];
extern const int32_t sim_num_compare_rows;

// NULL if no row has that name.
const sim_alu_row_t *sim_alu_find(const char *opcode);
const sim_compare_row_t *sim_compare_find(const char *name);

#endif  // PTC_RUNTIME_GPUSIM_ALU_H_

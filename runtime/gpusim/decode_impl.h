// Decoding: one instruction at a time to an op. Shared by the files decode*.c.
#ifndef PTC_RUNTIME_GPUSIM_DECODE_IMPL_H_
#define PTC_RUNTIME_GPUSIM_DECODE_IMPL_H_

#include <string.h>

#include "runtime/gpusim/flat_impl.h"
#include "runtime/gpusim/handlers_impl.h"

typedef struct decoder_s {
  flat_t *flat;
  const ptx_inst_t *inst;
  sim_op_t *op;
  PTC_VEC(unsigned char) constants;
  int32_t *table;  // of constants by hash; 0: empty
  int32_t table_size;
} decoder_t;

enum { NO_OPERAND = -1 };  // points to zeros

ptc_status_t decode_unknown(const decoder_t *decoder, const char *why);
// Zeroed memory that lives as long as the program.
void *decode_extra(const decoder_t *decoder, size_t bytes);
#define DECODE_EXTRA(decoder, type) ((type *)decode_extra((decoder), sizeof(type)))

// Operand |index| as a source of |width|: an offset. Fails if it is missing or of another width.
ptc_status_t decode_source(decoder_t *decoder, int32_t index, ptx_width_t width, int32_t *out);
ptc_status_t decode_source_operand(decoder_t *decoder, const ptx_operand_t *operand,
                                   ptx_width_t width, int32_t *out);
// Operand |index| as a register to be written; |width| is checked.
ptc_status_t decode_dest(decoder_t *decoder, int32_t index, ptx_width_t width, int32_t *out);
// Operand |index|, a register of any width.
ptc_status_t decode_register(decoder_t *decoder, const ptx_operand_t *operand,
                             ptx_width_t *out_width, int32_t *out);
// A source of any width: a register's own, or |otherwise| for a number.
ptc_status_t decode_any(decoder_t *decoder, const ptx_operand_t *operand, ptx_width_t otherwise,
                        ptx_width_t *out_width, int32_t *out);
// An address operand: its register and width, or zeros; the offset.
ptc_status_t decode_address(decoder_t *decoder, int32_t index, int32_t *out, ptx_width_t *out_width,
                            int64_t *out_offset);
const ptx_operand_t *decode_operand(const decoder_t *decoder,
                                    int32_t index);  // NULL: there is none
bool decode_is(const decoder_t *decoder, const char *mnemonic);
bool decode_has(const decoder_t *decoder, const char *part);
const char *decode_part(const decoder_t *decoder, int32_t index);  // "" if there is none
const char *decode_last(const decoder_t *decoder);
void decode_handler(decoder_t *decoder, sim_handler_fn_t fn, sim_class_t class, const void *extra);
// Of ".u32" without the dot. False for other types.
bool decode_width(const char *type, ptx_width_t *out);

// Each decodes the instruction if it is one of its own; else *out_done stays false.
ptc_status_t decode_memory(decoder_t *decoder, bool *out_done);
ptc_status_t decode_across(decoder_t *decoder, bool *out_done);
ptc_status_t decode_control(decoder_t *decoder, bool *out_done);
ptc_status_t decode_arithmetic(decoder_t *decoder, bool *out_done);

#endif  // PTC_RUNTIME_GPUSIM_DECODE_IMPL_H_

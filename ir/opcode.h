// The opcodes alone, for layers that need no more.
#ifndef PTC_IR_OPCODE_H_
#define PTC_IR_OPCODE_H_

typedef enum ptc_opcode_e {
#define PTC_OP(id, ...) PTC_OP_##id,
#include "ir/ops.def"
#undef PTC_OP
  PTC_NUM_OPS
} ptc_opcode_t;

#endif  // PTC_IR_OPCODE_H_

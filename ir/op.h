// Facts about opcodes, from the columns of ir/ops.def that belong to ir.
#ifndef PTC_IR_OP_H_
#define PTC_IR_OP_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/module.h"
#include "ir/opcode.h"

typedef enum ptc_trait_e {
  PTC_TRAIT_PURE = 1 << 0,
  PTC_TRAIT_EWISE = 1 << 1,
  PTC_TRAIT_COMMUTES = 1 << 2,
  PTC_TRAIT_NODIFF = 1 << 3,
  PTC_TRAIT_TERMINATOR = 1 << 4,
  PTC_TRAIT_HAS_BODY = 1 << 5,
  PTC_TRAIT_RANDOM = 1 << 6,
  PTC_TRAIT_VIEW = 1 << 7,
  PTC_TRAIT_COLLECTIVE = 1 << 8,
  PTC_TRAIT_COSTLY = 1 << 9,
  PTC_TRAIT_TRANSFER = 1 << 10,
} ptc_trait_t;

// Infers the types of |op|'s results from its operands and attributes, and checks the op's
// constraints. |out_types| has room for op->num_results. Emits a diagnostic with the constraint's
// label as id ("einsum-c1") and returns PTC_INVALID_INPUT if a constraint is violated.
typedef ptc_status_t (*ptc_shape_fn_t)(ptc_module_t *module, const ptc_op_t *op,
                                       const ptc_type_t **out_types);

typedef struct ptc_op_info_s {
  const char *mnemonic;
  int32_t min_operands, max_operands, num_results;  // -1: any
  uint32_t traits;
  const char *linear, *rule, *attrs;
  ptc_shape_fn_t shape;
} ptc_op_info_t;

const ptc_op_info_t *ptc_op_info(ptc_opcode_t opcode);
bool ptc_op_has_trait(const ptc_op_t *op, ptc_trait_t trait);
// False if there is no op of that name.
bool ptc_opcode_parse(const char *mnemonic, ptc_opcode_t *out_opcode);

// One entry of the attrs column; iterate with |cursor| starting at 0. False at the end.
typedef struct ptc_attr_spec_s {
  char name[32];
  ptc_attr_kind_t kind;
  bool optional;
} ptc_attr_spec_t;
bool ptc_op_next_attr_spec(ptc_opcode_t opcode, int32_t *cursor, ptc_attr_spec_t *out_spec);

// The kind of an attribute that any op may have, since it says how the op is executed: kernel:i, inline:b
// (passes/build_kernels.h). False for other names.
bool ptc_op_execution_attr(const char *name, ptc_attr_kind_t *out_kind);

// Shorthands for op attributes.
int64_t ptc_op_int(const ptc_op_t *op, const char *name);         // 0 if absent
double ptc_op_float(const ptc_op_t *op, const char *name);        // 0 if absent
bool ptc_op_bool(const ptc_op_t *op, const char *name);           // false if absent
const char *ptc_op_string(const ptc_op_t *op, const char *name);  // NULL if absent; also DIM
const ptc_attr_t *ptc_op_attr(const ptc_op_t *op, const char *name);
// Whether the DIMS attribute |name| holds |dim| (interned).
bool ptc_op_dims_contain(const ptc_op_t *op, const char *name, const char *dim);
// Whether the op table's rule marks dim |name| with '!': an attribute that names dims that must be whole on a device.
bool ptc_op_needs_whole(const ptc_op_t *op, const char *name);

// Where the optional operands of attention and attention_grad lie; -1 if absent.
typedef struct ptc_attention_operands_s {
  int32_t q, key, val, mask, bias, out, lse, dout, seed;  // seed, step, turns follow one another
} ptc_attention_operands_t;
ptc_attention_operands_t ptc_attention_operands(const ptc_op_t *op);

#endif  // PTC_IR_OP_H_

#include "ir/op.h"

#include <string.h>

#include "ir/shape_impl.h"

#define PURE PTC_TRAIT_PURE
#define TRANSFER PTC_TRAIT_TRANSFER
#define EWISE PTC_TRAIT_EWISE
#define COMMUTES PTC_TRAIT_COMMUTES
#define NODIFF PTC_TRAIT_NODIFF
#define TERMINATOR PTC_TRAIT_TERMINATOR
#define HAS_BODY PTC_TRAIT_HAS_BODY
#define RANDOM PTC_TRAIT_RANDOM
#define VIEW PTC_TRAIT_VIEW
#define COLLECTIVE PTC_TRAIT_COLLECTIVE
#define COSTLY PTC_TRAIT_COSTLY

static const ptc_op_info_t op_infos[PTC_NUM_OPS] = {
#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, interp, \
               grad, cost)                                                                        \
  {mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, ptc_shape_##shape},
#include "ir/ops.def"
#undef PTC_OP
};

const ptc_op_info_t *ptc_op_info(ptc_opcode_t opcode) { return &op_infos[opcode]; }

bool ptc_op_has_trait(const ptc_op_t *op, ptc_trait_t trait) {
  return (op_infos[op->opcode].traits & trait) != 0;
}

bool ptc_opcode_parse(const char *mnemonic, ptc_opcode_t *out_opcode) {
  for (int i = 0; i < PTC_NUM_OPS; i++) {
    const char *name = op_infos[i].mnemonic;
    if (name[0] != mnemonic[0] || strcmp(name, mnemonic) != 0) continue;
    *out_opcode = (ptc_opcode_t)i;
    return true;
  }
  return false;
}

static ptc_attr_kind_t kind_of_letter(char letter) {
  switch (letter) {
    case 'i': return PTC_ATTR_INT;
    case 'f': return PTC_ATTR_FLOAT;
    case 'b': return PTC_ATTR_BOOL;
    case 'd': return PTC_ATTR_DIM;
    case 'D': return PTC_ATTR_DIMS;
    case 'I': return PTC_ATTR_INTS;
    case 'F': return PTC_ATTR_FLOATS;
    default: return PTC_ATTR_STRING;
  }
}

bool ptc_op_next_attr_spec(ptc_opcode_t opcode, int32_t *cursor, ptc_attr_spec_t *out_spec) {
  const char *entry = op_infos[opcode].attrs + *cursor;
  while (*entry == ' ') entry++;
  if (!*entry) return false;
  size_t len = strcspn(entry, ":");
  if (len >= sizeof(out_spec->name)) len = sizeof(out_spec->name) - 1;
  *out_spec = (ptc_attr_spec_t){0};
  memcpy(out_spec->name, entry, len);
  entry += strcspn(entry, ":") + 1;
  out_spec->kind = kind_of_letter(*entry++);
  out_spec->optional = *entry == '?';
  if (*entry == '?') entry++;
  *cursor = (int32_t)(entry - op_infos[opcode].attrs);
  return true;
}

bool ptc_op_execution_attr(const char *name, ptc_attr_kind_t *out_kind) {
  *out_kind = strcmp(name, "kernel") == 0 ? PTC_ATTR_INT : PTC_ATTR_BOOL;
  return *out_kind == PTC_ATTR_INT || strcmp(name, "inline") == 0;
}

int64_t ptc_op_int(const ptc_op_t *op, const char *name) {
  return ptc_attrs_int(&op->attrs, name, 0);
}

double ptc_op_float(const ptc_op_t *op, const char *name) {
  return ptc_attrs_float(&op->attrs, name, 0);
}

bool ptc_op_bool(const ptc_op_t *op, const char *name) {
  return ptc_attrs_bool(&op->attrs, name, false);
}

const char *ptc_op_string(const ptc_op_t *op, const char *name) {
  return ptc_attrs_string(&op->attrs, name, NULL);
}

const ptc_attr_t *ptc_op_attr(const ptc_op_t *op, const char *name) {
  return ptc_attrs_find(&op->attrs, name);
}

bool ptc_op_dims_contain(const ptc_op_t *op, const char *name, const char *dim) {
  const ptc_attr_t *attr = ptc_op_attr(op, name);
  if (!attr || attr->kind != PTC_ATTR_DIMS) return false;
  for (int32_t i = 0; i < attr->count; i++)
    if (attr->u.dims[i] == dim) return true;
  return false;
}

bool ptc_op_needs_whole(const ptc_op_t *op, const char *name) {
  const char *rule = ptc_op_info(op->opcode)->rule;
  for (const char *at = strchr(rule, '!'); at; at = strchr(at + 1, '!')) {
    char attr_name[32];
    const size_t len = strcspn(at + 1, " ");
    if (len >= sizeof(attr_name)) continue;
    memcpy(attr_name, at + 1, len);
    attr_name[len] = '\0';
    const ptc_attr_t *attr = ptc_op_attr(op, attr_name);
    if (!attr) continue;
    const bool one = attr->kind == PTC_ATTR_DIM || attr->kind == PTC_ATTR_STRING;
    if (one ? attr->u.s == name : ptc_op_dims_contain(op, attr_name, name)) return true;
  }
  return false;
}

ptc_attention_operands_t ptc_attention_operands(const ptc_op_t *op) {
  bool grad = op->opcode == PTC_OP_ATTENTION_GRAD;
  int32_t next = 3;
  ptc_attention_operands_t at = {.q = 0, .key = 1, .val = 2};
  at.mask = ptc_op_bool(op, "mask") ? next++ : -1;
  at.bias = ptc_op_bool(op, "bias") ? next++ : -1;
  at.out = grad ? next++ : -1;
  at.lse = grad ? next++ : -1;
  at.dout = grad ? next++ : -1;
  at.seed = ptc_op_float(op, "p") > 0 ? next : -1;
  return at;
}

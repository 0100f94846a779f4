// Decoding of loads, stores, atomics, asynchronous copies, ldmatrix.
#include <stdlib.h>

#include "runtime/gpusim/decode_impl.h"

static bool read_space(const char *part, ptx_space_t *out) {
  static const struct {
    const char *name;
    ptx_space_t space;
  } spaces[] = {{"global", PTX_SPACE_GLOBAL},      {"shared", PTX_SPACE_SHARED},
                {"shared::cta", PTX_SPACE_SHARED}, {"local", PTX_SPACE_LOCAL},
                {"param", PTX_SPACE_PARAM},        {"param::entry", PTX_SPACE_PARAM},
                {"param::func", PTX_SPACE_PARAM},  {"const", PTX_SPACE_CONST}};
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; ++i)
    if (strcmp(spaces[i].name, part) == 0) {
      *out = spaces[i].space;
      return true;
    }
  return false;
}

// Modifiers that change nothing here: an access is done when its instruction is.
static bool changes_nothing(const char *part) {
  static const char *const names[] = {
      "volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "cta", "gpu", "sys",
      "nc",       "ca",      "cg",      "cs",      "lu",      "cv",   "wb",  "wt"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(names[i], part) == 0) return true;
  return strncmp(part, "L1::", 4) == 0 || strncmp(part, "L2::", 4) == 0;
}

static sim_class_t class_of(ptx_space_t space) {
  return space == PTX_SPACE_SHARED                              ? SIM_CLASS_SHARED
         : space == PTX_SPACE_LOCAL || space == PTX_SPACE_PARAM ? SIM_CLASS_LOCAL
                                                                : SIM_CLASS_GLOBAL;
}

// The registers or numbers of |operand|, one or as many as |access->count|.
static ptc_status_t read_elements(decoder_t *decoder, const ptx_operand_t *operand,
                                  sim_access_t *access, bool is_load) {
  if (!operand || (operand->kind == PTX_LIST ? operand->num_elements : 1) != access->count)
    return decode_unknown(decoder, "operands of another number");
  const ptx_width_t least = access->bytes == 8   ? PTX_WIDTH_64
                            : access->bytes == 4 ? PTX_WIDTH_32
                                                 : PTX_WIDTH_16;
  for (int32_t e = 0; e < access->count; ++e) {
    const ptx_operand_t *element = operand->kind == PTX_LIST ? &operand->elements[e] : operand;
    if (is_load && element->kind == PTX_REG && element->reg < 0) {
      access->skip[e] = true;
      continue;
    }
    if (is_load)
      PTC_TRY(decode_register(decoder, element, &access->widths[e], &access->regs[e]));
    else
      PTC_TRY(decode_any(decoder, element, least, &access->widths[e], &access->regs[e]));
    if (access->widths[e] < least)
      return decode_unknown(decoder, "a register smaller than its type");
  }
  return PTC_OK;
}

static ptc_status_t decode_access(decoder_t *decoder) {
  const bool is_load = decode_is(decoder, "ld");
  sim_access_t *access = DECODE_EXTRA(decoder, sim_access_t);
  access->count = 1;
  const int32_t last = decoder->inst->num_parts - 1;
  for (int32_t i = 1; i < last; ++i) {
    const char *part = decoder->inst->parts[i];
    if (strcmp(part, "v2") == 0 || strcmp(part, "v4") == 0)
      access->count = part[1] - '0';
    else if (!read_space(part, &access->space) && !changes_nothing(part))
      return decode_unknown(decoder, "");
  }
  static const struct {
    const char *name;
    int32_t bytes;
  } types[] = {{"b8", 1},  {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2}, {"s16", 2}, {"b32", 4},
               {"u32", 4}, {"s32", 4}, {"f32", 4}, {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (strcmp(types[i].name, decode_last(decoder)) == 0) access->bytes = types[i].bytes;
  if (!access->bytes || last < 1 || access->bytes * access->count > 16)
    return decode_unknown(decoder, "");
  access->is_signed = *decode_last(decoder) == 's';
  const int32_t at = is_load ? 1 : 0;
  PTC_TRY(decode_address(decoder, at, &decoder->op->a, &access->address_width, &access->offset));
  // Parameters of inlined functions have become local memory.
  const ptx_operand_t *address = decode_operand(decoder, at);
  if (address->symbol && access->space == PTX_SPACE_PARAM) access->space = address->space;
  PTC_TRY(read_elements(decoder, decode_operand(decoder, 1 - at), access, is_load));
  decode_handler(decoder, is_load ? sim_load : sim_store, class_of(access->space), access);
  return PTC_OK;
}

static bool read_atomic(const char *part, sim_atomic_t *out) {
  static const char *const names[] = {"add", "min",  "max", "and", "or",
                                      "xor", "exch", "cas", "inc", "dec"};
  for (int i = 0; i <= SIM_ATOMIC_DEC; ++i)
    if (strcmp(names[i], part) == 0) {
      *out = (sim_atomic_t)i;
      return true;
    }
  return false;
}

static bool atomic_exists(const sim_atomics_t *atomics) {
  const bool add = atomics->what == SIM_ATOMIC_ADD;
  switch (atomics->what) {
    case SIM_ATOMIC_ADD: return atomics->type != 'b';
    case SIM_ATOMIC_MIN:
    case SIM_ATOMIC_MAX: return atomics->type == 'u' || atomics->type == 's';
    case SIM_ATOMIC_INC:
    case SIM_ATOMIC_DEC: return atomics->type == 'u' && atomics->bytes == 4;
    default: return !add && atomics->type == 'b';
  }
}

static ptc_status_t decode_atomic(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  sim_atomics_t *atomics = DECODE_EXTRA(decoder, sim_atomics_t);
  atomics->has_result = decode_is(decoder, "atom");
  const int32_t last = decoder->inst->num_parts - 1;
  bool has_what = false;
  for (int32_t i = 1; i < last; ++i) {
    const char *part = decoder->inst->parts[i];
    if (read_atomic(part, &atomics->what))
      has_what = true;
    else if (!read_space(part, &atomics->space) && !changes_nothing(part))
      return decode_unknown(decoder, "");
  }
  const char *type = decode_last(decoder);
  ptx_width_t width;
  if (!has_what || !decode_width(type, &width) || width < PTX_WIDTH_32 || strstr(type, "x2"))
    return decode_unknown(decoder, "");
  atomics->type = *type;
  atomics->bytes = width == PTX_WIDTH_64 ? 8 : 4;
  if (!atomic_exists(atomics)) return decode_unknown(decoder, "");
  const int32_t at = atomics->has_result;
  if (atomics->has_result) PTC_TRY(decode_dest(decoder, 0, width, &op->dst));
  PTC_TRY(decode_address(decoder, at, &op->a, &atomics->address_width, &atomics->offset));
  PTC_TRY(decode_source(decoder, at + 1, width, &op->b));
  if (atomics->what == SIM_ATOMIC_CAS) PTC_TRY(decode_source(decoder, at + 2, width, &op->c));
  decode_handler(decoder, sim_atomic, class_of(atomics->space), atomics);
  return PTC_OK;
}

static ptc_status_t decode_copy(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  if (strcmp(decoder->inst->opcode, "cp.async.commit_group") == 0) {
    decode_handler(decoder, sim_copy_commit, SIM_CLASS_SHARED, NULL);
    return PTC_OK;
  }
  if (strcmp(decoder->inst->opcode, "cp.async.wait_all") == 0) {
    decode_handler(decoder, sim_copy_wait, SIM_CLASS_SHARED, NULL);
    return PTC_OK;
  }
  const ptx_operand_t *number = decode_operand(decoder, 0);
  if (strcmp(decoder->inst->opcode, "cp.async.wait_group") == 0) {
    if (!number || number->kind != PTX_IMM) return decode_unknown(decoder, "");
    int32_t *groups = DECODE_EXTRA(decoder, int32_t);
    *groups = (int32_t)number->imm;
    decode_handler(decoder, sim_copy_wait, SIM_CLASS_SHARED, groups);
    return PTC_OK;
  }
  const char *cache = decode_part(decoder, 2), *to = decode_part(decoder, 3),
             *from = decode_part(decoder, 4);
  if (strcmp(decode_part(decoder, 1), "async") != 0 ||
      (strcmp(cache, "ca") != 0 && strcmp(cache, "cg") != 0) || strncmp(to, "shared", 6) != 0 ||
      strcmp(from, "global") != 0)
    return decode_unknown(decoder, "");
  sim_copying_t *copying = DECODE_EXTRA(decoder, sim_copying_t);
  PTC_TRY(decode_address(decoder, 0, &op->a, &copying->to_width, &copying->to_offset));
  PTC_TRY(decode_address(decoder, 1, &op->b, &copying->from_width, &copying->from_offset));
  const ptx_operand_t *bytes = decode_operand(decoder, 2);
  if (!bytes || bytes->kind != PTX_IMM) return decode_unknown(decoder, "");
  copying->bytes = (int32_t)bytes->imm;
  const bool cg = strcmp(cache, "cg") == 0;
  if (copying->bytes != 16 && (cg || (copying->bytes != 4 && copying->bytes != 8)))
    return decode_unknown(decoder, "a copy of that size");
  copying->has_size = decoder->inst->num_operands > 3;
  if (copying->has_size) PTC_TRY(decode_source(decoder, 3, PTX_WIDTH_32, &op->c));
  decode_handler(decoder, sim_copy_async, SIM_CLASS_GLOBAL, copying);
  return PTC_OK;
}

static ptc_status_t decode_ldmatrix(decoder_t *decoder) {
  sim_matrix_t *matrix = DECODE_EXTRA(decoder, sim_matrix_t);
  const char *count = decode_part(decoder, 4);
  matrix->transposed = decode_has(decoder, "trans");
  const char *space = decode_part(decoder, 5 + matrix->transposed);
  if (strcmp(decode_part(decoder, 1), "sync") != 0 ||
      strcmp(decode_part(decoder, 2), "aligned") != 0 ||
      strcmp(decode_part(decoder, 3), "m8n8") != 0 || count[0] != 'x' || !strchr("124", count[1]) ||
      strncmp(space, "shared", 6) != 0 || strcmp(decode_last(decoder), "b16") != 0)
    return decode_unknown(decoder, "");
  matrix->count = count[1] - '0';
  const ptx_operand_t *to = decode_operand(decoder, 0);
  if (!to || to->kind != PTX_LIST || to->num_elements != matrix->count)
    return decode_unknown(decoder, "operands of another number");
  for (int32_t i = 0; i < matrix->count; ++i) {
    ptx_width_t width;
    PTC_TRY(decode_register(decoder, &to->elements[i], &width, &matrix->regs[i]));
    if (width != PTX_WIDTH_32) return decode_unknown(decoder, "registers of another size");
  }
  PTC_TRY(decode_address(decoder, 1, &decoder->op->a, &matrix->address_width, &matrix->offset));
  decode_handler(decoder, sim_load_matrix, SIM_CLASS_SHARED, matrix);
  return PTC_OK;
}

ptc_status_t decode_memory(decoder_t *decoder, bool *out_done) {
  *out_done = true;
  if (decode_is(decoder, "ld") || decode_is(decoder, "st")) return decode_access(decoder);
  if (decode_is(decoder, "atom") || decode_is(decoder, "red")) return decode_atomic(decoder);
  if (decode_is(decoder, "cp")) return decode_copy(decoder);
  if (decode_is(decoder, "ldmatrix")) return decode_ldmatrix(decoder);
  *out_done = false;
  return PTC_OK;
}

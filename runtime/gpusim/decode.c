#include <inttypes.h>

#include "runtime/gpusim/decode_impl.h"

ptc_status_t decode_unknown(const decoder_t *decoder, const char *why) {
  const ptx_inst_t *inst = decoder->inst;
  const ptc_loc_t loc = {.file = decoder->flat->module->name, .line = inst->line};
  ptc_error(decoder->flat->diag, loc, PTC_UNSUPPORTED, "ptx-unknown",
            "the GPU simulator does not run the instruction \"%s\" of kernel \"%s\"%s%s",
            inst->opcode, decoder->flat->program->name, *why ? ": " : "", why);
  if (inst->cuda_line)
    ptc_note(decoder->flat->diag, loc, "it belongs to line %" PRId32 " of the CUDA source",
             inst->cuda_line);
  return PTC_UNSUPPORTED;
}

void *decode_extra(const decoder_t *decoder, size_t bytes) {
  return ptc_arena_alloc(&decoder->flat->program->arena, bytes);
}

// --- constants

static const uint32_t width_bytes[] = {4, 2, 4, 8};

static void append_constant(decoder_t *decoder, ptx_width_t width, uint64_t value) {
  const uint32_t bytes = width_bytes[width];
  for (int lane = 0; lane < SIM_LANES; ++lane)
    for (uint32_t i = 0; i < bytes; ++i)
      PTC_VEC_PUSH(&decoder->constants, (unsigned char)(value >> (8 * i)));
  while (decoder->constants.len % 64) PTC_VEC_PUSH(&decoder->constants, 0);
}

static bool is_constant(const decoder_t *decoder, int32_t at, ptx_width_t width, uint64_t value) {
  const uint32_t bytes = width_bytes[width];
  if (at + (int64_t)bytes * SIM_LANES > decoder->constants.len) return false;
  uint64_t first = 0, last = 0;
  memcpy(&first, decoder->constants.data + at, bytes);
  memcpy(&last, decoder->constants.data + at + bytes * (SIM_LANES - 1), bytes);
  return first == value && last == value;
}

// |value| in all lanes, as a complemented offset.
static int32_t constant(decoder_t *decoder, ptx_width_t width, uint64_t value) {
  if (width == PTX_WIDTH_PRED) {
    width = PTX_WIDTH_32;
    value = value ? UINT32_MAX : 0;
  }
  value &= UINT64_MAX >> (64 - 8 * width_bytes[width]);
  uint32_t slot = (uint32_t)((value * UINT64_C(0x9e3779b97f4a7c15)) >> 40) * 4 + (uint32_t)width;
  for (;; ++slot) {
    int32_t *at = &decoder->table[slot % (uint32_t)decoder->table_size];
    if (!*at) {
      *at = (int32_t)decoder->constants.len;
      append_constant(decoder, width, value);
      return ~*at;
    }
    if (is_constant(decoder, *at, width, value)) return ~*at;
  }
}

// --- operands

const ptx_operand_t *decode_operand(const decoder_t *decoder, int32_t index) {
  return index < decoder->inst->num_operands ? &decoder->inst->operands[index] : NULL;
}

bool decode_is(const decoder_t *decoder, const char *mnemonic) {
  return strcmp(decoder->inst->parts[0], mnemonic) == 0;
}

bool decode_has(const decoder_t *decoder, const char *part) {
  return ptx_has_part(decoder->inst, part);
}

const char *decode_part(const decoder_t *decoder, int32_t index) {
  return index < decoder->inst->num_parts ? decoder->inst->parts[index] : "";
}

const char *decode_last(const decoder_t *decoder) {
  return decoder->inst->parts[decoder->inst->num_parts - 1];
}

void decode_handler(decoder_t *decoder, sim_handler_fn_t fn, sim_class_t class, const void *extra) {
  decoder->op->kind = SIM_HANDLER;
  decoder->op->fn.handler = fn;
  decoder->op->class = class;
  decoder->op->extra = extra;
}

bool decode_width(const char *type, ptx_width_t *out) {
  static const struct {
    const char *name;
    ptx_width_t width;
  } types[] = {{"b16", PTX_WIDTH_16},   {"u16", PTX_WIDTH_16},    {"s16", PTX_WIDTH_16},
               {"f16", PTX_WIDTH_16},   {"bf16", PTX_WIDTH_16},   {"b32", PTX_WIDTH_32},
               {"u32", PTX_WIDTH_32},   {"s32", PTX_WIDTH_32},    {"f32", PTX_WIDTH_32},
               {"f16x2", PTX_WIDTH_32}, {"bf16x2", PTX_WIDTH_32}, {"b64", PTX_WIDTH_64},
               {"u64", PTX_WIDTH_64},   {"s64", PTX_WIDTH_64},    {"f64", PTX_WIDTH_64}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (strcmp(types[i].name, type) == 0) {
      *out = types[i].width;
      return true;
    }
  return false;
}

static ptx_width_t reg_width(const decoder_t *decoder, int32_t reg) {
  return decoder->flat->regs.data[reg].width;
}

ptc_status_t decode_source_operand(decoder_t *decoder, const ptx_operand_t *operand,
                                   ptx_width_t width, int32_t *out) {
  if (operand && operand->kind == PTX_IMM) {
    if (operand->float_kind == 'd' && width == PTX_WIDTH_32)
      return decode_unknown(decoder, "a double where 32 bits are expected");
    *out = constant(decoder, width, operand->imm);
    return PTC_OK;
  }
  if (!operand || operand->kind != PTX_REG || operand->reg < 0)
    return decode_unknown(decoder, "an operand that it cannot take");
  if (reg_width(decoder, operand->reg) != width)
    return decode_unknown(decoder, "a register of another size than its type");
  *out = decoder->flat->offsets[operand->reg];
  return PTC_OK;
}

ptc_status_t decode_source(decoder_t *decoder, int32_t index, ptx_width_t width, int32_t *out) {
  return decode_source_operand(decoder, decode_operand(decoder, index), width, out);
}

ptc_status_t decode_register(decoder_t *decoder, const ptx_operand_t *operand,
                             ptx_width_t *out_width, int32_t *out) {
  if (!operand || operand->kind != PTX_REG || operand->reg < 0)
    return decode_unknown(decoder, "an operand that it cannot take");
  *out_width = reg_width(decoder, operand->reg);
  *out = decoder->flat->offsets[operand->reg];
  return PTC_OK;
}

ptc_status_t decode_any(decoder_t *decoder, const ptx_operand_t *operand, ptx_width_t otherwise,
                        ptx_width_t *out_width, int32_t *out) {
  if (operand && operand->kind == PTX_IMM) {
    *out_width = otherwise;
    return decode_source_operand(decoder, operand, otherwise, out);
  }
  return decode_register(decoder, operand, out_width, out);
}

ptc_status_t decode_dest(decoder_t *decoder, int32_t index, ptx_width_t width, int32_t *out) {
  ptx_width_t own = PTX_WIDTH_PRED;
  PTC_TRY(decode_register(decoder, decode_operand(decoder, index), &own, out));
  if (own != width) return decode_unknown(decoder, "a register of another size than its type");
  return PTC_OK;
}

ptc_status_t decode_address(decoder_t *decoder, int32_t index, int32_t *out, ptx_width_t *out_width,
                            int64_t *out_offset) {
  const ptx_operand_t *operand = decode_operand(decoder, index);
  if (!operand || operand->kind != PTX_ADDRESS) return decode_unknown(decoder, "no address");
  *out_offset = (int64_t)operand->imm;
  *out = NO_OPERAND;
  *out_width = PTX_WIDTH_64;
  if (operand->reg < 0) return PTC_OK;
  *out_width = reg_width(decoder, operand->reg);
  *out = decoder->flat->offsets[operand->reg];
  if (*out_width < PTX_WIDTH_32) return decode_unknown(decoder, "an address of 16 bits");
  return PTC_OK;
}

// --- all instructions

static ptc_status_t decode_one(decoder_t *decoder, int32_t index) {
  flat_t *flat = decoder->flat;
  const ptx_inst_t *inst = &flat->insts.data[index];
  sim_op_t *op = &flat->program->ops[index];
  decoder->inst = inst;
  decoder->op = op;
  *op = (sim_op_t){.guard = inst->guard < 0 ? -1 : flat->offsets[inst->guard],
                   .guard_negated = inst->guard_negated,
                   .a = NO_OPERAND,
                   .b = NO_OPERAND,
                   .c = NO_OPERAND,
                   .line = inst->line,
                   .cuda_line = inst->cuda_line,
                   .opcode = ptc_arena_strdup(&flat->program->arena, inst->opcode),
                   .target = inst->target,
                   .meet = flat->meet[index]};
  if (inst->cuda_file >= 0 && inst->cuda_file < flat->module->files.len &&
      flat->module->files.data[inst->cuda_file])
    op->cuda_file =
        ptc_arena_strdup(&flat->program->arena, flat->module->files.data[inst->cuda_file]);
  bool done = false;
  PTC_TRY(decode_arithmetic(decoder, &done));
  if (!done) PTC_TRY(decode_memory(decoder, &done));
  if (!done) PTC_TRY(decode_across(decoder, &done));
  if (!done) PTC_TRY(decode_control(decoder, &done));
  return done ? PTC_OK : decode_unknown(decoder, "");
}

ptc_status_t flat_decode(flat_t *flat) {
  sim_program_t *program = flat->program;
  program->num_ops = (int32_t)flat->insts.len;
  program->ops = PTC_ARENA_ARRAY(&program->arena, sim_op_t, program->num_ops + 1);
  decoder_t decoder = {.flat = flat};
  // At most one constant for each operand, and room for short probes.
  decoder.table_size = program->num_ops * 8 + 64;
  const size_t table_bytes = sizeof *decoder.table * (size_t)decoder.table_size;
  decoder.table = ptc_xmalloc(table_bytes);
  memset(decoder.table, 0, table_bytes);
  for (int i = 0; i < 256; ++i) PTC_VEC_PUSH(&decoder.constants, 0);
  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < program->num_ops && status == PTC_OK; ++i)
    status = decode_one(&decoder, i);
  program->constant_bytes = decoder.constants.len;
  program->constants = aligned_alloc(64, (size_t)(decoder.constants.len + 63) / 64 * 64);
  if (!program->constants) ptc_oom((size_t)decoder.constants.len);
  memcpy(program->constants, decoder.constants.data, (size_t)decoder.constants.len);
  free(decoder.table);
  PTC_VEC_FREE(&decoder.constants);
  return status;
}

// --- programs

ptc_status_t sim_program_create(ptc_diag_t *diag, const ptx_module_t *module,
                                const ptx_func_t *func, const sim_placed_t *placed,
                                int32_t num_placed, sim_program_t *out_program) {
  *out_program = (sim_program_t){.max_threads = func->max_threads};
  ptc_arena_init(&out_program->arena);
  out_program->name = ptc_arena_strdup(&out_program->arena, func->name);
  flat_t flat = {.diag = diag,
                 .module = module,
                 .program = out_program,
                 .placed = placed,
                 .num_placed = num_placed};
  // Static shared memory of the module lies first.
  for (int32_t i = 0; i < num_placed; ++i)
    if (placed[i].variable->space == PTX_SPACE_SHARED) {
      const int64_t end = (int64_t)placed[i].address + placed[i].variable->bytes;
      if (end > out_program->shared_bytes) out_program->shared_bytes = end;
    }
  ptc_status_t status = flat_inline(&flat, func);
  if (status == PTC_OK) {
    flat_find_meets(&flat);
    flat_place_regs(&flat);
    status = flat_decode(&flat);
  }
  flat_deinit(&flat);
  return status;
}

void sim_program_deinit(sim_program_t *program) {
  free(program->constants);
  ptc_arena_deinit(&program->arena);
  *program = (sim_program_t){0};
}

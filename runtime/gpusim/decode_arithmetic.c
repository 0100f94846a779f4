// Decoding of arithmetic, comparisons, conversions and moves.
#include "runtime/gpusim/alu.h"
#include "runtime/gpusim/decode_impl.h"

static const sim_alu_row_t *find_in(const sim_alu_row_t *rows, int32_t count, const char *opcode) {
  for (int32_t i = 0; i < count; ++i)
    if (strcmp(rows[i].opcode, opcode) == 0) return &rows[i];
  return NULL;
}

const sim_alu_row_t *sim_alu_find(const char *opcode) {
  const sim_alu_row_t *row = find_in(sim_alu_move_rows, sim_num_alu_move_rows, opcode);
  if (!row) row = find_in(sim_alu_int_rows, sim_num_alu_int_rows, opcode);
  if (!row) row = find_in(sim_alu_float_rows, sim_num_alu_float_rows, opcode);
  return row;
}

// --- predicates

static ptc_status_t decode_pred_source(decoder_t *decoder, int32_t index, bool *out_negated,
                                       int32_t *out) {
  const ptx_operand_t *operand = decode_operand(decoder, index);
  *out_negated = operand && operand->kind == PTX_REG && operand->negated;
  return decode_source_operand(decoder, operand, PTX_WIDTH_PRED, out);
}

// and, or, xor, not, mov of predicates.
static ptc_status_t decode_logic(decoder_t *decoder) {
  sim_pred_logic_t *logic = DECODE_EXTRA(decoder, sim_pred_logic_t);
  logic->how = decode_is(decoder, "and")   ? SIM_LOGIC_AND
               : decode_is(decoder, "xor") ? SIM_LOGIC_XOR
                                           : SIM_LOGIC_OR;
  PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_PRED, &decoder->op->dst));
  PTC_TRY(decode_pred_source(decoder, 1, &logic->a_negated, &decoder->op->a));
  const bool one = decode_is(decoder, "not") || decode_is(decoder, "mov");
  if (decode_is(decoder, "not")) logic->a_negated = !logic->a_negated;
  if (!one) PTC_TRY(decode_pred_source(decoder, 2, &logic->b_negated, &decoder->op->b));
  decode_handler(decoder, sim_logic, SIM_CLASS_INTEGER, logic);
  return PTC_OK;
}

static bool is_logic(const decoder_t *decoder) {
  static const char *const names[] = {"and.pred", "or.pred", "xor.pred", "not.pred", "mov.pred"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(decoder->inst->opcode, names[i]) == 0) return true;
  return false;
}

// The relation that setp or set names, without and, or, xor and the type of set's result.
static const sim_compare_row_t *find_relation(const decoder_t *decoder, sim_comparing_t *comparing,
                                              const char *without) {
  char name[64] = "";
  for (int32_t i = 1; i < decoder->inst->num_parts; ++i) {
    const char *part = decoder->inst->parts[i];
    if (without && i == decoder->inst->num_parts - 2 && strcmp(part, without) == 0) continue;
    if (i == 2 &&
        (strcmp(part, "and") == 0 || strcmp(part, "or") == 0 || strcmp(part, "xor") == 0)) {
      comparing->combines = true;
      comparing->how = *part == 'a' ? SIM_LOGIC_AND : *part == 'o' ? SIM_LOGIC_OR : SIM_LOGIC_XOR;
      continue;
    }
    if (strlen(name) + strlen(part) + 2 > sizeof name) return NULL;
    if (*name) strcat(name, ".");
    strcat(name, part);
  }
  return sim_compare_find(name);
}

static ptc_status_t decode_setp(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  sim_comparing_t *comparing = DECODE_EXTRA(decoder, sim_comparing_t);
  const sim_compare_row_t *row = find_relation(decoder, comparing, NULL);
  if (!row) return decode_unknown(decoder, "");
  const ptx_operand_t *to = decode_operand(decoder, 0);
  ptx_width_t width = PTX_WIDTH_PRED;
  if (to && to->kind == PTX_LIST && to->num_elements == 2) {
    op->dst = -1;
    if (to->elements[0].reg >= 0)
      PTC_TRY(decode_register(decoder, &to->elements[0], &width, &op->dst));
    if (to->elements[1].reg >= 0) {
      comparing->has_q = true;
      PTC_TRY(decode_register(decoder, &to->elements[1], &width, &comparing->q));
    }
    if (width != PTX_WIDTH_PRED) return decode_unknown(decoder, "no predicate");
  } else {
    PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_PRED, &op->dst));
  }
  PTC_TRY(decode_source(decoder, 1, (ptx_width_t)row->source, &op->a));
  PTC_TRY(decode_source(decoder, 2, (ptx_width_t)row->source, &op->b));
  if (comparing->combines) PTC_TRY(decode_pred_source(decoder, 3, &comparing->c_negated, &op->c));
  comparing->compare = row->fn;
  decode_handler(decoder, sim_compare, SIM_CLASS_INTEGER, comparing);
  if (!comparing->combines && !comparing->has_q && op->dst >= 0) {
    op->kind = SIM_COMPARE;
    op->fn.compare = row->fn;
  }
  return PTC_OK;
}

static ptc_status_t decode_testp(decoder_t *decoder) {
  const sim_compare_row_t *row = sim_compare_find(decoder->inst->opcode);
  if (!row) return decode_unknown(decoder, "");
  PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_PRED, &decoder->op->dst));
  PTC_TRY(decode_source(decoder, 1, (ptx_width_t)row->source, &decoder->op->a));
  decoder->op->b = decoder->op->a;
  decoder->op->kind = SIM_COMPARE;
  decoder->op->class = SIM_CLASS_INTEGER;
  decoder->op->fn.compare = row->fn;
  return PTC_OK;
}

// set.CMP[.BOOL][.ftz].dtype.stype
static ptc_status_t decode_set(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  sim_comparing_t *comparing = DECODE_EXTRA(decoder, sim_comparing_t);
  const char *to = decode_part(decoder, decoder->inst->num_parts - 2);
  const sim_compare_row_t *row = find_relation(decoder, comparing, to);
  ptx_width_t width;
  if (!row || !decode_width(to, &width) || width != PTX_WIDTH_32)
    return decode_unknown(decoder, "");
  comparing->has_q = strcmp(to, "f32") == 0;
  PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_32, &op->dst));
  PTC_TRY(decode_source(decoder, 1, (ptx_width_t)row->source, &op->a));
  PTC_TRY(decode_source(decoder, 2, (ptx_width_t)row->source, &op->b));
  if (comparing->combines) PTC_TRY(decode_pred_source(decoder, 3, &comparing->c_negated, &op->c));
  comparing->compare = row->fn;
  decode_handler(decoder, sim_set, SIM_CLASS_INTEGER, comparing);
  return PTC_OK;
}

static ptc_status_t decode_selp(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  bool negated;
  if (decoder->inst->num_parts != 2 || !decode_width(decode_last(decoder), &op->width))
    return decode_unknown(decoder, "");
  PTC_TRY(decode_dest(decoder, 0, op->width, &op->dst));
  PTC_TRY(decode_source(decoder, 1, op->width, &op->a));
  PTC_TRY(decode_source(decoder, 2, op->width, &op->b));
  PTC_TRY(decode_pred_source(decoder, 3, &negated, &op->c));
  if (negated) return decode_unknown(decoder, "a negated predicate");
  op->kind = SIM_SELECT;
  op->class = SIM_CLASS_MOVE;
  return PTC_OK;
}

// --- parts of registers

static ptc_status_t decode_parts(decoder_t *decoder, const ptx_operand_t *list, sim_pack_t *pack) {
  const int32_t bits = pack->width == PTX_WIDTH_64 ? 64 : 32;
  if (list->num_elements != 2 && list->num_elements != 4)
    return decode_unknown(decoder, "parts of that number");
  pack->count = list->num_elements;
  if (bits / pack->count < 16) return decode_unknown(decoder, "parts of 8 bits");
  pack->part_width = bits / pack->count == 32 ? PTX_WIDTH_32 : PTX_WIDTH_16;
  for (int32_t i = 0; i < pack->count; ++i) {
    const ptx_operand_t *part = &list->elements[i];
    pack->skip[i] = part->kind == PTX_REG && part->reg < 0;
    if (!pack->skip[i])
      PTC_TRY(decode_source_operand(decoder, part, pack->part_width, &pack->parts[i]));
  }
  return PTC_OK;
}

static ptc_status_t decode_mov_parts(decoder_t *decoder, const ptx_operand_t *to,
                                     const ptx_operand_t *from) {
  sim_pack_t *pack = DECODE_EXTRA(decoder, sim_pack_t);
  if (!decode_width(decode_last(decoder), &pack->width) || pack->width < PTX_WIDTH_32)
    return decode_unknown(decoder, "");
  if (to->kind == PTX_LIST) {
    PTC_TRY(decode_parts(decoder, to, pack));
    for (int32_t i = 0; i < pack->count; ++i)
      if (!pack->skip[i] && to->elements[i].kind != PTX_REG)
        return decode_unknown(decoder, "no register");
    PTC_TRY(decode_source_operand(decoder, from, pack->width, &decoder->op->a));
    decode_handler(decoder, sim_unpack, SIM_CLASS_MOVE, pack);
    return PTC_OK;
  }
  PTC_TRY(decode_dest(decoder, 0, pack->width, &decoder->op->dst));
  PTC_TRY(decode_parts(decoder, from, pack));
  for (int32_t i = 0; i < pack->count; ++i)
    if (pack->skip[i]) return decode_unknown(decoder, "a part is missing");
  decode_handler(decoder, sim_pack, SIM_CLASS_MOVE, pack);
  return PTC_OK;
}

// --- carries

static bool is_carrying(const decoder_t *decoder) {
  return decode_has(decoder, "cc") || decode_is(decoder, "addc") || decode_is(decoder, "subc") ||
         decode_is(decoder, "madc");
}

static ptc_status_t decode_carry(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  sim_carry_t *carry = DECODE_EXTRA(decoder, sim_carry_t);
  const char *name = decoder->inst->parts[0], *type = decode_last(decoder);
  const bool mad = strncmp(name, "mad", 3) == 0;
  carry->writes = decode_has(decoder, "cc");
  carry->reads = name[3] == 'c';
  carry->is_signed = *type == 's';
  carry->what = strncmp(name, "add", 3) == 0   ? SIM_CARRY_ADD
                : strncmp(name, "sub", 3) == 0 ? SIM_CARRY_SUB
                : decode_has(decoder, "lo")    ? SIM_CARRY_MAD_LO
                                               : SIM_CARRY_MAD_HI;
  const int32_t parts = 2 + carry->writes + mad;
  if (!decode_width(type, &carry->width) || carry->width < PTX_WIDTH_32 ||
      decoder->inst->num_parts != parts ||
      (mad && !decode_has(decoder, "lo") && !decode_has(decoder, "hi")) ||
      (!mad && carry->what != SIM_CARRY_ADD && carry->what != SIM_CARRY_SUB))
    return decode_unknown(decoder, "");
  carry->flag = decoder->flat->offsets[FLAT_CARRY];
  PTC_TRY(decode_dest(decoder, 0, carry->width, &op->dst));
  PTC_TRY(decode_source(decoder, 1, carry->width, &op->a));
  PTC_TRY(decode_source(decoder, 2, carry->width, &op->b));
  if (mad) PTC_TRY(decode_source(decoder, 3, carry->width, &op->c));
  decode_handler(decoder, sim_carry, SIM_CLASS_INTEGER, carry);
  return PTC_OK;
}

// --- conversions

static bool read_number(const char *type, sim_number_t *out) {
  static const struct {
    const char *name;
    sim_number_t number;
  } types[] = {{"u8", {'u', 1}},  {"s8", {'s', 1}},  {"u16", {'u', 2}}, {"s16", {'s', 2}},
               {"u32", {'u', 4}}, {"s32", {'s', 4}}, {"u64", {'u', 8}}, {"s64", {'s', 8}},
               {"f16", {'f', 2}}, {"f32", {'f', 4}}, {"f64", {'f', 8}}, {"bf16", {'b', 2}},
               {"tf32", {'t', 4}}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (strcmp(types[i].name, type) == 0) {
      *out = types[i].number;
      return true;
    }
  return false;
}

// The modifiers between "cvt" and the types. False for others.
static bool read_modifiers(const decoder_t *decoder, sim_convert_t *convert) {
  for (int32_t i = 1; i < decoder->inst->num_parts - 2; ++i) {
    const char *part = decoder->inst->parts[i];
    if (strcmp(part, "ftz") == 0)
      convert->ftz = true;
    else if (strcmp(part, "sat") == 0)
      convert->saturates = true;
    else if (strcmp(part, "relu") == 0)
      convert->relu = true;
    else if (strcmp(part, "rna") == 0)
      convert->rounding = 'a';
    else if (part[0] == 'r' && part[1] && strchr("nzmp", part[1]) &&
             (!part[2] || (part[2] == 'i' && !part[3]))) {
      convert->rounding = part[1];
      convert->to_integer = part[2] == 'i';
    } else {
      return false;
    }
  }
  return true;
}

static bool is_real(const sim_number_t *number) {
  return number->kind != 'u' && number->kind != 's';
}

// Which of the modifiers fit which types, as PTX has it for this target.
static bool fits(const sim_convert_t *convert) {
  const sim_number_t *to = &convert->to, *from = &convert->from;
  if (from->kind == 't') return false;
  if (to->kind == 't') return from->kind == 'f' && from->bytes == 4 && convert->rounding == 'a';
  if (to->kind == 'b')
    return from->kind == 'f' && from->bytes == 4 && convert->rounding && !convert->to_integer;
  if (from->kind == 'b') return to->kind == 'f' && to->bytes == 4 && !convert->rounding;
  if (convert->rounding == 'a') return false;
  if (is_real(from) && !is_real(to)) return convert->to_integer;
  if (!is_real(from) && is_real(to)) return convert->rounding && !convert->to_integer;
  if (!is_real(from)) return !convert->rounding;
  if (to->bytes < from->bytes) return convert->rounding && !convert->to_integer;
  if (to->bytes > from->bytes) return !convert->rounding;
  return convert->to_integer || convert->saturates || !convert->rounding;
}

static ptx_width_t number_width(const sim_number_t *number) {
  return number->bytes == 8 ? PTX_WIDTH_64 : number->bytes == 4 ? PTX_WIDTH_32 : PTX_WIDTH_16;
}

// cvt.rn.bf16x2.f32 d, a, b
static ptc_status_t decode_cvt_pair(decoder_t *decoder, sim_convert_t *convert, bool bfloat) {
  sim_op_t *op = decoder->op;
  convert->to = (sim_number_t){bfloat ? 'b' : 'f', 2};
  if (strcmp(decode_last(decoder), "f32") != 0 || !read_modifiers(decoder, convert) ||
      (convert->rounding != 'n' && convert->rounding != 'z') || convert->to_integer)
    return decode_unknown(decoder, "");
  PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_32, &op->dst));
  PTC_TRY(decode_source(decoder, 1, PTX_WIDTH_32, &op->a));
  PTC_TRY(decode_source(decoder, 2, PTX_WIDTH_32, &op->b));
  decode_handler(decoder, sim_convert_pair, SIM_CLASS_CONVERT, convert);
  return PTC_OK;
}

static ptc_status_t decode_cvt(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  sim_convert_t *convert = DECODE_EXTRA(decoder, sim_convert_t);
  const int32_t n = decoder->inst->num_parts;
  if (n < 3) return decode_unknown(decoder, "");
  const char *to = decode_part(decoder, n - 2), *from = decode_part(decoder, n - 1);
  if (strcmp(to, "bf16x2") == 0 || strcmp(to, "f16x2") == 0)
    return decode_cvt_pair(decoder, convert, *to == 'b');
  if (!read_number(to, &convert->to) || !read_number(from, &convert->from) ||
      !read_modifiers(decoder, convert) || !fits(convert))
    return decode_unknown(decoder, "");
  PTC_TRY(decode_register(decoder, decode_operand(decoder, 0), &op->width, &op->dst));
  PTC_TRY(decode_any(decoder, decode_operand(decoder, 1), number_width(&convert->from),
                     &convert->from_width, &op->a));
  if (op->width < number_width(&convert->to) || convert->from_width < number_width(&convert->from))
    return decode_unknown(decoder, "a register of another size than its type");
  decode_handler(decoder, sim_convert, SIM_CLASS_CONVERT, convert);
  return PTC_OK;
}

// --- rows

static ptc_status_t decode_row(decoder_t *decoder, const sim_alu_row_t *row) {
  sim_op_t *op = decoder->op;
  op->width = (ptx_width_t)row->width;
  PTC_TRY(decode_dest(decoder, 0, op->width, &op->dst));
  int32_t *sources[3] = {&op->a, &op->b, &op->c};
  for (int32_t i = 0; i < row->num_sources; ++i)
    PTC_TRY(decode_source(decoder, i + 1, (ptx_width_t)row->sources[i], sources[i]));
  if (decoder->inst->num_operands != row->num_sources + 1)
    return decode_unknown(decoder, "operands of another number");
  op->kind = SIM_ALU;
  op->fn.alu = row->fn;
  op->class = (sim_class_t)row->class;
  op->flops = row->flops;
  return PTC_OK;
}

// Whether the registers are exactly as wide as the row has them; cvt may have wider ones.
static bool is_plain(const decoder_t *decoder, const sim_alu_row_t *row) {
  for (int32_t i = 0; i < 2; ++i) {
    const ptx_operand_t *operand = decode_operand(decoder, i);
    if (operand && operand->kind == PTX_REG && operand->reg >= 0 &&
        decoder->flat->regs.data[operand->reg].width != (i ? row->sources[0] : row->width))
      return false;
  }
  return true;
}

static ptc_status_t decode_bfi(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  sim_insert_t *insert = DECODE_EXTRA(decoder, sim_insert_t);
  const char *type = decode_last(decoder);
  if (strcmp(type, "b32") != 0 && strcmp(type, "b64") != 0) return decode_unknown(decoder, "");
  insert->width = strcmp(type, "b64") == 0 ? PTX_WIDTH_64 : PTX_WIDTH_32;
  PTC_TRY(decode_dest(decoder, 0, insert->width, &op->dst));
  PTC_TRY(decode_source(decoder, 1, insert->width, &op->a));
  PTC_TRY(decode_source(decoder, 2, insert->width, &op->b));
  PTC_TRY(decode_source(decoder, 3, PTX_WIDTH_32, &op->c));
  PTC_TRY(decode_source(decoder, 4, PTX_WIDTH_32, &insert->length));
  decode_handler(decoder, sim_insert, SIM_CLASS_INTEGER, insert);
  return PTC_OK;
}

static ptc_status_t decode_lop3(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  int32_t *table = DECODE_EXTRA(decoder, int32_t);
  const ptx_operand_t *number = decode_operand(decoder, 4);
  if (strcmp(decoder->inst->opcode, "lop3.b32") != 0 || !number || number->kind != PTX_IMM)
    return decode_unknown(decoder, "");
  *table = (int32_t)number->imm;
  PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_32, &op->dst));
  PTC_TRY(decode_source(decoder, 1, PTX_WIDTH_32, &op->a));
  PTC_TRY(decode_source(decoder, 2, PTX_WIDTH_32, &op->b));
  PTC_TRY(decode_source(decoder, 3, PTX_WIDTH_32, &op->c));
  decode_handler(decoder, sim_lop3, SIM_CLASS_INTEGER, table);
  return PTC_OK;
}

static ptc_status_t decode_isspacep(decoder_t *decoder) {
  int32_t *space = DECODE_EXTRA(decoder, int32_t);
  static const char *const names[] = {"", "param", "local", "shared", "global"};
  for (int32_t i = 1; i <= PTX_SPACE_GLOBAL; ++i)
    if (strcmp(decode_last(decoder), names[i]) == 0) *space = i;
  if (!*space || decoder->inst->num_parts != 2) return decode_unknown(decoder, "");
  PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_PRED, &decoder->op->dst));
  PTC_TRY(decode_source(decoder, 1, PTX_WIDTH_64, &decoder->op->a));
  decode_handler(decoder, sim_is_space, SIM_CLASS_INTEGER, space);
  return PTC_OK;
}

ptc_status_t decode_arithmetic(decoder_t *decoder, bool *out_done) {
  static const struct {
    const char *mnemonic;
    ptc_status_t (*decode)(decoder_t *decoder);
  } others[] = {{"setp", decode_setp}, {"set", decode_set},          {"testp", decode_testp},
                {"selp", decode_selp}, {"cvt", decode_cvt},          {"bfi", decode_bfi},
                {"lop3", decode_lop3}, {"isspacep", decode_isspacep}};
  *out_done = true;
  const ptx_operand_t *to = decode_operand(decoder, 0), *from = decode_operand(decoder, 1);
  if (decode_is(decoder, "mov") && to && from && (to->kind == PTX_LIST || from->kind == PTX_LIST))
    return decode_mov_parts(decoder, to, from);
  const sim_alu_row_t *row = sim_alu_find(decoder->inst->opcode);
  if (row && (!decode_is(decoder, "cvt") || is_plain(decoder, row)))
    return decode_row(decoder, row);
  if (is_logic(decoder)) return decode_logic(decoder);
  if (is_carrying(decoder)) return decode_carry(decoder);
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
    if (decode_is(decoder, others[i].mnemonic)) return others[i].decode(decoder);
  *out_done = false;
  return PTC_OK;
}

// Decoding of instructions across lanes, of mma, of control flow and barriers.
#include "runtime/gpusim/decode_impl.h"

static ptc_status_t decode_shfl(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  static const char *const names[] = {"up", "down", "bfly", "idx"};
  sim_shuffling_t *shuffling = DECODE_EXTRA(decoder, sim_shuffling_t);
  bool known = false;
  for (int i = 0; i < 4; ++i)
    if (strcmp(decode_part(decoder, 2), names[i]) == 0)
      shuffling->how = (sim_shuffle_t)i, known = true;
  if (!known || strcmp(decode_part(decoder, 1), "sync") != 0 ||
      strcmp(decode_last(decoder), "b32") != 0)
    return decode_unknown(decoder, "");
  const ptx_operand_t *to = decode_operand(decoder, 0);
  shuffling->pred = -1;
  ptx_width_t width;
  if (to && to->kind == PTX_LIST && to->num_elements == 2) {
    PTC_TRY(decode_register(decoder, &to->elements[0], &width, &op->dst));
    if (to->elements[1].reg >= 0) {
      ptx_width_t pred;
      PTC_TRY(decode_register(decoder, &to->elements[1], &pred, &shuffling->pred));
      if (pred != PTX_WIDTH_PRED) return decode_unknown(decoder, "no predicate");
    }
    if (width != PTX_WIDTH_32) return decode_unknown(decoder, "registers of another size");
  } else {
    PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_32, &op->dst));
  }
  PTC_TRY(decode_source(decoder, 1, PTX_WIDTH_32, &op->a));
  PTC_TRY(decode_source(decoder, 2, PTX_WIDTH_32, &op->b));
  PTC_TRY(decode_source(decoder, 3, PTX_WIDTH_32, &op->c));
  PTC_TRY(decode_source(decoder, 4, PTX_WIDTH_32, &shuffling->members));
  decode_handler(decoder, sim_shuffle, SIM_CLASS_WARP, shuffling);
  return PTC_OK;
}

static ptc_status_t decode_vote(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  static const char *const names[] = {"vote.sync.all.pred", "vote.sync.any.pred",
                                      "vote.sync.uni.pred", "vote.sync.ballot.b32"};
  sim_voting_t *voting = DECODE_EXTRA(decoder, sim_voting_t);
  bool known = false;
  for (int i = 0; i < 4; ++i)
    if (strcmp(decoder->inst->opcode, names[i]) == 0) voting->how = (sim_vote_t)i, known = true;
  const ptx_operand_t *from = decode_operand(decoder, 1);
  if (!known || !from) return decode_unknown(decoder, "");
  PTC_TRY(decode_dest(decoder, 0, voting->how == SIM_VOTE_BALLOT ? PTX_WIDTH_32 : PTX_WIDTH_PRED,
                      &op->dst));
  PTC_TRY(decode_source(decoder, 1, PTX_WIDTH_PRED, &op->a));
  PTC_TRY(decode_source(decoder, 2, PTX_WIDTH_32, &op->b));
  voting->negated = from->negated;
  decode_handler(decoder, sim_vote, SIM_CLASS_WARP, voting);
  return PTC_OK;
}

static ptc_status_t decode_activemask(decoder_t *decoder) {
  sim_voting_t *voting = DECODE_EXTRA(decoder, sim_voting_t);
  voting->how = SIM_ACTIVE_MASK;
  if (strcmp(decoder->inst->opcode, "activemask.b32") != 0) return decode_unknown(decoder, "");
  PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_32, &decoder->op->dst));
  decode_handler(decoder, sim_vote, SIM_CLASS_WARP, voting);
  return PTC_OK;
}

static ptc_status_t decode_match(decoder_t *decoder) {
  int32_t *width = DECODE_EXTRA(decoder, int32_t);
  const bool wide = strcmp(decoder->inst->opcode, "match.any.sync.b64") == 0;
  if (!wide && strcmp(decoder->inst->opcode, "match.any.sync.b32") != 0)
    return decode_unknown(decoder, "");
  *width = wide ? PTX_WIDTH_64 : PTX_WIDTH_32;
  PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_32, &decoder->op->dst));
  PTC_TRY(decode_source(decoder, 1, (ptx_width_t)*width, &decoder->op->a));
  PTC_TRY(decode_source(decoder, 2, PTX_WIDTH_32, &decoder->op->b));
  decode_handler(decoder, sim_match_any, SIM_CLASS_WARP, width);
  return PTC_OK;
}

static ptc_status_t decode_redux(decoder_t *decoder) {
  static const char *const names[] = {"add", "min", "max", "and", "or", "xor"};
  sim_reducing_t *reducing = DECODE_EXTRA(decoder, sim_reducing_t);
  const char *type = decode_last(decoder);
  bool known = false;
  for (int i = 0; i < 6; ++i)
    if (strcmp(decode_part(decoder, 2), names[i]) == 0)
      reducing->how = (sim_across_t)i, known = true;
  const bool bits = reducing->how >= SIM_AND;
  if (!known || strcmp(decode_part(decoder, 1), "sync") != 0 || decoder->inst->num_parts != 4 ||
      (bits ? strcmp(type, "b32") != 0 : strcmp(type, "u32") != 0 && strcmp(type, "s32") != 0))
    return decode_unknown(decoder, "");
  reducing->is_signed = *type == 's';
  PTC_TRY(decode_dest(decoder, 0, PTX_WIDTH_32, &decoder->op->dst));
  PTC_TRY(decode_source(decoder, 1, PTX_WIDTH_32, &decoder->op->a));
  PTC_TRY(decode_source(decoder, 2, PTX_WIDTH_32, &decoder->op->b));
  decode_handler(decoder, sim_redux, SIM_CLASS_WARP, reducing);
  return PTC_OK;
}

// --- mma

// shape and types: "m16n8k16.row.col.f32.bf16.bf16.f32"
static const struct {
  const char *name;
  sim_mma_t mma;
} mma_forms[] = {
    {"m16n8k16.row.col.f32.bf16.bf16.f32",
     {16, 8, 16, SIM_BF16, SIM_BF16, false, 4, 2, 4, {0}, {0}, {0}, {0}}},
    {"m16n8k16.row.col.f32.f16.f16.f32",
     {16, 8, 16, SIM_F16, SIM_F16, false, 4, 2, 4, {0}, {0}, {0}, {0}}},
    {"m16n8k16.row.col.f16.f16.f16.f16",
     {16, 8, 16, SIM_F16, SIM_F16, true, 4, 2, 2, {0}, {0}, {0}, {0}}},
    {"m16n8k8.row.col.f32.bf16.bf16.f32",
     {16, 8, 8, SIM_BF16, SIM_BF16, false, 2, 1, 4, {0}, {0}, {0}, {0}}},
    {"m16n8k8.row.col.f32.f16.f16.f32",
     {16, 8, 8, SIM_F16, SIM_F16, false, 2, 1, 4, {0}, {0}, {0}, {0}}},
    {"m16n8k8.row.col.f16.f16.f16.f16",
     {16, 8, 8, SIM_F16, SIM_F16, true, 2, 1, 2, {0}, {0}, {0}, {0}}},
    {"m16n8k4.row.col.f32.tf32.tf32.f32",
     {16, 8, 4, SIM_TF32, SIM_TF32, false, 2, 1, 4, {0}, {0}, {0}, {0}}},
    {"m16n8k8.row.col.f32.tf32.tf32.f32",
     {16, 8, 8, SIM_TF32, SIM_TF32, false, 4, 2, 4, {0}, {0}, {0}, {0}}},
    {"m8n8k4.row.col.f64.f64.f64.f64",
     {8, 8, 4, SIM_F64, SIM_F64, false, 1, 1, 2, {0}, {0}, {0}, {0}}},
    {"m8n8k16.row.col.s32.s8.s8.s32",
     {8, 8, 16, SIM_S8, SIM_S8, false, 1, 1, 2, {0}, {0}, {0}, {0}}},
    {"m8n8k16.row.col.s32.u8.u8.s32",
     {8, 8, 16, SIM_U8, SIM_U8, false, 1, 1, 2, {0}, {0}, {0}, {0}}},
    {"m16n8k16.row.col.s32.s8.s8.s32",
     {16, 8, 16, SIM_S8, SIM_S8, false, 2, 1, 4, {0}, {0}, {0}, {0}}},
    {"m16n8k32.row.col.s32.s8.s8.s32",
     {16, 8, 32, SIM_S8, SIM_S8, false, 4, 2, 4, {0}, {0}, {0}, {0}}},
    {"m16n8k32.row.col.s32.u8.s8.s32",
     {16, 8, 32, SIM_U8, SIM_S8, false, 4, 2, 4, {0}, {0}, {0}, {0}}},
};

static ptc_status_t read_fragment(decoder_t *decoder, int32_t index, int32_t count,
                                  ptx_width_t width, bool is_dest, int32_t *out) {
  const ptx_operand_t *list = decode_operand(decoder, index);
  if (!list || list->kind != PTX_LIST || list->num_elements != count)
    return decode_unknown(decoder, "operands of another number");
  for (int32_t i = 0; i < count; ++i) {
    PTC_TRY(decode_source_operand(decoder, &list->elements[i], width, &out[i]));
    if (is_dest && out[i] < 0) return decode_unknown(decoder, "no register");
  }
  return PTC_OK;
}

static ptc_status_t decode_mma(decoder_t *decoder) {
  static const char prefix[] = "mma.sync.aligned.";
  sim_mma_t *mma = DECODE_EXTRA(decoder, sim_mma_t);
  for (size_t i = 0; i < sizeof mma_forms / sizeof *mma_forms; ++i)
    if (strncmp(decoder->inst->opcode, prefix, sizeof prefix - 1) == 0 &&
        strcmp(decoder->inst->opcode + sizeof prefix - 1, mma_forms[i].name) == 0)
      *mma = mma_forms[i].mma;
  if (!mma->m) return decode_unknown(decoder, "");
  const ptx_width_t width = mma->a_type == SIM_F64 ? PTX_WIDTH_64 : PTX_WIDTH_32;
  PTC_TRY(read_fragment(decoder, 0, mma->num_c, width, true, mma->d));
  PTC_TRY(read_fragment(decoder, 1, mma->num_a, width, false, mma->a));
  PTC_TRY(read_fragment(decoder, 2, mma->num_b, width, false, mma->b));
  PTC_TRY(read_fragment(decoder, 3, mma->num_c, width, false, mma->c));
  decode_handler(decoder, sim_mma, SIM_CLASS_MMA, mma);
  decoder->op->flops = 2 * mma->m * mma->n * mma->k / SIM_LANES;
  return PTC_OK;
}

ptc_status_t decode_across(decoder_t *decoder, bool *out_done) {
  static const struct {
    const char *mnemonic;
    ptc_status_t (*decode)(decoder_t *decoder);
  } rows[] = {{"shfl", decode_shfl},   {"vote", decode_vote},   {"activemask", decode_activemask},
              {"match", decode_match}, {"redux", decode_redux}, {"mma", decode_mma}};
  *out_done = true;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (decode_is(decoder, rows[i].mnemonic)) return rows[i].decode(decoder);
  *out_done = false;
  return PTC_OK;
}

// --- control

static ptc_status_t decode_number(decoder_t *decoder, int32_t index, int32_t most, int32_t *out) {
  const ptx_operand_t *operand = decode_operand(decoder, index);
  if (!operand || operand->kind != PTX_IMM || operand->imm > (uint64_t)most)
    return decode_unknown(decoder, "a barrier or count that is no small number");
  *out = (int32_t)operand->imm;
  return PTC_OK;
}

// bar.sync a{, b}; bar.arrive a, b; bar.red.OP.TYPE d, a{, b}, c
static ptc_status_t decode_barrier(decoder_t *decoder) {
  sim_op_t *op = decoder->op;
  sim_bar_t *bar = DECODE_EXTRA(decoder, sim_bar_t);
  const char *what = decode_part(decoder, 1);
  int32_t part = 1;
  if (strcmp(what, "cta") == 0) what = decode_part(decoder, ++part);
  const bool red = strcmp(what, "red") == 0;
  bar->arrives = strcmp(what, "arrive") == 0;
  if (!red && !bar->arrives && strcmp(what, "sync") != 0) return decode_unknown(decoder, "");
  const int32_t operands = decoder->inst->num_operands;
  int32_t at = 0;
  bar->pred = NO_OPERAND;
  if (red) {
    const char *reduce = decode_part(decoder, part + 1), *type = decode_last(decoder);
    bar->reduce = strcmp(reduce, "and") == 0  ? SIM_BAR_AND
                  : strcmp(reduce, "or") == 0 ? SIM_BAR_OR
                                              : SIM_BAR_POPC;
    if (bar->reduce == SIM_BAR_POPC && (strcmp(reduce, "popc") != 0 || strcmp(type, "u32") != 0))
      return decode_unknown(decoder, "");
    op->width = bar->reduce == SIM_BAR_POPC ? PTX_WIDTH_32 : PTX_WIDTH_PRED;
    PTC_TRY(decode_dest(decoder, at++, op->width, &op->dst));
    PTC_TRY(decode_source(decoder, operands - 1, PTX_WIDTH_PRED, &bar->pred));
    bar->negated = decoder->inst->operands[operands - 1].negated;
  }
  PTC_TRY(decode_number(decoder, at++, SIM_MAX_BARRIERS - 1, &bar->id));
  if (at < operands - red) PTC_TRY(decode_number(decoder, at, SIM_MAX_THREADS, &bar->count));
  if (bar->count % SIM_LANES || (bar->arrives && !bar->count))
    return decode_unknown(decoder, "a count of threads that is no multiple of 32");
  op->kind = SIM_BARRIER;
  op->class = SIM_CLASS_BARRIER;
  op->extra = bar;
  return PTC_OK;
}

static bool is_fence(const decoder_t *decoder) {
  return decode_is(decoder, "membar") || decode_is(decoder, "fence");
}

ptc_status_t decode_control(decoder_t *decoder, bool *out_done) {
  sim_op_t *op = decoder->op;
  *out_done = true;
  op->class = SIM_CLASS_CONTROL;
  if (decode_is(decoder, "bra")) {
    op->kind = SIM_BRANCH;
  } else if (decode_is(decoder, "exit") || decode_is(decoder, "ret")) {
    op->kind = SIM_EXIT;
  } else if (decode_is(decoder, "trap")) {
    decode_handler(decoder, sim_trap, SIM_CLASS_CONTROL, NULL);
  } else if (is_fence(decoder) || decode_is(decoder, "nanosleep") ||
             decode_is(decoder, "prefetch")) {
    decode_handler(decoder, sim_nothing, SIM_CLASS_CONTROL, NULL);
  } else if (strcmp(decoder->inst->opcode, "bar.warp.sync") == 0) {
    PTC_TRY(decode_source(decoder, 0, PTX_WIDTH_32, &op->a));
    decode_handler(decoder, sim_warp_sync, SIM_CLASS_WARP, NULL);
  } else if (decode_is(decoder, "bar") || decode_is(decoder, "barrier")) {
    return decode_barrier(decoder);
  } else {
    *out_done = false;
  }
  return PTC_OK;
}

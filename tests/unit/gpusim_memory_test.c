// Proves: loads and stores of every size in every space, atomics, copies, instructions across lanes, matrix
// fragments, diverging control flow, calls and barriers of the GPU simulator do what the PTX ISA says.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/ptx_run.h"
#include "tests/support/unit.h"

enum { MAX_WORDS = 4096 };

// Runs |body| with |threads|; |words| is the memory at %d63, before and after. False, with a line, on a fault.
static bool run(const char *what, const char *declarations, const char *body, uint32_t threads,
                uint32_t *words, int64_t num_words) {
  ptc_str_t text = {0};
  ptx_wrap(&text, declarations, body);
  ptx_result_t result = ptx_run(&(ptx_run_t){.text = text.data,
                                             .threads = threads,
                                             .checks = true,
                                             .counters = true,
                                             .out = words,
                                             .out_bytes = 4 * num_words});
  const bool ok = result.loaded && !result.fault;
  UNIT_CHECK(ok, what);
  if (!ok) printf("%s: %s\n", what, result.report.data);
  ptx_result_deinit(&result);
  ptc_str_deinit(&text);
  return ok;
}

// --- loads and stores: a value goes to memory, and back into a register that may be wider

static const struct {
  const char *type;
  int bytes;
  char least;  // register: h, w, d
  bool is_signed;
} types[] = {{"b8", 1, 'h', false},  {"u8", 1, 'h', false},  {"s8", 1, 'h', true},
             {"b16", 2, 'h', false}, {"u16", 2, 'h', false}, {"s16", 2, 'h', true},
             {"b32", 4, 'w', false}, {"u32", 4, 'w', false}, {"s32", 4, 'w', true},
             {"f32", 4, 'w', false}, {"b64", 8, 'd', false}, {"u64", 8, 'd', false},
             {"s64", 8, 'd', true},  {"f64", 8, 'd', false}};

static const struct {
  const char *space, *declaration, *base;
} spaces[] = {
    {".global", "", "add.s64 %d1, %d63, 64;\n"},
    {".shared", ".shared .align 16 .b8 m[64];\n", "mov.u64 %d1, m;\n"},
    {".local", ".local .align 16 .b8 m[64];\n", "mov.u64 %d1, m;\n"},
    {"", "", "add.s64 %d1, %d63, 64;\n"},
    {"", ".shared .align 16 .b8 m[64];\n", "mov.u64 %d2, m;\ncvta.shared.u64 %d1, %d2;\n"},
    {"", ".local .align 16 .b8 m[64];\n", "mov.u64 %d2, m;\ncvta.local.u64 %d1, %d2;\n"},
    {".shared::cta", ".shared .align 16 .b8 m[64];\n",
     "mov.u64 %d2, m;\ncvta.shared.u64 %d3, %d2;\ncvta.to.shared.u64 %d1, %d3;\n"}};

static int num_forms;

static void check_access(size_t s, size_t t, int lanes) {
  static const uint64_t pattern[4] = {UINT64_C(0x81c2f3a485968778), UINT64_C(0x1122334455667788),
                                      UINT64_C(0xfedcba9876543210), UINT64_C(0x80706050403020ff)};
  static const char letters[] = "hwd";
  const int bytes = types[t].bytes;
  for (const char *letter = strchr(letters, types[t].least); *letter; ++letter) {
    ptc_str_t body = {0};
    char vector[16] = "", list[2][64] = {"", ""};
    ptc_str_append(&body, spaces[s].base);
    for (int e = 0; e < lanes; ++e) {
      // The register stored from is the narrowest.
      const char c = types[t].least;
      ptc_str_printf(&body, "mov.b%d %%%c%d, %" PRIu64 ";\n",
                     c == 'h'   ? 16
                     : c == 'w' ? 32
                                : 64,
                     c, 10 + e,
                     pattern[e] & UINT64_MAX >> (c == 'h'   ? 48
                                                 : c == 'w' ? 32
                                                            : 0));
      snprintf(list[0] + strlen(list[0]), 16, "%s%%%c%d", e ? "," : "", c, 10 + e);
      snprintf(list[1] + strlen(list[1]), 16, "%s%%%c%d", e ? "," : "", *letter, 20 + e);
    }
    if (lanes > 1) snprintf(vector, sizeof vector, ".v%d", lanes);
    const char *open = lanes > 1 ? "{" : "", *close = lanes > 1 ? "}" : "";
    ptc_str_printf(&body, "st%s%s.%s [%%d1+16], %s%s%s;\nld%s%s.%s %s%s%s, [%%d1+16];\n",
                   spaces[s].space, vector, types[t].type, open, list[0], close, spaces[s].space,
                   vector, types[t].type, open, list[1], close);
    for (int e = 0; e < lanes; ++e) {
      if (*letter == 'h') ptc_str_printf(&body, "cvt.u64.u16 %%d%d, %%h%d;\n", 20 + e, 20 + e);
      if (*letter == 'w') ptc_str_printf(&body, "cvt.u64.u32 %%d%d, %%w%d;\n", 20 + e, 20 + e);
      ptc_str_printf(&body, "st.global.u64 [%%d63+%d], %%d%d;\n", 8 * e, 20 + e);
    }
    uint32_t words[64] = {0};
    char what[64];
    snprintf(what, sizeof what, "ld%s%s.%s to %c", spaces[s].space, vector, types[t].type, *letter);
    if (run(what, spaces[s].declaration, body.data, 1, words, 64)) {
      const int bits = *letter == 'h' ? 16 : *letter == 'w' ? 32 : 64;
      for (int e = 0; e < lanes; ++e) {
        uint64_t want = pattern[e] & UINT64_MAX >> (64 - 8 * bytes), got;
        if (types[t].is_signed && want >> (8 * bytes - 1) & 1)
          want |= ~(UINT64_MAX >> (64 - 8 * bytes));
        want &= UINT64_MAX >> (64 - bits);
        memcpy(&got, &words[2 * e], sizeof got);
        UNIT_CHECK(got == want, what);
        if (got != want) printf("%s: 0x%" PRIx64 ", not 0x%" PRIx64 "\n", what, got, want);
      }
    }
    ++num_forms;
    ptc_str_deinit(&body);
  }
}

static void test_access(void) {
  num_forms = 0;
  for (size_t s = 0; s < sizeof spaces / sizeof *spaces; ++s)
    for (size_t t = 0; t < sizeof types / sizeof *types; ++t)
      for (int lanes = 1; lanes <= 4; lanes *= 2)
        if (lanes * types[t].bytes <= 16) check_access(s, t, lanes);
  printf("%d forms ", num_forms);
}

// --- atomics: 64 threads, each once

static void test_atomics(void) {
  static const struct {
    const char *opcode;
    uint64_t begin, end;
    int bytes;
    const char *operand;  // of thread t in %w63, as text that fills %w1 or %d1
  } rows[] = {
      {"add.u32", 5, 5 + 64 * 63 / 2, 4, "mov.u32 %w1, %w63;\n"},
      {"add.s32", 0, (uint32_t) - (64 * 63 / 2), 4, "neg.s32 %w1, %w63;\n"},
      {"add.u64", UINT64_C(1) << 40, (UINT64_C(1) << 40) + 2016, 8, "cvt.u64.u32 %d1, %w63;\n"},
      {"add.f32", 0x3f800000, 0x42820000, 4, "mov.b32 %w1, 0f3F800000;\n"},
      {"add.f64", 0, UINT64_C(0x4050000000000000), 8, "mov.b64 %d1, 0d3FF0000000000000;\n"},
      {"min.u32", 50, 7, 4, "add.s32 %w1, %w63, 7;\n"},
      {"max.u32", 50, 70, 4, "add.s32 %w1, %w63, 7;\n"},
      {"min.s32", 50, (uint32_t)-63, 4, "neg.s32 %w1, %w63;\n"},
      {"max.s32", (uint32_t)-70, 0, 4, "neg.s32 %w1, %w63;\n"},
      {"min.u64", 50, 0, 8, "cvt.u64.u32 %d1, %w63;\n"},
      {"max.s64", (uint64_t)-70, 63, 8, "cvt.u64.u32 %d1, %w63;\n"},
      {"and.b32", 0xffffffff, 0xffffffc0, 4, "not.b32 %w1, %w63;\n"},
      {"or.b32", 0x100, 0x13f, 4, "mov.u32 %w1, %w63;\n"},
      {"xor.b32", 1, 1, 4, "mov.u32 %w1, %w63;\n"},
      {"and.b64", UINT64_MAX, UINT64_C(0xffffffff00000000), 8, "mov.b64 %d1, -4294967296;\n"},
      {"or.b64", 0, UINT64_C(1) << 50, 8, "mov.b64 %d1, 1125899906842624;\n"},
      {"inc.u32", 0, 64 % 11, 4, "mov.u32 %w1, 10;\n"},
      {"dec.u32", 3, 10 - (64 - 4) % 11, 4, "mov.u32 %w1, 10;\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    for (int form = 0; form < 4; ++form) {
      // Global or shared memory, with the old value or without.
      const bool shared = form & 1, red = form & 2;
      ptc_str_t body = {0};
      const char c = rows[i].bytes == 8 ? 'd' : 'w';
      if (shared)
        ptc_str_printf(
            &body,
            "mov.u64 %%d2, m;\nsetp.eq.s32 %%p1, %%w63, 0;\n@%%p1 ld.global.b%d %%%c3, [%%d63];\n"
            "@%%p1 st.shared.b%d [%%d2], %%%c3;\nbar.sync 0;\n",
            8 * rows[i].bytes, c, 8 * rows[i].bytes, c);
      else
        ptc_str_append(&body, "mov.u64 %d2, %d63;\nsetp.eq.s32 %p1, %w63, 0;\n");
      ptc_str_append(&body, rows[i].operand);
      ptc_str_printf(&body,
                     red ? "red.%s.%s [%%d2], %%%c1;\n" : "atom.%s.%s %%%c9, [%%d2], %%%c1;\n",
                     shared ? "shared" : "global", rows[i].opcode, c, c);
      if (shared)
        ptc_str_printf(&body,
                       "bar.sync 0;\n@%%p1 ld.shared.b%d %%%c3, [%%d2];\n@%%p1 st.global.b%d "
                       "[%%d63], %%%c3;\n",
                       8 * rows[i].bytes, c, 8 * rows[i].bytes, c);
      uint32_t words[4] = {(uint32_t)rows[i].begin, (uint32_t)(rows[i].begin >> 32)};
      if (run(rows[i].opcode, shared ? ".shared .align 8 .b8 m[8];\n" : "", body.data, 64, words,
              4)) {
        const uint64_t got = rows[i].bytes == 8 ? words[0] | (uint64_t)words[1] << 32 : words[0];
        UNIT_CHECK(got == rows[i].end, rows[i].opcode);
        if (got != rows[i].end) printf("%s: 0x%" PRIx64 "\n", rows[i].opcode, got);
      }
      ptc_str_deinit(&body);
    }
}

// exch and cas give the old value; a lock by cas counts right.
static void test_exchange(void) {
  uint32_t words[8] = {7, 9, 100};
  if (!run("exch", "",
           "atom.global.exch.b32 %w1, [%d63], 5;\nst.global.u32 [%d63+12], %w1;\n"
           "atom.global.cas.b32 %w2, [%d63+4], 9, 11;\natom.global.cas.b32 %w3, [%d63+8], 9, 11;\n"
           "st.global.u32 [%d63+16], %w2;\nst.global.u32 [%d63+20], %w3;\n",
           1, words, 8))
    return;
  const uint32_t want[6] = {5, 11, 100, 7, 9, 100};
  CU_ASSERT(memcmp(words, want, sizeof want) == 0);
}

// --- across lanes

static void check_lanes(const char *what, const char *body, uint32_t (*want)(uint32_t lane)) {
  uint32_t words[64] = {0};
  ptc_str_t text = {0};
  ptc_str_printf(
      &text,
      "mul.wide.u32 %%d1, %%w63, 4;\nadd.s64 %%d2, %%d63, %%d1;\n%s\nst.global.u32 [%%d2], %%w0;\n",
      body);
  if (run(what, "", text.data, 32, words, 64))
    for (uint32_t lane = 0; lane < 32; ++lane) {
      UNIT_CHECK(words[lane] == want(lane), what);
      if (words[lane] != want(lane))
        printf("%s, lane %u: %u, not %u\n", what, lane, words[lane], want(lane));
    }
  ptc_str_deinit(&text);
}

static uint32_t up3(uint32_t l) { return l >= 3 ? l - 3 : l; }
static uint32_t down5(uint32_t l) { return l + 5 <= 31 ? l + 5 : l; }
static uint32_t bfly6(uint32_t l) { return l ^ 6; }
static uint32_t idx9(uint32_t l) {
  (void)l;
  return 9;
}
static uint32_t segment_up(uint32_t l) { return l % 8 ? l - 1 : l; }
static uint32_t segment_down(uint32_t l) { return l % 8 < 7 ? l + 1 : l; }
static uint32_t segment_idx(uint32_t l) { return l / 8 * 8 + 2; }
static uint32_t is_low(uint32_t l) { return l < 29; }
static uint32_t odd_lanes(uint32_t l) {
  (void)l;
  return 0xaaaaaaaa;
}
static uint32_t one(uint32_t l) {
  (void)l;
  return 1;
}
static uint32_t zero(uint32_t l) {
  (void)l;
  return 0;
}
static uint32_t sum31(uint32_t l) {
  (void)l;
  return 496;
}
static uint32_t minimum(uint32_t l) {
  (void)l;
  return (uint32_t)-31;
}
static uint32_t maximum(uint32_t l) {
  (void)l;
  return (uint32_t)-1;
}
static uint32_t or31(uint32_t l) {
  (void)l;
  return 31;
}
static uint32_t peers(uint32_t l) { return 0x11111111u << (l & 3); }
static uint32_t lower(uint32_t l) { return (1u << l) - 1; }
static uint32_t upper(uint32_t l) { return l < 31 ? ~((2u << l) - 1) : 0; }
static uint32_t half_mask(uint32_t l) { return l < 10 ? 0x3ff : 0xfffffc00; }
static uint32_t reversed(uint32_t l) { return 31 - l; }

static void test_lanes(void) {
  check_lanes("shfl.up", "shfl.sync.up.b32 %w0, %w63, 3, 0, -1;\n", up3);
  check_lanes("shfl.down", "shfl.sync.down.b32 %w0, %w63, 5, 31, -1;\n", down5);
  check_lanes("shfl.bfly", "shfl.sync.bfly.b32 %w0|%p1, %w63, 6, 31, -1;\n", bfly6);
  check_lanes("shfl.idx", "shfl.sync.idx.b32 %w0, %w63, 9, 31, -1;\n", idx9);
  check_lanes("shfl.idx by lane",
              "sub.s32 %w1, 31, %w63;\nshfl.sync.idx.b32 %w0, %w63, %w1, 31, -1;\n", reversed);
  // Segments of 8: the mask of c is 24 << 8.
  check_lanes("shfl.up in segments", "shfl.sync.up.b32 %w0, %w63, 1, 6144, -1;\n", segment_up);
  check_lanes("shfl.down in segments", "shfl.sync.down.b32 %w0, %w63, 1, 6175, -1;\n",
              segment_down);
  check_lanes("shfl.idx in segments", "shfl.sync.idx.b32 %w0, %w63, 2, 6175, -1;\n", segment_idx);
  check_lanes("shfl's predicate",
              "shfl.sync.down.b32 %w1|%p1, %w63, 3, 31, -1;\nselp.u32 %w0, 1, 0, %p1;\n", is_low);
  check_lanes(
      "vote.ballot",
      "and.b32 %w1, %w63, 1;\nsetp.eq.s32 %p1, %w1, 1;\nvote.sync.ballot.b32 %w0, %p1, -1;\n",
      odd_lanes);
  check_lanes(
      "vote.ballot of a negation",
      "and.b32 %w1, %w63, 1;\nsetp.eq.s32 %p1, %w1, 0;\nvote.sync.ballot.b32 %w0, !%p1, -1;\n",
      odd_lanes);
  check_lanes(
      "vote.any",
      "setp.eq.s32 %p1, %w63, 3;\nvote.sync.any.pred %p2, %p1, -1;\nselp.u32 %w0, 1, 0, %p2;\n",
      one);
  check_lanes(
      "vote.all",
      "setp.ne.s32 %p1, %w63, 3;\nvote.sync.all.pred %p2, %p1, -1;\nselp.u32 %w0, 1, 0, %p2;\n",
      zero);
  check_lanes(
      "vote.uni",
      "setp.lt.s32 %p1, %w63, 99;\nvote.sync.uni.pred %p2, %p1, -1;\nselp.u32 %w0, 1, 0, %p2;\n",
      one);
  check_lanes("redux.add", "redux.sync.add.s32 %w0, %w63, -1;\n", sum31);
  check_lanes("redux.add.u32", "redux.sync.add.u32 %w0, %w63, -1;\n", sum31);
  check_lanes("redux.min.s32", "neg.s32 %w1, %w63;\nredux.sync.min.s32 %w0, %w1, -1;\n", minimum);
  check_lanes("redux.max.u32", "neg.s32 %w1, %w63;\nredux.sync.max.u32 %w0, %w1, -1;\n", maximum);
  check_lanes("redux.max.s32", "neg.s32 %w1, %w63;\nredux.sync.max.s32 %w0, %w1, -1;\n", zero);
  check_lanes("redux.min.u32", "redux.sync.min.u32 %w0, %w63, -1;\n", zero);
  check_lanes("redux.or", "redux.sync.or.b32 %w0, %w63, -1;\n", or31);
  check_lanes("redux.and", "redux.sync.and.b32 %w0, %w63, -1;\n", zero);
  check_lanes("redux.xor", "redux.sync.xor.b32 %w0, %w63, -1;\n", zero);
  check_lanes("match.any", "and.b32 %w1, %w63, 3;\nmatch.any.sync.b32 %w0, %w1, -1;\n", peers);
  check_lanes("match.any.b64",
              "and.b32 %w1, %w63, 3;\ncvt.u64.u32 %d9, %w1;\nshl.b64 %d9, %d9, "
              "40;\nmatch.any.sync.b64 %w0, %d9, -1;\n",
              peers);
  check_lanes("lanemask_lt", "mov.u32 %w0, %lanemask_lt;\n", lower);
  check_lanes("lanemask_gt", "mov.u32 %w0, %lanemask_gt;\n", upper);
  check_lanes("activemask",
              "setp.lt.s32 %p1, %w63, 10;\n@%p1 bra A;\nactivemask.b32 %w0;\nbra.uni "
              "B;\nA:\nactivemask.b32 %w0;\nB:\n",
              half_mask);
}

// --- control flow

static uint32_t collatz(uint32_t l) {
  uint32_t steps = 0;
  for (uint32_t x = l + 1; x != 1; ++steps) x = x % 2 ? 3 * x + 1 : x / 2;
  return steps;
}
static uint32_t early(uint32_t l) { return l < 7 ? 0 : l * l; }
static uint32_t called(uint32_t l) { return l % 3 ? (l + 5) * 2 + (l + 7) * 2 : (l + 5) * 2; }
static uint32_t nested(uint32_t l) { return l < 16 ? (l < 8 ? 1 : 2) : (l % 2 ? 3 : 4); }
static uint32_t carried(uint32_t l) { return l == 31 ? 2 : l == 30 ? 1 : 0; }

static void test_control(void) {
  check_lanes("loops of different lengths",
              "add.s32 %w1, %w63, 1;\nmov.u32 %w0, 0;\nL:\nsetp.eq.s32 %p1, %w1, 1;\n@%p1 bra "
              "E;\nand.b32 %w2, %w1, 1;\n"
              "setp.eq.s32 %p2, %w2, 0;\n@%p2 bra H;\nmad.lo.s32 %w1, %w1, 3, 1;\nbra.uni "
              "N;\nH:\nshr.u32 %w1, %w1, 1;\nN:\n"
              "add.s32 %w0, %w0, 1;\nbra L;\nE:\n",
              collatz);
  // All lanes are back together behind the branches: the shuffle would fail otherwise.
  check_lanes("branches in branches",
              "setp.lt.s32 %p1, %w63, 16;\n@%p1 bra A;\nand.b32 %w1, %w63, 1;\nsetp.ne.s32 %p2, "
              "%w1, 0;\n@%p2 bra B;\n"
              "mov.u32 %w0, 4;\nbra.uni J;\nB:\nmov.u32 %w0, 3;\nbra.uni J;\nA:\nsetp.lt.s32 %p3, "
              "%w63, 8;\n@%p3 bra C;\n"
              "mov.u32 %w0, 2;\nbra.uni J;\nC:\nmov.u32 %w0, 1;\nJ:\nshfl.sync.bfly.b32 %w5, %w0, "
              "1, 31, -1;\n",
              nested);
  check_lanes("lanes that exit",
              "setp.lt.s32 %p1, %w63, 7;\n@%p1 exit;\nmul.lo.s32 %w0, %w63, %w63;\n", early);
  check_lanes("carries across words",
              "add.s32 %w1, %w63, -32;\nadd.cc.u32 %w2, %w1, 1;\naddc.cc.u32 %w3, -1, 0;\naddc.u32 "
              "%w4, 0, 0;\n"
              "add.s32 %w2, %w63, -30;\nadd.cc.u32 %w5, %w1, 2;\naddc.u32 %w0, 0, 0;\nadd.s32 %w0, "
              "%w0, %w4;\n",
              carried);
}

static void test_calls(void) {
  static const char text[] =
      ".version 9.0\n.target sm_80\n.address_size 64\n"
      ".func (.param .b32 r) twice(.param .b32 a, .param .b32 b)\n;\n"
      ".visible .entry test(.param .u64 out)\n{\n.reg .pred %p<4>;\n.reg .b32 %w<8>;\n.reg .b64 "
      "%d<4>;\n"
      "ld.param.u64 %d1, [out];\nmov.u32 %w1, %tid.x;\nmul.wide.u32 %d2, %w1, 4;\nadd.s64 %d1, "
      "%d1, %d2;\n"
      "{\n.param .b32 x;\nst.param.b32 [x+0], %w1;\n.param .b32 y;\nst.param.b32 [y+0], 5;\n.param "
      ".b32 z;\n"
      "call.uni (z), twice, (x, y);\nld.param.b32 %w2, [z+0];\n}\n"
      "rem.u32 %w4, %w1, 3;\nsetp.eq.s32 %p1, %w4, 0;\n@%p1 bra J;\n"
      "{\n.param .b32 x;\nst.param.b32 [x+0], %w1;\n.param .b32 y;\nst.param.b32 [y+0], 7;\n.param "
      ".b32 z;\n"
      "call.uni (z), twice, (x, y);\nld.param.b32 %w3, [z+0];\n}\nadd.s32 %w2, %w2, %w3;\n"
      "J:\nst.global.u32 [%d1], %w2;\nret;\n}\n"
      ".func (.param .b32 r) twice(.param .b32 a, .param .b32 b)\n{\n.reg .b32 %w<4>;\n.reg .pred "
      "%p<2>;\n"
      "ld.param.b32 %w1, [a];\nld.param.b32 %w2, [b];\nadd.s32 %w1, %w1, %w2;\nadd.s32 %w1, %w1, "
      "%w1;\n"
      "st.param.b32 [r+0], %w1;\nret;\n}\n";
  uint32_t words[32] = {0};
  ptx_result_t result = ptx_run(
      &(ptx_run_t){.text = text, .threads = 32, .checks = true, .out = words, .out_bytes = 128});
  CU_ASSERT(result.loaded && !result.fault);
  if (result.report.data) printf("%s\n", result.report.data);
  for (uint32_t l = 0; l < 32; ++l) CU_ASSERT_EQUAL(words[l], called(l));
  ptx_result_deinit(&result);
}

// Blocks, a barrier that reduces, dynamic shared memory, tables.
static void test_blocks(void) {
  static const char text[] =
      ".version 9.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dyn[];\n"
      ".global .align 4 .u32 table[3] = {10, 20, 30};\n.const .align 8 .b8 bytes[4] = {1, 2, 3, "
      "4};\n"
      ".visible .entry test(.param .u64 out)\n{\n.reg .pred %p<4>;\n.reg .b32 %w<16>;\n.reg .b64 "
      "%d<8>;\n"
      "ld.param.u64 %d1, [out];\nmov.u32 %w1, %tid.x;\nmov.u32 %w2, %ctaid.x;\nmov.u32 %w3, "
      "%ntid.x;\n"
      "mad.lo.s32 %w4, %w2, %w3, %w1;\nmov.u32 %w5, dyn;\nshl.b32 %w6, %w1, 2;\nadd.s32 %w5, %w5, "
      "%w6;\n"
      "st.shared.u32 [%w5], %w4;\nsetp.eq.s32 %p1, %w1, 70;\nbar.red.or.pred %p2, 0, %p1;\n"
      "bar.red.and.pred %p3, 0, !%p1;\nsub.s32 %w7, 95, %w1;\nshl.b32 %w7, %w7, 2;\nmov.u32 %w8, "
      "dyn;\nadd.s32 %w8, %w8, %w7;\n"
      "ld.shared.u32 %w9, [%w8];\nselp.u32 %w10, 1000, 0, %p2;\nadd.s32 %w9, %w9, %w10;\nselp.u32 "
      "%w10, 5000, 0, %p3;\n"
      "add.s32 %w9, %w9, %w10;\nbar.red.popc.u32 %w11, 0, %p1;\nadd.s32 %w9, %w9, %w11;\n"
      "mov.u64 %d2, table;\nld.global.u32 %w12, [%d2+8];\nadd.s32 %w9, %w9, %w12;\nld.const.u8 "
      "%w13, [bytes+3];\n"
      "add.s32 %w9, %w9, %w13;\nmul.wide.u32 %d3, %w4, 4;\nadd.s64 %d4, %d1, %d3;\nst.global.u32 "
      "[%d4], %w9;\nret;\n}\n";
  enum { BLOCKS = 5, THREADS = 96 };
  uint32_t words[BLOCKS * THREADS] = {0};
  ptx_result_t result = ptx_run(&(ptx_run_t){.text = text,
                                             .blocks = BLOCKS,
                                             .threads = THREADS,
                                             .dynamic_bytes = 4 * THREADS,
                                             .checks = true,
                                             .counters = true,
                                             .out = words,
                                             .out_bytes = sizeof words});
  CU_ASSERT(result.loaded && !result.fault);
  if (result.report.data) printf("%s\n", result.report.data);
  for (uint32_t b = 0; b < BLOCKS; ++b)
    for (uint32_t t = 0; t < THREADS; ++t)
      CU_ASSERT_EQUAL(words[b * THREADS + t], b * THREADS + 95 - t + 1000 + 1 + 30 + 4);
  CU_ASSERT_EQUAL(result.counters.blocks, BLOCKS);
  CU_ASSERT_EQUAL(result.counters.barriers, 3 * BLOCKS);
  ptx_result_deinit(&result);
}

static const unit_test_t tests[] = {{"access", test_access},     {"atomics", test_atomics},
                                    {"exchange", test_exchange}, {"lanes", test_lanes},
                                    {"control", test_control},   {"calls", test_calls},
                                    {"blocks", test_blocks}};
UNIT_MAIN("gpusim memory", tests)

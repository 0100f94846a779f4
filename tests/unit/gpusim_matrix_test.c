// Proves: mma.sync and ldmatrix of the GPU simulator have the fragment layouts of the PTX ISA ("Matrix
// fragments for mma"), element by element as the formulas there, for every shape and type; sums are right.
#include <math.h>
#include <stdlib.h>

#include "tests/support/ptx_run.h"
#include "tests/support/unit.h"

typedef enum type_e { F16, BF16, TF32, S8, U8, HALF, FLOAT, INT } type_t;

typedef struct shape_s {
  const char *opcode;
  int m, n, k;
  type_t a, b, c;
  int num_a, num_b, num_c;  // registers
} shape_t;

static const shape_t shapes[] = {
    {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, BF16, BF16, FLOAT, 4, 2, 4},
    {"m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, F16, F16, FLOAT, 4, 2, 4},
    {"m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16, F16, F16, HALF, 4, 2, 2},
    {"m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 8, BF16, BF16, FLOAT, 2, 1, 4},
    {"m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 8, F16, F16, FLOAT, 2, 1, 4},
    {"m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 8, F16, F16, HALF, 2, 1, 2},
    {"m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, TF32, TF32, FLOAT, 2, 1, 4},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, TF32, TF32, FLOAT, 4, 2, 4},
    {"m8n8k16.row.col.s32.s8.s8.s32", 8, 8, 16, S8, S8, INT, 1, 1, 2},
    {"m8n8k16.row.col.s32.u8.u8.s32", 8, 8, 16, U8, U8, INT, 1, 1, 2},
    {"m16n8k16.row.col.s32.s8.s8.s32", 16, 8, 16, S8, S8, INT, 2, 1, 4},
    {"m16n8k32.row.col.s32.s8.s8.s32", 16, 8, 32, S8, S8, INT, 4, 2, 4},
    {"m16n8k32.row.col.s32.u8.s8.s32", 16, 8, 32, U8, S8, INT, 4, 2, 4},
};

static int packed(type_t type) {
  return type == F16 || type == BF16 || type == HALF ? 2 : type == S8 || type == U8 ? 4 : 1;
}

// Small whole numbers: exact in every type.
static uint32_t encode(int value, type_t type) {
  const float x = (float)value;
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (type == TF32 || type == FLOAT) return bits;
  if (type == BF16) return bits >> 16;
  if (type == S8 || type == U8) return (uint32_t)value & 0xff;
  if (type == INT) return (uint32_t)value;
  if (!value) return 0;
  return (bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 0x3ff);
}

// Row and column of element |i| of the A fragment of |lane|.
static void place_a(const shape_t *s, int lane, int i, int *row, int *col) {
  const int group = lane / 4, t = lane % 4;
  if (s->a == TF32) {
    *row = s->k == 4 ? group + 8 * i : (i == 0 || i == 2 ? group : group + 8);
    *col = s->k == 4 ? t : (i < 2 ? t : t + 4);
  } else if (packed(s->a) == 2) {
    *row = s->k == 8 ? (i < 2 ? group : group + 8)
                     : ((i >= 0 && i < 2) || (i >= 4 && i < 6) ? group : group + 8);
    *col = t * 2 + (i & 1) + (s->k == 16 && i >= 4 ? 8 : 0);
  } else if (s->m == 8) {
    *row = group;
    *col = t * 4 + i;
  } else if (s->k == 16) {
    *row = i < 4 ? group : group + 8;
    *col = t * 4 + (i & 3);
  } else {
    *row = (i >= 0 && i < 4) || (i >= 8 && i < 12) ? group : group + 8;
    *col = t * 4 + (i & 3) + (i < 8 ? 0 : 16);
  }
}

static void place_b(const shape_t *s, int lane, int i, int *row, int *col) {
  const int group = lane / 4, t = lane % 4;
  *col = group;
  if (s->b == TF32)
    *row = i == 0 ? t : t + 4;
  else if (packed(s->b) == 2)
    *row = t * 2 + (i & 1) + (i < 2 ? 0 : 8);
  else
    *row = t * 4 + (i & 3) + (i < 4 ? 0 : 16);
}

static void place_c(int lane, int i, int *row, int *col) {
  *row = i < 2 ? lane / 4 : lane / 4 + 8;
  *col = lane % 4 * 2 + (i & 1);
}

enum { WORDS = 16 };  // of a lane: A at 0, B at 4, C at 6, D at 10

static int draw(uint64_t *state, type_t type) {
  const int value = (int)(unit_random(state) % 15);
  return type == U8 ? value : value - 7;
}

static void check_shape(const shape_t *s, uint64_t *state) {
  int a[16][32], b[32][8], c[16][8];
  for (int i = 0; i < s->m; ++i)
    for (int k = 0; k < s->k; ++k) a[i][k] = draw(state, s->a);
  for (int k = 0; k < s->k; ++k)
    for (int j = 0; j < s->n; ++j) b[k][j] = draw(state, s->b);
  for (int i = 0; i < s->m; ++i)
    for (int j = 0; j < s->n; ++j) c[i][j] = draw(state, S8);
  uint32_t words[32 * WORDS] = {0};
  for (int lane = 0; lane < 32; ++lane) {
    uint32_t *w = words + lane * WORDS;
    int row, col;
    for (int i = 0; i < s->num_a * packed(s->a); ++i) {
      place_a(s, lane, i, &row, &col);
      w[i / packed(s->a)] |= encode(a[row][col], s->a)
                             << (32 / packed(s->a) * (i % packed(s->a)) % 32);
    }
    for (int i = 0; i < s->num_b * packed(s->b); ++i) {
      place_b(s, lane, i, &row, &col);
      w[4 + i / packed(s->b)] |= encode(b[row][col], s->b)
                                 << (32 / packed(s->b) * (i % packed(s->b)) % 32);
    }
    for (int i = 0; i < s->num_c * packed(s->c); ++i) {
      place_c(lane, i, &row, &col);
      w[6 + i / packed(s->c)] |= encode(c[row][col], s->c)
                                 << (32 / packed(s->c) * (i % packed(s->c)) % 32);
    }
  }
  ptc_str_t body = {0}, text = {0};
  ptc_str_append(&body, "mul.wide.u32 %d1, %w63, 64;\nadd.s64 %d2, %d63, %d1;\n");
  for (int i = 0; i < 10; ++i) ptc_str_printf(&body, "ld.global.u32 %%w%d, [%%d2+%d];\n", i, 4 * i);
  ptc_str_printf(&body, "mma.sync.aligned.%s ", s->opcode);
  // D takes A's registers: an instruction must read all before it writes.
  const int first[4] = {0, 0, 4, 6}, count[4] = {s->num_c, s->num_a, s->num_b, s->num_c};
  for (int o = 0; o < 4; ++o) {
    ptc_str_append(&body, o ? ", {" : "{");
    for (int i = 0; i < count[o]; ++i)
      ptc_str_printf(&body, "%s%%w%d", i ? ", " : "", first[o] + i);
    ptc_str_append(&body, "}");
  }
  ptc_str_append(&body, ";\n");
  for (int i = 0; i < s->num_c; ++i)
    ptc_str_printf(&body, "st.global.u32 [%%d2+%d], %%w%d;\n", 40 + 4 * i, i);
  ptx_wrap(&text, "", body.data);
  ptx_result_t result = ptx_run(&(ptx_run_t){.text = text.data,
                                             .checks = true,
                                             .counters = true,
                                             .out = words,
                                             .out_bytes = sizeof words});
  UNIT_CHECK(result.loaded && !result.fault, s->opcode);
  if (result.report.data) printf("%s\n", result.report.data);
  UNIT_CHECK(result.counters.mma_flops == 2 * s->m * s->n * s->k, s->opcode);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < s->num_c * packed(s->c); ++i) {
      int row, col;
      place_c(lane, i, &row, &col);
      int sum = c[row][col];
      for (int k = 0; k < s->k; ++k) sum += a[row][k] * b[k][col];
      uint32_t got = words[lane * WORDS + 10 + i / packed(s->c)];
      if (s->c == HALF) got = got >> (16 * (i % 2)) & 0xffff;
      UNIT_CHECK(got == encode(sum, s->c), s->opcode);
    }
  ptx_result_deinit(&result);
  ptc_str_deinit(&body);
  ptc_str_deinit(&text);
}

static void test_shapes(void) {
  uint64_t state = unit_seed();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) check_shape(&shapes[i], &state);
}

// m8n8k4 of f64: A row = lane / 4, column = lane % 4; B row = lane % 4, column = lane / 4.
static void test_double(void) {
  double values[32 * 8] = {0}, a[8][4], b[4][8];
  for (int lane = 0; lane < 32; ++lane) {
    values[8 * lane] = a[lane / 4][lane % 4] = lane * 0.25 - 3;
    values[8 * lane + 1] = b[lane % 4][lane / 4] = 2 - lane * 0.5;
    values[8 * lane + 2] = lane;
    values[8 * lane + 3] = -lane;
  }
  ptc_str_t text = {0};
  ptx_wrap(
      &text, "",
      "mul.wide.u32 %d1, %w63, 64;\nadd.s64 %d2, %d63, %d1;\nld.global.v2.f64 {%d3,%d4}, [%d2];\n"
      "ld.global.v2.f64 {%d5,%d6}, [%d2+16];\nmma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
      "{%d3,%d4}, {%d3}, {%d4}, {%d5,%d6};\n"
      "st.global.v2.f64 [%d2+32], {%d3,%d4};\n");
  ptx_result_t result =
      ptx_run(&(ptx_run_t){.text = text.data, .out = values, .out_bytes = sizeof values});
  CU_ASSERT(result.loaded && !result.fault);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 2; ++i) {
      double sum = i ? -lane : lane;
      for (int k = 0; k < 4; ++k) sum += a[lane / 4][k] * b[k][lane % 4 * 2 + i];
      CU_ASSERT_EQUAL(values[8 * lane + 4 + i], sum);
    }
  ptx_result_deinit(&result);
  ptc_str_deinit(&text);
}

// A matrix of 8 x 8 halves: lane l has row l / 4, columns l % 4 * 2 and the next; transposed, the reverse.
static void test_ldmatrix(void) {
  for (int count = 1; count <= 4; count *= 2)
    for (int trans = 0; trans < 2; ++trans) {
      ptc_str_t body = {0}, text = {0};
      // Row r of matrix x begins at 16 * (8 x + r) bytes, half h of it is 1000 x + 10 r + h.
      ptc_str_append(&body,
                     "mov.u32 %w1, m;\nshl.b32 %w2, %w63, 4;\nadd.s32 %w3, %w1, %w2;\nshr.u32 %w4, "
                     "%w63, 3;\nand.b32 %w5, %w63, 7;\n"
                     "mul.lo.s32 %w4, %w4, 1000;\nmad.lo.s32 %w4, %w5, 10, %w4;\n");
      for (int h = 0; h < 8; ++h)
        ptc_str_printf(&body, "add.s32 %%w6, %%w4, %d;\nst.shared.u16 [%%w3+%d], %%w6;\n", h,
                       2 * h);
      ptc_str_append(&body, "bar.warp.sync -1;\n");
      ptc_str_printf(&body, "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 {", count,
                     trans ? ".trans" : "");
      for (int x = 0; x < count; ++x) ptc_str_printf(&body, "%s%%w%d", x ? "," : "", 10 + x);
      ptc_str_append(&body, "}, [%w3];\nmul.wide.u32 %d1, %w63, 16;\nadd.s64 %d2, %d63, %d1;\n");
      for (int x = 0; x < count; ++x)
        ptc_str_printf(&body, "st.global.u32 [%%d2+%d], %%w%d;\n", 4 * x, 10 + x);
      ptx_wrap(&text, ".shared .align 16 .b8 m[512];\n", body.data);
      uint32_t words[128] = {0};
      ptx_result_t result = ptx_run(&(ptx_run_t){.text = text.data,
                                                 .checks = true,
                                                 .counters = true,
                                                 .out = words,
                                                 .out_bytes = sizeof words});
      CU_ASSERT(result.loaded && !result.fault);
      if (result.report.data) printf("%s\n", result.report.data);
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t x = 0; x < (uint32_t)count; ++x)
          for (uint32_t h = 0; h < 2; ++h) {
            const uint32_t row = trans ? lane % 4 * 2 + h : lane / 4,
                           col = trans ? lane / 4 : lane % 4 * 2 + h;
            CU_ASSERT_EQUAL(words[4 * lane + x] >> (16 * h) & 0xffff, 1000 * x + 10 * row + col);
          }
      ptx_result_deinit(&result);
      ptc_str_deinit(&body);
      ptc_str_deinit(&text);
    }
}

// Counters against numbers by hand.
static void test_counters(void) {
  static const struct {
    const char *name, *body;
    int64_t sectors, least, passes, conflicts;
  } rows[] = {
      {"coalesced",
       "mul.wide.u32 %d1, %w63, 4;\nadd.s64 %d2, %d63, %d1;\nld.global.u32 %w1, [%d2];\n", 4, 4, 0,
       0},
      {"stride of 32 bytes",
       "mul.wide.u32 %d1, %w63, 32;\nadd.s64 %d2, %d63, %d1;\nld.global.u32 %w1, [%d2];\n", 32, 4,
       0, 0},
      {"one word for all", "ld.global.u32 %w1, [%d63];\n", 1, 1, 0, 0},
      {"vectors",
       "mul.wide.u32 %d1, %w63, 16;\nadd.s64 %d2, %d63, %d1;\nld.global.v4.u32 {%w1,%w2,%w3,%w4}, "
       "[%d2];\n",
       16, 16, 0, 0},
      {"banks apart", "mov.u32 %w1, m;\nmad.lo.s32 %w1, %w63, 4, %w1;\nst.shared.u32 [%w1], 1;\n",
       0, 0, 1, 0},
      {"stride of two words",
       "mov.u32 %w1, m;\nmad.lo.s32 %w1, %w63, 8, %w1;\nst.shared.u32 [%w1], 1;\n", 0, 0, 2, 1},
      {"one bank", "mov.u32 %w1, m;\nmad.lo.s32 %w1, %w63, 128, %w1;\nst.shared.u32 [%w1], 1;\n", 0,
       0, 32, 31},
      {"16 bytes each",
       "mov.u32 %w1, m;\nmad.lo.s32 %w1, %w63, 16, %w1;\nst.shared.v4.u32 [%w1], "
       "{%w1,%w1,%w1,%w1};\n",
       0, 0, 4, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    static uint32_t words[256];
    ptc_str_t text = {0};
    ptx_wrap(&text, ".shared .align 128 .b8 m[4096];\n", rows[i].body);
    ptx_result_t result = ptx_run(
        &(ptx_run_t){.text = text.data, .counters = true, .out = words, .out_bytes = sizeof words});
    const sim_counters_t *c = &result.counters;
    UNIT_CHECK(result.loaded && !result.fault, rows[i].name);
    UNIT_CHECK(c->global_sectors == rows[i].sectors && c->least_sectors == rows[i].least,
               rows[i].name);
    UNIT_CHECK(c->shared_passes == rows[i].passes && c->shared_conflicts == rows[i].conflicts,
               rows[i].name);
    ptx_result_deinit(&result);
    ptc_str_deinit(&text);
  }
}

static const unit_test_t tests[] = {{"shapes", test_shapes},
                                    {"double", test_double},
                                    {"ldmatrix", test_ldmatrix},
                                    {"counters", test_counters}};
UNIT_MAIN("gpusim matrix", tests)

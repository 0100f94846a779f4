// Proves: each form of an arithmetic instruction of PTX gives the value that the ISA defines (tests/gpusim/
// forms.def; forms.py computes them with fractions), in all lanes, and leaves lanes alone that do not execute it.
#include <inttypes.h>
#include <math.h>

#include "runtime/gpusim/alu.h"
#include "tests/support/ptx_run.h"
#include "tests/support/unit.h"

typedef struct row_s {
  uint64_t operands[3], result;
} row_t;

typedef struct form_s {
  const char *opcode, *to, *from;
  const row_t *rows;
  int num_rows;
} form_t;

#define ROW(a, b, c, d) {{UINT64_C(a), UINT64_C(b), UINT64_C(c)}, UINT64_C(d)},
#define FORM(opcode, to, from, rows) \
  {opcode, to, from, (const row_t[]){rows}, sizeof((const row_t[]){rows}) / sizeof(row_t)},
static const form_t forms[] = {
#include "tests/gpusim/forms.def"
};
enum { NUM_FORMS = sizeof forms / sizeof *forms };

static const char *letters = "hwdp";
static const char *const moves[] = {"mov.b16", "mov.b32", "mov.b64"};

// The opcode without what follows `|`; that, as further operands.
static void split(const char *text, char *opcode, ptc_str_t *more) {
  const size_t len = strcspn(text, "|");
  memcpy(opcode, text, len);
  opcode[len] = '\0';
  for (const char *at = text + len; *at; at += strcspn(at, "|")) {
    ++at;
    if (*at && *at != '|') ptc_str_printf(more, ", %.*s", (int)strcspn(at, "|"), at);
  }
}

// One row as text: the result of |row| of |form| goes to 8 bytes at |at| for each thread. Odd threads do not
// execute it if |half|: they keep 0x5a5a in its place.
static void print_row(const form_t *form, const row_t *row, int at, bool half, ptc_str_t *out) {
  char opcode[96];
  ptc_str_t more = {0};
  split(form->opcode, opcode, &more);
  const int num = (int)strlen(form->from);
  for (int i = 0; i < num; ++i) {
    const char c = form->from[i];
    if (c == 'p')
      ptc_str_printf(out, "mov.b32 %%w50, %" PRIu64 ";\nsetp.ne.s32 %%p%d, %%w50, 0;\n",
                     row->operands[i], i + 1);
    else
      ptc_str_printf(out, "%s %%%c%d, %" PRIu64 ";\n", moves[strchr(letters, c) - letters], c,
                     i + 1, row->operands[i]);
  }
  const char to = form->to[0];
  if (to == 'p')
    ptc_str_append(out, "setp.ne.s32 %p0, 0, 0;\n");
  else
    ptc_str_printf(out, "%s %%%c0, 23130;\n", moves[strchr(letters, to) - letters], to);
  ptc_str_printf(out, "%s%s %%%c0", half ? "@!%p9 " : "", opcode, to);
  for (int i = 0; i < num; ++i) ptc_str_printf(out, ", %%%c%d", form->from[i], i + 1);
  ptc_str_printf(out, "%s;\n", more.data ? more.data : "");
  if (to == 'p') ptc_str_append(out, "selp.b64 %d0, 1, 0, %p0;\n");
  if (to == 'h') ptc_str_append(out, "cvt.u64.u16 %d0, %h0;\n");
  if (to == 'w') ptc_str_append(out, "cvt.u64.u32 %d0, %w0;\n");
  ptc_str_printf(out, "st.global.b64 [%%d62+%d], %%d0;\n", at);
  ptc_str_deinit(&more);
}

static void check_form(const form_t *form, bool half) {
  ptc_str_t body = {0}, text = {0};
  const int bytes = 8 * form->num_rows;
  ptc_str_printf(&body,
                 "mul.wide.u32 %%d61, %%w63, %d;\nadd.s64 %%d62, %%d63, %%d61;\n"
                 "and.b32 %%w60, %%w63, 1;\nsetp.ne.s32 %%p9, %%w60, 0;\n",
                 bytes);
  for (int r = 0; r < form->num_rows; ++r) print_row(form, &form->rows[r], 8 * r, half, &body);
  ptx_wrap(&text, "", body.data);
  uint64_t out[SIM_LANES * 16] = {0};
  UNIT_CHECK(form->num_rows <= 16, form->opcode);
  ptx_result_t result =
      ptx_run(&(ptx_run_t){.text = text.data, .out = out, .out_bytes = (int64_t)bytes * SIM_LANES});
  UNIT_CHECK(result.loaded && !result.fault, form->opcode);
  if (!result.loaded || result.fault) printf("%s: %s\n", form->opcode, result.report.data);
  for (int lane = 0; result.loaded && !result.fault && lane < SIM_LANES; ++lane)
    for (int r = 0; r < form->num_rows; ++r) {
      const row_t *row = &form->rows[r];
      const uint64_t got = out[lane * form->num_rows + r];
      const uint64_t kept = form->to[0] == 'p' ? 0 : 23130;
      const uint64_t want = half && lane % 2 ? kept : row->result;
      UNIT_CHECK(got == want, form->opcode);
      if (got != want && lane < 2)
        printf("%s of 0x%" PRIx64 ", 0x%" PRIx64 ", 0x%" PRIx64 " is 0x%" PRIx64 ", not 0x%" PRIx64
               "\n",
               form->opcode, row->operands[0], row->operands[1], row->operands[2], want, got);
    }
  ptx_result_deinit(&result);
  ptc_str_deinit(&body);
  ptc_str_deinit(&text);
}

static void test_forms(void) {
  for (int f = 0; f < NUM_FORMS; ++f) {
    check_form(&forms[f], false);
    check_form(&forms[f], true);
  }
  printf("%d forms\n", NUM_FORMS);
  CU_ASSERT(NUM_FORMS >= 400);
}

// --- approximations: within the bounds that the ISA gives

typedef struct near_s {
  const char *opcode;
  double x, result;
  double relative, absolute;
} near_t;

static const near_t nears[] = {
    {"ex2.approx.f32", 0.5, 1.4142135623730951, 0x1p-22, 0},
    {"ex2.approx.f32", -130.25, 6.178033457186213e-40, 0x1p-10, 0},
    {"ex2.approx.ftz.f32", -3.75, 0.07432544468767006, 0x1p-22, 0},
    {"ex2.approx.ftz.f32", -130.25, 0, 0, 0},
    {"lg2.approx.f32", 10, 3.321928094887362, 0, 0x1p-21},
    {"lg2.approx.ftz.f32", 0.7, -0.5145731728297583, 0, 0x1p-21},
    {"rsqrt.approx.f32", 2, 0.7071067811865476, 0x1p-22, 0},
    {"rsqrt.approx.ftz.f32", 3, 0.5773502691896258, 0x1p-22, 0},
    {"rcp.approx.f32", 3, 0.3333333333333333, 0x1p-23, 0},
    {"rcp.approx.ftz.f32", -7, -0.14285714285714285, 0x1p-23, 0},
    {"sqrt.approx.f32", 2, 1.4142135623730951, 0x1p-22, 0},
    {"sqrt.approx.ftz.f32", 5, 2.23606797749979, 0x1p-22, 0},
    {"sin.approx.f32", 1, 0.8414709848078965, 0, 0x1p-20},
    {"sin.approx.ftz.f32", -2, -0.9092974268256817, 0, 0x1p-20},
    {"cos.approx.f32", 1, 0.5403023058681398, 0, 0x1p-20},
    {"cos.approx.ftz.f32", 3, -0.9899924966004454, 0, 0x1p-20},
    {"tanh.approx.f32", 0.5, 0.46211715726000975, 0x1p-10, 0},
    {"tanh.approx.f32", 20, 1, 0x1p-10, 0},
};

static void test_approximations(void) {
  for (size_t i = 0; i < sizeof nears / sizeof *nears; ++i) {
    const near_t *near = &nears[i];
    const float x = (float)near->x;
    uint32_t bits;
    float out = 0;
    memcpy(&bits, &x, sizeof bits);
    ptc_str_t body = {0}, text = {0};
    ptc_str_printf(&body,
                   "mov.b32 %%w1, %" PRIu32 ";\n%s %%w0, %%w1;\nst.global.b32 [%%d63], %%w0;\n",
                   bits, near->opcode);
    ptx_wrap(&text, "", body.data);
    ptx_result_t result =
        ptx_run(&(ptx_run_t){.text = text.data, .threads = 1, .out = &out, .out_bytes = 4});
    UNIT_CHECK(result.loaded && !result.fault, near->opcode);
    UNIT_CHECK(fabs(out - near->result) <= near->absolute + near->relative * fabs(near->result),
               near->opcode);
    ptx_result_deinit(&result);
    ptc_str_deinit(&body);
    ptc_str_deinit(&text);
  }
}

// f64 approximations fill the upper word alone, with 20 bits of mantissa.
static void test_double_approximations(void) {
  static const struct {
    const char *opcode;
    double result;
  } rows[] = {{"rcp.approx.ftz.f64", 1.0 / 3},
              {"rsqrt.approx.f64", 0.57735026918962584},
              {"rsqrt.approx.ftz.f64", 0.57735026918962584}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ptc_str_t body = {0}, text = {0};
    double out = 0;
    ptc_str_printf(
        &body, "mov.b64 %%d1, 0d4008000000000000;\n%s %%d0, %%d1;\nst.global.b64 [%%d63], %%d0;\n",
        rows[i].opcode);
    ptx_wrap(&text, "", body.data);
    ptx_result_t result =
        ptx_run(&(ptx_run_t){.text = text.data, .threads = 1, .out = &out, .out_bytes = 8});
    uint64_t bits;
    memcpy(&bits, &out, sizeof bits);
    UNIT_CHECK(result.loaded && !result.fault && (bits & UINT32_MAX) == 0, rows[i].opcode);
    UNIT_CHECK(fabs(out - rows[i].result) <= 0x1p-19 * rows[i].result, rows[i].opcode);
    ptx_result_deinit(&result);
    ptc_str_deinit(&body);
    ptc_str_deinit(&text);
  }
}

// Whether |opcode| is in the tables above.
static bool is_tested(const char *opcode) {
  const size_t len = strlen(opcode);
  for (int f = 0; f < NUM_FORMS; ++f)
    if (strncmp(forms[f].opcode, opcode, len) == 0 && strchr("|", forms[f].opcode[len]))
      return true;
  for (size_t i = 0; i < sizeof nears / sizeof *nears; ++i)
    if (strcmp(nears[i].opcode, opcode) == 0) return true;
  return strncmp(opcode, "cvta.", 5) == 0 ||
         strstr(opcode, "approx") != NULL;  // gpusim_memory_test; above
}

// Every row of the simulator's own tables has a form here.
static void test_complete(void) {
  const struct {
    const sim_alu_row_t *rows;
    int32_t count;
  } tables[] = {{sim_alu_int_rows, sim_num_alu_int_rows},
                {sim_alu_float_rows, sim_num_alu_float_rows},
                {sim_alu_move_rows, sim_num_alu_move_rows}};
  for (size_t t = 0; t < sizeof tables / sizeof *tables; ++t)
    for (int32_t i = 0; i < tables[t].count; ++i)
      UNIT_CHECK(is_tested(tables[t].rows[i].opcode), tables[t].rows[i].opcode);
  for (int32_t i = 0; i < sim_num_compare_rows; ++i) {
    char name[96];
    const char *relation = sim_compare_rows[i].name;
    snprintf(name, sizeof name, "%s%s", strncmp(relation, "testp", 5) == 0 ? "" : "setp.",
             relation);
    UNIT_CHECK(is_tested(name), name);
  }
}

static const unit_test_t tests[] = {{"forms", test_forms},
                                    {"approximations", test_approximations},
                                    {"double approximations", test_double_approximations},
                                    {"complete", test_complete}};
UNIT_MAIN("gpusim forms", tests)

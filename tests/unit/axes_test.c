// Proves: lists of axes are read and printed as they are spelled; broken ones are refused; members of a group
// are numbered row-major.
#include "ir/axes.h"

#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

// The mesh of maker_module: micro 4, tp 2, cp 2.
static const struct {
  const char *text;
  int32_t num;  // -1: refused
  int64_t size;
} rows[] = {
    {"tp", 1, 2},        {"micro cp", 2, 8},
    {"micro:1:2", 1, 2}, {"cp micro:2:2 tp", 3, 8},
    {"micro:1:4", 1, 4}, {"micro:1:2 micro:2:2", 2, 4},
    {NULL, -1, 0},       {"", -1, 0},
    {" ", -1, 0},        {"dp", -1, 0},
    {"tp,cp", -1, 0},    {"tpx", -1, 0},
    {"tp tp", -1, 0},    {"micro micro:1:2", -1, 0},
    {"tp:1", -1, 0},     {"tp:1:", -1, 0},
    {"tp::2", -1, 0},    {"tp:1:2:1", -1, 0},
    {"tp:1:3", -1, 0},   {"micro:3:1", -1, 0},
    {"tp:0:2", -1, 0},   {"tp:1:0", -1, 0},
    {"tp:-1:2", -1, 0},  {"tp:9999999999999999999:2", -1, 0},
};

static void test_text(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = maker_module(&diag);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_axis_ref_t refs[PTC_MAX_AXES];
    int32_t num;
    bool read = ptc_axes_parse(module, rows[i].text, refs, &num);
    const char *name = rows[i].text ? rows[i].text : "NULL";
    UNIT_CHECK(read == (rows[i].num > 0), name);
    if (!read) continue;
    UNIT_CHECK(num == rows[i].num, name);
    UNIT_CHECK(ptc_axes_size(&module->mesh, refs, num) == rows[i].size, name);
    UNIT_CHECK(strcmp(ptc_axes_text(module, refs, num), rows[i].text) == 0, name);
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_index(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = maker_module(&diag);
  ptc_axis_ref_t refs[PTC_MAX_AXES];
  int32_t num;
  const int64_t coords[] = {3, 1, 0};  // micro 3 = major 1, minor 1
  static const struct {
    const char *text;
    int64_t index;
  } cases[] = {{"micro", 3},        {"tp", 1},           {"cp", 0},
               {"tp cp", 2},        {"cp tp", 1},        {"tp micro", 7},
               {"micro:1:2 cp", 2}, {"cp micro:2:2", 1}, {"micro cp", 6}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    UNIT_CHECK(ptc_axes_parse(module, cases[i].text, refs, &num), cases[i].text);
    UNIT_CHECK(ptc_axes_index(&module->mesh, refs, num, coords) == cases[i].index, cases[i].text);
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"text", test_text}, {"index", test_index}};
UNIT_MAIN("axes", tests)

// Proves: every broken input of tests/errors gets exactly the diagnostics it states, no follow-ups,
// and no crash. Each section of a file is a test of its own.
#include <CUnit/Basic.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/compile.h"
#include "tests/support/expect.h"

static expect_sections_t sections;

static void check_section(void) {
  const char *name = CU_get_current_test()->pName;
  const expect_section_t *section = NULL;
  for (int64_t i = 0; i < sections.count && !section; i++)
    if (strcmp(sections.items[i].name, name) == 0) section = &sections.items[i];
  CU_ASSERT_PTR_NOT_NULL_FATAL(section);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_lower_options_t options = {0};
  ptc_module_t *module = NULL;
  ptc_status_t status =
      ptc_compile_text(&diag, section->path, section->text, section->len, &options, &module);
  ptc_str_t report = {0};
  bool ok = expect_check(section, &diag, &report);
  // The status must agree with what was said.
  if ((status == PTC_OK) != (diag.num_errors == 0)) {
    ok = false;
    ptc_str_printf(&report, "%s: status %d with %d errors\n", name, status, (int)diag.num_errors);
  }
  if (!ok) printf("\n%s", report.data);
  (void)CU_assertImplementation(ok, __LINE__, name, __FILE__, "", CU_FALSE);
  ptc_str_deinit(&report);
  if (module) ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

int main(void) {
  if (!expect_load(PTC_SOURCE_DIR "/tests/errors", ".ptm", &sections)) {
    fprintf(stderr, "cannot read tests/errors\n");
    return 1;
  }
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite suite = CU_add_suite("errors", NULL, NULL);
  bool ok = suite != NULL;
  for (int64_t i = 0; i < sections.count && ok; i++)
    ok = CU_add_test(suite, sections.items[i].name, check_section) != NULL;
  if (!ok) return 1;
  CU_basic_set_mode(CU_BRM_NORMAL);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  expect_free(&sections);
  return failures != 0;
}

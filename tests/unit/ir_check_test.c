// Proves: ptc-opt does what the comments of tests/ir/*.ptir say; and the checker of those comments
// notices what is wrong.
#include "tests/support/ir_check.h"

#include <dirent.h>
#include <stdlib.h>

#include "tests/support/unit.h"

static const struct {
  const char *name, *checks, *output;
  bool passes;
} rows[] = {
    {"found", "# CHECK: b c\n", "a\n  b   c\n", true},
    {"missing", "# CHECK: d\n", "a\nb\n", false},
    {"out of order", "# CHECK: b\n# CHECK: a\n", "a\nb\n", false},
    {"next", "# CHECK: a\n# CHECK-NEXT: b\n", "a\nb\n", true},
    {"not the next", "# CHECK: a\n# CHECK-NEXT: b\n", "a\nx\nb\n", false},
    {"absent", "# CHECK: a\n# CHECK-NOT: x\n# CHECK: b\n", "x\na\nb\nx\n", true},
    {"present", "# CHECK: a\n# CHECK-NOT: x\n# CHECK: b\n", "a\nx\nb\n", false},
    {"present at the end", "# CHECK: a\n# CHECK-NOT: x\n", "a\nb\nx\n", false},
    {"variable", "# CHECK: [[A:%[0-9]+]] = neg\n# CHECK: exp [[A]],\n", "%1 = neg\nexp %1, q\n",
     true},
    {"other value", "# CHECK: [[A:%[0-9]+]] = neg\n# CHECK: exp [[A]],\n", "%1 = neg\nexp %2, q\n",
     false},
    {"unbound", "# CHECK: exp [[A]]\n", "exp [[A]]\n", false},
    {"regex", "# CHECK: a{{.*}}d e.\n", "abcd e.\n", true},
    {"literal", "# CHECK: e.\n", "ef\n", false},
    {"label", "# CHECK-LABEL: f\n# CHECK: a\n# CHECK-LABEL: g\n# CHECK: b\n", "f\na\ng\nb\n", true},
    {"other block", "# CHECK-LABEL: f\n# CHECK: b\n# CHECK-LABEL: g\n# CHECK: a\n", "f\na\ng\nb\n",
     false},
    {"bad regex", "# CHECK: {{(}}\n", "(\n", false},
    {"nothing", "CHECK: a\n", "a\n", false},
};

static void test_checker(void) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    ptc_str_t report = {0};
    bool ok = ir_check_output("row", rows[i].checks, rows[i].output, &report);
    UNIT_CHECK(ok == rows[i].passes, rows[i].name);
    UNIT_CHECK(ok == (report.len == 0), rows[i].name);
    ptc_str_deinit(&report);
  }
}

static void test_files(void) {
  DIR *folder = opendir(PTC_SOURCE_DIR "/tests/ir");
  CU_ASSERT_PTR_NOT_NULL_FATAL(folder);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    size_t len = strlen(entry->d_name);
    if (len < 6 || strcmp(entry->d_name + len - 5, ".ptir") != 0) continue;
    char path[1024];
    snprintf(path, sizeof(path), "%s/tests/ir/%s", PTC_SOURCE_DIR, entry->d_name);
    ptc_str_t report = {0};
    bool ok = ir_check_file(path, PTC_BINARY_DIR "/ptc-opt", &report);
    if (!ok) printf("\n%s", report.data);
    UNIT_CHECK(ok, entry->d_name);
    ptc_str_deinit(&report);
    count++;
  }
  closedir(folder);
  CU_ASSERT(count >= 10);
}

static const unit_test_t tests[] = {
    {"the checker", test_checker},
    {"tests/ir", test_files},
};
UNIT_MAIN("ir check", tests)

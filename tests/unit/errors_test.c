// Proves: every broken input of tests/errors gets exactly the diagnostics it states, no follow-ups,
// and no crash. Each section of a file is a test of its own; `# --set NAME=VALUE` in it is an option
// of the command line, `# --cluster SPEC` looks for a cluster. Every id of the front end's sources is provoked by one of them.
#include <CUnit/Basic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/cluster.h"
#include "frontend/driver/compile.h"
#include "frontend/parse.h"
#include "tests/support/diag_ids.h"
#include "tests/support/expect.h"

static expect_sections_t sections;
static diag_ids_t provoked;

enum { MAX_OVERRIDES = 8 };

// Options in comments. The texts are allocated.
static int32_t read_overrides(const char *text, ptc_override_t *out) {
  static const char mark[] = "# --set ";
  int32_t count = 0;
  for (const char *at = text; (at = strstr(at, mark)) != NULL && count < MAX_OVERRIDES;) {
    at += sizeof(mark) - 1;
    char *option = strndup(at, strcspn(at, "\n")), *equals = strchr(option, '=');
    if (!equals) {
      free(option);
      continue;
    }
    *equals = '\0';
    out[count++] = (ptc_override_t){option, equals + 1};
  }
  return count;
}

// `# --cluster SPEC`: the section's text is a program, and the cluster is looked for. The text is allocated.
static char *read_cluster(const char *text) {
  static const char mark[] = "# --cluster ";
  const char *at = strstr(text, mark);
  return at ? strndup(at + sizeof(mark) - 1, strcspn(at + sizeof(mark) - 1, "\n")) : NULL;
}

static ptc_status_t find_cluster(ptc_diag_t *diag, const expect_section_t *section,
                                 const char *spec) {
  ptc_ast_t program;
  ptc_arena_t arena;
  ptc_cluster_t *cluster;
  ptc_ast_init(&program);
  ptc_arena_init(&arena);
  ptc_status_t status = ptc_parse_text(diag, &program, section->path, section->text, section->len);
  if (status == PTC_OK) status = ptc_cluster_find(diag, &arena, &program, spec, &cluster);
  ptc_arena_deinit(&arena);
  ptc_ast_deinit(&program);
  return status;
}

static void note_provoked(const ptc_diag_t *diag) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (diag->items[i].id) diag_ids_add(&provoked, diag->items[i].id);
}

static void check_section(void) {
  const char *name = CU_get_current_test()->pName;
  const expect_section_t *section = NULL;
  for (int64_t i = 0; i < sections.count && !section; i++)
    if (strcmp(sections.items[i].name, name) == 0) section = &sections.items[i];
  CU_ASSERT_PTR_NOT_NULL_FATAL(section);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_override_t overrides[MAX_OVERRIDES];
  ptc_lower_options_t options = {.overrides = overrides,
                                 .num_overrides = read_overrides(section->text, overrides)};
  ptc_module_t *module = NULL;
  char *spec = read_cluster(section->text);
  ptc_status_t status =
      spec ? find_cluster(&diag, section, spec)
           : ptc_compile_text(&diag, section->path, section->text, section->len, &options, &module);
  free(spec);
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
  note_provoked(&diag);
  for (int32_t i = 0; i < options.num_overrides; i++) free((char *)overrides[i].name);
  if (module) ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// A file with a NUL near its start is refused whole, not byte by byte.
static void check_binary_file(ptc_diag_t *diag, ptc_ast_t *ast) {
  static const char bytes[] = "\x7f\0\0\1\2\0\xff";
  char path[] = "/tmp/ptc-binary-XXXXXX";
  int file = mkstemp(path);
  CU_ASSERT_TRUE_FATAL(file >= 0);
  CU_ASSERT_EQUAL(write(file, bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
  close(file);
  int64_t errors = diag->num_errors;
  CU_ASSERT_EQUAL(ptc_parse_file(diag, ast, path), PTC_INVALID_INPUT);
  CU_ASSERT_EQUAL(diag->num_errors, errors + 1);
  unlink(path);
}

// What is wrong with a file itself, rather than with its text.
static void check_files(void) {
  ptc_diag_t diag;
  ptc_ast_t ast;
  ptc_diag_init(&diag);
  ptc_ast_init(&ast);
  CU_ASSERT_EQUAL(ptc_parse_file(&diag, &ast, PTC_SOURCE_DIR "/tests/errors/no_such.ptm"), PTC_IO);
  CU_ASSERT_EQUAL(ptc_parse_text(&diag, &ast, "long.ptm", "", (size_t)1 << 31), PTC_INVALID_INPUT);
  check_binary_file(&diag, &ast);
  note_provoked(&diag);
  ptc_ast_deinit(&ast);
  ptc_diag_deinit(&diag);
}

static void check_ids(void) {
  diag_ids_t known = {0};
  CU_ASSERT_TRUE(diag_ids_scan(PTC_SOURCE_DIR "/frontend", ".c", &known));
  CU_ASSERT_TRUE(diag_ids_scan(PTC_SOURCE_DIR "/frontend", ".l", &known));
  CU_ASSERT_TRUE(known.count > 90);
  for (int32_t i = 0; i < known.count; i++)
    (void)CU_assertImplementation(diag_ids_has(&provoked, known.ids[i]), __LINE__, known.ids[i],
                                  __FILE__, "", CU_FALSE);
  diag_ids_free(&known);
}

int main(void) {
  if (!expect_load(PTC_SOURCE_DIR "/tests/errors", ".ptm", &sections)) {
    fprintf(stderr, "cannot read tests/errors\n");
    return 1;
  }
  static const unit_test_t more[] = {{"files", check_files}, {"ids", check_ids}};
  int status = expect_run("errors", &sections, check_section, more, 2);
  diag_ids_free(&provoked);
  expect_free(&sections);
  return status;
}

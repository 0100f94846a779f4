// Proves: every broken .ptir of tests/errors, and every module built wrong, gets exactly the
// diagnostics that are due; and together they provoke every diagnostic that ir/ can emit.
#include <CUnit/Basic.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/check_semantics.h"
#include "tests/support/bad_kernels.h"
#include "tests/support/bad_modules.h"
#include "tests/support/expect.h"

static expect_sections_t sections;
static ptc_arena_t arena;
static ptc_interner_t names;
static ptc_map_t provoked;  // interned ids

static void note_ids(const ptc_diag_t *diag) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (diag->items[i].message)
      ptc_map_set(&provoked, ptc_intern(&names, diag->items[i].id), (void *)1);
}

static void check(bool ok, const char *name) {
  (void)CU_assertImplementation(ok, __LINE__, name, __FILE__, "", CU_FALSE);
}

static ptc_status_t run(ptc_module_t *module, const char *name) {
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_EXACT);
  ptc_semantics_fill(interp, module, 1);
  ptc_status_t status = ptc_interp_run(interp, name);
  ptc_interp_destroy(interp);
  return status;
}

// A section that begins with `# run: NAME` is interpreted, too.
static ptc_status_t process(ptc_diag_t *diag, const expect_section_t *section) {
  ptc_module_t *module;
  ptc_status_t status = ptc_module_parse(diag, section->path, section->text, section->len, &module);
  if (status == PTC_OK) status = ptc_module_infer_shapes(module);
  if (status == PTC_OK) status = ptc_module_verify(module);
  char name[32];
  const char *text = section->text + strspn(section->text, "\n");
  if (status == PTC_OK && sscanf(text, "# run: %31s", name) == 1) status = run(module, name);
  ptc_module_destroy(module);
  return status;
}

static void check_section(void) {
  const char *name = CU_get_current_test()->pName;
  const expect_section_t *section = NULL;
  for (int64_t i = 0; i < sections.count && !section; i++)
    if (strcmp(sections.items[i].name, name) == 0) section = &sections.items[i];
  CU_ASSERT_PTR_NOT_NULL_FATAL(section);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status = process(&diag, section);
  ptc_str_t report = {0};
  bool ok = expect_check(section, &diag, &report);
  if (!ok) printf("\n%s", report.data);
  check(ok, name);
  // Each of these inputs is broken.
  check(status != PTC_OK && diag.num_errors > 0, name);
  note_ids(&diag);
  ptc_str_deinit(&report);
  ptc_diag_deinit(&diag);
}

static void check_bad_modules(void) {
  for (int i = -1; i < num_bad_modules; i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = good_module(&diag);
    CU_ASSERT_PTR_NOT_NULL_FATAL(module);
    const char *label = i < 0 ? "good" : bad_modules[i].label;
    if (i >= 0) bad_modules[i].spoil(module);
    ptc_status_t status = ptc_module_verify(module);
    check((status == PTC_OK) == (i < 0), label);
    check(diag.num_errors == (i < 0 ? 0 : 1), label);
    if (i >= 0 && diag.num_items) check(strcmp(diag.items[0].id, label) == 0, label);
    if (i >= 0 && (!diag.num_items || strcmp(diag.items[0].id, label) != 0 || diag.num_errors != 1))
      ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    // A module that fails can still be looked at.
    ptc_str_t text = {0};
    ptc_module_print(module, true, &text);
    check(text.len > 0, label);
    ptc_str_deinit(&text);
    note_ids(&diag);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static void check_bad_kernels(void) {
  for (int i = -1; i < num_bad_kernels; i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_kernel_t *kernel = good_kernel(&arena);
    const char *id = i < 0 ? "good" : bad_kernels[i].id;
    if (i >= 0) bad_kernels[i].spoil(kernel);
    const ptc_status_t status = ptc_kernel_verify(&diag, kernel);
    check(status == (i < 0 ? PTC_OK : PTC_INTERNAL), id);
    check(diag.num_errors == (i < 0 ? 0 : 1), id);
    if (i >= 0 && diag.num_items) {
      check(strcmp(diag.items[0].id, id) == 0, id);
      if (strcmp(diag.items[0].id, id) != 0) printf("\nrow %d is [%s]\n", i, diag.items[0].id);
    }
    note_ids(&diag);
    ptc_diag_deinit(&diag);
  }
}

// What only the interpreter's caller can do wrong.
static void check_bad_runs(void) {
  static const struct {
    const char *text, *id;
  } rows[] = {
      {"module \"m\"\ninput @x : i32[b=2] {range = 4}\nfunc @f(%x = @x) {\n"
       "  return output \"x\" = %x\n}\n",
       "input-range"},
      {"module \"m\"\nfunc @f() {\n  %0 = constant {value = 1} : f32[]\n"
       "  %1 = broadcast %0 {dims = [a], extents = [1000000000]}\n"
       "  return output \"x\" = %1\n}\n",
       "interp-size"},
      {"module \"m\"\nmesh [\"tp\"=2048]\nfunc @f() {\n  return\n}\n", "interp-devices"},
      {"module \"m\"\nmesh [\"micro\"=2]\nfunc @f() {\n"
       "  %0 = iota {dim = a} : i32[a=4 \"micro\"]\n"
       "  %1 = all_gather %0 {axes = \"micro\", dim = a}\n  return output \"x\" = %1\n}\n",
       "interp-devices"},
      {"module \"m\"\nfunc @f() {\n  %0 = recv {from = 1, tag = 7} : f32[]\n"
       "  return output \"x\" = %0\n}\n",
       "interp-recv"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module;
    ptc_status_t status =
        ptc_module_parse(&diag, "run.ptir", rows[i].text, strlen(rows[i].text), &module);
    CU_ASSERT_EQUAL_FATAL(status, PTC_OK);
    ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_EXACT);
    if (module->num_globals) ptc_interp_global(interp, module->globals[0])->data[1] = 4;
    check(ptc_interp_run(interp, "f") != PTC_OK, rows[i].id);
    check(diag.num_items == 1 && strcmp(diag.items[0].id, rows[i].id) == 0, rows[i].id);
    note_ids(&diag);
    ptc_interp_destroy(interp);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// Devices that hold the same element of a result in two versions.
static void check_bad_replicas(void) {
  const char *text =
      "module \"m\"\nmesh [\"tp\"=2]\ninput @x : f32[a=2]\nfunc @f(%x = @x) {\n"
      "  return output \"x\" = %x\n}\n";
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module;
  CU_ASSERT_EQUAL_FATAL(ptc_module_parse(&diag, "run.ptir", text, strlen(text), &module), PTC_OK);
  CU_ASSERT_EQUAL_FATAL(ptc_module_infer_shapes(module), PTC_OK);
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_EXACT);
  double whole[2];
  ptc_interp_global_on(interp, module->globals[0], 1)->data[1] = 4;
  check(ptc_interp_run(interp, "f") == PTC_OK, "run");
  check(ptc_interp_get_result(interp, 0, whole) == PTC_INTERNAL, "replicas");
  check(diag.num_items == 1 && strcmp(diag.items[0].id, "interp-replicas") == 0, "replicas");
  note_ids(&diag);
  ptc_interp_destroy(interp);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// --- coverage

// The first word in quotes after |at| that looks like an id: "ir-op", "type-c1". Its length.
static size_t next_id(const char **at) {
  for (const char *p = *at; (p = strchr(p, '"')); p++) {
    size_t len = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    bool quoted = p[1 + len] == '"' && p[1] != '-',
         dash = len > 3 && memchr(p + 1, '-', len) != NULL;
    if (!quoted || !dash) continue;
    *at = p + 1;
    return len;
  }
  return 0;
}

static int check_file(const char *path) {
  char *text;
  size_t len;
  if (ptc_read_file(path, &text, &len) != PTC_OK) return 0;
  int count = 0;
  const char *at = text;
  for (size_t n; (n = next_id(&at)) > 0; at += n) {
    const char *id = ptc_intern_n(&names, at, n);
    bool seen = ptc_map_get(&provoked, id) != NULL;
    if (!seen) printf("\n%s: nothing provokes [%s]\n", path, id);
    check(seen, id);
    count++;
  }
  free(text);
  return count;
}

static void check_coverage(void) {
  DIR *folder = opendir(PTC_SOURCE_DIR "/ir");
  CU_ASSERT_PTR_NOT_NULL_FATAL(folder);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    size_t len = strlen(entry->d_name);
    if (len < 3 || strcmp(entry->d_name + len - 2, ".c") != 0) continue;
    // Kernels and plans are no IR text: plan_text_test and kernel tests provoke theirs.
    if (strncmp(entry->d_name, "plan", 4) == 0 || strncmp(entry->d_name, "kernel", 6) == 0)
      continue;
    char *path = ptc_arena_printf(&arena, "%s/ir/%s", PTC_SOURCE_DIR, entry->d_name);
    count += check_file(path);
  }
  closedir(folder);
  printf("%d places of ir/ emit %d ids; ", count, (int)provoked.len);
  CU_ASSERT(count >= 60);
}

int main(void) {
  ptc_interner_init(&names, &arena);
  if (!expect_load(PTC_SOURCE_DIR "/tests/errors", ".ptir", &sections)) {
    fprintf(stderr, "cannot read tests/errors\n");
    return 1;
  }
  // The coverage comes last: it looks at what the others provoked.
  static const unit_test_t more[] = {{"modules built wrong", check_bad_modules},
                                     {"kernels built wrong", check_bad_kernels},
                                     {"runs that must fail", check_bad_runs},
                                     {"replicas that differ", check_bad_replicas},
                                     {"every id is provoked", check_coverage}};
  int status = expect_run("ir errors", &sections, check_section, more, 5);
  expect_free(&sections);
  ptc_map_deinit(&provoked);
  ptc_interner_deinit(&names);
  ptc_arena_deinit(&arena);
  return status;
}

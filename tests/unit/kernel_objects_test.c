// Proves: kernels are compiled, cached, shared and loaded; a damaged cache is repaired; a compiler that is
// missing, fails or is interrupted gives a diagnostic; the cache forgets what was not used for longest.
#include "runtime/cpu/kernel_objects.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/str.h"
#include "runtime/cpu/object_cache.h"
#include "tests/support/unit.h"

static const char prelude[] =
    "#include <stdint.h>\n"
    "typedef struct { void *const *params; const int64_t *turns; void *scratch; int32_t *fault; } "
    "call_t;\n";

// A kernel that adds |number| and the tile to its first parameter.
static ptc_kernel_source_t make_source(const char *name, const char *number) {
  ptc_str_t text = {0};
  ptc_str_printf(&text,
                 "%svoid %s(const call_t *call, int64_t phase, int64_t tile) {\n"
                 "  *(int64_t *)call->params[0] += %s + phase + tile;\n}\n",
                 prelude, name, number);
  return (ptc_kernel_source_t){name, text.data, text.len};
}

static int64_t call_entry(ptc_kernel_fn_t entry) {
  int64_t cell = 1, turns = 0;
  int32_t fault = 0;
  void *params[] = {&cell};
  entry(&(ptc_kernel_call_t){params, &turns, NULL, &fault}, 10, 20);
  return cell;
}

typedef struct bench_s {
  char folder[32];
  ptc_diag_t diag;
  ptc_kernel_objects_options_t options;
} bench_t;

static void set_up(bench_t *bench) {
  strcpy(bench->folder, "/tmp/ptc-test-XXXXXX");
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(bench->folder));
  bench->options = (ptc_kernel_objects_options_t){.cache_folder = bench->folder, .num_jobs = 2};
  ptc_diag_init(&bench->diag);
}

static void tear_down(bench_t *bench) {
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", bench->folder);
  CU_ASSERT_EQUAL(system(command), 0);
  ptc_diag_deinit(&bench->diag);
}

static bool has_error(const bench_t *bench, const char *id, const char *words) {
  for (int64_t i = 0; i < bench->diag.num_items; i++)
    if (bench->diag.items[i].id && strcmp(bench->diag.items[i].id, id) == 0 &&
        strstr(bench->diag.items[i].message, words))
      return true;
  return false;
}

static int32_t num_compiled(bench_t *bench, const ptc_kernel_source_t *sources, int32_t count) {
  ptc_kernel_objects_t *objects;
  if (ptc_kernel_objects_create(&bench->diag, sources, count, &bench->options, &objects) != PTC_OK)
    return -1;
  const int32_t result = ptc_kernel_objects_num_compiled(objects);
  ptc_kernel_objects_destroy(objects);
  return result;
}

static void test_build(void) {
  bench_t bench;
  set_up(&bench);
  ptc_kernel_source_t sources[] = {make_source("one", "100"), make_source("two", "200"),
                                   make_source("one", "100")};
  ptc_kernel_objects_t *objects;
  CU_ASSERT_EQUAL_FATAL(
      ptc_kernel_objects_create(&bench.diag, sources, 3, &bench.options, &objects), PTC_OK);
  CU_ASSERT_EQUAL(ptc_kernel_objects_num_compiled(objects), 2);
  CU_ASSERT_EQUAL(call_entry(ptc_kernel_objects_entry(objects, 0)), 131);
  CU_ASSERT_EQUAL(call_entry(ptc_kernel_objects_entry(objects, 1)), 231);
  CU_ASSERT_EQUAL(call_entry(ptc_kernel_objects_entry(objects, 2)), 131);
  ptc_kernel_objects_destroy(objects);
  CU_ASSERT_EQUAL(num_compiled(&bench, sources, 3), 0);
  CU_ASSERT_EQUAL(num_compiled(&bench, sources, 0), 0);
  for (int i = 0; i < 3; i++) free((void *)(uintptr_t)sources[i].text);
  tear_down(&bench);
}

// Spoils every object of the cache in its middle.
static void test_damage(void) {
  bench_t bench;
  set_up(&bench);
  ptc_kernel_source_t source = make_source("one", "100");
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), 1);
  char command[200];
  snprintf(
      command, sizeof command,
      "for f in %s/*.so; do printf XXXX | dd of=$f bs=1 seek=3000 conv=notrunc 2>/dev/null; done",
      bench.folder);
  CU_ASSERT_EQUAL(system(command), 0);
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), 1);
  snprintf(command, sizeof command, "for f in %s/*.so; do truncate -s 5000 $f; done", bench.folder);
  CU_ASSERT_EQUAL(system(command), 0);
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), 1);
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), 0);
  free((void *)(uintptr_t)source.text);
  tear_down(&bench);
}

static void test_failures(void) {
  bench_t bench;
  set_up(&bench);
  const char broken[] = "void broken(void) { return undeclared; }\n";
  ptc_kernel_source_t source = {"broken", broken, sizeof broken - 1};
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), -1);
  CU_ASSERT(has_error(&bench, "compile-failed", "does not compile kernel \"broken\""));
  const char other[] = "int other;\n";
  source = (ptc_kernel_source_t){"entry", other, sizeof other - 1};
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), -1);
  CU_ASSERT(has_error(&bench, "object-load", "cannot load kernel \"entry\""));
  bench.options.target = "cpu:x86-64-v9";
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), -1);
  CU_ASSERT(has_error(&bench, "unknown-target", "did you mean"));
  bench.options.target = NULL;
  bench.options.cache_folder = "/proc/nowhere";
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), -1);
  CU_ASSERT(has_error(&bench, "cache-folder", "PTC_CACHE"));
  bench.options.cache_folder = bench.folder;
  const char *before = getenv("CC");
  char *kept = before ? strdup(before) : NULL;
  setenv("CC", "no-such-compiler -m64", 1);
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), -1);
  CU_ASSERT(has_error(&bench, "no-compiler", "\"no-such-compiler\""));
  setenv("CC", "false", 1);
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), -1);
  CU_ASSERT(has_error(&bench, "no-compiler", "\"false\""));
  if (kept)
    setenv("CC", kept, 1);
  else
    unsetenv("CC");
  free(kept);
  tear_down(&bench);
}

static void test_cancel(void) {
  bench_t bench;
  set_up(&bench);
  ptc_kernel_source_t source = make_source("one", "100");
  const volatile sig_atomic_t cancel = 1;
  bench.options.cancel = &cancel;
  CU_ASSERT_EQUAL(num_compiled(&bench, &source, 1), -1);
  CU_ASSERT(has_error(&bench, "compile-cancelled", "interrupted"));
  free((void *)(uintptr_t)source.text);
  tear_down(&bench);
}

static void make_old(const char *folder, const char *name, int64_t bytes, int hours) {
  char path[100];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  const int fd = open(path, O_CREAT | O_WRONLY, 0600);
  CU_ASSERT(fd >= 0 && ftruncate(fd, bytes) == 0);
  struct timespec times[2];
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= hours * 3600;
  times[1] = times[0];
  futimens(fd, times);
  close(fd);
}

static bool exists(const char *folder, const char *name) {
  char path[100];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return access(path, F_OK) == 0;
}

static void test_trim(void) {
  bench_t bench;
  set_up(&bench);
  ptc_object_cache_t cache;
  CU_ASSERT_EQUAL_FATAL(ptc_object_cache_open(&bench.diag, bench.folder, &cache), PTC_OK);
  CU_ASSERT_EQUAL(ptc_object_cache_prepare(&bench.diag, &cache), PTC_OK);
  make_old(bench.folder, "oldest.so", 1000, 30);
  make_old(bench.folder, "old.so", 1000, 20);
  make_old(bench.folder, "used.so", 1000, 10);
  make_old(bench.folder, "new.so", 5000, 0);
  make_old(bench.folder, "other.txt", 9000, 99);
  ptc_object_cache_trim(&cache, 7000);
  CU_ASSERT_FALSE(exists(bench.folder, "oldest.so"));
  CU_ASSERT(exists(bench.folder, "old.so"));
  ptc_object_cache_trim(&cache, 100);
  CU_ASSERT_FALSE(exists(bench.folder, "old.so"));
  CU_ASSERT_FALSE(exists(bench.folder, "used.so"));
  CU_ASSERT(exists(bench.folder, "new.so"));
  CU_ASSERT(exists(bench.folder, "other.txt"));
  ptc_object_cache_close(&cache);
  tear_down(&bench);
}

static const unit_test_t tests[] = {{"build", test_build},
                                    {"damage", test_damage},
                                    {"failures", test_failures},
                                    {"cancel", test_cancel},
                                    {"trim", test_trim}};
UNIT_MAIN("kernel_objects", tests)

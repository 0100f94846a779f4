// Proves: the executor gives every launch the operands that its steps name, in every turn, in order; copies;
// resets; measures; ends at a kernel's fault with its place in the .ptm. A plan folder is read as it was
// written, and refused if a kernel was changed.
#include "runtime/executor.h"

#include <stdlib.h>
#include <unistd.h>

#include "runtime/cpu/memory_map.h"
#include "runtime/hash.h"
#include "runtime/plan_folder.h"
#include "tests/support/unit.h"

#define CALL                                                                                      \
  "#include <stdint.h>\n"                                                                         \
  "typedef struct { void *const *params; const int64_t *turns; void *scratch; int32_t *fault; } " \
  "c_t;\n"

// y[i] = x[i] + 100 turn0 + turn1, in two phases: the first adds in scratch memory of one thread, too.
static const char add_source[] = CALL
    "void add(const c_t *c, int64_t phase, int64_t tile) {\n"
    "  const float *x = c->params[0];\n"
    "  float *y = c->params[1];\n"
    "  float *s = c->scratch;\n"
    "  if (phase == 0) { s[0] = x[tile]; y[tile] = s[0] + 100 * c->turns[0]; }\n"
    "  else y[tile] += c->turns[1];\n"
    "}\n";
// Counts up its parameter; a fault at 5.
static const char count_source[] = CALL
    "void count(const c_t *c, int64_t phase, int64_t tile) {\n"
    "  if (++*(float *)c->params[0] == 5) *c->fault = 1;\n"
    "}\n";

static const char steps[] =
    "steps 3\n"
    "kernel add \"add\"\n"
    "  params in:32 out:32\n"
    "  run 1: 8 8\n"
    "  needs workspace 0 scratch 64 flops 16 bytes 64\n"
    "kernel count \"gather\" at \"m.ptm\":7\n"
    "  params inout:4\n"
    "  run 1: 1\n"
    "  needs workspace 0 scratch 0 flops 1 bytes 8\n"
    "buffer 0 \"x\" param f32 [i=8]\n"
    "  at 0\n"
    "buffer 1 \"y\" temp f32 [i=8]\n"
    "  at 64+64*6\n"
    "buffer 2 \"z\" result f32 [i=8]\n"
    "  at 448\n"
    "buffer 3 \"n\" scalar f32 []\n"
    "  at 512\n"
    "task \"train\"\n"
    "  result \"z\" output 2 0 1\n"
    "  result \"n\" loss 3 0 1\n"
    "  repeat 2 reverse\n"
    "    repeat 3\n"
    "      launch add 0:32 1[3*t0+t1]:32  # x y\n"
    "    end\n"
    "    launch count 3:4  # n\n"
    "  end\n"
    "  copy 1[5]@16:16 2:16  # y z\n"
    "  copy 1[2]:16 2@16:16  # y z\n"
    "end\n";

static void write_file(const char *folder, const char *name, const char *text) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  fputs(text, file);
  fclose(file);
}

static void write_plan(char *folder) {
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  char command[100], add_hash[PTC_HASH_CHARS + 1], count_hash[PTC_HASH_CHARS + 1];
  snprintf(command, sizeof command, "mkdir %s/kernels", folder);
  CU_ASSERT_EQUAL(system(command), 0);
  ptc_hash(add_source, strlen(add_source), add_hash);
  ptc_hash(count_source, strlen(count_source), count_hash);
  ptc_str_t json = {0};
  ptc_str_printf(
      &json,
      "{\"version\": 3, \"model\": \"m\", \"target\": \"cpu\", \"compiler_flags\": \"\",\n"
      "\"arena_bytes\": 576, \"bound_bytes\": 576, \"batch\": 0, \"seq\": 0,\n"
      "\"flops_per_step\": 1, \"hashes\": {\"add\": \"%s\", \"count\": \"%s\"},\n"
      "\"globals\": [{\"path\": \"x\", \"kind\": \"param\", \"buffer\": 0},\n"
      "{\"path\": \"n\", \"kind\": \"counter\", \"buffer\": 3, \"value\": 1}],\n"
      "\"settings\": []}\n",
      add_hash, count_hash);
  write_file(folder, "plan.json", json.data);
  write_file(folder, "stage0.steps", steps);
  write_file(folder, "kernels/add.c", add_source);
  write_file(folder, "kernels/count.c", count_source);
  ptc_str_deinit(&json);
}

static void remove_plan(const char *folder) {
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CU_ASSERT_EQUAL(system(command), 0);
}

static void run_with(int32_t num_threads) {
  char folder[] = "/tmp/ptc-test-XXXXXX";
  write_plan(folder);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT(ptc_plan_folder_is(folder));
  CU_ASSERT_FALSE(ptc_plan_folder_is("/tmp"));
  ptc_plan_folder_t plan;
  ptc_kernel_objects_t *objects;
  ptc_executor_t *executor;
  ptc_status_t status = ptc_plan_folder_open(&diag, folder, &plan);
  ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  CU_ASSERT_EQUAL_FATAL(status, PTC_OK);
  char cache[100];
  snprintf(cache, sizeof cache, "%s/cache", folder);
  CU_ASSERT_EQUAL_FATAL(
      ptc_kernel_objects_create(&diag, plan.sources, 2,
                                &(ptc_kernel_objects_options_t){.cache_folder = cache}, &objects),
      PTC_OK);
  CU_ASSERT_EQUAL_FATAL(ptc_executor_create(&diag, plan.plan, objects, num_threads, &executor),
                        PTC_OK);
  CU_ASSERT_EQUAL(ptc_executor_num_threads(executor), num_threads);
  const ptc_plan_global_t *n = ptc_plan_find_global(plan.plan, "n");
  const ptc_task_t *train = ptc_plan_find_task(plan.plan, "train");
  CU_ASSERT_EQUAL(ptc_executor_get_number(executor, n), 1);
  float *x = ptc_executor_global(executor, ptc_plan_find_global(plan.plan, "x"), 0);
  for (int i = 0; i < 8; i++) x[i] = (float)i / 8;
  ptc_executor_set_profile(executor, true);
  CU_ASSERT_EQUAL(ptc_executor_run(&diag, executor, train), PTC_OK);
  for (int64_t r = 0; r < 6; r++) {
    const float *y = ptc_executor_buffer(executor, 1, r);
    for (int i = 0; i < 8; i++) CU_ASSERT_EQUAL(y[i], x[i] + (float)(100 * (r / 3) + r % 3));
  }
  const float *z = ptc_executor_result(executor, &train->results[0], 0);
  for (int i = 0; i < 4; i++) {
    CU_ASSERT_EQUAL(z[i], x[i + 4] + 102);
    CU_ASSERT_EQUAL(z[i + 4], x[i] + 2);
  }
  CU_ASSERT_EQUAL(ptc_executor_result_number(executor, &train->results[1]), 3);
  const ptc_kernel_time_t *times = ptc_executor_profile(executor);
  CU_ASSERT(times[0].num_calls == 6 && times[1].num_calls == 2 && times[2].num_calls == 2);
  CU_ASSERT(times[0].time_ns > 0);
  // The second run counts to five: a fault.
  CU_ASSERT_EQUAL(ptc_executor_run(&diag, executor, train), PTC_INVALID_INPUT);
  CU_ASSERT(diag.num_errors == 1 && strcmp(diag.items[0].id, "kernel-fault") == 0);
  CU_ASSERT(diag.items[0].loc.line == 7 && strstr(diag.items[0].message, "gather"));
  // The next one is none of its.
  ptc_executor_set_number(executor, n, 20);
  CU_ASSERT_EQUAL(ptc_executor_run(&diag, executor, train), PTC_OK);
  CU_ASSERT_EQUAL(ptc_executor_get_number(executor, n), 22);
  ptc_executor_destroy(executor);
  ptc_kernel_objects_destroy(objects);
  ptc_plan_folder_close(&plan);
  ptc_diag_deinit(&diag);
  remove_plan(folder);
}

static void test_run(void) {
  run_with(1);
  run_with(3);
}

static void test_changed(void) {
  char folder[] = "/tmp/ptc-test-XXXXXX";
  write_plan(folder);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_folder_t plan;
  write_file(folder, "kernels/add.c", count_source);
  CU_ASSERT_EQUAL(ptc_plan_folder_open(&diag, folder, &plan), PTC_INVALID_INPUT);
  CU_ASSERT_STRING_EQUAL(diag.items[0].id, "kernel-hash");
  char path[200];
  snprintf(path, sizeof path, "%s/kernels/add.c", folder);
  unlink(path);
  CU_ASSERT_EQUAL(ptc_plan_folder_open(&diag, folder, &plan), PTC_IO);
  CU_ASSERT_STRING_EQUAL(diag.items[1].id, "read-kernel");
  CU_ASSERT_PTR_NULL(plan.plan);
  ptc_diag_deinit(&diag);
  remove_plan(folder);
}

static void test_memory(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  void *memory;
  CU_ASSERT_EQUAL_FATAL(ptc_memory_map(&diag, 5 << 20, &memory), PTC_OK);
  CU_ASSERT_EQUAL((uintptr_t)memory % (2 << 20), 0);
  unsigned char *bytes = memory;
  CU_ASSERT(bytes[0] == 0 && bytes[(5 << 20) - 1] == 0);
  memset(memory, 1, 5 << 20);
  CU_ASSERT(ptc_memory_resident() > 0 && ptc_memory_peak() >= 5 << 20);
  ptc_memory_unmap(memory, 5 << 20);
  // All pages are there after populate, those at both ends of an odd range, too; what was in them stays.
  CU_ASSERT_EQUAL_FATAL(ptc_memory_map(&diag, 48 << 20, &memory), PTC_OK);
  bytes = memory;
  bytes[5] = 7;
  const int64_t before = ptc_memory_resident();
  ptc_memory_populate(bytes + 100, (48 << 20) - 200);
  CU_ASSERT(ptc_memory_resident() >= before + (40 << 20));
  CU_ASSERT(bytes[5] == 7 && bytes[100] == 0 && bytes[(48 << 20) - 1] == 0);
  ptc_memory_populate(bytes, 0);
  ptc_memory_unmap(memory, 48 << 20);
  CU_ASSERT_EQUAL(ptc_memory_map(&diag, INT64_C(1) << 60, &memory), PTC_INFEASIBLE);
  CU_ASSERT_STRING_EQUAL(diag.items[0].id, "out-of-memory");
  CU_ASSERT_PTR_NULL(memory);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"run", test_run}, {"changed kernels", test_changed}, {"memory", test_memory}};
UNIT_MAIN("executor", tests)

// Proves: the simulator of GPUs reports every kind of planted fault, with the kernel, the line of the CUDA
// source and of the PTX, block, thread and address; what is not PTX, or not supported, is named with its line.
#include <stdlib.h>

#include "frontend/driver/gpusim.h"
#include "tests/support/ptx_run.h"
#include "tests/support/unit.h"

typedef struct fault_row_s {
  const char *name, *declarations, *body;
  sim_fault_kind_t fault;
  const char *report[4];  // parts of it
  bool checks;            // only with checks; without, it runs to its end
  bool out_invalid;
} fault_row_t;

enum { OUT_BYTES = 512, THREADS = 64 };

static const fault_row_t fault_rows[] = {
    {"read behind the end",
     "",
     ".loc 1 77 3\nld.global.u32 %w1, [%d63+512];\n",
     SIM_FAULT_BOUNDS,
     {"kernel \"test\" (model.cu:77, PTX line 14), block 0, thread 0",
      "outside of every allocation", "of 512 bytes, ends 0 bytes before"},
     false,
     false},
    {"write before the begin of one thread",
     "",
     "setp.eq.s32 %p1, %w63, 37;\n.loc 1 5 1\n@%p1 st.global.u32 [%d63+-4], %w63;\n",
     SIM_FAULT_BOUNDS,
     {"model.cu:5", "thread 37", "4 bytes at address 0x"},
     false,
     false},
    {"vector over the end",
     "",
     "ld.global.v4.u32 {%w1,%w2,%w3,%w4}, [%d63+496];\nld.global.v2.u64 {%d1,%d2}, [%d63+512];\n",
     SIM_FAULT_BOUNDS,
     {"16 bytes at address"},
     false,
     false},
    {"shared memory",
     ".shared .align 4 .b8 s[64];\n",
     "mov.u32 %w1, s;\nst.shared.u32 [%w1+64], %w1;\n",
     SIM_FAULT_BOUNDS,
     {"shared memory lie outside its 64 bytes"},
     false,
     false},
    {"local memory",
     ".local .align 4 .b8 l[16];\n",
     "mov.u64 %d1, l;\nst.local.u32 [%d1+16], %w1;\n",
     SIM_FAULT_BOUNDS,
     {"local memory lie outside its 16 bytes"},
     false,
     false},
    {"parameters",
     "",
     "mov.u64 %d1, 8;\nld.param.u32 %w1, [%d1];\n",
     SIM_FAULT_BOUNDS,
     {"parameters lie outside its 8 bytes"},
     false,
     false},
    {"atomic outside",
     "",
     "red.global.add.u32 [%d63+1024], 1;\n",
     SIM_FAULT_BOUNDS,
     {"outside of every"},
     false,
     false},
    {"misaligned",
     "",
     "ld.global.u32 %w1, [%d63+2];\n",
     SIM_FAULT_ALIGN,
     {"no multiple of the access's 4 bytes"},
     false,
     false},
    {"misaligned vector",
     "",
     "ld.global.v2.u32 {%w1,%w2}, [%d63+4];\n",
     SIM_FAULT_ALIGN,
     {"the access's 8 bytes"},
     false,
     false},
    {"trap",
     "",
     "setp.eq.s32 %p1, %w63, 40;\n@%p1 trap;\n",
     SIM_FAULT_TRAP,
     {"thread 40"},
     false,
     false},
    {"uninitialized global",
     "",
     "ld.global.u32 %w1, [%d63+8];\n",
     SIM_FAULT_UNINIT,
     {"global memory at address 0x", "never written"},
     true,
     true},
    {"uninitialized shared",
     ".shared .align 4 .b8 s[512];\n",
     "shl.b32 %w2, %w63, 2;\nmov.u32 %w1, s;\nadd.s32 %w1, %w1, %w2;\nld.shared.u32 %w3, [%w1];\n",
     SIM_FAULT_UNINIT,
     {"shared memory at byte 0 is read and was never written"},
     true,
     false},
    {"uninitialized local",
     ".local .align 4 .b8 l[16];\n",
     "mov.u64 %d1, l;\nld.local.u32 %w1, [%d1+8];\n",
     SIM_FAULT_UNINIT,
     {"local memory at byte 8"},
     true,
     false},
    {"a barrier is missing between warps",
     ".shared .align 4 .b8 s[256];\n",
     "shl.b32 %w2, %w63, 2;\nmov.u32 %w1, s;\nadd.s32 %w3, %w1, %w2;\nst.shared.u32 [%w3], "
     "%w63;\nbar.sync 0;\n"
     ".loc 1 99 1\nst.shared.u32 [%w3], %w63;\n"
     "xor.b32 %w4, %w2, 128;\nadd.s32 %w4, %w1, %w4;\n.loc 1 100 1\nld.shared.u32 %w5, [%w4];\n",
     SIM_FAULT_RACE,
     {"race in shared memory at byte 128", "model.cu:99", "thread 32", "thread 0 reads it"},
     true,
     false},
    {"a barrier is missing before the next write",
     ".shared .align 4 .b8 s[256];\n",
     "shl.b32 %w2, %w63, 2;\nmov.u32 %w1, s;\nadd.s32 %w3, %w1, %w2;\nst.shared.u32 [%w3], "
     "%w63;\nbar.sync 0;\n"
     "xor.b32 %w4, %w2, 128;\nadd.s32 %w4, %w1, %w4;\nld.shared.u32 %w5, [%w4];\nst.shared.u32 "
     "[%w3], %w5;\n",
     SIM_FAULT_RACE,
     {"thread 32", "this thread reads it", "thread 0 writes it"},
     true,
     false},
    {"a sync is missing in a warp",
     ".shared .align 4 .b8 s[256];\n",
     "shl.b32 %w2, %w63, 2;\nmov.u32 %w1, s;\nadd.s32 %w3, %w1, %w2;\nst.shared.u32 [%w3], %w63;\n"
     "xor.b32 %w4, %w2, 4;\nadd.s32 %w4, %w1, %w4;\nld.shared.u32 %w5, [%w4];\n",
     SIM_FAULT_RACE,
     {"race in shared memory", "thread 1 writes it"},
     true,
     false},
    {"two threads write one word",
     ".shared .align 4 .b8 s[4];\n",
     "mov.u32 %w1, s;\nst.shared.u32 [%w1], %w63;\n",
     SIM_FAULT_RACE,
     {"this thread writes it, and thread 0 writes it"},
     true,
     false},
    {"a wait for cp.async is missing",
     ".shared .align 16 .b8 s[1024];\n",
     "shl.b32 %w2, %w63, 2;\nand.b32 %w2, %w2, 127;\ncvt.u64.u32 %d2, %w2;\nadd.s64 %d1, %d63, "
     "%d2;\nshl.b32 %w4, %w63, 2;\n"
     "mov.u32 %w1, s;\nadd.s32 %w3, %w1, %w4;\ncp.async.ca.shared.global [%w3], [%d1], "
     "4;\ncp.async.commit_group;\n"
     "ld.shared.u32 %w5, [%w3];\n",
     SIM_FAULT_RACE,
     {"cp.async", "has not been waited for"},
     true,
     false},
    {"a wait leaves one group open",
     ".shared .align 16 .b8 s[1024];\n",
     "mov.u32 %w1, s;\nshl.b32 %w4, %w63, 3;\nadd.s32 %w1, %w1, %w4;\ncp.async.ca.shared.global "
     "[%w1], [%d63], 4;\ncp.async.commit_group;\n"
     "cp.async.ca.shared.global [%w1+4], [%d63+4], 4;\ncp.async.commit_group;\ncp.async.wait_group "
     "1;\n"
     "ld.shared.u32 %w5, [%w1];\nld.shared.u32 %w6, [%w1+4];\n",
     SIM_FAULT_RACE,
     {"byte 4"},
     true,
     false},
    {"some threads have exited before a barrier",
     "",
     "setp.ge.s32 %p1, %w63, 32;\n@%p1 exit;\nbar.sync 0;\n",
     SIM_FAULT_BARRIER,
     {"32 of the block's 64 threads have exited"},
     true,
     false},
    {"a barrier in a branch of a warp",
     "",
     "and.b32 %w1, %w63, 1;\nsetp.eq.s32 %p1, %w1, 0;\n@%p1 bra L1;\nbar.sync 0;\nL1:\n",
     SIM_FAULT_BARRIER,
     {"\"bar.sync\" names the lanes ffffffff of warp 0", "are elsewhere"},
     false,
     false},
    {"warps at barriers of their own",
     "",
     "setp.lt.s32 %p1, %w63, 32;\n@%p1 bra L1;\nbar.sync 1, 64;\nbra.uni L2;\nL1:\nbar.sync 2, "
     "64;\nL2:\n",
     SIM_FAULT_BARRIER,
     {"barrier 2 never opens", "warp 1 at PTX line"},
     false,
     false},
    {"a shuffle names lanes that are elsewhere",
     "",
     "and.b32 %w1, %w63, 1;\nsetp.eq.s32 %p1, %w1, 0;\n@%p1 bra L1;\nshfl.sync.bfly.b32 %w2, %w63, "
     "2, 31, -1;\nL1:\n",
     SIM_FAULT_BARRIER,
     {"shfl.sync.bfly.b32", "of which 55555555"},
     false,
     false},
    {"an mma by half a warp",
     "",
     "setp.lt.s32 %p1, %w63, 16;\n@%p1 mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
     "{%w1,%w2,%w3,%w4}, {%w5,%w6}, {%w7}, {%w1,%w2,%w3,%w4};\n",
     SIM_FAULT_BARRIER,
     {"not executed by all lanes"},
     false,
     false},
};

static ptx_result_t run_body(const char *declarations, const char *body, bool checks,
                             bool out_invalid) {
  static uint32_t out[OUT_BYTES / 4];
  memset(out, 0, sizeof out);
  ptc_str_t inner = {0}, text = {0};
  ptx_wrap(&inner, declarations, body);
  // Behind .address_size: the name of the CUDA source.
  const char *at = strstr(inner.data, ".visible");
  ptc_str_append_n(&text, inner.data, (size_t)(at - inner.data));
  ptc_str_append(&text, ".file 1 \"/some/where/model.cu\"\n");
  ptc_str_append(&text, at);
  const ptx_result_t result = ptx_run(&(ptx_run_t){.text = text.data,
                                                   .threads = THREADS,
                                                   .checks = checks,
                                                   .out = out,
                                                   .out_bytes = OUT_BYTES,
                                                   .out_invalid = out_invalid});
  ptc_str_deinit(&inner);
  ptc_str_deinit(&text);
  return result;
}

static void test_faults(void) {
  for (size_t i = 0; i < sizeof fault_rows / sizeof *fault_rows; ++i) {
    const fault_row_t *row = &fault_rows[i];
    for (int checks = 0; checks < 2; ++checks) {
      ptx_result_t result = run_body(row->declarations, row->body, checks, row->out_invalid);
      const char *report = result.report.data ? result.report.data : "";
      const bool silent = row->checks && !checks;
      UNIT_CHECK(result.loaded, row->name);
      UNIT_CHECK(result.fault == (silent ? SIM_FAULT_NONE : row->fault), row->name);
      bool told = true;
      for (int p = 0; p < 4 && row->report[p] && !silent; ++p)
        told = told && strstr(report, row->report[p]);
      UNIT_CHECK(told, row->name);
      if (!told || !result.loaded) printf("%s: %s\n", row->name, report);
      ptx_result_deinit(&result);
    }
  }
}

// What is right stays silent: the faults above, mended.
static void test_silence(void) {
  static const fault_row_t rows[] = {
      {"barriers between warps",
       ".shared .align 4 .b8 s[256];\n",
       "shl.b32 %w2, %w63, 2;\nmov.u32 %w1, s;\nadd.s32 %w3, %w1, %w2;\nst.shared.u32 [%w3], "
       "%w63;\nbar.sync 0;\n"
       "xor.b32 %w4, %w2, 128;\nadd.s32 %w4, %w1, %w4;\nld.shared.u32 %w5, [%w4];\nbar.sync "
       "0;\nst.shared.u32 [%w3], %w5;\n",
       SIM_FAULT_NONE,
       {NULL},
       true,
       false},
      {"a sync in a warp",
       ".shared .align 4 .b8 s[256];\n",
       "shl.b32 %w2, %w63, 2;\nmov.u32 %w1, s;\nadd.s32 %w3, %w1, %w2;\nst.shared.u32 [%w3], "
       "%w63;\nbar.warp.sync -1;\n"
       "xor.b32 %w4, %w2, 4;\nadd.s32 %w4, %w1, %w4;\nld.shared.u32 %w5, [%w4];\n",
       SIM_FAULT_NONE,
       {NULL},
       true,
       false},
      {"atomics on one word",
       ".shared .align 4 .b8 s[4];\n",
       "mov.u32 %w1, s;\nsetp.eq.s32 %p1, %w63, 0;\n@%p1 st.shared.u32 [%w1], 0;\nbar.sync "
       "0;\natom.shared.add.u32 %w2, [%w1], 1;\n",
       SIM_FAULT_NONE,
       {NULL},
       true,
       false},
      {"neighbouring halves of a word",
       ".shared .align 4 .b8 s[128];\n",
       "shl.b32 %w2, %w63, 1;\nmov.u32 %w1, s;\nadd.s32 %w1, %w1, %w2;\nmov.b16 %h1, "
       "7;\nst.shared.b16 [%w1], %h1;\n",
       SIM_FAULT_NONE,
       {NULL},
       true,
       false},
      {"a wait for cp.async",
       ".shared .align 16 .b8 s[1024];\n",
       "mov.u32 %w1, s;\nshl.b32 %w4, %w63, 3;\nadd.s32 %w1, %w1, %w4;\ncp.async.ca.shared.global "
       "[%w1], [%d63], 4;\ncp.async.commit_group;\n"
       "cp.async.ca.shared.global [%w1+4], [%d63+4], "
       "4;\ncp.async.commit_group;\ncp.async.wait_group 0;\n"
       "ld.shared.u32 %w5, [%w1];\nld.shared.u32 %w6, [%w1+4];\n",
       SIM_FAULT_NONE,
       {NULL},
       true,
       false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ptx_result_t result = run_body(rows[i].declarations, rows[i].body, true, false);
    UNIT_CHECK(result.loaded && !result.fault, rows[i].name);
    if (result.fault) printf("%s: %s\n", rows[i].name, result.report.data);
    ptx_result_deinit(&result);
  }
}

// Without a wait the bytes are not there, whether or not anybody checks.
static void test_late_copy(void) {
  static const char head[] =
      "mov.u32 %w1, s;\nst.shared.u32 [%w1], 1;\nst.global.u32 [%d63], 77;\n"
      "cp.async.ca.shared.global [%w1], [%d63], 4;\ncp.async.commit_group;\n";
  static const char tail[] = "ld.shared.u32 %w5, [%w1];\nst.global.u32 [%d63+8], %w5;\n";
  for (int waits = 0; waits < 2; ++waits) {
    ptc_str_t body = {0}, text = {0};
    ptc_str_printf(&body, "%s%s%s", head, waits ? "cp.async.wait_group 0;\n" : "", tail);
    ptx_wrap(&text, ".shared .align 4 .b8 s[4];\n", body.data);
    uint32_t out[4] = {0};
    ptx_result_t result =
        ptx_run(&(ptx_run_t){.text = text.data, .threads = 1, .out = out, .out_bytes = 16});
    CU_ASSERT(result.loaded && !result.fault);
    CU_ASSERT_EQUAL(out[2], waits ? 77 : 1);
    ptx_result_deinit(&result);
    ptc_str_deinit(&body);
    ptc_str_deinit(&text);
  }
}

static void test_unknown(void) {
  static const struct {
    const char *body, *report;
  } rows[] = {
      {"frobnicate.u32 %w1, %w2;\n",
       "does not run the instruction \"frobnicate.u32\" of kernel \"test\""},
      {"add.u8 %w1, %w2, %w3;\n", "\"add.u8\""},
      {"add.s32 %w1, %w2, %d3;\n", "a register of another size than its type"},
      {"add.s32 %w1, %w2;\n", "an operand that it cannot take"},
      {"cvt.f32.f64 %w1, %d1;\n", "\"cvt.f32.f64\""},
      {"mma.sync.aligned.m16n8k64.row.col.f32.bf16.bf16.f32 {%w1}, {%w1}, {%w1}, {%w1};\n",
       "m16n8k64"},
      {"ld.global.v8.u32 %w1, [%d1];\n", "ld.global.v8.u32"},
      {"atom.global.add.b32 %w1, [%d1], 1;\n", "atom.global.add.b32"},
      {"call.uni other;\n", "only calls of functions with a body"},
      {"bar.sync 0, 33;\n", "no multiple of 32"},
      {"mov.u32 %w1, %clock;\n", "near \"%clock\""},
      {"add.s32 %w1 %w2;\n", "expected ';'"},
      {"bra NOWHERE;\n", "branches to no label"},
      {"mov.u32 %w1, 0fzz;\n", "this is no number"},
      {"ld.global.u32 %w1, [nothing];\n", "there is no variable \"nothing\""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ptx_result_t result = run_body("", rows[i].body, false, false);
    const bool ok =
        !result.loaded && result.report.data && strstr(result.report.data, rows[i].report);
    UNIT_CHECK(ok, rows[i].body);
    if (!ok) printf("%s-> %s\n", rows[i].body, result.report.data ? result.report.data : "runs");
    ptx_result_deinit(&result);
  }
}

static void test_identifiers(void) {
  static const struct {
    const char *text, *id;
  } rows[] = {{"not PTX\n", "ptx-syntax"}, {".visible .entry f()\n{\nfrob;\n}\n", "ptx-unknown"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    sim_memory_t memory = {0};
    sim_module_t module;
    UNIT_CHECK(sim_module_load(&diag, &memory, "f.ptx", rows[i].text, &module) != PTC_OK,
               rows[i].id);
    UNIT_CHECK(diag.num_items > 0 && strcmp(diag.items[0].id, rows[i].id) == 0, rows[i].id);
    UNIT_CHECK(diag.num_items > 0 && diag.items[0].loc.line > 0, rows[i].id);
    sim_module_unload(&memory, &module);
    sim_memory_deinit(&memory);
    ptc_diag_deinit(&diag);
  }
}

// A device has so much memory and no more.
static void test_memory(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  sim_memory_t memory = {.limit_bytes = 1000};
  sim_module_t module;
  CU_ASSERT(sim_module_load(&diag, &memory, "f.ptx", ".global .align 8 .b8 g[1001];\n", &module) ==
            PTC_INFEASIBLE);
  CU_ASSERT(diag.num_items == 1 && strcmp(diag.items[0].id, "ptx-memory") == 0);
  sim_module_unload(&memory, &module);
  CU_ASSERT_EQUAL(sim_memory_alloc(&memory, 1001), 0);
  const uint64_t address = sim_memory_alloc(&memory, 1000);
  CU_ASSERT_NOT_EQUAL(address, 0);
  CU_ASSERT_EQUAL(sim_memory_alloc(&memory, 1), 0);
  CU_ASSERT(!sim_memory_free(&memory, address + 1));
  CU_ASSERT(sim_memory_free(&memory, address));
  sim_memory_deinit(&memory);
  ptc_diag_deinit(&diag);
}

// The library of the simulator, and plans that it cannot run.
static void test_library(void) {
  static ptc_plan_t plan = {.target = "cpu"};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT(ptc_gpusim_prepare(&diag, &plan, false, false) == PTC_INVALID_INPUT);
  CU_ASSERT(diag.num_items == 1 && strcmp(diag.items[0].id, "gpusim-target") == 0);
  plan.target = "sm_90a";
  setenv("PTC_GPUSIM", "/nowhere/library.so", 1);
  CU_ASSERT(ptc_gpusim_prepare(&diag, &plan, false, false) == PTC_DEVICE);
  CU_ASSERT(diag.num_items == 2 && strcmp(diag.items[1].id, "gpusim-missing") == 0 &&
            strstr(diag.items[1].message, "/nowhere/library.so"));
  unsetenv("PTC_GPUSIM");
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"faults", test_faults},           {"silence", test_silence},
                                    {"late copies", test_late_copy},   {"unknown", test_unknown},
                                    {"identifiers", test_identifiers}, {"memory", test_memory},
                                    {"library", test_library}};
UNIT_MAIN("gpusim faults", tests)

// Proves: the CUDA source of every kernel of the samples, and of attention at the widths of published models,
// compiles with NVRTC, without a warning and without spilled registers (but for calls of the math library), for each
// target; places in large tensors are of 64 bits; of the PTX for compute_80 the
// simulator of GPUs knows every instruction. Kernels that are the same are compiled once. Prints how many there are and the
// time. PTC_CASES: how many pairs of sample and target (default: 1), from the PTC_SEED-th on; all: each. PTC_SAMPLE: one
// sample, every target. Needs NVRTC, but no GPU; without NVRTC it says so and passes.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/cuda_codegen.h"
#include "codegen/nvrtc_pool.h"
#include "frontend/driver/cuda_images.h"
#include "frontend/driver/emit.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "runtime/cpu/cores.h"
#include "runtime/gpusim/module.h"
#include "runtime/hash.h"
#include "tests/support/kernel_groups.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

// NVRTC in its processes, or nothing where there is none.
typedef struct compiler_s {
  ptc_nvrtc_t *nvrtc;
  ptc_nvrtc_pool_t *pool;
} compiler_t;

static bool compiler_open(ptc_diag_t *diag, compiler_t *compiler) {
  *compiler = (compiler_t){.nvrtc = ptc_nvrtc_open(diag)};
  if (!compiler->nvrtc) {
    printf("skipped: no NVRTC here\n");
    return false;
  }
  compiler->pool = ptc_nvrtc_pool_create(diag, compiler->nvrtc, ptc_num_cores(), NULL);
  UNIT_CHECK(compiler->pool != NULL, "the program that compiles");
  return compiler->pool != NULL;
}

static void compiler_close(compiler_t *compiler) {
  ptc_nvrtc_pool_destroy(compiler->pool);
  ptc_nvrtc_close(compiler->nvrtc);
}

typedef struct compile_s {
  ptc_nvrtc_pool_t *pool;
  ptc_diag_t *diag;
  ptc_arena_t arena;
  const char *target;
  ptc_cuda_options_t options;
  int64_t num_kernels, num_compiled, num_failed, spilled_bytes;
  PTC_VEC(char *) hashes;  // of the sources below
  PTC_VEC(char *) sources;
} compile_t;

static void compile_deinit(compile_t *compile) {
  for (int64_t i = 0; i < (int64_t)compile->hashes.len; i++) free(compile->hashes.data[i]);
  PTC_VEC_FREE(&compile->hashes);
  for (int64_t i = 0; i < compile->sources.len; i++) free(compile->sources.data[i]);
  PTC_VEC_FREE(&compile->sources);
  ptc_arena_deinit(&compile->arena);
}

static bool is_known(compile_t *compile, const ptc_str_t *source) {
  // Without the comment that says what it is of.
  const char *begin = strstr(source->data, "typedef");
  char hash[PTC_HASH_CHARS + 1];
  ptc_hash(begin, source->len - (size_t)(begin - source->data), hash);
  for (int64_t i = 0; i < (int64_t)compile->hashes.len; i++)
    if (strcmp(compile->hashes.data[i], hash) == 0) return true;
  PTC_VEC_PUSH(&compile->hashes, strdup(hash));
  return false;
}

// What may spill: around the calls of the math library's functions in double.
static bool may_spill(const char *source, int64_t bytes) {
  static const char *const calls[] = {"pow(", "sin64(", "cos64("};
  const char *body = strstr(source, "__global__");
  bool any = bytes == 0;
  for (size_t i = 0; body && bytes <= 32 && i < sizeof calls / sizeof *calls; i++)
    any |= strstr(body, calls[i]) != NULL;
  return any;
}

static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static double wall_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Whether the simulator of GPUs can run all of |ptx|.
static ptc_status_t prepare(compile_t *compile, const char *name, const char *ptx) {
  sim_memory_t memory = {0};
  sim_module_t module;
  const ptc_status_t status = sim_module_load(compile->diag, &memory, name, ptx, &module);
  sim_module_unload(&memory, &module);
  sim_memory_deinit(&memory);
  return status;
}

static void check_code(compile_t *compile, const ptc_nvrtc_job_t *job) {
  const ptc_cuda_resources_t *r = &job->resources;
  const int64_t spilled = r->spill_store_bytes + r->spill_load_bytes;
  const bool ok = job->code && (strcmp(compile->target, "compute_80") != 0 ||
                                prepare(compile, "k", job->code) == PTC_OK);
  if (!may_spill(job->source, spilled)) compile->spilled_bytes += spilled;
  if ((!ok || spilled) && getenv("PTC_SHOW")) fprintf(stderr, "%s\n", job->source);
  if (spilled)
    printf("%.*s: %ld bytes spilled\n", (int)strcspn(job->source, "\n"), job->source,
           (long)spilled);
  compile->num_failed += !ok;
}

// Compiles what was gathered, all at a time.
static void compile_all(compile_t *compile) {
  const int32_t count = (int32_t)compile->sources.len;
  ptc_nvrtc_job_t *jobs = calloc((size_t)count + 1, sizeof *jobs);
  for (int32_t i = 0; i < count; i++)
    jobs[i] = (ptc_nvrtc_job_t){.name = "k", .source = compile->sources.data[i]};
  if (ptc_nvrtc_pool_compile(compile->pool, compile->diag, compile->target, jobs, count) != PTC_OK)
    compile->num_failed++;
  else
    for (int32_t i = 0; i < count; i++) check_code(compile, &jobs[i]);
  for (int32_t i = 0; i < count; i++) free(jobs[i].code);
  free(jobs);
  compile->num_compiled += count;
  if (compile->diag->num_items) ptc_diag_print(compile->diag, stderr, PTC_DIAG_TEXT, false);
}

static void compile_group(compile_t *compile, ptc_op_t **ops, int32_t num_ops) {
  ptc_built_kernel_t built;
  ptc_str_t source = {0};
  ptc_kernel_shape_t shape;
  // All have one name, so that what is the same has the same source.
  ptc_status_t status = ptc_build_kernel(compile->diag, &compile->arena, "k", ops, num_ops, &built);
  if (status == PTC_OK)
    status = ptc_codegen_cuda(compile->diag, &compile->arena, built.kernel, &compile->options,
                              &source, &shape);
  ++compile->num_kernels;
  compile->num_failed += status != PTC_OK;
  if (status == PTC_OK && !is_known(compile, &source))
    PTC_VEC_PUSH(&compile->sources, source.data);
  else
    ptc_str_deinit(&source);
}

static void compile_block(compile_t *compile, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op;) {
    if (op->body) compile_block(compile, op->body);
    if (!ptc_attrs_find(&op->attrs, "kernel")) {
      op = op->next;
      continue;
    }
    ptc_op_t *ops[KERNEL_GROUP_OPS];
    const int32_t num_ops = kernel_group(op, ops);
    compile_group(compile, ops, num_ops);
    op = ops[num_ops - 1]->next;
  }
}

static void check_sample(const compiler_t *compiler, const small_model_t *sample,
                         const char *target) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = small_model_lower(sample, NULL, 0, &diag);
  UNIT_CHECK(module != NULL, sample->name);
  if (!module) return;
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &(ptc_pass_options_t){0});
  UNIT_CHECK(ptc_pipeline_train(&ctx, module) == PTC_OK, sample->name);
  UNIT_CHECK(ptc_pass_run(&ctx, module, "fuse") == PTC_OK, sample->name);
  compile_t compile = {.pool = compiler->pool, .diag = &diag, .target = target};
  const double begin = wall_seconds();
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    compile_block(&compile, func->body);
  compile_all(&compile);
  printf("%s, %s: %ld kernels, %ld different, %.1f s\n", sample->name, target,
         (long)compile.num_kernels, (long)compile.num_compiled, wall_seconds() - begin);
  UNIT_CHECK(compile.num_failed == 0 && compile.num_kernels > 0, sample->name);
  UNIT_CHECK(compile.spilled_bytes == 0, sample->name);
  compile_deinit(&compile);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_samples(void) {
  static const char *const targets[] = {"sm_80", "sm_90a", "sm_100", "compute_80"};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  compiler_t compiler;
  const bool here = compiler_open(&diag, &compiler);
  const char *only = getenv("PTC_SAMPLE"), *cases = getenv("PTC_CASES");
  const int pairs = 4 * num_small_models;
  const int count = only || (cases && strcmp(cases, "all") == 0) ? pairs : cases ? atoi(cases) : 1;
  const uint64_t seed = unit_seed();
  for (int i = 0; here && i < count && i < pairs; ++i) {
    // Neighbours differ in both.
    const int at = (int)((seed + (uint64_t)i) % (uint64_t)pairs);
    const small_model_t *sample = &small_models[at % num_small_models];
    if (!only || strcmp(only, sample->name) == 0)
      check_sample(&compiler, sample, targets[(at % num_small_models + at / num_small_models) % 4]);
  }
  compiler_close(&compiler);
  ptc_diag_deinit(&diag);
}

// --- the step of GPT-2 124M, as published

// What NVRTC makes of all kernels, and what the cache does.
static void compile_step(const ptc_emitted_t *emitted, ptc_diag_t *diag) {
  char folder[] = PTC_BINARY_DIR "/compile-cache-XXXXXX";
  UNIT_CHECK(mkdtemp(folder) != NULL, folder);
  const ptc_kernel_objects_options_t options = {
      .target = "sm_80", .cache_folder = folder, .num_jobs = 2};
  const int32_t count = emitted->plan->num_kernels;
  for (int turn = 0; turn < 2; turn++) {
    ptc_cuda_images_t images;
    const double wall = wall_seconds(), cpu = cpu_seconds();
    UNIT_CHECK(ptc_cuda_images_create(diag, emitted->sources, count, &options, &images) == PTC_OK,
               "images");
    const double used = cpu_seconds() - cpu;
    printf("gpt2 124M, sm_80: %d kernels, %d compiled on 2 cores: %.2f s, %.2f s of CPU\n",
           (int)count, (int)images.num_compiled, wall_seconds() - wall, used);
    UNIT_CHECK(images.num_compiled == (turn ? 0 : count), "cache");
    UNIT_CHECK(turn == 0 || used < 0.3, "from the cache");
    for (int32_t k = 0; k < count && images.count; k++)
      UNIT_CHECK(images.resources[k].known &&
                     may_spill(emitted->sources[k].text, images.resources[k].spill_store_bytes +
                                                             images.resources[k].spill_load_bytes),
                 emitted->sources[k].name);
    ptc_cuda_images_deinit(&images);
  }
  ptc_str_t command = {0};
  ptc_str_printf(&command, "rm -rf '%s'", folder);
  UNIT_CHECK(system(command.data) == 0, folder);
  ptc_str_deinit(&command);
}

// A GEMM on tensor cores with dropout, which takes all of the shared memory; PTC_CASES=all: every kernel.
static void test_step(void) {
  static const small_model_t gpt2 = {.name = "gpt2 124M", .file = "samples/gpt2.ptm"};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  compiler_t compiler;
  ptc_module_t *module =
      compiler_open(&diag, &compiler) ? small_model_lower(&gpt2, NULL, 0, &diag) : NULL;
  if (module) {
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, NULL);
    ptc_emitted_t emitted = {0};
    UNIT_CHECK(ptc_pipeline_train(&ctx, module) == PTC_OK, "pipeline");
    UNIT_CHECK(ptc_emit(&ctx, module, "sm_80", &emitted) == PTC_OK, "emit");
    bool found = false;
    for (int32_t k = 0; k < emitted.plan->num_kernels && !found; k++) {
      const ptc_kernel_source_t *source = &emitted.sources[k];
      found = strstr(source->text, "load_A(") && strstr(source->text, "= ptc_bits01(ptc_philox(");
      ptc_nvrtc_job_t job = {.name = source->name, .source = source->text};
      if (found)
        UNIT_CHECK(ptc_nvrtc_pool_compile(compiler.pool, &diag, "sm_80", &job, 1) == PTC_OK,
                   source->name);
      free(job.code);
    }
    UNIT_CHECK(found, "a GEMM with dropout");
    const char *cases = getenv("PTC_CASES");
    if (cases && strcmp(cases, "all") == 0) compile_step(&emitted, &diag);
    if (diag.num_errors) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
    ptc_emitted_deinit(&emitted);
    ptc_pass_ctx_deinit(&ctx);
    ptc_module_destroy(module);
  }
  compiler_close(&compiler);
  ptc_diag_deinit(&diag);
}

// --- attention with wide heads, gradients of biases

typedef struct program_s {
  const char *name, *text;
} program_t;

#define HEADS(dtype, dot, own, more)               \
  "module \"t\"\n"                                 \
  "input @q : " dtype "[b=2, s=70, h=3, k=" dot    \
  "]\n"                                            \
  "input @key : " dtype "[b=2, t=70, h=3, k=" dot  \
  "]\n"                                            \
  "input @val : " dtype "[b=2, t=70, h=3, w=" own  \
  "]\n"                                            \
  "input @dout : " dtype "[b=2, s=70, h=3, w=" own \
  "]\n"                                            \
  "input @bias : f32[h=3, s=70, t=70]\n"           \
  "func @f(%q = @q, %key = @key, %val = @val, %dout = @dout, %bias = @bias) {\n" more "}\n"
#define PLAIN(attrs)                                                                           \
  "  %out, %lse = attention %q, %key, %val {attend = t, dot = k, scale = 0.1" attrs            \
  "}\n"                                                                                        \
  "  %dq, %dkey, %dval = attention_grad %q, %key, %val, %out, %lse, %dout {attend = t, dot = " \
  "k, scale = 0.1" attrs                                                                       \
  "}\n"                                                                                        \
  "  return output \"out\" = %out, output \"dq\" = %dq, output \"dkey\" = %dkey, output "      \
  "\"dval\" = %dval\n"
#define BIASED                                                                                \
  "  %out, %lse = attention %q, %key, %val, %bias {attend = t, dot = k, scale = 0.1, bias = " \
  "true}\n"                                                                                   \
  "  %dq, %dkey, %dval, %dbias = attention_grad %q, %key, %val, %bias, %out, %lse, %dout "    \
  "{attend = t, dot = k, scale = 0.1, bias = true}\n"                                         \
  "  return output \"out\" = %out, output \"dq\" = %dq, output \"dkey\" = %dkey, output "     \
  "\"dval\" = %dval, output \"dbias\" = %dbias\n"
static const program_t programs[] = {
    {"192 and 128, bf16", HEADS("bf16", "192", "128", PLAIN(""))},
    {"biased, f32", HEADS("f32", "128", "128", BIASED)},
    {"256, f16, capped", HEADS("f16", "256", "256", PLAIN(", softcap = 5.0"))},
    {"narrow and biased, bf16", HEADS("bf16", "64", "40", BIASED)},
    {"512, f32", HEADS("f32", "512", "512", PLAIN(""))},
    {"128, f32", HEADS("f32", "128", "128", PLAIN(""))},
};

// Marks every op but the return as a kernel of its own, and compiles it.
static void compile_each(compile_t *compile, const program_t *program) {
  ptc_module_t *module = NULL;
  UNIT_CHECK(ptc_module_parse(compile->diag, program->name, program->text, strlen(program->text),
                              &module) == PTC_OK,
             program->name);
  if (module)
    for (ptc_op_t *op = module->funcs->body->first; op->next; op = op->next)
      compile_group(compile, &op, 1);
  compile_all(compile);
  UNIT_CHECK(compile->num_failed == 0 && compile->num_kernels > 0, program->name);
  ptc_module_destroy(module);
}

// As one kernel.
static void compile_together(compile_t *compile, const program_t *program) {
  ptc_module_t *module = NULL;
  UNIT_CHECK(ptc_module_parse(compile->diag, program->name, program->text, strlen(program->text),
                              &module) == PTC_OK,
             program->name);
  ptc_op_t *ops[KERNEL_GROUP_OPS];
  int32_t count = 0;
  for (ptc_op_t *op = module ? module->funcs->body->first : NULL; op && op->next; op = op->next)
    ops[count++] = op;
  if (module) compile_group(compile, ops, count);
  compile_all(compile);
  UNIT_CHECK(compile->num_failed == 0 && compile->num_kernels > 0, program->name);
  ptc_module_destroy(module);
}

// PTC_CASES: how many programs, each for every target; one for one target without it.
static void test_programs(void) {
  static const char *const targets[] = {"sm_90a", "sm_80", "sm_100"};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  compiler_t compiler;
  const bool here = compiler_open(&diag, &compiler);
  const bool all = getenv("PTC_CASES") != NULL;
  const bool each = all && strcmp(getenv("PTC_CASES"), "all") == 0;
  const int cases = each ? INT32_MAX : all ? atoi(getenv("PTC_CASES")) : 1;
  for (int i = 0; here && i < (int)(sizeof programs / sizeof *programs) && i < cases; ++i)
    for (int t = 0; t < (all ? 3 : 1); ++t) {
      compile_t compile = {.pool = compiler.pool, .diag = &diag, .target = targets[t]};
      compile_each(&compile, &programs[i]);
      printf("%s: %ld kernels for %s\n", programs[i].name, (long)compile.num_kernels, targets[t]);
      compile_deinit(&compile);
    }
  compiler_close(&compiler);
  ptc_diag_deinit(&diag);
}

// Products of f32 as tf32, both operands along k, along the rows, and neither.
static const program_t tf32_program = {
    "tf32",
    "module \"t\"\ninput @a : f32[m=136, k=64]\ninput @b : f32[n=72, k=64]\n"
    "input @c : f32[k=64, n=72]\ninput @d : f32[k=64, j=33]\n"
    "input @e : f32[k=64, p=256]\n"
    "func @f(%a = @a, %b = @b, %c = @c, %d = @d, %e = @e) {\n"
    "  %x = einsum %e, %c {over = [k], dims = [p, n]}\n"
    "  %y = einsum %a, %b {over = [k], dims = [m, n]}\n"
    "  %z = einsum %c, %a {over = [k], dims = [n, m]}\n"
    "  %w = einsum %d, %a {over = [k], dims = [j, m]}\n"
    "  return output \"x\" = %x, output \"y\" = %y, output \"z\" = %z, output \"w\" = %w\n}\n"};

// Kernels of one op each, or of all ops.
static void check_program(const program_t *program, bool tf32, bool together) {
  static const char *const targets[] = {"compute_80", "sm_80", "sm_90a", "sm_100"};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  compiler_t compiler;
  const bool here = compiler_open(&diag, &compiler);
  for (int t = 0; here && t < 4; ++t) {
    compile_t compile = {
        .pool = compiler.pool, .diag = &diag, .target = targets[t], .options = {.tf32 = tf32}};
    if (together)
      compile_together(&compile, program);
    else
      compile_each(&compile, program);
    UNIT_CHECK(compile.spilled_bytes == 0, program->name);
    compile_deinit(&compile);
  }
  compiler_close(&compiler);
  ptc_diag_deinit(&diag);
}

// Places in tensors of more than 2^31 elements are computed in 64 bits, of smaller ones in 32.
static void test_large(void) {
  static const program_t sizes[2] = {
      {"const int i_",
       "module \"t\"\ninput @x : bf16[a=32767, d=65536]\nfunc @f(%x = @x) {\n"
       "  %y = reduce_sum %x {over = [d]}\n  return output \"y\" = %y\n}\n"},
      {"const int64_t i_",
       "module \"t\"\ninput @x : bf16[a=32768, d=65536]\nfunc @f(%x = @x) {\n"
       "  %y = reduce_sum %x {over = [d]}\n  return output \"y\" = %y\n}\n"}};
  for (int i = 0; i < 2; ++i) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_arena_t arena = {0};
    ptc_module_t *module = NULL;
    ptc_built_kernel_t built;
    ptc_str_t source = {0};
    ptc_kernel_shape_t shape;
    const ptc_cuda_options_t options = {0};
    bool ok =
        ptc_module_parse(&diag, "large", sizes[i].text, strlen(sizes[i].text), &module) == PTC_OK;
    ok = ok &&
         ptc_build_kernel(&diag, &arena, "k", &module->funcs->body->first, 1, &built) == PTC_OK &&
         ptc_codegen_cuda(&diag, &arena, built.kernel, &options, &source, &shape) == PTC_OK;
    UNIT_CHECK(ok && strstr(source.data, sizes[i].name), sizes[i].name);
    UNIT_CHECK(ok && !strstr(source.data, sizes[1 - i].name), sizes[1 - i].name);
    ptc_str_deinit(&source);
    ptc_module_destroy(module);
    ptc_arena_deinit(&arena);
    ptc_diag_deinit(&diag);
  }
}

static void test_tf32(void) { check_program(&tf32_program, true, false); }

// The tiles of a product on tensor cores fill shared memory: what the epilogue needs besides must lie elsewhere.
static void test_dropout(void) {
  static const program_t program = {
      "dropout",
      "module \"t\"\ninput @a : bf16[m=136, k=64]\ninput @b : bf16[n=72, k=64]\n"
      "input @seed : i64[]\ninput @step : i64[]\n"
      "func @f(%a = @a, %b = @b, %seed = @seed, %step = @step) {\n"
      "  %y = einsum %a, %b {over = [k], dims = [m, n]}\n"
      "  %d = dropout %y, %seed, %step {p = 0.1, path = \"a\"}\n"
      "  return output \"d\" = %d\n}\n"};
  check_program(&program, false, true);
  // Exact ones of f32, whose registers are few.
  static const program_t exact = {
      "dropout, f32",
      "module \"t\"\ninput @a : f32[m=64, k=256]\ninput @b : f32[k=256, n=256]\n"
      "input @seed : i64[]\ninput @step : i64[]\ninput @r : f32[m=64, n=256]\n"
      "func @f(%a = @a, %b = @b, %seed = @seed, %step = @step, %r = @r) {\n"
      "  %y = einsum %a, %b {over = [k], dims = [m, n]}\n"
      "  %d = dropout %y, %seed, %step {p = 0.1, path = \"a\"}\n  %s = add %d, %r\n"
      "  return output \"s\" = %s\n}\n"};
  check_program(&exact, false, true);
}

// Needs no NVRTC: what is printed, and what is refused.
static void test_refused(void) {
  static const program_t wide = {"too wide", HEADS("f32", "520", "64", PLAIN(""))};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_module_parse(&diag, wide.name, wide.text, strlen(wide.text), &module),
                        PTC_OK);
  ptc_arena_t arena = {0};
  ptc_built_kernel_t built;
  ptc_op_t *op = module->funcs->body->first;
  CU_ASSERT_EQUAL_FATAL(ptc_build_kernel(&diag, &arena, "k", &op, 1, &built), PTC_OK);
  ptc_str_t source = {0};
  ptc_kernel_shape_t shape;
  CU_ASSERT_EQUAL(
      ptc_codegen_cuda(&diag, &arena, built.kernel, &(ptc_cuda_options_t){0}, &source, &shape),
      PTC_UNSUPPORTED);
  CU_ASSERT(diag.num_items == 1 && strstr(diag.items[0].message, "heads of 520 and 64 elements"));
  ptc_str_deinit(&source);
  ptc_arena_deinit(&arena);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"samples", test_samples},   {"step", test_step},
                                    {"programs", test_programs}, {"tf32", test_tf32},
                                    {"large", test_large},       {"dropout", test_dropout},
                                    {"refused", test_refused}};
UNIT_MAIN("cuda compile", tests)

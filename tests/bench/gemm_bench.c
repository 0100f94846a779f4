// GFLOP/s of printed GEMM kernels, beside the FMA peak measured in the same repetitions and, where
// libopenblas is installed, cblas_sgemm. usage: gemm_bench [REPETITIONS] [NAME-PREFIX]
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/codegen.h"
#include "runtime/cpu/kernel_objects.h"
#include "runtime/cpu/memory_map.h"
#include "runtime/cpu/thread_pool.h"

// Forms as in BLAS, row-major: A is m x k or (T) k x m; B is k x n or (T) n x k.
typedef struct shape_s {
  const char *name;
  bool a_transposed, b_transposed;
  int64_t m, n, k;
} shape_t;

static const shape_t shapes[] = {
    {"qkv NT", 0, 1, 1024, 2304, 768},
    {"qkv dX NN", 0, 0, 1024, 768, 2304},
    {"qkv dW TN", 1, 0, 2304, 768, 1024},
    {"proj NT", 0, 1, 1024, 768, 768},
    {"proj dX NN", 0, 0, 1024, 768, 768},
    {"proj dW TN", 1, 0, 768, 768, 1024},
    {"fc NT", 0, 1, 1024, 3072, 768},
    {"fc NN", 0, 0, 1024, 3072, 768},
    {"fc dX NN", 0, 0, 1024, 768, 3072},
    {"fc dW TN", 1, 0, 3072, 768, 1024},
    {"fcproj NT", 0, 1, 1024, 768, 3072},
    {"fcproj dX NN", 0, 0, 1024, 3072, 768},
    {"fcproj dW TN", 1, 0, 768, 3072, 1024},
    {"lmhead NT", 0, 1, 1024, 50257, 768},
    {"lmhead dX NN", 0, 0, 1024, 768, 50257},
    {"lmhead dW TN", 1, 0, 50257, 768, 1024},
    {"small qkv NT", 0, 1, 3072, 1152, 384},
    {"small proj NT", 0, 1, 3072, 384, 384},
    {"small fc NT", 0, 1, 3072, 1536, 384},
    {"small fcproj NT", 0, 1, 3072, 384, 1536},
    {"small fc dX NN", 0, 0, 3072, 384, 1536},
    {"small proj dW TN", 1, 0, 384, 384, 3072},
    {"small fc dW TN", 1, 0, 1536, 384, 3072},
    {"small qkv dW TN", 1, 0, 1152, 384, 3072},
    {"m256 fc NT", 0, 1, 256, 3072, 768},
    {"256 NT", 0, 1, 256, 256, 64},
    {"64 NT", 0, 1, 64, 64, 64},
    {"64 NN", 0, 0, 64, 64, 64},
};
enum { NUM_SHAPES = sizeof shapes / sizeof *shapes, MAX_REPS = 99 };

// With GEMM_BENCH_CPU in the environment, the time of this process's threads, divided by |threads|: for a
// machine with other work on it.
static double now(int threads) {
  static int clock = -1;
  if (clock < 0) clock = getenv("GEMM_BENCH_CPU") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  struct timespec t;
  clock_gettime(clock, &t);
  const double seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  return clock == CLOCK_MONOTONIC ? seconds : seconds / threads;
}

static const ptc_kernel_t *build(ptc_arena_t *arena, const shape_t *shape, int32_t number) {
  ptc_kernel_builder_t kb;
  ptc_kb_begin(&kb, arena, ptc_arena_printf(arena, "bench_gemm_%d", number), PTC_KERNEL_GEMM,
               (ptc_loc_t){0});
  kb.kernel->about = shape->name;
  const int32_t m = ptc_kb_dim(&kb, "m", shape->m), n = ptc_kb_dim(&kb, "n", shape->n),
                k = ptc_kb_dim(&kb, "k", shape->k);
  const ptc_kx_t at_m = ptc_kb_index(&kb, m), at_n = ptc_kb_index(&kb, n),
                 at_k = ptc_kb_index(&kb, k);
  const bool at = shape->a_transposed, bt = shape->b_transposed;
  const int64_t a_extents[2] = {at ? shape->k : shape->m, at ? shape->m : shape->k};
  const int64_t b_extents[2] = {bt ? shape->n : shape->k, bt ? shape->k : shape->n};
  const int64_t c_extents[2] = {shape->m, shape->n};
  const int32_t a = ptc_kb_param(&kb, "a", PTC_KPARAM_IN, PTC_F32, a_extents, 2);
  const int32_t b = ptc_kb_param(&kb, "b", PTC_KPARAM_IN, PTC_F32, b_extents, 2);
  const int32_t c = ptc_kb_param(&kb, "c", PTC_KPARAM_OUT, PTC_F32, c_extents, 2);
  ptc_gemm_t *gemm = &kb.kernel->gemm;
  gemm->m = UINT32_C(1) << m, gemm->n = UINT32_C(1) << n, gemm->k = UINT32_C(1) << k;
  gemm->a = ptc_kb_load(&kb, a, at ? (ptc_kx_t[]){at_k, at_m} : (ptc_kx_t[]){at_m, at_k});
  gemm->b = ptc_kb_load(&kb, b, bt ? (ptc_kx_t[]){at_n, at_k} : (ptc_kx_t[]){at_k, at_n});
  const ptc_kx_t sum = ptc_kb_hole(&kb, 0, PTC_F32, gemm->m | gemm->n);
  ptc_kb_store(&kb, c, (ptc_kx_t[]){at_m, at_n}, sum);
  return kb.kernel;
}

// --- one kernel as machine code
typedef struct program_s {
  ptc_arena_t arena;
  ptc_kernel_shape_t shape;
  ptc_str_t source;
  ptc_kernel_objects_t *objects;
  void *params[4], *scratch[2];
} program_t;

static void stop(const ptc_diag_t *diag) {
  ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  exit(1);
}

static void *memory(int64_t num_bytes) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  void *mapped;
  if (ptc_memory_map(&diag, num_bytes > 0 ? num_bytes : 64, &mapped) != PTC_OK) stop(&diag);
  ptc_diag_deinit(&diag);
  return mapped;
}

static void fill(float *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    values[i] = (float)((uint64_t)i * UINT64_C(2654435761) % 1000) / 1000 - 0.5f;
}

static void open_program(program_t *program, const shape_t *shape, int32_t number) {
  *program = (program_t){0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_kernel_t *kernel = build(&program->arena, shape, number);
  if (ptc_codegen_c(&diag, &program->arena, kernel, &(ptc_c_target_t){.march = "native"},
                    &program->source, &program->shape) != PTC_OK)
    stop(&diag);
  const ptc_kernel_source_t source = {kernel->name, program->source.data, program->source.len};
  if (ptc_kernel_objects_create(&diag, &source, 1, &(ptc_kernel_objects_options_t){0},
                                &program->objects) != PTC_OK)
    stop(&diag);
  ptc_diag_deinit(&diag);
  const int64_t count[3] = {shape->m * shape->k, shape->n * shape->k, shape->m * shape->n};
  for (int i = 0; i < 3; ++i) program->params[i] = memory(4 * count[i]);
  for (int i = 0; i < 2; ++i) fill(program->params[i], count[i]);
  program->params[3] = memory(program->shape.workspace_bytes);
  for (int i = 0; i < 2; ++i) program->scratch[i] = memory(program->shape.scratch_bytes);
}

static void close_program(program_t *program, const shape_t *shape) {
  ptc_kernel_objects_destroy(program->objects);
  ptc_memory_unmap(program->params[0], 4 * shape->m * shape->k);
  ptc_memory_unmap(program->params[1], 4 * shape->n * shape->k);
  ptc_memory_unmap(program->params[2], 4 * shape->m * shape->n);
  ptc_str_deinit(&program->source);
  ptc_arena_deinit(&program->arena);
}

static void run_tile(void *arg, int32_t thread, int64_t phase, int64_t tile) {
  const program_t *program = arg;
  static const int64_t no_turns[1] = {0};
  int32_t fault = 0;
  const ptc_kernel_call_t call = {program->params, no_turns, program->scratch[thread], &fault};
  ptc_kernel_objects_entry(program->objects, 0)(&call, phase, tile);
}

static void launch(program_t *program, ptc_thread_pool_t *pool) {
  ptc_thread_pool_run(pool, program->shape.runs, program->shape.num_runs, run_tile, program);
}

// --- the FMA peak: 12 independent accumulators, as the micro-kernel has
typedef float vec_t __attribute__((vector_size(32)));
enum { PEAK_TURNS = 300000, PEAK_SUMS = 12 };

static void peak_tile(void *arg, int32_t thread, int64_t phase, int64_t tile) {
  (void)thread, (void)phase;
#ifdef __FMA__
  vec_t sum[PEAK_SUMS], x, y;
  for (int l = 0; l < 8; ++l) x[l] = 0.999f, y[l] = 1e-3f;
  for (int i = 0; i < PEAK_SUMS; ++i) sum[i] = x * (float)i;
  for (int64_t t = 0; t < PEAK_TURNS; ++t) {
#pragma GCC unroll 12
    for (int i = 0; i < PEAK_SUMS; ++i) sum[i] = __builtin_ia32_vfmaddps256(sum[i], x, y);
    __asm__ volatile("" : : "x"(sum[0]));
  }
  for (int i = 1; i < PEAK_SUMS; ++i) sum[0] += sum[i];
  ((float *)arg)[tile * 16] = sum[0][0];
#else
  (void)arg, (void)tile;
#endif
}

static double peak(ptc_thread_pool_t *pool) {
  static float sink[16 * 64];
  const int64_t threads = ptc_thread_pool_size(pool);
  const double start = now((int)threads);
  ptc_thread_pool_run(pool, &(ptc_phase_run_t){1, 1, &threads}, 1, peak_tile, sink);
  return 16.0 * PEAK_SUMS * PEAK_TURNS * (double)threads / (now((int)threads) - start) / 1e9;
}

// --- OpenBLAS
typedef void (*sgemm_t)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                        int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef struct blas_s {
  sgemm_t sgemm;
  void (*set_threads)(int);
} blas_t;

static blas_t load_blas(void) {
  blas_t blas = {0};
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return blas;
  *(void **)&blas.sgemm = dlsym(library, "cblas_sgemm");
  *(void **)&blas.set_threads = dlsym(library, "openblas_set_num_threads");
  return blas;
}

static void run_blas(const blas_t *blas, const shape_t *s, void *const *params) {
  blas->sgemm(101, s->a_transposed ? 112 : 111, s->b_transposed ? 112 : 111, (int)s->m, (int)s->n,
              (int)s->k, 1, params[0], (int)(s->a_transposed ? s->m : s->k), params[1],
              (int)(s->b_transposed ? s->k : s->n), 0, params[2], (int)s->n);
}

// --- measuring
typedef struct figures_s {
  double gemm[MAX_REPS], peak[MAX_REPS], ratio[MAX_REPS], blas[MAX_REPS];
} figures_t;

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return values[count / 2];
}

static void measure(program_t *program, const shape_t *shape, ptc_thread_pool_t *pool,
                    const blas_t *blas, int reps) {
  figures_t f;
  const double flops = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k;
  const int turns = flops < 2e7 ? (int)(2e7 / flops) + 1 : 1;
  for (int r = 0; r < reps; ++r) {
    f.peak[r] = peak(pool);
    double start = now(ptc_thread_pool_size(pool));
    for (int t = 0; t < turns; ++t) launch(program, pool);
    f.gemm[r] = flops * turns / (now(ptc_thread_pool_size(pool)) - start) / 1e9;
    f.ratio[r] = f.gemm[r] / f.peak[r];
    f.blas[r] = 0;
    if (!blas->sgemm) continue;
    start = now(ptc_thread_pool_size(pool));
    for (int t = 0; t < turns; ++t) run_blas(blas, shape, program->params);
    f.blas[r] = flops * turns / (now(ptc_thread_pool_size(pool)) - start) / 1e9;
  }
  const double ratio = median(f.ratio, reps), gemm = median(f.gemm, reps);
  median(f.peak, reps);  // sorts them
  const double other = median(f.blas, reps);
  printf(" | %6.1f %6.1f %5.3f %5.3f %6.1f %6.1f", gemm, f.gemm[reps - 1], ratio,
         f.gemm[reps - 1] / f.peak[reps - 1], other, f.blas[reps - 1]);
  fflush(stdout);
}

static void run_shape(const shape_t *shape, int32_t number, ptc_thread_pool_t *const *pools,
                      const blas_t *blas, int reps) {
  program_t program;
  open_program(&program, shape, number);
  if (getenv("GEMM_BENCH_SOURCE")) printf("%s", program.source.data);
  const ptc_phase_run_t *run = &program.shape.runs[0];
  printf("%-16s %5" PRId64 " %5" PRId64 " %5" PRId64 " %4.0f %3" PRId64 "x", shape->name, shape->m,
         shape->n, shape->k, (double)program.shape.workspace_bytes / 1e6, run->count);
  for (int32_t p = 0; p < run->num_phases; ++p) printf("%s%" PRId64, p ? "+" : "", run->tiles[p]);
  for (int t = 0; t < 2; ++t) {
    if (blas->set_threads) blas->set_threads(t + 1);
    measure(&program, shape, pools[t], blas, reps);
  }
  printf("\n");
  close_program(&program, shape);
}

int main(int argc, char **argv) {
  int reps = argc > 1 ? atoi(argv[1]) : 9;
  if (reps < 1 || reps > MAX_REPS) reps = 9;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_thread_pool_t *pools[2];
  for (int t = 0; t < 2; ++t)
    if (ptc_thread_pool_create(&diag, t + 1, &pools[t]) != PTC_OK) return 1;
  const blas_t blas = load_blas();
  printf(
      "GFLOP/s; ratio to the FMA peak of the same repetition (median) and of maxima\n"
      "%-16s %5s %5s %5s %4s %-9s | 1 thread: median max ratio max/max, OpenBLAS median max "
      "| 2 threads: the same\n",
      "shape", "M", "N", "K", "MB", "tiles");
  for (int32_t i = 0; i < NUM_SHAPES; ++i)
    if (argc < 3 || strncmp(shapes[i].name, argv[2], strlen(argv[2])) == 0)
      run_shape(&shapes[i], i, pools, &blas, reps);
  for (int t = 0; t < 2; ++t) ptc_thread_pool_destroy(pools[t]);
  ptc_diag_deinit(&diag);
  return 0;
}

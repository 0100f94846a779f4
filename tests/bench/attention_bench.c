// Times printed attention kernels, forward and backward, beside the FMA peak of the same cores in the same run.
// Built and run by attention.sh: attention_bench THREADS.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "passes/build_kernels.h"
#include "tests/support/interp_case.h"
#include "tests/support/kernel_run.h"
#include "tests/support/unit.h"

enum { REPEATS = 11 };

typedef struct shape_s {
  const char *name;
  int b, heads, groups, seq, k;
  const char *mask, *dtype;
} shape_t;

static const shape_t shapes[] = {
    {"gpt2 124M", 4, 12, 1, 256, 64, "causal", "f32"},
    {"gpt2 s 1024", 1, 12, 1, 1024, 64, "causal", "f32"},
    {"gpt2 s 4096", 1, 12, 1, 4096, 64, "causal", "f32"},
    {"no mask", 4, 12, 1, 256, 64, "", "f32"},
    {"small model", 12, 6, 1, 256, 64, "causal", "f32"},
    {"grouped k 128", 1, 2, 4, 1024, 128, "causal", "f32"},
    {"window 256", 1, 12, 1, 1024, 64, "window", "f32"},
    {"bf16", 4, 12, 1, 256, 64, "causal", "bf16"},
};

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// --- the peak: 12 independent chains of fused multiply-adds

static const char peak_source[] =
    "#pragma GCC optimize(\"fp-contract=fast\")\n"
    "typedef float vec __attribute__((vector_size(32)));\n"
    "void peak(long turns, float *out);\n"
    "void peak(long turns, float *out) {\n"
    "  vec a[12], x = {1, 1, 1, 1, 1, 1, 1, 1}, y = x * 0.5f;\n"
    "  for (int j = 0; j < 12; j++) a[j] = x * out[j];\n"
    "  for (long i = 0; i < turns; i++)\n"
    "#pragma GCC unroll 12\n"
    "    for (int j = 0; j < 12; j++) a[j] = a[j] * y + x;\n"
    "  for (int j = 0; j < 12; j++) out[j] = a[j][0];\n"
    "}\n";

typedef struct bench_kernel_s {
  kernel_set_t *set;
  ptc_kernel_fn_t run;
  const ptc_kernel_shape_t *shape;
  void *buffers[PTC_KERNEL_MAX_PARAMS + 1];  // parameters, workspace
  int32_t num_buffers;
} bench_kernel_t;

typedef struct job_s {
  const bench_kernel_t *call;
  void (*peak)(long, float *);
  int64_t phase, tiles;
  atomic_int_least64_t *next;
  void *scratch;
} job_t;

enum { PEAK_TURNS = 40000, PEAK_REPEATS = 500 };

static void *work(void *arg) {
  job_t *job = arg;
  if (job->peak) {
    float out[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    job->peak(PEAK_TURNS, out);
    return NULL;
  }
  int32_t fault = 0;
  const int64_t turns[PTC_MAX_COUNTS] = {0};
  const ptc_kernel_call_t call = {job->call->buffers, turns, job->scratch, &fault};
  for (int64_t tile; (tile = atomic_fetch_add(job->next, 1)) < job->tiles;)
    job->call->run(&call, job->phase, tile);
  return NULL;
}

static void run_threads(job_t *jobs, int threads) {
  pthread_t thread[64];
  for (int i = 1; i < threads; i++) pthread_create(&thread[i], NULL, work, &jobs[i]);
  work(&jobs[0]);
  for (int i = 1; i < threads; i++) pthread_join(thread[i], NULL);
}

static double time_threads(const bench_kernel_t *call, job_t *jobs, int threads) {
  const double start = now_s();
  for (int32_t p = 0; p < call->shape->runs[0].num_phases; p++) {
    atomic_int_least64_t next = 0;
    for (int i = 0; i < threads; i++) {
      jobs[i].call = call;
      jobs[i].peak = NULL;
      jobs[i].phase = p;
      jobs[i].tiles = call->shape->runs[0].tiles[p];
      jobs[i].next = &next;
    }
    run_threads(jobs, threads);
  }
  return now_s() - start;
}

static double cpu_now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// One thread: the sum of the best times of the tiles by its own clock, which other work on the machine hardly
// disturbs.
static double time_tiles(const bench_kernel_t *call, void *scratch) {
  int32_t fault = 0;
  const int64_t turns[PTC_MAX_COUNTS] = {0};
  const ptc_kernel_call_t to = {call->buffers, turns, scratch, &fault};
  double sum = 0;
  for (int32_t p = 0; p < call->shape->runs[0].num_phases; p++)
    for (int64_t tile = 0; tile < call->shape->runs[0].tiles[p]; tile++) {
      double best = 1e9;
      for (int r = 0; r < REPEATS; r++) {
        const double start = cpu_now_s();
        call->run(&to, p, tile);
        const double time = cpu_now_s() - start;
        if (time < best) best = time;
      }
      sum += best;
    }
  return sum;
}

static double time_kernel(const bench_kernel_t *call, job_t *jobs, int threads) {
  if (threads == 1) return time_tiles(call, jobs[0].scratch);
  double best = 1e9;
  for (int r = 0; r < REPEATS; r++) {
    const double time = time_threads(call, jobs, threads);
    if (time < best) best = time;
  }
  return best;
}

static void program(ptc_str_t *out, const shape_t *s) {
  char q[96], key[96];
  snprintf(q, sizeof q, "%s[b=%d, s=%d, n=%d, g=%d, k=%d]", s->dtype, s->b, s->seq, s->heads,
           s->groups, s->k);
  snprintf(key, sizeof key, "%s[b=%d, t=%d, n=%d, k=%d]", s->dtype, s->b, s->seq, s->heads, s->k);
  ptc_str_printf(out,
                 "module \"t\"\ninput @q : %s\ninput @key : %s\ninput @val : %s\ninput @dout : %s\n"
                 "func @f(%%q = @q, %%key = @key, %%val = @val, %%dout = @dout) {\n"
                 "  %%it = iota {dim = t} : i32[t=%d]\n  %%is = iota {dim = s} : i32[s=%d]\n"
                 "  %%before = le %%it, %%is\n",
                 q, key, key, q, s->seq, s->seq);
  if (strcmp(s->mask, "window") == 0)
    ptc_str_append(out,
                   "  %width = constant {value = 256} : i32[]\n  %far = sub %is, %it\n"
                   "  %near = lt %far, %width\n  %mask = and %before, %near\n");
  const bool masked = s->mask[0];
  const char *name = strcmp(s->mask, "window") == 0 ? ", %mask" : masked ? ", %before" : "";
  const char *attr = masked ? ", mask = true" : "";
  ptc_str_printf(
      out,
      "  %%out, %%lse = attention %%q, %%key, %%val%s {attend = t, dot = k, scale = 0.125%s}\n"
      "  %%dq, %%dkey, %%dval = attention_grad %%q, %%key, %%val%s, %%out, %%lse, %%dout "
      "{attend = t, dot = k, scale = 0.125%s}\n"
      "  return output \"out\" = %%out, output \"lse\" = %%lse, output \"dq\" = %%dq, "
      "output \"dkey\" = %%dkey, output \"dval\" = %%dval\n}\n",
      name, attr, name, attr);
}

// Scores that the mask lets through, of a pair of sequence and head.
static double scores(const shape_t *s) {
  double count = 0;
  for (int i = 0; i < s->seq; i++)
    for (int t = 0; t < s->seq; t++)
      count += !s->mask[0] || (t <= i && (strcmp(s->mask, "window") != 0 || i - t < 256));
  return count * s->b * s->heads * s->groups;
}

static void *memory(int64_t bytes) { return aligned_alloc(64, ((size_t)bytes + 64) / 64 * 64); }

// Numbers in [-1, 1), whatever the parameter is.
static void *filled(const ptc_kparam_t *param, uint64_t *random) {
  int64_t count = 1;
  for (int32_t i = 0; i < param->num_dims; i++) count *= param->extents[i];
  double *x = ptc_xmalloc(sizeof(double) * (size_t)count);
  for (int64_t e = 0; e < count; e++)
    x[e] = ptc_dtype_round(param->dtype, (double)(unit_random(random) >> 11) * 0x1p-52 - 1);
  void *buffer = memory(count * ptc_dtype_bytes(param->dtype));
  kernel_pack(param->dtype, x, count, buffer);
  free(x);
  return buffer;
}

static bool open_kernel(interp_case_t *c, ptc_arena_t *arena, ptc_opcode_t opcode,
                        bench_kernel_t *call) {
  ptc_op_t *op = NULL;
  for (ptc_op_t *o = c->module->funcs->body->first; o; o = o->next) {
    if (o->opcode == opcode) op = o;
    if (o->opcode != PTC_OP_ATTENTION && o->opcode != PTC_OP_ATTENTION_GRAD &&
        o->opcode != PTC_OP_RETURN)
      ptc_attrs_set_bool(c->module, &o->attrs, "inline", true);
  }
  ptc_built_kernel_t built;
  ptc_attrs_set_int(c->module, &op->attrs, "kernel", 1);
  if (ptc_build_kernel(&c->diag, arena, "k1_attention", &op, 1, &built) != PTC_OK) return false;
  *call = (bench_kernel_t){.set = kernel_set_create(&c->diag)};
  if (kernel_set_add(call->set, built.kernel) < 0 || !kernel_set_build(call->set, NULL))
    return false;
  call->run = kernel_set_fn(call->set, 0);
  call->shape = kernel_set_shape(call->set, 0);
  uint64_t random = 1;
  for (; call->num_buffers < built.kernel->num_params; call->num_buffers++)
    call->buffers[call->num_buffers] = filled(&built.kernel->params[call->num_buffers], &random);
  call->buffers[call->num_buffers++] = memory(call->shape->workspace_bytes);
  return true;
}

static void close_kernel(bench_kernel_t *call) {
  for (int32_t i = 0; i < call->num_buffers; i++) free(call->buffers[i]);
  kernel_set_free(call->set);
}

static void bench(const shape_t *s, job_t *jobs, int threads, double peak) {
  ptc_str_t text = {0};
  program(&text, s);
  interp_case_t *c = interp_case_open(text.data, PTC_INTERP_TYPED);
  if (!c) exit(1);
  const double work_done = scores(s) * s->k * 2;  // flops of one product
  const double full = (double)s->seq * s->seq * s->b * s->heads * s->groups * s->k * 2;
  for (int grad = 0; grad < 2; grad++) {
    ptc_arena_t arena = {0};
    bench_kernel_t call;
    const double compile = now_s();
    if (!open_kernel(c, &arena, grad ? PTC_OP_ATTENTION_GRAD : PTC_OP_ATTENTION, &call)) exit(1);
    const double compiled = now_s() - compile;
    for (int i = 0; i < threads; i++) jobs[i].scratch = memory(call.shape->scratch_bytes);
    const double best = time_kernel(&call, jobs, threads);
    const double products = grad ? 5 : 2;
    printf(
        "%-14s %-8s %9.2f ms  %7.1f GF/s counted full  %7.1f GF/s done  %5.1f %% of peak  "
        "(compiled in %.1f s)\n",
        s->name, grad ? "backward" : "forward", best * 1e3, full * products / best * 1e-9,
        work_done * products / best * 1e-9, 100 * work_done * products / best / peak, compiled);
    fflush(stdout);
    for (int i = 0; i < threads; i++) free(jobs[i].scratch);
    close_kernel(&call);
    ptc_arena_deinit(&arena);
  }
  interp_case_close(c);
  ptc_str_deinit(&text);
}

static void *compile_peak(void) {
  char folder[] = "/tmp/attention_bench_XXXXXX", path[64], command[256];
  if (!mkdtemp(folder)) return NULL;
  snprintf(path, sizeof path, "%s/peak.c", folder);
  FILE *file = fopen(path, "w");
  if (!file) return NULL;
  fputs(peak_source, file);
  fclose(file);
  snprintf(command, sizeof command, "cc -O3 -march=native -fPIC -shared -o %s/peak.so %s", folder,
           path);
  void *library = NULL;
  if (system(command) == 0) {
    snprintf(path, sizeof path, "%s/peak.so", folder);
    library = dlopen(path, RTLD_NOW);
  }
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) == 0 ? library : NULL;
}

int main(int argc, char **argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 1;
  if (threads < 1 || threads > 64) return 2;
  job_t jobs[64] = {{0}};
  void *library = compile_peak();
  if (!library) return 1;
  void *symbol = dlsym(library, "peak");
  for (int i = 0; i < threads; i++) memcpy(&jobs[i].peak, &symbol, sizeof symbol);
  double peak = 0;
  for (int r = 0; r < PEAK_REPEATS; r++) {
    const double start = now_s();
    run_threads(jobs, threads);
    const double rate = 12.0 * 16 * PEAK_TURNS * threads / (now_s() - start);
    if (rate > peak) peak = rate;
  }
  printf("%d threads, FMA peak %.1f GF/s\n", threads, peak * 1e-9);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (argc < 3 || strstr(shapes[i].name, argv[2])) bench(&shapes[i], jobs, threads, peak);
  return 0;
}

// What this machine can do: peak of f32 multiply-adds, bandwidth of STREAM's triad and of copies, on
// 1, 2, 4, ... and all threads. Built by the scripts beside it, with -O3 and the CPU's own instructions:
//
//   peak [--threads N] [--seconds S] [--only fma|stream] [--json]
//
// The best of several repetitions counts: other work on the machine can only slow them down.
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

typedef float vec_t __attribute__((vector_size(VECTOR_BYTES)));

enum {
  LANES = VECTOR_BYTES / sizeof(float),
  CHAINS = 14,            // independent sums: latency times throughput, and some
  FMA_ROUNDS = 1 << 16,   // of one call
  STREAM_COUNT = 1 << 26  // elements of an array, all threads together: far more than any cache
};

typedef enum kind_e { FMA, TRIAD, TRIAD_NT, COPY, READ, NUM_KINDS } kind_t;

typedef struct shared_s {
  kind_t kind;
  int num_threads;
  double seconds;
  float *a, *b, *c;
  pthread_barrier_t barrier;
  double begin, best;  // of a round, in seconds; written by thread 0 between barriers
  int rounds;
  bool done;
} shared_t;

typedef struct worker_s {
  shared_t *shared;
  int index;
  float sink;
} worker_t;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// CHAINS independent sums held in registers; the compiler contracts a * x + y (-ffp-contract=fast), and
// may not reorder anything else.
__attribute__((noinline)) static float fma_work(float start) {
  vec_t sums[CHAINS];
  vec_t factor, term;
  for (int l = 0; l < LANES; l++) {
    factor[l] = 0.999f + 1e-6f * start;
    term[l] = 0.001f * start;
  }
  for (int i = 0; i < CHAINS; i++)
    for (int l = 0; l < LANES; l++) sums[i][l] = start + (float)i;
  for (int r = 0; r < FMA_ROUNDS; r++) {
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * factor + term;
  }
  float total = 0;
  for (int i = 0; i < CHAINS; i++)
    for (int l = 0; l < LANES; l++) total += sums[i][l];
  return total;
}

static void triad(float *restrict a, const float *restrict b, const float *restrict c, int64_t n,
                  float s) {
  for (int64_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}

// Stores that do not read the line first.
static void triad_nt(float *restrict a, const float *restrict b, const float *restrict c, int64_t n,
                     float s) {
#ifdef __AVX__
  const __m256 factor = _mm256_set1_ps(s);
  for (int64_t i = 0; i < n; i += 8)
    _mm256_stream_ps(
        a + i, _mm256_add_ps(_mm256_load_ps(b + i), _mm256_mul_ps(factor, _mm256_load_ps(c + i))));
  _mm_sfence();
#else
  triad(a, b, c, n, s);
#endif
}

static float read_all(const float *a, int64_t n) {
  vec_t sums[8] = {{0}};
  for (int64_t i = 0; i < n; i += 8 * LANES)
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) sums[k] += *(const vec_t *)(const void *)(a + i + k * LANES);
  float total = 0;
  for (int k = 0; k < 8; k++)
    for (int l = 0; l < LANES; l++) total += sums[k][l];
  return total;
}

// The part of one thread in one round.
static void work(worker_t *worker) {
  shared_t *shared = worker->shared;
  int64_t part = STREAM_COUNT / shared->num_threads / 4096 * 4096;
  float *a = shared->a + part * worker->index;
  const float *b = shared->b + part * worker->index, *c = shared->c + part * worker->index;
  switch (shared->kind) {
    case FMA:
      for (int i = 0; i < 16; i++) worker->sink += fma_work(1.0f + worker->sink * 1e-9f);
      break;
    case TRIAD: triad(a, b, c, part, 0.5f); break;
    case TRIAD_NT: triad_nt(a, b, c, part, 0.5f); break;
    case COPY: memcpy(a, b, (size_t)part * sizeof(float)); break;
    case READ: worker->sink += read_all(a, part); break;
    case NUM_KINDS: break;
  }
}

static void *run_worker(void *argument) {
  worker_t *worker = argument;
  shared_t *shared = worker->shared;
  double start = now();
  for (;;) {
    pthread_barrier_wait(&shared->barrier);
    if (worker->index == 0) shared->begin = now();
    work(worker);
    pthread_barrier_wait(&shared->barrier);
    if (worker->index == 0) {
      double took = now() - shared->begin;
      if (shared->rounds == 0 || took < shared->best) shared->best = took;
      shared->rounds++;
      shared->done = shared->rounds >= 3 && now() - start >= shared->seconds;
    }
    pthread_barrier_wait(&shared->barrier);
    if (shared->done) return NULL;
  }
}

// GFLOP/s, or GB/s, of the best round. Bytes are those that the text of the loop reads and writes.
static double measure(shared_t *shared, kind_t kind, int num_threads) {
  static const double bytes[NUM_KINDS] = {[TRIAD] = 12, [TRIAD_NT] = 12, [COPY] = 8, [READ] = 4};
  shared->kind = kind;
  shared->num_threads = num_threads;
  shared->rounds = 0;
  shared->done = false;
  pthread_barrier_init(&shared->barrier, NULL, (unsigned)num_threads);
  worker_t *workers = calloc((size_t)num_threads, sizeof(*workers));
  pthread_t *threads = calloc((size_t)num_threads, sizeof(*threads));
  if (!workers || !threads) exit(3);
  for (int i = 0; i < num_threads; i++) workers[i] = (worker_t){.shared = shared, .index = i};
  for (int i = 1; i < num_threads; i++) {
    if (pthread_create(&threads[i], NULL, run_worker, &workers[i]) != 0) {
      fprintf(stderr, "peak: cannot start thread %d\n", i);
      exit(3);
    }
  }
  run_worker(&workers[0]);
  for (int i = 1; i < num_threads; i++) pthread_join(threads[i], NULL);
  volatile float keep = 0;
  for (int i = 0; i < num_threads; i++) keep += workers[i].sink;
  (void)keep;
  pthread_barrier_destroy(&shared->barrier);
  free(workers);
  free(threads);
  double amount =
      kind == FMA ? 2.0 * 16 * FMA_ROUNDS * CHAINS * LANES * num_threads
                  : bytes[kind] * (double)(STREAM_COUNT / num_threads / 4096 * 4096) * num_threads;
  return amount / shared->best * 1e-9;
}

static float *array(float value) {
  float *data = aligned_alloc(4096, (size_t)STREAM_COUNT * sizeof(float));
  if (!data) {
    fprintf(stderr, "peak: no memory for three arrays of %zu MiB\n",
            (size_t)STREAM_COUNT * sizeof(float) >> 20);
    exit(3);
  }
  for (int64_t i = 0; i < STREAM_COUNT; i++) data[i] = value;
  return data;
}

static void usage(FILE *out) {
  fprintf(out, "usage: peak [--threads N] [--seconds S] [--only fma|stream] [--json]\n");
}

int main(int argc, char **argv) {
  static const struct option options[] = {
      {"threads", required_argument, NULL, 't'}, {"seconds", required_argument, NULL, 's'},
      {"only", required_argument, NULL, 'o'},    {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},          {0}};
  long max_threads = sysconf(_SC_NPROCESSORS_ONLN);
  bool json = false, fma = true, stream = true;
  shared_t shared = {.seconds = 0.5};
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    char *end = NULL;
    switch (option) {
      case 't': max_threads = strtol(optarg, &end, 10); break;
      case 's': shared.seconds = strtod(optarg, &end); break;
      case 'o':
        fma = strcmp(optarg, "fma") == 0;
        stream = strcmp(optarg, "stream") == 0;
        break;
      case 'j': json = true; break;
      case 'h': usage(stdout); return 0;
      default: usage(stderr); return 2;
    }
    if (end && *end) {
      fprintf(stderr, "peak: \"%s\" is no number\n", optarg);
      return 2;
    }
  }
  if (max_threads < 1 || max_threads > 1024 || (!fma && !stream) || optind < argc) {
    usage(stderr);
    return 2;
  }
  if (stream) {
    shared.a = array(0);
    shared.b = array(1);
    shared.c = array(2);
  }
  static const char *const names[NUM_KINDS] = {"fma", "triad", "triad_nt", "memcpy", "read"};
  if (json)
    printf("{\"vector_bytes\": %d, \"rows\": [", (int)VECTOR_BYTES);
  else
    printf("%7s %10s %10s %10s %10s %10s\n%7s %10s %10s %10s %10s %10s\n", "threads", "fma",
           "triad", "triad nt", "memcpy", "read", "", "GFLOP/s", "GB/s", "GB/s", "GB/s", "GB/s");
  for (long threads = 1, next; threads <= max_threads; threads = next) {
    if (json)
      printf("%s{\"threads\": %ld", threads > 1 ? ", " : "", threads);
    else
      printf("%7ld", threads);
    for (kind_t kind = FMA; kind < NUM_KINDS; kind++) {
      bool wanted = kind == FMA ? fma : stream;
      double rate = wanted ? measure(&shared, kind, (int)threads) : 0;
      if (json && wanted)
        printf(", \"%s\": %.2f", names[kind], rate);
      else if (!json)
        wanted ? printf(" %10.1f", rate) : printf(" %10s", "-");
      fflush(stdout);
    }
    printf(json ? "}" : "\n");
    next = threads == max_threads      ? max_threads + 1
           : threads * 2 < max_threads ? threads * 2
                                       : max_threads;
  }
  if (json) printf("]}\n");
  free(shared.a);
  free(shared.b);
  free(shared.c);
  return 0;
}

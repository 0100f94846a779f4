// Proves, for GPT-2, Llama and Gemma with dropout, clipping and tied embeddings, at sizes that divide by nothing: a step
// over any mesh of up to 8 ranks, with any ZeRO stage, schedule, recomputation, sequence parallelism and number of
// micro-batches, trains as one rank does. Initial weights are the same in every bit, each gradient of the first step is
// within 1e-4 of its norm, 10 losses within 1e-5, parameters within 1e-3 of the way that they have gone. Cases that
// differ only in what must not change bits do not. Every rank reads the bytes that its plan states; they, the states of
// every rank, and saved activations are closed forms of the model's sizes (tests/support/cover_forms.h).
//
// PTC_CASES=all runs a design in which every pair of settings occurs, and random cases up to 240 (PTC_CASES=N: the first N,
// A-B: from A to before B; PTC_CASE=N: one; PTC_SEED: of the random ones). Else one.
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "passes/schedule.h"
#include "tests/support/cover_design.h"
#include "tests/support/cover_forms.h"
#include "tests/support/cover_models.h"
#include "tests/support/rank_runs.h"
#include "tests/support/unit.h"

// FEW_CASE: two stages of two ranks with ZeRO, which take few kernels.
enum { NUM_CASES = 240, FEW_CASE = 12, DATA_SEED = 11 };

static const struct { double loss, grad, final; } bounds = {1e-5, 1e-4, 1e-3};

// What was run already: whole runs of one rank, digests of cases.
typedef struct memory_s {
  struct {
    bool there;
    cover_case_t key;
    int layers;
    rank_run_t run;
  } one[128];
  struct {
    cover_case_t key;
    int layers;
    uint64_t digest;
  } plain[1024];
  int num_one, num_plain;
} memory_t;

typedef struct tally_s {
  int num_cases, num_refused, num_failed, num_bits, num_volumes, num_saved;
  rank_difference_t worst;
  double seconds;
} tally_t;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool run_case(const cover_case_t *c, int layers, rank_run_t *out_run) {
  char parallel[256];
  const bool interleaved = c->schedule == PTC_SCHEDULE_INTERLEAVED;
  snprintf(parallel, sizeof parallel,
           "dp=%d,tp=%d,pp=%d,cp=%d,zero=%d,schedule=%s%s,recompute=%s,sequence_parallel=%s,"
           "micro_batch=%d",
           c->dp, c->tp, c->pp, c->cp, c->zero, ptc_schedule_name((ptc_schedule_kind_t)c->schedule),
           interleaved ? "(chunks=2)" : "", cover_recompute_names[c->recompute],
           c->sequence_parallel ? "on" : "off", COVER_SAMPLES);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  *out_run = (rank_run_t){0};
  ptc_module_t *module =
      cover_model_lower(&cover_models[c->model], layers, cover_batch(c), parallel, &diag);
  const bool ok = module && rank_run_with_grads(module, DATA_SEED, out_run);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return ok;
}

// One rank that takes the same samples, one micro-batch after the other.
static const rank_run_t *one_rank(memory_t *memory, const cover_case_t *c, int layers) {
  const cover_case_t key = {
      .model = c->model, .dp = 1, .tp = 1, .pp = 1, .cp = 1, .num_micro = c->dp * c->num_micro};
  int at = 0;
  while (at < memory->num_one &&
         (memcmp(&memory->one[at].key, &key, sizeof key) != 0 || memory->one[at].layers != layers))
    at++;
  if (at == memory->num_one) {
    memory->num_one++;
    memory->one[at].key = key;
    memory->one[at].layers = layers;
    memory->one[at].there = run_case(&key, layers, &memory->one[at].run);
  }
  return memory->one[at].there ? &memory->one[at].run : NULL;
}

// The digest of the plainest case with the bits of |c|; 0 if it does not run.
static uint64_t plain_digest(memory_t *memory, const cover_case_t *c, int layers) {
  const cover_case_t plain = cover_plainest(c);
  for (int i = 0; i < memory->num_plain; i++)
    if (memcmp(&memory->plain[i].key, &plain, sizeof plain) == 0 &&
        memory->plain[i].layers == layers)
      return memory->plain[i].digest;
  rank_run_t run;
  const uint64_t digest = run_case(&plain, layers, &run) ? rank_run_digest(&run) : 0;
  rank_run_deinit(&run);
  const int at = memory->num_plain++;
  memory->plain[at].key = plain;
  memory->plain[at].layers = layers;
  memory->plain[at].digest = digest;
  return digest;
}

static void explain_bits(const cover_case_t *c, int layers, const rank_run_t *run) {
  const cover_case_t plain = cover_plainest(c);
  rank_run_t other;
  printf("  not the bits of one stage\n");
  if (run_case(&plain, layers, &other)) rank_run_explain(&other, run);
  rank_run_deinit(&other);
}

static void keep_worst(tally_t *tally, const rank_difference_t *d) {
  if (d->loss > tally->worst.loss) tally->worst.loss = d->loss;
  if (d->grad > tally->worst.grad) tally->worst.grad = d->grad;
  if (d->final > tally->worst.final) tally->worst.final = d->final;
}

static bool check_forms(const cover_case_t *c, const rank_run_t *one, const rank_run_t *run,
                        tally_t *tally) {
  const ptc_plan_t *whole = rank_plans_of_stage(&one->plans, 0);
  bool has_volume, has_saved;
  bool ok = cover_check_arena(&run->plans);
  ok &= cover_check_states(c, whole, &run->plans);
  ok &= cover_check_saved(c, &run->plans, &has_saved);
  ok &= cover_check_volume(c, whole, &run->plans, &has_volume);
  tally->num_volumes += has_volume;
  tally->num_saved += has_saved;
  return ok;
}

// Whether |run| is as it must be; prints what is not.
static bool check_run(memory_t *memory, const cover_case_t *c, const rank_run_t *run,
                      tally_t *tally) {
  const int layers = cover_layers(c);
  const rank_run_t *one = one_rank(memory, c, layers);
  if (!one) return false;
  const rank_difference_t d = rank_run_compare(one, run);
  keep_worst(tally, &d);
  bool ok =
      d.initial == 0 && d.loss <= bounds.loss && d.grad <= bounds.grad && d.final <= bounds.final;
  if (!ok)
    printf(
        "  %lld initial weights differ, losses by %.2g, gradients by %.2g, final weights by %.2g\n",
        (long long)d.initial, d.loss, d.grad, d.final);
  if (!run->replicas_agree) printf("  replicas differ\n");
  if (!run->bytes_agree) printf("  ranks read other bytes than the plan states\n");
  const cover_case_t plain = cover_plainest(c);
  bool bits = true;
  if (memcmp(&plain, c, sizeof plain) != 0) {
    tally->num_bits++;
    bits = plain_digest(memory, c, layers) == rank_run_digest(run);
    if (!bits) explain_bits(c, layers, run);
  }
  ok &= check_forms(c, one, run, tally);
  return ok && run->replicas_agree && run->bytes_agree && bits;
}

static void check_case(memory_t *memory, const cover_case_t *c, int number, tally_t *tally) {
  char name[160];
  cover_name(c, name);
  const double begin = now();
  rank_run_t run;
  tally->num_cases++;
  const bool runs = run_case(c, cover_layers(c), &run);
  const bool ok = runs && check_run(memory, c, &run, tally);
  if (!runs) tally->num_refused++;
  if (!ok) tally->num_failed++;
  printf("%4d %s %s %.1f s\n", number, name,
         ok     ? "ok"
         : runs ? "WRONG"
                : "DOES NOT RUN",
         now() - begin);
  fflush(stdout);
  UNIT_CHECK(ok, name);
  rank_run_deinit(&run);
}

static void forget(memory_t *memory) {
  for (int i = 0; i < memory->num_one; i++) rank_run_deinit(&memory->one[i].run);
  free(memory);
}

// The clip value is below the norm of the first gradients.
static void check_clipping(memory_t *memory) {
  for (int i = 0; i < memory->num_one; i++)
    UNIT_CHECK(rank_run_grad_norm(&memory->one[i].run) > COVER_CLIP, "clipping");
}

static void test_design(void) {
  cover_case_t *cases;
  const int count = cover_design(COVER_NUM_MODELS, &cases);
  CU_ASSERT_EQUAL(cover_missing_pairs(COVER_NUM_MODELS, cases, count), 0);
  free(cases);
}

static void test_cases(void) {
  const char *number = getenv("PTC_CASES"), *only = getenv("PTC_CASE");
  const bool all = number && strcmp(number, "all") == 0;
  memory_t *memory = ptc_xmalloc(sizeof *memory);
  memset(memory, 0, sizeof *memory);
  tally_t tally = {0};
  cover_case_t *cases;
  const int designed = cover_design(COVER_NUM_MODELS, &cases);
  int first = all ? 0 : FEW_CASE, count = all ? NUM_CASES : FEW_CASE + 1;
  if (only) first = atoi(only), count = first + 1;
  if (!only && !all && number && sscanf(number, "%d-%d", &first, &count) < 2)
    first = 0, count = atoi(number);
  const double begin = now();
  printf("\n");
  uint64_t random = unit_seed();
  for (int i = 0; i < count && i < NUM_CASES; i++) {
    const cover_case_t c = i < designed ? cases[i] : cover_random(COVER_NUM_MODELS, &random);
    if (i >= first) check_case(memory, &c, i, &tally);
  }
  check_clipping(memory);
  printf(
      "%d cases (%d of a design): %d failed, %d of them do not run; %d compared bit by bit, %d "
      "with closed "
      "forms of volume, %d of saved bytes; worst: losses %.2g, gradients %.2g, parameters %.2g; "
      "%.0f s\n",
      tally.num_cases, designed, tally.num_failed, tally.num_refused, tally.num_bits,
      tally.num_volumes, tally.num_saved, tally.worst.loss, tally.worst.grad, tally.worst.final,
      now() - begin);
  free(cases);
  forget(memory);
}

static const unit_test_t tests[] = {
    {"every pair of settings is in the design", test_design},
    {"cases against one rank", test_cases},
};

int main(void) {
  // What the C compiler optimizes is tested elsewhere; here it would take most of the time.
  setenv("CC", PTC_SOURCE_DIR "/tests/support/quick_cc.sh", 1);
  return unit_main("cover", tests, sizeof tests / sizeof *tests);
}

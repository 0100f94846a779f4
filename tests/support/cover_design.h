// Combinations of a model and the ways to run its step on many ranks: a design in which every pair of settings that can
// go together occurs at least once, and random ones after it.
#ifndef PTC_TESTS_SUPPORT_COVER_DESIGN_H_
#define PTC_TESTS_SUPPORT_COVER_DESIGN_H_

#include <stdbool.h>
#include <stdint.h>

enum {
  COVER_SAMPLES = 2,  // of a micro-batch on one device
  COVER_NUM_SCHEDULES = 4,
  COVER_NUM_RECOMPUTE = 3,
};

typedef struct cover_case_s {
  int model;  // of cover_models.h
  int dp, tp, pp, cp;
  int zero;
  int schedule;            // of ptc_schedule_kind_t; where pp is 1, 0
  int recompute;           // none, selective, full
  bool sequence_parallel;  // where tp is 1, false
  int num_micro;           // micro-batches
} cover_case_t;

extern const char *const cover_recompute_names[COVER_NUM_RECOMPUTE];

// The design, in an order in which the first cases are much of it: always the same. |out_cases| is malloc'ed. Returns
// how many there are.
int cover_design(int num_models, cover_case_t **out_cases);
// Pairs of settings that no case of the list has, of those that can go together.
int cover_missing_pairs(int num_models, const cover_case_t *cases, int count);
cover_case_t cover_random(int num_models, uint64_t *random);

int cover_world(const cover_case_t *c);
int cover_batch(const cover_case_t *c);
// Layers enough that the parts of the pipeline are uneven.
int cover_layers(const cover_case_t *c);
// "gpt2 dp=2,tp=2,..."
void cover_name(const cover_case_t *c, char out_name[160]);

// What the bits of a run depend on: cases with equal keys must give the same bits. Schedules, cuts and recomputation
// change none, nor does ZeRO within {0, 1} and {2, 3}, nor at all with one micro-batch. Returned as such a case itself:
// one stage, nothing computed again, ZeRO 0 or 2.
cover_case_t cover_plainest(const cover_case_t *c);

#endif  // PTC_TESTS_SUPPORT_COVER_DESIGN_H_

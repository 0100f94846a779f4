// Every split of a model over devices, one after another: what the planner's search is compared with. It shares
// nothing with the search but ptc_layout_pieces and ptc_predict.
#ifndef PTC_TESTS_SUPPORT_PLAN_SPACE_H_
#define PTC_TESTS_SUPPORT_PLAN_SPACE_H_

#include "frontend/lower.h"
#include "passes/planner/predict.h"

// A model up to the optimizer, and its work.
typedef struct plan_model_s {
  ptc_diag_t diag;
  ptc_arena_t arena;
  ptc_module_t *module;
  ptc_work_t *work;
} plan_model_t;

// Of the text of a .ptm, or of the file at |path|, relative to the repository. False, with the diagnostics printed,
// where it has no work. plan_model_end in both cases.
bool plan_model_text(plan_model_t *m, const char *text);
bool plan_model_file(plan_model_t *m, const char *path, const ptc_override_t *overrides, int count);
// A stack of |layers| feed-forward layers in bf16, with random widths, lengths and batch (one of |batches|).
bool plan_model_random(plan_model_t *m, uint64_t *seed, int layers, int vocab,
                       const int64_t batches[4]);
void plan_model_end(plan_model_t *m);
// Calls |fn| for a model of each sample with |batch| samples a step, |cases| times (PTC_CASES: so many).
void plan_each_sample(const char *batch, int cases,
                      void (*fn)(const plan_model_t *m, const char *name, void *arg), void *arg);
// Draws sequence parallelism, a recompute mode, and a set of names, for all pieces or for each of them.
void plan_random_names(const ptc_work_t *work, uint64_t *seed, ptc_choice_t *choice);

// The names of |text|, separated by spaces, that |work| has; "f=3072": of that extent.
uint32_t plan_names(const ptc_work_t *work, const char *text);

enum { PLAN_MAX_CUTS = 127 };

typedef struct plan_point_s {
  ptc_choice_t choice;
  int64_t cuts[PLAN_MAX_CUTS];  // what choice.cuts points to, where it is not NULL
  double seconds, memory;
} plan_point_t;

// A part of the space. Sizes of 0: all divisors.
typedef struct plan_space_s {
  int64_t devices;
  int64_t size[PTC_NUM_DEVICE_AXES], most_tp;  // 0: any
  uint32_t zeros;                              // set of 1 << zero
  const uint32_t *sets;                        // of names in all pieces; NULL: all, of each piece
  int32_t num_sets;
  bool all_cuts;     // besides the balanced ones
  bool even_cuts;    // each part as many turns as the others, instead of balanced by time
  bool whole_turns;  // recompute all turns or none
} plan_space_t;

// The points that no other beats in both time and memory, fastest first.
typedef struct plan_front_s {
  plan_point_t *points;
  int32_t count, capacity;
  int64_t layouts, predictions;
} plan_front_t;

// Memory of |cluster| does not bind here: the front holds for any.
void plan_space_walk(const ptc_work_t *work, const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                     const plan_space_t *space, plan_front_t *out);
void plan_front_end(plan_front_t *front);
// The fastest point of at most |bytes|; NULL: none.
const plan_point_t *plan_front_best(const plan_front_t *front, double bytes);

#endif  // PTC_TESTS_SUPPORT_PLAN_SPACE_H_

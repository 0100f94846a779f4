// Internal: between the files of search.
#ifndef PTC_PASSES_PLANNER_SEARCH_IMPL_H_
#define PTC_PASSES_PLANNER_SEARCH_IMPL_H_

#include "passes/planner/predict_impl.h"
#include "passes/planner/search.h"

enum { PTC_MAX_DIVISORS = 512, PTC_FORM_BUCKETS = 256 };

// A layout before it is needed again.
typedef struct ptc_rough_s {
  ptc_choice_t choice;
  double work;
} ptc_rough_t;

// A layout: everything on which the times of pieces depend.
typedef struct ptc_timed_layout_s {
  ptc_choice_t choice;       // dp, pp, zero, schedule open
  ptc_work_pieces_t pieces;  // until the form is asked for others
  ptc_piece_time_t times[PTC_MAX_PIECES];
  double work;   // seconds of a device per step at least
  double again;  // seconds to compute a turn again, at least
} ptc_timed_layout_t;

// Forms that are needed again.
typedef struct ptc_kept_form_s {
  ptc_choice_t choice;
  ptc_form_t *form;  // NULL: there is none
  struct ptc_kept_form_s *next;
} ptc_kept_form_t;

typedef struct ptc_search_s {
  const ptc_work_t *work;
  const ptc_cluster_t *cluster;
  const ptc_stack_t *stack;
  const ptc_fixed_t *fixed;
  ptc_objective_t objective;
  int64_t devices;
  double capacity, price;
  ptc_arena_t *arena;
  ptc_stage_pieces_t stages[PTC_MAX_STAGES];  // of the split at hand
  ptc_rough_t *layouts;
  int32_t num_layouts, capacity_layouts;
  bool keeps_all;  // what cannot fit, too
  ptc_arena_t form_arena;
  ptc_kept_form_t *forms[PTC_FORM_BUCKETS];
  ptc_search_result_t *out;
} ptc_search_t;

// The divisors of |n| in order, PTC_MAX_DIVISORS at most; returns how many.
int32_t ptc_search_divisors(int64_t n, int64_t *out);

// Whether |value| is what is fixed, or nothing (0) is.
static inline bool ptc_search_open_or(int64_t fixed, int64_t value) {
  return fixed == 0 || fixed == value;
}

// Micro-batches of the whole step times devices of one, over devices.
double ptc_search_share(const ptc_search_t *s, const ptc_choice_t *choice);

// All layouts of the space, with what each takes at least.
void ptc_search_layouts(ptc_search_t *s);

// The form of the choice, made once until ptc_search_end_forms; NULL: the model does not allow it.
ptc_form_t *ptc_search_form(ptc_search_t *s, const ptc_choice_t *choice);
void ptc_search_end_forms(ptc_search_t *s);

// The pieces and times of |form| (NULL: there is none) for the choice; false: the model does not allow it.
bool ptc_search_lay_out(ptc_search_t *s, ptc_form_t *form, const ptc_choice_t *choice,
                        ptc_timed_layout_t *out);

#endif  // PTC_PASSES_PLANNER_SEARCH_IMPL_H_

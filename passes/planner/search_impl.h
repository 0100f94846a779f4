// Internal: between the files of search.
#ifndef PTC_PASSES_PLANNER_SEARCH_IMPL_H_
#define PTC_PASSES_PLANNER_SEARCH_IMPL_H_

#include <string.h>

#include "passes/planner/predict_impl.h"
#include "passes/planner/search.h"

enum { PTC_MAX_DIVISORS = 512, PTC_FORM_BUCKETS = 1024 };

// A layout before it is needed again.
typedef struct ptc_rough_s {
  ptc_choice_t choice;
  double work, again;             // as in a timed layout
  const ptc_piece_time_t *times;  // of its pieces
} ptc_rough_t;

// A layout: everything on which the times of pieces depend.
typedef struct ptc_timed_layout_s {
  int64_t number;
  ptc_choice_t choice;       // dp, pp, zero, schedule open
  ptc_work_pieces_t pieces;  // until the form is asked for others
  ptc_piece_time_t times[PTC_MAX_PIECES];
  double work;  // seconds of a device per step at least
  // The same in smaller micro-batches, and on more ranks of tp and cp, at least.
  double floor, split_floor;
  double again;  // seconds to compute a turn again, at least
} ptc_timed_layout_t;

// Forms that are needed again.
typedef struct ptc_kept_form_s {
  ptc_choice_t choice;
  ptc_form_t *form;  // NULL: there is none
  struct ptc_kept_form_s *next;
} ptc_kept_form_t;

// The cuts of a layout into some number of parts: pipelines of 4 stages and 2 chunks have those of 8 stages.
enum { PTC_MOST_KEPT_PARTS = 256 };
typedef struct ptc_kept_cuts_s {
  int64_t layout;  // its number; 0: of none
  ptc_part_range_t *parts;
} ptc_kept_cuts_t;

typedef struct ptc_queue_s ptc_queue_t;

// A layout whose cuts are looked for later.
typedef struct ptc_put_off_s {
  ptc_rough_t layout;
  double bound;
  struct ptc_put_off_s *next;
} ptc_put_off_t;

typedef struct ptc_search_s {
  const ptc_work_t *work;
  const ptc_cluster_t *cluster;
  const ptc_stack_t *stack;
  const ptc_fixed_t *fixed;
  ptc_objective_t objective;
  int64_t devices;
  double capacity, price;
  ptc_arena_t *arena;
  const int64_t *even[PTC_MAX_PARTS + 1];  // cuts into so many parts of equal numbers of turns
  int64_t parts_of;                        // the number of parts whose cuts are at hand; 0: none
  ptc_part_range_t parts[PTC_MAX_PARTS];
  ptc_stage_pieces_t stages[PTC_MAX_STAGES];
  int64_t num_layouts;  // that were numbered
  ptc_kept_cuts_t kept_cuts[PTC_MOST_KEPT_PARTS + 1];
  ptc_queue_t *queue;
  bool keeps_all;  // what cannot fit, too
  bool experts;    // ep may split what dp does not
  ptc_arena_t form_arena;
  ptc_patterns_t *patterns;  // of the forms
  ptc_known_net_t nets[PTC_NUM_KNOWN_NETS];
  ptc_kept_form_t *forms[PTC_FORM_BUCKETS];
  ptc_search_result_t *out;
  ptc_put_off_t *put_off, *last_off;
  double cuts_bound;  // of the layout at hand, where other cuts may be of use
  bool cuts_alone;    // they are looked for
  int64_t looks;      // at parts of cuts that are many
  double left_out;    // the least value that cuts may have which were not looked at
} ptc_search_t;

// The divisors of |n| in order, PTC_MAX_DIVISORS at most; returns how many.
int32_t ptc_search_divisors(int64_t n, int64_t *out);

// Whether |value| is what is fixed, or nothing (0) is.
static inline bool ptc_search_open_or(int64_t fixed, int64_t value) {
  return fixed == 0 || fixed == value;
}

// Micro-batches of the whole step times devices of one, over devices.
double ptc_search_share(const ptc_search_t *s, const ptc_choice_t *choice);

// Layouts one after another, in the order of what each takes at least, until none is left that may be better than what is
// found. False: that was the last.
void ptc_search_begin(ptc_search_t *s);
bool ptc_search_next(ptc_search_t *s, ptc_rough_t *out);

// Whether nothing that takes |bound| seconds at least is of use.
bool ptc_search_hopeless(ptc_search_t *s, double bound);

// What lies on tp: candidates of work->names, per piece.
typedef struct ptc_names_s {
  uint32_t of[PTC_MAX_PIECES];
} ptc_names_t;

// The sets of names that may be best for some micro-batch: none of them is beaten in time, at the smallest and at a
// large micro-batch, and in memory by another. Returns how many, PTC_MAX_SETS at most.
enum { PTC_MAX_SETS = 64 };
int32_t ptc_search_choose_sets(ptc_search_t *s, ptc_choice_t choice, ptc_names_t *sets);
bool ptc_search_takes_all_sets(const ptc_search_t *s);
static inline void ptc_search_set_names(ptc_choice_t *choice, const ptc_names_t *names) {
  memcpy(choice->names, names->of, sizeof(choice->names));
}

// Predicts |choice| with the cuts at hand, and keeps it if it is the best.
void ptc_search_try(ptc_search_t *s, const ptc_timed_layout_t *layout, const ptc_choice_t *choice);
// Less than that is of use, in seconds of a step.
double ptc_search_seconds(const ptc_search_t *s);
// The best cuts for |choice| with each of |zeros| (1 << zero), if they are better than what is found. |seconds|: a
// bound of the step. The cuts at hand are lost.
void ptc_search_cuts(ptc_search_t *s, const ptc_timed_layout_t *layout, const ptc_choice_t *choice,
                     uint32_t zeros, double seconds);
// Whether other cuts than those balanced by time and even ones are looked for.
bool ptc_search_puts_off(ptc_search_t *s, const ptc_timed_layout_t *layout,
                         const ptc_choice_t *choice, double seconds);
// Notes that cuts were left out which may take so many seconds or, by memory, bytes.
void ptc_search_leave(ptc_search_t *s, double low);

// Fills in what is proved of the result.
void ptc_search_certify(ptc_search_t *s);

// The form of the choice, made once until ptc_search_end_forms; NULL: the model does not allow it.
ptc_form_t *ptc_search_form(ptc_search_t *s, const ptc_choice_t *choice);
// One that serves every dp, if there is one; else that of a dp of 1.
ptc_form_t *ptc_search_any_form(ptc_search_t *s, const ptc_choice_t *choice, bool *out_serves_all);
void ptc_search_end_forms(ptc_search_t *s);

// The pieces of |form| (NULL: there is none) for the choice, whose dp is another one if |any_dp|, and their times; false:
// the model does not allow it.
bool ptc_search_lay_out(ptc_search_t *s, ptc_form_t *form, bool any_dp, const ptc_choice_t *choice,
                        ptc_timed_layout_t *out);
// The same once more, of what was laid out with |form| as |rough| says: for splits of it.
bool ptc_search_recall(ptc_search_t *s, ptc_form_t *form, bool any_dp, const ptc_rough_t *rough,
                       ptc_timed_layout_t *out);

#endif  // PTC_PASSES_PLANNER_SEARCH_IMPL_H_

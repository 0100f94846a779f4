// Private to passes/planner/layout*.c: where the values of a program lie under one choice.
#ifndef PTC_PASSES_PLANNER_LAYOUT_IMPL_H_
#define PTC_PASSES_PLANNER_LAYOUT_IMPL_H_

#include "passes/planner/work_impl.h"

// How one value lies. |partial|: the set of axes (bits 1 << number) over which it is a sum, or maximum, not yet taken.
typedef struct ptc_lay_s {
  ptc_laid_t axes[PTC_MAX_DIMS];
  uint16_t partial;
  uint8_t max;
} ptc_lay_t;

typedef struct ptc_lay_step_s {
  ptc_net_kind_t kind;  // PTC_NUM_NET_KINDS: the part of a value that a device has anyway
  ptc_laid_t axes;
  // How the whole buffer lies, as nccl-tests count it: of all_gather what each has afterwards.
  ptc_laid_t buffer[PTC_MAX_DIMS];
  bool by_micro;  // it grows with the micro-batch
  ptc_lay_t after;
} ptc_lay_step_t;
enum { PTC_LAY_MAX_STEPS = 48 };

// A collective as the program's ops need it.
typedef struct ptc_lay_net_s {
  ptc_net_kind_t kind;
  ptc_laid_t axes;
  double bytes;  // the whole buffer
  bool by_micro;
  double times;  // per turn of the piece
  int32_t piece;
  ptc_work_phase_t phase;
  const ptc_wop_t *op;  // that needs it
  // What |bytes| are made of: the elements of a value that lies so, but for the dims of a set, times so many bytes.
  int32_t value;
  uint32_t without;
  double each;
  ptc_laid_t buffer[PTC_MAX_DIMS];
} ptc_lay_net_t;

// What a value was brought to already.
typedef struct ptc_lay_built_s {
  int32_t value, next;
  bool of_view;  // a view of it was
  ptc_lay_t lay;
} ptc_lay_built_t;

// A number that decided how something lies: whether |extent| is a multiple of the size of |axes|, or whether |left|
// over that size is more or less than |right|.
typedef struct ptc_lay_test_s {
  ptc_laid_t axes;
  int8_t outcome;
  int64_t extent;  // 0: the other question
  double left, right;
} ptc_lay_test_t;

// A dim of an op whose sizes are kept.
typedef struct ptc_lay_dim_s {
  int32_t size, role;
  int64_t extent;
  ptc_laid_t axes;
} ptc_lay_dim_t;

// All that sizes of axes had a say in, while values were laid out.
typedef struct ptc_lay_log_s {
  ptc_arena_t *arena;
  ptc_lay_test_t *tests;
  ptc_lay_dim_t *dims;  // of a size the latest ones count
  int32_t num_tests, cap_tests, num_dims, cap_dims;
  bool lost;  // something was too long to be noted
} ptc_lay_log_t;

typedef struct ptc_pattern_s ptc_pattern_t;

typedef struct ptc_layout_s {
  const ptc_work_t *work;
  const ptc_work_impl_t *w;
  const ptc_wprogram_t *p;
  const ptc_choice_t *choice;
  ptc_arena_t *arena;
  // Axes by number. A part of tp: its overlap with other parts.
  int64_t size[PTC_MAX_REFS];
  int64_t pre[PTC_MAX_REFS];
  uint16_t overlap[PTC_MAX_REFS];
  int32_t num_refs;
  uint16_t device, data;  // sets: of devices; of those over which samples and positions lie
  // Per value.
  ptc_laid_t *axes;  // parallel to the program's dims
  uint16_t *partial;
  uint8_t *max;
  int32_t *built;     // first of the list in |cache|; -1
  int32_t *viewed;    // the same of its views
  int32_t *gathered;  // in |targets|; -1
  // Once all values lie: bytes of one instance, as it lies, and as the latest use takes it; -1: not asked for yet.
  double *value_bytes, *used_bytes;
  int64_t (*sizes)
      [PTC_NUM_WROLES];  // of contractions and attention, on a device: products of dims by role
  uint16_t *by_micro;    // per size: set of the roles that grow with the micro-batch
  bool *depends;         // set where the number of micro-batches decides how something lies
  uint8_t *waits;        // per op group: an operand made in the group comes over the network
  ptc_lay_t *params;     // home layouts, per parameter
  ptc_lay_built_t *cache;
  ptc_lay_t *targets;
  ptc_lay_net_t *nets;
  int32_t num_cache, cap_cache, num_targets, cap_targets, num_nets, cap_nets;
  bool overflow;
  ptc_lay_log_t *log;            // NULL: nobody asks
  const ptc_pattern_t *pattern;  // that it lies as; NULL: none is kept
} ptc_layout_t;

// --- words of axes
static inline int32_t ptc_laid_len(ptc_laid_t axes) {
  return axes ? (35 - __builtin_clz(axes)) / 4 : 0;
}
static inline int32_t ptc_laid_at(ptc_laid_t axes, int32_t i) {
  return (int32_t)(axes >> (4 * i)) & 15;
}
static inline ptc_laid_t ptc_laid_first(ptc_laid_t axes, int32_t count) {
  return count >= PTC_LAID_MAX ? axes : axes & ((UINT32_C(1) << (4 * count)) - 1);
}
static inline bool ptc_laid_begins(ptc_laid_t axes, ptc_laid_t prefix) {
  return ptc_laid_first(axes, ptc_laid_len(prefix)) == prefix;
}
// |more| inside of |axes|; the caller knows that there is room.
static inline ptc_laid_t ptc_laid_append(ptc_laid_t axes, ptc_laid_t more) {
  const int32_t len = ptc_laid_len(axes);
  return len >= PTC_LAID_MAX ? axes : axes | more << (4 * len);
}
static inline uint16_t ptc_laid_set(ptc_laid_t axes) {
  uint16_t set = 0;
  for (; axes; axes >>= 4) set |= (uint16_t)(1u << (axes & 15));
  return set;
}
static inline int64_t ptc_laid_size(const ptc_layout_t *l, ptc_laid_t axes) {
  int64_t size = 1;
  for (; axes; axes >>= 4) size *= l->size[axes & 15];
  return size;
}
// Of |extent| elements in |shards| parts. Short divisions take less time.
static inline int64_t ptc_lay_share(int64_t extent, int64_t shards) {
  if (shards == 1) return extent;
  const int64_t sum = extent + shards - 1;
  return (sum | shards) >> 32 ? sum / shards : (int64_t)((uint32_t)sum / (uint32_t)shards);
}
static inline bool ptc_laid_by_micro(ptc_laid_t axes) {
  return ptc_laid_set(axes) >> PTC_REF_MICRO & 1;
}
// The same, of a number that decides something.
static inline int64_t ptc_laid_judged_size(const ptc_layout_t *l, ptc_laid_t axes) {
  if (ptc_laid_by_micro(axes)) *l->depends = true;
  return ptc_laid_size(l, axes);
}
// All axes that have devices in common with one of |set|.
static inline uint16_t ptc_lay_overlap(const ptc_layout_t *l, uint16_t set) {
  uint16_t all = 0;
  for (; set; set &= (uint16_t)(set - 1)) all |= l->overlap[__builtin_ctz(set)];
  return all;
}

// --- layout.c
// The axes, the layouts of the parameters. False, with a reason, where the choice does not fit.
bool ptc_layout_begin(ptc_layout_t *l, const char **out_reason);
// Makes room for how the other values lie.
void ptc_layout_make_room(ptc_layout_t *l);
// Room for what ptc_layout_measure finds.
void ptc_layout_make_numbers(ptc_layout_t *l);
// Executions of a block of a repeat per turn of the outermost repeat around it.
double ptc_lay_turns(const ptc_layout_t *l, int32_t block);
// Elements of one instance on a device.
double ptc_lay_elements(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_laid_t *axes);
static inline void ptc_lay_get(const ptc_layout_t *l, int32_t number, ptc_lay_t *out) {
  const ptc_wvalue_t *value = &l->p->values[number];
  for (int32_t d = 0; d < value->num_dims; d++) out->axes[d] = l->axes[value->dims + d];
  out->partial = l->partial[number];
  out->max = l->max[number];
}
static inline void ptc_lay_set(ptc_layout_t *l, int32_t number, const ptc_lay_t *lay) {
  const ptc_wvalue_t *value = &l->p->values[number];
  for (int32_t d = 0; d < value->num_dims; d++) l->axes[value->dims + d] = lay->axes[d];
  l->partial[number] = lay->partial;
  l->max[number] = lay->max;
}
// Of one instance on a device, as it lies; and as the latest use takes it.
double ptc_lay_find_value_bytes(const ptc_layout_t *l, int32_t value);
double ptc_lay_find_used_bytes(const ptc_layout_t *l, int32_t value);
static inline double ptc_lay_value_bytes(const ptc_layout_t *l, int32_t value) {
  const double known = l->value_bytes[value];
  return known >= 0 ? known : ptc_lay_find_value_bytes(l, value);
}
static inline double ptc_lay_used_bytes(const ptc_layout_t *l, int32_t value) {
  const double known = l->used_bytes[value];
  return known >= 0 ? known : ptc_lay_find_used_bytes(l, value);
}
static inline bool ptc_lay_equal(const ptc_lay_t *a, const ptc_lay_t *b, int32_t num_dims) {
  ptc_laid_t differ = (ptc_laid_t)(a->partial ^ b->partial);
  for (int32_t d = 0; d < num_dims; d++) differ |= a->axes[d] ^ b->axes[d];
  return differ == 0;
}

// --- layout_rules.c
// What |value|, which lies as |lay|, is once its sums over |axes| are taken.
void ptc_lay_reduce(const ptc_layout_t *l, const ptc_wvalue_t *value, ptc_lay_t *lay,
                    uint16_t axes);
static inline void ptc_lay_resolve(const ptc_layout_t *l, const ptc_wvalue_t *value,
                                   ptc_lay_t *lay) {
  if (lay->partial & l->device) ptc_lay_reduce(l, value, lay, lay->partial & l->device);
}
// How |op|, no repeat, needs its operands, and how its results lie. False if nothing fits.
bool ptc_lay_rule(const ptc_layout_t *l, const ptc_wop_t *op, ptc_lay_t *operands,
                  ptc_lay_t *results, bool *out_split);

// --- layout_attention.c
// Factors of attention whose heads move to cp while the sequence becomes whole.
typedef struct ptc_lay_attention_s {
  int8_t rows, attend, heads;
} ptc_lay_attention_t;
bool ptc_lay_attention_way(const ptc_layout_t *l, const ptc_wop_t *op, ptc_lay_attention_t *out);
// Operands without cp; and with it on the heads.
void ptc_lay_attention_bare(const ptc_layout_t *l, const ptc_wop_t *op,
                            const ptc_lay_attention_t *a, ptc_lay_t *operands);
void ptc_lay_attention_laid(const ptc_layout_t *l, const ptc_wop_t *op,
                            const ptc_lay_attention_t *a, ptc_lay_t *operands);
void ptc_lay_attention_results(const ptc_layout_t *l, const ptc_wop_t *op,
                               const ptc_lay_attention_t *a, const ptc_lay_t *operands,
                               ptc_lay_t *results);
// The results on their way back to the sequence.
void ptc_lay_attention_nets(ptc_layout_t *l, const ptc_wop_t *op, const ptc_lay_attention_t *a,
                            const ptc_lay_t *operands);

// --- layout_reshard.c
// The steps from one layout of |value| to the other; -1: there are none.
int32_t ptc_lay_plan(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_lay_t *from,
                     const ptc_lay_t *to, ptc_lay_step_t *steps);
// Adds |net|, with its bytes.
void ptc_lay_add_net(ptc_layout_t *l, const ptc_lay_net_t *net);
double ptc_lay_net_bytes(const ptc_layout_t *l, const ptc_lay_net_t *net);
// Brings |value| to |to| for |use|. |times|: per turn of the piece.
bool ptc_lay_use(ptc_layout_t *l, int32_t value, const ptc_lay_t *to, const ptc_wop_t *use);

// --- layout_patterns.c
// Whether |extent| is a multiple of the size of |axes| times that of |ref| (0: 1).
bool ptc_lay_divides(const ptc_layout_t *l, int64_t extent, ptc_laid_t axes, int32_t ref);
// Whether |left| over the size of all |axes| is more (1), less (-1) or the same as |right|.
int ptc_lay_compare(const ptc_layout_t *l, double left, const ptc_laid_t *axes, int32_t count,
                    double right);
// A dim of sizes[|size|].
void ptc_lay_log_dim(const ptc_layout_t *l, int32_t size, int32_t role, int64_t extent,
                     ptc_laid_t axes);
// Whether every dim that grows with the micro-batch divides evenly; whether each of them lies on dp, too (or dp is 1).
bool ptc_lay_all_even(const ptc_layout_t *l);
bool ptc_lay_all_on_dp(const ptc_layout_t *l);
// Between ptc_layout_begin and ptc_layout_infer: takes how values lie from a choice before. False: there is none like
// it.
bool ptc_patterns_find(const ptc_patterns_t *patterns, ptc_layout_t *l);
// Keeps how values lie, for choices to come. |l|->log is what was noted on the way.
void ptc_patterns_keep(ptc_patterns_t *patterns, ptc_layout_t *l);
// Kernels of an earlier choice that differ from those of |l| in numbers alone (NULL: there are none), and those for
// choices to come.
ptc_kernel_work_t *ptc_patterns_kernels(const ptc_patterns_t *patterns, const ptc_layout_t *l);
void ptc_patterns_keep_kernels(ptc_patterns_t *patterns, const ptc_layout_t *l,
                               ptc_kernel_work_t *kernels);
// Empty, until the next call.
ptc_arena_t *ptc_patterns_scratch(ptc_patterns_t *patterns);

// --- layout_infer.c
// All values of the program, and the collectives. False where the program cannot be split so.
bool ptc_layout_infer(ptc_layout_t *l);
// How a repeat hands out collected value |c|.
void ptc_lay_collected(const ptc_layout_t *l, const ptc_wcollect_t *c, ptc_lay_t *out);

// --- layout_pieces.c
// The numbers of all pieces, once the values lie.
void ptc_layout_measure(ptc_layout_t *l, ptc_save_profile_t profile, ptc_work_pieces_t *out);
// The same for another micro-batch, but for the parameters, whose collectives are there already.
void ptc_layout_measure_again(ptc_layout_t *l, ptc_save_profile_t profile, ptc_work_pieces_t *out);

// --- layout_kernels.c
ptc_phase_work_t *ptc_piece_phase(ptc_piece_t *piece, int phase);  // a ptc_work_phase_t
// Kernels of all pieces, into |items|.
void ptc_layout_kernels(ptc_layout_t *l, ptc_piece_t *items);
// Collectives of all pieces, into |items|.
void ptc_layout_nets(ptc_layout_t *l, ptc_piece_t *items);

// --- layout_room.c
// Parameters, and what lives between the passes.
void ptc_layout_params(ptc_layout_t *l, ptc_piece_t *items);
// Bytes that live at each place of a piece's forward (0) or backward (1) pass, by what they depend on.
typedef enum ptc_live_kind_e {
  PTC_LIVE_ALWAYS,
  PTC_LIVE_SUMS,      // gradients beside their accumulators
  PTC_LIVE_GATHERED,  // parameters
  PTC_LIVE_WHOLE,     // gradients that else are added to accumulators as they are made
  PTC_LIVE_STAYING,   // gradients without accumulators
  PTC_LIVE_TAKEN,     // by results that are made in place
  PTC_NUM_LIVE_KINDS
} ptc_live_kind_t;
typedef struct ptc_live_s {
  int32_t places;
  double *bytes[PTC_NUM_LIVE_KINDS];
} ptc_live_t;
void ptc_layout_live(const ptc_layout_t *l, ptc_save_profile_t profile, int32_t piece, int back,
                     ptc_live_t *out);
void ptc_layout_peaks(const ptc_layout_t *l, ptc_save_profile_t profile, int32_t number,
                      ptc_piece_t *piece);
double ptc_live_at(const ptc_live_t *live, ptc_peak_t peak, int32_t place);
static inline bool ptc_peak_is_backward(ptc_peak_t peak) {
  return peak % PTC_NUM_PEAKS_OF_MANY >= PTC_PEAK_BACKWARD;
}
void ptc_layout_room(ptc_layout_t *l, ptc_save_profile_t profile, ptc_piece_t *items);

#endif  // PTC_PASSES_PLANNER_LAYOUT_IMPL_H_

// The layouts of the space in the order of their bounds, and no more of them than that needs.
//
// Layouts that differ in their micro-batch are a family. A family has a floor: what its kernels and collectives take at
// least, and those of the same split over more ranks of cp or tp, all together (ptc_kernel_floor). So the queue holds
// families by the floor of the one that they came from, and layouts by their own bound; a family is laid out when it comes
// to the front. Its micro-batches come one by one, the largest first: a smaller one has a higher floor.
#include <math.h>
#include <string.h>

#include "passes/planner/search_impl.h"

enum { ALL_OF_THEM = -1 };

typedef enum node_kind_e { NODE_LEVEL, NODE_FAMILY, NODE_MICRO, NODE_LAYOUT } node_kind_t;

// Layouts of one size of tp, cp and ep; of one set of names and recompute mode, or of all.
typedef struct family_s {
  ptc_choice_t choice;
  int32_t set;    // its number; ALL_OF_THEM: of each, and each mode
  int32_t at[3];  // numbers of tp, cp and ep among the divisors
} family_t;

// What a layout is remembered by.
typedef struct laid_s {
  double again;
  ptc_piece_time_t times[];  // of its pieces
} laid_t;

typedef struct node_s {
  double bound;
  node_kind_t kind;
  int32_t micro;  // number of the micro-batch
  uint64_t order;
  const family_t *family;  // of a level: its tp alone
  const laid_t *laid;      // of a layout
} node_t;

struct ptc_queue_s {
  node_t *nodes;  // a heap
  int32_t count, capacity;
  bool level_seen[PTC_MAX_DIVISORS];
  int64_t sizes[PTC_MAX_DIVISORS], micros[PTC_MAX_DIVISORS], primes[64];
  int32_t num_sizes, num_micros, num_primes;
  bool experts, sequence;
};

// --- the heap

// Equal bounds: what holds layouts first, then in order of the space.
static bool before(const node_t *a, const node_t *b) {
  if (a->bound != b->bound) return a->bound < b->bound;
  const bool x = a->kind == NODE_LAYOUT, y = b->kind == NODE_LAYOUT;
  return x != y ? y : a->order < b->order;
}

static void push(ptc_search_t *s, node_t node) {
  ptc_queue_t *q = s->queue;
  if (q->count == q->capacity) {
    q->capacity = q->capacity ? 2 * q->capacity : 256;
    node_t *grown = PTC_ARENA_ARRAY(s->arena, node_t, q->capacity);
    if (q->count) memcpy(grown, q->nodes, sizeof(*grown) * (size_t)q->count);
    q->nodes = grown;
  }
  int32_t at = q->count++;
  for (; at > 0 && before(&node, &q->nodes[(at - 1) / 2]); at = (at - 1) / 2)
    q->nodes[at] = q->nodes[(at - 1) / 2];
  q->nodes[at] = node;
}

static node_t pop(ptc_queue_t *q) {
  const node_t first = q->nodes[0], last = q->nodes[--q->count];
  int32_t at = 0;
  for (int32_t child = 1; child < q->count; child = 2 * at + 1) {
    if (child + 1 < q->count && before(&q->nodes[child + 1], &q->nodes[child])) child++;
    if (!before(&q->nodes[child], &last)) break;
    q->nodes[at] = q->nodes[child];
    at = child;
  }
  q->nodes[at] = last;
  return first;
}

// --- families

static uint64_t order_of(const family_t *f, int32_t micro) {
  uint64_t order = (uint64_t)f->at[0] << 1 | f->choice.sequence_parallel;
  order = order << 20 | (uint64_t)f->at[1] << 10 | (uint64_t)f->at[2];
  return order << 20 | (uint64_t)f->set << 13 | (uint64_t)micro << 2 |
         (uint64_t)f->choice.recompute;
}

static bool too_large(const ptc_search_t *s, ptc_form_t *form, bool any_dp,
                      const ptc_choice_t *choice) {
  if (s->capacity <= 0) return false;
  const ptc_work_pieces_t *pieces = ptc_form_memory_at(form, any_dp, choice->micro_batch);
  return pieces &&
         ptc_predict_least_bytes(pieces, s->cluster, s->stack, choice, s->devices) > s->capacity;
}

static const laid_t *remember(ptc_search_t *s, const ptc_timed_layout_t *layout) {
  const size_t bytes = sizeof(*layout->times) * (size_t)layout->pieces.count;
  laid_t *laid = ptc_arena_alloc_raw(s->arena, sizeof(*laid) + bytes);
  laid->again = layout->again;
  memcpy(laid->times, layout->times, bytes);
  return laid;
}

// Lays out micro-batch |micro| of |f|: a layout, and what its smaller ones take at least. Returns its floor for more ranks.
static double add_micro(ptc_search_t *s, const family_t *f, int32_t micro, double bound) {
  const ptc_queue_t *q = s->queue;
  ptc_timed_layout_t layout;
  ptc_choice_t choice = f->choice;
  choice.micro_batch = q->micros[micro];
  bool any_dp;
  ptc_form_t *form = ptc_search_any_form(s, &choice, &any_dp);
  if (!ptc_search_lay_out(s, form, any_dp, &choice, &layout)) return bound;
  push(s, (node_t){.bound = layout.work,
                   .kind = NODE_LAYOUT,
                   .micro = micro,
                   .order = order_of(f, micro),
                   .family = f,
                   .laid = remember(s, &layout)});
  int32_t next = micro - 1;
  const int64_t samples = s->work->batch / choice.size[PTC_AXIS_EP];
  while (next >= 0 && samples % q->micros[next] != 0) next--;
  if (next >= 0)
    push(s, (node_t){.bound = fmax(bound, layout.floor),
                     .kind = NODE_MICRO,
                     .micro = next,
                     .order = order_of(f, next),
                     .family = f});
  return layout.split_floor;
}

// The largest micro-batch whose layout may fit; -1: none. |out_cut|: larger ones are left out.
static int32_t largest_micro(ptc_search_t *s, const family_t *f, ptc_form_t *form, bool any_dp,
                             const int32_t *valid, int32_t count, bool *out_cut) {
  int32_t low = 0, high = count;  // all below |low| fit, from |high| on none
  if (s->keeps_all) low = count;
  ptc_choice_t choice = f->choice;
  while (low < high) {
    const int32_t middle = high == count ? count - 1 : (low + high) / 2;
    choice.micro_batch = s->queue->micros[valid[middle]];
    if (too_large(s, form, any_dp, &choice))
      high = middle;
    else
      low = middle + 1;
  }
  *out_cut = low < count;
  s->out->pruned += count - low;
  return low - 1;
}

// Returns its floor.
static double open_family(ptc_search_t *s, const family_t *f, double bound) {
  const ptc_queue_t *q = s->queue;
  if (s->fixed->recompute >= 0 && s->fixed->recompute != f->choice.recompute) return INFINITY;
  bool any_dp;
  ptc_form_t *form = ptc_search_any_form(s, &f->choice, &any_dp);
  if (!form) return bound;
  int32_t valid[PTC_MAX_DIVISORS], count = 0;
  for (int32_t i = 0; i < q->num_micros; i++)
    if (s->work->batch % (f->choice.size[PTC_AXIS_EP] * q->micros[i]) == 0) valid[count++] = i;
  if (count == 0) return bound;
  bool cut;
  const int32_t largest = largest_micro(s, f, form, any_dp, valid, count, &cut);
  double floor = INFINITY;
  if (largest >= 0) floor = add_micro(s, f, valid[largest], bound);
  if (cut) {  // what is too large here may fit on more ranks
    ptc_timed_layout_t layout;
    ptc_choice_t choice = f->choice;
    choice.micro_batch = q->micros[valid[count - 1]];
    if (!ptc_search_lay_out(s, form, any_dp, &choice, &layout)) return bound;
    floor = fmin(floor, layout.split_floor);
  }
  return fmax(floor, bound);
}

static family_t *new_family(ptc_search_t *s, const family_t *like) {
  family_t *f = PTC_ARENA_NEW(s->arena, family_t);
  *f = *like;
  return f;
}

static int32_t index_of(const ptc_queue_t *q, int64_t size) {
  int32_t i = 0;
  while (q->sizes[i] != size) i++;
  return i;
}

// Lays out what |f| stands for, and queues the same on more ranks of cp. Returns its floor.
static double expand_family(ptc_search_t *s, const family_t *f, double bound) {
  double floor = INFINITY;
  if (f->set != ALL_OF_THEM) {
    floor = open_family(s, f, bound);
  } else {
    // What one name leaves to another may depend on what lies on the other axes.
    ptc_names_t sets[PTC_MAX_SETS];
    const int32_t count = ptc_search_choose_sets(s, f->choice, sets);
    for (int32_t n = 0; n < count; n++)
      for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
        family_t *one = new_family(s, f);
        one->set = n;
        one->choice.recompute = mode;
        ptc_search_set_names(&one->choice, &sets[n]);
        floor = fmin(floor, open_family(s, one, bound));
      }
    if (count == 0) floor = bound;
  }
  const int64_t *size = f->choice.size;
  if (s->fixed->size[PTC_AXIS_CP] > 0 || !s->queue->sequence) return floor;
  for (int32_t i = 0; i < s->queue->num_primes; i++) {
    const int64_t prime = s->queue->primes[i], cp = size[PTC_AXIS_CP];
    // One way to each cp: primes in falling order.
    bool ordered = true;
    for (int32_t k = 0; k < i && ordered; k++) ordered = cp % s->queue->primes[k] != 0;
    if (!ordered || s->devices % (size[PTC_AXIS_TP] * size[PTC_AXIS_EP] * cp * prime)) continue;
    family_t *more = new_family(s, f);
    more->choice.size[PTC_AXIS_CP] = cp * prime;
    more->at[1] = index_of(s->queue, cp * prime);
    push(s, (node_t){.bound = floor, .kind = NODE_FAMILY, .family = more});
  }
  return floor;
}

// --- levels: sizes of tp

static void push_level(ptc_search_t *s, int64_t tp, double bound) {
  ptc_queue_t *q = s->queue;
  const int32_t at = index_of(q, tp);
  if (q->level_seen[at]) return;
  q->level_seen[at] = true;
  family_t level = {.choice = {.size = {1, 1, 1, 1, tp},
                               .micro_batch = 1,
                               .chunks = 1,
                               .recompute_turns = -1,
                               .recompute_every = s->fixed->recompute_every,
                               .schedule = PTC_SCHEDULE_1F1B},
                    .at = {at}};
  push(s, (node_t){.bound = bound, .kind = NODE_LEVEL, .family = new_family(s, &level)});
}

// Of one tp, with and without sequence parallelism. Returns its floor.
static double expand_kind(ptc_search_t *s, const family_t *level, bool sequence_parallel,
                          double bound) {
  const ptc_queue_t *q = s->queue;
  const int64_t tp = level->choice.size[PTC_AXIS_TP], cp = s->fixed->size[PTC_AXIS_CP];
  family_t base = *level;
  base.choice.sequence_parallel = sequence_parallel;
  const bool all = ptc_search_takes_all_sets(s) && !s->fixed->has_names;
  ptc_names_t sets[PTC_MAX_SETS];
  int32_t num_sets = -1;
  bool over_ep = false;
  base.choice.size[PTC_AXIS_CP] = cp > 0 ? cp : 1;
  double floor = INFINITY;
  for (int32_t e = 0; e < q->num_sizes; e++) {
    const int64_t ep = q->sizes[e];
    if (!ptc_search_open_or(s->fixed->size[PTC_AXIS_EP], ep) || (ep > 1 && !q->experts) ||
        s->devices % (tp * ep * base.choice.size[PTC_AXIS_CP]))
      continue;
    base.choice.size[PTC_AXIS_EP] = ep;
    base.at[2] = e;
    base.at[1] = index_of(q, base.choice.size[PTC_AXIS_CP]);
    base.set = ALL_OF_THEM;
    if (all) {
      floor = fmin(floor, expand_family(s, new_family(s, &base), bound));
      continue;
    }
    ptc_choice_t whole = base.choice;
    whole.size[PTC_AXIS_CP] = 1;
    // Over ep, experts' names leave another rest; how many ranks it has matters less.
    if (num_sets < 0 || (ep > 1 && !over_ep)) {
      num_sets = ptc_search_choose_sets(s, whole, sets);
      over_ep = ep > 1;
    }
    for (int32_t n = 0; n < num_sets; n++)
      for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
        base.set = n;
        base.choice.recompute = mode;
        ptc_search_set_names(&base.choice, &sets[n]);
        floor = fmin(floor, expand_family(s, new_family(s, &base), bound));
      }
  }
  return isinf(floor) ? bound : floor;
}

static void expand_level(ptc_search_t *s, const family_t *level, double bound) {
  const int64_t tp = level->choice.size[PTC_AXIS_TP];
  double floor = INFINITY;
  for (int sp = 0; sp < (tp > 1 ? 2 : 1); sp++)
    if (tp == 1 || s->fixed->sequence_parallel < 0 || s->fixed->sequence_parallel == sp)
      floor = fmin(floor, expand_kind(s, level, sp, bound));
  for (int32_t i = 0; i < s->queue->num_primes && s->fixed->size[PTC_AXIS_TP] == 0; i++)
    if (s->devices % (tp * s->queue->primes[i]) == 0)
      push_level(s, tp * s->queue->primes[i], floor);
}

// --- all

// Whether ep splits anything that dp does not: some traffic of its own, or parameters that its ranks do not share.
static bool has_experts(ptc_search_t *s) {
  ptc_choice_t choice = {
      .size = {1, 1, 2, 1, 1}, .micro_batch = 1, .chunks = 1, .recompute_turns = -1};
  ptc_arena_t scratch = {0};
  ptc_work_pieces_t pieces;
  bool any = false;
  if (s->work->batch % 2 == 0 &&
      ptc_layout_pieces(s->work, &scratch, &choice, s->stack->saves, &pieces) == PTC_OK)
    for (int32_t i = 0; i < pieces.count && !any; i++)
      for (int32_t g = 0; g < pieces.items[i].num_groups; g++)
        any |= !(pieces.items[i].groups[g].axes >> PTC_AXIS_EP & 1);
  ptc_arena_deinit(&scratch);
  return any;
}

// Whether anything of a step lies on cp: then gradients are summed over it.
static bool has_sequence(ptc_search_t *s) {
  ptc_choice_t choice = {
      .size = {1, 1, 1, 2, 1}, .micro_batch = 1, .chunks = 1, .recompute_turns = -1};
  ptc_arena_t scratch = {0};
  ptc_work_pieces_t pieces;
  bool any = false;
  if (ptc_layout_pieces(s->work, &scratch, &choice, s->stack->saves, &pieces) == PTC_OK)
    for (int32_t i = 0; i < pieces.count && !any; i++)
      for (int32_t g = 0; g < pieces.items[i].num_groups; g++)
        any |= pieces.items[i].groups[g].axes >> PTC_AXIS_CP & 1;
  ptc_arena_deinit(&scratch);
  return any;
}

void ptc_search_begin(ptc_search_t *s) {
  ptc_queue_t *q = s->queue = PTC_ARENA_NEW(s->arena, ptc_queue_t);
  q->num_sizes = ptc_search_divisors(s->devices, q->sizes);
  int64_t micros[PTC_MAX_DIVISORS];
  const int32_t num_micros = ptc_search_divisors(s->work->batch, micros);
  for (int32_t i = 0; i < num_micros; i++)
    if (ptc_search_open_or(s->fixed->micro_batch, micros[i]))
      q->micros[q->num_micros++] = micros[i];
  int64_t left = s->devices;
  for (int64_t p = 2; left > 1; p = p * p > left ? left : p + 1) {
    if (left % p) continue;
    q->primes[q->num_primes++] = p;
    while (left % p == 0) left /= p;
  }
  q->experts = s->experts = s->fixed->size[PTC_AXIS_EP] > 0 || has_experts(s);
  q->sequence = !s->fixed->no_copies || has_sequence(s);
  const int64_t tp = s->fixed->size[PTC_AXIS_TP];
  if (s->devices % (tp > 0 ? tp : 1) == 0) push_level(s, tp > 0 ? tp : 1, 0);
}

bool ptc_search_next(ptc_search_t *s, ptc_rough_t *out) {
  ptc_queue_t *q = s->queue;
  while (q->count > 0) {
    const node_t node = pop(q);
    if (ptc_search_hopeless(s, node.bound)) {
      s->out->pruned += q->count;
      return false;
    }
    switch (node.kind) {
      case NODE_LEVEL: expand_level(s, node.family, node.bound); break;
      case NODE_FAMILY: expand_family(s, node.family, node.bound); break;
      case NODE_MICRO: add_micro(s, node.family, node.micro, node.bound); break;
      case NODE_LAYOUT:
        *out = (ptc_rough_t){node.family->choice, node.bound, node.laid->again, node.laid->times};
        out->choice.micro_batch = q->micros[node.micro];
        return true;
    }
  }
  return false;
}

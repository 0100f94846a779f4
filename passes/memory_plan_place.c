// Placement: rectangles with a fixed extent in time get offsets, so that none that are live together overlap
// and the height is small ("dynamic storage allocation", NP-hard).
//
// Items are placed one by one at the lowest offset that is free during all their life. Which order is best
// depends on the program: several are tried, then the best is improved: what lies at the top is placed
// earlier (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020, for the
// greedy orders). All is counted, nothing timed: equal programs get equal plans.
#include <stdlib.h>
#include <string.h>

#include "passes/memory_plan_impl.h"

enum {
  MAX_IMPROVEMENTS = 200,
  MAX_FAILURES = 4,     // improvements that bring nothing, one after another,
  EASY_WORK = 1500000,  // unless all attempts have looked at fewer neighbours than this
  MAX_WORK = 50000000,  // neighbours looked at, over all attempts
};

// --- which placed items are live in a span of time: a segment tree over steps

typedef PTC_VEC(int32_t) index_list_t;

typedef struct tree_s {
  int32_t num_leaves;  // a power of two
  index_list_t
      *covers;  // per node: items live during all its steps, but not during all its parent's
  index_list_t *below;  // per node: items in |covers| of a node beneath it
} tree_t;

static void tree_init(tree_t *tree, int32_t num_steps) {
  tree->num_leaves = 1;
  while (tree->num_leaves < num_steps) tree->num_leaves *= 2;
  const size_t bytes = 2 * (size_t)tree->num_leaves * sizeof(index_list_t);
  tree->covers = ptc_xmalloc(bytes);
  tree->below = ptc_xmalloc(bytes);
  memset(tree->covers, 0, bytes);
  memset(tree->below, 0, bytes);
}

static void tree_clear(tree_t *tree) {
  for (int32_t n = 0; n < 2 * tree->num_leaves; ++n) tree->covers[n].len = tree->below[n].len = 0;
}

static void tree_deinit(tree_t *tree) {
  for (int32_t n = 0; n < 2 * tree->num_leaves; ++n) {
    PTC_VEC_FREE(&tree->covers[n]);
    PTC_VEC_FREE(&tree->below[n]);
  }
  free(tree->covers);
  free(tree->below);
}

static void tree_note(tree_t *tree, int32_t node, int32_t item) {
  PTC_VEC_PUSH(&tree->covers[node], item);
  for (node /= 2; node >= 1; node /= 2) {
    index_list_t *list = &tree->below[node];
    if (list->len && list->data[list->len - 1] == item) return;
    PTC_VEC_PUSH(list, item);
  }
}

static void tree_insert(tree_t *tree, int32_t item, int32_t begin, int32_t end) {
  int32_t low = begin + tree->num_leaves, high = end + tree->num_leaves + 1;
  for (; low < high; low /= 2, high /= 2) {
    if (low & 1) tree_note(tree, low++, item);
    if (high & 1) tree_note(tree, --high, item);
  }
}

// --- the lowest free offset

typedef struct span_s {
  int64_t begin, end;
} span_t;

typedef struct placer_s {
  ptc_placed_t *items;
  int32_t count;
  tree_t tree;
  int32_t *stamp;  // per item: the last query that found it
  int32_t query;
  PTC_VEC(span_t) taken;
  int64_t work;
} placer_t;

static void take(placer_t *p, const index_list_t *list) {
  p->work += list->len;
  for (int64_t i = 0; i < list->len; ++i) {
    const int32_t item = list->data[i];
    if (p->stamp[item] == p->query) continue;
    p->stamp[item] = p->query;
    const span_t span = {p->items[item].offset, p->items[item].offset + p->items[item].bytes};
    PTC_VEC_PUSH(&p->taken, span);
  }
}

static void find_taken(placer_t *p, int32_t begin, int32_t end) {
  const tree_t *tree = &p->tree;
  int32_t low = begin + tree->num_leaves, high = end + tree->num_leaves + 1;
  for (; low < high; low /= 2, high /= 2) {
    int32_t nodes[2], count = 0;
    if (low & 1) nodes[count++] = low++;
    if (high & 1) nodes[count++] = --high;
    for (int32_t i = 0; i < count; ++i) {
      take(p, &tree->below[nodes[i]]);
      for (int32_t node = nodes[i]; node >= 1; node /= 2) take(p, &tree->covers[node]);
    }
  }
}

// By begin. Written out, since all of the planner's time goes here.
static void sort_spans(span_t *spans, int64_t count) {
  while (count > 16) {
    const int64_t a = spans[0].begin, b = spans[count / 2].begin, c = spans[count - 1].begin;
    const int64_t low = a < b ? a : b, high = a < b ? b : a;
    const int64_t pivot = c < low ? low : c > high ? high : c;
    int64_t i = 0, j = count - 1;
    while (i <= j) {
      while (spans[i].begin < pivot) i++;
      while (spans[j].begin > pivot) j--;
      if (i > j) break;
      const span_t span = spans[i];
      spans[i++] = spans[j];
      spans[j--] = span;
    }
    // The smaller part first, so that the depth is logarithmic.
    if (j + 1 < count - i) {
      sort_spans(spans, j + 1);
      spans += i;
      count -= i;
    } else {
      sort_spans(spans + i, count - i);
      count = j + 1;
    }
  }
  for (int64_t i = 1; i < count; ++i) {
    const span_t span = spans[i];
    int64_t j = i;
    for (; j > 0 && spans[j - 1].begin > span.begin; --j) spans[j] = spans[j - 1];
    spans[j] = span;
  }
}

static void place_item(placer_t *p, int32_t item) {
  ptc_placed_t *it = &p->items[item];
  p->query++;
  p->taken.len = 0;
  for (int32_t s = 0; s < it->num_segments; ++s)
    find_taken(p, it->segments[s].begin, it->segments[s].end);
  sort_spans(p->taken.data, p->taken.len);
  int64_t at = 0;
  for (int64_t i = 0; i < p->taken.len && p->taken.data[i].begin - at < it->bytes; ++i)
    if (p->taken.data[i].end > at) at = p->taken.data[i].end;
  it->offset = at;
  for (int32_t s = 0; s < it->num_segments; ++s)
    tree_insert(&p->tree, item, it->segments[s].begin, it->segments[s].end);
}

static int64_t place_all(placer_t *p, const int32_t *order) {
  int64_t height = 0;
  tree_clear(&p->tree);
  for (int32_t i = 0; i < p->count; ++i) {
    const ptc_placed_t *it = &p->items[order[i]];
    place_item(p, order[i]);
    if (it->offset + it->bytes > height) height = it->offset + it->bytes;
  }
  return height;
}

// --- orders

typedef struct keyed_s {
  double key;
  int32_t item;
} keyed_t;

static int compare_keyed(const void *a, const void *b) {
  const keyed_t *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->item < y->item ? -1 : x->item > y->item;
}

// The first few are best for most programs.
enum { NUM_ORDERS = 7, NUM_FIRST_ORDERS = 2 };

// The item with the least key comes first.
static double order_key(const ptc_placed_t *it, int32_t which) {
  const double bytes = (double)it->bytes, life = (double)it->duration;
  const double begin = it->segments[0].begin, end = it->segments[it->num_segments - 1].end;
  switch (which) {
    case 0: return -bytes;
    case 1: return -bytes * life;
    case 2: return -life;
    case 3: return begin;
    case 4: return -end;
    case 5: return begin - end;
    default: return -bytes * bytes * life;
  }
}

static void sort_order(const placer_t *p, int32_t which, keyed_t *keyed, int32_t *order) {
  for (int32_t i = 0; i < p->count; ++i) keyed[i] = (keyed_t){order_key(&p->items[i], which), i};
  qsort(keyed, (size_t)p->count, sizeof *keyed, compare_keyed);
  for (int32_t i = 0; i < p->count; ++i) order[i] = keyed[i].item;
}

// Moves the items that reach above |limit| half way to the front.
static bool lift(const placer_t *p, int64_t limit, int32_t *order) {
  bool moved = false;
  for (int32_t i = 0; i < p->count; ++i) {
    const int32_t item = order[i];
    if (p->items[item].offset + p->items[item].bytes <= limit || i == 0) continue;
    const int32_t to = i / 2;
    memmove(order + to + 1, order + to, (size_t)(i - to) * sizeof *order);
    order[to] = item;
    moved = true;
  }
  return moved;
}

// --- attempts

typedef struct best_s {
  int64_t height;
  int64_t *offsets;
  int32_t *order;
} best_t;

// Keeps the present offsets if they are the best so far.
static void keep_best(const placer_t *p, int64_t height, const int32_t *order, best_t *best) {
  if (best->height >= 0 && height >= best->height) return;
  best->height = height;
  for (int32_t i = 0; i < p->count; ++i) best->offsets[i] = p->items[i].offset;
  memcpy(best->order, order, (size_t)p->count * sizeof *order);
}

static void improve(placer_t *p, int64_t bound, int64_t enough, int32_t *order, best_t *best) {
  int64_t height = best->height;
  int32_t failures = 0;
  memcpy(order, best->order, (size_t)p->count * sizeof *order);
  for (int32_t i = 0; i < p->count; ++i) p->items[i].offset = best->offsets[i];
  for (int32_t n = 0; n < MAX_IMPROVEMENTS; ++n) {
    if (best->height <= enough || p->work > MAX_WORK ||
        (failures >= MAX_FAILURES && p->work > EASY_WORK))
      return;
    const int64_t limit = height - (height - bound + 1) / 2;
    if (!lift(p, limit, order)) return;
    height = place_all(p, order);
    failures = height < best->height ? 0 : failures + 1;
    keep_best(p, height, order, best);
  }
}

int64_t ptc_place(ptc_placed_t *items, int32_t count, int32_t num_steps, int64_t bound,
                  int64_t enough) {
  if (!count) return 0;
  placer_t placer = {.items = items, .count = count}, *p = &placer;
  tree_init(&p->tree, num_steps);
  p->stamp = ptc_xmalloc((size_t)count * sizeof *p->stamp);
  memset(p->stamp, 0, (size_t)count * sizeof *p->stamp);
  keyed_t *keyed = ptc_xmalloc((size_t)count * sizeof *keyed);
  int32_t *order = ptc_xmalloc((size_t)count * sizeof *order);
  best_t best = {.height = -1,
                 .offsets = ptc_xmalloc((size_t)count * sizeof *best.offsets),
                 .order = ptc_xmalloc((size_t)count * sizeof *best.order)};
  for (int32_t which = 0; which < NUM_ORDERS; ++which) {
    // The other orders are for programs that the first ones serve badly.
    const int64_t wanted = which < NUM_FIRST_ORDERS ? enough : bound + 4 * (enough - bound);
    if (best.height >= 0 && (best.height <= wanted || p->work > MAX_WORK)) break;
    sort_order(p, which, keyed, order);
    keep_best(p, place_all(p, order), order, &best);
    if (which == NUM_FIRST_ORDERS - 1 || which == NUM_ORDERS - 1)
      improve(p, bound, enough, order, &best);
  }
  for (int32_t i = 0; i < count; ++i) items[i].offset = best.offsets[i];
  tree_deinit(&p->tree);
  PTC_VEC_FREE(&p->taken);
  free(p->stamp);
  free(keyed);
  free(order);
  free(best.offsets);
  free(best.order);
  return best.height;
}

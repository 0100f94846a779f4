// Groups: nodes that share an address because they hold one value (a copy needs no bytes of its own), or
// because one is made in place of the other.
//
// Two nodes may share if no step finds them live with different values. It is the interference of values of
// Budimlic et al., "Fast copy coalescing and live-range identification" (PLDI 2002), on an unrolled program.
#include <stdlib.h>
#include <string.h>

#include "passes/memory_plan_impl.h"

int32_t ptc_timeline_root(ptc_timeline_t *t, int32_t node) {
  while (t->nodes[node].parent != node) {
    t->nodes[node].parent = t->nodes[t->nodes[node].parent].parent;
    node = t->nodes[node].parent;
  }
  return node;
}

// Whether segments of |a| and |b| meet with different values. |touch|, if not negative, is the step at which
// a segment of |a| may end where one of |b| begins.
static bool interfere(const ptc_segment_list_t *a, const ptc_segment_list_t *b, int32_t touch) {
  int64_t from = 0;
  for (int64_t i = 0; i < a->len; ++i) {
    const ptc_segment_t *x = &a->data[i];
    // Segments are sorted by begin; most are short, so that those that end early are left behind.
    while (from < b->len && b->data[from].end < x->begin) from++;
    for (int64_t j = from; j < b->len && b->data[j].begin <= x->end; ++j) {
      const ptc_segment_t *y = &b->data[j];
      if (y->end < x->begin || x->value == y->value) continue;
      if (x->end == touch && y->begin == touch) continue;
      return true;
    }
  }
  return false;
}

// Whether the launch or collective reads the group |root| through the operand that its result replaces alone.
static bool read_once(ptc_timeline_t *t, const ptc_union_wish_t *wish, int32_t root) {
  const bool launch = wish->step->kind == PTC_STEP_LAUNCH;
  const ptc_plan_kernel_t *kernel = launch ? &t->plan->kernels[wish->step->kernel] : NULL;
  const int32_t count = launch ? kernel->num_params : wish->step->num_args;
  int32_t readers = 0;
  for (int32_t a = 0; a < count; ++a) {
    const bool read = launch ? kernel->modes[a] != 1 : a % 2 == 0;
    readers += read && ptc_timeline_root(t, t->args.data[wish->first_arg + a]) == root;
  }
  return readers == 1;
}

static void unite(ptc_timeline_t *t, int32_t a, int32_t b) {
  ptc_node_t *to = &t->nodes[a], *from = &t->nodes[b];
  ptc_segment_list_t all = {0};
  all.cap = to->life.len + from->life.len;
  all.data = ptc_xmalloc((size_t)(all.cap + 1) * sizeof *all.data);
  int64_t i = 0, j = 0;
  while (i < to->life.len || j < from->life.len) {
    const bool first = j == from->life.len ||
                       (i < to->life.len && to->life.data[i].begin <= from->life.data[j].begin);
    all.data[all.len++] = first ? to->life.data[i++] : from->life.data[j++];
  }
  PTC_VEC_FREE(&to->life);
  PTC_VEC_FREE(&from->life);
  to->life.data = all.data;
  to->life.len = all.len;
  to->life.cap = all.cap;
  to->pinned = to->pinned || from->pinned;
  from->parent = a;
}

static void grant(ptc_timeline_t *t, const ptc_union_wish_t *wish) {
  const int32_t from = ptc_timeline_root(t, wish->from), to = ptc_timeline_root(t, wish->to);
  if (from == to || t->nodes[from].bytes != t->nodes[to].bytes ||
      (t->nodes[from].pinned && t->nodes[to].pinned))
    return;
  if (!wish->copy && !read_once(t, wish, from)) return;
  if (interfere(&t->nodes[from].life, &t->nodes[to].life, wish->copy ? -1 : wish->time)) return;
  unite(t, from, to);
}

void ptc_timeline_merge(ptc_timeline_t *t) {
  // Copies first: each that is left costs time. In place costs bytes alone.
  for (int64_t i = 0; i < t->wishes.len; ++i)
    if (t->wishes.data[i].copy) grant(t, &t->wishes.data[i]);
  for (int64_t i = 0; i < t->wishes.len; ++i)
    if (!t->wishes.data[i].copy) grant(t, &t->wishes.data[i]);
}

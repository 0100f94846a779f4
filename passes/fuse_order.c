// The new order of a block: a group runs when all it needs is there, as near to its last op's place as that
// allows.
#include "passes/fuse_impl.h"

static int32_t last_node(const ptc_fuse_group_t *group) {
  return group->nodes[group->num_nodes - 1];
}

// How many edges lead into each group from others.
static void count_waits(const ptc_fuse_block_t *f, int32_t *waits) {
  for (int32_t n = 0; n < f->num_nodes; n++)
    for (const ptc_fuse_edge_t *e = f->nodes[n].before; e; e = e->next)
      if (f->nodes[e->node].group != f->nodes[n].group) waits[f->nodes[n].group]++;
}

// Groups that wait for nothing: a heap by the place of their last node.
typedef struct ready_s {
  const ptc_fuse_block_t *f;
  int32_t *groups, count;
} ready_t;

static bool comes_first(const ready_t *ready, int32_t a, int32_t b) {
  return last_node(&ready->f->groups[ready->groups[a]]) <
         last_node(&ready->f->groups[ready->groups[b]]);
}

static void swap(ready_t *ready, int32_t a, int32_t b) {
  const int32_t kept = ready->groups[a];
  ready->groups[a] = ready->groups[b];
  ready->groups[b] = kept;
}

static void push(ready_t *ready, int32_t group) {
  int32_t at = ready->count++;
  ready->groups[at] = group;
  for (; at > 0 && comes_first(ready, at, (at - 1) / 2); at = (at - 1) / 2)
    swap(ready, at, (at - 1) / 2);
}

static int32_t pop(ready_t *ready) {
  const int32_t first = ready->groups[0];
  ready->groups[0] = ready->groups[--ready->count];
  for (int32_t at = 0, next; (next = 2 * at + 1) < ready->count; at = next) {
    if (next + 1 < ready->count && comes_first(ready, next + 1, next)) next++;
    if (!comes_first(ready, next, at)) break;
    swap(ready, next, at);
  }
  return first;
}

static void emit(ptc_fuse_block_t *f, int32_t group, int32_t *waits, ready_t *ready) {
  const ptc_fuse_group_t *g = &f->groups[group];
  for (int32_t i = 0; i < g->num_nodes; i++) {
    ptc_op_t *op = f->nodes[g->nodes[i]].op;
    ptc_op_remove(op);
    ptc_op_insert(op, f->block, NULL);
    for (const ptc_fuse_edge_t *e = f->nodes[g->nodes[i]].after; e; e = e->next) {
      const int32_t other = f->nodes[e->node].group;
      if (other != group && --waits[other] == 0) push(ready, other);
    }
  }
}

void ptc_fuse_reorder(ptc_fuse_block_t *f) {
  int32_t *waits = PTC_ARENA_ARRAY(f->arena, int32_t, f->num_nodes + 1);
  ready_t ready = {.f = f, .groups = PTC_ARENA_ARRAY(f->arena, int32_t, f->num_nodes + 1)};
  count_waits(f, waits);
  for (int32_t g = 0; g < f->num_nodes; g++)
    if (f->groups[g].num_nodes && waits[g] == 0) push(&ready, g);
  while (ready.count) emit(f, pop(&ready), waits, &ready);
}

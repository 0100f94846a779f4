// The new order of a block: a group runs when all it needs is there, as near to its last op's place as that
// allows.
#include <stdlib.h>

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

static void emit(ptc_fuse_block_t *f, int32_t group, int32_t *waits) {
  const ptc_fuse_group_t *g = &f->groups[group];
  for (int32_t i = 0; i < g->num_nodes; i++) {
    ptc_op_t *op = f->nodes[g->nodes[i]].op;
    ptc_op_remove(op);
    ptc_op_insert(op, f->block, NULL);
    for (const ptc_fuse_edge_t *e = f->nodes[g->nodes[i]].after; e; e = e->next)
      if (f->nodes[e->node].group != group) waits[f->nodes[e->node].group]--;
  }
}

void ptc_fuse_reorder(ptc_fuse_block_t *f) {
  int32_t *waits = PTC_ARENA_ARRAY(f->arena, int32_t, f->num_nodes + 1);
  bool *done = PTC_ARENA_ARRAY(f->arena, bool, f->num_nodes + 1);
  count_waits(f, waits);
  // The first group, by last node, that waits for nothing. A block is short.
  int32_t first = 0;
  for (;;) {
    int32_t best = -1;
    while (first < f->num_nodes && (done[first] || !f->groups[first].num_nodes)) first++;
    for (int32_t n = 0; n < f->num_nodes; n++) {
      const int32_t g = f->nodes[n].group;
      if (done[g] || waits[g] || last_node(&f->groups[g]) != n) continue;
      best = g;
      break;
    }
    if (best < 0) return;
    done[best] = true;
    emit(f, best, waits);
  }
}

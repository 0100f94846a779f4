// The graph of a block: which op must run before which.
#include "passes/fuse_impl.h"

static int32_t number_of(const ptc_fuse_block_t *f, const ptc_op_t *op) {
  return (int32_t)(intptr_t)ptc_map_get(&f->node_of, op) - 1;
}

int32_t ptc_fuse_maker(const ptc_fuse_block_t *f, const ptc_value_t *value) {
  return value->def && value->def->parent == f->block ? number_of(f, value->def) : -1;
}

// An edge may be there twice: whoever waits for a node counts both.
static void add_edge(ptc_fuse_block_t *f, int32_t from, int32_t to) {
  if (from < 0 || from == to) return;
  ptc_fuse_edge_t *before = PTC_ARENA_NEW(f->arena, ptc_fuse_edge_t);
  ptc_fuse_edge_t *after = PTC_ARENA_NEW(f->arena, ptc_fuse_edge_t);
  *before = (ptc_fuse_edge_t){from, f->nodes[to].before};
  *after = (ptc_fuse_edge_t){to, f->nodes[from].after};
  f->nodes[to].before = before;
  f->nodes[from].after = after;
}

// The node of this block that is |op| or holds it.
static int32_t holder_of(const ptc_fuse_block_t *f, const ptc_op_t *op) {
  while (op && op->parent != f->block) op = op->parent->parent_op;
  return op ? number_of(f, op) : -1;
}

typedef struct edge_scan_s {
  ptc_fuse_block_t *f;
  int32_t node;
} edge_scan_t;

// Values that an op takes, itself or in its body.
static void add_operand_edges(ptc_op_t *op, void *arg) {
  const edge_scan_t *scan = arg;
  for (int32_t i = 0; i < op->num_operands; i++)
    add_edge(scan->f, ptc_fuse_maker(scan->f, op->operands[i]), scan->node);
}

// Readers of |old| come before |writer|, whose result takes its bytes.
static void add_state_edges(ptc_fuse_block_t *f, const ptc_value_t *old, int32_t writer) {
  for (const ptc_use_t *use = ptc_uses_of(f->uses, old); use; use = use->next) {
    const int32_t reader = holder_of(f, use->op);
    if (reader < 0 || reader == writer) continue;
    if (ptc_view_is_alias(use->op))
      for (int32_t r = 0; r < use->op->num_results; r++)
        add_state_edges(f, use->op->results[r], writer);
    if (reader < writer) add_edge(f, reader, writer);
  }
}

static void add_returned_states(ptc_fuse_block_t *f) {
  const ptc_func_t *func = f->block->func;
  const ptc_op_t *ret = ptc_func_return(func);
  if (f->block->parent_op || !ret) return;
  for (int32_t i = 0; i < func->num_results && i < ret->num_operands; i++) {
    if (func->results[i].kind != PTC_RESULT_STATE) continue;
    const int32_t writer = ptc_fuse_maker(f, ret->operands[i]);
    for (int32_t a = 0; writer >= 0 && a < f->block->num_args; a++)
      if (func->arg_globals[a] == func->results[i].global)
        add_state_edges(f, f->block->args[a], writer);
  }
}

static ptc_fuse_kind_t kind_of(const ptc_op_t *op) {
  if (op->body || op->opcode == PTC_OP_YIELD || op->opcode == PTC_OP_RETURN ||
      ptc_view_is_alias(op) || ptc_op_bool(op, "inline") ||
      ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE) || ptc_op_has_trait(op, PTC_TRAIT_TRANSFER))
    return PTC_FUSE_OTHER;
  if (op->results[0]->type->num_counts || op->opcode == PTC_OP_UNSHARD ||
      op->opcode == PTC_OP_MERGE || op->opcode == PTC_OP_SHARD)
    return PTC_FUSE_SINGLE;
  switch (ptc_op_kernel_kind(op)) {
    case PTC_KERNEL_NEST: return PTC_FUSE_NEST;
    case PTC_KERNEL_GEMM: return PTC_FUSE_GEMM;
    default: return PTC_FUSE_SINGLE;
  }
}

void ptc_fuse_graph(ptc_fuse_block_t *f) {
  f->num_nodes = 0;
  for (ptc_op_t *op = f->block->first; op; op = op->next) f->num_nodes++;
  f->nodes = PTC_ARENA_ARRAY(f->arena, ptc_fuse_node_t, f->num_nodes + 1);
  f->groups = PTC_ARENA_ARRAY(f->arena, ptc_fuse_group_t, f->num_nodes + 1);
  f->seen = PTC_ARENA_ARRAY(f->arena, int32_t, f->num_nodes + 1);
  f->stack = PTC_ARENA_ARRAY(f->arena, int32_t, f->num_nodes + 1);
  f->floor = PTC_ARENA_ARRAY(f->arena, int32_t, f->num_nodes + 1);
  int32_t n = 0;
  for (ptc_op_t *op = f->block->first; op; op = op->next, n++) {
    ptc_map_set(&f->node_of, op, (void *)(intptr_t)(n + 1));
    f->nodes[n] = (ptc_fuse_node_t){.op = op, .kind = kind_of(op), .group = n};
    f->floor[n] = n;
    int32_t *nodes = PTC_ARENA_ARRAY(f->arena, int32_t, 1);
    nodes[0] = n;
    f->groups[n] = (ptc_fuse_group_t){f->nodes[n].kind, 1, nodes};
  }
  for (n = 0; n < f->num_nodes; n++) {
    ptc_op_t *op = f->nodes[n].op;
    edge_scan_t scan = {f, n};
    add_operand_edges(op, &scan);
    if (op->body) ptc_block_walk(op->body, add_operand_edges, &scan);
    for (int32_t r = 0; r < op->num_results; r++) {
      const ptc_value_t *old = ptc_op_taken_operand(op, r);
      if (old) add_state_edges(f, old, n);
    }
    // What ends a block ends it.
    if (ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR))
      for (int32_t i = 0; i < n; i++) add_edge(f, i, n);
  }
  // Transfers keep their order, which is one for all stages.
  for (int32_t last = -1, i = 0; i < f->num_nodes; i++) {
    if (!ptc_op_has_trait(f->nodes[i].op, PTC_TRAIT_TRANSFER)) continue;
    if (last >= 0) add_edge(f, last, i);
    last = i;
  }
  add_returned_states(f);
}

// --- cycles

// Puts the groups after |group|, other than itself and |skip|, on the stack. True if |target| is among them.
static bool push_after(ptc_fuse_block_t *f, int32_t group, int32_t skip, int32_t target,
                       int32_t *count) {
  const ptc_fuse_group_t *g = &f->groups[group], *t = &f->groups[target];
  const int32_t until = t->nodes[t->num_nodes - 1];
  for (int32_t i = 0; i < g->num_nodes; i++)
    for (const ptc_fuse_edge_t *e = f->nodes[g->nodes[i]].after; e; e = e->next) {
      const int32_t next = f->nodes[e->node].group;
      if (next == skip || next == group) continue;
      if (next == target) return true;
      // Nothing that comes after reaches back to the target.
      if (f->seen[next] == f->search || f->floor[f->groups[next].nodes[0]] > until) continue;
      f->seen[next] = f->search;
      f->stack[(*count)++] = next;
    }
  return false;
}

// Whether a path from |from| to |to| has a third group in it.
static bool detours(ptc_fuse_block_t *f, int32_t from, int32_t to) {
  f->search++;
  f->seen[from] = f->seen[to] = f->search;
  int32_t count = 0;
  // The direct edges to |to| are no detour.
  const ptc_fuse_group_t *g = &f->groups[from];
  const int32_t until = f->groups[to].nodes[f->groups[to].num_nodes - 1];
  for (int32_t i = 0; i < g->num_nodes; i++)
    for (const ptc_fuse_edge_t *e = f->nodes[g->nodes[i]].after; e; e = e->next) {
      const int32_t next = f->nodes[e->node].group;
      if (f->seen[next] == f->search || f->floor[f->groups[next].nodes[0]] > until) continue;
      f->seen[next] = f->search;
      f->stack[count++] = next;
    }
  while (count > 0)
    if (push_after(f, f->stack[--count], from, to, &count)) return true;
  return false;
}

bool ptc_fuse_is_cycle(ptc_fuse_block_t *f, int32_t a, int32_t b) {
  return detours(f, a, b) || detours(f, b, a);
}

void ptc_fuse_note_merged(ptc_fuse_block_t *f, int32_t group) {
  const ptc_fuse_group_t *g = &f->groups[group];
  const int32_t first = g->nodes[0], last = g->nodes[g->num_nodes - 1];
  for (int32_t n = first + 1; n <= last; n++)
    if (f->floor[n] > first) f->floor[n] = first;
}

// Private to passes/fuse*.c: the ops of one block as nodes, and their groups.
#ifndef PTC_PASSES_FUSE_IMPL_H_
#define PTC_PASSES_FUSE_IMPL_H_

#include "passes/build_impl.h"

typedef enum ptc_fuse_kind_e {
  PTC_FUSE_OTHER,   // control, views, inline ops, collectives: no kernel
  PTC_FUSE_SINGLE,  // a kernel of its own: templates
  PTC_FUSE_NEST,
  PTC_FUSE_GEMM,
} ptc_fuse_kind_t;

// Edges between nodes, as lists of node numbers.
typedef struct ptc_fuse_edge_s {
  int32_t node;
  const struct ptc_fuse_edge_s *next;
} ptc_fuse_edge_t;

typedef struct ptc_fuse_node_s {
  ptc_op_t *op;
  ptc_fuse_kind_t kind;
  int32_t group;
  const ptc_fuse_edge_t *before, *after;  // nodes that must run before and after this one
} ptc_fuse_node_t;

// Nodes in order of the block. An absorbed group has none.
typedef struct ptc_fuse_group_s {
  ptc_fuse_kind_t kind;
  int32_t num_nodes;
  int32_t *nodes;
} ptc_fuse_group_t;

typedef struct ptc_fuse_block_s {
  ptc_arena_t *arena;
  ptc_block_t *block;
  const ptc_use_map_t *uses;
  int32_t num_nodes;
  ptc_fuse_node_t *nodes;
  ptc_fuse_group_t *groups;  // as many as nodes; node i starts in group i
  ptc_map_t node_of;         // op -> its number + 1
  // Of searches for cycles. The floor of a node is the first node of all groups that have a node from there on.
  int32_t search, *seen, *stack;  // seen: per group, the last search that came there
  int32_t *floor;
} ptc_fuse_block_t;

// The number of the node of this block that makes |value|, itself or in a view or an inline op (which are
// nodes, too); -1: it comes from outside.
int32_t ptc_fuse_maker(const ptc_fuse_block_t *f, const ptc_value_t *value);
// Builds nodes and edges (fuse_graph.c); |f|->seen and the groups, too.
void ptc_fuse_graph(ptc_fuse_block_t *f);
// Whether merging groups |a| and |b| would make them wait for each other through a third.
bool ptc_fuse_is_cycle(ptc_fuse_block_t *f, int32_t a, int32_t b);
// Computes normalized values again beside the gradients of their norms (fuse_norms.c).
void ptc_fuse_norms(ptc_module_t *module, ptc_arena_t *scratch);
// Ops that nothing but masks of attention needs, in |block| and its regions (fuse_masks.c): op -> op.
void ptc_fuse_masks(ptc_block_t *block, const ptc_use_map_t *uses, ptc_map_t *out_parts);
// Clones cheap ops for each of their users (fuse_clone.c); |uses| is out of date where that is true.
bool ptc_fuse_clone_cheap(ptc_module_t *module, ptc_block_t *block, const ptc_use_map_t *uses);
// To be called when |group| has more nodes than before.
void ptc_fuse_note_merged(ptc_fuse_block_t *f, int32_t group);
// Merges groups as far as it pays (fuse_groups.c).
void ptc_fuse_merge_groups(ptc_fuse_block_t *f);
// Merges collectives that can be one step (fuse_collectives.c).
void ptc_fuse_merge_collectives(ptc_fuse_block_t *f, const ptc_mesh_t *mesh);
// Puts the ops of each group next to each other, everything in an order that the edges allow, near the
// original (fuse_order.c).
void ptc_fuse_reorder(ptc_fuse_block_t *f);

#endif  // PTC_PASSES_FUSE_IMPL_H_

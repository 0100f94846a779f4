// Collectives of one kind over one group become neighbours where nothing stands between them, so that lower_plan makes
// one step of them: an exchange costs a wait for all members, however small it is. A step's operands and results all
// live until it is done; it stays below a limit for that.
#include <string.h>

#include "ir/op.h"
#include "passes/fuse_impl.h"

enum { MAX_BYTES = 64 << 20, MAX_TOGETHER = 512 };

static bool agree(const ptc_op_t *a, const ptc_op_t *b) {
  const ptc_type_t *x = a->operands[0]->type, *y = b->operands[0]->type;
  bool same = a->opcode == b->opcode && x->dtype == y->dtype &&
              x->partial_kind == y->partial_kind && x->num_counts == y->num_counts &&
              strcmp(ptc_op_string(a, "axes"), ptc_op_string(b, "axes")) == 0;
  for (int32_t c = 0; same && c < x->num_counts; c++) same = x->counts[c] == y->counts[c];
  return same;
}

// Of one instance, on one device.
static double bytes_of(const ptc_mesh_t *mesh, const ptc_type_t *type) {
  double bytes = (double)ptc_dtype_bytes(type->dtype);
  for (int32_t d = 0; d < type->num_dims; d++)
    bytes *= (double)ptc_dim_local_extent(mesh, &type->dims[d]);
  return bytes;
}

static double group_bytes(const ptc_fuse_block_t *f, const ptc_mesh_t *mesh, int32_t group) {
  double bytes = 0;
  for (int32_t i = 0; i < f->groups[group].num_nodes; i++) {
    const ptc_op_t *op = f->nodes[f->groups[group].nodes[i]].op;
    bytes += bytes_of(mesh, op->operands[0]->type) + bytes_of(mesh, op->results[0]->type);
  }
  return bytes;
}

// Whether an edge leads from one to the other: the one needs what the other makes.
static bool depend(const ptc_fuse_block_t *f, int32_t from, int32_t to) {
  for (int32_t i = 0; i < f->groups[from].num_nodes; i++)
    for (const ptc_fuse_edge_t *e = f->nodes[f->groups[from].nodes[i]].after; e; e = e->next)
      if (f->nodes[e->node].group == to) return true;
  return false;
}

static void merge(ptc_fuse_block_t *f, int32_t into, int32_t from) {
  ptc_fuse_group_t *x = &f->groups[into], *y = &f->groups[from];
  const int32_t count = x->num_nodes + y->num_nodes;
  int32_t *nodes = PTC_ARENA_ARRAY(f->arena, int32_t, count);
  // In order of the block.
  for (int32_t i = 0, a = 0, b = 0; i < count; i++)
    nodes[i] = b == y->num_nodes || (a < x->num_nodes && x->nodes[a] < y->nodes[b]) ? x->nodes[a++]
                                                                                    : y->nodes[b++];
  for (int32_t i = 0; i < y->num_nodes; i++) f->nodes[y->nodes[i]].group = into;
  x->nodes = nodes;
  x->num_nodes = count;
  y->num_nodes = 0;
  ptc_fuse_note_merged(f, into);
}

// Into the latest group of its kind that can take it.
static void find_company(ptc_fuse_block_t *f, const ptc_mesh_t *mesh, int32_t node,
                         const int32_t *earlier, int32_t num_earlier) {
  const int32_t group = f->nodes[node].group;
  const double bytes = group_bytes(f, mesh, group);
  for (int32_t i = num_earlier - 1; i >= 0; i--) {
    const int32_t other = f->nodes[earlier[i]].group;
    if (other == group || !agree(f->nodes[earlier[i]].op, f->nodes[node].op) ||
        f->groups[other].num_nodes >= MAX_TOGETHER ||
        group_bytes(f, mesh, other) + bytes > MAX_BYTES || depend(f, other, group) ||
        depend(f, group, other) || ptc_fuse_is_cycle(f, other, group))
      continue;
    merge(f, other, group);
    return;
  }
}

void ptc_fuse_merge_collectives(ptc_fuse_block_t *f, const ptc_mesh_t *mesh) {
  int32_t *seen = PTC_ARENA_ARRAY(f->arena, int32_t, f->num_nodes + 1), count = 0;
  for (int32_t n = 0; n < f->num_nodes; n++) {
    if (!ptc_op_has_trait(f->nodes[n].op, PTC_TRAIT_COLLECTIVE)) continue;
    find_company(f, mesh, n, seen, count);
    seen[count++] = n;
  }
}

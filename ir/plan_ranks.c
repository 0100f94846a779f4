// Ranks, groups and who holds what: arithmetic on the mesh of a plan.
#include "ir/plan.h"

int64_t ptc_plan_world(const ptc_plan_t *plan) {
  int64_t world = 1;
  for (int32_t a = 0; a < plan->mesh.num_axes; ++a) world *= plan->mesh.axes[a].size;
  return world;
}

void ptc_mesh_coords(const ptc_mesh_t *mesh, int64_t rank, int64_t *out_coords) {
  for (int32_t a = mesh->num_axes - 1; a >= 0; --a) {
    out_coords[a] = rank % mesh->axes[a].size;
    rank /= mesh->axes[a].size;
  }
}

int64_t ptc_mesh_rank(const ptc_mesh_t *mesh, const int64_t *coords) {
  int64_t rank = 0;
  for (int32_t a = 0; a < mesh->num_axes; ++a) rank = rank * mesh->axes[a].size + coords[a];
  return rank;
}

// --- groups

int64_t ptc_group_size(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes) {
  int64_t size = 1;
  for (int32_t i = 0; i < num_axes; ++i) size *= ptc_axis_ref_size(mesh, axes[i]);
  return size;
}

// How far ranks lie apart that are neighbours on |ref|.
static int64_t stride_of(const ptc_mesh_t *mesh, ptc_axis_ref_t ref) {
  int64_t stride = 1;
  int32_t a = mesh->num_axes - 1;
  for (; a >= 0 && mesh->axes[a].name != ref.axis; --a) stride *= mesh->axes[a].size;
  // (pre, size, post): what is minor to the part lies between.
  return ref.size && a >= 0 ? stride * (mesh->axes[a].size / (ref.pre * ref.size)) : stride;
}

int64_t ptc_group_member(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes,
                         int64_t rank) {
  int64_t member = 0;
  for (int32_t i = 0; i < num_axes; ++i) {
    const int64_t size = ptc_axis_ref_size(mesh, axes[i]);
    member = member * size + rank / stride_of(mesh, axes[i]) % size;
  }
  return member;
}

int64_t ptc_group_rank(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes,
                       int64_t rank, int64_t member) {
  for (int32_t i = num_axes - 1; i >= 0; --i) {
    const int64_t size = ptc_axis_ref_size(mesh, axes[i]), stride = stride_of(mesh, axes[i]);
    rank += (member % size - rank / stride % size) * stride;
    member /= size;
  }
  return rank;
}

// --- who holds what

bool ptc_plan_is_owner(const ptc_plan_t *plan, const ptc_buffer_t *buffer, int64_t rank) {
  const ptc_mesh_t *mesh = &plan->mesh;
  // The rank of the stage with the same coordinates on the axes of the layout, and 0 elsewhere.
  const int64_t stage_size = ptc_plan_world(plan) / (plan->num_stages > 1 ? plan->num_stages : 1);
  int64_t owner = rank / stage_size * stage_size;
  for (int32_t d = 0; buffer->layout && d < buffer->num_dims; ++d) {
    for (int32_t i = 0; i < buffer->layout[d].num_axes; ++i) {
      const ptc_axis_ref_t ref = buffer->layout[d].axes[i];
      const int64_t stride = stride_of(mesh, ref);
      owner += rank / stride % ptc_axis_ref_size(mesh, ref) * stride;
    }
  }
  return owner == rank;
}

// --- volume

// Bytes of member |member|'s piece that are not cut off.
static int64_t piece_bytes(const ptc_pieces_t *pieces, int64_t member) {
  int64_t bytes = pieces->row - member * pieces->chunk;
  if (bytes < 0) bytes = 0;
  if (bytes > pieces->chunk) bytes = pieces->chunk;
  return pieces->outer * bytes;
}

// Bytes of the stream of piece |from| of |in| that piece |to| of |out| takes: those that neither cuts off. Both
// have rows, and the chunks of one lie evenly in those of the other.
static int64_t shared_bytes(const ptc_pieces_t *in, int64_t from, const ptc_pieces_t *out,
                            int64_t to) {
  if (!in->outer || !out->outer) return 0;
  const int64_t in_bytes = piece_bytes(in, from) / in->outer;
  const int64_t out_bytes = piece_bytes(out, to) / out->outer;
  if (in_bytes == in->chunk) return out_bytes * out->outer;
  if (out_bytes == out->chunk) return in_bytes * in->outer;
  const bool nested = in->outer >= out->outer;  // in's chunks are the smaller ones
  const ptc_pieces_t *large = nested ? out : in, *small = nested ? in : out;
  const int64_t large_bytes = nested ? out_bytes : in_bytes;
  const int64_t small_bytes = nested ? in_bytes : out_bytes;
  return small->chunk ? large->outer * (large_bytes / small->chunk) * small_bytes : 0;
}

// The members sum a slice each, whole elements, and read the other slices' sums.
static int64_t all_reduce_bytes(int64_t bytes, int64_t elem_bytes, int64_t size, int64_t me) {
  const int64_t slice = (bytes / elem_bytes + size - 1) / size * elem_bytes;
  const int64_t mine = piece_bytes(&(ptc_pieces_t){1, slice, bytes}, me);
  return (size - 1) * mine + (bytes - mine);
}

static int64_t part_bytes(const ptc_collective_t *c, const ptc_collective_part_t *part,
                          int64_t size, int64_t me) {
  int64_t bytes = 0;
  if (c->kind == PTC_COLLECTIVE_ALL_REDUCE)
    return all_reduce_bytes(part->in.row, ptc_dtype_bytes(c->dtype), size, me);
  if (c->kind == PTC_COLLECTIVE_RING_SHIFT) return size > 1 ? part->in.row : 0;
  for (int64_t g = 0; g < size; ++g) {
    if (g == me) continue;
    switch (c->kind) {
      case PTC_COLLECTIVE_REDUCE_SCATTER: bytes += piece_bytes(&part->in, me); break;
      case PTC_COLLECTIVE_ALL_GATHER: bytes += piece_bytes(&part->out, g); break;
      case PTC_COLLECTIVE_ALL_TO_ALL: bytes += shared_bytes(&part->in, me, &part->out, g); break;
      default: break;
    }
  }
  return bytes;
}

int64_t ptc_collective_bytes(const ptc_mesh_t *mesh, const ptc_collective_t *collective,
                             int64_t rank) {
  const ptc_collective_t *c = collective;
  const int64_t size = ptc_group_size(mesh, c->axes, c->num_axes);
  const int64_t me = ptc_group_member(mesh, c->axes, c->num_axes, rank);
  int64_t bytes = 0;
  for (int32_t p = 0; p < c->num_parts; ++p) bytes += part_bytes(c, &c->parts[p], size, me);
  return bytes;
}

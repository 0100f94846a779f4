// Which ops form one kernel. Ops join the groups of what they use, latest first, and groups that read the same
// memory, as long as the result is one nest, or a GEMM with elementwise ops around it; nobody waits in a
// circle; and nothing large has to be kept longer for it.
#include <stdlib.h>
#include <string.h>

#include "passes/fuse_impl.h"

enum {
  MAX_GROUP_PARAMS = 56,
  SMALL_BYTES = 1 << 16,     // what may be kept longer for nothing
  SHARED_ELEMENTS = 1 << 10  // of an operand that is worth sharing
};

static int32_t last_of(const ptc_fuse_group_t *g) { return g->nodes[g->num_nodes - 1]; }

static int64_t elements_of(const ptc_fuse_block_t *f, const ptc_value_t *value) {
  int64_t n = 1;
  for (int32_t i = 0; i < value->type->num_dims; i++)
    n *= ptc_dim_local_extent(&f->block->func->module->mesh, &value->type->dims[i]);
  return n;
}

static int64_t bytes_of(const ptc_fuse_block_t *f, const ptc_value_t *value) {
  return elements_of(f, value) * ptc_dtype_bytes(value->type->dtype);
}

// The node of the block that is |op| or holds it; -1 outside.
static int32_t holder_of(const ptc_fuse_block_t *f, const ptc_op_t *op) {
  while (op && op->parent != f->block) op = op->parent->parent_op;
  return op ? (int32_t)(intptr_t)ptc_map_get(&f->node_of, op) - 1 : -1;
}

// --- groups to be: the nodes of two groups in order

typedef struct joint_s {
  int32_t num_nodes;
  int32_t *nodes;
  ptc_op_t **ops;
} joint_t;

static joint_t join(const ptc_fuse_block_t *f, int32_t a, int32_t b) {
  const ptc_fuse_group_t *x = &f->groups[a], *y = &f->groups[b];
  joint_t joint = {.num_nodes = x->num_nodes + y->num_nodes};
  joint.nodes = PTC_ARENA_ARRAY(f->arena, int32_t, joint.num_nodes);
  joint.ops = PTC_ARENA_ARRAY(f->arena, ptc_op_t *, joint.num_nodes);
  for (int32_t i = 0, j = 0, n = 0; n < joint.num_nodes; n++) {
    const bool from_x = j == y->num_nodes || (i < x->num_nodes && x->nodes[i] < y->nodes[j]);
    joint.nodes[n] = from_x ? x->nodes[i++] : y->nodes[j++];
    joint.ops[n] = f->nodes[joint.nodes[n]].op;
  }
  return joint;
}

static bool holds(const joint_t *joint, const ptc_op_t *op) {
  for (int32_t i = 0; i < joint->num_nodes; i++)
    if (joint->ops[i] == op) return true;
  return false;
}

static bool is_used_outside(const ptc_fuse_block_t *f, const joint_t *joint,
                            const ptc_value_t *value) {
  for (const ptc_use_t *use = ptc_uses_of(f->uses, value); use; use = use->next)
    if (!holds(joint, use->op)) return true;
  return false;
}

static bool is_stored(const ptc_fuse_block_t *f, const joint_t *joint, const ptc_op_t *op) {
  for (int32_t r = 0; r < op->num_results; r++)
    if (is_used_outside(f, joint, op->results[r])) return true;
  return false;
}

static bool fits_params(const ptc_fuse_block_t *f, const joint_t *joint) {
  ptc_map_t seen = {0};
  int64_t count = 0;
  for (int32_t i = 0; i < joint->num_nodes; i++) {
    const ptc_op_t *op = joint->ops[i];
    for (int32_t j = 0; j < op->num_operands; j++) {
      if (op->operands[j]->def && holds(joint, op->operands[j]->def)) continue;
      count += !ptc_map_get(&seen, op->operands[j]);
      ptc_map_set(&seen, op->operands[j], (void *)1);
    }
    for (int32_t r = 0; r < op->num_results; r++)
      count += is_used_outside(f, joint, op->results[r]);
  }
  ptc_map_deinit(&seen);
  return count <= MAX_GROUP_PARAMS;
}

// --- memory: the ops of the earlier group run where the later one does

// Where |value| was last needed before; INT32_MAX if it lives on.
static int32_t last_use(const ptc_fuse_block_t *f, const ptc_value_t *value) {
  int32_t last = -1;
  for (const ptc_use_t *use = ptc_uses_of(f->uses, value); use; use = use->next) {
    const int32_t at = holder_of(f, use->op);
    if (at < 0) return INT32_MAX;
    const int32_t runs =
        f->nodes[at].kind == PTC_FUSE_OTHER ? at : last_of(&f->groups[f->nodes[at].group]);
    // A view is as alive as what it shows.
    int32_t seen = runs;
    if (ptc_view_is_alias(use->op)) {
      const int32_t viewed = last_use(f, use->op->results[0]);
      if (viewed > seen) seen = viewed;
    }
    if (seen > last) last = seen;
  }
  return last;
}

// Whether the bytes of |value| live through the function anyway: an argument, or an instance of one.
static bool is_global(const ptc_value_t *value) {
  while (value) {
    if (value->def) {
      value = ptc_view_is_alias(value->def) ? value->def->operands[0] : NULL;
      continue;
    }
    const ptc_op_t *repeat = value->block->parent_op;
    if (!repeat) return true;
    value = value->index > repeat->num_carry ? repeat->operands[value->index - 1] : NULL;
  }
  return false;
}

// What is made between nodes |from| and |to| by others than the joint.
static int64_t bytes_between(const ptc_fuse_block_t *f, int32_t from, int32_t to,
                             const joint_t *joint) {
  int64_t bytes = 0;
  for (int32_t n = from + 1; n < to; n++) {
    const ptc_op_t *op = f->nodes[n].op;
    if (ptc_view_is_alias(op) || ptc_op_bool(op, "inline") || holds(joint, op)) continue;
    for (int32_t r = 0; r < op->num_results; r++) {
      const int64_t instances = ptc_type_num_instances(op->results[r]->type);
      bytes += bytes_of(f, op->results[r]) * (instances > 1 ? instances : 1);
    }
  }
  return bytes;
}

static bool is_used_by(const ptc_fuse_block_t *f, const ptc_value_t *value, int32_t group) {
  for (const ptc_use_t *use = ptc_uses_of(f->uses, value); use; use = use->next) {
    const int32_t at = use->op->parent == f->block ? holder_of(f, use->op) : -1;
    if (at >= 0 && f->nodes[at].group == group) return true;
  }
  return false;
}

static bool keeps_little(const ptc_fuse_block_t *f, int32_t a, int32_t b, const joint_t *joint) {
  const int32_t early = last_of(&f->groups[a]) < last_of(&f->groups[b]) ? a : b;
  const int32_t late = early == a ? b : a, until = last_of(&f->groups[late]);
  const ptc_fuse_group_t *g = &f->groups[early];
  int64_t kept = 0, saved = SMALL_BYTES;
  ptc_map_t seen = {0};
  for (int32_t i = 0; i < g->num_nodes; i++) {
    const ptc_op_t *op = f->nodes[g->nodes[i]].op;
    for (int32_t j = 0; j < op->num_operands; j++) {
      const ptc_value_t *value = op->operands[j];
      if ((value->def && (holds(joint, value->def) || ptc_op_bool(value->def, "inline"))) ||
          ptc_map_get(&seen, value) || is_global(value))
        continue;
      ptc_map_set(&seen, value, (void *)1);
      if (last_use(f, value) < until) kept += bytes_of(f, value);
    }
    // What the later group takes from the earlier one would wait for it otherwise.
    for (int32_t r = 0; r < op->num_results; r++)
      if (is_used_by(f, op->results[r], late)) saved += bytes_of(f, op->results[r]);
  }
  ptc_map_deinit(&seen);
  return kept <= saved || bytes_between(f, last_of(&f->groups[early]), until, joint) <= saved;
}

// --- GEMMs

static bool is_epilogue_op(const ptc_op_t *op) {
  return op->opcode == PTC_OP_DROPOUT || op->opcode == PTC_OP_BROADCAST ||
         op->opcode == PTC_OP_TRANSPOSE || ptc_op_has_trait(op, PTC_TRAIT_EWISE) ||
         op->opcode == PTC_OP_ACCUMULATE;
}

// Every dim of |a| with more than one position is one of |b|'s.
static bool is_within(const ptc_fuse_block_t *f, const ptc_type_t *a, const ptc_type_t *b) {
  for (int32_t i = 0; i < a->num_dims; i++)
    if (ptc_dim_local_extent(&f->block->func->module->mesh, &a->dims[i]) > 1 &&
        !ptc_type_has_dim(b, a->dims[i].name))
      return false;
  return true;
}

// Whether |op| is, through ops of the joint, an operand of |user|.
static bool feeds(const joint_t *joint, const ptc_op_t *op, const ptc_op_t *user) {
  for (int32_t i = 0; i < user->num_operands; i++) {
    const ptc_op_t *def = user->operands[i]->def;
    if (def && (def == op || (holds(joint, def) && feeds(joint, op, def)))) return true;
  }
  return false;
}

// One contraction; what it makes use of is cheap and not stored, what comes after runs over its result.
static bool is_gemm_group(const ptc_fuse_block_t *f, const joint_t *joint) {
  const ptc_op_t *gemm = NULL;
  for (int32_t i = 0; i < joint->num_nodes; i++) {
    if (f->nodes[joint->nodes[i]].kind != PTC_FUSE_GEMM) continue;
    if (gemm) return false;
    gemm = joint->ops[i];
  }
  const ptc_type_t *out = gemm->results[0]->type;
  for (int32_t i = 0; i < joint->num_nodes; i++) {
    const ptc_op_t *op = joint->ops[i];
    if (op == gemm) continue;
    if (!is_epilogue_op(op)) return false;
    const ptc_type_t *type = op->results[0]->type;
    const bool stored = is_stored(f, joint, op);
    if (feeds(joint, op, gemm)) {
      const bool a = is_within(f, type, gemm->operands[0]->type) && feeds(joint, op, gemm);
      if (stored || !ptc_op_is_cheap(op) || (!a && !is_within(f, type, gemm->operands[1]->type)))
        return false;
      continue;
    }
    const bool whole = is_within(f, type, out) && is_within(f, out, type);
    if (!whole && (stored || !is_within(f, type, out) || !ptc_op_is_cheap(op))) return false;
  }
  return true;
}

// --- merging

static bool merge(ptc_fuse_block_t *f, int32_t a, int32_t b) {
  ptc_fuse_group_t *x = &f->groups[a], *y = &f->groups[b];
  const bool gemm = x->kind == PTC_FUSE_GEMM || y->kind == PTC_FUSE_GEMM;
  if (a == b || x->kind < PTC_FUSE_NEST || y->kind < PTC_FUSE_NEST) return false;
  if (x->kind == PTC_FUSE_GEMM && y->kind == PTC_FUSE_GEMM) return false;
  const joint_t joint = join(f, a, b);
  ptc_nest_plan_t plan;
  if (gemm ? !is_gemm_group(f, &joint) : !ptc_nest_plan(joint.ops, joint.num_nodes, f->uses, &plan))
    return false;
  if (!fits_params(f, &joint) || !keeps_little(f, a, b, &joint) || ptc_fuse_is_cycle(f, a, b))
    return false;
  // The group keeps the number of the GEMM, or of |a|.
  const int32_t into = y->kind == PTC_FUSE_GEMM ? b : a, from = into == a ? b : a;
  for (int32_t i = 0; i < joint.num_nodes; i++) f->nodes[joint.nodes[i]].group = into;
  f->groups[into].num_nodes = joint.num_nodes;
  f->groups[into].nodes = joint.nodes;
  f->groups[from].num_nodes = 0;
  ptc_fuse_note_merged(f, into);
  return true;
}

// The groups of this block that make operands of |node|, latest first. Returns how many.
static int32_t makers_of(const ptc_fuse_block_t *f, int32_t node, int32_t *out_groups) {
  const ptc_op_t *op = f->nodes[node].op;
  int32_t count = 0;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int32_t maker = ptc_fuse_maker(f, op->operands[i]);
    if (maker < 0 || f->nodes[maker].kind < PTC_FUSE_NEST) continue;
    const int32_t group = f->nodes[maker].group;
    bool known = false;
    for (int32_t j = 0; j < count; j++) known |= out_groups[j] == group;
    if (known) continue;
    int32_t at = count++;
    for (; at > 0 && last_of(&f->groups[out_groups[at - 1]]) < last_of(&f->groups[group]); at--)
      out_groups[at] = out_groups[at - 1];
    out_groups[at] = group;
  }
  return count;
}

// Ops at operands that they do not read at their own position: what makes these is not recomputed there.
static bool reads_shifted(const ptc_op_t *op) {
  return op->opcode == PTC_OP_WINDOW || op->opcode == PTC_OP_CONCAT ||
         op->opcode == PTC_OP_GATHER || op->opcode == PTC_OP_ROPE;
}

// Whether something reads the result of |op| from memory in any case: not all uses are nests of this block.
static bool must_be_stored(const ptc_fuse_block_t *f, const ptc_op_t *op) {
  for (int32_t r = 0; r < op->num_results; r++)
    for (const ptc_use_t *use = ptc_uses_of(f->uses, op->results[r]); use; use = use->next) {
      const int32_t at = use->op->parent == f->block ? holder_of(f, use->op) : -1;
      if (at < 0 || f->nodes[at].kind != PTC_FUSE_NEST) return true;
    }
  return false;
}

// As the epilogue of a GEMM, an op saves a pass over memory only if its operand need not be stored for
// others, or its own result is to be stored anyway.
static bool pays_as_epilogue(const ptc_fuse_block_t *f, int32_t node, int32_t gemm_group) {
  const ptc_op_t *op = f->nodes[node].op;
  if (must_be_stored(f, op)) return true;
  const joint_t joint = join(f, gemm_group, f->nodes[node].group);
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int32_t maker = ptc_fuse_maker(f, op->operands[i]);
    if (maker >= 0 && f->nodes[maker].group == gemm_group &&
        !is_used_outside(f, &joint, op->operands[i]))
      return true;
  }
  return false;
}

// Whether something other than nests of this block reads |value|, or nothing of this block makes it.
static bool is_in_memory(const ptc_fuse_block_t *f, const ptc_value_t *value) {
  const int32_t maker = ptc_fuse_maker(f, value);
  if (maker < 0 || f->nodes[maker].kind < PTC_FUSE_NEST) return true;
  for (const ptc_use_t *use = ptc_uses_of(f->uses, value); use; use = use->next) {
    const int32_t at = use->op->parent == f->block ? holder_of(f, use->op) : -1;
    if (at < 0 || f->nodes[at].kind != PTC_FUSE_NEST) return true;
  }
  return false;
}

// Cheap ops whose large operands are in memory anyway belong to their users: nothing is saved where these
// operands are made.
static bool waits_for_users(const ptc_fuse_block_t *f, int32_t node) {
  const ptc_op_t *op = f->nodes[node].op;
  if (!ptc_op_is_cheap(op) || must_be_stored(f, op)) return false;
  const int64_t size = elements_of(f, op->results[0]);
  for (int32_t i = 0; i < op->num_operands; i++)
    if (elements_of(f, op->operands[i]) * 8 > size && !is_in_memory(f, op->operands[i]))
      return false;
  return true;
}

// Whether |group| makes a large operand of |node|: a small one, such as a statistic of rows, is no reason to run
// where it is made.
static bool makes_much(const ptc_fuse_block_t *f, int32_t group, int32_t node) {
  const ptc_op_t *op = f->nodes[node].op;
  int64_t most = 0, made = 0;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int64_t size = elements_of(f, op->operands[i]);
    const int32_t maker = ptc_fuse_maker(f, op->operands[i]);
    if (size > most) most = size;
    if (maker >= 0 && f->nodes[maker].group == group && size > made) made = size;
  }
  return made * 8 > most;
}

// Whether two dims come in one order in |a| and in the other in |b|.
static bool is_across(const ptc_type_t *a, const ptc_type_t *b) {
  int32_t last = -1;
  for (int32_t i = 0; i < a->num_dims; i++) {
    const int32_t at = ptc_type_find_dim(b, a->dims[i].name);
    if (at < 0 || a->dims[i].extent == 1) continue;
    if (at < last) return true;
    last = at;
  }
  return false;
}

// Whether the points of |node| would be walked across those of |group|.
static bool runs_across(const ptc_fuse_block_t *f, int32_t group, int32_t node) {
  const ptc_type_t *type = f->nodes[node].op->results[0]->type;
  const ptc_fuse_group_t *g = &f->groups[group];
  for (int32_t i = 0; i < g->num_nodes; i++)
    if (is_across(f->nodes[g->nodes[i]].op->results[0]->type, type)) return true;
  return false;
}

static void merge_with_makers(ptc_fuse_block_t *f, int32_t node, bool eager) {
  int32_t makers[64];
  const ptc_op_t *op = f->nodes[node].op;
  if (op->num_operands > 64 || reads_shifted(op) || (!eager && waits_for_users(f, node))) return;
  const int32_t count = makers_of(f, node, makers);
  for (int32_t i = 0; i < count; i++) {
    const ptc_fuse_group_t *g = &f->groups[makers[i]];
    if (g->num_nodes == 0) continue;
    if (!makes_much(f, makers[i], node) && (!eager || runs_across(f, makers[i], node))) continue;
    if (g->kind == PTC_FUSE_GEMM && !eager && !pays_as_epilogue(f, node, makers[i])) continue;
    merge(f, makers[i], f->nodes[node].group);
  }
}

// Groups before this one that read a large operand of |node|.
static void merge_with_readers(ptc_fuse_block_t *f, int32_t node) {
  const ptc_op_t *op = f->nodes[node].op;
  if (reads_shifted(op)) return;
  for (int32_t i = 0; i < op->num_operands; i++) {
    if (elements_of(f, op->operands[i]) < SHARED_ELEMENTS) continue;
    for (const ptc_use_t *use = ptc_uses_of(f->uses, op->operands[i]); use; use = use->next) {
      const int32_t at = use->op->parent == f->block ? holder_of(f, use->op) : -1;
      if (at < 0 || at >= node || f->nodes[at].kind != PTC_FUSE_NEST || reads_shifted(use->op))
        continue;
      const int32_t group = f->nodes[at].group;
      if (f->groups[group].kind == PTC_FUSE_NEST &&
          f->groups[f->nodes[node].group].kind == PTC_FUSE_NEST)
        merge(f, group, f->nodes[node].group);
    }
  }
}

static bool is_scalar_op(const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++)
    if (op->operands[i]->type->num_dims) return false;
  return op->results[0]->type->num_dims == 0;
}

// A kernel of scalars costs its launch: they go together.
static void merge_scalars(ptc_fuse_block_t *f) {
  int32_t into = -1;
  for (int32_t n = 0; n < f->num_nodes; n++) {
    const int32_t group = f->nodes[n].group;
    if (f->nodes[n].kind != PTC_FUSE_NEST || f->groups[group].kind != PTC_FUSE_NEST ||
        group == into)
      continue;
    bool scalar = true;
    for (int32_t i = 0; i < f->groups[group].num_nodes; i++)
      scalar &= is_scalar_op(f->nodes[f->groups[group].nodes[i]].op);
    if (!scalar) continue;
    if (into >= 0) merge(f, into, group);
    into = f->nodes[n].group;
  }
}

static void merge_prologues(ptc_fuse_block_t *f) {
  for (int32_t n = 0; n < f->num_nodes; n++) {
    if (f->nodes[n].kind != PTC_FUSE_GEMM) continue;
    int32_t makers[2];
    const int32_t count = makers_of(f, n, makers);
    for (int32_t i = 0; i < count; i++)
      if (f->groups[makers[i]].kind == PTC_FUSE_NEST) merge(f, makers[i], f->nodes[n].group);
  }
}

void ptc_fuse_merge_groups(ptc_fuse_block_t *f) {
  for (int32_t n = 0; n < f->num_nodes; n++)
    if (f->nodes[n].kind == PTC_FUSE_NEST) merge_with_makers(f, n, false);
  for (int32_t n = 0; n < f->num_nodes; n++)
    if (f->nodes[n].kind == PTC_FUSE_NEST) merge_with_readers(f, n);
  for (int32_t n = 0; n < f->num_nodes; n++)
    if (f->nodes[n].kind == PTC_FUSE_NEST && f->groups[f->nodes[n].group].kind == PTC_FUSE_NEST)
      merge_with_makers(f, n, true);
  merge_prologues(f);
  merge_scalars(f);
}

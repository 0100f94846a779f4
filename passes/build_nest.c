// The loop dims of a nest: the dims of the group's ops by name, in the order grid, columns, rows; and which
// groups can be one nest.
#include <stdlib.h>
#include <string.h>

#include "passes/build_impl.h"

enum {
  ROW_ELEMENTS = 256,
  MAX_CHEAP_OPS = 8,
  SMALL_SUM = 1 << 14,  // elements that are summed to one number as columns
};

// --- what single ops are to a nest

// The dims over which |op| reduces, or NULL.
static const ptc_attr_t *reduced_dims(const ptc_op_t *op) {
  switch (op->opcode) {
    case PTC_OP_REDUCE_SUM:
    case PTC_OP_REDUCE_MAX:
    case PTC_OP_EINSUM:
    case PTC_OP_SOFTMAX:
    case PTC_OP_SOFTMAX_GRAD:
    case PTC_OP_LAYERNORM:
    case PTC_OP_LAYERNORM_GRAD:
    case PTC_OP_RMSNORM:
    case PTC_OP_RMSNORM_GRAD: return ptc_op_attr(op, "over");
    case PTC_OP_ARGMAX:
    case PTC_OP_CROSS_ENTROPY: return ptc_op_attr(op, "dim");
    default: return NULL;
  }
}

static bool reduces_all(const ptc_op_t *op) {
  return op->opcode == PTC_OP_ALL_FINITE;
}

bool ptc_op_reduces(const ptc_op_t *op) {
  const ptc_attr_t *dims = reduced_dims(op);
  return reduces_all(op) || (dims && (dims->kind == PTC_ATTR_DIM || dims->count > 0));
}

// Composites hand on values that vary along what they reduce: those dims are rows.
static bool needs_rows(const ptc_op_t *op) {
  return reduced_dims(op) && op->opcode != PTC_OP_REDUCE_SUM && op->opcode != PTC_OP_REDUCE_MAX &&
         op->opcode != PTC_OP_EINSUM && op->opcode != PTC_OP_ARGMAX;
}

bool ptc_op_is_cheap(const ptc_op_t *op) {
  if (!ptc_op_has_trait(op, PTC_TRAIT_EWISE) && op->opcode != PTC_OP_BROADCAST &&
      op->opcode != PTC_OP_TRANSPOSE)
    return false;
  return !ptc_op_has_trait(op, PTC_TRAIT_COSTLY);
}

// --- dims by name

static int32_t find_name(const ptc_nest_plan_t *plan, const char *name) {
  for (int32_t i = 0; i < plan->num_dims; i++)
    if (plan->name[i] == name) return i;
  return -1;
}

static bool refuse(ptc_nest_plan_t *plan, const char *why) {
  if (!plan->why) plan->why = why;
  return false;
}

static bool add_name(ptc_nest_plan_t *plan, const char *name, int64_t extent) {
  const int32_t found = find_name(plan, name);
  if (found >= 0)
    return plan->extent[found] == extent || refuse(plan, "two dims of one name differ");
  if (plan->num_dims == PTC_KERNEL_MAX_DIMS) return refuse(plan, "it has too many dims");
  plan->name[plan->num_dims] = name;
  plan->extent[plan->num_dims++] = extent;
  return true;
}

static const ptc_mesh_t *mesh_of(const ptc_op_t *op) { return &op->parent->func->module->mesh; }

static bool add_type(ptc_nest_plan_t *plan, const ptc_op_t *op, const ptc_type_t *type) {
  for (int32_t i = 0; i < type->num_dims; i++)
    if (!add_name(plan, type->dims[i].name, ptc_dim_local_extent(mesh_of(op), &type->dims[i])))
      return false;
  return true;
}

// The dims that the loops of |op| run over, in order.
static bool add_op(ptc_nest_plan_t *plan, const ptc_op_t *op) {
  if (op->opcode == PTC_OP_MERGE) {
    const ptc_type_t *x = op->operands[0]->type;
    const ptc_attr_t *dims = ptc_op_attr(op, "dims");
    bool ok = true;
    for (int32_t i = 0; i < x->num_dims; i++) {
      const bool merged = ptc_op_dims_contain(op, "dims", x->dims[i].name);
      if (!merged)
        ok &= add_name(plan, x->dims[i].name, ptc_dim_local_extent(mesh_of(op), &x->dims[i]));
      for (int32_t j = 0; x->dims[i].name == dims->u.dims[0] && j < dims->count; j++) {
        const ptc_dim_t *part = &x->dims[ptc_type_find_dim(x, dims->u.dims[j])];
        ok &= add_name(plan, part->name, ptc_dim_local_extent(mesh_of(op), part));
      }
    }
    return ok;
  }
  const bool einsum = op->opcode == PTC_OP_EINSUM;
  if (op->opcode != PTC_OP_UNSHARD && !reduced_dims(op) && !reduces_all(op))
    return add_type(plan, op, op->results[0]->type);
  if (einsum && !add_type(plan, op, op->results[0]->type)) return false;
  if (!add_type(plan, op, op->operands[0]->type)) return false;
  return (!einsum && op->opcode != PTC_OP_CROSS_ENTROPY) ||
         add_type(plan, op, op->operands[1]->type);
}

static uint32_t mask_of_type(const ptc_nest_plan_t *plan, const ptc_type_t *type) {
  uint32_t mask = 0;
  for (int32_t i = 0; i < type->num_dims; i++) {
    const int32_t at = find_name(plan, type->dims[i].name);
    if (at >= 0) mask |= UINT32_C(1) << at;
  }
  return mask;
}

static uint32_t mask_of_op(const ptc_nest_plan_t *plan, const ptc_op_t *op) {
  ptc_nest_plan_t own = {0};
  uint32_t mask = 0;
  add_op(&own, op);
  for (int32_t i = 0; i < own.num_dims; i++) mask |= UINT32_C(1) << find_name(plan, own.name[i]);
  return mask;
}

// The dims that |op| reduces.
static uint32_t reduced_mask(const ptc_nest_plan_t *plan, const ptc_op_t *op) {
  if (reduces_all(op)) return mask_of_type(plan, op->operands[0]->type);
  const ptc_attr_t *dims = reduced_dims(op);
  uint32_t mask = 0;
  for (int32_t i = 0; dims && i < (dims->kind == PTC_ATTR_DIM ? 1 : dims->count); i++) {
    const int32_t at = find_name(plan, dims->kind == PTC_ATTR_DIM ? dims->u.s : dims->u.dims[i]);
    if (at >= 0) mask |= UINT32_C(1) << at;
  }
  return mask;
}

// --- rows and columns

static int64_t elements(const ptc_op_t *op, const ptc_type_t *type) {
  int64_t n = 1;
  for (int32_t i = 0; i < type->num_dims; i++)
    n *= ptc_dim_local_extent(mesh_of(op), &type->dims[i]);
  return n;
}

// The larger operand of a reduction: the one whose layout decides.
static const ptc_type_t *lead_type(const ptc_op_t *op) {
  const ptc_type_t *lead = op->operands[0]->type;
  if (op->opcode == PTC_OP_EINSUM && elements(op, op->operands[1]->type) > elements(op, lead))
    lead = op->operands[1]->type;
  return lead;
}

// Of a reduction without rows of its own: rows are its dims where the innermost dim of what it reads is
// among them; else its dims are columns, and the dims behind them rows. A sum of few numbers to one is over columns,
// so that it can follow the rows that make them.
static void place_reduction(ptc_nest_plan_t *plan, const ptc_op_t *op) {
  const uint32_t over = reduced_mask(plan, op);
  const ptc_type_t *lead = lead_type(op);
  int32_t inner = -1;
  for (int32_t i = lead->num_dims - 1; i >= 0 && inner < 0; i--)
    if (ptc_dim_local_extent(mesh_of(op), &lead->dims[i]) > 1)
      inner = find_name(plan, lead->dims[i].name);
  plan->row = over;
  plan->col = 0;
  if (inner < 0) return;
  const uint32_t inner_bit = UINT32_C(1) << inner;
  const bool scalar = elements(op, op->results[0]->type) == 1;
  if ((over & inner_bit) && !scalar) return;
  if (scalar && elements(op, lead) > SMALL_SUM) {
    // Rows long enough, the rest columns.
    int64_t length = 1;
    plan->row = 0;
    for (int32_t i = lead->num_dims - 1; i >= 0 && length < ROW_ELEMENTS; i--) {
      const int32_t at = find_name(plan, lead->dims[i].name);
      if (!(over >> at & 1)) break;
      plan->row |= UINT32_C(1) << at;
      length *= plan->extent[at];
    }
    plan->col = over & ~plan->row;
    return;
  }
  plan->col = over;
  plan->row = 0;
  for (int32_t i = lead->num_dims - 1; i >= 0 && !scalar; i--) {
    const int32_t at = find_name(plan, lead->dims[i].name);
    if (at < 0 || (over >> at & 1)) break;
    plan->row |= UINT32_C(1) << at;
  }
}

// Without reductions: rows are the innermost dims, as many as make them long enough; what is stored varies
// over all of them or none.
static void place_rows(ptc_nest_plan_t *plan, ptc_op_t *const *ops, int32_t num_ops) {
  int64_t count = 1;
  for (int32_t i = plan->num_dims - 1; i >= 0 && count < ROW_ELEMENTS; i--) {
    const uint32_t next = plan->row | UINT32_C(1) << i;
    bool whole = true;
    for (int32_t n = 0; n < num_ops; n++) {
      const uint32_t mask = mask_of_op(plan, ops[n]) & next;
      whole &= mask == 0 || mask == next;
    }
    if (!whole && plan->row) return;
    plan->row = next;
    count *= plan->extent[i] ? plan->extent[i] : 1;
  }
}

static bool place(ptc_nest_plan_t *plan, ptc_op_t *const *ops, int32_t num_ops) {
  const ptc_op_t *largest = NULL;
  int64_t most = -1;
  for (int32_t i = 0; i < num_ops; i++) {
    if (!ptc_op_reduces(ops[i])) continue;
    const uint32_t over = reduced_mask(plan, ops[i]);
    if (needs_rows(ops[i])) {
      if (plan->row && plan->row != over) return refuse(plan, "rows over different dims");
      plan->row = over;
      continue;
    }
    const int64_t size = elements(ops[i], lead_type(ops[i]));
    if (size <= most) continue;
    most = size;
    largest = ops[i];
  }
  if (!plan->row && largest) place_reduction(plan, largest);
  if (!plan->row && !plan->col) {
    place_rows(plan, ops, num_ops);
    return true;
  }
  for (int32_t i = 0; i < num_ops; i++) {
    if (!ptc_op_reduces(ops[i])) continue;
    const uint32_t over = reduced_mask(plan, ops[i]);
    if (over == plan->row || over == plan->col || over == (plan->row | plan->col)) continue;
    const uint32_t col = over & ~plan->row;
    if (plan->col || ((over & plan->row) && (over & plan->row) != plan->row))
      return refuse(plan, "reductions over different dims");
    plan->col = col;
  }
  return true;
}

// --- legality of groups

typedef struct legal_s {
  ptc_nest_plan_t *plan;
  ptc_op_t *const *ops;
  int32_t num_ops;
  uint32_t wide, grid;  // dims of more than one position; the grid's
  bool *after_col;      // per op
} legal_t;

static int32_t member_of(const legal_t *l, const ptc_op_t *op) {
  for (int32_t i = 0; i < l->num_ops; i++)
    if (l->ops[i] == op) return i;
  return -1;
}

// Whether |value| depends on a reduction over columns in the group.
static bool is_after_col(const legal_t *l, const ptc_value_t *value) {
  const ptc_op_t *op = value->def;
  if (!op) return false;
  const int32_t at = member_of(l, op);
  if (at >= 0) return l->after_col[at];
  if (!ptc_op_bool(op, "inline") && !ptc_view_is_alias(op)) return false;
  for (int32_t i = 0; i < op->num_operands; i++)
    if (is_after_col(l, op->operands[i])) return true;
  return false;
}

static bool is_used_outside(const legal_t *l, const ptc_use_map_t *uses, const ptc_value_t *value) {
  for (const ptc_use_t *use = ptc_uses_of(uses, value); use; use = use->next)
    if (member_of(l, use->op) < 0) return true;
  return false;
}

// The dims of |mask| with more than one position, in their order. Returns how many.
static int32_t ordered(const ptc_nest_plan_t *plan, uint32_t mask, const char **out_names) {
  int32_t count = 0;
  for (int32_t i = 0; i < plan->num_dims; i++)
    if ((mask >> i & 1) && plan->extent[i] > 1) out_names[count++] = plan->name[i];
  return count;
}

static bool same_order(const ptc_nest_plan_t *a, uint32_t a_mask, const ptc_nest_plan_t *b,
                       uint32_t b_mask) {
  const char *a_names[PTC_KERNEL_MAX_DIMS], *b_names[PTC_KERNEL_MAX_DIMS];
  const int32_t count = ordered(a, a_mask, a_names);
  if (count != ordered(b, b_mask, b_names)) return false;
  for (int32_t i = 0; i < count; i++)
    if (a_names[i] != b_names[i]) return false;
  return true;
}

// Whether |op| sums in the same order as it would alone: results do not depend on what an op is fused with.
static bool keeps_order(const ptc_nest_plan_t *plan, ptc_op_t *op) {
  if (op->opcode == PTC_OP_REDUCE_MAX || op->opcode == PTC_OP_ARGMAX ||
      op->opcode == PTC_OP_ALL_FINITE)
    return true;
  ptc_nest_plan_t own;
  if (!ptc_nest_plan(&op, 1, NULL, &own)) return false;
  const uint32_t over = reduced_mask(plan, op), own_over = reduced_mask(&own, op);
  return same_order(plan, plan->row & over, &own, own.row & own_over) &&
         same_order(plan, plan->col & over, &own, own.col & own_over);
}

static bool check_op(legal_t *l, int32_t at, const ptc_use_map_t *uses) {
  const ptc_nest_plan_t *plan = l->plan;
  ptc_op_t *op = l->ops[at];
  const uint32_t space = mask_of_op(plan, op) & l->wide, over = reduced_mask(plan, op);
  const bool reduces = ptc_op_reduces(op);
  bool after = false;
  for (int32_t i = 0; i < op->num_operands; i++) after |= is_after_col(l, op->operands[i]);
  if (after && (reduces || (mask_of_op(plan, op) & plan->col)))
    return refuse(l->plan, "it varies over columns after their sum");
  l->after_col[at] = after || (reduces && (over & plan->col));
  if (reduces && ((l->grid | plan->col) & ~mask_of_op(plan, op)))
    return refuse(l->plan, "a reduction would be repeated");
  if (reduces && !keeps_order(plan, op)) return refuse(l->plan, "a sum would change its order");
  bool stored = false;
  for (int32_t r = 0; r < op->num_results; r++) {
    if (!is_used_outside(l, uses, op->results[r])) continue;
    stored = true;
    const uint32_t dims = mask_of_type(plan, op->results[r]->type) & l->wide;
    const uint32_t due = l->grid | (l->after_col[at] ? 0 : plan->col & l->wide);
    const uint32_t row = plan->row & l->wide;
    if (due & ~dims) return refuse(l->plan, "a value would be stored many times");
    if ((dims & row) && (dims & row) != row)
      return refuse(l->plan, "a value varies over a part of the rows");
  }
  // What varies over less than the grid is computed again at each of its points.
  if (!stored && !l->after_col[at] && ((l->grid | (plan->col & l->wide)) & ~space)) {
    if (!ptc_op_is_cheap(op)) return refuse(l->plan, "a value would be computed many times");
    l->plan->num_repeated++;
  }
  return true;
}

static bool check_group(ptc_nest_plan_t *plan, ptc_op_t *const *ops, int32_t num_ops,
                        const ptc_use_map_t *uses) {
  legal_t l = {.plan = plan, .ops = ops, .num_ops = num_ops};
  bool whole = false;
  for (int32_t i = 0; i < plan->num_dims; i++)
    if (plan->extent[i] > 1) l.wide |= UINT32_C(1) << i;
  l.grid = l.wide & ~plan->row & ~plan->col;
  // The gradient of logits, the largest value of most programs, takes their bytes: only if nothing else in
  // the kernel goes over them.
  bool logits = false, reduces = false;
  for (int32_t i = 0; i < num_ops; i++) {
    logits |= ops[i]->opcode == PTC_OP_CROSS_ENTROPY_GRAD;
    reduces |= ptc_op_reduces(ops[i]);
  }
  if (logits && reduces) return refuse(plan, "the logits' bytes could not be taken");
  for (int32_t i = 0; i < num_ops; i++) whole |= (mask_of_op(plan, ops[i]) & l.wide) == l.wide;
  if (!whole) return refuse(plan, "the loops are more than any op's");
  l.after_col = ptc_xmalloc((size_t)num_ops * sizeof(bool));
  memset(l.after_col, 0, (size_t)num_ops * sizeof(bool));
  bool ok = true;
  for (int32_t i = 0; i < num_ops && ok; i++) ok = check_op(&l, i, uses);
  free(l.after_col);
  if (ok && plan->num_repeated > MAX_CHEAP_OPS) return refuse(plan, "too much would be repeated");
  return ok;
}

bool ptc_nest_plan(ptc_op_t *const *ops, int32_t num_ops, const ptc_use_map_t *uses,
                   ptc_nest_plan_t *out_plan) {
  // The op with the most work leads: its order of dims is the loops'.
  const ptc_op_t *lead = NULL;
  int64_t most = -1;
  *out_plan = (ptc_nest_plan_t){0};
  for (int32_t i = 0; i < num_ops; i++) {
    ptc_nest_plan_t own = {0};
    if (!add_op(&own, ops[i])) return refuse(out_plan, own.why);
    int64_t size = 1;
    for (int32_t d = 0; d < own.num_dims; d++) size *= own.extent[d];
    if (size <= most) continue;
    most = size;
    lead = ops[i];
  }
  if (!add_op(out_plan, lead)) return false;
  for (int32_t i = 0; i < num_ops; i++)
    if (!add_op(out_plan, ops[i])) return false;
  if (!place(out_plan, ops, num_ops)) return false;
  return num_ops == 1 || !uses || check_group(out_plan, ops, num_ops, uses);
}

ptc_status_t ptc_kbuild_nest_dims(ptc_kbuild_t *b) {
  ptc_nest_plan_t plan;
  if (!ptc_nest_plan(b->ops, b->num_ops, NULL, &plan)) {
    ptc_kbuild_unsupported(b, b->ops[0], plan.why);
    return b->status;
  }
  ptc_kernel_t *kernel = b->kb.kernel;
  for (int32_t part = 0; part < 3; part++)
    for (int32_t i = 0; i < plan.num_dims; i++) {
      const bool in_row = plan.row >> i & 1, in_col = plan.col >> i & 1;
      if (part != (in_row ? 2 : in_col ? 1 : 0)) continue;
      const int32_t loop = ptc_kb_dim(&b->kb, plan.name[i], plan.extent[i]);
      kernel->num_grid += part == 0;
      kernel->num_col += part == 1;
      if (in_row) b->row |= UINT32_C(1) << loop;
      if (in_col) b->col |= UINT32_C(1) << loop;
    }
  return PTC_OK;
}

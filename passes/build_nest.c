// The loop dims of a nest: the dims of the group's ops by name, in the order grid, columns, rows.
#include <inttypes.h>

#include "passes/build_impl.h"

enum { MAX_LOOPS = 2 * PTC_MAX_DIMS, ROW_ELEMENTS = 256 };

typedef struct loops_s {
  int32_t count;
  const char *name[MAX_LOOPS];
  int64_t extent[MAX_LOOPS];
} loops_t;

static int32_t find_loop(const loops_t *loops, const char *name) {
  for (int32_t i = 0; i < loops->count; i++)
    if (loops->name[i] == name) return i;
  return -1;
}

static void add_loop(ptc_kbuild_t *b, loops_t *loops, const char *name, int64_t extent) {
  const int32_t found = find_loop(loops, name);
  if (found >= 0) {
    if (loops->extent[found] != extent)
      ptc_kbuild_unsupported(b, b->ops[0], "two dims of one name have different extents");
    return;
  }
  if (loops->count == MAX_LOOPS) {
    ptc_kbuild_unsupported(b, b->ops[0], "it has too many dims");
    return;
  }
  loops->name[loops->count] = name;
  loops->extent[loops->count++] = extent;
}

static void add_type(ptc_kbuild_t *b, loops_t *loops, const ptc_type_t *type) {
  for (int32_t i = 0; i < type->num_dims; i++)
    add_loop(b, loops, type->dims[i].name, ptc_kbuild_extent(b, &type->dims[i]));
}

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
  return op->opcode == PTC_OP_SQUARE_SUM || op->opcode == PTC_OP_ALL_FINITE;
}

// Composites hand on values that vary along what they reduce: those dims are rows.
static bool needs_rows(const ptc_op_t *op) {
  return reduced_dims(op) && op->opcode != PTC_OP_REDUCE_SUM && op->opcode != PTC_OP_REDUCE_MAX &&
         op->opcode != PTC_OP_EINSUM && op->opcode != PTC_OP_ARGMAX;
}

// The dims that the loops of |op| run over, in order.
static void add_op(ptc_kbuild_t *b, loops_t *loops, const ptc_op_t *op) {
  if (op->opcode == PTC_OP_MERGE) {
    const ptc_type_t *x = op->operands[0]->type;
    const ptc_attr_t *dims = ptc_op_attr(op, "dims");
    for (int32_t i = 0; i < x->num_dims; i++) {
      if (x->dims[i].name == dims->u.dims[0])
        for (int32_t j = 0; j < dims->count; j++) {
          const int32_t at = ptc_type_find_dim(x, dims->u.dims[j]);
          add_loop(b, loops, dims->u.dims[j], ptc_kbuild_extent(b, &x->dims[at]));
        }
      else if (!ptc_op_dims_contain(op, "dims", x->dims[i].name))
        add_loop(b, loops, x->dims[i].name, ptc_kbuild_extent(b, &x->dims[i]));
    }
    return;
  }
  if (op->opcode == PTC_OP_UNSHARD || reduced_dims(op) || reduces_all(op)) {
    if (op->opcode == PTC_OP_EINSUM) add_type(b, loops, op->results[0]->type);
    add_type(b, loops, op->operands[0]->type);
    if (op->opcode == PTC_OP_EINSUM || op->opcode == PTC_OP_CROSS_ENTROPY)
      add_type(b, loops, op->operands[1]->type);
    return;
  }
  add_type(b, loops, op->results[0]->type);
}

static int64_t elements(const ptc_kbuild_t *b, const ptc_type_t *type) {
  int64_t n = 1;
  for (int32_t i = 0; i < type->num_dims; i++) n *= ptc_kbuild_extent(b, &type->dims[i]);
  return n;
}

// The bits of |names| among the loops.
static uint32_t mask_of(const loops_t *loops, const ptc_attr_t *names) {
  uint32_t mask = 0;
  const int32_t count = names->kind == PTC_ATTR_DIM ? 1 : names->count;
  for (int32_t i = 0; i < count; i++) {
    const int32_t at =
        find_loop(loops, names->kind == PTC_ATTR_DIM ? names->u.s : names->u.dims[i]);
    if (at >= 0) mask |= UINT32_C(1) << at;
  }
  return mask;
}

static uint32_t type_mask(const loops_t *loops, const ptc_type_t *type) {
  uint32_t mask = 0;
  for (int32_t i = 0; i < type->num_dims; i++) {
    const int32_t at = find_loop(loops, type->dims[i].name);
    if (at >= 0) mask |= UINT32_C(1) << at;
  }
  return mask;
}

// The larger operand of a reduction: the one whose layout decides.
static const ptc_type_t *lead_type(const ptc_kbuild_t *b, const ptc_op_t *op) {
  const ptc_type_t *lead = op->operands[0]->type;
  if (op->opcode == PTC_OP_EINSUM && elements(b, op->operands[1]->type) > elements(b, lead))
    lead = op->operands[1]->type;
  return lead;
}

// Of a reduction without rows of its own: rows are its dims where the innermost dim of what it reads is
// among them; else its dims are columns, and the dims behind them rows.
static void place_reduction(const ptc_kbuild_t *b, const loops_t *loops, const ptc_op_t *op,
                            uint32_t *out_row, uint32_t *out_col) {
  const uint32_t all = (UINT32_C(1) << loops->count) - 1;
  const ptc_attr_t *dims = reduced_dims(op);
  const uint32_t over = dims ? mask_of(loops, dims) : type_mask(loops, op->operands[0]->type);
  const ptc_type_t *lead = lead_type(b, op);
  int32_t inner = -1;
  for (int32_t i = lead->num_dims - 1; i >= 0 && inner < 0; i--)
    if (ptc_kbuild_extent(b, &lead->dims[i]) > 1) inner = find_loop(loops, lead->dims[i].name);
  *out_row = over;
  *out_col = 0;
  if (inner < 0) return;
  const uint32_t inner_bit = UINT32_C(1) << inner;
  if (over & inner_bit) {
    bool scalar = true;
    for (int32_t i = 0; i < loops->count; i++)
      if (!(over >> i & 1) && loops->extent[i] > 1) scalar = false;
    if (!scalar || over == inner_bit) return;
    *out_row = inner_bit;
    *out_col = over & ~inner_bit;
    return;
  }
  *out_col = over;
  *out_row = 0;
  for (int32_t i = lead->num_dims - 1; i >= 0; i--) {
    const int32_t loop = find_loop(loops, lead->dims[i].name);
    if (loop < 0 || (over >> loop & 1)) break;
    *out_row |= UINT32_C(1) << loop;
  }
  *out_row &= all & ~over;
}

// Without reductions: rows are the innermost dims, as many as make them long enough.
static uint32_t trailing_rows(const loops_t *loops) {
  uint32_t row = 0;
  int64_t count = 1;
  for (int32_t i = loops->count - 1; i >= 0 && count < ROW_ELEMENTS; i--) {
    row |= UINT32_C(1) << i;
    count *= loops->extent[i] ? loops->extent[i] : 1;
  }
  return row;
}

ptc_status_t ptc_kbuild_nest_dims(ptc_kbuild_t *b) {
  // The op with the most work leads: its order of dims is the loops'.
  const ptc_op_t *lead = NULL, *rows = NULL, *reduction = NULL;
  int64_t most = -1;
  for (int32_t i = 0; i < b->num_ops; i++) {
    const ptc_op_t *op = b->ops[i];
    loops_t own = {0};
    add_op(b, &own, op);
    int64_t size = 1;
    for (int32_t d = 0; d < own.count; d++) size *= own.extent[d];
    if (size > most) {
      most = size;
      lead = op;
    }
    if (needs_rows(op) && !rows) rows = op;
    if ((reduced_dims(op) || reduces_all(op)) && !needs_rows(op) && !reduction) reduction = op;
  }
  loops_t loops = {0};
  add_op(b, &loops, lead);
  for (int32_t i = 0; i < b->num_ops; i++) add_op(b, &loops, b->ops[i]);
  PTC_TRY(b->status);
  uint32_t row = 0, col = 0;
  if (rows) {
    row = mask_of(&loops, reduced_dims(rows));
    for (int32_t i = 0; i < b->num_ops; i++) {
      const ptc_attr_t *dims = reduced_dims(b->ops[i]);
      if (dims && (mask_of(&loops, dims) & row) == 0) col = mask_of(&loops, dims);
    }
  } else if (reduction) {
    place_reduction(b, &loops, reduction, &row, &col);
  } else {
    row = trailing_rows(&loops);
  }
  ptc_kernel_t *kernel = b->kb.kernel;
  for (int32_t part = 0; part < 3; part++)
    for (int32_t i = 0; i < loops.count; i++) {
      const bool in_row = row >> i & 1, in_col = col >> i & 1;
      if (part != (in_row ? 2 : in_col ? 1 : 0)) continue;
      if (kernel->num_dims == PTC_KERNEL_MAX_DIMS) {
        ptc_kbuild_unsupported(b, b->ops[0], "it has too many dims");
        return b->status;
      }
      const int32_t loop = ptc_kb_dim(&b->kb, loops.name[i], loops.extent[i]);
      kernel->num_grid += part == 0;
      kernel->num_col += part == 1;
      if (in_row) b->row |= UINT32_C(1) << loop;
      if (in_col) b->col |= UINT32_C(1) << loop;
    }
  return PTC_OK;
}

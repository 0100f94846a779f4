#include "tests/support/kernel_groups.h"

#include <inttypes.h>

#include "ir/op.h"

int32_t kernel_group(ptc_op_t *first, ptc_op_t **out_ops) {
  const int64_t number = ptc_op_int(first, "kernel");
  int32_t count = 0;
  for (ptc_op_t *op = first; op && count < KERNEL_GROUP_OPS; op = op->next) {
    if (!ptc_op_attr(op, "kernel") || ptc_op_int(op, "kernel") != number) break;
    out_ops[count++] = op;
  }
  return count;
}

static int32_t build_block(ptc_diag_t *diag, ptc_block_t *block, ptc_arena_t *arena,
                           ptc_str_t *out) {
  int32_t total = 0;
  for (ptc_op_t *op = block->first; op;) {
    if (op->body) {
      const int32_t inner = build_block(diag, op->body, arena, out);
      if (inner < 0) return -1;
      total += inner;
    }
    if (!ptc_op_attr(op, "kernel")) {
      op = op->next;
      continue;
    }
    ptc_op_t *ops[KERNEL_GROUP_OPS];
    const int32_t count = kernel_group(op, ops);
    const char *name = ptc_arena_printf(arena, "k%" PRId64, ptc_op_int(op, "kernel"));
    ptc_built_kernel_t built;
    if (ptc_build_kernel(diag, arena, name, ops, count, &built) != PTC_OK) return -1;
    if (out) ptc_kernel_print(built.kernel, out);
    if (ptc_kernel_verify(diag, built.kernel) != PTC_OK) return -1;
    total++;
    op = ops[count - 1]->next;
  }
  return total;
}

int32_t kernel_groups_build(ptc_module_t *module, ptc_arena_t *arena, ptc_str_t *out) {
  int32_t total = 0;
  for (ptc_func_t *func = module->funcs; func; func = func->next) {
    const int32_t inner = build_block(module->diag, func->body, arena, out);
    if (inner < 0) return -1;
    total += inner;
  }
  return total;
}

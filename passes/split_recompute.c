// Recomputation every N turns in the parts of a pipeline. Groups of turns that were made before the split would lie
// across cuts; so the repeats are whole until they are divided, and each piece gets groups of its own, counted from its
// first turn. One of N turns or less is one group: between F and B of a micro-batch only what it begins with is kept.
#include <string.h>

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/lr_schedule.h"
#include "passes/recompute_impl.h"
#include "passes/simplify.h"
#include "passes/split_impl.h"

static void clear_place(ptc_op_t *op, void *arg) {
  ptc_module_t *module = arg;
  ptc_attrs_remove(&op->attrs, ptc_module_intern(module, "phase"));
  ptc_attrs_remove(&op->attrs, ptc_module_intern(module, "part"));
  ptc_attrs_remove(&op->attrs, ptc_module_intern(module, "turn_part"));
}

// What stands for a repeat, from |first| to before |end|, is where the repeat was.
static void place_new(const ptc_split_t *split, ptc_op_t *first, const ptc_op_t *end,
                      const ptc_op_t *old) {
  for (ptc_op_t *op = first; op != end; op = op->next) {
    static const char *const names[] = {"phase", "part"};
    for (int i = 0; i < 2; i++)
      ptc_attrs_set_int(split->module, &op->attrs, names[i],
                        ptc_attrs_int(&old->attrs, names[i], 0));
    if (op->body) ptc_block_walk(op->body, clear_place, split->module);
  }
}

ptc_status_t ptc_split_recompute(const ptc_split_t *split, ptc_func_t *func) {
  const ptc_attrs_t *config = &split->module->config;
  ptc_op_t *loop = ptc_split_find_loop(func);
  if (!loop || strcmp(ptc_attrs_string(config, "recompute", "none"), "every") != 0) return PTC_OK;
  const int64_t period = (int64_t)ptc_config_number(split->module, "recompute_every", 1);
  for (ptc_op_t *op = loop->body->first, *next; op; op = next) {
    next = op->next;
    ptc_op_t *forward = op->opcode == PTC_OP_REPEAT ? ptc_recompute_find_forward(op) : NULL;
    if (!forward) continue;
    const ptc_pair_t pair = {split->module, forward, op};
    ptc_op_t *marks[2];
    for (int i = 0; i < 2; i++) {
      ptc_builder_t b = ptc_builder_before(split->module, i ? op : forward);
      marks[i] = ptc_build_constant(&b, PTC_I32, 0)->def;
    }
    const ptc_op_t *after = forward->next;
    PTC_TRY(ptc_recompute_every(&pair, period));
    place_new(split, marks[0], after, forward);
    place_new(split, marks[1], next, op);
    for (int i = 0; i < 2; i++) ptc_op_remove(marks[i]);
  }
  ptc_simplify_dce(split->module);
  return PTC_OK;
}

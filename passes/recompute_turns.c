// Some turns of a repeat compute again, the others save what they need: config recompute_turns lists the former,
// "0:0-4; 0:8-12" (of forward repeat 0 the turns 0 to 3 and 8 to 11). The repeat and its gradient are divided there, with
// bundles and globals, as the stages of a pipeline divide them; then each part is a pair like any other.
#include <inttypes.h>
#include <string.h>

#include "ir/op.h"
#include "ir/text.h"
#include "passes/recompute_impl.h"
#include "passes/split_impl.h"

enum { MAX_REPEATS = 256 };

typedef struct divide_s {
  ptc_pass_ctx_t *ctx;
  ptc_module_t *module;
  ptc_op_t *forward[MAX_REPEATS];
  int32_t num_forward;
} divide_t;

static bool has_turn(const char *list, int32_t repeat, int64_t turn) {
  for (const char *at = list; *at;) {
    int32_t number;
    int64_t from, to;
    int end = 0;
    if (sscanf(at, "%" SCNd32 ":%" SCNd64 "-%" SCNd64 "%n", &number, &from, &to, &end) != 3)
      return false;
    if (number == repeat && turn >= from && turn < to) return true;
    at += end;
    at += strspn(at, "; ");
  }
  return false;
}

// Parts are numbered so that odd ones compute again.
static void set_parts(const divide_t *d, ptc_op_t *op, int32_t repeat, const char *list) {
  const int64_t count = ptc_op_int(op, "count");
  int64_t *parts = PTC_ARENA_ARRAY(&d->ctx->scratch, int64_t, count + 1);
  for (int64_t turn = 0; turn < count; turn++) {
    const int64_t again = has_turn(list, repeat, turn);
    const int64_t before = turn > 0 ? parts[turn - 1] : 0;
    parts[turn] = (before & 1) == again ? before : before + 1;
  }
  ptc_attrs_set_ints(d->module, &op->attrs, "turn_part", parts, (int32_t)count);
}

static ptc_op_t *first_op(const ptc_func_t *func) {
  const ptc_op_t *loop = ptc_split_find_loop(func);
  return (loop ? loop->body : func->body)->first;
}

static bool is_turns(const ptc_op_t *op) {
  return op->opcode == PTC_OP_REPEAT && !ptc_op_string(op, "axis");
}

static ptc_status_t divide(divide_t *d, const char *list) {
  ptc_func_t *train = ptc_module_find_func(d->module, "train");
  d->num_forward = ptc_split_forward_repeats(train, d->forward, MAX_REPEATS);
  for (ptc_op_t *op = first_op(train); op; op = op->next) {
    if (!is_turns(op)) continue;
    int32_t at = -1;
    for (int32_t r = 0; r < d->num_forward; r++)
      if (op == d->forward[r]) at = r;
    if (at < 0 && ptc_op_bool(op, "reverse"))
      at = ptc_split_forward_of(op, d->forward, d->num_forward);
    if (at >= 0) set_parts(d, op, at, list);
  }
  const ptc_split_t split = {.ctx = d->ctx, .module = d->module};
  return ptc_split_turns(&split);
}

// Whether it can be divided: tried on a copy.
static bool can_divide(ptc_pass_ctx_t *ctx, const ptc_module_t *module, const char *list) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_str_t text = {0};
  ptc_module_print(module, false, &text);
  divide_t d = {.ctx = ctx};
  bool ok = ptc_module_parse(&diag, "copy.ptir", text.data, text.len, &d.module) == PTC_OK;
  if (ok) {
    ptc_module_derive_properties(d.module);
    ok = divide(&d, list) == PTC_OK;
    ptc_module_destroy(d.module);
  }
  ptc_str_deinit(&text);
  ptc_diag_deinit(&diag);
  return ok;
}

// Cuts that are given by number are for repeats as they were.
static void renumber_cuts(ptc_module_t *module, const int64_t *counts, int32_t num_before) {
  const char *list = ptc_attrs_string(&module->config, "cut", "");
  ptc_op_t *now[MAX_REPEATS];
  const int32_t num_now =
      ptc_split_forward_repeats(ptc_module_find_func(module, "train"), now, MAX_REPEATS);
  ptc_str_t out = {0};
  for (size_t len; *list; list += len + strspn(list + len, "; ")) {
    len = strcspn(list, "; ");
    int32_t repeat, at = 0;
    int64_t turn;
    ptc_str_append(&out, out.len ? "; " : "");
    if (sscanf(list, "%" SCNd32 ":%" SCNd64, &repeat, &turn) != 2 || repeat >= num_before) {
      ptc_str_append_n(&out, list, len);
      continue;
    }
    for (int32_t r = 0; r < repeat; r++)
      for (int64_t left = counts[r]; left > 0 && at < num_now; at++)
        left -= ptc_op_int(now[at], "count");
    while (at + 1 < num_now && turn > ptc_op_int(now[at], "count"))
      turn -= ptc_op_int(now[at++], "count");
    ptc_str_printf(&out, "%" PRId32 ":%" PRId64, at, turn);
  }
  if (out.len) ptc_attrs_set_string(module, &module->config, "cut", out.data);
  ptc_str_deinit(&out);
}

ptc_status_t ptc_recompute_divide(ptc_pass_ctx_t *ctx, ptc_module_t *module, const char *list) {
  if (!can_divide(ctx, module, list)) {
    ptc_warning(module->diag, (ptc_loc_t){0}, "partial-recompute",
                "the repeats of the model cannot be divided: the plan computes every turn again, "
                "where some would do; it takes longer than predicted, and less memory");
    return PTC_OK;
  }
  divide_t d = {.ctx = ctx, .module = module};
  const ptc_func_t *train = ptc_module_find_func(module, "train");
  int64_t counts[MAX_REPEATS];
  const int32_t num_before = ptc_split_forward_repeats(train, d.forward, MAX_REPEATS);
  for (int32_t r = 0; r < num_before; r++) counts[r] = ptc_op_int(d.forward[r], "count");
  PTC_TRY(divide(&d, list));
  renumber_cuts(module, counts, num_before);
  for (ptc_op_t *op = first_op(train); op; op = op->next) {
    const ptc_attr_t *turns = ptc_attrs_find(&op->attrs, "turn_part");
    const int64_t part =
        turns && turns->count > 0 ? turns->u.ints[0] : ptc_attrs_int(&op->attrs, "part", -1);
    if (!is_turns(op) || part < 0) continue;
    ptc_attrs_remove(&op->attrs, ptc_module_intern(module, "turn_part"));
    ptc_attrs_remove(&op->attrs, ptc_module_intern(module, "part"));
    if (part % 2 == 0) ptc_attrs_set_bool(module, &op->attrs, "keeps", true);
  }
  return PTC_OK;
}

bool ptc_recompute_keeps(const ptc_op_t *repeat) {
  return ptc_attrs_bool(&repeat->attrs, "keeps", false);
}

void ptc_recompute_forget(ptc_module_t *module) {
  const ptc_func_t *train = ptc_module_find_func(module, "train");
  for (ptc_op_t *op = first_op(train); op; op = op->next)
    ptc_attrs_remove(&op->attrs, ptc_module_intern(module, "keeps"));
}

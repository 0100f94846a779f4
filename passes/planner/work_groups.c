// Kernels of a program: those that fuse makes of the program of one device. Which values go through memory follows.
//
// fuse changes the module further (it clones cheap ops, and computes normalized values again); what it made of the
// program's ops is read off the same ops afterwards.
#include "ir/op.h"
#include "passes/build_kernels.h"
#include "passes/planner/work_build_impl.h"

typedef struct list_s {
  PTC_VEC(int32_t) items;
} list_t;

static void add_once(list_t *list, int32_t item) {
  for (int64_t i = 0; i < list->items.len; i++)
    if (list->items.data[i] == item) return;
  PTC_VEC_PUSH(&list->items, item);
}

static int32_t *take(ptc_wbuild_t *b, list_t *list, int32_t *out_num) {
  int32_t *copy = PTC_ARENA_ARRAY(b->arena, int32_t, list->items.len + 1);
  for (int64_t i = 0; i < list->items.len; i++) copy[i] = list->items.data[i];
  *out_num = (int32_t)list->items.len;
  PTC_VEC_FREE(&list->items);
  return copy;
}

typedef struct groups_s {
  ptc_wbuild_t *b;
  ptc_use_map_t uses;
  PTC_VEC(ptc_op_t *) ops;  // all that have a kernel, in order
  list_t *reads, *writes;
  int64_t num_kernels;
} groups_t;

static int64_t kernel_of(const ptc_op_t *op) { return ptc_attrs_int(&op->attrs, "kernel", -1); }

static void note_op(ptc_op_t *op, void *arg) {
  groups_t *g = arg;
  const int64_t kernel = kernel_of(op);
  if (kernel < 0) return;
  PTC_VEC_PUSH(&g->ops, op);
  if (kernel >= g->num_kernels) g->num_kernels = kernel + 1;
}

// What a kernel reads from memory when it uses |value|.
static void note_read(groups_t *g, int64_t kernel, const ptc_value_t *value) {
  const ptc_op_t *def = value->def;
  if (def && kernel_of(def) == kernel) return;
  if (def && ptc_view_is_alias(def)) {
    note_read(g, kernel, def->operands[0]);
    return;
  }
  if (def && ptc_op_bool(def, "inline")) {
    for (int32_t i = 0; i < def->num_operands; i++) note_read(g, kernel, def->operands[i]);
    return;
  }
  const int32_t number = ptc_work_number(g->b, value);
  if (number >= 0) add_once(&g->reads[kernel], number);
}

// Whether an op of another kernel, or control, takes the bytes of |value|.
static bool is_stored(const groups_t *g, int64_t kernel, const ptc_value_t *value) {
  for (const ptc_use_t *use = ptc_uses_of(&g->uses, value); use; use = use->next) {
    if (ptc_view_is_alias(use->op) || ptc_op_bool(use->op, "inline")) {
      for (int32_t i = 0; i < use->op->num_results; i++)
        if (is_stored(g, kernel, use->op->results[i])) return true;
    } else if (kernel_of(use->op) != kernel) {
      return true;
    }
  }
  return false;
}

static void note_memory(groups_t *g) {
  for (int64_t i = 0; i < g->ops.len; i++) {
    const ptc_op_t *op = g->ops.data[i];
    const int64_t kernel = kernel_of(op);
    for (int32_t k = 0; k < op->num_operands; k++) note_read(g, kernel, op->operands[k]);
    for (int32_t r = 0; r < op->num_results; r++) {
      const int32_t number = ptc_work_number(g->b, op->results[r]);
      if (number < 0 || !is_stored(g, kernel, op->results[r])) continue;
      add_once(&g->writes[kernel], number);
      g->b->program->values[number].is_stored = true;
    }
  }
}

// The value whose bytes |value| is; -1: it is none of the program's.
static int32_t number_in_memory(const groups_t *g, const ptc_value_t *value) {
  while (value->def && ptc_view_is_alias(value->def)) value = value->def->operands[0];
  return ptc_work_number(g->b, value);
}

// What the kernel of |ops| may make in place.
static void note_takes(groups_t *g, ptc_op_t *const *ops, int32_t count, ptc_wgroup_t *group) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  ptc_built_kernel_t built;
  const bool ok =
      ptc_build_kernel_by_uses(&diag, &arena, &g->uses, "", ops, count, &built) == PTC_OK;
  const int32_t most = ok ? built.kernel->num_params : 0;
  group->takes = PTC_ARENA_ARRAY(g->b->arena, ptc_wtake_t, most + 1);
  for (int32_t i = 0; i < most; i++) {
    const int32_t place = built.kernel->params[i].in_place;
    if (place < 0) continue;
    const int32_t from = number_in_memory(g, built.values[place]);
    const int32_t to = ptc_work_number(g->b, built.values[i]);
    if (from >= 0 && to >= 0) group->takes[group->num_takes++] = (ptc_wtake_t){from, to};
  }
  ptc_arena_deinit(&arena);
  ptc_diag_deinit(&diag);
}

// The order of kernels, and what each makes in place.
static void note_order(groups_t *g, ptc_wgroup_t *groups, const int32_t *group_of) {
  ptc_op_t *const *ops = g->ops.data;
  for (int64_t i = 0, next; i < g->ops.len; i = next) {
    const int64_t kernel = kernel_of(ops[i]);
    for (next = i; next < g->ops.len && kernel_of(ops[next]) == kernel;) next++;
    if (group_of[kernel] < 0) continue;
    groups[group_of[kernel]].order = (int32_t)i;
    note_takes(g, ops + i, (int32_t)(next - i), &groups[group_of[kernel]]);
  }
}

static bool is_main(const ptc_wop_t *op) { return op->roles != NULL; }

// The collected value that an argument of a reversed repeat's body is; -1.
static int32_t origin_of(const ptc_wprogram_t *p, const ptc_wop_t *forward, int32_t arg) {
  for (int32_t n = 0; n < p->blocks[forward->block].num_ops; n++) {
    const ptc_wrepeat_t *back = p->blocks[forward->block].ops[n].repeat;
    for (int32_t e = 0; back && e < back->num_eaches; e++)
      for (int32_t c = 0; back->eaches[e].arg == arg && c < forward->repeat->num_collects; c++)
        if (forward->repeat->collects[c].result == back->eaches[e].bundle)
          return forward->repeat->collects[c].value;
  }
  return -1;
}

// Of a norm's first result: the gradient beside which fuse computes it again.
static const ptc_wop_t *find_norm_grad(const ptc_wprogram_t *p, const ptc_wop_t *forward,
                                       const ptc_wcollect_t *collect) {
  const ptc_wop_t *norm = p->values[collect->value].def;
  if (!norm || norm->results != collect->value ||
      (norm->opcode != PTC_OP_LAYERNORM && norm->opcode != PTC_OP_RMSNORM))
    return NULL;
  const bool layer = norm->opcode == PTC_OP_LAYERNORM;
  const ptc_opcode_t opcode = layer ? PTC_OP_LAYERNORM_GRAD : PTC_OP_RMSNORM_GRAD;
  for (int32_t b = 0; b < p->num_blocks; b++)
    for (int32_t n = 0; n < p->blocks[b].num_ops; n++) {
      const ptc_wop_t *op = &p->blocks[b].ops[n];
      if (op->opcode == opcode && origin_of(p, forward, op->operands[layer ? 2 : 1]) ==
                                      norm->results + norm->num_results - 1)
        return op;
    }
  return NULL;
}

// Collected values that are still read after fuse has computed some again.
static void note_saved(groups_t *g, ptc_wop_t *op) {
  const ptc_op_t *source = op->source, *yield = source->body->last;
  for (int32_t c = 0; c < op->repeat->num_collects; c++) {
    ptc_wcollect_t *collect = &op->repeat->collects[c];
    for (int32_t i = source->num_carry; i < source->num_results && !collect->is_saved; i++)
      if (ptc_work_number(g->b, yield->operands[i]) == collect->value)
        collect->is_saved = ptc_uses_of(&g->uses, source->results[i]) != NULL;
    g->b->program->values[collect->result].is_stored = collect->is_saved;
    if (!collect->is_saved) collect->norm_grad = find_norm_grad(g->b->program, op, collect);
  }
}

static void collect_ops(groups_t *g, ptc_wop_t ***out_ops, int32_t *counts) {
  const ptc_wprogram_t *p = g->b->program;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t k = 0; k < g->num_kernels; k++) {
      if (pass == 1) out_ops[k] = PTC_ARENA_ARRAY(g->b->arena, ptc_wop_t *, counts[k] + 1);
      counts[k] = pass ? 0 : counts[k];
    }
    for (int32_t i = 0; i < p->num_blocks; i++)
      for (int32_t n = 0; n < p->blocks[i].num_ops; n++) {
        ptc_wop_t *op = &p->blocks[i].ops[n];
        const int64_t kernel = op->repeat ? -1 : kernel_of(op->source);
        if (kernel < 0) continue;
        if (pass) out_ops[kernel][counts[kernel]] = op;
        counts[kernel]++;
      }
  }
}

void ptc_work_find_groups(ptc_wbuild_t *b) {
  ptc_wprogram_t *p = b->program;
  groups_t g = {.b = b};
  ptc_uses_init(&g.uses, b->scratch, b->func->body);
  ptc_block_walk(b->func->body, note_op, &g);
  g.reads = PTC_ARENA_ARRAY(b->scratch, list_t, g.num_kernels + 1);
  g.writes = PTC_ARENA_ARRAY(b->scratch, list_t, g.num_kernels + 1);
  note_memory(&g);
  ptc_wop_t ***ops = PTC_ARENA_ARRAY(b->scratch, ptc_wop_t **, g.num_kernels + 1);
  int32_t *counts = PTC_ARENA_ARRAY(b->scratch, int32_t, g.num_kernels + 1);
  collect_ops(&g, ops, counts);
  p->groups = PTC_ARENA_ARRAY(b->arena, ptc_wgroup_t, g.num_kernels + 1);
  int32_t *group_of = PTC_ARENA_ARRAY(b->scratch, int32_t, g.num_kernels + 1);
  for (int64_t k = 0; k < g.num_kernels; k++) {
    ptc_wgroup_t group = {.ops = ops[k], .num_ops = counts[k]};
    group.reads = take(b, &g.reads[k], &group.num_reads);
    group.writes = take(b, &g.writes[k], &group.num_writes);
    group_of[k] = counts[k] ? p->num_groups : -1;
    if (counts[k] == 0) continue;
    group.main = ops[k][0];
    for (int32_t i = 0; i < counts[k]; i++) {
      ops[k][i]->group = p->num_groups;
      if (!is_main(ops[k][i])) continue;
      group.main = ops[k][i];
      group.num_mains++;
    }
    group.phase = group.main->phase;
    group.piece = group.main->piece;
    p->groups[p->num_groups++] = group;
  }
  note_order(&g, p->groups, group_of);
  for (int32_t i = 0; i < p->num_blocks; i++)
    for (int32_t n = 0; n < p->blocks[i].num_ops; n++)
      if (p->blocks[i].ops[n].repeat) note_saved(&g, &p->blocks[i].ops[n]);
  ptc_uses_deinit(&g.uses);
  PTC_VEC_FREE(&g.ops);
}

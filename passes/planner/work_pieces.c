// The pieces of a model: their names, which of them exist, which parameters each uses.
#include <inttypes.h>
#include <string.h>

#include "passes/planner/work_build_impl.h"

// --- names, while the module is there

// "block" of "block.*.attn.wq": the path of a bundle that the repeat takes; and which turns of that path it has.
static const char *name_of(const ptc_wbuild_t *b, const ptc_op_t *repeat, ptc_work_piece_t *piece) {
  for (int32_t i = repeat->num_carry; i < repeat->num_operands; i++) {
    ptc_value_t *value = repeat->operands[i];
    while (value->def && value->def->num_operands > 0 && value->def->opcode == PTC_OP_CAST)
      value = value->def->operands[0];
    value = ptc_work_source(value);
    while (value->def && value->def->num_operands > 0 && value->def->opcode == PTC_OP_CAST)
      value = ptc_work_source(value->def->operands[0]);
    if (value->def || value->block != b->func->body) continue;
    const char *path = b->func->arg_globals[value->index]->path, *star = strchr(path, '*');
    if (!star || star == path) continue;
    const ptc_global_t *global = b->func->arg_globals[value->index];
    piece->first = global->turn_first[0];
    piece->step = global->turn_step[0];
    return ptc_arena_strndup(b->arena, path, (size_t)(star - path - (star[-1] == '.')));
  }
  return "repeat";
}

void ptc_work_name_pieces(ptc_wbuild_t *b) {
  b->work->num_pieces = 2 * b->num_forward + 1;
  for (int32_t i = 0; i < b->work->num_pieces; i++) {
    ptc_work_piece_t *piece = &b->impl->all_pieces[i];
    *piece = (ptc_work_piece_t){.name = "between", .count = 1, .repeat = -1, .step = 1};
    if (i % 2 == 1) {
      piece->name = name_of(b, b->forward[i / 2], piece);
      piece->count = ptc_op_int(b->forward[i / 2], "count");
      piece->repeat = b->forward_at[i / 2];
    } else if (i == 0) {
      piece->name = b->num_forward ? "begin" : "all";
    } else if (i == 2 * b->num_forward) {
      piece->name = "end";
    }
  }
}

void ptc_work_print_turns(const ptc_work_piece_t *piece, int64_t from, int64_t to, ptc_str_t *out) {
  ptc_str_append(out, piece->name);
  if (piece->count == 1) return;
  ptc_str_printf(out, ".%" PRId64, piece->first + from * piece->step);
  if (to > from) ptc_str_printf(out, "..%" PRId64, piece->first + to * piece->step);
}

// --- which exist

static void visit_ops(const ptc_wprogram_t *p, void (*visit)(ptc_wop_t *op, void *arg), void *arg) {
  for (int32_t i = 0; i < p->num_blocks; i++)
    for (int32_t n = 0; n < p->blocks[i].num_ops; n++) visit(&p->blocks[i].ops[n], arg);
}

static void note_piece(ptc_wop_t *op, void *arg) {
  bool *used = arg;
  if (op->phase != PTC_WORK_STEP && op->group >= 0) used[op->piece] = true;
}

static void set_piece(ptc_wop_t *op, void *arg) { op->piece = ((const int32_t *)arg)[op->piece]; }

// Pieces without kernels go; what is of them (views) belongs to the one before.
static bool drop_empty(ptc_work_t *work) {
  bool used[2 * PTC_WORK_MAX_REPEATS + 1] = {0};
  int32_t to[2 * PTC_WORK_MAX_REPEATS + 1];
  const int32_t all = work->num_pieces;
  visit_ops(&work->impl->programs[0], note_piece, used);
  work->num_pieces = 0;
  for (int32_t i = 0; i < all; i++) {
    if (used[i] || (i + 1 == all && work->num_pieces == 0)) {
      if (work->num_pieces == PTC_MAX_PIECES) return false;
      work->pieces[work->num_pieces++] = work->impl->all_pieces[i];
    }
    to[i] = work->num_pieces ? work->num_pieces - 1 : 0;
  }
  for (int mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
    ptc_wprogram_t *p = &work->impl->programs[mode];
    visit_ops(p, set_piece, to);
    for (int32_t i = 0; i < p->num_groups; i++) p->groups[i].piece = to[p->groups[i].piece];
    for (int32_t i = 0; i < p->num_grads; i++) p->grads[i].piece = to[p->grads[i].piece];
  }
  return true;
}

// --- parameters

typedef struct note_s {
  ptc_work_t *work;
  ptc_wprogram_t *p;
} note_t;

static void note_params(ptc_wop_t *op, void *arg) {
  const note_t *n = arg;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_wvalue_t *v = &n->p->values[op->operands[i]];
    if (v->param < 0) continue;
    ptc_wparam_t *param = &n->work->impl->params[v->param];
    if (op->phase == PTC_WORK_STEP) {
      const ptc_wvalue_t *y = op->num_results ? &n->p->values[op->results] : NULL;
      if (op->opcode == PTC_OP_CAST && y && y->weight && y->is_stored)
        param->copy_bytes = (int32_t)ptc_dtype_bytes((ptc_dtype_t)y->dtype);
    } else if (op->phase == PTC_WORK_FORWARD) {
      param->pieces |= UINT32_C(1) << op->piece;
    }
  }
}

static void place_casts(ptc_wop_t *op, void *arg) {
  const note_t *n = arg;
  if (op->phase != PTC_WORK_STEP || op->repeat || op->num_operands == 0) return;
  const ptc_wvalue_t *v = &n->p->values[op->operands[0]];
  if (v->param >= 0) op->piece = n->work->impl->params[v->param].piece;
}

ptc_status_t ptc_work_finish(ptc_work_t *work, ptc_arena_t *arena, ptc_diag_t *diag) {
  if (!drop_empty(work))
    return ptc_error(diag, (ptc_loc_t){0}, PTC_UNSUPPORTED, "planner-pieces",
                     "the model has more than %d pieces (repeats, and what stands between them)",
                     PTC_MAX_PIECES);
  note_t n = {work, &work->impl->programs[0]};
  visit_ops(n.p, note_params, &n);
  for (int32_t i = 0; i < work->impl->num_params; i++) {
    ptc_wparam_t *param = &work->impl->params[i];
    param->piece = param->pieces ? __builtin_ctz(param->pieces) : 0;
  }
  for (int mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
    n.p = &work->impl->programs[mode];
    visit_ops(n.p, place_casts, &n);
    ptc_work_find_room(work, n.p, arena);
  }
  return PTC_OK;
}

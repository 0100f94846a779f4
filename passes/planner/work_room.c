// The order of a program's kernels, and which values need room between them.
#include <stdlib.h>

#include "ir/base/vec.h"
#include "passes/planner/work_build_impl.h"

static int compare_groups(const void *a, const void *b) {
  const ptc_wgroup_t *x = a, *y = b;
  if (x->piece != y->piece) return x->piece < y->piece ? -1 : 1;
  if (x->phase != y->phase) return x->phase < y->phase ? -1 : 1;
  return x->main < y->main ? -1 : x->main > y->main;
}

// What a gradient's kernel computes again by the way is part of it: the kernel runs whether or not its turn recomputes.
static ptc_work_phase_t phase_of(const ptc_wgroup_t *group) {
  ptc_work_phase_t phase = group->main->phase;
  for (int32_t i = 0; i < group->num_ops && phase == PTC_WORK_AGAIN; i++)
    phase = group->ops[i]->phase;
  return phase;
}

static void sort_groups(ptc_wprogram_t *p) {
  for (int32_t g = 0; g < p->num_groups; g++) {
    p->groups[g].piece = p->groups[g].main->piece;
    p->groups[g].phase = phase_of(&p->groups[g]);
  }
  qsort(p->groups, (size_t)p->num_groups, sizeof(*p->groups), compare_groups);
  for (int32_t g = 0; g < p->num_groups; g++)
    for (int32_t i = 0; i < p->groups[g].num_ops; i++) p->groups[g].ops[i]->group = g;
}

typedef struct room_s {
  ptc_work_t *work;
  ptc_wprogram_t *p;
  ptc_arena_t *arena;
} room_t;

typedef PTC_VEC(int32_t) numbers_t;

static bool is_backward(ptc_work_phase_t phase) {
  return phase == PTC_WORK_BACKWARD || phase == PTC_WORK_WEIGHT || phase == PTC_WORK_AGAIN;
}

static const int32_t *take(ptc_arena_t *arena, numbers_t *list, int32_t *out_num) {
  int32_t *copy = PTC_ARENA_ARRAY(arena, int32_t, list->len + 1);
  for (int64_t i = 0; i < list->len; i++) copy[i] = list->data[i];
  *out_num = (int32_t)list->len;
  PTC_VEC_FREE(list);
  return copy;
}

static void add_once(numbers_t *list, int32_t item) {
  for (int64_t i = 0; i < list->len; i++)
    if (list->data[i] == item) return;
  PTC_VEC_PUSH(list, item);
}

// Outside of repeats: what the backward pass reads of what the forward pass made.
static void find_kept(room_t *r) {
  numbers_t kept[PTC_MAX_PIECES] = {{0}};
  for (int32_t g = 0; g < r->p->num_groups; g++) {
    const ptc_wgroup_t *group = &r->p->groups[g];
    if (!is_backward(group->phase)) continue;
    for (int32_t i = 0; i < group->num_reads; i++) {
      const ptc_wvalue_t *v = &r->p->values[group->reads[i]];
      if (v->block != 1 || !v->def || v->def->phase != PTC_WORK_FORWARD || !v->is_stored) continue;
      add_once(&kept[v->def->repeat ? group->piece : v->def->piece], group->reads[i]);
    }
  }
  for (int32_t i = 0; i < r->work->num_pieces; i++)
    r->p->rooms[i].kept = take(r->arena, &kept[i], &r->p->rooms[i].num_kept);
}

static void see_passed(room_t *r, numbers_t *passed, const ptc_wop_t *op, int32_t number) {
  const ptc_wvalue_t *v = number >= 0 ? &r->p->values[number] : NULL;
  if (!v || !v->def || v->def->wclass == PTC_WCLASS_SEED || v->block != 1 || v->weight ||
      v->def->phase != PTC_WORK_FORWARD || op->phase != PTC_WORK_FORWARD || !v->activation)
    return;
  for (int32_t i = v->def->piece; i < op->piece; i++) add_once(&passed[i], number);
}

// What a piece hands to those after it.
static void find_passed(room_t *r) {
  numbers_t passed[PTC_MAX_PIECES] = {{0}};
  for (int32_t b = 1; b < r->p->num_blocks; b++)
    for (int32_t n = 0; n < r->p->blocks[b].num_ops; n++) {
      const ptc_wop_t *op = &r->p->blocks[b].ops[n];
      for (int32_t i = 0; i < op->num_operands; i++) see_passed(r, passed, op, op->operands[i]);
      for (int32_t i = 0; op->repeat && i < op->repeat->num_carries; i++)
        see_passed(r, passed, op, op->repeat->carries[i].init);
    }
  for (int32_t i = 0; i < r->work->num_pieces; i++)
    r->p->rooms[i].passed = take(r->arena, &passed[i], &r->p->rooms[i].num_passed);
}

static void find_repeats(room_t *r) {
  for (int32_t n = 0; n < r->p->blocks[1].num_ops; n++) {
    const ptc_wop_t *op = &r->p->blocks[1].ops[n];
    if (!op->repeat || op->phase != PTC_WORK_FORWARD) continue;
    ptc_wroom_t *room = &r->p->rooms[op->piece];
    room->repeat = op;
    room->base = INT32_MAX;
    for (int32_t v = 0; v < r->p->num_values; v++)
      if (r->p->values[v].block == op->repeat->body && v < room->base) room->base = v;
  }
}

void ptc_work_find_room(ptc_work_t *work, ptc_wprogram_t *p, ptc_arena_t *arena) {
  room_t r = {.work = work, .p = p, .arena = arena};
  p->rooms = PTC_ARENA_ARRAY(arena, ptc_wroom_t, work->num_pieces + 1);
  sort_groups(p);
  find_repeats(&r);
  find_kept(&r);
  find_passed(&r);
  ptc_work_find_lives(work, p, arena);
  ptc_work_find_saves(work, p, arena);
}

// From where to where values live in memory while the pieces run: all forward passes one after another, then the backward
// passes in the opposite order; a repeat's pass is one turn. Places in a pass are its kernels, in the order of fuse.
#include <stdlib.h>

#include "ir/base/vec.h"
#include "passes/planner/work_build_impl.h"

typedef struct where_s {
  int32_t pass, place;  // pass -1: nowhere
} where_t;

// The kernels of a block and of what it contains.
typedef struct extent_s {
  int32_t pass, from, to;
} extent_t;

typedef PTC_VEC(ptc_wlife_t) life_list_t;

typedef struct lives_s {
  const ptc_wprogram_t *p;
  ptc_arena_t *scratch;
  int32_t num_pieces;
  int32_t *places;                // per pass: how many
  where_t *made, *read, *seen;    // per value: where it is made, first and last read
  const ptc_wcollect_t **saved;   // per value of a forward repeat's body: as the repeat collects it
  int32_t *saved_to;              // of these: the last place of the backward pass that reads it; -1
  int32_t *kept_by;               // per value: the piece that keeps it; -1
  bool *is_bundled;               // per value of another body: it is made where the bundle lies
  bool *is_sum;                   // per value: it becomes part of an accumulator
  int32_t *added;                 // per value: the kernel that adds it to one; -1
  const ptc_wcollect_t **origin;  // per argument of a backward repeat: what it was saved as
  extent_t *extents;              // per block
  life_list_t *out;               // per pass
} lives_t;

static bool is_backward(ptc_work_phase_t phase) {
  return phase == PTC_WORK_BACKWARD || phase == PTC_WORK_WEIGHT || phase == PTC_WORK_AGAIN;
}

static int32_t pass_of(const lives_t *l, int32_t piece, bool back) {
  return back ? 2 * l->num_pieces - 1 - piece : piece;
}

static bool is_before(where_t a, where_t b) {
  return a.pass < b.pass || (a.pass == b.pass && a.place < b.place);
}

static void see(lives_t *l, int32_t value, where_t at) {
  if (value < 0) return;
  if (l->read[value].pass < 0 || is_before(at, l->read[value])) l->read[value] = at;
  if (is_before(l->seen[value], at)) l->seen[value] = at;
}

// --- where kernels run

static int compare_orders(const void *a, const void *b) {
  const ptc_wgroup_t *x = *(ptc_wgroup_t *const *)a, *y = *(ptc_wgroup_t *const *)b;
  return x->order < y->order ? -1 : x->order > y->order;
}

static void widen(lives_t *l, const ptc_wgroup_t *group, where_t at) {
  for (int32_t b = group->main->block; b > 1; b = l->p->blocks[b].parent) {
    extent_t *extent = &l->extents[b];
    if (extent->pass < 0) *extent = (extent_t){at.pass, at.place, at.place};
    if (extent->pass == at.pass) extent->to = at.place;
  }
}

// What stands outside of repeats may run later than its piece: behind all repeats that run before it.
static int32_t pass_in_order(const lives_t *l, const ptc_wgroup_t *group, int32_t latest) {
  const bool back = is_backward(group->phase);
  const int32_t own = pass_of(l, group->piece, back);
  if (group->main->block > 1 || own > latest) return own;
  for (int32_t pass = latest + 1; pass < 2 * l->num_pieces; pass++) {
    const int32_t piece = pass < l->num_pieces ? pass : 2 * l->num_pieces - 1 - pass;
    if ((pass >= l->num_pieces) != back) break;
    if (!l->p->rooms[piece].repeat) return pass;
  }
  return own;
}

static void place_groups(lives_t *l) {
  const int32_t count = l->p->num_groups;
  ptc_wgroup_t **sorted = PTC_ARENA_ARRAY(l->scratch, ptc_wgroup_t *, count + 1);
  int32_t num = 0;
  for (int32_t g = 0; g < count; g++)
    if (l->p->groups[g].phase != PTC_WORK_STEP) sorted[num++] = &l->p->groups[g];
  qsort(sorted, (size_t)num, sizeof(*sorted), compare_orders);
  for (int32_t i = 0, latest = -1; i < num; i++) {
    ptc_wgroup_t *group = sorted[i];
    where_t at = {pass_in_order(l, group, latest), 0};
    if (group->main->block > 1 && at.pass > latest) latest = at.pass;
    at.place = group->place = l->places[at.pass]++;
    group->pass = at.pass;
    widen(l, group, at);
    for (int32_t k = 0; k < group->num_reads; k++) see(l, group->reads[k], at);
    for (int32_t k = 0; k < group->num_writes; k++) l->made[group->writes[k]] = at;
  }
}

// --- what repeats do

static void see_carries(lives_t *l, const ptc_wrepeat_t *r, extent_t e) {
  for (int32_t i = 0; i < r->num_carries; i++) {
    const ptc_wcarry_t *c = &r->carries[i];
    // One place in memory: what it begins with, and the first turn's; the last turn's, and what comes out.
    see(l, c->init, (where_t){e.pass, e.from - 1});
    l->made[c->arg] = (where_t){e.pass, e.from};
    see(l, c->next, (where_t){e.pass, e.to});
    l->made[c->result] = (where_t){e.pass, e.to + 1};
  }
}

static void see_repeat(lives_t *l, const ptc_wop_t *op) {
  const ptc_wrepeat_t *r = op->repeat;
  const extent_t e = l->extents[r->body];
  if (e.pass < 0) return;
  see_carries(l, r, e);
  for (int32_t i = 0; i < r->num_eaches; i++)
    if (!l->p->values[r->eaches[i].bundle].weight)
      see(l, r->eaches[i].bundle, (where_t){e.pass, e.to});
  const bool forward = l->p->rooms[op->piece].repeat == op;
  for (int32_t i = 0; i < r->num_collects; i++) {
    const ptc_wcollect_t *c = &r->collects[i];
    if (forward) {
      if (c->is_saved || c->norm_grad) l->saved[c->value] = c;
    } else {
      l->is_bundled[c->value] = true;
      l->made[c->result] = (where_t){e.pass, e.from};
    }
  }
}

// Where the backward pass is done with what the forward pass saved.
static void see_saved(lives_t *l, const ptc_wop_t *forward) {
  const ptc_wrepeat_t *r = forward->repeat;
  const int32_t pass = pass_of(l, forward->piece, true);
  for (int32_t n = 0; n < l->p->blocks[forward->block].num_ops; n++) {
    const ptc_wrepeat_t *back = l->p->blocks[forward->block].ops[n].repeat;
    if (!back || back == r) continue;
    for (int32_t e = 0; e < back->num_eaches; e++)
      for (int32_t c = 0; c < r->num_collects; c++) {
        const where_t last = l->seen[back->eaches[e].arg];
        if (r->collects[c].result != back->eaches[e].bundle) continue;
        l->origin[back->eaches[e].arg] = &r->collects[c];
        int32_t *to = &l->saved_to[r->collects[c].value];
        if (last.pass == pass && last.place > *to) *to = last.place;
      }
  }
}

static void see_ops(lives_t *l) {
  for (int32_t b = 1; b < l->p->num_blocks; b++)
    for (int32_t n = 0; n < l->p->blocks[b].num_ops; n++) {
      const ptc_wop_t *op = &l->p->blocks[b].ops[n];
      if (op->repeat && op->phase != PTC_WORK_STEP) see_repeat(l, op);
      if (op->wclass == PTC_WCLASS_ACCUMULATE && op->num_operands > 0)
        l->added[op->operands[0]] = op->group;
    }
  for (int32_t i = 0; i < l->num_pieces; i++) {
    const ptc_wroom_t *room = &l->p->rooms[i];
    for (int32_t k = 0; k < room->num_kept; k++) l->kept_by[room->kept[k]] = i;
    if (room->repeat) see_saved(l, room->repeat);
  }
  for (int32_t i = 0; i < l->p->num_grads; i++) l->is_sum[l->p->grads[i].value] = true;
}

// --- lives

static void add(lives_t *l, int32_t pass, ptc_wlife_t life) {
  if (life.from < 0) life.from = 0;
  if (life.to >= l->places[pass]) life.to = l->places[pass] - 1;
  if (life.to < life.from) return;
  life.taken_by = -1;
  PTC_VEC_PUSH(&l->out[pass], life);
}

// From |from| to |to|, through all passes between.
static void add_span(lives_t *l, int32_t value, where_t from, where_t to, ptc_wlife_kind_t kind) {
  for (int32_t pass = from.pass; pass <= to.pass; pass++)
    add(l, pass,
        (ptc_wlife_t){.value = value,
                      .from = pass == from.pass ? from.place : 0,
                      .to = pass == to.pass ? to.place : INT32_MAX,
                      .kind = kind});
}

static void add_saved(lives_t *l, int32_t value) {
  const ptc_wcollect_t *c = l->saved[value];
  const where_t made = l->made[value], last = l->seen[value];
  if (made.pass < 0) return;
  add(l, made.pass,
      (ptc_wlife_t){.value = value,
                    .from = made.place,
                    .to = INT32_MAX,
                    .kind = PTC_WLIFE_SAVED,
                    .collect = c,
                    .to_unsaved = last.pass == made.pass ? last.place : made.place});
  add(l, 2 * l->num_pieces - 1 - made.pass,
      (ptc_wlife_t){.value = value,
                    .to = l->saved_to[value],
                    .kind = PTC_WLIFE_SAVED,
                    .collect = c,
                    .to_unsaved = -1});
}

static void add_kept(lives_t *l, int32_t value) {
  const int32_t pass = l->kept_by[value], back = 2 * l->num_pieces - 1 - pass;
  const where_t made = l->made[value], last = l->seen[value];
  add(l, pass,
      (ptc_wlife_t){.value = value,
                    .from = made.pass == pass ? made.place : 0,
                    .to = INT32_MAX,
                    .kind = PTC_WLIFE_SAVED});
  if (last.pass >= back)
    add(l, back,
        (ptc_wlife_t){.value = value,
                      .to = last.pass == back ? last.place : INT32_MAX,
                      .kind = PTC_WLIFE_SAVED});
}

static void add_value(lives_t *l, int32_t number) {
  const ptc_wvalue_t *value = &l->p->values[number];
  where_t made = l->made[number], last = l->seen[number];
  if (value->weight) {
    if (last.pass >= 0) add_span(l, number, l->read[number], last, PTC_WLIFE_WEIGHT);
    return;
  }
  if (value->is_input || made.pass < 0 || l->is_bundled[number]) return;
  if (l->saved[number]) {
    add_saved(l, number);
  } else if (l->kept_by[number] >= 0) {
    add_kept(l, number);
  } else if (l->is_sum[number] && !l->p->has_micro) {
    return;
  } else {
    if (is_before(last, made)) last = made;
    const ptc_wlife_kind_t kind = last.pass == made.pass ? PTC_WLIFE_TEMP : PTC_WLIFE_SPAN;
    add_span(l, number, made, last, l->is_sum[number] ? PTC_WLIFE_SUM : kind);
  }
}

static void add_gradients(lives_t *l) {
  for (int32_t i = 0; i < l->p->num_grads; i++) {
    const ptc_wgrad_t *grad = &l->p->grads[i];
    const int32_t group = l->added[grad->value];
    where_t at = l->made[grad->value];
    if (at.pass < 0 && group >= 0 && l->p->groups[group].phase != PTC_WORK_STEP)
      at = (where_t){l->p->groups[group].pass, l->p->groups[group].place};
    if (at.pass < 0) continue;
    ptc_wlife_t life = {.value = grad->value,
                        .from = at.place,
                        .to = INT32_MAX,
                        .kind = PTC_WLIFE_GRAD,
                        .each_bytes = grad->bytes};
    add(l, at.pass, life);
    if (l->made[grad->value].pass >= 0) continue;
    // Ranks add gradients up at the end of what makes them: of a turn, or of everything.
    const bool in_turn = l->p->values[grad->value].block > 1;
    life.kind = PTC_WLIFE_WHOLE;
    for (int32_t pass = at.pass; pass < (in_turn ? at.pass + 1 : 2 * l->num_pieces); pass++) {
      add(l, pass, life);
      life.from = 0;
    }
  }
}

// What a kernel makes in the place of what it reads last.
static void note_takes(lives_t *l) {
  for (int32_t g = 0; g < l->p->num_groups; g++) {
    const ptc_wgroup_t *group = &l->p->groups[g];
    if (group->phase == PTC_WORK_STEP) continue;
    const int32_t pass = group->pass;
    for (int32_t t = 0; t < group->num_takes; t++)
      for (int64_t i = 0; i < l->out[pass].len; i++) {
        ptc_wlife_t *life = &l->out[pass].data[i];
        // Of what was saved, the backward pass reads an argument.
        bool same = life->value == group->takes[t].from;
        if (life->kind == PTC_WLIFE_SAVED && life->from == 0 && pass >= l->num_pieces)
          same = same || l->saved_to[life->value] == group->place;
        if (same && life->to == group->place && life->kind < PTC_WLIFE_WEIGHT &&
            life->taken_by < 0) {
          life->taken_by = group->takes[t].to;
          break;
        }
      }
  }
}

// --- between B and W

static void hold(const lives_t *l, life_list_t *held, int32_t number) {
  const ptc_wvalue_t *value = &l->p->values[number];
  if (value->weight || value->is_input || value->num_dims == 0) return;
  if (value->def && (value->def->phase == PTC_WORK_WEIGHT || value->def->phase == PTC_WORK_STEP))
    return;
  const ptc_wcollect_t *c = l->origin[number];
  const int32_t saved = c ? c->value : number;
  for (int64_t i = 0; i < held->len; i++)
    if (held->data[i].value == saved) return;
  PTC_VEC_PUSH(held, ((ptc_wlife_t){.value = saved, .collect = c, .kind = PTC_WLIFE_SAVED}));
}

static void find_held(const lives_t *l, ptc_arena_t *arena) {
  life_list_t *held = PTC_ARENA_ARRAY(l->scratch, life_list_t, l->num_pieces + 1);
  for (int32_t b = 1; b < l->p->num_blocks; b++)
    for (int32_t n = 0; n < l->p->blocks[b].num_ops; n++) {
      const ptc_wop_t *op = &l->p->blocks[b].ops[n];
      for (int32_t i = 0; i < op->num_operands && op->phase == PTC_WORK_WEIGHT; i++)
        hold(l, &held[op->piece], op->operands[i]);
    }
  for (int32_t i = 0; i < l->num_pieces; i++) {
    ptc_wroom_t *room = &l->p->rooms[i];
    ptc_wlife_t *copy = PTC_ARENA_ARRAY(arena, ptc_wlife_t, held[i].len + 1);
    for (int64_t k = 0; k < held[i].len; k++) copy[k] = held[i].data[k];
    room->held = copy;
    room->num_held = (int32_t)held[i].len;
    PTC_VEC_FREE(&held[i]);
  }
}

static void begin(lives_t *l) {
  const int32_t values = l->p->num_values + 1, passes = 2 * l->num_pieces + 1;
  l->places = PTC_ARENA_ARRAY(l->scratch, int32_t, passes);
  l->out = PTC_ARENA_ARRAY(l->scratch, life_list_t, passes);
  l->made = PTC_ARENA_ARRAY(l->scratch, where_t, values);
  l->read = PTC_ARENA_ARRAY(l->scratch, where_t, values);
  l->seen = PTC_ARENA_ARRAY(l->scratch, where_t, values);
  l->saved = PTC_ARENA_ARRAY(l->scratch, const ptc_wcollect_t *, values);
  l->saved_to = PTC_ARENA_ARRAY(l->scratch, int32_t, values);
  l->kept_by = PTC_ARENA_ARRAY(l->scratch, int32_t, values);
  l->is_bundled = PTC_ARENA_ARRAY(l->scratch, bool, values);
  l->is_sum = PTC_ARENA_ARRAY(l->scratch, bool, values);
  l->added = PTC_ARENA_ARRAY(l->scratch, int32_t, values);
  for (int32_t v = 0; v < values; v++) {
    l->made[v] = l->read[v] = l->seen[v] = (where_t){-1, 0};
    l->saved_to[v] = l->kept_by[v] = l->added[v] = -1;
  }
  l->origin = PTC_ARENA_ARRAY(l->scratch, const ptc_wcollect_t *, values);
  l->extents = PTC_ARENA_ARRAY(l->scratch, extent_t, l->p->num_blocks + 1);
  for (int32_t b = 0; b < l->p->num_blocks; b++) l->extents[b].pass = -1;
}

void ptc_work_find_lives(ptc_work_t *work, ptc_wprogram_t *p, ptc_arena_t *arena) {
  ptc_arena_t scratch;
  ptc_arena_init(&scratch);
  lives_t l = {.p = p, .scratch = &scratch, .num_pieces = work->num_pieces};
  begin(&l);
  place_groups(&l);
  see_ops(&l);
  for (int32_t v = 0; v < p->num_values; v++) add_value(&l, v);
  add_gradients(&l);
  note_takes(&l);
  find_held(&l, arena);
  for (int32_t i = 0; i < work->num_pieces; i++)
    for (int back = 0; back < 2; back++) {
      const int32_t pass = pass_of(&l, i, back);
      ptc_wroom_t *room = &p->rooms[i];
      ptc_wlife_t *copy = PTC_ARENA_ARRAY(arena, ptc_wlife_t, l.out[pass].len + 1);
      for (int64_t k = 0; k < l.out[pass].len; k++) copy[k] = l.out[pass].data[k];
      room->lives[back] = copy;
      room->num_lives[back] = (int32_t)l.out[pass].len;
      room->num_places[back] = l.places[pass];
      PTC_VEC_FREE(&l.out[pass]);
    }
  ptc_arena_deinit(&scratch);
}

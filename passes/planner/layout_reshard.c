// From one layout of a value to another: the steps of passes/partition_reshard.c on numbers.
#include <string.h>

#include "passes/planner/layout_impl.h"

typedef struct planner_s {
  const ptc_layout_t *l;
  const ptc_wvalue_t *value;
  ptc_lay_t now;
  const ptc_lay_t *to;
  ptc_lay_step_t *steps;
  int32_t count;
} planner_t;

static void add_step(planner_t *s, ptc_net_kind_t kind, ptc_laid_t axes) {
  if (s->count == PTC_LAY_MAX_STEPS) return;
  ptc_lay_step_t *step = &s->steps[s->count++];
  step->kind = kind;
  step->axes = axes;
  step->by_micro = false;
  for (int32_t d = 0; d < s->value->num_dims; d++) {
    step->buffer[d] = s->now.axes[d];
    step->by_micro |= ptc_laid_by_micro(s->now.axes[d]);
  }
}

// The step that was added last has been taken.
static void end_step(planner_t *s) {
  ptc_lay_step_t *step = &s->steps[s->count - 1];
  step->after = s->now;
  if (step->kind == PTC_NET_ALL_GATHER)
    memcpy(step->buffer, s->now.axes, sizeof(*step->buffer) * (size_t)s->value->num_dims);
}

static void drop(planner_t *s, uint16_t set) {
  s->now.partial &= (uint16_t)~set;
  if (!s->now.partial) s->now.max = false;
}

static ptc_laid_t list_of(uint16_t set) {
  ptc_laid_t axes = 0;
  for (int32_t i = 1; i < PTC_MAX_REFS; i++)
    if (set >> i & 1) axes = ptc_laid_append(axes, (ptc_laid_t)i);
  return axes;
}

static uint16_t due(const planner_t *s) {
  return s->now.partial & s->l->device & (uint16_t)~s->to->partial;
}

static void all_reduce(planner_t *s, uint16_t scattered, bool data) {
  const uint16_t set = due(s) & (uint16_t)~scattered & (data ? s->l->data : (uint16_t)~s->l->data);
  if (!set) return;
  add_step(s, PTC_NET_ALL_REDUCE, list_of(set));
  drop(s, set);
  end_step(s);
}

// The due axes that the dim of the target has inside of those of the value.
static ptc_laid_t find_scattered(const planner_t *s, int32_t d) {
  const ptc_laid_t from = s->now.axes[d], to = s->to->axes[d];
  const int32_t len = ptc_laid_len(from);
  if (ptc_laid_len(to) <= len || !ptc_laid_begins(to, from) || s->now.max) return 0;
  ptc_laid_t out = 0;
  for (int32_t i = len; i < ptc_laid_len(to) && (due(s) >> ptc_laid_at(to, i) & 1); i++)
    out = ptc_laid_append(out, (ptc_laid_t)ptc_laid_at(to, i));
  return out;
}

static void plan_sums(planner_t *s) {
  if (!due(s)) return;
  const bool activation = s->value->activation;
  ptc_laid_t scattered = 0;
  int32_t dim = -1;
  for (int32_t d = 0; d < s->value->num_dims && !scattered; d++) {
    scattered = find_scattered(s, d);
    dim = d;
  }
  if (!activation) all_reduce(s, ptc_laid_set(scattered), false);
  if (scattered) {
    add_step(s, PTC_NET_REDUCE_SCATTER, scattered);
    drop(s, ptc_laid_set(scattered));
    s->now.axes[dim] = ptc_laid_append(s->now.axes[dim], scattered);
    end_step(s);
  }
  if (activation) all_reduce(s, 0, false);
  all_reduce(s, 0, true);
}

static int32_t common_prefix(ptc_laid_t a, ptc_laid_t b) {
  int32_t n = 0;
  while (ptc_laid_at(a, n) && ptc_laid_at(a, n) == ptc_laid_at(b, n) && n < PTC_LAID_MAX - 1) n++;
  return n;
}

// Axes that leave one dim for the inner end of another.
static void plan_moves(planner_t *s) {
  for (int32_t i = 0; i < s->value->num_dims; i++) {
    for (int32_t j = 0; j < s->value->num_dims; j++) {
      const ptc_laid_t from = s->now.axes[i], left = s->to->axes[i];
      const ptc_laid_t into = s->now.axes[j], goal = s->to->axes[j];
      const int32_t keep = common_prefix(from, left), num = ptc_laid_len(from) - keep;
      if (i == j || num == 0 || keep != ptc_laid_len(left) || !ptc_laid_begins(goal, into) ||
          ptc_laid_len(goal) < ptc_laid_len(into) + num)
        continue;
      const ptc_laid_t moved = from >> (4 * keep);
      if (ptc_laid_first(goal >> (4 * ptc_laid_len(into)), num) != moved) continue;
      add_step(s, PTC_NET_ALL_TO_ALL, moved);
      s->now.axes[i] = ptc_laid_first(from, keep);
      s->now.axes[j] = ptc_laid_append(into, moved);
      end_step(s);
    }
  }
}

static uint16_t used_axes(const planner_t *s) {
  uint16_t set = 0;
  for (int32_t d = 0; d < s->value->num_dims; d++) set |= ptc_laid_set(s->now.axes[d]);
  return ptc_lay_overlap(s->l, set);
}

// Parts that can be taken now.
static void plan_shards(planner_t *s) {
  for (int32_t d = 0; d < s->value->num_dims; d++) {
    const ptc_laid_t from = s->now.axes[d], to = s->to->axes[d];
    const int32_t len = ptc_laid_len(from);
    if (ptc_laid_len(to) <= len || !ptc_laid_begins(to, from)) continue;
    const ptc_laid_t more = to >> (4 * len);
    if (ptc_laid_set(more) & used_axes(s)) continue;
    add_step(s, PTC_NUM_NET_KINDS, more);
    s->now.axes[d] = to;
    end_step(s);
  }
}

static void plan_gathers(planner_t *s) {
  for (int32_t d = 0; d < s->value->num_dims; d++) {
    const ptc_laid_t from = s->now.axes[d];
    const int32_t keep = common_prefix(from, s->to->axes[d]);
    if (keep == ptc_laid_len(from)) continue;
    add_step(s, PTC_NET_ALL_GATHER, from >> (4 * keep));
    s->now.axes[d] = ptc_laid_first(from, keep);
    end_step(s);
  }
}

int32_t ptc_lay_plan(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_lay_t *from,
                     const ptc_lay_t *to, ptc_lay_step_t *steps) {
  planner_t s = {.l = l, .value = value, .now = *from, .to = to, .steps = steps};
  plan_sums(&s);
  plan_moves(&s);
  plan_shards(&s);
  plan_gathers(&s);
  plan_shards(&s);
  return s.count == PTC_LAY_MAX_STEPS || !ptc_lay_equal(&s.now, to, value->num_dims) ? -1 : s.count;
}

// --- uses

void ptc_lay_add_net(ptc_layout_t *l, const ptc_lay_net_t *net) {
  if (l->num_nets == l->cap_nets) {
    l->overflow = true;
    return;
  }
  l->nets[l->num_nets] = *net;
  l->nets[l->num_nets++].bytes = ptc_lay_net_bytes(l, net);
}

double ptc_lay_net_bytes(const ptc_layout_t *l, const ptc_lay_net_t *net) {
  const ptc_wvalue_t *value = &l->p->values[net->value];
  if (!net->without) return ptc_lay_elements(l, value, net->buffer) * net->each;
  double elements = 1;
  for (int32_t d = 0; d < value->num_dims; d++) {
    if (net->without >> d & 1) continue;
    const int64_t extent = l->w->dims[l->p->dims[value->dims + d]].extent;
    const int64_t shards = ptc_laid_size(l, net->buffer[d]);
    elements *= (double)((extent + shards - 1) / shards);
  }
  return elements * net->each;
}

// Whether the list that begins at |at| has |to|.
static bool has_lay(const ptc_layout_t *l, int32_t at, const ptc_lay_t *to, int32_t num_dims) {
  for (; at >= 0; at = l->cache[at].next)
    if (ptc_lay_equal(&l->cache[at].lay, to, num_dims)) return true;
  return false;
}

// What is made of |value| once serves all later uses: it stands where the value is made.
static bool is_built(const ptc_layout_t *l, int32_t value, const ptc_lay_t *to) {
  const int32_t num_dims = l->p->values[value].num_dims;
  if (has_lay(l, l->built[value], to, num_dims)) return true;
  // Of a value that is gathered, views are taken of what is gathered: one that came before did so, too.
  return l->gathered[value] >= 0 && ptc_lay_equal(&l->targets[l->gathered[value]], to, num_dims) &&
         has_lay(l, l->viewed[value], to, num_dims);
}

static void note(ptc_layout_t *l, int32_t value, const ptc_lay_t *to, bool of_view) {
  if (l->num_cache == l->cap_cache) {
    l->overflow = true;
    return;
  }
  int32_t *first = of_view ? &l->viewed[value] : &l->built[value];
  l->cache[l->num_cache] = (ptc_lay_built_t){value, *first, of_view, *to};
  *first = l->num_cache++;
}

static void note_built(ptc_layout_t *l, int32_t value, const ptc_lay_t *to) {
  note(l, value, to, false);
  const ptc_wop_t *def = l->p->values[value].def;
  if (def && def->opcode == PTC_OP_RENAME) note(l, def->operands[0], to, true);
}

// The piece, phase and times of a collective for |use|. It stands where the value is made: of one from outside of a
// repeat, before that.
static void place_net(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_wop_t *use,
                      ptc_lay_net_t *net) {
  net->op = use;
  net->phase = use->phase;
  net->piece = use->piece;
  if (value->block > 1) {
    // Executions per turn of the piece's repeat.
    net->times = value->instances * ptc_lay_turns(l, value->block);
    return;
  }
  if (value->def && (use->repeat || use->block > 1)) {
    net->piece = value->def->piece;
    net->phase = value->def->phase;
  }
  if (value->block == 0) net->phase = PTC_WORK_STEP;
  net->times = value->instances / (double)l->work->pieces[net->piece].count;
}

bool ptc_lay_use(ptc_layout_t *l, int32_t number, const ptc_lay_t *to, const ptc_wop_t *use) {
  const ptc_wvalue_t *value = &l->p->values[number];
  ptc_lay_t from;
  ptc_lay_get(l, number, &from);
  if (ptc_lay_equal(&from, to, value->num_dims) || value->zero || is_built(l, number, to))
    return true;
  // Another view of what all_to_all moves.
  const int32_t source =
      value->def && value->def->opcode == PTC_OP_RENAME ? value->def->operands[0] : -1;
  if (source >= 0 && l->gathered[source] >= 0 &&
      ptc_lay_equal(&l->targets[l->gathered[source]], to, value->num_dims)) {
    note(l, number, to, false);
    return ptc_lay_use(l, source, to, use);
  }
  ptc_lay_step_t steps[PTC_LAY_MAX_STEPS];
  const int32_t count = ptc_lay_plan(l, value, &from, to, steps);
  if (count < 0) return false;
  bool shared = true;
  for (int32_t i = 0; i < count; i++) {
    // Equal exchanges of one value are one: canonicalize sees to that.
    if (shared && is_built(l, number, &steps[i].after)) continue;
    shared = false;
    note_built(l, number, &steps[i].after);
    if (steps[i].kind == PTC_NUM_NET_KINDS || ptc_laid_size(l, steps[i].axes) == 1) continue;
    ptc_lay_net_t net = {.kind = steps[i].kind,
                         .axes = steps[i].axes,
                         .by_micro = steps[i].by_micro,
                         .value = number,
                         .each = (double)ptc_dtype_bytes((ptc_dtype_t)value->dtype)};
    memcpy(net.buffer, steps[i].buffer, sizeof(*net.buffer) * (size_t)value->num_dims);
    place_net(l, value, use, &net);
    ptc_lay_add_net(l, &net);
    if (value->def && value->def->group >= 0 && value->def->group == use->group)
      l->waits[use->group] = true;
  }
  return true;
}

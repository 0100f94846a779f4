// Where the pipeline is cut: where `cut` statements say, or so that the slowest part is as fast as it can be.
//
// The pieces between which a cut may lie: the turns of the forward repeats, and what stands before, between and after
// them. A piece costs what its ops do in both directions.
#include <inttypes.h>
#include <string.h>

#include "ir/op.h"
#include "passes/cost.h"
#include "passes/split_impl.h"

enum { MAX_REPEATS = 256 };

typedef struct atom_s {
  ptc_split_cut_t at;  // the cut before it
  double cost;
} atom_t;

typedef struct cuts_s {
  ptc_split_t *split;
  const ptc_func_t *func;
  ptc_op_t *forward[MAX_REPEATS];
  int32_t num_forward;
  atom_t *atoms;
  int32_t num_atoms;
} cuts_t;

// Operations, and bytes moved as the operations that could be done meanwhile.
static double cost_of(const ptc_op_t *op) {
  const double operations_per_byte = 8;
  const ptc_cost_t cost = ptc_op_cost(op);
  double sum = (double)cost.flops +
               operations_per_byte * ((double)cost.bytes_read + (double)cost.bytes_written);
  if (!op->body) return sum;
  sum = 0;
  for (const ptc_op_t *inner = op->body->first; inner; inner = inner->next) sum += cost_of(inner);
  return sum * (double)ptc_op_int(op, "count");
}

static bool is_reversed(const ptc_op_t *op) {
  return op->opcode == PTC_OP_REPEAT && !ptc_op_string(op, "axis") && ptc_op_bool(op, "reverse");
}

// Costs before, between and after the repeats, both ways; and of the turns of each.
static void find_atoms(cuts_t *c, ptc_arena_t *arena) {
  double outside[MAX_REPEATS + 1] = {0}, turns[MAX_REPEATS] = {0};
  bool any[MAX_REPEATS + 1] = {0};
  const ptc_op_t *loop = ptc_split_find_loop(c->func);
  int32_t at = 0;
  int64_t num_turns = 0;
  bool backward = false;
  for (const ptc_op_t *op = loop->body->first; op != loop->body->last; op = op->next) {
    if (at < c->num_forward && op == c->forward[at]) {
      num_turns += ptc_op_int(op, "count");
      turns[at++] += cost_of(op);
    } else if (is_reversed(op)) {
      backward = true;
      if (at > 0) turns[--at] += cost_of(op);
    } else {
      outside[at] += cost_of(op);
      any[at] |= !backward && !ptc_op_has_trait(op, PTC_TRAIT_VIEW);
    }
  }
  c->atoms = PTC_ARENA_ARRAY(arena, atom_t, num_turns + c->num_forward + 1);
  for (int32_t r = 0; r <= c->num_forward; r++) {
    // What stands between two repeats goes with the turns before it or after it: the cut before it is the one after
    // the last turn of the repeat before.
    const ptc_split_cut_t before = {r - 1, r > 0 ? ptc_op_int(c->forward[r - 1], "count") : 0};
    if (any[r]) c->atoms[c->num_atoms++] = (atom_t){before, outside[r]};
    if (r == c->num_forward) break;
    const int64_t count = ptc_op_int(c->forward[r], "count");
    for (int64_t turn = 0; turn < count; turn++)
      c->atoms[c->num_atoms++] = (atom_t){{r, turn}, turns[r] / (double)count};
  }
}

// best[p][i]: the least cost of the slowest part when the first i atoms make p parts.
static void choose(cuts_t *c, ptc_arena_t *arena) {
  const int32_t n = c->num_atoms, parts = c->split->num_parts;
  double *sum = PTC_ARENA_ARRAY(arena, double, n + 1);
  for (int32_t i = 0; i < n; i++) sum[i + 1] = sum[i] + c->atoms[i].cost;
  double *best = PTC_ARENA_ARRAY(arena, double, (int64_t)(parts + 1) * (n + 1));
  int32_t *from = PTC_ARENA_ARRAY(arena, int32_t, (int64_t)(parts + 1) * (n + 1));
  for (int32_t i = 1; i <= n; i++) best[n + 1 + i] = sum[i];
  for (int32_t p = 2; p <= parts; p++)
    for (int32_t i = p; i <= n; i++) {
      double *least = &best[p * (n + 1) + i];
      *least = -1;
      for (int32_t k = p - 1; k < i; k++) {
        const double last = sum[i] - sum[k], before = best[(p - 1) * (n + 1) + k];
        const double slowest = last > before ? last : before;
        if (*least >= 0 && slowest >= *least) continue;
        *least = slowest;
        from[p * (n + 1) + i] = k;
      }
    }
  c->split->num_cuts = parts - 1;
  for (int32_t p = parts, i = n; p > 1; p--) {
    i = from[p * (n + 1) + i];
    c->split->cuts[p - 2] = c->atoms[i].at;
  }
}

// --- cut statements

// The parameter of which |value| is made by elementwise ops: a cast, mostly. NULL: it is of something else.
static const ptc_global_t *param_of(const cuts_t *c, const ptc_value_t *value) {
  while (value->def && value->def->num_operands > 0 &&
         ptc_op_has_trait(value->def, PTC_TRAIT_EWISE))
    value = value->def->operands[0];
  if (value->def || value->block != c->func->body) return NULL;
  const ptc_global_t *global = c->func->arg_globals[value->index];
  return global->kind == PTC_GLOBAL_PARAM && global->type->num_counts > 0 ? global : NULL;
}

// Whether |path| names instance |turn| of |global|.
static bool fits_turn(const ptc_global_t *global, const char *path, int64_t turn) {
  ptc_global_t one = *global;
  ptc_type_t type = *global->type;
  int64_t counts[PTC_MAX_COUNTS];
  memcpy(counts, type.counts, (size_t)type.num_counts * sizeof(*counts));
  counts[0] = 1;
  type.counts = counts;
  one.type = &type;
  one.turn_first[0] += turn * one.turn_step[0];
  return ptc_global_path_fits(&one, path, true);
}

// Whether |repeat| makes several turns of the source at once, of which |global|'s is not the first.
static bool is_inside_turn(const cuts_t *c, const ptc_op_t *repeat, const ptc_global_t *global) {
  const size_t prefix = strcspn(global->path, "*");
  for (int32_t i = repeat->num_carry; i < repeat->num_operands; i++) {
    const ptc_global_t *other = param_of(c, repeat->operands[i]);
    if (other && strncmp(other->path, global->path, prefix + 1) == 0 &&
        other->turn_first[0] < global->turn_first[0])
      return true;
  }
  return false;
}

// The first turn of a repeat that takes a parameter which |path| names: "block.8" is turn 8 of `block`.
static bool find_turn(const cuts_t *c, const char *path, ptc_split_cut_t *out, bool *out_inside) {
  for (int32_t r = 0; r < c->num_forward; r++) {
    const ptc_op_t *repeat = c->forward[r];
    for (int64_t turn = 0; turn < ptc_op_int(repeat, "count"); turn++)
      for (int32_t i = repeat->num_carry; i < repeat->num_operands; i++) {
        const ptc_global_t *global = param_of(c, repeat->operands[i]);
        if (!global || !fits_turn(global, path, turn)) continue;
        *out = (ptc_split_cut_t){r, turn};
        *out_inside = is_inside_turn(c, repeat, global);
        return true;
      }
  }
  return false;
}

bool ptc_split_find_cut(const ptc_func_t *train, const char *path, ptc_split_cut_t *out) {
  cuts_t c = {.func = train};
  c.num_forward = ptc_split_forward_repeats(train, c.forward, MAX_REPEATS);
  bool inside = false;
  return find_turn(&c, path, out, &inside) && !inside;
}

// "1:8": before turn 8 of repeat 1, or after its last one.
static bool find_number(const cuts_t *c, const char *text, ptc_split_cut_t *out) {
  int32_t repeat;
  int64_t turn;
  int end = 0;
  if (sscanf(text, "%" SCNd32 ":%" SCNd64 "%n", &repeat, &turn, &end) != 2 || text[end] != '\0')
    return false;
  if (repeat < 0 || repeat >= c->num_forward || turn < 0 ||
      turn > ptc_op_int(c->forward[repeat], "count"))
    return false;
  *out = (ptc_split_cut_t){repeat, turn};
  return true;
}

static bool is_before(ptc_split_cut_t a, ptc_split_cut_t b) {
  return a.repeat != b.repeat ? a.repeat < b.repeat : a.turn < b.turn;
}

static ptc_status_t read_cuts(cuts_t *c, const char *list) {
  ptc_split_t *split = c->split;
  ptc_diag_t *diag = split->module->diag;
  split->num_cuts = 0;
  while (*list) {
    const size_t len = strcspn(list, "; ");
    char path[256];
    snprintf(path, sizeof(path), "%.*s", (int)len, list);
    list += len + strspn(list + len, "; ");
    ptc_split_cut_t cut;
    bool inside = false;
    if (!find_number(c, path, &cut) && !find_turn(c, path, &cut, &inside))
      return ptc_error(diag, c->func->loc, PTC_INVALID_INPUT, "split-cut",
                       "cut %s: no turn of a repeat is called so", path);
    if (inside)
      return ptc_error(diag, c->func->loc, PTC_UNSUPPORTED, "split-cut",
                       "cut %s: the turn before it and this one are one period of the repeat; cut "
                       "between periods",
                       path);
    if (split->num_cuts == PTC_SPLIT_MAX_PARTS - 1) break;
    if (split->num_cuts > 0 && !is_before(split->cuts[split->num_cuts - 1], cut))
      return ptc_error(diag, c->func->loc, PTC_INVALID_INPUT, "split-cut",
                       "cut %s: cuts must be in the order of the model", path);
    split->cuts[split->num_cuts++] = cut;
  }
  if (split->num_cuts != split->num_parts - 1)
    return ptc_error(diag, c->func->loc, PTC_INVALID_INPUT, "split-cut",
                     "%" PRId32 " cuts make %" PRId32 " parts, but pp (%" PRId32
                     ") times chunks (%" PRId32 ") is %" PRId32,
                     split->num_cuts, split->num_cuts + 1, split->num_stages, split->num_chunks,
                     split->num_parts);
  return PTC_OK;
}

ptc_status_t ptc_split_choose_cuts(ptc_split_t *split, const ptc_func_t *train) {
  cuts_t c = {.split = split, .func = train};
  if (!ptc_split_find_loop(train))
    return ptc_split_unsupported(split, train->body->last, "it has no micro-batches");
  c.num_forward = ptc_split_forward_repeats(train, c.forward, MAX_REPEATS);
  const char *list = ptc_attrs_string(&split->module->config, "cut", NULL);
  if (list && *list) return read_cuts(&c, list);
  find_atoms(&c, &split->ctx->scratch);
  if (c.num_atoms < split->num_parts)
    return ptc_error(split->module->diag, train->loc, PTC_INVALID_INPUT, "split-turns",
                     "%" PRId32
                     " parts of a pipeline were asked for, but the model can be cut into %" PRId32
                     " at most (the turns of its repeats, and what stands around them)",
                     split->num_parts, c.num_atoms);
  choose(&c, &split->ctx->scratch);
  return PTC_OK;
}

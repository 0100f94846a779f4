// partition: which dims of parameters lie on tp.
//
// A list of dim names is laid on tp in all parameters that have them; a parameter takes the first that it has. Each list
// has a cost per step and device, taken from the inferred program: bytes that cross devices, bytes that kernels move,
// operations, and bytes of state. Beginning with the names of the shard statements, the name whose addition at the end
// or whose removal helps most is added or removed, until none helps; ties go to the name that comes first in the
// text. Dims of inputs are no candidates: they lie on dp and cp.
//
// Where the extent of a name has only a part of tp as a divisor (two key heads on tp = 4), it lies on the major part of
// the axis, and a name of the set beside it in some parameter (the groups of query heads) on the minor part.
//
// Config tp_dims, a list of names with spaces between them, takes the place of the search.
#include <math.h>
#include <string.h>

#include "ir/op.h"
#include "passes/cost.h"
#include "passes/partition_impl.h"

// What a byte costs in operations: sent, moved by a kernel, kept. Only the order of magnitude matters.
static const double sent_byte = 200, moved_byte = 20, state_byte = 100;

enum { MAX_CANDIDATES = 32 };

typedef struct search_s {
  ptc_part_t *p;
  const char *names[MAX_CANDIDATES];  // in text order
  int32_t count;
  int32_t chosen[MAX_CANDIDATES], num_chosen;  // indices of names, in order of choice
} search_t;

// --- cost of the inferred program

typedef struct seen_s {
  const ptc_type_t *type;
  struct seen_s *next;
} seen_t;

typedef struct cost_s {
  ptc_part_t *p;
  ptc_map_t seen;  // value -> types to which it was brought already
  double total;
} cost_t;

static double turns_of(const ptc_block_t *block) {
  double turns = 1;
  for (; block->parent_op; block = block->parent_op->parent)
    turns *= (double)ptc_op_int(block->parent_op, "count");
  return turns;
}

static double local_bytes(const ptc_mesh_t *mesh, const ptc_type_t *type) {
  double bytes = (double)ptc_dtype_bytes(type->dtype) * (double)ptc_type_num_instances(type);
  for (int32_t i = 0; i < type->num_dims; i++)
    bytes *= (double)ptc_dim_local_extent(mesh, &type->dims[i]);
  return bytes;
}

static double step_bytes(const ptc_mesh_t *mesh, const ptc_part_step_t *step) {
  const double bytes = local_bytes(mesh, step->before);
  const double group = (double)ptc_axes_size(mesh, step->axes, step->num_axes);
  switch (step->opcode) {
    case PTC_OP_ALL_REDUCE: return 2 * bytes * (group - 1) / group;
    case PTC_OP_ALL_GATHER: return bytes * (group - 1);
    case PTC_OP_SHARD: return 0;
    default: return bytes * (group - 1) / group;
  }
}

static void add_reshard(cost_t *c, const ptc_value_t *value, const ptc_type_t *target) {
  if (ptc_type_equal(value->type, target) || ptc_part_is_zero(value)) return;
  for (seen_t *s = ptc_map_get(&c->seen, value); s; s = s->next)
    if (ptc_type_equal(s->type, target)) return;
  seen_t *entry = PTC_ARENA_NEW(c->p->scratch, seen_t);
  *entry = (seen_t){target, ptc_map_get(&c->seen, value)};
  ptc_map_set(&c->seen, value, entry);
  ptc_part_step_t steps[PTC_PART_MAX_STEPS];
  const int32_t count = ptc_part_plan(c->p, value->type, target, steps);
  const double turns = turns_of(ptc_value_block(value));
  for (int32_t i = 0; i < count; i++)
    c->total += sent_byte * turns * step_bytes(&c->p->module->mesh, &steps[i]);
  if (count < 0) c->total = INFINITY;
}

// Devices that share the op's work: those of all axes on its dims.
static double num_parts(const ptc_part_t *p, const ptc_op_t *op,
                        const ptc_type_t *const *operands) {
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  int32_t count = 0;
  for (int32_t i = 0; i < op->num_operands + op->num_results; i++) {
    const ptc_type_t *type =
        i < op->num_operands ? operands[i] : op->results[i - op->num_operands]->type;
    for (int32_t d = 0; d < type->num_dims; d++)
      for (int32_t a = 0; a < type->dims[d].num_axes && count < PTC_MAX_AXES; a++)
        if (ptc_axis_is_device(type->dims[d].axes[a].axis) &&
            ptc_axes_find(axes, count, type->dims[d].axes[a]) < 0)
          axes[count++] = type->dims[d].axes[a];
  }
  return (double)ptc_axes_size(&p->module->mesh, axes, count);
}

static void add_op(cost_t *c, ptc_op_t *op) {
  ptc_part_t *p = c->p;
  const ptc_type_t **operands =
      PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, op->num_operands + 1);
  const ptc_type_t **results = PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, op->num_results + 1);
  if (!ptc_part_rule(p, op, operands, results)) {
    c->total = INFINITY;
    return;
  }
  for (int32_t i = 0; i < op->num_operands; i++) add_reshard(c, op->operands[i], operands[i]);
  const ptc_cost_t cost = ptc_op_cost(op);
  const double moved = (double)cost.bytes_read + (double)cost.bytes_written;
  c->total +=
      turns_of(op->parent) * ((double)cost.flops + moved_byte * moved) / num_parts(p, op, operands);
}

static void add_block(cost_t *c, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    const int64_t count = op->body ? ptc_op_int(op, "count") : 0;
    for (int32_t i = 0; op->body && i < op->num_operands; i++) {
      const ptc_type_t *type = op->body->args[1 + i]->type;
      if (i >= op->num_carry) type = ptc_type_bundle(c->p->scratch, type, count);
      add_reshard(c, op->operands[i], type);
    }
    if (op->body) add_block(c, op->body);
    for (int32_t i = 0; op->opcode == PTC_OP_YIELD && i < op->num_operands; i++)
      add_reshard(c, op->operands[i], ptc_part_yield_target(c->p, block->parent_op, i));
    for (int32_t i = 0; op->opcode == PTC_OP_RETURN && i < op->num_operands; i++)
      add_reshard(c, op->operands[i], ptc_part_return_target(c->p, op, i));
    if (!op->body && op->opcode != PTC_OP_YIELD && op->opcode != PTC_OP_RETURN) add_op(c, op);
  }
}

// --- a set of names

// Over how many parts of tp the name lies: all, if every extent of it among parameters divides or is long enough to be
// padded, else the greatest common divisor.
static int64_t parts_of(const search_t *s, const char *name) {
  const int64_t tp = s->p->parallel.size[PTC_AXIS_TP];
  int64_t divisor = tp, least = INT64_MAX;
  for (int64_t g = 0; g < s->p->module->num_globals; g++) {
    const ptc_global_t *global = s->p->module->globals[g];
    if (global->kind != PTC_GLOBAL_PARAM) continue;
    const int32_t at = ptc_type_find_dim(global->type, name);
    if (at < 0) continue;
    divisor = ptc_gcd(divisor, global->type->dims[at].extent);
    if (global->type->dims[at].extent < least) least = global->type->dims[at].extent;
  }
  return least / tp >= PTC_PART_MIN_SHARD ? tp : divisor;
}

static bool stand_together(const search_t *s, const char *a, const char *b) {
  for (int64_t g = 0; g < s->p->module->num_globals; g++) {
    const ptc_global_t *global = s->p->module->globals[g];
    if (global->kind == PTC_GLOBAL_PARAM && ptc_type_has_dim(global->type, a) &&
        ptc_type_has_dim(global->type, b))
      return true;
  }
  return false;
}

static void use_set(search_t *s) {
  ptc_part_t *p = s->p;
  const ptc_axis_ref_t tp = p->axis[PTC_AXIS_TP];
  const int64_t size = p->parallel.size[PTC_AXIS_TP];
  p->num_names = 0;
  for (int32_t i = 0; i < s->num_chosen; i++) {
    const char *name = s->names[s->chosen[i]];
    ptc_axis_ref_t ref = tp;
    const int64_t own = parts_of(s, name);
    if (own < size) ref = (ptc_axis_ref_t){tp.axis, 1, own};
    for (int32_t k = 0; k < p->num_names; k++) {
      const ptc_axis_ref_t other = p->named[k];
      if (other.size == 0 || other.pre != 1 || !stand_together(s, name, p->names[k])) continue;
      ref = (ptc_axis_ref_t){tp.axis, other.size, ptc_gcd(size / other.size, own)};
    }
    if (ref.size == 1) continue;
    p->names[p->num_names] = name;
    p->named[p->num_names++] = ref;
  }
}

static double state_bytes(const ptc_part_t *p) {
  double bytes = 0;
  for (int64_t g = 0; g < p->module->num_globals; g++)
    if (p->layouts[g].stored) bytes += local_bytes(&p->module->mesh, p->layouts[g].stored);
  return bytes;
}

static double cost_of_func(ptc_part_t *p, ptc_func_t *func) {
  cost_t cost = {.p = p};
  ptc_part_begin_func(p, func);
  if (ptc_part_infer(p) == PTC_OK)
    add_block(&cost, func->body);
  else
    cost.total = INFINITY;
  ptc_part_end_func(p);
  ptc_map_deinit(&cost.seen);
  return cost.total;
}

// What a step costs a device with the names at hand; infinite if it cannot be split so.
static double cost_of_names(ptc_part_t *p) {
  ptc_diag_t *diag = p->module->diag, scratch;
  ptc_diag_init(&scratch);
  p->module->diag = &scratch;
  double total = 0;
  if (ptc_part_lay_out(p) != PTC_OK) total = INFINITY;
  ptc_func_t *func = ptc_module_find_func(p->module, "train");
  if (!func) func = ptc_module_find_func(p->module, "eval");
  if (func && total == 0) total = state_byte * state_bytes(p) + cost_of_func(p, func);
  p->module->diag = diag;
  ptc_diag_deinit(&scratch);
  return total;
}

static double cost_of_set(search_t *s) {
  use_set(s);
  return cost_of_names(s->p);
}

// --- the search

static bool is_input_dim(const ptc_module_t *module, const char *name) {
  for (int64_t g = 0; g < module->num_globals; g++)
    if (module->globals[g]->kind == PTC_GLOBAL_INPUT &&
        ptc_type_has_dim(module->globals[g]->type, name))
      return true;
  return false;
}

// Whether the path leaves no turn out.
static bool has_all_turns(const char *path) {
  const char *segment, *name;
  size_t len, name_len;
  for (int32_t depth = 0; ptc_path_turn_segment(path, depth, &segment, &len, &name, &name_len);
       depth++)
    if (*segment != '*') return false;
  return true;
}

// What holds for some turns alone says nothing about the others.
static bool is_stated(const ptc_part_t *p, const char *name) {
  const char *list = ptc_attrs_string(&p->module->config, "shard", NULL);
  for (const char *at = list; at && *at;) {
    const size_t len = strcspn(at, ";");
    char path[256], axis[32], dim[128];
    const char *entry = ptc_arena_strndup(p->scratch, at, len);
    at += len + (at[len] == ';');
    if (sscanf(entry, " %255s on %31s over %127s", path, axis, dim) == 3 &&
        strcmp(axis, "tp") == 0 && strcmp(dim, name) == 0 && has_all_turns(path))
      return true;
  }
  return false;
}

static void find_candidates(search_t *s) {
  const ptc_module_t *module = s->p->module;
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_type_t *type = module->globals[g]->type;
    if (module->globals[g]->kind != PTC_GLOBAL_PARAM) continue;
    for (int32_t i = 0; i < type->num_dims; i++) {
      const char *name = type->dims[i].name;
      bool known = false;
      for (int32_t k = 0; k < s->count; k++) known |= s->names[k] == name;
      if (known || s->count == MAX_CANDIDATES || is_input_dim(module, name) ||
          parts_of(s, name) == 1)
        continue;
      if (is_stated(s->p, name)) s->chosen[s->num_chosen++] = s->count;
      s->names[s->count++] = name;
    }
  }
}

static int32_t place_of(const search_t *s, int32_t name) {
  for (int32_t i = 0; i < s->num_chosen; i++)
    if (s->chosen[i] == name) return i;
  return -1;
}

// Adds the name at the end, or removes it.
static void toggle(search_t *s, int32_t name) {
  const int32_t at = place_of(s, name);
  if (at < 0) {
    s->chosen[s->num_chosen++] = name;
    return;
  }
  s->num_chosen--;
  memmove(&s->chosen[at], &s->chosen[at + 1], (size_t)(s->num_chosen - at) * sizeof(*s->chosen));
}

// Adds and removes names, all but |banned| (-1: none), as long as that helps. Returns the cost.
static double improve(search_t *s, int32_t banned) {
  double best = cost_of_set(s);
  for (;;) {
    int32_t move = -1;
    for (int32_t i = 0; i < s->count; i++) {
      if (i == banned) continue;
      search_t next = *s;
      toggle(&next, i);
      const double cost = cost_of_set(&next);
      if (cost >= best) continue;
      best = cost;
      move = i;
    }
    if (move < 0) return best;
    toggle(s, move);
  }
}

// Whether |list|, names with spaces between them, has |name|.
static bool is_listed(const char *list, const char *name) {
  const size_t len = strlen(name);
  for (const char *at = list; *at;) {
    const size_t word = strcspn(at, " ");
    if (word == len && memcmp(at, name, len) == 0) return true;
    at += word + (at[word] == ' ');
  }
  return false;
}

ptc_status_t ptc_part_choose_names(ptc_part_t *p) {
  if (p->parallel.size[PTC_AXIS_TP] == 1) return PTC_OK;
  search_t start = {.p = p};
  find_candidates(&start);
  // The planner has chosen.
  const char *list = ptc_attrs_string(&p->module->config, "tp_dims", NULL);
  if (list) {
    start.num_chosen = 0;
    for (int32_t i = 0; i < start.count; i++)
      if (is_listed(list, start.names[i])) start.chosen[start.num_chosen++] = i;
    use_set(&start);
    return PTC_OK;
  }
  search_t best = start;
  double cost = improve(&best, -1);
  // A name that helps most by itself may stand in the way of several that help more together.
  for (bool again = true; again;) {
    again = false;
    const search_t found = best;
    for (int32_t i = 0; i < found.num_chosen; i++) {
      if (is_stated(p, found.names[found.chosen[i]])) continue;
      search_t other = start;
      const double without = improve(&other, found.chosen[i]);
      if (without >= cost) continue;
      cost = without;
      best = other;
      again = true;
    }
  }
  use_set(&best);
  return PTC_OK;
}

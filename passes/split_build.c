// The functions of a stage that run for one micro-batch, and what runs before them.
//
// An op of the loop goes to the function of its phase and part. What depends on data alone is computed again where it
// is used. A value that another function of the part needs lies in a slot; one that another part needs travels from
// part to part, each of which keeps it in a slot of its own.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/op.h"
#include "passes/rewrite.h"
#include "passes/split_impl.h"
#include "passes/uses.h"

// A value of the loop that belongs to a part.
typedef struct made_s {
  ptc_value_t *value;
  int32_t number, phase, part;
  uint64_t uses[3];      // per phase: the parts that use it
  ptc_global_t **slots;  // per part: where it lies there, or NULL
  struct made_s *next;
} made_t;

typedef struct loop_s {
  ptc_pieces_t *p;
  ptc_arena_t *arena;
  made_t *first, **last;
  int32_t num_made;
} loop_t;

// A function under construction.
typedef struct task_s {
  loop_t *loop;
  ptc_func_t *func;
  int32_t phase, part;
  ptc_map_t map;  // value of the original -> value here
} task_t;

static uint64_t bit(int64_t part) { return (uint64_t)1 << part; }

static int32_t phase_of(const ptc_op_t *op) {
  return (int32_t)ptc_attrs_int(&op->attrs, "phase", PTC_PHASE_F);
}
static int32_t part_of(const ptc_op_t *op) { return (int32_t)ptc_attrs_int(&op->attrs, "part", 0); }

static bool is_here(const ptc_split_t *split, int32_t part) {
  return part % split->num_stages == split->stage;
}

ptc_status_t ptc_split_unsupported(const ptc_split_t *split, const ptc_op_t *op, const char *why) {
  return ptc_error(split->module->diag, op->loc, PTC_UNSUPPORTED, "split-region",
                   "\"%s\" stands where the pipeline is cut: %s", ptc_op_info(op->opcode)->mnemonic,
                   why);
}

static void refuse(ptc_pieces_t *p, const ptc_op_t *op, const char *why) {
  if (p->status == PTC_OK) p->status = ptc_split_unsupported(p->split, op, why);
}

// --- what depends on data alone

typedef struct leaf_check_s {
  const ptc_pieces_t *p;
  bool no_args, data;
} leaf_check_t;

static void check_leaf(ptc_value_t *value, void *arg) {
  leaf_check_t *check = arg;
  check->no_args &= ptc_map_get(&check->p->no_args, value) != NULL;
  check->data &= ptc_map_get(&check->p->data, value) != NULL;
}

static void find_data_in(ptc_pieces_t *p, const ptc_block_t *block, bool in_loop) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op == p->loop) find_data_in(p, op->body, true);
    leaf_check_t check = {p, true, true};
    ptc_visit_uses(op, check_leaf, &check);
    const bool cheap = !op->body && op->opcode != PTC_OP_EINSUM && op->opcode != PTC_OP_ATTENTION &&
                       op->opcode != PTC_OP_SCATTER_ADD &&
                       !ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE);
    if ((in_loop && !cheap) || op == p->loop) continue;
    for (int32_t i = 0; i < op->num_results; i++) {
      if (check.data) ptc_map_set(&p->data, op->results[i], op);
      if (check.no_args && cheap) ptc_map_set(&p->no_args, op->results[i], op);
    }
  }
}

static void find_data(ptc_pieces_t *p) {
  for (int32_t i = 0; i < p->func->body->num_args; i++) {
    const ptc_global_kind_t kind = p->func->arg_globals[i]->kind;
    if (kind != PTC_GLOBAL_PARAM && kind != PTC_GLOBAL_MOMENT)
      ptc_map_set(&p->data, p->func->body->args[i], p);
  }
  find_data_in(p, p->func->body, false);
}

static bool is_data_op(const ptc_pieces_t *p, const ptc_op_t *op) {
  return op->num_results > 0 && ptc_map_get(&p->data, op->results[0]);
}

// --- where the parameters live

typedef struct note_s {
  ptc_home_t *home;
  const ptc_func_t *func;
  ptc_map_t need;  // value before the loop -> the stages that use it
  uint64_t now;
} note_t;

static void add_bits(ptc_map_t *map, const void *key, uint64_t bits) {
  const uint64_t before = (uint64_t)(uintptr_t)ptc_map_get(map, key);
  ptc_map_set(map, key, (void *)(uintptr_t)(before | bits));
}

static uint64_t get_bits(const ptc_map_t *map, const void *key) {
  return (uint64_t)(uintptr_t)ptc_map_get(map, key);
}

static void note_use(ptc_value_t *value, void *arg) {
  note_t *note = arg;
  if (ptc_value_block(value) == note->func->body) add_bits(&note->need, value, note->now);
}

void ptc_split_note_stages(ptc_home_t *home, const ptc_func_t *func) {
  const ptc_op_t *loop = ptc_split_find_loop(func);
  note_t note = {.home = home, .func = func};
  for (const ptc_op_t *op = loop->body->first; op != loop->body->last; op = op->next) {
    note.now = bit(part_of(op) % home->split->num_stages);
    ptc_visit_uses(op, note_use, &note);
  }
  for (const ptc_op_t *op = loop->prev; op; op = op->prev) {
    note.now = 0;
    for (int32_t i = 0; i < op->num_results; i++) note.now |= get_bits(&note.need, op->results[i]);
    if (note.now) ptc_visit_uses(op, note_use, &note);
  }
  for (int32_t i = 0; i < func->body->num_args; i++)
    if (func->arg_globals[i]->kind == PTC_GLOBAL_PARAM)
      add_bits(&home->stages, func->arg_globals[i], get_bits(&note.need, func->body->args[i]));
  ptc_map_deinit(&note.need);
}

static const ptc_global_t *owner_of(const ptc_home_t *home, const ptc_global_t *moment) {
  const char *path = ptc_attrs_string(&moment->attrs, "owner", "");
  const ptc_module_t *module = home->split->module;
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    if (strcmp(global->path, path) == 0 &&
        memcmp(global->turn_first, moment->turn_first, sizeof(global->turn_first)) == 0 &&
        memcmp(global->turn_step, moment->turn_step, sizeof(global->turn_step)) == 0)
      return global;
  }
  return moment;
}

uint64_t ptc_split_stages_of(const ptc_home_t *home, const ptc_global_t *global) {
  const uint64_t all = bit(home->split->num_stages) - 1;
  if (global->kind == PTC_GLOBAL_MOMENT) global = owner_of(home, global);
  if (global->kind != PTC_GLOBAL_PARAM && global->kind != PTC_GLOBAL_MOMENT) return all;
  const uint64_t stages = get_bits(&home->stages, global);
  return stages ? stages : 1;  // one that nothing uses lives on the first stage
}

// --- values and their slots

static made_t *find_made(const ptc_pieces_t *p, const ptc_value_t *value) {
  return ptc_map_get(&p->values, value);
}

ptc_global_t *ptc_split_add_slot(ptc_pieces_t *p, const ptc_value_t *value, const char *what,
                                 int64_t slots) {
  ptc_module_t *module = p->split->module;
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s.%s.%" PRId64, p->prefix, what, p->num_globals++);
  for (int32_t i = 0; i < value->type->num_counts; i++) ptc_str_append(&path, ".*");
  const ptc_loc_t loc = value->def ? value->def->loc : p->func->loc;
  ptc_global_t *global =
      ptc_module_add_global(module, PTC_GLOBAL_SLOT, path.data, value->type, loc);
  if (slots > 0) ptc_attrs_set_int(module, &global->attrs, "slots", slots);
  ptc_str_deinit(&path);
  return global;
}

static void note_made_use(ptc_value_t *value, void *arg) {
  const ptc_op_t *user = ((void **)arg)[1];
  made_t *made = find_made(((void **)arg)[0], value);
  if (made) made->uses[phase_of(user)] |= bit(part_of(user));
}

static void find_values(loop_t *loop) {
  ptc_pieces_t *p = loop->p;
  for (ptc_op_t *op = p->loop->body->first; op != p->loop->body->last; op = op->next) {
    if (is_data_op(p, op)) continue;
    for (int32_t i = 0; i < op->num_results; i++) {
      made_t *made = PTC_ARENA_NEW(loop->arena, made_t);
      *made = (made_t){.value = op->results[i],
                       .number = loop->num_made++,
                       .phase = phase_of(op),
                       .part = part_of(op)};
      made->slots = PTC_ARENA_ARRAY(loop->arena, ptc_global_t *, p->split->num_parts);
      ptc_map_set(&p->values, op->results[i], made);
      *loop->last = made;
      loop->last = &made->next;
    }
    void *arg[2] = {p, op};
    ptc_visit_uses(op, note_made_use, arg);
  }
}

// Parts to the right (forward) or left of where |made| is made, up to the last that uses it: they receive it.
static uint64_t parts_right(const made_t *made) {
  const uint64_t uses = made->uses[0] | made->uses[1] | made->uses[2];
  uint64_t parts = 0;
  for (int32_t q = made->part + 1; q < PTC_SPLIT_MAX_PARTS && uses >> q; q++) parts |= bit(q);
  return parts;
}

static uint64_t parts_left(const made_t *made) {
  const uint64_t uses = made->uses[0] | made->uses[1] | made->uses[2];
  uint64_t parts = 0;
  for (int32_t q = made->part; q-- > 0;) {
    const uint64_t there = bit(q + 1) - 1;
    if (uses & there) parts |= bit(q);
  }
  return parts;
}

static int64_t num_slots(const loop_t *loop, int32_t part) {
  const int32_t stages = loop->p->split->num_stages;
  return ptc_schedule_num_slots(loop->p->schedule, part % stages, part / stages);
}

static void make_slots(loop_t *loop) {
  const ptc_split_t *split = loop->p->split;
  for (made_t *made = loop->first; made; made = made->next) {
    const uint64_t right = parts_right(made), left = parts_left(made);
    if (made->phase != PTC_PHASE_F && right)
      refuse(loop->p, made->value->def, "a gradient is needed by a later part");
    if (made->phase == PTC_PHASE_W && left)
      refuse(loop->p, made->value->def, "a gradient of a parameter is needed by another part");
    uint64_t at = right | left;
    for (int32_t phase = 0; phase < 3; phase++)
      if (phase != made->phase && (made->uses[phase] & bit(made->part))) at |= bit(made->part);
    if (at & ~bit(made->part)) at |= bit(made->part);
    for (int32_t part = 0; part < split->num_parts; part++)
      if ((at & bit(part)) && is_here(split, part))
        made->slots[part] = ptc_split_add_slot(loop->p, made->value, "slot", num_slots(loop, part));
  }
}

// --- operands

static void ensure(task_t *task, ptc_value_t *value);

static void ensure_use(ptc_value_t *value, void *arg) { ensure(arg, value); }

static void clone_here(task_t *task, const ptc_op_t *op) {
  ptc_module_t *module = task->loop->p->split->module;
  ptc_visit_uses(op, ensure_use, task);
  ptc_op_t *copy = ptc_op_clone(module, op, &task->map);
  ptc_attrs_remove(&copy->attrs, ptc_module_intern(module, "part"));
  ptc_attrs_remove(&copy->attrs, ptc_module_intern(module, "phase"));
  ptc_attrs_remove(&copy->attrs, ptc_module_intern(module, "turn_part"));
  ptc_op_insert(copy, task->func->body, NULL);
}

static ptc_value_t *take_global(task_t *task, const ptc_global_t *global) {
  return ptc_func_get_arg(task->func, global);
}

// A value from before the loop: an argument, a constant, or what begin has left.
static ptc_value_t *take_early(task_t *task, ptc_value_t *value) {
  ptc_pieces_t *p = task->loop->p;
  if (!value->def) return take_global(task, p->func->arg_globals[value->index]);
  if (ptc_map_get(&p->no_args, value)) {
    clone_here(task, value->def);
    return ptc_map_get(&task->map, value);
  }
  ptc_global_t *slot = ptc_map_get(&p->step_slots, value);
  if (!slot) {
    slot = ptc_split_add_slot(p, value, "step", 0);
    ptc_map_set(&p->step_slots, value, slot);
    PTC_VEC_PUSH(&p->begin, value);
  }
  return take_global(task, slot);
}

static ptc_value_t *take_carried(task_t *task, const ptc_value_t *arg) {
  ptc_pieces_t *p = task->loop->p;
  const int32_t index = arg->index - 1;
  const ptc_op_t *loop = p->loop;
  if (index < 0 || index >= loop->num_carry) {
    refuse(p, loop, "it uses the number of the micro-batch");
    return NULL;
  }
  const ptc_op_t *def = loop->body->last->operands[index]->def;
  if (!def || !p->accs[index] || phase_of(def) != task->phase || part_of(def) != task->part) {
    refuse(p, loop, "what it carries from one micro-batch to the next is used at two places");
    return NULL;
  }
  return take_global(task, p->accs[index]);
}

static void ensure(task_t *task, ptc_value_t *value) {
  ptc_pieces_t *p = task->loop->p;
  if (p->status != PTC_OK || ptc_map_get(&task->map, value)) return;
  ptc_value_t *here = NULL;
  if (ptc_value_block(value) == p->func->body) {
    here = take_early(task, value);
  } else if (!value->def) {
    here = take_carried(task, value);
  } else if (is_data_op(p, value->def)) {
    clone_here(task, value->def);
    return;
  } else {
    const made_t *made = find_made(p, value);
    if (made && made->slots[task->part])
      here = take_global(task, made->slots[task->part]);
    else
      refuse(p, value->def, "its result is used before it is made");
  }
  if (here) ptc_map_set(&task->map, value, here);
}

// --- tasks

void ptc_stage_func_name(bool train, ptc_work_kind_t kind, int32_t chunk, char out_name[40]) {
  static const char *const names[PTC_NUM_WORK_KINDS] = {"f",      "b",      "w",     "send_f",
                                                        "recv_f", "send_b", "recv_b"};
  const char *prefix = train ? "train" : "eval";
  if (chunk > 0)
    snprintf(out_name, 40, "%s.%s.%" PRId32, prefix, names[kind], chunk);
  else
    snprintf(out_name, 40, "%s.%s", prefix, names[kind]);
}

static void begin_task(task_t *task, ptc_work_kind_t kind) {
  ptc_pieces_t *p = task->loop->p;
  char name[40];
  ptc_stage_func_name(strcmp(p->prefix, "train") == 0, kind, task->part / p->split->num_stages,
                      name);
  task->func = ptc_module_add_func(p->split->module, name, p->func->loc);
  task->func->each_micro = true;
}

static void end_task(task_t *task) {
  if (!ptc_func_return(task->func))
    ptc_op_insert(
        ptc_op_new(task->loop->p->split->module, PTC_OP_RETURN, task->func->loc, NULL, 0, 0),
        task->func->body, NULL);
  ptc_map_deinit(&task->map);
}

static void return_state(task_t *task, const ptc_global_t *global, ptc_value_t *value) {
  ptc_func_add_result(task->func, (ptc_result_t){.kind = PTC_RESULT_STATE, .global = global},
                      value);
}

// Sums and outputs of the loop that |task| makes.
static void return_sums(task_t *task) {
  ptc_pieces_t *p = task->loop->p;
  const ptc_op_t *yield = p->loop->body->last;
  for (int32_t i = 0; i < yield->num_operands && p->status == PTC_OK; i++) {
    ptc_value_t *value = yield->operands[i];
    const ptc_global_t *to =
        i < p->loop->num_carry ? p->accs[i] : p->outputs[i - p->loop->num_carry];
    if (!to || !value->def || phase_of(value->def) != task->phase ||
        part_of(value->def) != task->part)
      continue;
    ensure(task, value);
    return_state(task, to, ptc_map_get(&task->map, value));
  }
}

static void build_compute(loop_t *loop, ptc_phase_t phase, int32_t part) {
  ptc_pieces_t *p = loop->p;
  task_t task = {.loop = loop, .phase = (int32_t)phase, .part = part};
  begin_task(&task, (ptc_work_kind_t)phase);
  for (const ptc_op_t *op = p->loop->body->first; op != p->loop->body->last; op = op->next)
    if (!is_data_op(p, op) && phase_of(op) == task.phase && part_of(op) == part)
      clone_here(&task, op);
  // A return ends the block: what it returns comes first.
  PTC_VEC(const made_t *) kept = {0};
  for (const made_t *made = loop->first; made; made = made->next)
    if (made->phase == task.phase && made->part == part && made->slots[part])
      PTC_VEC_PUSH(&kept, made);
  const ptc_op_t *yield = p->loop->body->last;
  for (int32_t i = 0; i < yield->num_operands; i++)
    if (yield->operands[i]->def && phase_of(yield->operands[i]->def) == task.phase &&
        part_of(yield->operands[i]->def) == part)
      ensure(&task, yield->operands[i]);
  for (int64_t i = 0; i < kept.len && p->status == PTC_OK; i++)
    return_state(&task, kept.data[i]->slots[part], ptc_map_get(&task.map, kept.data[i]->value));
  return_sums(&task);
  PTC_VEC_FREE(&kept);
  end_task(&task);
}

// What crosses the boundary between parts |left| and |left| + 1, to the right if |forward|.
static bool crosses(const made_t *made, int32_t left, bool forward) {
  if (forward) return made->part <= left && (parts_right(made) & bit(left + 1));
  return made->part > left && (parts_left(made) & bit(left));
}

static void build_transfer(loop_t *loop, ptc_work_kind_t kind, int32_t part) {
  ptc_pieces_t *p = loop->p;
  const bool forward = kind == PTC_WORK_SEND_F || kind == PTC_WORK_RECV_F;
  const bool sends = kind == PTC_WORK_SEND_F || kind == PTC_WORK_SEND_B;
  const int32_t left = forward == sends ? part : part - 1;
  const int32_t other = forward == sends ? part + 1 : part - 1;
  if (other < 0 || other >= p->split->num_parts || p->status != PTC_OK) return;
  ptc_module_t *module = p->split->module;
  task_t task = {.loop = loop, .part = part};
  begin_task(&task, kind);
  PTC_VEC(const made_t *) received = {0};
  PTC_VEC(ptc_value_t *) values = {0};
  for (const made_t *made = loop->first; made; made = made->next) {
    if (!crosses(made, left, forward)) continue;
    ptc_value_t *x = sends ? take_global(&task, made->slots[part]) : NULL;
    ptc_op_t *op = ptc_op_new(module, sends ? PTC_OP_SEND : PTC_OP_RECV, made->value->def->loc, &x,
                              sends ? 1 : 0, sends ? 0 : 1);
    ptc_attrs_set_int(module, &op->attrs, sends ? "to" : "from", other % p->split->num_stages);
    // One number per value, boundary and direction; those of the functions after the loop are odd.
    const int64_t where = (made->number * PTC_SPLIT_MAX_PARTS + left) * 2 + forward;
    ptc_attrs_set_int(module, &op->attrs, "tag", (where * 2 + (p->schedule == p->split->eval)) * 2);
    ptc_op_insert(op, task.func->body, NULL);
    if (sends) continue;
    op->results[0]->type = made->value->type;
    op->results[0]->name = made->value->name;
    PTC_VEC_PUSH(&received, made);
    PTC_VEC_PUSH(&values, op->results[0]);
  }
  for (int64_t i = 0; i < received.len; i++)
    return_state(&task, received.data[i]->slots[part], values.data[i]);
  PTC_VEC_FREE(&received);
  PTC_VEC_FREE(&values);
  end_task(&task);
}

// --- before the loop

static void clone_early(ptc_pieces_t *p, ptc_func_t *func, ptc_map_t *map, ptc_value_t *value);

typedef struct early_s {
  ptc_pieces_t *p;
  ptc_func_t *func;
  ptc_map_t *map;
} early_t;

static void clone_early_use(ptc_value_t *value, void *arg) {
  const early_t *early = arg;
  clone_early(early->p, early->func, early->map, value);
}

static void clone_early(ptc_pieces_t *p, ptc_func_t *func, ptc_map_t *map, ptc_value_t *value) {
  if (ptc_map_get(map, value)) return;
  if (!value->def) {
    ptc_map_set(map, value, ptc_func_get_arg(func, p->func->arg_globals[value->index]));
    return;
  }
  early_t early = {p, func, map};
  ptc_visit_uses(value->def, clone_early_use, &early);
  ptc_op_insert(ptc_op_clone(p->split->module, value->def, map), func->body, NULL);
}

static void build_begin(ptc_pieces_t *p) {
  char name[40];
  snprintf(name, sizeof(name), "%s.begin", p->prefix);
  ptc_func_t *func = ptc_module_add_func(p->split->module, name, p->func->loc);
  ptc_map_t map = {0};
  for (int64_t i = 0; i < p->begin.len; i++) clone_early(p, func, &map, p->begin.data[i]);
  for (int32_t i = 0; i < p->loop->num_carry; i++)
    if (p->accs[i]) clone_early(p, func, &map, p->loop->operands[i]);
  task_t task = {.func = func};
  for (int64_t i = 0; i < p->begin.len; i++)
    return_state(&task, ptc_map_get(&p->step_slots, p->begin.data[i]),
                 ptc_map_get(&map, p->begin.data[i]));
  for (int32_t i = 0; i < p->loop->num_carry; i++)
    if (p->accs[i]) return_state(&task, p->accs[i], ptc_map_get(&map, p->loop->operands[i]));
  if (!ptc_func_return(func))
    ptc_op_insert(ptc_op_new(p->split->module, PTC_OP_RETURN, func->loc, NULL, 0, 0), func->body,
                  NULL);
  ptc_map_deinit(&map);
}

// --- all of it

int32_t ptc_split_part_of_carry(const ptc_pieces_t *p, int32_t index) {
  const ptc_op_t *def = p->loop->body->last->operands[index]->def;
  return def && def->parent == p->loop->body ? part_of(def) : -1;
}

static void make_sums(ptc_pieces_t *p) {
  const ptc_op_t *loop = p->loop, *yield = loop->body->last;
  ptc_arena_t *scratch = &p->split->ctx->scratch;
  p->accs = PTC_ARENA_ARRAY(scratch, ptc_global_t *, loop->num_results + 1);
  p->outputs = PTC_ARENA_ARRAY(scratch, ptc_global_t *, loop->num_results + 1);
  for (int32_t i = 0; i < loop->num_results; i++) {
    const int32_t part = ptc_split_part_of_carry(p, i);
    if (part < 0) {
      refuse(p, loop, "it hands on a value that it does not make");
      return;
    }
    if (!is_here(p->split, part)) continue;
    if (i < loop->num_carry)
      p->accs[i] = ptc_split_add_slot(p, loop->operands[i], "sum", 0);
    else
      p->outputs[i - loop->num_carry] =
          ptc_split_add_slot(p, yield->operands[i], "output", ptc_op_int(loop, "count"));
    if (i < loop->num_carry && phase_of(yield->operands[i]->def) != PTC_PHASE_F)
      ptc_attrs_set_bool(p->split->module, &p->accs[i]->attrs, "grad", true);
  }
}

ptc_status_t ptc_split_build_loop(ptc_pieces_t *p) {
  loop_t loop = {.p = p, .arena = &p->split->ctx->scratch};
  loop.last = &loop.first;
  const bool train = p->schedule == p->split->train;
  find_data(p);
  find_values(&loop);
  make_slots(&loop);
  make_sums(p);
  for (int32_t part = 0; part < p->split->num_parts && p->status == PTC_OK; part++) {
    if (!is_here(p->split, part)) continue;
    build_transfer(&loop, PTC_WORK_RECV_F, part);
    build_compute(&loop, PTC_PHASE_F, part);
    build_transfer(&loop, PTC_WORK_SEND_F, part);
    if (!train) continue;
    build_transfer(&loop, PTC_WORK_RECV_B, part);
    build_compute(&loop, PTC_PHASE_B, part);
    build_transfer(&loop, PTC_WORK_SEND_B, part);
    if (p->split->split_w) build_compute(&loop, PTC_PHASE_W, part);
  }
  if (p->status == PTC_OK) build_begin(p);
  return p->status;
}

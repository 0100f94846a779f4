#include "ir/module.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// --- module

ptc_module_t *ptc_module_create(ptc_diag_t *diag, const char *name) {
  ptc_module_t *module = ptc_xmalloc(sizeof(*module));
  memset(module, 0, sizeof(*module));
  ptc_arena_init(&module->arena);
  ptc_interner_init(&module->names, &module->arena);
  module->diag = diag;
  module->name = ptc_module_intern(module, name);
  return module;
}

void ptc_module_destroy(ptc_module_t *module) {
  if (!module) return;
  ptc_interner_deinit(&module->names);
  ptc_arena_deinit(&module->arena);
  free(module);
}

const char *ptc_module_intern(ptc_module_t *module, const char *text) {
  return ptc_intern(&module->names, text);
}

// Copies |num| elements to a larger array; the old one stays in the arena.
static void *grow_array(ptc_module_t *module, const void *data, int64_t num, int64_t capacity,
                        size_t size) {
  void *copy = ptc_arena_calloc(&module->arena, (size_t)capacity, size);
  if (num) memcpy(copy, data, (size_t)num * size);
  return copy;
}

ptc_func_t *ptc_module_find_func(const ptc_module_t *module, const char *name) {
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    if (func->name == name || strcmp(func->name, name) == 0) return func;
  return NULL;
}

ptc_global_t *ptc_module_find_global(const ptc_module_t *module, const char *path) {
  for (int64_t i = 0; i < module->num_globals; i++) {
    ptc_global_t *global = module->globals[i];
    if (global->path == path || strcmp(global->path, path) == 0) return global;
  }
  return NULL;
}

// The file's name may belong to a syntax tree that is dropped before the module.
static ptc_loc_t own_loc(ptc_module_t *module, ptc_loc_t loc) {
  if (loc.file) loc.file = ptc_module_intern(module, loc.file);
  return loc;
}

ptc_func_t *ptc_module_add_func(ptc_module_t *module, const char *name, ptc_loc_t loc) {
  ptc_func_t *func = PTC_ARENA_NEW(&module->arena, ptc_func_t);
  func->name = ptc_module_intern(module, name);
  func->module = module;
  func->loc = own_loc(module, loc);
  func->body = ptc_block_new(module, func, NULL);
  ptc_func_t **link = &module->funcs;
  while (*link) link = &(*link)->next;
  *link = func;
  return func;
}

ptc_global_t *ptc_module_add_global(ptc_module_t *module, ptc_global_kind_t kind, const char *path,
                                    const ptc_type_t *type, ptc_loc_t loc) {
  ptc_global_t *global = PTC_ARENA_NEW(&module->arena, ptc_global_t);
  global->path = ptc_module_intern(module, path);
  global->kind = kind;
  global->type = type;
  global->loc = own_loc(module, loc);
  for (int i = 0; i < PTC_MAX_COUNTS; i++) global->turn_step[i] = 1;
  if (module->num_globals == module->cap_globals) {
    module->cap_globals = module->cap_globals ? 2 * module->cap_globals : 16;
    module->globals = grow_array(module, module->globals, module->num_globals, module->cap_globals,
                                 sizeof(*module->globals));
  }
  global->index = module->num_globals;
  module->globals[module->num_globals++] = global;
  return global;
}

const char *ptc_global_kind_name(ptc_global_kind_t kind) {
  static const char *const names[] = {
      [PTC_GLOBAL_INPUT] = "input",     [PTC_GLOBAL_PARAM] = "param",
      [PTC_GLOBAL_MOMENT] = "moment",   [PTC_GLOBAL_COUNTER] = "counter",
      [PTC_GLOBAL_SETTING] = "setting", [PTC_GLOBAL_SLOT] = "slot",
  };
  return names[kind];
}

const ptc_type_t *ptc_global_type_in(const ptc_global_t *global, const ptc_func_t *func) {
  const int64_t slots = ptc_attrs_int(&global->attrs, "slots", 0);
  if (global->kind != PTC_GLOBAL_SLOT || func->each_micro || slots < 1) return global->type;
  return ptc_type_bundle(&func->module->arena, global->type, slots);
}

void ptc_global_instance_path(const ptc_global_t *global, const int64_t *instance, ptc_str_t *out) {
  int32_t star = 0;
  for (const char *c = global->path; *c; c++) {
    if (*c != '*' || star >= global->type->num_counts || star >= PTC_MAX_COUNTS) {
      ptc_str_append_n(out, c, 1);
      continue;
    }
    int64_t turn = global->turn_first[star] + instance[star] * global->turn_step[star];
    ptc_str_printf(out, "%" PRId64, turn);
    star++;
  }
}

void ptc_module_set_mesh(ptc_module_t *module, const ptc_mesh_axis_t *axes, int32_t num_axes) {
  ptc_mesh_axis_t *copy = PTC_ARENA_ARRAY(&module->arena, ptc_mesh_axis_t, num_axes);
  for (int32_t i = 0; i < num_axes; i++) {
    copy[i].name = ptc_module_intern(module, axes[i].name);
    copy[i].size = axes[i].size;
  }
  module->mesh = (ptc_mesh_t){.axes = copy, .num_axes = num_axes};
}

const ptc_origin_t *ptc_module_find_origin(const ptc_module_t *module, const char *name) {
  for (int32_t i = 0; i < module->num_origins; i++)
    if (strcmp(module->origins[i].name, name) == 0) return &module->origins[i];
  return NULL;
}

void ptc_module_set_origin(ptc_module_t *module, const char *name, const char *value,
                           const char *place) {
  ptc_arena_t *arena = &module->arena;
  const ptc_origin_t origin = {ptc_module_intern(module, name),
                               value ? ptc_arena_strdup(arena, value) : NULL,
                               ptc_arena_strdup(arena, place)};
  for (int32_t i = 0; i < module->num_origins; i++)
    if (module->origins[i].name == origin.name) {
      module->origins[i] = origin;
      return;
    }
  if (module->num_origins == module->cap_origins) {
    const int32_t room = module->cap_origins ? 2 * module->cap_origins : 32;
    ptc_origin_t *larger = PTC_ARENA_ARRAY(arena, ptc_origin_t, room);
    for (int32_t i = 0; i < module->num_origins; i++) larger[i] = module->origins[i];
    module->origins = larger;
    module->cap_origins = room;
  }
  module->origins[module->num_origins++] = origin;
}

static void count_op(ptc_op_t *op, void *arg) {
  (void)op;
  ++*(int64_t *)arg;
}

int64_t ptc_module_num_ops(const ptc_module_t *module) {
  int64_t count = 0;
  for (const ptc_func_t *func = module->funcs; func; func = func->next)
    ptc_block_walk(func->body, count_op, &count);
  return count;
}

// --- functions

// The hint of an argument bound to "block.*.attn.wq": block.attn.wq.
static const char *arg_hint(ptc_module_t *module, const char *path) {
  char *hint = ptc_arena_strdup(&module->arena, path), *to = hint;
  for (const char *p = path; *p; p++) {
    if (p[0] == '.' && p[1] == '*')
      p++;
    else
      *to++ = *p;
  }
  *to = '\0';
  return ptc_module_intern(module, hint);
}

ptc_value_t *ptc_func_add_arg(ptc_func_t *func, const ptc_global_t *global) {
  ptc_value_t *arg = ptc_block_add_arg(func->body, ptc_global_type_in(global, func),
                                       arg_hint(func->module, global->path));
  func->arg_globals[arg->index] = global;
  return arg;
}

ptc_value_t *ptc_func_get_arg(ptc_func_t *func, const ptc_global_t *global) {
  for (int32_t i = 0; i < func->body->num_args; i++)
    if (func->arg_globals[i] == global) return func->body->args[i];
  return ptc_func_add_arg(func, global);
}

ptc_op_t *ptc_func_return(const ptc_func_t *func) {
  ptc_op_t *last = func->body->last;
  return last && last->opcode == PTC_OP_RETURN ? last : NULL;
}

void ptc_func_add_result(ptc_func_t *func, ptc_result_t result, ptc_value_t *value) {
  ptc_module_t *module = func->module;
  ptc_op_t *ret = ptc_func_return(func);
  if (!ret) {
    ret = ptc_op_new(module, PTC_OP_RETURN, func->loc, NULL, 0, 0);
    ptc_op_insert(ret, func->body, NULL);
  }
  if (func->num_results == func->cap_results) {
    func->cap_results = func->cap_results ? 2 * func->cap_results : 8;
    func->results = grow_array(module, func->results, func->num_results, func->cap_results,
                               sizeof(*func->results));
  }
  if (result.name) result.name = ptc_module_intern(module, result.name);
  if (result.role) result.role = ptc_module_intern(module, result.role);
  func->results[func->num_results++] = result;
  ptc_op_add_operand(module, ret, ret->num_operands, value);
}

// --- blocks and ops

ptc_block_t *ptc_block_new(ptc_module_t *module, ptc_func_t *func, ptc_op_t *parent_op) {
  ptc_block_t *block = PTC_ARENA_NEW(&module->arena, ptc_block_t);
  block->func = func;
  block->parent_op = parent_op;
  return block;
}

static ptc_value_t *new_value(ptc_module_t *module, const ptc_type_t *type, int32_t index) {
  ptc_value_t *value = PTC_ARENA_NEW(&module->arena, ptc_value_t);
  value->type = type;
  value->index = index;
  value->id = module->next_value_id++;
  return value;
}

ptc_value_t *ptc_block_add_arg(ptc_block_t *block, const ptc_type_t *type, const char *name) {
  ptc_func_t *func = block->func;
  ptc_module_t *module = func->module;
  if (block->num_args == block->cap_args) {
    block->cap_args = block->cap_args ? 2 * block->cap_args : 4;
    block->args =
        grow_array(module, block->args, block->num_args, block->cap_args, sizeof(*block->args));
    // The function's list of globals has room for as many as its body has arguments.
    if (block == func->body)
      func->arg_globals = grow_array(module, func->arg_globals, block->num_args, block->cap_args,
                                     sizeof(*func->arg_globals));
  }
  ptc_value_t *arg = new_value(module, type, block->num_args);
  arg->block = block;
  arg->name = name ? ptc_module_intern(module, name) : NULL;
  return block->args[block->num_args++] = arg;
}

ptc_op_t *ptc_op_new(ptc_module_t *module, ptc_opcode_t opcode, ptc_loc_t loc,
                     ptc_value_t *const *operands, int32_t num_operands, int32_t num_results) {
  ptc_op_t *op = PTC_ARENA_NEW(&module->arena, ptc_op_t);
  op->opcode = opcode;
  op->loc = own_loc(module, loc);
  op->num_operands = op->cap_operands = num_operands;
  op->operands = grow_array(module, operands, num_operands, num_operands, sizeof(*operands));
  op->num_results = num_results;
  op->results = PTC_ARENA_ARRAY(&module->arena, ptc_value_t *, num_results);
  for (int32_t i = 0; i < num_results; i++) {
    op->results[i] = new_value(module, NULL, i);
    op->results[i]->def = op;
  }
  return op;
}

void ptc_op_insert(ptc_op_t *op, ptc_block_t *block, ptc_op_t *before) {
  op->parent = block;
  op->next = before;
  op->prev = before ? before->prev : block->last;
  if (op->prev)
    op->prev->next = op;
  else
    block->first = op;
  if (before)
    before->prev = op;
  else
    block->last = op;
}

void ptc_op_remove(ptc_op_t *op) {
  ptc_block_t *block = op->parent;
  if (!block) return;
  if (op->prev)
    op->prev->next = op->next;
  else
    block->first = op->next;
  if (op->next)
    op->next->prev = op->prev;
  else
    block->last = op->prev;
  op->parent = NULL;
  op->prev = op->next = NULL;
}

void ptc_op_add_operand(ptc_module_t *module, ptc_op_t *op, int32_t at, ptc_value_t *value) {
  if (op->num_operands >= op->cap_operands) {
    op->cap_operands = op->num_operands ? 2 * op->num_operands : 4;
    op->operands =
        grow_array(module, op->operands, op->num_operands, op->cap_operands, sizeof(*op->operands));
  }
  memmove(&op->operands[at + 1], &op->operands[at],
          (size_t)(op->num_operands - at) * sizeof(*op->operands));
  op->operands[at] = value;
  op->num_operands++;
}

void ptc_op_erase_operand(ptc_op_t *op, int32_t at) {
  op->num_operands--;
  memmove(&op->operands[at], &op->operands[at + 1],
          (size_t)(op->num_operands - at) * sizeof(*op->operands));
}

ptc_value_t *ptc_op_add_result(ptc_module_t *module, ptc_op_t *op, const ptc_type_t *type) {
  ptc_value_t *value = new_value(module, type, op->num_results);
  value->def = op;
  op->results =
      grow_array(module, op->results, op->num_results, op->num_results + 1, sizeof(*op->results));
  return op->results[op->num_results++] = value;
}

ptc_block_t *ptc_value_block(const ptc_value_t *value) {
  return value->def ? value->def->parent : value->block;
}

bool ptc_block_contains(const ptc_block_t *outer, const ptc_block_t *inner) {
  while (inner && inner != outer) inner = inner->parent_op ? inner->parent_op->parent : NULL;
  return inner != NULL;
}

void ptc_block_walk(ptc_block_t *block, void (*visit)(ptc_op_t *op, void *arg), void *arg) {
  for (ptc_op_t *op = block->first, *next; op; op = next) {
    next = op->next;
    visit(op, arg);
    if (op->body && op->parent == block) ptc_block_walk(op->body, visit, arg);
  }
}

typedef struct replacement_s {
  ptc_value_t *from, *to;
} replacement_t;

static void replace_in_op(ptc_op_t *op, void *arg) {
  const replacement_t *replacement = arg;
  for (int32_t i = 0; i < op->num_operands; i++)
    if (op->operands[i] == replacement->from) op->operands[i] = replacement->to;
}

void ptc_block_replace_uses(ptc_block_t *block, ptc_value_t *from, ptc_value_t *to) {
  replacement_t replacement = {from, to};
  ptc_block_walk(block, replace_in_op, &replacement);
}

static ptc_value_t *map_value(const ptc_map_t *map, ptc_value_t *value) {
  ptc_value_t *mapped = value ? ptc_map_get(map, value) : NULL;
  return mapped ? mapped : value;
}

static void copy_facts(ptc_value_t *to, const ptc_value_t *from) {
  to->type = from->type;
  to->name = from->name;
}

static ptc_block_t *clone_body(ptc_module_t *module, const ptc_block_t *body, ptc_op_t *parent_op,
                               ptc_map_t *map) {
  ptc_block_t *copy = ptc_block_new(module, body->func, parent_op);
  for (int32_t i = 0; i < body->num_args; i++) {
    const ptc_value_t *arg = body->args[i];
    ptc_map_set(map, arg, ptc_block_add_arg(copy, arg->type, arg->name));
  }
  for (const ptc_op_t *op = body->first; op; op = op->next)
    ptc_op_insert(ptc_op_clone(module, op, map), copy, NULL);
  return copy;
}

ptc_op_t *ptc_op_clone(ptc_module_t *module, const ptc_op_t *op, ptc_map_t *map) {
  ptc_op_t *copy =
      ptc_op_new(module, op->opcode, op->loc, op->operands, op->num_operands, op->num_results);
  for (int32_t i = 0; i < op->num_operands; i++)
    copy->operands[i] = map_value(map, op->operands[i]);
  copy->attrs = ptc_attrs_clone(module, &op->attrs);
  copy->remat = op->remat;
  copy->num_carry = op->num_carry;
  copy->num_each = op->num_each;
  if (op->body) copy->body = clone_body(module, op->body, copy, map);
  for (int32_t i = 0; i < op->num_results; i++) {
    copy_facts(copy->results[i], op->results[i]);
    ptc_map_set(map, op->results[i], copy->results[i]);
  }
  return copy;
}

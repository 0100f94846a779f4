// The structural rules of a module: names, globals, blocks, links, dominance.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/verify_impl.h"

typedef struct structure_s {
  ptc_module_t *module;
  const ptc_func_t *func;
  ptc_map_t defined;  // values whose definition was passed
  bool ok;
} structure_t;

bool ptc_verify_is_full(const ptc_module_t *module) {
  const ptc_diag_t *diag = module->diag;
  return diag->num_errors > (diag->max_errors ? diag->max_errors : 100);
}

__attribute__((format(printf, 4, 5))) static void fail(structure_t *v, ptc_loc_t loc,
                                                       const char *label, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char message[512];
  vsnprintf(message, sizeof(message), format, args);
  va_end(args);
  ptc_error(v->module->diag, loc, PTC_INVALID_INPUT, label, "%s", message);
  v->ok = false;
}

// --- types

static ptc_status_t check_axes(ptc_module_t *module, ptc_loc_t loc, const char *subject,
                               const ptc_type_t *type) {
  ptc_diag_t *diag = module->diag;
  enum { MAX_USED = 64 };
  ptc_axis_ref_t used[MAX_USED];
  int32_t num_used = 0;
  for (int32_t d = 0; d <= type->num_dims; d++) {
    bool last = d == type->num_dims;
    const ptc_axis_ref_t *axes = last ? type->partial : type->dims[d].axes;
    int32_t num_axes = last ? type->num_partial : type->dims[d].num_axes;
    for (int32_t a = 0; a < num_axes; a++) {
      if (!ptc_axis_ref_fits(&module->mesh, axes[a]))
        return ptc_error(diag, loc, PTC_INVALID_INPUT, "type-c5",
                         "%s: the mesh has no axis, or no such part of an axis, \"%s\"", subject,
                         axes[a].axis);
      for (int32_t u = 0; u < num_used; u++)
        if (ptc_axis_refs_overlap(used[u], axes[a]))
          return ptc_error(diag, loc, PTC_INVALID_INPUT, "axes-c1", "%s: axis \"%s\" is used twice",
                           subject, axes[a].axis);
      if (num_used == MAX_USED)
        return ptc_error(diag, loc, PTC_INVALID_INPUT, "size-c1", "%s: too many axes", subject);
      used[num_used++] = axes[a];
    }
  }
  return PTC_OK;
}

ptc_status_t ptc_verify_type(ptc_module_t *module, ptc_loc_t loc, const char *subject,
                             const ptc_type_t *type) {
  ptc_diag_t *diag = module->diag;
  if (type->num_dims > PTC_MAX_DIMS || type->num_counts > PTC_MAX_COUNTS)
    return ptc_error(diag, loc, PTC_INVALID_INPUT, "size-c1", "%s: more than %d dims or %d counts",
                     subject, PTC_MAX_DIMS, PTC_MAX_COUNTS);
  for (int32_t i = 0; i < type->num_dims; i++)
    for (int32_t j = 0; j < i; j++)
      if (type->dims[i].name == type->dims[j].name)
        return ptc_error(diag, loc, PTC_INVALID_INPUT, "type-c4", "%s: two dims are called \"%s\"",
                         subject, type->dims[i].name);
  // Also refuses negative extents and counts.
  if (ptc_type_num_bytes(type) < 0)
    return ptc_error(diag, loc, PTC_INVALID_INPUT, "size-c1", "%s: the type is too large", subject);
  return check_axes(module, loc, subject, type);
}

// --- module and globals

static void check_mesh(structure_t *v) {
  const ptc_mesh_t *mesh = &v->module->mesh;
  for (int32_t i = 0; i < mesh->num_axes; i++) {
    if (mesh->axes[i].size < 1)
      fail(v, (ptc_loc_t){0}, "module-c3", "mesh axis \"%s\" has size %" PRId64, mesh->axes[i].name,
           mesh->axes[i].size);
    for (int32_t j = 0; j < i; j++)
      if (mesh->axes[i].name == mesh->axes[j].name)
        fail(v, (ptc_loc_t){0}, "module-c3", "the mesh has two axes \"%s\"", mesh->axes[i].name);
  }
}

static bool same_turns(const ptc_global_t *a, const ptc_global_t *b) {
  if (a->type->num_counts != b->type->num_counts) return false;
  for (int32_t i = 0; i < a->type->num_counts && i < PTC_MAX_COUNTS; i++)
    if (a->turn_first[i] != b->turn_first[i] || a->turn_step[i] != b->turn_step[i]) return false;
  return true;
}

typedef struct same_path_s {
  const ptc_global_t *global;
  struct same_path_s *next;
} same_path_t;

static void check_names(structure_t *v) {
  ptc_arena_t scratch = {0};
  ptc_map_t seen = {0};
  for (int64_t i = 0; i < v->module->num_globals; i++) {
    const ptc_global_t *global = v->module->globals[i];
    same_path_t *others = ptc_map_get(&seen, global->path);
    for (same_path_t *other = others; other; other = other->next)
      if (same_turns(other->global, global)) {
        fail(v, global->loc, "module-c2", "two globals are called \"%s\"", global->path);
        break;
      }
    same_path_t *entry = PTC_ARENA_NEW(&scratch, same_path_t);
    *entry = (same_path_t){global, others};
    ptc_map_set(&seen, global->path, entry);
  }
  ptc_map_deinit(&seen);
  for (const ptc_func_t *func = v->module->funcs; func; func = func->next) {
    if (ptc_map_get(&seen, func->name))
      fail(v, func->loc, "module-c1", "two functions are called \"%s\"", func->name);
    ptc_map_set(&seen, func->name, (void *)1);
  }
  ptc_map_deinit(&seen);
  ptc_arena_deinit(&scratch);
}

static void check_global(structure_t *v, const ptc_global_t *global) {
  char subject[256];
  snprintf(subject, sizeof(subject), "\"%s\"", global->path);
  const ptc_type_t *type = global->type;
  if (ptc_verify_type(v->module, global->loc, subject, type) != PTC_OK) {
    v->ok = false;
    return;
  }
  int32_t stars = 0;
  for (const char *c = global->path; *c; c++) stars += *c == '*';
  if (stars != type->num_counts)
    fail(v, global->loc, "global-c1", "%s: %" PRId32 " stars in the path, %" PRId32 " counts",
         subject, stars, type->num_counts);
  for (int32_t i = 0; i < type->num_counts; i++) {
    int64_t span;
    if (global->turn_first[i] < 0 || global->turn_step[i] < 1 ||
        __builtin_mul_overflow(type->counts[i], global->turn_step[i], &span) ||
        __builtin_add_overflow(span, global->turn_first[i], &span))
      fail(v, global->loc, "global-c2", "%s: turns %" PRId64 ":%" PRId64 " are out of range",
           subject, global->turn_first[i], global->turn_step[i]);
  }
  const ptc_attr_t *slots = ptc_attrs_find(&global->attrs, "slots");
  if (slots && (slots->kind != PTC_ATTR_INT || slots->u.i < 1))
    fail(v, global->loc, "global-c7", "%s: the number of slots must be a positive integer", subject);
  if (type->num_partial && global->kind != PTC_GLOBAL_SLOT)
    fail(v, global->loc, "global-c3", "%s: a global is not a partial result", subject);
  bool scalar = global->kind == PTC_GLOBAL_COUNTER || global->kind == PTC_GLOBAL_SETTING;
  if (scalar && (type->num_dims || type->num_counts))
    fail(v, global->loc, "global-c4", "%s: a %s is a scalar", subject,
         ptc_global_kind_name(global->kind));
  const char *owner = ptc_attrs_string(&global->attrs, "owner", NULL);
  const ptc_global_t *param = owner ? ptc_module_find_global(v->module, owner) : NULL;
  if (global->kind == PTC_GLOBAL_MOMENT && (!param || param->kind != PTC_GLOBAL_PARAM))
    fail(v, global->loc, "global-c5", "%s: the owner of a moment must be a parameter, not \"%s\"",
         subject, owner ? owner : "");
  const ptc_attr_t *range = ptc_attrs_find(&global->attrs, "range");
  if (range && (range->kind != PTC_ATTR_INT || range->u.i < 1))
    fail(v, global->loc, "global-c6", "%s: the range must be a positive integer", subject);
}

// --- functions and blocks

static void check_args(structure_t *v) {
  const ptc_func_t *func = v->func;
  ptc_map_t bound = {0};
  for (int32_t i = 0; i < func->body->num_args; i++) {
    const ptc_global_t *global = func->arg_globals[i];
    const ptc_type_t *type = func->body->args[i]->type;
    bool ours = global && global->index >= 0 && global->index < v->module->num_globals &&
                v->module->globals[global->index] == global;
    if (!ours) {
      fail(v, func->loc, "func-c1", "argument %" PRId32 " of \"%s\" is bound to no global", i,
           func->name);
      continue;
    }
    if (type && !ptc_type_equal(type, ptc_global_type_in(global, func)))
      fail(v, func->loc, "func-c2", "argument %" PRId32 " of \"%s\" has not the type of \"%s\"", i,
           func->name, global->path);
    if (ptc_map_get(&bound, global))
      fail(v, func->loc, "func-c3", "two arguments of \"%s\" are bound to \"%s\"", func->name,
           global->path);
    ptc_map_set(&bound, global, (void *)1);
  }
  ptc_map_deinit(&bound);
}

static const char *value_text(const ptc_value_t *value, char *buffer, size_t size) {
  if (value->name)
    snprintf(buffer, size, "value \"%s\"", value->name);
  else
    snprintf(buffer, size, "the value");
  return buffer;
}

static void check_operands(structure_t *v, const ptc_op_t *op) {
  char text[128];
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_value_t *value = op->operands[i];
    if (!value) {
      fail(v, op->loc, "value-c1", "operand %" PRId32 " is missing", i);
      continue;
    }
    const ptc_block_t *block = ptc_value_block(value);
    bool visible = block && block->func == v->func && ptc_block_contains(block, op->parent);
    if (!visible)
      fail(v, op->loc, "value-c3", "operand %" PRId32 ": %s is not visible here", i,
           value_text(value, text, sizeof(text)));
    else if (!ptc_map_get(&v->defined, value))
      fail(v, op->loc, "value-c2", "operand %" PRId32 ": %s is used before its definition", i,
           value_text(value, text, sizeof(text)));
  }
}

static bool links_hold(const ptc_op_t *op, const ptc_block_t *block) {
  if (op->parent != block) return false;
  if (op->next ? op->next->prev != op : block->last != op) return false;
  for (int32_t i = 0; i < op->num_results; i++)
    if (!op->results[i] || op->results[i]->def != op || op->results[i]->index != i) return false;
  return true;
}

static void check_attr_names(structure_t *v, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->attrs.count; i++) {
    int32_t cursor = 0;
    ptc_attr_spec_t spec;
    const ptc_attr_t *attr = &op->attrs.items[i];
    ptc_attr_kind_t kind;
    bool known = ptc_op_execution_attr(attr->name, &kind) && attr->kind == kind;
    while (!known && ptc_op_next_attr_spec(op->opcode, &cursor, &spec))
      known = strcmp(spec.name, op->attrs.items[i].name) == 0;
    if (!known)
      fail(v, op->loc, "attr-c3", "%s: there is no attribute \"%s\"",
           ptc_op_info(op->opcode)->mnemonic, op->attrs.items[i].name);
  }
}

static void check_given_types(structure_t *v, const ptc_op_t *op) {
  char subject[64];
  for (int32_t i = 0; i < op->num_results; i++) {
    if (!op->results[i]->type) continue;
    snprintf(subject, sizeof(subject), "%s: result %" PRId32, ptc_op_info(op->opcode)->mnemonic, i);
    if (ptc_verify_type(v->module, op->loc, subject, op->results[i]->type) != PTC_OK) v->ok = false;
  }
}

static void check_block(structure_t *v, const ptc_block_t *block, ptc_loc_t loc);

static void check_body(structure_t *v, const ptc_op_t *op) {
  bool repeat = op->opcode == PTC_OP_REPEAT;
  if (repeat != (op->body != NULL)) {
    fail(v, op->loc, "op-c2", "%s: %s", ptc_op_info(op->opcode)->mnemonic,
         repeat ? "the body is missing" : "the op cannot have a body");
    return;
  }
  if (!repeat) return;
  for (int32_t i = 0; i < op->body->num_args; i++) {
    const ptc_type_t *type = op->body->args[i]->type;
    if (type && ptc_verify_type(v->module, op->loc, "argument", type) != PTC_OK) v->ok = false;
  }
  if (op->body->func != v->func || op->body->parent_op != op)
    fail(v, op->loc, "op-c1", "repeat: the body belongs to another op");
  else
    check_block(v, op->body, op->loc);
}

static void check_block(structure_t *v, const ptc_block_t *block, ptc_loc_t loc) {
  for (int32_t i = 0; i < block->num_args; i++) ptc_map_set(&v->defined, block->args[i], (void *)1);
  for (const ptc_op_t *op = block->first; op && !ptc_verify_is_full(v->module); op = op->next) {
    if (!links_hold(op, block)) {
      fail(v, op->loc, "op-c1", "%s: the links of the op are broken",
           ptc_op_info(op->opcode)->mnemonic);
      return;
    }
    check_operands(v, op);
    check_attr_names(v, op);
    check_given_types(v, op);
    check_body(v, op);
    for (int32_t i = 0; i < op->num_results; i++)
      ptc_map_set(&v->defined, op->results[i], (void *)1);
    if (ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR) && op->next)
      fail(v, op->next->loc, "block-c2", "nothing may follow the %s",
           ptc_op_info(op->opcode)->mnemonic);
  }
  ptc_opcode_t end = block->parent_op ? PTC_OP_YIELD : PTC_OP_RETURN;
  if (!block->last || block->last->opcode != end)
    fail(v, block->last ? block->last->loc : loc, "block-c1", "the block does not end in a %s",
         ptc_op_info(end)->mnemonic);
}

static void check_func(structure_t *v, const ptc_func_t *func) {
  v->func = func;
  check_args(v);
  bool outer_ok = v->ok;
  v->ok = true;
  check_block(v, func->body, func->loc);
  bool body_ok = v->ok;
  v->ok = outer_ok && body_ok;
  const ptc_op_t *ret = ptc_func_return(func);
  if (body_ok && ret->num_operands != func->num_results)
    fail(v, ret->loc, "func-c4", "%" PRId32 " descriptions for %" PRId32 " results",
         func->num_results, ret->num_operands);
}

ptc_status_t ptc_verify_structure(ptc_module_t *module) {
  structure_t state = {.module = module, .ok = true}, *v = &state;
  check_mesh(v);
  check_names(v);
  for (int64_t i = 0; i < module->num_globals && !ptc_verify_is_full(module); i++)
    check_global(v, module->globals[i]);
  for (const ptc_func_t *func = module->funcs; func && !ptc_verify_is_full(module);
       func = func->next) {
    check_func(v, func);
    ptc_map_deinit(&v->defined);
  }
  return v->ok ? PTC_OK : PTC_INVALID_INPUT;
}

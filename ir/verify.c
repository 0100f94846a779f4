// The rules of the IR that reach beyond one op, and every op's own through its shape function.
//
//   value-c1   an operand is defined before its use, in this block or an enclosing one
//   value-c2   every value has a type
//   result-c1  a result has the type that the shape function gives
//   block-c1   a block ends in its terminator, and has no other: return in functions, yield in repeats
//   func-c1    an argument has the type of its global
//   func-c2    no global is bound to two arguments
//   return-c1  the return describes every operand
//   return-c2  a new state has the type of its global, a gradient its dims, dtype f32 or the global's
//   return-c3  a state or gradient is returned once; state is no input and no setting
//   return-c4  a loss is an f32 scalar
//   state-c1   the old version of a state is not read after the op that makes the new one
//   mesh-c1    a type uses axes of the mesh, and sub-axes that divide them
#include "ir/verify.h"

#include <inttypes.h>
#include <string.h>

#include "ir/op.h"

typedef struct verifier_s {
  ptc_module_t *module;
  ptc_map_t defined;  // value -> any, while its block is open
} verifier_t;

#define FAIL(v, loc, id, ...) \
  ((void)ptc_error((v)->module->diag, (loc), PTC_INVALID_INPUT, (id), __VA_ARGS__))

static const char *name_of(const ptc_value_t *value) {
  return value->name ? value->name : "(unnamed)";
}

static void check_axes(verifier_t *v, ptc_loc_t loc, const ptc_axis_ref_t *refs, int32_t count) {
  const ptc_mesh_t *mesh = &v->module->mesh;
  for (int32_t i = 0; i < count; i++) {
    int64_t whole = ptc_axis_ref_size(mesh, (ptc_axis_ref_t){.axis = refs[i].axis});
    if (!whole) {
      FAIL(v, loc, "mesh-c1", "the mesh has no axis \"%s\"", refs[i].axis);
    } else if (refs[i].size && (refs[i].pre > whole || refs[i].size > whole / refs[i].pre ||
                                whole % (refs[i].pre * refs[i].size) != 0)) {
      FAIL(v, loc, "mesh-c1", "sub-axis \"%s\":%" PRId64 ":%" PRId64 " does not divide axis size %" PRId64,
           refs[i].axis, refs[i].pre, refs[i].size, whole);
    }
  }
}

static void check_type(verifier_t *v, ptc_loc_t loc, const ptc_type_t *type) {
  for (int32_t i = 0; i < type->num_dims; i++)
    check_axes(v, loc, type->dims[i].axes, type->dims[i].num_axes);
  check_axes(v, loc, type->partial, type->num_partial);
}

static void define(verifier_t *v, ptc_value_t *value) { ptc_map_set(&v->defined, value, value); }

static void check_block(verifier_t *v, ptc_block_t *block);

// Compares the results' types with what the operands imply.
static void check_results(verifier_t *v, ptc_op_t *op) {
  bool typed = true;
  for (int32_t i = 0; i < op->num_results; i++) {
    if (op->results[i]->type) continue;
    FAIL(v, op->loc, "value-c2", "result %%%s of %s has no type", name_of(op->results[i]),
         ptc_op_info(op->opcode)->mnemonic);
    typed = false;
  }
  for (int32_t i = 0; i < op->num_operands; i++) typed &= op->operands[i] && op->operands[i]->type;
  if (!typed) return;
  ptc_arena_t scratch = {0};
  const ptc_type_t **types = PTC_ARENA_ARRAY(&scratch, const ptc_type_t *, op->num_results + 1);
  if (ptc_op_info(op->opcode)->shape(v->module, op, types) == PTC_OK) {
    for (int32_t i = 0; i < op->num_results; i++) {
      check_type(v, op->loc, op->results[i]->type);
      if (ptc_type_equal(op->results[i]->type, types[i])) continue;
      ptc_str_t given = {0}, implied = {0};
      ptc_type_print(&given, op->results[i]->type);
      ptc_type_print(&implied, types[i]);
      FAIL(v, op->loc, "result-c1", "%s: result %" PRId32 " is %s, but its operands give %s",
           ptc_op_info(op->opcode)->mnemonic, i, given.data, implied.data);
      ptc_str_deinit(&given);
      ptc_str_deinit(&implied);
    }
  }
  ptc_arena_deinit(&scratch);
}

static void check_op(verifier_t *v, ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    ptc_value_t *value = op->operands[i];
    if (value && ptc_map_get(&v->defined, value)) continue;
    FAIL(v, op->loc, "value-c1", "operand %" PRId32 " of %s, %%%s, is not defined here", i,
         ptc_op_info(op->opcode)->mnemonic, value ? name_of(value) : "(none)");
  }
  if (op->body) check_block(v, op->body);
  check_results(v, op);
  for (int32_t i = 0; i < op->num_results; i++) define(v, op->results[i]);
}

static void check_block(verifier_t *v, ptc_block_t *block) {
  ptc_opcode_t terminator = block->parent_op ? PTC_OP_YIELD : PTC_OP_RETURN;
  ptc_loc_t loc = block->parent_op ? block->parent_op->loc : block->func->loc;
  for (int32_t i = 0; i < block->num_args; i++) {
    if (!block->args[i]->type) FAIL(v, loc, "value-c2", "argument %" PRId32 " has no type", i);
    define(v, block->args[i]);
  }
  if (!block->last || block->last->opcode != terminator)
    FAIL(v, loc, "block-c1", "the body of %s%s does not end in %s", block->parent_op ? "" : "@",
         block->parent_op ? "a repeat" : block->func->name, ptc_op_info(terminator)->mnemonic);
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op != block->last && ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR))
      FAIL(v, op->loc, "block-c1", "%s stands before the end of its block",
           ptc_op_info(op->opcode)->mnemonic);
    check_op(v, op);
  }
  // What a block defines ends with it.
  for (int32_t i = 0; i < block->num_args; i++) ptc_map_set(&v->defined, block->args[i], NULL);
  for (ptc_op_t *op = block->first; op; op = op->next)
    for (int32_t i = 0; i < op->num_results; i++) ptc_map_set(&v->defined, op->results[i], NULL);
}

// --- functions

static bool uses(const ptc_op_t *op, const ptc_value_t *value) {
  for (int32_t i = 0; i < op->num_operands; i++)
    if (op->operands[i] == value) return true;
  for (const ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    if (uses(inner, value)) return true;
  return false;
}

// The new version takes the old one's bytes: nothing may read the old one once it exists.
static void check_state(verifier_t *v, const ptc_func_t *func, const ptc_result_t *result,
                        const ptc_value_t *next) {
  const ptc_value_t *old = NULL;
  for (int32_t i = 0; i < func->body->num_args; i++)
    if (func->arg_globals[i] == result->global) old = func->body->args[i];
  if (!old || !next->def || next == old) return;
  for (const ptc_op_t *op = next->def->next; op; op = op->next)
    if (op->opcode != PTC_OP_RETURN && uses(op, old))
      FAIL(v, op->loc, "state-c1", "%s reads the old version of @%s after its new one was made",
           ptc_op_info(op->opcode)->mnemonic, result->global->path);
}

static bool same_dims(const ptc_type_t *a, const ptc_type_t *b) {
  bool same = a->num_dims == b->num_dims && a->num_counts == b->num_counts;
  for (int32_t i = 0; same && i < a->num_counts; i++) same = a->counts[i] == b->counts[i];
  for (int32_t i = 0; same && i < a->num_dims; i++)
    same = a->dims[i].name == b->dims[i].name && a->dims[i].extent == b->dims[i].extent;
  return same;
}

static void check_result(verifier_t *v, const ptc_func_t *func, const ptc_op_t *ret, int32_t at) {
  const ptc_result_t *result = &func->results[at];
  const ptc_value_t *value = ret->operands[at];
  if (!value->type) return;
  if (result->kind == PTC_RESULT_VALUE) {
    if (strcmp(result->role, "loss") == 0 &&
        (value->type->num_dims || value->type->num_counts || value->type->dtype != PTC_F32))
      FAIL(v, ret->loc, "return-c4", "loss \"%s\" is no f32 scalar", result->name);
    return;
  }
  const ptc_global_t *global = result->global;
  bool is_state = result->kind == PTC_RESULT_STATE;
  bool ok = is_state ? ptc_type_equal(value->type, global->type)
                     : same_dims(value->type, global->type) &&
                           (value->type->dtype == PTC_F32 || value->type->dtype == global->type->dtype);
  if (!ok)
    FAIL(v, ret->loc, "return-c2", "the new %s of @%s has another type", is_state ? "state" : "gradient",
         global->path);
  if (is_state && (global->kind == PTC_GLOBAL_INPUT || global->kind == PTC_GLOBAL_SETTING))
    FAIL(v, ret->loc, "return-c3", "@%s is an %s: no function changes it", global->path,
         ptc_global_kind_name(global->kind));
  for (int32_t i = 0; i < at; i++)
    if (func->results[i].kind == result->kind && func->results[i].global == global)
      FAIL(v, ret->loc, "return-c3", "@%s is returned twice", global->path);
  if (is_state) check_state(v, func, result, value);
}

static void check_func(verifier_t *v, ptc_func_t *func) {
  for (int32_t i = 0; i < func->body->num_args; i++) {
    const ptc_global_t *global = func->arg_globals[i];
    const ptc_type_t *type = func->body->args[i]->type;
    if (!type || !ptc_type_equal(type, global->type))
      FAIL(v, func->loc, "func-c1", "argument %" PRId32 " of @%s has another type than @%s", i,
           func->name, global->path);
    for (int32_t k = 0; k < i; k++)
      if (func->arg_globals[k] == global)
        FAIL(v, func->loc, "func-c2", "@%s is bound to two arguments of @%s", global->path, func->name);
  }
  check_block(v, func->body);
  const ptc_op_t *ret = ptc_func_return(func);
  if (!ret) return;
  if (ret->num_operands != func->num_results) {
    FAIL(v, ret->loc, "return-c1", "return has %" PRId32 " operands and %" PRId32 " descriptions",
         ret->num_operands, func->num_results);
    return;
  }
  for (int32_t i = 0; i < ret->num_operands; i++)
    if (ret->operands[i]) check_result(v, func, ret, i);
}

ptc_status_t ptc_module_verify(ptc_module_t *module) {
  verifier_t v = {.module = module};
  int64_t errors = module->diag->num_errors;
  for (int64_t i = 0; i < module->num_globals; i++)
    check_type(&v, module->globals[i]->loc, module->globals[i]->type);
  for (ptc_func_t *func = module->funcs; func; func = func->next) check_func(&v, func);
  ptc_map_deinit(&v.defined);
  return module->diag->num_errors == errors ? PTC_OK : PTC_INVALID_INPUT;
}

// --- inference

static ptc_status_t infer_block(ptc_module_t *module, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) PTC_TRY(infer_block(module, op->body));
    bool missing = false;
    for (int32_t i = 0; i < op->num_results; i++) missing |= !op->results[i]->type;
    if (!missing) continue;
    const ptc_type_t **types = PTC_ARENA_ARRAY(&module->arena, const ptc_type_t *, op->num_results);
    PTC_TRY(ptc_op_info(op->opcode)->shape(module, op, types));
    for (int32_t i = 0; i < op->num_results; i++)
      if (!op->results[i]->type) op->results[i]->type = types[i];
  }
  return PTC_OK;
}

ptc_status_t ptc_module_infer_shapes(ptc_module_t *module) {
  ptc_status_t status = PTC_OK;
  for (ptc_func_t *func = module->funcs; func; func = func->next) {
    ptc_status_t one = infer_block(module, func->body);
    if (one != PTC_OK) status = one;
  }
  return status;
}

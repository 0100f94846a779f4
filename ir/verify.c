// The verifier: structure, then types against shape functions, then results and state versions.
#include "ir/verify.h"

#include <inttypes.h>
#include <string.h>

#include "ir/shape_impl.h"
#include "ir/verify_impl.h"

typedef struct verify_s {
  ptc_module_t *module;
  ptc_arena_t scratch;
  const ptc_func_t *func;
  // State versions of the function: the argument (old version) -> the op that makes the new one.
  ptc_map_t writers;
  ptc_map_t written;  // ops that were passed and make a new version
  bool ok;
} verify_t;

// --- types

static void check_result_types(verify_t *v, const ptc_op_t *op, const ptc_type_t *const *types) {
  for (int32_t i = 0; i < op->num_results; i++) {
    if (ptc_type_equal(op->results[i]->type, types[i])) continue;
    ptc_str_t due = {0}, given = {0};
    ptc_type_print(&due, types[i]);
    ptc_type_print(&given, op->results[i]->type);
    ptc_shape_error(v->module, op, "type-c3", "result %" PRId32 " is %s, not %s", i, due.data,
                    given.data);
    ptc_str_deinit(&due);
    ptc_str_deinit(&given);
    v->ok = false;
  }
}

// What a repeat has of its body: a missing type there is complained about at the definition.
static bool is_body_typed(verify_t *v, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->body->num_args; i++) {
    if (op->body->args[i]->type) continue;
    ptc_shape_error(v->module, op, "type-c1", "the type of argument %" PRId32 " is not known", i);
    v->ok = false;
    return false;
  }
  const ptc_op_t *yield = op->body->last;
  for (int32_t i = 0; i < yield->num_operands; i++)
    if (!yield->operands[i]->type) return false;
  return true;
}

static void check_op_types(ptc_op_t *op, void *arg) {
  verify_t *v = arg;
  if (ptc_verify_is_full(v->module)) return;
  for (int32_t i = 0; i < op->num_results; i++) {
    if (op->results[i]->type) continue;
    ptc_shape_error(v->module, op, "type-c1", "the type of result %" PRId32 " is not known", i);
    v->ok = false;
    return;
  }
  // An operand without a type was complained about at its definition.
  for (int32_t i = 0; i < op->num_operands; i++)
    if (!op->operands[i]->type) return;
  if (op->body && !is_body_typed(v, op)) return;
  const ptc_type_t **types = PTC_ARENA_ARRAY(&v->scratch, const ptc_type_t *, op->num_results);
  if (ptc_op_info(op->opcode)->shape(v->module, op, types) != PTC_OK)
    v->ok = false;
  else
    check_result_types(v, op, types);
}

// --- results

static ptc_status_t fail(const verify_t *v, const char *label, int32_t index, const char *text,
                         const char *name) {
  const ptc_op_t *ret = ptc_func_return(v->func);
  return ptc_error(v->module->diag, ret->loc, PTC_INVALID_INPUT, label,
                   "result %" PRId32 " \"%s\": %s", index, name ? name : "", text);
}

static bool is_role(const char *role) {
  static const char *const roles[] = {"loss", "metric", "output", "value"};
  for (size_t i = 0; role && i < sizeof(roles) / sizeof(*roles); i++)
    if (strcmp(role, roles[i]) == 0) return true;
  return false;
}

static ptc_status_t check_value_result(const verify_t *v, int32_t i, const ptc_type_t *type,
                                       ptc_map_t *names) {
  const ptc_result_t *result = &v->func->results[i];
  if (!is_role(result->role) || !result->name || !*result->name)
    return fail(v, "return-c1", i, "a value has a name and is a loss, metric, output or value",
                result->name);
  if (ptc_map_get(names, result->name))
    return fail(v, "return-c2", i, "there is another value of that name", result->name);
  ptc_map_set(names, result->name, (void *)1);
  bool loss = strcmp(result->role, "loss") == 0;
  if (loss && (!ptc_dtype_is_float(type->dtype) || type->num_dims || type->num_counts))
    return fail(v, "return-c3", i, "a loss is a float scalar", result->name);
  return PTC_OK;
}

static bool same_shape(const ptc_type_t *a, const ptc_type_t *b) {
  if (a->num_dims != b->num_dims || a->num_counts != b->num_counts) return false;
  for (int32_t i = 0; i < a->num_counts; i++)
    if (a->counts[i] != b->counts[i]) return false;
  for (int32_t i = 0; i < a->num_dims; i++)
    if (a->dims[i].name != b->dims[i].name || a->dims[i].extent != b->dims[i].extent) return false;
  return true;
}

static ptc_status_t check_global_result(const verify_t *v, int32_t i, const ptc_type_t *type,
                                        ptc_map_t *states, ptc_map_t *grads) {
  const ptc_result_t *result = &v->func->results[i];
  const ptc_global_t *global = result->global;
  bool state = result->kind == PTC_RESULT_STATE;
  bool ours = global && global->index >= 0 && global->index < v->module->num_globals &&
              v->module->globals[global->index] == global;
  if (!ours) return fail(v, "return-c4", i, "the module has no such global", NULL);
  bool fits = state ? ptc_type_equal(type, ptc_global_type_in(global, v->func))
                    : ptc_dtype_is_float(type->dtype) && same_shape(type, global->type);
  if (!fits) return fail(v, "return-c5", i, "the value has not the global's type", global->path);
  bool may_change = global->kind != PTC_GLOBAL_INPUT && global->kind != PTC_GLOBAL_SETTING;
  if (state ? !may_change : global->kind != PTC_GLOBAL_PARAM)
    return fail(
        v, "return-c6", i,
        state ? "inputs and settings have no new version" : "only parameters have gradients",
        global->path);
  ptc_map_t *seen = state ? states : grads;
  if (ptc_map_get(seen, global))
    return fail(v, state ? "state-c2" : "return-c7", i,
                state ? "the state has two new versions" : "the parameter has two gradients",
                global->path);
  ptc_map_set(seen, global, (void *)1);
  return PTC_OK;
}

static void check_results(verify_t *v) {
  const ptc_op_t *ret = ptc_func_return(v->func);
  ptc_map_t names = {0}, states = {0}, grads = {0};
  for (int32_t i = 0; i < ret->num_operands && !ptc_verify_is_full(v->module); i++) {
    const ptc_type_t *type = ret->operands[i]->type;
    if (!type) continue;
    ptc_status_t status = v->func->results[i].kind == PTC_RESULT_VALUE
                              ? check_value_result(v, i, type, &names)
                              : check_global_result(v, i, type, &states, &grads);
    if (status != PTC_OK) v->ok = false;
  }
  ptc_map_deinit(&names);
  ptc_map_deinit(&states);
  ptc_map_deinit(&grads);
}

// --- state versions

// A new version takes the bytes of the old one: after the op that makes it, the old one is gone. A
// repeat that makes it, instance by instance, reads each old instance before.
static void check_reads(verify_t *v, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_op_t *writer = ptc_map_get(&v->writers, op->operands[i]);
    if (!writer || writer == op || !ptc_map_get(&v->written, writer)) continue;
    ptc_error(v->module->diag, op->loc, PTC_INVALID_INPUT, "state-c1",
              "%s: operand %" PRId32 " is an old version of \"%s\", read after the new one is made",
              ptc_op_info(op->opcode)->mnemonic, i,
              v->func->arg_globals[op->operands[i]->index]->path);
    ptc_note(v->module->diag, writer->loc, "the new version is made here");
    v->ok = false;
  }
  for (const ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    check_reads(v, inner);
}

static void check_states(verify_t *v) {
  const ptc_func_t *func = v->func;
  const ptc_op_t *ret = ptc_func_return(func);
  ptc_map_t args = {0};
  for (int32_t i = 0; i < func->body->num_args; i++)
    ptc_map_set(&args, func->arg_globals[i], func->body->args[i]);
  for (int32_t i = 0; i < ret->num_operands; i++) {
    const ptc_result_t *result = &func->results[i];
    if (result->kind != PTC_RESULT_STATE || !result->global || !ret->operands[i]->def) continue;
    const ptc_value_t *old = ptc_map_get(&args, result->global);
    if (old) ptc_map_set(&v->writers, old, ret->operands[i]->def);
  }
  ptc_map_deinit(&args);
  if (!v->writers.len) return;
  for (const ptc_op_t *op = func->body->first; op; op = op->next) {
    check_reads(v, op);
    ptc_map_set(&v->written, op, (void *)1);
  }
  ptc_map_deinit(&v->writers);
  ptc_map_deinit(&v->written);
}

ptc_status_t ptc_module_verify(ptc_module_t *module) {
  PTC_TRY(ptc_verify_structure(module));
  verify_t state = {.module = module, .ok = true}, *v = &state;
  for (const ptc_func_t *func = module->funcs; func; func = func->next) {
    v->func = func;
    ptc_block_walk(func->body, check_op_types, v);
    check_results(v);
    check_states(v);
  }
  ptc_arena_deinit(&v->scratch);
  return v->ok ? PTC_OK : PTC_INVALID_INPUT;
}

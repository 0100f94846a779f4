// The interpreter's driver: state, environment, liveness, rounding. The ops are in interp_*.c.
#include "ir/interp.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"

static const ptc_interp_fn_t op_functions[PTC_NUM_OPS] = {
#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, interp, \
               ...)                                                                               \
  ptc_interp_##interp,
#include "ir/ops.def"
#undef PTC_OP
};

// The value of an SSA value at present.
typedef struct slot_s {
  ptc_tensor_t tensor;
  bool owned;  // data is freed with the slot
} slot_t;

// Values (by id) whose last use is the same op.
typedef struct death_s {
  int64_t id;
  struct death_s *next;
} death_t;

struct ptc_interp_s {
  ptc_module_t *module;
  ptc_interp_mode_t mode;
  ptc_arena_t arena;       // local types; lives as long as the interpreter
  ptc_map_t local_types;   // type -> local type
  int64_t *coords;         // one per mesh axis
  ptc_tensor_t **globals;  // by index; NULL until asked for
  int64_t num_globals;
  ptc_tensor_t *results;
  int32_t num_results;
  // Of the run in progress:
  slot_t *slots;  // by value id
  int64_t num_slots;
  ptc_arena_t run_arena;
  ptc_map_t deaths;  // op -> death_t list
};

// --- tensors

static int64_t total(const ptc_tensor_t *tensor) {
  return tensor->num_elements * tensor->num_instances;
}

const ptc_type_t *ptc_interp_local_type(ptc_interp_t *interp, const ptc_type_t *type) {
  bool sharded = false;
  for (int32_t i = 0; i < type->num_dims; i++) sharded |= type->dims[i].num_axes > 0;
  if (!sharded) return type;
  ptc_type_t *local = ptc_map_get(&interp->local_types, type);
  if (local) return local;
  ptc_dim_t dims[PTC_MAX_DIMS];
  for (int32_t i = 0; i < type->num_dims; i++)
    dims[i] = (ptc_dim_t){.name = type->dims[i].name,
                          .extent = ptc_dim_local_extent(&interp->module->mesh, &type->dims[i])};
  ptc_type_t *plain = ptc_type_new(&interp->arena, type->dtype, dims, type->num_dims);
  plain->counts = type->counts;
  plain->num_counts = type->num_counts;
  ptc_map_set(&interp->local_types, type, plain);
  return plain;
}

// A tensor of zeros.
static ptc_tensor_t make_tensor(ptc_interp_t *interp, const ptc_type_t *type) {
  ptc_tensor_t tensor = {.type = ptc_interp_local_type(interp, type)};
  tensor.num_elements = ptc_type_num_elements(tensor.type);
  tensor.num_instances = ptc_type_num_instances(tensor.type);
  size_t count = (size_t)total(&tensor);
  tensor.data = calloc(count ? count : 1, sizeof(double));
  if (!tensor.data) ptc_oom(count * sizeof(double));
  return tensor;
}

static void round_tensor(const ptc_interp_t *interp, ptc_tensor_t *tensor) {
  ptc_dtype_t dtype = tensor->type->dtype;
  if (dtype == PTC_F64 || (interp->mode == PTC_INTERP_EXACT && ptc_dtype_is_float(dtype))) return;
  int64_t count = total(tensor);
  for (int64_t i = 0; i < count; i++) tensor->data[i] = ptc_dtype_round(dtype, tensor->data[i]);
}

// --- life of an interpreter

ptc_interp_t *ptc_interp_create(ptc_module_t *module, ptc_interp_mode_t mode) {
  ptc_interp_t *interp = ptc_xmalloc(sizeof(*interp));
  *interp = (ptc_interp_t){.module = module, .mode = mode};
  ptc_arena_init(&interp->arena);
  ptc_arena_init(&interp->run_arena);
  interp->coords = PTC_ARENA_ARRAY(&interp->arena, int64_t, module->mesh.num_axes + 1);
  return interp;
}

static void drop_results(ptc_interp_t *interp) {
  for (int32_t i = 0; i < interp->num_results; i++) free(interp->results[i].data);
  free(interp->results);
  interp->results = NULL;
  interp->num_results = 0;
}

void ptc_interp_destroy(ptc_interp_t *interp) {
  if (!interp) return;
  drop_results(interp);
  for (int64_t i = 0; i < interp->num_globals; i++) {
    if (interp->globals[i]) free(interp->globals[i]->data);
    free(interp->globals[i]);
  }
  free(interp->globals);
  ptc_map_deinit(&interp->local_types);
  ptc_arena_deinit(&interp->arena);
  ptc_arena_deinit(&interp->run_arena);
  free(interp);
}

ptc_tensor_t *ptc_interp_global(ptc_interp_t *interp, const ptc_global_t *global) {
  if (global->index >= interp->num_globals) {
    int64_t count = global->index + 1;
    interp->globals = ptc_xrealloc(interp->globals, (size_t)count * sizeof(*interp->globals));
    for (int64_t i = interp->num_globals; i < count; i++) interp->globals[i] = NULL;
    interp->num_globals = count;
  }
  ptc_tensor_t **slot = &interp->globals[global->index];
  if (*slot) return *slot;
  *slot = ptc_xmalloc(sizeof(**slot));
  **slot = make_tensor(interp, global->type);
  double value = ptc_attrs_float(&global->attrs, "value", 0);  // of counters and settings
  for (int64_t i = 0; i < total(*slot); i++) (*slot)->data[i] = value;
  return *slot;
}

const ptc_tensor_t *ptc_interp_result(const ptc_interp_t *interp, int32_t index) {
  return &interp->results[index];
}

int64_t *ptc_interp_coords(ptc_interp_t *interp) { return interp->coords; }

// --- liveness: the memory of a value is freed after the last op of its block that uses it, itself
// or in its body.

static void note_uses(ptc_op_t *op, void *arg) {
  const ptc_op_t **last_use = arg;
  for (int32_t i = 0; i < op->num_results; i++) last_use[op->results[i]->id] = op;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_op_t *user = op;
    while (user->parent != ptc_value_block(op->operands[i])) user = user->parent->parent_op;
    last_use[op->operands[i]->id] = user;
  }
}

// In the walk a use comes after the definition, so the last note is the last use.
static void find_deaths(ptc_interp_t *interp, ptc_func_t *func) {
  size_t bytes = (size_t)(interp->num_slots + 1) * sizeof(const ptc_op_t *);
  const ptc_op_t **last_use = ptc_xmalloc(bytes);
  memset(last_use, 0, bytes);
  ptc_block_walk(func->body, note_uses, last_use);
  for (int64_t id = 0; id < interp->num_slots; id++) {
    if (!last_use[id]) continue;
    death_t *death = PTC_ARENA_NEW(&interp->run_arena, death_t);
    *death = (death_t){.id = id, .next = ptc_map_get(&interp->deaths, last_use[id])};
    ptc_map_set(&interp->deaths, last_use[id], death);
  }
  free(last_use);
}

static void drop_slot(ptc_interp_t *interp, int64_t id) {
  if (interp->slots[id].owned) free(interp->slots[id].tensor.data);
  interp->slots[id] = (slot_t){0};
}

static void drop_dead(ptc_interp_t *interp, const ptc_op_t *op) {
  for (death_t *death = ptc_map_get(&interp->deaths, op); death; death = death->next)
    drop_slot(interp, death->id);
}

// --- execution

// An elementwise op of bundles works instance by instance.
static ptc_status_t call_instances(const ptc_call_t *call, ptc_interp_fn_t function) {
  ptc_tensor_t in[4], out = *call->out[0];
  const ptc_tensor_t *in_list[4];
  ptc_tensor_t *out_list[1] = {&out};
  int32_t num_operands = call->op->num_operands < 4 ? call->op->num_operands : 4;
  for (int64_t r = 0; r < call->out[0]->num_instances; r++) {
    for (int32_t i = 0; i < num_operands; i++) {
      in[i] = *call->in[i];
      if (in[i].num_instances > 1) in[i].data += r * in[i].num_elements;
      in[i].num_instances = 1;
      in_list[i] = &in[i];
    }
    out.data = call->out[0]->data + r * out.num_elements;
    out.num_instances = 1;
    ptc_call_t one = *call;
    one.in = in_list;
    one.out = out_list;
    PTC_TRY(function(&one));
  }
  return PTC_OK;
}

static ptc_status_t execute(ptc_interp_t *interp, const ptc_op_t *op) {
  int32_t count = op->num_operands + op->num_results;
  ptc_tensor_t **tensors = ptc_xmalloc((size_t)(count + 1) * sizeof(*tensors));
  for (int32_t i = 0; i < op->num_operands; i++)
    tensors[i] = &interp->slots[op->operands[i]->id].tensor;
  for (int32_t i = 0; i < op->num_results; i++) {
    slot_t *slot = &interp->slots[op->results[i]->id];
    *slot = (slot_t){.tensor = make_tensor(interp, op->results[i]->type), .owned = true};
    tensors[op->num_operands + i] = &slot->tensor;
  }
  ptc_call_t call = {.interp = interp,
                     .module = interp->module,
                     .coords = interp->coords,
                     .op = op,
                     .in = (const ptc_tensor_t *const *)tensors,
                     .out = tensors + op->num_operands};
  ptc_interp_fn_t function = op_functions[op->opcode];
  bool bundles = ptc_op_has_trait(op, PTC_TRAIT_EWISE) && op->results[0]->type->num_counts > 0;
  ptc_status_t status = bundles ? call_instances(&call, function) : function(&call);
  // The values of views and bodies are rounded already.
  if (!ptc_op_has_trait(op, PTC_TRAIT_VIEW) && !ptc_op_has_trait(op, PTC_TRAIT_HAS_BODY))
    for (int32_t i = 0; i < op->num_results; i++)
      round_tensor(interp, tensors[op->num_operands + i]);
  free(tensors);
  drop_dead(interp, op);
  return status;
}

// All ops but the terminator.
static ptc_status_t run_block(ptc_interp_t *interp, const ptc_block_t *block) {
  for (const ptc_op_t *op = block->first; op; op = op->next)
    if (!ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR)) PTC_TRY(execute(interp, op));
  return PTC_OK;
}

static void bind(ptc_interp_t *interp, const ptc_value_t *value, const ptc_tensor_t *tensor) {
  drop_slot(interp, value->id);
  interp->slots[value->id] = (slot_t){.tensor = *tensor};
}

ptc_status_t ptc_interp_body(ptc_interp_t *interp, const ptc_op_t *op, ptc_tensor_t *const *args,
                             ptc_tensor_t *const *yields) {
  const ptc_block_t *body = op->body;
  for (int32_t i = 0; i < body->num_args; i++) bind(interp, body->args[i], args[i]);
  PTC_TRY(run_block(interp, body));
  const ptc_op_t *yield = body->last;
  for (int32_t i = 0; i < yield->num_operands; i++) {
    const ptc_tensor_t *value = &interp->slots[yield->operands[i]->id].tensor;
    memcpy(yields[i]->data, value->data, (size_t)total(value) * sizeof(double));
  }
  drop_dead(interp, yield);
  return PTC_OK;
}

// Terminators are read by the code that runs their block.
ptc_status_t ptc_interp_yield(const ptc_call_t *call) {
  (void)call;
  return PTC_OK;
}

// --- functions

// More numbers in one value (2 GiB) are refused, rather than run for days or out of memory.
static const int64_t MAX_ELEMENTS = (int64_t)1 << 28;

static ptc_status_t check_size(const ptc_interp_t *interp, ptc_loc_t loc, const ptc_type_t *type) {
  int64_t elements = ptc_type_num_elements(type), instances = ptc_type_num_instances(type), all;
  bool fits = elements >= 0 && instances >= 0 &&
              !__builtin_mul_overflow(elements, instances, &all) && all <= MAX_ELEMENTS;
  if (fits) return PTC_OK;
  ptc_str_t text = {0};
  ptc_type_print(&text, type);
  ptc_status_t status = ptc_error(
      interp->module->diag, loc, PTC_UNSUPPORTED, "interp-size",
      "a value of type %s is too large for the interpreter, whose limit is %" PRId64 " elements",
      text.data, MAX_ELEMENTS);
  ptc_str_deinit(&text);
  return status;
}

typedef struct size_check_s {
  const ptc_interp_t *interp;
  ptc_status_t status;
} size_check_t;

static void check_op_size(ptc_op_t *op, void *arg) {
  size_check_t *check = arg;
  for (int32_t i = 0; i < op->num_results && check->status == PTC_OK; i++)
    check->status = check_size(check->interp, op->loc, op->results[i]->type);
}

static ptc_status_t check_sizes(const ptc_interp_t *interp, const ptc_func_t *func) {
  size_check_t check = {.interp = interp, .status = PTC_OK};
  for (int32_t i = 0; i < func->body->num_args; i++)
    PTC_TRY(check_size(interp, func->arg_globals[i]->loc, func->arg_globals[i]->type));
  ptc_block_walk(func->body, check_op_size, &check);
  return check.status;
}

// Rounds an argument to its type; the integers of an input must lie in its range.
static ptc_status_t bind_global(ptc_interp_t *interp, const ptc_value_t *arg,
                                const ptc_global_t *global) {
  ptc_tensor_t *tensor = ptc_interp_global(interp, global);
  round_tensor(interp, tensor);
  bind(interp, arg, tensor);
  const ptc_attr_t *range = ptc_attrs_find(&global->attrs, "range");
  if (global->kind != PTC_GLOBAL_INPUT || !range) return PTC_OK;
  const double least = ptc_attrs_bool(&global->attrs, "ignorable", false) ? -HUGE_VAL : 0;
  for (int64_t i = 0; i < total(tensor); i++) {
    double value = tensor->data[i];
    if (value >= least && value < (double)range->u.i) continue;
    return ptc_error(interp->module->diag, global->loc, PTC_INVALID_INPUT, "input-range",
                     "input \"%s\" has the value %.0f at element %" PRId64 ", outside [0, %" PRId64
                     ")",
                     global->path, value, i, range->u.i);
  }
  return PTC_OK;
}

// Copies the operands of the return, then replaces the state.
static void take_results(ptc_interp_t *interp, const ptc_func_t *func, const ptc_op_t *ret) {
  interp->results = ptc_xmalloc((size_t)(ret->num_operands + 1) * sizeof(*interp->results));
  for (int32_t i = 0; i < ret->num_operands; i++) {
    const ptc_tensor_t *value = &interp->slots[ret->operands[i]->id].tensor;
    ptc_tensor_t *result = &interp->results[i];
    *result = make_tensor(interp, ret->operands[i]->type);
    memcpy(result->data, value->data, (size_t)total(value) * sizeof(double));
    interp->num_results++;
  }
  for (int32_t i = 0; i < func->num_results && i < interp->num_results; i++) {
    if (func->results[i].kind != PTC_RESULT_STATE) continue;
    ptc_tensor_t *state = ptc_interp_global(interp, func->results[i].global);
    memcpy(state->data, interp->results[i].data, (size_t)total(state) * sizeof(double));
  }
}

ptc_status_t ptc_interp_run(ptc_interp_t *interp, const char *name) {
  ptc_module_t *module = interp->module;
  ptc_func_t *func = ptc_module_find_func(module, name);
  drop_results(interp);
  if (!func)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "unknown-function",
                     "the module has no function \"%s\"", name);
  PTC_TRY(check_sizes(interp, func));
  interp->num_slots = module->next_value_id;
  interp->slots = calloc((size_t)interp->num_slots + 1, sizeof(*interp->slots));
  if (!interp->slots) ptc_oom((size_t)interp->num_slots * sizeof(*interp->slots));
  find_deaths(interp, func);

  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < func->body->num_args && status == PTC_OK; i++)
    status = bind_global(interp, func->body->args[i], func->arg_globals[i]);
  if (status == PTC_OK) status = run_block(interp, func->body);
  const ptc_op_t *ret = ptc_func_return(func);
  if (status == PTC_OK && ret) take_results(interp, func, ret);

  for (int64_t id = 0; id < interp->num_slots; id++) drop_slot(interp, id);
  free(interp->slots);
  interp->slots = NULL;
  ptc_map_deinit(&interp->deaths);
  ptc_arena_deinit(&interp->run_arena);
  return status;
}

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
  int32_t num_devices;
  bool too_many_devices;
  bool *is_time;           // one per mesh axis
  ptc_arena_t arena;       // local types; lives as long as the interpreter
  ptc_map_t local_types;   // type -> local type
  ptc_map_t copies;        // of whole tensors: key -> ptc_tensor_t
  int64_t *coords;         // per device, one per mesh axis
  ptc_tensor_t **globals;  // by index, one per device; NULL until asked for
  int64_t num_globals;
  const ptc_func_t *func;  // that was run last
  ptc_tensor_t *results;   // per result, one per device
  int32_t num_results;
  ptc_mail_t *mail;  // not owned
  int64_t stage;
  // Of the run in progress:
  int64_t micro;  // of a function that runs for each micro-batch
  slot_t *slots;  // per value id, one per device
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

// A tensor of zeros, padding included.
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

// --- devices

enum { MAX_DEVICES = 1024 };

typedef struct axis_scan_s {
  const char *axis;
  bool found;
} axis_scan_t;

static void note_axis(ptc_op_t *op, void *arg) {
  axis_scan_t *scan = arg;
  scan->found |= op->opcode == PTC_OP_REPEAT && ptc_op_string(op, "axis") == scan->axis;
}

static bool is_time(const ptc_module_t *module, const char *axis) {
  axis_scan_t scan = {.axis = axis, .found = strcmp(axis, "micro") == 0};
  for (const ptc_func_t *func = module->funcs; func && !scan.found; func = func->next)
    ptc_block_walk(func->body, note_axis, &scan);
  return scan.found;
}

// Numbers the devices row-major in the axes that are not time.
static void init_devices(ptc_interp_t *interp) {
  const ptc_mesh_t *mesh = &interp->module->mesh;
  const int32_t num_axes = mesh->num_axes;
  int64_t count = 1;
  interp->is_time = PTC_ARENA_ARRAY(&interp->arena, bool, num_axes + 1);
  for (int32_t i = 0; i < num_axes; i++) {
    interp->is_time[i] = is_time(interp->module, mesh->axes[i].name);
    if (!interp->is_time[i] && __builtin_mul_overflow(count, mesh->axes[i].size, &count))
      count = INT64_MAX;
  }
  interp->too_many_devices = count > MAX_DEVICES;
  interp->num_devices = interp->too_many_devices ? 1 : (int32_t)count;
  interp->coords =
      PTC_ARENA_ARRAY(&interp->arena, int64_t, (int64_t)interp->num_devices * num_axes + 1);
  for (int32_t d = 0; d < interp->num_devices; d++) {
    int64_t rest = d;
    for (int32_t i = num_axes - 1; i >= 0; i--) {
      if (interp->is_time[i]) continue;
      interp->coords[d * num_axes + i] = rest % mesh->axes[i].size;
      rest /= mesh->axes[i].size;
    }
  }
}

int32_t ptc_interp_num_devices(const ptc_interp_t *interp) { return interp->num_devices; }

int64_t *ptc_interp_coords(ptc_interp_t *interp, int32_t device) {
  return interp->coords + (int64_t)device * interp->module->mesh.num_axes;
}

int32_t ptc_interp_device_at(const ptc_interp_t *interp, const int64_t *coords) {
  const ptc_mesh_t *mesh = &interp->module->mesh;
  int64_t device = 0;
  for (int32_t i = 0; i < mesh->num_axes; i++)
    if (!interp->is_time[i]) device = device * mesh->axes[i].size + coords[i];
  return (int32_t)device;
}

bool ptc_interp_is_time(const ptc_interp_t *interp, const char *axis) {
  const ptc_mesh_t *mesh = &interp->module->mesh;
  for (int32_t i = 0; i < mesh->num_axes; i++)
    if (mesh->axes[i].name == axis) return interp->is_time[i];
  return false;
}

ptc_module_t *ptc_interp_module(const ptc_interp_t *interp) { return interp->module; }
ptc_interp_mode_t ptc_interp_mode(const ptc_interp_t *interp) { return interp->mode; }

// --- life of an interpreter

ptc_interp_t *ptc_interp_create(ptc_module_t *module, ptc_interp_mode_t mode) {
  ptc_interp_t *interp = ptc_xmalloc(sizeof(*interp));
  *interp = (ptc_interp_t){.module = module, .mode = mode};
  ptc_arena_init(&interp->arena);
  ptc_arena_init(&interp->run_arena);
  init_devices(interp);
  return interp;
}

static void drop_results(ptc_interp_t *interp) {
  for (int32_t i = 0; i < interp->num_results * interp->num_devices; i++)
    free(interp->results[i].data);
  free(interp->results);
  interp->results = NULL;
  interp->num_results = 0;
}

void ptc_interp_destroy(ptc_interp_t *interp) {
  if (!interp) return;
  drop_results(interp);
  for (int64_t i = 0; i < interp->num_globals; i++) {
    for (int32_t d = 0; interp->globals[i] && d < interp->num_devices; d++)
      free(interp->globals[i][d].data);
    free(interp->globals[i]);
  }
  free(interp->globals);
  for (int64_t i = 0; i < interp->copies.num_slots; i++)
    if (interp->copies.keys[i]) free(((ptc_tensor_t *)interp->copies.values[i])->data);
  ptc_map_deinit(&interp->copies);
  ptc_map_deinit(&interp->local_types);
  ptc_arena_deinit(&interp->arena);
  ptc_arena_deinit(&interp->run_arena);
  free(interp);
}

static ptc_tensor_t *make_global(ptc_interp_t *interp, const ptc_global_t *global) {
  ptc_tensor_t *tensors = ptc_xmalloc((size_t)interp->num_devices * sizeof(*tensors));
  double value = ptc_attrs_float(&global->attrs, "value", 0);  // of counters and settings
  for (int32_t d = 0; d < interp->num_devices; d++) {
    const int64_t slots = ptc_attrs_int(&global->attrs, "slots", 0);
    const ptc_type_t *type =
        slots > 0 ? ptc_type_bundle(&interp->arena, global->type, slots) : global->type;
    tensors[d] = make_tensor(interp, type);
    for (int64_t i = 0; i < total(&tensors[d]); i++) tensors[d].data[i] = value;
    ptc_interp_mark_padding(interp, type, d, &tensors[d]);
  }
  return tensors;
}

ptc_tensor_t *ptc_interp_global_on(ptc_interp_t *interp, const ptc_global_t *global,
                                   int32_t device) {
  if (global->index >= interp->num_globals) {
    int64_t count = global->index + 1;
    interp->globals = ptc_xrealloc(interp->globals, (size_t)count * sizeof(*interp->globals));
    for (int64_t i = interp->num_globals; i < count; i++) interp->globals[i] = NULL;
    interp->num_globals = count;
  }
  ptc_tensor_t **slot = &interp->globals[global->index];
  if (!*slot) *slot = make_global(interp, global);
  return *slot + device;
}

ptc_tensor_t *ptc_interp_global(ptc_interp_t *interp, const ptc_global_t *global) {
  return ptc_interp_global_on(interp, global, 0);
}

const ptc_tensor_t *ptc_interp_result_on(const ptc_interp_t *interp, int32_t index,
                                         int32_t device) {
  return &interp->results[index * interp->num_devices + device];
}

const ptc_tensor_t *ptc_interp_result(const ptc_interp_t *interp, int32_t index) {
  return ptc_interp_result_on(interp, index, 0);
}

ptc_tensor_t *ptc_interp_copy_of(ptc_interp_t *interp, const void *key) {
  ptc_tensor_t *copy = ptc_map_get(&interp->copies, key);
  if (copy) return copy;
  copy = PTC_ARENA_NEW(&interp->arena, ptc_tensor_t);
  ptc_map_set(&interp->copies, key, copy);
  return copy;
}

const ptc_func_t *ptc_interp_last_func(const ptc_interp_t *interp) { return interp->func; }

void ptc_interp_set_stage(ptc_interp_t *interp, ptc_mail_t *mail, int64_t stage) {
  interp->mail = mail;
  interp->stage = stage;
}

ptc_mail_t *ptc_interp_mail(const ptc_interp_t *interp, int64_t *out_stage) {
  *out_stage = interp->stage;
  return interp->mail;
}

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

static slot_t *slot_of(const ptc_interp_t *interp, int64_t id, int32_t device) {
  return &interp->slots[id * interp->num_devices + device];
}

static void drop_slot(ptc_interp_t *interp, int64_t id) {
  for (int32_t d = 0; d < interp->num_devices; d++) {
    slot_t *slot = slot_of(interp, id, d);
    if (slot->owned) free(slot->tensor.data);
    *slot = (slot_t){0};
  }
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

// On every device; an op with a body does that itself.
static ptc_status_t call_devices(const ptc_call_t *calls, ptc_interp_fn_t function) {
  const ptc_op_t *op = calls->op;
  if (ptc_op_has_trait(op, PTC_TRAIT_HAS_BODY)) return function(calls);
  bool bundles = ptc_op_has_trait(op, PTC_TRAIT_EWISE) && op->results[0]->type->num_counts > 0;
  for (int32_t d = 0; d < calls->num_devices; d++)
    PTC_TRY(bundles ? call_instances(&calls[d], function) : function(&calls[d]));
  return PTC_OK;
}

static ptc_status_t execute(ptc_interp_t *interp, const ptc_op_t *op) {
  const int32_t devices = interp->num_devices, count = op->num_operands + op->num_results;
  ptc_tensor_t **tensors = ptc_xmalloc((size_t)(count * devices + 1) * sizeof(*tensors));
  ptc_call_t *calls = ptc_xmalloc((size_t)devices * sizeof(*calls));
  for (int32_t d = 0; d < devices; d++) {
    ptc_tensor_t **own = tensors + d * count;
    for (int32_t i = 0; i < op->num_operands; i++)
      own[i] = &slot_of(interp, op->operands[i]->id, d)->tensor;
    for (int32_t i = 0; i < op->num_results; i++) {
      slot_t *slot = slot_of(interp, op->results[i]->id, d);
      *slot = (slot_t){.tensor = make_tensor(interp, op->results[i]->type), .owned = true};
      own[op->num_operands + i] = &slot->tensor;
    }
    calls[d] = (ptc_call_t){.interp = interp,
                            .module = interp->module,
                            .coords = ptc_interp_coords(interp, d),
                            .op = op,
                            .in = (const ptc_tensor_t *const *)own,
                            .out = own + op->num_operands,
                            .all = calls,
                            .num_devices = devices,
                            .device = d};
  }
  ptc_status_t status = call_devices(calls, op_functions[op->opcode]);
  // The values of views and bodies are rounded already.
  bool rounded = ptc_op_has_trait(op, PTC_TRAIT_VIEW) || ptc_op_has_trait(op, PTC_TRAIT_HAS_BODY);
  for (int32_t d = 0; d < devices; d++) {
    for (int32_t i = 0; i < op->num_results; i++) {
      ptc_tensor_t *result = tensors[d * count + op->num_operands + i];
      if (!rounded) round_tensor(interp, result);
      if (!op->body) ptc_interp_mark_padding(interp, op->results[i]->type, d, result);
    }
  }
  free(calls);
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

static void bind(ptc_interp_t *interp, const ptc_value_t *value, int32_t device,
                 const ptc_tensor_t *tensor) {
  *slot_of(interp, value->id, device) = (slot_t){.tensor = *tensor};
}

ptc_status_t ptc_interp_body(ptc_interp_t *interp, const ptc_op_t *op, ptc_tensor_t *const *args,
                             ptc_tensor_t *const *yields) {
  const ptc_block_t *body = op->body;
  const int32_t devices = interp->num_devices;
  for (int32_t i = 0; i < body->num_args; i++) {
    drop_slot(interp, body->args[i]->id);
    for (int32_t d = 0; d < devices; d++) bind(interp, body->args[i], d, args[i * devices + d]);
  }
  PTC_TRY(run_block(interp, body));
  const ptc_op_t *yield = body->last;
  for (int32_t i = 0; i < yield->num_operands; i++) {
    for (int32_t d = 0; d < devices; d++) {
      const ptc_tensor_t *value = &slot_of(interp, yield->operands[i]->id, d)->tensor;
      memcpy(yields[i * devices + d]->data, value->data, (size_t)total(value) * sizeof(double));
    }
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

static ptc_status_t check_size(ptc_interp_t *interp, ptc_loc_t loc, const ptc_type_t *type) {
  int64_t elements = -1, instances = ptc_type_num_instances(type), all;
  if (ptc_type_num_elements(type) >= 0)
    elements = ptc_type_num_elements(ptc_interp_local_type(interp, type));
  bool fits = elements >= 0 && instances >= 0 &&
              !__builtin_mul_overflow(elements, instances, &all) &&
              !__builtin_mul_overflow(all, interp->num_devices, &all) && all <= MAX_ELEMENTS;
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
  ptc_interp_t *interp;
  ptc_status_t status;
} size_check_t;

static void check_op_size(ptc_op_t *op, void *arg) {
  size_check_t *check = arg;
  for (int32_t i = 0; i < op->num_results && check->status == PTC_OK; i++)
    check->status = check_size(check->interp, op->loc, op->results[i]->type);
}

static ptc_status_t check_sizes(ptc_interp_t *interp, const ptc_func_t *func) {
  size_check_t check = {.interp = interp, .status = PTC_OK};
  for (int32_t i = 0; i < func->body->num_args; i++)
    PTC_TRY(check_size(interp, func->arg_globals[i]->loc, func->arg_globals[i]->type));
  ptc_block_walk(func->body, check_op_size, &check);
  return check.status;
}

// What a function sees of a global: of a slot global one instance, if the function runs for each micro-batch.
static ptc_tensor_t seen_by(ptc_interp_t *interp, const ptc_func_t *func,
                            const ptc_global_t *global, const ptc_tensor_t *tensor) {
  ptc_tensor_t seen = *tensor;
  const int64_t slots = ptc_attrs_int(&global->attrs, "slots", 0);
  if (slots < 1 || !func->each_micro) return seen;
  seen.type = ptc_interp_local_type(interp, global->type);
  seen.num_instances /= slots;
  seen.data += interp->micro % slots * seen.num_instances * seen.num_elements;
  return seen;
}

// Rounds an argument to its type; the integers of an input must lie in its range.
static ptc_status_t bind_global(ptc_interp_t *interp, const ptc_value_t *arg,
                                const ptc_global_t *global, int32_t device) {
  ptc_tensor_t *tensor = ptc_interp_global_on(interp, global, device);
  round_tensor(interp, tensor);
  const ptc_tensor_t seen = seen_by(interp, arg->block->func, global, tensor);
  bind(interp, arg, device, &seen);
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
  const int32_t devices = interp->num_devices;
  interp->results =
      ptc_xmalloc((size_t)(ret->num_operands * devices + 1) * sizeof(*interp->results));
  for (int32_t i = 0; i < ret->num_operands; i++) {
    for (int32_t d = 0; d < devices; d++) {
      const ptc_tensor_t *value = &slot_of(interp, ret->operands[i]->id, d)->tensor;
      ptc_tensor_t *result = &interp->results[i * devices + d];
      *result = make_tensor(interp, ret->operands[i]->type);
      memcpy(result->data, value->data, (size_t)total(value) * sizeof(double));
    }
    interp->num_results++;
  }
  for (int32_t i = 0; i < func->num_results && i < interp->num_results; i++) {
    if (func->results[i].kind != PTC_RESULT_STATE) continue;
    for (int32_t d = 0; d < devices; d++) {
      const ptc_global_t *global = func->results[i].global;
      const ptc_tensor_t state =
          seen_by(interp, func, global, ptc_interp_global_on(interp, global, d));
      const ptc_tensor_t *result = ptc_interp_result_on(interp, i, d);
      memcpy(state.data, result->data, (size_t)total(&state) * sizeof(double));
    }
  }
}

ptc_status_t ptc_interp_run_micro(ptc_interp_t *interp, const char *name, int64_t micro) {
  const ptc_mesh_t *mesh = &interp->module->mesh;
  for (int32_t i = 0; i < mesh->num_axes; i++)
    for (int32_t d = 0; d < interp->num_devices; d++)
      if (strcmp(mesh->axes[i].name, "micro") == 0) ptc_interp_coords(interp, d)[i] = micro;
  interp->micro = micro;
  return ptc_interp_run(interp, name);
}

ptc_status_t ptc_interp_run(ptc_interp_t *interp, const char *name) {
  ptc_module_t *module = interp->module;
  ptc_func_t *func = ptc_module_find_func(module, name);
  drop_results(interp);
  if (!func)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "unknown-function",
                     "the module has no function \"%s\"", name);
  if (interp->too_many_devices)
    return ptc_error(module->diag, func->loc, PTC_UNSUPPORTED, "interp-devices",
                     "the mesh has more devices than the interpreter can run, which is %d; choose "
                     "a smaller one",
                     MAX_DEVICES);
  PTC_TRY(check_sizes(interp, func));
  interp->func = func;
  interp->num_slots = module->next_value_id;
  size_t num_slots = (size_t)interp->num_slots * (size_t)interp->num_devices + 1;
  interp->slots = calloc(num_slots, sizeof(*interp->slots));
  if (!interp->slots) ptc_oom(num_slots * sizeof(*interp->slots));
  find_deaths(interp, func);

  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < func->body->num_args; i++)
    for (int32_t d = 0; d < interp->num_devices && status == PTC_OK; d++)
      status = bind_global(interp, func->body->args[i], func->arg_globals[i], d);
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

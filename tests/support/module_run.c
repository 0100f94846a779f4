// A fused module executed kernel by kernel, on all devices of the mesh side by side: control, views, collectives and
// templates as the interpreter does them.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"
#include "passes/check_semantics.h"
#include "passes/devices.h"
#include "tests/support/kernel_eval.h"
#include "tests/support/kernel_groups.h"

typedef struct kept_kernel_s {
  ptc_built_kernel_t built;
  int32_t num_ops;
} kept_kernel_t;

enum { MAX_LEVELS = 16 + PTC_MAX_COUNTS };

struct module_run_s {
  ptc_interp_t *interp;
  ptc_module_t *module;
  bool exact, failed;
  int32_t devices;
  ptc_arena_t arena;
  ptc_map_t kernels;      // first op -> kept_kernel_t
  ptc_tensor_t *tensors;  // per value id, one per device
  int64_t *coords;        // per device, one per mesh axis
  int64_t turns[MAX_LEVELS];
  int32_t depth;
  const ptc_op_t *ret;
};

static const ptc_interp_fn_t op_functions[PTC_NUM_OPS] = {
#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, interp, \
               ...)                                                                               \
  ptc_interp_##interp,
#include "ir/ops.def"
#undef PTC_OP
};

static ptc_tensor_t *tensor_of(const module_run_t *run, const ptc_value_t *value, int32_t device) {
  return &run->tensors[value->id * run->devices + device];
}

// Values are in memory on all devices, or on none.
static bool in_memory(const module_run_t *run, const ptc_value_t *value) {
  return tensor_of(run, value, 0)->data != NULL;
}

static int64_t total(const ptc_tensor_t *t) { return t->num_elements * t->num_instances; }

static void *zeros(module_run_t *run, int64_t count) {
  return ptc_arena_calloc(&run->arena, (size_t)count + 1, sizeof(double));
}

// Fresh memory for |value|; NaN, so that what is not written shows.
static void make(module_run_t *run, const ptc_value_t *value) {
  for (int32_t d = 0; d < run->devices; d++) {
    ptc_tensor_t *t = tensor_of(run, value, d);
    t->type = ptc_interp_local_type(run->interp, value->type);
    t->num_elements = ptc_type_num_elements(t->type);
    t->num_instances = ptc_type_num_instances(t->type);
    t->data = zeros(run, total(t));
    for (int64_t i = 0; i < total(t); i++) t->data[i] = NAN;
  }
}

static void fail(module_run_t *run, const ptc_op_t *op, const char *what) {
  if (!run->failed)
    fprintf(stderr, "%s at line %d: %s\n", ptc_op_info(op->opcode)->mnemonic, (int)op->loc.line,
            what);
  run->failed = true;
}

// By the interpreter's own function: views, collectives and templates.
static void run_op(module_run_t *run, ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    if (in_memory(run, op->operands[i])) continue;
    fail(run, op, "an operand is not in memory");
    return;
  }
  for (int32_t i = 0; i < op->num_results; i++) make(run, op->results[i]);
  ptc_call_t *calls = PTC_ARENA_ARRAY(&run->arena, ptc_call_t, run->devices);
  for (int32_t d = 0; d < run->devices; d++) {
    const ptc_tensor_t **in =
        PTC_ARENA_ARRAY(&run->arena, const ptc_tensor_t *, op->num_operands + 1);
    ptc_tensor_t **out = PTC_ARENA_ARRAY(&run->arena, ptc_tensor_t *, op->num_results + 1);
    for (int32_t i = 0; i < op->num_operands; i++) in[i] = tensor_of(run, op->operands[i], d);
    for (int32_t i = 0; i < op->num_results; i++) {
      out[i] = tensor_of(run, op->results[i], d);
      memset(out[i]->data, 0, (size_t)total(out[i]) * sizeof(double));
    }
    calls[d] = (ptc_call_t){.interp = run->interp,
                            .module = run->module,
                            .coords = run->coords + d * run->module->mesh.num_axes,
                            .op = op,
                            .in = in,
                            .out = out,
                            .all = calls,
                            .num_devices = run->devices,
                            .device = d};
  }
  for (int32_t d = 0; d < run->devices; d++) {
    if (op_functions[op->opcode](&calls[d]) != PTC_OK) fail(run, op, "failed");
    for (int32_t i = 0; i < op->num_results; i++) {
      ptc_tensor_t *out = calls[d].out[i];
      const ptc_dtype_t dtype = op->results[i]->type->dtype;
      ptc_interp_mark_padding(run->interp, op->results[i]->type, d, out);
      if (run->exact && ptc_dtype_is_float(dtype)) continue;
      for (int64_t n = 0; n < total(out); n++) out->data[n] = ptc_dtype_round(dtype, out->data[n]);
    }
  }
}

static kept_kernel_t *kernel_of(module_run_t *run, ptc_op_t *first) {
  kept_kernel_t *kept = ptc_map_get(&run->kernels, first);
  if (kept) return kept;
  kept = PTC_ARENA_NEW(&run->arena, kept_kernel_t);
  ptc_op_t *ops[KERNEL_GROUP_OPS];
  kept->num_ops = kernel_group(first, ops);
  const char *name = ptc_arena_printf(&run->arena, "k%" PRId64, ptc_op_int(first, "kernel"));
  if (ptc_build_kernel(run->module->diag, &run->arena, name, ops, kept->num_ops, &kept->built) !=
          PTC_OK ||
      ptc_kernel_verify(run->module->diag, kept->built.kernel) != PTC_OK) {
    fail(run, first, "its kernel is not built");
    return NULL;
  }
  ptc_map_set(&run->kernels, first, kept);
  return kept;
}

// Whether only a template of the interpreter can run |kernel|.
static bool is_template(const ptc_kernel_t *kernel) {
  return kernel->kind != PTC_KERNEL_NEST && kernel->kind != PTC_KERNEL_GEMM;
}

// Inline operands of a template, computed for it.
static void run_inline(module_run_t *run, ptc_value_t *value) {
  if (!value->def || in_memory(run, value)) return;
  for (int32_t i = 0; i < value->def->num_operands; i++) run_inline(run, value->def->operands[i]);
  run_op(run, value->def);
}

// The coordinates of a device are the outermost levels.
static void set_levels(module_run_t *run, int32_t device) {
  const ptc_mesh_t *mesh = &run->module->mesh;
  for (int32_t a = 0; a < mesh->num_axes; a++) {
    const int32_t level = ptc_devices_level(mesh, mesh->axes[a].name);
    if (level >= 0) run->turns[level] = run->coords[device * mesh->num_axes + a];
  }
}

static void run_on(module_run_t *run, const kept_kernel_t *kept, ptc_op_t *first, int32_t device) {
  const ptc_kernel_t *kernel = kept->built.kernel;
  double *params[PTC_KERNEL_MAX_PARAMS];
  int64_t instances = 1;
  set_levels(run, device);
  for (int32_t i = 0; i < kernel->num_params; i++) {
    const ptc_value_t *input = kept->built.inputs[i];
    ptc_tensor_t *t = tensor_of(run, kept->built.values[i], device);
    if (input)
      memcpy(t->data, tensor_of(run, input, device)->data, (size_t)total(t) * sizeof(double));
    if (t->num_instances > instances) instances = t->num_instances;
  }
  for (int64_t n = 0; n < instances; n++) {
    for (int32_t i = 0; i < kernel->num_params; i++) {
      const ptc_tensor_t *t = tensor_of(run, kept->built.values[i], device);
      params[i] = t->data + (t->num_instances > 1 ? n * t->num_elements : 0);
    }
    run->turns[run->depth] = n;
    if (!kernel_eval(kernel, params, run->turns, run->exact)) {
      ptc_str_t text = {0};
      ptc_kernel_print(kernel, &text);
      fprintf(stderr, "%s", text.data);
      ptc_str_deinit(&text);
      fail(run, first, "its kernel failed");
    }
  }
}

static void run_kernel(module_run_t *run, const kept_kernel_t *kept, ptc_op_t *first) {
  const ptc_kernel_t *kernel = kept->built.kernel;
  if (is_template(kernel)) {
    for (int32_t i = 0; i < first->num_operands; i++)
      if (!in_memory(run, first->operands[i])) run_inline(run, first->operands[i]);
    run_op(run, first);
    return;
  }
  for (int32_t i = 0; i < kernel->num_params; i++) {
    const ptc_value_t *value = kept->built.values[i], *input = kept->built.inputs[i];
    if (kernel->params[i].mode != PTC_KPARAM_IN) make(run, value);
    if (in_memory(run, value) && (!input || in_memory(run, input))) continue;
    fail(run, first, "a parameter is not in memory");
    return;
  }
  for (int32_t d = 0; d < run->devices; d++) run_on(run, kept, first, d);
}

static void run_block(module_run_t *run, ptc_block_t *block);

// Instance |turn| of |bundle|, as a value of |type|.
static ptc_tensor_t instance(module_run_t *run, const ptc_tensor_t *bundle, const ptc_type_t *type,
                             int64_t turn, int64_t count) {
  ptc_tensor_t part = *bundle;
  part.type = ptc_interp_local_type(run->interp, type);
  part.num_instances = bundle->num_instances / count;
  part.data = bundle->data + turn * part.num_instances * part.num_elements;
  return part;
}

// Values of a body belong to one turn.
static void forget(module_run_t *run, const ptc_block_t *block) {
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    for (int32_t i = 0; i < op->num_results; i++)
      for (int32_t d = 0; d < run->devices; d++) tensor_of(run, op->results[i], d)->data = NULL;
    if (op->body) forget(run, op->body);
  }
}

static void copy_data(ptc_tensor_t *to, int64_t at, const ptc_tensor_t *from) {
  memcpy(to->data + at, from->data, (size_t)total(from) * sizeof(double));
}

// The mesh axis whose coordinate is the turn; -1: none.
static int32_t turn_axis(const module_run_t *run, const ptc_op_t *op) {
  const char *axis = ptc_op_string(op, "axis");
  for (int32_t i = 0; axis && i < run->module->mesh.num_axes; i++)
    if (run->module->mesh.axes[i].name == axis) return i;
  return -1;
}

static void begin_turn(module_run_t *run, const ptc_op_t *op, int64_t turn, bool first) {
  const ptc_block_t *body = op->body;
  make(run, body->args[0]);
  for (int32_t i = 0; i < op->num_carry; i++) make(run, body->args[1 + i]);
  for (int32_t d = 0; d < run->devices; d++) {
    tensor_of(run, body->args[0], d)->data[0] = (double)turn;
    for (int32_t i = 0; i < op->num_carry; i++)
      copy_data(tensor_of(run, body->args[1 + i], d), 0,
                tensor_of(run, first ? op->operands[i] : op->results[i], d));
    for (int32_t i = op->num_carry; i < op->num_operands; i++)
      *tensor_of(run, body->args[1 + i], d) =
          instance(run, tensor_of(run, op->operands[i], d), body->args[1 + i]->type, turn,
                   ptc_op_int(op, "count"));
  }
  forget(run, body);
}

static void end_turn(module_run_t *run, const ptc_op_t *op, int64_t turn) {
  const ptc_op_t *yield = op->body->last;
  for (int32_t i = 0; i < op->num_results; i++) {
    if (!in_memory(run, yield->operands[i])) {
      fail(run, yield, "a yielded value is not in memory");
      return;
    }
    for (int32_t d = 0; d < run->devices; d++) {
      const ptc_tensor_t *y = tensor_of(run, yield->operands[i], d);
      copy_data(tensor_of(run, op->results[i], d), i < op->num_carry ? 0 : turn * total(y), y);
    }
  }
}

static void run_repeat(module_run_t *run, ptc_op_t *op) {
  const int64_t count = ptc_op_int(op, "count");
  const int32_t num_axes = run->module->mesh.num_axes, axis = turn_axis(run, op);
  const int64_t kept = axis >= 0 ? run->coords[axis] : 0;
  for (int32_t i = 0; i < op->num_results; i++) make(run, op->results[i]);
  for (int32_t i = 0; i < op->num_operands; i++) {
    if (in_memory(run, op->operands[i])) continue;
    fail(run, op, "an operand is not in memory");
    return;
  }
  const int32_t depth = run->depth++;
  for (int64_t n = 0; n < count && !run->failed; n++) {
    const int64_t turn = ptc_op_bool(op, "reverse") ? count - 1 - n : n;
    run->turns[depth] = turn;
    for (int32_t d = 0; axis >= 0 && d < run->devices; d++) run->coords[d * num_axes + axis] = turn;
    begin_turn(run, op, turn, n == 0);
    run_block(run, op->body);
    if (!run->failed) end_turn(run, op, turn);
  }
  run->depth = depth;
  for (int32_t d = 0; axis >= 0 && d < run->devices; d++) run->coords[d * num_axes + axis] = kept;
}

static void run_block(module_run_t *run, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op && !run->failed;) {
    if (op->opcode == PTC_OP_REPEAT) {
      run_repeat(run, op);
    } else if (ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR)) {
      if (op->opcode == PTC_OP_RETURN) run->ret = op;
    } else if (ptc_op_attr(op, "kernel")) {
      const kept_kernel_t *kept = kernel_of(run, op);
      if (!kept) return;
      run_kernel(run, kept, op);
      for (int32_t i = 1; i < kept->num_ops; i++) op = op->next;
    } else if (!ptc_op_bool(op, "inline")) {
      const ptc_value_t *base = op->operands[0];
      while (base->def && ptc_view_is_alias(base->def)) base = base->def->operands[0];
      // A view of an inline value is computed by who reads it.
      if (!base->def || !ptc_op_bool(base->def, "inline")) run_op(run, op);
    }
    op = op->next;
  }
}

static void bind_args(module_run_t *run, const ptc_func_t *func) {
  for (int32_t i = 0; i < func->body->num_args; i++) {
    make(run, func->body->args[i]);
    for (int32_t d = 0; d < run->devices; d++) {
      const ptc_tensor_t *global = ptc_interp_global_on(run->interp, func->arg_globals[i], d);
      const ptc_dtype_t dtype = global->type->dtype;
      const bool keeps = run->exact && ptc_dtype_is_float(dtype);
      ptc_tensor_t *t = tensor_of(run, func->body->args[i], d);
      for (int64_t n = 0; n < total(t); n++)
        t->data[n] = keeps ? global->data[n] : ptc_dtype_round(dtype, global->data[n]);
    }
  }
}

module_run_t *module_run(ptc_interp_t *interp, ptc_module_t *module, const char *name, bool exact) {
  module_run_t *run = ptc_xmalloc(sizeof(*run));
  *run = (module_run_t){.interp = interp,
                        .module = module,
                        .exact = exact,
                        .devices = ptc_interp_num_devices(interp),
                        .depth = ptc_devices_num_axes(&module->mesh)};
  ptc_arena_init(&run->arena);
  run->tensors = PTC_ARENA_ARRAY(&run->arena, ptc_tensor_t,
                                 (module->next_value_id + 1) * (int64_t)run->devices);
  const int32_t num_axes = module->mesh.num_axes;
  run->coords = PTC_ARENA_ARRAY(&run->arena, int64_t, (int64_t)run->devices * num_axes + 1);
  for (int32_t d = 0; d < run->devices; d++)
    for (int32_t a = 0; a < num_axes; a++)
      run->coords[d * num_axes + a] = ptc_interp_coords(interp, d)[a];
  ptc_func_t *func = ptc_module_find_func(module, ptc_module_intern(module, name));
  bind_args(run, func);
  run_block(run, func->body);
  if (!run->failed) return run;
  ptc_diag_print(module->diag, stderr, PTC_DIAG_TEXT, false);
  module_run_free(run);
  return NULL;
}

void module_run_free(module_run_t *run) {
  if (!run) return;
  ptc_map_deinit(&run->kernels);
  ptc_arena_deinit(&run->arena);
  free(run);
}

const ptc_tensor_t *module_run_result(const module_run_t *run, int32_t index) {
  return tensor_of(run, run->ret->operands[index], 0);
}

int32_t module_run_num_kernels(const module_run_t *run) { return (int32_t)run->kernels.len; }

// |padding|: NaN where an element is padding.
static double difference(const ptc_tensor_t *a, const ptc_tensor_t *b, const double *padding) {
  double scale = 1e-6, worst = 0;
  for (int64_t i = 0; i < total(b); i++)
    if (isfinite(b->data[i])) scale = fmax(scale, fabs(b->data[i]));
  if (!a->data) return INFINITY;
  for (int64_t i = 0; i < total(b); i++) {
    const double x = a->data[i], y = b->data[i];
    if (x == y || (isnan(x) && isnan(y)) || isnan(padding[i])) continue;
    const double d = fabs(x - y) / scale;
    worst = fmax(worst, isfinite(d) ? d : INFINITY);
  }
  return worst;
}

// Of result |index| on all devices.
static double largest_difference(module_run_t *run, int32_t index) {
  const ptc_value_t *value = run->ret->operands[index];
  double worst = 0;
  for (int32_t d = 0; d < run->devices; d++) {
    const ptc_tensor_t *want = ptc_interp_result_on(run->interp, index, d);
    ptc_tensor_t mark = *want;
    mark.data = zeros(run, total(want));
    ptc_interp_mark_padding(run->interp, ptc_type_with_dtype(&run->arena, value->type, PTC_F64), d,
                            &mark);
    worst = fmax(worst, difference(tensor_of(run, value, d), want, mark.data));
  }
  return worst;
}

double module_run_compare(ptc_module_t *module, const char *name, uint64_t seed, bool exact,
                          char out_worst[256]) {
  ptc_interp_t *interp = ptc_interp_create(module, exact ? PTC_INTERP_EXACT : PTC_INTERP_TYPED);
  ptc_semantics_fill(interp, module, seed);
  snprintf(out_worst, 256, "%s", name);
  double worst = INFINITY;
  module_run_t *run = module_run(interp, module, name, exact);
  const char *interned = ptc_module_intern(module, name);
  if (run && ptc_interp_run(interp, interned) == PTC_OK) {
    const ptc_func_t *func = ptc_module_find_func(module, interned);
    worst = 0;
    for (int32_t i = 0; i < func->num_results; i++) {
      const ptc_result_t *result = &func->results[i];
      const double d = largest_difference(run, i);
      if (d <= worst) continue;
      worst = d;
      snprintf(out_worst, 256, "%s: %s", name,
               result->kind == PTC_RESULT_VALUE ? result->name : result->global->path);
    }
  }
  module_run_free(run);
  ptc_interp_destroy(interp);
  return worst;
}

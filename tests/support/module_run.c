// A fused module executed kernel by kernel: control, views and templates as the interpreter does them.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"
#include "passes/check_semantics.h"
#include "tests/support/kernel_eval.h"
#include "tests/support/kernel_groups.h"

typedef struct kept_kernel_s {
  ptc_built_kernel_t built;
  int32_t num_ops;
} kept_kernel_t;

struct module_run_s {
  ptc_interp_t *interp;
  ptc_module_t *module;
  bool exact, failed;
  ptc_arena_t arena;
  ptc_map_t kernels;      // first op -> kept_kernel_t
  ptc_tensor_t *tensors;  // by value id
  int64_t *coords;
  int64_t turns[PTC_MAX_COUNTS];
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

static ptc_tensor_t *tensor_of(module_run_t *run, const ptc_value_t *value) {
  return &run->tensors[value->id];
}

static int64_t total(const ptc_tensor_t *t) { return t->num_elements * t->num_instances; }

static void *zeros(module_run_t *run, int64_t count) {
  return ptc_arena_calloc(&run->arena, (size_t)count + 1, sizeof(double));
}

// Fresh memory for |value|; NaN, so that what is not written shows.
static ptc_tensor_t *make(module_run_t *run, const ptc_value_t *value) {
  ptc_tensor_t *t = tensor_of(run, value);
  t->type = ptc_interp_local_type(run->interp, value->type);
  t->num_elements = ptc_type_num_elements(t->type);
  t->num_instances = ptc_type_num_instances(t->type);
  t->data = zeros(run, total(t));
  for (int64_t i = 0; i < total(t); i++) t->data[i] = NAN;
  return t;
}

static void fail(module_run_t *run, const ptc_op_t *op, const char *what) {
  if (!run->failed)
    fprintf(stderr, "%s at line %d: %s\n", ptc_op_info(op->opcode)->mnemonic, (int)op->loc.line,
            what);
  run->failed = true;
}

// By the interpreter's own function: views and templates.
static void run_op(module_run_t *run, ptc_op_t *op) {
  const ptc_tensor_t **in =
      PTC_ARENA_ARRAY(&run->arena, const ptc_tensor_t *, op->num_operands + 1);
  ptc_tensor_t **out = PTC_ARENA_ARRAY(&run->arena, ptc_tensor_t *, op->num_results + 1);
  for (int32_t i = 0; i < op->num_operands; i++) {
    in[i] = tensor_of(run, op->operands[i]);
    if (!in[i]->data) {
      fail(run, op, "an operand is not in memory");
      return;
    }
  }
  for (int32_t i = 0; i < op->num_results; i++) {
    out[i] = make(run, op->results[i]);
    memset(out[i]->data, 0, (size_t)total(out[i]) * sizeof(double));
  }
  ptc_call_t call = {.interp = run->interp,
                     .module = run->module,
                     .coords = run->coords,
                     .op = op,
                     .in = in,
                     .out = out,
                     .num_devices = 1};
  call.all = &call;
  if (op_functions[op->opcode](&call) != PTC_OK) fail(run, op, "failed");
  for (int32_t i = 0; i < op->num_results; i++) {
    const ptc_dtype_t dtype = op->results[i]->type->dtype;
    if (run->exact && ptc_dtype_is_float(dtype)) continue;
    for (int64_t n = 0; n < total(out[i]); n++)
      out[i]->data[n] = ptc_dtype_round(dtype, out[i]->data[n]);
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
  if (!value->def || tensor_of(run, value)->data) return;
  for (int32_t i = 0; i < value->def->num_operands; i++) run_inline(run, value->def->operands[i]);
  run_op(run, value->def);
}

static void run_kernel(module_run_t *run, const kept_kernel_t *kept, ptc_op_t *first) {
  const ptc_kernel_t *kernel = kept->built.kernel;
  if (is_template(kernel)) {
    for (int32_t i = 0; i < first->num_operands; i++)
      if (!tensor_of(run, first->operands[i])->data) run_inline(run, first->operands[i]);
    run_op(run, first);
    return;
  }
  double *params[PTC_KERNEL_MAX_PARAMS];
  int64_t instances = 1;
  for (int32_t i = 0; i < kernel->num_params; i++) {
    ptc_value_t *value = kept->built.values[i], *input = kept->built.inputs[i];
    const bool written = kernel->params[i].mode != PTC_KPARAM_IN;
    ptc_tensor_t *t = written ? make(run, value) : tensor_of(run, value);
    if (!t->data || (input && !tensor_of(run, input)->data)) {
      fail(run, first, "a parameter is not in memory");
      return;
    }
    if (input) memcpy(t->data, tensor_of(run, input)->data, (size_t)total(t) * sizeof(double));
    if (t->num_instances > instances) instances = t->num_instances;
  }
  for (int64_t n = 0; n < instances; n++) {
    for (int32_t i = 0; i < kernel->num_params; i++) {
      const ptc_tensor_t *t = tensor_of(run, kept->built.values[i]);
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
    for (int32_t i = 0; i < op->num_results; i++) tensor_of(run, op->results[i])->data = NULL;
    if (op->body) forget(run, op->body);
  }
}

static void run_repeat(module_run_t *run, ptc_op_t *op) {
  const int64_t count = ptc_op_int(op, "count");
  const char *axis = ptc_op_string(op, "axis");
  int64_t *coord = NULL, kept = 0;
  for (int32_t i = 0; axis && i < run->module->mesh.num_axes; i++)
    if (run->module->mesh.axes[i].name == axis) coord = &run->coords[i];
  if (coord) kept = *coord;
  for (int32_t i = 0; i < op->num_results; i++) make(run, op->results[i]);
  ptc_block_t *body = op->body;
  for (int32_t i = 0; i < op->num_operands; i++)
    if (!tensor_of(run, op->operands[i])->data) {
      fail(run, op, "an operand is not in memory");
      return;
    }
  for (int32_t i = 0; i < op->num_carry; i++)
    memcpy(tensor_of(run, op->results[i])->data, tensor_of(run, op->operands[i])->data,
           (size_t)total(tensor_of(run, op->operands[i])) * sizeof(double));
  const int32_t depth = run->depth++;
  for (int64_t n = 0; n < count && !run->failed; n++) {
    const int64_t turn = ptc_op_bool(op, "reverse") ? count - 1 - n : n;
    run->turns[depth] = turn;
    if (coord) *coord = turn;
    make(run, body->args[0])->data[0] = (double)turn;
    for (int32_t i = 0; i < op->num_carry; i++) {
      const ptc_tensor_t *from = tensor_of(run, n == 0 ? op->operands[i] : op->results[i]);
      ptc_tensor_t *to = make(run, body->args[1 + i]);
      memcpy(to->data, from->data, (size_t)total(to) * sizeof(double));
    }
    for (int32_t i = op->num_carry; i < op->num_operands; i++)
      *tensor_of(run, body->args[1 + i]) =
          instance(run, tensor_of(run, op->operands[i]), body->args[1 + i]->type, turn, count);
    forget(run, body);
    run_block(run, body);
    for (int32_t i = 0; i < op->num_results && !run->failed; i++) {
      const ptc_tensor_t *y = tensor_of(run, body->last->operands[i]);
      if (!y->data) {
        fail(run, body->last, "a yielded value is not in memory");
        break;
      }
      const int64_t at = i < op->num_carry ? 0 : turn * total(y);
      memcpy(tensor_of(run, op->results[i])->data + at, y->data, (size_t)total(y) * sizeof(double));
    }
  }
  run->depth = depth;
  if (coord) *coord = kept;
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

module_run_t *module_run(ptc_interp_t *interp, ptc_module_t *module, const char *name, bool exact) {
  module_run_t *run = ptc_xmalloc(sizeof(*run));
  *run = (module_run_t){.interp = interp, .module = module, .exact = exact};
  ptc_arena_init(&run->arena);
  run->tensors = PTC_ARENA_ARRAY(&run->arena, ptc_tensor_t, module->next_value_id + 1);
  run->coords = PTC_ARENA_ARRAY(&run->arena, int64_t, module->mesh.num_axes + 1);
  ptc_func_t *func = ptc_module_find_func(module, ptc_module_intern(module, name));
  for (int32_t i = 0; i < func->body->num_args; i++) {
    const ptc_tensor_t *global = ptc_interp_global(interp, func->arg_globals[i]);
    ptc_tensor_t *t = make(run, func->body->args[i]);
    for (int64_t n = 0; n < total(t); n++)
      t->data[n] = exact && ptc_dtype_is_float(global->type->dtype)
                       ? global->data[n]
                       : ptc_dtype_round(global->type->dtype, global->data[n]);
  }
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
  return &run->tensors[run->ret->operands[index]->id];
}

int32_t module_run_num_kernels(const module_run_t *run) { return (int32_t)run->kernels.len; }

static double difference(const ptc_tensor_t *a, const ptc_tensor_t *b) {
  double scale = 1e-6, worst = 0;
  for (int64_t i = 0; i < total(b); i++)
    if (isfinite(b->data[i])) scale = fmax(scale, fabs(b->data[i]));
  if (!a->data) return INFINITY;
  for (int64_t i = 0; i < total(b); i++) {
    const double x = a->data[i], y = b->data[i];
    if (x == y || (isnan(x) && isnan(y))) continue;
    const double d = fabs(x - y) / scale;
    worst = fmax(worst, isfinite(d) ? d : INFINITY);
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
      const double d = difference(module_run_result(run, i), ptc_interp_result(interp, i));
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

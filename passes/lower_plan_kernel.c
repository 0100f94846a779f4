// Kernels: built per group of ops, stored once per distinct kernel, launched with the places of their values.
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "ir/op.h"
#include "passes/lower_plan_impl.h"

// --- equal kernels

static void append_attr(const ptc_attr_t *attr, ptc_str_t *out) {
  ptc_str_printf(out, " %s=", attr->name);
  switch (attr->kind) {
    case PTC_ATTR_INT: ptc_str_printf(out, "%" PRId64, attr->u.i); break;
    case PTC_ATTR_FLOAT: ptc_str_printf(out, "%a", attr->u.f); break;
    case PTC_ATTR_BOOL: ptc_str_append(out, attr->u.b ? "true" : "false"); break;
    case PTC_ATTR_STRING:
    case PTC_ATTR_DIM: ptc_str_append_quoted(out, attr->u.s); break;
    case PTC_ATTR_DIMS:
      for (int32_t i = 0; i < attr->count; ++i) ptc_str_append_quoted(out, attr->u.dims[i]);
      break;
    case PTC_ATTR_INTS:
      for (int32_t i = 0; i < attr->count; ++i)
        ptc_str_printf(out, "%" PRId64 ",", attr->u.ints[i]);
      break;
    case PTC_ATTR_FLOATS:
      for (int32_t i = 0; i < attr->count; ++i) ptc_str_printf(out, "%a,", attr->u.floats[i]);
      break;
  }
}

// What a template takes from its op: attributes, and the names of the dims that they speak of.
static void append_op(const ptc_op_t *op, ptc_str_t *out) {
  ptc_str_append(out, ptc_op_info(op->opcode)->mnemonic);
  for (int32_t i = 0; i < op->attrs.count; ++i)
    if (strcmp(op->attrs.items[i].name, "kernel") != 0) append_attr(&op->attrs.items[i], out);
  for (int32_t i = 0; i < op->num_operands; ++i) ptc_type_print(out, op->operands[i]->type);
  for (int32_t i = 0; i < op->num_results; ++i) ptc_type_print(out, op->results[i]->type);
}

// The kernel as text, without the names that mean nothing to what it computes.
static const char *key_of(ptc_lower_t *lower, const ptc_kernel_t *kernel) {
  ptc_kernel_t bare = *kernel;
  bare.name = bare.about = "";
  bare.params = PTC_ARENA_ARRAY(lower->scratch, ptc_kparam_t, kernel->num_params);
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    bare.params[p] = kernel->params[p];
    bare.params[p].name = ptc_arena_printf(lower->scratch, "p%" PRId32, p);
  }
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    bare.dims[d].name = ptc_arena_printf(lower->scratch, "d%" PRId32, d);
  ptc_str_t text = {0};
  ptc_kernel_print(&bare, &text);
  ptc_str_printf(&text, "levels %" PRId32 " fma", kernel->num_levels);
  for (ptc_kx_t x = 0; x < kernel->num_exprs; ++x)
    if (kernel->exprs[x].kind == PTC_KX_CONST)
      ptc_str_printf(&text, " %" PRId32 ":%a", x, kernel->exprs[x].value);
  if (kernel->op) append_op(kernel->op, &text);
  if (kernel->attention.op) append_op(kernel->attention.op, &text);
  const char *key = ptc_intern(&lower->keys, text.data);
  ptc_str_deinit(&text);
  return key;
}

// "k12_gelu_add": the number, the first and the last op; of a pipeline "s1k12_gelu_add".
static const char *name_of(const ptc_lower_t *lower, ptc_op_t *const *ops, int32_t count) {
  const char *first = ptc_op_info(ops[0]->opcode)->mnemonic;
  const char *last = ptc_op_info(ops[count - 1]->opcode)->mnemonic;
  const char *stage =
      lower->stages ? ptc_arena_printf(lower->arena, "s%" PRId32, lower->plan->stage) : "";
  return count == 1
             ? ptc_arena_printf(lower->arena, "%sk%" PRId64 "_%s", stage, lower->kernels.len, first)
             : ptc_arena_printf(lower->arena, "%sk%" PRId64 "_%s_%s", stage, lower->kernels.len,
                                first, last);
}

static int64_t param_bytes(const ptc_kparam_t *param) {
  int64_t bytes = ptc_dtype_bytes(param->dtype);
  for (int32_t d = 0; d < param->num_dims; ++d) bytes *= param->extents[d];
  return bytes;
}

static void add_kernel(ptc_lower_t *lower, const ptc_kernel_t *kernel) {
  const int32_t n = kernel->num_params;
  uint8_t *modes = PTC_ARENA_ARRAY(lower->arena, uint8_t, n);
  int64_t *bytes = PTC_ARENA_ARRAY(lower->arena, int64_t, n);
  int32_t *in_place = PTC_ARENA_ARRAY(lower->arena, int32_t, n);
  for (int32_t p = 0; p < n; ++p) {
    const ptc_kparam_t *param = &kernel->params[p];
    modes[p] = (uint8_t)param->mode;
    bytes[p] = param_bytes(param);
    in_place[p] = param->mode == PTC_KPARAM_OUT ? param->in_place : -1;
    // An operand of other size lies elsewhere.
    if (in_place[p] >= 0 && param_bytes(&kernel->params[in_place[p]]) != bytes[p]) in_place[p] = -1;
  }
  ptc_plan_kernel_t entry = {
      .name = kernel->name,
      .about = ptc_arena_strdup(lower->arena, kernel->about),
      .loc_file = kernel->loc.file ? ptc_arena_strdup(lower->arena, kernel->loc.file) : NULL,
      .loc_line = kernel->loc.file ? kernel->loc.line : 0,
      .num_params = n,
      .modes = modes,
      .param_bytes = bytes,
      .in_place = in_place,
      .flops = kernel->flops,
      .min_bytes = kernel->min_bytes,
      .hash = ""};
  PTC_VEC_PUSH(&lower->kernels, entry);
  PTC_VEC_PUSH(&lower->bodies, kernel);
}

// The number of the plan's kernel that computes what |kernel| does.
static int32_t find_kernel(ptc_lower_t *lower, ptc_kernel_t *kernel, ptc_op_t *const *ops,
                           int32_t count) {
  const char *key = key_of(lower, kernel);
  intptr_t number = (intptr_t)ptc_map_get(&lower->by_key, key);
  if (!number) {
    kernel->name = name_of(lower, ops, count);
    add_kernel(lower, kernel);
    number = (intptr_t)lower->kernels.len;
    ptc_map_set(&lower->by_key, key, (void *)number);
  }
  return (int32_t)number - 1;
}

// --- the launch

// The counts of the bundle whose instances the ops work on one by one; NULL if they work on plain values.
static const ptc_type_t *bundle_of(const ptc_built_kernel_t *built) {
  const ptc_type_t *bundle = NULL;
  for (int32_t p = 0; p < built->kernel->num_params; ++p)
    if (built->values[p]->type->num_counts && !bundle) bundle = built->values[p]->type;
  return bundle;
}

static bool same_counts(const ptc_type_t *a, const ptc_type_t *b) {
  bool same = a->num_counts == b->num_counts;
  for (int32_t c = 0; same && c < a->num_counts; ++c) same = a->counts[c] == b->counts[c];
  return same;
}

// Where result |value| is made; its place if it has one already.
static const ptc_place_t *result_place(ptc_lower_t *lower, const ptc_value_t *value) {
  const ptc_place_t *place = ptc_map_get(&lower->wanted, value);
  if (!place) place = ptc_lower_new_place(lower, value, value->type, PTC_BUFFER_TEMP);
  ptc_map_set(&lower->places, value, (void *)place);
  return place;
}

static ptc_status_t fill_args(ptc_lower_t *lower, const ptc_built_kernel_t *built,
                              int32_t first_level, ptc_step_t *step, ptc_step_list_t *before) {
  const ptc_kernel_t *kernel = built->kernel;
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    const ptc_value_t *value = built->values[p];
    const ptc_place_t *place = kernel->params[p].mode == PTC_KPARAM_IN
                                   ? ptc_lower_place(lower, value)
                                   : result_place(lower, value);
    if (!place) return PTC_INTERNAL;
    if (kernel->params[p].mode == PTC_KPARAM_INOUT) {
      const ptc_place_t *old = ptc_lower_place(lower, built->inputs[p]);
      if (!old) return PTC_INTERNAL;
      PTC_TRY(ptc_lower_copy(lower, old, place, value->type, kernel->loc, before));
    }
    const int64_t bytes = param_bytes(&kernel->params[p]);
    assert(bytes == ptc_lower_bytes(lower, value->type));
    step->args[p] = ptc_lower_ref(place, value->type, first_level, bytes);
  }
  return PTC_OK;
}

// The kernel runs in each turn of the repeats around |op|, for each instance of |bundle|.
static void owe_launches(ptc_lower_t *lower, int32_t kernel, const ptc_op_t *op,
                         const ptc_type_t *bundle) {
  int64_t count = ptc_lower_turns(op);
  for (int32_t c = 0; bundle && c < bundle->num_counts; ++c) count *= bundle->counts[c];
  for (int64_t i = 0; i < lower->launches.len; ++i)
    if (lower->launches.data[i].kernel == kernel) {
      lower->launches.data[i].count += count;
      return;
    }
  const ptc_launches_t launches = {kernel, count};
  PTC_VEC_PUSH(&lower->launches, launches);
}

ptc_status_t ptc_lower_kernel(ptc_lower_t *lower, ptc_op_t *const *ops, int32_t count,
                              ptc_step_list_t *out) {
  ptc_built_kernel_t built;
  PTC_TRY(ptc_build_kernel_by_uses(lower->diag, lower->arena, &lower->uses, "kernel", ops, count,
                                   &built));
  bool writes = false;
  for (int32_t p = 0; p < built.kernel->num_params; ++p)
    writes = writes || built.kernel->params[p].mode != PTC_KPARAM_IN;
  if (!writes) return PTC_OK;  // nothing uses its results
  const ptc_type_t *bundle = bundle_of(&built);
  for (int32_t p = 0; bundle && p < built.kernel->num_params; ++p)
    if (built.values[p]->type->num_counts && !same_counts(bundle, built.values[p]->type))
      return ptc_error(lower->diag, built.kernel->loc, PTC_INTERNAL, "plan-bundles",
                       "one kernel works on bundles of different counts");
  ptc_step_t step = {.kind = PTC_STEP_LAUNCH,
                     .kernel = find_kernel(lower, built.kernel, ops, count),
                     .num_args = built.kernel->num_params};
  owe_launches(lower, step.kernel, ops[0], bundle);
  step.args = PTC_ARENA_ARRAY(lower->arena, ptc_ref_t, step.num_args);
  const int32_t first_level = lower->depth;
  PTC_TRY(fill_args(lower, &built, first_level, &step, out));
  // One repeat per count.
  const int32_t num_counts = bundle ? bundle->num_counts : 0;
  ptc_step_list_t steps[PTC_MAX_COUNTS + 1] = {0};
  for (int32_t c = 0; c < num_counts; ++c)
    PTC_TRY(ptc_lower_push(lower, NULL, bundle->counts[c], false, built.kernel->loc));
  PTC_VEC_PUSH(num_counts ? &steps[num_counts] : out, step);
  for (int32_t c = num_counts - 1; c >= 0; --c)
    ptc_lower_pop(lower, false, &steps[c + 1], c ? &steps[c] : out);
  return PTC_OK;
}

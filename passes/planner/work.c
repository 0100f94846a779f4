// The compact program of a model: one per recompute mode, each made by the passes that a compilation runs (microbatch,
// recompute, fuse) on a copy of the module.
#include "passes/planner/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "passes/partition.h"
#include "passes/pass.h"
#include "passes/planner/work_build_impl.h"

// --- dims

static bool is_input_dim(const ptc_module_t *module, const char *name) {
  for (int64_t g = 0; g < module->num_globals; g++)
    if (module->globals[g]->kind == PTC_GLOBAL_INPUT &&
        ptc_type_has_dim(module->globals[g]->type, name))
      return true;
  return false;
}

typedef struct sequence_s {
  ptc_map_t names;  // name -> itself
  const char *batch;
  bool changed;
} sequence_t;

static void see_rename(ptc_op_t *op, void *arg) {
  sequence_t *s = arg;
  if (op->opcode != PTC_OP_RENAME) return;
  const ptc_attr_t *from = ptc_op_attr(op, "from"), *to = ptc_op_attr(op, "to");
  for (int32_t i = 0; i < from->count && i < to->count; i++) {
    const char *a = from->u.dims[i], *z = to->u.dims[i];
    if (!ptc_map_get(&s->names, a) == !ptc_map_get(&s->names, z)) continue;
    ptc_map_set(&s->names, a, (void *)(uintptr_t)a);
    ptc_map_set(&s->names, z, (void *)(uintptr_t)z);
    s->changed = true;
  }
}

// An input of samples is a sequence along its first other dim; so is what that dim is renamed to.
static void find_sequences(ptc_work_t *work, const ptc_module_t *module, sequence_t *s) {
  work->tokens_per_sample = 1;
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_type_t *type = module->globals[g]->type;
    if (module->globals[g]->kind != PTC_GLOBAL_INPUT || !ptc_type_has_dim(type, s->batch)) continue;
    for (int32_t i = 0; i < type->num_dims; i++) {
      if (type->dims[i].name == s->batch) continue;
      ptc_map_set(&s->names, type->dims[i].name, (void *)(uintptr_t)type->dims[i].name);
      if (work->tokens_per_sample == 1) work->tokens_per_sample = type->dims[i].extent;
      break;
    }
  }
  for (s->changed = true; s->changed;) {
    s->changed = false;
    for (ptc_func_t *f = module->funcs; f; f = f->next) ptc_block_walk(f->body, see_rename, s);
  }
}

// --- parameters

static int32_t state_bytes(const ptc_module_t *module, const ptc_global_t *param) {
  int32_t bytes = 0;
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *moment = module->globals[g];
    if (moment->kind != PTC_GLOBAL_MOMENT) continue;
    const char *owner = ptc_attrs_string(&moment->attrs, "owner", "");
    const size_t size = (size_t)param->type->num_counts * sizeof(param->turn_first[0]);
    if (strcmp(owner, param->path) == 0 && param->type->num_counts == moment->type->num_counts &&
        memcmp(param->turn_first, moment->turn_first, size) == 0 &&
        memcmp(param->turn_step, moment->turn_step, size) == 0)
      bytes += (int32_t)ptc_dtype_bytes(moment->type->dtype);
  }
  return bytes;
}

// The statements "PATH on AXIS over DIM" of the config that name the parameter.
static void read_statements(ptc_wbuild_t *b, ptc_wparam_t *param, const ptc_global_t *global) {
  const char *list = ptc_attrs_string(&b->module->config, "shard", NULL);
  for (const char *at = list; at && *at;) {
    const size_t len = strcspn(at, ";");
    char path[256], axis[32], dim[128];
    const char *entry = ptc_arena_strndup(b->arena, at, len);
    at += len + (at[len] == ';');
    if (sscanf(entry, " %255s on %31s over %127s", path, axis, dim) != 3 ||
        !ptc_global_path_fits(global, path, false))
      continue;
    const int32_t d = ptc_type_find_dim(global->type, ptc_module_intern(b->module, dim));
    for (int a = 0; d >= 0 && a < PTC_NUM_DEVICE_AXES; a++)
      if (strcmp(axis, ptc_device_axis_names[a]) == 0) param->fixed_axis[d] = (int8_t)(a + 1);
  }
}

// What names the instances of |global| and no others of its path.
static const char *pattern_of(ptc_wbuild_t *b, const ptc_global_t *global) {
  const char *star = strchr(global->path, '*');
  if (!star || global->type->num_counts != 1 || global->turn_step[0] != 1)
    return ptc_arena_strdup(b->arena, global->path);
  const int64_t first = global->turn_first[0], last = first + global->type->counts[0] - 1;
  return ptc_arena_printf(b->arena, "%.*s%" PRId64 "..%" PRId64 "%s", (int)(star - global->path),
                          global->path, first, last, star + 1);
}

static void add_param(ptc_wbuild_t *b, const ptc_global_t *global, const char *batch) {
  ptc_wparam_t *param = &b->impl->params[b->impl->num_params++];
  const ptc_type_t *type = global->type;
  *param = (ptc_wparam_t){.path = ptc_arena_strdup(b->arena, global->path),
                          .num_dims = type->num_dims,
                          .instances = (double)ptc_type_num_instances(type),
                          .bytes = (int32_t)ptc_dtype_bytes(type->dtype),
                          .group_dim = -1};
  for (int32_t d = 0; d < type->num_dims; d++)
    param->dims[d] = ptc_work_dim(b, type->dims[d].name, type->dims[d].extent);
  param->frozen = ptc_attrs_bool(&global->attrs, "frozen", false);
  param->state_bytes = state_bytes(b->module, global);
  param->pattern = pattern_of(b, global);
  read_statements(b, param, global);
  const char *group = ptc_partition_group_dim(b->module, batch, global);
  if (group) param->group_dim = ptc_type_find_dim(type, group);
  double elements = param->instances;
  for (int32_t d = 0; d < type->num_dims; d++) elements *= (double)type->dims[d].extent;
  if (!param->frozen) b->work->params += elements;
}

static void add_params(ptc_wbuild_t *b, const char *batch) {
  b->impl->params = PTC_ARENA_ARRAY(b->arena, ptc_wparam_t, b->module->num_globals + 1);
  for (int64_t g = 0; g < b->module->num_globals; g++)
    if (b->module->globals[g]->kind == PTC_GLOBAL_PARAM) add_param(b, b->module->globals[g], batch);
}

// Data of a step, counters and settings: each at an address of its own.
static void add_inputs(ptc_wbuild_t *b) {
  for (int64_t g = 0; g < b->module->num_globals; g++) {
    const ptc_global_t *global = b->module->globals[g];
    if (global->kind == PTC_GLOBAL_PARAM || global->kind == PTC_GLOBAL_MOMENT) continue;
    const int64_t bytes = ptc_type_num_bytes(global->type);
    b->work->input_bytes +=
        (double)((bytes + PTC_PLAN_ALIGN - 1) / PTC_PLAN_ALIGN * PTC_PLAN_ALIGN);
  }
}

static int32_t find_candidate(const ptc_work_t *work, const ptc_wdim_t *dim) {
  for (int32_t i = 0; i < work->num_names; i++)
    if (work->impl->name_of[i] == dim->name && work->names[i].extent == dim->extent) return i;
  return -1;
}

static void share_dims(ptc_work_t *work, const int32_t *dims, int32_t num_dims) {
  for (int32_t d = 0; d < num_dims; d++) {
    const int32_t at = find_candidate(work, &work->impl->dims[dims[d]]);
    if (at >= 0) work->names[at].shared = true;
  }
}

// Dims of what repeats carry, of what one piece makes and another takes, and of parameters of several pieces.
static void find_shared(ptc_work_t *work) {
  const ptc_wprogram_t *p = &work->impl->programs[PTC_RECOMPUTE_NONE];
  for (int32_t i = 0; i < work->impl->num_params; i++) {
    const ptc_wparam_t *param = &work->impl->params[i];
    if (param->pieces & (param->pieces - 1)) share_dims(work, param->dims, param->num_dims);
  }
  for (int32_t b = 0; b < p->num_blocks; b++)
    for (int32_t n = 0; n < p->blocks[b].num_ops; n++) {
      const ptc_wop_t *op = &p->blocks[b].ops[n];
      for (int32_t i = 0; op->repeat && i < op->repeat->num_carries; i++) {
        const ptc_wvalue_t *arg = &p->values[op->repeat->carries[i].arg];
        share_dims(work, p->dims + arg->dims, arg->num_dims);
      }
      for (int32_t i = 0; i < op->num_operands && op->phase == PTC_WORK_FORWARD; i++) {
        const ptc_wvalue_t *value = &p->values[op->operands[i]];
        if (value->def && value->def->phase == PTC_WORK_FORWARD && value->def->piece != op->piece)
          share_dims(work, p->dims + value->dims, value->num_dims);
      }
    }
}

// Dims of inputs are no candidates: they lie on dp and cp.
static void find_candidates(ptc_work_t *work, const bool *is_input) {
  ptc_work_impl_t *w = work->impl;
  for (int32_t i = 0; i < w->num_params; i++) {
    uint32_t here = 0;
    for (int32_t d = 0; d < w->params[i].num_dims; d++) {
      const ptc_wdim_t *dim = &w->dims[w->params[i].dims[d]];
      int32_t at = find_candidate(work, dim);
      if (is_input[dim->name] || (at < 0 && work->num_names == PTC_WORK_MAX_NAMES)) continue;
      if (at < 0) {
        at = work->num_names++;
        w->name_of[at] = dim->name;
        work->names[at] = (ptc_work_name_t){w->dim_names[dim->name], dim->extent, 0, false};
      }
      work->names[at].pieces |= w->params[i].pieces;
      here |= UINT32_C(1) << at;
    }
    for (int32_t k = 0; k < work->num_names; k++)
      if (here >> k & 1) w->together[k] |= here;
  }
}

static bool has_twin(const ptc_work_t *work, int32_t candidate) {
  for (int32_t i = 0; i < work->num_names; i++)
    if (i != candidate && strcmp(work->names[i].name, work->names[candidate].name) == 0)
      return true;
  return false;
}

void ptc_work_print_name(const ptc_work_t *work, int32_t candidate, ptc_str_t *out) {
  ptc_str_append(out, work->names[candidate].name);
  if (has_twin(work, candidate)) ptc_str_printf(out, "=%" PRId64, work->names[candidate].extent);
}

uint32_t ptc_work_find_names(const ptc_work_t *work, const char *word, size_t len) {
  const char *sign = memchr(word, '=', len);
  const size_t own = sign ? (size_t)(sign - word) : len;
  uint32_t set = 0;
  for (int32_t i = 0; i < work->num_names; i++) {
    const ptc_work_name_t *name = &work->names[i];
    if (strlen(name->name) == own && memcmp(name->name, word, own) == 0 &&
        (!sign || strtoll(sign + 1, NULL, 10) == name->extent))
      set |= UINT32_C(1) << i;
  }
  return set;
}

// --- programs

const char *const ptc_recompute_names[PTC_NUM_RECOMPUTE_MODES] = {"none", "selective", "full"};

// Micro-batches of the copy: any number above 1 gives the same program; so does one in a pipeline's loop.
static int64_t some_micro_batch(int64_t batch) {
  if (batch == 1) return 1;
  for (int64_t m = 2; m <= batch; m++)
    if (batch % m == 0) return batch / m;
  return 0;
}

static void set_config(ptc_module_t *copy, const char *mode, int64_t batch, int64_t micro_batch) {
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    ptc_attrs_set_int(copy, &copy->config, ptc_device_axis_names[a],
                      a == PTC_AXIS_PP && batch == 1 && micro_batch > 0 ? 2 : 1);
  ptc_attrs_remove(&copy->config, "world");
  ptc_attrs_set_int(copy, &copy->config, "zero", 0);
  ptc_attrs_set_bool(copy, &copy->config, "sequence_parallel", false);
  ptc_attrs_set_string(copy, &copy->config, "recompute", mode);
  if (micro_batch > 0)
    ptc_attrs_set_int(copy, &copy->config, "micro_batch", micro_batch);
  else
    ptc_attrs_remove(&copy->config, "micro_batch");
}

// A copy of the module after the passes; NULL where the batch cannot be split over time.
static ptc_module_t *make_copy(const ptc_str_t *text, ptc_pass_ctx_t *ctx, ptc_diag_t *diag,
                               const char *mode, int64_t batch, int64_t micro_batch) {
  static const char *const passes[] = {"microbatch", "recompute", "canonicalize"};
  ptc_module_t *copy = NULL;
  if (ptc_module_parse(diag, "copy.ptir", text->data, (size_t)text->len, &copy) != PTC_OK)
    return NULL;
  set_config(copy, mode, batch, micro_batch);
  ptc_module_derive_properties(copy);
  for (size_t i = 0; i < sizeof(passes) / sizeof(*passes); i++) {
    if (ptc_pass_run(ctx, copy, passes[i]) == PTC_OK) continue;
    ptc_module_destroy(copy);
    return NULL;
  }
  return copy;
}

static void end_build(ptc_wbuild_t *b) {
  ptc_map_deinit(&b->needed);
  ptc_map_deinit(&b->numbers);
  ptc_map_deinit(&b->names);
  ptc_map_deinit(&b->params);
  ptc_map_deinit(&b->marks);
  ptc_map_deinit(&b->places);
}

static ptc_status_t build(ptc_wbuild_t *b, ptc_pass_ctx_t *ctx) {
  int32_t param = 0;
  for (int64_t g = 0; g < b->module->num_globals; g++)
    if (b->module->globals[g]->kind == PTC_GLOBAL_PARAM && param < b->impl->num_params)
      ptc_map_set(&b->params, b->module->globals[g], (void *)(intptr_t)++param);
  PTC_TRY(ptc_work_find_ops(b));
  ptc_work_mark_gradients(b);
  ptc_work_place(b);
  PTC_TRY(ptc_work_build_program(b));
  PTC_TRY(ptc_pass_run(ctx, b->module, "fuse"));
  ptc_work_find_groups(b);
  return PTC_OK;
}

static ptc_status_t build_program(ptc_work_t *work, ptc_arena_t *arena, const ptc_str_t *text,
                                  ptc_diag_t *diag, int mode) {
  const ptc_pass_options_t options = {.no_verify = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_diag_t own;
  ptc_diag_init(&own);
  ptc_arena_t scratch;
  ptc_arena_init(&scratch);
  const int64_t some = some_micro_batch(work->batch);
  ptc_module_t *copy =
      some ? make_copy(text, &ctx, &own, ptc_recompute_names[mode], work->batch, some) : NULL;
  if (!copy) copy = make_copy(text, &ctx, diag, ptc_recompute_names[mode], work->batch, 0);
  ptc_status_t status = copy ? PTC_OK : PTC_UNSUPPORTED;
  if (copy) {
    copy->diag = diag;
    ptc_wbuild_t b = {.work = work,
                      .impl = work->impl,
                      .arena = arena,
                      .scratch = &scratch,
                      .module = copy,
                      .func = ptc_module_find_func(copy, "train"),
                      .program = &work->impl->programs[mode]};
    status = build(&b, &ctx);
    if (status == PTC_OK && mode == 0) ptc_work_name_pieces(&b);
    end_build(&b);
    ptc_module_destroy(copy);
  }
  ptc_arena_deinit(&scratch);
  ptc_diag_deinit(&own);
  ptc_pass_ctx_deinit(&ctx);
  return status;
}

static ptc_precision_t precision_of(const ptc_module_t *module) {
  const char *name = ptc_attrs_string(&module->config, "precision", "f32");
  if (strcmp(name, "bf16") == 0) return PTC_PREC_BF16;
  if (strcmp(name, "f16") == 0) return PTC_PREC_F16;
  if (strcmp(name, "fp8") == 0) return PTC_PREC_FP8;
  return PTC_PREC_F32;
}

static void find_bytes(const ptc_work_impl_t *w, const ptc_wprogram_t *p) {
  for (int32_t v = 0; v < p->num_values; v++) {
    ptc_wvalue_t *value = &p->values[v];
    value->bytes = (double)ptc_dtype_bytes((ptc_dtype_t)value->dtype) * value->instances;
    for (int32_t d = 0; d < value->num_dims; d++)
      value->bytes *= (double)w->dims[p->dims[value->dims + d]].extent;
  }
}

ptc_status_t ptc_work_new(ptc_module_t *module, ptc_arena_t *arena, ptc_work_t **out_work) {
  *out_work = NULL;
  if (!ptc_module_find_func(module, "train"))
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_UNSUPPORTED, "planner-train",
                     "there is no training step to plan: the model has no train block");
  ptc_work_t *work = PTC_ARENA_NEW(arena, ptc_work_t);
  memset(work, 0, sizeof(*work));
  work->impl = PTC_ARENA_NEW(arena, ptc_work_impl_t);
  memset(work->impl, 0, sizeof(*work->impl));
  work->model = ptc_arena_strdup(arena, module->name);
  work->batch = ptc_attrs_int(&module->config, "batch", 1);
  work->precision = precision_of(module);
  work->tf32 = strcmp(ptc_attrs_string(&module->config, "f32_matmul", "exact"), "tf32") == 0;
  const char *batch =
      ptc_module_intern(module, ptc_attrs_string(&module->config, "batch_dim", "b"));
  sequence_t sequence = {.batch = batch};
  find_sequences(work, module, &sequence);
  ptc_wbuild_t b = {.work = work, .impl = work->impl, .arena = arena, .module = module};
  work->impl->batch_name = ptc_work_dim_name(&b, batch);
  add_params(&b, batch);
  add_inputs(&b);
  ptc_str_t text = {0};
  // Nothing is planned but training.
  ptc_func_t *funcs = module->funcs, *train = ptc_module_find_func(module, "train");
  ptc_func_t *next = train->next;
  module->funcs = train;
  train->next = NULL;
  ptc_module_print(module, true, &text);
  train->next = next;
  module->funcs = funcs;
  ptc_status_t status = PTC_OK;
  for (int mode = 0; mode < PTC_NUM_RECOMPUTE_MODES && status == PTC_OK; mode++)
    status = build_program(work, arena, &text, module->diag, mode);
  ptc_str_deinit(&text);
  if (status == PTC_OK) {
    // The names of all programs are known now.
    const int32_t num_names = work->impl->num_dim_names;
    bool *is_input = PTC_ARENA_ARRAY(arena, bool, num_names + 1);
    work->impl->is_sequence = PTC_ARENA_ARRAY(arena, bool, num_names + 1);
    for (int32_t i = 0; i < num_names; i++) {
      const char *name = ptc_module_intern(module, work->impl->dim_names[i]);
      is_input[i] = is_input_dim(module, name);
      work->impl->is_sequence[i] = ptc_map_get(&sequence.names, name) != NULL;
    }
    for (int mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++)
      find_bytes(work->impl, &work->impl->programs[mode]);
    status = ptc_work_finish(work, arena, module->diag);
    find_candidates(work, is_input);
    if (status == PTC_OK) find_shared(work);
    if (status == PTC_OK) *out_work = work;
  }
  ptc_map_deinit(&sequence.names);
  ptc_map_deinit(&b.names);
  return status;
}

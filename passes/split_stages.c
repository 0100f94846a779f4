// split_stages: the program of a step becomes the programs of the stages. Each is made from a copy of the whole: all
// of them come to the same conclusions about what is where, and each keeps its own.
#include "passes/split_stages.h"

#include <inttypes.h>
#include <string.h>

#include "ir/text.h"
#include "passes/parallel.h"
#include "passes/simplify.h"
#include "passes/split_impl.h"

// The whole again, in a module of its own.
static ptc_status_t copy_module(const ptc_module_t *module, ptc_module_t **out_copy) {
  ptc_str_t text = {0};
  ptc_module_print(module, true, &text);
  const ptc_status_t status =
      ptc_module_parse(module->diag, module->name, text.data, (size_t)text.len, out_copy);
  ptc_str_deinit(&text);
  if (status != PTC_OK) return PTC_INTERNAL;
  for (int32_t i = 0; i < module->num_origins; i++)
    ptc_module_set_origin(*out_copy, module->origins[i].name, module->origins[i].value,
                          module->origins[i].place);
  (*out_copy)->properties = module->properties;
  return PTC_OK;
}

static void remove_func(ptc_module_t *module, const ptc_func_t *func) {
  ptc_func_t **at = &module->funcs;
  while (*at != func) at = &(*at)->next;
  *at = func->next;
}

// Parameters, moments and slots that no function of the stage names.
static void drop_globals(ptc_module_t *module) {
  ptc_map_t used = {0};
  for (const ptc_func_t *func = module->funcs; func; func = func->next) {
    for (int32_t i = 0; i < func->body->num_args; i++)
      ptc_map_set(&used, func->arg_globals[i], module);
    for (int32_t i = 0; i < func->num_results; i++)
      if (func->results[i].global) ptc_map_set(&used, func->results[i].global, module);
  }
  int64_t count = 0;
  for (int64_t g = 0; g < module->num_globals; g++) {
    ptc_global_t *global = module->globals[g];
    // All stages are given the same data, and count alike.
    const bool stays = global->kind == PTC_GLOBAL_COUNTER || global->kind == PTC_GLOBAL_SETTING ||
                       global->kind == PTC_GLOBAL_INPUT;
    if (!stays && !ptc_map_get(&used, global)) continue;
    global->index = count;
    module->globals[count++] = global;
  }
  module->num_globals = count;
  ptc_map_deinit(&used);
}

// Bodies of ops that came from another function.
static void adopt_body(ptc_op_t *op, void *arg) {
  if (op->body) op->body->func = arg;
}

static ptc_status_t split_func(ptc_split_t *split, ptc_home_t *home, ptc_func_t *func,
                               const char *prefix, const ptc_schedule_t *schedule) {
  ptc_pieces_t pieces = {.home = home,
                         .split = split,
                         .func = func,
                         .prefix = prefix,
                         .loop = ptc_split_find_loop(func),
                         .schedule = schedule};
  ptc_status_t status = ptc_split_build_loop(&pieces);
  if (status == PTC_OK) status = ptc_split_build_end(&pieces);
  ptc_map_deinit(&pieces.values);
  ptc_map_deinit(&pieces.no_args);
  ptc_map_deinit(&pieces.data);
  ptc_map_deinit(&pieces.step_slots);
  PTC_VEC_FREE(&pieces.begin);
  return status;
}

static ptc_status_t split_module(ptc_split_t *split) {
  ptc_module_t *module = split->module;
  ptc_func_t *train = ptc_module_find_func(module, "train");
  ptc_func_t *eval = ptc_module_find_func(module, "eval");
  ptc_func_t *init = ptc_module_find_func(module, "init");
  PTC_TRY(ptc_split_place(split, train));
  if (eval) PTC_TRY(ptc_split_place(split, eval));
  PTC_TRY(ptc_split_turns(split));
  PTC_TRY(ptc_split_recompute(split, train));
  ptc_split_grads(split, train);
  ptc_home_t home = {.split = split};
  ptc_split_note_stages(&home, train);
  if (eval) ptc_split_note_stages(&home, eval);
  ptc_status_t status = split_func(split, &home, train, "train", split->train);
  if (status == PTC_OK && eval) status = split_func(split, &home, eval, "eval", split->eval);
  if (status == PTC_OK && init) ptc_split_build_init(&home, init);
  ptc_map_deinit(&home.stages);
  PTC_TRY(status);
  remove_func(module, train);
  if (eval) remove_func(module, eval);
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    ptc_block_walk(func->body, adopt_body, func);
  ptc_simplify_dce(module);
  drop_globals(module);
  module->properties &= ~(uint32_t)PTC_PROPERTY_CANONICAL;
  return ptc_pass_run(split->ctx, module, "canonicalize");
}

static ptc_status_t read_config(ptc_split_t *split, ptc_stages_t *stages,
                                const ptc_module_t *module) {
  ptc_parallel_t parallel;
  PTC_TRY(ptc_parallel_read(split->module, &parallel));
  ptc_func_t *train = ptc_module_find_func(module, "train");
  const ptc_op_t *loop = train ? ptc_split_find_loop(train) : NULL;
  const int64_t num_micro = loop ? ptc_attrs_int(&loop->attrs, "count", 1) : 1;
  const int64_t num_parts = parallel.size[PTC_AXIS_PP] * parallel.chunks;
  ptc_schedule_kind_t kind;
  if (!ptc_schedule_parse(parallel.schedule, &kind))
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "split-schedule",
                     "unknown schedule \"%s\" (gpipe, 1f1b, interleaved, zero_bubble)",
                     parallel.schedule);
  if (num_parts > PTC_SPLIT_MAX_PARTS || num_micro > 1 << 20)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_UNSUPPORTED, "split-turns",
                     "a pipeline of %" PRId64 " parts is too long: there can be %d", num_parts,
                     (int)PTC_SPLIT_MAX_PARTS);
  split->num_stages = (int32_t)parallel.size[PTC_AXIS_PP];
  split->num_chunks = (int32_t)parallel.chunks;
  split->num_parts = (int32_t)num_parts;
  split->split_w = kind == PTC_SCHEDULE_ZB_H1;
  split->train = ptc_schedule_new(&stages->arena, kind, split->num_stages, split->num_chunks,
                                  (int32_t)num_micro, NULL);
  split->eval = ptc_schedule_new_forward(&stages->arena, split->num_stages, split->num_chunks,
                                         (int32_t)num_micro);
  return PTC_OK;
}

static ptc_status_t split_all(ptc_split_t *split, const ptc_module_t *module,
                              ptc_stages_t *stages) {
  // Cuts are chosen once, on a copy that stays whole.
  PTC_TRY(copy_module(module, &split->module));
  ptc_status_t status = read_config(split, stages, module);
  const ptc_func_t *train = ptc_module_find_func(split->module, "train");
  if (status == PTC_OK && !train) status = PTC_INTERNAL;
  if (status == PTC_OK) status = ptc_split_choose_cuts(split, train);
  ptc_module_destroy(split->module);
  PTC_TRY(status);
  stages->train = split->train;
  stages->eval = split->eval;
  stages->modules = PTC_ARENA_ARRAY(&stages->arena, ptc_module_t *, split->num_stages);
  for (split->stage = 0; split->stage < split->num_stages; split->stage++) {
    PTC_TRY(copy_module(module, &split->module));
    stages->modules[stages->num_stages++] = split->module;
    PTC_TRY(split_module(split));
  }
  return PTC_OK;
}

ptc_status_t ptc_split_stages(ptc_pass_ctx_t *ctx, const ptc_module_t *module,
                              ptc_stages_t **out_stages) {
  *out_stages = NULL;
  ptc_stages_t *stages = ptc_xmalloc(sizeof(*stages));
  *stages = (ptc_stages_t){0};
  ptc_arena_init(&stages->arena);
  ptc_split_t split = {.ctx = ctx};
  const ptc_status_t status = split_all(&split, module, stages);
  if (status == PTC_OK)
    *out_stages = stages;
  else
    ptc_stages_destroy(stages);
  return status;
}

void ptc_stages_destroy(ptc_stages_t *stages) {
  if (!stages) return;
  for (int32_t i = 0; i < stages->num_stages; i++) ptc_module_destroy(stages->modules[i]);
  ptc_arena_deinit(&stages->arena);
  free(stages);
}

void ptc_stages_add_axis(ptc_stages_t *stages) {
  for (int32_t s = 0; s < stages->num_stages; s++) {
    ptc_module_t *module = stages->modules[s];
    const ptc_mesh_t old = module->mesh;
    ptc_mesh_axis_t *axes = PTC_ARENA_ARRAY(&module->arena, ptc_mesh_axis_t, old.num_axes + 1);
    axes[0] = (ptc_mesh_axis_t){ptc_device_axis_names[PTC_AXIS_PP], stages->num_stages};
    for (int32_t a = 0; a < old.num_axes; a++) axes[a + 1] = old.axes[a];
    ptc_module_set_mesh(module, axes, old.num_axes + 1);
  }
}

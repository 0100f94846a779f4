// A choice as config: what the passes of a compilation read.
#include <inttypes.h>

#include "passes/planner/layout_impl.h"

static void append_axis(const ptc_layout_t *l, int32_t ref, ptc_str_t *out) {
  if (ref < PTC_REF_PART)
    ptc_str_append(out, ptc_device_axis_names[ref - PTC_REF_AXIS]);
  else
    ptc_str_printf(out, "%s:%" PRId64 ":%" PRId64, ptc_device_axis_names[PTC_AXIS_TP], l->pre[ref],
                   l->size[ref]);
}

// One statement for each dim of a parameter that lies on tp, or that a statement lays somewhere. Groups find their way
// to ep by themselves.
static void append_statements(const ptc_layout_t *l, int32_t number, ptc_str_t *out) {
  const ptc_wparam_t *param = &l->w->params[number];
  for (int32_t d = 0; d < param->num_dims; d++)
    for (ptc_laid_t axes = l->params[number].axes[d]; axes; axes >>= 4) {
      const int32_t ref = (int32_t)(axes & 15);
      const bool stated = param->fixed_axis[d] == ref - PTC_REF_AXIS + 1;
      if (ref < PTC_REF_AXIS + PTC_AXIS_TP && !stated) continue;
      if (out->len) ptc_str_append(out, "; ");
      ptc_str_printf(out, "%s on ", param->pattern);
      append_axis(l, ref, out);
      ptc_str_printf(out, " over %s", l->w->dim_names[l->w->dims[param->dims[d]].name]);
    }
}

ptc_status_t ptc_work_write_choice(const ptc_work_t *work, const ptc_choice_t *choice,
                                   ptc_module_t *module) {
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  ptc_layout_t l = {.work = work, .w = work->impl, .choice = choice, .arena = &arena};
  l.p = &work->impl->programs[choice->recompute];
  const char *reason;
  if (!ptc_layout_begin(&l, &reason)) {
    ptc_arena_deinit(&arena);
    return PTC_INFEASIBLE;
  }
  ptc_attrs_t *config = &module->config;
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    ptc_attrs_set_int(module, config, ptc_device_axis_names[a], choice->size[a]);
  ptc_attrs_set_int(module, config, "zero", choice->zero);
  ptc_attrs_set_int(module, config, "micro_batch", choice->micro_batch);
  ptc_attrs_set_bool(module, config, "sequence_parallel", choice->sequence_parallel);
  if (choice->recompute_every == 0)
    ptc_attrs_set_string(module, config, "recompute", ptc_recompute_names[choice->recompute]);
  if (choice->size[PTC_AXIS_PP] > 1) {
    ptc_attrs_set_string(module, config, "schedule", ptc_schedule_name(choice->schedule));
    if (choice->chunks > 1) ptc_attrs_set_int(module, config, "chunks", choice->chunks);
  }
  ptc_str_t statements = {0};
  for (int32_t i = 0; i < work->impl->num_params; i++) append_statements(&l, i, &statements);
  ptc_attrs_set_string(module, config, "shard", statements.data ? statements.data : "");
  ptc_attrs_set_string(module, config, "tp_dims", "");
  ptc_str_deinit(&statements);
  ptc_arena_deinit(&arena);
  return PTC_OK;
}

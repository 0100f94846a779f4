// partition: from the program of one device to the program that every device of a mesh executes.
//
// Types get shardings and partial sums; where a use needs another sharding than a value has, a collective stands
// between. The rules are those of the op table, so nothing here knows a layer or an architecture:
//
//   samples      b lies on dp and ep, the first other dim of an input on cp; inputs are whole on every device, `shard`
//                takes the part
//   parameters   `shard` statements, else sets of dim names are laid on tp (partition_search.c), groups of products on ep
//                (partition_groups.c)
//   gradients    of parameters stay partial up to the optimizer, which needs the sum: one all_reduce
//   ZeRO         states are sharded over the data axes: the sum is a reduce_scatter, and the parameter is gathered at
//                the start of the step (1, 2) or where a turn uses it (3)
//
// Source of the terms: Xu et al. 2021, GSPMD (arXiv:2105.04663); Rajbhandari et al. 2020, ZeRO (arXiv:1910.02054).
#include "passes/partition.h"

#include <string.h>

#include "passes/partition_impl.h"
#include "passes/pass.h"
#include "passes/simplify.h"

static ptc_status_t partition_func(ptc_part_t *p, ptc_func_t *func) {
  ptc_part_begin_func(p, func);
  ptc_status_t status = ptc_part_infer(p);
  if (status == PTC_OK) status = ptc_part_order_sums(p);
  if (status == PTC_OK) status = ptc_part_insert(p);
  ptc_part_end_func(p);
  return status;
}

// What choose-layout has found.
static ptc_status_t read_names(ptc_part_t *p, const char *list) {
  for (const char *at = list; *at;) {
    const size_t len = strcspn(at, ";");
    char name[128], axes[64];
    const char *entry = ptc_arena_strndup(p->scratch, at, len);
    at += len + (at[len] == ';');
    ptc_axis_ref_t refs[PTC_MAX_AXES];
    int32_t count = 0;
    if (sscanf(entry, "%127s on %63s", name, axes) != 2 || p->num_names == PTC_PART_MAX_NAMES ||
        !ptc_axes_parse(p->module, axes, refs, &count) || count != 1)
      return ptc_error(p->module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "partition-layout",
                       "the layout has \"%s\", which is no \"DIM on AXIS\" of this mesh", entry);
    p->names[p->num_names] = ptc_module_intern(p->module, name);
    p->named[p->num_names++] = refs[0];
  }
  return PTC_OK;
}

// Up to the layout of the parameters.
static ptc_status_t begin(ptc_part_t *p, ptc_module_t *module, ptc_arena_t *scratch) {
  *p = (ptc_part_t){.module = module, .scratch = scratch};
  PTC_TRY(ptc_parallel_read(module, &p->parallel));
  p->batch = ptc_module_intern(module, ptc_attrs_string(&module->config, "batch_dim", "b"));
  p->micro = ptc_module_intern(module, "micro");
  PTC_TRY(ptc_part_make_mesh(p));
  PTC_TRY(ptc_part_seed_inputs(p));
  p->layouts = PTC_ARENA_ARRAY(scratch, ptc_part_layout_t, module->num_globals + 1);
  const char *layout = ptc_attrs_string(&module->config, "layout", NULL);
  return layout ? read_names(p, layout) : ptc_part_choose_names(p);
}

static ptc_status_t partition(ptc_part_t *p) {
  ptc_module_t *module = p->module;
  PTC_TRY(ptc_part_lay_out(p));
  for (ptc_func_t *func = module->funcs; func; func = func->next) PTC_TRY(partition_func(p, func));
  for (int64_t g = 0; g < module->num_globals; g++)
    if (p->layouts[g].stored) module->globals[g]->type = p->layouts[g].stored;
  ptc_simplify_dce(module);
  return PTC_OK;
}

ptc_status_t ptc_partition_layout(ptc_module_t *module, ptc_arena_t *scratch,
                                  ptc_str_t *out_layout) {
  ptc_part_t p;
  ptc_str_append(out_layout, "");
  PTC_TRY(begin(&p, module, scratch));
  for (int32_t i = 0; i < p.num_names; i++)
    ptc_str_printf(out_layout, "%s%s on %s", i ? ";" : "", p.names[i],
                   ptc_axes_text(module, &p.named[i], 1));
  return PTC_OK;
}

ptc_status_t ptc_pass_partition(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  ptc_parallel_t parallel;
  PTC_TRY(ptc_parallel_read(module, &parallel));
  // The devices of one stage: split_stages comes later.
  if (parallel.world == parallel.size[PTC_AXIS_PP]) return PTC_OK;
  ptc_part_t p;
  PTC_TRY(begin(&p, module, &ctx->scratch));
  return partition(&p);
}

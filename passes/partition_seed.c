// partition: where the layout begins: the mesh, the inputs, the parameters.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/partition.h"
#include "passes/partition_impl.h"

ptc_status_t ptc_part_make_mesh(ptc_part_t *p) {
  ptc_module_t *module = p->module;
  if (p->parallel.size[PTC_AXIS_CP] == 1) p->parallel.balanced = false;
  if (p->parallel.balanced && p->parallel.sequence_parallel && p->parallel.size[PTC_AXIS_TP] > 1)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_UNSUPPORTED, "partition-order",
                     "cp_order = balanced deals the sequence out over cp; sequence_parallel cannot "
                     "split it over tp as well; turn one of them off");
  const ptc_mesh_t old = module->mesh;
  ptc_mesh_axis_t axes[PTC_NUM_DEVICE_AXES + PTC_MAX_AXES];
  int32_t count = 0;
  for (int i = 0; i < PTC_NUM_DEVICE_AXES; i++) {
    const char *name = ptc_module_intern(module, ptc_device_axis_names[i]);
    p->axis[i] = (ptc_axis_ref_t){.axis = name};
    // The stages of a pipeline have programs of their own.
    if (p->parallel.size[i] == 1 || i == PTC_AXIS_PP) continue;
    axes[count++] = (ptc_mesh_axis_t){name, p->parallel.size[i]};
    if (i == PTC_AXIS_DP || i == PTC_AXIS_EP || i == PTC_AXIS_CP)
      p->data[p->num_data++] = p->axis[i];
  }
  for (int32_t i = 0; i < old.num_axes && i < PTC_MAX_AXES; i++)
    if (!ptc_axis_is_device(old.axes[i].name)) axes[count++] = old.axes[i];
  ptc_module_set_mesh(module, axes, count);
  return PTC_OK;
}

// --- inputs

static void add_sequence(ptc_part_t *p, const char *name) {
  for (int32_t i = 0; i < p->num_sequence; i++)
    if (p->sequence[i] == name) return;
  if (name != p->batch && p->num_sequence < PTC_PART_MAX_NAMES)
    p->sequence[p->num_sequence++] = name;
}

static void find_renamed(ptc_part_t *p, const ptc_block_t *block) {
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) find_renamed(p, op->body);
    if (op->opcode != PTC_OP_RENAME) continue;
    const ptc_attr_t *from = ptc_op_attr(op, "from"), *to = ptc_op_attr(op, "to");
    for (int32_t i = 0; i < from->count && i < to->count; i++) {
      if (ptc_part_is_sequence(p, from->u.dims[i])) add_sequence(p, to->u.dims[i]);
      if (ptc_part_is_sequence(p, to->u.dims[i])) add_sequence(p, from->u.dims[i]);
    }
  }
}

// An input of samples is a sequence along its first other dim.
static void find_sequence_dims(ptc_part_t *p) {
  for (int64_t g = 0; g < p->module->num_globals; g++) {
    const ptc_global_t *global = p->module->globals[g];
    const ptc_type_t *type = global->type;
    if (global->kind != PTC_GLOBAL_INPUT || !ptc_type_has_dim(type, p->batch)) continue;
    for (int32_t i = 0; i < type->num_dims; i++) {
      if (type->dims[i].name == p->batch) continue;
      add_sequence(p, type->dims[i].name);
      break;
    }
  }
  for (int32_t before = -1; before != p->num_sequence;) {
    before = p->num_sequence;
    for (ptc_func_t *f = p->module->funcs; f; f = f->next) find_renamed(p, f->body);
  }
}

static ptc_value_t *build_shard(ptc_part_t *p, ptc_op_t *before, ptc_value_t *value,
                                const char *dim, const ptc_axis_ref_t *axes, int32_t num_axes) {
  ptc_builder_t b = ptc_builder_before(p->module, before);
  if (value->def) b.loc = value->def->loc;
  const char *name = value->name;
  const bool zigzag = ptc_part_is_zigzag(p, dim, axes, num_axes);
  if (zigzag) value = ptc_part_deal(p, &b, value, dim);
  if (!value) return NULL;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(p->module, &attrs, "dim", dim);
  ptc_attrs_set_string(p->module, &attrs, "axis", ptc_axes_text(p->module, axes, num_axes));
  ptc_op_t *op = ptc_build_op(&b, PTC_OP_SHARD, &value, 1, 1, attrs);
  value = op ? op->results[0] : NULL;
  if (zigzag) value = ptc_part_reorder(p, &b, value, dim, true);
  if (value) value->name = name;
  return value;
}

static ptc_status_t does_not_divide(ptc_part_t *p, ptc_loc_t loc, const ptc_dim_t *dim,
                                    const char *axes, int64_t shards) {
  return ptc_error(p->module->diag, loc, PTC_INFEASIBLE, "partition-divides",
                   "dim \"%s\" of extent %" PRId64 " is not divisible by the %" PRId64
                   " parts that %s make of it; choose other sizes",
                   dim->name, dim->extent, shards, axes);
}

// Where a micro-batch does not divide by the devices, the batch is cut into the parts of all turns and devices at once,
// the last ones padded: the samples of a turn are others than |value|, its shard over time, has. Returns what stands for
// |value|.
static ptc_value_t *cut_batch_at_once(ptc_part_t *p, ptc_func_t *func, ptc_value_t *value,
                                      const ptc_axis_ref_t *axes, int32_t num_axes) {
  const ptc_dim_t *dim = &value->type->dims[ptc_type_find_dim(value->type, p->batch)];
  ptc_axis_ref_t all[PTC_MAX_AXES];
  int32_t count = 0;
  for (int32_t i = 0; i < dim->num_axes; i++) all[count++] = dim->axes[i];
  for (int32_t i = 0; i < num_axes; i++) all[count++] = axes[i];
  ptc_value_t *part =
      build_shard(p, value->def->next, value->def->operands[0], p->batch, all, count);
  if (part) ptc_block_replace_uses(func->body, value, part);
  return part;
}

// The part of |value|, data of a step, that belongs to this device; all later uses take it.
static ptc_status_t shard_data(ptc_part_t *p, ptc_func_t *func, ptc_value_t *value,
                               ptc_op_t *before) {
  const int32_t at = ptc_type_find_dim(value->type, p->batch);
  if (at < 0) return PTC_OK;
  ptc_axis_ref_t over_batch[2];
  int32_t num_batch = 0;
  for (int i = PTC_AXIS_DP; i <= PTC_AXIS_EP; i++)
    if (p->parallel.size[i] > 1) over_batch[num_batch++] = p->axis[i];
  const ptc_loc_t loc = value->def ? value->def->loc : func->loc;
  const ptc_mesh_t *mesh = &p->module->mesh;
  const ptc_dim_t *batch = &value->type->dims[at];
  const int64_t shards =
      ptc_dim_num_shards(mesh, batch) * ptc_axes_size(mesh, over_batch, num_batch);
  // Rows of experts go to and fro over ep alone, within what micro and dp leave.
  const bool nested = batch->num_axes || num_batch == 2;
  if (p->parallel.size[PTC_AXIS_EP] > 1 && nested && batch->extent % shards)
    return does_not_divide(p, loc, batch, "micro, dp and ep", shards);
  if (num_batch && batch->num_axes && batch->extent % shards) {
    value = cut_batch_at_once(p, func, value, over_batch, num_batch);
    if (!value) return PTC_INVALID_INPUT;
    num_batch = 0;
  }
  ptc_value_t *part = value;
  if (num_batch) part = build_shard(p, before, part, p->batch, over_batch, num_batch);
  const int64_t cp = p->parallel.size[PTC_AXIS_CP];
  for (int32_t i = 0; part && cp > 1 && i < value->type->num_dims; i++) {
    const ptc_dim_t *dim = &value->type->dims[i];
    if (!ptc_part_is_sequence(p, dim->name)) continue;
    if (dim->num_axes && dim->extent % cp) return does_not_divide(p, loc, dim, "cp", cp);
    if (p->parallel.balanced && dim->extent % (2 * cp))
      return does_not_divide(p, loc, dim, "the chunks of cp_order = balanced", 2 * cp);
    part = build_shard(p, before, part, dim->name, &p->axis[PTC_AXIS_CP], 1);
    break;
  }
  if (!part) return PTC_INVALID_INPUT;
  if (part == value) return PTC_OK;
  ptc_op_t *first = part->def;
  while (first->num_operands == 0 || first->operands[0] != value) first = first->prev;
  ptc_block_replace_uses(func->body, value, part);
  first->operands[0] = value;
  return PTC_OK;
}

static ptc_status_t shard_micro(ptc_part_t *p, ptc_func_t *func, ptc_block_t *block) {
  for (ptc_op_t *op = block->first, *next; op; op = next) {
    next = op->next;
    if (op->body) PTC_TRY(shard_micro(p, func, op->body));
    if (op->opcode == PTC_OP_SHARD && ptc_op_string(op, "axis") == p->micro)
      PTC_TRY(shard_data(p, func, op->results[0], next));
  }
  return PTC_OK;
}

static bool has_micro(const ptc_part_t *p, const ptc_block_t *block) {
  for (const ptc_op_t *op = block->first; op; op = op->next)
    if (op->body && (ptc_op_string(op, "axis") == p->micro || has_micro(p, op->body))) return true;
  return false;
}

// Gradients are summed over devices in the dtype in which they are accumulated.
static void widen_contributions(ptc_part_t *p, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) widen_contributions(p, op->body);
    if (op->opcode != PTC_OP_ACCUMULATE) continue;
    ptc_builder_t b = ptc_builder_before(p->module, op);
    b.loc = op->loc;
    op->operands[1] = ptc_build_cast(&b, op->operands[1], op->operands[0]->type->dtype);
  }
}

ptc_status_t ptc_part_seed_inputs(ptc_part_t *p) {
  find_sequence_dims(p);
  for (ptc_func_t *func = p->module->funcs; func && p->parallel.zero >= 2; func = func->next)
    widen_contributions(p, func->body);
  for (ptc_func_t *func = p->module->funcs; func; func = func->next) {
    // The samples of a device are chosen within a micro-batch; before that loop the data are whole.
    if (has_micro(p, func->body)) {
      PTC_TRY(shard_micro(p, func, func->body));
      continue;
    }
    ptc_op_t *first = func->body->first;
    for (int32_t i = 0; i < func->body->num_args; i++)
      if (func->arg_globals[i]->kind == PTC_GLOBAL_INPUT)
        PTC_TRY(shard_data(p, func, func->body->args[i], first));
  }
  return PTC_OK;
}

// --- parameters

// |type| with |refs| innermost on the dim, if they are free there. A dim that they do not divide is padded, if it has no
// other axes and |min_extent| elements per shard; else it stays |type|.
static const ptc_type_t *lay_dim(ptc_part_t *p, const ptc_type_t *type, int32_t at,
                                 const ptc_axis_ref_t *refs, int32_t num_refs, int64_t min_extent) {
  const ptc_dim_t *dim = &type->dims[at];
  const ptc_mesh_t *mesh = &p->module->mesh;
  if (!ptc_part_is_free(type, refs, num_refs)) return type;
  const int64_t parts = ptc_axes_size(mesh, refs, num_refs);
  const bool divides = dim->extent % (ptc_dim_num_shards(mesh, dim) * parts) == 0;
  const bool pads = dim->num_axes == 0 && min_extent > 0 && dim->extent >= min_extent * parts;
  if (!divides && !pads) return type;
  ptc_axis_ref_t all[PTC_MAX_AXES];
  int32_t count = 0;
  for (int32_t i = 0; i < dim->num_axes; i++) all[count++] = dim->axes[i];
  for (int32_t i = 0; i < num_refs && count < PTC_MAX_AXES; i++) all[count++] = refs[i];
  return ptc_part_with_axes(p, type, at, all, count);
}

// A statement "PATH on AXIS over DIM" of the config that names the parameter.
static ptc_status_t lay_by_statements(ptc_part_t *p, const ptc_global_t *global,
                                      const ptc_type_t **type) {
  const char *list = ptc_attrs_string(&p->module->config, "shard", NULL);
  for (const char *at = list; at && *at;) {
    const size_t len = strcspn(at, ";");
    char path[256], axis[32], dim[128];
    char *entry = ptc_arena_strndup(p->scratch, at, len);
    at += len + (at[len] == ';');
    if (sscanf(entry, " %255s on %31s over %127s", path, axis, dim) != 3) continue;
    if (!ptc_global_path_fits(global, path, false)) continue;
    // An axis, or a part of one: the planner's.
    ptc_axis_ref_t refs[PTC_MAX_AXES];
    int32_t num_refs;
    if (!ptc_axes_parse(p->module, axis, refs, &num_refs)) continue;
    const int64_t size = ptc_axes_size(&p->module->mesh, refs, num_refs);
    if (size <= 1) continue;
    const int32_t i = ptc_type_find_dim(*type, ptc_module_intern(p->module, dim));
    if (i < 0) continue;
    const ptc_type_t *laid = lay_dim(p, *type, i, refs, num_refs, 1);
    if (laid == *type) return does_not_divide(p, global->loc, &(*type)->dims[i], axis, size);
    *type = laid;
  }
  return PTC_OK;
}

static const ptc_type_t *lay_by_names(ptc_part_t *p, const ptc_type_t *type) {
  for (int32_t k = 0; k < p->num_names; k++) {
    const int32_t at = ptc_type_find_dim(type, p->names[k]);
    if (at >= 0) type = lay_dim(p, type, at, &p->named[k], 1, PTC_PART_MIN_SHARD);
  }
  return type;
}

static const ptc_type_t *lay_groups(ptc_part_t *p, const ptc_global_t *global,
                                    const ptc_type_t *type) {
  const char *dim = p->parallel.size[PTC_AXIS_EP] > 1
                        ? ptc_partition_group_dim(p->module, p->batch, global)
                        : NULL;
  if (!dim) return type;
  return lay_dim(p, type, ptc_type_find_dim(type, dim), &p->axis[PTC_AXIS_EP], 1, 1);
}

// ZeRO: over the data axes that the parameter does not use, on the outermost dim that divides, else on the outermost that
// can be padded.
static const ptc_type_t *lay_state(ptc_part_t *p, const ptc_type_t *home) {
  ptc_axis_ref_t axes[PTC_NUM_DEVICE_AXES];
  int32_t num_axes = 0;
  for (int32_t i = 0; i < p->num_data; i++)
    if (ptc_part_is_free(home, &p->data[i], 1)) axes[num_axes++] = p->data[i];
  if (p->parallel.zero == 0 || num_axes == 0) return home;
  for (int pads = 0; pads < 2; pads++) {
    for (int32_t i = 0; i < home->num_dims; i++) {
      if (p->parallel.balanced && ptc_part_is_sequence(p, home->dims[i].name)) continue;
      const ptc_type_t *stored = lay_dim(p, home, i, axes, num_axes, pads ? PTC_PART_MIN_SHARD : 0);
      if (stored != home) return stored;
    }
  }
  return home;
}

static const ptc_global_t *owner_of(const ptc_module_t *module, const ptc_global_t *moment) {
  const char *path = ptc_attrs_string(&moment->attrs, "owner", NULL);
  for (int64_t g = 0; path && g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    if (global->kind != PTC_GLOBAL_PARAM || strcmp(global->path, path) != 0) continue;
    const size_t size = (size_t)global->type->num_counts * sizeof(global->turn_first[0]);
    if (global->type->num_counts == moment->type->num_counts &&
        memcmp(global->turn_first, moment->turn_first, size) == 0 &&
        memcmp(global->turn_step, moment->turn_step, size) == 0)
      return global;
  }
  return NULL;
}

ptc_status_t ptc_part_lay_out(ptc_part_t *p) {
  ptc_module_t *module = p->module;
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    if (global->kind != PTC_GLOBAL_PARAM) continue;
    const ptc_type_t *home = ptc_part_whole(p, global->type, NULL);
    PTC_TRY(lay_by_statements(p, global, &home));
    home = lay_groups(p, global, home);
    home = lay_by_names(p, home);
    const bool frozen = ptc_attrs_bool(&global->attrs, "frozen", false);
    p->layouts[g] =
        (ptc_part_layout_t){home, frozen && p->parallel.zero < 3 ? home : lay_state(p, home)};
  }
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    if (global->kind != PTC_GLOBAL_MOMENT) continue;
    const ptc_global_t *owner = owner_of(module, global);
    if (!owner) continue;
    const ptc_type_t *type =
        ptc_type_with_dtype(&module->arena, p->layouts[owner->index].stored, global->type->dtype);
    p->layouts[g] = (ptc_part_layout_t){type, type};
  }
  return PTC_OK;
}

// --- a function

static void mark_gradient(ptc_part_t *p, ptc_value_t *value, const ptc_part_mark_t *mark);

static void mark_block_arg(ptc_part_t *p, ptc_value_t *arg, const ptc_part_mark_t *mark) {
  ptc_op_t *repeat = arg->block->parent_op;
  if (!repeat || arg->index == 0) return;
  const int32_t i = arg->index - 1;
  mark_gradient(p, repeat->operands[i], mark);
  if (i < repeat->num_carry) {
    mark_gradient(p, repeat->body->last->operands[i], mark);
    mark_gradient(p, repeat->results[i], mark);
  }
}

static const char *old_name(const ptc_op_t *rename, const char *dim) {
  const ptc_attr_t *from = ptc_op_attr(rename, "from"), *to = ptc_op_attr(rename, "to");
  for (int32_t i = 0; dim && i < from->count; i++)
    if (to->u.dims[i] == dim) return from->u.dims[i];
  return dim;
}

// The mark of what |rename| gives other names.
static const ptc_part_mark_t *renamed_mark(ptc_part_t *p, const ptc_op_t *rename,
                                           const ptc_part_mark_t *mark) {
  ptc_part_mark_t *old = PTC_ARENA_NEW(p->scratch, ptc_part_mark_t);
  *old = *mark;
  old->home = NULL;
  old->dim = old_name(rename, mark->dim);
  if (!mark->home) return old;
  ptc_dim_t dims[PTC_MAX_DIMS];
  for (int32_t i = 0; i < mark->home->num_dims; i++) {
    dims[i] = mark->home->dims[i];
    dims[i].name = old_name(rename, dims[i].name);
  }
  old->home = ptc_type_new(p->scratch, mark->home->dtype, dims, mark->home->num_dims);
  return old;
}

static const ptc_part_mark_t *tied_mark(ptc_part_t *p, const ptc_part_mark_t *mark) {
  if (mark->tied) return mark;
  ptc_part_mark_t *tied = PTC_ARENA_NEW(p->scratch, ptc_part_mark_t);
  *tied = *mark;
  tied->tied = true;
  return tied;
}

// Marks |value| and what it is made of, back through ops that a sum not taken yet can pass.
static void mark_gradient(ptc_part_t *p, ptc_value_t *value, const ptc_part_mark_t *mark) {
  if (ptc_map_get(&p->grads, value)) return;
  ptc_map_set(&p->grads, value, (void *)(uintptr_t)mark);
  ptc_op_t *def = value->def;
  if (!def) {
    mark_block_arg(p, value, mark);
    return;
  }
  switch (def->opcode) {
    case PTC_OP_REPEAT:
      mark_gradient(p, def->body->last->operands[value->index], mark);
      if (value->index < def->num_carry) {
        mark_gradient(p, def->operands[value->index], mark);
        mark_gradient(p, def->body->args[1 + value->index], mark);
      }
      break;
    case PTC_OP_RENAME: mark_gradient(p, def->operands[0], renamed_mark(p, def, mark)); break;
    case PTC_OP_ADD:
    case PTC_OP_SUB:
      for (int32_t i = 0; i < 2; i++) mark_gradient(p, def->operands[i], tied_mark(p, mark));
      break;
    case PTC_OP_CAST:
    case PTC_OP_TRANSPOSE:
    case PTC_OP_ACCUMULATE:
    case PTC_OP_LIST_SLICE:
    case PTC_OP_LIST_CONCAT:
    case PTC_OP_LIST_GROUP:
    case PTC_OP_LIST_UNGROUP:
      for (int32_t i = 0; i < def->num_operands; i++) mark_gradient(p, def->operands[i], mark);
      break;
    default: break;
  }
}

// The global that |value|, an argument or an instance of one, comes from; NULL if it is computed.
static const ptc_global_t *source_of(const ptc_part_t *p, const ptc_value_t *value) {
  for (;;) {
    if (value->def) {
      const ptc_opcode_t opcode = value->def->opcode;
      if (opcode != PTC_OP_LIST_SLICE && opcode != PTC_OP_LIST_GROUP &&
          opcode != PTC_OP_LIST_UNGROUP && opcode != PTC_OP_LIST_CONCAT)
        return NULL;
      value = value->def->operands[0];
      continue;
    }
    if (!value->block->parent_op) return p->func->arg_globals[value->index];
    const ptc_op_t *repeat = value->block->parent_op;
    if (value->index <= repeat->num_carry) return NULL;
    value = repeat->operands[value->index - 1];
  }
}

static const ptc_part_mark_t *mark_of(const ptc_part_t *p, const ptc_global_t *global) {
  ptc_part_mark_t *mark = PTC_ARENA_NEW(p->scratch, ptc_part_mark_t);
  const ptc_part_layout_t *layout = &p->layouts[global->index];
  mark->home = layout->home;
  for (int32_t i = 0; layout->home && i < layout->home->num_dims; i++) {
    const ptc_dim_t *stored = &layout->stored->dims[i], *home = &layout->home->dims[i];
    if (stored->num_axes == home->num_axes) continue;
    mark->dim = home->name;
    for (int32_t a = home->num_axes; a < stored->num_axes; a++)
      mark->axes[mark->num_axes++] = stored->axes[a];
  }
  return mark;
}

static void mark_gradients(ptc_part_t *p, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) mark_gradients(p, op->body);
    if (op->opcode != PTC_OP_ADAMW && op->opcode != PTC_OP_SGD) continue;
    const ptc_global_t *global = source_of(p, op->operands[0]);
    if (global) mark_gradient(p, op->operands[1], mark_of(p, global));
  }
}

// What a repeat collects to be returned as a state is of the state's type at once.
static void want(ptc_part_t *p, ptc_value_t *value, const ptc_type_t *type) {
  if (value->def && value->def->opcode == PTC_OP_REPEAT && value->index >= value->def->num_carry &&
      type->num_counts > 0)
    ptc_map_set(&p->wanted, value, (void *)(uintptr_t)type);
}

void ptc_part_begin_func(ptc_part_t *p, ptc_func_t *func) {
  p->func = func;
  p->has_micro = has_micro(p, func->body);
  for (int32_t i = 0; i < func->body->num_args; i++) {
    const ptc_global_t *global = func->arg_globals[i];
    const ptc_part_layout_t *layout = &p->layouts[global->index];
    if (!layout->home) continue;
    ptc_value_t *arg = func->body->args[i];
    arg->type = layout->stored;
    if (global->kind != PTC_GLOBAL_PARAM) continue;
    ptc_map_set(&p->weights, arg, arg);
    if (!ptc_type_equal(layout->home, layout->stored))
      ptc_map_set(&p->home, arg, (void *)(uintptr_t)layout->home);
  }
  mark_gradients(p, func->body);
  const ptc_op_t *ret = ptc_func_return(func);
  for (int32_t i = 0; i < func->num_results; i++) {
    const ptc_result_t *result = &func->results[i];
    if (result->kind == PTC_RESULT_VALUE || !result->global) continue;
    const ptc_part_layout_t *layout = &p->layouts[result->global->index];
    if (result->kind == PTC_RESULT_STATE && layout->home) want(p, ret->operands[i], layout->stored);
    if (result->kind == PTC_RESULT_GRAD)
      mark_gradient(p, ret->operands[i], mark_of(p, result->global));
  }
}

void ptc_part_end_func(ptc_part_t *p) {
  ptc_map_deinit(&p->home);
  ptc_map_deinit(&p->weights);
  ptc_map_deinit(&p->grads);
  ptc_map_deinit(&p->wanted);
  ptc_map_deinit(&p->zeros);
  ptc_map_deinit(&p->gathered);
  ptc_map_deinit(&p->groups);
  ptc_map_deinit(&p->firsts);
  ptc_map_deinit(&p->cache);
}

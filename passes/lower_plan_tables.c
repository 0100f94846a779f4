// What a plan says beside its steps: globals, settings, which values are gradients.
#include <inttypes.h>
#include <string.h>

#include "ir/op.h"
#include "passes/lower_plan_impl.h"

// --- gradients

typedef PTC_VEC(const ptc_value_t *) value_list_t;

static void push_grad(ptc_lower_t *lower, value_list_t *work, const ptc_value_t *value,
                      const char *name) {
  if (ptc_map_get(&lower->grads, value)) return;
  ptc_map_set(&lower->grads, value, (void *)name);
  PTC_VEC_PUSH(work, value);
}

// The path of the global that |value| is, or an instance of.
static const char *global_path(const ptc_value_t *value) {
  while (!value->def && value->block->parent_op && value->index > 0)
    value = value->block->parent_op->operands[value->index - 1];
  const bool argument = !value->def && !value->block->parent_op;
  return argument ? value->block->func->arg_globals[value->index]->path : "";
}

typedef struct grad_search_s {
  ptc_lower_t *lower;
  value_list_t *work;
} grad_search_t;

static void see_update(ptc_op_t *op, void *arg) {
  const grad_search_t *search = arg;
  if (op->opcode != PTC_OP_ADAMW && op->opcode != PTC_OP_SGD) return;
  const char *name =
      ptc_arena_printf(search->lower->arena, "grad of %s", global_path(op->operands[0]));
  push_grad(search->lower, search->work, op->operands[1], name);
}

// From a gradient to the values that it is another form of, or a sum of.
static void follow_grad(ptc_lower_t *lower, value_list_t *work, const ptc_value_t *value) {
  const ptc_op_t *def = value->def;
  const char *name = ptc_map_get(&lower->grads, value);
  if (!def) {
    const ptc_op_t *repeat = value->block->parent_op;
    if (!repeat || value->index == 0) return;
    push_grad(lower, work, repeat->operands[value->index - 1], name);
    if (value->index - 1 < repeat->num_carry)
      push_grad(lower, work, repeat->body->last->operands[value->index - 1], name);
  } else if (def->opcode == PTC_OP_REPEAT) {
    push_grad(lower, work, def->body->last->operands[value->index], name);
    if (value->index < def->num_carry)
      push_grad(lower, work, def->body->args[1 + value->index], name);
  } else if (ptc_op_has_trait(def, PTC_TRAIT_VIEW) || def->opcode == PTC_OP_ADD) {
    for (int32_t i = 0; i < def->num_operands; ++i) push_grad(lower, work, def->operands[i], name);
  } else if (def->opcode == PTC_OP_ACCUMULATE || def->opcode == PTC_OP_CAST ||
             ptc_op_has_trait(def, PTC_TRAIT_COLLECTIVE)) {
    push_grad(lower, work, def->operands[0], name);
  }
}

void ptc_lower_find_grads(ptc_lower_t *lower, const ptc_func_t *func) {
  value_list_t work = {0};
  grad_search_t search = {lower, &work};
  ptc_block_walk(func->body, see_update, &search);
  const ptc_op_t *end = ptc_func_return(func);
  for (int32_t i = 0; i < func->num_results; ++i)
    if (func->results[i].kind == PTC_RESULT_GRAD)
      push_grad(lower, &work, end->operands[i],
                ptc_arena_printf(lower->arena, "grad of %s", func->results[i].global->path));
  while (work.len) follow_grad(lower, &work, work.data[--work.len]);
  PTC_VEC_FREE(&work);
}

// --- globals

static void fill_input(const ptc_lower_t *lower, const ptc_global_t *global,
                       ptc_plan_global_t *entry) {
  // An input without a source is data of its own name.
  entry->source =
      ptc_arena_strdup(lower->arena, ptc_attrs_string(&global->attrs, "source", global->path));
  entry->offset = ptc_attrs_int(&global->attrs, "offset", 0);
  entry->range = ptc_attrs_int(&global->attrs, "range", 0);
  entry->ignorable = ptc_attrs_bool(&global->attrs, "ignorable", false);
  const char *batch = ptc_attrs_string(&lower->module->config, "batch_dim", NULL);
  for (int32_t d = 0; batch && d < global->type->num_dims; ++d)
    if (strcmp(global->type->dims[d].name, batch) == 0) entry->batch_dim = d;
}

static ptc_plan_global_t global_entry(ptc_lower_t *lower, const ptc_global_t *global) {
  static const ptc_buffer_class_t classes[] = {
      [PTC_GLOBAL_INPUT] = PTC_BUFFER_INPUT,    [PTC_GLOBAL_PARAM] = PTC_BUFFER_PARAM,
      [PTC_GLOBAL_MOMENT] = PTC_BUFFER_MOMENT,  [PTC_GLOBAL_COUNTER] = PTC_BUFFER_SCALAR,
      [PTC_GLOBAL_SETTING] = PTC_BUFFER_SCALAR,
  };
  ptc_plan_global_t entry = {.kind = ptc_global_kind_name(global->kind),
                             .path = ptc_arena_strdup(lower->arena, global->path),
                             .num_counts = global->type->num_counts,
                             .batch_dim = -1};
  for (int32_t c = 0; c < entry.num_counts; ++c) {
    entry.counts[c] = global->type->counts[c];
    entry.first[c] = global->turn_first[c];
    entry.step[c] = global->turn_step[c];
  }
  entry.buffer = ptc_lower_new_buffer(lower, global->path, global->type, classes[global->kind],
                                      ptc_type_num_instances(global->type), global->loc);
  if (global->kind == PTC_GLOBAL_INPUT) fill_input(lower, global, &entry);
  if (global->kind == PTC_GLOBAL_COUNTER || global->kind == PTC_GLOBAL_SETTING)
    entry.value = ptc_attrs_float(&global->attrs, "value", 0);
  return entry;
}

// Positions of a step: the largest extent, beside the batch, of an input that is read from a source.
static void fill_sizes(ptc_lower_t *lower) {
  ptc_plan_t *plan = lower->plan;
  for (int32_t g = 0; g < plan->num_globals; ++g) {
    const ptc_plan_global_t *global = &plan->globals[g];
    const ptc_buffer_t *buffer = &lower->buffers.data[global->buffer];
    if (buffer->cls != PTC_BUFFER_INPUT || global->batch_dim < 0) continue;
    const ptc_dim_t *layout = buffer->layout;
    plan->batch = layout ? layout[global->batch_dim].extent : buffer->extents[global->batch_dim];
    if (!global->source || buffer->num_dims != 2) continue;
    const int32_t other = 1 - global->batch_dim;
    const int64_t positions = layout ? layout[other].extent : buffer->extents[other];
    if (positions > plan->seq) plan->seq = positions;
  }
}

ptc_status_t ptc_lower_globals(ptc_lower_t *lower) {
  const ptc_module_t *module = lower->module;
  ptc_plan_t *plan = lower->plan;
  plan->globals = PTC_ARENA_ARRAY(lower->arena, ptc_plan_global_t, module->num_globals);
  for (int64_t g = 0; g < module->num_globals; ++g) {
    const ptc_global_t *global = module->globals[g];
    // Slots come last: they are buffers, and no part of the plan's state.
    if (global->kind == PTC_GLOBAL_SLOT) continue;
    if (ptc_type_num_bytes(global->type) < 0 || ptc_type_num_instances(global->type) > INT32_MAX)
      return ptc_error(lower->diag, global->loc, PTC_INVALID_INPUT, "plan-size",
                       "\"%s\" is too large", global->path);
    plan->globals[plan->num_globals++] = global_entry(lower, global);
  }
  fill_sizes(lower);
  return PTC_OK;
}

// --- settings

static const char *value_text(const ptc_lower_t *lower, const ptc_attr_t *attr) {
  ptc_str_t text = {0};
  switch (attr->kind) {
    case PTC_ATTR_INT: ptc_str_printf(&text, "%" PRId64, attr->u.i); break;
    case PTC_ATTR_FLOAT: ptc_str_append_double(&text, attr->u.f); break;
    case PTC_ATTR_BOOL: ptc_str_append(&text, attr->u.b ? "true" : "false"); break;
    case PTC_ATTR_STRING:
    case PTC_ATTR_DIM: ptc_str_append(&text, attr->u.s); break;
    default: ptc_str_append(&text, "..."); break;
  }
  const char *kept = ptc_arena_strdup(lower->arena, text.data);
  ptc_str_deinit(&text);
  return kept;
}

static bool is_open(const ptc_lower_t *lower, const char *name) {
  const ptc_plan_global_t *global = ptc_plan_find_global(lower->plan, name);
  return global && strcmp(global->kind, "setting") == 0;
}

static bool has_config(const ptc_module_t *module, const char *path) {
  for (int32_t i = 0; i < module->config.count; ++i)
    if (strcmp(module->config.items[i].name, path) == 0) return true;
  return false;
}

ptc_status_t ptc_lower_settings(ptc_lower_t *lower) {
  const ptc_module_t *module = lower->module;
  ptc_plan_t *plan = lower->plan;
  plan->settings =
      PTC_ARENA_ARRAY(lower->arena, ptc_plan_setting_t, module->config.count + plan->num_globals);
  for (int32_t i = 0; i < module->config.count; ++i) {
    const ptc_attr_t *attr = &module->config.items[i];
    ptc_plan_setting_t setting = {.name = ptc_arena_printf(lower->arena, "train.%s", attr->name),
                                  .value = value_text(lower, attr),
                                  .origin = "",
                                  .open = is_open(lower, attr->name)};
    if (setting.open) setting.global = ptc_arena_strdup(lower->arena, attr->name);
    plan->settings[plan->num_settings++] = setting;
  }
  // Settings that the train block does not name.
  for (int32_t g = 0; g < plan->num_globals; ++g) {
    const ptc_plan_global_t *global = &plan->globals[g];
    if (strcmp(global->kind, "setting") != 0 || has_config(module, global->path)) continue;
    ptc_str_t text = {0};
    ptc_str_append_double(&text, global->value);
    plan->settings[plan->num_settings++] =
        (ptc_plan_setting_t){.name = ptc_arena_printf(lower->arena, "train.%s", global->path),
                             .value = ptc_arena_strdup(lower->arena, text.data),
                             .origin = "default",
                             .open = true,
                             .global = global->path};
    ptc_str_deinit(&text);
  }
  return PTC_OK;
}

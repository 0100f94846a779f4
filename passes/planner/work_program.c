// From the IR to the compact program: numbers for values and dims, blocks of ops.
//
// Scalars that no sum over devices makes are left out: counters, settings, turns. So is what comes after the loop over
// micro-batches: the optimizer, whose work follows from the sizes of the parameters.
#include <string.h>

#include "passes/planner/work_build_impl.h"

// --- numbers

int32_t ptc_work_dim_name(ptc_wbuild_t *b, const char *name) {
  const intptr_t known = (intptr_t)ptc_map_get(&b->names, name);
  if (known) return (int32_t)known - 1;
  ptc_work_impl_t *w = b->impl;
  int32_t at = 0;
  while (at < w->num_dim_names && strcmp(w->dim_names[at], name) != 0) at++;
  if (at == w->num_dim_names) {
    const char **names = PTC_ARENA_ARRAY(b->arena, const char *, at + 1);
    if (at) memcpy(names, w->dim_names, (size_t)at * sizeof(*names));
    names[at] = ptc_arena_strdup(b->arena, name);
    w->dim_names = names;
    w->num_dim_names++;
  }
  ptc_map_set(&b->names, name, (void *)((intptr_t)at + 1));
  return at;
}

int32_t ptc_work_dim(ptc_wbuild_t *b, const char *name, int64_t extent) {
  ptc_work_impl_t *w = b->impl;
  const int32_t number = ptc_work_dim_name(b, name);
  for (int32_t i = 0; i < w->num_dims; i++)
    if (w->dims[i].name == number && w->dims[i].extent == extent) return i;
  ptc_wdim_t *dims = PTC_ARENA_ARRAY(b->arena, ptc_wdim_t, w->num_dims + 1);
  if (w->num_dims) memcpy(dims, w->dims, (size_t)w->num_dims * sizeof(*dims));
  dims[w->num_dims] = (ptc_wdim_t){number, extent};
  w->dims = dims;
  return w->num_dims++;
}

int32_t ptc_work_number(const ptc_wbuild_t *b, const ptc_value_t *value) {
  return (int32_t)(intptr_t)ptc_map_get(&b->numbers, value) - 1;
}

static int32_t add_value(ptc_wbuild_t *b, const ptc_value_t *value, int32_t block, ptc_wop_t *def) {
  const ptc_type_t *type = value->type;
  ptc_wvalue_t v = {.dims = (int32_t)b->dims.len,
                    .num_dims = (int16_t)type->num_dims,
                    .dtype = (uint8_t)type->dtype,
                    .param = -1,
                    .grad = -1,
                    .block = block,
                    .def = def};
  v.instances = (double)ptc_type_num_instances(type);
  for (int32_t d = 0; d < type->num_dims; d++) {
    const int32_t dim = ptc_work_dim(b, type->dims[d].name, type->dims[d].extent);
    v.activation |= b->impl->dims[dim].name == b->impl->batch_name;
    PTC_VEC_PUSH(&b->dims, dim);
  }
  const ptc_wmark_t *mark = ptc_map_get(&b->marks, value);
  if (mark) v.grad = mark->param;
  PTC_VEC_PUSH(&b->values, v);
  ptc_map_set(&b->numbers, value, (void *)(intptr_t)b->values.len);
  return (int32_t)b->values.len - 1;
}

static bool has_room(const ptc_value_t *value) {
  return value->type->num_dims > 0 || value->type->num_counts > 0;
}

// --- facts about values

static bool keeps_weights(const ptc_op_t *op) {
  switch (op->opcode) {
    case PTC_OP_CAST:
    case PTC_OP_RENAME:
    case PTC_OP_TRANSPOSE:
    case PTC_OP_LIST_SLICE:
    case PTC_OP_LIST_CONCAT:
    case PTC_OP_LIST_GROUP:
    case PTC_OP_LIST_UNGROUP: return true;
    default: return false;
  }
}

static bool is_zero(const ptc_value_t *value) {
  const ptc_op_t *def = value->def;
  if (!def) return false;
  if (def->opcode == PTC_OP_CONSTANT) return ptc_op_float(def, "value") == 0;
  if (def->opcode == PTC_OP_BROADCAST || def->opcode == PTC_OP_CAST)
    return is_zero(def->operands[0]);
  if (def->opcode != PTC_OP_REPEAT || value->index < def->num_carry) return false;
  return is_zero(def->body->last->operands[value->index]);
}

// Whether every use of |value| in |block| hands sums on or adds to them.
static bool only_adds(const ptc_block_t *block, const ptc_value_t *value) {
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body && !only_adds(op->body, value)) return false;
    for (int32_t i = 0; i < op->num_operands; i++) {
      if (op->operands[i] != value) continue;
      if (op->opcode == PTC_OP_YIELD || op->opcode == PTC_OP_ACCUMULATE) continue;
      const bool adds = op->opcode == PTC_OP_ADD || op->opcode == PTC_OP_SUB || keeps_weights(op);
      if (adds && only_adds(op->parent, op->results[0])) continue;
      if (op->opcode == PTC_OP_REPEAT && only_adds(op->body, op->body->args[1 + i])) continue;
      return false;
    }
  }
  return true;
}

static void note_weights(ptc_wbuild_t *b, ptc_wop_t *op) {
  // What a step makes of a parameter, whatever it is, is used where the parameter is.
  for (int32_t i = 0; op->phase == PTC_WORK_STEP && i < op->num_operands && op->num_results == 1;
       i++)
    if (b->values.data[op->operands[i]].param >= 0)
      b->values.data[op->results].param = b->values.data[op->operands[i]].param;
  if (!keeps_weights(op->source) || op->num_results != 1 || op->num_operands == 0) return;
  for (int32_t i = 0; i < op->num_operands; i++)
    if (!b->values.data[op->operands[i]].weight) return;
  // Casts of parameters are made once.
  if (op->block == 1) op->phase = PTC_WORK_STEP;
  b->values.data[op->results].weight = true;
  b->values.data[op->results].param = b->values.data[op->operands[0]].param;
}

// --- ops

static ptc_status_t build_block(ptc_wbuild_t *b, ptc_block_t *ir, int32_t block);

static const char *label_of(const ptc_wbuild_t *b, const ptc_wop_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_wvalue_t *v = &b->values.data[op->operands[i]];
    if (v->weight && v->param >= 0 && op->opcode != PTC_OP_CAST)
      return b->impl->params[v->param].path;
  }
  const ptc_op_t *source = op->source;
  const char *name = source->num_results ? source->results[0]->name : NULL;
  return ptc_arena_strdup(b->arena, name ? name : ptc_op_info(source->opcode)->mnemonic);
}

static ptc_loc_t copy_loc(const ptc_wbuild_t *b, ptc_loc_t loc) {
  if (loc.file) loc.file = ptc_arena_strdup(b->arena, loc.file);
  return loc;
}

static int32_t new_block(ptc_wbuild_t *b, int32_t parent, double turns) {
  PTC_VEC_PUSH(&b->blocks, ((ptc_wblock_t){.parent = parent, .turns = turns}));
  return (int32_t)b->blocks.len - 1;
}

// The number of what a repeat takes; values that have none are scalars that nothing depends on.
static ptc_status_t build_repeat(ptc_wbuild_t *b, ptc_wop_t *out, int32_t block) {
  const ptc_op_t *op = out->source;
  const ptc_op_t *yield = op->body->last;
  ptc_wrepeat_t *repeat = PTC_ARENA_NEW(b->arena, ptc_wrepeat_t);
  *repeat = (ptc_wrepeat_t){.count = ptc_op_int(op, "count")};
  repeat->body = new_block(b, block, b->blocks.data[block].turns * (double)repeat->count);
  repeat->carries = PTC_ARENA_ARRAY(b->arena, ptc_wcarry_t, op->num_carry + 1);
  repeat->eaches = PTC_ARENA_ARRAY(b->arena, ptc_weach_t, op->num_each + 1);
  repeat->collects = PTC_ARENA_ARRAY(b->arena, ptc_wcollect_t, op->num_results + 1);
  out->repeat = repeat;
  out->wclass = PTC_WCLASS_REPEAT;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int32_t from = ptc_work_number(b, op->operands[i]);
    const ptc_value_t *arg = op->body->args[1 + i];
    const bool carried = i < op->num_carry;
    // Accumulators of gradients are known by what is added to them.
    const bool sum = b->loop && carried && op == b->loop;
    if (sum || (from < 0 && !(carried && has_room(arg)))) continue;
    const int32_t to = add_value(b, arg, repeat->body, NULL);
    ptc_wvalue_t *v = &b->values.data[to];
    if (carried) {
      v->starts_zero = is_zero(op->operands[i]);
      repeat->carries[repeat->num_carries++] = (ptc_wcarry_t){.init = from, .arg = to, .result = i};
    } else {
      v->weight = b->values.data[from].weight;
      v->param = b->values.data[from].param;
      v->only_adds = only_adds(op->body, arg);
      repeat->eaches[repeat->num_eaches++] = (ptc_weach_t){from, to};
    }
  }
  PTC_TRY(build_block(b, op->body, repeat->body));
  int32_t kept = 0;
  for (int32_t i = 0; i < repeat->num_carries; i++) {
    ptc_wcarry_t carry = repeat->carries[i];
    const int32_t at = carry.result;
    carry.next = ptc_work_number(b, yield->operands[at]);
    if (carry.next < 0) continue;
    carry.result = add_value(b, op->results[at], block, out);
    repeat->carries[kept++] = carry;
  }
  repeat->num_carries = kept;
  for (int32_t i = op->num_carry; i < op->num_results; i++) {
    const int32_t value = ptc_work_number(b, yield->operands[i]);
    if (value < 0) continue;
    const int32_t result = add_value(b, op->results[i], block, out);
    repeat->collects[repeat->num_collects++] = (ptc_wcollect_t){.value = value, .result = result};
  }
  return PTC_OK;
}

static void add_gradient(ptc_wbuild_t *b, const ptc_wmark_t *mark, const ptc_value_t *value,
                         ptc_dtype_t dtype, int32_t piece) {
  ptc_wgrad_t grad = {.param = mark->param,
                      .value = ptc_work_number(b, value),
                      .bytes = (int32_t)ptc_dtype_bytes(dtype),
                      .piece = piece};
  if (grad.value < 0) return;
  for (int32_t d = 0; d < value->type->num_dims; d++) {
    grad.dims[d] = -1;
    for (int32_t i = 0; i < mark->num_dims; i++)
      if (mark->names[i] == value->type->dims[d].name) grad.dims[d] = (int8_t)i;
  }
  PTC_VEC_PUSH(&b->grads, grad);
}

// A gradient joins those of the micro-batches before.
static void note_gradient(ptc_wbuild_t *b, const ptc_wop_t *op) {
  const ptc_op_t *source = op->source;
  const ptc_wmark_t *mark = ptc_map_get(&b->marks, source->operands[1]);
  if (!mark) return;
  add_gradient(b, mark, source->operands[1], source->operands[0]->type->dtype, op->piece);
}

static void build_op(ptc_wbuild_t *b, ptc_wop_t *out, int32_t *out_in) {
  const ptc_op_t *op = out->source;
  // The total is the loop's; here stands what a turn adds.
  const bool accumulates = op->opcode == PTC_OP_ACCUMULATE;
  int32_t *operands = PTC_ARENA_ARRAY(b->arena, int32_t, op->num_operands + 1);
  for (int32_t i = accumulates ? 1 : 0; i < op->num_operands; i++) {
    const int32_t number = ptc_work_number(b, op->operands[i]);
    if (number < 0) continue;
    out_in[out->num_operands] = i;
    operands[out->num_operands++] = number;
  }
  out->operands = operands;
  out->num_results = accumulates ? 0 : op->num_results;
}

static bool is_part_of(const ptc_wbuild_t *b, const ptc_op_t *op) {
  return ptc_map_get(&b->needed, op) && !ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR);
}

static ptc_status_t build_block(ptc_wbuild_t *b, ptc_block_t *ir, int32_t block) {
  int32_t count = 0;
  for (const ptc_op_t *op = ir->first; op; op = op->next) count += is_part_of(b, op);
  ptc_wop_t *ops = PTC_ARENA_ARRAY(b->arena, ptc_wop_t, count + 1);
  int32_t num_ops = 0;
  for (ptc_op_t *op = ir->first; op; op = op->next) {
    if (!is_part_of(b, op) || (op->opcode == PTC_OP_REPEAT && op == b->loop)) continue;
    ptc_wop_t *out = &ops[num_ops];
    const ptc_wplace_t *place = ptc_work_place_of(b, op);
    *out = (ptc_wop_t){.opcode = op->opcode,
                       .source = op,
                       .block = block,
                       .group = -1,
                       .size = -1,
                       .scatter_param = -1};
    if (place) {
      out->phase = place->phase;
      out->piece = place->piece;
    }
    out->loc = copy_loc(b, op->loc);
    if (op->body) {
      num_ops++;
      PTC_TRY(build_repeat(b, out, block));
      continue;
    }
    int32_t *in = PTC_ARENA_ARRAY(b->scratch, int32_t, op->num_operands + 1);
    build_op(b, out, in);
    const bool makes_room = op->num_results > 0 && has_room(op->results[0]);
    if (out->num_operands == 0 && !makes_room) {
      *out = (ptc_wop_t){0};
      continue;
    }
    num_ops++;
    out->results = (int32_t)b->values.len;
    for (int32_t i = 0; i < out->num_results; i++) {
      const int32_t v = add_value(b, op->results[i], block, out);
      b->values.data[v].zero = is_zero(op->results[i]);
    }
    ptc_work_rule(b, out, op, in);
    note_weights(b, out);
    out->label = label_of(b, out);
    ptc_work_cost(b, out, in);
    if (out->wclass == PTC_WCLASS_ACCUMULATE) note_gradient(b, out);
  }
  b->blocks.data[block].ops = ops;
  b->blocks.data[block].num_ops = num_ops;
  return PTC_OK;
}

// --- the program

static void add_args(ptc_wbuild_t *b) {
  for (int32_t i = 0; i < b->func->body->num_args; i++) {
    const ptc_global_t *global = b->func->arg_globals[i];
    const ptc_value_t *arg = b->func->body->args[i];
    if (!has_room(arg)) continue;
    const bool input = global->kind == PTC_GLOBAL_INPUT, param = global->kind == PTC_GLOBAL_PARAM;
    if (!input && !param) continue;
    const int32_t number = add_value(b, arg, 0, NULL);
    ptc_wvalue_t *v = &b->values.data[number];
    v->is_input = input;
    v->is_stored = true;
    if (!param) continue;
    v->weight = true;
    v->param = (int32_t)(intptr_t)ptc_map_get(&b->params, global) - 1;
    b->program->param_values[v->param] = number;
  }
}

// Without a loop: gradients where the optimizer takes them.
static void note_update(ptc_op_t *op, void *arg) {
  ptc_wbuild_t *b = arg;
  if (b->loop || (op->opcode != PTC_OP_ADAMW && op->opcode != PTC_OP_SGD)) return;
  ptc_value_t *source = ptc_work_source(op->operands[1]);
  const ptc_wmark_t *mark = ptc_map_get(&b->marks, source);
  if (!mark) return;
  const ptc_wplace_t *place = source->def ? ptc_work_place_of(b, source->def) : NULL;
  add_gradient(b, mark, source, source->type->dtype, place ? place->piece : 0);
}

static void *keep(ptc_arena_t *arena, void *data, int64_t len, size_t size) {
  void *copy = ptc_arena_calloc(arena, (size_t)len + 1, size);
  if (len) memcpy(copy, data, (size_t)len * size);
  free(data);
  return copy;
}

ptc_status_t ptc_work_build_program(ptc_wbuild_t *b) {
  ptc_wprogram_t *p = b->program;
  p->has_micro = b->loop != NULL;
  p->param_values = PTC_ARENA_ARRAY(b->arena, int32_t, b->impl->num_params + 1);
  for (int32_t i = 0; i < b->impl->num_params; i++) p->param_values[i] = -1;
  const int32_t step = new_block(b, -1, 1), body = new_block(b, step, 1);
  add_args(b);
  ptc_status_t status = b->loop ? build_block(b, b->func->body, step) : PTC_OK;
  if (status == PTC_OK) status = build_block(b, b->body, body);
  ptc_block_walk(b->func->body, note_update, b);
  p->num_values = (int32_t)b->values.len;
  p->num_dims = (int32_t)b->dims.len;
  p->num_blocks = (int32_t)b->blocks.len;
  p->num_grads = (int32_t)b->grads.len;
  p->values = keep(b->arena, b->values.data, b->values.len, sizeof(ptc_wvalue_t));
  p->dims = keep(b->arena, b->dims.data, b->dims.len, sizeof(int32_t));
  p->blocks = keep(b->arena, b->blocks.data, b->blocks.len, sizeof(ptc_wblock_t));
  p->grads = keep(b->arena, b->grads.data, b->grads.len, sizeof(ptc_wgrad_t));
  return status;
}

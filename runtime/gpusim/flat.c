// Inlining: a kernel and the functions that it calls become one list of instructions, with one frame of
// local memory.
#include <inttypes.h>
#include <string.h>

#include "runtime/gpusim/address.h"
#include "runtime/gpusim/flat_impl.h"

enum { MAX_DEPTH = 32, MAX_INSTS = 1 << 22 };

// Where a variable of an instance of a function lies.
typedef struct binding_s {
  const ptx_variable_t *variable;
  ptx_space_t space;
  uint64_t offset;
} binding_t;

typedef struct instance_s {
  flat_t *flat;
  const ptx_func_t *func;
  int32_t first_reg;
  PTC_VEC(binding_t) bindings;
} instance_t;

bool ptx_has_part(const ptx_inst_t *inst, const char *part) {
  for (int32_t i = 1; i < inst->num_parts; ++i)
    if (strcmp(inst->parts[i], part) == 0) return true;
  return false;
}

bool ptx_has_destination(const ptx_inst_t *inst) {
  static const char *const none[] = {"st",       "red",       "bra",      "ret",   "exit",
                                     "trap",     "cp",        "membar",   "fence", "call",
                                     "prefetch", "prefetchu", "nanosleep"};
  const char *name = inst->parts[0];
  for (size_t i = 0; i < sizeof none / sizeof *none; ++i)
    if (strcmp(name, none[i]) == 0) return false;
  if (strcmp(name, "bar") == 0 || strcmp(name, "barrier") == 0) return ptx_has_part(inst, "red");
  return inst->num_operands > 0;
}

static ptc_status_t fail(const flat_t *flat, const ptx_inst_t *inst, const char *what) {
  return ptc_error(flat->diag, (ptc_loc_t){.file = flat->module->name, .line = inst->line},
                   PTC_UNSUPPORTED, "ptx-unknown", "\"%s\" in kernel \"%s\": %s", inst->opcode,
                   flat->program->name, what);
}

static uint64_t align_up(uint64_t value, int64_t align) {
  const uint64_t a = align > 1 ? (uint64_t)align : 1;
  return (value + a - 1) / a * a;
}

static binding_t place(instance_t *instance, const ptx_variable_t *variable) {
  flat_t *flat = instance->flat;
  sim_program_t *program = flat->program;
  for (int32_t i = 0; i < flat->num_placed; ++i)
    if (flat->placed[i].variable == variable)
      return (binding_t){variable, variable->space, flat->placed[i].address};
  for (int64_t i = 0; i < flat->shared.len; ++i)
    if (flat->shared.data[i].variable == variable)
      return (binding_t){variable, PTX_SPACE_SHARED, flat->shared.data[i].address};
  if (variable->space == PTX_SPACE_SHARED) {
    const uint64_t at = align_up((uint64_t)program->shared_bytes, variable->align);
    program->shared_bytes = (int64_t)at + variable->bytes;
    PTC_VEC_PUSH(&flat->shared, ((sim_placed_t){variable, at}));
    return (binding_t){variable, PTX_SPACE_SHARED, at};
  }
  const uint64_t at = align_up((uint64_t)program->local_bytes, variable->align);
  program->local_bytes = (int64_t)at + variable->bytes;
  return (binding_t){variable, PTX_SPACE_LOCAL, at};
}

static binding_t bind(instance_t *instance, const ptx_variable_t *variable) {
  for (int64_t i = 0; i < instance->bindings.len; ++i)
    if (instance->bindings.data[i].variable == variable) return instance->bindings.data[i];
  const binding_t binding = place(instance, variable);
  PTC_VEC_PUSH(&instance->bindings, binding);
  return binding;
}

static ptx_operand_t localize(instance_t *instance, const ptx_operand_t *operand) {
  ptx_operand_t local = *operand;
  if (local.reg >= 0) local.reg += instance->first_reg;
  if (local.kind == PTX_LIST) {
    ptx_operand_t *elements =
        PTC_ARENA_ARRAY(&instance->flat->program->arena, ptx_operand_t, local.num_elements + 1);
    for (int32_t i = 0; i < local.num_elements; ++i)
      elements[i] = localize(instance, &operand->elements[i]);
    local.elements = elements;
  } else if (local.variable) {
    const binding_t binding = bind(instance, local.variable);
    local.space = binding.space;
    local.imm += binding.offset;
    if (local.kind == PTX_SYMBOL) local.kind = PTX_IMM;
    local.variable = NULL;
  }
  return local;
}

static ptc_status_t inline_func(instance_t *instance);

// `call (results), function, (arguments)`
static ptc_status_t inline_call(instance_t *caller, const ptx_inst_t *inst) {
  flat_t *flat = caller->flat;
  const ptx_operand_t *name = NULL, *results = NULL, *arguments = NULL;
  for (int32_t i = 0; i < inst->num_operands; ++i) {
    const ptx_operand_t *operand = &inst->operands[i];
    if (operand->kind == PTX_SYMBOL)
      name = operand;
    else if (operand->kind == PTX_LIST && !name)
      results = operand;
    else if (operand->kind == PTX_LIST)
      arguments = operand;
  }
  const ptx_func_t *func = name ? ptx_module_find(flat->module, name->symbol) : NULL;
  if (!func) return fail(flat, inst, "only calls of functions with a body are supported");
  if (inst->guard >= 0) return fail(flat, inst, "a call under a predicate is not supported");
  if (++flat->depth > MAX_DEPTH) return fail(flat, inst, "recursion is not supported");
  const int32_t num_results = results ? results->num_elements : 0,
                num_arguments = arguments ? arguments->num_elements : 0;
  if (num_results != func->num_results || num_arguments != func->num_params)
    return fail(flat, inst, "the arguments are not those of the function");
  instance_t callee = {.flat = flat, .func = func};
  for (int32_t i = 0; i < num_results + num_arguments; ++i) {
    const bool is_result = i < num_results;
    const ptx_operand_t *actual =
        is_result ? &results->elements[i] : &arguments->elements[i - num_results];
    if (!actual->variable) return fail(flat, inst, "only .param arguments are supported");
    binding_t binding = bind(caller, actual->variable);
    binding.variable = is_result ? func->results[i] : func->params[i - num_results];
    PTC_VEC_PUSH(&callee.bindings, binding);
  }
  const ptc_status_t status = inline_func(&callee);
  PTC_VEC_FREE(&callee.bindings);
  --flat->depth;
  return status;
}

static ptc_status_t inline_func(instance_t *instance) {
  flat_t *flat = instance->flat;
  const ptx_func_t *func = instance->func;
  instance->first_reg = (int32_t)flat->regs.len;
  for (int64_t r = 0; r < func->regs.len; ++r) PTC_VEC_PUSH(&flat->regs, func->regs.data[r]);
  // Where the instructions of the function begin; a function's return goes behind them all.
  int32_t *begin = ptc_xmalloc(sizeof *begin * (size_t)(func->insts.len + 1));
  const int64_t first = flat->insts.len;
  ptc_status_t status = PTC_OK;
  for (int64_t i = 0; i < func->insts.len && status == PTC_OK; ++i) {
    ptx_inst_t inst = func->insts.data[i];
    begin[i] = (int32_t)flat->insts.len;
    if (strcmp(inst.parts[0], "call") == 0) {
      status = inline_call(instance, &inst);
      continue;
    }
    if (flat->insts.len >= MAX_INSTS) status = fail(flat, &inst, "the kernel is too long");
    if (inst.guard >= 0) inst.guard += instance->first_reg;
    for (int32_t o = 0; o < inst.num_operands; ++o)
      inst.operands[o] = localize(instance, &inst.operands[o]);
    if (strcmp(inst.parts[0], "ret") == 0 && !func->is_entry) {
      inst.parts[0] = "bra";
      inst.target = (int32_t)func->insts.len;
    }
    if (inst.target >= 0) inst.target = -2 - inst.target;  // of this function, until all is placed
    PTC_VEC_PUSH(&flat->insts, inst);
  }
  begin[func->insts.len] = (int32_t)flat->insts.len;
  for (int64_t i = first; i < flat->insts.len && status == PTC_OK; ++i)
    if (flat->insts.data[i].target <= -2)
      flat->insts.data[i].target = begin[-2 - flat->insts.data[i].target];
  free(begin);
  return status;
}

ptc_status_t flat_inline(flat_t *flat, const ptx_func_t *func) {
  PTC_VEC_PUSH(&flat->regs, ((ptx_reg_t){PTX_WIDTH_32, NULL}));
  instance_t instance = {.flat = flat, .func = func};
  sim_program_t *program = flat->program;
  program->num_params = func->num_params;
  program->params = PTC_ARENA_ARRAY(&program->arena, sim_param_t, func->num_params + 1);
  for (int32_t i = 0; i < func->num_params; ++i) {
    const uint64_t at = align_up((uint64_t)flat->program->param_bytes, func->params[i]->align);
    program->param_bytes = (int64_t)at + func->params[i]->bytes;
    program->params[i] = (sim_param_t){(int64_t)at, func->params[i]->bytes};
    PTC_VEC_PUSH(&instance.bindings, ((binding_t){func->params[i], PTX_SPACE_PARAM, at}));
  }
  const ptc_status_t status = inline_func(&instance);
  PTC_VEC_FREE(&instance.bindings);
  const ptx_inst_t exit = {
      .opcode = "exit", .parts = {"exit"}, .num_parts = 1, .guard = -1, .target = -1};
  PTC_VEC_PUSH(&flat->insts, exit);
  return status;
}

void flat_deinit(flat_t *flat) {
  PTC_VEC_FREE(&flat->insts);
  PTC_VEC_FREE(&flat->regs);
  PTC_VEC_FREE(&flat->shared);
  free(flat->meet);
  free(flat->offsets);
}

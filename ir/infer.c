// Types flow from globals and constants through every op.
#include <inttypes.h>

#include "ir/shape_impl.h"
#include "ir/verify.h"
#include "ir/verify_impl.h"

typedef struct infer_s {
  ptc_module_t *module;
  bool ok;
} infer_t;

// Whether the operands' types are known. If one is not, its definition was already complained about.
static bool is_ready(const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++)
    if (!op->operands[i]->type) return false;
  return true;
}

static void report_mismatch(ptc_module_t *module, const ptc_op_t *op, int32_t index,
                            const ptc_type_t *inferred) {
  ptc_str_t due = {0}, given = {0};
  ptc_type_print(&due, inferred);
  ptc_type_print(&given, op->results[index]->type);
  ptc_shape_error(module, op, "type-c3", "result %" PRId32 " is %s, not %s", index, due.data,
                  given.data);
  ptc_str_deinit(&due);
  ptc_str_deinit(&given);
}

static void infer_block(infer_t *s, ptc_block_t *block);

// The types of the body's arguments follow from their position.
static bool infer_args(infer_t *s, ptc_op_t *op) {
  ptc_arena_t *arena = &s->module->arena;
  ptc_block_t *body = op->body;
  for (int32_t i = 0; i < body->num_args; i++) {
    if (body->args[i]->type) continue;
    if (i == 0) {
      body->args[i]->type = ptc_type_scalar(arena, PTC_I32);
      continue;
    }
    if (i - 1 >= op->num_operands) return true;  // repeat-c4 tells
    const ptc_type_t *type = op->operands[i - 1]->type;
    if (i - 1 >= op->num_carry) {
      if (!type->num_counts) {
        ptc_shape_fail(s->module, op, 6, "operand %" PRId32 " is no bundle", i - 1);
        return false;
      }
      type = ptc_type_instance(arena, type);
    }
    body->args[i]->type = type;
  }
  return true;
}

static void infer_op(infer_t *s, ptc_op_t *op) {
  ptc_module_t *module = s->module;
  if (!is_ready(op)) return;
  if (op->body) {
    bool outer_ok = s->ok;
    s->ok = infer_args(s, op);
    if (s->ok) infer_block(s, op->body);
    bool body_ok = s->ok;
    s->ok = outer_ok && body_ok;
    if (!body_ok) return;
  }
  const ptc_type_t **types = PTC_ARENA_ARRAY(&module->arena, const ptc_type_t *, op->num_results);
  if (ptc_op_info(op->opcode)->shape(module, op, types) != PTC_OK) {
    s->ok = false;
    return;
  }
  for (int32_t i = 0; i < op->num_results; i++) {
    if (!op->results[i]->type) {
      op->results[i]->type = types[i];
    } else if (!ptc_type_equal(op->results[i]->type, types[i])) {
      report_mismatch(module, op, i, types[i]);
      s->ok = false;
    }
  }
}

static void infer_block(infer_t *s, ptc_block_t *block) {
  for (ptc_op_t *op = block->first; op && !ptc_verify_is_full(s->module); op = op->next)
    infer_op(s, op);
}

ptc_status_t ptc_module_infer_shapes(ptc_module_t *module) {
  PTC_TRY(ptc_verify_structure(module));
  infer_t state = {.module = module, .ok = true};
  for (ptc_func_t *func = module->funcs; func; func = func->next) {
    for (int32_t i = 0; i < func->body->num_args; i++)
      if (!func->body->args[i]->type) func->body->args[i]->type = func->arg_globals[i]->type;
    infer_block(&state, func->body);
  }
  return state.ok ? PTC_OK : PTC_INVALID_INPUT;
}

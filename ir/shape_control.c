// Shape functions of repeat, yield and return.
#include <inttypes.h>

#include "ir/shape_impl.h"

static const ptc_op_t *yield_of(const ptc_op_t *repeat) {
  const ptc_op_t *last = repeat->body ? repeat->body->last : NULL;
  return last && last->opcode == PTC_OP_YIELD ? last : NULL;
}

static ptc_status_t check_type_known(ptc_module_t *module, const ptc_op_t *op,
                                     const ptc_value_t *value) {
  if (value && value->type) return PTC_OK;
  return ptc_shape_error(module, op, "type-c1", "the type of a value of the body is not known");
}

// Results: the carried values' types; a bundle per further value of the yield.
//   c1  the body ends in a yield
//   c2  count is at least 1 and, with an axis, the size of that axis of the mesh
//   c3  the operands are the carried values and the bundles
//   c4  the body's arguments are the turn i32[], the carried values, an instance of each bundle
//   c5  the carried values' inits have the types of their arguments
//   c6  the operands after them are bundles of |count|; their instances have the types of their
//       arguments
//   c7  the yield has the carried values' next versions, of the same types
//   c8  there is a result per value of the yield
ptc_status_t ptc_shape_repeat(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  PTC_TRY(
      ptc_shape_begin(module, op, PTC_SHAPE_BUNDLES | PTC_SHAPE_PARTIALS | PTC_SHAPE_FREE_DIMS));
  const ptc_op_t *yield = yield_of(op);
  PTC_SHAPE_CHECK(yield, module, op, 1, "the body has no yield");
  int64_t count = ptc_op_int(op, "count"), size = count;
  const char *axis = ptc_op_string(op, "axis");
  PTC_SHAPE_CHECK(count >= 1 && count <= INT32_MAX, module, op, 2, "cannot take %" PRId64 " turns",
                  count);
  PTC_SHAPE_CHECK(!axis || (ptc_shape_mesh_axis(module, axis, &size) && size == count), module, op,
                  2, "axis \"%s\" has not %" PRId64 " coordinates", axis, count);
  int32_t carry = op->num_carry, each = op->num_each;
  PTC_SHAPE_CHECK(carry >= 0 && each >= 0 && op->num_operands - carry == each, module, op, 3,
                  "%" PRId32 " operands for %" PRId32 " carried values and %" PRId32 " bundles",
                  op->num_operands, carry, each);
  const ptc_block_t *body = op->body;
  PTC_SHAPE_CHECK(body->num_args - 1 == op->num_operands, module, op, 4,
                  "the body has %" PRId32 " arguments for the turn and %" PRId32 " operands",
                  body->num_args, op->num_operands);
  for (int32_t i = 0; i < body->num_args; i++) PTC_TRY(check_type_known(module, op, body->args[i]));
  PTC_SHAPE_CHECK(ptc_shape_is_scalar(body->args[0]->type, PTC_I32), module, op, 4,
                  "the turn is no i32 scalar");
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *type = ptc_shape_operand(op, i), *arg = body->args[1 + i]->type;
    if (i < carry) {
      PTC_SHAPE_CHECK(ptc_type_equal(type, arg), module, op, 5,
                      "carried value %" PRId32 " starts with another type", i);
      continue;
    }
    PTC_SHAPE_CHECK(type->num_counts >= 1 && type->counts[0] == count &&
                        ptc_type_equal(ptc_type_instance(&module->arena, type), arg),
                    module, op, 6, "operand %" PRId32 " is no bundle of %" PRId64 " such instances",
                    i, count);
  }
  for (int32_t i = 0; i < yield->num_operands; i++)
    PTC_TRY(check_type_known(module, op, yield->operands[i]));
  PTC_SHAPE_CHECK(yield->num_operands >= carry, module, op, 7,
                  "the yield has %" PRId32 " values for %" PRId32 " carried ones",
                  yield->num_operands, carry);
  PTC_SHAPE_CHECK(op->num_results == yield->num_operands, module, op, 8,
                  "%" PRId32 " results for %" PRId32 " values of the yield", op->num_results,
                  yield->num_operands);
  for (int32_t i = 0; i < yield->num_operands; i++) {
    const ptc_type_t *type = yield->operands[i]->type;
    if (i < carry) {
      PTC_SHAPE_CHECK(ptc_type_equal(type, body->args[1 + i]->type), module, op, 7,
                      "carried value %" PRId32 " changes its type", i);
      out_types[i] = type;
      continue;
    }
    out_types[i] = ptc_type_bundle(&module->arena, type, count);
    if (out_types[i]->num_counts > PTC_MAX_COUNTS || ptc_type_num_bytes(out_types[i]) < 0)
      return ptc_shape_error(module, op, "size-c1", "result %" PRId32 " is too large", i);
  }
  return PTC_OK;
}

// No results. Values of a body may be bundles, and partial.
ptc_status_t ptc_shape_yield(ptc_module_t *module, const ptc_op_t *op,
                             const ptc_type_t **out_types) {
  (void)out_types;
  return ptc_shape_begin(module, op, PTC_SHAPE_BUNDLES | PTC_SHAPE_PARTIALS | PTC_SHAPE_FREE_DIMS);
}

static bool returns_slot(const ptc_op_t *op, int32_t index) {
  const ptc_func_t *func = op->parent ? op->parent->func : NULL;
  if (!func || index >= func->num_results) return false;
  const ptc_result_t *result = &func->results[index];
  return result->kind == PTC_RESULT_STATE && result->global &&
         result->global->kind == PTC_GLOBAL_SLOT;
}

// No results. Values of a function may be bundles; those that slots keep may be partial.
ptc_status_t ptc_shape_return(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  (void)out_types;
  PTC_TRY(
      ptc_shape_begin(module, op, PTC_SHAPE_BUNDLES | PTC_SHAPE_PARTIALS | PTC_SHAPE_FREE_DIMS));
  for (int32_t i = 0; i < op->num_operands; i++)
    if (op->operands[i]->type->num_partial > 0 && !returns_slot(op, i))
      return ptc_shape_error(module, op, "partial-c1",
                             "operand %" PRId32 " is a partial result; the op is not linear in it",
                             i);
  return PTC_OK;
}

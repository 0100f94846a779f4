#include "passes/cost.h"

typedef ptc_cost_t (*cost_fn_t)(const ptc_op_t *op);

// Flops per element of an elementwise op or of a pass over rows: one for each arithmetic step, a
// transcendental function counting as one. Only orders of magnitude matter: these ops move bytes.
enum { EWISE_FLOPS = 1, ROW_FLOPS = 5 };

static int64_t add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t mul(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t known(int64_t size) { return size < 0 ? INT64_MAX : size; }

static int64_t num_elements(const ptc_type_t *type) {
  return mul(known(ptc_type_num_elements(type)), known(ptc_type_num_instances(type)));
}

static ptc_cost_t traffic(const ptc_op_t *op) {
  ptc_cost_t cost = {0};
  for (int32_t i = 0; i < op->num_operands; i++)
    cost.bytes_read = add(cost.bytes_read, known(ptc_type_num_bytes(op->operands[i]->type)));
  for (int32_t i = 0; i < op->num_results; i++)
    cost.bytes_written = add(cost.bytes_written, known(ptc_type_num_bytes(op->results[i]->type)));
  return cost;
}

// The product of all dims that the first |num_operands| operands have.
static int64_t index_space(const ptc_op_t *op, int32_t num_operands) {
  int64_t space = 1;
  for (int32_t i = 0; i < num_operands; i++) {
    const ptc_type_t *type = op->operands[i]->type;
    for (int32_t d = 0; d < type->num_dims; d++) {
      bool seen = false;
      for (int32_t j = 0; j < i; j++)
        seen |= ptc_type_has_dim(op->operands[j]->type, type->dims[d].name);
      if (!seen) space = mul(space, type->dims[d].extent);
    }
  }
  return space;
}

static ptc_cost_t cost_zero(const ptc_op_t *op) {
  (void)op;
  return (ptc_cost_t){0};
}

// The larger side does the work: of a reduction the operand, of a broadcast the result.
static int64_t work(const ptc_op_t *op) {
  int64_t most = 0;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int64_t size = num_elements(op->operands[i]->type);
    if (size > most) most = size;
  }
  for (int32_t i = 0; i < op->num_results; i++) {
    const int64_t size = num_elements(op->results[i]->type);
    if (size > most) most = size;
  }
  return most;
}

static ptc_cost_t cost_ewise(const ptc_op_t *op) {
  ptc_cost_t cost = traffic(op);
  cost.flops = mul(EWISE_FLOPS, work(op));
  return cost;
}

static ptc_cost_t cost_row(const ptc_op_t *op) {
  ptc_cost_t cost = traffic(op);
  cost.flops = mul(ROW_FLOPS, work(op));
  return cost;
}

// The bytes that leave and reach memory; how many of them come from other devices depends on the mesh.
static ptc_cost_t cost_move(const ptc_op_t *op) { return traffic(op); }

static ptc_cost_t cost_einsum(const ptc_op_t *op) {
  ptc_cost_t cost = traffic(op);
  cost.flops = mul(2, index_space(op, 2));
  return cost;
}

// With E the scores' elements, k the dotted extent and w val's own: forward q key and P val cost
// 2 E k + 2 E w; backward q key again, dP, dval cost 2 E k + 4 E w, dq and dkey 4 E k. For k = w
// that is 4 and 10 E k.
static ptc_cost_t cost_attention(const ptc_op_t *op) {
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const ptc_type_t *q = op->operands[at.q]->type, *key = op->operands[at.key]->type;
  const ptc_type_t *val = op->operands[at.val]->type;
  const char *dot = ptc_op_string(op, "dot");
  int64_t scores = 1, own = 1;
  for (int32_t i = 0; i < q->num_dims; i++)
    if (q->dims[i].name != dot) scores = mul(scores, q->dims[i].extent);
  for (int32_t i = 0; i < key->num_dims; i++)
    if (key->dims[i].name != dot && !ptc_type_has_dim(q, key->dims[i].name))
      scores = mul(scores, key->dims[i].extent);
  for (int32_t i = 0; i < val->num_dims; i++) {
    const char *name = val->dims[i].name;
    const bool shared = name != dot && (ptc_type_has_dim(q, name) || ptc_type_has_dim(key, name));
    if (!shared) own = mul(own, val->dims[i].extent);
  }
  const bool grad = op->opcode == PTC_OP_ATTENTION_GRAD;
  const int64_t dotted = mul(scores, q->dims[ptc_type_find_dim(q, dot)].extent);
  ptc_cost_t cost = traffic(op);
  cost.flops = add(mul(grad ? 6 : 2, dotted), mul(grad ? 4 : 2, mul(scores, own)));
  return cost;
}

ptc_cost_t ptc_op_cost(const ptc_op_t *op) {
  static const cost_fn_t functions[PTC_NUM_OPS] = {
#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, interp, \
               grad, cost)                                                                        \
  cost_##cost,
#include "ir/ops.def"
#undef PTC_OP
  };
  return functions[op->opcode](op);
}

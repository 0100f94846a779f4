// Proves: costs of ops are the numbers worked out by hand beside them.
#include "passes/cost.h"

#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

static const struct {
  ptc_opcode_t opcode;
  const char *operands, *attrs, *given;
  int64_t flops, bytes_read, bytes_written;
} rows[] = {
    // 2 * 2*3*5; (6 + 15) * 4; 10 * 4
    {PTC_OP_EINSUM, "f32[a=2, b=3]; f32[b=3, c=5]", "over=D:b", NULL, 60, 84, 40},
    // 2 * 4*2*3*5; bf16
    {PTC_OP_EINSUM, "bf16[n=4, a=2, b=3]; bf16[n=4, b=3, c=5]", "over=D:b", NULL, 240, 168, 80},
    // one per element of the result
    {PTC_OP_ADD, "f32[a=2]; f32[b=3]", "", NULL, 6, 20, 24},
    // of the operand
    {PTC_OP_REDUCE_SUM, "f32[a=2, b=3]", "over=D:a,b", NULL, 6, 24, 4},
    {PTC_OP_RENAME, "f32[a=2]", "from=D:a to=D:b", NULL, 0, 0, 0},
    {PTC_OP_SOFTMAX, "f32[a=2, b=3]", "over=D:b", NULL, 30, 24, 24},
    // y, mean, rstd
    {PTC_OP_LAYERNORM, "f32[a=2, b=3]", "over=D:b eps=f:0", NULL, 30, 24, 40},
    // 12 instances
    {PTC_OP_CAST, "12 x f32[a=2]", "to=s:bf16", NULL, 24, 96, 48},
    // one sum per element
    {PTC_OP_ALL_REDUCE, "f32[a=6] partial 'tp'", "axes=s:tp", NULL, 6, 24, 24},
    {PTC_OP_ALL_GATHER, "bf16[a=6 'tp']", "axes=s:tp dim=d:a", NULL, 0, 12, 12},
    // scores b*s*t = 2*3*5 = 30; k = 4, w = 7: 2*30*4 + 2*30*7; q 24, key 40, val 70; out 42, lse 6
    {PTC_OP_ATTENTION, "f32[b=2, s=3, k=4]; f32[b=2, t=5, k=4]; f32[b=2, t=5, w=7]",
     "attend=d:t dot=d:k scale=f:1", NULL, 660, 536, 192},
    // 6*30*4 + 4*30*7; besides out 42, lse 6, dout 42; dq, dkey, dval
    {PTC_OP_ATTENTION_GRAD,
     "f32[b=2, s=3, k=4]; f32[b=2, t=5, k=4]; f32[b=2, t=5, w=7]; f32[b=2, s=3, w=7]; "
     "f32[b=2, s=3]; f32[b=2, s=3, w=7]",
     "attend=d:t dot=d:k scale=f:1", NULL, 1560, 896, 536},
    // more than fits
    {PTC_OP_EINSUM, "f32[a=3000000000, b=100000]; f32[c=3000000000, b=100000]", "over=D:a,b,c",
     NULL, INT64_MAX, 2400000000000000, 4},
};

static void by_hand(void) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = maker_module(&diag);
    const int32_t num_results = rows[i].opcode == PTC_OP_ATTENTION_GRAD ? 3 : -1;
    ptc_op_t *op = maker_op(module, rows[i].opcode, rows[i].operands, rows[i].attrs, rows[i].given,
                            num_results);
    const ptc_type_t *types[8];
    const char *name = ptc_op_info(rows[i].opcode)->mnemonic;
    const bool shaped = ptc_op_info(rows[i].opcode)->shape(module, op, types) == PTC_OK;
    UNIT_CHECK(shaped, name);
    if (shaped) {
      for (int32_t r = 0; r < op->num_results; r++) op->results[r]->type = types[r];
      const ptc_cost_t cost = ptc_op_cost(op);
      UNIT_CHECK(cost.flops == rows[i].flops, name);
      UNIT_CHECK(cost.bytes_read == rows[i].bytes_read, name);
      UNIT_CHECK(cost.bytes_written == rows[i].bytes_written, name);
    }
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static const unit_test_t tests[] = {{"costs by hand", by_hand}};
UNIT_MAIN("cost", tests)

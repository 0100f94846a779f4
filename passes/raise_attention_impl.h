// Private to raise_attention*.c: attention that was found spelled out, as a formula
//   P = softmax(where(masks, cap tanh(scale q key / cap) + biases, -inf))
#ifndef PTC_PASSES_RAISE_ATTENTION_IMPL_H_
#define PTC_PASSES_RAISE_ATTENTION_IMPL_H_

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/op.h"

enum { PTC_RAISE_MAX_STEPS = 48 };

// One op between the scores' product and the product with the values. It takes them as operand |from|.
typedef struct ptc_raise_step_s {
  ptc_op_t *op;
  int32_t from;
} ptc_raise_step_t;

// A mask or a bias: |value| (negated), and how many views of the chain came before it.
typedef struct ptc_raise_term_s {
  ptc_value_t *value;
  bool negated;
  int32_t num_views;
  bool finite;  // a mask that stands for a large negative number instead of minus infinity
} ptc_raise_term_t;

typedef struct ptc_raise_match_s {
  ptc_module_t *module;
  ptc_op_t *softmax;
  ptc_raise_step_t
      steps[PTC_RAISE_MAX_STEPS];  // from the product of q and key to that with the values
  int32_t num_steps, softmax_at;
  ptc_op_t *scores, *values, *dropout;  // the products; dropout or NULL
  int32_t values_from;                  // the operand of |values| that is P
  ptc_op_t *views[PTC_RAISE_MAX_STEPS];
  int32_t num_views, dropout_views;  // views before the dropout
  double scale, cap;
  ptc_raise_term_t masks[PTC_RAISE_MAX_STEPS], biases[PTC_RAISE_MAX_STEPS];
  int32_t num_masks, num_biases;
  const char *reason;  // why it is none
} ptc_raise_match_t;

// What uses a value of a function, nested regions included.
typedef struct ptc_raise_uses_s {
  ptc_map_t count,
      user;  // value -> number of uses (as intptr_t); value -> one op that uses it
} ptc_raise_uses_t;

// Finds the chain around |softmax| and reads it as the formula above. False: |reason| says why not, or is
// NULL where there are no two products that share keys among rows, so that nothing looks like attention.
bool ptc_raise_match(ptc_module_t *module, const ptc_raise_uses_t *uses, ptc_op_t *softmax,
                     ptc_raise_match_t *out_match);

// --- masks (raise_attention_mask.c)
// Whether |value| is 0 where some condition holds and minus infinity, or at most -1e9, elsewhere (or the
// other way round): a mask as a bias. Sets value, negated and finite of |out_term|.
bool ptc_raise_mask_of_bias(ptc_builder_t *b, ptc_value_t *value, ptc_raise_term_t *out_term);
// Whether the number masks what it replaces; |out_finite| as in ptc_raise_term_t.
bool ptc_raise_masks(double number, bool *out_finite);
// Whether |mask| is true for at least one index of |attend|, whatever the others are: for the index of some
// dim of |rows| that may be equal to it, or for index 0. Sufficient, not necessary.
bool ptc_raise_mask_leaves_some(const ptc_value_t *mask, const ptc_dim_t *attend,
                                const ptc_dim_t *rows, int32_t num_rows);

#endif  // PTC_PASSES_RAISE_ATTENTION_IMPL_H_

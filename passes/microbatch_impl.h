// Private to microbatch*.c.
#ifndef PTC_PASSES_MICROBATCH_IMPL_H_
#define PTC_PASSES_MICROBATCH_IMPL_H_

#include "ir/module.h"

typedef struct ptc_micro_s {
  ptc_module_t *module;
  ptc_func_t *func;
  const char *dim, *axis;             // "b", "micro"; interned
  const ptc_axis_ref_t *axis_ref;     // one: the axis; lives as long as the module
  int64_t count;                      // micro-batches
  bool padded;                        // turns and devices have room for more samples than there are
  ptc_op_t *loop;                     // the repeat over the axis
  ptc_op_t *first_in_loop;            // the first op that was moved there; shards go before it
  ptc_value_t *ones[PTC_NUM_DTYPES];  // in the loop: 1 as a partial sum over the axis
  ptc_map_t deps;                     // value -> ON_PARAM | ON_BATCH
  ptc_map_t tops;                     // result of an op of the function's body -> itself
  ptc_map_t whole;                    // value -> the same over the whole batch, before the loop
  ptc_map_t loop_values;              // value -> its part in the loop, where it is another value
  ptc_map_t after_values;             // value -> its total after the loop
  ptc_map_t pulled;                   // op that follows a sum, yet is needed in the loop -> itself
  ptc_map_t partials;                 // carried argument of a body -> itself: it is a partial sum
} ptc_micro_t;

// Gives the results of |op|, which is in the loop and has its operands, and everything in its body
// their types with b sharded. Sums of a partial and a whole value are repaired. False if an op
// cannot be split so: |out_at| is that op, |out_reason| the message of its shape function.
bool ptc_micro_retype(ptc_micro_t *m, ptc_op_t *op, const ptc_op_t **out_at,
                      const char **out_reason);

#endif  // PTC_PASSES_MICROBATCH_IMPL_H_

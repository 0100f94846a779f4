// The sum (or the maximum) of arrays in a fixed order: the one place where ptc adds what ranks have.
#ifndef PTC_RUNTIME_COMBINE_H_
#define PTC_RUNTIME_COMBINE_H_

#include "ir/plan.h"

// ((ins[0][i] + ins[1][i]) + ins[2][i]) + ..., or the maximum, for all i of |bytes| bytes of |dtype|. f16 and bf16 are
// added in f32 and rounded once, integers wrap, a bool is true if any is. NaN is handed on. Every one of |outs| gets the
// result, and may be one of |ins|; |num_ins| >= 1.
void ptc_combine(ptc_reduce_kind_t reduce, ptc_dtype_t dtype, const void *const *ins,
                 int32_t num_ins, void *const *outs, int32_t num_outs, int64_t bytes);

#endif  // PTC_RUNTIME_COMBINE_H_

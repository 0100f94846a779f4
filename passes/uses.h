// Which ops use a value, for all blocks of a function.
#ifndef PTC_PASSES_USES_H_
#define PTC_PASSES_USES_H_

#include "ir/module.h"

// A user, once for each value, in no order.
typedef struct ptc_use_s {
  ptc_op_t *op;
  const struct ptc_use_s *next;
} ptc_use_t;

typedef struct ptc_use_map_s {
  ptc_map_t first;  // value -> ptc_use_t
} ptc_use_map_t;

// Of |block| and what is nested in it; valid until an op of it changes. The lists live in |arena|.
void ptc_uses_init(ptc_use_map_t *uses, ptc_arena_t *arena, const ptc_block_t *block);
void ptc_uses_deinit(ptc_use_map_t *uses);
const ptc_use_t *ptc_uses_of(const ptc_use_map_t *uses, const ptc_value_t *value);

// Calls |visit| for every value that |op| and what is nested in it take from outside of it; once per use.
void ptc_visit_uses(const ptc_op_t *op, void (*visit)(ptc_value_t *value, void *arg), void *arg);

#endif  // PTC_PASSES_USES_H_

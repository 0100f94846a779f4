// Compile-time numbers: exact rationals where possible, with the expression they came from.
//
// Two dims have the same extent only if their expressions are the same (DESIGN.md section 2). An
// expression is kept as a canonical sum of terms coefficient * product of atom^exponent, so that
// heads * (d / heads) is d; what has no such form (ceil, sqrt, a quotient by a sum) becomes an atom.
#ifndef PTC_FRONTEND_NUMBER_H_
#define PTC_FRONTEND_NUMBER_H_

#include <stdbool.h>
#include <stdint.h>

#include "frontend/ast.h"

typedef struct ptc_term_s ptc_term_t;

typedef struct ptc_number_s {
  double value;
  bool exact;  // value == num / den exactly, den > 0, lowest terms
  int64_t num, den;
  const ptc_term_t *terms;  // canonical expression, NULL for 0
  int32_t num_terms;
} ptc_number_t;

// Memory and names for the expressions.
typedef struct ptc_number_ctx_s {
  ptc_arena_t *arena;
  ptc_interner_t *names;
} ptc_number_ctx_t;

ptc_number_t ptc_number_from_int(ptc_number_ctx_t *ctx, int64_t value);
ptc_number_t ptc_number_from_double(ptc_number_ctx_t *ctx, double value);  // an atom of its own
// |text|: digits, fraction, exponent, as the scanner accepts them.
ptc_number_t ptc_number_parse(ptc_number_ctx_t *ctx, const char *text);
// The number |value| of a parameter called |name|: its expression is the name.
ptc_number_t ptc_number_named(ptc_number_ctx_t *ctx, const char *name, ptc_number_t value);

// Comparisons and logic give 1 or 0.
ptc_number_t ptc_number_binary(ptc_number_ctx_t *ctx, ptc_operator_t op, ptc_number_t a,
                               ptc_number_t b);
ptc_number_t ptc_number_neg(ptc_number_ctx_t *ctx, ptc_number_t a);
// Functions of one number: ceil floor sqrt exp log abs sin cos tanh. False if |name| is none.
bool ptc_number_call(ptc_number_ctx_t *ctx, const char *name, ptc_number_t a, ptc_number_t *out);
bool ptc_number_is_function(const char *name);

bool ptc_number_is_int(ptc_number_t a);  // exact and integral
// The canonical expression as interned text; equal expressions have equal pointers.
const char *ptc_number_key(ptc_number_ctx_t *ctx, ptc_number_t a);

#endif  // PTC_FRONTEND_NUMBER_H_

// Private to codegen/c_prelude.c: the helper functions of printed C, as text.
#ifndef PTC_CODEGEN_C_MATH_H_
#define PTC_CODEGEN_C_MATH_H_

#include <stdbool.h>
#include <stddef.h>

#include "ir/base/str.h"

// A group of C functions. |needs| lists the groups that it uses, separated by blanks. |cuda|: the text for GPUs, if it is
// another.
typedef struct ptc_c_snippet_s {
  const char *name, *needs, *text, *cuda;
} ptc_c_snippet_t;

// In an order in which every snippet follows those that it needs.
extern const ptc_c_snippet_t ptc_c_snippets[];
extern const size_t ptc_c_num_snippets;

// Texts of c_helpers.c.
extern const char ptc_c_bf16_text[], ptc_c_f16_text[], ptc_c_integer_text[], ptc_c_sums_text[],
    ptc_c_max_text[], ptc_c_philox_text[], ptc_c_words_text[], ptc_c_normal_text[];

// Texts of c_limbs.c.
extern const char ptc_c_limbs_text[], ptc_c_squares_text[], ptc_c_limbs_value_text[];

// The table ptc_two_over_pi of the snippet "sincos".
void ptc_c_pi_table(ptc_str_t *out);

#endif  // PTC_CODEGEN_C_MATH_H_

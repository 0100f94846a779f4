// One call of a built-in function being lowered (lower_ops.c, lower_composites.c).
#ifndef PTC_FRONTEND_LOWER_CALL_H_
#define PTC_FRONTEND_LOWER_CALL_H_

#include "frontend/lower_impl.h"

enum { MAX_CALL_ARGS = 32 };
enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_ARGMAX };

typedef struct call_s call_t;

typedef struct builtin_s {
  const char *name;
  int flow;
  val_t (*lower)(call_t *c);
  int variant;
  int min_args, max_args;
} builtin_t;

struct call_s {
  lower_t *L;
  const ptc_expr_t *expr, *name;
  const builtin_t *builtin;
  bool has_brackets;
  fdim_t dims[PTC_MAX_DIMS];  // in brackets
  int32_t num_dims;
  const ptc_expr_t *args[MAX_CALL_ARGS];  // positional
  int32_t num_args;
  bool used[MAX_CALL_ARGS];  // named arguments that were asked for
  const char *known[16];     // names of options, for suggestions
  int32_t num_known;
  const ptc_target_t *targets;  // of the assignment, for ops whose new dims stand there
  int32_t num_targets;
  val_t *more;  // results; the first is the return value
  int32_t num_results;
};

// The expression of a named argument, or NULL; marks it as known.
const ptc_expr_t *call_option(call_t *c, const char *name);
bool call_option_number(call_t *c, const char *name, double otherwise, double *out);
// A bare word among the arguments (`causal`) or `name = on`.
bool call_option_flag(call_t *c, const char *name, bool otherwise, bool *out);
// One of |words| (NULL-terminated; the first is the default); NULL after an error.
const char *call_option_word(call_t *c, const char *name, const char *const *words);
// After all options were asked for: unknown ones and a wrong number of arguments are errors.
bool call_finish_options(call_t *c);
bool call_need_dims(call_t *c, int32_t min, int32_t max);
// Positional argument |i| as a tensor; false after an error.
bool call_tensor(call_t *c, int32_t i, val_t *out);
bool call_check_has_dims(call_t *c, const val_t *val);
void call_dim_names(const call_t *c, const char **out_names);
val_t call_sum(call_t *c, val_t x, const char *const *names, int32_t count);

// lower_composites.c
val_t lower_norm(call_t *c);
val_t lower_dropout(call_t *c);
val_t lower_rope(call_t *c);
val_t lower_cross_entropy(call_t *c);
val_t lower_topk(call_t *c);
val_t lower_dispatch(call_t *c);
val_t lower_attention(call_t *c);

#endif  // PTC_FRONTEND_LOWER_CALL_H_

// Random valid models as .ptm text: every statement form of the language, every op.
#ifndef PTC_TESTS_SUPPORT_RANDOM_MODEL_H_
#define PTC_TESTS_SUPPORT_RANDOM_MODEL_H_

#include <stdint.h>

#include "ir/base/str.h"

// Statement forms; the generator counts those that it writes.
#define RANDOM_MODEL_FORMS(X)                                                                      \
  X(GATHER, "gather")                                                                              \
  X(GATHERS, "several gathers")                                                                    \
  X(SHIFT, "shift")                                                                                \
  X(PADDED, "padded")                                                                              \
  X(CONSTANT_PLACE, "integer place") X(REVERSED, "reversed place") X(DIAGONAL, "diagonal")         \
      X(SPLIT, "tuple split") X(MERGE, "tuple merge") X(CONTRACTION, "contraction")                \
          X(N_ARY, "contraction of several factors") X(REDUCTION, "explicit reduction") X(         \
              SCAN, "scan") X(CONCAT, "concat") X(WHERE, "where") X(INDEX, "index()")              \
              X(WHOLE, "whole-tensor arithmetic") X(REPEAT, "repeat") X(                           \
                  PERIOD, "repeat with a period") X(RUNS, "repeat with runs")                      \
                  X(SIZES, "sizes per turn") X(NESTED, "nested repeat") X(IF, "if") X(             \
                      TIED, "tied parameter") X(SHARED, "shared instance") X(ALIAS, "alias layer") \
                      X(BRANCHES, "several results") X(LOSSES, "several losses")                   \
                          X(TURN_LOSS, "loss summed over turns") X(METRIC, "metric")               \
                              X(OUTPUT, "output") X(RANDOM_INPUT, "random input")                  \
                                  X(OPTIONS, "param options") X(ATTENTION, "attention")            \
                                      X(SPELLED, "attention spelled out") X(ROUTING, "routing")    \
                                          X(NORM, "norm") X(DROPOUT, "dropout") X(CAST, "cast")    \
                                              X(RENAMED, "another name of a dim")

typedef enum random_model_form_e {
#define FORM(id, text) RANDOM_MODEL_##id,
  RANDOM_MODEL_FORMS(FORM)
#undef FORM
      RANDOM_MODEL_NUM_FORMS
} random_model_form_t;

const char *random_model_form_name(random_model_form_t form);

// Appends a model with its train and parallel blocks to |out|; equal states of |random| give equal
// text. |forms| counts what was written.
void random_model_write(uint64_t *random, ptc_str_t *out, int64_t forms[RANDOM_MODEL_NUM_FORMS]);

// Puts a random mesh, a ZeRO stage, a schedule and more into the parallel block that ends |text|.
void random_model_add_mesh(uint64_t *random, ptc_str_t *text);
// After random_model_write: batches of 3 and 5, which divide by nothing.
void random_model_make_uneven(ptc_str_t *text);

#endif  // PTC_TESTS_SUPPORT_RANDOM_MODEL_H_

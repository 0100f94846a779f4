// Modules that no text can spell, each breaking one rule of the verifier.
#ifndef PTC_TESTS_SUPPORT_BAD_MODULES_H_
#define PTC_TESTS_SUPPORT_BAD_MODULES_H_

#include "ir/module.h"

typedef struct bad_module_s {
  const char *label;                    // of the one diagnostic that ptc_module_verify must emit
  void (*spoil)(ptc_module_t *module);  // applied to the good module
} bad_module_t;

extern const bad_module_t bad_modules[];
extern const int num_bad_modules;

// A module that verifies: an input @x, a parameter @w, a bundle @l.*.w, a function @f with a repeat.
// NULL after an error.
ptc_module_t *good_module(ptc_diag_t *diag);

#endif  // PTC_TESTS_SUPPORT_BAD_MODULES_H_

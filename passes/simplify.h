// The three parts of canonicalize. Each returns whether it changed the module.
#ifndef PTC_PASSES_SIMPLIFY_H_
#define PTC_PASSES_SIMPLIFY_H_

#include "ir/module.h"

bool ptc_simplify_rules(ptc_module_t *module);
bool ptc_simplify_cse(ptc_module_t *module);
bool ptc_simplify_dce(ptc_module_t *module);

#endif  // PTC_PASSES_SIMPLIFY_H_

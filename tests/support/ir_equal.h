// Structural equality of modules, names and kinds of attributes included.
#ifndef PTC_TESTS_SUPPORT_IR_EQUAL_H_
#define PTC_TESTS_SUPPORT_IR_EQUAL_H_

#include "ir/module.h"

// NULL if the modules are equal, else what differs first. Values correspond by position.
const char *ir_difference(const ptc_module_t *a, const ptc_module_t *b, bool with_locations);

#endif  // PTC_TESTS_SUPPORT_IR_EQUAL_H_

// Private to ir/verify*.c and ir/infer.c: the phases of verification. Labels: ir/README.md.
#ifndef PTC_IR_VERIFY_IMPL_H_
#define PTC_IR_VERIFY_IMPL_H_

#include "ir/module.h"
#include "ir/op.h"

// Module, globals, functions, blocks, dominance: what the later phases rely on. Needs no types of
// values, except that those which are there are well-formed.
ptc_status_t ptc_verify_structure(ptc_module_t *module);
// One type: dims, axes, size. |subject| begins the message.
ptc_status_t ptc_verify_type(ptc_module_t *module, ptc_loc_t loc, const char *subject,
                             const ptc_type_t *type);
// Whether so many errors were reported that more would help no one.
bool ptc_verify_is_full(const ptc_module_t *module);

#endif  // PTC_IR_VERIFY_IMPL_H_

// Makes single ops from short texts, so that tests of shape functions are tables.
#ifndef PTC_TESTS_SUPPORT_OP_MAKER_H_
#define PTC_TESTS_SUPPORT_OP_MAKER_H_

#include "ir/module.h"
#include "ir/op.h"

// "f32[b=2 'dp', s=3 'tp':1:2 zigzag] partial max 'cp'", with counts "4 x " before the dtype.
// "?" gives NULL, an unknown type. Aborts on a text that is none of these.
const ptc_type_t *maker_type(ptc_module_t *module, const char *text);
// "over=D:a,b dim=d:a eps=f:1e-5 first=i:3 extents=I:2,3 to=s:f32 reverse=b:1": kind letters as in
// the op table.
ptc_attrs_t maker_attrs(ptc_module_t *module, const char *text);
// An op with operands of the types of |operands|, separated by ";", |attrs|, and the type |given|
// of its first result (NULL: none). |num_results| < 0: the number in the op table.
ptc_op_t *maker_op(ptc_module_t *module, ptc_opcode_t opcode, const char *operands,
                   const char *attrs, const char *given, int32_t num_results);
// A module with the mesh micro=4, tp=2, cp=2.
ptc_module_t *maker_module(ptc_diag_t *diag);

#endif  // PTC_TESTS_SUPPORT_OP_MAKER_H_

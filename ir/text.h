// The text form of the IR (.ptir): canonical, and parse(print(m)) == m.
#ifndef PTC_IR_TEXT_H_
#define PTC_IR_TEXT_H_

#include "ir/module.h"

// Appends the canonical text of |module|.
void ptc_module_print(const ptc_module_t *module, bool with_locations, ptc_str_t *out);

// Parses |text| (|len| bytes, any content). On error emits diagnostics, as many as can be found,
// and returns PTC_INVALID_INPUT with |out_module| NULL. |file| names the text in diagnostics.
ptc_status_t ptc_module_parse(ptc_diag_t *diag, const char *file, const char *text, size_t len,
                              ptc_module_t **out_module);

#endif  // PTC_IR_TEXT_H_

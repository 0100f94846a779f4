// Proves: no text crashes or hangs the reader of .ptir; what it accepts can be inferred, verified or
// refused, and prints to text that reads back the same.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text.h"
#include "ir/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL, *again = NULL;
  ptc_status_t status = ptc_module_parse(&diag, "fuzz.ptir", (const char *)data, size, &module);
  if (status != PTC_OK && !diag.num_errors) abort();
  if (module) {
    ptc_str_t first = {0}, second = {0};
    ptc_module_print(module, true, &first);
    if (ptc_module_parse(&diag, "again.ptir", first.data, first.len, &again) != PTC_OK) {
      ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
      abort();
    }
    ptc_module_print(again, true, &second);
    if (strcmp(first.data, second.data) != 0) abort();
    if (ptc_module_infer_shapes(module) == PTC_OK) (void)ptc_module_verify(module);
    ptc_str_deinit(&first);
    ptc_str_deinit(&second);
  }
  ptc_module_destroy(again);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return 0;
}

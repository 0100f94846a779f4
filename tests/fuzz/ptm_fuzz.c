// Proves: no text, however broken, crashes or hangs the front end; what compiles verifies and its
// printed IR reads back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/compile.h"
#include "ir/text.h"
#include "ir/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_module(ptc_module_t *module, ptc_diag_t *diag) {
  ptc_str_t first = {0}, second = {0};
  ptc_module_t *again = NULL;
  ptc_module_print(module, false, &first);
  if (ptc_module_verify(module) != PTC_OK ||
      ptc_module_parse(diag, "again.ptir", first.data, first.len, &again) != PTC_OK) {
    ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
    abort();
  }
  ptc_module_print(again, false, &second);
  if (strcmp(first.data, second.data) != 0) abort();
  ptc_module_destroy(again);
  ptc_str_deinit(&first);
  ptc_str_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  ptc_status_t status =
      ptc_compile_text(&diag, "fuzz.ptm", (const char *)data, size, NULL, &module);
  if (module) check_module(module, &diag);
  // A refusal says why.
  if (status != PTC_OK && !diag.num_errors) abort();
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return 0;
}

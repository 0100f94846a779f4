// Proves: no text, however broken, crashes or hangs the front end; what parses prints as text that
// parses and prints the same; what compiles verifies and its printed IR reads back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/ast_print.h"
#include "frontend/driver/compile.h"
#include "frontend/parse.h"
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

// Parses |text| and, if it is accepted, appends it as the tree prints it.
static bool print_tree(const char *text, size_t len, ptc_str_t *out) {
  ptc_diag_t diag;
  ptc_ast_t ast;
  ptc_diag_init(&diag);
  ptc_ast_init(&ast);
  bool ok = ptc_parse_text(&diag, &ast, "fuzz.ptm", text, len) == PTC_OK;
  if (ok != (diag.num_errors == 0)) abort();
  ptc_str_append(out, "");
  if (ok) ptc_ast_print(&ast, out);
  ptc_ast_deinit(&ast);
  ptc_diag_deinit(&diag);
  return ok;
}

static void check_tree(const char *text, size_t len) {
  ptc_str_t first = {0}, second = {0};
  if (print_tree(text, len, &first) &&
      (!print_tree(first.data, first.len, &second) || strcmp(first.data, second.data) != 0))
    abort();
  ptc_str_deinit(&first);
  ptc_str_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // An include would read files of this machine.
  if (memmem(data, size, "include", 7)) return 0;
  check_tree((const char *)data, size);
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

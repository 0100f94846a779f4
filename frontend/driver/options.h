// Command-line options that the programs share.
#ifndef PTC_FRONTEND_DRIVER_OPTIONS_H_
#define PTC_FRONTEND_DRIVER_OPTIONS_H_

#include <stdbool.h>

#include "frontend/lower.h"
#include "ir/base/diag.h"

enum { PTC_EXIT_USAGE = 2 };

typedef struct ptc_common_options_s {
  ptc_override_t overrides[256];
  int32_t num_overrides;
  ptc_diag_format_t diagnostics;
  const char *color;  // "auto", "always", "never"
  bool quiet;
} ptc_common_options_t;

// `NAME=VALUE` of --set; |text| is cut in place. False if there is no `=`.
bool ptc_options_add_override(ptc_common_options_t *options, char *text);
// False if |text| is neither text nor json.
bool ptc_options_set_diagnostics(ptc_common_options_t *options, const char *text);
// Prints all diagnostics to stderr, in color if asked for (NO_COLOR is honored).
void ptc_options_print_diagnostics(const ptc_common_options_t *options, const ptc_diag_t *diag);
// Flushes stdout; PTC_IO with a message on stderr if the output could not be written (full disk).
ptc_status_t ptc_options_close_stdout(void);

#endif  // PTC_FRONTEND_DRIVER_OPTIONS_H_

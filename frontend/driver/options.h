// Command-line options that the programs share.
#ifndef PTC_FRONTEND_DRIVER_OPTIONS_H_
#define PTC_FRONTEND_DRIVER_OPTIONS_H_

#include <getopt.h>
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
// First thing in main: a standard stream that is closed becomes one that fails, so that no file that
// is opened later takes its number and gets its text.
void ptc_options_guard_streams(void);
// What getopt_long complained of by returning |option| ('?', or ':' for a missing value; the option
// string begins with a colon), in the words of |program|, with the option that may have been meant.
// Returns PTC_EXIT_USAGE.
int ptc_options_bad_option(const char *program, int option, char *const *argv,
                           const struct option *long_options);
// "there is no pass ...", with the pass that may have been meant. Returns PTC_EXIT_USAGE.
int ptc_options_bad_pass(const char *program, const char *name);
// Flushes stdout; PTC_IO with a message on stderr if the output could not be written (full disk).
ptc_status_t ptc_options_close_stdout(void);

#endif  // PTC_FRONTEND_DRIVER_OPTIONS_H_

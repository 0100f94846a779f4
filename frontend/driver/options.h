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

// Options that every command has, for its table of long options.
enum { PTC_OPT_DIAGNOSTICS = 900, PTC_OPT_COLOR };
#define PTC_COMMON_LONG_OPTIONS                                                               \
  {"diagnostics", required_argument, NULL, PTC_OPT_DIAGNOSTICS},                              \
      {"color", required_argument, NULL, PTC_OPT_COLOR}, {"quiet", no_argument, NULL, 'q'}, { \
    "help", no_argument, NULL, 'h'                                                            \
  }
// Reads one of them, as getopt_long returned it; anything else is a mistake in the words of |program|
// ("ptc run"). -1: go on; else the exit status.
int ptc_options_read_common(ptc_common_options_t *options, int option, const char *program,
                            const char *usage, char *const *argv,
                            const struct option *long_options);
// Whole numbers from |least| to 10^15.
bool ptc_options_read_count(const char *text, int64_t least, int64_t *out_count);
// Of --threads: from 1 to PTC_MAX_THREADS (thread_pool.h).
// "threads" or "processes".
bool ptc_options_read_ranks_as(const char *text, bool *out_as_processes);
bool ptc_options_read_threads(const char *text, int32_t *out_count);
// Finite numbers from 0.
bool ptc_options_read_number(const char *text, double *out_value);

// The folder of the runs of |plan| unless --run-dir says otherwise: "PLAN.run". malloc'ed.
char *ptc_options_run_dir(const char *plan);

// The setting |name|, as --set would; both strings are kept. False if there are too many.
bool ptc_options_set(ptc_common_options_t *options, const char *name, const char *value);
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
// "PROGRAM: WHAT: VALUE" (|value| may be NULL) and where to read on. Returns PTC_EXIT_USAGE.
int ptc_options_usage_error(const char *program, const char *what, const char *value);
// "there is no pass ...", with the pass that may have been meant. Returns PTC_EXIT_USAGE.
int ptc_options_bad_pass(const char *program, const char *name);
// Flushes stdout; PTC_IO with a message on stderr if the output could not be written (full disk).
ptc_status_t ptc_options_close_stdout(void);

#endif  // PTC_FRONTEND_DRIVER_OPTIONS_H_

#include "frontend/driver/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool ptc_options_add_override(ptc_common_options_t *options, char *text) {
  char *equals = strchr(text, '=');
  int32_t capacity = (int32_t)(sizeof(options->overrides) / sizeof(*options->overrides));
  if (!equals || equals == text || options->num_overrides == capacity) return false;
  *equals = '\0';
  options->overrides[options->num_overrides++] = (ptc_override_t){text, equals + 1};
  return true;
}

bool ptc_options_set_diagnostics(ptc_common_options_t *options, const char *text) {
  bool json = strcmp(text, "json") == 0;
  options->diagnostics = json ? PTC_DIAG_JSON : PTC_DIAG_TEXT;
  return json || strcmp(text, "text") == 0;
}

void ptc_options_print_diagnostics(const ptc_common_options_t *options, const ptc_diag_t *diag) {
  const char *color = options->color ? options->color : "auto", *no_color = getenv("NO_COLOR");
  bool use_color = strcmp(color, "always") == 0 ||
                   (strcmp(color, "auto") == 0 && isatty(STDERR_FILENO) && !(no_color && *no_color));
  ptc_diag_print(diag, stderr, options->diagnostics, use_color);
}

ptc_status_t ptc_options_close_stdout(void) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return PTC_OK;
  fprintf(stderr, "ptc: error: cannot write the output: %s\n",
          errno ? strerror(errno) : "write error");
  return PTC_IO;
}

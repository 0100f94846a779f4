#include "frontend/driver/options.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/str.h"
#include "passes/pass.h"
#include "runtime/cpu/thread_pool.h"

bool ptc_options_set(ptc_common_options_t *options, const char *name, const char *value) {
  int32_t capacity = (int32_t)(sizeof(options->overrides) / sizeof(*options->overrides));
  if (options->num_overrides == capacity) return false;
  options->overrides[options->num_overrides++] = (ptc_override_t){name, value};
  return true;
}

bool ptc_options_add_override(ptc_common_options_t *options, char *text) {
  char *equals = strchr(text, '=');
  if (!equals || equals == text) return false;
  *equals = '\0';
  return ptc_options_set(options, text, equals + 1);
}

bool ptc_options_set_diagnostics(ptc_common_options_t *options, const char *text) {
  bool json = strcmp(text, "json") == 0;
  options->diagnostics = json ? PTC_DIAG_JSON : PTC_DIAG_TEXT;
  return json || strcmp(text, "text") == 0;
}

void ptc_options_print_diagnostics(const ptc_common_options_t *options, const ptc_diag_t *diag) {
  const char *color = options->color ? options->color : "auto", *no_color = getenv("NO_COLOR");
  bool use_color =
      strcmp(color, "always") == 0 ||
      (strcmp(color, "auto") == 0 && isatty(STDERR_FILENO) && !(no_color && *no_color));
  ptc_diag_print(diag, stderr, options->diagnostics, use_color);
}

int ptc_options_read_common(ptc_common_options_t *options, int option, const char *program,
                            const char *usage, char *const *argv,
                            const struct option *long_options) {
  switch (option) {
    case PTC_OPT_DIAGNOSTICS:
      if (ptc_options_set_diagnostics(options, optarg)) return -1;
      fprintf(stderr, "%s: --diagnostics is text or json, not \"%s\"\n", program, optarg);
      break;
    case PTC_OPT_COLOR:
      if (strcmp(optarg, "auto") == 0 || strcmp(optarg, "always") == 0 ||
          strcmp(optarg, "never") == 0) {
        options->color = optarg;
        return -1;
      }
      fprintf(stderr, "%s: --color is auto, always or never, not \"%s\"\n", program, optarg);
      break;
    case 'q': options->quiet = true; return -1;
    case 'h': fputs(usage, stdout); return ptc_status_exit_code(ptc_options_close_stdout());
    default: return ptc_options_bad_option(program, option, argv, long_options);
  }
  fprintf(stderr, "run `%s --help` for the options\n", program);
  return PTC_EXIT_USAGE;
}

bool ptc_options_read_count(const char *text, int64_t least, int64_t *out_count) {
  char *end;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  *out_count = value;
  return end != text && !*end && !errno && value >= least && value <= 1000000000000000;
}

bool ptc_options_read_ranks_as(const char *text, bool *out_as_processes) {
  *out_as_processes = strcmp(text, "processes") == 0;
  return *out_as_processes || strcmp(text, "threads") == 0;
}

bool ptc_options_read_threads(const char *text, int32_t *out_count) {
  int64_t count;
  if (!ptc_options_read_count(text, 1, &count) || count > PTC_MAX_THREADS) return false;
  *out_count = (int32_t)count;
  return true;
}

bool ptc_options_read_number(const char *text, double *out_value) {
  char *end;
  *out_value = strtod(text, &end);
  return end != text && !*end && isfinite(*out_value) && *out_value >= 0;
}

char *ptc_options_run_dir(const char *plan) {
  size_t len = strlen(plan);
  while (len > 1 && plan[len - 1] == '/') len--;
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%.*s.run", (int)len, plan);
  return path.data;
}

void ptc_options_guard_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // Opened the wrong way round: reading stdin, or writing the others, fails with EBADF.
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

static void print_near(const char *near, const char *prefix) {
  if (near) fprintf(stderr, "; did you mean \"%s%s\"?", prefix, near);
}

int ptc_options_bad_option(const char *program, int option, char *const *argv,
                           const struct option *long_options) {
  enum { MAX_NAMES = 64 };
  const char *names[MAX_NAMES], *known = NULL, *word = argv[optind - 1];
  int64_t count = 0;
  for (; long_options[count].name && count < MAX_NAMES; count++) {
    names[count] = long_options[count].name;
    if (optopt && long_options[count].val == optopt) known = names[count];
  }
  fprintf(stderr, "%s: ", program);
  if (option == ':' && known) {
    fprintf(stderr, "option \"--%s\" needs a value", known);
  } else if (known) {
    fprintf(stderr, "option \"--%s\" takes no value", known);
  } else if (optopt) {
    fprintf(stderr, "unknown option \"-%c\"", optopt);
  } else {
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "=") - 2, word + 2);
    fprintf(stderr, "unknown option \"--%s\"", name);
    print_near(ptc_nearest_name(name, names, count), "--");
  }
  fprintf(stderr, "\nrun `%s --help` for the options\n", program);
  return PTC_EXIT_USAGE;
}

int ptc_options_usage_error(const char *program, const char *what, const char *value) {
  fprintf(stderr, "%s: %s%s%s\nrun `%s --help` for the options\n", program, what, value ? ": " : "",
          value ? value : "", program);
  return PTC_EXIT_USAGE;
}

int ptc_options_bad_pass(const char *program, const char *name) {
  enum { MAX_PASSES = 64 };
  const char *names[MAX_PASSES];
  int64_t count = 0;
  for (const ptc_pass_info_t *pass; count < MAX_PASSES && (pass = ptc_pass_at((int32_t)count));)
    names[count++] = pass->name;
  fprintf(stderr, "%s: there is no pass \"%s\"", program, name);
  const char *near = ptc_nearest_name(name, names, count);
  print_near(near, "");
  if (!near) fprintf(stderr, "; `ptc-opt --list-passes` lists them");
  fprintf(stderr, "\nrun `%s --help` for the options\n", program);
  return PTC_EXIT_USAGE;
}

ptc_status_t ptc_options_close_stdout(void) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return PTC_OK;
  fprintf(stderr, "ptc: error: cannot write the output: %s\n",
          errno ? strerror(errno) : "write error");
  return PTC_IO;
}

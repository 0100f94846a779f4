// The program ptc: which sub-command is meant (man page: ptc.1).
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/interpret.h"
#include "frontend/driver/options.h"
#include "ir/base/str.h"

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);  // NULL: planned
} commands[] = {
    {"check", ptc_check_main},
    {"run", ptc_run_main},
    {"eval", ptc_eval_main},
    {"sample", ptc_sample_main},
    {"export", ptc_export_main},
    {"show", ptc_show_main},
    {"interpret", ptc_interpret_main},
    {"verify", ptc_verify_main},
    {"clusters", ptc_clusters_main},
    {"validate", ptc_validate_main},
    {"diff", NULL},
    {"calibrate", ptc_calibrate_main},
};
enum { NUM_COMMANDS = sizeof commands / sizeof *commands };

// A word that is neither a command nor a file: -1 if it may be a file after all.
static int misspelt(const char *word) {
  const char *names[NUM_COMMANDS];
  for (size_t i = 0; i < NUM_COMMANDS; i++) names[i] = commands[i].name;
  const char *near = ptc_nearest_name(word, names, NUM_COMMANDS);
  if (!near || access(word, F_OK) == 0) return -1;
  fprintf(stderr,
          "ptc: \"%s\": there is no such file or command; did you mean `ptc %s`?\n"
          "run `ptc --help` for the options\n",
          word, near);
  return PTC_EXIT_USAGE;
}

int main(int argc, char **argv) {
  ptc_options_guard_streams();
  const char *word = argc > 1 ? argv[1] : "";
  for (size_t i = 0; i < NUM_COMMANDS; i++) {
    if (strcmp(word, commands[i].name) != 0) continue;
    if (commands[i].run) {
      argv[1] = argv[0];
      return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "ptc: `ptc %s` does not exist yet\nrun `ptc --help` for the options\n", word);
    return PTC_EXIT_USAGE;
  }
  if (*word && *word != '-') {
    const int exit_status = misspelt(word);
    if (exit_status >= 0) return exit_status;
  }
  return ptc_compile_main(argc, argv);
}

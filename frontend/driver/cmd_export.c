// `ptc export`: the weights of a run as one safetensors file.
#include <getopt.h>
#include <stdio.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/options.h"
#include "frontend/driver/run_state.h"

static const char usage[] =
    "usage: ptc export RUN -o FILE [options]\n"
    "Writes the parameters of a run's latest checkpoint to a safetensors file. RUN is the run's "
    "folder\n"
    "or a checkpoint in it.\n"
    "\n"
    "options\n"
    "  -o, --output=FILE      the file\n"
    "  --map=FILE             a name map: what the parameters are called in the file\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  --color=WHEN           auto, always, never\n"
    "  -q, --quiet            no summary\n"
    "  -h, --help             this text\n";

enum { OPT_MAP = 256 };

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"map", required_argument, NULL, OPT_MAP},
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static int usage_error(const char *what, const char *value) {
  return ptc_options_usage_error("ptc export", what, value);
}

int ptc_export_main(int argc, char **argv) {
  static ptc_common_options_t common;
  const char *output = NULL, *map = NULL;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":o:qh", long_options, NULL)) != -1;) {
    int exit_status = -1;
    if (option == 'o')
      output = optarg;
    else if (option == OPT_MAP)
      map = optarg;
    else
      exit_status =
          ptc_options_read_common(&common, option, "ptc export", usage, argv, long_options);
    if (exit_status >= 0) return exit_status;
  }
  if (optind == argc) return usage_error("no run", NULL);
  if (optind + 1 < argc) return usage_error("one run at a time", argv[optind + 1]);
  if (!output) return usage_error("-o FILE is missing", NULL);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  int64_t count = 0;
  ptc_status_t status = ptc_run_state_export(&diag, argv[optind], output, map, &count);
  if (status == PTC_OK && !common.quiet)
    fprintf(stderr, "ptc: wrote %d tensors to %s\n", (int)count, output);
  ptc_options_print_diagnostics(&common, &diag);
  ptc_diag_deinit(&diag);
  return ptc_status_exit_code(status);
}

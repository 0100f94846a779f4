// The program ptc: sub-commands and options (man page: ptc.1).
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/compile.h"
#include "frontend/driver/interpret.h"
#include "frontend/driver/options.h"
#include "ir/text.h"

static const char usage[] =
    "usage: ptc MODEL.ptm... [options]             compile\n"
    "       ptc check MODEL.ptm... [options]       report errors only\n"
    "       ptc interpret MODEL.ptm... [options]   run a function on the reference interpreter\n"
    "\n"
    "options\n"
    "  --set NAME=VALUE       a parameter of the model (layers=24), the batch (batch=4) or a "
    "train\n"
    "                         setting (train.lr=3e-4); may be repeated\n"
    "  --print-after=PASS     print the IR after that pass; `lower` is the front end's result, "
    "`all`\n"
    "                         every pass\n"
    "  --stop-after=PASS      run no pass after this one\n"
    "  --print-pipeline       list the passes as they run\n"
    "  --check-semantics      interpret before and after each pass and compare (slow)\n"
    "  --no-loc               print the IR without source locations\n"
    "  --diagnostics=FORMAT   text (default) or json: one object per line on stderr\n"
    "  --color=WHEN           auto (default), always, never; NO_COLOR is honored\n"
    "  -q, --quiet            no summary\n"
    "  -h, --help             this text\n"
    "  -V, --version          the version\n"
    "\n"
    "`-` as a file reads standard input. Exit status: 0 success, 1 the input is wrong, 2 usage,\n"
    "3 an internal fault, 4 device or communication.\n";

typedef struct arguments_s {
  ptc_common_options_t common;
  ptc_pass_options_t pass;
  bool check, no_loc, print_lowered;
  const char *output;
} arguments_t;

static int usage_error(const char *format, const char *what) {
  fputs("ptc: ", stderr);
  fprintf(stderr, format, what);
  fputs("\nrun `ptc --help` for the options\n", stderr);
  return PTC_EXIT_USAGE;
}

enum {
  OPT_SET = 256,
  OPT_PRINT_AFTER,
  OPT_STOP_AFTER,
  OPT_PRINT_PIPELINE,
  OPT_CHECK_SEMANTICS,
  OPT_NO_LOC,
  OPT_DIAGNOSTICS,
  OPT_COLOR
};

static const struct option long_options[] = {
    {"set", required_argument, NULL, OPT_SET},
    {"print-after", required_argument, NULL, OPT_PRINT_AFTER},
    {"stop-after", required_argument, NULL, OPT_STOP_AFTER},
    {"print-pipeline", no_argument, NULL, OPT_PRINT_PIPELINE},
    {"check-semantics", no_argument, NULL, OPT_CHECK_SEMANTICS},
    {"no-loc", no_argument, NULL, OPT_NO_LOC},
    {"diagnostics", required_argument, NULL, OPT_DIAGNOSTICS},
    {"color", required_argument, NULL, OPT_COLOR},
    {"output", required_argument, NULL, 'o'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static bool is_pass(const char *name) { return ptc_pass_find(name) != NULL; }

// -1: go on; else the exit status.
static int read_option(int option, char *const *argv, arguments_t *args) {
  switch (option) {
    case OPT_SET:
      if (!ptc_options_add_override(&args->common, optarg))
        return usage_error("--set takes NAME=VALUE, not \"%s\"", optarg);
      return -1;
    case OPT_PRINT_AFTER:
      if (strcmp(optarg, "lower") != 0 && strcmp(optarg, "all") != 0 && !is_pass(optarg))
        return ptc_options_bad_pass("ptc", optarg);
      args->print_lowered = strcmp(optarg, "lower") == 0 || strcmp(optarg, "all") == 0;
      if (strcmp(optarg, "lower") != 0) args->pass.print_after = optarg;
      return -1;
    case OPT_STOP_AFTER:
      if (strcmp(optarg, "lower") != 0 && !is_pass(optarg))
        return ptc_options_bad_pass("ptc", optarg);
      args->pass.stop_after = optarg;
      return -1;
    case OPT_PRINT_PIPELINE: args->pass.print_pipeline = true; return -1;
    case OPT_CHECK_SEMANTICS: args->pass.check_semantics = true; return -1;
    case OPT_NO_LOC: args->no_loc = true; return -1;
    case OPT_DIAGNOSTICS:
      if (!ptc_options_set_diagnostics(&args->common, optarg))
        return usage_error("--diagnostics is text or json, not \"%s\"", optarg);
      return -1;
    case OPT_COLOR:
      if (strcmp(optarg, "auto") != 0 && strcmp(optarg, "always") != 0 &&
          strcmp(optarg, "never") != 0)
        return usage_error("--color is auto, always or never, not \"%s\"", optarg);
      args->common.color = optarg;
      return -1;
    case 'o': args->output = optarg; return -1;
    case 'q': args->common.quiet = true; return -1;
    case 'h': fputs(usage, stdout); return ptc_status_exit_code(ptc_options_close_stdout());
    case 'V':
      printf("ptc %s\n", PTC_VERSION);
      return ptc_status_exit_code(ptc_options_close_stdout());
    default: return ptc_options_bad_option("ptc", option, argv, long_options);
  }
}

static void print_module(const ptc_module_t *module, bool locations) {
  ptc_str_t text = {0};
  ptc_module_print(module, locations, &text);
  fwrite(text.data, 1, text.len, stdout);
  ptc_str_deinit(&text);
}

static void print_summary(const ptc_module_t *module) {
  int64_t params = 0, bytes = 0;
  for (int64_t i = 0; i < module->num_globals; i++) {
    const ptc_global_t *global = module->globals[i];
    if (global->kind != PTC_GLOBAL_PARAM) continue;
    params += ptc_type_num_elements(global->type) * ptc_type_num_instances(global->type);
    bytes += ptc_type_num_bytes(global->type);
  }
  fprintf(stderr, "ptc: %s: %lld parameters (%.1f MiB), %lld ops\n", module->name,
          (long long)params, (double)bytes / 1048576.0, (long long)ptc_module_num_ops(module));
}

static ptc_status_t compile(arguments_t *args, ptc_diag_t *diag, const char *const *files,
                            int32_t num_files) {
  ptc_lower_options_t options = {args->common.overrides, args->common.num_overrides};
  ptc_module_t *module;
  ptc_status_t status = ptc_compile_files(diag, files, num_files, &options, &module);
  if (status != PTC_OK) return status;
  if (!module) {
    if (args->check) return PTC_OK;
    return ptc_error(diag, (ptc_loc_t){.file = files[0]}, PTC_INVALID_INPUT, "no-model",
                     "there is no model to compile; add a file with `model NAME(...) { ... }`");
  }
  if (args->print_lowered && !args->check) print_module(module, !args->no_loc);
  bool stop_at_once = args->pass.stop_after && strcmp(args->pass.stop_after, "lower") == 0;
  if (!args->check && !stop_at_once) {
    ptc_pass_ctx_t ctx;
    args->pass.print_to = stdout;
    args->pass.print_locations = !args->no_loc;
    ptc_pass_ctx_init(&ctx, &args->pass);
    status = ptc_pipeline_train(&ctx, module);
    ptc_pass_ctx_deinit(&ctx);
  }
  if (status == PTC_OK && !args->common.quiet && !args->check) print_summary(module);
  ptc_module_destroy(module);
  return status;
}

int main(int argc, char **argv) {
  static arguments_t args;
  ptc_options_guard_streams();
  if (argc > 1 && strcmp(argv[1], "interpret") == 0) {
    argv[1] = argv[0];
    return ptc_interpret_main(argc - 1, argv + 1);
  }
  if (argc > 1 && strcmp(argv[1], "check") == 0) {
    args.check = true;
    argv[1] = argv[0];
    argv++;
    argc--;
  }
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":o:qhV", long_options, NULL)) != -1;) {
    int exit_status = read_option(option, argv, &args);
    if (exit_status >= 0) return exit_status;
  }
  if (optind == argc) return usage_error("%s", "no input file");
  // The commands of this version come first.
  static const char *const commands[] = {"check", "interpret", "run",  "show",   "verify",
                                         "diff",  "calibrate", "eval", "sample", "export"};
  enum { NUM_COMMANDS = sizeof(commands) / sizeof(*commands), NUM_HERE = 2 };
  for (size_t i = NUM_HERE; i < NUM_COMMANDS; i++)
    if (strcmp(argv[optind], commands[i]) == 0)
      return usage_error("`ptc %s` does not exist yet: this version compiles models to IR",
                         commands[i]);
  const char *near = ptc_nearest_name(argv[optind], commands, NUM_COMMANDS);
  if (near && access(argv[optind], F_OK) != 0)
    return usage_error("there is no such file or command; did you mean `ptc %s`?", near);
  if (args.output)
    return usage_error("-o %s: this version writes no plan yet; --print-after=PASS prints the IR",
                       args.output);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status =
      compile(&args, &diag, (const char *const *)argv + optind, (int32_t)(argc - optind));
  ptc_options_print_diagnostics(&args.common, &diag);
  ptc_diag_deinit(&diag);
  ptc_status_t written = ptc_options_close_stdout();
  return ptc_status_exit_code(status != PTC_OK ? status : written);
}

#include "frontend/driver/interpret.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/compile.h"
#include "frontend/driver/options.h"
#include "frontend/driver/run_module.h"
#include "frontend/driver/train.h"

static const char usage[] =
    "usage: ptc interpret MODEL.ptm... [options]\n"
    "Compiles the model and runs one of its functions on the reference interpreter: slow, and the\n"
    "meaning of the IR. State starts from @init; inputs are drawn at random unless loaded. Prints "
    "the\n"
    "losses and metrics. What is split over devices runs on all of them, side by side.\n"
    "\n"
    "options\n"
    "  --func=NAME            train (default), eval or init\n"
    "  --stop-after=PASS      the module after this pass (autodiff: gradients, no optimizer)\n"
    "  --mode=MODE            exact (default: double, dtypes ignored) or typed (every value "
    "rounded)\n"
    "  --load=FILE            state and inputs from a safetensors file\n"
    "  --dump=FILE            results, gradients, state and inputs to a safetensors file\n"
    "  --state=PATH=NUMBER    set a global, e.g. step=3\n"
    "  --steps=N              train for N steps on the files of --data, carrying the state\n"
    "  --data=SOURCE=FILE     the source's numbers: text (its bytes, a vocabulary of 256), .npy, "
    ".bin\n"
    "                         (u16, or llm.c's shards), .u32; FILE:FORMAT where that guess is "
    "wrong\n"
    "  --val=SOURCE=FILE      held-out text: its loss is printed at the end\n"
    "  --sample=N             write N bytes that the trained model draws (`output logits`, "
    "causal)\n"
    "  --prompt=TEXT          what the sample begins with\n"
    "  --temperature=T        of sampling (default 0.8); 0 takes the most likely byte\n"
    "  --set NAME=VALUE       as for `ptc MODEL.ptm`\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  -q, --quiet            no progress\n"
    "  -h, --help             this text\n";

typedef struct interpret_args_s {
  ptc_common_options_t common;
  ptc_pass_options_t pass;
  ptc_run_options_t run;
  ptc_train_options_t train;
  const char *sets[64], *data[16], *val[16];
  const char *func;
} interpret_args_t;

enum {
  OPT_FUNC = 256,
  OPT_STOP_AFTER,
  OPT_MODE,
  OPT_LOAD,
  OPT_DUMP,
  OPT_STATE,
  OPT_STEPS,
  OPT_DATA,
  OPT_VAL,
  OPT_SAMPLE,
  OPT_PROMPT,
  OPT_TEMPERATURE,
  OPT_SET,
  OPT_DIAGNOSTICS
};

static const struct option long_options[] = {
    {"func", required_argument, NULL, OPT_FUNC},
    {"stop-after", required_argument, NULL, OPT_STOP_AFTER},
    {"mode", required_argument, NULL, OPT_MODE},
    {"load", required_argument, NULL, OPT_LOAD},
    {"dump", required_argument, NULL, OPT_DUMP},
    {"state", required_argument, NULL, OPT_STATE},
    {"steps", required_argument, NULL, OPT_STEPS},
    {"data", required_argument, NULL, OPT_DATA},
    {"val", required_argument, NULL, OPT_VAL},
    {"sample", required_argument, NULL, OPT_SAMPLE},
    {"prompt", required_argument, NULL, OPT_PROMPT},
    {"temperature", required_argument, NULL, OPT_TEMPERATURE},
    {"set", required_argument, NULL, OPT_SET},
    {"diagnostics", required_argument, NULL, OPT_DIAGNOSTICS},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int usage_error(const char *what, const char *value) {
  return ptc_options_usage_error("ptc interpret", what, value);
}

// Whole numbers from 1 to a billion.
static bool read_count(const char *text, int64_t *out_count) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  *out_count = value;
  return end != text && !*end && !errno && value >= 1 && value <= 1000000000;
}

static bool read_temperature(const char *text, double *out_value) {
  char *end;
  *out_value = strtod(text, &end);
  return end != text && !*end && isfinite(*out_value) && *out_value >= 0;
}

// -1: go on; else the exit status.
static int read_option(int option, char *const *argv, interpret_args_t *args) {
  switch (option) {
    case OPT_FUNC: args->func = optarg; return -1;
    case OPT_STOP_AFTER:
      if (strcmp(optarg, "lower") != 0 && !ptc_pass_find(optarg))
        return ptc_options_bad_pass("ptc interpret", optarg);
      args->pass.stop_after = optarg;
      return -1;
    case OPT_MODE:
      if (strcmp(optarg, "exact") != 0 && strcmp(optarg, "typed") != 0)
        return usage_error("--mode is exact or typed", optarg);
      args->run.mode = optarg[0] == 't' ? PTC_INTERP_TYPED : PTC_INTERP_EXACT;
      return -1;
    case OPT_LOAD: args->run.load_path = optarg; return -1;
    case OPT_DUMP: args->run.dump_path = optarg; return -1;
    case OPT_STATE:
      if (args->run.num_sets == 64) return usage_error("too many --state", NULL);
      args->sets[args->run.num_sets++] = optarg;
      return -1;
    case OPT_STEPS:
      if (!read_count(optarg, &args->train.steps))
        return usage_error("--steps takes a whole number from 1", optarg);
      return -1;
    case OPT_DATA:
      if (args->train.num_data == 16) return usage_error("too many --data", NULL);
      args->data[args->train.num_data++] = optarg;
      return -1;
    case OPT_VAL:
      if (args->train.num_val == 16) return usage_error("too many --val", NULL);
      args->val[args->train.num_val++] = optarg;
      return -1;
    case OPT_SAMPLE:
      if (!read_count(optarg, &args->train.sample))
        return usage_error("--sample takes a whole number from 1", optarg);
      return -1;
    case OPT_PROMPT: args->train.prompt = optarg; return -1;
    case OPT_TEMPERATURE:
      if (!read_temperature(optarg, &args->train.temperature))
        return usage_error("--temperature takes a number from 0", optarg);
      return -1;
    case 'q': args->train.quiet = true; return -1;
    case OPT_SET:
      if (!ptc_options_add_override(&args->common, optarg))
        return usage_error("--set takes NAME=VALUE", optarg);
      return -1;
    case OPT_DIAGNOSTICS:
      if (!ptc_options_set_diagnostics(&args->common, optarg))
        return usage_error("--diagnostics is text or json", optarg);
      return -1;
    case 'h': fputs(usage, stdout); return ptc_status_exit_code(ptc_options_close_stdout());
    default: return ptc_options_bad_option("ptc interpret", option, argv, long_options);
  }
}

static ptc_status_t interpret(interpret_args_t *args, ptc_diag_t *diag, const char *const *files,
                              int32_t num_files) {
  ptc_lower_options_t options = {.overrides = args->common.overrides,
                                 .num_overrides = args->common.num_overrides};
  ptc_module_t *module;
  ptc_status_t status = ptc_compile_files(diag, files, num_files, &options, &module);
  if (status != PTC_OK) return status;
  if (!module)
    return ptc_error(diag, (ptc_loc_t){.file = files[0]}, PTC_INVALID_INPUT, "no-model",
                     "there is no model to run; add a file with `model NAME(...) { ... }`");
  if (!args->pass.stop_after || strcmp(args->pass.stop_after, "lower") != 0) {
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, &args->pass);
    status = ptc_pipeline_train(&ctx, module);
    ptc_pass_ctx_deinit(&ctx);
  }
  if (status == PTC_OK)
    status = args->train.steps ? ptc_train_module(module, &args->run, &args->train)
                               : ptc_run_module(module, args->func, &args->run);
  ptc_module_destroy(module);
  return status;
}

int ptc_interpret_main(int argc, char **argv) {
  static interpret_args_t args;
  args.func = "train";
  args.run.init = args.run.draw_inputs = true;
  args.run.sets = args.sets;
  args.run.print_to = stdout;
  args.train.data = args.data;
  args.train.val = args.val;
  args.train.temperature = 0.8;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":qh", long_options, NULL)) != -1;) {
    int exit_status = read_option(option, argv, &args);
    if (exit_status >= 0) return exit_status;
  }
  if (optind == argc) return usage_error("no input file", NULL);
  if (!args.train.steps && (args.train.num_data || args.train.num_val || args.train.sample))
    return usage_error("--data, --val and --sample need --steps=N", NULL);
  if (args.train.steps && strcmp(args.func, "train") != 0)
    return usage_error("--steps trains: it goes with no other --func", args.func);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status =
      interpret(&args, &diag, (const char *const *)argv + optind, (int32_t)(argc - optind));
  ptc_options_print_diagnostics(&args.common, &diag);
  ptc_diag_deinit(&diag);
  ptc_status_t written = ptc_options_close_stdout();
  return ptc_status_exit_code(status != PTC_OK ? status : written);
}

// `ptc eval`: the losses of a trained model on held-out data.
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/evaluate.h"
#include "frontend/driver/interrupt.h"
#include "frontend/driver/options.h"
#include "frontend/driver/plan_command.h"
#include "frontend/driver/run_plan.h"
#include "frontend/driver/run_state.h"

static const char usage[] =
    "usage: ptc eval PLAN --data=FILE [--ckpt=C] [options]\n"
    "Runs the model forward over the data in order and prints the means of its losses and "
    "metrics.\n"
    "\n"
    "options\n"
    "  --ckpt=C               a run's folder (its latest checkpoint), a checkpoint, or a "
    "safetensors\n"
    "                         file with the parameters (default: PLAN.run)\n"
    "  --data=[SOURCE=]FILE[:FORMAT]\n"
    "                         as for `ptc run`; may be repeated\n"
    "  --batches=N            at most so many batches\n"
    "  --threads=N            of all ranks; default: all cores\n"
    "  --ranks-as=KIND        of a plan for several ranks: threads (default) or processes\n"
    "  --device=DEVICE        of a plan for GPUs: cuda, or gpusim, as for `ptc run`\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  --color=WHEN           auto, always, never\n"
    "  -q, --quiet            no progress\n"
    "  -h, --help             this text\n";

typedef struct eval_args_s {
  ptc_common_options_t common;
  ptc_session_options_t session;
  const char *ckpt, *data[PTC_MAX_DATA];
  int32_t num_data;
  int64_t max_batches;
} eval_args_t;

enum { OPT_CKPT = 256, OPT_DATA, OPT_BATCHES, OPT_THREADS, OPT_RANKS_AS, OPT_DEVICE };

static const struct option long_options[] = {
    {"ckpt", required_argument, NULL, OPT_CKPT},
    {"data", required_argument, NULL, OPT_DATA},
    {"batches", required_argument, NULL, OPT_BATCHES},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"ranks-as", required_argument, NULL, OPT_RANKS_AS},
    {"device", required_argument, NULL, OPT_DEVICE},
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static int usage_error(const char *what, const char *value) {
  return ptc_options_usage_error("ptc eval", what, value);
}

// -1: go on; else the exit status.
static int read_option(int option, char *const *argv, eval_args_t *args) {
  switch (option) {
    case OPT_CKPT: args->ckpt = optarg; return -1;
    case OPT_DATA:
      if (args->num_data == PTC_MAX_DATA) return usage_error("too many --data", NULL);
      args->data[args->num_data++] = optarg;
      return -1;
    case OPT_BATCHES:
      return ptc_options_read_count(optarg, 1, &args->max_batches)
                 ? -1
                 : usage_error("--batches takes a whole number from 1", optarg);
    case OPT_RANKS_AS:
      return ptc_options_read_ranks_as(optarg, &args->session.as_processes)
                 ? -1
                 : usage_error("--ranks-as is threads or processes", optarg);
    case OPT_DEVICE:
      return ptc_session_read_device(optarg, &args->session)
                 ? -1
                 : usage_error("--device takes cuda or gpusim", optarg);
    case OPT_THREADS:
      return ptc_options_read_threads(optarg, &args->session.num_threads)
                 ? -1
                 : usage_error("--threads takes a whole number from 1 to 1024", optarg);
    default:
      return ptc_options_read_common(&args->common, option, "ptc eval", usage, argv, long_options);
  }
}

static ptc_status_t evaluate(ptc_session_t *session, const void *arg) {
  const eval_args_t *args = arg;
  if (!session->eval)
    return ptc_error(session->diag, (ptc_loc_t){.file = session->path}, PTC_INVALID_INPUT,
                     "no-task", "the plan has no task \"eval\"");
  ptc_data_t *data;
  PTC_TRY(ptc_session_open_data(session, "--data", args->data, args->num_data, PTC_DATA_IN_ORDER,
                                &data));
  ptc_evaluation_t e;
  ptc_status_t status = ptc_run_state_load_params(session, args->ckpt);
  if (status == PTC_OK) status = ptc_evaluate(session, data, args->max_batches, &e);
  ptc_data_close(data);
  if (status != PTC_OK || e.interrupted || !ptc_session_is_root(session)) return status;
  printf("loss %.9g\n", e.loss);
  for (int32_t i = 0; i < e.num_values; i++)
    if (e.num_values > 1)
      printf("%s.%s %.9g\n", e.results[i]->role, e.results[i]->name, e.values[i]);
  printf("batches %" PRId64 "\nsamples %" PRId64 "\n", e.num_batches, e.num_samples);
  return PTC_OK;
}

int ptc_eval_main(int argc, char **argv) {
  static eval_args_t args;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":qh", long_options, NULL)) != -1;) {
    const int exit_status = read_option(option, argv, &args);
    if (exit_status >= 0) return exit_status;
  }
  if (optind == argc) return usage_error("no plan", NULL);
  if (optind + 1 < argc) return usage_error("one plan at a time", argv[optind + 1]);
  ptc_interrupt_install();
  args.session.quiet = args.common.quiet;
  char *run_dir = ptc_options_run_dir(argv[optind]);
  if (!args.ckpt) args.ckpt = run_dir;
  const ptc_status_t status = ptc_plan_command(
      &(ptc_plan_command_t){argv[optind], NULL, &args.common, &args.session, evaluate, &args});
  free(run_dir);
  const ptc_status_t written = ptc_options_close_stdout();
  if (*ptc_interrupt_flag()) ptc_interrupt_die(*ptc_interrupt_flag());
  return ptc_status_exit_code(status != PTC_OK ? status : written);
}

// `ptc run`: trains by a plan.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/gpusim.h"
#include "frontend/driver/interrupt.h"
#include "frontend/driver/options.h"
#include "frontend/driver/plan_command.h"
#include "frontend/driver/run_plan.h"

static const char usage[] =
    "usage: ptc run PLAN --data FILE [options]\n"
    "Trains. The state begins as the plan says, or with --init; the order of the data follows "
    "from\n"
    "the seed and the step alone. SIGINT and SIGTERM end the run after its step, with a "
    "checkpoint.\n"
    "\n"
    "options\n"
    "  --data=[SOURCE=]FILE[:FORMAT]\n"
    "                         what is trained on; SOURCE where the model has several; FORMAT is\n"
    "                         bytes, u16, u32, i32, npy or llm.c, else as the file's name and "
    "head say;\n"
    "                         may be repeated, also for the shards of one source\n"
    "  --val=[SOURCE=]FILE[:FORMAT]\n"
    "                         held-out data: their loss is measured at the end\n"
    "  --eval-every=N         and after every N steps\n"
    "  --steps=N              steps in all (default: train.steps of the model)\n"
    "  --save-every=N         a checkpoint after every N steps, beside that at the end\n"
    "  --run-dir=DIR          metrics and checkpoints (default: PLAN.run)\n"
    "  --resume               go on from the latest checkpoint there, if there is one\n"
    "  --fall-back            with --resume: where the latest checkpoint is damaged, from the one\n"
    "                         before\n"
    "  --restart              remove the checkpoints there and begin anew\n"
    "  --init=FILE            begin with the weights of a safetensors file\n"
    "  --map=FILE             which names they have there\n"
    "  --set NAME=VALUE       a setting that the plan leaves open, e.g. lr=1e-4\n"
    "  --seed=N               the same as --set seed=N\n"
    "  --threads=N            of all ranks; default: all cores; the results do not depend on it\n"
    "  --ranks-as=KIND        of a plan for several ranks: threads (default) or processes; under\n"
    "                         mpirun, srun and torchrun each of their processes is a rank\n"
    "  --device=cuda          run a plan for GPUs on them, a GPU for each rank: what such a plan\n"
    "                         does without the option, too\n"
    "  --device=gpusim        run it on the simulator of GPUs: no GPU needed, but NVRTC\n"
    "  --gpusim-checks        with it: report accesses out of bounds, misaligned or "
    "uninitialized,\n"
    "                         races in shared memory, threads missing at barriers\n"
    "  --graph=WHEN           of a plan for GPUs: launch the step as one CUDA graph: auto "
    "(default:\n"
    "                         where it can be one; the run says why not), on (else it is an "
    "error),\n"
    "                         off; the bits are the same\n"
    "  --profile              print what each kernel took; DIR/profile.json has the same\n"
    "  --dump-grads=FILE      gradients of the first step, of a plan made with --keep-grads\n"
    "  --keep-going           do not stop at a loss that is not finite\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  --color=WHEN           auto, always, never\n"
    "  -q, --quiet            no progress\n"
    "  -h, --help             this text\n";

typedef struct run_args_s {
  ptc_common_options_t common;
  ptc_session_options_t session;
  ptc_run_plan_options_t run;
} run_args_t;

enum {
  OPT_DATA = 256,
  OPT_VAL,
  OPT_EVAL_EVERY,
  OPT_STEPS,
  OPT_SAVE_EVERY,
  OPT_RUN_DIR,
  OPT_RESUME,
  OPT_FALL_BACK,
  OPT_RESTART,
  OPT_INIT,
  OPT_MAP,
  OPT_SET,
  OPT_SEED,
  OPT_THREADS,
  OPT_RANKS_AS,
  OPT_DEVICE,
  OPT_GPUSIM_CHECKS,
  OPT_GRAPH,
  OPT_PROFILE,
  OPT_DUMP_GRADS,
  OPT_KEEP_GOING
};

static const struct option long_options[] = {
    {"data", required_argument, NULL, OPT_DATA},
    {"val", required_argument, NULL, OPT_VAL},
    {"eval-every", required_argument, NULL, OPT_EVAL_EVERY},
    {"steps", required_argument, NULL, OPT_STEPS},
    {"save-every", required_argument, NULL, OPT_SAVE_EVERY},
    {"run-dir", required_argument, NULL, OPT_RUN_DIR},
    {"resume", no_argument, NULL, OPT_RESUME},
    {"fall-back", no_argument, NULL, OPT_FALL_BACK},
    {"restart", no_argument, NULL, OPT_RESTART},
    {"init", required_argument, NULL, OPT_INIT},
    {"map", required_argument, NULL, OPT_MAP},
    {"set", required_argument, NULL, OPT_SET},
    {"seed", required_argument, NULL, OPT_SEED},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"ranks-as", required_argument, NULL, OPT_RANKS_AS},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"gpusim-checks", no_argument, NULL, OPT_GPUSIM_CHECKS},
    {"graph", required_argument, NULL, OPT_GRAPH},
    {"profile", no_argument, NULL, OPT_PROFILE},
    {"dump-grads", required_argument, NULL, OPT_DUMP_GRADS},
    {"keep-going", no_argument, NULL, OPT_KEEP_GOING},
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static int usage_error(const char *what, const char *value) {
  return ptc_options_usage_error("ptc run", what, value);
}

static int read_count(const char *what, int64_t least, int64_t *out_count) {
  return ptc_options_read_count(optarg, least, out_count) ? -1 : usage_error(what, optarg);
}

// -1: go on; else the exit status.
static int read_option(int option, char *const *argv, run_args_t *args) {
  ptc_run_plan_options_t *run = &args->run;
  switch (option) {
    case OPT_DATA:
      if (run->num_data == PTC_MAX_DATA) return usage_error("too many --data", NULL);
      run->data[run->num_data++] = optarg;
      return -1;
    case OPT_VAL:
      if (run->num_val == PTC_MAX_DATA) return usage_error("too many --val", NULL);
      run->val[run->num_val++] = optarg;
      return -1;
    case OPT_EVAL_EVERY:
      return read_count("--eval-every takes a whole number from 1", 1, &run->eval_every);
    case OPT_STEPS: return read_count("--steps takes a whole number from 1", 1, &run->steps);
    case OPT_SAVE_EVERY:
      return read_count("--save-every takes a whole number from 1", 1, &run->save_every);
    case OPT_RUN_DIR: run->run_dir = optarg; return -1;
    case OPT_RESUME: run->resume = true; return -1;
    case OPT_FALL_BACK: run->fall_back = true; return -1;
    case OPT_RESTART: run->restart = true; return -1;
    case OPT_INIT: run->init = optarg; return -1;
    case OPT_MAP: run->map = optarg; return -1;
    case OPT_SET:
      return ptc_options_add_override(&args->common, optarg)
                 ? -1
                 : usage_error("--set takes NAME=VALUE", optarg);
    case OPT_SEED: return read_count("--seed takes a whole number from 0", 0, &run->seed);
    case OPT_RANKS_AS:
      return ptc_options_read_ranks_as(optarg, &args->session.as_processes)
                 ? -1
                 : usage_error("--ranks-as is threads or processes", optarg);
    case OPT_THREADS:
      return ptc_options_read_threads(optarg, &args->session.num_threads)
                 ? -1
                 : usage_error("--threads takes a whole number from 1 to 1024", optarg);
    case OPT_DEVICE:
      return ptc_session_read_device(optarg, &args->session)
                 ? -1
                 : usage_error("--device takes cuda or gpusim", optarg);
    case OPT_GPUSIM_CHECKS: args->session.gpusim_checks = true; return -1;
    case OPT_GRAPH:
      if (!ptc_session_read_graph(optarg, &args->session))
        return usage_error("--graph is auto, on or off", optarg);
      run->needs_graph = args->session.replay == PTC_REPLAY_ON;
      run->no_graph = args->session.replay == PTC_REPLAY_OFF;
      return -1;
    case OPT_PROFILE: run->profile = args->session.gpusim_counts = true; return -1;
    case OPT_DUMP_GRADS: run->dump_grads = optarg; return -1;
    case OPT_KEEP_GOING: run->keep_going = true; return -1;
    default:
      return ptc_options_read_common(&args->common, option, "ptc run", usage, argv, long_options);
  }
}

// What cannot go together; -1: all is well.
static int check_options(const run_args_t *args) {
  const ptc_run_plan_options_t *run = &args->run;
  if (run->resume && run->restart)
    return usage_error("--resume and --restart exclude each other", NULL);
  if (run->fall_back && !run->resume) return usage_error("--fall-back needs --resume", NULL);
  if (run->eval_every && !run->num_val) return usage_error("--eval-every needs --val", NULL);
  if (args->session.gpusim_checks && !args->session.gpusim)
    return usage_error("--gpusim-checks needs --device=gpusim", NULL);
  if (run->map && !run->init) return usage_error("--map needs --init", NULL);
  return -1;
}

static ptc_status_t train(ptc_session_t *session, const void *options) {
  return ptc_run_plan(session, options);
}

int ptc_run_main(int argc, char **argv) {
  static run_args_t args;
  args.run.seed = -1;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":qh", long_options, NULL)) != -1;) {
    const int exit_status = read_option(option, argv, &args);
    if (exit_status >= 0) return exit_status;
  }
  if (optind == argc) return usage_error("no plan", NULL);
  if (optind + 1 < argc) return usage_error("one plan at a time", argv[optind + 1]);
  const int exit_status = check_options(&args);
  if (exit_status >= 0) return exit_status;
  ptc_interrupt_install();
  args.run.quiet = args.session.quiet = args.common.quiet;
  args.run.sets = args.common.overrides;
  args.run.num_sets = args.common.num_overrides;
  char *run_dir = ptc_options_run_dir(argv[optind]);
  if (!args.run.run_dir) args.run.run_dir = run_dir;
  const ptc_status_t status = ptc_plan_command(
      &(ptc_plan_command_t){argv[optind], NULL, &args.common, &args.session, train, &args.run});
  if (args.session.gpusim && args.run.profile) ptc_gpusim_print(stderr);
  free(run_dir);
  const ptc_status_t written = ptc_options_close_stdout();
  // SIGTERM is the polite way to end a run: all went well. SIGINT is told on.
  const int signal = *ptc_interrupt_flag();
  if (signal && (signal == SIGINT || status != PTC_OK)) ptc_interrupt_die(signal);
  return ptc_status_exit_code(status != PTC_OK ? status : written);
}

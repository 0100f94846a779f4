// `ptc sample`: what a trained model writes.
#include <ctype.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/interrupt.h"
#include "frontend/driver/options.h"
#include "frontend/driver/plan_command.h"
#include "frontend/driver/run_state.h"
#include "frontend/driver/sample_plan.h"
#include "frontend/driver/sampler.h"
#include "ir/base/vec.h"
#include "runtime/cpu/thread_pool.h"

static const char usage[] =
    "usage: ptc sample PLAN --ckpt=C [options]\n"
    "Draws tokens from a trained model with `output logits`, each by a full forward pass of one\n"
    "sample on one rank. Bytes where the vocabulary has at most 256 entries, else numbers of "
    "tokens.\n"
    "\n"
    "options\n"
    "  --ckpt=C               a run's folder (its latest checkpoint), a checkpoint, or a "
    "safetensors\n"
    "                         file with the parameters (default: PLAN.run)\n"
    "  --prompt=TEXT          what the sample begins with; numbers of tokens, divided by blanks,\n"
    "                         where tokens are no bytes\n"
    "  --length=N             tokens to draw (default 200)\n"
    "  --temperature=T        default 0.8; 0 takes the likeliest token\n"
    "  --top-k=K              draw among the K likeliest tokens alone\n"
    "  --seed=N               of drawing (default 0)\n"
    "  --threads=N            of all ranks; default: all cores\n"
    "  --ranks-as=KIND        threads or processes: of a plan for several ranks, all of them "
    "sample\n"
    "  --device=DEVICE        of a plan for GPUs: cuda (default), or gpusim, the simulator of GPUs\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  --color=WHEN           auto, always, never\n"
    "  -q, --quiet            no progress\n"
    "  -h, --help             this text\n";

typedef struct sample_args_s {
  ptc_common_options_t common;
  ptc_session_options_t session;
  ptc_sample_options_t sample;
  const char *ckpt, *prompt;
  int64_t length;
  bool all_ranks;
} sample_args_t;

typedef PTC_VEC(int64_t) tokens_t;

enum {
  OPT_CKPT = 256,
  OPT_PROMPT,
  OPT_LENGTH,
  OPT_TEMPERATURE,
  OPT_TOP_K,
  OPT_SEED,
  OPT_THREADS,
  OPT_RANKS_AS,
  OPT_DEVICE
};

static const struct option long_options[] = {
    {"ckpt", required_argument, NULL, OPT_CKPT},
    {"prompt", required_argument, NULL, OPT_PROMPT},
    {"length", required_argument, NULL, OPT_LENGTH},
    {"temperature", required_argument, NULL, OPT_TEMPERATURE},
    {"top-k", required_argument, NULL, OPT_TOP_K},
    {"seed", required_argument, NULL, OPT_SEED},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"ranks-as", required_argument, NULL, OPT_RANKS_AS},
    {"device", required_argument, NULL, OPT_DEVICE},
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static int usage_error(const char *what, const char *value) {
  return ptc_options_usage_error("ptc sample", what, value);
}

// -1: go on; else the exit status.
static int read_option(int option, char *const *argv, sample_args_t *args) {
  int64_t count;
  switch (option) {
    case OPT_CKPT: args->ckpt = optarg; return -1;
    case OPT_PROMPT: args->prompt = optarg; return -1;
    case OPT_LENGTH:
      return ptc_options_read_count(optarg, 1, &args->length)
                 ? -1
                 : usage_error("--length takes a whole number from 1", optarg);
    case OPT_TEMPERATURE:
      return ptc_options_read_number(optarg, &args->sample.temperature)
                 ? -1
                 : usage_error("--temperature takes a number from 0", optarg);
    case OPT_TOP_K:
      return ptc_options_read_count(optarg, 1, &args->sample.top_k)
                 ? -1
                 : usage_error("--top-k takes a whole number from 1", optarg);
    case OPT_SEED:
      if (!ptc_options_read_count(optarg, 0, &count))
        return usage_error("--seed takes a whole number from 0", optarg);
      args->sample.seed = (uint64_t)count;
      return -1;
    case OPT_RANKS_AS:
      args->all_ranks = true;
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
      return ptc_options_read_common(&args->common, option, "ptc sample", usage, argv,
                                     long_options);
  }
}

static ptc_status_t read_prompt(ptc_session_t *session, const ptc_sampler_t *sampler,
                                const char *prompt, tokens_t *tokens) {
  if (ptc_sampler_is_bytes(sampler)) {
    for (const char *at = prompt && *prompt ? prompt : "\n"; *at; at++) {
      const int64_t byte = (unsigned char)*at;
      if (byte >= sampler->vocab)
        return ptc_error(session->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "prompt-token",
                         "the prompt has the byte %" PRId64 "; the vocabulary ends at %" PRId64,
                         byte, sampler->vocab - 1);
      PTC_VEC_PUSH(tokens, byte);
    }
    return PTC_OK;
  }
  for (const char *at = prompt ? prompt : "0"; *at;) {
    char *end;
    const int64_t token = strtoll(at, &end, 10);
    if (end == at || token < 0 || token >= sampler->vocab)
      return ptc_error(session->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "prompt-token",
                       "the prompt must be numbers of tokens below %" PRId64 ": \"%s\"",
                       sampler->vocab, at);
    PTC_VEC_PUSH(tokens, token);
    for (at = end; isspace((unsigned char)*at) || *at == ',';) at++;
  }
  if (tokens->len == 0) PTC_VEC_PUSH(tokens, 0);
  return PTC_OK;
}

static void print_token(const ptc_sampler_t *sampler, int64_t token) {
  if (!ptc_sampler_is_bytes(sampler)) {
    printf("%" PRId64 " ", token);
  } else {  // an untrained model draws any byte; none of them may steer a terminal
    const int byte = (int)token;
    putchar((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f ? '?' : byte);
  }
  fflush(stdout);
}

static ptc_status_t write_tokens(ptc_session_t *session, ptc_sampler_t *sampler,
                                 const sample_args_t *args, tokens_t *tokens) {
  const bool root = ptc_session_is_root(session);
  PTC_TRY(read_prompt(session, sampler, args->prompt, tokens));
  for (int64_t i = 0; i < tokens->len && root; i++) print_token(sampler, tokens->data[i]);
  for (int64_t i = 0; i < args->length; i++) {
    int64_t token;
    bool interrupted;
    PTC_TRY(ptc_session_interrupted(session, &interrupted));
    if (interrupted) break;
    PTC_TRY(ptc_sampler_next(sampler, tokens->data, tokens->len, &args->sample, i, &token));
    PTC_VEC_PUSH(tokens, token);
    if (root) print_token(sampler, token);
  }
  if (root) putchar('\n');
  return PTC_OK;
}

static ptc_status_t sample(ptc_session_t *session, const void *arg) {
  const sample_args_t *args = arg;
  ptc_sampler_t sampler;
  tokens_t tokens = {0};
  ptc_status_t status = ptc_sampler_open(session, &sampler);
  if (status == PTC_OK) status = ptc_run_state_load_params(session, args->ckpt);
  if (status == PTC_OK) status = write_tokens(session, &sampler, args, &tokens);
  PTC_VEC_FREE(&tokens);
  ptc_sampler_close(&sampler);
  return status;
}

int ptc_sample_main(int argc, char **argv) {
  static sample_args_t args;
  args.length = 200;
  args.sample.temperature = 0.8;
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
  char *lone = args.all_ranks ? NULL : ptc_sample_plan_find(argv[optind]);
  const ptc_status_t status = ptc_plan_command(
      &(ptc_plan_command_t){argv[optind], lone, &args.common, &args.session, sample, &args});
  free(lone);
  free(run_dir);
  const ptc_status_t written = ptc_options_close_stdout();
  if (*ptc_interrupt_flag()) ptc_interrupt_die(*ptc_interrupt_flag());
  return ptc_status_exit_code(status != PTC_OK ? status : written);
}

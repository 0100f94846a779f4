// `ptc validate`: the cost model against measured runs.
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/options.h"
#include "frontend/driver/validate.h"

static const char usage[] =
    "usage: ptc validate RUNS.csv... [options]\n"
    "Predicts measured training runs and prints how far off it is: time, tokens/s and memory, by "
    "source,\n"
    "by group of runs (one model on one kind of cluster), and the rank correlation within groups.\n"
    "\n"
    "A row is a decoder and how it was split: id, n_gpus, layers, hidden, heads, seq_len,\n"
    "global_batch_seqs, micro_batch, tp, pp and step_time_s (or step_time_ms, or "
    "tokens_per_s_per_gpu);\n"
    "also gpu, gpus_per_node, interconnect, source, year, quality, group, model_name, ffn_hidden,\n"
    "kv_heads, head_dim, vocab, ffn_type, n_experts, topk, moe_ffn_hidden, shared_experts, sp, vp, "
    "cp,\n"
    "ep, zero_or_fsdp_stage, recompute, precision, peak_mem_gib, mem_metric, notes. A row that "
    "cannot be expressed "
    "is\n"
    "listed with the reason.\n"
    "\n"
    "options\n"
    "  --stack=NAME           the software of all rows (default: told from source and year);\n"
    "                         `--stack=list` prints the known ones\n"
    "  --quality=LETTERS      rows of these qualities alone (default: AB; rows without one count)\n"
    "  --format=FORMAT        text (default), json, csv: one line per row\n"
    "  --svg=FILE             predicted over measured, drawn\n"
    "  --worst=N              rows that are listed as farthest off (default: 10)\n"
    "  --only=TEXT            rows whose id begins so\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  --color=WHEN           auto, always, never\n"
    "  -q, --quiet            no progress\n"
    "  -h, --help             this text\n";

enum { OPT_STACK = 1, OPT_QUALITY, OPT_FORMAT, OPT_SVG, OPT_WORST, OPT_ONLY };

static const struct option long_options[] = {
    {"stack", required_argument, NULL, OPT_STACK},
    {"quality", required_argument, NULL, OPT_QUALITY},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"svg", required_argument, NULL, OPT_SVG},
    {"worst", required_argument, NULL, OPT_WORST},
    {"only", required_argument, NULL, OPT_ONLY},
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static int list_stacks(void) {
  for (int32_t i = 0; i < ptc_num_stacks; i++)
    printf("%-24s %s\n", ptc_stacks[i].name, ptc_stacks[i].what);
  return 0;
}

static int bad_stack(const char *name) {
  const char *names[64];
  for (int32_t i = 0; i < ptc_num_stacks; i++) names[i] = ptc_stacks[i].name;
  const char *near = ptc_nearest_name(name, names, ptc_num_stacks);
  char what[160];
  snprintf(what, sizeof(what), "unknown stack%s%s%s", near ? ", did you mean " : "",
           near ? near : "", near ? "?" : " (--stack=list names them)");
  return ptc_options_usage_error("ptc validate", what, name);
}

int ptc_validate_main(int argc, char **argv) {
  static ptc_common_options_t common;
  ptc_validate_options_t options = {.quality = "AB", .worst = 10};
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":qh", long_options, NULL)) != -1;) {
    int64_t count;
    switch (option) {
      case OPT_STACK:
        if (strcmp(optarg, "list") == 0) return list_stacks();
        options.stack = ptc_stack_find(optarg);
        if (!options.stack) return bad_stack(optarg);
        break;
      case OPT_QUALITY: options.quality = optarg; break;
      case OPT_FORMAT:
        if (strcmp(optarg, "text") != 0 && strcmp(optarg, "json") != 0 &&
            strcmp(optarg, "csv") != 0)
          return ptc_options_usage_error("ptc validate", "--format is text, json or csv", optarg);
        options.format = optarg;
        break;
      case OPT_SVG: options.svg = optarg; break;
      case OPT_ONLY: options.only = optarg; break;
      case OPT_WORST:
        if (!ptc_options_read_count(optarg, 0, &count) || count > 100000)
          return ptc_options_usage_error("ptc validate", "--worst is a number of rows", optarg);
        options.worst = (int32_t)count;
        break;
      default: {
        const int exit_status =
            ptc_options_read_common(&common, option, "ptc validate", usage, argv, long_options);
        if (exit_status >= 0) return exit_status;
      }
    }
  }
  if (optind == argc)
    return ptc_options_usage_error("ptc validate", "no file of measured runs", NULL);
  options.quiet = common.quiet;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_status_t status =
      ptc_validate(&diag, (const char *const *)argv + optind, argc - optind, &options, stdout);
  ptc_options_print_diagnostics(&common, &diag);
  ptc_diag_deinit(&diag);
  return ptc_status_exit_code(status);
}

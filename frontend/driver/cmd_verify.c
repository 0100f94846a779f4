// `ptc verify`: proves a plan again, also one that somebody edited.
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/options.h"
#include "runtime/plan_folder.h"

static const char usage[] =
    "usage: ptc verify PLAN [options]\n"
    "Proves what the compiler proved, from the plan's files alone: every step's accesses lie in "
    "their\n"
    "buffers and in the arena; what is read is what was last written there, in every turn; "
    "steps\n"
    "of several streams that touch the same bytes are ordered by events; collectives\n"
    "fit their groups and the layouts of what they exchange; each op is done as often as the "
    "model\n"
    "needs, and what remains is made of the values that it was compiled from; and the ranks of "
    "all\n"
    "stages meet: each send has its receive, and nobody waits forever. It proves steps and the\n"
    "accesses that they state, not the kernels' code.\n"
    "\n"
    "options\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  --color=WHEN           auto, always, never\n"
    "  -q, --quiet            no summary\n"
    "  -h, --help             this text\n";

static const struct option long_options[] = {
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static int64_t count_steps(const ptc_step_t *steps, int32_t count) {
  int64_t sum = count;
  for (int32_t i = 0; i < count; i++)
    if (steps[i].kind == PTC_STEP_REPEAT) sum += count_steps(steps[i].body, steps[i].num_steps);
  return sum;
}

static ptc_status_t verify(ptc_diag_t *diag, const char *path, bool quiet) {
  ptc_plan_folder_t folder;
  PTC_TRY(ptc_plan_folder_open(diag, path, &folder));
  int64_t steps = 0;
  for (int32_t s = 0; s < folder.num_stages; s++) {
    const ptc_plan_t *plan = folder.plans[s];
    for (int32_t t = 0; t < plan->num_tasks; t++)
      steps += count_steps(plan->tasks[t].steps, plan->tasks[t].num_steps);
  }
  ptc_status_t status =
      ptc_plan_prove(diag, (const ptc_plan_t *const *)folder.plans, folder.num_stages);
  if (status == PTC_OK && !quiet)
    fprintf(stderr,
            "ptc: %s: proved for %" PRId64 " rank%s in %" PRId32 " stage%s: %" PRId64 " steps\n",
            path, ptc_plan_world(folder.plan), ptc_plan_world(folder.plan) == 1 ? "" : "s",
            folder.num_stages, folder.num_stages == 1 ? "" : "s", steps);
  ptc_plan_folder_close(&folder);
  return status;
}

int ptc_verify_main(int argc, char **argv) {
  static ptc_common_options_t common;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":qh", long_options, NULL)) != -1;) {
    const int exit_status =
        ptc_options_read_common(&common, option, "ptc verify", usage, argv, long_options);
    if (exit_status >= 0) return exit_status;
  }
  if (optind == argc) return ptc_options_usage_error("ptc verify", "no plan", NULL);
  if (optind + 1 < argc)
    return ptc_options_usage_error("ptc verify", "one plan at a time", argv[optind + 1]);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_status_t status = verify(&diag, argv[optind], common.quiet);
  ptc_options_print_diagnostics(&common, &diag);
  ptc_diag_deinit(&diag);
  return ptc_status_exit_code(status);
}

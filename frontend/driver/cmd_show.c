// `ptc show`: looks at a plan or a run.
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/cuda_images.h"
#include "frontend/driver/options.h"
#include "frontend/driver/show.h"
#include "frontend/driver/show_pipeline.h"
#include "frontend/driver/why.h"
#include "runtime/plan_folder.h"

static const char usage[] =
    "usage: ptc show PLAN [PART [NAME]] [options]\n"
    "       ptc show RUN loss [options]\n"
    "\n"
    "parts of a plan\n"
    "  summary                model, memory, tasks, inputs (default)\n"
    "  memory                 the arena over time, by class, and what holds its peak\n"
    "  schedule               the steps of a rank in order, and what they exchange with others\n"
    "  kernels                what is launched, how often, with what work, and on GPUs what it "
    "takes\n"
    "                         of a multiprocessor; with NAME its source\n"
    "  ir                     the IR that the steps were made from\n"
    "  config                 each setting, its value, and who set it\n"
    "  why                    each decision about the split: who made it, its alternatives, what "
    "they lose\n"
    "parts of a run\n"
    "  loss                   the curve of its losses\n"
    "\n"
    "options\n"
    "  --format=FORMAT        text (default), json; schedule, kernels, config, loss: csv;\n"
    "                         memory, loss: svg\n"
    "  --task=NAME            of memory, schedule: train (default), eval, init\n"
    "  --stage=N              of a pipeline, all but why: which stage's (default: 0)\n"
    "  --rank=N               the same by a rank: its stage's, and in schedule its own bytes\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  --color=WHEN           auto, always, never\n"
    "  -q, --quiet            as everywhere; changes nothing here\n"
    "  -h, --help             this text\n";

typedef struct show_args_s {
  ptc_common_options_t common;
  ptc_show_format_t format;
  const char *task;
  int64_t rank, stage;  // -1: not given
} show_args_t;

enum { OPT_FORMAT = 256, OPT_TASK, OPT_RANK, OPT_STAGE };

static const struct option long_options[] = {
    {"format", required_argument, NULL, OPT_FORMAT},
    {"task", required_argument, NULL, OPT_TASK},
    {"rank", required_argument, NULL, OPT_RANK},
    {"stage", required_argument, NULL, OPT_STAGE},
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static const char *const formats[] = {"text", "json", "csv", "svg"};
static const struct {
  const char *name;
  uint32_t formats;  // bits of ptc_show_format_t
} parts[] = {
    {"summary", 1 << PTC_SHOW_TEXT | 1 << PTC_SHOW_JSON},
    {"memory", 1 << PTC_SHOW_TEXT | 1 << PTC_SHOW_JSON | 1 << PTC_SHOW_SVG},
    {"schedule", 1 << PTC_SHOW_TEXT | 1 << PTC_SHOW_JSON | 1 << PTC_SHOW_CSV},
    {"kernels", 1 << PTC_SHOW_TEXT | 1 << PTC_SHOW_JSON | 1 << PTC_SHOW_CSV},
    {"ir", 1 << PTC_SHOW_TEXT},
    {"config", 1 << PTC_SHOW_TEXT | 1 << PTC_SHOW_JSON | 1 << PTC_SHOW_CSV},
    {"why", 1 << PTC_SHOW_TEXT | 1 << PTC_SHOW_JSON},
    {"loss", 1 << PTC_SHOW_TEXT | 1 << PTC_SHOW_JSON | 1 << PTC_SHOW_CSV | 1 << PTC_SHOW_SVG}};
enum { NUM_PARTS = sizeof parts / sizeof *parts };

static int usage_error(const char *what, const char *value) {
  return ptc_options_usage_error("ptc show", what, value);
}

// -1: go on; else the exit status.
static int read_option(int option, char *const *argv, show_args_t *args) {
  switch (option) {
    case OPT_FORMAT:
      for (int f = 0; f < 4; f++)
        if (strcmp(formats[f], optarg) == 0) {
          args->format = (ptc_show_format_t)f;
          return -1;
        }
      return usage_error("--format is text, json, csv or svg", optarg);
    case OPT_TASK: args->task = optarg; return -1;
    case OPT_RANK:
      return ptc_options_read_count(optarg, 0, &args->rank)
                 ? -1
                 : usage_error("--rank takes a whole number from 0", optarg);
    case OPT_STAGE:
      return ptc_options_read_count(optarg, 0, &args->stage)
                 ? -1
                 : usage_error("--stage takes a whole number from 0", optarg);
    default:
      return ptc_options_read_common(&args->common, option, "ptc show", usage, argv, long_options);
  }
}

// The number of the part, or the exit status of a complaint, negative.
static int find_part(const char *name, ptc_show_format_t format) {
  const char *names[NUM_PARTS];
  for (int p = 0; p < NUM_PARTS; p++) {
    names[p] = parts[p].name;
    if (strcmp(name, names[p]) != 0) continue;
    if (parts[p].formats >> format & 1) return p;
    fprintf(stderr, "ptc show: %s has no --format %s\nrun `ptc show --help` for the options\n",
            name, formats[format]);
    return -PTC_EXIT_USAGE;
  }
  const char *near = ptc_nearest_name(name, names, NUM_PARTS);
  fprintf(stderr,
          "ptc show: there is no part \"%s\"%s%s%s\nrun `ptc show --help` for the options\n", name,
          near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  return -PTC_EXIT_USAGE;
}

static ptc_status_t print_file(ptc_diag_t *diag, const char *path) {
  char *text;
  size_t len;
  if (ptc_read_file(path, &text, &len) != PTC_OK)
    return ptc_error(diag, (ptc_loc_t){.file = path}, PTC_IO, "cannot-read",
                     "cannot read the file: %s", strerror(errno));
  fwrite(text, 1, len, stdout);
  free(text);
  return PTC_OK;
}

static ptc_status_t show_source(ptc_diag_t *diag, const ptc_plan_t *plan, const char *path,
                                const char *name) {
  const char **names = ptc_xmalloc(sizeof *names * (size_t)(plan->num_kernels + 1));
  bool known = false;
  for (int32_t k = 0; k < plan->num_kernels; k++) {
    names[k] = plan->kernels[k].name;
    known |= strcmp(names[k], name) == 0;
  }
  const char *near = known ? NULL : ptc_nearest_name(name, names, plan->num_kernels);
  free(names);
  if (!known)
    return ptc_error(diag, (ptc_loc_t){.file = path}, PTC_INVALID_INPUT, "unknown-kernel",
                     "the plan has no kernel \"%s\"%s%s%s", name, near ? "; did you mean \"" : "",
                     near ? near : "", near ? "\"?" : "");
  char *file = ptc_plan_folder_source(path, plan->target, name);
  ptc_status_t status = print_file(diag, file);
  free(file);
  return status;
}

// What the kernels of a plan for GPUs take, by their machine code, which is compiled if the cache lacks it. Where that
// cannot be, a warning says why and the kernels are shown without.
static ptc_status_t show_kernels(ptc_diag_t *diag, const ptc_plan_t *plan, const char *path,
                                 const show_args_t *args) {
  ptc_cuda_images_t images = {0};
  ptc_plan_folder_t folder = {0};
  ptc_diag_t found;
  ptc_diag_init(&found);
  const char *why = NULL;
  if (strncmp(plan->target, "compute_", 8) == 0) {
    why =
        "the plan is PTX, which a driver compiles; compile the model with --target sm_80, or what "
        "your GPU is";
  } else if (ptc_plan_target_is_cuda(plan->target)) {
    const ptc_kernel_objects_options_t options = {.target = plan->target,
                                                  .progress = !args->common.quiet};
    ptc_status_t status = ptc_plan_folder_open(&found, path, &folder);
    if (status == PTC_OK)
      status = ptc_cuda_images_create(&found, folder.stage_sources[plan->stage], plan->num_kernels,
                                      &options, &images);
    if (status != PTC_OK) why = found.num_items ? found.items[0].message : "no machine code";
  }
  if (why)
    ptc_warning(diag, (ptc_loc_t){.file = path}, "no-resources",
                "registers, shared memory and occupancy are not known: %s", why);
  ptc_show_kernels(plan, why ? NULL : images.resources, args->format, stdout);
  ptc_cuda_images_deinit(&images);
  if (folder.plan) ptc_plan_folder_close(&folder);
  ptc_diag_deinit(&found);
  return PTC_OK;
}

// The rank that is meant: of a stage, its first.
static int64_t rank_of(const ptc_plan_t *plan, const show_args_t *args) {
  if (args->stage >= 0 && plan->num_stages > 1)
    return args->stage * (ptc_plan_world(plan) / plan->num_stages);
  return args->rank > 0 ? args->rank : 0;
}

static ptc_status_t show_task(ptc_diag_t *diag, const ptc_plan_t *plan, const char *path,
                              const char *part, const show_args_t *args) {
  const char *name = args->task ? args->task : "train";
  const ptc_task_t *task = ptc_plan_find_task(plan, name);
  if (!task)
    return ptc_error(diag, (ptc_loc_t){.file = path}, PTC_INVALID_INPUT, "no-task",
                     "the plan has no task \"%s\"", name);
  const bool pipeline = plan->num_stages > 1 && strcmp(part, "schedule") == 0 &&
                        strcmp(name, "train") == 0 && args->format != PTC_SHOW_JSON;
  if (pipeline)
    PTC_TRY(ptc_show_pipeline(diag, path, plan->num_stages, args->format == PTC_SHOW_CSV, stdout));
  if (pipeline && args->format == PTC_SHOW_CSV) return PTC_OK;
  if (strcmp(part, "memory") == 0)
    ptc_show_memory(plan, task, args->format, stdout);
  else
    ptc_show_schedule(plan, task, rank_of(plan, args), args->format, stdout);
  return PTC_OK;
}

static ptc_status_t show_ir(ptc_diag_t *diag, const char *path, int32_t stage) {
  char *file = ptc_plan_folder_ir(path, stage);
  const ptc_status_t status = print_file(diag, file);
  free(file);
  return status;
}

static ptc_status_t show_why(ptc_diag_t *diag, const char *path, const ptc_plan_t *plan,
                             ptc_show_format_t format) {
  json_t *why;
  PTC_TRY(ptc_why_read(diag, path, plan, &why));
  if (format == PTC_SHOW_JSON) {
    char *text = ptc_why_text(why);
    fputs(text, stdout);
    free(text);
  } else {
    ptc_why_print(why, stdout);
  }
  json_decref(why);
  return PTC_OK;
}

// The plan of the stage that is meant.
static ptc_status_t read_plan(ptc_diag_t *diag, const char *path, const show_args_t *args,
                              ptc_plan_t **out_plan) {
  ptc_plan_t *plan;
  *out_plan = NULL;
  PTC_TRY(ptc_plan_read(diag, path, &plan));
  const int64_t world = ptc_plan_world(plan);
  const int32_t stages = plan->num_stages;
  ptc_status_t status = PTC_OK;
  if (args->rank >= world)
    status = ptc_error(diag, (ptc_loc_t){.file = path}, PTC_INVALID_INPUT, "no-rank",
                       "the plan is for %" PRId64 " rank%s: the last one is %" PRId64, world,
                       world == 1 ? "" : "s", world - 1);
  else if (args->stage >= stages)
    status = ptc_error(diag, (ptc_loc_t){.file = path}, PTC_INVALID_INPUT, "no-stage",
                       "the plan has %" PRId32 " stage%s: the last one is %" PRId32, stages,
                       stages == 1 ? "" : "s", stages - 1);
  const int32_t stage =
      stages > 1 && status == PTC_OK ? (int32_t)(rank_of(plan, args) / (world / stages)) : 0;
  if (status == PTC_OK && stage == 0) {
    *out_plan = plan;
    return PTC_OK;
  }
  ptc_plan_destroy(plan);
  return status == PTC_OK ? ptc_plan_read_stage(diag, path, stage, out_plan) : status;
}

// What does not say itself which stage it shows; a line that is a comment in the IR's text.
static void print_stage(const ptc_plan_t *plan, const char *part) {
  if (plan->num_stages <= 1) return;
  const bool ir = strcmp(part, "ir") == 0;
  if (!ir && strcmp(part, "memory") != 0 && strcmp(part, "kernels") != 0) return;
  printf("%sstage %" PRId32 " of %" PRId32 ", which count from 0 (--stage=N: another one)\n",
         ir ? "# " : "", plan->stage, plan->num_stages);
}

static ptc_status_t show(ptc_diag_t *diag, const char *path, const char *part, const char *name,
                         const show_args_t *args) {
  if (strcmp(part, "loss") == 0) return ptc_show_loss(diag, path, args->format, stdout);
  if (!ptc_plan_folder_is(path))
    return ptc_error(diag, (ptc_loc_t){.file = path}, PTC_INVALID_INPUT, "no-plan",
                     "this is no plan folder; `ptc MODEL.ptm -o PLAN` makes one");
  ptc_plan_t *plan;
  PTC_TRY(read_plan(diag, path, args, &plan));
  ptc_status_t status = PTC_OK;
  if (args->format == PTC_SHOW_TEXT && !name) print_stage(plan, part);
  if (strcmp(part, "memory") == 0 || strcmp(part, "schedule") == 0)
    status = show_task(diag, plan, path, part, args);
  else if (strcmp(part, "ir") == 0)
    status = show_ir(diag, path, plan->stage);
  else if (strcmp(part, "kernels") == 0 && name)
    status = show_source(diag, plan, path, name);
  else if (strcmp(part, "kernels") == 0)
    status = show_kernels(diag, plan, path, args);
  else if (strcmp(part, "why") == 0)
    status = show_why(diag, path, plan, args->format);
  else if (strcmp(part, "config") == 0)
    ptc_show_config(plan, args->format, stdout);
  else
    ptc_show_summary(plan, path, args->format, stdout);
  ptc_plan_destroy(plan);
  return status;
}

int ptc_show_main(int argc, char **argv) {
  static show_args_t args;
  args.rank = args.stage = -1;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":qh", long_options, NULL)) != -1;) {
    const int exit_status = read_option(option, argv, &args);
    if (exit_status >= 0) return exit_status;
  }
  if (args.rank >= 0 && args.stage >= 0)
    return usage_error("--rank and --stage both say which stage; give one", NULL);
  const int num_words = argc - optind;
  if (num_words == 0) return usage_error("no plan or run", NULL);
  const char *part = num_words > 1 ? argv[optind + 1] : "summary",
             *name = num_words > 2 ? argv[optind + 2] : NULL;
  const int number = find_part(part, args.format);
  if (number < 0) return -number;
  if (num_words > 3 || (name && strcmp(part, "kernels") != 0))
    return usage_error("too many words", argv[argc - 1]);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status = show(&diag, argv[optind], part, name, &args);
  ptc_options_print_diagnostics(&args.common, &diag);
  ptc_diag_deinit(&diag);
  ptc_status_t written = ptc_options_close_stdout();
  return ptc_status_exit_code(status != PTC_OK ? status : written);
}

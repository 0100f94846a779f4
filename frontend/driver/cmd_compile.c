// `ptc MODEL.ptm` and `ptc check`: from a model to a plan folder, or to errors.
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/compile.h"
#include "frontend/driver/cuda_images.h"
#include "frontend/driver/emit.h"
#include "frontend/driver/fit_memory.h"
#include "frontend/driver/interrupt.h"
#include "frontend/driver/local_cluster.h"
#include "frontend/driver/options.h"
#include "frontend/driver/plan_report.h"
#include "frontend/driver/sample_plan.h"
#include "frontend/driver/units.h"
#include "frontend/driver/why.h"
#include "ir/base/clock.h"
#include "ir/text.h"
#include "passes/parallel.h"
#include "passes/planner/rule.h"
#include "runtime/measure.h"

static const char usage[] =
    "usage: ptc MODEL.ptm... [-o PLAN] [options]   compile to a plan\n"
    "       ptc check MODEL.ptm... [options]       report errors only\n"
    "       ptc run PLAN --data FILE               train\n"
    "       ptc eval PLAN --ckpt C --data FILE     the loss of a trained model\n"
    "       ptc sample PLAN --ckpt C               text of a trained model\n"
    "       ptc export RUN -o W.safetensors        its weights\n"
    "       ptc show PLAN|RUN [PART]               look at a plan or a run\n"
    "       ptc verify PLAN                        prove a plan again\n"
    "       ptc clusters [NAME]                    the catalog of clusters and devices\n"
    "       ptc interpret MODEL.ptm...             run a function on the reference interpreter\n"
    "Each command has a --help of its own.\n"
    "\n"
    "options of compiling\n"
    "  -o, --output=PLAN      the plan's folder (default: MODEL.plan here); replaces only a plan\n"
    "  -n, --plan-only        choose and predict, write nothing\n"
    "  --set NAME=VALUE       a parameter of the model (layers=24), the batch (batch=4) or a "
    "train\n"
    "                         setting (train.lr=3e-4); may be repeated\n"
    "  --parallel=SETTINGS    of a parallel block, with commas: dp=2,tp=2,zero=1\n"
    "  --world=N              ranks in all: the product of dp, tp, pp, cp and ep; what is not "
    "given of\n"
    "                         the split is chosen: fewest bytes sent and least waiting\n"
    "  --memory=SIZE          what a rank may take (16GB, 24GiB, 500MB); default: a device of the\n"
    "                         cluster; without one, on CPUs, this machine's memory through N\n"
    "  --cluster=CLUSTER      what the plan is for: NAME or NAME:NODES of `ptc clusters`, or the "
    "path of "
    "a\n"
    "                         .ptm file with a cluster block (default: one in the files given); "
    "what "
    "is\n"
    "                         not given of the split is chosen for it\n"
    "  --objective=WHAT       of that choice: time (default), cost, memory, or devices: as few of\n"
    "                         the cluster's as do\n"
    "  --within=TIME          with devices: how long a step may take (2s, 500ms); otherwise the\n"
    "                         model has to fit, however long it takes\n"
    "  --why                  prints each choice, its alternatives and what they lose; later\n"
    "                         `ptc show PLAN why` does\n"
    "  --why-not=SETTINGS     what a split with these settings (tp=4,pp=2) would lose; may be "
    "repeated\n"
    "  --format=FORMAT        of what is planned: text (default) or json\n"
    "  --target=TARGET        cpu (default: this machine's), or cpu:x86-64-v2, -v3, -v4;\n"
    "                         or sm_80, sm_90a, ...: CUDA kernels\n"
    "  --f32-matmul=HOW       GEMMs of f32 on GPUs: exact (default), or tf32, whose operands keep "
    "11\n"
    "                         of 24 bits: --set train.f32_matmul=tf32\n"
    "  --gemm=HOW             products on GPUs by generated kernels, by cublaslt where it is found "
    "and\n"
    "                         can do them, or auto (default): where it is faster, too\n"
    "  --keep-grads           gradients are results of the plan, for `ptc run --dump-grads`\n"
    "  --print-after=PASS     print the IR after that pass; `lower` is the front end's result, "
    "`all`\n"
    "                         every pass; without -o no plan is written\n"
    "  --stop-after=PASS      run no pass after this one, and write no plan\n"
    "  --print-pipeline       list the passes as they run; without -o no plan is written\n"
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
  bool check, no_loc, print_lowered, plan_only, why, json;
  const char *output, *target, *parallel, *cluster;
  double memory_bytes;  // 0: not given
  const char *why_not[16];
  int32_t num_why_not;
  ptc_objective_t objective;
  const char *within;
  double within_s;
  int64_t world;
  ptc_planner_t planner;  // with a cluster
  char *why_text;         // why.json of the plan
} arguments_t;

enum {
  OPT_SET = 256,
  OPT_PARALLEL,
  OPT_WORLD,
  OPT_CLUSTER,
  OPT_MEMORY,
  OPT_OBJECTIVE,
  OPT_WITHIN,
  OPT_WHY,
  OPT_WHY_NOT,
  OPT_FORMAT,
  OPT_TARGET,
  OPT_F32_MATMUL,
  OPT_GEMM,
  OPT_KEEP_GRADS,
  OPT_PRINT_AFTER,
  OPT_STOP_AFTER,
  OPT_PRINT_PIPELINE,
  OPT_CHECK_SEMANTICS,
  OPT_NO_LOC
};

static const struct option long_options[] = {
    {"set", required_argument, NULL, OPT_SET},
    {"parallel", required_argument, NULL, OPT_PARALLEL},
    {"world", required_argument, NULL, OPT_WORLD},
    {"cluster", required_argument, NULL, OPT_CLUSTER},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"objective", required_argument, NULL, OPT_OBJECTIVE},
    {"within", required_argument, NULL, OPT_WITHIN},
    {"why", no_argument, NULL, OPT_WHY},
    {"why-not", required_argument, NULL, OPT_WHY_NOT},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"target", required_argument, NULL, OPT_TARGET},
    {"f32-matmul", required_argument, NULL, OPT_F32_MATMUL},
    {"gemm", required_argument, NULL, OPT_GEMM},
    {"keep-grads", no_argument, NULL, OPT_KEEP_GRADS},
    {"print-after", required_argument, NULL, OPT_PRINT_AFTER},
    {"stop-after", required_argument, NULL, OPT_STOP_AFTER},
    {"print-pipeline", no_argument, NULL, OPT_PRINT_PIPELINE},
    {"check-semantics", no_argument, NULL, OPT_CHECK_SEMANTICS},
    {"no-loc", no_argument, NULL, OPT_NO_LOC},
    {"output", required_argument, NULL, 'o'},
    {"plan-only", no_argument, NULL, 'n'},
    {"version", no_argument, NULL, 'V'},
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static int usage_error(const char *format, const char *what) {
  fputs("ptc: ", stderr);
  fprintf(stderr, format, what);
  fputs("\nrun `ptc --help` for the options\n", stderr);
  return PTC_EXIT_USAGE;
}

static int read_objective(arguments_t *args) {
  for (int32_t i = 0; i < PTC_NUM_OBJECTIVES; i++)
    if (strcmp(optarg, ptc_objective_names[i]) == 0) {
      args->objective = (ptc_objective_t)i;
      return -1;
    }
  return usage_error("--objective is time, cost, memory or devices, not \"%s\"", optarg);
}

typedef struct unit_s {
  const char *name;
  double size;
} unit_t;

static bool read_quantity(const char *text, const unit_t *units, size_t num_units, double *out) {
  char *end;
  const double number = strtod(text, &end);
  if (end == text || !isfinite(number) || number <= 0) return false;
  end += strspn(end, " ");
  for (size_t i = 0; i < num_units; i++)
    if (strcmp(end, units[i].name) == 0) {
      *out = number * units[i].size;
      return true;
    }
  return false;
}

// "2s", "500ms", "2 min"; seconds without a unit.
static bool read_seconds(const char *text, double *out) {
  static const unit_t units[] = {{"", 1},      {"s", 1},    {"ms", 1e-3},
                                 {"us", 1e-6}, {"min", 60}, {"h", 3600}};
  return read_quantity(text, units, sizeof(units) / sizeof(*units), out);
}

// "16GB", "24 GiB", "5e8"; bytes without a unit.
static bool read_bytes(const char *text, double *out) {
  static const unit_t units[] = {{"", 1},          {"B", 1},
                                 {"kB", 1e3},      {"MB", 1e6},
                                 {"GB", 1e9},      {"TB", 1e12},
                                 {"KiB", 1 << 10}, {"MiB", 1 << 20},
                                 {"GiB", 1 << 30}, {"TiB", 1024. * (1 << 30)}};
  return read_quantity(text, units, sizeof(units) / sizeof(*units), out);
}

static bool is_pass(const char *name) { return ptc_pass_find(name) != NULL; }

// -1: go on; else the exit status.
static int read_option(int option, char *const *argv, arguments_t *args) {
  switch (option) {
    case OPT_SET:
      if (!ptc_options_add_override(&args->common, optarg))
        return usage_error("--set takes NAME=VALUE, not \"%s\"", optarg);
      return -1;
    case OPT_PARALLEL: args->parallel = optarg; return -1;
    case OPT_WORLD:
      if (!ptc_options_read_count(optarg, 1, &args->world))
        return usage_error("--world takes a number of ranks, not \"%s\"", optarg);
      return -1;
    case OPT_CLUSTER: args->cluster = optarg; return -1;
    case OPT_MEMORY:
      if (!read_bytes(optarg, &args->memory_bytes))
        return usage_error("--memory takes a size such as 16GB or 500MiB, not \"%s\"", optarg);
      return -1;
    case OPT_OBJECTIVE: return read_objective(args);
    case OPT_WITHIN:
      if (!read_seconds(optarg, &args->within_s))
        return usage_error("--within takes a time such as 2s or 500ms, not \"%s\"", optarg);
      args->within = optarg;
      return -1;
    case OPT_WHY: args->why = true; return -1;
    case OPT_WHY_NOT:
      if (args->num_why_not == (int32_t)(sizeof(args->why_not) / sizeof(*args->why_not)))
        return usage_error("too many --why-not: \"%s\"", optarg);
      args->why_not[args->num_why_not++] = optarg;
      return -1;
    case OPT_FORMAT:
      if (strcmp(optarg, "text") != 0 && strcmp(optarg, "json") != 0)
        return usage_error("--format is text or json, not \"%s\"", optarg);
      args->json = strcmp(optarg, "json") == 0;
      return -1;
    case OPT_TARGET: args->target = optarg; return -1;
    case OPT_F32_MATMUL:
    case OPT_GEMM:
      if (!ptc_options_set(&args->common, option == OPT_GEMM ? "train.gemm" : "train.f32_matmul",
                           optarg))
        return usage_error("too many settings: \"%s\"", optarg);
      return -1;
    case OPT_KEEP_GRADS: args->pass.keep_grads = true; return -1;
    case OPT_PRINT_AFTER:
      if (strcmp(optarg, "lower") != 0 && strcmp(optarg, "all") != 0 && !is_pass(optarg))
        return ptc_options_bad_pass("ptc", optarg);
      args->print_lowered = strcmp(optarg, "lower") == 0 || strcmp(optarg, "all") == 0;
      args->pass.print_after = strcmp(optarg, "lower") == 0 ? "" : optarg;
      return -1;
    case OPT_STOP_AFTER:
      if (strcmp(optarg, "lower") != 0 && !is_pass(optarg))
        return ptc_options_bad_pass("ptc", optarg);
      args->pass.stop_after = optarg;
      return -1;
    case OPT_PRINT_PIPELINE: args->pass.print_pipeline = true; return -1;
    case OPT_CHECK_SEMANTICS: args->pass.check_semantics = true; return -1;
    case OPT_NO_LOC: args->no_loc = true; return -1;
    case 'o': args->output = optarg; return -1;
    case 'n': args->plan_only = true; return -1;
    case 'V':
      printf("ptc %s\n", PTC_VERSION);
      return ptc_status_exit_code(ptc_options_close_stdout());
    default:
      return ptc_options_read_common(&args->common, option, "ptc", usage, argv, long_options);
  }
}

// --- what is printed

static void print_module(const ptc_module_t *module, bool locations) {
  ptc_str_t text = {0};
  ptc_module_print(module, locations, &text);
  fwrite(text.data, 1, text.len, stdout);
  ptc_str_deinit(&text);
}

static void print_model(const ptc_module_t *module) {
  int64_t params = 0, bytes = 0;
  for (int64_t i = 0; i < module->num_globals; i++) {
    const ptc_global_t *global = module->globals[i];
    if (global->kind != PTC_GLOBAL_PARAM) continue;
    params += ptc_type_num_elements(global->type) * ptc_type_num_instances(global->type);
    bytes += ptc_type_num_bytes(global->type);
  }
  char size[PTC_UNIT_CHARS];
  fprintf(stderr, "ptc: %s: %" PRId64 " parameters (%s), %" PRId64 " ops\n", module->name, params,
          ptc_unit_bytes(bytes, size), ptc_module_num_ops(module));
}

// Launches of a task, repeats counted out.
static int64_t count_launches(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t num_steps) {
  int64_t count = 0;
  for (int32_t i = 0; i < num_steps; i++) {
    const ptc_task_t *called = steps[i].kind == PTC_STEP_CALL ? &plan->tasks[steps[i].task] : NULL;
    count += steps[i].kind == PTC_STEP_REPEAT
                 ? steps[i].count * count_launches(plan, steps[i].body, steps[i].num_steps)
             : called ? count_launches(plan, called->steps, called->num_steps)
                      : steps[i].kind == PTC_STEP_LAUNCH;
  }
  return count;
}

static void print_plan(const ptc_plan_t *plan, const char *output, double seconds) {
  char arena[PTC_UNIT_CHARS], bound[PTC_UNIT_CHARS], flops[PTC_UNIT_CHARS];
  const ptc_task_t *train = ptc_plan_find_task(plan, "train");
  if (plan->num_stages > 1) fprintf(stderr, "ptc: stage %d:\n", (int)plan->stage);
  fprintf(stderr, "ptc: a step takes %s FLOP in %" PRId64 " launches of %d kernels\n",
          ptc_unit_count(plan->flops_per_step, flops),
          train ? count_launches(plan, train->steps, train->num_steps) : 0, (int)plan->num_kernels);
  fprintf(stderr, "ptc: the arena takes %s (%" PRId64 " bytes; live at once %s)\n",
          ptc_unit_bytes(plan->arena_bytes, arena), plan->arena_bytes,
          ptc_unit_bytes(plan->bound_bytes, bound));
  if (output && plan->stage == plan->num_stages - 1)
    fprintf(stderr, "ptc: wrote %s in %.2f s; train with `ptc run %s --data FILE`\n", output,
            seconds, output);
}

// --- compiling

// "gpt2.plan" of "samples/gpt2.ptm"; in |arena|.
static const char *default_output(const ptc_module_t *module, const char *file,
                                  ptc_arena_t *arena) {
  if (strcmp(file, "-") == 0) return ptc_arena_printf(arena, "%s.plan", module->name);
  const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
  const size_t len = strlen(base);
  const bool suffix = len > 4 && strcmp(base + len - 4, ".ptm") == 0;
  return ptc_arena_printf(arena, "%.*s.plan", (int)(suffix ? len - 4 : len), base);
}

// Errors of the kernels themselves, not of a compiler that is missing.
static bool is_of_kernels(const char *id) {
  return strcmp(id, "compile-failed") == 0 || strcmp(id, "nvrtc-failed") == 0 ||
         strcmp(id, "nvrtc-crashed") == 0;
}

// Fills the cache, so that the first run starts at once. Without a compiler that is left to the run (|out_left|).
static ptc_status_t build_objects(ptc_module_t *module, const ptc_emitted_t *emitted, bool quiet,
                                  bool *out_left) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_kernel_objects_options_t options = {
      .target = emitted->plan->target, .progress = !quiet, .cancel = ptc_interrupt_flag()};
  ptc_kernel_objects_t *objects = NULL;
  ptc_cuda_images_t images = {0};
  const bool cuda = ptc_plan_target_is_cuda(emitted->plan->target);
  ptc_status_t status =
      cuda ? ptc_cuda_images_create(&diag, emitted->sources, emitted->plan->num_kernels, &options,
                                    &images)
           : ptc_kernel_objects_create(&diag, emitted->sources, emitted->plan->num_kernels,
                                       &options, &objects);
  ptc_kernel_objects_destroy(objects);
  ptc_cuda_images_deinit(&images);
  bool failed = false;
  for (int64_t i = 0; i < diag.num_items; i++) {
    ptc_diagnostic_t *item = &diag.items[i];
    if (item->severity != PTC_ERROR) continue;
    *out_left |= !is_of_kernels(item->id);
    failed |= is_of_kernels(item->id);
    if (!is_of_kernels(item->id)) item->severity = PTC_WARNING;
  }
  ptc_diag_pass_on(module->diag, &diag, status);
  if (*out_left && !failed) status = PTC_OK;
  ptc_diag_deinit(&diag);
  return status;
}

// |count| plans, of one module each.
static ptc_status_t finish_plans(const arguments_t *args, ptc_module_t *const *modules,
                                 const ptc_emitted_t *emitted, int32_t count, const char *output,
                                 double begin_s) {
  if (output) PTC_TRY(ptc_emit_write_stages(modules, emitted, count, args->why_text, output));
  for (int32_t s = 0; s < count && !args->common.quiet; s++)
    print_plan(emitted[s].plan, output, ptc_now_s() - begin_s);
  for (int32_t s = 0; s < count && args->memory_bytes > 0; s++)
    if ((double)emitted[s].plan->arena_bytes > args->memory_bytes)
      ptc_warning(modules[s]->diag, (ptc_loc_t){0}, "over-memory",
                  "the arena takes %" PRId64
                  " bytes, more than --memory allows and than was predicted; allow less by so much",
                  emitted[s].plan->arena_bytes);
  bool left = false;  // what is missing for one stage is missing for all
  for (int32_t s = 0; s < count && output && !left; s++)
    PTC_TRY(build_objects(modules[s], &emitted[s], args->common.quiet, &left));
  return PTC_OK;
}

static ptc_status_t make_stages(const arguments_t *args, ptc_pass_ctx_t *ctx,
                                const ptc_module_t *module, const char *output, double begin_s) {
  ptc_stages_t *stages;
  PTC_TRY(ptc_split_stages(ctx, module, &stages));
  ptc_stages_add_axis(stages);
  const int32_t count = stages->num_stages;
  ptc_emitted_t *emitted = ptc_xmalloc(sizeof *emitted * (size_t)count);
  memset(emitted, 0, sizeof *emitted * (size_t)count);
  ptc_status_t status = PTC_OK;
  for (int32_t s = 0; s < count && status == PTC_OK; s++)
    status = ptc_emit_stage(ctx, stages, s, args->target, &emitted[s]);
  if (status == PTC_OK && !ctx->stopped)
    status = finish_plans(args, stages->modules, emitted, count, output, begin_s);
  for (int32_t s = 0; s < count; s++) ptc_emitted_deinit(&emitted[s]);
  free(emitted);
  ptc_stages_destroy(stages);
  return status;
}

// The module went through the pipeline. |output|: where the plan goes, or NULL.
static ptc_status_t make_plan(arguments_t *args, ptc_pass_ctx_t *ctx, ptc_module_t *module,
                              const char *output, double begin_s) {
  if (output) PTC_TRY(ptc_emit_check_output(module->diag, output));
  ptc_parallel_t parallel;
  PTC_TRY(ptc_parallel_read(module, &parallel));
  if (parallel.size[PTC_AXIS_PP] > 1) return make_stages(args, ctx, module, output, begin_s);
  ptc_emitted_t emitted;
  PTC_TRY(ptc_emit(ctx, module, args->target, &emitted));
  if (!emitted.plan) return PTC_OK;
  const ptc_status_t status = finish_plans(args, &module, &emitted, 1, output, begin_s);
  ptc_emitted_deinit(&emitted);
  return status;
}

// --- planning

// The cluster of --cluster, or of the last block in the files; NULL: none is given.
static ptc_status_t find_cluster(const arguments_t *args, ptc_diag_t *diag, const ptc_ast_t *ast,
                                 ptc_arena_t *arena, ptc_cluster_t **out) {
  const char *own = NULL;
  for (int32_t i = 0; i < ast->num_items; i++)
    if (ast->items[i].kind == PTC_ITEM_CLUSTER) own = ast->items[i].name;
  const char *spec = args->cluster ? args->cluster : own;
  *out = NULL;
  return spec
             ? ptc_driver_find_cluster(diag, arena, own ? ast : NULL, spec, args->common.quiet, out)
             : PTC_OK;
}

static ptc_status_t print_choice(const arguments_t *args, ptc_module_t *module, json_t *why) {
  const ptc_planner_t *planner = &args->planner;
  if (args->json) return ptc_plan_report_json(planner, args->why ? why : NULL, stdout);
  if (!args->common.quiet || args->plan_only)
    ptc_plan_report(planner, args->plan_only ? stdout : stderr);
  if (args->why) ptc_why_print(why, stdout);
  for (int32_t i = 0; i < args->num_why_not; i++)
    PTC_TRY(ptc_plan_report_why_not(module->diag, planner, args->why_not[i], stdout));
  return PTC_OK;
}

// |writes|: a plan follows.
static ptc_status_t report_plan(arguments_t *args, ptc_module_t *module, bool writes) {
  json_t *why = writes || args->why ? ptc_why_new(&args->planner, module) : NULL;
  const ptc_status_t status = print_choice(args, module, why);
  if (writes) args->why_text = ptc_why_text(why);
  json_decref(why);
  return status;
}

static ptc_status_t run_passes(arguments_t *args, ptc_module_t *module, const char *const *files,
                               int32_t num_files, const ptc_lower_options_t *options,
                               double begin_s) {
  ptc_pass_ctx_t ctx;
  args->pass.print_to = stdout;
  args->pass.print_locations = !args->no_loc;
  // Who looks at the IR wants no folder.
  const bool looks =
      (args->pass.print_after || args->pass.print_pipeline || args->pass.check_semantics) &&
      !args->plan_only;
  PTC_TRY(ptc_fit_memory(module, args->target, args->pass.keep_grads));
  ptc_pass_ctx_init(&ctx, &args->pass);
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  // Where the rule has compared nothing there is nothing to report.
  if (status == PTC_OK && args->pass.planner && args->planner.found.feasible)
    status =
        report_plan(args, module, !args->plan_only && !ctx.stopped && (args->output || !looks));
  if (status == PTC_OK && !ctx.stopped) {
    if (!args->common.quiet) print_model(module);
    if (looks && !args->output) args->plan_only = true;
    const char *output = args->output;
    if (!output && !args->plan_only) output = default_output(module, files[0], &module->arena);
    if (args->plan_only) output = NULL;
    status = make_plan(args, &ctx, module, output, begin_s);
    if (output && status == PTC_OK && !ctx.stopped && !ptc_plan_target_is_cuda(args->target))
      ptc_sample_plan_write(files, num_files, options, args->target, output);
  } else if (status == PTC_OK && !args->common.quiet) {
    print_model(module);
  }
  ptc_pass_ctx_deinit(&ctx);
  return status;
}

// Every device has as much as --memory says.
static void limit_memory(const arguments_t *args, ptc_arena_t *arena, ptc_cluster_t *cluster) {
  for (int32_t g = 0; g < cluster->num_groups && args->memory_bytes > 0; g++) {
    ptc_device_model_t *own = PTC_ARENA_NEW(arena, ptc_device_model_t);
    *own = *cluster->groups[g].node.device;
    own->memory_bytes = args->memory_bytes;
    cluster->groups[g].node.device = own;
  }
}

// Without a cluster: nothing is known of the devices, but that those of this machine share its memory.
static void find_rule(arguments_t *args, ptc_arena_t *arena, int64_t world) {
  double bytes = args->memory_bytes;
  const bool gpu = ptc_plan_target_is_cuda(args->target);
  const bool supposes = bytes <= 0 && !gpu;
  if (supposes) bytes = ptc_machine_memory() / (double)world;
  args->planner = (ptc_planner_t){
      .cluster = ptc_rule_cluster(arena, gpu ? PTC_RULE_GPU : PTC_RULE_CPU, world, bytes),
      .arena = arena,
      .supposes_memory = supposes};
  args->pass.choose = ptc_rule_choose_hook;
}

// With a cluster the planner fills what is open, with a world alone the rule.
static ptc_status_t find_planner(arguments_t *args, ptc_diag_t *diag, const ptc_ast_t *ast,
                                 ptc_arena_t *arena) {
  ptc_cluster_t *cluster;
  PTC_TRY(find_cluster(args, diag, ast, arena, &cluster));
  const bool rule = !cluster && args->world > 1;
  const bool asks = args->why || args->num_why_not > 0 || args->memory_bytes > 0;
  if (!cluster && (args->objective != PTC_OBJECTIVE_TIME || (asks && !rule)))
    return ptc_error(
        diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "no-cluster",
        "--objective needs a cluster, --cluster NAME:NODES (`ptc clusters` lists them); "
        "--why, --why-not and --memory need one, or --world N");
  if (rule) {
    find_rule(args, arena, args->world);
  } else if (cluster) {
    limit_memory(args, arena, cluster);
    args->planner = (ptc_planner_t){.cluster = cluster,
                                    .objective = args->objective,
                                    .within_s = args->within_s,
                                    .arena = arena};
    args->pass.choose = ptc_planner_choose_hook;
  } else {
    return PTC_OK;
  }
  args->pass.planner = &args->planner;
  if (args->plan_only && !args->pass.stop_after) args->pass.stop_after = "choose-mesh";
  return PTC_OK;
}

// |ast| is that of |module|.
static ptc_status_t compile_module(arguments_t *args, const ptc_ast_t *ast, ptc_module_t *module,
                                   const char *const *files, int32_t num_files,
                                   const ptc_lower_options_t *options, double begin_s) {
  if (args->check) return PTC_OK;
  if (args->print_lowered) print_module(module, !args->no_loc);
  if (args->pass.stop_after && strcmp(args->pass.stop_after, "lower") == 0) {
    if (!args->common.quiet) print_model(module);
    return PTC_OK;
  }
  ptc_arena_t arena = {0};
  ptc_status_t status = find_planner(args, module->diag, ast, &arena);
  if (status == PTC_OK) status = run_passes(args, module, files, num_files, options, begin_s);
  free(args->why_text);
  ptc_arena_deinit(&arena);
  return status;
}

static ptc_status_t compile(arguments_t *args, ptc_diag_t *diag, const char *const *files,
                            int32_t num_files) {
  const double begin_s = ptc_now_s();
  ptc_lower_options_t options = {.overrides = args->common.overrides,
                                 .num_overrides = args->common.num_overrides,
                                 .parallel = args->parallel,
                                 .world = args->world};
  ptc_ast_t ast;
  ptc_ast_init(&ast);
  ptc_module_t *module;
  ptc_status_t status = ptc_compile_files_into(diag, &ast, files, num_files, &options, &module);
  if (status == PTC_OK && module)
    status = compile_module(args, &ast, module, files, num_files, &options, begin_s);
  else if (status == PTC_OK && !args->check)
    status = ptc_error(diag, (ptc_loc_t){.file = files[0]}, PTC_INVALID_INPUT, "no-model",
                       "there is no model to compile; add a file with `model NAME(...) { ... }`");
  if (module) ptc_module_destroy(module);
  ptc_ast_deinit(&ast);
  return status;
}

static int compile_main(int argc, char **argv, arguments_t *args) {
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":no:qhV", long_options, NULL)) != -1;) {
    const int exit_status = read_option(option, argv, args);
    if (exit_status >= 0) return exit_status;
  }
  if (optind == argc) return usage_error("%s", "no input file");
  if (args->within && args->objective != PTC_OBJECTIVE_DEVICES)
    return usage_error("--within %s goes with --objective devices", args->within);
  if (args->output && args->pass.stop_after)
    return usage_error("-o %s: with --stop-after there is no plan to write", args->output);
  ptc_interrupt_install();
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status =
      compile(args, &diag, (const char *const *)argv + optind, (int32_t)(argc - optind));
  if (*ptc_interrupt_flag()) ptc_interrupt_die(*ptc_interrupt_flag());
  ptc_options_print_diagnostics(&args->common, &diag);
  ptc_diag_deinit(&diag);
  ptc_status_t written = ptc_options_close_stdout();
  return ptc_status_exit_code(status != PTC_OK ? status : written);
}

int ptc_compile_main(int argc, char **argv) {
  static arguments_t args;
  args.target = "cpu";
  return compile_main(argc, argv, &args);
}

int ptc_check_main(int argc, char **argv) {
  static arguments_t args;
  args.target = "cpu";
  args.check = true;
  return compile_main(argc, argv, &args);
}

// The program ptc-opt: reads a module as text, verifies it, runs passes, prints it.
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/options.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/check_semantics.h"
#include "passes/pass.h"

static const char usage[] =
    "usage: ptc-opt FILE.ptir [options]\n"
    "\n"
    "Reads a module (`-`: from standard input), infers the types that are missing, verifies it, "
    "runs\n"
    "the passes in the order given, verifies after each, and prints the module.\n"
    "\n"
    "options\n"
    "  --pass=NAME            run this pass; may be repeated\n"
    "  --list-passes          the passes, one a line\n"
    "  --print-after=PASS     print the module after that pass too; `all`: after every pass\n"
    "  --check-semantics      interpret before and after each pass and compare (slow)\n"
    "  --verify-only          neither infer types nor print: only verify\n"
    "  --roundtrip            check that the printed module reads back as the same text\n"
    "  --run=FUNC             interpret that function on random inputs and print its results\n"
    "  --mode=MODE            of --run: exact (default; in double) or typed (round to each dtype)\n"
    "  --seed=N               of the random inputs of --run and --check-semantics (default 0)\n"
    "  --no-loc               print without source locations\n"
    "  --diagnostics=FORMAT   text (default) or json: one object per line on stderr\n"
    "  -h, --help             this text\n"
    "  -V, --version          the version\n"
    "\n"
    "Exit status: 0 success, 1 the input is wrong, 2 usage, 3 an internal fault.\n";

enum { MAX_PASSES = 64, MAX_SHOWN = 8 };

typedef struct arguments_s {
  ptc_common_options_t common;
  ptc_pass_options_t pass;
  const char *passes[MAX_PASSES];
  int num_passes;
  bool verify_only, roundtrip, no_loc;
  const char *run;
  ptc_interp_mode_t mode;
} arguments_t;

static int usage_error(const char *format, const char *what) {
  fputs("ptc-opt: ", stderr);
  fprintf(stderr, format, what);
  fputs("\nrun `ptc-opt --help` for the options\n", stderr);
  return PTC_EXIT_USAGE;
}

enum {
  OPT_PASS = 256,
  OPT_LIST_PASSES,
  OPT_PRINT_AFTER,
  OPT_CHECK_SEMANTICS,
  OPT_VERIFY_ONLY,
  OPT_ROUNDTRIP,
  OPT_RUN,
  OPT_MODE,
  OPT_SEED,
  OPT_NO_LOC,
  OPT_DIAGNOSTICS
};

static const struct option long_options[] = {
    {"pass", required_argument, NULL, OPT_PASS},
    {"list-passes", no_argument, NULL, OPT_LIST_PASSES},
    {"print-after", required_argument, NULL, OPT_PRINT_AFTER},
    {"check-semantics", no_argument, NULL, OPT_CHECK_SEMANTICS},
    {"verify-only", no_argument, NULL, OPT_VERIFY_ONLY},
    {"roundtrip", no_argument, NULL, OPT_ROUNDTRIP},
    {"run", required_argument, NULL, OPT_RUN},
    {"mode", required_argument, NULL, OPT_MODE},
    {"seed", required_argument, NULL, OPT_SEED},
    {"no-loc", no_argument, NULL, OPT_NO_LOC},
    {"diagnostics", required_argument, NULL, OPT_DIAGNOSTICS},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static bool read_seed(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return !errno && *text >= '0' && *text <= '9' && !*end;
}

static int list_passes(void) {
  const ptc_pass_info_t *pass;
  for (int32_t i = 0; (pass = ptc_pass_at(i)); i++) printf("%-18s %s\n", pass->name, pass->summary);
  return ptc_status_exit_code(ptc_options_close_stdout());
}

// -1: go on; else the exit status.
static int read_option(int option, char *const *argv, arguments_t *args) {
  switch (option) {
    case OPT_PASS:
      if (!ptc_pass_find(optarg)) return ptc_options_bad_pass("ptc-opt", optarg);
      if (args->num_passes == MAX_PASSES) return usage_error("%s", "too many passes");
      args->passes[args->num_passes++] = optarg;
      return -1;
    case OPT_LIST_PASSES: return list_passes();
    case OPT_PRINT_AFTER:
      if (strcmp(optarg, "all") != 0 && !ptc_pass_find(optarg))
        return ptc_options_bad_pass("ptc-opt", optarg);
      args->pass.print_after = optarg;
      return -1;
    case OPT_CHECK_SEMANTICS: args->pass.check_semantics = true; return -1;
    case OPT_VERIFY_ONLY: args->verify_only = true; return -1;
    case OPT_ROUNDTRIP: args->roundtrip = true; return -1;
    case OPT_RUN: args->run = optarg; return -1;
    case OPT_MODE:
      if (strcmp(optarg, "exact") != 0 && strcmp(optarg, "typed") != 0)
        return usage_error("--mode is exact or typed, not \"%s\"", optarg);
      args->mode = strcmp(optarg, "typed") == 0 ? PTC_INTERP_TYPED : PTC_INTERP_EXACT;
      return -1;
    case OPT_SEED:
      if (!read_seed(optarg, &args->pass.check_seed))
        return usage_error("--seed takes a number, not \"%s\"", optarg);
      return -1;
    case OPT_NO_LOC: args->no_loc = true; return -1;
    case OPT_DIAGNOSTICS:
      if (!ptc_options_set_diagnostics(&args->common, optarg))
        return usage_error("--diagnostics is text or json, not \"%s\"", optarg);
      return -1;
    case 'h': fputs(usage, stdout); return ptc_status_exit_code(ptc_options_close_stdout());
    case 'V':
      printf("ptc-opt %s\n", PTC_VERSION);
      return ptc_status_exit_code(ptc_options_close_stdout());
    default: return ptc_options_bad_option("ptc-opt", option, argv, long_options);
  }
}

// The text of |module| must read back, and print the same.
static ptc_status_t check_roundtrip(ptc_diag_t *diag, const ptc_module_t *module) {
  ptc_str_t first = {0}, second = {0};
  ptc_module_print(module, true, &first);
  ptc_module_t *again;
  ptc_status_t status = ptc_module_parse(diag, "round trip", first.data, first.len, &again);
  if (status == PTC_OK) ptc_module_print(again, true, &second);
  bool same = status == PTC_OK && strcmp(first.data, second.data) == 0;
  if (!same)
    status = ptc_error(diag, (ptc_loc_t){0}, PTC_INTERNAL, "roundtrip",
                       "the printed module does not read back as the same module");
  ptc_module_destroy(again);
  ptc_str_deinit(&first);
  ptc_str_deinit(&second);
  return status;
}

static void print_result(const ptc_result_t *result, const ptc_tensor_t *tensor) {
  ptc_str_t line = {0};
  if (result->kind == PTC_RESULT_VALUE)
    ptc_str_printf(&line, "%s \"%s\" : ", result->role, result->name);
  else
    ptc_str_printf(&line, "%s @%s : ", result->kind == PTC_RESULT_STATE ? "state" : "grad",
                   result->global->path);
  ptc_type_print(&line, tensor->type);
  ptc_str_append(&line, " =");
  int64_t count = tensor->num_elements * tensor->num_instances;
  for (int64_t i = 0; i < count && i < MAX_SHOWN; i++) {
    ptc_str_append(&line, " ");
    ptc_str_append_double(&line, tensor->data[i]);
  }
  if (count > MAX_SHOWN) ptc_str_append(&line, " ...");
  puts(line.data);
  ptc_str_deinit(&line);
}

static ptc_status_t run_function(const arguments_t *args, ptc_module_t *module) {
  ptc_interp_t *interp = ptc_interp_create(module, args->mode);
  ptc_semantics_fill(interp, module, args->pass.check_seed);
  ptc_status_t status = ptc_interp_run(interp, args->run);
  const ptc_func_t *func = ptc_module_find_func(module, args->run);
  for (int32_t i = 0; status == PTC_OK && i < func->num_results; i++) {
    const ptc_tensor_t *tensor;
    status = ptc_interp_whole_result(interp, i, &tensor);
    if (status == PTC_OK) print_result(&func->results[i], tensor);
  }
  ptc_interp_destroy(interp);
  return status;
}

static ptc_status_t run_passes(arguments_t *args, ptc_module_t *module) {
  ptc_pass_ctx_t ctx;
  args->pass.print_to = stdout;
  args->pass.print_locations = !args->no_loc;
  ptc_pass_ctx_init(&ctx, &args->pass);
  ptc_status_t status = PTC_OK;
  for (int i = 0; status == PTC_OK && i < args->num_passes; i++)
    status = ptc_pass_run(&ctx, module, args->passes[i]);
  ptc_pass_ctx_deinit(&ctx);
  return status;
}

static ptc_status_t process(arguments_t *args, ptc_module_t *module) {
  if (args->verify_only) return ptc_module_verify(module);
  PTC_TRY(ptc_module_infer_shapes(module));
  PTC_TRY(ptc_module_verify(module));
  ptc_module_derive_properties(module);
  PTC_TRY(run_passes(args, module));
  if (args->roundtrip) PTC_TRY(check_roundtrip(module->diag, module));
  if (args->run) return run_function(args, module);
  ptc_str_t text = {0};
  ptc_module_print(module, !args->no_loc, &text);
  fwrite(text.data, 1, text.len, stdout);
  ptc_str_deinit(&text);
  return PTC_OK;
}

static ptc_status_t read_and_process(arguments_t *args, ptc_diag_t *diag, const char *path) {
  const char *file = strcmp(path, "-") == 0 ? "<stdin>" : path;
  char *text;
  size_t len;
  if (ptc_read_file(path, &text, &len) != PTC_OK)
    return ptc_error(diag, (ptc_loc_t){.file = file}, PTC_IO, "cannot-read",
                     "cannot read the file: %s", strerror(errno));
  ptc_module_t *module;
  ptc_status_t status = ptc_module_parse(diag, file, text, len, &module);
  free(text);
  if (status != PTC_OK) return status;
  status = process(args, module);
  ptc_module_destroy(module);
  return status;
}

int main(int argc, char **argv) {
  static arguments_t args;
  ptc_options_guard_streams();
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":hV", long_options, NULL)) != -1;) {
    int exit_status = read_option(option, argv, &args);
    if (exit_status >= 0) return exit_status;
  }
  if (optind == argc) return usage_error("%s", "no input file");
  if (optind + 1 < argc) return usage_error("one file at a time; what is \"%s\"", argv[optind + 1]);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status = read_and_process(&args, &diag, argv[optind]);
  ptc_options_print_diagnostics(&args.common, &diag);
  ptc_diag_deinit(&diag);
  ptc_status_t written = ptc_options_close_stdout();
  return ptc_status_exit_code(status != PTC_OK ? status : written);
}

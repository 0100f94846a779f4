#include "frontend/driver/emit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/cuda_codegen.h"
#include "frontend/driver/gemm_choice.h"
#include "frontend/driver/why.h"
#include "ir/text.h"
#include "passes/lower_plan.h"
#include "passes/overlap.h"
#include "runtime/cpu/compiler.h"
#include "runtime/hash.h"
#include "runtime/plan_folder.h"

// --- to a plan

static ptc_status_t print_kernel(ptc_module_t *module, const ptc_c_target_t *c_target,
                                 ptc_gemm_choice_t *choice, const ptc_kernel_t *kernel,
                                 ptc_plan_t *plan, int32_t number, ptc_kernel_source_t *source) {
  ptc_plan_kernel_t *entry = &plan->kernels[number];
  ptc_str_t text = {0};
  ptc_kernel_shape_t shape = {0};
  const ptc_status_t status =
      choice ? ptc_codegen_cuda(module->diag, &plan->arena, kernel, &choice->options, &text, &shape)
             : ptc_codegen_c(module->diag, &plan->arena, kernel, c_target, &text, &shape);
  *source = (ptc_kernel_source_t){entry->name, text.data, text.len};
  if (status != PTC_OK) return status;
  char hash[PTC_HASH_CHARS + 1];
  ptc_hash(text.data, text.len, hash);
  entry->hash = ptc_arena_strdup(&plan->arena, hash);
  if (choice) entry->gemm = ptc_gemm_choose(choice, &plan->arena, kernel, &shape);
  ptc_plan_set_shape(plan, number, shape.num_runs, shape.runs, shape.workspace_bytes,
                     shape.scratch_bytes);
  return PTC_OK;
}

static ptc_status_t print_kernels(const ptc_pass_ctx_t *ctx, ptc_module_t *module,
                                  const char *target, const ptc_kernel_t *const *kernels,
                                  ptc_emitted_t *emitted) {
  const bool cuda = ptc_plan_target_is_cuda(target);
  const ptc_c_target_t c_target = {.march = cuda ? NULL : ptc_compiler_march(target)};
  ptc_gemm_choice_t choice;
  ptc_gemm_choice_init(&choice, ctx, module, target);
  ptc_status_t status = PTC_OK;
  for (int32_t k = 0; k < emitted->plan->num_kernels && status == PTC_OK; k++)
    status = print_kernel(module, &c_target, cuda ? &choice : NULL, kernels[k], emitted->plan, k,
                          &emitted->sources[k]);
  ptc_gemm_choice_deinit(&choice);
  return status;
}

// The settings' origins, and after them the parameters of the model, which are fixed.
static void add_origins(const ptc_module_t *module, ptc_plan_t *plan) {
  const int32_t count = plan->num_settings + module->num_origins;
  ptc_plan_setting_t *settings = PTC_ARENA_ARRAY(&plan->arena, ptc_plan_setting_t, count + 1);
  int32_t num = 0;
  for (int32_t i = 0; i < module->num_origins; i++) {
    const ptc_origin_t *origin = &module->origins[i];
    if (origin->value)
      settings[num++] =
          (ptc_plan_setting_t){.name = ptc_arena_strdup(&plan->arena, origin->name),
                               .value = ptc_arena_strdup(&plan->arena, origin->value),
                               .origin = ptc_arena_strdup(&plan->arena, origin->place)};
  }
  for (int32_t i = 0; i < plan->num_settings; i++) {
    ptc_plan_setting_t *setting = &plan->settings[i];
    const ptc_origin_t *origin = ptc_module_find_origin(module, setting->name);
    if (origin && !origin->value) setting->origin = ptc_arena_strdup(&plan->arena, origin->place);
    if (!setting->origin[0]) setting->origin = "default";
    // Without a schedule that needs it, the length of the run is no number of the step.
    if (strcmp(setting->name, "train.steps") == 0) setting->open = true;
    settings[num++] = *setting;
  }
  plan->settings = settings;
  plan->num_settings = num;
}

// |stages|: the pipeline of which |module| is stage |stage|, or NULL.
static ptc_status_t build_plan(ptc_pass_ctx_t *ctx, ptc_module_t *module,
                               const ptc_stages_t *stages, int32_t stage, const char *target,
                               ptc_emitted_t *emitted) {
  const ptc_kernel_t *const *kernels;
  PTC_TRY(stages ? ptc_lower_stage(ctx, stages, stage, &emitted->plan, &kernels)
                 : ptc_lower_plan(ctx, module, &emitted->plan, &kernels));
  ptc_plan_t *plan = emitted->plan;
  ptc_str_t flags = {0};
  if (ptc_plan_target_is_cuda(target))
    ptc_str_printf(&flags, "--gpu-architecture=%s --fmad=false", target);
  else
    ptc_compiler_flags(target, &flags);
  plan->target = ptc_arena_strdup(&plan->arena, target);
  plan->compiler_flags = ptc_arena_strdup(&plan->arena, flags.data);
  ptc_str_deinit(&flags);
  add_origins(module, plan);
  const size_t bytes = sizeof *emitted->sources * (size_t)(plan->num_kernels + 1);
  emitted->sources = ptc_xmalloc(bytes);
  memset(emitted->sources, 0, bytes);
  PTC_TRY(print_kernels(ctx, module, target, kernels, emitted));
  const bool overlap = ptc_attrs_bool(&module->config, "overlap", false);
  if (overlap) PTC_TRY(ptc_plan_overlap(module->diag, plan));
  PTC_TRY(ptc_plan_memory(module->diag, plan));
  ptc_plan_simplify(plan);
  return overlap ? ptc_plan_place_events(module->diag, plan) : PTC_OK;
}

static ptc_status_t emit(ptc_pass_ctx_t *ctx, ptc_module_t *module, const ptc_stages_t *stages,
                         int32_t stage, const char *target, ptc_emitted_t *out_emitted) {
  *out_emitted = (ptc_emitted_t){0};
  if (!ptc_plan_target_is_cuda(target)) PTC_TRY(ptc_compiler_check_target(module->diag, target));
  PTC_TRY(ptc_pass_run(ctx, module, "fuse"));
  if (ctx->stopped) return PTC_OK;
  ptc_status_t status = build_plan(ctx, module, stages, stage, target, out_emitted);
  if (status != PTC_OK) ptc_emitted_deinit(out_emitted);
  return status;
}

ptc_status_t ptc_emit(ptc_pass_ctx_t *ctx, ptc_module_t *module, const char *target,
                      ptc_emitted_t *out_emitted) {
  return emit(ctx, module, NULL, 0, target, out_emitted);
}

ptc_status_t ptc_emit_stage(ptc_pass_ctx_t *ctx, const ptc_stages_t *stages, int32_t stage,
                            const char *target, ptc_emitted_t *out_emitted) {
  return emit(ctx, stages->modules[stage], stages, stage, target, out_emitted);
}

void ptc_emitted_deinit(ptc_emitted_t *emitted) {
  for (int32_t k = 0; emitted->sources && k < emitted->plan->num_kernels; k++)
    free((void *)(uintptr_t)emitted->sources[k].text);
  free(emitted->sources);
  ptc_plan_destroy(emitted->plan);
  *emitted = (ptc_emitted_t){0};
}

// --- to a folder

static ptc_status_t cannot_write(ptc_diag_t *diag, const char *path) {
  return ptc_error(diag, (ptc_loc_t){.file = path}, PTC_IO, "write-plan",
                   "cannot write the plan: %s", strerror(errno));
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *ftw) {
  (void)info;
  (void)type;
  (void)ftw;
  remove(path);
  return 0;
}

static void remove_tree(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

static ptc_status_t write_text(ptc_diag_t *diag, const char *path, const char *text, size_t len) {
  FILE *file = fopen(path, "we");
  if (!file) return cannot_write(diag, path);
  const bool ok = fwrite(text, 1, len, file) == len;
  return fclose(file) == 0 && ok ? PTC_OK : cannot_write(diag, path);
}

static ptc_status_t write_ir(ptc_module_t *module, int32_t stage, const char *folder) {
  ptc_str_t text = {0};
  ptc_module_print(module, true, &text);
  char *path = ptc_plan_folder_ir(folder, stage);
  ptc_status_t status = write_text(module->diag, path, text.data, text.len);
  ptc_str_deinit(&text);
  free(path);
  return status;
}

static ptc_status_t write_kernels(ptc_diag_t *diag, const ptc_emitted_t *emitted,
                                  const char *folder) {
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/" PTC_PLAN_KERNELS, folder);
  const bool made = mkdir(path.data, 0777) == 0 || errno == EEXIST;
  ptc_status_t status = made ? PTC_OK : cannot_write(diag, path.data);
  ptc_str_deinit(&path);
  for (int32_t k = 0; k < emitted->plan->num_kernels && status == PTC_OK; k++) {
    const ptc_kernel_source_t *source = &emitted->sources[k];
    char *file = ptc_plan_folder_source(folder, emitted->plan->target, source->name);
    status = write_text(diag, file, source->text, source->len);
    free(file);
  }
  return status;
}

// The folder |path| becomes |place|; what was there is removed.
static ptc_status_t put_in_place(ptc_diag_t *diag, const char *path, const char *place) {
  if (renameat2(AT_FDCWD, path, AT_FDCWD, place, RENAME_NOREPLACE) == 0) return PTC_OK;
  if (errno != EEXIST && errno != EINVAL) return cannot_write(diag, place);
  if (renameat2(AT_FDCWD, path, AT_FDCWD, place, RENAME_EXCHANGE) == 0) {
    remove_tree(path);
    return PTC_OK;
  }
  // A file system that cannot exchange: for a moment neither is there.
  if (ptc_plan_folder_is(place)) remove_tree(place);
  return rename(path, place) == 0 ? PTC_OK : cannot_write(diag, place);
}

ptc_status_t ptc_emit_check_output(ptc_diag_t *diag, const char *path) {
  struct stat info;
  if (lstat(path, &info) != 0 || ptc_plan_folder_is(path)) return PTC_OK;
  return ptc_error(diag, (ptc_loc_t){.file = path}, PTC_INVALID_INPUT, "output-exists",
                   "this exists and is no plan: -o replaces nothing but a plan folder");
}

// Says in |diag| what speaks against the plan, as a fault of the compiler.
static ptc_status_t not_proved(ptc_diag_t *diag, const ptc_diag_t *found) {
  for (int64_t i = 0; i < found->num_items; i++)
    if (found->items[i].severity == PTC_ERROR)
      ptc_error(diag, (ptc_loc_t){0}, PTC_INTERNAL, "plan-unproved",
                "internal error: the plan that was made is wrong and is not written: %s [%s]; "
                "please report it with the model",
                found->items[i].message, found->items[i].id);
  return PTC_INTERNAL;
}

ptc_status_t ptc_emit_prove(ptc_diag_t *diag, const ptc_emitted_t *emitted, int32_t count) {
  ptc_diag_t found;
  ptc_diag_init(&found);
  const ptc_plan_t **plans = ptc_xmalloc(sizeof *plans * (size_t)count);
  ptc_status_t status = PTC_OK;
  for (int32_t s = 0; s < count && status == PTC_OK; s++) {
    plans[s] = emitted[s].plan;
    status = ptc_plan_check(&found, plans[s]);
  }
  if (status == PTC_OK) status = ptc_plan_prove(&found, plans, count);
  if (status != PTC_OK) status = not_proved(diag, &found);
  free(plans);
  ptc_diag_deinit(&found);
  return status;
}

static ptc_status_t write_stages(ptc_module_t *const *modules, const ptc_emitted_t *emitted,
                                 int32_t count, const char *folder) {
  for (int32_t s = 0; s < count; s++) {
    ptc_diag_t *diag = modules[s]->diag;
    PTC_TRY(ptc_plan_write(diag, emitted[s].plan, folder));
    PTC_TRY(write_ir(modules[s], s, folder));
    PTC_TRY(write_kernels(diag, &emitted[s], folder));
  }
  return PTC_OK;
}

static ptc_status_t write_why(ptc_diag_t *diag, const char *why, const char *folder) {
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/" PTC_WHY_FILE, folder);
  const ptc_status_t status = write_text(diag, path.data, why, strlen(why));
  ptc_str_deinit(&path);
  return status;
}

ptc_status_t ptc_emit_write(ptc_module_t *module, const ptc_emitted_t *emitted, const char *path) {
  return ptc_emit_write_stages(&module, emitted, 1, NULL, path);
}

ptc_status_t ptc_emit_write_stages(ptc_module_t *const *modules, const ptc_emitted_t *emitted,
                                   int32_t count, const char *why, const char *path) {
  ptc_diag_t *diag = modules[0]->diag;
  PTC_TRY(ptc_emit_check_output(diag, path));
  PTC_TRY(ptc_emit_prove(diag, emitted, count));
  // Through a link to the folder itself.
  char *place = realpath(path, NULL);
  if (!place) place = strdup(path);
  for (size_t len = strlen(place); len > 1 && place[len - 1] == '/';) place[--len] = '\0';
  ptc_str_t work = {0};
  ptc_str_printf(&work, "%s.tmp-XXXXXX", place);
  ptc_status_t status = PTC_OK;
  if (mkdtemp(work.data)) {
    const mode_t mask = umask(0);
    umask(mask);
    chmod(work.data, 0777 & ~mask);
    status = write_stages(modules, emitted, count, work.data);
    if (status == PTC_OK && why) status = write_why(diag, why, work.data);
    if (status == PTC_OK) status = put_in_place(diag, work.data, place);
    if (status != PTC_OK) remove_tree(work.data);
  } else {
    status = cannot_write(diag, path);
  }
  ptc_str_deinit(&work);
  free(place);
  return status;
}

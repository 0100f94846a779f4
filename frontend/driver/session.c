#include "frontend/driver/session.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/gpusim.h"
#include "frontend/driver/interrupt.h"
#include "ir/base/str.h"
#include "runtime/agree.h"
#include "runtime/cpu/cores.h"
#include "runtime/hash.h"
#include "runtime/nccl/nccl.h"

bool ptc_session_read_device(const char *text, ptc_session_options_t *options) {
  options->gpusim = strcmp(text, "gpusim") == 0;
  options->cuda = strcmp(text, "cuda") == 0;
  return options->gpusim || options->cuda;
}

bool ptc_session_read_graph(const char *text, ptc_session_options_t *options) {
  options->replay = strcmp(text, "on") == 0    ? PTC_REPLAY_ON
                    : strcmp(text, "off") == 0 ? PTC_REPLAY_OFF
                                               : PTC_REPLAY_AUTO;
  return options->replay != PTC_REPLAY_AUTO || strcmp(text, "auto") == 0;
}

static ptc_status_t collect_inputs(ptc_session_t *s) {
  const ptc_plan_t *plan = s->plan;
  const size_t room = (size_t)plan->num_globals + 1;
  s->inputs = ptc_xmalloc(sizeof *s->inputs * room);
  s->input_globals = ptc_xmalloc(sizeof *s->input_globals * room);
  for (int32_t g = 0; g < plan->num_globals; g++) {
    const ptc_plan_global_t *global = &plan->globals[g];
    if (strcmp(global->kind, "input") != 0) continue;
    const ptc_buffer_t *buffer = &plan->buffers[global->buffer];
    if (!global->source)
      return ptc_error(s->diag, (ptc_loc_t){.file = buffer->loc_file, .line = buffer->loc_line},
                       PTC_UNSUPPORTED, "drawn-input",
                       "input \"%s\" is drawn by no kernel of the plan and read from no source",
                       global->path);
    ptc_data_input_t *input = &s->inputs[s->num_inputs];
    *input = (ptc_data_input_t){.name = global->path,
                                .source = global->source,
                                .loc = {.file = buffer->loc_file, .line = buffer->loc_line},
                                .dtype = buffer->dtype,
                                .num_dims = buffer->num_dims,
                                .batch_dim = global->batch_dim,
                                .offset = global->offset,
                                .range = global->range,
                                .ignorable = global->ignorable};
    for (int32_t d = 0; d < buffer->num_dims; d++) input->shape[d] = buffer->extents[d];
    s->input_globals[s->num_inputs++] = global;
  }
  return PTC_OK;
}

// NCCL knows no tags, and GPUs that wait for each other say nothing: that the stages of a pipeline meet is proved before.
static ptc_status_t open_images(ptc_diag_t *diag, ptc_program_t *p,
                                const ptc_kernel_objects_options_t *options) {
  const int32_t num_stages = p->folder.num_stages;
  if (num_stages > 1)
    PTC_TRY(ptc_plan_verify_stages(diag, (const ptc_plan_t *const *)p->folder.plans, num_stages));
  const size_t bytes = sizeof *p->images * (size_t)num_stages;
  p->images = ptc_xmalloc(bytes);
  memset(p->images, 0, bytes);
  for (int32_t s = 0; s < num_stages; s++)
    PTC_TRY(ptc_cuda_images_create(diag, p->folder.stage_sources[s],
                                   p->folder.plans[s]->num_kernels, options, &p->images[s]));
  return PTC_OK;
}

ptc_status_t ptc_program_open(ptc_diag_t *diag, const char *path,
                              const ptc_session_options_t *options, ptc_program_t *out_program) {
  ptc_program_t *p = out_program;
  *p = (ptc_program_t){.path = path};
  if (!ptc_plan_folder_is(path))
    return ptc_error(diag, (ptc_loc_t){.file = path}, PTC_INVALID_INPUT, "no-plan",
                     "this is no plan folder; `ptc MODEL.ptm -o PLAN` makes one");
  PTC_TRY(ptc_plan_folder_open(diag, path, &p->folder));
  p->plan = p->folder.plan;
  if (options->cuda && !ptc_plan_target_is_cuda(p->plan->target))
    return ptc_error(diag, (ptc_loc_t){.file = path}, PTC_INVALID_INPUT, "device-target",
                     "the plan is for \"%s\", and --device=cuda runs plans for GPUs: compile the "
                     "model with --target sm_90a, or what your GPU is",
                     p->plan->target);
  if (options->gpusim)
    PTC_TRY(ptc_gpusim_prepare(diag, p->plan, options->gpusim_checks, options->gpusim_counts));
  const ptc_kernel_objects_options_t objects = {
      .target = options->gpusim ? PTC_GPUSIM_TARGET : p->plan->target,
      .progress = !options->quiet,
      .cancel = ptc_interrupt_flag()};
  if (ptc_plan_target_is_cuda(p->plan->target)) return open_images(diag, p, &objects);
  const size_t bytes = sizeof *p->objects * (size_t)p->folder.num_stages;
  p->objects = ptc_xmalloc(bytes);
  memset(p->objects, 0, bytes);
  for (int32_t s = 0; s < p->folder.num_stages; s++)
    PTC_TRY(ptc_kernel_objects_create(diag, p->folder.stage_sources[s],
                                      p->folder.plans[s]->num_kernels, &objects, &p->objects[s]));
  return PTC_OK;
}

void ptc_program_close(ptc_program_t *program) {
  for (int32_t s = 0; program->objects && s < program->folder.num_stages; s++)
    ptc_kernel_objects_destroy(program->objects[s]);
  free(program->objects);
  for (int32_t s = 0; program->images && s < program->folder.num_stages; s++)
    ptc_cuda_images_deinit(&program->images[s]);
  free(program->images);
  if (program->plan) ptc_plan_folder_close(&program->folder);
  *program = (ptc_program_t){0};
}

// Threads of one rank.
static int32_t threads_of(const ptc_session_options_t *options, const ptc_comm_t *comm) {
  if (!comm) return options->num_threads;
  const int32_t all = options->num_threads ? options->num_threads : ptc_num_cores();
  return all > comm->world ? all / comm->world : 1;
}

ptc_status_t ptc_session_read_limit(ptc_diag_t *diag, double *out_seconds) {
  const char *text = getenv("PTC_COMM_LIMIT");
  if (!text) return PTC_OK;
  char *end;
  const double seconds = strtod(text, &end);
  if (end == text || *end || !isfinite(seconds) || seconds < 0)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-limit",
                     "PTC_COMM_LIMIT is \"%s\"; it takes seconds, or 0 for no limit", text);
  *out_seconds = seconds;
  return PTC_OK;
}

// Where the environment gives it.
static ptc_status_t set_limit(ptc_diag_t *diag, ptc_comm_t *comm) {
  double seconds = -1;
  PTC_TRY(ptc_session_read_limit(diag, &seconds));
  if (seconds >= 0) ptc_comm_set_limit(comm, seconds);
  return PTC_OK;
}

static ptc_status_t open_executor(ptc_session_t *s, const ptc_program_t *program,
                                  const ptc_session_options_t *options) {
  if (!ptc_plan_target_is_cuda(s->plan->target))
    return ptc_executor_create(s->diag, s->plan, program->objects[s->plan->stage],
                               threads_of(options, s->comm), &s->executor);
  ptc_device_t *device;
  const int32_t gpu = options->has_gpu ? options->gpu : s->rank;
  // A rank without a device must not leave the others waiting for it in NCCL.
  ptc_cuda_memory_t memory = {0};
  if (s->comm) ptc_nccl_memory(&memory);
  const ptc_status_t status = ptc_cuda_device_create_in(
      s->diag, s->plan, program->images[s->plan->stage].images, gpu, &memory, &device);
  const ptc_status_t agreed = ptc_agree_status(s->comm, s->diag, status);
  if (agreed != PTC_OK && status == PTC_OK) device->destroy(device);
  PTC_TRY(agreed);
  PTC_TRY(ptc_executor_create_on(s->diag, s->plan, device, &s->executor));
  ptc_executor_set_replay(s->executor, options->replay);
  if (!s->comm) return PTC_OK;
  PTC_TRY(ptc_comm_open_nccl(s->diag, device, s->comm, &s->device_comm));
  return set_limit(s->diag, s->device_comm);
}

// Ranks of other plans would wait for each other in vain.
static ptc_status_t compare_plans(const ptc_session_t *s) {
  ptc_str_t json = {0}, steps = {0};
  const ptc_plan_folder_t *folder = &s->program->folder;
  for (int32_t stage = 0; stage < folder->num_stages; stage++)
    ptc_plan_print(folder->plans[stage], &json, &steps);
  ptc_str_append_n(&json, steps.data, steps.len);
  char hash[PTC_HASH_CHARS + 1];
  ptc_hash(json.data, json.len, hash);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  return ptc_comm_check_same(s->comm, s->diag, "the plan", hash, PTC_HASH_CHARS);
}

ptc_status_t ptc_session_open(ptc_diag_t *diag, const ptc_program_t *program, ptc_comm_t *comm,
                              const ptc_session_options_t *options, ptc_session_t *out_session) {
  ptc_session_t *s = out_session;
  *s = (ptc_session_t){.diag = diag,
                       .path = program->path,
                       .program = program,
                       .plan = program->plan,
                       .comm = comm,
                       .rank = comm ? comm->rank : 0};
  if (comm && comm->world == ptc_plan_world(program->plan))
    s->plan = program->folder.plans[comm->rank / (comm->world / program->folder.num_stages)];
  if (comm) PTC_TRY(set_limit(diag, comm));
  if (comm) PTC_TRY(compare_plans(s));
  PTC_TRY(open_executor(s, program, options));
  if (comm) PTC_TRY(ptc_executor_join(diag, s->executor, s->device_comm ? s->device_comm : comm));
  s->init = ptc_plan_find_task(s->plan, "init");
  s->settings = ptc_xmalloc(sizeof *s->settings * (size_t)(s->plan->num_settings + 1));
  for (int32_t i = 0; i < s->plan->num_settings; i++) s->settings[i] = NAN;
  s->train = ptc_plan_find_task(s->plan, "train");
  s->eval = ptc_plan_find_task(s->plan, "eval");
  return collect_inputs(s);
}

void ptc_session_close(ptc_session_t *session) {
  ptc_comm_close(session->device_comm);
  ptc_executor_destroy(session->executor);
  free(session->inputs);
  free(session->input_globals);
  free(session->settings);
  *session = (ptc_session_t){0};
}

bool ptc_session_is_root(const ptc_session_t *session) { return session->rank == 0; }

ptc_status_t ptc_session_interrupted(ptc_session_t *session, bool *out_interrupted) {
  int64_t most;
  PTC_TRY(ptc_agree_most(session->comm, session->diag, *ptc_interrupt_flag() != 0, &most));
  *out_interrupted = most != 0;
  return PTC_OK;
}

// The one source of all inputs, or NULL.
static const char *only_source(const ptc_session_t *session) {
  const char *source = session->num_inputs ? session->inputs[0].source : NULL;
  for (int32_t i = 1; i < session->num_inputs; i++)
    if (strcmp(session->inputs[i].source, source) != 0) return NULL;
  return source;
}

// Whether |spec| begins with the name of a source and `=`.
static bool names_source(const char *spec) {
  const size_t len = strcspn(spec, "=/.");
  return len > 0 && spec[len] == '=';
}

ptc_status_t ptc_session_open_data(ptc_session_t *session, const char *flag,
                                   const char *const *specs, int32_t num_specs,
                                   ptc_data_order_t order, ptc_data_t **out_data) {
  *out_data = NULL;
  ptc_arena_t scratch = {0};
  const char *source = only_source(session);
  const char **full = PTC_ARENA_ARRAY(&scratch, const char *, num_specs + 1);
  for (int32_t i = 0; i < num_specs; i++)
    full[i] = source && !names_source(specs[i])
                  ? ptc_arena_printf(&scratch, "%s=%s", source, specs[i])
                  : specs[i];
  const ptc_data_options_t options = {.flag = flag,
                                      .specs = full,
                                      .num_specs = num_specs,
                                      .inputs = session->inputs,
                                      .num_inputs = session->num_inputs,
                                      .order = order};
  ptc_status_t status = ptc_data_open(session->diag, &options, out_data);
  ptc_arena_deinit(&scratch);
  return status;
}

ptc_status_t ptc_session_fill(ptc_session_t *session, const ptc_data_t *data, int64_t step,
                              int64_t *out_samples) {
  *out_samples = 0;
  const uint64_t seed = (uint64_t)ptc_session_setting(session, "seed", 0);
  for (int32_t i = 0; i < session->num_inputs; i++) {
    int64_t samples = 0;
    PTC_TRY(ptc_data_fill(data, session->diag, seed, step, i,
                          ptc_executor_input(session->executor, session->input_globals[i]),
                          &samples));
    if (samples > *out_samples) *out_samples = samples;
  }
  return PTC_OK;
}

int64_t ptc_session_batch(const ptc_session_t *session, bool *out_fillable) {
  int64_t batch = 0;
  *out_fillable = false;
  for (int32_t i = 0; i < session->num_inputs; i++) {
    const ptc_data_input_t *input = &session->inputs[i];
    if (input->batch_dim >= 0) batch = input->shape[input->batch_dim];
    *out_fillable |= input->ignorable;
  }
  return batch;
}

const ptc_plan_result_t *ptc_session_result(const ptc_task_t *task, const char *role,
                                            const char *name) {
  for (int32_t i = 0; task && i < task->num_results; i++)
    if (strcmp(task->results[i].role, role) == 0 &&
        (!name || strcmp(task->results[i].name, name) == 0))
      return &task->results[i];
  return NULL;
}

double ptc_session_loss(const ptc_session_t *session, const ptc_task_t *task) {
  double sum = 0;
  for (int32_t i = 0; i < task->num_results; i++)
    if (strcmp(task->results[i].role, "loss") == 0)
      sum += ptc_executor_result_number(session->executor, &task->results[i]);
  return sum;
}

int64_t ptc_session_tokens(const ptc_session_t *session) {
  int64_t most = 0;
  for (int32_t i = 0; i < session->num_inputs; i++) {
    int64_t count = 1;
    for (int32_t d = 0; d < session->inputs[i].num_dims; d++) count *= session->inputs[i].shape[d];
    if (count > most) most = count;
  }
  return most;
}

// --- settings

static const char *without_block(const char *name) {
  return strncmp(name, "train.", 6) == 0 ? name + 6 : name;
}

static const ptc_plan_setting_t *find_setting(const ptc_session_t *session, const char *name) {
  for (int32_t i = 0; i < session->plan->num_settings; i++) {
    const ptc_plan_setting_t *setting = &session->plan->settings[i];
    if (strcmp(without_block(setting->name), without_block(name)) == 0) return setting;
  }
  return NULL;
}

double ptc_session_setting(const ptc_session_t *session, const char *name, double otherwise) {
  const ptc_plan_setting_t *setting = find_setting(session, name);
  if (!setting) return otherwise;
  const ptc_plan_global_t *global =
      setting->global ? ptc_plan_find_global(session->plan, setting->global) : NULL;
  if (global) return ptc_executor_get_number(session->executor, global);
  const double given = session->settings[setting - session->plan->settings];
  if (!isnan(given)) return given;
  char *end;
  const double value = strtod(setting->value, &end);
  return end == setting->value || *end ? otherwise : value;
}

static ptc_status_t unknown_setting(ptc_session_t *session, const char *name) {
  enum { MAX_NAMES = 64 };
  const char *names[MAX_NAMES];
  int64_t count = 0;
  for (int32_t i = 0; i < session->plan->num_settings && count < MAX_NAMES; i++)
    if (session->plan->settings[i].open)
      names[count++] = without_block(session->plan->settings[i].name);
  const char *near = ptc_nearest_name(without_block(name), names, count);
  return ptc_error(session->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "run-setting",
                   "the plan has no setting \"%s\"%s%s%s; `ptc show %s config` lists them", name,
                   near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "",
                   session->path);
}

ptc_status_t ptc_session_set(ptc_session_t *session, const char *name, const char *value) {
  const ptc_plan_setting_t *setting = find_setting(session, name);
  if (!setting) return unknown_setting(session, name);
  if (!setting->open)
    return ptc_error(session->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "run-setting",
                     "\"%s\" is part of the plan: compile the model again with --set %s=%s", name,
                     setting->name, value);
  char *end;
  errno = 0;
  const double number = strtod(value, &end);
  if (end == value || *end || errno || !isfinite(number) || number < 0)
    return ptc_error(session->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "run-setting",
                     "\"%s\" takes a number from 0, not \"%s\"", name, value);
  const ptc_plan_global_t *global =
      setting->global ? ptc_plan_find_global(session->plan, setting->global) : NULL;
  if (global)
    ptc_executor_set_number(session->executor, global, number);
  else
    session->settings[setting - session->plan->settings] = number;
  return PTC_OK;
}

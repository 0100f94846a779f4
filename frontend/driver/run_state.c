#include "frontend/driver/run_state.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/map.h"
#include "ir/base/vec.h"
#include "runtime/checkpoint.h"
#include "runtime/name_map.h"
#include "runtime/weights.h"

enum { KEEP_CHECKPOINTS = 3 };

// Parts of tensors in the arena of the executor.
typedef struct tensors_s {
  ptc_arena_t arena;
  PTC_VEC(ptc_shard_t) list;
} tensors_t;

static void free_tensors(tensors_t *tensors) {
  PTC_VEC_FREE(&tensors->list);
  ptc_arena_deinit(&tensors->arena);
}

static int64_t num_instances(const ptc_plan_global_t *global) {
  int64_t count = 1;
  for (int32_t c = 0; c < global->num_counts; c++) count *= global->counts[c];
  return count;
}

// |prefix| and the path of instance |i|.
static const char *instance_name(ptc_arena_t *arena, const char *prefix,
                                 const ptc_plan_global_t *global, int64_t i) {
  ptc_str_t path = {0};
  ptc_str_append(&path, prefix);
  ptc_plan_instance_path(global, i, &path);
  const char *name = ptc_arena_strdup(arena, path.data);
  ptc_str_deinit(&path);
  return name;
}

// Adds all globals of |kind|.
static void add_globals(const ptc_session_t *session, const char *kind, tensors_t *tensors) {
  for (int32_t g = 0; g < session->plan->num_globals; g++) {
    const ptc_plan_global_t *global = &session->plan->globals[g];
    if (strcmp(global->kind, kind) != 0) continue;
    for (int64_t i = 0; i < num_instances(global); i++)
      PTC_VEC_PUSH(&tensors->list,
                   ptc_shard_of(session->plan, &session->plan->buffers[global->buffer],
                                session->rank, instance_name(&tensors->arena, "", global, i),
                                ptc_executor_global(session->executor, global, i)));
  }
}

static int by_name(const void *a, const void *b) {
  const ptc_shard_t *x = a, *y = b;
  return strcmp(x->whole.name, y->whole.name);
}

// All globals of |kind| of all stages, each once, by name: the order is that of every rank and every plan. What another
// stage holds, or holds first, is but named.
static void add_all_globals(const ptc_session_t *session, const char *kind, tensors_t *tensors) {
  const ptc_plan_folder_t *folder = &session->program->folder;
  const int64_t size = ptc_plan_world(session->plan) / folder->num_stages;
  ptc_interner_t names;
  ptc_map_t seen = {0};
  ptc_interner_init(&names, &tensors->arena);
  for (int32_t s = 0; s < folder->num_stages; s++) {
    const ptc_plan_t *plan = folder->plans[s];
    const bool here = s == session->plan->stage;
    for (int32_t g = 0; g < plan->num_globals; g++) {
      const ptc_plan_global_t *global = &plan->globals[g];
      if (strcmp(global->kind, kind) != 0) continue;
      for (int64_t i = 0; i < num_instances(global); i++) {
        const char *name = ptc_intern(&names, instance_name(&tensors->arena, "", global, i));
        if (ptc_map_get(&seen, name)) continue;
        ptc_map_set(&seen, name, tensors);
        ptc_shard_t shard =
            ptc_shard_of(plan, &plan->buffers[global->buffer], s * size + session->rank % size,
                         name, here ? ptc_executor_global(session->executor, global, i) : NULL);
        shard.is_owner &= here;
        PTC_VEC_PUSH(&tensors->list, shard);
      }
    }
  }
  ptc_map_deinit(&seen);
  ptc_interner_deinit(&names);
  if (tensors->list.len)
    qsort(tensors->list.data, (size_t)tensors->list.len, sizeof *tensors->list.data, by_name);
}

// The same as whole tensors. What this rank has a part of gets memory of its own if |room|, which the caller frees
// with the list.
static ptc_host_tensor_t *whole_tensors(const tensors_t *tensors, bool room) {
  ptc_host_tensor_t *list = ptc_xmalloc(sizeof *list * (size_t)(tensors->list.len + 1));
  for (int64_t i = 0; i < tensors->list.len; i++) {
    const ptc_shard_t *shard = &tensors->list.data[i];
    list[i] = shard->whole;
    list[i].data = shard->data;
    if (room && !shard->is_whole)
      list[i].data = ptc_xmalloc((size_t)ptc_host_tensor_bytes(&shard->whole) + 1);
  }
  return list;
}

// --- checkpoints of a run

bool ptc_run_state_exists(const char *run_dir) {
  ptc_arena_t arena = {0};
  const char *const *folders;
  const bool any = ptc_checkpoint_list(&arena, run_dir, &folders) > 0;
  ptc_arena_deinit(&arena);
  return any;
}

// A folder of files.
static bool remove_folder(const char *path) {
  DIR *dir = opendir(path);
  if (!dir) return false;
  for (const struct dirent *entry; (entry = readdir(dir));)
    unlinkat(dirfd(dir), entry->d_name, 0);  // fails for . and ..
  closedir(dir);
  return rmdir(path) == 0;
}

ptc_status_t ptc_run_state_remove(ptc_diag_t *diag, const char *run_dir) {
  ptc_arena_t arena = {0};
  const char *const *folders;
  ptc_status_t status = PTC_OK;
  const int64_t count = ptc_checkpoint_list(&arena, run_dir, &folders);
  for (int64_t i = 0; i < count && status == PTC_OK; i++)
    if (!remove_folder(folders[i]))
      status = ptc_error(diag, (ptc_loc_t){.file = folders[i]}, PTC_IO, "remove-checkpoint",
                         "cannot remove the checkpoint: %s", strerror(errno));
  ptc_arena_deinit(&arena);
  return status;
}

// |value| as short as its own precision allows: "0.01", also of an f32.
static const char *number_text(ptc_arena_t *arena, double value) {
  const bool single = (double)(float)value == value;
  char text[40];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    const double again = strtod(text, NULL);
    if (single ? (float)again == (float)value : again == value) break;
  }
  return ptc_arena_strdup(arena, text);
}

// The open settings as they are now.
static int32_t list_settings(const ptc_session_t *session, ptc_arena_t *arena,
                             ptc_checkpoint_setting_t **out_settings) {
  const ptc_plan_t *plan = session->plan;
  *out_settings = PTC_ARENA_ARRAY(arena, ptc_checkpoint_setting_t, plan->num_settings + 1);
  int32_t count = 0;
  for (int32_t i = 0; i < plan->num_settings; i++) {
    const ptc_plan_setting_t *setting = &plan->settings[i];
    if (!setting->open) continue;
    (*out_settings)[count++] = (ptc_checkpoint_setting_t){
        setting->name, number_text(arena, ptc_session_setting(session, setting->name, 0))};
  }
  return count;
}

ptc_status_t ptc_run_state_save(ptc_session_t *session, const char *run_dir, int64_t step) {
  tensors_t model = {0}, optimizer = {0};
  add_all_globals(session, "param", &model);
  add_all_globals(session, "moment", &optimizer);
  add_all_globals(session, "counter", &optimizer);
  ptc_checkpoint_setting_t *settings;
  const int32_t num_settings = list_settings(session, &model.arena, &settings);
  bool fillable;
  const ptc_checkpoint_state_t state = {.step = step,
                                        .position = step * ptc_session_batch(session, &fillable),
                                        .seed = (uint64_t)ptc_session_setting(session, "seed", 0),
                                        .model = session->plan->model,
                                        .settings = settings,
                                        .num_settings = num_settings};
  ptc_status_t status;
  if (session->comm) {
    status = ptc_checkpoint_write_shards(session->diag, session->comm, run_dir, &state,
                                         model.list.data, model.list.len, optimizer.list.data,
                                         optimizer.list.len, KEEP_CHECKPOINTS);
  } else {
    ptc_host_tensor_t *params = whole_tensors(&model, false),
                      *others = whole_tensors(&optimizer, false);
    status = ptc_checkpoint_write(session->diag, run_dir, &state, params, model.list.len, others,
                                  optimizer.list.len, KEEP_CHECKPOINTS);
    free(params);
    free(others);
  }
  free_tensors(&model);
  free_tensors(&optimizer);
  return status;
}

// The seed goes on; other settings are the plan's and the command line's, and a difference is worth a word.
static ptc_status_t compare_settings(ptc_session_t *session, const ptc_checkpoint_state_t *state) {
  for (int32_t i = 0; i < state->num_settings; i++) {
    const ptc_checkpoint_setting_t *then = &state->settings[i];
    const double now = ptc_session_setting(session, then->name, NAN),
                 before = strtod(then->value, NULL);
    if (isnan(now) || now == before || now == (double)(float)before) continue;
    if (strcmp(then->name, "train.seed") == 0)
      PTC_TRY(ptc_session_set(session, then->name, then->value));
    else
      ptc_warning(session->diag, (ptc_loc_t){0}, "setting-changed",
                  "%s is %g now; the checkpoint was written with %s", then->name, now, then->value);
  }
  return PTC_OK;
}

ptc_status_t ptc_run_state_load(ptc_session_t *session, const char *run_dir, bool fall_back,
                                int64_t *out_step) {
  ptc_checkpoint_t checkpoint;
  const ptc_status_t opened =
      ptc_checkpoint_open_latest(session->diag, run_dir, fall_back, &checkpoint);
  if (opened != PTC_OK) {
    ptc_note(session->diag, (ptc_loc_t){0},
             fall_back ? "no checkpoint of the run is intact: --restart begins anew"
                       : "--fall-back goes on from the latest intact checkpoint, --restart begins "
                         "anew");
    return opened;
  }
  tensors_t all = {0};
  add_globals(session, "param", &all);
  add_globals(session, "moment", &all);
  add_globals(session, "counter", &all);
  ptc_status_t status =
      ptc_checkpoint_load_shards(session->diag, &checkpoint, all.list.data, all.list.len);
  if (status == PTC_OK) status = compare_settings(session, &checkpoint.state);
  *out_step = checkpoint.state.step;
  free_tensors(&all);
  ptc_checkpoint_close(&checkpoint);
  return status;
}

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

// |path| is a checkpoint, or a run, whose latest one it is.
static ptc_status_t open_checkpoint(ptc_diag_t *diag, const char *path,
                                    ptc_checkpoint_t *out_checkpoint) {
  ptc_str_t manifest = {0};
  ptc_str_printf(&manifest, "%s/manifest.json", path);
  const bool is_checkpoint = access(manifest.data, F_OK) == 0;
  ptc_str_deinit(&manifest);
  return is_checkpoint ? ptc_checkpoint_open(diag, path, out_checkpoint)
                       : ptc_checkpoint_open_latest(diag, path, false, out_checkpoint);
}

ptc_status_t ptc_run_state_load_params(ptc_session_t *session, const char *path) {
  if (!is_folder(path)) return ptc_run_state_init(session, path, NULL);
  ptc_checkpoint_t checkpoint;
  PTC_TRY(open_checkpoint(session->diag, path, &checkpoint));
  tensors_t params = {0};
  add_globals(session, "param", &params);
  ptc_status_t status =
      ptc_checkpoint_load_shards(session->diag, &checkpoint, params.list.data, params.list.len);
  free_tensors(&params);
  ptc_checkpoint_close(&checkpoint);
  return status;
}

// --- single files

// NULL: none was asked for.
static ptc_status_t read_map(ptc_diag_t *diag, const char *path, ptc_name_map_t **out_map) {
  *out_map = NULL;
  return path ? ptc_name_map_read(diag, path, out_map) : PTC_OK;
}

ptc_status_t ptc_run_state_init(ptc_session_t *session, const char *path, const char *map) {
  ptc_name_map_t *names;
  PTC_TRY(read_map(session->diag, map, &names));
  ptc_weights_t weights;
  tensors_t params = {0};
  add_globals(session, "param", &params);
  ptc_host_tensor_t *whole = whole_tensors(&params, true);
  ptc_status_t status = ptc_weights_open(session->diag, path, &weights);
  if (status == PTC_OK) {
    status = ptc_name_map_import(session->diag, names, weights.files, weights.num_files, whole,
                                 params.list.len);
    ptc_weights_close(&weights);
  }
  for (int64_t i = 0; i < params.list.len; i++) {
    if (params.list.data[i].is_whole) continue;
    if (status == PTC_OK) ptc_shard_load(&params.list.data[i], whole[i].data);
    free(whole[i].data);
  }
  free(whole);
  free_tensors(&params);
  ptc_name_map_destroy(names);
  return status;
}

// The tensors of an open file, in its own memory. The caller frees the list.
static ptc_host_tensor_t *list_entries(const ptc_safetensors_t *file) {
  ptc_host_tensor_t *list = ptc_xmalloc(sizeof *list * (size_t)(file->count + 1));
  for (int64_t i = 0; i < file->count; i++) {
    const ptc_tensor_entry_t *entry = &file->entries[i];
    list[i] = (ptc_host_tensor_t){.name = entry->name,
                                  .num_dims = entry->num_dims,
                                  .data = (void *)(uintptr_t)entry->data,  // only read
                                  .dim_names = entry->dim_names};
    for (int32_t d = 0; d < entry->num_dims; d++) list[i].shape[d] = entry->shape[d];
    for (int t = 0; t < PTC_NUM_DTYPES; t++)
      if (ptc_cell_of_dtype((ptc_dtype_t)t) == entry->cell) list[i].dtype = (ptc_dtype_t)t;
  }
  return list;
}

ptc_status_t ptc_run_state_export(ptc_diag_t *diag, const char *run, const char *output,
                                  const char *map, int64_t *out_count) {
  *out_count = 0;
  ptc_name_map_t *names;
  PTC_TRY(read_map(diag, map, &names));
  ptc_checkpoint_t checkpoint;
  ptc_status_t status = open_checkpoint(diag, run, &checkpoint);
  if (status == PTC_OK) {
    const ptc_safetensors_t *file = &checkpoint.files[0];  // the model's
    ptc_host_tensor_t *params = list_entries(file);
    status = ptc_name_map_export(diag, names, params, file->count, PTC_NUM_DTYPES, output);
    *out_count = file->count;
    free(params);
    ptc_checkpoint_close(&checkpoint);
  }
  ptc_name_map_destroy(names);
  return status;
}

// All ranks write one file, under another name until it is whole.
static ptc_status_t save_shards(ptc_session_t *session, const char *path,
                                const tensors_t *tensors) {
  ptc_str_t temporary = {0};
  ptc_str_printf(&temporary, "%s.tmp", path);
  ptc_shards_file_t file;
  ptc_status_t status = ptc_shards_write(session->diag, session->comm, temporary.data,
                                         tensors->list.data, tensors->list.len, &file);
  if (ptc_session_is_root(session)) {
    if (status == PTC_OK && rename(temporary.data, path) != 0)
      status = ptc_error(session->diag, (ptc_loc_t){0}, PTC_IO, "write-file",
                         "cannot write \"%s\": %s", path, strerror(errno));
    if (status != PTC_OK) unlink(temporary.data);
  }
  free(file.tensor_crcs);
  ptc_str_deinit(&temporary);
  return status;
}

// The gradients of all stages, each once: every rank names them in the same order; what another stage holds is but named.
static void add_all_grads(const ptc_session_t *session, tensors_t *grads) {
  const ptc_plan_folder_t *folder = &session->program->folder;
  const int64_t size = ptc_plan_world(session->plan) / folder->num_stages;
  for (int32_t s = 0; s < folder->num_stages; s++) {
    const ptc_plan_t *plan = folder->plans[s];
    const ptc_task_t *train = ptc_plan_find_task(plan, session->train->name);
    const bool here = s == session->plan->stage;
    for (int32_t r = 0; train && r < train->num_results; r++) {
      const ptc_plan_result_t *result = &train->results[r];
      const ptc_plan_global_t *global = ptc_plan_grad_of(plan, train, r);
      for (int64_t i = 0; global && i < result->num_instances; i++) {
        void *data = here ? ptc_executor_buffer(session->executor, result->buffer,
                                                result->first_instance + i)
                          : NULL;
        ptc_shard_t shard = ptc_shard_of(plan, &plan->buffers[result->buffer],
                                         s * size + session->rank % size,
                                         instance_name(&grads->arena, "grad.", global, i), data);
        shard.is_owner &= here;
        PTC_VEC_PUSH(&grads->list, shard);
      }
    }
  }
  if (grads->list.len)
    qsort(grads->list.data, (size_t)grads->list.len, sizeof *grads->list.data, by_name);
}

ptc_status_t ptc_run_state_dump_grads(ptc_session_t *session, const char *path) {
  tensors_t grads = {0};
  add_all_grads(session, &grads);
  ptc_status_t status;
  if (session->comm) {
    status = save_shards(session, path, &grads);
  } else {
    ptc_host_tensor_t *whole = whole_tensors(&grads, false);
    status = ptc_safetensors_save(session->diag, path, whole, grads.list.len);
    free(whole);
  }
  free_tensors(&grads);
  return status;
}

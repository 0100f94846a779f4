#include "runtime/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/agree.h"
#include "runtime/checkpoint_impl.h"

// Folders that are no checkpoint yet, or no longer: ".step-00000012.PID.tmp".
static const char temporary_end[] = ".tmp";

typedef struct writer_s {
  ptc_diag_t *diag;
  const char *parent;     // RUN/ckpt
  const char *temporary;  // in it
  const char *folder;
  ptc_arena_t arena;
} writer_t;

static ptc_status_t cannot_write(const writer_t *w, const char *path) {
  return ptc_error(w->diag, (ptc_loc_t){0}, PTC_IO, "write-file", "cannot write \"%s\": %s", path,
                   strerror(errno));
}

// --- folders

static bool make_folder(const char *path) { return mkdir(path, 0777) == 0 || errno == EEXIST; }

// Makes |path| and what it lies in.
static bool make_folders(ptc_arena_t *arena, const char *path) {
  char *copy = ptc_arena_strdup(arena, path);
  for (char *c = copy + 1; *c; c++) {
    if (*c != '/') continue;
    *c = '\0';
    if (!make_folder(copy)) return false;
    *c = '/';
  }
  return make_folder(copy);
}

// Removes a folder of files. What cannot be removed stays; it is no checkpoint any more.
static void remove_folder(ptc_arena_t *arena, const char *path) {
  DIR *stream = opendir(path);
  for (struct dirent *entry; stream && (entry = readdir(stream));)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      unlink(ptc_arena_printf(arena, "%s/%s", path, entry->d_name));
  if (stream) closedir(stream);
  rmdir(path);
}

// A temporary folder of a process that is gone, or of this one.
static bool is_left_over(const char *name) {
  size_t len = strlen(name), end = strlen(temporary_end);
  if (strncmp(name, ".step-", 6) != 0 || len <= end || strcmp(name + len - end, temporary_end) != 0)
    return false;
  const char *dot = strchr(name + 1, '.');
  long pid = dot ? strtol(dot + 1, NULL, 10) : 0;
  return pid > 0 && (pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH));
}

static void remove_left_overs(writer_t *w) {
  DIR *stream = opendir(w->parent);
  for (struct dirent *entry; stream && (entry = readdir(stream));)
    if (is_left_over(entry->d_name))
      remove_folder(&w->arena, ptc_arena_printf(&w->arena, "%s/%s", w->parent, entry->d_name));
  if (stream) closedir(stream);
}

// --- content

static ptc_status_t write_tensors(writer_t *w, const char *name, const ptc_host_tensor_t *tensors,
                                  int64_t count, ptc_manifest_file_t *out) {
  const char *path = ptc_arena_printf(&w->arena, "%s/%s", w->temporary, name);
  ptc_safetensors_writer_t file;
  ptc_status_t status = ptc_safetensors_create(w->diag, path, tensors, count, &file);
  for (int64_t i = 0; i < count && status == PTC_OK; i++)
    status = ptc_safetensors_put(&file, tensors[i].data, ptc_host_tensor_bytes(&tensors[i]));
  if (status == PTC_OK) status = ptc_safetensors_finish(&file);
  const char **names = PTC_ARENA_ARRAY(&w->arena, const char *, count);
  uint32_t *crcs = PTC_ARENA_ARRAY(&w->arena, uint32_t, count);
  for (int64_t i = 0; i < count && status == PTC_OK; i++) {
    names[i] = tensors[i].name;
    crcs[i] = file.tensor_crcs[i];
  }
  *out = (ptc_manifest_file_t){.name = name,
                               .bytes = file.file_bytes,
                               .crc = file.file_crc,
                               .num_tensors = count,
                               .tensors = names,
                               .tensor_crcs = crcs};
  ptc_safetensors_writer_deinit(&file);
  return status;
}

static ptc_status_t write_manifest(writer_t *w, const ptc_checkpoint_state_t *state,
                                   const ptc_manifest_file_t *files, int32_t num_files) {
  const char *path = ptc_arena_printf(&w->arena, "%s/manifest.json", w->temporary);
  char *text = ptc_manifest_print(state, files, num_files);
  errno = EILSEQ;
  int fd = text ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  bool ok = fd >= 0 && ptc_write_all(fd, text, (int64_t)strlen(text)) && fsync(fd) == 0;
  int error = errno;
  if (fd >= 0 && close(fd) != 0 && ok) {
    ok = false;
    error = errno;
  }
  free(text);
  errno = error;
  return ok ? PTC_OK : cannot_write(w, path);
}

// The temporary folder becomes the checkpoint. One of the same step changes places with it, in one
// instant where the system can do that.
static ptc_status_t publish(writer_t *w) {
  if (rename(w->temporary, w->folder) == 0) return PTC_OK;
  if (errno != EEXIST && errno != ENOTEMPTY) return cannot_write(w, w->folder);
  if (renameat2(AT_FDCWD, w->temporary, AT_FDCWD, w->folder, RENAME_EXCHANGE) == 0) return PTC_OK;
  if (errno != EINVAL && errno != ENOSYS) return cannot_write(w, w->folder);
  const char *aside = ptc_arena_printf(&w->arena, "%s%s", w->temporary, temporary_end);
  if (rename(w->folder, aside) != 0) return cannot_write(w, w->folder);
  if (rename(w->temporary, w->folder) != 0) {
    ptc_status_t status = cannot_write(w, w->folder);
    (void)rename(aside, w->folder);
    return status;
  }
  remove_folder(&w->arena, aside);
  return PTC_OK;
}

// Removes all but the latest |keep|. One is renamed before it is taken apart, so that no half of it is ever
// found. Those of later steps are of a run that was resumed from before them: they make way, under a name that
// no run resumes from.
static void remove_old(writer_t *w, const char *run, int32_t keep) {
  const char *const *folders;
  int64_t count = ptc_checkpoint_list(&w->arena, run, &folders), kept = 0;
  for (int64_t i = 0; i < count; i++) {
    if (strcmp(folders[i], w->folder) == 0) kept = 1;
    if (kept == 0) {
      const char *aside = ptc_arena_printf(&w->arena, "%s/superseded-%s", w->parent,
                                           folders[i] + strlen(w->parent) + 1);
      remove_folder(&w->arena, aside);
      (void)rename(folders[i], aside);
    } else if (kept++ > keep && keep > 0 && rename(folders[i], w->temporary) == 0) {
      remove_folder(&w->arena, w->temporary);
    }
  }
}

// --- all together

static ptc_status_t write_all(writer_t *w, const ptc_checkpoint_state_t *state,
                              const ptc_host_tensor_t *model, int64_t num_model,
                              const ptc_host_tensor_t *optimizer, int64_t num_optimizer) {
  if (!make_folders(&w->arena, w->parent)) return cannot_write(w, w->parent);
  remove_left_overs(w);
  if (mkdir(w->temporary, 0777) != 0) return cannot_write(w, w->temporary);
  ptc_manifest_file_t files[2];
  PTC_TRY(write_tensors(w, "model.safetensors", model, num_model, &files[0]));
  PTC_TRY(write_tensors(w, "optimizer.safetensors", optimizer, num_optimizer, &files[1]));
  PTC_TRY(write_manifest(w, state, files, 2));
  if (!ptc_sync_folder(w->temporary)) return cannot_write(w, w->temporary);
  PTC_TRY(publish(w));
  return ptc_sync_folder(w->parent) ? PTC_OK : cannot_write(w, w->parent);
}

// |pid|: of the process that answers for the temporary folder.
static void name_folders(writer_t *w, const char *run, int64_t step, long pid) {
  w->parent = ptc_arena_printf(&w->arena, "%s/ckpt", run);
  w->folder = ptc_arena_printf(&w->arena, "%s/step-%08lld", w->parent, (long long)step);
  w->temporary = ptc_arena_printf(&w->arena, "%s/.step-%08lld.%ld%s", w->parent, (long long)step,
                                  pid, temporary_end);
}

ptc_status_t ptc_checkpoint_write(ptc_diag_t *diag, const char *run,
                                  const ptc_checkpoint_state_t *state,
                                  const ptc_host_tensor_t *model, int64_t num_model,
                                  const ptc_host_tensor_t *optimizer, int64_t num_optimizer,
                                  int32_t keep) {
  writer_t w = {.diag = diag};
  name_folders(&w, run, state->step, (long)getpid());
  ptc_status_t status = write_all(&w, state, model, num_model, optimizer, num_optimizer);
  remove_folder(&w.arena, w.temporary);  // what failed, or the one that was replaced
  if (status == PTC_OK) remove_old(&w, run, keep);
  ptc_arena_deinit(&w.arena);
  return status;
}

// --- of many ranks

static ptc_status_t write_shards(writer_t *w, ptc_comm_t *comm, const char *name,
                                 const ptc_shard_t *shards, int64_t count,
                                 ptc_manifest_file_t *out) {
  const char *path = ptc_arena_printf(&w->arena, "%s/%s", w->temporary, name);
  const char **names = PTC_ARENA_ARRAY(&w->arena, const char *, count);
  uint32_t *crcs = PTC_ARENA_ARRAY(&w->arena, uint32_t, count);
  ptc_shards_file_t file;
  const ptc_status_t status = ptc_shards_write(w->diag, comm, path, shards, count, &file);
  for (int64_t i = 0; i < count; i++) {
    names[i] = shards[i].whole.name;
    if (file.tensor_crcs) crcs[i] = file.tensor_crcs[i];
  }
  *out = (ptc_manifest_file_t){.name = name,
                               .bytes = file.bytes,
                               .crc = file.crc,
                               .num_tensors = count,
                               .tensors = names,
                               .tensor_crcs = crcs};
  free(file.tensor_crcs);
  return status;
}

static ptc_status_t begin_folder(writer_t *w) {
  if (!make_folders(&w->arena, w->parent)) return cannot_write(w, w->parent);
  remove_left_overs(w);
  return mkdir(w->temporary, 0777) == 0 ? PTC_OK : cannot_write(w, w->temporary);
}

static ptc_status_t end_folder(writer_t *w, const ptc_checkpoint_state_t *state,
                               const ptc_manifest_file_t *files) {
  PTC_TRY(write_manifest(w, state, files, 2));
  if (!ptc_sync_folder(w->temporary)) return cannot_write(w, w->temporary);
  PTC_TRY(publish(w));
  return ptc_sync_folder(w->parent) ? PTC_OK : cannot_write(w, w->parent);
}

static ptc_status_t write_all_shards(writer_t *w, ptc_comm_t *comm,
                                     const ptc_checkpoint_state_t *state, const ptc_shard_t *model,
                                     int64_t num_model, const ptc_shard_t *optimizer,
                                     int64_t num_optimizer) {
  const bool root = comm->rank == 0;
  ptc_manifest_file_t files[2];
  PTC_TRY(ptc_agree_status(comm, w->diag, root ? begin_folder(w) : PTC_OK));
  PTC_TRY(write_shards(w, comm, "model.safetensors", model, num_model, &files[0]));
  PTC_TRY(write_shards(w, comm, "optimizer.safetensors", optimizer, num_optimizer, &files[1]));
  return ptc_agree_status(comm, w->diag, root ? end_folder(w, state, files) : PTC_OK);
}

ptc_status_t ptc_checkpoint_write_shards(ptc_diag_t *diag, ptc_comm_t *comm, const char *run,
                                         const ptc_checkpoint_state_t *state,
                                         const ptc_shard_t *model, int64_t num_model,
                                         const ptc_shard_t *optimizer, int64_t num_optimizer,
                                         int32_t keep) {
  writer_t w = {.diag = diag};
  // Rank 0 answers for the folder, so that all use its number.
  int64_t pid;
  PTC_TRY(ptc_agree_most(comm, diag, comm->rank == 0 ? (int64_t)getpid() : 0, &pid));
  name_folders(&w, run, state->step, (long)pid);
  const ptc_status_t status =
      write_all_shards(&w, comm, state, model, num_model, optimizer, num_optimizer);
  if (comm->rank == 0) {
    remove_folder(&w.arena, w.temporary);
    if (status == PTC_OK) remove_old(&w, run, keep);
  }
  ptc_arena_deinit(&w.arena);
  return status;
}

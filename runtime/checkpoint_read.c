#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "ir/base/vec.h"
#include "runtime/checkpoint_impl.h"

// --- the list

typedef struct found_s {
  const char *folder;
  long long step;
} found_t;

static int later_first(const void *a, const void *b) {
  const found_t *x = a, *y = b;
  return (x->step < y->step) - (x->step > y->step);
}

// "step-00000012"; -1 for any other name.
static long long step_of(const char *name) {
  const char *digits = name + strlen("step-");
  if (strncmp(name, "step-", strlen("step-")) != 0) return -1;
  size_t len = strlen(digits);
  if (len < 8 || len > 18 || strspn(digits, "0123456789") != len) return -1;
  return strtoll(digits, NULL, 10);
}

int64_t ptc_checkpoint_list(ptc_arena_t *arena, const char *run, const char *const **out_folders) {
  *out_folders = NULL;
  const char *parent = ptc_arena_printf(arena, "%s/ckpt", run);
  PTC_VEC(found_t) found = {0};
  DIR *stream = opendir(parent);
  for (struct dirent *entry; stream && (entry = readdir(stream));) {
    found_t one = {.step = step_of(entry->d_name)};
    if (one.step < 0) continue;
    one.folder = ptc_arena_printf(arena, "%s/%s", parent, entry->d_name);
    PTC_VEC_PUSH(&found, one);
  }
  if (stream) closedir(stream);
  if (found.len) qsort(found.data, (size_t)found.len, sizeof(*found.data), later_first);
  const char **folders = PTC_ARENA_ARRAY(arena, const char *, found.len);
  for (int64_t i = 0; i < found.len; i++) folders[i] = found.data[i].folder;
  *out_folders = folders;
  int64_t count = found.len;
  PTC_VEC_FREE(&found);
  return count;
}

// --- opening

static ptc_status_t damaged(ptc_diag_t *diag, const char *path, const char *what) {
  return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-checkpoint", "\"%s\": %s", path,
                   what);
}

// The file's checksum is wrong: names the tensor, if it lies in one.
static ptc_status_t name_damage(ptc_diag_t *diag, const ptc_safetensors_t *file,
                                const ptc_manifest_file_t *stated) {
  for (int64_t i = 0; i < stated->num_tensors; i++) {
    const ptc_tensor_entry_t *entry = ptc_safetensors_find(file, stated->tensors[i]);
    if (entry && crc32_z(0, entry->data, (z_size_t)entry->bytes) == stated->tensor_crcs[i])
      continue;
    ptc_str_t what = {0};
    ptc_str_printf(&what, "it is damaged: \"%.200s\" is not what was saved", stated->tensors[i]);
    ptc_status_t status = damaged(diag, file->path, what.data);
    ptc_str_deinit(&what);
    return status;
  }
  return damaged(diag, file->path, "it is damaged: its checksum is not what the manifest says");
}

static ptc_status_t open_file(ptc_diag_t *diag, ptc_checkpoint_t *checkpoint,
                              const ptc_manifest_file_t *stated) {
  const char *path =
      ptc_arena_printf(&checkpoint->arena, "%s/%s", checkpoint->folder, stated->name);
  ptc_safetensors_t *file = &checkpoint->files[checkpoint->num_files];
  PTC_TRY(ptc_safetensors_open(diag, path, file));
  checkpoint->num_files++;
  if (file->mapping.bytes != stated->bytes)
    return damaged(diag, path, "it is not as long as the manifest says");
  if (crc32_z(0, file->mapping.data, (z_size_t)file->mapping.bytes) != stated->crc)
    return name_damage(diag, file, stated);
  return PTC_OK;
}

static ptc_status_t open_all(ptc_diag_t *diag, ptc_checkpoint_t *checkpoint) {
  ptc_arena_t *arena = &checkpoint->arena;
  const char *path = ptc_arena_printf(arena, "%s/manifest.json", checkpoint->folder);
  ptc_mapping_t mapping;
  PTC_TRY(ptc_mapping_open(diag, path, &mapping));
  ptc_manifest_file_t *files;
  int32_t num_files;
  ptc_status_t status = ptc_manifest_parse(diag, path, (const char *)mapping.data, mapping.bytes,
                                           arena, &checkpoint->state, &files, &num_files);
  ptc_mapping_close(&mapping);
  PTC_TRY(status);
  checkpoint->files = PTC_ARENA_ARRAY(arena, ptc_safetensors_t, num_files);
  for (int32_t i = 0; i < num_files; i++) PTC_TRY(open_file(diag, checkpoint, &files[i]));
  return PTC_OK;
}

ptc_status_t ptc_checkpoint_open(ptc_diag_t *diag, const char *folder,
                                 ptc_checkpoint_t *out_checkpoint) {
  *out_checkpoint = (ptc_checkpoint_t){0};
  out_checkpoint->folder = ptc_arena_strdup(&out_checkpoint->arena, folder);
  ptc_status_t status = open_all(diag, out_checkpoint);
  if (status != PTC_OK) ptc_checkpoint_close(out_checkpoint);
  return status;
}

ptc_status_t ptc_checkpoint_open_latest(ptc_diag_t *diag, const char *run, bool fall_back,
                                        ptc_checkpoint_t *out_checkpoint) {
  *out_checkpoint = (ptc_checkpoint_t){0};
  ptc_arena_t arena = {0};
  const char *const *folders;
  int64_t count = ptc_checkpoint_list(&arena, run, &folders);
  ptc_status_t status = PTC_IO;
  bool done = false;
  for (int64_t i = 0; i < count && !done; i++) {
    if (!fall_back || i == count - 1) {
      status = ptc_checkpoint_open(diag, folders[i], out_checkpoint);
      done = true;
    } else {
      ptc_diag_t faults;
      ptc_diag_init(&faults);
      status = ptc_checkpoint_open(&faults, folders[i], out_checkpoint);
      done = status == PTC_OK;
      if (!done)
        ptc_warning(diag, (ptc_loc_t){0}, "bad-checkpoint", "%s; the checkpoint before is tried",
                    faults.num_items ? faults.items[0].message : folders[i]);
      ptc_diag_deinit(&faults);
    }
  }
  if (count == 0)
    status = ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "no-checkpoint",
                       "\"%s\" has no checkpoint to resume from", run);
  else if (status != PTC_OK && !fall_back && count > 1)
    ptc_note(diag, (ptc_loc_t){0}, "the checkpoint before it is \"%s\"", folders[1]);
  ptc_arena_deinit(&arena);
  return status;
}

void ptc_checkpoint_close(ptc_checkpoint_t *checkpoint) {
  for (int32_t i = 0; i < checkpoint->num_files; i++) ptc_safetensors_close(&checkpoint->files[i]);
  ptc_arena_deinit(&checkpoint->arena);
  *checkpoint = (ptc_checkpoint_t){0};
}

// --- loading

// The entry of |tensor|'s name, of its dtype and shape.
static ptc_status_t find_tensor(ptc_diag_t *diag, const ptc_checkpoint_t *checkpoint,
                                const ptc_host_tensor_t *tensor,
                                const ptc_tensor_entry_t **out_entry) {
  const ptc_tensor_entry_t *entry = NULL;
  for (int32_t i = 0; i < checkpoint->num_files && !entry; i++)
    entry = ptc_safetensors_find(&checkpoint->files[i], tensor->name);
  bool same = entry && entry->cell == ptc_cell_of_dtype(tensor->dtype) &&
              entry->num_dims == tensor->num_dims;
  for (int32_t d = 0; same && d < tensor->num_dims; d++) same = entry->shape[d] == tensor->shape[d];
  if (!same)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "checkpoint-tensor",
                     "the checkpoint \"%s\" has \"%s\" %s; it is of another model",
                     checkpoint->folder, tensor->name,
                     entry ? "with another shape or dtype" : "not");
  *out_entry = entry;
  return PTC_OK;
}

ptc_status_t ptc_checkpoint_load(ptc_diag_t *diag, const ptc_checkpoint_t *checkpoint,
                                 const ptc_host_tensor_t *tensors, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const ptc_tensor_entry_t *entry;
    PTC_TRY(find_tensor(diag, checkpoint, &tensors[i], &entry));
    if (entry->bytes) memcpy(tensors[i].data, entry->data, (size_t)entry->bytes);
  }
  return PTC_OK;
}

ptc_status_t ptc_checkpoint_load_shards(ptc_diag_t *diag, const ptc_checkpoint_t *checkpoint,
                                        const ptc_shard_t *shards, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const ptc_tensor_entry_t *entry;
    PTC_TRY(find_tensor(diag, checkpoint, &shards[i].whole, &entry));
    if (entry->bytes) ptc_shard_load(&shards[i], entry->data);
  }
  return PTC_OK;
}

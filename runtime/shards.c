#include "runtime/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/agree.h"

// --- where the elements lie

static void find_runs(const ptc_mesh_t *mesh, const ptc_dim_t *dim, const int64_t *coords,
                      ptc_shard_run_t *runs) {
  const int64_t shard = ptc_dim_shard_index(mesh, dim, coords);
  const int64_t local = ptc_dim_local_extent(mesh, dim);
  const int64_t num = dim->dist == PTC_DIST_ZIGZAG ? 2 : 1, each = local / num;
  for (int64_t i = 0; i < num; i++) {
    const int64_t whole = ptc_dim_global_index(mesh, dim, shard, i * each);
    int64_t count = dim->extent - whole;
    if (count < 0) count = 0;
    if (count > each) count = each;
    runs[i] = (ptc_shard_run_t){whole, i * each, count};
  }
}

ptc_shard_t ptc_shard_of(const ptc_plan_t *plan, const ptc_buffer_t *buffer, int64_t rank,
                         const char *name, void *data) {
  ptc_shard_t shard = {.whole = {.name = name,
                                 .dtype = buffer->dtype,
                                 .num_dims = buffer->num_dims,
                                 .dim_names = buffer->dim_names},
                       .data = data,
                       .is_whole = true,
                       .is_owner = ptc_plan_is_owner(plan, buffer, rank)};
  int64_t coords[PTC_PLAN_MAX_LEVELS];
  ptc_mesh_coords(&plan->mesh, rank, coords);
  for (int32_t d = 0; d < buffer->num_dims; d++) {
    shard.extents[d] = buffer->extents[d];
    shard.whole.shape[d] = buffer->layout ? buffer->layout[d].extent : buffer->extents[d];
    if (buffer->layout)
      find_runs(&plan->mesh, &buffer->layout[d], coords, shard.runs[d]);
    else
      shard.runs[d][0] = (ptc_shard_run_t){0, 0, buffer->extents[d]};
    if (buffer->layout && buffer->layout[d].num_axes) shard.is_whole = false;
  }
  return shard;
}

typedef struct walk_s {
  const ptc_shard_t *shard;
  ptc_shard_fn_t fn;
  void *arg;
  int32_t last;  // dims after it are whole: one run of bytes goes over all of them
} walk_t;

static ptc_status_t walk_dim(const walk_t *w, int32_t d, int64_t whole_at, int64_t local_at,
                             int64_t bytes) {
  const ptc_shard_t *s = w->shard;
  if (d > w->last) return w->fn(w->arg, whole_at, s->data + local_at, bytes);
  // |at| so far counts elements of the dims before; |bytes| those of one element of dim |last|.
  for (int i = 0; i < PTC_SHARD_RUNS; i++) {
    const ptc_shard_run_t *run = &s->runs[d][i];
    const int64_t whole = whole_at * s->whole.shape[d] + run->whole;
    const int64_t local = local_at * s->extents[d] + run->local;
    if (run->count <= 0) continue;
    if (d == w->last) {
      PTC_TRY(w->fn(w->arg, whole * bytes, s->data + local * bytes, run->count * bytes));
      continue;
    }
    for (int64_t n = 0; n < run->count; n++)
      PTC_TRY(walk_dim(w, d + 1, whole + n, local + n, bytes));
  }
  return PTC_OK;
}

ptc_status_t ptc_shard_walk(const ptc_shard_t *shard, ptc_shard_fn_t fn, void *arg) {
  walk_t walk = {shard, fn, arg, shard->whole.num_dims - 1};
  int64_t bytes = ptc_dtype_bytes(shard->whole.dtype);
  for (; walk.last >= 0 && shard->runs[walk.last][0].count == shard->whole.shape[walk.last] &&
         shard->extents[walk.last] == shard->whole.shape[walk.last];
       walk.last--)
    bytes *= shard->whole.shape[walk.last];
  if (bytes == 0) return PTC_OK;
  return walk_dim(&walk, 0, 0, 0, bytes);
}

static ptc_status_t take(void *arg, int64_t whole_at, char *part, int64_t bytes) {
  memcpy(part, (const char *)arg + whole_at, (size_t)bytes);
  return PTC_OK;
}

void ptc_shard_load(const ptc_shard_t *shard, const void *whole) {
  (void)ptc_shard_walk(shard, take, (void *)(uintptr_t)whole);  // only read
}

// --- writing

typedef struct writer_s {
  ptc_diag_t *diag;
  const char *path;
  const ptc_shard_t *shards;
  int64_t count;
  int fd;
  int64_t begin;  // of the tensor in the file
} writer_t;

static ptc_status_t fail(const writer_t *w) {
  return ptc_error(w->diag, (ptc_loc_t){0}, PTC_IO, "write-file", "cannot write \"%s\": %s",
                   w->path, strerror(errno));
}

// The header, and room for the data.
static ptc_status_t reserve(const writer_t *w) {
  ptc_host_tensor_t *tensors = ptc_xmalloc((size_t)(w->count + 1) * sizeof *tensors);
  for (int64_t i = 0; i < w->count; i++) tensors[i] = w->shards[i].whole;
  const ptc_status_t status = ptc_safetensors_reserve(w->diag, w->path, tensors, w->count);
  free(tensors);
  return status;
}

static ptc_status_t put(void *arg, int64_t whole_at, char *part, int64_t bytes) {
  const writer_t *w = arg;
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n =
        pwrite(w->fd, part + done, (size_t)(bytes - done), (off_t)(w->begin + whole_at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return fail(w);
    done += n;
  }
  return PTC_OK;
}

static ptc_status_t write_owned(writer_t *w) {
  ptc_safetensors_t file;
  PTC_TRY(ptc_safetensors_open(w->diag, w->path, &file));
  w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
  ptc_status_t status = w->fd < 0 ? fail(w) : PTC_OK;
  for (int64_t i = 0; i < w->count && status == PTC_OK; i++) {
    if (!w->shards[i].is_owner) continue;
    const ptc_tensor_entry_t *entry = ptc_safetensors_find(&file, w->shards[i].whole.name);
    if (!entry) continue;  // it was just announced
    w->begin = entry->data - (const unsigned char *)file.mapping.data;
    status = ptc_shard_walk(&w->shards[i], put, w);
  }
  if (status == PTC_OK && fsync(w->fd) != 0) status = fail(w);
  if (w->fd >= 0) close(w->fd);
  ptc_safetensors_close(&file);
  return status;
}

// The file is complete: what it holds is read back once.
static ptc_status_t sum_up(const writer_t *w, ptc_shards_file_t *out) {
  ptc_safetensors_t file;
  PTC_TRY(ptc_safetensors_open(w->diag, w->path, &file));
  out->bytes = file.mapping.bytes;
  out->tensor_crcs = ptc_xmalloc((size_t)(w->count + 1) * sizeof *out->tensor_crcs);
  const unsigned char *data = file.mapping.data;
  uint32_t crc = (uint32_t)crc32_z(0, data, (z_size_t)file.header_bytes);
  for (int64_t i = 0; i < w->count; i++) {
    const ptc_tensor_entry_t *entry = ptc_safetensors_find(&file, w->shards[i].whole.name);
    out->tensor_crcs[i] = (uint32_t)crc32_z(0, entry->data, (z_size_t)entry->bytes);
    crc = (uint32_t)crc32_combine(crc, out->tensor_crcs[i], entry->bytes);
  }
  out->crc = crc;
  ptc_safetensors_close(&file);
  return PTC_OK;
}

ptc_status_t ptc_shards_write(ptc_diag_t *diag, ptc_comm_t *comm, const char *path,
                              const ptc_shard_t *shards, int64_t count,
                              ptc_shards_file_t *out_file) {
  writer_t w = {.diag = diag, .path = path, .shards = shards, .count = count, .fd = -1};
  *out_file = (ptc_shards_file_t){0};
  PTC_TRY(ptc_agree_status(comm, diag, comm->rank == 0 ? reserve(&w) : PTC_OK));
  PTC_TRY(ptc_agree_status(comm, diag, write_owned(&w)));
  return ptc_agree_status(comm, diag, comm->rank == 0 ? sum_up(&w, out_file) : PTC_OK);
}

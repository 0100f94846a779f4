#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/safetensors.h"

// Bytes that are checksummed and written while they are in cache.
enum { PIECE_BYTES = 1 << 20 };

// --- the header

static json_t *entry_of(const ptc_host_tensor_t *tensor, int64_t begin, int64_t end) {
  json_t *shape = json_array();
  for (int32_t d = 0; d < tensor->num_dims; d++)
    json_array_append_new(shape, json_integer(tensor->shape[d]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", ptc_cell_name(ptc_cell_of_dtype(tensor->dtype)),
                   "shape", shape, "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static void add_dims(json_t *metadata, const ptc_host_tensor_t *tensor) {
  ptc_str_t key = {0}, dims = {0};
  ptc_str_printf(&key, "dims:%s", tensor->name);
  ptc_str_append(&dims, "");
  for (int32_t d = 0; d < tensor->num_dims; d++)
    ptc_str_printf(&dims, "%s%s", d ? " " : "", tensor->dim_names[d]);
  json_object_set_new(metadata, key.data, json_string(dims.data));
  ptc_str_deinit(&key);
  ptc_str_deinit(&dims);
}

// The JSON text, padded with spaces so that the data begin at a multiple of 8; NULL if a name cannot stand
// there: |out_fault| says which, |out_why| why.
static char *write_header(const ptc_host_tensor_t *tensors, int64_t count, const char **out_fault,
                          const char **out_why) {
  json_t *root = json_object(), *metadata = json_object();
  int64_t offset = 0;
  *out_fault = NULL;
  for (int64_t i = 0; i < count && !*out_fault; i++) {
    const int64_t end = offset + ptc_host_tensor_bytes(&tensors[i]);
    *out_why = "two tensors have that name";
    if (json_object_get(root, tensors[i].name)) *out_fault = tensors[i].name;
    if (!*out_fault &&
        json_object_set_new(root, tensors[i].name, entry_of(&tensors[i], offset, end))) {
      *out_fault = tensors[i].name;
      *out_why = "it is no UTF-8";
    }
    if (strcmp(tensors[i].name, "__metadata__") == 0) {
      *out_fault = tensors[i].name;
      *out_why = "the format has another use for that name";
    }
    if (tensors[i].dim_names && tensors[i].num_dims) add_dims(metadata, &tensors[i]);
    offset = end;
  }
  if (json_object_size(metadata)) json_object_set(root, "__metadata__", metadata);
  json_decref(metadata);
  char *text = *out_fault ? NULL : json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (!text) return NULL;
  size_t len = strlen(text), padded = (len + 7) / 8 * 8;
  char *header = ptc_xmalloc(padded + 1);
  memset(header, ' ', padded);
  memcpy(header, text, len);
  header[padded] = '\0';
  free(text);
  return header;
}

// --- the file

static ptc_status_t fail(ptc_safetensors_writer_t *writer, const char *why) {
  if (writer->fd >= 0) {
    close(writer->fd);
    unlink(writer->temporary.data);
  }
  writer->fd = -1;
  return ptc_error(writer->diag, (ptc_loc_t){0}, PTC_IO, "write-file", "cannot write \"%s\": %s",
                   writer->path.data, why);
}

static ptc_status_t put(ptc_safetensors_writer_t *writer, const void *data, int64_t num_bytes) {
  if (!ptc_write_all(writer->fd, data, num_bytes)) return fail(writer, strerror(errno));
  writer->file_bytes += num_bytes;
  return PTC_OK;
}

ptc_status_t ptc_safetensors_create(ptc_diag_t *diag, const char *path,
                                    const ptc_host_tensor_t *tensors, int64_t count,
                                    ptc_safetensors_writer_t *out_writer) {
  ptc_safetensors_writer_t *writer = out_writer;
  *writer = (ptc_safetensors_writer_t){.diag = diag, .fd = -1, .count = count};
  ptc_str_append(&writer->path, path);
  const char *fault, *why = "the header is too large";
  char *header = write_header(tensors, count, &fault, &why);
  if (!header)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "tensor-name",
                     "\"%s\" cannot be written to \"%s\": %s", fault ? fault : "", path, why);
  writer->bytes = ptc_xmalloc((size_t)(count + 1) * sizeof(*writer->bytes));
  writer->tensor_crcs = ptc_xmalloc((size_t)(count + 1) * sizeof(*writer->tensor_crcs));
  for (int64_t i = 0; i < count; i++) {
    writer->bytes[i] = ptc_host_tensor_bytes(&tensors[i]);
    writer->tensor_crcs[i] = 0;
  }
  ptc_str_printf(&writer->temporary, "%s.%ld.tmp", path, (long)getpid());
  writer->fd = open(writer->temporary.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  ptc_status_t status = writer->fd < 0 ? fail(writer, strerror(errno)) : PTC_OK;
  uint64_t len = strlen(header);
  if (status == PTC_OK) status = put(writer, &len, sizeof(len));
  if (status == PTC_OK) status = put(writer, header, (int64_t)len);
  writer->file_crc = (uint32_t)crc32_z(0, (const Bytef *)&len, sizeof(len));
  writer->file_crc = (uint32_t)crc32_z(writer->file_crc, (const Bytef *)header, (z_size_t)len);
  free(header);
  return status;
}

ptc_status_t ptc_safetensors_put(ptc_safetensors_writer_t *writer, const void *data,
                                 int64_t num_bytes) {
  const unsigned char *from = data;
  while (num_bytes > 0) {
    while (writer->current < writer->count && writer->done == writer->bytes[writer->current]) {
      writer->current++;
      writer->done = 0;
    }
    if (writer->fd < 0) return PTC_IO;
    if (writer->current == writer->count) return fail(writer, "more bytes than were announced");
    int64_t piece = writer->bytes[writer->current] - writer->done;
    if (piece > num_bytes) piece = num_bytes;
    if (piece > PIECE_BYTES) piece = PIECE_BYTES;
    PTC_TRY(put(writer, from, piece));
    uint32_t *crc = &writer->tensor_crcs[writer->current];
    *crc = (uint32_t)crc32_z(*crc, from, (z_size_t)piece);
    writer->done += piece;
    from += piece;
    num_bytes -= piece;
  }
  return PTC_OK;
}

static bool is_complete(const ptc_safetensors_writer_t *writer) {
  int64_t i = writer->current, done = writer->done;
  for (; i < writer->count && done == writer->bytes[i]; i++) done = 0;
  return i == writer->count;
}

ptc_status_t ptc_safetensors_finish(ptc_safetensors_writer_t *writer) {
  if (writer->fd < 0) return PTC_IO;
  if (!is_complete(writer)) return fail(writer, "not all bytes were given");
  if (fsync(writer->fd) != 0) return fail(writer, strerror(errno));
  int closed = close(writer->fd);
  writer->fd = -1;
  for (int64_t i = 0; i < writer->count; i++)
    writer->file_crc =
        (uint32_t)crc32_combine(writer->file_crc, writer->tensor_crcs[i], writer->bytes[i]);
  if (closed == 0 && rename(writer->temporary.data, writer->path.data) == 0 &&
      ptc_sync_parent(writer->path.data))
    return PTC_OK;
  int error = errno;
  unlink(writer->temporary.data);
  return fail(writer, strerror(error));
}

void ptc_safetensors_writer_deinit(ptc_safetensors_writer_t *writer) {
  if (writer->fd >= 0) {
    close(writer->fd);
    unlink(writer->temporary.data);
  }
  ptc_str_deinit(&writer->path);
  ptc_str_deinit(&writer->temporary);
  free(writer->bytes);
  free(writer->tensor_crcs);
  *writer = (ptc_safetensors_writer_t){.fd = -1};
}

ptc_status_t ptc_safetensors_save(ptc_diag_t *diag, const char *path,
                                  const ptc_host_tensor_t *tensors, int64_t count) {
  ptc_safetensors_writer_t writer;
  ptc_status_t status = ptc_safetensors_create(diag, path, tensors, count, &writer);
  for (int64_t i = 0; i < count && status == PTC_OK; i++)
    status = ptc_safetensors_put(&writer, tensors[i].data, ptc_host_tensor_bytes(&tensors[i]));
  if (status == PTC_OK) status = ptc_safetensors_finish(&writer);
  ptc_safetensors_writer_deinit(&writer);
  return status;
}

ptc_status_t ptc_safetensors_reserve(ptc_diag_t *diag, const char *path,
                                     const ptc_host_tensor_t *tensors, int64_t count) {
  ptc_safetensors_writer_t writer;
  ptc_status_t status = ptc_safetensors_create(diag, path, tensors, count, &writer);
  int64_t bytes = writer.file_bytes;
  for (int64_t i = 0; i < count; i++) bytes += ptc_host_tensor_bytes(&tensors[i]);
  if (status == PTC_OK && ftruncate(writer.fd, (off_t)bytes) != 0)
    status = fail(&writer, strerror(errno));
  if (status == PTC_OK && rename(writer.temporary.data, path) != 0)
    status = fail(&writer, strerror(errno));
  if (status == PTC_OK) {
    close(writer.fd);
    writer.fd = -1;
  }
  ptc_safetensors_writer_deinit(&writer);
  return status;
}

// --- doubles

static ptc_status_t put_doubles(ptc_safetensors_writer_t *writer,
                                const ptc_named_tensor_t *tensor) {
  unsigned char piece[8 * 1024];
  const int64_t each = ptc_dtype_bytes(tensor->dtype);
  for (int64_t done = 0; done < tensor->num_elements;) {
    int64_t n = 0;
    for (; n < 1024 && done < tensor->num_elements; n++)
      ptc_cell_put(tensor->dtype, tensor->data[done++], piece + n * each);
    PTC_TRY(ptc_safetensors_put(writer, piece, n * each));
  }
  return PTC_OK;
}

ptc_status_t ptc_safetensors_write(ptc_diag_t *diag, const char *path,
                                   const ptc_named_tensor_t *tensors, int64_t count) {
  ptc_host_tensor_t *announced = ptc_xmalloc((size_t)(count + 1) * sizeof(*announced));
  for (int64_t i = 0; i < count; i++) {
    announced[i] = (ptc_host_tensor_t){
        .name = tensors[i].name, .dtype = tensors[i].dtype, .num_dims = tensors[i].num_dims};
    memcpy(announced[i].shape, tensors[i].shape, sizeof(tensors[i].shape));
  }
  ptc_safetensors_writer_t writer;
  ptc_status_t status = ptc_safetensors_create(diag, path, announced, count, &writer);
  for (int64_t i = 0; i < count && status == PTC_OK; i++)
    status = put_doubles(&writer, &tensors[i]);
  if (status == PTC_OK) status = ptc_safetensors_finish(&writer);
  ptc_safetensors_writer_deinit(&writer);
  free(announced);
  return status;
}

// The format: 8 bytes little-endian length of a JSON object, the object, the data. Each member is
// "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}. "__metadata__" is free: its texts
// hold the names of dims, "dims:NAME": "d h k", where they are known.
#include "runtime/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// The format's own bound on the length of a header.
enum { PREFIX_BYTES = 8, MAX_HEADER_BYTES = 100000000 };

int64_t ptc_host_tensor_num_elements(const ptc_host_tensor_t *tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor->num_dims; d++)
    if (__builtin_mul_overflow(count, tensor->shape[d], &count)) return -1;
  return count;
}

int64_t ptc_host_tensor_bytes(const ptc_host_tensor_t *tensor) {
  int64_t count = ptc_host_tensor_num_elements(tensor), bytes;
  if (count < 0 || __builtin_mul_overflow(count, ptc_dtype_bytes(tensor->dtype), &bytes)) return -1;
  return bytes;
}

// --- one entry

typedef struct reader_s {
  ptc_diag_t *diag;
  const char *path;
  ptc_arena_t *arena;
  const unsigned char *data;
  int64_t num_bytes;  // of the data
} reader_t;

static ptc_status_t malformed(ptc_diag_t *diag, const char *path, const char *name,
                              const char *what) {
  return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-tensor-file", "\"%s\": %s%s%s",
                   path, name ? name : "", name ? ": " : "", what);
}

// NULL, or what is wrong.
static const char *read_shape(const json_t *shape, ptc_tensor_entry_t *entry) {
  if (!json_is_array(shape) || json_array_size(shape) > PTC_MAX_DIMS)
    return "no shape of at most 16 dims";
  entry->num_dims = (int32_t)json_array_size(shape);
  entry->num_elements = 1;
  for (int32_t d = 0; d < entry->num_dims; d++) {
    const json_t *extent = json_array_get(shape, (size_t)d);
    entry->shape[d] = json_integer_value(extent);
    if (!json_is_integer(extent) || entry->shape[d] < 0 ||
        __builtin_mul_overflow(entry->num_elements, entry->shape[d], &entry->num_elements))
      return "a shape of impossible extents";
  }
  return NULL;
}

static const char *read_offsets(const reader_t *reader, const json_t *offsets,
                                ptc_tensor_entry_t *entry) {
  if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
      !json_is_integer(json_array_get(offsets, 0)) || !json_is_integer(json_array_get(offsets, 1)))
    return "no data_offsets";
  int64_t begin = json_integer_value(json_array_get(offsets, 0));
  int64_t end = json_integer_value(json_array_get(offsets, 1));
  if (begin < 0 || end < begin || end > reader->num_bytes) return "data_offsets outside the file";
  entry->data = reader->data + begin;
  entry->bytes = end - begin;
  int64_t each = ptc_cell_bytes(entry->cell);
  if (each && (entry->bytes % each != 0 || entry->bytes / each != entry->num_elements))
    return "data_offsets that do not match the shape";
  return NULL;
}

static ptc_status_t read_entry(const reader_t *reader, const char *name, const json_t *object,
                               ptc_tensor_entry_t *out) {
  *out = (ptc_tensor_entry_t){.name = ptc_arena_strdup(reader->arena, name)};
  const char *format = json_string_value(json_object_get(object, "dtype"));
  const char *what = format ? NULL : "no dtype";
  if (format) {
    out->format = ptc_arena_strdup(reader->arena, format);
    out->cell = ptc_cell_parse(format);
  }
  if (!what) what = read_shape(json_object_get(object, "shape"), out);
  if (!what) what = read_offsets(reader, json_object_get(object, "data_offsets"), out);
  return what ? malformed(reader->diag, reader->path, name, what) : PTC_OK;
}

// The names of dims in |text|, "d h k"; NULL if they are not as many.
static const char *const *read_dims(ptc_arena_t *arena, const char *text, int32_t num_dims) {
  if (!text) return NULL;
  char *copy = ptc_arena_strdup(arena, text), *rest = NULL;
  const char **names = PTC_ARENA_ARRAY(arena, const char *, num_dims + 1);
  int32_t count = 0;
  for (char *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
    if (count == num_dims) return NULL;
    names[count++] = name;
  }
  return count == num_dims ? names : NULL;
}

// --- a file

static int compare_names(const void *a, const void *b) {
  const ptc_tensor_entry_t *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static ptc_status_t read_entries(const reader_t *reader, json_t *root, ptc_safetensors_t *file) {
  const char *name;
  json_t *object;
  const json_t *metadata = json_object_get(root, "__metadata__");
  file->entries = PTC_ARENA_ARRAY(&file->arena, ptc_tensor_entry_t, json_object_size(root));
  json_object_foreach(root, name, object) {
    if (strcmp(name, "__metadata__") == 0) continue;
    ptc_tensor_entry_t *entry = &file->entries[file->count];
    PTC_TRY(read_entry(reader, name, object, entry));
    if (json_object_size(metadata)) {
      const char *key = ptc_arena_printf(&file->arena, "dims:%s", name);
      const char *dims = json_string_value(json_object_get(metadata, key));
      entry->dim_names = read_dims(&file->arena, dims, entry->num_dims);
    }
    file->count++;
  }
  file->by_name = PTC_ARENA_ARRAY(&file->arena, ptc_tensor_entry_t *, file->count);
  for (int64_t i = 0; i < file->count; i++) file->by_name[i] = &file->entries[i];
  if (file->count) qsort(file->by_name, (size_t)file->count, sizeof(*file->by_name), compare_names);
  return PTC_OK;
}

static ptc_status_t read_header(ptc_diag_t *diag, ptc_safetensors_t *file) {
  const ptc_mapping_t *mapping = &file->mapping;
  uint64_t len = 0;
  if (mapping->bytes >= PREFIX_BYTES) memcpy(&len, mapping->data, PREFIX_BYTES);
  if (mapping->bytes < PREFIX_BYTES || len > (uint64_t)mapping->bytes - PREFIX_BYTES)
    return malformed(diag, file->path, NULL, "the header is longer than the file");
  if (len > MAX_HEADER_BYTES)
    return malformed(diag, file->path, NULL, "the header is longer than 100 MB");
  file->header_bytes = PREFIX_BYTES + (int64_t)len;
  reader_t reader = {.diag = diag,
                     .path = file->path,
                     .arena = &file->arena,
                     .data = mapping->data + file->header_bytes,
                     .num_bytes = mapping->bytes - file->header_bytes};
  json_error_t error;
  json_t *root = json_loadb((const char *)mapping->data + PREFIX_BYTES, (size_t)len,
                            JSON_REJECT_DUPLICATES, &error);
  ptc_status_t status =
      json_is_object(root)
          ? read_entries(&reader, root, file)
          : malformed(diag, file->path, NULL, root ? "the header is no object" : error.text);
  json_decref(root);
  return status;
}

ptc_status_t ptc_safetensors_open(ptc_diag_t *diag, const char *path, ptc_safetensors_t *out_file) {
  *out_file = (ptc_safetensors_t){0};
  PTC_TRY(ptc_mapping_open(diag, path, &out_file->mapping));
  ptc_arena_init(&out_file->arena);
  out_file->path = ptc_arena_strdup(&out_file->arena, path);
  ptc_status_t status = read_header(diag, out_file);
  if (status != PTC_OK) ptc_safetensors_close(out_file);
  return status;
}

void ptc_safetensors_close(ptc_safetensors_t *file) {
  ptc_mapping_close(&file->mapping);
  ptc_arena_deinit(&file->arena);
  *file = (ptc_safetensors_t){0};
}

const ptc_tensor_entry_t *ptc_safetensors_find(const ptc_safetensors_t *file, const char *name) {
  ptc_tensor_entry_t wanted = {.name = name};
  const ptc_tensor_entry_t *key = &wanted;
  if (file->count == 0) return NULL;
  ptc_tensor_entry_t *const *found =
      bsearch(&key, file->by_name, (size_t)file->count, sizeof(*file->by_name), compare_names);
  return found ? *found : NULL;
}

ptc_status_t ptc_safetensors_get(ptc_diag_t *diag, const ptc_safetensors_t *file,
                                 const ptc_tensor_entry_t *entry, int64_t first, int64_t count,
                                 ptc_dtype_t dtype, void *out) {
  if (entry->cell == PTC_NUM_CELLS)
    return malformed(diag, file->path, entry->name, "no dtype that can be read");
  ptc_cell_convert(entry->cell, entry->data + first * ptc_cell_bytes(entry->cell), dtype, out,
                   count);
  return PTC_OK;
}

// --- doubles

// What holds every value of |cell|.
static ptc_dtype_t dtype_of(ptc_cell_t cell) {
  for (int dtype = 0; dtype < PTC_NUM_DTYPES; dtype++)
    if (ptc_cell_of_dtype((ptc_dtype_t)dtype) == cell) return (ptc_dtype_t)dtype;
  return cell == PTC_CELL_U32 ? PTC_I64 : PTC_I32;
}

ptc_status_t ptc_safetensors_read(ptc_diag_t *diag, const char *path, ptc_tensor_file_t *out_file) {
  *out_file = (ptc_tensor_file_t){0};
  ptc_safetensors_t file;
  PTC_TRY(ptc_safetensors_open(diag, path, &file));
  ptc_arena_t *arena = &out_file->arena;
  out_file->tensors = PTC_ARENA_ARRAY(arena, ptc_named_tensor_t, file.count);
  ptc_status_t status = PTC_OK;
  for (int64_t i = 0; i < file.count && status == PTC_OK; i++) {
    const ptc_tensor_entry_t *entry = &file.entries[i];
    double *values = NULL;
    if (entry->cell != PTC_NUM_CELLS) values = PTC_ARENA_ARRAY(arena, double, entry->num_elements);
    out_file->tensors[i] = (ptc_named_tensor_t){.name = ptc_arena_strdup(arena, entry->name),
                                                .dtype = dtype_of(entry->cell),
                                                .num_dims = entry->num_dims,
                                                .num_elements = entry->num_elements,
                                                .data = values};
    memcpy(out_file->tensors[i].shape, entry->shape, sizeof(entry->shape));
    status = ptc_safetensors_get(diag, &file, entry, 0, entry->num_elements, PTC_F64, values);
  }
  out_file->count = file.count;
  ptc_safetensors_close(&file);
  if (status != PTC_OK) ptc_tensor_file_deinit(out_file);
  return status;
}

void ptc_tensor_file_deinit(ptc_tensor_file_t *file) {
  ptc_arena_deinit(&file->arena);
  *file = (ptc_tensor_file_t){0};
}

const ptc_named_tensor_t *ptc_tensor_file_find(const ptc_tensor_file_t *file, const char *name) {
  for (int64_t i = 0; i < file->count; i++)
    if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
  return NULL;
}

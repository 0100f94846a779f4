// The format: 8 bytes little-endian length of a JSON object, the object, the data. Each member is
// "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}; "__metadata__" is free.
#include "runtime/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PREFIX_BYTES = 8 };

static const struct {
  const char *name;
  ptc_dtype_t dtype;
  int64_t bytes;
} formats[] = {
    {"F64", PTC_F64, 8}, {"F32", PTC_F32, 4}, {"BF16", PTC_BF16, 2}, {"F16", PTC_F16, 2},
    {"I64", PTC_I64, 8}, {"I32", PTC_I32, 4}, {"BOOL", PTC_BOOL, 1}, {"U8", PTC_I32, 1},
};
enum { NUM_FORMATS = sizeof(formats) / sizeof(formats[0]) };

// --- numbers. The host is little-endian, as everywhere in ptc.

static double f16_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                 : exponent == 0 ? ldexp(fraction, -24)
                                 : ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 ? -value : value;
}

// |value| is already rounded to f16.
static uint16_t f16_bits(double value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double magnitude = fabs(value);
  if (isnan(value)) return 0x7e00;
  if (isinf(value)) return (uint16_t)(sign | 0x7c00);
  if (magnitude < 0x1p-14) return (uint16_t)(sign | (uint16_t)ldexp(magnitude, 24));
  int exponent;
  double fraction = frexp(magnitude, &exponent);  // in [0.5, 1)
  return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) |
                    ((uint16_t)ldexp(fraction, 11) & 1023));
}

static double decode(int format, const unsigned char *from) {
  union {
    double f64;
    float f32;
    int64_t i64;
    int32_t i32;
    uint32_t u32;
    uint16_t u16;
  } bits = {0};
  memcpy(&bits, from, (size_t)formats[format].bytes);
  switch (formats[format].dtype) {
    case PTC_F64: return bits.f64;
    case PTC_F32: return bits.f32;
    case PTC_F16: return f16_value(bits.u16);
    case PTC_BF16: bits.u32 = (uint32_t)bits.u16 << 16; return bits.f32;
    case PTC_I64: return (double)bits.i64;
    case PTC_I32: return formats[format].bytes == 1 ? from[0] : bits.i32;
    default: return from[0] != 0;
  }
}

static void encode(int format, double value, unsigned char *to) {
  union {
    double f64;
    float f32;
    int64_t i64;
    int32_t i32;
    uint32_t u32;
    uint16_t u16;
  } bits = {0};
  value = ptc_dtype_round(formats[format].dtype, value);
  switch (formats[format].dtype) {
    case PTC_F64: bits.f64 = value; break;
    case PTC_F32: bits.f32 = (float)value; break;
    case PTC_F16: bits.u16 = f16_bits(value); break;
    case PTC_BF16:
      bits.f32 = (float)value;
      bits.u16 = (uint16_t)(bits.u32 >> 16);
      break;
    // The largest double that rounding gives is 2^63, one too many.
    case PTC_I64: bits.i64 = value >= 0x1p63 ? INT64_MAX : (int64_t)value; break;
    case PTC_I32: bits.i32 = (int32_t)value; break;
    default: bits.u16 = value != 0; break;
  }
  memcpy(to, &bits, (size_t)formats[format].bytes);
}

// --- writing

static int format_of(ptc_dtype_t dtype) {
  for (int i = 0; i < NUM_FORMATS; i++)
    if (formats[i].dtype == dtype) return i;
  return 0;
}

// The JSON text, padded with spaces to a multiple of 8; NULL if a name occurs twice.
static char *write_header(const ptc_named_tensor_t *tensors, int64_t count,
                          const char **out_twice) {
  json_t *root = json_object();
  int64_t offset = 0;
  *out_twice = NULL;
  for (int64_t i = 0; i < count && !*out_twice; i++) {
    const ptc_named_tensor_t *tensor = &tensors[i];
    int format = format_of(tensor->dtype);
    int64_t end = offset + tensor->num_elements * formats[format].bytes;
    json_t *shape = json_array();
    for (int32_t d = 0; d < tensor->num_dims; d++)
      json_array_append_new(shape, json_integer(tensor->shape[d]));
    if (json_object_get(root, tensor->name)) *out_twice = tensor->name;
    json_object_set_new(root, tensor->name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", formats[format].name, "shape",
                                  shape, "data_offsets", (json_int_t)offset, (json_int_t)end));
    offset = end;
  }
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (!text || *out_twice) {
    free(text);
    return NULL;
  }
  size_t len = strlen(text), padded = (len + 7) / 8 * 8;
  char *header = ptc_xmalloc(padded + 1);
  memset(header, ' ', padded);
  memcpy(header, text, len);
  header[padded] = '\0';
  free(text);
  return header;
}

static bool write_content(FILE *file, const char *header, const ptc_named_tensor_t *tensors,
                          int64_t count) {
  uint64_t len = strlen(header);
  if (fwrite(&len, PREFIX_BYTES, 1, file) != 1 || fwrite(header, 1, len, file) != len) return false;
  for (int64_t i = 0; i < count; i++) {
    int format = format_of(tensors[i].dtype);
    for (int64_t e = 0; e < tensors[i].num_elements; e++) {
      unsigned char bytes[8];
      encode(format, tensors[i].data[e], bytes);
      if (fwrite(bytes, (size_t)formats[format].bytes, 1, file) != 1) return false;
    }
  }
  return fflush(file) == 0 && fsync(fileno(file)) == 0;
}

ptc_status_t ptc_safetensors_write(ptc_diag_t *diag, const char *path,
                                   const ptc_named_tensor_t *tensors, int64_t count) {
  const char *twice;
  char *header = write_header(tensors, count, &twice);
  if (!header)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "tensor-name",
                     "two tensors to be written to \"%s\" are called \"%s\"", path,
                     twice ? twice : "");
  ptc_str_t temporary = {0};
  ptc_str_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
  FILE *file = fopen(temporary.data, "wb");
  bool ok = file && write_content(file, header, tensors, count);
  if (file && fclose(file) != 0) ok = false;
  ok = ok && rename(temporary.data, path) == 0;
  ptc_status_t status = PTC_OK;
  if (!ok) {
    status = ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "write-file", "cannot write \"%s\": %s", path,
                       strerror(errno));
    if (file) unlink(temporary.data);
  }
  ptc_str_deinit(&temporary);
  free(header);
  return status;
}

// --- reading

typedef struct reader_s {
  ptc_diag_t *diag;
  const char *path;
  const unsigned char *data;
  int64_t num_bytes;  // of the data
} reader_t;

static ptc_status_t malformed(const reader_t *reader, const char *name, const char *what) {
  return ptc_error(reader->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-tensor-file",
                   "\"%s\": %s%s%s", reader->path, name ? name : "", name ? ": " : "", what);
}

static int find_format(const json_t *dtype) {
  const char *text = json_string_value(dtype);
  for (int i = 0; text && i < NUM_FORMATS; i++)
    if (strcmp(formats[i].name, text) == 0) return i;
  return -1;
}

static ptc_status_t read_tensor(const reader_t *reader, const char *name, const json_t *entry,
                                ptc_arena_t *arena, ptc_named_tensor_t *out) {
  const json_t *shape = json_object_get(entry, "shape");
  const json_t *offsets = json_object_get(entry, "data_offsets");
  int format = find_format(json_object_get(entry, "dtype"));
  if (format < 0) return malformed(reader, name, "no dtype that can be read");
  if (!json_is_array(shape) || json_array_size(shape) > PTC_MAX_DIMS)
    return malformed(reader, name, "no shape of at most 16 dims");
  if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
      !json_is_integer(json_array_get(offsets, 0)) || !json_is_integer(json_array_get(offsets, 1)))
    return malformed(reader, name, "no data_offsets");
  *out = (ptc_named_tensor_t){.name = ptc_arena_strdup(arena, name),
                              .dtype = formats[format].dtype,
                              .num_dims = (int32_t)json_array_size(shape),
                              .num_elements = 1};
  for (int32_t d = 0; d < out->num_dims; d++) {
    const json_t *extent = json_array_get(shape, (size_t)d);
    out->shape[d] = json_integer_value(extent);
    if (!json_is_integer(extent) || out->shape[d] < 0 ||
        __builtin_mul_overflow(out->num_elements, out->shape[d], &out->num_elements))
      return malformed(reader, name, "a shape of impossible extents");
  }
  int64_t begin = json_integer_value(json_array_get(offsets, 0));
  int64_t end = json_integer_value(json_array_get(offsets, 1));
  if (begin < 0 || end < begin || end > reader->num_bytes)
    return malformed(reader, name, "data_offsets outside the file");
  int64_t bytes = formats[format].bytes;
  if ((end - begin) % bytes != 0 || (end - begin) / bytes != out->num_elements)
    return malformed(reader, name, "data_offsets that do not match the shape");
  double *values = PTC_ARENA_ARRAY(arena, double, out->num_elements);
  for (int64_t i = 0; i < out->num_elements; i++)
    values[i] = decode(format, reader->data + begin + i * bytes);
  out->data = values;
  return PTC_OK;
}

static ptc_status_t read_tensors(const reader_t *reader, json_t *root, ptc_tensor_file_t *file) {
  const char *name;
  json_t *entry;
  file->tensors = PTC_ARENA_ARRAY(&file->arena, ptc_named_tensor_t, json_object_size(root));
  json_object_foreach(root, name, entry) {
    if (strcmp(name, "__metadata__") == 0) continue;
    PTC_TRY(read_tensor(reader, name, entry, &file->arena, &file->tensors[file->count]));
    file->count++;
  }
  return PTC_OK;
}

ptc_status_t ptc_safetensors_read(ptc_diag_t *diag, const char *path, ptc_tensor_file_t *out_file) {
  *out_file = (ptc_tensor_file_t){0};
  ptc_arena_init(&out_file->arena);
  char *text;
  size_t len;
  if (ptc_read_file(path, &text, &len) != PTC_OK)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "read-file", "cannot read \"%s\": %s", path,
                     strerror(errno));
  reader_t reader = {.diag = diag, .path = path};
  uint64_t header = 0;
  ptc_status_t status = PTC_OK;
  if (len >= PREFIX_BYTES) memcpy(&header, text, PREFIX_BYTES);
  if (len < PREFIX_BYTES || header > len - PREFIX_BYTES) {
    status = malformed(&reader, NULL, "the header is longer than the file");
  } else {
    reader.data = (const unsigned char *)text + PREFIX_BYTES + header;
    reader.num_bytes = (int64_t)(len - PREFIX_BYTES - header);
    json_error_t error;
    json_t *root = json_loadb(text + PREFIX_BYTES, header, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(root))
      status = malformed(&reader, NULL, root ? "the header is no object" : error.text);
    else
      status = read_tensors(&reader, root, out_file);
    json_decref(root);
  }
  free(text);
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

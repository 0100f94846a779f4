// Proves: arrays of every dtype survive a file; the file is what the format says; malformed files
// are refused, whatever they hold; a failed write leaves nothing behind; parts of mapped arrays read as
// any dtype, and pieces of arrays add up to a file with the checksums that the writer states.
#include "runtime/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/support/unit.h"

static char folder[32];
static char path[64];

static const char *first_id(const ptc_diag_t *diag) {
  return diag->num_items ? diag->items[0].id : "";
}

static void write_bytes(const char *header, size_t header_len, uint64_t claimed, int num_data) {
  FILE *file = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  fwrite(&claimed, 8, 1, file);
  fwrite(header, 1, header_len, file);
  for (int i = 0; i < num_data; i++) fputc(i, file);
  fclose(file);
}

static void test_round_trip(void) {
  static const struct {
    const char *name;
    ptc_dtype_t dtype;
    double values[6];
  } rows[] = {
      {"f64", PTC_F64, {0.1, -0.0, INFINITY, -1e300, 5e-324, 3}},
      {"f32", PTC_F32, {(double)0.1f, -0.0, -INFINITY, 0x1p-149, 3.5, 1e10}},
      {"bf16", PTC_BF16, {1, -1.0078125, 0x1.fep127, 0x1p-133, INFINITY, 0}},
      {"f16", PTC_F16, {1, -1.0009765625, 65504, 0x1p-24, -INFINITY, 0x1.ff8p-15}},
      {"i64", PTC_I64, {0, -1, 9007199254740992.0, -9007199254740992.0, 7, 8}},
      {"i32", PTC_I32, {0, -1, 2147483647, -2147483648.0, 7, 8}},
      {"bool", PTC_BOOL, {0, 1, 1, 0, 1, 0}},
  };
  enum { NUM_ROWS = sizeof(rows) / sizeof(rows[0]) };
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_named_tensor_t tensors[NUM_ROWS + 2] = {{0}};
  for (int i = 0; i < NUM_ROWS; i++)
    tensors[i] = (ptc_named_tensor_t){.name = rows[i].name,
                                      .dtype = rows[i].dtype,
                                      .num_dims = 2,
                                      .shape = {2, 3},
                                      .num_elements = 6,
                                      .data = rows[i].values};
  tensors[NUM_ROWS] = (ptc_named_tensor_t){
      .name = "a \"scalar\"\n", .dtype = PTC_F64, .num_elements = 1, .data = rows[0].values};
  tensors[NUM_ROWS + 1] =
      (ptc_named_tensor_t){.name = "empty", .dtype = PTC_F32, .num_dims = 1, .shape = {0}};
  CU_ASSERT_EQUAL(ptc_safetensors_write(&diag, path, tensors, NUM_ROWS + 2), PTC_OK);

  ptc_tensor_file_t file;
  CU_ASSERT_EQUAL(ptc_safetensors_read(&diag, path, &file), PTC_OK);
  CU_ASSERT_EQUAL(file.count, NUM_ROWS + 2);
  for (int i = 0; i < NUM_ROWS + 2; i++) {
    const ptc_named_tensor_t *read = ptc_tensor_file_find(&file, tensors[i].name);
    UNIT_CHECK(read && read->dtype == tensors[i].dtype && read->num_dims == tensors[i].num_dims &&
                   read->num_elements == tensors[i].num_elements,
               tensors[i].name);
    for (int64_t k = 0; read && k < read->num_elements; k++)
      UNIT_CHECK(read->data[k] == tensors[i].data[k] &&
                     signbit(read->data[k]) == signbit(tensors[i].data[k]),
                 tensors[i].name);
  }
  CU_ASSERT_PTR_NULL(ptc_tensor_file_find(&file, "f8"));
  ptc_tensor_file_deinit(&file);
  CU_ASSERT_EQUAL(diag.num_items, 0);
  ptc_diag_deinit(&diag);
}

// All 65536 patterns of the short floats: reading and writing gives the same bytes.
static void test_short_floats(void) {
  static const char *const names[] = {"F16", "BF16"};
  for (int f = 0; f < 2; f++) {
    char header[128];
    int len = snprintf(header, sizeof(header),
                       "{\"x\":{\"dtype\":\"%s\",\"shape\":[65536],\"data_offsets\":[0,131072]}}",
                       names[f]);
    FILE *out = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    uint64_t claimed = (uint64_t)len;
    fwrite(&claimed, 8, 1, out);
    fwrite(header, 1, (size_t)len, out);
    for (uint32_t i = 0; i < 65536; i++) {
      uint16_t bits = (uint16_t)i;
      fwrite(&bits, 2, 1, out);
    }
    fclose(out);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_tensor_file_t file;
    CU_ASSERT_EQUAL(ptc_safetensors_read(&diag, path, &file), PTC_OK);
    CU_ASSERT_EQUAL(ptc_safetensors_write(&diag, path, file.tensors, 1), PTC_OK);
    char *text;
    size_t size;
    CU_ASSERT_EQUAL(ptc_read_file(path, &text, &size), PTC_OK);
    for (uint32_t i = 0; i < 65536; i++) {
      uint16_t bits;
      memcpy(&bits, text + size - 131072 + 2 * i, 2);
      if (isnan(file.tensors[0].data[i])) continue;
      if (bits != i) CU_FAIL("a short float changed");
    }
    free(text);
    ptc_tensor_file_deinit(&file);
    ptc_diag_deinit(&diag);
  }
}

static void test_malformed(void) {
#define ENTRY(text) "{\"x\":{" text "}}"
  static const char *const rows[] = {
      "",
      "{",
      "[1, 2]",
      "nonsense",
      "{\"x\": 3}",
      "{\"x\": []}",
      ENTRY(""),
      ENTRY("\"dtype\":\"F32\",\"shape\":[2]"),
      ENTRY("\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]"),
      ENTRY("\"dtype\":5,\"shape\":[2],\"data_offsets\":[0,8]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,\"8\"]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,12]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,7]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[4,24]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]"),
      ENTRY("\"dtype\":\"F64\",\"shape\":[2305843009213693953],\"data_offsets\":[0,8]"),
      ENTRY("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
            "\"data_offsets\":[0,4]"),
      "{\"x\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
      "\"x\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    write_bytes(rows[i], strlen(rows[i]), strlen(rows[i]), 20);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_tensor_file_t file;
    UNIT_CHECK(ptc_safetensors_read(&diag, path, &file) == PTC_INVALID_INPUT, rows[i]);
    UNIT_CHECK(strcmp(first_id(&diag), "bad-tensor-file") == 0, rows[i]);
    ptc_diag_deinit(&diag);
  }
}

// The length of the header is not to be trusted; nor is any other byte.
static void test_broken_bytes(void) {
  static const char header[] =
      "{\"__metadata__\":{\"a\":\"b\"},\"x\":{\"dtype\":\"F16\",\"shape\":[2,2],"
      "\"data_offsets\":[2,10]}}";
  static const uint64_t claims[] = {0, 1, 1000, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
  for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
    write_bytes(header, sizeof(header) - 1, claims[i], 10);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_tensor_file_t file;
    CU_ASSERT_EQUAL(ptc_safetensors_read(&diag, path, &file), PTC_INVALID_INPUT);
    ptc_diag_deinit(&diag);
  }
  uint64_t random = unit_seed();
  for (int i = 0; i < 2000; i++) {
    char broken[sizeof(header)];
    memcpy(broken, header, sizeof(header));
    for (uint64_t n = unit_random(&random) % 3 + 1; n > 0; n--)
      broken[unit_random(&random) % (sizeof(header) - 1)] = (char)unit_random(&random);
    write_bytes(broken, sizeof(header) - 1, sizeof(header) - 1, 10);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_tensor_file_t file;
    ptc_status_t status = ptc_safetensors_read(&diag, path, &file);
    CU_ASSERT(status == PTC_OK || status == PTC_INVALID_INPUT);
    CU_ASSERT_EQUAL(status == PTC_OK, diag.num_items == 0);
    if (status == PTC_OK) ptc_tensor_file_deinit(&file);
    ptc_diag_deinit(&diag);
  }
}

static void test_io(void) {
  static const double value = 1;
  ptc_named_tensor_t twice[4] = {
      {.name = "x", .dtype = PTC_F64, .num_elements = 1, .data = &value},
      {.name = "x", .dtype = PTC_F64, .num_elements = 1, .data = &value},
      {.name = "\xff", .dtype = PTC_F64, .num_elements = 1, .data = &value},
      {.name = "__metadata__", .dtype = PTC_F64, .num_elements = 1, .data = &value}};
  static const struct {
    const char *file;
    int count;
    ptc_status_t status;
    const char *id;
  } rows[] = {
      {"/nonexistent/folder/x", 1, PTC_IO, "write-file"},
      {folder, 1, PTC_IO, "write-file"},  // a folder cannot be replaced
      {path, 2, PTC_INVALID_INPUT, "tensor-name"},
      {path, 3, PTC_INVALID_INPUT, "tensor-name"},  // the third alone
      {path, 4, PTC_INVALID_INPUT, "tensor-name"},  // the fourth
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    const int alone = rows[i].count > 2 ? rows[i].count - 1 : 0;
    UNIT_CHECK(ptc_safetensors_write(&diag, rows[i].file, &twice[alone],
                                     alone ? 1 : rows[i].count) == rows[i].status,
               rows[i].id);
    UNIT_CHECK(strcmp(first_id(&diag), rows[i].id) == 0, rows[i].id);
    ptc_diag_deinit(&diag);
  }
  char temporary[96];
  snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", folder, (long)getpid());
  CU_ASSERT_NOT_EQUAL(access(temporary, F_OK), 0);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_tensor_file_t file;
  CU_ASSERT_EQUAL(ptc_safetensors_read(&diag, "/nonexistent", &file), PTC_IO);
  CU_ASSERT_STRING_EQUAL(first_id(&diag), "read-file");
  ptc_diag_deinit(&diag);
}

// Pieces of any size; tensors without elements among them.
static void test_pieces(void) {
  uint64_t random = unit_seed();
  float values[1000];
  int64_t whole[3] = {INT64_MIN, 1ll << 60, 7};
  for (int i = 0; i < 1000; i++) values[i] = (float)(int32_t)unit_random(&random);
  const ptc_host_tensor_t tensors[] = {
      {.name = "empty", .dtype = PTC_F32, .num_dims = 2, .shape = {3, 0}},
      {.name = "b", .dtype = PTC_F32, .num_dims = 3, .shape = {5, 8, 25}, .data = values},
      {.name = "nothing", .dtype = PTC_F64, .num_dims = 1, .shape = {0}},
      {.name = "a", .dtype = PTC_I64, .num_dims = 1, .shape = {3}, .data = whole},
      {.name = "void", .dtype = PTC_BOOL, .num_dims = 1, .shape = {0}}};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_safetensors_writer_t writer;
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_create(&diag, path, tensors, 5, &writer), PTC_OK);
  char bytes[sizeof(values) + sizeof(whole)];
  memcpy(bytes, values, sizeof(values));
  memcpy(bytes + sizeof(values), whole, sizeof(whole));
  for (size_t done = 0; done < sizeof(bytes);) {
    size_t piece = unit_random(&random) % 700 + 1;
    if (piece > sizeof(bytes) - done) piece = sizeof(bytes) - done;
    CU_ASSERT_EQUAL(ptc_safetensors_put(&writer, bytes + done, (int64_t)piece), PTC_OK);
    done += piece;
  }
  CU_ASSERT_EQUAL(ptc_safetensors_finish(&writer), PTC_OK);
  CU_ASSERT_EQUAL(writer.tensor_crcs[1], crc32(0, (const Bytef *)values, sizeof(values)));
  CU_ASSERT_EQUAL(writer.tensor_crcs[3], crc32(0, (const Bytef *)whole, sizeof(whole)));
  char *text;
  size_t len;
  CU_ASSERT_EQUAL_FATAL(ptc_read_file(path, &text, &len), PTC_OK);
  CU_ASSERT_EQUAL(writer.file_crc, crc32(0, (const Bytef *)text, (uInt)len));
  CU_ASSERT_EQUAL(writer.file_bytes, (int64_t)len);
  free(text);
  ptc_safetensors_writer_deinit(&writer);

  ptc_safetensors_t file;
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(&diag, path, &file), PTC_OK);
  CU_ASSERT_EQUAL(file.count, 5);
  const ptc_tensor_entry_t *b = ptc_safetensors_find(&file, "b");
  CU_ASSERT_PTR_NOT_NULL_FATAL(b);
  double part[10];
  CU_ASSERT_EQUAL(ptc_safetensors_get(&diag, &file, b, 990, 10, PTC_F64, part), PTC_OK);
  for (int i = 0; i < 10; i++) CU_ASSERT_EQUAL(part[i], values[990 + i]);
  int64_t exact[3];
  int32_t narrow[3];
  const ptc_tensor_entry_t *a = ptc_safetensors_find(&file, "a");
  CU_ASSERT_EQUAL(ptc_safetensors_get(&diag, &file, a, 0, 3, PTC_I64, exact), PTC_OK);
  CU_ASSERT(memcmp(exact, whole, sizeof(whole)) == 0);
  CU_ASSERT_EQUAL(ptc_safetensors_get(&diag, &file, a, 0, 3, PTC_I32, narrow), PTC_OK);
  CU_ASSERT(narrow[0] == INT32_MIN && narrow[1] == INT32_MAX && narrow[2] == 7);
  CU_ASSERT_PTR_NULL(ptc_safetensors_find(&file, "c"));
  ptc_safetensors_close(&file);

  // Too little, then too much: no file appears.
  unlink(path);
  CU_ASSERT_EQUAL(ptc_safetensors_create(&diag, path, tensors, 5, &writer), PTC_OK);
  CU_ASSERT_EQUAL(ptc_safetensors_put(&writer, bytes, 4000), PTC_OK);
  CU_ASSERT_EQUAL(ptc_safetensors_finish(&writer), PTC_IO);
  ptc_safetensors_writer_deinit(&writer);
  CU_ASSERT_EQUAL(ptc_safetensors_create(&diag, path, tensors, 3, &writer), PTC_OK);
  CU_ASSERT_EQUAL(ptc_safetensors_put(&writer, bytes, 4001), PTC_IO);
  ptc_safetensors_writer_deinit(&writer);
  CU_ASSERT_EQUAL(access(path, F_OK), -1);
  CU_ASSERT_EQUAL(diag.num_errors, 2);
  ptc_diag_deinit(&diag);
}

// Names of dims travel as metadata, where there are as many as dims.
static void test_dims(void) {
  static const char *const names[] = {"d", "h", "k"};
  float values[6] = {0};
  const ptc_host_tensor_t tensors[] = {
      {.name = "a",
       .dtype = PTC_F32,
       .num_dims = 3,
       .shape = {1, 2, 3},
       .data = values,
       .dim_names = names},
      {.name = "b", .dtype = PTC_F32, .num_dims = 1, .shape = {6}, .data = values}};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_save(&diag, path, tensors, 2), PTC_OK);
  ptc_safetensors_t file;
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(&diag, path, &file), PTC_OK);
  CU_ASSERT_EQUAL(file.count, 2);
  const ptc_tensor_entry_t *a = ptc_safetensors_find(&file, "a");
  CU_ASSERT_PTR_NOT_NULL_FATAL(a->dim_names);
  for (int d = 0; d < 3; d++) CU_ASSERT_STRING_EQUAL(a->dim_names[d], names[d]);
  CU_ASSERT_PTR_NULL(ptc_safetensors_find(&file, "b")->dim_names);
  ptc_safetensors_close(&file);
  static const char odd[] =
      "{\"__metadata__\":{\"dims:a\":\"x\",\"dims:b\":\"x y\",\"dims:c\":3,\"dims:d\":\"\"},"
#define ENTRY_OF(name) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"
      ENTRY_OF("a") "," ENTRY_OF("b") "," ENTRY_OF("c") "," ENTRY_OF("d") "}";
  write_bytes(odd, strlen(odd), strlen(odd), 1);
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(&diag, path, &file), PTC_OK);
  for (int64_t i = 0; i < file.count; i++)
    CU_ASSERT_EQUAL(file.entries[i].dim_names != NULL, file.entries[i].name[0] == 'a');
  ptc_safetensors_close(&file);
  ptc_diag_deinit(&diag);
}

// A file of another program: formats that ptc does not compute with.
static void test_foreign_formats(void) {
  static const char header[] =
      "{\"f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[0,3]},"
      "\"u8\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[252,256]},"
      "\"i8\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[252,256]},"
      "\"u16\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[252,256]},"
      "\"u32\":{\"dtype\":\"U32\",\"shape\":[1],\"data_offsets\":[252,256]},"
      "\"bool\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,2]}}";
  write_bytes(header, strlen(header), strlen(header), 256);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_safetensors_t file;
  CU_ASSERT_EQUAL_FATAL(ptc_safetensors_open(&diag, path, &file), PTC_OK);
  static const struct {
    const char *name;
    int64_t first, value;
  } rows[] = {{"u8", 3, 255},         {"i8", 3, -1},  {"u16", 1, 0xfffe},
              {"u32", 0, 0xfffefdfc}, {"bool", 0, 0}, {"bool", 1, 1}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    int64_t value = 99;
    float real = 99;
    const ptc_tensor_entry_t *entry = ptc_safetensors_find(&file, rows[i].name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(entry);
    ptc_safetensors_get(&diag, &file, entry, rows[i].first, 1, PTC_I64, &value);
    ptc_safetensors_get(&diag, &file, entry, rows[i].first, 1, PTC_F32, &real);
    UNIT_CHECK(value == rows[i].value && real == (float)rows[i].value, rows[i].name);
  }
  CU_ASSERT_EQUAL(diag.num_errors, 0);
  float real;
  CU_ASSERT_EQUAL(
      ptc_safetensors_get(&diag, &file, ptc_safetensors_find(&file, "f8"), 0, 1, PTC_F32, &real),
      PTC_INVALID_INPUT);
  CU_ASSERT_STRING_EQUAL(first_id(&diag), "bad-tensor-file");
  ptc_safetensors_close(&file);
  ptc_diag_deinit(&diag);
}

static void test_clean_up(void) {
  unlink(path);
  CU_ASSERT_EQUAL(rmdir(folder), 0);  // nothing else was left there
}

static void test_set_up(void) {
  unit_make_folder(folder);
  snprintf(path, sizeof(path), "%s/t", folder);
}

static const unit_test_t tests[] = {
    {"set up", test_set_up},
    {"round trip", test_round_trip},
    {"short floats", test_short_floats},
    {"malformed", test_malformed},
    {"broken bytes", test_broken_bytes},
    {"io", test_io},
    {"pieces", test_pieces},
    {"dims", test_dims},
    {"foreign formats", test_foreign_formats},
    {"clean up", test_clean_up},
};
UNIT_MAIN("safetensors", tests)

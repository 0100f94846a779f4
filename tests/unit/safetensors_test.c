// Proves: arrays of every dtype survive a file; the file is what the format says; malformed files
// are refused, whatever they hold; a failed write leaves nothing behind.
#include "runtime/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/unit.h"

static char folder[] = "/tmp/ptc_safetensors_XXXXXX";
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
  ptc_named_tensor_t twice[2] = {
      {.name = "x", .dtype = PTC_F64, .num_elements = 1, .data = &value},
      {.name = "x", .dtype = PTC_F64, .num_elements = 1, .data = &value}};
  static const struct {
    const char *file;
    int count;
    ptc_status_t status;
    const char *id;
  } rows[] = {
      {"/nonexistent/folder/x", 1, PTC_IO, "write-file"},
      {folder, 1, PTC_IO, "write-file"},  // a folder cannot be replaced
      {path, 2, PTC_INVALID_INPUT, "tensor-name"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    UNIT_CHECK(ptc_safetensors_write(&diag, rows[i].file, twice, rows[i].count) == rows[i].status,
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

static void test_clean_up(void) {
  unlink(path);
  CU_ASSERT_EQUAL(rmdir(folder), 0);  // nothing else was left there
}

static void test_set_up(void) {
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/t", folder);
}

static const unit_test_t tests[] = {
    {"set up", test_set_up},
    {"round trip", test_round_trip},
    {"short floats", test_short_floats},
    {"malformed", test_malformed},
    {"broken bytes", test_broken_bytes},
    {"io", test_io},
    {"clean up", test_clean_up},
};
UNIT_MAIN("safetensors", tests)

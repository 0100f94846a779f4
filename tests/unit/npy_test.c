// Proves: .npy headers of every version and of every kind of number are read as NumPy writes them; anything
// else is refused, whatever it holds.
#include "runtime/npy.h"

#include <stdlib.h>

#include "tests/support/unit.h"

enum { MAX_BYTES = 512 };

// |header| with |num_data| bytes of data, as a file; its length.
static int64_t build(unsigned char *out, int version, const char *header, int num_data) {
  const uint32_t len = (uint32_t)strlen(header);
  int64_t at = 8 + (version == 1 ? 2 : 4);
  memcpy(out, "\x93NUMPY", 6);
  out[6] = (unsigned char)version;
  out[7] = 0;
  memcpy(out + 8, &len, version == 1 ? 2 : 4);
  memcpy(out + at, header, len);
  for (int i = 0; i < num_data; i++) out[at + len + i] = (unsigned char)i;
  return at + len + num_data;
}

static ptc_status_t parse(const unsigned char *bytes, int64_t num_bytes, ptc_npy_t *out_npy) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_status_t status = ptc_npy_parse(&diag, "x.npy", bytes, num_bytes, out_npy);
  CU_ASSERT_EQUAL(diag.num_errors, status != PTC_OK);
  if (diag.num_errors) CU_ASSERT_STRING_EQUAL(diag.items[0].id, "bad-npy");
  ptc_diag_deinit(&diag);
  return status;
}

static void test_read(void) {
  static const struct {
    const char *header;
    int version, num_data;
    ptc_cell_t cell;
    int32_t num_dims;
    int64_t last;  // extent
  } rows[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }   \n", 1, 24, PTC_CELL_F32, 2,
       2},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }\n", 2, 24, PTC_CELL_F32, 1, 6},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", 3, 8, PTC_CELL_F64, 0, 0},
      {"{\"shape\":(0, 7),\"fortran_order\":False,\"descr\":\"|u1\"}", 1, 0, PTC_CELL_U8, 2, 7},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (5,)}", 1, 10, PTC_CELL_U16, 1, 5},
      {"{'descr': '<u4', 'fortran_order': False, 'shape': (2L,)}", 1, 8, PTC_CELL_U32, 1, 2},
      {"{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", 1, 8, PTC_CELL_I64, 1, 1},
      {"{'descr': '=i4', 'fortran_order': False, 'shape': (2,)}", 1, 8, PTC_CELL_I32, 1, 2},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (2,)}", 1, 4, PTC_CELL_I16, 1, 2},
      {"{'descr': '|i1', 'fortran_order': False, 'shape': (2,)}", 1, 2, PTC_CELL_I8, 1, 2},
      {"{'descr': '>i1', 'fortran_order': False, 'shape': (2,)}", 1, 2, PTC_CELL_I8, 1, 2},
      {"{'descr': '|b1', 'fortran_order': False, 'shape': (2, 1)}", 1, 2, PTC_CELL_BOOL, 2, 1},
      {"{'descr': '<f2', 'fortran_order': False, 'shape': (3,)}", 1, 6, PTC_CELL_F16, 1, 3},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    unsigned char bytes[MAX_BYTES];
    ptc_npy_t npy;
    int64_t len = build(bytes, rows[i].version, rows[i].header, rows[i].num_data);
    UNIT_CHECK(ptc_npy_is(bytes, len), rows[i].header);
    UNIT_CHECK(parse(bytes, len, &npy) == PTC_OK, rows[i].header);
    UNIT_CHECK(npy.cell == rows[i].cell && npy.num_dims == rows[i].num_dims, rows[i].header);
    UNIT_CHECK(!npy.num_dims || npy.shape[npy.num_dims - 1] == rows[i].last, rows[i].header);
    UNIT_CHECK(npy.data == bytes + len - rows[i].num_data, rows[i].header);
  }
}

static void test_malformed(void) {
  static const struct {
    const char *header;
    int version, num_data;
  } rows[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", 1, 23},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", 1, 25},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", 1, 28},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", 4, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", 0, 24},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (3, 2), }", 1, 24},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", 1, 24},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", 1, 24},
      {"{'descr': '', 'fortran_order': False, 'shape': (3,), }", 1, 24},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", 1, 24},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", 1, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 6, }", 1, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-6,), }", 1, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 2), }", 1, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296,4), }", 1, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 1, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905,), }", 1, 4},
      {"{'descr':'<u1','fortran_order':False,'shape':(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", 1, 1},
      {"{'descr': '<f4', 'fortran_order': False, }", 1, 24},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 1, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1 }", 1, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } x", 1, 24},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)", 1, 24},
      {"{'descr: '<f4', 'fortran_order': False, 'shape': (6,)}", 1, 24},
      {"", 1, 0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    unsigned char bytes[MAX_BYTES];
    ptc_npy_t npy;
    int64_t len = build(bytes, rows[i].version, rows[i].header, rows[i].num_data);
    UNIT_CHECK(parse(bytes, len, &npy) == PTC_INVALID_INPUT, rows[i].header);
  }
}

// Every file cut short, and files with any bytes changed: nothing is read outside of them.
static void test_broken_bytes(void) {
  static const char header[] = "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }  \n";
  unsigned char bytes[MAX_BYTES];
  ptc_npy_t npy;
  const int64_t len = build(bytes, 1, header, 12);
  for (int64_t i = 0; i < len; i++) {
    unsigned char *copy =
        ptc_xmalloc((size_t)i + 1);  // of its own, so that a sanitizer sees its end
    memcpy(copy, bytes, (size_t)i);
    CU_ASSERT_EQUAL(parse(copy, i, &npy), PTC_INVALID_INPUT);
    free(copy);
  }
  uint64_t random = unit_seed();
  for (int i = 0; i < 20000; i++) {
    unsigned char *copy = ptc_xmalloc((size_t)len);
    memcpy(copy, bytes, (size_t)len);
    for (uint64_t n = unit_random(&random) % 3 + 1; n > 0; n--)
      copy[unit_random(&random) % (uint64_t)(len - 12)] = (unsigned char)unit_random(&random);
    if (parse(copy, len, &npy) == PTC_OK)
      CU_ASSERT(npy.data + npy.num_elements * ptc_cell_bytes(npy.cell) == copy + len);
    free(copy);
  }
}

static const unit_test_t tests[] = {
    {"read", test_read}, {"malformed", test_malformed}, {"broken bytes", test_broken_bytes}};
UNIT_MAIN("npy", tests)

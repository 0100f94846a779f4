// Proves: printed doubles read back as the same bits, quoting is reversible, near names are found.
#include "ir/base/str.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/unit.h"

static void test_append(void) {
  ptc_str_t str = {0};
  for (int i = 0; i < 1000; i++) ptc_str_printf(&str, "%d,", i % 10);
  CU_ASSERT_EQUAL(str.len, 2000);
  CU_ASSERT_EQUAL(strlen(str.data), 2000);
  CU_ASSERT_NSTRING_EQUAL(str.data + 1980, "0,1,2,3,4,5,6,7,8,9,", 20);
  ptc_str_append_n(&str, "xyz", 2);
  CU_ASSERT_STRING_EQUAL(str.data + 1998, "9,xy");
  ptc_str_deinit(&str);
  CU_ASSERT_PTR_NULL(str.data);
}

static void test_doubles(void) {
  static const struct {
    double value;
    const char *text;
  } rows[] = {{0.02, "0.02"},      {3, "3"},
              {-0.5, "-0.5"},      {1e-5, "1e-05"},
              {0.1, "0.1"},        {INFINITY, "inf"},
              {-INFINITY, "-inf"}, {NAN, "nan"},
              {1234, "1234"},      {4294967295.0, "4294967295"}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_str_t str = {0};
    ptc_str_append_double(&str, rows[i].value);
    UNIT_CHECK(strcmp(str.data, rows[i].text) == 0, rows[i].text);
    ptc_str_deinit(&str);
  }
  uint64_t state = unit_seed();
  int wrong = 0;
  for (int i = 0; i < 20000; i++) {
    uint64_t bits = unit_random(&state);
    double value, again;
    memcpy(&value, &bits, sizeof(value));
    if (isnan(value)) continue;
    ptc_str_t str = {0};
    ptc_str_append_double(&str, value);
    again = strtod(str.data, NULL);
    wrong += memcmp(&value, &again, sizeof(value)) != 0;
    ptc_str_deinit(&str);
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

static void test_quoted(void) {
  static const char *const rows[][2] = {
      {"", "\"\""},
      {"a b", "\"a b\""},
      {"say \"x\" \\", "\"say \\\"x\\\" \\\\\""},
      {"1\n2\t3", "\"1\\n2\\t3\""},
      {"\x01\x7f\xc3\xa4", "\"\\x01\\x7f\\xc3\\xa4\""},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_str_t str = {0};
    ptc_str_append_quoted(&str, rows[i][0]);
    UNIT_CHECK(strcmp(str.data, rows[i][1]) == 0, rows[i][1]);
    ptc_str_deinit(&str);
  }
}

static void test_names(void) {
  static const struct {
    const char *a, *b;
    int distance;
  } rows[] = {{"", "", 0},
              {"a", "", 1},
              {"softmax", "softmax", 0},
              {"sofmax", "softmax", 1},
              {"fostmax", "softmax", 2},
              {"sotfmax", "softmax", 1},
              {"rope", "topk", 2},
              {"abcdef", "ghijkl", 4}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    UNIT_CHECK(ptc_edit_distance(rows[i].a, rows[i].b, 3) == rows[i].distance, rows[i].a);
    UNIT_CHECK(ptc_edit_distance(rows[i].b, rows[i].a, 3) == rows[i].distance, rows[i].b);
  }
  static const char *const names[] = {"layernorm", "rmsnorm", "softmax", "d"};
  CU_ASSERT_STRING_EQUAL(ptc_nearest_name("layrnorm", names, 4), "layernorm");
  CU_ASSERT_STRING_EQUAL(ptc_nearest_name("sotfmax", names, 4), "softmax");
  CU_ASSERT_PTR_NULL(ptc_nearest_name("attention", names, 4));
  CU_ASSERT_PTR_NULL(ptc_nearest_name("e", names, 4));
}

static void test_read_file(void) {
  char path[] = "/tmp/ptc_str_test_XXXXXX";
  int fd = mkstemp(path);
  CU_ASSERT_FATAL(fd >= 0);
  FILE *file = fdopen(fd, "wb");
  for (int i = 0; i < 50000; i++) fputc(i % 251, file);
  fclose(file);
  char *text;
  size_t len;
  CU_ASSERT_EQUAL_FATAL(ptc_read_file(path, &text, &len), PTC_OK);
  CU_ASSERT_EQUAL(len, 50000);
  int wrong = text[len] != '\0';
  for (int i = 0; i < 50000; i++) wrong += (unsigned char)text[i] != i % 251;
  CU_ASSERT_EQUAL(wrong, 0);
  free(text);
  remove(path);
  CU_ASSERT_EQUAL(ptc_read_file(path, &text, &len), PTC_IO);
  CU_ASSERT_PTR_NULL(text);
}

static const unit_test_t tests[] = {{"append", test_append},
                                    {"doubles", test_doubles},
                                    {"quoted", test_quoted},
                                    {"near names", test_names},
                                    {"read_file", test_read_file}};
UNIT_MAIN("str", tests)

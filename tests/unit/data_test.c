// Proves: every format of data file gives its numbers; batches are windows shared by the inputs of a source,
// an epoch is each window once, and what stands where follows from seed and step; short batches are filled up;
// what does not fit is refused with the id of its kind.
#include "runtime/data.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data_source.h"
#include "tests/support/unit.h"

static uint64_t seed = 1;
static char folder[] = "/tmp/ptc_data_test_XXXXXX";

static void test_set_up(void) {
  seed = unit_seed();
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
}

// A file of the test's folder; returns its path (static, of four).
static const char *file_of(const char *name, const void *bytes, size_t len) {
  static char paths[4][96];
  static int turn;
  char *path = paths[turn++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  CU_ASSERT_EQUAL(fwrite(bytes, 1, len, file), len);
  fclose(file);
  return path;
}

static const char *spec_of(char out[128], const char *source, const char *path,
                           const char *format) {
  snprintf(out, 128, "%s=%s%s", source, path, format);
  return out;
}

static ptc_data_input_t input_of(const char *name, int64_t b, int64_t s, int64_t offset,
                                 int64_t range) {
  return (ptc_data_input_t){.name = name,
                            .source = "text",
                            .dtype = PTC_I32,
                            .num_dims = 2,
                            .shape = {b, s},
                            .offset = offset,
                            .range = range};
}

// .npy of int32 (or |descr|), version 1.
static size_t npy(unsigned char *out, const char *descr, const char *shape, const void *data,
                  size_t len) {
  char header[128];
  int header_len =
      snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n",
               descr, shape);
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (unsigned char)header_len;
  out[9] = 0;
  memcpy(out + 10, header, (size_t)header_len);
  memcpy(out + 10 + header_len, data, len);
  return 10 + (size_t)header_len + len;
}

static size_t llmc(unsigned char *out, int32_t magic, int32_t version, int32_t claimed,
                   const void *data, size_t len) {
  const int32_t header[3] = {magic, version, claimed};
  memset(out, 0, 1024);
  memcpy(out, header, sizeof(header));
  memcpy(out + 1024, data, len);
  return 1024 + len;
}

// --- formats

static void test_formats(void) {
  static const uint16_t u16[] = {7, 65535, 3};
  static const uint32_t u32[] = {7, 65536, 3};
  static const int32_t i32[] = {7, -1, 3};
  unsigned char shard[1100], wide[1100], array[256];
  size_t shard_len = llmc(shard, 20240520, 1, 3, u16, 6),
         wide_len = llmc(wide, 20240801, 7, 3, u32, 12);
  size_t array_len = npy(array, "<i4", "3,", i32, 12);
  const struct {
    const char *file, *format, *said;
    const void *bytes;
    size_t len;
    int64_t second;
  } rows[] = {{"a.txt", "", "bytes", "\x07\xff\x03", 3, 255},
              {"plain", "", "bytes", "\x07\xff\x03", 3, 255},
              {"a:b.txt", "", "bytes", "\x07\xff\x03", 3, 255},
              {"a.bin", "", "u16", u16, 6, 65535},
              {"a.u16", "", "u16", u16, 6, 65535},
              {"a.u32", "", "u32", u32, 12, 65536},
              {"a.i32", "", "i32", i32, 12, -1},
              {"b.txt", ":u16", "u16", u16, 6, 65535},
              {"b.bin", ":bytes", "bytes", "\x07\xff\x03", 3, 255},
              {"b.bin", ":i32", "i32", i32, 12, -1},
              {"shard.bin", "", "llm.c", shard, shard_len, 65535},
              {"wide.bin", "", "llm.c", wide, wide_len, 65536},
              {"a.npy", "", "npy", array, array_len, -1},
              {"renamed", "", "npy", array, array_len, -1}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    char spec[128];
    const char *specs[] = {
        spec_of(spec, "text", file_of(rows[i].file, rows[i].bytes, rows[i].len), rows[i].format)};
    ptc_data_sources_t sources;
    UNIT_CHECK(ptc_data_sources_open(&diag, specs, 1, &sources) == PTC_OK, rows[i].file);
    const ptc_data_source_t *source = ptc_data_sources_find(&sources, "text");
    if (source) {
      const ptc_data_shard_t *first = source->shards;
      UNIT_CHECK(strcmp(first->format, rows[i].said) == 0, rows[i].file);
      UNIT_CHECK(first->count == 3 && source->row == 0, rows[i].file);
      const int64_t each = ptc_cell_bytes(source->cell);
      UNIT_CHECK(ptc_cell_get_int(source->cell, first->data) == 7, rows[i].file);
      UNIT_CHECK(ptc_cell_get_int(source->cell, first->data + each) == rows[i].second,
                 rows[i].file);
    }
    ptc_data_sources_close(&sources);
    ptc_diag_deinit(&diag);
  }
}

static void test_bad_files(void) {
  unsigned char shard[1100], long_shard[1100], scalar[256], empty[256], big[256];
  size_t shard_len = llmc(shard, 20240520, 1, 4, "\1\0\2\0\3\0", 6);
  size_t long_len = llmc(long_shard, 20240520, 1, -3, "\1\0\2\0\3\0", 6);
  size_t scalar_len = npy(scalar, "<i4", "", "\1\0\0\0", 4);
  size_t empty_len = npy(empty, "<i4", "2, 0", "", 0);
  size_t big_len = npy(big, ">i4", "1,", "\1\0\0\0", 4);
  const struct {
    const char *file, *format, *id;
    const void *bytes;
    size_t len;
  } rows[] = {{"odd.bin", "", "data-format", "abc", 3},
              {"odd.u32", "", "data-format", "abcde", 5},
              {"short.bin", "", "data-format", shard, shard_len},
              {"minus.bin", "", "data-format", long_shard, long_len},
              {"none.bin", ":llm.c", "data-format", "abcd", 4},
              {"scalar.npy", "", "data-format", scalar, scalar_len},
              {"empty.npy", "", "data-format", empty, empty_len},
              {"big.npy", "", "bad-npy", big, big_len},
              {"text.npy", "", "bad-npy", "hello", 5},
              {"text.txt", ":npy", "bad-npy", "hello", 5}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    char spec[128];
    const char *specs[] = {
        spec_of(spec, "text", file_of(rows[i].file, rows[i].bytes, rows[i].len), rows[i].format)};
    ptc_data_sources_t sources;
    UNIT_CHECK(ptc_data_sources_open(&diag, specs, 1, &sources) == PTC_INVALID_INPUT, rows[i].file);
    UNIT_CHECK(diag.num_items == 1 && strcmp(diag.items[0].id, rows[i].id) == 0, rows[i].file);
    ptc_diag_deinit(&diag);
  }
}

// Patterns give their matches in order; further files of a source follow; all are of one kind.
static void test_shards(void) {
  char specs[3][128], pattern[96];
  snprintf(pattern, sizeof(pattern), "%s/part?.txt", folder);
  file_of("part2.txt", "klmnopqrst", 10);
  file_of("part1.txt", "abcdefghij", 10);
  const char *list[] = {spec_of(specs[0], "text", pattern, ""),
                        spec_of(specs[1], "text", file_of("more", "uvwxyz", 6), ""),
                        spec_of(specs[2], "text", file_of("odd.bin", "xy", 2), "")};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_data_sources_t sources;
  CU_ASSERT_EQUAL_FATAL(ptc_data_sources_open(&diag, list, 2, &sources), PTC_OK);
  CU_ASSERT_EQUAL(sources.num_sources, 1);
  CU_ASSERT_EQUAL(sources.sources[0].num_shards, 3);
  CU_ASSERT(memcmp(sources.sources[0].shards[0].data, "abc", 3) == 0);
  CU_ASSERT(memcmp(sources.sources[0].shards[1].data, "klm", 3) == 0);
  CU_ASSERT(memcmp(sources.sources[0].shards[2].data, "uvw", 3) == 0);
  ptc_data_sources_close(&sources);
  CU_ASSERT_EQUAL(ptc_data_sources_open(&diag, list, 3, &sources), PTC_INVALID_INPUT);
  CU_ASSERT_STRING_EQUAL(diag.items[0].id, "data-format");

  // Windows of 4 with a target after each: two of each file of ten, one of the file of six.
  ptc_data_input_t inputs[] = {input_of("tokens", 5, 4, 0, 256), input_of("targets", 5, 4, 1, 256)};
  ptc_data_options_t options = {.flag = "--data",
                                .specs = list,
                                .num_specs = 2,
                                .inputs = inputs,
                                .num_inputs = 2,
                                .order = PTC_DATA_IN_ORDER};
  ptc_data_t *data;
  CU_ASSERT_EQUAL_FATAL(ptc_data_open(&diag, &options, &data), PTC_OK);
  CU_ASSERT_EQUAL(ptc_data_num_samples(data), 5);
  int32_t tokens[20];
  int64_t samples;
  CU_ASSERT_EQUAL(ptc_data_fill(data, &diag, seed, 0, 0, tokens, &samples), PTC_OK);
  for (int i = 0; i < 20; i++) CU_ASSERT_EQUAL(tokens[i], "abcdefghklmnopqruvwx"[i]);
  ptc_data_close(data);

  options.order = PTC_DATA_SHUFFLED;
  CU_ASSERT_EQUAL_FATAL(ptc_data_open(&diag, &options, &data), PTC_OK);
  CU_ASSERT_EQUAL(ptc_data_num_samples(data), 3);
  bool seen[26] = {false};
  for (int64_t step = 0; step < 60; step++) {
    CU_ASSERT_EQUAL(ptc_data_fill(data, &diag, seed, step, 0, tokens, &samples), PTC_OK);
    for (int j = 0; j < 5; j++) {
      int first = tokens[4 * j] - 'a', last = first + 4;  // of its target
      CU_ASSERT(last < 10 || (first >= 10 && last < 20) || first >= 20);
      seen[first] = true;
    }
  }
  for (int i = 0; i < 26; i++)  // every place from which a window fits
    CU_ASSERT_EQUAL(seen[i], i < 6 || (i >= 10 && i < 16) || (i >= 20 && i < 22));
  ptc_data_close(data);
  ptc_diag_deinit(&diag);
}

// --- samples

// Number i of the file is i, so that a value tells its place.
static void test_epochs(void) {
  uint16_t numbers[1003];
  for (int i = 0; i < 1003; i++) numbers[i] = (uint16_t)i;
  char spec[128];
  const char *specs[] = {spec_of(spec, "text", file_of("count.bin", numbers, sizeof(numbers)), "")};
  ptc_data_input_t inputs[] = {input_of("tokens", 9, 10, 0, 1003),
                               input_of("targets", 9, 10, 1, 0)};
  inputs[1].dtype = PTC_I64;
  ptc_data_options_t options = {
      .flag = "--data", .specs = specs, .num_specs = 1, .inputs = inputs, .num_inputs = 2};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_data_t *data;
  CU_ASSERT_EQUAL_FATAL(ptc_data_open(&diag, &options, &data), PTC_OK);
  const int64_t count = ptc_data_num_samples(data);
  CU_ASSERT_EQUAL(count, 99);  // 993 places, 99 windows of 10 however they are shifted
  int64_t orders[2][99];
  for (int64_t epoch = 0; epoch < 2; epoch++) {
    bool seen[1003] = {false};
    for (int64_t step = 11 * epoch; step < 11 * (epoch + 1); step++) {
      int32_t tokens[90];
      int64_t targets[90], samples;
      CU_ASSERT_EQUAL(ptc_data_fill(data, &diag, seed, step, 0, tokens, &samples), PTC_OK);
      CU_ASSERT_EQUAL(samples, 9);
      CU_ASSERT_EQUAL(ptc_data_fill(data, &diag, seed, step, 1, targets, &samples), PTC_OK);
      for (int i = 0; i < 90; i++) {
        CU_ASSERT_EQUAL(tokens[i], tokens[i / 10 * 10] + i % 10);
        CU_ASSERT_EQUAL(targets[i], tokens[i] + 1);
        CU_ASSERT(!seen[tokens[i]]);  // within an epoch no window overlaps another
        seen[tokens[i]] = true;
        orders[epoch][step % 11 * 9 + i / 10] = tokens[i / 10 * 10] / 10;
      }
    }
  }
  CU_ASSERT(memcmp(orders[0], orders[1], sizeof(orders[0])) != 0);
  int32_t again[90], other[90];
  int64_t samples;
  ptc_data_fill(data, &diag, seed, 3, 0, again, &samples);
  ptc_data_fill(data, &diag, seed + 1, 3, 0, other, &samples);
  CU_ASSERT(memcmp(again, other, sizeof(again)) != 0);
  ptc_data_close(data);
  CU_ASSERT_EQUAL_FATAL(ptc_data_open(&diag, &options, &data), PTC_OK);
  ptc_data_fill(data, &diag, seed, 3, 0, other, &samples);
  CU_ASSERT(memcmp(again, other, sizeof(again)) == 0);
  ptc_data_close(data);
  CU_ASSERT_EQUAL(diag.num_items, 0);
  ptc_diag_deinit(&diag);
}

// In order: 6 windows, in batches of 3, then of 4; the last of those has two.
static void test_short_batch(void) {
  char text[41], spec[128];
  for (int i = 0; i < 41; i++) text[i] = (char)('A' + i);
  const char *specs[] = {spec_of(spec, "text", file_of("short.txt", text, 41), "")};
  ptc_data_input_t inputs[] = {input_of("tokens", 3, 6, 0, 128), input_of("targets", 3, 6, 1, 128)};
  inputs[1].ignorable = true;
  ptc_data_options_t options = {.flag = "--val",
                                .specs = specs,
                                .num_specs = 1,
                                .inputs = inputs,
                                .num_inputs = 2,
                                .order = PTC_DATA_IN_ORDER};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_data_t *data;
  CU_ASSERT_EQUAL_FATAL(ptc_data_open(&diag, &options, &data), PTC_OK);
  CU_ASSERT_EQUAL(ptc_data_num_samples(data), 6);  // a seventh would begin at 36
  CU_ASSERT_EQUAL(ptc_data_num_batches(data), 2);
  ptc_data_close(data);
  inputs[0].shape[0] = inputs[1].shape[0] = 4;
  CU_ASSERT_EQUAL_FATAL(ptc_data_open(&diag, &options, &data), PTC_OK);
  CU_ASSERT_EQUAL(ptc_data_num_batches(data), 2);
  int32_t tokens[24], targets[24];
  int64_t samples;
  ptc_data_fill(data, &diag, seed, 1, 0, tokens, &samples);
  ptc_data_fill(data, &diag, seed, 1, 1, targets, &samples);
  CU_ASSERT_EQUAL(samples, 2);
  for (int i = 0; i < 24; i++) {
    CU_ASSERT_EQUAL(tokens[i], i < 12 ? 'A' + 24 + i : 0);
    CU_ASSERT_EQUAL(targets[i], i < 12 ? 'A' + 25 + i : -1);
  }
  ptc_data_close(data);
  ptc_diag_deinit(&diag);
}

// Images and labels: rows that stay together, the batch dim last, an input without samples.
static void test_rows(void) {
  float images[6][2][3], table[4] = {1.5f, 2.5f, 3.5f, 4.5f};
  int64_t labels[6];
  for (int i = 0; i < 6; i++) {
    labels[i] = 10 + i;
    for (int k = 0; k < 6; k++) images[i][k / 3][k % 3] = (float)(100 * i + k);
  }
  unsigned char image_file[512], label_file[512], table_file[512];
  size_t image_len = npy(image_file, "<f4", "6, 2, 3", images, sizeof(images));
  size_t label_len = npy(label_file, "<i8", "6,", labels, sizeof(labels));
  size_t table_len = npy(table_file, "<f4", "2, 2", table, sizeof(table));
  char specs[3][128];
  const char *list[] = {
      spec_of(specs[0], "image", file_of("image.npy", image_file, image_len), ""),
      spec_of(specs[1], "label", file_of("label.npy", label_file, label_len), ""),
      spec_of(specs[2], "table", file_of("table.npy", table_file, table_len), "")};
  ptc_data_input_t inputs[] = {{.name = "image",
                                .source = "image",
                                .dtype = PTC_F32,
                                .num_dims = 3,
                                .shape = {2, 3, 4},
                                .batch_dim = 2},
                               {.name = "label",
                                .source = "label",
                                .dtype = PTC_I32,
                                .num_dims = 1,
                                .shape = {4},
                                .range = 16},
                               {.name = "table",
                                .source = "table",
                                .dtype = PTC_F64,
                                .num_dims = 1,
                                .shape = {4},
                                .batch_dim = -1}};
  ptc_data_options_t options = {
      .flag = "--data", .specs = list, .num_specs = 3, .inputs = inputs, .num_inputs = 3};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_data_t *data;
  CU_ASSERT_EQUAL_FATAL(ptc_data_open(&diag, &options, &data), PTC_OK);
  CU_ASSERT_EQUAL(ptc_data_num_samples(data), 6);
  int seen[6] = {0};
  for (int64_t step = 0; step < 3; step++) {  // two epochs
    float image[24];
    int32_t label[4];
    double value[4];
    int64_t samples;
    CU_ASSERT_EQUAL(ptc_data_fill(data, &diag, seed, step, 0, image, &samples), PTC_OK);
    CU_ASSERT_EQUAL(ptc_data_fill(data, &diag, seed, step, 1, label, &samples), PTC_OK);
    CU_ASSERT_EQUAL(ptc_data_fill(data, &diag, seed, step, 2, value, &samples), PTC_OK);
    for (int j = 0; j < 4; j++) {
      CU_ASSERT_FATAL(label[j] >= 10 && label[j] < 16);
      seen[label[j] - 10]++;
      for (int k = 0; k < 6; k++) CU_ASSERT_EQUAL(image[4 * k + j], 100 * (label[j] - 10) + k);
      CU_ASSERT_EQUAL(value[j], table[j]);
    }
  }
  for (int i = 0; i < 6; i++) CU_ASSERT_EQUAL(seen[i], 2);
  ptc_data_close(data);
  CU_ASSERT_EQUAL(diag.num_items, 0);
  ptc_diag_deinit(&diag);
}

// --- what does not fit

static void test_unfit(void) {
  int32_t counted[24];
  for (int i = 0; i < 24; i++) counted[i] = i;
  unsigned char rows_file[512], real_file[512], other_file[512];
  size_t rows_len = npy(rows_file, "<i4", "4, 6", counted, 96);
  size_t real_len = npy(real_file, "<f4", "24,", counted, 96);
  size_t other_len = npy(other_file, "<i4", "5,", counted, 20);
  char text[128], rows[128], real[128], other[128], absent[128];
  spec_of(text, "text", file_of("t.txt", "abcdefghijkl", 12), "");
  spec_of(rows, "text", file_of("rows.npy", rows_file, rows_len), "");
  spec_of(real, "text", file_of("real.npy", real_file, real_len), "");
  spec_of(other, "other", file_of("other.npy", other_file, other_len), "");
  spec_of(absent, "text", "/nonexistent/file", "");
  const struct {
    const char *specs[2];
    int64_t b, s, offset, b2;  // of the two inputs, the second from |source|
    const char *source, *id;
  } cases[] = {
      {{"text"}, 2, 4, 0, 2, "text", "data-option"},
      {{"=x"}, 2, 4, 0, 2, "text", "data-option"},
      {{"text="}, 2, 4, 0, 2, "text", "data-option"},
      {{absent}, 2, 4, 0, 2, "text", "read-file"},
      {{"text=/nonexistent/*"}, 2, 4, 0, 2, "text", "read-file"},
      {{"text=/tmp"}, 2, 4, 0, 2, "text", "read-file"},
      {{text}, 2, 4, 0, 2, "other", "data-missing"},
      {{text, other}, 2, 4, 0, 2, "text", "data-unknown"},
      {{text}, 2, 13, 0, 2, "text", "data-short"},
      {{text}, 2, 4, 9, 2, "text", "data-short"},
      {{text}, 2, 4, 0, 3, "text", "data-shape"},
      {{text}, 2, 0, 0, 2, "text", "data-shape"},
      {{text}, 2, 4, INT64_MAX, 2, "text", "data-shape"},
      {{text}, INT64_MAX, 4, 0, 2, "text", "data-shape"},
      {{rows}, 2, 7, 0, 2, "text", "data-shape"},
      {{rows}, 2, 4, 3, 2, "text", "data-shape"},
      {{rows}, 2, 4, -1, 2, "text", "data-shape"},
      {{real}, 2, 4, 0, 2, "text", "data-shape"},
      {{text, other}, 2, 4, 0, 2, "other", "data-count"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    ptc_data_input_t inputs[] = {input_of("x", cases[i].b, cases[i].s, cases[i].offset, 0),
                                 input_of("y", cases[i].b2, 1, 0, 0)};
    inputs[1].source = cases[i].source;
    ptc_data_options_t options = {.flag = "--data",
                                  .specs = cases[i].specs,
                                  .num_specs = cases[i].specs[1] ? 2 : 1,
                                  .inputs = inputs,
                                  .num_inputs = 2};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_data_t *data;
    char name[64];
    snprintf(name, sizeof(name), "%zu: %s", i, cases[i].id);
    UNIT_CHECK(ptc_data_open(&diag, &options, &data) != PTC_OK, name);
    UNIT_CHECK(data == NULL, name);
    bool found = false;
    for (int64_t k = 0; k < diag.num_items; k++) found |= !strcmp(diag.items[k].id, cases[i].id);
    UNIT_CHECK(found, name);
    ptc_data_close(data);
    ptc_diag_deinit(&diag);
  }
}

static void test_range(void) {
  static const int32_t numbers[] = {0, 1, 2, 3, -1, 5, 6, 7};
  static const struct {
    const char *format;
    int64_t range;
    bool ignorable;
    const char *message;  // a part; NULL: fits
  } rows[] = {
      {"", 8, true, NULL},
      {"", 0, false, NULL},
      {"", 8, false, "number 4 (at byte 16) is -1, but input \"x\" takes numbers in [0, 8)"},
      {"", 7, true, "number 7 (at byte 28) is 7"},
      {":u32", 0, false,
       "number 4 (at byte 16) is 4294967295, but input \"x\" takes numbers in i32"},
      {":u32", 8, true, "is 4294967295"}};
  char spec[128];
  const char *path = file_of("range.i32", numbers, sizeof(numbers));
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    const char *specs[] = {spec_of(spec, "text", path, rows[i].format)};
    ptc_data_input_t input = input_of("x", 1, 8, 0, rows[i].range);
    input.ignorable = rows[i].ignorable;
    ptc_data_options_t options = {
        .flag = "--data", .specs = specs, .num_specs = 1, .inputs = &input, .num_inputs = 1};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_data_t *data;
    CU_ASSERT_EQUAL_FATAL(ptc_data_open(&diag, &options, &data), PTC_OK);
    int32_t values[8];
    int64_t samples;
    ptc_status_t status = ptc_data_fill(data, &diag, seed, 0, 0, values, &samples);
    UNIT_CHECK((status == PTC_OK) == !rows[i].message, rows[i].message ? rows[i].message : "fits");
    if (rows[i].message) {
      UNIT_CHECK(strcmp(diag.items[0].id, "data-range") == 0, rows[i].message);
      UNIT_CHECK(strstr(diag.items[0].message, rows[i].message) != NULL, diag.items[0].message);
    } else {
      CU_ASSERT(memcmp(values, numbers, sizeof(values)) == 0);
    }
    ptc_data_close(data);
    ptc_diag_deinit(&diag);
  }
}

static void test_clean_up(void) {
  char command[128];
  snprintf(command, sizeof(command), "rm -r '%s'", folder);
  CU_ASSERT_EQUAL(system(command), 0);
}

static const unit_test_t tests[] = {
    {"set up", test_set_up},     {"formats", test_formats}, {"bad files", test_bad_files},
    {"shards", test_shards},     {"epochs", test_epochs},   {"short batch", test_short_batch},
    {"rows", test_rows},         {"unfit", test_unfit},     {"range", test_range},
    {"clean up", test_clean_up},
};
UNIT_MAIN("data", tests)

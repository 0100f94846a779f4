// Proves: no safetensors file crashes the reader or makes it look outside of the file; what it accepts is written
// as a file with the same arrays. An input is a whole file, or, with `{` first, a header, a line of `%`, the data.
#include <stdlib.h>
#include <string.h>

#include "runtime/safetensors.h"
#include "tests/support/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ELEMENTS = 1 << 16 };

static memory_file_t open_input(const uint8_t *data, size_t size) {
  if (!size || data[0] != '{') return memory_file_open(data, size);
  const uint8_t *mark = memmem(data, size, "\n%\n", 3);
  const uint64_t len = mark ? (uint64_t)(mark - data) : size;
  uint8_t *whole = malloc(8 + size);
  if (!whole) abort();
  memcpy(whole, &len, 8);
  memcpy(whole + 8, data, len);
  size_t rest = mark ? size - len - 3 : 0;
  if (rest) memcpy(whole + 8 + len, mark + 3, rest);
  memory_file_t file = memory_file_open(whole, 8 + len + rest);
  free(whole);
  return file;
}

// Every number can be read, and as every dtype.
static void check_entry(ptc_diag_t *diag, const ptc_safetensors_t *file,
                        const ptc_tensor_entry_t *entry) {
  const unsigned char *end = file->mapping.data + file->mapping.bytes;
  if (entry->data < file->mapping.data + file->header_bytes || entry->data > end ||
      entry->bytes > end - entry->data)
    abort();
  if (ptc_safetensors_find(file, entry->name) != entry) abort();
  int64_t n = entry->num_elements < MAX_ELEMENTS ? entry->num_elements : MAX_ELEMENTS;
  double *out = malloc((size_t)n * sizeof(double) + 1);
  if (!out) abort();
  for (int dtype = 0; dtype < PTC_NUM_DTYPES; dtype++) {
    ptc_status_t status =
        ptc_safetensors_get(diag, file, entry, entry->num_elements - n, n, (ptc_dtype_t)dtype, out);
    if ((status == PTC_OK) != (entry->cell != PTC_NUM_CELLS)) abort();
  }
  free(out);
}

// Doubles hold all but large i64; NaN keeps being one.
static void check_again(ptc_diag_t *diag, const char *path) {
  ptc_tensor_file_t first, second;
  if (ptc_safetensors_read(diag, path, &first) != PTC_OK) return;
  char name[64];
  snprintf(name, sizeof(name), "/dev/shm/ptc_safetensors_fuzz.%ld", (long)getpid());
  if (ptc_safetensors_write(diag, name, first.tensors, first.count) != PTC_OK ||
      ptc_safetensors_read(diag, name, &second) != PTC_OK || second.count != first.count)
    abort();
  for (int64_t i = 0; i < first.count; i++) {
    const ptc_named_tensor_t *a = &first.tensors[i];
    const ptc_named_tensor_t *b = ptc_tensor_file_find(&second, a->name);
    if (!b || a->dtype != b->dtype || a->num_elements != b->num_elements) abort();
    for (int64_t e = 0; e < a->num_elements; e++)
      if (a->data[e] != b->data[e] && a->data[e] == a->data[e]) abort();
  }
  unlink(name);
  ptc_tensor_file_deinit(&second);
  ptc_tensor_file_deinit(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  memory_file_t input = open_input(data, size);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_safetensors_t file;
  if (ptc_safetensors_open(&diag, input.path, &file) == PTC_OK) {
    if (diag.num_errors) abort();
    for (int64_t i = 0; i < file.count; i++) check_entry(&diag, &file, &file.entries[i]);
    ptc_safetensors_close(&file);
    check_again(&diag, input.path);
  } else if (!diag.num_errors) {
    abort();
  }
  ptc_diag_deinit(&diag);
  memory_file_close(&input);
  return 0;
}

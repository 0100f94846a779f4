// Proves: no name map crashes its reader, nor reads or writes outside of tensors; what exports to a file imports
// from it again with the same numbers.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/name_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NUM_OURS = 5, MAX_ELEMENTS = 24 };

static const char *const names[] = {"x", "y", "z"};
static const ptc_host_tensor_t shapes[NUM_OURS] = {
    {"t", PTC_F32, 3, {2, 3, 4}, NULL, names}, {"u.0", PTC_F32, 2, {4, 3}, NULL, names},
    {"u.1", PTC_BF16, 2, {4, 3}, NULL, NULL},  {"v", PTC_F64, 1, {6}, NULL, names},
    {"s", PTC_I32, 0, {0}, NULL, names},
};

typedef struct set_s {
  ptc_host_tensor_t
      tensors[NUM_OURS];  // of exactly their bytes, so that a sanitizer sees their ends
} set_t;

static set_t set_new(int start) {
  set_t set;
  memcpy(set.tensors, shapes, sizeof(shapes));
  for (int t = 0; t < NUM_OURS; t++) {
    int64_t n = ptc_host_tensor_num_elements(&shapes[t]), each = ptc_dtype_bytes(shapes[t].dtype);
    set.tensors[t].data = malloc((size_t)(n * each));
    if (!set.tensors[t].data) abort();
    for (int64_t e = 0; e < n; e++)
      ptc_cell_put(shapes[t].dtype, (double)(start ? 10 * t + e : 0),
                   (char *)set.tensors[t].data + e * each);
  }
  return set;
}

static void set_drop(set_t *set) {
  for (int t = 0; t < NUM_OURS; t++) free(set->tensors[t].data);
}

// The first |count| of ours, out and back.
static void check(const ptc_name_map_t *map, int count) {
  char path[64];
  snprintf(path, sizeof(path), "/dev/shm/ptc_name_map_fuzz.%ld", (long)getpid());
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  set_t ours = set_new(1), back = set_new(0);
  ptc_status_t status = ptc_name_map_export(&diag, map, ours.tensors, count, PTC_NUM_DTYPES, path);
  if ((status == PTC_OK) != (diag.num_errors == 0)) abort();
  ptc_safetensors_t file;
  if (status == PTC_OK) {
    if (ptc_safetensors_open(&diag, path, &file) != PTC_OK ||
        ptc_name_map_import(&diag, map, &file, 1, back.tensors, count) != PTC_OK)
      abort();
    ptc_safetensors_close(&file);
    for (int t = 0; t < count; t++)
      if (memcmp(ours.tensors[t].data, back.tensors[t].data,
                 (size_t)ptc_host_tensor_bytes(&shapes[t])) != 0)
        abort();
    unlink(path);
  }
  set_drop(&ours);
  set_drop(&back);
  ptc_diag_deinit(&diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_name_map_t *map;
  if (ptc_name_map_parse(&diag, "a.map", (const char *)data, size, &map) != PTC_OK &&
      !diag.num_errors)
    abort();
  // The first tensors alone, so that short maps do something, then all.
  for (int count = 1; map && count <= NUM_OURS; count += 2) check(map, count);
  ptc_name_map_destroy(map);
  ptc_diag_deinit(&diag);
  return 0;
}

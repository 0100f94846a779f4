// Proves: no file of metrics crashes its reader; what it accepts is written as lines that read the same.
#include <stdlib.h>
#include <string.h>

#include "runtime/metrics.h"
#include "tests/support/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(double a, double b) { return a == b || (a != a && b != b); }

static void check_same(const ptc_metrics_record_t *a, const ptc_metrics_record_t *b) {
  if (a->step != b->step || !same(a->loss, b->loss) || a->num_losses != b->num_losses ||
      a->num_metrics != b->num_metrics || a->peak_bytes != b->peak_bytes)
    abort();
  if (!same(a->tokens_per_s, b->tokens_per_s) || !same(a->seconds, b->seconds)) abort();
  for (int32_t i = 0; i < a->num_losses; i++)
    if (!same(a->losses[i].value, b->losses[i].value)) abort();
  for (int32_t i = 0; i < a->num_metrics; i++)
    if (!same(a->metrics[i].value, b->metrics[i].value)) abort();
}

// Names with a point may stand for others in the marks of what is not finite; bytes beyond ASCII are renamed.
static bool is_plain(const ptc_metrics_number_t *numbers, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    for (const char *c = numbers[i].name; *c; c++)
      if ((unsigned char)*c >= 0x7f || *c == '.') return false;
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_metrics_t read, again;
  if (ptc_metrics_parse(&diag, "metrics.jsonl", (const char *)data, (int64_t)size, &read) ==
      PTC_OK) {
    memory_file_t file = memory_file_open("", 0);
    ptc_metrics_writer_t writer;
    if (ptc_metrics_open(&diag, file.path, 0, &writer) != PTC_OK) abort();
    bool plain = true;
    for (int64_t i = 0; i < read.count; i++) {
      const ptc_metrics_record_t *record = &read.records[i];
      plain = plain && is_plain(record->losses, record->num_losses) &&
              is_plain(record->metrics, record->num_metrics);
      if (ptc_metrics_write(&diag, &writer, record) != PTC_OK) abort();
    }
    ptc_metrics_close(&writer);
    if (plain) {
      if (ptc_metrics_read(&diag, file.path, &again) != PTC_OK || again.count != read.count)
        abort();
      for (int64_t i = 0; i < read.count; i++) check_same(&read.records[i], &again.records[i]);
      ptc_metrics_deinit(&again);
    }
    memory_file_close(&file);
    ptc_metrics_deinit(&read);
  } else if (!diag.num_errors) {
    abort();
  }
  ptc_diag_deinit(&diag);
  return 0;
}

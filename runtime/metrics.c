#include "runtime/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "runtime/mapping.h"
#include "runtime/metrics_impl.h"

static ptc_status_t cannot_write(ptc_diag_t *diag, const char *path) {
  return ptc_error(diag, (ptc_loc_t){0}, PTC_IO, "write-file", "cannot write \"%s\": %s", path,
                   strerror(errno));
}

// --- resuming

// Lines of |text| that stay: records of no later step than |step|.
static void keep_lines(ptc_diag_t *diag, const char *path, const char *text, const char *end,
                       int64_t step, ptc_str_t *out) {
  for (int32_t number = 1; text < end; number++) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    if (!newline) return;
    ptc_arena_t arena = {0};
    ptc_metrics_record_t record;
    const char *what = ptc_metrics_parse_line(text, (size_t)(newline - text), &arena, &record);
    if (what)
      ptc_warning(diag, (ptc_loc_t){path, number, 1}, "metrics-line",
                  "this is no line of metrics, and is dropped: %s", what);
    else if (record.step <= step)
      ptc_str_append_n(out, text, (size_t)(newline + 1 - text));
    ptc_arena_deinit(&arena);
    text = newline + 1;
  }
}

// |path| gets |text|, or stays as it was.
static bool replace_file(const char *path, const ptc_str_t *text) {
  ptc_str_t temporary = {0};
  ptc_str_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
  int fd = open(temporary.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool ok = fd >= 0 && ptc_write_all(fd, text->data, (int64_t)text->len) && fsync(fd) == 0;
  int error = errno;
  if (fd >= 0) close(fd);
  if (ok && rename(temporary.data, path) != 0) {
    ok = false;
    error = errno;
  }
  if (!ok && fd >= 0) unlink(temporary.data);
  ptc_str_deinit(&temporary);
  errno = error;
  return ok;
}

static ptc_status_t drop_later_lines(ptc_diag_t *diag, const char *path, int64_t step) {
  if (access(path, F_OK) != 0) return PTC_OK;
  ptc_mapping_t mapping;
  PTC_TRY(ptc_mapping_open(diag, path, &mapping));
  ptc_str_t kept = {0};
  const char *text = (const char *)mapping.data;
  keep_lines(diag, path, text, text + mapping.bytes, step, &kept);
  bool ok = (int64_t)kept.len == mapping.bytes || replace_file(path, &kept);
  ptc_status_t status = ok ? PTC_OK : cannot_write(diag, path);
  ptc_str_deinit(&kept);
  ptc_mapping_close(&mapping);
  return status;
}

ptc_status_t ptc_metrics_open(ptc_diag_t *diag, const char *path, int64_t step,
                              ptc_metrics_writer_t *out_writer) {
  *out_writer = (ptc_metrics_writer_t){.fd = -1};
  PTC_TRY(drop_later_lines(diag, path, step));
  out_writer->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (out_writer->fd < 0) return cannot_write(diag, path);
  ptc_str_append(&out_writer->path, path);
  return PTC_OK;
}

// --- one line

// Bytes that JSON has no place for are named by number.
static void put_string(ptc_str_t *line, const char *text) {
  ptc_str_append(line, "\"");
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      ptc_str_printf(line, "\\%c", *text);
    else if (*text >= 0x20 && *text < 0x7f)
      ptc_str_append_n(line, text, 1);
    else
      ptc_str_printf(line, "\\u%04x", (unsigned char)*text);
  }
  ptc_str_append(line, "\"");
}

// Numbers that JSON lacks are noted in |nonfinite|, as members of an object.
static void put_number(ptc_str_t *line, ptc_str_t *nonfinite, const char *group, const char *name,
                       double value) {
  ptc_str_append(line, line->data[line->len - 1] == '{' ? "" : ",");
  put_string(line, name);
  ptc_str_append(line, ":");
  if (isfinite(value)) {
    ptc_str_append_double(line, value);
    return;
  }
  ptc_str_append(line, "null");
  ptc_str_t key = {0};
  ptc_str_printf(&key, "%s%s%s", group ? group : "", group ? "." : "", name);
  ptc_str_append(nonfinite, nonfinite->len ? "," : "");
  put_string(nonfinite, key.data);
  ptc_str_append(nonfinite, isnan(value) ? ":\"nan\"" : value > 0 ? ":\"inf\"" : ":\"-inf\"");
  ptc_str_deinit(&key);
}

static void put_group(ptc_str_t *line, ptc_str_t *nonfinite, const char *group,
                      const ptc_metrics_number_t *numbers, int32_t count) {
  if (!count) return;
  ptc_str_printf(line, ",\"%s\":{", group);
  for (int32_t i = 0; i < count; i++)
    put_number(line, nonfinite, group, numbers[i].name, numbers[i].value);
  ptc_str_append(line, "}");
}

static void print_line(ptc_str_t *line, const ptc_metrics_record_t *record) {
  ptc_str_t nonfinite = {0};
  line->len = 0;
  ptc_str_append(line, "{\"kind\":");
  put_string(line, record->kind);
  ptc_str_printf(line, ",\"step\":%" PRId64, record->step);
  put_number(line, &nonfinite, NULL, "loss", record->loss);
  put_group(line, &nonfinite, "losses", record->losses, record->num_losses);
  put_group(line, &nonfinite, "metrics", record->metrics, record->num_metrics);
  if (!(record->lr < 0)) put_number(line, &nonfinite, NULL, "lr", record->lr);
  if (record->tokens_per_s != 0)
    put_number(line, &nonfinite, NULL, "tokens_per_s", record->tokens_per_s);
  if (record->seconds != 0) put_number(line, &nonfinite, NULL, "seconds", record->seconds);
  if (record->peak_bytes) ptc_str_printf(line, ",\"peak_bytes\":%" PRId64, record->peak_bytes);
  if (nonfinite.len) ptc_str_printf(line, ",\"nonfinite\":{%s}", nonfinite.data);
  ptc_str_append(line, "}\n");
  ptc_str_deinit(&nonfinite);
}

ptc_status_t ptc_metrics_write(ptc_diag_t *diag, ptc_metrics_writer_t *writer,
                               const ptc_metrics_record_t *record) {
  print_line(&writer->line, record);
  const off_t before = lseek(writer->fd, 0, SEEK_END);
  if (ptc_write_all(writer->fd, writer->line.data, (int64_t)writer->line.len)) return PTC_OK;
  int error = errno;
  if (before >= 0 && ftruncate(writer->fd, before) != 0) error = errno;  // no half of a line stays
  errno = error;
  return cannot_write(diag, writer->path.data);
}

ptc_status_t ptc_metrics_sync(ptc_diag_t *diag, ptc_metrics_writer_t *writer) {
  // A pipe or a terminal knows no sync.
  if (fsync(writer->fd) == 0 || errno == EINVAL || errno == EROFS) return PTC_OK;
  return cannot_write(diag, writer->path.data);
}

void ptc_metrics_close(ptc_metrics_writer_t *writer) {
  if (writer->fd >= 0) close(writer->fd);
  ptc_str_deinit(&writer->path);
  ptc_str_deinit(&writer->line);
  *writer = (ptc_metrics_writer_t){.fd = -1};
}

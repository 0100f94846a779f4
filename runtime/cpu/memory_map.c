#include "runtime/cpu/memory_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/base/str.h"

#if !defined(MADV_POPULATE_WRITE)  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

enum { HUGE_PAGE = 2 << 20 };

// The number after |key| in a file of `key: number kB` lines, in bytes; -1 if it is not there.
static int64_t read_kib(const char *path, const char *key) {
  char *text = NULL;
  size_t len = 0;
  if (ptc_read_file(path, &text, &len) != PTC_OK) return -1;
  const char *line = strstr(text, key);
  const int64_t bytes = line ? 1024 * strtoll(line + strlen(key), NULL, 10) : -1;
  free(text);
  return bytes;
}

int64_t ptc_memory_resident(void) {
  const int64_t bytes = read_kib("/proc/self/status", "VmRSS:");
  return bytes > 0 ? bytes : 0;
}

int64_t ptc_memory_peak(void) {
  const int64_t bytes = read_kib("/proc/self/status", "VmHWM:");
  return bytes > 0 ? bytes : 0;
}

static double gib(int64_t bytes) { return (double)bytes / (1 << 30); }

ptc_status_t ptc_memory_map(ptc_diag_t *diag, int64_t num_bytes, void **out_memory) {
  *out_memory = NULL;
  const int64_t all = read_kib("/proc/meminfo", "MemTotal:"),
                available = read_kib("/proc/meminfo", "MemAvailable:");
  if (all > 0 && num_bytes > all)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INFEASIBLE, "out-of-memory",
                     "the plan needs %" PRId64
                     " bytes (%.2f GiB); this machine has %.2f GiB: a "
                     "smaller batch, micro_batch or recompute = full helps",
                     num_bytes, gib(num_bytes), gib(all));
  if (available > 0 && num_bytes > available)
    ptc_warning(diag, (ptc_loc_t){0}, "little-memory", "the plan needs %.2f GiB; %.2f GiB are free",
                gib(num_bytes), gib(available));
  if (num_bytes == 0) num_bytes = 1;
  // More addresses than needed, then what lies before and behind the aligned part is given back.
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t size = ((size_t)num_bytes + page - 1) / page * page, room = size + HUGE_PAGE;
  char *base = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INFEASIBLE, "out-of-memory",
                     "the system gives no %" PRId64 " bytes (%.2f GiB free): %s", num_bytes,
                     gib(available), strerror(errno));
  const size_t before = (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
  if (before) munmap(base, before);
  if (room - before > size) munmap(base + before + size, room - before - size);
  madvise(base + before, size, MADV_HUGEPAGE);  // a wish
  *out_memory = base + before;
  return PTC_OK;
}

void ptc_memory_populate(void *memory, int64_t num_bytes) {
  if (num_bytes <= 0) return;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)memory / page * page,
                  end = (uintptr_t)memory + (uintptr_t)num_bytes;
  if (madvise((void *)first, end - first, MADV_POPULATE_WRITE) == 0) return;
  for (uintptr_t at = (uintptr_t)memory; at < end; at = at / page * page + page) {
    volatile char *byte = (volatile char *)at;
    *byte = *byte;
  }
}

void ptc_memory_unmap(void *memory, int64_t num_bytes) {
  if (memory) munmap(memory, num_bytes ? (size_t)num_bytes : 1);
}

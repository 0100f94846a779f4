#include "runtime/cpu/cores.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/str.h"

int32_t ptc_parse_cpu_max(const char *text) {
  int64_t quota, period;
  if (sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) != 2 || quota <= 0 || period <= 0)
    return 0;
  const int64_t cores = (quota - 1) / period + 1;
  return cores < INT32_MAX ? (int32_t)cores : 0;
}

// The limit of the group at |path| below the root of all groups; 0: none.
static int32_t limit_of_group(const char *path) {
  ptc_str_t file = {0};
  char *text = NULL;
  size_t len;
  ptc_str_printf(&file, "/sys/fs/cgroup%s/cpu.max", path);
  const int32_t limit =
      ptc_read_file(file.data, &text, &len) == PTC_OK ? ptc_parse_cpu_max(text) : 0;
  free(text);
  ptc_str_deinit(&file);
  return limit;
}

// The least limit of this process's group and those around it (cgroup v2); 0: none.
static int32_t limit_of_groups(void) {
  char *text = NULL;
  size_t len;
  if (ptc_read_file("/proc/self/cgroup", &text, &len) != PTC_OK) return 0;
  char *path = strstr(text, "0::/");
  int32_t least = 0;
  if (path) {
    path += 3;
    path[strcspn(path, "\n")] = '\0';
    for (;;) {
      const int32_t limit = limit_of_group(path);
      if (limit && (!least || limit < least)) least = limit;
      char *slash = strrchr(path, '/');
      if (!slash) break;
      *slash = '\0';
    }
  }
  free(text);
  return least;
}

int32_t ptc_num_cores(void) {
  // A set of 8192 CPUs: larger than any machine.
  cpu_set_t set[8192 / CPU_SETSIZE];
  CPU_ZERO_S(sizeof set, set);
  int32_t count = 0;
  if (sched_getaffinity(0, sizeof set, set) == 0) count = CPU_COUNT_S(sizeof set, set);
  if (count < 1) count = 1;
  const int32_t limit = limit_of_groups();
  return limit && limit < count ? limit : count;
}

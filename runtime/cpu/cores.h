// How many cores this process may use.
#ifndef PTC_RUNTIME_CPU_CORES_H_
#define PTC_RUNTIME_CPU_CORES_H_

#include <stdint.h>

// The cores of its affinity mask, or fewer if its control group has a share of less (a container with a limit);
// at least 1.
int32_t ptc_num_cores(void);

// The limit that the text of a cpu.max file states, rounded up: "150000 100000" is 2. 0: none.
int32_t ptc_parse_cpu_max(const char *text);

#endif  // PTC_RUNTIME_CPU_CORES_H_

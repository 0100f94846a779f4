// What this machine can do, for the planner's model of it (`--cluster local`).
#ifndef PTC_RUNTIME_MEASURE_H_
#define PTC_RUNTIME_MEASURE_H_

#include "ir/base/diag.h"

typedef struct ptc_machine_s {
  int32_t cores;          // that this process may use
  double fma_flops;       // peak of f32 multiply-adds on one core, FLOP/s
  double stream_one;      // bytes/s of a triad in memory, 12 bytes an element: one core,
  double stream_all;      // all cores
  double launch_s;        // a launch of one phase of a tile per core
  double comm_latency_s;  // an all_reduce of a few bytes by two ranks that are threads
  double comm_rate;       // and how fast they add large ones: bytes of the operand per second
  double memory_bytes;    // of the machine, or of the control group if it has less
} ptc_machine_t;

// Bytes of memory of the machine, or of the control group if it may use less; 0: the system does not tell.
double ptc_machine_memory(void);

// Takes about a second. The best of many short turns counts, since other work on the machine can only slow them down.
// PTC_DEVICE with a diagnostic if threads or memory cannot be had.
ptc_status_t ptc_machine_measure(ptc_diag_t *diag, ptc_machine_t *out_machine);

#endif  // PTC_RUNTIME_MEASURE_H_

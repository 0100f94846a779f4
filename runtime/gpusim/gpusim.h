// What the simulated driver library has beside the driver's entry points.
#ifndef PTC_RUNTIME_GPUSIM_GPUSIM_H_
#define PTC_RUNTIME_GPUSIM_GPUSIM_H_

#include "runtime/gpusim/launch.h"

#define PTC_GPUSIM_EXPORT __attribute__((visibility("default")))

// --- for the program that runs a plan

// Before a driver is opened: whether kernels are checked and counted, and how many devices there are (0: as many
// as before). Without a call the environment says so: PTC_GPUSIM_CHECKS=1, PTC_GPUSIM_COUNTERS=1, PTC_GPUSIM_DEVICES=4
// (default: 1).
typedef void (*ptc_gpusim_configure_fn_t)(bool checks, bool counters, int32_t num_devices);
// The counters of the |index|-th kernel, by the order of first launch; false if there are no more. |*out_name|
// lives as long as the library.
typedef bool (*ptc_gpusim_counters_fn_t)(int32_t index, const char **out_name,
                                         sim_counters_t *out_counters);
#define PTC_GPUSIM_CONFIGURE "ptc_gpusim_configure"
#define PTC_GPUSIM_COUNTERS "ptc_gpusim_counters"

PTC_GPUSIM_EXPORT void ptc_gpusim_configure(bool checks, bool counters, int32_t num_devices);
PTC_GPUSIM_EXPORT bool ptc_gpusim_counters(int32_t index, const char **out_name,
                                           sim_counters_t *out_counters);

// --- for the simulated NCCL and cuBLASLt

// Work of several devices on a stream of one of them: runs in the stream's order, without any lock of the device,
// and may wait for other devices. Another result than 0 is the device's error from then on, with the text at
// |report| (PTC_GPUSIM_REPORT bytes). |arg| is free()d after it, or if it never runs.
enum { PTC_GPUSIM_REPORT = 512 };
typedef int (*ptc_gpusim_shared_fn_t)(void *arg, char *report);
// Queues it on |stream| (NULL: the current device's default stream); 0 or the driver's code.
PTC_GPUSIM_EXPORT int ptc_gpusim_enqueue(void *stream, ptc_gpusim_shared_fn_t run, void *arg);
// The same for work of one device alone, which waits for no other: a graph may record it, and run it more than once.
PTC_GPUSIM_EXPORT int ptc_gpusim_enqueue_call(void *stream, ptc_gpusim_shared_fn_t run, void *arg);
// The device that is current on this thread, or -1; the one that |stream| is of (NULL: the current one).
PTC_GPUSIM_EXPORT int ptc_gpusim_current(void);
PTC_GPUSIM_EXPORT int ptc_gpusim_device_of(void *stream);
// Whether all of the range is one allocation's of |device|; |writes|: notes that it has been written.
PTC_GPUSIM_EXPORT bool ptc_gpusim_touch(int device, uint64_t address, uint64_t bytes, bool writes);
// Whether the NCCL operation that begins now on |device| is one that PTC_GPUSIM_FAULT names.
PTC_GPUSIM_EXPORT bool ptc_gpusim_nccl_fails(int device);
// Whether the context of |device| ends: whoever waits for other devices gives up.
PTC_GPUSIM_EXPORT bool ptc_gpusim_is_closing(int device);

#endif  // PTC_RUNTIME_GPUSIM_GPUSIM_H_

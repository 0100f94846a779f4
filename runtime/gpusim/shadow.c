// Shadow of shared memory: which bytes have been written, and who touched each last, for races.
//
// Two accesses of a byte by different threads, one of them a write, race unless a barrier lies between them.
// Barriers order warps by vector clocks (sim_warp_t.seen); inside of a warp, bar.warp.sync and barriers
// count its epoch.
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/gpusim/exec_impl.h"

typedef struct touch_s {
  uint32_t clock;  // of the warp; 0: never
  uint32_t epoch;
  uint16_t thread;
  uint16_t kind;
  int32_t line;
} touch_t;

typedef struct byte_s {
  touch_t write, read, other_read;  // other_read: by another warp than |read|
  bool valid, copying;              // copying: a cp.async has not been waited for
} byte_t;

struct sim_shadow_s {
  byte_t *bytes;
};

struct sim_shadow_s *sim_shadow_create(int64_t shared_bytes) {
  struct sim_shadow_s *shadow = ptc_xmalloc(sizeof *shadow);
  shadow->bytes = ptc_xmalloc(sizeof *shadow->bytes * (size_t)(shared_bytes + 1));
  return shadow;
}

void sim_shadow_destroy(struct sim_shadow_s *shadow) {
  if (!shadow) return;
  free(shadow->bytes);
  free(shadow);
}

void sim_shadow_clear(struct sim_shadow_s *shadow, int64_t shared_bytes) {
  memset(shadow->bytes, 0, sizeof *shadow->bytes * (size_t)shared_bytes);
}

// Whether |touch| and what |warp| does now are without order.
static bool unordered(const sim_warp_t *warp, int32_t lane, const touch_t *touch) {
  const int32_t other = touch->thread / SIM_LANES;
  if (!touch->clock) return false;
  if (other != warp->index) return touch->clock > warp->seen[other];
  return touch->thread % SIM_LANES != lane && touch->epoch == warp->epoch;
}

static bool race(sim_warp_t *warp, const sim_op_t *op, int32_t lane, const touch_t *touch,
                 int64_t offset, const char *now) {
  static const char *const names[] = {"reads", "writes", "updates", "copies to", "copied to"};
  sim_fault(warp, op, lane, SIM_FAULT_RACE,
            "race in shared memory at byte %" PRId64
            ": this thread %s it, and thread %d %s it (PTX "
            "line %" PRId32 ") with no barrier between",
            offset, now, touch->thread, names[touch->kind], touch->line);
  return false;
}

static void note_read(const sim_warp_t *warp, byte_t *byte, touch_t now) {
  if (byte->read.clock && byte->read.thread / SIM_LANES != warp->index)
    byte->other_read = byte->read;
  byte->read = now;
}

static bool check_byte(sim_warp_t *warp, const sim_op_t *op, int32_t lane, sim_access_kind_t kind,
                       int64_t offset) {
  byte_t *byte = &warp->block->shadow->bytes[offset];
  const touch_t now = {warp->seen[warp->index], warp->epoch,
                       (uint16_t)(SIM_LANES * warp->index + lane), (uint16_t)kind, op->line};
  const bool writes = kind != SIM_READ;
  if (byte->copying && kind != SIM_COPY_END) {
    sim_fault(warp, op, lane, SIM_FAULT_RACE,
              "shared memory at byte %" PRId64
              " is %s while a cp.async to it (thread %d, PTX line %" PRId32
              ") has not been waited for",
              offset, writes ? "written" : "read", byte->write.thread, byte->write.line);
    return false;
  }
  const bool both_atomic = kind == SIM_ATOMIC && byte->write.kind == SIM_ATOMIC;
  if (!both_atomic && unordered(warp, lane, &byte->write))
    return race(warp, op, lane, &byte->write, offset, writes ? "writes" : "reads");
  if (writes && unordered(warp, lane, &byte->read))
    return race(warp, op, lane, &byte->read, offset, "writes");
  if (writes && unordered(warp, lane, &byte->other_read))
    return race(warp, op, lane, &byte->other_read, offset, "writes");
  if ((kind == SIM_READ || kind == SIM_ATOMIC) && !byte->valid) {
    sim_fault(warp, op, lane, SIM_FAULT_UNINIT,
              "shared memory at byte %" PRId64 " is read and was never written", offset);
    return false;
  }
  if (!writes) {
    note_read(warp, byte, now);
    return true;
  }
  byte->write = now;
  byte->copying = kind == SIM_COPY_BEGIN;
  byte->valid = true;
  return true;
}

bool sim_shadow_access(sim_warp_t *warp, const sim_op_t *op, int32_t lane, sim_access_kind_t kind,
                       int64_t offset, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i)
    if (!check_byte(warp, op, lane, kind, offset + i)) return false;
  return true;
}

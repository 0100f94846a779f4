// Waiting: a short spin, then sleep. A sleeper looks up now and then: whether the run has ended, whether the rank
// that it waits for has died, whether ranks wait for each other in a circle, whether it has taken too long.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include "ir/base/clock.h"
#include "runtime/local/local_impl.h"

enum { NUM_YIELDS = 8, LOOK_UP_MS = 50, DESCRIPTION = 400 };

static void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// --- sleep

// The futex is the counter's low half; ptc runs on little-endian machines.
static uint32_t *low_half(ptc_local_signal_t *signal) { return (uint32_t *)(void *)&signal->count; }

void ptc_local_raise(ptc_local_signal_t *signal, uint64_t count) {
  // In one order with a sleeper's increment: it sees the count, or we see it.
  atomic_store(&signal->count, count);
  if (atomic_load(&signal->num_sleeping) > 0)
    syscall(SYS_futex, low_half(signal), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// Returns when the count has changed, or a little later.
static void sleep_on(ptc_local_signal_t *signal, uint64_t value) {
  atomic_fetch_add(&signal->num_sleeping, 1);
  const uint64_t count = atomic_load(&signal->count);
  const struct timespec time = {.tv_nsec = LOOK_UP_MS * 1000000L};
  if (count < value)
    syscall(SYS_futex, low_half(signal), FUTEX_WAIT, (uint32_t)count, &time, NULL, 0);
  atomic_fetch_sub(&signal->num_sleeping, 1);
}

static bool has_reached(ptc_local_signal_t *signal, uint64_t value) {
  return atomic_load_explicit(&signal->count, memory_order_acquire) >= value;
}

// --- what ranks show of themselves

void ptc_local_set_context(ptc_comm_t *comm, const char *step, ptc_loc_t loc) {
  ptc_local_t *local = (ptc_local_t *)comm;
  local->loc = loc;
  char text[PTC_COMM_CONTEXT];
  ptc_comm_describe_context(step, loc, text);
  uint64_t words[PTC_LOCAL_TEXT_WORDS];
  memcpy(words, text, sizeof words);
  ptc_local_record_t *record = &local->world->records[comm->rank];
  for (int i = 0; i < PTC_LOCAL_TEXT_WORDS; i++)
    atomic_store_explicit(&record->text[i], words[i], memory_order_relaxed);
}

// "rank 2 at step 17 all_reduce over tp (gpt.ptm:30)"
static void describe(ptc_local_t *local, int32_t rank, char out[DESCRIPTION]) {
  uint64_t words[PTC_LOCAL_TEXT_WORDS];
  const ptc_local_record_t *record = &local->world->records[rank];
  for (int i = 0; i < PTC_LOCAL_TEXT_WORDS; i++)
    words[i] = atomic_load_explicit(&record->text[i], memory_order_relaxed);
  const char *text = (const char *)words;
  const int len = (int)strnlen(text, sizeof words);
  snprintf(out, DESCRIPTION, len > 0 ? "rank %d at %.*s" : "rank %d", rank, len, text);
}

// The first one that ends the run leaves its reason.
static void end_run(ptc_local_world_t *world, ptc_comm_end_t end, const char *text) {
  uint32_t expected = 0;
  if (!atomic_compare_exchange_strong(&world->abort_state, &expected, 1)) return;
  world->end = end;
  snprintf(world->abort_text, sizeof world->abort_text, "%s", text);
  atomic_store(&world->abort_state, 2);
}

void ptc_local_abort(ptc_comm_t *comm, const char *reason) {
  char text[PTC_COMM_REASON];
  snprintf(text, sizeof text, "rank %d has ended the run: %s", comm->rank, reason);
  end_run(((ptc_local_t *)comm)->world, PTC_COMM_ABORTED, text);
}

ptc_status_t ptc_local_check(const ptc_local_t *local, ptc_diag_t *diag) {
  const ptc_local_world_t *world = local->world;
  if (atomic_load(&world->abort_state) != 2) return PTC_OK;
  return ptc_error(diag, local->loc, PTC_DEVICE, ptc_comm_end_id((ptc_comm_end_t)world->end), "%s",
                   world->abort_text);
}

ptc_status_t ptc_local_fail(ptc_local_t *local, ptc_diag_t *diag, ptc_comm_end_t end,
                            const char *format, ...) {
  char text[PTC_COMM_REASON];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  end_run(local->world, end, text);
  return ptc_error(diag, local->loc, PTC_DEVICE, ptc_comm_end_id(end), "%s", text);
}

// --- what a sleeper looks for

// A process that dies loses its lock on its rank's byte.
static bool has_died(const ptc_local_t *local, int32_t rank) {
  if (local->fd < 0) return false;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
  return fcntl(local->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

// The rank that |rank| waits for in vain at this moment, or -1.
static int32_t waits_for(const ptc_local_world_t *world, int32_t rank, uint64_t *out_num_waits) {
  const ptc_local_record_t *record = &world->records[rank];
  *out_num_waits = atomic_load(&record->num_waits);
  if (*out_num_waits % 2 == 0) return -1;
  const int32_t peer = atomic_load(&record->peer);
  const uint64_t offset = atomic_load(&record->signal), value = atomic_load(&record->value);
  if (atomic_load(&record->num_waits) != *out_num_waits) return -1;
  const ptc_local_signal_t *signal = (const ptc_local_signal_t *)((const char *)world + offset);
  return atomic_load(&signal->count) < value ? peer : -1;
}

// Follows who waits for whom from this rank; the number of ranks of the circle if it leads back here, else 0. A
// circle is real if in a second walk all are in the same waits: each count can be raised only by the next rank in it.
static int32_t find_circle(const ptc_local_t *local, int32_t *ranks, int32_t max) {
  const ptc_local_world_t *world = local->world;
  uint64_t num_waits[PTC_LOCAL_MAX_WORLD];
  int32_t count = 0, rank = local->comm.rank;
  do {
    if (count == max) return 0;
    ranks[count] = rank;
    rank = waits_for(world, rank, &num_waits[count]);
    if (rank < 0) return 0;
    count++;
  } while (rank != local->comm.rank);
  for (int32_t i = 0; i < count; i++) {
    uint64_t now;
    if (waits_for(world, ranks[i], &now) < 0 || now != num_waits[i]) return 0;
  }
  return count;
}

static ptc_status_t report_circle(ptc_local_t *local, ptc_diag_t *diag, const int32_t *ranks,
                                  int32_t count) {
  char text[PTC_COMM_REASON] = "ranks wait for each other:", one[DESCRIPTION];
  for (int32_t i = 0; i < count; i++) {
    const size_t used = strlen(text);
    describe(local, ranks[i], one);
    snprintf(text + used, sizeof text - used, "%s %s waits for rank %d", i > 0 ? ";" : "", one,
             ranks[(i + 1) % count]);
  }
  return ptc_local_fail(local, diag, PTC_COMM_MISMATCH, "%s", text);
}

// What can end a wait, but for the count itself.
static ptc_status_t look_up(ptc_local_t *local, ptc_diag_t *diag, ptc_local_signal_t *signal,
                            uint64_t value, int32_t peer, double start_s) {
  const ptc_local_world_t *world = local->world;
  char mine[DESCRIPTION], theirs[DESCRIPTION];
  ptc_status_t status = ptc_local_check(local, diag);
  if (status != PTC_OK) return status;
  // Who has died may have left before.
  const bool died = has_died(local, peer);
  const bool left = atomic_load(&world->records[peer].state) == PTC_LOCAL_CLOSED;
  if (died || left) {
    // What it did before that still counts.
    if (has_reached(signal, value)) return PTC_OK;
    describe(local, local->comm.rank, mine);
    return ptc_local_fail(local, diag, PTC_COMM_LOST, "rank %d has %s; %s waits for it", peer,
                          left ? "left" : "died", mine);
  }
  int32_t ranks[PTC_LOCAL_MAX_WORLD];
  const int32_t count = find_circle(local, ranks, world->size);
  if (count > 0) return report_circle(local, diag, ranks, count);
  if (local->limit_s <= 0 || ptc_now_s() - start_s < local->limit_s) return PTC_OK;
  describe(local, local->comm.rank, mine);
  describe(local, peer, theirs);
  uint64_t num_waits;
  const int32_t third = waits_for(world, peer, &num_waits);
  char rest[64] = "";
  if (third >= 0) snprintf(rest, sizeof rest, ", which waits for rank %d", third);
  return ptc_local_fail(local, diag, PTC_COMM_STUCK, "%s has waited %.3g s for %s%s", mine,
                        ptc_now_s() - start_s, theirs, rest);
}

// A rank that has left has done its part: whoever needs more of it finds out in a wait.
ptc_status_t ptc_local_poll(ptc_comm_t *comm, ptc_diag_t *diag) {
  ptc_local_t *local = (ptc_local_t *)comm;
  PTC_TRY(ptc_local_check(local, diag));
  for (int32_t r = 0; r < comm->world; r++) {
    if (r == comm->rank || !has_died(local, r)) continue;
    if (atomic_load(&local->world->records[r].state) == PTC_LOCAL_CLOSED) continue;
    char mine[DESCRIPTION];
    describe(local, comm->rank, mine);
    return ptc_local_fail(local, diag, PTC_COMM_LOST, "rank %d has died; %s waits for it", r, mine);
  }
  return PTC_OK;
}

static ptc_status_t wait_long(ptc_local_t *local, ptc_diag_t *diag, ptc_local_signal_t *signal,
                              uint64_t value, int32_t peer) {
  ptc_local_record_t *record = &local->world->records[local->comm.rank];
  const double start_s = ptc_now_s();
  atomic_store(&record->peer, peer);
  atomic_store(&record->signal, (uint64_t)((char *)signal - (char *)local->world));
  atomic_store(&record->value, value);
  atomic_fetch_add(&record->num_waits, 1);
  ptc_status_t status = PTC_OK;
  bool first = true;
  double looked_s = start_s;
  while (!has_reached(signal, value)) {
    if (!first && ptc_now_s() - looked_s > 0.5e-3 * LOOK_UP_MS) {
      status = look_up(local, diag, signal, value, peer, start_s);
      if (status != PTC_OK) break;
      looked_s = ptc_now_s();
    }
    first = false;
    sleep_on(signal, value);
  }
  atomic_fetch_add(&record->num_waits, 1);
  return status;
}

ptc_status_t ptc_local_wait(ptc_local_t *local, ptc_diag_t *diag, ptc_local_signal_t *signal,
                            uint64_t value, int32_t peer) {
  for (int32_t i = 0; i < local->num_spins; i++) {
    if (has_reached(signal, value)) return PTC_OK;
    pause_core();
  }
  for (int32_t i = 0; i < NUM_YIELDS; i++) {
    if (has_reached(signal, value)) return PTC_OK;
    sched_yield();
  }
  return wait_long(local, diag, signal, value, peer);
}

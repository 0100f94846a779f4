// Replays a schedule's lists, apart from whoever made them.
#include <stdlib.h>
#include <string.h>

#include "passes/schedule.h"

typedef struct replay_s {
  const ptc_schedule_t *schedule;
  bool rendezvous;
  ptc_str_t *why;
  int32_t *next;        // per stage: its work that has not happened
  uint8_t *tasks;       // by part * micro: bits of the F, B, W that have happened
  uint8_t *sent, *got;  // the same: bit 0 a transfer of F, bit 1 of B
  int32_t *last[3];     // per part: the last micro-batch of F, B, W, -1: none
} replay_t;

static int32_t part_of(const replay_t *r, int32_t stage, const ptc_schedule_work_t *work) {
  return work->chunk * r->schedule->num_stages + stage;
}

static int64_t cell(const replay_t *r, int32_t part, int32_t micro) {
  return (int64_t)part * r->schedule->num_micro + micro;
}

static bool complain(const replay_t *r, int32_t stage, const ptc_schedule_work_t *work,
                     const char *what) {
  ptc_str_printf(r->why, "stage %d: %s of chunk %d, micro-batch %d: %s", stage,
                 ptc_work_name(work->kind), work->chunk, work->micro, what);
  return false;
}

static bool is_transfer(const ptc_schedule_work_t *work) { return work->kind > PTC_WORK_W; }
static bool is_send(const ptc_schedule_work_t *work) {
  return work->kind == PTC_WORK_SEND_F || work->kind == PTC_WORK_SEND_B;
}
static bool is_forward(const ptc_schedule_work_t *work) {
  return work->kind == PTC_WORK_SEND_F || work->kind == PTC_WORK_RECV_F;
}

static bool check_ranges(const replay_t *r, int32_t stage, const ptc_schedule_work_t *work) {
  const ptc_schedule_t *s = r->schedule;
  if (work->chunk < 0 || work->chunk >= s->num_chunks || work->micro < 0 ||
      work->micro >= s->num_micro)
    return complain(r, stage, work, "there is no such chunk or micro-batch");
  if (!is_transfer(work)) return true;
  const int32_t step = is_forward(work) == is_send(work) ? 1 : -1;
  const int32_t other = part_of(r, stage, work) + step;
  if (other < 0 || other >= s->num_stages * s->num_chunks)
    return complain(r, stage, work, "no part is at the other end");
  if (work->peer != other % s->num_stages) return complain(r, stage, work, "wrong peer");
  return true;
}

static bool run_task(replay_t *r, int32_t stage, const ptc_schedule_work_t *work) {
  const int32_t num_parts = r->schedule->num_stages * r->schedule->num_chunks;
  const int32_t part = part_of(r, stage, work);
  const int64_t at = cell(r, part, work->micro);
  const bool local = r->schedule->num_stages == 1;
  const uint8_t bit = (uint8_t)(1 << work->kind);
  if (r->tasks[at] & bit) return complain(r, stage, work, "is done twice");
  if (work->kind == PTC_WORK_F && part > 0 && !local && !(r->got[at] & 1))
    return complain(r, stage, work, "what it takes was not received");
  if (work->kind == PTC_WORK_B && !(r->tasks[at] & 1 << PTC_WORK_F))
    return complain(r, stage, work, "comes before F");
  if (work->kind == PTC_WORK_B && part + 1 < num_parts && !local && !(r->got[at] & 2))
    return complain(r, stage, work, "what it takes was not received");
  if (work->kind == PTC_WORK_W && !(r->tasks[at] & 1 << PTC_WORK_B))
    return complain(r, stage, work, "comes before B");
  if (work->micro != r->last[work->kind][part] + 1)
    return complain(r, stage, work, "micro-batches are out of order");
  r->last[work->kind][part] = work->micro;
  r->tasks[at] |= bit;
  return true;
}

// Whether the pair of |work| is at hand: the stage at the other end is at it, or (buffered) a send is done.
static bool pair_is_there(const replay_t *r, int32_t stage, const ptc_schedule_work_t *work) {
  const int32_t other = part_of(r, stage, work) + (is_forward(work) == is_send(work) ? 1 : -1);
  const ptc_stage_order_t *order = &r->schedule->stages[work->peer];
  if (r->next[work->peer] >= order->count) return false;
  const ptc_schedule_work_t *there = &order->work[r->next[work->peer]];
  return is_transfer(there) && is_send(there) != is_send(work) &&
         is_forward(there) == is_forward(work) && there->micro == work->micro &&
         part_of(r, work->peer, there) == other;
}

static bool send(replay_t *r, int32_t stage, const ptc_schedule_work_t *work) {
  const int64_t at = cell(r, part_of(r, stage, work), work->micro);
  const ptc_work_kind_t made = is_forward(work) ? PTC_WORK_F : PTC_WORK_B;
  const uint8_t bit = is_forward(work) ? 1 : 2;
  if (!(r->tasks[at] & 1 << made)) return complain(r, stage, work, "comes before what it sends");
  if (r->sent[at] & bit) return complain(r, stage, work, "is done twice");
  r->sent[at] |= bit;
  return true;
}

static bool receive(replay_t *r, int32_t stage, const ptc_schedule_work_t *work) {
  const int64_t at = cell(r, part_of(r, stage, work), work->micro);
  const uint8_t bit = is_forward(work) ? 1 : 2;
  if (r->got[at] & bit) return complain(r, stage, work, "is done twice");
  r->got[at] |= bit;
  return true;
}

// One step of |stage|, if it can. |out_moved| tells.
static bool step(replay_t *r, int32_t stage, bool *out_moved) {
  const ptc_stage_order_t *order = &r->schedule->stages[stage];
  if (r->next[stage] >= order->count) return true;
  const ptc_schedule_work_t *work = &order->work[r->next[stage]];
  if (!check_ranges(r, stage, work)) return false;
  if (!is_transfer(work)) {
    if (!run_task(r, stage, work)) return false;
  } else if (r->rendezvous) {
    if (!is_send(work) || !pair_is_there(r, stage, work)) return true;
    const ptc_schedule_work_t *there = &r->schedule->stages[work->peer].work[r->next[work->peer]];
    if (!check_ranges(r, work->peer, there) || !send(r, stage, work) ||
        !receive(r, work->peer, there))
      return false;
    r->next[work->peer]++;
  } else if (is_send(work)) {
    if (!send(r, stage, work)) return false;
  } else {
    const int32_t from = part_of(r, stage, work) + (is_forward(work) ? -1 : 1);
    if (!(r->sent[cell(r, from, work->micro)] & (is_forward(work) ? 1 : 2))) return true;
    if (!receive(r, stage, work)) return false;
  }
  r->next[stage]++;
  *out_moved = true;
  return true;
}

static bool check_complete(const replay_t *r) {
  const ptc_schedule_t *s = r->schedule;
  for (int32_t stage = 0; stage < s->num_stages; stage++)
    if (r->next[stage] < s->stages[stage].count)
      return complain(r, stage, &s->stages[stage].work[r->next[stage]], "waits forever");
  for (int32_t part = 0; part < s->num_stages * s->num_chunks; part++)
    for (int32_t micro = 0; micro < s->num_micro; micro++) {
      const uint8_t done = r->tasks[cell(r, part, micro)];
      if (done == (s->forward ? 1 : s->split_w ? 7 : 3)) continue;
      ptc_str_printf(r->why, "part %d, micro-batch %d: F, B or W is missing, or W is not apart",
                     part, micro);
      return false;
    }
  return true;
}

bool ptc_schedule_check(const ptc_schedule_t *schedule, bool rendezvous, ptc_str_t *out_why) {
  const int32_t num_parts = schedule->num_stages * schedule->num_chunks;
  const size_t cells = (size_t)num_parts * (size_t)schedule->num_micro;
  replay_t r = {.schedule = schedule, .rendezvous = rendezvous, .why = out_why};
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  r.next = PTC_ARENA_ARRAY(&arena, int32_t, schedule->num_stages);
  r.tasks = PTC_ARENA_ARRAY(&arena, uint8_t, cells);
  r.sent = PTC_ARENA_ARRAY(&arena, uint8_t, cells);
  r.got = PTC_ARENA_ARRAY(&arena, uint8_t, cells);
  for (int32_t k = 0; k < 3; k++) {
    r.last[k] = PTC_ARENA_ARRAY(&arena, int32_t, num_parts);
    for (int32_t part = 0; part < num_parts; part++) r.last[k][part] = -1;
  }
  bool ok = true;
  for (bool moved = true; ok && moved;) {
    moved = false;
    for (int32_t stage = 0; ok && stage < schedule->num_stages; stage++)
      ok = step(&r, stage, &moved);
  }
  if (ok) ok = check_complete(&r);
  ptc_arena_deinit(&arena);
  return ok;
}

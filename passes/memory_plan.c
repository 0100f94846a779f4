// memory_plan: an address for every instance of every buffer, in one arena. Globals come first and keep their
// place through all tasks; above them every task has the same bytes for itself.
#include <stdlib.h>
#include <string.h>

#include "passes/lower_plan.h"
#include "passes/memory_plan_impl.h"

// An arena that exceeds the bound by this part is not improved further.
enum { ENOUGH_PART = 400 };

// --- lives as spans of time

static int64_t life_length(const ptc_segment_t *segments, int32_t count) {
  int64_t total = 0;
  for (int32_t s = 0; s < count; ++s) total += segments[s].end - segments[s].begin + 1;
  return total;
}

// Joins segments that touch or overlap, in place; returns how many are left.
static int32_t join_segments(ptc_segment_list_t *life) {
  int64_t n = 0;
  for (int64_t i = 0; i < life->len; ++i) {
    const ptc_segment_t next = life->data[i];
    if (n && next.begin <= life->data[n - 1].end + 1) {
      if (next.end > life->data[n - 1].end) life->data[n - 1].end = next.end;
    } else {
      life->data[n++] = next;
    }
  }
  life->len = n;
  return (int32_t)n;
}

// The largest sum of bytes that are live at one step.
static int64_t find_bound(const ptc_placed_t *items, int32_t count, int32_t num_steps) {
  int64_t *change = ptc_xmalloc((size_t)(num_steps + 2) * sizeof *change);
  memset(change, 0, (size_t)(num_steps + 2) * sizeof *change);
  for (int32_t i = 0; i < count; ++i) {
    for (int32_t s = 0; s < items[i].num_segments; ++s) {
      change[items[i].segments[s].begin] += items[i].bytes;
      change[items[i].segments[s].end + 1] -= items[i].bytes;
    }
  }
  int64_t most = 0, live = 0;
  for (int32_t t = 0; t < num_steps; ++t) {
    live += change[t];
    if (live > most) most = live;
  }
  free(change);
  return most;
}

// --- addresses

// Globals one after another, in order; returns their bytes.
static int64_t place_pinned(ptc_timeline_t *t) {
  int64_t at = 0;
  for (int32_t n = 0; n < t->num_nodes; ++n) {
    const int32_t root = ptc_timeline_root(t, n);
    if (!t->nodes[root].pinned || t->nodes[root].offset >= 0) continue;
    t->nodes[root].offset = at;
    at += t->nodes[root].bytes;
  }
  return at;
}

static int32_t collect_items(ptc_timeline_t *t, ptc_placed_t *items) {
  int32_t count = 0;
  for (int32_t n = 0; n < t->num_nodes; ++n) {
    ptc_node_t *node = &t->nodes[n];
    if (node->parent != n || node->pinned || !node->life.len) continue;
    ptc_placed_t item = {.node = n, .bytes = node->bytes};
    item.num_segments = join_segments(&node->life);
    item.segments = node->life.data;
    item.duration = life_length(item.segments, item.num_segments);
    if (item.bytes) items[count++] = item;
  }
  return count;
}

static void write_addresses(ptc_timeline_t *t, ptc_plan_t *plan) {
  for (int32_t b = 0, n = 0; b < plan->num_buffers; ++b) {
    for (int64_t i = 0; i < plan->buffers[b].num_instances; ++i, ++n) {
      const int64_t offset = t->nodes[ptc_timeline_root(t, n)].offset;
      plan->buffers[b].offsets[i] = offset < 0 ? 0 : offset;  // never touched: anywhere
    }
  }
}

static void place(ptc_timeline_t *t, ptc_plan_t *plan) {
  ptc_placed_t *items = ptc_xmalloc((size_t)(t->num_nodes + 1) * sizeof *items);
  for (int32_t n = 0; n < t->num_nodes; ++n) t->nodes[n].offset = -1;
  const int64_t pinned = place_pinned(t);
  const int32_t count = collect_items(t, items);
  const int64_t bound = find_bound(items, count, t->time);
  const int64_t height =
      ptc_place(items, count, t->time, bound, bound + (pinned + bound) / ENOUGH_PART);
  for (int32_t i = 0; i < count; ++i) t->nodes[items[i].node].offset = pinned + items[i].offset;
  write_addresses(t, plan);
  plan->bound_bytes = pinned + bound;
  plan->arena_bytes = pinned + height;
  free(items);
}

ptc_status_t ptc_plan_memory(ptc_diag_t *diag, ptc_plan_t *plan) {
  ptc_timeline_t timeline;
  PTC_TRY(ptc_plan_state_values(diag, plan));
  ptc_status_t status = ptc_timeline_build(diag, plan, &timeline);
  if (status == PTC_OK) {
    ptc_timeline_merge(&timeline);
    place(&timeline, plan);
  }
  ptc_timeline_deinit(&timeline);
  return status;
}

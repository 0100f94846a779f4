// Groups: a list that only grows, so that finding and adding needs no lock; and meetings of their members.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/local/local_impl.h"

static uint64_t group_bytes(int32_t size) {
  return sizeof(ptc_local_group_t) + (uint64_t)size * sizeof(ptc_local_member_t) +
         (uint64_t)size * sizeof(int32_t);
}

const int32_t *ptc_local_group_ranks(const ptc_local_group_t *group) {
  return (const int32_t *)(const void *)&group->members[group->size];
}

// The group of |ranks| among those from offset |at| on.
static ptc_local_group_t *find_group(ptc_local_world_t *world, uint64_t at, const int32_t *ranks,
                                     int32_t count) {
  while (at != 0) {
    ptc_local_group_t *group = (ptc_local_group_t *)(void *)((char *)world + at);
    if (group->size == count &&
        memcmp(ptc_local_group_ranks(group), ranks, (size_t)count * sizeof *ranks) == 0)
      return group;
    at = group->next;
  }
  return NULL;
}

// Two ranks may add the same group at once: the second finds that the list has changed, looks again, and leaves
// its own copy unused.
static ptc_local_group_t *find_or_add(ptc_local_world_t *world, const int32_t *ranks,
                                      int32_t count) {
  uint64_t first = atomic_load(&world->groups);
  ptc_local_group_t *group = find_group(world, first, ranks, count);
  if (group) return group;
  ptc_local_group_t *added = ptc_local_alloc(world, group_bytes(count));
  if (!added) return NULL;
  added->size = count;
  memcpy((char *)&added->members[count], ranks, (size_t)count * sizeof *ranks);
  added->next = first;
  while (!atomic_compare_exchange_strong(&world->groups, &first,
                                         (uint64_t)((char *)added - (char *)world))) {
    group = find_group(world, first, ranks, count);
    if (group) return group;
    added->next = first;
  }
  return added;
}

ptc_status_t ptc_local_make_group(ptc_comm_t *comm, ptc_diag_t *diag, const int32_t *ranks,
                                  int32_t count, int32_t *out_group) {
  ptc_local_t *local = (ptc_local_t *)comm;
  ptc_local_group_t *group = find_or_add(local->world, ranks, count);
  if (!group)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-start",
                     "rank %d makes more groups than the ranks have memory for", comm->rank);
  for (int32_t h = 0; h < local->num_handles; h++) {
    if (local->handles[h].group != group) continue;
    *out_group = h;
    return PTC_OK;
  }
  const size_t bytes = (size_t)(local->num_handles + 1) * sizeof *local->handles;
  local->handles = realloc(local->handles, bytes);
  if (!local->handles) ptc_oom(bytes);
  int32_t me = 0;
  while (ranks[me] != comm->rank) me++;
  local->handles[local->num_handles] = (ptc_local_handle_t){.group = group, .me = me};
  *out_group = local->num_handles++;
  return PTC_OK;
}

// --- meetings

ptc_status_t ptc_local_meet(ptc_local_t *local, ptc_diag_t *diag, ptc_local_handle_t *handle) {
  ptc_local_group_t *group = handle->group;
  const int32_t *ranks = ptc_local_group_ranks(group);
  const uint64_t number = ++handle->num_meetings;
  ptc_local_raise(&group->members[handle->me].signal, number);
  for (int32_t i = 1; i < group->size; i++) {
    const int32_t g = (handle->me + i) % group->size;
    PTC_TRY(ptc_local_wait(local, diag, &group->members[g].signal, number, ranks[g]));
  }
  return PTC_OK;
}

ptc_status_t ptc_local_meet_for(ptc_local_t *local, ptc_diag_t *diag, ptc_local_handle_t *handle,
                                const ptc_comm_call_t *call, void *const *args) {
  ptc_local_group_t *group = handle->group;
  ptc_local_member_t *members = group->members;
  PTC_TRY(ptc_local_check(local, diag));
  const uint64_t turn = handle->num_calls++ % 2;
  members[handle->me].calls[turn] = *call;
  members[handle->me].args = args;
  PTC_TRY(ptc_local_meet(local, diag, handle));
  for (int32_t g = 1; g < group->size; g++) {
    const ptc_comm_call_t *calls[2] = {&members[0].calls[turn], &members[g].calls[turn]};
    if (memcmp(calls[0], calls[1], sizeof *call) == 0) continue;
    const int32_t *ranks = ptc_local_group_ranks(group);
    char text[PTC_COMM_REASON];
    ptc_comm_describe_mismatch(calls[0], ranks[0], calls[1], ranks[g], group->size, text);
    return ptc_local_fail(local, diag, PTC_COMM_MISMATCH, "%s", text);
  }
  return PTC_OK;
}

ptc_status_t ptc_local_barrier(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group) {
  ptc_local_t *local = (ptc_local_t *)comm;
  const ptc_comm_call_t call = {.kind = -1};
  return ptc_local_meet_for(local, diag, &local->handles[group], &call, NULL);
}

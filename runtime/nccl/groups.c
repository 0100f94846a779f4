// A communicator for each group of ranks. Ranks of different stages have different groups, and find them in different
// orders; so all lists are put together first, and every rank walks through the same one. Groups without a common rank
// are split off at once.
#include <stdlib.h>
#include <string.h>

#include "ir/base/vec.h"
#include "runtime/agree.h"
#include "runtime/nccl/nccl_impl.h"

// A list of all ranks' groups: each is its size, then its ranks.
typedef struct list_s {
  PTC_VEC(int32_t) words;
  PTC_VEC(int64_t) groups;  // where each begins in |words|
} list_t;

static void add_group(list_t *list, const int32_t *ranks, int32_t size) {
  for (int64_t i = 0; i < list->groups.len; i++) {
    const int32_t *other = list->words.data + list->groups.data[i];
    if (other[0] == size && memcmp(other + 1, ranks, sizeof *ranks * (size_t)size) == 0) return;
  }
  PTC_VEC_PUSH(&list->groups, list->words.len);
  PTC_VEC_PUSH(&list->words, size);
  for (int32_t i = 0; i < size; i++) PTC_VEC_PUSH(&list->words, ranks[i]);
}

// Every rank's |bytes| bytes, in their order, on every rank.
static ptc_status_t gather(ptc_comm_t *host, ptc_diag_t *diag, const void *mine, int64_t bytes,
                           void *all) {
  ptc_collective_part_t part = {.in = {1, bytes, bytes}, .out = {1, bytes, host->world * bytes}};
  const ptc_collective_t collective = {
      .kind = PTC_COLLECTIVE_ALL_GATHER, .dtype = PTC_BOOL, .num_parts = 1, .parts = &part};
  void *const args[2] = {(void *)(uintptr_t)mine, all};
  return ptc_comm_collective(host, diag, PTC_COMM_WORLD, &collective, args);
}

// The groups of more than one rank that some rank has, but for that of all; rank 0's first, so in the same order
// everywhere.
static ptc_status_t collect(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, list_t *list) {
  list_t mine = {0};
  for (int32_t g = 1; g < e->num_groups; g++)
    if (e->groups[g].size > 1 && !e->groups[g].comm)
      add_group(&mine, e->groups[g].ranks, e->groups[g].size);
  int64_t most;
  ptc_status_t status = ptc_agree_most(e->host, diag, mine.words.len, &most);
  if (status == PTC_OK && most > 0) {
    while (mine.words.len < most) PTC_VEC_PUSH(&mine.words, 0);
    const int64_t bytes = most * (int64_t)sizeof(int32_t);
    int32_t *all = ptc_xmalloc((size_t)(bytes * e->comm.world));
    status = gather(e->host, diag, mine.words.data, bytes, all);
    for (int32_t r = 0; r < e->comm.world && status == PTC_OK; r++) {
      const int32_t *words = all + r * most;
      for (int64_t at = 0; at < most && words[at] > 0; at += words[at] + 1)
        add_group(list, words + at + 1, words[at]);
    }
    free(all);
  }
  PTC_VEC_FREE(&mine.words);
  PTC_VEC_FREE(&mine.groups);
  return status;
}

// This rank's group with the ranks of |words|, or NULL.
static ptc_nccl_group_t *find_mine(const ptc_nccl_endpoint_t *e, const int32_t *words) {
  for (int32_t g = 1; g < e->num_groups; g++)
    if (e->groups[g].size == words[0] &&
        memcmp(e->groups[g].ranks, words + 1, sizeof *words * (size_t)words[0]) == 0)
      return &e->groups[g];
  return NULL;
}

static bool has_rank(const int32_t *words, int32_t rank) {
  for (int32_t i = 0; i < words[0]; i++)
    if (words[1 + i] == rank) return true;
  return false;
}

static ptc_status_t start(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, ptc_nccl_group_t *group,
                          const ptc_nccl_id_t *id) {
  ptc_nccl_config_t config = ptc_nccl_config();
  PTC_NCCL_CALL(e, diag, NULL, CommInitRankConfig, &group->comm, group->size, *id, group->me,
                &config);
  return ptc_nccl_settle(e, diag, group->comm, NULL, "ncclCommInitRankConfig");
}

ptc_status_t ptc_nccl_share_id(ptc_comm_t *host, ptc_diag_t *diag, int32_t first,
                               ptc_nccl_id_t *id) {
  ptc_nccl_id_t *ids = ptc_xmalloc(sizeof *id * (size_t)host->world);
  const ptc_status_t status = gather(host, diag, id, sizeof *id, ids);
  if (status == PTC_OK) *id = ids[first];
  free(ids);
  return status;
}

// The id of a group is its first member's; the others hear it.
static ptc_status_t start_with_id(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, int32_t first,
                                  ptc_nccl_group_t *group) {
  ptc_nccl_id_t id = {0};
  if (e->comm.rank == first) PTC_NCCL_CALL(e, diag, NULL, GetUniqueId, &id);
  PTC_TRY(ptc_nccl_share_id(e->host, diag, first, &id));
  return group ? start(e, diag, group, &id) : PTC_OK;
}

void ptc_nccl_register(ptc_nccl_endpoint_t *e) {
  const ptc_device_t *device = e->device;
  void *arena = (void *)(uintptr_t)device->arena;
  for (int32_t g = 0; g < e->num_groups && e->nccl->CommRegister; g++) {
    ptc_nccl_group_t *group = &e->groups[g];
    if (!group->comm || group->arena) continue;
    const int code =
        e->nccl->CommRegister(group->comm, arena, (size_t)device->arena_bytes, &group->arena);
    if (code != PTC_NCCL_SUCCESS) group->arena = NULL;
  }
}

ptc_status_t ptc_nccl_make_world(ptc_nccl_endpoint_t *e, ptc_diag_t *diag) {
  PTC_TRY(start_with_id(e, diag, 0, &e->groups[PTC_COMM_WORLD]));
  ptc_nccl_register(e);
  return PTC_OK;
}

// One split for the groups of |list| that are not |done| and have no rank in common.
static ptc_status_t split(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, const list_t *list,
                          bool *done) {
  bool *taken = ptc_xmalloc((size_t)e->comm.world);
  memset(taken, 0, (size_t)e->comm.world);
  ptc_nccl_group_t *mine = NULL;
  int32_t color = PTC_NCCL_NO_COLOR;
  for (int64_t i = 0; i < list->groups.len; i++) {
    const int32_t *words = list->words.data + list->groups.data[i];
    bool fits = !done[i];
    for (int32_t k = 1; k <= words[0]; k++) fits = fits && !taken[words[k]];
    if (!fits) continue;
    for (int32_t k = 1; k <= words[0]; k++) taken[words[k]] = true;
    done[i] = true;
    if (!has_rank(words, e->comm.rank)) continue;
    mine = find_mine(e, words);
    color = (int32_t)i;
  }
  free(taken);
  void *world = e->groups[PTC_COMM_WORLD].comm, *unused = NULL;
  ptc_nccl_config_t config = ptc_nccl_config();
  PTC_NCCL_CALL(e, diag, world, CommSplit, world, color, mine ? mine->me : 0,
                mine ? &mine->comm : &unused, &config);
  PTC_TRY(ptc_nccl_settle(e, diag, world, mine ? &mine->comm : NULL, "ncclCommSplit"));
  return mine ? ptc_nccl_settle(e, diag, mine->comm, NULL, "ncclCommSplit") : PTC_OK;
}

static ptc_status_t make_all(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, const list_t *list) {
  bool *done = ptc_xmalloc((size_t)list->groups.len + 1);
  memset(done, 0, (size_t)list->groups.len + 1);
  ptc_status_t status = PTC_OK;
  for (int64_t i = 0; i < list->groups.len && status == PTC_OK; i++) {
    const int32_t *words = list->words.data + list->groups.data[i];
    if (done[i]) continue;
    status = e->nccl->CommSplit ? split(e, diag, list, done)
                                : start_with_id(e, diag, words[1], find_mine(e, words));
  }
  free(done);
  return status;
}

ptc_status_t ptc_nccl_make_groups(ptc_nccl_endpoint_t *e, ptc_diag_t *diag) {
  list_t list = {0};
  ptc_status_t status = collect(e, diag, &list);
  if (status == PTC_OK) status = make_all(e, diag, &list);
  if (status == PTC_OK) ptc_nccl_register(e);
  PTC_VEC_FREE(&list.words);
  PTC_VEC_FREE(&list.groups);
  return status;
}

// Collectives of ranks on one machine. Threads read each other's arrays where they lie; processes pass them through
// stages in the mapping. Members meet before they read what others have, and before they write it again.
#include "runtime/combine.h"
#include "runtime/local/local_impl.h"
#include "runtime/staged.h"

// --- threads

// Adds what all members have for this one, part by part. The sum of a slice goes to the results of all members: each
// writes its own slice everywhere, so nobody needs to read it again.
static void add_directly(ptc_local_t *local, ptc_local_handle_t *h, ptc_transfer_kind_t kind,
                         const ptc_collective_t *c, void *const *args) {
  const ptc_local_member_t *members = h->group->members;
  const int32_t size = h->group->size, num_outs = kind == PTC_TRANSFER_SLICE ? size : 1;
  for (int32_t p = 0; p < c->num_parts; p++) {
    const ptc_transfer_t t = ptc_transfer_of(kind, &c->parts[p], c->dtype, size, h->me, h->me);
    // Sums have one level: a row's piece for each of |outer|.
    for (int64_t i = 0; t.run > 0 && i < t.n[0]; i++) {
      const int64_t from = t.from + i * t.from_step[0], to = t.to + i * t.to_step[0];
      for (int32_t g = 0; g < size; g++)
        local->ins[g] = (const char *)members[g].args[2 * p] + from;
      for (int32_t g = 0; g < num_outs; g++)
        local->outs[g] = (char *)(num_outs == 1 ? args : members[g].args)[2 * p + 1] + to;
      ptc_combine(c->reduce, c->dtype, local->ins, size, local->outs, num_outs, t.run);
      h->bytes[c->kind] += (size - 1) * t.run;
    }
  }
}

// Copies what the members have for this one.
static void copy_directly(ptc_local_handle_t *h, ptc_transfer_kind_t kind,
                          const ptc_collective_t *c, void *const *args) {
  const ptc_local_member_t *members = h->group->members;
  const int32_t size = h->group->size;
  for (int32_t i = 0; i < size; i++) {
    const int32_t g = (h->me + i) % size;
    for (int32_t p = 0; p < c->num_parts; p++) {
      const ptc_transfer_t t = ptc_transfer_of(kind, &c->parts[p], c->dtype, size, g, h->me);
      ptc_transfer_copy(&t, members[g].args[2 * p], args[2 * p + 1]);
      if (g != h->me) h->bytes[c->kind] += ptc_transfer_bytes(&t);
    }
  }
}

static void run_directly(ptc_local_t *local, ptc_local_handle_t *h, const ptc_collective_t *c,
                         void *const *args) {
  switch (c->kind) {
    case PTC_COLLECTIVE_ALL_REDUCE:
      add_directly(local, h, PTC_TRANSFER_SLICE, c, args);
      // What the others write here.
      for (int32_t g = 0; g < h->group->size; g++)
        if (g != h->me)
          h->bytes[c->kind] += ptc_walk_bytes(PTC_TRANSFER_SPREAD, c, h->group->size, g, h->me);
      break;
    case PTC_COLLECTIVE_REDUCE_SCATTER: add_directly(local, h, PTC_TRANSFER_SUM, c, args); break;
    case PTC_COLLECTIVE_RING_SHIFT: copy_directly(h, PTC_TRANSFER_SHIFT, c, args); break;
    case PTC_COLLECTIVE_ALL_GATHER: copy_directly(h, PTC_TRANSFER_GATHER, c, args); break;
    default: copy_directly(h, PTC_TRANSFER_EXCHANGE, c, args); break;
  }
}

// --- processes

static char *stage_of(const ptc_local_world_t *world, int32_t rank, uint64_t window) {
  const uint64_t number = 2 * (uint64_t)rank + window % 2;
  return (char *)world + world->stages + number * (uint64_t)world->stage_bytes;
}

typedef struct exchange_s {
  ptc_local_t *local;
  ptc_local_handle_t *handle;
  uint64_t window;
} exchange_t;

// Stages alternate: when all have come to the meeting of a window, all have read the one before.
static ptc_status_t exchange(ptc_staged_t *staged, ptc_diag_t *diag) {
  exchange_t *x = staged->arg;
  const ptc_local_group_t *group = x->handle->group;
  const int32_t *ranks = ptc_local_group_ranks(group);
  PTC_TRY(ptc_local_meet(x->local, diag, x->handle));
  for (int32_t g = 0; g < group->size; g++)
    staged->in[g] =
        stage_of(x->local->world, ranks[g], x->window) + staged->me * staged->slot_bytes;
  x->window++;
  staged->stage = stage_of(x->local->world, x->local->comm.rank, x->window);
  return PTC_OK;
}

static ptc_status_t run_staged(ptc_local_t *local, ptc_diag_t *diag, ptc_local_handle_t *h,
                               const ptc_collective_t *c, void *const *args) {
  exchange_t x = {local, h, 0};
  ptc_staged_t staged = {.size = h->group->size,
                         .me = h->me,
                         .stage_bytes = local->world->stage_bytes,
                         .stage = stage_of(local->world, local->comm.rank, 0),
                         .in = (const char **)local->stage_ins,
                         .exchange = exchange,
                         .arg = &x,
                         .walks = local->walks,
                         .sizes = local->sizes,
                         .ins = local->ins};
  return ptc_staged_collective(&staged, diag, c, args, &h->bytes[c->kind]);
}

ptc_status_t ptc_local_collective(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                                  const ptc_collective_t *c, void *const *args) {
  ptc_local_t *local = (ptc_local_t *)comm;
  ptc_local_handle_t *h = &local->handles[group];
  const ptc_comm_call_t call = ptc_comm_call_of(c);
  PTC_TRY(ptc_local_meet_for(local, diag, h, &call, args));
  if (local->fd < 0 || h->group->size == 1)
    run_directly(local, h, c, args);
  else
    PTC_TRY(run_staged(local, diag, h, c, args));
  return ptc_local_meet(local, diag, h);
}

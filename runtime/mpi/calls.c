// Collectives and messages over MPI. Members of a group first tell each other what they call; then windows of bytes
// go across, and each adds what it has got in the order of members.
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "runtime/mpi/mpi_impl.h"
#include "runtime/staged.h"

enum { MAX_MESSAGE = 1 << 30 };  // MPI counts in int

// Waits for all requests from and to the other members; |out| and |in| say which there are.
static ptc_status_t wait_for_members(ptc_mpi_t *mpi, ptc_diag_t *diag, const ptc_mpi_group_t *group,
                                     const int64_t *out, const int64_t *in) {
  for (int32_t g = 0; g < group->size; g++) {
    const int32_t rank = group->ranks[g];
    if (g == group->me) continue;
    if (!in || in[g] > 0) PTC_TRY(ptc_mpi_wait(mpi, diag, ptc_mpi_in(mpi, rank), rank));
    if (!out || out[g] > 0) PTC_TRY(ptc_mpi_wait(mpi, diag, ptc_mpi_out(mpi, rank), rank));
  }
  return PTC_OK;
}

// Tells all members what this one calls, and compares.
static ptc_status_t agree(ptc_mpi_t *mpi, ptc_diag_t *diag, const ptc_mpi_group_t *group,
                          const ptc_comm_call_t *call) {
  PTC_TRY(ptc_mpi_check(mpi, diag));
  mpi->calls[group->me] = *call;
  for (int32_t g = 0; g < group->size; g++) {
    if (g == group->me) continue;
    const int32_t rank = group->ranks[g];
    PTC_TRY(ptc_mpi_try(mpi, diag,
                        mpi->module->recv(mpi->state, PTC_MPI_COLLECTIVES, rank, group->tag,
                                          &mpi->calls[g], sizeof *call, ptc_mpi_in(mpi, rank)),
                        "receive"));
    PTC_TRY(
        ptc_mpi_try(mpi, diag,
                    mpi->module->send(mpi->state, PTC_MPI_COLLECTIVES, rank, group->tag,
                                      &mpi->calls[group->me], sizeof *call, ptc_mpi_out(mpi, rank)),
                    "send"));
  }
  PTC_TRY(wait_for_members(mpi, diag, group, NULL, NULL));
  for (int32_t g = 1; g < group->size; g++) {
    if (memcmp(&mpi->calls[0], &mpi->calls[g], sizeof *call) == 0) continue;
    char text[PTC_COMM_REASON];
    ptc_comm_describe_mismatch(&mpi->calls[0], group->ranks[0], &mpi->calls[g], group->ranks[g],
                               group->size, text);
    return ptc_mpi_fail(mpi, diag, PTC_COMM_MISMATCH, "%s", text);
  }
  return PTC_OK;
}

typedef struct exchange_s {
  ptc_mpi_t *mpi;
  const ptc_mpi_group_t *group;
} exchange_t;

static ptc_status_t exchange(ptc_staged_t *staged, ptc_diag_t *diag) {
  const exchange_t *x = staged->arg;
  ptc_mpi_t *mpi = x->mpi;
  const ptc_mpi_group_t *group = x->group;
  for (int32_t g = 0; g < group->size; g++) {
    const int32_t rank = group->ranks[g];
    char *arrived = mpi->arrived + (int64_t)g * PTC_MPI_STAGE_BYTES;
    staged->in[g] = arrived;
    if (g == group->me) continue;
    if (staged->in_bytes[g] > 0)
      PTC_TRY(ptc_mpi_try(mpi, diag,
                          mpi->module->recv(mpi->state, PTC_MPI_COLLECTIVES, rank, group->tag + 1,
                                            arrived, staged->in_bytes[g], ptc_mpi_in(mpi, rank)),
                          "receive"));
    if (staged->out_bytes[g] > 0)
      PTC_TRY(ptc_mpi_try(mpi, diag,
                          mpi->module->send(mpi->state, PTC_MPI_COLLECTIVES, rank, group->tag + 1,
                                            staged->stage + g * staged->slot_bytes,
                                            staged->out_bytes[g], ptc_mpi_out(mpi, rank)),
                          "send"));
  }
  return wait_for_members(mpi, diag, group, staged->out_bytes, staged->in_bytes);
}

ptc_status_t ptc_mpi_collective(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group_number,
                                const ptc_collective_t *collective, void *const *args) {
  ptc_mpi_t *mpi = (ptc_mpi_t *)comm;
  ptc_mpi_group_t *group = &mpi->groups[group_number];
  const ptc_comm_call_t call = ptc_comm_call_of(collective);
  PTC_TRY(agree(mpi, diag, group, &call));
  exchange_t x = {mpi, group};
  ptc_staged_t staged = {.size = group->size,
                         .me = group->me,
                         .stage_bytes = PTC_MPI_STAGE_BYTES,
                         .stage = mpi->stage,
                         .in = mpi->ins,
                         .exchange = exchange,
                         .arg = &x,
                         .walks = mpi->walks,
                         .sizes = mpi->sizes,
                         .ins = mpi->sum_ins};
  return ptc_staged_collective(&staged, diag, collective, args, &group->bytes[collective->kind]);
}

ptc_status_t ptc_mpi_barrier(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group) {
  ptc_mpi_t *mpi = (ptc_mpi_t *)comm;
  const ptc_comm_call_t call = {.kind = -1};
  return agree(mpi, diag, &mpi->groups[group], &call);
}

// --- messages

// A free place for a message that is under way: of one that has arrived, or a new one.
static ptc_status_t find_place(ptc_mpi_t *mpi, ptc_diag_t *diag, int32_t *out_place) {
  for (int32_t i = 0; i < mpi->num_sent; i++) {
    int done = 1;
    if (mpi->sent[i].data)
      PTC_TRY(ptc_mpi_try(mpi, diag, mpi->module->test(mpi->state, ptc_mpi_sent(mpi, i), &done),
                          "send"));
    if (!done) continue;
    free(mpi->sent[i].data);
    mpi->sent[i].data = NULL;
    *out_place = i;
    return PTC_OK;
  }
  const size_t bytes = (size_t)(mpi->num_sent + 1) * sizeof *mpi->sent;
  mpi->sent = realloc(mpi->sent, bytes);
  if (!mpi->sent) ptc_oom(bytes);
  mpi->sent[mpi->num_sent].data = NULL;
  *out_place = mpi->num_sent++;
  return PTC_OK;
}

// Large messages go in parts; an empty one is one empty part.
static int64_t part_at(int64_t bytes, int64_t done) {
  return bytes - done < MAX_MESSAGE ? bytes - done : MAX_MESSAGE;
}

ptc_status_t ptc_mpi_send_message(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                                  const void *data, int64_t bytes) {
  ptc_mpi_t *mpi = (ptc_mpi_t *)comm;
  PTC_TRY(ptc_mpi_check(mpi, diag));
  int64_t done = 0;
  do {
    const int64_t part = part_at(bytes, done);
    int32_t place;
    PTC_TRY(find_place(mpi, diag, &place));
    void *copy = malloc((size_t)part + 1);
    if (!copy) ptc_oom((size_t)part + 1);
    if (part > 0) memcpy(copy, (const char *)data + done, (size_t)part);
    mpi->sent[place].data = copy;
    PTC_TRY(ptc_mpi_try(mpi, diag,
                        mpi->module->send(mpi->state, PTC_MPI_MESSAGES, peer, tag, copy, part,
                                          ptc_mpi_sent(mpi, place)),
                        "send"));
    done += part;
  } while (done < bytes);
  return PTC_OK;
}

ptc_status_t ptc_mpi_recv_message(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                                  void *data, int64_t bytes) {
  ptc_mpi_t *mpi = (ptc_mpi_t *)comm;
  PTC_TRY(ptc_mpi_check(mpi, diag));
  int64_t done = 0;
  do {
    const int64_t part = part_at(bytes, done);
    const double start_s = ptc_now_s();
    int found = 0, from;
    int64_t sent = 0;
    for (int64_t turn = 0;; turn++) {
      PTC_TRY(ptc_mpi_try(
          mpi, diag,
          mpi->module->probe(mpi->state, PTC_MPI_MESSAGES, peer, tag, &from, &sent, &found),
          "receive"));
      if (found) break;
      PTC_TRY(ptc_mpi_turn(mpi, diag, peer, start_s, turn));
    }
    if (sent != part)
      return ptc_mpi_fail(mpi, diag, PTC_COMM_MISMATCH,
                          "rank %d sends a message %d of %lld bytes, and rank %d receives one of "
                          "%lld",
                          peer, tag, (long long)(done + sent), comm->rank, (long long)bytes);
    PTC_TRY(ptc_mpi_try(mpi, diag,
                        mpi->module->recv(mpi->state, PTC_MPI_MESSAGES, peer, tag,
                                          (char *)data + done, part, ptc_mpi_message(mpi)),
                        "receive"));
    PTC_TRY(ptc_mpi_wait(mpi, diag, ptc_mpi_message(mpi), peer));
    done += part;
  } while (done < bytes);
  mpi->received[peer] += bytes;
  return PTC_OK;
}

static const double patience_s = 2;

// Whether |request| is done before the patience that began at |start_s| ends.
static bool finishes(ptc_mpi_t *mpi, int request, double start_s) {
  int done = 0;
  while (mpi->module->test(mpi->state, request, &done) == 0 && !done)
    if (ptc_now_s() - start_s > patience_s) return false;
  return done;
}

static void say_farewell(ptc_mpi_t *mpi, double start_s) {
  static const char nothing;
  for (int32_t r = 0; r < mpi->comm.world; r++)
    if (r != mpi->comm.rank)
      mpi->module->send(mpi->state, PTC_MPI_CONTROL, r, PTC_MPI_FAREWELL_TAG, &nothing, 0,
                        ptc_mpi_farewell(mpi, r));
  for (int32_t r = 0; r < mpi->comm.world; r++) {
    int found = r == mpi->comm.rank, from;
    int64_t bytes;
    while (!found && ptc_now_s() - start_s < patience_s)
      if (mpi->module->probe(mpi->state, PTC_MPI_CONTROL, r, PTC_MPI_FAREWELL_TAG, &from, &bytes,
                             &found) != 0)
        return;
  }
  for (int32_t r = 0; r < mpi->comm.world; r++)
    if (!finishes(mpi, ptc_mpi_farewell(mpi, r), start_s)) return;
}

void ptc_mpi_flush(ptc_mpi_t *mpi) {
  const double start_s = ptc_now_s();
  for (int32_t i = 0; i < mpi->num_sent; i++)
    if (!mpi->sent[i].data || finishes(mpi, ptc_mpi_sent(mpi, i), start_s))
      free(mpi->sent[i].data);  // else MPI still has it
  if (!mpi->has_ended) return;
  for (int32_t r = 0; r < mpi->comm.world; r++) finishes(mpi, ptc_mpi_notice(mpi, r), start_s);
  say_farewell(mpi, start_s);
}

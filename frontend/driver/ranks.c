#include "frontend/driver/ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank_s {
  pthread_t thread;
  ptc_diag_t diag;
  ptc_comm_t *comm;  // NULL: the only rank
  const ptc_program_t *program;
  const ptc_ranks_t *ranks;
  ptc_status_t status;
} rank_t;

static const char *first_error(const ptc_diag_t *diag) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (diag->items[i].severity == PTC_ERROR) return diag->items[i].message;
  return "an error";
}

static ptc_status_t run_rank(const rank_t *rank, ptc_diag_t *diag) {
  ptc_session_t session;
  ptc_status_t status =
      ptc_session_open(diag, rank->program, rank->comm, rank->ranks->options, &session);
  if (status == PTC_OK) status = rank->ranks->work(&session, rank->ranks->args);
  // Whoever waits for this rank would wait in vain.
  if (status != PTC_OK && rank->comm) ptc_comm_abort(rank->comm, first_error(diag));
  ptc_session_close(&session);
  return status;
}

static void *rank_main(void *arg) {
  rank_t *rank = arg;
  rank->status = run_rank(rank, &rank->diag);
  return NULL;
}

// --- what the ranks say

bool ptc_ranks_is_echo(const ptc_diag_t *diag) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (diag->items[i].severity == PTC_ERROR)
      return strcmp(diag->items[i].id, "comm-aborted") == 0 ||
             strcmp(diag->items[i].id, "comm-lost") == 0;
  return true;  // it has none: another rank has
}

static int32_t speaker(const rank_t *ranks, int32_t world) {
  int32_t first = -1;
  for (int32_t r = 0; r < world; r++) {
    if (ranks[r].status == PTC_OK) continue;
    if (!ptc_ranks_is_echo(&ranks[r].diag)) return r;
    if (first < 0) first = r;
  }
  return first < 0 ? 0 : first;
}

static void hand_over(ptc_diag_t *to, const rank_t *rank, int32_t number) {
  ptc_diag_pass_on(to, &rank->diag, rank->status);
  if (number > 0 && rank->diag.num_errors > 0)
    ptc_note(to, (ptc_loc_t){0}, "on rank %" PRId32, number);
}

// --- all together

static int32_t start_ranks(ptc_diag_t *diag, rank_t *ranks, int32_t world, ptc_status_t *out) {
  for (int32_t r = 0; r < world; r++) {
    const int error = pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
    if (!error) continue;
    *out = ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "ranks-start",
                     "cannot start rank %" PRId32 ": %s", r, strerror(error));
    ptc_comm_abort(ranks[r].comm, "a rank could not be started");
    return r;
  }
  return world;
}

static ptc_status_t run_threads(ptc_diag_t *diag, rank_t *ranks, int32_t world) {
  ptc_status_t status = PTC_OK;
  const int32_t started = start_ranks(diag, ranks, world, &status);
  for (int32_t r = 0; r < started; r++) pthread_join(ranks[r].thread, NULL);
  if (status != PTC_OK) return status;
  const int32_t number = speaker(ranks, world);
  hand_over(diag, &ranks[number], number);
  return ranks[number].status;
}

// Threads of this process.
static ptc_status_t start_threads(ptc_diag_t *diag, const ptc_program_t *program,
                                  const ptc_ranks_t *ranks, int32_t world) {
  ptc_comm_t **comms = ptc_xmalloc(sizeof *comms * (size_t)world);
  ptc_status_t status = ptc_comm_open_threads(diag, world, comms);
  if (status == PTC_OK) {
    rank_t *list = ptc_xmalloc(sizeof *list * (size_t)world);
    for (int32_t r = 0; r < world; r++) {
      list[r] = (rank_t){.program = program, .ranks = ranks, .comm = comms[r]};
      ptc_diag_init(&list[r].diag);
    }
    status = run_threads(diag, list, world);
    for (int32_t r = 0; r < world; r++) {
      ptc_comm_close(comms[r]);
      ptc_diag_deinit(&list[r].diag);
    }
    free(list);
  }
  free(comms);
  return status;
}

ptc_status_t ptc_ranks_run_one(ptc_diag_t *diag, const ptc_program_t *program,
                               const ptc_ranks_t *ranks, ptc_comm_t *comm) {
  const int64_t world = ptc_plan_world(program->plan);
  if (world != comm->world)
    return ptc_error(
        diag, (ptc_loc_t){.file = program->path}, PTC_INVALID_INPUT, "comm-world",
        "the plan is for %" PRId64 " ranks, and %" PRId32
        " have been started: start as many, or compile the model with --world %" PRId32,
        world, comm->world, comm->world);
  if (ranks->options->gpusim && world > 1)
    return ptc_error(diag, (ptc_loc_t){.file = program->path}, PTC_UNSUPPORTED, "gpusim-ranks",
                     "ranks on the simulator of GPUs are threads of one process: start ptc without "
                     "a launcher and without --ranks-as=processes");
  const rank_t rank = {.program = program, .ranks = ranks, .comm = world > 1 ? comm : NULL};
  return run_rank(&rank, diag);
}

ptc_status_t ptc_ranks_run(ptc_diag_t *diag, const ptc_program_t *program,
                           const ptc_ranks_t *ranks) {
  const int32_t world = (int32_t)ptc_plan_world(program->plan);
  if (world == 1) return run_rank(&(rank_t){.program = program, .ranks = ranks}, diag);
  return ranks->options->as_processes ? ptc_ranks_fork(diag, program, ranks, world)
                                      : start_threads(diag, program, ranks, world);
}

#include "runtime/comm_queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_SLOTS = 64 };

struct ptc_comm_queue_s {
  ptc_comm_queue_fn_t fn;
  void *arg;
  int32_t max_args;
  const ptc_step_t *steps[NUM_SLOTS];
  void **args;  // max_args for each slot
  pthread_mutex_t mutex;
  pthread_cond_t pushed_more, done_more;
  int64_t num_pushed;
  _Atomic int64_t num_done;
  _Atomic bool failed;
  bool stop;
  // The thread's, and the owner's once nothing is under way.
  ptc_status_t status;
  ptc_diag_t diag;
  pthread_t thread;
};

static void **args_of(ptc_comm_queue_t *q, int64_t number) {
  return q->args + (number - 1) % NUM_SLOTS * q->max_args;
}

static void run_one(ptc_comm_queue_t *q, int64_t number) {
  if (q->status != PTC_OK) return;
  q->status = q->fn(q->arg, &q->diag, q->steps[(number - 1) % NUM_SLOTS], args_of(q, number));
  if (q->status != PTC_OK) atomic_store(&q->failed, true);
}

static void *run(void *arg) {
  ptc_comm_queue_t *q = arg;
  int64_t number = 0;
  for (;;) {
    pthread_mutex_lock(&q->mutex);
    if (number > 0) {
      atomic_store(&q->num_done, number);
      pthread_cond_signal(&q->done_more);
    }
    while (q->num_pushed == number && !q->stop) pthread_cond_wait(&q->pushed_more, &q->mutex);
    const bool more = q->num_pushed > number;
    pthread_mutex_unlock(&q->mutex);
    if (!more) return NULL;
    run_one(q, ++number);
  }
}

ptc_status_t ptc_comm_queue_create(ptc_diag_t *diag, ptc_comm_queue_fn_t fn, void *arg,
                                   int32_t max_args, ptc_comm_queue_t **out) {
  *out = NULL;
  ptc_comm_queue_t *q = ptc_xmalloc(sizeof *q);
  *q = (ptc_comm_queue_t){.fn = fn, .arg = arg, .max_args = max_args + 1};
  q->args = ptc_xmalloc(sizeof *q->args * NUM_SLOTS * (size_t)q->max_args);
  pthread_mutex_init(&q->mutex, NULL);
  pthread_cond_init(&q->pushed_more, NULL);
  pthread_cond_init(&q->done_more, NULL);
  ptc_diag_init(&q->diag);
  // Signals are the caller's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&q->thread, NULL, run, q);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!error) {
    *out = q;
    return PTC_OK;
  }
  q->max_args = 0;  // there is no thread
  ptc_comm_queue_destroy(q);
  return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "thread-start",
                   "cannot start the thread that communicates: %s", strerror(error));
}

void ptc_comm_queue_destroy(ptc_comm_queue_t *q) {
  if (!q) return;
  if (q->max_args) {
    pthread_mutex_lock(&q->mutex);
    q->stop = true;
    pthread_cond_signal(&q->pushed_more);
    pthread_mutex_unlock(&q->mutex);
    pthread_join(q->thread, NULL);
  }
  pthread_mutex_destroy(&q->mutex);
  pthread_cond_destroy(&q->pushed_more);
  pthread_cond_destroy(&q->done_more);
  ptc_diag_deinit(&q->diag);
  free(q->args);
  free(q);
}

static void wait_until(ptc_comm_queue_t *q, int64_t number) {
  if (atomic_load(&q->num_done) >= number) return;
  pthread_mutex_lock(&q->mutex);
  while (atomic_load(&q->num_done) < number) pthread_cond_wait(&q->done_more, &q->mutex);
  pthread_mutex_unlock(&q->mutex);
}

void **ptc_comm_queue_args(ptc_comm_queue_t *q) {
  wait_until(q, q->num_pushed + 1 - NUM_SLOTS);
  return args_of(q, q->num_pushed + 1);
}

int64_t ptc_comm_queue_push(ptc_comm_queue_t *q, const ptc_step_t *step) {
  pthread_mutex_lock(&q->mutex);
  q->steps[q->num_pushed % NUM_SLOTS] = step;
  q->num_pushed++;
  pthread_cond_signal(&q->pushed_more);
  pthread_mutex_unlock(&q->mutex);
  return q->num_pushed;
}

// Takes over what the thread has said. What is still under way is skipped, so this does not wait for long.
static ptc_status_t fail(ptc_comm_queue_t *q, ptc_diag_t *diag) {
  wait_until(q, q->num_pushed);
  ptc_diag_pass_on(diag, &q->diag, q->status);
  return q->status;
}

ptc_status_t ptc_comm_queue_wait(ptc_comm_queue_t *q, ptc_diag_t *diag, int64_t number) {
  wait_until(q, number);
  return atomic_load(&q->failed) ? fail(q, diag) : PTC_OK;
}

ptc_status_t ptc_comm_queue_drain(ptc_comm_queue_t *q, ptc_diag_t *diag) {
  const ptc_status_t status = ptc_comm_queue_wait(q, diag, q->num_pushed);
  if (status == PTC_OK) return PTC_OK;
  ptc_diag_deinit(&q->diag);
  ptc_diag_init(&q->diag);
  q->status = PTC_OK;
  atomic_store(&q->failed, false);
  return status;
}

bool ptc_comm_queue_is_idle(ptc_comm_queue_t *q) {
  return atomic_load(&q->num_done) == q->num_pushed;
}

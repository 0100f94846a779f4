// Steps that one thread hands to another, which runs them in order: what a rank exchanges with others while it computes.
#ifndef PTC_RUNTIME_COMM_QUEUE_H_
#define PTC_RUNTIME_COMM_QUEUE_H_

#include "ir/base/diag.h"
#include "ir/plan.h"

typedef struct ptc_comm_queue_s ptc_comm_queue_t;

// Runs one step. |args| has the addresses of its arguments. |diag| is the thread's own.
typedef ptc_status_t (*ptc_comm_queue_fn_t)(void *arg, ptc_diag_t *diag, const ptc_step_t *step,
                                            void *const *args);

// Starts the thread. Steps have at most |max_args| arguments. "thread-start" (PTC_DEVICE). |*out| is NULL on an error.
ptc_status_t ptc_comm_queue_create(ptc_diag_t *diag, ptc_comm_queue_fn_t fn, void *arg,
                                   int32_t max_args, ptc_comm_queue_t **out);
// Waits for what was handed over; ends the thread. NULL is allowed.
void ptc_comm_queue_destroy(ptc_comm_queue_t *queue);

// Room for the arguments of the next step: filled in, then pushed. Waits while too many are under way.
void **ptc_comm_queue_args(ptc_comm_queue_t *queue);
// Hands the step over; its number, from 1 on.
int64_t ptc_comm_queue_push(ptc_comm_queue_t *queue, const ptc_step_t *step);
// Returns when step |number| and all before it are done; PTC_OK, or what the first of them that failed returned: then its
// diagnostics are in |diag|, and what was pushed after it is not run. 0: nothing to wait for.
ptc_status_t ptc_comm_queue_wait(ptc_comm_queue_t *queue, ptc_diag_t *diag, int64_t number);
// The same of all steps; then the queue is as new.
ptc_status_t ptc_comm_queue_drain(ptc_comm_queue_t *queue, ptc_diag_t *diag);
// Whether nothing is under way.
bool ptc_comm_queue_is_idle(ptc_comm_queue_t *queue);

#endif  // PTC_RUNTIME_COMM_QUEUE_H_

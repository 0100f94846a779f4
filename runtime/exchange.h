// The collectives of one rank's plan: its groups on the mesh, made once, and what the watchdog says of each step.
#ifndef PTC_RUNTIME_EXCHANGE_H_
#define PTC_RUNTIME_EXCHANGE_H_

#include "runtime/communicator.h"

typedef struct ptc_exchange_s ptc_exchange_t;

// Makes the groups of all collectives of |plan| for the rank of |comm|; keeps both (not owned). The plan is one
// that ptc_plan_check accepts. "comm-world" (PTC_INVALID_INPUT): the plan is for another number of ranks. |out| is NULL
// on an error.
ptc_status_t ptc_exchange_create(ptc_diag_t *diag, const ptc_plan_t *plan, ptc_comm_t *comm,
                                 ptc_exchange_t **out);
void ptc_exchange_destroy(ptc_exchange_t *exchange);  // NULL is allowed

// Calls the collective of |step|; |args| has the addresses of its arguments. Allocates nothing.
ptc_status_t ptc_exchange_run(ptc_diag_t *diag, ptc_exchange_t *exchange, const ptc_step_t *step,
                              void *const *args);

// Bytes that this rank has read from its peers for collectives of the plan with the axes and the kind of |collective|,
// as the communicator counts them; since the start, or the latest ptc_exchange_forget.
int64_t ptc_exchange_bytes(const ptc_exchange_t *exchange, const ptc_collective_t *collective);
void ptc_exchange_forget(ptc_exchange_t *exchange);
ptc_comm_t *ptc_exchange_comm(const ptc_exchange_t *exchange);

#endif  // PTC_RUNTIME_EXCHANGE_H_

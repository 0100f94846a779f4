// Training by a plan: steps, validation, metrics, checkpoints.
#ifndef PTC_FRONTEND_DRIVER_RUN_PLAN_H_
#define PTC_FRONTEND_DRIVER_RUN_PLAN_H_

#include "frontend/driver/session.h"
#include "frontend/lower.h"
#include "runtime/cpu/thread_pool.h"

enum { PTC_MAX_DATA = 64 };

typedef struct ptc_run_plan_options_s {
  const char *data[PTC_MAX_DATA], *val[PTC_MAX_DATA];  // as for ptc_session_open_data
  int32_t num_data, num_val;
  int64_t steps;       // in all, those before a resume included; 0: as the plan says
  int64_t eval_every;  // steps; 0: at the end alone
  int64_t save_every;  // steps; 0: at the end alone
  const char *run_dir;
  bool resume, restart;  // where checkpoints lie: go on, or remove them
  bool fall_back;        // with resume: where the latest one is damaged, go on from the one before
  const char *init, *map;  // weights to begin with, and the name map for them; or NULL
  const ptc_override_t *sets;
  int32_t num_sets;
  int64_t seed;            // -1: the plan's
  const char *dump_grads;  // file for the gradients of the first step, or NULL
  bool profile, keep_going, quiet;
  bool no_graph;     // steps are not launched as one graph, as asked for
  bool needs_graph;  // a step that cannot be is an error
} ptc_run_plan_options_t;

// Trains until the last step, or until SIGINT or SIGTERM; then writes a checkpoint. Under run_dir:
// metrics.jsonl, one object per line; checkpoints; with |profile|, profile.json. Prints the last losses to
// stdout. Diagnostics: those of session.h, runtime/data.h and runtime/checkpoint.h, "no-task",
// "non-finite-loss" (unless keep_going), "run-exists", "no-grads", "no-graph"
// (needs_graph), and those of runtime/metrics.h.
ptc_status_t ptc_run_plan(ptc_session_t *session, const ptc_run_plan_options_t *options);

#endif  // PTC_FRONTEND_DRIVER_RUN_PLAN_H_

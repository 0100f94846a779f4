// The stages of a pipeline on the interpreter, each on a thread of its own (which runs all devices of the stage), by
// their schedules.
#ifndef PTC_TESTS_SUPPORT_STAGE_RUN_H_
#define PTC_TESTS_SUPPORT_STAGE_RUN_H_

#include "ir/interp.h"
#include "passes/split_stages.h"

typedef struct stage_run_s {
  const ptc_stages_t *stages;  // not owned
  ptc_interp_t **interps;
  ptc_mail_t *mail;
} stage_run_t;

void stage_run_open(stage_run_t *run, const ptc_stages_t *stages, ptc_interp_mode_t mode);
void stage_run_close(stage_run_t *run);
// Gives the stages the globals of |whole|, which runs |module|: those of equal paths and turns.
void stage_run_load(stage_run_t *run, ptc_interp_t *whole, const ptc_module_t *module);
// One step (train), or eval; false if a stage fails, or something sent is not received.
bool stage_run_step(stage_run_t *run, bool train);

// Compares the state of |whole|'s module with that of the stages; as below.
bool stage_run_compare_states(stage_run_t *run, ptc_interp_t *whole, const ptc_module_t *module,
                              double tolerance, ptc_str_t *out_report);
// The same and all results of the last run of train or eval: equal, or (tolerance > 0) up to |tolerance| times the
// largest element. |out_report| says what differs.
bool stage_run_compare(stage_run_t *run, ptc_interp_t *whole, const ptc_module_t *module,
                       bool train, double tolerance, ptc_str_t *out_report);

#endif  // PTC_TESTS_SUPPORT_STAGE_RUN_H_

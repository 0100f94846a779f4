// From the program of a step to the programs of the stages of a pipeline (DESIGN.md section 4, pass 10).
#ifndef PTC_PASSES_SPLIT_STAGES_H_
#define PTC_PASSES_SPLIT_STAGES_H_

#include "passes/pass.h"
#include "passes/schedule.h"

enum { PTC_SPLIT_MAX_PARTS = 64 };

// A cut before turn |turn| of forward repeat |repeat|, by number among the repeats of the forward pass. With the number of
// its turns for |turn| what stands after the repeat is behind the cut, too. Config cut is a list of these ("0:8; 1:2")
// or of paths of turns ("block.8").
typedef struct ptc_split_cut_s {
  int32_t repeat;
  int64_t turn;
} ptc_split_cut_t;

// The cut that |path| names in |train|, before or after microbatch. False: no turn is called so, or it is not the first of
// the several that one turn of the repeat makes.
bool ptc_split_find_cut(const ptc_func_t *train, const char *path, ptc_split_cut_t *out);

// A module per stage. Its functions, with the chunk's number after a point where it is not 0 ("train.f.1"):
//   init                      the parameters that live here
//   train.begin               once per step, before all micro-batches: what does not depend on them
//   train.f, train.b, train.w for one micro-batch (train.w: where the schedule has it apart)
//   train.recv_f, train.send_f, train.recv_b, train.send_b  its transfers to and from slots
//   train.end                 totals, clipping, the optimizer; transfers of its own
//   eval.begin, eval.f, eval.recv_f, eval.send_f, eval.end
// Values go from one function to another through globals of kind slot. Losses and metrics are results of
// train.end and eval.end of all stages, outputs of the last one.
typedef struct ptc_stages_s {
  ptc_arena_t arena;
  int32_t num_stages;
  ptc_module_t **modules;
  const ptc_schedule_t *train;
  const ptc_schedule_t *eval;  // F and its transfers alone
} ptc_stages_t;

// Splits |module|, which has been through `recompute`, as config pp, schedule, chunks and cut say. |module| itself is
// not changed. Errors: "split-turns" (fewer turns than stages), "split-cut" (a cut names no turn of a repeat, or the
// number of cuts does not fit), "split-schedule", "split-region" (PTC_UNSUPPORTED: the program has a form that cannot
// be cut there).
ptc_status_t ptc_split_stages(ptc_pass_ctx_t *ctx, const ptc_module_t *module,
                              ptc_stages_t **out_stages);
void ptc_stages_destroy(ptc_stages_t *stages);  // NULL is allowed

// Puts the axis "pp" into the mesh of every stage's module, outermost: its plan is for ranks of all stages. To be done
// before `fuse`; the interpreter would take it for devices of the stage.
void ptc_stages_add_axis(ptc_stages_t *stages);

// The function that a stage runs for |kind| of chunk |chunk|: "train.send_f.1". |train|: or eval.
void ptc_stage_func_name(bool train, ptc_work_kind_t kind, int32_t chunk, char out_name[40]);

#endif  // PTC_PASSES_SPLIT_STAGES_H_

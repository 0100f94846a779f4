// What a step of training does, in a form from which the work of one device can be read off for any split in some
// microseconds.
//
// ptc_work_new makes it once per model, of the program after `optimizer`: the step of one device on the whole batch.
// ptc_layout_pieces then lays the values over the axes of a choice, by the rules of `partition`, without building
// any IR.
#ifndef PTC_PASSES_PLANNER_WORK_H_
#define PTC_PASSES_PLANNER_WORK_H_

#include "ir/base/str.h"
#include "ir/module.h"
#include "passes/planner/choice.h"
#include "passes/planner/kernel_cost.h"
#include "passes/planner/net_cost.h"

enum { PTC_WORK_MAX_NAMES = 32, PTC_MAX_PARAM_GROUPS = 8 };

// A dim of parameters that may be laid on tp. Those of one name and several extents are several: heads of a wide branch
// and of a narrow one.
typedef struct ptc_work_name_s {
  const char *name;
  int64_t extent;
  uint32_t pieces;  // set of pieces whose parameters have it
  // It is laid alike in all pieces: a dim of what one piece hands to another, or of a parameter of several.
  bool shared;
} ptc_work_name_t;

// The order of pieces is that of the forward pass.
typedef struct ptc_work_piece_s {
  const char *name;  // of the region's bundles, "block"; else "begin", "between", "end"
  int64_t count;     // turns; 1 outside of repeats
  int32_t
      repeat;  // its number among the repeats of the forward pass, as split_stages.h counts; -1: none
  int64_t first,
      step;  // of its turns' numbers in paths: several regions may part the turns of one repeat
} ptc_work_piece_t;

typedef struct ptc_work_impl_s ptc_work_impl_t;

typedef struct ptc_work_s {
  const char *model;
  int64_t batch;              // samples of a step
  int64_t tokens_per_sample;  // extent of the sequence dim of the inputs; 1 if there is none
  ptc_precision_t precision;  // of contractions
  bool tf32;                  // those of f32 on tensor cores, where there are any
  double params;              // trained ones, all turns
  double input_bytes;         // of a step: every device has all of them
  ptc_work_name_t names[PTC_WORK_MAX_NAMES];
  int32_t num_names;
  ptc_work_piece_t pieces[PTC_MAX_PIECES];
  int32_t num_pieces;
  ptc_work_impl_t *impl;
} ptc_work_t;

// Reads |module|, which stays as it is and must outlive the result. |out_work| lives in |arena|.
// PTC_UNSUPPORTED with a diagnostic where there is no train step or it has too many pieces.
ptc_status_t ptc_work_new(ptc_module_t *module, ptc_arena_t *arena, ptc_work_t **out_work);

// One collective, or several equal ones.
typedef struct ptc_net_item_s {
  ptc_net_kind_t kind;
  uint32_t axes;  // set of bits 1 << ptc_device_axis_t
  int32_t ranks;  // of a group: less than the product of the axes where a part of tp is meant
  double
      bytes;  // the whole buffer (nccl-tests' S): of all_gather what each member has afterwards, of reduce_scatter
              // what each has before, of all_reduce and all_to_all what each has
  int32_t times;
  bool late;  // sums of gradients, gathers of parameters: may overlap with computing
  const char *label;
  ptc_loc_t loc;
} ptc_net_item_t;

typedef struct ptc_phase_work_s {
  const ptc_kernel_work_t *kernels;
  const ptc_net_item_t *nets;
  int32_t num_kernels, num_nets;
} ptc_phase_work_t;

// Parameters whose gradients are summed over the same axes; of one turn on one device, before ZeRO.
typedef struct ptc_param_group_s {
  uint32_t axes;  // over which the gradients are summed: replicas (dp, ep, cp)
  double params;  // elements
  double
      param_bytes;  // what contractions read: copies in the precision's dtype, or the parameters themselves
  double plain_bytes;  // of those that contractions read themselves
  double grad_bytes;   // accumulated over micro-batches
  double state_bytes;  // moments, and the parameters in f32 where param_bytes are copies
  int32_t tensors;
  int32_t
      shared_with;  // the first piece that has them, too; -1: none. Counted once where both lie on one stage
} ptc_param_group_t;

// What a turn of a piece needs room for at most, besides what earlier ones keep. In our own plans with what it saves
// itself, from where it is made, and until it is used up; in others besides it. By pass, ZeRO (gathered: parameters are,
// before they are read; scattered: whole gradients live until ranks have added them up) and whether a micro-batch is the
// only one: then gradients stay from where they are made, and kernels may work in place.
typedef enum ptc_peak_e {
  PTC_PEAK_FORWARD,
  PTC_PEAK_FORWARD_GATHERED,
  PTC_PEAK_BACKWARD,
  PTC_PEAK_BACKWARD_SCATTERED,
  PTC_PEAK_BACKWARD_GATHERED,  // and scattered
  PTC_NUM_PEAKS_OF_MANY,
  PTC_NUM_PEAKS = 2 * PTC_NUM_PEAKS_OF_MANY  // those of a micro-batch alone behind the others
} ptc_peak_t;

// What of it depends on the micro-batch is read by layout_form.c, too.
// A stretch of the model that a stage holds whole: what comes before a repeat, one turn of it, what comes after.
typedef struct ptc_piece_s {
  const char *name;
  int64_t count;  // turns
  // Of one turn, one micro-batch, one device. |again|: what the backward pass computes again under the choice's
  // recompute.
  ptc_phase_work_t forward, backward, weight_grad, again;
  // Once per step: sums of gradients over tp (of parameters that all its ranks have).
  ptc_phase_work_t step;
  ptc_param_group_t groups[PTC_MAX_PARAM_GROUPS];
  int32_t num_groups;
  double params, param_bytes, grad_bytes, state_bytes;  // sums over the groups
  // Kept from forward to backward, per micro-batch, by recompute mode.
  double saved_bytes[PTC_NUM_RECOMPUTE_MODES];
  double slot_bytes
      [PTC_NUM_RECOMPUTE_MODES];  // more of it in a pipeline, which does not compute norms again
  double
      held_bytes;  // per micro-batch, where gradients of parameters are made later than the others
  // Kept besides, without recompute, where attention is not fused: probabilities, dropout's mask, what it leaves.
  double scores_bytes;
  // Other frameworks: what selective recompute by ops keeps, and the logits of one micro-batch (elements).
  double products_bytes, logits;
  double peak_bytes[PTC_NUM_PEAKS];  // live in a turn, at most
  double boundary_bytes;             // handed to the next piece on one device, per micro-batch
} ptc_piece_t;

typedef struct ptc_work_pieces_s {
  const ptc_work_t *work;
  ptc_piece_t *items;
  int32_t count;
  int64_t micro_batches;  // per step
  const char *reason;     // why there are none (PTC_INFEASIBLE), for people
} ptc_work_pieces_t;

// Which operands of an op stay in memory until its gradient.
typedef enum ptc_save_profile_e {
  PTC_SAVE_PTC,  // what the memory plan keeps
  PTC_SAVE_MEGATRON,  // Korthikanti et al. 2022 (arXiv:2205.05198): 16-bit activations, dropout masks of 1 byte
  PTC_SAVE_TORCH,  // eager autograd
  PTC_NUM_SAVE_PROFILES
} ptc_save_profile_t;

// The pieces of |work| under |choice|; everything in |arena|. PTC_INFEASIBLE, with out->reason, where the choice does
// not fit the model (a batch that does not divide, a dim too short). Emits no diagnostic.
ptc_status_t ptc_layout_pieces(const ptc_work_t *work, ptc_arena_t *arena,
                               const ptc_choice_t *choice, ptc_save_profile_t profile,
                               ptc_work_pieces_t *out);

// How values lay under earlier choices: others that differ in sizes alone, where these decide the same, are not laid
// out again. In |arena|, which must not end before ptc_patterns_end.
typedef struct ptc_patterns_s ptc_patterns_t;
ptc_patterns_t *ptc_patterns_new(ptc_arena_t *arena);
void ptc_patterns_end(ptc_patterns_t *patterns);

// The pieces of |choice| for every micro-batch (its own has no meaning), for about the price of two of them. In |arena|,
// which must not end before ptc_form_end. |patterns|: of |work|; NULL: none are kept.
typedef struct ptc_form_s ptc_form_t;
ptc_status_t ptc_layout_form(const ptc_work_t *work, ptc_arena_t *arena, ptc_patterns_t *patterns,
                             const ptc_choice_t *choice, ptc_save_profile_t profile,
                             ptc_form_t **out);
// NULL: the choice does not fit the model. Valid until the next call; kernels until one for a form of the same
// patterns.
const ptc_work_pieces_t *ptc_form_at(ptc_form_t *form, int64_t micro_batch);
// Whether it is the same for every dp above 1.
bool ptc_form_any_dp(const ptc_form_t *form);
// Whether it serves a dp of 1, too: then ptc_form_at_any_dp has the pieces of every micro-batch that some dp allows.
// Their |micro_batches| are of no dp.
bool ptc_form_serves_all(const ptc_form_t *form);
const ptc_work_pieces_t *ptc_form_at_any_dp(ptc_form_t *form, int64_t micro_batch);
// The same where kernels and collectives do not matter.
const ptc_work_pieces_t *ptc_form_memory_at(ptc_form_t *form, bool any_dp, int64_t micro_batch);
void ptc_form_end(ptc_form_t *form);

// Per piece (|out|, PTC_MAX_PIECES), a hash of how its parameters lie on tp and ep. Choices that agree in all have the same
// pieces. False: the choice does not fit.
bool ptc_layout_params_hash(const ptc_work_t *work, const ptc_choice_t *choice, uint64_t *out);

// Turns |from| to |to| of a piece as paths number them: "block.2..5"; its name where it has one turn.
void ptc_work_print_turns(const ptc_work_piece_t *piece, int64_t from, int64_t to, ptc_str_t *out);
// The candidate's name, with its extent ("f=3072") where others have the same name.
void ptc_work_print_name(const ptc_work_t *work, int32_t candidate, ptc_str_t *out);
// The candidates that |word| of a list means: of the name, or of "name=extent".
uint32_t ptc_work_find_names(const ptc_work_t *work, const char *word, size_t len);

// Writes |choice| into the config of |module| (axes, zero, micro_batch, recompute, schedule, a shard statement for each
// parameter that lies on tp), so that the passes make what the pieces say. Cuts (cuts.h) and recompute_turns are
// the caller's. PTC_INFEASIBLE where ptc_layout_pieces says so.
ptc_status_t ptc_work_write_choice(const ptc_work_t *work, const ptc_choice_t *choice,
                                   ptc_module_t *module);

#endif  // PTC_PASSES_PLANNER_WORK_H_

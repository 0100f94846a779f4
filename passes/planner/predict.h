// Time and memory of a step, from the pieces of a choice.
#ifndef PTC_PASSES_PLANNER_PREDICT_H_
#define PTC_PASSES_PLANNER_PREDICT_H_

#include "passes/planner/stack.h"

typedef struct ptc_prediction_s {
  bool fits;
  bool is_bound;  // step_s is a bound, and the other times are left out
  double step_s, tokens_per_s;
  // Parts of step_s on the slowest stage: it is their sum.
  double compute_s;                       // kernels of all micro-batches
  double recompute_s;                     // of them again (not in compute_s)
  double exposed_s[PTC_NUM_DEVICE_AXES];  // communication that nothing hides; pp: sends
  double bubble_s, optimizer_s;
  // The slowest stage, and what of the bubble it waits for its first micro-batch, between its tasks, and for the others
  // at the end.
  int32_t slowest_stage;
  double fill_s, wait_s, drain_s;
  double model_flops;  // of a step, all devices: recompute left out, masks respected
  double mfu;          // of the peak of the precision
  // Of the stage that needs most.
  double memory_bytes, params_bytes, grads_bytes, states_bytes, saved_bytes, temp_bytes,
      fixed_bytes;
  double capacity_bytes;
  // What PyTorch calls allocated: neither context nor communicators nor what the allocator holds unused; of the stage that
  // needs most and of the last one.
  double allocated_bytes, last_allocated_bytes;
  int32_t worst_stage;
} ptc_prediction_t;

// Of one turn of a piece and one micro-batch, in seconds.
typedef struct ptc_piece_time_s {
  double forward, backward, weight_grad, again;  // kernels
  double exposed[PTC_NUM_DEVICE_AXES];           // communication in all four, not hidden
  double exposed_forward, exposed_again;         // parts of it
  double step;                                   // once per step
  double flops;                                  // forward, backward, weight_grad
  // Of forward, backward and weight_grad with what nothing hides, at least, and of the same on all ranks together where
  // more of tp or cp share it (ptc_kernel_floor), unless heads move over cp.
  double floor;
} ptc_piece_time_t;

// False: fewer turns than parts of the pipeline, or more parts than PTC_MAX_PARTS. Mixed clusters: each stage of a
// pipeline has the time and memory of the devices on which it lies, the slowest and the smallest of them; stages lie on
// consecutive devices. Allocates nothing.
bool ptc_predict(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                 const ptc_stack_t *stack, const ptc_choice_t *choice, ptc_prediction_t *out);

// The same in two halves: the first does not depend on zero, schedule, chunks, cuts, nor, but through where groups lie,
// on dp and pp. |times|: pieces->count of them.
void ptc_predict_pieces(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                        const ptc_stack_t *stack, const ptc_choice_t *choice,
                        ptc_piece_time_t *times);
// The same where several choices on one mesh follow one another, which have much in common. |known|: zero at first.
enum { PTC_MAX_KNOWN_TIMES = 24 };
typedef struct ptc_known_times_s {
  struct {
    ptc_net_kind_t kind;
    uint32_t axes;
    int32_t ranks;
    double bytes, seconds;
  } nets[PTC_MAX_KNOWN_TIMES];
  struct {
    ptc_kw_kind_t kind;
    ptc_precision_t prec;
    bool accumulates_f32;
    int64_t batch, m, n, k;
    double bytes, costly, seconds, floor;
  } gemms[PTC_MAX_KNOWN_TIMES];
  int32_t num_nets, num_gemms;
} ptc_known_times_t;
void ptc_predict_pieces_known(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                              const ptc_stack_t *stack, const ptc_choice_t *choice,
                              ptc_known_times_t *known, ptc_piece_time_t *times);
enum { PTC_MAX_STAGES = 1024, PTC_MAX_PARTS = 4096 };
// How often a stage of the pipeline has each piece.
typedef struct ptc_stage_pieces_s {
  int32_t times[PTC_MAX_PIECES];
} ptc_stage_pieces_t;
// Turns [from, to) of the whole model that a part has; the first part has what stands before all turns, the last what
// stands after.
typedef struct ptc_part_range_s {
  int64_t from, to;
} ptc_part_range_t;

// Of the choice's cuts, or of those whose slowest part is fastest; they do not depend on zero and recompute_turns.
// |parts|: pp * chunks of them. |out|: pp of them. False as above.
bool ptc_predict_stages(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                        const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                        const ptc_choice_t *choice, ptc_part_range_t *parts,
                        ptc_stage_pieces_t *out);
// The same of parts that are known.
void ptc_predict_counts(const ptc_work_pieces_t *pieces, const ptc_part_range_t *parts,
                        int64_t num_parts, int64_t num_stages, ptc_stage_pieces_t *out);
// What is not worth a simulation: what does not fit, needs more than |bytes|, or takes |seconds| at least. Then step_s is
// a bound, and is_bound says so; what does not fit has no time at all but for |always|.
typedef struct ptc_worth_s {
  double seconds, bytes;
  bool always;
  struct ptc_known_net_s *nets;  // remembered, of one cluster; NULL: none are
} ptc_worth_t;
// A collective that was priced: PTC_NUM_KNOWN_NETS of them, zero at first, in places of their own.
enum { PTC_NUM_KNOWN_NETS = 256 };
typedef struct ptc_known_net_s {
  bool known;
  ptc_net_kind_t kind;
  ptc_group_shape_t shape;
  int32_t channels;
  double bytes, seconds;
} ptc_known_net_t;
// |worth|: NULL: everything is.
void ptc_predict_timed(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                       const ptc_part_range_t *parts, const ptc_stage_pieces_t *stages,
                       const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                       const ptc_choice_t *choice, const ptc_worth_t *worth, ptc_prediction_t *out);

// What the same takes at least, whatever zero and recompute_turns are; 0 where nodes are of several kinds.
double ptc_predict_least_seconds(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                                 const ptc_part_range_t *parts, const ptc_stage_pieces_t *stages,
                                 const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                                 const ptc_choice_t *choice);

// Beside its passes, what a stage takes at least on the average, whatever the cuts, the schedule and recompute_turns
// are: gradients and parameters that nothing hides, and sums once per step. Of |choice|: sizes, zero. |nets|: as in
// ptc_worth_t.
double ptc_predict_least_late(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                              const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                              const ptc_choice_t *choice, int64_t micro_batches,
                              ptc_known_net_t *nets);

// What memory has to hold whatever the cuts and recompute_turns are: it depends on the layout, zero and dp.
typedef struct ptc_room_s {
  int64_t turns;
  double fixed;
  // Of one turn, at least: states; gradients of several micro-batches that they do not count; saved if it is not computed
  // again, and if it is; besides.
  double states, grads, none, least, temp;
  // Of what stands before all turns, and after them.
  double end_states[2], end_grads[2], end_kept[2], end_temp[2];
} ptc_room_t;
void ptc_predict_room(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                      const ptc_stack_t *stack, const ptc_choice_t *choice, ptc_room_t *out);
// False: some device needs more than |bytes|. Else |out_again| is a number of turns, over all stages, that have to be
// computed again at least. Of |choice|: pp, schedule, chunks.
bool ptc_room_may_fit(const ptc_room_t *room, const ptc_stack_t *stack, const ptc_choice_t *choice,
                      int64_t micro_batches, double bytes, double *out_again);
// What some device needs at least, whatever dp, pp, zero and the schedule are: the average over stages, or a turn alone.
// |pieces| are those of a dp of 1.
double ptc_predict_least_bytes(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                               const ptc_stack_t *stack, const ptc_choice_t *choice,
                               int64_t devices);

// Seconds of one message between stages, for which its sender waits; 0 without a pipeline, or where it computes meanwhile.
double ptc_predict_hop(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                       const ptc_stack_t *stack, const ptc_choice_t *choice);

#endif  // PTC_PASSES_PLANNER_PREDICT_H_

// Pipeline schedules: what each stage does in which order, transfers included.
//
// A model is cut into S * v parts; part p runs on stage p mod S as its chunk p / S. F is a part's forward pass of
// one micro-batch, B its backward pass, W the gradients of parameters where they are apart from B. Part p + 1 takes
// what F of part p makes, part p what B of part p + 1 makes; each is one transfer.
#ifndef PTC_PASSES_SCHEDULE_H_
#define PTC_PASSES_SCHEDULE_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/str.h"

//        id           text
#define PTC_SCHEDULES(X)                                                                 \
  X(GPIPE, "gpipe")             /* all F, then all B (Huang et al. 2019, 1811.06965) */  \
  X(1F1B, "1f1b")               /* B as early as possible (Narayanan 2019, PipeDream) */ \
  X(INTERLEAVED, "interleaved") /* 1f1b over v chunks (Narayanan 2021, 2104.04473) */    \
  X(ZB_H1, "zero_bubble")       /* W apart, late (Qi et al. 2023, 2401.10241) */

typedef enum ptc_schedule_kind_e {
#define PTC_SCHEDULE_ENUM(id, text) PTC_SCHEDULE_##id,
  PTC_SCHEDULES(PTC_SCHEDULE_ENUM)
#undef PTC_SCHEDULE_ENUM
      PTC_NUM_SCHEDULES
} ptc_schedule_kind_t;

typedef enum ptc_work_kind_e {
  PTC_WORK_F,
  PTC_WORK_B,
  PTC_WORK_W,
  PTC_WORK_SEND_F,  // what F made, to the next part's stage
  PTC_WORK_RECV_F,
  PTC_WORK_SEND_B,  // what B made, to the part's before
  PTC_WORK_RECV_B,
  PTC_NUM_WORK_KINDS
} ptc_work_kind_t;

typedef struct ptc_schedule_work_s {
  ptc_work_kind_t kind;
  int32_t chunk, micro;
  int32_t peer;       // of a transfer: the other stage
  double start, end;  // simulated; of a transfer: when the sender has it, and when it has arrived
} ptc_schedule_work_t;

typedef struct ptc_stage_order_s {
  ptc_schedule_work_t *work;
  int32_t count;
} ptc_stage_order_t;

// Times of one part; all zero means 1 for f, b and w. Where W is not apart, B takes b + w.
typedef struct ptc_schedule_costs_s {
  double f, b, w, transfer;
} ptc_schedule_costs_t;

typedef struct ptc_schedule_s {
  ptc_schedule_kind_t kind;
  int32_t num_stages, num_chunks, num_micro;
  bool split_w;  // W is apart
  bool forward;  // there is no B
  ptc_stage_order_t *stages;
  double makespan;  // simulated; transfers take no time of a stage
} ptc_schedule_t;

const char *ptc_schedule_name(ptc_schedule_kind_t kind);
bool ptc_schedule_parse(const char *name, ptc_schedule_kind_t *out_kind);  // false: unknown
const char *ptc_work_name(ptc_work_kind_t kind);                           // "F", "SEND_F", ...

// Counts are at least 1; |num_chunks| above 1 is of interleaved alone. Everything lives in |arena|.
//
// The lists run under any semantics of send and receive, rendezvous too: each is a part of one total order of all
// tasks and transfers, so that the earliest that has not happened can always happen. Every stage runs B, and W, of a
// part in ascending order of micro-batches: gradients add up in one order, whatever the schedule.
ptc_schedule_t *ptc_schedule_new(ptc_arena_t *arena, ptc_schedule_kind_t kind, int32_t num_stages,
                                 int32_t num_chunks, int32_t num_micro,
                                 const ptc_schedule_costs_t *costs);

// F and its transfers alone, as eval runs them.
ptc_schedule_t *ptc_schedule_new_forward(ptc_arena_t *arena, int32_t num_stages, int32_t num_chunks,
                                         int32_t num_micro);

// Gives the tasks of lists that were read from somewhere their times: each as early as the order of its stage allows.
// False if some can never start.
bool ptc_schedule_set_times(ptc_schedule_t *schedule, const ptc_schedule_costs_t *costs);

// Replays the lists. False, with what is wrong in |out_why|: work that is missing, double or out of order, a
// transfer without its pair, a wait that never ends. |rendezvous|: a send waits for its receive.
bool ptc_schedule_check(const ptc_schedule_t *schedule, bool rendezvous, ptc_str_t *out_why);

// Least number of slots of |stage|'s chunk such that micro-batch i may use slot i mod that number, from its first
// work there to its last.
int32_t ptc_schedule_num_slots(const ptc_schedule_t *schedule, int32_t stage, int32_t chunk);
// Most micro-batches, counted per chunk, whose F has begun and whose last B or W has not ended.
int32_t ptc_schedule_in_flight(const ptc_schedule_t *schedule, int32_t stage);
// Idle time of all stages within the makespan, as a part of it.
double ptc_schedule_bubble(const ptc_schedule_t *schedule);

// One row per stage, as PyTorch's pipeline schedules are written: "0F0,0F1,,0B0"; a cell is a unit of |unit| time,
// empty where the stage is idle. The number before the letter is the part. B that leaves W for later is "I".
void ptc_schedule_print_csv(const ptc_schedule_t *schedule, double unit, ptc_str_t *out);

#endif  // PTC_PASSES_SCHEDULE_H_

// Private to ir/plan_verify*.c, ir/plan_tape*.c and ir/plan_ledger.c: maps of what lies where, and the replay of a plan.
#ifndef PTC_IR_PLAN_VERIFY_IMPL_H_
#define PTC_IR_PLAN_VERIFY_IMPL_H_

#include "ir/plan.h"

// Byte x of [begin, end) is byte x + shift of |content|.
typedef struct ptc_plan_piece_s {
  int64_t begin, end;
  uint64_t content;
  int64_t shift;
} ptc_plan_piece_t;

// Disjoint pieces, sorted; room for more is before piece |gap|. Of an instance: the micro-batch that wrote it last, and whether something outside of parts
// did: then it goes from one micro-batch to the next, as sums do.
typedef struct ptc_plan_map_s {
  ptc_plan_piece_t *pieces;
  int64_t len, cap, gap, micro;
  bool goes_on;
} ptc_plan_map_t;

static inline ptc_plan_piece_t *ptc_plan_map_at(const ptc_plan_map_t *map, int64_t number) {
  return &map->pieces[number < map->gap ? number : number + map->cap - map->len];
}
void ptc_plan_map_clear(ptc_plan_map_t *map);
// The first piece that ends after |at|.
int64_t ptc_plan_map_find(const ptc_plan_map_t *map, int64_t at);
// The same, from a guess on, which becomes the answer.
static inline int64_t ptc_plan_map_near(const ptc_plan_map_t *map, int64_t at, int64_t *guess) {
  const int64_t p = *guess;
  if (p >= map->len || ptc_plan_map_at(map, p)->end <= at ||
      (p > 0 && ptc_plan_map_at(map, p - 1)->end > at))
    *guess = ptc_plan_map_find(map, at);
  return *guess;
}
// What overlaps |piece| is cut off; an empty piece does nothing.
void ptc_plan_map_set(ptc_plan_map_t *map, ptc_plan_piece_t piece);
void ptc_plan_map_set_near(ptc_plan_map_t *map, ptc_plan_piece_t piece, int64_t *guess);
// What lies in [|at|, |end|) up to where another content begins: neighbours of one content are one piece. |*number|: of
// the piece to begin with, then of the one after. False where nothing is left.
bool ptc_plan_map_next(const ptc_plan_map_t *map, int64_t *number, int64_t at, int64_t end,
                       ptc_plan_piece_t *out);
// |hash| mixed with what lies in [begin, end), whatever the pieces that it is in.
uint64_t ptc_plan_map_hash(uint64_t hash, const ptc_plan_map_t *map, int64_t begin, int64_t end);

// Numbers in ascending order.
void ptc_numbers_sort(int64_t *numbers, int64_t len);
// The first that is not below |number|, of sorted ones; |len|: there is none.
int64_t ptc_numbers_find(const int64_t *numbers, int64_t len, int64_t number);

int64_t ptc_plan_num_instances(const ptc_plan_global_t *global);
// The content of an instance of a global when a task begins.
uint64_t ptc_plan_untouched(int32_t global, int64_t instance);

// |hash| mixed with |value|: the finalizer of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014).
static inline uint64_t ptc_plan_mix(uint64_t hash, uint64_t value) {
  uint64_t z = (hash ^ value) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) + (hash << 1);
}
// The same with a text.
uint64_t ptc_plan_mix_text(uint64_t hash, const char *text);

enum { PTC_PLAN_MAX_REPLAYED = 1 << 24 };  // steps, all turns counted

typedef struct ptc_plan_recorder_s ptc_plan_recorder_t;  // plan_tape.c
typedef struct ptc_plan_blocks_s ptc_plan_blocks_t;      // plan_tape.c

typedef struct ptc_plan_replay_s {
  ptc_diag_t *diag;
  const ptc_plan_t *plan;
  ptc_plan_map_t memory;
  ptc_plan_map_t *expected;  // per instance
  int64_t *first_node;       // per buffer: the number of its first instance
  uint64_t *kernel_hashes;   // per kernel: of a launch of it
  int64_t num_nodes, num_steps, num_received;
  uint64_t sent;  // all that was sent, in order
  int64_t turns[PTC_PLAN_MAX_LEVELS];
  bool fixed
      [PTC_PLAN_MAX_LEVELS];  // of each axis: its turn alone is looked at; else it is 0, and stands for all
  int64_t micro;              // of the part that runs, or -1
  const ptc_task_t *task;
  bool plain;                     // no tapes
  ptc_plan_recorder_t *recorder;  // NULL: nothing is recorded now
  ptc_plan_blocks_t *blocks;
} ptc_plan_replay_t;

void ptc_plan_replay_init(ptc_plan_replay_t *replay, ptc_diag_t *diag, const ptc_plan_t *plan);
void ptc_plan_replay_deinit(ptc_plan_replay_t *replay);
// Runs replay->task on the rank of the coordinates in replay->turns. A plan without addresses is run apart from memory.
ptc_status_t ptc_plan_replay_task(ptc_plan_replay_t *replay);

// ptc_plan_verify, step by step if |plain|: the same outcome, later.
ptc_status_t ptc_plan_verify_replayed(ptc_diag_t *diag, const ptc_plan_t *plan, bool plain);
// The same of ptc_plan_verify_order.
ptc_status_t ptc_plan_verify_walked(ptc_diag_t *diag, const ptc_plan_t *plan, bool plain);

// After ptc_plan_replay_task on the first rank: what it left is what the task's ledger states.
ptc_status_t ptc_plan_check_values(const ptc_plan_replay_t *replay);
// The launches and exchanges of |task| and of each part that it calls are those that their ledgers state.
ptc_status_t ptc_plan_check_counts(ptc_diag_t *diag, const ptc_plan_t *plan,
                                   const ptc_task_t *task);

#endif  // PTC_IR_PLAN_VERIFY_IMPL_H_

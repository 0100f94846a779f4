// Private to ir/plan_text*.c: the two files of a plan.
//
// plan.json is a JSON object with one member or array entry per line. stage0.steps has one item per line:
//
//   steps 1
//   kernel k3_gelu "gelu, add" at "gpt2.ptm":31
//     params in:512 out:512/0 inout:64           /0: it may take the bytes of parameter 0
//     run 1: 4 12                                once a phase of 4 tiles, then one of 12
//     needs workspace 0 scratch 256 flops 1024 bytes 1024
//   buffer 7 "x" temp f32 [b=4 s=256] at "gpt2.ptm":34
//     at 4096+65536*12 128                       addresses: 12 of them, then one more
//   task "train"
//     result "loss" loss 9 0 1                   buffer, first instance, number of instances
//     repeat 12 reverse
//       launch k3_gelu 7[11-t0]:4096 8@64*t0:4096
//       copy 7:4096 8[3]:4096
//     end
//   end
//
// An argument is BUFFER[INSTANCE]@OFFSET:BYTES; instance and offset are sums of a number and multiples of
// turns (t0 the outermost), and are left out where they are 0. `#` begins a comment.
#ifndef PTC_IR_PLAN_TEXT_IMPL_H_
#define PTC_IR_PLAN_TEXT_IMPL_H_

#include "ir/plan.h"

enum {
  PTC_PLAN_MAX_INSTANCES = 1 << 20,  // of all buffers together
  PTC_PLAN_MAX_TASKS = 64,
  PTC_PLAN_MAX_SETTINGS = 1024,
  PTC_PLAN_MAX_GLOBALS = 1 << 16,
  PTC_PLAN_MAX_ARGS = 65,
};

void ptc_plan_print_json(const ptc_plan_t *plan, ptc_str_t *out);
void ptc_plan_print_steps(const ptc_plan_t *plan, ptc_str_t *out);
// Fills kernels, buffers and tasks of |plan|.
ptc_status_t ptc_plan_parse_steps(ptc_diag_t *diag, ptc_plan_t *plan, const char *text, size_t len);
// Fills the rest, hashes of kernels included.
ptc_status_t ptc_plan_parse_json(ptc_diag_t *diag, ptc_plan_t *plan, const char *text, size_t len);

// Room for one more element of |elem_bytes| in |*array|, which has |count| of |*capacity|.
void ptc_plan_grow(ptc_arena_t *arena, void *array, size_t elem_bytes, int32_t count,
                   int32_t *capacity);

#endif  // PTC_IR_PLAN_TEXT_IMPL_H_

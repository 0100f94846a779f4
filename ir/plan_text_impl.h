// Private to ir/plan_text*.c: the two files of a plan.
//
// plan.json is a JSON object with one member or array entry per line. stage0.steps has one item per line:
//
//   steps 2
//   kernel k3_gelu "gelu, add" at "gpt2.ptm":31
//     params in:512 out:512/0 inout:64           /0: it may take the bytes of parameter 0
//     run 1: 4 12                                once a phase of 4 tiles, then one of 12
//     needs workspace 0 scratch 256 flops 1024 bytes 1024
//     cublaslt 64 32 16 batch 1 a 0 n f32 64 0 b 1 t f32 32 0 d 3 n f32 64 0 bias 2 act relu tf32 workspace 4194560
//                                                m n k; matrices: parameter, n or t, dtype, ld, stride
//   buffer 7 "x" temp f32 [b=4 s=256] of [8/dp 256] at "gpt2.ptm":34
//     at 4096+65536*12 128                       addresses: 12 of them, then one more
//   task "train"
//     result "loss" loss 9 0 1                   buffer, first instance, number of instances
//     repeat 12 reverse
//       launch k3_gelu 7[11-t0]:4096 8@64*t0:4096
//       copy 7:4096 8[3]:4096
//       reduce_scatter sum f32 over dp tp:1:2 at "gpt2.ptm":31
//         part 7:4096 8@64*dp:512 in 1 512 4096
//       end
//     end
//   end
//
// In a pipeline there are parts, whose first two turns are the micro-batch and its slot; a task calls them, with both:
//
//   task "train.f" micro 8 slots 3
//     launch k3_gelu 7[t1]:4096 8@4096*t0:4096
//     send 1 12 8:4096                           to stage 1, by tag 12; recv alike
//   end
//   task "train"
//     call "train.f" 3 0
//   end
//
// A line before a step that is not on stream 0, or has to do with events, says so; each word but the first may be missing:
//
//     with stream 1 ahead 1 wait 3 4 record 5
//     all_gather f32 over dp
// What a task owes (ptc_ledger_t) comes before its steps: launches and exchanges of its own, by kernel; digests of the
// globals that it changes, of its results, of what it sends, here with the calls:
//
//   task "train"
//     result "loss" loss 12 0 1
//     owes exchanges 2 transfers 0
//       launches k3_gelu*12 k4_einsum*24
//       global 3 0123456789abcdef
//       result 0 0123456789abcdef
//     end
//
// An argument is BUFFER[INSTANCE]@OFFSET:BYTES; instance and offset are sums of a number and multiples of
// coordinates (axes by name) and turns (t0 the outermost), and are left out where they are 0. `of` gives the whole
// extents of a tensor that is laid over the mesh, each with its axes (`~`: zigzag); tp:1:2 is a part of an axis,
// pre : size. A collective has a line per part: operand, result, and `in` or `out` where one is cut into pieces
// (outer, chunk, row). `#` begins a comment.
#ifndef PTC_IR_PLAN_TEXT_IMPL_H_
#define PTC_IR_PLAN_TEXT_IMPL_H_

#include "ir/base/map.h"
#include "ir/plan.h"

enum {
  PTC_PLAN_MAX_INSTANCES = 1 << 20,  // of all buffers together
  PTC_PLAN_MAX_TASKS = 1024,
  PTC_PLAN_MAX_SETTINGS = 1024,
  PTC_PLAN_MAX_GLOBALS = 1 << 16,
  PTC_PLAN_MAX_ARGS = 65,
};
// Numbers are smaller in magnitude, so that sums of two of them are safe.
#define PTC_PLAN_MAX_NUMBER (INT64_C(1) << 62)

void ptc_plan_print_json(const ptc_plan_t *plan, ptc_str_t *out);
void ptc_plan_print_steps(const ptc_plan_t *plan, ptc_str_t *out);
// Fills the mesh of |plan|, on which the steps rely.
ptc_status_t ptc_plan_parse_mesh(ptc_diag_t *diag, ptc_plan_t *plan, const char *text, size_t len);
// Fills kernels, buffers and tasks of |plan|.
ptc_status_t ptc_plan_parse_steps(ptc_diag_t *diag, ptc_plan_t *plan, const char *text, size_t len);
// Fills the rest, hashes of kernels included.
ptc_status_t ptc_plan_parse_json(ptc_diag_t *diag, ptc_plan_t *plan, const char *text, size_t len);

// Room for one more element of |elem_bytes| in |*array|, which has |count| of |*capacity|.
void ptc_plan_grow(ptc_arena_t *arena, void *array, size_t elem_bytes, int32_t count,
                   int32_t *capacity);

// --- stage0.steps, written

void ptc_plan_print_loc(const char *file, int32_t line, ptc_str_t *out);
void ptc_plan_print_ref(const ptc_plan_t *plan, const ptc_ref_t *ref, ptc_str_t *out);
// ` of [...]`, or nothing (plan_text_ranks.c).
void ptc_plan_print_layout(const ptc_buffer_t *buffer, ptc_str_t *out);
// All lines of the step, each after |indent| blanks.
void ptc_plan_print_collective(const ptc_plan_t *plan, const ptc_step_t *step, int32_t indent,
                               ptc_str_t *out);

// All lines of the task's ledger, which it has (plan_text_ledger.c).
void ptc_plan_print_ledger(const ptc_plan_t *plan, const ptc_task_t *task, ptc_str_t *out);

// --- stage0.steps, read

typedef struct ptc_plan_reader_s {
  ptc_diag_t *diag;
  ptc_plan_t *plan;
  ptc_arena_t *arena;
  const char *at, *end, *line_start;
  int32_t line;
  ptc_interner_t names;
  ptc_map_t kernels;  // interned name -> number + 1
  int32_t cap_kernels, cap_buffers, cap_tasks;
  int64_t num_instances;
} ptc_plan_reader_t;

ptc_status_t ptc_plan_read_ref(ptc_plan_reader_t *r, ptc_ref_t *out);
ptc_status_t ptc_plan_read_kernel_name(ptc_plan_reader_t *r, int32_t *out_kernel);
// `cublaslt ...`, or nothing (plan_gemm.c).
ptc_status_t ptc_plan_read_gemm(ptc_plan_reader_t *r, ptc_plan_kernel_t *kernel);
void ptc_plan_print_gemm(const ptc_plan_gemm_t *gemm, ptc_str_t *out);
// `owes ...` up to and with its `end`, or nothing.
ptc_status_t ptc_plan_read_ledger(ptc_plan_reader_t *r, ptc_task_t *task);
// `of [...]`, or nothing.
ptc_status_t ptc_plan_read_layout(ptc_plan_reader_t *r, ptc_buffer_t *buffer);
// All after the kind, up to and with `end`.
ptc_status_t ptc_plan_read_collective(ptc_plan_reader_t *r, ptc_collective_kind_t kind,
                                      ptc_step_t *step);

// Words, numbers and texts (plan_text_scan.c). Those that take something skip blanks first, unless they say "at
// the cursor"; on an error, which has a diagnostic, the reading ends.
ptc_loc_t ptc_scan_here(const ptc_plan_reader_t *r);
char ptc_scan_peek(const ptc_plan_reader_t *r);  // at the cursor; '\0' at the end
void ptc_scan_skip_blanks(ptc_plan_reader_t *r);
void ptc_scan_skip_lines(ptc_plan_reader_t *r);  // to the first word of the next line that has one
bool ptc_scan_at_line_end(ptc_plan_reader_t *r);
ptc_status_t ptc_scan_expect_line_end(ptc_plan_reader_t *r);
size_t ptc_scan_word_length(ptc_plan_reader_t *r);
bool ptc_scan_take_word(ptc_plan_reader_t *r, const char *word);  // if it comes next
ptc_status_t ptc_scan_expect_word(ptc_plan_reader_t *r, const char *word);
bool ptc_scan_take_char(ptc_plan_reader_t *r, char c);  // at the cursor
ptc_status_t ptc_scan_expect_char(ptc_plan_reader_t *r, char c);
ptc_status_t ptc_scan_digits(ptc_plan_reader_t *r, int64_t max, int64_t *out);  // at the cursor
ptc_status_t ptc_scan_signed(ptc_plan_reader_t *r, int64_t *out);               // at the cursor
ptc_status_t ptc_scan_number(ptc_plan_reader_t *r, int64_t max, int64_t *out);
ptc_status_t ptc_scan_int32(ptc_plan_reader_t *r, int32_t *out);
ptc_status_t ptc_scan_float(ptc_plan_reader_t *r, double *out);
ptc_status_t ptc_scan_string(ptc_plan_reader_t *r, const char **out);  // in double quotes
ptc_status_t ptc_scan_name(ptc_plan_reader_t *r, const char **out);  // a word, or in single quotes
ptc_status_t ptc_scan_word(ptc_plan_reader_t *r, const char **out);
// `at "file":line`, or nothing.
ptc_status_t ptc_scan_loc(ptc_plan_reader_t *r, const char **out_file, int32_t *out_line);

#endif  // PTC_IR_PLAN_TEXT_IMPL_H_

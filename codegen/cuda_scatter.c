// scatter_add in CUDA. First the positions are sorted by the row of the result that they send to, by counting and stably:
// a block has up to 8192 rows, reads all indices twice, and writes its part of the list. Then a warp per row adds up
// in double what the list gives, in order, so that the sum does not depend on timing: operand and result are touched once.
#include <inttypes.h>

#include "codegen/cuda_single.h"
#include "codegen/single_adder.h"

enum {
  WARPS = PTC_CUDA_THREADS / 32,
  MAX_ROWS = 8192,   // of a sorting block: counters in shared memory
  MAX_INTS = 11264,  // in shared memory: counters and the block's part of the list
  MAX_ITEMS = 8,     // elements of a row that a thread adds up
  TURNS = 4,         // rows that a warp takes one after the other
};

typedef struct scatter_s {
  ptc_c_single_t *s;
  ptc_adder_t adder;
  ptc_str_t *out;
  int64_t rows, count, width, num_batches;  // count: positions; width: elements of a row
  int64_t block_rows, num_blocks;           // of a batch, for sorting
  int64_t items, pieces;                    // per thread; of a row
} scatter_t;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The row of position n, -1 if there is none: a function inside the kernel, for the coordinates of the batch in scope.
static void print_row_of(const scatter_t *k) {
  const ptc_adder_t *a = &k->adder;
  ptc_str_append(k->out, "    const auto row_of = [&](int n) -> int {\n");
  ptc_adder_decompose(a, a->summed, "n", 6, k->out);
  for (int32_t r = 0; r < a->num_rows; ++r)
    ptc_str_printf(k->out, "      const int64_t row%d = %s;\n", r, a->index_text[r]);
  ptc_str_append(k->out, "      if (");
  for (int32_t r = 0; r < a->num_rows; ++r)
    ptc_str_printf(k->out, "%srow%d < 0 || row%d >= %" PRId64, r ? " || " : "", r, r,
                   a->row_extent[r]);
  ptc_str_append(k->out, ") return -1;\n      return (int)(");
  int64_t below = k->rows;
  for (int32_t r = 0; r < a->num_rows; ++r) {
    below /= a->row_extent[r] ? a->row_extent[r] : 1;
    ptc_str_printf(k->out, "%srow%d * %" PRId64, r ? " + " : "", r, below);
  }
  ptc_str_append(k->out, ");\n    };\n");
}

// Counts the rows' positions, and turns the counts into their places in the list.
static void print_count(const scatter_t *k) {
  ptc_str_printf(k->out,
                 "    for (int r = threadIdx.x; r < %" PRId64
                 "; r += 256) cursor[r] = 0;\n"
                 "    __syncthreads();\n"
                 "    int below = 0, hits = 0;\n"
                 "    for (int n = threadIdx.x; n < %" PRId64
                 "; n += 256) {\n"
                 "      const int row = row_of(n);\n"
                 "      if (row >= low && row < high) ++hits, atomicAdd(&cursor[row - low], 1);\n"
                 "      if (row >= 0 && row < low) ++below;\n"
                 "    }\n"
                 "    below = ptc_block_sum(below);\n"
                 "    hits = ptc_block_sum(hits);\n"
                 "    int place = below;\n"
                 "    for (int r = threadIdx.x; r < %" PRId64
                 "; r += 256) {\n"
                 "      const int number = cursor[r];\n"
                 "      int sum = number;\n"
                 "      for (int d = 1; d < 32; d *= 2) {\n"
                 "        const int other = __shfl_up_sync(~0u, sum, d);\n"
                 "        if (lane >= d) sum += other;\n"
                 "      }\n"
                 "      if (lane == 31) sums[warp] = sum;\n"
                 "      __syncthreads();\n"
                 "      int before = 0, all = 0;\n"
                 "      for (int w = 0; w < %d; ++w) {\n"
                 "        if (w < warp) before += sums[w];\n"
                 "        all += sums[w];\n"
                 "      }\n"
                 "      cursor[r] = place + before + sum - number;\n"
                 "      if (low + r < high) starts[low + r] = cursor[r];\n"
                 "      place += all;\n"
                 "      __syncthreads();\n"
                 "    }\n"
                 "    if (high == %" PRId64 " && threadIdx.x == 0) starts[high] = place;\n",
                 k->block_rows, k->count, k->block_rows, WARPS, k->rows);
}

// Writes the list: 256 positions at a time, the warps one after the other. What fits goes through shared memory.
static void print_list(const scatter_t *k) {
  ptc_str_printf(k->out,
                 "    const bool fits = hits <= %" PRId64
                 ";\n"
                 "    for (int first = 0; first < %" PRId64
                 "; first += 256) {\n"
                 "      const int n = first + threadIdx.x;\n"
                 "      const int row = n < %" PRId64
                 " ? row_of(n) : -1;\n"
                 "      const bool is_hit = row >= low && row < high;\n"
                 "      const unsigned same = __match_any_sync(~0u, is_hit ? row : -1);\n"
                 "      const int rank = __popc(same & ((1u << lane) - 1));\n"
                 "      int to = 0;\n"
                 "      for (int w = 0; w < %d; ++w) {\n"
                 "        if (w == warp) {\n"
                 "          if (is_hit) to = cursor[row - low] + rank;\n"
                 "          __syncwarp();\n"
                 "          if (is_hit && rank == 0) cursor[row - low] += __popc(same);\n"
                 "        }\n"
                 "        __syncthreads();\n"
                 "      }\n"
                 "      if (is_hit) *(fits ? &part[to - below] : &list[to]) = n;\n"
                 "    }\n"
                 "    __syncthreads();\n"
                 "    for (int h = threadIdx.x - below %% 32; fits && h < hits; h += 256)\n"
                 "      if (h >= 0) list[below + h] = part[h];\n",
                 MAX_INTS - k->block_rows, k->count, k->count, WARPS);
}

static void print_sort(const scatter_t *k) {
  const ptc_adder_t *a = &k->adder;
  ptc_str_printf(
      k->out,
      "  if (call->phase == 0) {\n"
      "    __shared__ int cursor[%" PRId64 "], part[%" PRId64
      "], sums[%d];\n"
      "    const int64_t batch = blockIdx.x / %" PRId64
      ";\n"
      "    const int low = blockIdx.x %% %" PRId64 " * %" PRId64
      ";\n"
      "    const int high = low + %" PRId64 " < %" PRId64 " ? low + %" PRId64 " : %" PRId64
      ";\n"
      "    int *const starts = all_starts + batch * %" PRId64
      ", *const list = all_lists + batch * %" PRId64 ";\n",
      k->block_rows, MAX_INTS - k->block_rows, WARPS, k->num_blocks, k->num_blocks, k->block_rows,
      k->block_rows, k->rows, k->block_rows, k->rows, k->rows + 1, k->count);
  ptc_adder_decompose(a, a->batch, "batch", 4, k->out);
  print_row_of(k);
  print_count(k);
  print_list(k);
}

// A row of the result, or a piece of it, by a warp.
static void print_add(const scatter_t *k) {
  const ptc_adder_t *a = &k->adder;
  ptc_c_single_t *s = k->s;
  const ptc_dtype_t dtype = ptc_single_out(s, 0)->dtype;
  const int64_t units = k->num_batches * k->rows * k->pieces, per_block = WARPS * TURNS;
  ptc_str_printf(k->out,
                 "    for (int turn = 0; turn < %d; ++turn) {\n"
                 "      const int64_t unit = (int64_t)blockIdx.x * %" PRId64
                 " + turn * %d + warp;\n"
                 "      if (unit >= %" PRId64
                 ") break;\n"
                 "      const int64_t piece = unit %% %" PRId64 ", at = unit / %" PRId64
                 " %% %" PRId64 ", batch = unit / %" PRId64 ";\n",
                 TURNS, per_block, WARPS, units, k->pieces, k->pieces, k->rows,
                 k->pieces * k->rows);
  ptc_adder_decompose(a, a->batch, "batch", 6, k->out);
  ptc_str_printf(k->out,
                 "      const int *const starts = all_starts + batch * %" PRId64
                 ", *const list = all_lists + batch * %" PRId64
                 ";\n"
                 "      const int begin = starts[at], end = starts[at + 1];\n"
                 "      %s sum[%" PRId64
                 "] = {};\n"
                 "#pragma unroll 4\n"
                 "      for (int h = begin; h < end; ++h) {\n"
                 "        const int n = list[h];\n",
                 k->rows + 1, k->count, ptc_single_sum_type(dtype), k->items);
  ptc_adder_decompose(a, a->summed, "n", 8, k->out);
  for (int32_t store = 0; store < 2; ++store) {
    const int32_t indent = store ? 6 : 8;
    if (store) {
      ptc_str_append(k->out, "      int64_t rest = at, row = 0;\n");
      for (int32_t r = a->num_rows - 1; r >= 0; --r)
        ptc_str_printf(k->out,
                       "      row += rest %% %" PRId64 " * %" PRId64 ", rest /= %" PRId64 ";\n",
                       a->row_extent[r], a->row_stride[r], a->row_extent[r]);
    }
    ptc_str_printf(k->out,
                   "#pragma unroll\n"
                   "%*sfor (int item = 0; item < %" PRId64
                   "; ++item) {\n"
                   "%*s  const int64_t e = (piece * %" PRId64
                   " + item) * 32 + lane;\n"
                   "%*s  if (e >= %" PRId64 ") break;\n",
                   indent, "", k->items, indent, "", k->items, indent, "", k->width);
    ptc_adder_decompose(a, a->free, "e", indent + 2, k->out);
    if (store) {
      ptc_str_printf(k->out, "        %s[row%s%s] = %s;\n      }\n    }\n  }\n",
                     ptc_single_name(s, true, 0), ptc_adder_offset(a, a->batch, true),
                     ptc_adder_offset(a, a->free, true),
                     ptc_single_from_sum(s, dtype, "sum[item]"));
    } else {
      const char *element = ptc_arena_printf(s->arena, "%s[from]", ptc_single_name(s, false, 0));
      ptc_str_printf(k->out,
                     "          const int64_t from = 0%s%s%s;\n"
                     "          sum[item] += %s;\n"
                     "        }\n"
                     "      }\n",
                     ptc_adder_offset(a, a->summed, false), ptc_adder_offset(a, a->batch, false),
                     ptc_adder_offset(a, a->free, false),
                     ptc_c_from_storage(s->arena, dtype, element));
    }
  }
}

void ptc_cuda_scatter_add(ptc_c_single_t *s, ptc_str_t *out) {
  scatter_t k = {.s = s, .out = out, .rows = 1};
  ptc_adder_init(s, &k.adder);
  const ptc_adder_t *a = &k.adder;
  for (int32_t r = 0; r < a->num_rows; ++r) k.rows *= a->row_extent[r];
  k.count = ptc_adder_points(a, a->summed);
  k.width = ptc_adder_points(a, a->free);
  k.num_batches = ptc_adder_points(a, a->batch);
  k.block_rows =
      k.rows < MAX_ROWS ? ceil_div(k.rows, PTC_CUDA_THREADS) * PTC_CUDA_THREADS : MAX_ROWS;
  k.num_blocks = ceil_div(k.rows, k.block_rows);
  k.items = ceil_div(k.width, 32) < MAX_ITEMS ? ceil_div(k.width, 32) : MAX_ITEMS;
  k.pieces = ceil_div(k.width, k.items * 32);
  s->tiles = k.num_batches * k.num_blocks;
  s->last_tiles = ceil_div(k.num_batches * k.rows * k.pieces, WARPS * TURNS);
  const int64_t num_starts = k.num_batches * (k.rows + 1);
  s->workspace_bytes = (num_starts + 7) / 8 * 32 + k.num_batches * k.count * 4;
  ptc_str_printf(out,
                 "  int *const all_starts = (int *)call->params[%d], *const all_lists = all_starts "
                 "+ %" PRId64
                 ";\n"
                 "  const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;\n",
                 s->kernel->num_params, (num_starts + 7) / 8 * 8);
  print_sort(&k);
  ptc_str_append(out, "  } else {\n");
  print_add(&k);
}

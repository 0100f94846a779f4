// Kernels of one op in CUDA. Scans and selections: a thread per line. window_add: a block per addressed row of the
// result; it lists the positions that send to the row, 256 at a time and in order, and adds them up in double, so
// that the sum does not depend on timing. scatter_add: cuda_scatter.c.
#include "codegen/cuda_single.h"

#include <inttypes.h>

#include "codegen/single_adder.h"
#include "ir/limbs.h"

static void print_entry(ptc_str_t *out, const ptc_kernel_t *kernel) {
  ptc_str_printf(out,
                 "extern \"C\" __global__ void __launch_bounds__(%d) %s(const ptc_kernel_call_t "
                 "arguments) {\n",
                 PTC_CUDA_THREADS, kernel->name);
  ptc_cuda_start(out, kernel);
  ptc_cuda_declare(out, kernel);
}

static int64_t blocks_for(int64_t threads) {
  return (threads + PTC_CUDA_THREADS - 1) / PTC_CUDA_THREADS;
}

// `at`: a thread's line along |dim|; `begin`: its first element; neighbours are `inner` apart.
static int64_t print_line(ptc_c_single_t *s, ptc_str_t *out, const ptc_kparam_t *x, int32_t dim) {
  const int64_t inner = ptc_single_stride(x, dim), length = x->extents[dim];
  int64_t lines = inner;
  for (int32_t i = 0; i < dim; ++i) lines *= x->extents[i];
  ptc_str_printf(out,
                 "  const int64_t line = (int64_t)blockIdx.x * %d + threadIdx.x, inner = %" PRId64
                 ";\n"
                 "  if (line >= %" PRId64
                 ") return;\n"
                 "  const int64_t begin = line / inner * (inner * %" PRId64 ") + line %% inner;\n",
                 PTC_CUDA_THREADS, inner > 0 ? inner : 1, lines, length);
  s->tiles = blocks_for(lines);
  return length;
}

static void print_scan(ptc_c_single_t *s, ptc_str_t *out) {
  const ptc_kparam_t *x = ptc_single_param(s, false, 0);
  const int32_t dim = ptc_type_find_dim(ptc_single_in(s, 0), ptc_op_string(s->op, "dim"));
  const int64_t length = print_line(s, out, x, dim);
  const ptc_dtype_t dtype = ptc_single_in(s, 0)->dtype;
  const bool is_place = s->op->opcode != PTC_OP_CUMSUM && s->op->opcode != PTC_OP_CUMMAX;
  const bool reverse = s->op->opcode == PTC_OP_CUMSUM && ptc_op_bool(s->op, "reverse");
  const char *from = ptc_c_from_storage(
      s->arena, dtype, ptc_arena_printf(s->arena, "%s[k]", ptc_single_name(s, false, 0)));
  const char *to = ptc_single_name(s, true, 0);
  ptc_str_printf(out,
                 "  %s sum = 0;\n"
                 "  %s best = 0;\n"
                 "%s"
                 "  for (int64_t i = 0; i < %" PRId64
                 "; ++i) {\n"
                 "    const int64_t k = begin + (%s) * inner;\n"
                 "    const %s x = %s;\n",
                 ptc_single_sum_type(dtype), ptc_c_type(dtype),
                 is_place ? "  int32_t where = 0;\n" : "", length,
                 reverse ? ptc_arena_printf(s->arena, "%" PRId64 " - i", length - 1) : "i",
                 ptc_c_type(dtype), from);
  if (s->op->opcode == PTC_OP_CUMSUM) {
    ptc_str_printf(out, "    sum += x;\n    %s[k] = %s;\n  }\n", to,
                   ptc_single_from_sum(s, dtype, "sum"));
    return;
  }
  ptc_str_printf(out,
                 "    const bool more = i == 0 || x > best || (x != x && best == best);\n"
                 "    if (more) best = x%s;\n",
                 is_place ? ", where = (int32_t)i" : "");
  ptc_str_printf(
      out, "    %s[k] = %s;\n  }\n", to,
      s->op->opcode == PTC_OP_CUMMAX ? ptc_c_to_storage(s->arena, dtype, "best") : "where");
}

static void print_topk(ptc_c_single_t *s, ptc_str_t *out) {
  const ptc_kparam_t *x = ptc_single_param(s, false, 0);
  const int32_t dim = ptc_type_find_dim(ptc_single_in(s, 0), ptc_op_string(s->op, "dim"));
  const int64_t length = print_line(s, out, x, dim), picks = ptc_op_int(s->op, "extent");
  const ptc_dtype_t dtype = ptc_single_in(s, 0)->dtype;
  const char *from = ptc_c_from_storage(
      s->arena, dtype,
      ptc_arena_printf(s->arena, "%s[begin + i * inner]", ptc_single_name(s, false, 0)));
  ptc_str_printf(
      out,
      "  %s best[%" PRId64
      "];\n"
      "  int32_t where[%" PRId64
      "], count = 0;\n"
      "  for (int i = 0; i < %" PRId64
      "; ++i) {\n"
      "    const %s v = %s;\n"
      "    int p = count;\n"
      "    while (p > 0 && (v > best[p - 1] || (v != v && best[p - 1] == best[p - 1]))) {\n"
      "      if (p < %" PRId64
      ") best[p] = best[p - 1], where[p] = where[p - 1];\n"
      "      --p;\n"
      "    }\n"
      "    if (p >= %" PRId64
      ") continue;\n"
      "    best[p] = v, where[p] = i;\n"
      "    if (count < %" PRId64
      ") ++count;\n"
      "  }\n"
      "  for (int p = 0; p < %" PRId64
      "; ++p) {\n"
      "    const int64_t to = (line / inner * %" PRId64
      " + p) * inner + line %% inner;\n"
      "    %s[to] = %s;\n"
      "    %s[to] = where[p];\n"
      "  }\n",
      ptc_c_type(dtype), picks, picks, length, ptc_c_type(dtype), from, picks, picks, picks, picks,
      picks, ptc_single_name(s, true, 0), ptc_c_to_storage(s->arena, dtype, "best[p]"),
      ptc_single_name(s, true, 1));
}

// A thread per element: how many elements of its line, before it in the order of |over|, are equal.
static void print_dispatch_slot(ptc_c_single_t *s, ptc_str_t *out) {
  const ptc_type_t *type = ptc_single_in(s, 0);
  const ptc_kparam_t *x = ptc_single_param(s, false, 0);
  const ptc_attr_t *over = ptc_op_attr(s->op, "over");
  int64_t total = 1;
  for (int32_t d = 0; d < type->num_dims; ++d) total *= x->extents[d];
  ptc_str_printf(out,
                 "  const int64_t at = (int64_t)blockIdx.x * %d + threadIdx.x;\n"
                 "  if (at >= %" PRId64
                 ") return;\n"
                 "  int64_t base = at, place = 0;\n",
                 PTC_CUDA_THREADS, total);
  bool is_over[PTC_MAX_DIMS] = {false};
  ptc_str_t decode = {0};
  ptc_str_append(&decode, "");
  int64_t below = 1;
  for (int32_t i = over->count - 1; i >= 0; --i) {
    const int32_t d = ptc_type_find_dim(type, over->u.dims[i]);
    if (d < 0 || is_over[d]) continue;
    is_over[d] = true;
    const int64_t stride = ptc_single_stride(x, d), extent = x->extents[d] > 0 ? x->extents[d] : 1;
    ptc_str_printf(out,
                   "  place += at / %" PRId64 " %% %" PRId64 " * %" PRId64
                   ";\n"
                   "  base -= at / %" PRId64 " %% %" PRId64 " * %" PRId64 ";\n",
                   stride, extent, below, stride, extent, stride);
    ptc_str_printf(&decode, " + n / %" PRId64 " %% %" PRId64 " * %" PRId64, below, extent, stride);
    below *= extent;
  }
  const char *values = ptc_single_name(s, false, 0);
  ptc_str_printf(out,
                 "  int32_t slot = 0;\n"
                 "  for (int64_t n = 0; n < place; ++n) slot += %s[base%s] == %s[at];\n"
                 "  %s[at] = slot;\n",
                 values, decode.data, values, ptc_single_name(s, true, 0));
  ptc_str_deinit(&decode);
  s->tiles = blocks_for(total);
}

// --- window_add

static void print_window_add(ptc_c_single_t *s, ptc_str_t *out) {
  ptc_adder_t adder;
  ptc_adder_init(s, &adder);
  const ptc_adder_t *a = &adder;
  const ptc_dtype_t dtype = ptc_single_out(s, 0)->dtype;
  const char *type = ptc_single_sum_type(dtype);
  int64_t rows = 1;
  for (int32_t k = 0; k < a->num_rows; ++k) rows *= a->row_extent[k];
  const int64_t count = ptc_adder_points(a, a->summed), width = ptc_adder_points(a, a->free);
  enum { ITEMS = 4 };
  const int64_t pieces = (width + ITEMS * PTC_CUDA_THREADS - 1) / (ITEMS * PTC_CUDA_THREADS);
  s->tiles = ptc_adder_points(a, a->batch) * rows * pieces;
  ptc_str_printf(out,
                 "  __shared__ int list[%d], starts[9];\n"
                 "  const int64_t piece = blockIdx.x %% %" PRId64 ", r = blockIdx.x / %" PRId64
                 " %% %" PRId64 ", batch = blockIdx.x / %" PRId64
                 ";\n"
                 "  const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;\n",
                 PTC_CUDA_THREADS, pieces ? pieces : 1, pieces ? pieces : 1, rows ? rows : 1,
                 (rows ? rows : 1) * (pieces ? pieces : 1));
  ptc_adder_decompose(a, a->batch, "batch", 2, out);
  ptc_str_append(out, "  int64_t rest = r, row = 0;\n");
  for (int32_t k = a->num_rows - 1; k >= 0; --k)
    ptc_str_printf(out,
                   "  const int64_t row%d = rest %% %" PRId64
                   ";\n"
                   "  row += row%d * %" PRId64 ", rest /= %" PRId64 ";\n",
                   k, a->row_extent[k] ? a->row_extent[k] : 1, k, a->row_stride[k],
                   a->row_extent[k] ? a->row_extent[k] : 1);
  ptc_str_printf(out,
                 "  %s sum[%d] = {};\n"
                 "  for (int64_t first = 0; first < %" PRId64
                 "; first += %d) {\n"
                 "    const int64_t n = first + threadIdx.x;\n"
                 "    bool hit = n < %" PRId64
                 ";\n"
                 "    if (hit) {\n",
                 type, ITEMS, count, PTC_CUDA_THREADS, count);
  ptc_adder_decompose(a, a->summed, "n", 6, out);
  for (int32_t k = 0; k < a->num_rows; ++k)
    ptc_str_printf(out, "      hit = hit && (%s) == row%d;\n", a->index_text[k], k);
  ptc_str_printf(
      out,
      "    }\n"
      "    const unsigned votes = __ballot_sync(~0u, hit);\n"
      "    if (lane == 0) starts[warp] = __popc(votes);\n"
      "    __syncthreads();\n"
      "    if (threadIdx.x == 0) {\n"
      "      int total = 0;\n"
      "      for (int w = 0; w < 8; ++w) { const int c = starts[w]; starts[w] = total; total += c; "
      "}\n"
      "      starts[8] = total;\n"
      "    }\n"
      "    __syncthreads();\n"
      "    if (hit) list[starts[warp] + __popc(votes & ((1u << lane) - 1))] = (int)threadIdx.x;\n"
      "    __syncthreads();\n"
      "    for (int h = 0; h < starts[8]; ++h) {\n"
      "      const int64_t n = first + list[h];\n");
  ptc_adder_decompose(a, a->summed, "n", 6, out);
  ptc_str_printf(out,
                 "#pragma unroll\n"
                 "      for (int item = 0; item < %d; ++item) {\n"
                 "        const int64_t e = (piece * %d + item) * %d + threadIdx.x;\n"
                 "        if (e >= %" PRId64 ") break;\n",
                 ITEMS, ITEMS, PTC_CUDA_THREADS, width);
  ptc_adder_decompose(a, a->free, "e", 8, out);
  ptc_str_append(out, "        const int64_t from = 0");
  ptc_str_append(out, ptc_adder_offset(a, a->summed, false));
  ptc_str_append(out, ptc_adder_offset(a, a->batch, false));
  ptc_str_append(out, ptc_adder_offset(a, a->free, false));
  const char *element = ptc_arena_printf(s->arena, "%s[from]", ptc_single_name(s, false, 0));
  ptc_str_printf(out,
                 ";\n"
                 "        sum[item] += %s;\n"
                 "      }\n"
                 "    }\n"
                 "    __syncthreads();\n"
                 "  }\n"
                 "#pragma unroll\n"
                 "  for (int item = 0; item < %d; ++item) {\n"
                 "    const int64_t e = (piece * %d + item) * %d + threadIdx.x;\n"
                 "    if (e >= %" PRId64 ") break;\n",
                 ptc_c_from_storage(s->arena, dtype, element), ITEMS, ITEMS, PTC_CUDA_THREADS,
                 width);
  ptc_adder_decompose(a, a->free, "e", 4, out);
  ptc_str_printf(out, "    %s[row", ptc_single_name(s, true, 0));
  ptc_str_append(out, ptc_adder_offset(a, a->batch, true));
  ptc_str_append(out, ptc_adder_offset(a, a->free, true));
  ptc_str_printf(out, "] = %s;\n  }\n", ptc_single_from_sum(s, dtype, "sum[item]"));
}

// --- exact sums of squares

// A warp takes 512 elements at a time, 16 a thread, and cuts their squares at the same places: from the largest
// downwards, 51 bits at a time, until nothing is left. The pieces are added in the warp, then to the block's
// limbs.
static void print_square_sum(ptc_c_single_t *s, ptc_str_t *out) {
  const ptc_kparam_t *x = ptc_single_param(s, false, 0);
  const ptc_dtype_t dtype = ptc_single_in(s, 0)->dtype;
  const char *to = ptc_single_name(s, true, 0);
  int64_t total = 1;
  for (int32_t d = 0; d < x->num_dims; ++d) total *= x->extents[d];
  int64_t per_tile = 65536;
  while (per_tile < (total + 1023) / 1024) per_tile *= 2;
  s->tiles = total > per_tile ? (total + per_tile - 1) / per_tile : 1;
  const bool many = s->tiles > 1;
  const char *element = ptc_c_from_storage(
      s->arena, dtype, ptc_arena_printf(s->arena, "%s[i]", ptc_single_name(s, false, 0)));
  if (many) {
    s->last_tiles = 1;
    s->workspace_bytes = s->tiles * PTC_LIMBS * 8;
    ptc_str_printf(out,
                   "  int64_t *const workspace = (int64_t *)call->params[%d];\n"
                   "  if (call->phase == 1) {\n"
                   "    __shared__ int64_t sums[%d];\n"
                   "    if (threadIdx.x < %d) {\n"
                   "      int64_t sum = 0;\n"
                   "      for (int t = 0; t < %" PRId64
                   "; ++t) sum += workspace[t * %d + threadIdx.x];\n"
                   "      sums[threadIdx.x] = sum;\n"
                   "    }\n"
                   "    __syncthreads();\n"
                   "    if (threadIdx.x == 0) ptc_limbs_normalize(sums);\n"
                   "    __syncthreads();\n"
                   "    if (threadIdx.x < %d) %s[threadIdx.x] = sums[threadIdx.x];\n"
                   "    return;\n"
                   "  }\n",
                   s->kernel->num_params, PTC_LIMBS, PTC_LIMBS, s->tiles, PTC_LIMBS, PTC_LIMBS, to);
  }
  ptc_str_printf(
      out,
      "  __shared__ int64_t limbs[%d];\n"
      "  if (threadIdx.x < %d) limbs[threadIdx.x] = 0;\n"
      "  __syncthreads();\n"
      "  const int64_t first = (int64_t)blockIdx.x * %" PRId64
      ";\n"
      "  const int64_t last = first + %" PRId64 " < %" PRId64 " ? first + %" PRId64 " : %" PRId64
      ";\n"
      "  for (int64_t at = first + threadIdx.x / 32 * 512; at < last; at += %d) {\n"
      "    double square[16], most = 0;\n"
      "#pragma unroll\n"
      "    for (int k = 0; k < 16; ++k) {\n"
      "      const int64_t i = at + k * 32 + threadIdx.x %% 32;\n"
      "      const double x = i < last ? (double)(%s) : 0;\n"
      "      square[k] = x * x;\n"
      "      if (!(square[k] < 0x1p256)) {\n"
      "        atomicAdd((uint64_t *)&limbs[square[k] == square[k] ? 18 : 19], UINT64_C(1));\n"
      "        square[k] = 0;\n"
      "      }\n"
      "      most = square[k] > most ? square[k] : most;\n"
      "    }\n"
      "    const unsigned high = __reduce_max_sync(~0u, (unsigned)(ptc_bits64(most) >> 32));\n"
      "    int top = (int)(high >> 20) - 1022;\n"
      "    for (bool more = __any_sync(~0u, most > 0); more;) {\n"
      "      const int low = top - 51 > -298 ? top - 51 : -298;\n"
      "      const double place = 1.5 * ptc_power(52 + low);\n"
      "      uint64_t units = 0;\n"
      "      bool rest = false;\n"
      "#pragma unroll\n"
      "      for (int k = 0; k < 16; ++k) {\n"
      "        const double moved = square[k] + place;\n"
      "        units += ptc_bits64(moved) - ptc_bits64(place);\n"
      "        square[k] -= moved - place;\n"
      "        rest |= square[k] != 0;\n"
      "      }\n"
      "      for (int w = 16; w > 0; w /= 2) units += __shfl_xor_sync(~0u, units, w);\n"
      "      if (threadIdx.x %% 32 < 3) {\n"
      "        const int place_at = low + 298, shift = place_at & 31, k = threadIdx.x %% 32;\n"
      "        const int64_t piece = k == 0   ? (int64_t)(units << shift & 0xffffffff)\n"
      "                              : k == 1 ? (int64_t)units >> (32 - shift) & 0xffffffff\n"
      "                                       : (int64_t)units >> 32 >> (32 - shift);\n"
      "        if (piece) atomicAdd((uint64_t *)&limbs[(place_at >> 5) + k], (uint64_t)piece);\n"
      "      }\n"
      "      more = __any_sync(~0u, rest) && low > -298;\n"
      "      top = low;\n"
      "    }\n"
      "  }\n"
      "  __syncthreads();\n",
      PTC_LIMBS, PTC_LIMBS, per_tile, per_tile, total, per_tile, total, PTC_CUDA_THREADS / 32 * 512,
      element);
  if (many)
    ptc_str_printf(out,
                   "  if (threadIdx.x < %d) workspace[(int64_t)blockIdx.x * %d + threadIdx.x] = "
                   "limbs[threadIdx.x];\n",
                   PTC_LIMBS, PTC_LIMBS);
  else
    ptc_str_printf(out,
                   "  if (threadIdx.x == 0) ptc_limbs_normalize(limbs);\n"
                   "  __syncthreads();\n"
                   "  if (threadIdx.x < %d) %s[threadIdx.x] = limbs[threadIdx.x];\n",
                   PTC_LIMBS, to);
}

ptc_status_t ptc_cuda_single(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                             ptc_str_t *out, ptc_kernel_shape_t *out_shape) {
  ptc_c_single_t s = {.arena = arena, .kernel = kernel, .op = kernel->op};
  ptc_cuda_prelude(out, kernel);
  if (kernel->kind == PTC_KERNEL_SCATTER_ADD) ptc_cuda_reductions(out);
  print_entry(out, kernel);
  switch (kernel->kind) {
    case PTC_KERNEL_SCAN: print_scan(&s, out); break;
    case PTC_KERNEL_TOPK: print_topk(&s, out); break;
    case PTC_KERNEL_DISPATCH_SLOT: print_dispatch_slot(&s, out); break;
    case PTC_KERNEL_SCATTER_ADD: ptc_cuda_scatter_add(&s, out); break;
    case PTC_KERNEL_WINDOW_ADD: print_window_add(&s, out); break;
    case PTC_KERNEL_SQUARE_SUM: print_square_sum(&s, out); break;
    case PTC_KERNEL_LIMBS_VALUE:
      s.tiles = 1;
      ptc_str_printf(out, "  if (threadIdx.x == 0) %s[0] = ptc_limbs_value(%s);\n",
                     ptc_single_name(&s, true, 0), ptc_single_name(&s, false, 0));
      break;
    default:
      return ptc_error(diag, kernel->loc, PTC_UNSUPPORTED, "codegen-unsupported",
                       "kernel \"%s\" (%s) is of a kind that has no CUDA form", kernel->name,
                       kernel->about);
  }
  ptc_str_append(out, "}\n");
  const int64_t tiles[] = {s.tiles, s.last_tiles};
  *out_shape = ptc_cuda_shape(arena, tiles, s.last_tiles ? 2 : 1, s.workspace_bytes);
  return PTC_OK;
}

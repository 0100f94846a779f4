// GEMM in CUDA. bf16 and f16 operands: 128 x 128 x 32 tiles, three cp.async stages in swizzled shared memory,
// ldmatrix, mma.sync m16n8k16 with f32 accumulators. f32 operands, and dtypes that differ: exact, 64 x 64 x 16 tiles of
// FMAs; with tf32 the same tensor-core kernel, 128 x 128 x 16 tiles and m16n8k8, whose operands are rounded (to nearest,
// ties away) as they are read from shared memory. On tensor cores the tile of sums passes through shared memory, so that
// the epilogue reads and writes whole lines.
#include <inttypes.h>
#include <string.h>

#include "codegen/cuda_codegen.h"

// One operand as seen by the kernel: rows (m or n) by k.
typedef struct operand_s {
  const char *name;  // "A", "B"
  ptc_kx_t expr;
  uint32_t rows;            // loop dims of the rows
  const ptc_kexpr_t *load;  // NULL: a prologue must be evaluated
  int64_t strides[PTC_KERNEL_MAX_DIMS];
  // 16-byte chunks can be copied along k (k_chunks) or along the rows (row_chunks).
  bool k_chunks, row_chunks;
} operand_t;

// Strides of a LOAD that is affine in the loop dims. False for anything else.
static bool plain_load(const ptc_kernel_t *kernel, const ptc_kexpr_t *load, int64_t *strides) {
  if (load->kind != PTC_KX_LOAD || load->guard != PTC_KX_NONE || load->checked) return false;
  const ptc_c_affine_t address = ptc_c_address(kernel, load->param, load->args);
  if (address.num_terms || address.base) return false;
  memcpy(strides, address.coef, sizeof address.coef);
  return true;
}

// Whether chunks of |width| elements along the dims of |along| are contiguous and aligned.
static bool chunks_along(const ptc_kernel_t *kernel, const operand_t *operand, uint32_t along,
                         int64_t width) {
  int32_t inner = -1;
  for (int32_t i = 0; i < kernel->num_dims; ++i)
    if ((along >> i & 1) && kernel->dims[i].extent > 1) inner = i;
  if (inner < 0 || operand->strides[inner] != 1 || kernel->dims[inner].extent % width) return false;
  for (int32_t i = 0; i < kernel->num_dims; ++i)
    if (i != inner && kernel->dims[i].extent > 1 && operand->strides[i] % width) return false;
  return true;
}

static operand_t make_operand(const ptc_kernel_t *kernel, const char *name, ptc_kx_t expr,
                              uint32_t rows) {
  operand_t operand = {.name = name, .expr = expr, .rows = rows};
  const ptc_kexpr_t *e = &kernel->exprs[expr];
  if (!plain_load(kernel, e, operand.strides)) return operand;
  operand.load = e;
  const int64_t width = 16 / ptc_dtype_bytes(e->dtype);
  operand.k_chunks = chunks_along(kernel, &operand, kernel->gemm.k, width);
  operand.row_chunks = !operand.k_chunks && chunks_along(kernel, &operand, rows, width);
  return operand;
}

// Dims that lie one after another in memory.
typedef struct run_s {
  int64_t extent, stride;
} run_t;

// The runs of the dims of |mask|, the innermost first; returns how many.
static int32_t find_runs(const ptc_kernel_t *kernel, const operand_t *operand, uint32_t mask,
                         run_t *runs) {
  int32_t count = 0;
  for (int32_t i = kernel->num_dims - 1; i >= 0; --i) {
    if (!(mask >> i & 1) || kernel->dims[i].extent == 1) continue;
    const int64_t stride = operand->strides[i];
    int64_t extent = kernel->dims[i].extent;
    for (int32_t o = i - 1; o >= 0; --o) {
      if (!(mask >> o & 1) || kernel->dims[o].extent == 1) continue;
      if (operand->strides[o] != stride * extent) break;
      extent *= kernel->dims[o].extent;
      i = o;
    }
    runs[count++] = (run_t){extent, stride};
  }
  return count;
}

// `static inline int64_t A_rows(int i)`: the offset in elements of position |i| of |mask|.
static void print_offset(const ptc_kernel_t *kernel, const operand_t *operand, const char *what,
                         uint32_t mask, ptc_str_t *out) {
  run_t runs[PTC_KERNEL_MAX_DIMS];
  const int32_t num_runs = find_runs(kernel, operand, mask, runs);
  ptc_str_printf(out, "static inline int64_t %s_%s(int i) {\n  return 0", operand->name, what);
  int64_t after = 1;
  for (int32_t r = 0; r < num_runs; after *= runs[r++].extent) {
    if (!runs[r].stride) continue;
    ptc_str_append(out, " + (int64_t)");
    if (num_runs == 1)
      ptc_str_append(out, "i");
    else if (r == num_runs - 1)
      ptc_str_printf(out, "(i / %" PRId64 ")", after);
    else if (r == 0)
      ptc_str_printf(out, "(i %% %" PRId64 ")", runs[r].extent);
    else
      ptc_str_printf(out, "(i / %" PRId64 " %% %" PRId64 ")", after, runs[r].extent);
    ptc_str_printf(out, " * %" PRId64, runs[r].stride);
  }
  ptc_str_append(out, ";\n}\n");
}

// `static __device__ T A_value(call, z, row, k)`: one element of a prologue.
static void print_element(const ptc_kernel_t *kernel, ptc_arena_t *arena, const operand_t *operand,
                          ptc_str_t *out) {
  ptc_str_printf(out,
                 "static inline float %s_value(const ptc_kernel_call_t *call, int z, int row, "
                 "int k) {\n",
                 operand->name);
  ptc_cuda_declare(out, kernel);
  ptc_c_scope_t scope;
  ptc_cuda_scope_init(&scope, arena, kernel);
  ptc_cuda_decode(&scope, kernel->gemm.batch, "z", 2, out);
  ptc_cuda_decode(&scope, operand->rows, "row", 2, out);
  ptc_cuda_decode(&scope, kernel->gemm.k, "k", 2, out);
  ptc_c_eval(&scope, operand->expr, 2, out);
  ptc_str_printf(out, "  return %s;\n}\n", scope.value_text[operand->expr]);
}

// What the tiles of a kernel on tensor cores hold. Both kinds have rows of 64 bytes.
typedef struct tiles_s {
  const char *type;  // of an element in shared memory
  int width, depth;  // elements in 16 bytes, in a row
  bool tf32;
} tiles_t;

static tiles_t tiles_of(bool tf32) {
  return tf32 ? (tiles_t){"float", 4, 16, true} : (tiles_t){"uint16_t", 8, 32, false};
}

// Whether the operand is copied as it lies in memory, by 16 bytes.
static bool is_copied(const operand_t *operand, const tiles_t *tiles) {
  return operand->load && (operand->k_chunks || operand->row_chunks) &&
         16 / ptc_dtype_bytes(operand->load->dtype) == tiles->width;
}

static void print_copies(const operand_t *operand, const tiles_t *tiles, int64_t num_rows,
                         int64_t depth, ptc_str_t *out) {
  const char *n = operand->name;
  const int w = tiles->width, across = 128 / w;
  ptc_str_printf(out, "  const %s *base = (const %s *)call->params[%d] + %s_batch(z);\n",
                 tiles->type, tiles->type, operand->load->param, n);
  ptc_str_append(out, "#pragma unroll\n  for (int i = 0; i < 2; ++i) {\n");
  if (operand->k_chunks)
    ptc_str_printf(
        out, "    const int r = (t + 256 * i) / 4, c = t %% 4, row = row0 + r, k = k0 + %d * c;\n",
        w);
  else
    ptc_str_printf(out,
                   "    const int r = (t + 256 * i) / %d, c = t %% %d, row = row0 + %d * c, k = k0 "
                   "+ r;\n",
                   across, across, w);
  ptc_str_printf(out, "    const bool valid = row < %" PRId64 " && k < %" PRId64 ";\n", num_rows,
                 depth);
  if (operand->k_chunks)
    ptc_str_printf(out, "    copy16(smem_address(tile + r * %d + (c ^ (r / 2 %% 4)) * %d),\n",
                   tiles->depth, w);
  else
    ptc_str_printf(out, "    copy16(smem_address(tile + r * 128 + (c ^ (%s)) * %d),\n",
                   tiles->tf32 ? "r % 4 * 2" : "r % 8", w);
  ptc_str_printf(out,
                 "           valid ? base + %s_rows(row) + %s_depth(k) : base, valid);\n"
                 "  }\n",
                 n, n);
}

// The loader of one operand's tile, 128 rows by |depth|, into a stage. By k: rows of 4 chunks, chunk c of row r at
// slot c ^ (r / 2 % 4). By rows: |depth| rows (k) of 128 elements; chunk c of row k at slot c ^ (k % 8), of f32
// c ^ (k % 4 * 2). So the eight addresses of an ldmatrix fall into eight different 16-byte bank groups, and the 32
// words of a fragment of f32 that lies by rows (8 rows, 4 of k) into 32 banks.
static void print_loader(const ptc_kernel_t *kernel, const operand_t *operand, const tiles_t *tiles,
                         int64_t num_rows, int64_t depth, ptc_str_t *out) {
  const char *n = operand->name;
  ptc_str_printf(out,
                 "static inline void load_%s(const ptc_kernel_call_t *call, %s *tile, "
                 "int z, int row0, int k0) {\n"
                 "  const int t = threadIdx.x;\n",
                 n, tiles->type);
  if (is_copied(operand, tiles)) {
    print_copies(operand, tiles, num_rows, depth, out);
  } else {
    const char *convert = tiles->tf32                                      ? ""
                          : kernel->exprs[operand->expr].dtype == PTC_BF16 ? "ptc_to_bf16"
                                                                           : "ptc_to_f16";
    const int w = tiles->width, d = tiles->depth;
    ptc_str_printf(
        out,
        "#pragma unroll 4\n"
        "  for (int i = 0; i < %d; ++i) {\n"
        "    const int r = (t + 256 * i) / %d, c = t %% %d, row = row0 + r, k = k0 + c;\n"
        "    const bool valid = row < %" PRId64 " && k < %" PRId64
        ";\n"
        "    tile[r * %d + ((c / %d) ^ (r / 2 %% 4)) * %d + c %% %d] =\n"
        "        valid ? %s(%s_value(call, z, row, k)) : 0;\n"
        "  }\n",
        128 * d / PTC_CUDA_THREADS, d, d, num_rows, depth, d, w, w, w, convert, n);
  }
  ptc_str_append(out, "}\n");
}

// Loads the fragments of 16 rows (A) or 16 columns (B) and 16 (tf32: 8) of depth.
static void print_fragment(const operand_t *operand, const tiles_t *tiles, bool is_b,
                           ptc_str_t *out) {
  const bool by_rows = is_copied(operand, tiles) && operand->row_chunks;
  const int w = tiles->width;
  ptc_str_printf(out,
                 "static inline void fragment_%s(unsigned *r, const %s *tile, int "
                 "row, int k) {\n"
                 "  const int lane = threadIdx.x %% 32;\n",
                 operand->name, tiles->type);
  // Registers 0..3 are blocks (rows 0-7, k 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15) for A; for B the
  // middle two change places, so that 0, 1 belong to the first 8 columns. Of tf32 a block is 8 rows and 4 of k, and
  // as 8 rows of 16 bytes the same to ldmatrix.
  const char *row8 = is_b ? "(lane / 16)" : "(lane / 8 % 2)";
  const char *k8 = is_b ? "(lane / 8 % 2)" : "(lane / 16)";
  if (by_rows && tiles->tf32)
    ptc_str_printf(out,
                   // Opaque: else the compiler keeps an address of each fragment, and spills.
                   "  int slot = lane %% 4 * 2;\n"
                   "  asm volatile(\"\" : \"+r\"(slot));\n"
                   "#pragma unroll\n"
                   "  for (int x = 0; x < 4; ++x) {\n"
                   "    const int rr = row + lane / 4 + 8 * (%s), kk = k + lane %% 4 + 4 * (%s);\n"
                   "    r[x] = __float_as_uint(tile[kk * 128 + ((rr / 4) ^ slot) * 4 + rr "
                   "%% 4]);\n"
                   "  }\n",
                   is_b ? "x / 2" : "x % 2", is_b ? "x % 2" : "x / 2");
  else if (by_rows)
    ptc_str_printf(out,
                   "  const int kk = k + lane %% 8 + 8 * %s, c = row / 8 + %s;\n"
                   "  ldsm_trans(r, smem_address(tile + kk * 128 + (c ^ (kk %% 8)) * 8));\n",
                   k8, row8);
  else
    ptc_str_printf(out,
                   "  const int rr = row + lane %% 8 + 8 * %s, c = k / %d + %s;\n"
                   "  ldsm(r, smem_address(tile + rr * %d + (c ^ (rr / 2 %% 4)) * %d));\n",
                   row8, w, k8, tiles->depth, w);
  if (tiles->tf32)
    ptc_str_append(out, "#pragma unroll\n  for (int x = 0; x < 4; ++x) r[x] = round_tf32(r[x]);\n");
  ptc_str_append(out, "}\n");
}

static void print_epilogue(const ptc_kernel_t *kernel, ptc_arena_t *arena, int64_t m, int64_t n,
                           const char *acc, int32_t indent, ptc_str_t *out) {
  ptc_c_scope_t scope;
  ptc_cuda_scope_init(&scope, arena, kernel);
  ptc_cuda_use_hashes(&scope, "hashes");
  scope.hole_text[0] = acc;
  ptc_str_printf(out, "%*sif (row >= %" PRId64 " || col >= %" PRId64 ") continue;\n", indent, "", m,
                 n);
  ptc_cuda_decode(&scope, kernel->gemm.batch, "z", indent, out);
  ptc_cuda_decode(&scope, kernel->gemm.m, "row", indent, out);
  ptc_cuda_decode(&scope, kernel->gemm.n, "col", indent, out);
  for (int32_t i = 0; i < kernel->num_stores; ++i)
    ptc_c_store(&scope, &kernel->stores[i], indent, out);
}

// A grid that leaves most multiprocessors idle is split along k: phase 0 writes the sums of each part of k into
// the workspace, phase 1 adds them in order. The number of parts follows from the shape alone.
static int64_t num_splits(const ptc_kernel_t *kernel, int64_t tiles) {
  enum { ENOUGH_TILES = 264, LEAST_DEPTH = 512, MOST = 16 };
  const int64_t by_depth = ptc_kernel_extent(kernel, kernel->gemm.k) / LEAST_DEPTH;
  int64_t splits = tiles > 0 ? ENOUGH_TILES / tiles : 1;
  splits = splits < by_depth ? splits : by_depth;
  return splits < 2 ? 1 : splits > MOST ? MOST : splits;
}

static int64_t num_tiles(const ptc_kernel_t *kernel, int64_t side) {
  const ptc_gemm_t *g = &kernel->gemm;
  return ptc_kernel_extent(kernel, g->batch) *
         ((ptc_kernel_extent(kernel, g->m) + side - 1) / side) *
         ((ptc_kernel_extent(kernel, g->n) + side - 1) / side);
}

// Lets one thread put the hashes of paths of random numbers into `hashes`; NULL if there are none.
static const char *hashes_text(const ptc_kernel_t *kernel, ptc_arena_t *arena, const char *when) {
  ptc_str_t fill = {0};
  const bool any = ptc_cuda_fill_hashes(kernel, "hashes", 6, &fill) > 0;
  const char *text =
      any ? ptc_arena_printf(arena, "    if (threadIdx.x == 0%s) {\n%s    }\n", when, fill.data)
          : NULL;
  ptc_str_deinit(&fill);
  return text;
}

static void print_tensor_core(const ptc_kernel_t *kernel, ptc_arena_t *arena, const operand_t *a,
                              const operand_t *b, const tiles_t *tiles, int64_t splits,
                              ptc_str_t *out) {
  const ptc_gemm_t *g = &kernel->gemm;
  const int64_t m = ptc_kernel_extent(kernel, g->m), n = ptc_kernel_extent(kernel, g->n),
                k = ptc_kernel_extent(kernel, g->k);
  const int64_t tiles_m = (m + 127) / 128, tiles_n = (n + 127) / 128;
  const int d = tiles->depth;
  ptc_cuda_tensor_core(out, tiles->tf32 ? PTC_F32 : kernel->exprs[g->a].dtype);
  print_loader(kernel, a, tiles, m, k, out);
  print_loader(kernel, b, tiles, n, k, out);
  print_fragment(a, tiles, false, out);
  print_fragment(b, tiles, true, out);
  ptc_str_printf(out,
                 "extern \"C\" __global__ void __launch_bounds__(%d, 2) %s(const ptc_kernel_call_t "
                 "arguments) {\n",
                 PTC_CUDA_THREADS, kernel->name);
  ptc_cuda_start(out, kernel);
  ptc_cuda_declare(out, kernel);
  ptc_str_printf(
      out,
      "  __shared__ __align__(128) %s stages[3][2][128 * %d];\n"
      "  enum { SPLITS = %" PRId64 ", STEPS = %" PRId64
      ", PER_SPLIT = (STEPS + SPLITS - 1) / SPLITS };\n"
      "  const int phase1 = SPLITS > 1 && call->phase == 1;\n"
      "  const int tile = phase1 ? blockIdx.x / 4 : blockIdx.x / SPLITS;\n"
      "  const int split = phase1 ? 0 : blockIdx.x %% SPLITS;\n"
      "  const int first = split * PER_SPLIT, last = first + PER_SPLIT < STEPS ? first + PER_SPLIT "
      ": STEPS;\n"
      "  const int z = tile / %" PRId64 ", in = tile %% %" PRId64
      ";\n"
      // Groups of 8 row tiles share their columns of B in L2.
      "  const int group = in / (8 * %" PRId64 "), rows_left = %" PRId64
      " - 8 * group;\n"
      "  const int group_rows = rows_left < 8 ? rows_left : 8, at = in - group * 8 * %" PRId64
      ";\n"
      "  const int row0 = 128 * (8 * group + at %% group_rows), col0 = 128 * (at / group_rows);\n"
      "  const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;\n"
      "  const int wm = warp / 4 * 64, wn = warp %% 4 * 32;\n"
      "  float acc[4][4][4] = {};\n"
      "  int stage = 0;\n"
      "  if (!phase1) {\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 2; ++i) {\n"
      "    if (first + i < last) {\n"
      "      load_A(call, stages[i][0], z, row0, %d * (first + i));\n"
      "      load_B(call, stages[i][1], z, col0, %d * (first + i));\n"
      "    }\n"
      "    commit();\n"
      "  }\n"
      "  for (int step = first; step < last; ++step) {\n"
      "    wait1();\n"
      "    __syncthreads();\n"
      "    const int next = step + 2, filled = stage == 0 ? 2 : stage - 1;\n"
      "    if (next < last) {\n"
      "      load_A(call, stages[filled][0], z, row0, %d * next);\n"
      "      load_B(call, stages[filled][1], z, col0, %d * next);\n"
      "    }\n"
      "    commit();\n"
      "    const %s *ta = stages[stage][0], *tb = stages[stage][1];\n"
      "    stage = stage == 2 ? 0 : stage + 1;\n",
      tiles->type, d, splits, (k + d - 1) / d, tiles_m * tiles_n, tiles_m * tiles_n, tiles_n,
      tiles_m, tiles_n, d, d, d, d, tiles->type);
  // Fragments of tf32 that lie across take registers for their addresses, too: those of A come one by one.
  static const char
      all_text[] =
          "      unsigned fa[4][4], fb[2][4];\n"
          "#pragma unroll\n"
          "      for (int i = 0; i < 4; ++i) fragment_A(fa[i], ta, wm + 16 * i, kk);\n"
          "#pragma unroll\n"
          "      for (int j = 0; j < 2; ++j) fragment_B(fb[j], tb, wn + 16 * j, kk);\n"
          "#pragma unroll\n"
          "      for (int i = 0; i < 4; ++i)\n"
          "#pragma unroll\n"
          "        for (int j = 0; j < 4; ++j) mma(acc[i][j], fa[i], &fb[j / 2][j % 2 * 2]);\n",
      by_one_text[] =
          "      unsigned fa[2][4], fb[2][4];\n"
          "#pragma unroll\n"
          "      for (int j = 0; j < 2; ++j) fragment_B(fb[j], tb, wn + 16 * j, kk);\n"
          "      fragment_A(fa[0], ta, wm, kk);\n"
          "#pragma unroll\n"
          "      for (int i = 0; i < 4; ++i) {\n"
          "        if (i < 3) fragment_A(fa[(i + 1) % 2], ta, wm + 16 * (i + 1), kk);\n"
          "#pragma unroll\n"
          "        for (int j = 0; j < 4; ++j) mma(acc[i][j], fa[i % 2], &fb[j / 2][j % 2 * 2]);\n"
          "      }\n";
  ptc_str_printf(out,
                 "#pragma unroll\n"
                 "    for (int kk = 0; kk < %d; kk += %d) {\n"
                 "%s"
                 "    }\n"
                 "  }\n"
                 "  wait0();\n"
                 "  }\n",
                 d, d / 2, tiles->tf32 ? by_one_text : all_text);
  if (splits > 1)
    ptc_str_printf(out,
                   // Element x of a thread of a tile's part: neighbouring threads side by side.
                   "  float *const parts = (float *)call->params[%d] + (int64_t)tile * SPLITS * 64 "
                   "* 256 + threadIdx.x;\n"
                   "  if (!phase1) {\n"
                   "#pragma unroll\n"
                   "    for (int x = 0; x < 64; ++x) parts[(split * 64 + x) * 256] = acc[x / 16][x "
                   "/ 4 %% 4][x %% 4];\n"
                   "    return;\n"
                   "  }\n"
                   "  const int only = blockIdx.x %% 4;\n"
                   "#pragma unroll\n"
                   "  for (int x = 0; x < 64; ++x)\n"
                   "    if (x / 16 == only)\n"
                   "      for (int s = 0; s < SPLITS; ++s) acc[x / 16][x / 4 %% 4][x %% 4] += "
                   "parts[(s * 64 + x) * 256];\n",
                   kernel->num_params);
  const char *fill = hashes_text(kernel, arena, splits > 1 ? "" : " && part == 0");
  ptc_str_printf(
      out,
      "  float *sums = (float *)stages;\n"
      "%s"
      // 32 rows at a time: 32 x 136 floats, 17 KiB of the stages. Rows of 8 banks more than a whole turn: the
      // pairs of half a warp, from four rows, fall into all 32 banks.
      "#pragma unroll 1\n"
      "  for (int part = 0; part < 4; ++part) {\n"
      "%s"
      "    __syncthreads();\n"
      "%s"
      // Of each warp's 64 rows these 16: warps of both halves take part. Sums are registers, which each part names.
      "#pragma unroll\n"
      "    for (int x = 0; x < 16; ++x) {\n"
      "      if (x / 4 != part) continue;\n"
      "      const float *const s = acc[x / 4][x %% 4];\n"
      "      const int r = warp / 4 * 16 + lane / 4, c = wn + 8 * (x %% 4) + lane %% 4 * 2;\n"
      "      *(float2 *)(sums + r * 136 + c) = make_float2(s[0], s[1]);\n"
      "      *(float2 *)(sums + (r + 8) * 136 + c) = make_float2(s[2], s[3]);\n"
      "    }\n"
      "    __syncthreads();\n"
      "#pragma unroll 4\n"
      "    for (int i = threadIdx.x; i < 32 * 128; i += %d) {\n"
      "      const int r = i / 128, col = col0 + i %% 128;\n"
      "      const int row = row0 + r / 16 * 64 + part * 16 + r %% 16;\n"
      "      const float acc0 = sums[r * 136 + i %% 128];\n",
      fill ? "  uint32_t *const hashes = (uint32_t *)(sums + 32 * 136);\n" : "",
      splits > 1 ? "    if (part != only) continue;\n" : "", fill ? fill : "", PTC_CUDA_THREADS);
  print_epilogue(kernel, arena, m, n, "acc0", 6, out);
  ptc_str_append(out, "    }\n  }\n}\n");
}

static void print_exact(const ptc_kernel_t *kernel, ptc_arena_t *arena, const operand_t *a,
                        const operand_t *b, ptc_str_t *out) {
  const ptc_gemm_t *g = &kernel->gemm;
  const int64_t m = ptc_kernel_extent(kernel, g->m), n = ptc_kernel_extent(kernel, g->n),
                k = ptc_kernel_extent(kernel, g->k);
  const int64_t tiles_m = (m + 63) / 64, tiles_n = (n + 63) / 64;
  // Three blocks: left to itself ptxas aims at four, and spills. Two where a place along k takes a division,
  // or one among the rows of a batch does.
  run_t runs[PTC_KERNEL_MAX_DIMS];
  const bool batched = ptc_kernel_extent(kernel, g->batch) > 1;
  bool divides = false;
  for (int32_t side = 0; side < 2; ++side) {
    const operand_t *o = side ? b : a;
    divides |= find_runs(kernel, o, g->k, runs) > 1 ||
               (batched && find_runs(kernel, o, o->rows, runs) > 1);
  }
  ptc_str_printf(
      out,
      "extern \"C\" __global__ void __launch_bounds__(%d, %d) %s(const ptc_kernel_call_t "
      "arguments) {\n",
      PTC_CUDA_THREADS, divides ? 2 : 3, kernel->name);
  ptc_cuda_start(out, kernel);
  ptc_cuda_declare(out, kernel);
  ptc_str_t number = {0};
  const int32_t num_hashes = ptc_cuda_fill_hashes(kernel, "hashes", 0, &number);
  ptc_str_deinit(&number);
  if (num_hashes)
    ptc_str_printf(out, "  __shared__ uint32_t hashes[%d];\n%s", num_hashes,
                   hashes_text(kernel, arena, ""));
  ptc_str_printf(out,
                 "  __shared__ __align__(16) float tiles[2][16][68];\n"
                 "  float (*const ta)[68] = tiles[0], (*const tb)[68] = tiles[1];\n"
                 "  const int tile = blockIdx.x, z = tile / %" PRId64 ", in = tile %% %" PRId64
                 ";\n"
                 "  const int row0 = in / %" PRId64 " * 64, col0 = in %% %" PRId64
                 " * 64;\n"
                 "  const int t = threadIdx.x, tm = t / 16 * 4, tn = t %% 16 * 4;\n"
                 "  float acc[4][4] = {};\n"
                 "  for (int k0 = 0; k0 < %" PRId64
                 "; k0 += 16) {\n"
                 "    __syncthreads();\n",
                 tiles_m * tiles_n, tiles_m * tiles_n, tiles_n, tiles_n, k);
  const operand_t *const operands[2] = {a, b};
  for (int32_t side = 0; side < 2; ++side) {
    const operand_t *o = operands[side];
    // Neighbouring threads follow the contiguous direction: eight of them, which is a sector, and four rows, so that
    // what they write falls into all banks.
    const bool along_rows = o->load && o->row_chunks;
    ptc_str_printf(out,
                   "#pragma unroll\n"
                   "    for (int i = 0; i < 4; ++i) {\n"
                   "      const int e = t + 256 * i, r = %s, c = %s, row = %s0 + r, kk = k0 + c;\n"
                   "      %s[c][r] = row < %" PRId64 " && kk < %" PRId64 " ? ",
                   along_rows ? "e % 64" : "e / 8 % 64",
                   along_rows ? "e / 64" : "e % 8 + e / 512 * 8", side ? "col" : "row",
                   side ? "tb" : "ta", side ? n : m, k);
    if (o->load)
      ptc_str_append(
          out,
          ptc_c_from_storage(
              arena, o->load->dtype,
              ptc_arena_printf(
                  arena,
                  "((const %s *)call->params[%d])[%s_batch(z) + %s_rows(row) + %s_depth(kk)]",
                  ptc_c_storage_type(o->load->dtype), o->load->param, o->name, o->name, o->name)));
    else
      ptc_str_printf(out, "%s_value(call, z, row, kk)", o->name);
    ptc_str_append(out, " : 0.0f;\n    }\n");
  }
  ptc_str_printf(
      out,
      "    __syncthreads();\n"
      "#pragma unroll\n"
      "    for (int kk = 0; kk < 16; ++kk) {\n"
      "      float fa[4], fb[4];\n"
      "#pragma unroll\n"
      "      for (int i = 0; i < 4; ++i) fa[i] = ta[kk][tm + i], fb[i] = tb[kk][tn + i];\n"
      "#pragma unroll\n"
      "      for (int i = 0; i < 4; ++i)\n"
      "#pragma unroll\n"
      "        for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);\n"
      "    }\n"
      "  }\n"
      // 32 rows at a time through the tiles, so that neighbouring threads have neighbouring columns.
      "  float *const sums = tiles[0][0];\n"
      "#pragma unroll 1\n"
      "  for (int part = 0; part < 2; ++part) {\n"
      "    __syncthreads();\n"
      "    if (tm / 32 == part)\n"
      "#pragma unroll\n"
      "      for (int i = 0; i < 4; ++i)\n"
      "        *(float4 *)(sums + (tm %% 32 + i) * 68 + tn) = make_float4(acc[i][0], acc[i][1], "
      "acc[i][2], acc[i][3]);\n"
      "    __syncthreads();\n"
      "#pragma unroll 4\n"
      "    for (int i = t; i < 32 * 64; i += %d) {\n"
      "      const int row = row0 + 32 * part + i / 64, col = col0 + i %% 64;\n"
      "      const float acc0 = sums[i / 64 * 68 + i %% 64];\n",
      PTC_CUDA_THREADS);
  print_epilogue(kernel, arena, m, n, "acc0", 6, out);
  ptc_str_append(out, "    }\n  }\n}\n");
}

// The innermost loop dim of |mask| that has more than one point, or -1.
static int32_t innermost(const ptc_kernel_t *kernel, uint32_t mask) {
  for (int32_t i = kernel->num_dims - 1; i >= 0; --i)
    if ((mask >> i & 1) && kernel->dims[i].extent > 1) return i;
  return -1;
}

// Whether results lie along the rows. Then A and B change places: the columns are what neighbouring threads write.
static bool is_transposed(const ptc_kernel_t *kernel) {
  const int32_t m = innermost(kernel, kernel->gemm.m), n = innermost(kernel, kernel->gemm.n);
  if (m < 0 || n < 0) return false;
  for (int32_t i = 0; i < kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &kernel->stores[i];
    const ptc_c_affine_t address = ptc_c_address(kernel, store->param, store->index);
    if (address.coef[m] != 1 || address.coef[n] == 1) return false;
  }
  return kernel->num_stores > 0;
}

static const ptc_kernel_t *with_columns_inside(ptc_arena_t *arena, const ptc_kernel_t *kernel) {
  if (!is_transposed(kernel)) return kernel;
  ptc_kernel_t *turned = PTC_ARENA_NEW(arena, ptc_kernel_t);
  *turned = *kernel;
  turned->gemm.a = kernel->gemm.b;
  turned->gemm.b = kernel->gemm.a;
  turned->gemm.m = kernel->gemm.n;
  turned->gemm.n = kernel->gemm.m;
  return turned;
}

static bool is_operand_dtype(ptc_dtype_t dtype) {
  return dtype == PTC_F32 || dtype == PTC_BF16 || dtype == PTC_F16;
}

ptc_status_t ptc_cuda_gemm(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                           const ptc_cuda_options_t *options, ptc_str_t *out,
                           ptc_kernel_shape_t *out_shape) {
  kernel = with_columns_inside(arena, kernel);
  const ptc_gemm_t *g = &kernel->gemm;
  operand_t a = make_operand(kernel, "A", g->a, g->m), b = make_operand(kernel, "B", g->b, g->n);
  const ptc_dtype_t da = kernel->exprs[g->a].dtype, db = kernel->exprs[g->b].dtype;
  const bool half = da == db && da != PTC_F32;
  const tiles_t tile_kind = tiles_of(!half);
  const bool on_tensor_cores = half || (options->tf32 && (da == PTC_F32 || db == PTC_F32));
  if (!is_operand_dtype(da) || !is_operand_dtype(db))
    return ptc_error(diag, kernel->loc, PTC_UNSUPPORTED, "codegen-unsupported",
                     "a GEMM of %s by %s has no CUDA kernel yet", ptc_dtype_name(da),
                     ptc_dtype_name(db));
  ptc_cuda_prelude(out, kernel);
  const operand_t *const operands[2] = {&a, &b};
  for (int32_t i = 0; i < 2; ++i) {
    const operand_t *o = operands[i];
    if (o->load) {
      print_offset(kernel, o, "batch", g->batch, out);
      print_offset(kernel, o, "rows", o->rows, out);
      print_offset(kernel, o, "depth", g->k, out);
    }
    // On tensor cores odd shapes are read element by element.
    if (!o->load || (on_tensor_cores && !is_copied(o, &tile_kind)))
      print_element(kernel, arena, o, out);
  }
  if (!on_tensor_cores) {
    print_exact(kernel, arena, &a, &b, out);
    const int64_t tiles = num_tiles(kernel, 64);
    *out_shape = ptc_cuda_shape(arena, &tiles, 1, 0);
    return PTC_OK;
  }
  const int64_t tiles = num_tiles(kernel, 128), splits = num_splits(kernel, tiles);
  print_tensor_core(kernel, arena, &a, &b, &tile_kind, splits, out);
  const int64_t phases[2] = {tiles * splits, tiles * 4};
  *out_shape = ptc_cuda_shape(arena, phases, splits > 1 ? 2 : 1,
                              splits > 1 ? tiles * splits * 128 * 128 * 4 : 0);
  return PTC_OK;
}

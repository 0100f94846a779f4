// Attention on tensor cores (mma.sync m16n8k16, f32 sums), for 16-bit operands: FlashAttention-2 (Dao 2023)
// with a gradient that adds nothing atomically.
//
// A block has eight warps; a warp owns 16 rows (forward, dq) or 16 keys (dkey, dval), whose operands stay in
// registers as fragments; the other side passes through two stages of shared memory, filled by cp.async while
// the stage before is used. Scores never leave registers: the sums of one product have the layout of the next
// one's operand. Where columns are many, several warps share their 16 rows or keys, compute the same scores,
// and own a part of the columns each. Blocks that the mask rules out, by interval arithmetic, are not loaded.
#include <inttypes.h>

#include "codegen/cuda_attention_impl.h"

enum { WARPS = PTC_CUDA_THREADS / 32, STAGE_ELEMENTS = 8192, CHUNK = 8 };

typedef struct sizes_s {
  int64_t columns;                              // the larger of dot and own
  int64_t forward_split, row_split, key_split;  // warps that share rows or keys
  int64_t others;                               // keys or rows of a stage
} sizes_t;

static int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

static sizes_t sizes_of(const ptc_attention_c_t *self) {
  sizes_t s = {.columns = self->dot > self->num_own ? self->dot : self->num_own};
  const int64_t row = round_up(self->dot, 64) + round_up(self->num_own, 64);
  s.others = 64;
  while (s.others > 16 && s.others * row > STAGE_ELEMENTS) s.others /= 2;
  s.forward_split = s.columns > 128 ? 2 : 1;
  s.row_split = s.columns > 128 ? 4 : 1;
  s.key_split = s.columns > 128 ? 4 : s.columns > 64 ? 2 : 1;
  return s;
}

// Whether chunks of eight columns are contiguous and aligned.
static bool in_chunks(const ptc_attention_c_t *self, const ptc_attention_tensor_t *tensor,
                      const ptc_dim_set_t *columns) {
  const ptc_kernel_t *kernel = self->kernel;
  if (tensor->address.num_terms || tensor->address.base % CHUNK) return false;
  int64_t expected = 1;
  uint32_t mask = 0;
  for (int32_t i = columns->count - 1; i >= 0; --i) {
    const int32_t d = columns->dims[i];
    mask |= UINT32_C(1) << d;
    if (kernel->dims[d].extent == 1) continue;
    if (tensor->address.coef[d] != expected) return false;
    expected *= kernel->dims[d].extent;
  }
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    if (!(mask >> d & 1) && kernel->dims[d].extent > 1 && tensor->address.coef[d] % CHUNK)
      return false;
  return expected % CHUNK == 0;
}

bool ptc_cuda_flash_fits(const ptc_attention_c_t *self) {
  const ptc_dim_set_t dot = {1, {self->at->dot}};
  const ptc_dtype_t dtype = self->q.dtype;
  bool fits = (dtype == PTC_BF16 || dtype == PTC_F16) && self->key.dtype == dtype &&
              self->val.dtype == dtype && self->dot <= 256 && self->num_own <= 256 &&
              in_chunks(self, &self->q, &dot) && in_chunks(self, &self->key, &dot) &&
              in_chunks(self, &self->val, &self->own);
  if (self->grad)
    fits = fits && self->dbias.param < 0 && self->dout.dtype == dtype &&
           in_chunks(self, &self->dout, &self->own);
  return fits;
}

// --- helpers of every kernel

static const char tiles_text[] =
    "// A tile's row has LD elements (a multiple of 64); its chunk c of eight lies at c ^ (row % "
    "8), so that the\n"
    "// eight addresses of an ldmatrix fall into different banks.\n"
    "template <int LD> static inline unsigned chunk_at(const uint16_t *tile, int row, int column) "
    "{\n"
    "  return smem_address(tile + row * LD + ((column / 8) ^ (row % 8)) * 8);\n"
    "}\n"
    "// The operand B of two products of 8 columns: 16 columns from |row|, 16 of depth from "
    "|column|.\n"
    "template <int LD> static inline void fragment(unsigned *r, const uint16_t *tile, int row, int "
    "column) {\n"
    "  const int lane = threadIdx.x % 32;\n"
    "  const unsigned a = chunk_at<LD>(tile, row + lane % 8 + 8 * (lane / 16), column + 8 * (lane "
    "/ 8 % 2));\n"
    "  ldsm(r, a);\n"
    "}\n"
    "// The same of a tile whose rows are the depth.\n"
    "template <int LD> static inline void fragment_t(unsigned *r, const uint16_t *tile, int row, "
    "int column) {\n"
    "  const int lane = threadIdx.x % 32;\n"
    "  const unsigned a = chunk_at<LD>(tile, row + lane % 8 + 8 * (lane / 8 % 2), column + 8 * "
    "(lane / 16));\n"
    "  ldsm_trans(r, a);\n"
    "}\n"
    "// Sums of one product, columns 16 j on, as operand A of the next.\n"
    "static inline void as_operand(unsigned *a, const float (*s)[4], int j) {\n"
    "  a[0] = pack(s[2 * j][0], s[2 * j][1]);\n"
    "  a[1] = pack(s[2 * j][2], s[2 * j][3]);\n"
    "  a[2] = pack(s[2 * j + 1][0], s[2 * j + 1][1]);\n"
    "  a[3] = pack(s[2 * j + 1][2], s[2 * j + 1][3]);\n"
    "}\n";

static void print_arithmetic(const ptc_attention_c_t *self) {
  const char *type = self->q.dtype == PTC_BF16 ? "bf16" : "f16";
  ptc_str_printf(
      self->out,
      "static inline unsigned pack(float low, float high) {\n"
      "  unsigned r;\n"
      "  asm(\"cvt.rn.%sx2.f32 %%0, %%1, %%2;\" : \"=r\"(r) : \"f\"(high), \"f\"(low));\n"
      "  return r;\n"
      "}\n",
      type);
  ptc_cuda_tensor_core(self->out, self->q.dtype);
  ptc_str_append(self->out, tiles_text);
}

// Of one operand: NAME_fill(call, tile, o, first), a stage's tile; NAME_own(call, o, at, column), two elements
// for a fragment in registers. |index|: the row or key of its *_offset, as text of |at|.
static void print_operand(const ptc_attention_c_t *self, const char *name,
                          const ptc_attention_tensor_t *tensor, const char *index, int64_t count,
                          int64_t width) {
  ptc_str_printf(
      self->out,
      "static inline void %s_fill(const ptc_kernel_call_t *call, uint16_t *tile, int o, int first) "
      "{\n"
      "  enum { LD = %" PRId64
      " };\n"
      "  const uint16_t *base = (const uint16_t *)call->params[%d];\n"
      "#pragma unroll\n"
      "  for (int i = threadIdx.x; i < OTHERS * LD / 8; i += %d) {\n"
      "    const int r = i / (LD / 8), c = 8 * (i %% (LD / 8)), at = first + r;\n"
      "    const bool valid = at < %" PRId64 " && c < %" PRId64
      ";\n"
      "    copy16(chunk_at<LD>(tile, r, c), valid ? base + %s_offset(o, %s, c) : base, valid);\n"
      "  }\n"
      "}\n"
      "static inline unsigned %s_own(const ptc_kernel_call_t *call, int o, int at, int column) {\n"
      "  if (at >= %" PRId64 " || column >= %" PRId64
      ") return 0;\n"
      "  return *(const unsigned *)((const uint16_t *)call->params[%d] + %s_offset(o, %s, "
      "column));\n"
      "}\n",
      name, round_up(width, 64), tensor->param, PTC_CUDA_THREADS, count, width, name, index, name,
      count, width, tensor->param, name, index);
}

// NAME_pair(call, o, at, column, x, y): two neighbouring columns of a result.
static void print_result(const ptc_attention_c_t *self, const char *name,
                         const ptc_attention_tensor_t *tensor, const ptc_dim_set_t *columns,
                         const char *index, int64_t count, int64_t width) {
  const bool pairs = (tensor->dtype == self->q.dtype) && in_chunks(self, tensor, columns);
  ptc_str_printf(self->out,
                 "static inline void %s_pair(const ptc_kernel_call_t *call, int o, int at, int "
                 "column, float x, "
                 "float y) {\n"
                 "  if (at >= %" PRId64 ") return;\n",
                 name, count);
  if (pairs)
    ptc_str_printf(self->out,
                   "  if (column < %" PRId64
                   ") *(unsigned *)((uint16_t *)call->params[%d] + %s_offset(o, %s, column)) = "
                   "pack(x, y);\n}\n",
                   width, tensor->param, name, index);
  else
    ptc_str_printf(self->out,
                   "  if (column < %" PRId64
                   ") %s_store(call, o, %s, column, x);\n"
                   "  if (column + 1 < %" PRId64 ") %s_store(call, o, %s, column + 1, y);\n}\n",
                   width, name, index, width, name, index);
}

// --- which blocks of scores there are

// The least and largest index of a row dim over rows first..last-1 of the flattened rows.
static void print_row_range(const ptc_attention_c_t *self) {
  const ptc_kernel_t *kernel = self->kernel;
  ptc_str_append(self->out, "  struct {\n    int of");
  for (int32_t i = 0; i < self->rows.count; ++i) {
    const char *name = ptc_c_index_name(self->arena, kernel, self->rows.dims[i]);
    ptc_str_printf(self->out, ", low_%s, high_%s", name, name);
  }
  ptc_str_append(self->out, ";\n  } rows, *const range = &rows;\n");
  int64_t after = 1;
  for (int32_t i = self->rows.count - 1; i >= 0; --i) {
    const int64_t extent = kernel->dims[self->rows.dims[i]].extent;
    const char *name = ptc_c_index_name(self->arena, kernel, self->rows.dims[i]);
    // One turn of the dims outside: the ends' indices; else all of them.
    ptc_str_printf(
        self->out,
        "  {\n    const bool one = row0 / %" PRId64 " == (row1 - 1) / %" PRId64
        ";\n"
        "    rows.low_%s = one ? row0 / %" PRId64 " %% %" PRId64
        " : 0;\n"
        "    rows.high_%s = one ? (row1 - 1) / %" PRId64 " %% %" PRId64 " : %" PRId64 ";\n  }\n",
        after * extent, after * extent, name, after, extent, name, after, extent, extent - 1);
    after *= extent;
  }
}

// block_kind(call, o, row0, row1, first, last): of rows row0..row1-1 and keys first..last-1.
static void print_block_kind(ptc_attention_c_t *self) {
  ptc_str_append(self->out,
                 "enum { NOTHING, MIXED, EVERYTHING };\n"
                 "static inline int block_kind(const ptc_kernel_call_t *call, int o, int row0, int "
                 "row1, int first, int last) {\n");
  if (self->at->mask == PTC_KX_NONE) {
    ptc_str_append(self->out, "  return EVERYTHING;\n}\n");
    return;
  }
  ptc_cuda_declare(self->out, self->kernel);
  ptc_c_scope_t scope;
  ptc_cuda_scope_init(&scope, self->arena, self->kernel);
  int64_t after = 1;
  for (int32_t i = self->outer.count - 1; i >= 0; --i) {
    const int64_t extent = self->kernel->dims[self->outer.dims[i]].extent;
    ptc_str_printf(self->out, "  const int %s = o / %" PRId64 " %% %" PRId64 ";\n",
                   scope.index_text[self->outer.dims[i]], after, extent);
    after *= extent;
  }
  print_row_range(self);
  const char *low, *high;
  ptc_attention_mask_bounds(self, &low, &high);
  ptc_str_printf(self->out, "  return %s != 0.0 ? EVERYTHING : %s != 0.0 ? MIXED : NOTHING;\n}\n",
                 low, high);
}

static const char blocks_text[] =
    "static inline int least(int x, int y) { return x < y ? x : y; }\n"
    "// The next block of keys from |block| on that rows row0..row1-1 see; and of rows that see "
    "keys key0..key1-1.\n"
    "static inline int next_keys(const ptc_kernel_call_t *call, int o, int row0, int row1, int "
    "block) {\n"
    "  while (block < KEY_BLOCKS && block_kind(call, o, row0, row1, block * OTHERS,\n"
    "                                          least(block * OTHERS + OTHERS, KEYS)) == NOTHING)\n"
    "    ++block;\n"
    "  return block;\n"
    "}\n"
    "static inline int next_rows(const ptc_kernel_call_t *call, int o, int key0, int key1, int "
    "block) {\n"
    "  while (block < ROW_BLOCKS && block_kind(call, o, block * OTHERS,\n"
    "                                          least(block * OTHERS + OTHERS, ROWS), key0, key1) "
    "== NOTHING)\n"
    "    ++block;\n"
    "  return block;\n"
    "}\n"
    "static inline float quad_sum(float x) {\n"
    "  x += __shfl_xor_sync(~0u, x, 1);\n"
    "  return x + __shfl_xor_sync(~0u, x, 2);\n"
    "}\n"
    "static inline float larger(float x, float y) { return (y > x || y != y) ? y : x; }\n"
    "static inline float quad_max(float x) {\n"
    "  x = larger(x, __shfl_xor_sync(~0u, x, 1));\n"
    "  return larger(x, __shfl_xor_sync(~0u, x, 2));\n"
    "}\n";

// --- forward

static const char forward_text[] =
    "  enum { GROUPS = 8 / SPLIT, OWN_ROWS = 16 * GROUPS, PART = (OWN + 16 * SPLIT - 1) / (16 * "
    "SPLIT) * 16 };\n"
    "  const int group = warp / SPLIT, part = warp % SPLIT * PART;\n"
    "  const int tiles = (ROWS + OWN_ROWS - 1) / OWN_ROWS;\n"
    "  // The last rows see most under a causal mask: they start first.\n"
    "  const int o = blockIdx.x / tiles, row0 = (tiles - 1 - blockIdx.x % tiles) * OWN_ROWS;\n"
    "  const int row1 = least(row0 + OWN_ROWS, ROWS);\n"
    "  const int rows[2] = {row0 + 16 * group + g, row0 + 16 * group + g + 8};\n"
    "  unsigned fq[DOT16][4];\n"
    "#pragma unroll\n"
    "  for (int k = 0; k < DOT16; ++k)\n"
    "#pragma unroll\n"
    "    for (int e = 0; e < 4; ++e) fq[k][e] = q_own(call, o, rows[e % 2], 16 * k + 2 * t + 8 * "
    "(e / 2));\n"
    "  float acc[PART / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {};\n"
    "  int block = next_keys(call, o, row0, row1, 0), stage = 0;\n"
    "  if (block < KEY_BLOCKS) {\n"
    "    k_fill(call, stages[0], o, block * OTHERS);\n"
    "    v_fill(call, stages[0] + OTHERS * DOT_LD, o, block * OTHERS);\n"
    "  }\n"
    "  commit();\n"
    "  while (block < KEY_BLOCKS) {\n"
    "    const int after = next_keys(call, o, row0, row1, block + 1);\n"
    "    wait0();\n"
    "    __syncthreads();\n"
    "    if (after < KEY_BLOCKS) {\n"
    "      k_fill(call, stages[stage ^ 1], o, after * OTHERS);\n"
    "      v_fill(call, stages[stage ^ 1] + OTHERS * DOT_LD, o, after * OTHERS);\n"
    "    }\n"
    "    commit();\n"
    "    const uint16_t *tk = stages[stage], *tv = tk + OTHERS * DOT_LD;\n"
    "    const int key0 = block * OTHERS;\n"
    "    float s[OTHERS / 8][4] = {};\n"
    "#pragma unroll\n"
    "    for (int k = 0; k < DOT16; ++k)\n"
    "#pragma unroll\n"
    "      for (int j = 0; j < OTHERS / 16; ++j) {\n"
    "        unsigned fb[4];\n"
    "        fragment<DOT_LD>(fb, tk, 16 * j, 16 * k);\n"
    "        mma(s[2 * j], fq[k], fb);\n"
    "        mma(s[2 * j + 1], fq[k], fb + 2);\n"
    "      }\n"
    "    const bool whole = key0 + OTHERS <= KEYS &&\n"
    "                       block_kind(call, o, row0, row1, key0, key0 + OTHERS) == EVERYTHING;\n"
    "    float top[2] = {-INFINITY, -INFINITY};\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < OTHERS / 8; ++j)\n"
    "#pragma unroll\n"
    "      for (int e = 0; e < 4; ++e) {\n"
    "        const int row = rows[e / 2], key = key0 + 8 * j + 2 * t + e % 2;\n"
    "        const bool seen = row < ROWS && (whole || (key < KEYS && visible(call, o, row, "
    "key)));\n"
    "        s[j][e] = seen ? capped(s[j][e]) + bias(call, o, row, key) : -INFINITY;\n"
    "        top[e / 2] = larger(top[e / 2], s[j][e]);\n"
    "      }\n"
    "    float next[2], shrink[2], sum[2] = {};\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 2; ++i) {\n"
    "      next[i] = larger(most[i], quad_max(top[i]));\n"
    "      shrink[i] = most[i] == next[i] ? 1.0f : ptc_exp(most[i] - next[i]);\n"
    "      most[i] = next[i];\n"
    "    }\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < OTHERS / 8; ++j)\n"
    "#pragma unroll\n"
    "      for (int i = 0; i < 2; ++i) {\n"
    "        float p[2], keep[2] = {1.0f, 1.0f};\n"
    "#pragma unroll\n"
    "        for (int x = 0; x < 2; ++x) {\n"
    "          const float z = s[j][2 * i + x];\n"
    "          p[x] = z == -INFINITY ? 0.0f : ptc_exp(z - next[i]);\n"
    "          sum[i] += p[x];\n"
    "        }\n"
    "        if (DROPS && (p[0] != 0.0f || p[1] != 0.0f)) kept_pair(call, o, rows[i], key0 + 8 * j "
    "+ 2 * t, keep);\n"
    "#pragma unroll\n"
    "        for (int x = 0; x < 2; ++x) s[j][2 * i + x] = p[x] * keep[x];\n"
    "      }\n";

static const char forward_end_text[] =
    "#pragma unroll\n"
    "    for (int i = 0; i < 2; ++i) total[i] = total[i] * shrink[i] + sum[i];\n"
    "#pragma unroll\n"
    "    for (int c = 0; c < PART / 8; ++c)\n"
    "#pragma unroll\n"
    "      for (int e = 0; e < 4; ++e) acc[c][e] *= shrink[e / 2];\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < OTHERS / 16; ++j) {\n"
    "      unsigned fp[4];\n"
    "      as_operand(fp, s, j);\n"
    "#pragma unroll\n"
    "      for (int c = 0; c < PART / 16; ++c) {\n"
    "        if (part + 16 * c >= OWN) continue;\n"
    "        unsigned fb[4];\n"
    "        fragment_t<OWN_LD>(fb, tv, 16 * j, part + 16 * c);\n"
    "        mma(acc[2 * c], fp, fb);\n"
    "        mma(acc[2 * c + 1], fp, fb + 2);\n"
    "      }\n"
    "    }\n"
    "    block = after;\n"
    "    stage ^= 1;\n"
    "  }\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 2; ++i) {\n"
    "    const float all = quad_sum(total[i]);\n"
    "    const float share = all > 0.0f ? 1.0f / all : all != all ? all : 0.0f;\n"
    "#pragma unroll\n"
    "    for (int c = 0; c < PART / 8; ++c)\n"
    "      out_pair(call, o, rows[i], part + 8 * c + 2 * t, acc[c][2 * i] * share, acc[c][2 * i + "
    "1] * share);\n"
    "    if (t == 0 && part == 0 && rows[i] < ROWS)\n"
    "      lse_store(call, o, rows[i], 0, 0, all > 0.0f ? most[i] + ptc_log(all) : all != all ? "
    "all : "
    "-INFINITY);\n"
    "  }\n"
    "}\n";

// --- gradient

// Phase 0: of each row the sum of dout * out, by eight threads.
static const char row_sums_text[] =
    "  float *const sums = (float *)call->params[NUM_PARAMS];\n"
    "  if (call->phase == 0) {\n"
    "    const int at = blockIdx.x * 32 + threadIdx.x / 8, o = at / ROWS, row = at % ROWS;\n"
    "    const bool live = at < OUTER * ROWS;\n"
    "    float sum = 0.0f;\n"
    "    for (int c = threadIdx.x % 8; live && c < OWN; c += 8)\n"
    "      sum = fmaf(dout_load(call, o, row, 0, c), out_load(call, o, row, 0, c), sum);\n"
    "    sum = sum8(sum);\n"
    "    if (live && threadIdx.x % 8 == 0) sums[at] = sum;\n"
    "    return;\n"
    "  }\n";

// The gradient of a score (dp holds it before and after; s becomes the probability with dropout).
static const char score_text[] =
    "static inline void score_grad(const ptc_kernel_call_t *call, int o, int row, int key, bool "
    "seen, float keep, float lse, float sum, float *s, float *dp) {\n"
    "  float p = 0.0f, ds = 0.0f;\n"
    "  if (seen && lse != -INFINITY) {\n"
    "    const float c = capped(*s);\n"
    "    p = ptc_exp(c + bias(call, o, row, key) - lse);\n"
    "    ds = p * (keep * *dp - sum) * slope(c);\n"
    "  }\n"
    "  *s = p * keep;\n"
    "  *dp = ds;\n"
    "}\n";

static const char key_phase_text[] =
    "  if (call->phase == 1) {\n"
    "    enum { SPLIT = KEY_SPLIT, GROUPS = 8 / SPLIT, OWN_KEYS = 16 * GROUPS,\n"
    "           DOT_PART = (DOT + 16 * SPLIT - 1) / (16 * SPLIT) * 16,\n"
    "           OWN_PART = (OWN + 16 * SPLIT - 1) / (16 * SPLIT) * 16 };\n"
    "    const int group = warp / SPLIT, dot_part = warp % SPLIT * DOT_PART, own_part = warp % "
    "SPLIT * OWN_PART;\n"
    "    const int tiles = (KEYS + OWN_KEYS - 1) / OWN_KEYS;\n"
    "    const int o = blockIdx.x / tiles, key0 = blockIdx.x % tiles * OWN_KEYS, key1 = least(key0 "
    "+ OWN_KEYS, KEYS);\n"
    "    const int keys[2] = {key0 + 16 * group + g, key0 + 16 * group + g + 8};\n"
    "    unsigned fk[DOT16][4], fv[OWN16][4];\n"
    "#pragma unroll\n"
    "    for (int e = 0; e < 4; ++e) {\n"
    "#pragma unroll\n"
    "      for (int k = 0; k < DOT16; ++k) fk[k][e] = k_own(call, o, keys[e % 2], 16 * k + 2 * t + "
    "8 * (e / 2));\n"
    "#pragma unroll\n"
    "      for (int k = 0; k < OWN16; ++k) fv[k][e] = v_own(call, o, keys[e % 2], 16 * k + 2 * t + "
    "8 * (e / 2));\n"
    "    }\n"
    "    float dk[DOT_PART / 8][4] = {}, dv[OWN_PART / 8][4] = {};\n"
    "    int block = next_rows(call, o, key0, key1, 0), stage = 0;\n"
    "    if (block < ROW_BLOCKS) {\n"
    "      q_fill(call, stages[0], o, block * OTHERS);\n"
    "      dout_fill(call, stages[0] + OTHERS * DOT_LD, o, block * OTHERS);\n"
    "    }\n"
    "    commit();\n"
    "    while (block < ROW_BLOCKS) {\n"
    "      const int after = next_rows(call, o, key0, key1, block + 1), row0 = block * OTHERS;\n"
    "      for (int i = threadIdx.x; i < OTHERS; i += 256) {\n"
    "        const bool live = row0 + i < ROWS;\n"
    "        of_row[stage][0][i] = live ? lse_load(call, o, row0 + i, 0, 0) : -INFINITY;\n"
    "        of_row[stage][1][i] = live ? sums[o * ROWS + row0 + i] : 0.0f;\n"
    "      }\n"
    "      wait0();\n"
    "      __syncthreads();\n"
    "      if (after < ROW_BLOCKS) {\n"
    "        q_fill(call, stages[stage ^ 1], o, after * OTHERS);\n"
    "        dout_fill(call, stages[stage ^ 1] + OTHERS * DOT_LD, o, after * OTHERS);\n"
    "      }\n"
    "      commit();\n"
    "      const uint16_t *tq = stages[stage], *td = tq + OTHERS * DOT_LD;\n"
    "      float s[OTHERS / 8][4] = {}, dp[OTHERS / 8][4] = {};\n"
    "#pragma unroll\n"
    "      for (int j = 0; j < OTHERS / 16; ++j) {\n"
    "        unsigned fb[4];\n"
    "#pragma unroll\n"
    "        for (int k = 0; k < DOT16; ++k) {\n"
    "          fragment<DOT_LD>(fb, tq, 16 * j, 16 * k);\n"
    "          mma(s[2 * j], fk[k], fb);\n"
    "          mma(s[2 * j + 1], fk[k], fb + 2);\n"
    "        }\n"
    "#pragma unroll\n"
    "        for (int k = 0; k < OWN16; ++k) {\n"
    "          fragment<OWN_LD>(fb, td, 16 * j, 16 * k);\n"
    "          mma(dp[2 * j], fv[k], fb);\n"
    "          mma(dp[2 * j + 1], fv[k], fb + 2);\n"
    "        }\n"
    "      }\n";

static const char key_phase_end_text[] =
    "      const bool whole = row0 + OTHERS <= ROWS &&\n"
    "                         block_kind(call, o, row0, row0 + OTHERS, key0, key1) == EVERYTHING;\n"
    "#pragma unroll\n"
    "      for (int j = 0; j < OTHERS / 8; ++j)\n"
    "#pragma unroll\n"
    "        for (int e = 0; e < 4; ++e) {\n"
    "          const int i = 8 * j + 2 * t + e % 2, row = row0 + i, key = keys[e / 2];\n"
    "          const bool seen = key < KEYS && (whole || (row < ROWS && visible(call, o, row, "
    "key)));\n"
    "          score_grad(call, o, row, key, seen, DROPS && seen ? kept(call, o, row, key) : 1.0f, "
    "of_row[stage][0][i], of_row[stage][1][i], "
    "&s[j][e], &dp[j][e]);\n"
    "        }\n"
    "#pragma unroll\n"
    "      for (int j = 0; j < OTHERS / 16; ++j) {\n"
    "        unsigned fa[4], fb[4];\n"
    "        as_operand(fa, s, j);\n"
    "#pragma unroll\n"
    "        for (int c = 0; c < OWN_PART / 16; ++c) {\n"
    "          if (own_part + 16 * c >= OWN) continue;\n"
    "          fragment_t<OWN_LD>(fb, td, 16 * j, own_part + 16 * c);\n"
    "          mma(dv[2 * c], fa, fb);\n"
    "          mma(dv[2 * c + 1], fa, fb + 2);\n"
    "        }\n"
    "        as_operand(fa, dp, j);\n"
    "#pragma unroll\n"
    "        for (int c = 0; c < DOT_PART / 16; ++c) {\n"
    "          if (dot_part + 16 * c >= DOT) continue;\n"
    "          fragment_t<DOT_LD>(fb, tq, 16 * j, dot_part + 16 * c);\n"
    "          mma(dk[2 * c], fa, fb);\n"
    "          mma(dk[2 * c + 1], fa, fb + 2);\n"
    "        }\n"
    "      }\n"
    "      block = after;\n"
    "      stage ^= 1;\n"
    "    }\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 2; ++i) {\n"
    "#pragma unroll\n"
    "      for (int c = 0; c < DOT_PART / 8; ++c)\n"
    "        dk_pair(call, o, keys[i], dot_part + 8 * c + 2 * t, dk[c][2 * i], dk[c][2 * i + 1]);\n"
    "#pragma unroll\n"
    "      for (int c = 0; c < OWN_PART / 8; ++c)\n"
    "        dv_pair(call, o, keys[i], own_part + 8 * c + 2 * t, dv[c][2 * i], dv[c][2 * i + 1]);\n"
    "    }\n"
    "    return;\n"
    "  }\n";

static const char row_phase_text[] =
    "  enum { SPLIT = ROW_SPLIT, GROUPS = 8 / SPLIT, OWN_ROWS = 16 * GROUPS,\n"
    "         PART = (DOT + 16 * SPLIT - 1) / (16 * SPLIT) * 16 };\n"
    "  const int group = warp / SPLIT, part = warp % SPLIT * PART;\n"
    "  const int tiles = (ROWS + OWN_ROWS - 1) / OWN_ROWS;\n"
    "  const int o = blockIdx.x / tiles, row0 = (tiles - 1 - blockIdx.x % tiles) * OWN_ROWS;\n"
    "  const int row1 = least(row0 + OWN_ROWS, ROWS);\n"
    "  const int rows[2] = {row0 + 16 * group + g, row0 + 16 * group + g + 8};\n"
    "  unsigned fq[DOT16][4], fd[OWN16][4];\n"
    "  float lse[2], sum[2], dq[PART / 8][4] = {};\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 2; ++i) {\n"
    "    lse[i] = rows[i] < ROWS ? lse_load(call, o, rows[i], 0, 0) : -INFINITY;\n"
    "    sum[i] = rows[i] < ROWS ? sums[o * ROWS + rows[i]] : 0.0f;\n"
    "  }\n"
    "#pragma unroll\n"
    "  for (int e = 0; e < 4; ++e) {\n"
    "#pragma unroll\n"
    "    for (int k = 0; k < DOT16; ++k) fq[k][e] = q_own(call, o, rows[e % 2], 16 * k + 2 * t + 8 "
    "* (e / 2));\n"
    "#pragma unroll\n"
    "    for (int k = 0; k < OWN16; ++k) fd[k][e] = dout_own(call, o, rows[e % 2], 16 * k + 2 * t "
    "+ 8 * (e / 2));\n"
    "  }\n"
    "  int block = next_keys(call, o, row0, row1, 0), stage = 0;\n"
    "  if (block < KEY_BLOCKS) {\n"
    "    k_fill(call, stages[0], o, block * OTHERS);\n"
    "    v_fill(call, stages[0] + OTHERS * DOT_LD, o, block * OTHERS);\n"
    "  }\n"
    "  commit();\n"
    "  while (block < KEY_BLOCKS) {\n"
    "    const int after = next_keys(call, o, row0, row1, block + 1), key0 = block * OTHERS;\n"
    "    wait0();\n"
    "    __syncthreads();\n"
    "    if (after < KEY_BLOCKS) {\n"
    "      k_fill(call, stages[stage ^ 1], o, after * OTHERS);\n"
    "      v_fill(call, stages[stage ^ 1] + OTHERS * DOT_LD, o, after * OTHERS);\n"
    "    }\n"
    "    commit();\n"
    "    const uint16_t *tk = stages[stage], *tv = tk + OTHERS * DOT_LD;\n"
    "    float s[OTHERS / 8][4] = {}, dp[OTHERS / 8][4] = {};\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < OTHERS / 16; ++j) {\n"
    "      unsigned fb[4];\n"
    "#pragma unroll\n"
    "      for (int k = 0; k < DOT16; ++k) {\n"
    "        fragment<DOT_LD>(fb, tk, 16 * j, 16 * k);\n"
    "        mma(s[2 * j], fq[k], fb);\n"
    "        mma(s[2 * j + 1], fq[k], fb + 2);\n"
    "      }\n"
    "#pragma unroll\n"
    "      for (int k = 0; k < OWN16; ++k) {\n"
    "        fragment<OWN_LD>(fb, tv, 16 * j, 16 * k);\n"
    "        mma(dp[2 * j], fd[k], fb);\n"
    "        mma(dp[2 * j + 1], fd[k], fb + 2);\n"
    "      }\n"
    "    }\n"
    "    const bool whole = key0 + OTHERS <= KEYS &&\n"
    "                       block_kind(call, o, row0, row1, key0, key0 + OTHERS) == EVERYTHING;\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < OTHERS / 8; ++j)\n"
    "#pragma unroll\n"
    "      for (int i = 0; i < 2; ++i) {\n"
    "        const int row = rows[i], key = key0 + 8 * j + 2 * t;\n"
    "        bool seen[2];\n"
    "        float keep[2] = {1.0f, 1.0f};\n"
    "#pragma unroll\n"
    "        for (int x = 0; x < 2; ++x)\n"
    "          seen[x] = row < ROWS && (whole || (key + x < KEYS && visible(call, o, row, key + "
    "x)));\n"
    "        if (DROPS && (seen[0] || seen[1])) kept_pair(call, o, row, key, keep);\n"
    "#pragma unroll\n"
    "        for (int x = 0; x < 2; ++x)\n"
    "          score_grad(call, o, row, key + x, seen[x], keep[x], lse[i], sum[i], &s[j][2 * i + "
    "x], "
    "&dp[j][2 * i + x]);\n"
    "      }\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < OTHERS / 16; ++j) {\n"
    "      unsigned fa[4], fb[4];\n"
    "      as_operand(fa, dp, j);\n"
    "#pragma unroll\n"
    "      for (int c = 0; c < PART / 16; ++c) {\n"
    "        if (part + 16 * c >= DOT) continue;\n"
    "        fragment_t<DOT_LD>(fb, tk, 16 * j, part + 16 * c);\n"
    "        mma(dq[2 * c], fa, fb);\n"
    "        mma(dq[2 * c + 1], fa, fb + 2);\n"
    "      }\n"
    "    }\n"
    "    block = after;\n"
    "    stage ^= 1;\n"
    "  }\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 2; ++i)\n"
    "#pragma unroll\n"
    "    for (int c = 0; c < PART / 8; ++c)\n"
    "      dq_pair(call, o, rows[i], part + 8 * c + 2 * t, dq[c][2 * i], dq[c][2 * i + 1]);\n"
    "}\n";

static void print_entry(const ptc_attention_c_t *self) {
  ptc_str_printf(self->out,
                 "extern \"C\" __global__ void __launch_bounds__(%d) %s(const ptc_kernel_call_t "
                 "arguments) {\n",
                 PTC_CUDA_THREADS, self->kernel->name);
  ptc_cuda_start(self->out, self->kernel);
  ptc_str_append(self->out,
                 "  __shared__ __align__(128) uint16_t stages[2][OTHERS * (DOT_LD + OWN_LD)];\n"
                 "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = "
                 "lane % 4;\n");
}

static int64_t num_tiles(const ptc_attention_c_t *self, int64_t count, int64_t split) {
  const int64_t own = 16 * WARPS / split;
  return self->num_outer * ((count + own - 1) / own);
}

void ptc_cuda_flash(ptc_attention_c_t *self, ptc_kernel_shape_t *out_shape) {
  const sizes_t s = sizes_of(self);
  const ptc_dim_set_t dot = {1, {self->at->dot}};
  static const char by_row[] = "at, 0", by_key[] = "0, at";
  ptc_cuda_attention_common(self);
  ptc_str_printf(self->out,
                 "#define HUGE_VAL ((double)INFINITY)\n"
                 "enum { OTHERS = %" PRId64 ", DOT_LD = %" PRId64 ", OWN_LD = %" PRId64
                 ", DOT16 = %" PRId64 ", OWN16 = %" PRId64 ",\n       ROW_BLOCKS = %" PRId64
                 ", KEY_BLOCKS = %" PRId64 ", DROPS = %d };\n",
                 s.others, round_up(self->dot, 64), round_up(self->num_own, 64),
                 (self->dot + 15) / 16, (self->num_own + 15) / 16,
                 (self->num_rows + s.others - 1) / s.others,
                 (self->num_keys + s.others - 1) / s.others, self->p > 0);
  print_arithmetic(self);
  print_block_kind(self);
  ptc_str_append(self->out, blocks_text);
  print_operand(self, "q", &self->q, by_row, self->num_rows, self->dot);
  print_operand(self, "k", &self->key, by_key, self->num_keys, self->dot);
  print_operand(self, "v", &self->val, by_key, self->num_keys, self->num_own);
  if (!self->grad) {
    print_result(self, "out", &self->out_tensor, &self->own, by_row, self->num_rows, self->num_own);
    ptc_str_printf(self->out, "enum { SPLIT = %" PRId64 " };\n", s.forward_split);
    print_entry(self);
    ptc_str_append(self->out, forward_text);
    ptc_str_append(self->out, forward_end_text);
    const int64_t tiles = num_tiles(self, self->num_rows, s.forward_split);
    *out_shape = ptc_cuda_shape(self->arena, &tiles, 1, 0);
    return;
  }
  print_operand(self, "dout", &self->dout, by_row, self->num_rows, self->num_own);
  print_result(self, "dq", &self->dq, &dot, by_row, self->num_rows, self->dot);
  print_result(self, "dk", &self->dkey, &dot, by_key, self->num_keys, self->dot);
  print_result(self, "dv", &self->dval, &self->own, by_key, self->num_keys, self->num_own);
  ptc_str_printf(self->out, "enum { KEY_SPLIT = %" PRId64 ", ROW_SPLIT = %" PRId64 " };\n",
                 s.key_split, s.row_split);
  ptc_str_append(self->out, score_text);
  print_entry(self);
  ptc_str_append(self->out, "  __shared__ float of_row[2][2][OTHERS];\n");
  ptc_str_append(self->out, row_sums_text);
  ptc_str_append(self->out, key_phase_text);
  ptc_str_append(self->out, key_phase_end_text);
  ptc_str_append(self->out, row_phase_text);
  const int64_t tiles[3] = {(self->num_outer * self->num_rows + 31) / 32,
                            num_tiles(self, self->num_keys, s.key_split),
                            num_tiles(self, self->num_rows, s.row_split)};
  *out_shape = ptc_cuda_shape(self->arena, tiles, 3, self->num_outer * self->num_rows * 4);
}

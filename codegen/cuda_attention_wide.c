// Attention in CUDA whose heads do not fit shared memory whole: columns of q, key, val and dout pass through it
// CHUNK at a time, and are read again where they are needed again. Sums have the order of cuda_attention.c.
// The gradient of the bias has a phase of its own that computes dS once more.
#include <inttypes.h>

#include "codegen/cuda_attention_impl.h"

enum { CHUNK = 64 };

// `move(tile, load)`: 32 rows of CHUNK columns from c0 on, of |count| positions from |first| on.
static const char tiles_text[] =
    "#define FILL(tile, first, count, width, element)                              \\\n"
    "  for (int i = threadIdx.x; i < 32 * CHUNK; i += 256) {                       \\\n"
    "    const int at = (first) + i / CHUNK, c = c0 + i % CHUNK;                    \\\n"
    "    tile[i / CHUNK][i % CHUNK] = at < (count) && c < (width) ? element : 0.0f; \\\n"
    "  }\n"
    // x[i] += the dot product, over this chunk, of row r of ta and row sub + 8 * i of tb.
    "#define DOT_CHUNK(x, width)                                                   \\\n"
    "  {                                                                           \\\n"
    "    const int columns = (width) - c0 < CHUNK ? (width) - c0 : CHUNK;          \\\n"
    "    for (int c = 0; c < columns; ++c)                                         \\\n"
    "      _Pragma(\"unroll\") for (int i = 0; i < 4; ++i)                            \\\n"
    "        x[i] = fmaf(ta[r][c], tb[sub + 8 * i][c], x[i]);                       \\\n"
    "  }\n"
    // sum[column] += the products of row r of |weights| with the columns of this chunk of ta.
    "#define SUM_CHUNK(sum, weights, width)                                        \\\n"
    "  for (int j = 0; j < 32; ++j) {                                              \\\n"
    "    const float w = weights[r][j];                                            \\\n"
    "    _Pragma(\"unroll\") for (int c = 0; c < CHUNK / 8; ++c)                     \\\n"
    "      if (c0 + 8 * c < (width))                                               \\\n"
    "        sum[c0 / 8 + c] = fmaf(w, ta[j][sub + 8 * c], sum[c0 / 8 + c]);       \\\n"
    "  }\n";

static const char forward_text[] =
    "  __shared__ float ta[32][CHUNK + 1], tb[32][CHUNK + 1], tp[32][40];\n"
    "  const int o = blockIdx.x / ROW_TILES, row0 = blockIdx.x % ROW_TILES * 32, row = row0 + r;\n"
    "  const bool live = row < ROWS;\n"
    "  float most = -INFINITY, total = 0.0f, acc[(OWN + 7) / 8] = {};\n"
    "  for (int key0 = 0; key0 < KEYS; key0 += 32) {\n"
    "    bool seen[4], any = false;\n"
    "    for (int i = 0; i < 4; ++i) {\n"
    "      const int key = key0 + sub + 8 * i;\n"
    "      seen[i] = live && key < KEYS && visible(call, o, row, key);\n"
    "      any |= seen[i];\n"
    "    }\n"
    "    if (!__syncthreads_or(any)) continue;\n"
    "    float z[4] = {}, top = -INFINITY;\n"
    "    for (int c0 = 0; c0 < DOT; c0 += CHUNK) {\n"
    "      FILL(ta, row0, ROWS, DOT, q_load(call, o, at, 0, c))\n"
    "      FILL(tb, key0, KEYS, DOT, k_load(call, o, 0, at, c))\n"
    "      __syncthreads();\n"
    "      DOT_CHUNK(z, DOT)\n"
    "      __syncthreads();\n"
    "    }\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 4; ++i) {\n"
    "      z[i] = seen[i] ? capped(z[i]) + bias(call, o, row, key0 + sub + 8 * i) : -INFINITY;\n"
    "      top = (z[i] > top || z[i] != z[i]) ? z[i] : top;\n"
    "    }\n"
    "    top = max8(top);\n"
    "    const float next = (top > most || top != top) ? top : most;\n"
    "    const float shrink = most == next ? 1.0f : ptc_exp(most - next);\n"
    "    float sum = 0.0f;\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 4; ++i) {\n"
    "      const float p = seen[i] ? ptc_exp(z[i] - next) : 0.0f;\n"
    "      sum += p;\n"
    "      tp[r][sub + 8 * i] = seen[i] ? p * kept(call, o, row, key0 + sub + 8 * i) : 0.0f;\n"
    "    }\n"
    "    total = total * shrink + sum8(sum);\n"
    "    most = next;\n"
    "#pragma unroll\n"
    "    for (int c = 0; c < (OWN + 7) / 8; ++c) acc[c] *= shrink;\n"
    "#pragma unroll\n"
    "    for (int c0 = 0; c0 < OWN; c0 += CHUNK) {\n"
    "      FILL(ta, key0, KEYS, OWN, v_load(call, o, 0, at, c))\n"
    "      __syncthreads();\n"
    "      SUM_CHUNK(acc, tp, OWN)\n"
    "      __syncthreads();\n"
    "    }\n"
    "  }\n"
    "  if (!live) return;\n"
    "#pragma unroll\n"
    "  for (int c = 0; c < (OWN + 7) / 8; ++c)\n"
    "    if (sub + 8 * c < OWN)\n"
    "      out_store(call, o, row, 0, sub + 8 * c,\n"
    "                total > 0.0f ? acc[c] / total : total != total ? total : 0.0f);\n"
    "  if (sub == 0)\n"
    "    lse_store(call, o, row, 0, 0, total > 0.0f ? most + ptc_log(total)\n"
    "                                  : total != total ? total : -INFINITY);\n"
    "}\n";

// One block: the rows (phase 2) or keys (1) own0 + 0..31, and all blocks of the other side.
static const char backward_text[] =
    "  __shared__ float ta[32][CHUNK + 1], tb[32][CHUNK + 1], tp[32][40], ts[32][40];\n"
    "  const bool by_key = call->phase == 1;\n"
    "  if (call->phase < 3) {\n"
    "    const int own_tiles = by_key ? KEY_TILES : ROW_TILES, own_count = by_key ? KEYS : ROWS;\n"
    "    const int other_count = by_key ? ROWS : KEYS;\n"
    "    const int o = blockIdx.x / own_tiles, own0 = blockIdx.x % own_tiles * 32;\n"
    "    const bool live = own0 + r < own_count;\n"
    "    float grad_a[(DOT + 7) / 8] = {}, grad_b[(OWN + 7) / 8] = {};\n"
    "    for (int other0 = 0; other0 < other_count; other0 += 32) {\n"
    "      const int row0 = by_key ? other0 : own0, key0 = by_key ? own0 : other0;\n"
    "      bool seen[4], any = false;\n"
    "      for (int i = 0; i < 4; ++i) {\n"
    "        const int other = other0 + sub + 8 * i;\n"
    "        seen[i] = live && other < other_count &&\n"
    "                  visible(call, o, by_key ? other : own0 + r, by_key ? own0 + r : other);\n"
    "        any |= seen[i];\n"
    "      }\n"
    "      if (!__syncthreads_or(any)) continue;\n"
    "      float z[4] = {}, dp[4] = {};\n"
    "      for (int c0 = 0; c0 < DOT; c0 += CHUNK) {\n"
    "        if (by_key) {\n"
    "          FILL(ta, key0, KEYS, DOT, k_load(call, o, 0, at, c))\n"
    "          FILL(tb, row0, ROWS, DOT, q_load(call, o, at, 0, c))\n"
    "        } else {\n"
    "          FILL(ta, row0, ROWS, DOT, q_load(call, o, at, 0, c))\n"
    "          FILL(tb, key0, KEYS, DOT, k_load(call, o, 0, at, c))\n"
    "        }\n"
    "        __syncthreads();\n"
    "        DOT_CHUNK(z, DOT)\n"
    "        __syncthreads();\n"
    "      }\n"
    "      for (int c0 = 0; c0 < OWN; c0 += CHUNK) {\n"
    "        if (by_key) {\n"
    "          FILL(ta, key0, KEYS, OWN, v_load(call, o, 0, at, c))\n"
    "          FILL(tb, row0, ROWS, OWN, dout_load(call, o, at, 0, c))\n"
    "        } else {\n"
    "          FILL(ta, row0, ROWS, OWN, dout_load(call, o, at, 0, c))\n"
    "          FILL(tb, key0, KEYS, OWN, v_load(call, o, 0, at, c))\n"
    "        }\n"
    "        __syncthreads();\n"
    "        DOT_CHUNK(dp, OWN)\n"
    "        __syncthreads();\n"
    "      }\n"
    "#pragma unroll\n"
    "      for (int i = 0; i < 4; ++i) {\n"
    "        const int other = other0 + sub + 8 * i;\n"
    "        const int row = by_key ? other : own0 + r, key = by_key ? own0 + r : other;\n"
    "        float p = 0.0f, keep = 0.0f, ds = 0.0f;\n"
    "        if (seen[i]) {\n"
    "          const float c = capped(z[i]), lse = lse_load(call, o, row, 0, 0);\n"
    "          p = lse == -INFINITY ? 0.0f : ptc_exp(c + bias(call, o, row, key) - lse);\n"
    "          keep = kept(call, o, row, key);\n"
    "          ds = p * (keep * dp[i] - sums[o * ROWS + row]) * slope(c);\n"
    "        }\n"
    "        tp[r][sub + 8 * i] = p * keep;\n"
    "        ts[r][sub + 8 * i] = ds;\n"
    "      }\n"
    "      if (by_key) {\n"
    "#pragma unroll\n"
    "        for (int c0 = 0; c0 < OWN; c0 += CHUNK) {\n"
    "          FILL(ta, row0, ROWS, OWN, dout_load(call, o, at, 0, c))\n"
    "          __syncthreads();\n"
    "          SUM_CHUNK(grad_b, tp, OWN)\n"
    "          __syncthreads();\n"
    "        }\n"
    "      }\n"
    "#pragma unroll\n"
    "      for (int c0 = 0; c0 < DOT; c0 += CHUNK) {\n"
    "        if (by_key) {\n"
    "          FILL(ta, row0, ROWS, DOT, q_load(call, o, at, 0, c))\n"
    "        } else {\n"
    "          FILL(ta, key0, KEYS, DOT, k_load(call, o, 0, at, c))\n"
    "        }\n"
    "        __syncthreads();\n"
    "        SUM_CHUNK(grad_a, ts, DOT)\n"
    "        __syncthreads();\n"
    "      }\n"
    "    }\n"
    "    if (!live) return;\n"
    "#pragma unroll\n"
    "    for (int c = 0; c < (DOT + 7) / 8; ++c) {\n"
    "      if (sub + 8 * c >= DOT) continue;\n"
    "      if (by_key) dk_store(call, o, 0, own0 + r, sub + 8 * c, grad_a[c]);\n"
    "      else dq_store(call, o, own0 + r, 0, sub + 8 * c, grad_a[c]);\n"
    "    }\n"
    "    if (by_key)\n"
    "#pragma unroll\n"
    "      for (int c = 0; c < (OWN + 7) / 8; ++c)\n"
    "        if (sub + 8 * c < OWN) dv_store(call, o, 0, own0 + r, sub + 8 * c, grad_b[c]);\n"
    "    return;\n"
    "  }\n";

// Phase 3: 32 rows and 32 keys of the bias; what the bias lacks is walked, and added in f64. A bias without
// keys is one column.
static const char bias_text[] =
    "  const int tile = blockIdx.x / BIAS_KEY_TILES % BIAS_ROW_TILES, rb0 = tile * 32;\n"
    "  const int ob = blockIdx.x / BIAS_KEY_TILES / BIAS_ROW_TILES;\n"
    "  const int first_key = blockIdx.x % BIAS_KEY_TILES * 32;\n"
    "  const int last_key = BIAS_HAS_KEYS ? first_key + 1 : KEYS;\n"
    "  const bool live = rb0 + r < BIAS_ROWS;\n"
    "  double grad[4] = {};\n"
    "  for (int inner = 0; inner < BIAS_INNER_OUTER * BIAS_INNER_ROWS; ++inner) {\n"
    "    const int o = bias_outer(ob, inner / BIAS_INNER_ROWS), ri = inner % BIAS_INNER_ROWS;\n"
    "    const int row = live ? bias_row(rb0 + r, ri) : 0;\n"
    "    for (int key0 = first_key; key0 < last_key; key0 += 32) {\n"
    "      bool seen[4], any = false;\n"
    "      for (int i = 0; i < 4; ++i) {\n"
    "        const int key = key0 + sub + 8 * i;\n"
    "        seen[i] = live && key < KEYS && visible(call, o, row, key);\n"
    "        any |= seen[i];\n"
    "      }\n"
    "      if (!__syncthreads_or(any)) continue;\n"
    "      float z[4] = {}, dp[4] = {};\n"
    "      for (int c0 = 0; c0 < DOT; c0 += CHUNK) {\n"
    "        FILL(ta, rb0, BIAS_ROWS, DOT, q_load(call, o, bias_row(at, ri), 0, c))\n"
    "        FILL(tb, key0, KEYS, DOT, k_load(call, o, 0, at, c))\n"
    "        __syncthreads();\n"
    "        DOT_CHUNK(z, DOT)\n"
    "        __syncthreads();\n"
    "      }\n"
    "      for (int c0 = 0; c0 < OWN; c0 += CHUNK) {\n"
    "        FILL(ta, rb0, BIAS_ROWS, OWN, dout_load(call, o, bias_row(at, ri), 0, c))\n"
    "        FILL(tb, key0, KEYS, OWN, v_load(call, o, 0, at, c))\n"
    "        __syncthreads();\n"
    "        DOT_CHUNK(dp, OWN)\n"
    "        __syncthreads();\n"
    "      }\n"
    "#pragma unroll\n"
    "      for (int i = 0; i < 4; ++i) {\n"
    "        if (!seen[i]) continue;\n"
    "        const int key = key0 + sub + 8 * i;\n"
    "        const float lse = lse_load(call, o, row, 0, 0);\n"
    "        const float p =\n"
    "            lse == -INFINITY ? 0.0f : ptc_exp(capped(z[i]) + bias(call, o, row, key) - lse);\n"
    "        grad[i] += p * (kept(call, o, row, key) * dp[i] - sums[o * ROWS + row]);\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "  if (BIAS_HAS_KEYS) {\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 4; ++i) {\n"
    "      const int key = first_key + sub + 8 * i;\n"
    "      if (live && key < KEYS)\n"
    "        dbias_store(call, bias_outer(ob, 0), bias_row(rb0 + r, 0), key, 0, (float)grad[i]);\n"
    "    }\n"
    "    return;\n"
    "  }\n"
    "  double sum = grad[0] + grad[1] + (grad[2] + grad[3]);\n"
    "  for (int d = 1; d < 8; d *= 2) sum += __shfl_xor_sync(~0u, sum, d);\n"
    "  if (live && sub == 0)\n"
    "    dbias_store(call, bias_outer(ob, 0), bias_row(rb0 + r, 0), 0, 0, (float)sum);\n"
    "}\n";

void ptc_cuda_attention_wide_prelude(const ptc_attention_c_t *self) {
  ptc_str_printf(self->out, "enum { CHUNK = %d };\n", CHUNK);
  ptc_str_append(self->out, tiles_text);
}

void ptc_cuda_attention_wide_forward(const ptc_attention_c_t *self) {
  ptc_str_append(self->out, forward_text);
}

// `static inline int NAME(int in, int out)`: the position among |set| whose dims that the bias has are at |in|,
// the others at |out|. The number of points of either.
static void print_position(const ptc_attention_c_t *self, const char *name,
                           const ptc_dim_set_t *set, int64_t *out_in, int64_t *out_out) {
  ptc_str_printf(self->out, "static inline int %s(int in, int out) {\n  return 0", name);
  int64_t after = 1, points[2] = {1, 1};
  for (int32_t i = set->count - 1; i >= 0; --i) {
    const int32_t d = set->dims[i];
    const int64_t extent = self->kernel->dims[d].extent;
    const int of = ptc_attention_has(&self->dbias, d) ? 0 : 1;
    if (extent > 1)
      ptc_str_printf(self->out, " + %s / %" PRId64 " %% %" PRId64 " * %" PRId64, of ? "out" : "in",
                     points[of], extent, after);
    points[of] *= extent;
    after *= extent;
  }
  ptc_str_append(self->out, ";\n}\n");
  *out_in = points[0];
  *out_out = points[1];
}

int64_t ptc_cuda_attention_bias_prelude(const ptc_attention_c_t *self) {
  int64_t outer, inner_outer, rows, inner_rows;
  print_position(self, "bias_outer", &self->outer, &outer, &inner_outer);
  print_position(self, "bias_row", &self->rows, &rows, &inner_rows);
  const bool has_keys = ptc_attention_has(&self->dbias, self->at->attend);
  const int64_t row_tiles = (rows + 31) / 32, key_tiles = has_keys ? (self->num_keys + 31) / 32 : 1;
  ptc_str_printf(self->out,
                 "enum { BIAS_ROWS = %" PRId64 ", BIAS_ROW_TILES = %" PRId64
                 ", BIAS_KEY_TILES = %" PRId64 ", BIAS_HAS_KEYS = %d, BIAS_INNER_OUTER = %" PRId64
                 ", BIAS_INNER_ROWS = %" PRId64 " };\n",
                 rows, row_tiles, key_tiles, has_keys, inner_outer, inner_rows);
  return outer * row_tiles * key_tiles;
}

void ptc_cuda_attention_wide_backward(const ptc_attention_c_t *self) {
  ptc_str_append(self->out, backward_text);
  ptc_str_append(self->out, self->dbias.param >= 0 ? bias_text : "}\n");
}

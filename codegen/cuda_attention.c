// Blocked attention in CUDA, in f32: tiles of 32 rows by 32 keys, eight threads a row. A block of keys that
// the mask rules out is neither read nor computed. The gradient has three phases: D = sum(dout * out) of
// each row; dkey and dval by blocks of keys; dq by blocks of rows; and a fourth for the gradient of a bias.
// Nothing is added atomically.
#include <inttypes.h>

#include "codegen/cuda_attention_impl.h"

enum { TILE = 32, SHARED_BYTES = 48 << 10, MAX_WIDTH = 512 };

// `static inline int64_t NAME_offset(int o, int row, int key, int c)`: the element of |tensor| at outer point o,
// row, key and column.
static void print_offset(const ptc_attention_c_t *self, const char *name,
                         const ptc_attention_tensor_t *tensor, const ptc_dim_set_t *columns) {
  const ptc_kernel_t *kernel = self->kernel;
  const ptc_dim_set_t attend = {1, {self->at->attend}};
  const ptc_dim_set_t *const sets[] = {&self->outer, &self->rows, &attend, columns};
  static const char *const variables[] = {"o", "row", "key", "c"};
  ptc_str_printf(
      self->out,
      "static inline int64_t %s_offset(int o, int row, int key, int c) {\n  return %" PRId64, name,
      tensor->address.base);
  for (int32_t s = 0; s < 4; ++s) {
    int64_t after = 1;
    for (int32_t i = sets[s] ? sets[s]->count - 1 : -1; i >= 0; --i) {
      const int32_t d = sets[s]->dims[i];
      const int64_t extent = kernel->dims[d].extent, stride = tensor->address.coef[d];
      if (stride && extent > 1)
        ptc_str_printf(self->out, " + (int64_t)(%s / %" PRId64 " %% %" PRId64 ") * %" PRId64,
                       variables[s], after, extent, stride);
      after *= extent;
    }
  }
  ptc_str_append(self->out, ";\n}\n");
}

// `static inline float NAME_load(call, o, row, key, c)`.
static void print_load(const ptc_attention_c_t *self, const char *name,
                       const ptc_attention_tensor_t *tensor, const ptc_dim_set_t *columns) {
  if (tensor->param < 0) return;
  print_offset(self, name, tensor, columns);
  const char *element =
      ptc_arena_printf(self->arena, "((const %s *)call->params[%d])[%s_offset(o, row, key, c)]",
                       ptc_c_storage_type(tensor->dtype), tensor->param, name);
  ptc_str_printf(self->out,
                 "static inline float %s_load(const ptc_kernel_call_t *call, int o, int row, int "
                 "key, int c) {\n"
                 "  return %s;\n}\n",
                 name, ptc_c_from_storage(self->arena, tensor->dtype, element));
}

// `static inline void NAME_store(call, o, row, key, c, x)`.
static void print_save(const ptc_attention_c_t *self, const char *name,
                       const ptc_attention_tensor_t *tensor, const ptc_dim_set_t *columns) {
  if (tensor->param < 0) return;
  print_offset(self, name, tensor, columns);
  ptc_str_printf(self->out,
                 "static inline void %s_store(const ptc_kernel_call_t *call, int o, int row, int "
                 "key, int c, float "
                 "x) {\n"
                 "  ((%s *)call->params[%d])[%s_offset(o, row, key, c)] = %s;\n}\n",
                 name, ptc_c_storage_type(tensor->dtype), tensor->param, name,
                 ptc_c_to_storage(self->arena, tensor->dtype, "x"));
}

void ptc_cuda_attention_open_score(const ptc_attention_c_t *self, const char *head,
                                   ptc_c_scope_t *scope) {
  const ptc_kernel_t *kernel = self->kernel;
  ptc_str_append(self->out, head);
  ptc_cuda_declare(self->out, kernel);
  ptc_cuda_scope_init(scope, self->arena, kernel);
  const ptc_dim_set_t *const sets[] = {&self->outer, &self->rows};
  static const char *const variables[] = {"o", "row"};
  for (int32_t s = 0; s < 2; ++s) {
    int64_t after = 1;
    for (int32_t i = sets[s]->count - 1; i >= 0; --i) {
      const int32_t d = sets[s]->dims[i];
      ptc_str_printf(self->out, "  const int %s = %s / %" PRId64 " %% %" PRId64 ";\n",
                     scope->index_text[d], variables[s], after, kernel->dims[d].extent);
      after *= kernel->dims[d].extent;
    }
  }
  ptc_str_printf(self->out, "  const int %s = key;\n", scope->index_text[self->at->attend]);
}

static void print_of_score(const ptc_attention_c_t *self, const char *type, const char *name,
                           ptc_kx_t expr, const char *otherwise) {
  const char *head = ptc_arena_printf(
      self->arena,
      "static inline %s %s(const ptc_kernel_call_t *call, int o, int row, int key) {\n", type,
      name);
  if (expr == PTC_KX_NONE) {
    ptc_str_printf(self->out, "%s  return %s;\n}\n", head, otherwise);
    return;
  }
  ptc_c_scope_t scope;
  ptc_cuda_attention_open_score(self, head, &scope);
  ptc_c_eval(&scope, expr, 2, self->out);
  ptc_str_printf(self->out, "  return %s;\n}\n", scope.value_text[expr]);
}

// What is common to both directions: sizes, operands, the score and its mask, bias and dropout.
static void print_scores(const ptc_attention_c_t *self) {
  ptc_str_t *out = self->out;
  ptc_cuda_prelude(out, self->kernel);
  const ptc_dim_set_t dot = {1, {self->at->dot}};
  ptc_str_printf(out,
                 "enum { ROWS = %" PRId64 ", KEYS = %" PRId64 ", DOT = %" PRId64 ", OWN = %" PRId64
                 ", ROW_TILES = %" PRId64 ", KEY_TILES = %" PRId64 " };\n",
                 self->num_rows, self->num_keys, self->dot, self->num_own,
                 (self->num_rows + TILE - 1) / TILE, (self->num_keys + TILE - 1) / TILE);
  print_load(self, "q", &self->q, &dot);
  print_load(self, "k", &self->key, &dot);
  print_load(self, "v", &self->val, &self->own);
  print_of_score(self, "bool", "visible", self->at->mask, "true");
  print_of_score(self, "float", "bias", self->at->bias, "0.0f");
  print_of_score(self, "float", "uniform", self->random, "1.0f");
  const char *scale = ptc_attention_float(self->arena, self->scale);
  const char *cap = ptc_attention_float(self->arena, self->softcap);
  if (self->softcap > 0)
    ptc_str_printf(
        out,
        "static inline float capped(float z) { return %s * ptc_tanh(z * %s / %s); }\n"
        "static inline float slope(float c) { return %s * (1.0f - (c / %s) * (c / %s)); }\n",
        cap, scale, cap, scale, cap, cap);
  else
    ptc_str_printf(out,
                   "static inline float capped(float z) { return z * %s; }\n"
                   "static inline float slope(float c) { return %s; }\n",
                   scale, scale);
  if (self->p > 0)
    ptc_str_printf(
        out,
        "static inline float kept(const ptc_kernel_call_t *call, int o, int row, int key) {\n"
        "  return uniform(call, o, row, key) >= %s ? %s : 0.0f;\n}\n",
        ptc_attention_float(self->arena, self->p),
        ptc_attention_float(self->arena, 1 / (1 - self->p)));
  else
    ptc_str_append(
        out,
        "static inline float kept(const ptc_kernel_call_t *call, int o, int row, int key) {\n"
        "  return 1.0f;\n}\n");
  ptc_str_append(out,
                 // The sum of eight neighbours, and their maximum; every one gets it.
                 "static inline float sum8(float x) {\n"
                 "  for (int d = 1; d < 8; d *= 2) x += __shfl_xor_sync(~0u, x, d);\n"
                 "  return x;\n}\n"
                 "static inline float max8(float x) {\n"
                 "  for (int d = 1; d < 8; d *= 2) {\n"
                 "    const float y = __shfl_xor_sync(~0u, x, d);\n"
                 "    x = (y > x || y != y) ? y : x;\n"
                 "  }\n"
                 "  return x;\n}\n");
}

void ptc_cuda_attention_common(const ptc_attention_c_t *self) {
  const ptc_dim_set_t dot = {1, {self->at->dot}};
  print_scores(self);
  if (!self->grad) {
    print_save(self, "out", &self->out_tensor, &self->own);
    print_save(self, "lse", &self->lse, NULL);
    return;
  }
  print_load(self, "out", &self->out_tensor, &self->own);
  print_load(self, "lse", &self->lse, NULL);
  print_load(self, "dout", &self->dout, &self->own);
  print_save(self, "dq", &self->dq, &dot);
  print_save(self, "dk", &self->dkey, &dot);
  print_save(self, "dv", &self->dval, &self->own);
  print_save(self, "dbias", &self->dbias, NULL);
  ptc_str_printf(self->out, "enum { OUTER = %" PRId64 ", NUM_PARAMS = %d };\n", self->num_outer,
                 self->kernel->num_params);
}

// |blocks|: how many are to run on a multiprocessor at a time, which bounds the registers; 0: NVRTC's choice.
static void print_entry(const ptc_attention_c_t *self, int32_t blocks) {
  ptc_str_printf(self->out, "extern \"C\" __global__ void __launch_bounds__(%d", PTC_CUDA_THREADS);
  if (blocks) ptc_str_printf(self->out, ", %d", (int)blocks);
  ptc_str_printf(self->out, ") %s(const ptc_kernel_call_t arguments) {\n", self->kernel->name);
  ptc_cuda_start(self->out, self->kernel);
  ptc_str_append(self->out, "  const int r = threadIdx.x / 8, sub = threadIdx.x % 8;\n");
}

// Rows of an odd number of words, so that a column's words of eight neighbouring rows lie in different banks; of scores,
// of which a warp has four rows of eight at a time, 40. A warp fills along one row.
static const char tiles_text[] =
    "enum { DOT_LD = DOT | 1, OWN_LD = OWN | 1 };\n"
    "#define FILL(tile, first, count, width, element)      \\\n"
    "  for (int i = threadIdx.x / 32; i < 32; i += 8)      \\\n"
    "    for (int c = threadIdx.x % 32; c < (width); c += 32) { \\\n"
    "      const int at = (first) + i;                     \\\n"
    "      tile[i][c] = at < (count) ? element : 0.0f;     \\\n"
    "    }\n";

static const char forward_text[] =
    "  __shared__ float tq[32][DOT_LD], tk[32][DOT_LD], tv[32][OWN_LD], tp[32][40];\n"
    "  const int o = blockIdx.x / ROW_TILES, row0 = blockIdx.x % ROW_TILES * 32, row = row0 + r;\n"
    "  const bool live = row < ROWS;\n"
    "  FILL(tq, row0, ROWS, DOT, q_load(call, o, at, 0, c))\n"
    "  float most = -INFINITY, total = 0.0f, acc[(OWN + 7) / 8] = {};\n"
    "  for (int key0 = 0; key0 < KEYS; key0 += 32) {\n"
    "    bool seen[4], any = false;\n"
    "    for (int i = 0; i < 4; ++i) {\n"
    "      const int key = key0 + sub + 8 * i;\n"
    "      seen[i] = live && key < KEYS && visible(call, o, row, key);\n"
    "      any |= seen[i];\n"
    "    }\n"
    "    if (!__syncthreads_or(any)) continue;\n"
    "    FILL(tk, key0, KEYS, DOT, k_load(call, o, 0, at, c))\n"
    "    FILL(tv, key0, KEYS, OWN, v_load(call, o, 0, at, c))\n"
    "    __syncthreads();\n"
    "    float z[4] = {}, top = -INFINITY;\n"
    "    for (int c = 0; c < DOT; ++c)\n"
    "#pragma unroll\n"
    "      for (int i = 0; i < 4; ++i) z[i] = fmaf(tq[r][c], tk[sub + 8 * i][c], z[i]);\n"
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
    "    __syncwarp();\n"
    "#pragma unroll\n"
    "    for (int c = 0; c < (OWN + 7) / 8; ++c) acc[c] *= shrink;\n"
    "    for (int j = 0; j < 32; ++j) {\n"
    "      const float p = tp[r][j];\n"
    "#pragma unroll\n"
    "      for (int c = 0; c < (OWN + 7) / 8; ++c)\n"
    "        if (sub + 8 * c < OWN) acc[c] = fmaf(p, tv[j][sub + 8 * c], acc[c]);\n"
    "    }\n"
    "    __syncthreads();\n"
    "  }\n"
    "  if (!live) return;\n"
    "#pragma unroll\n"
    "  for (int c = 0; c < (OWN + 7) / 8; ++c)\n"
    "    if (sub + 8 * c < OWN) out_store(call, o, row, 0, sub + 8 * c, total > 0.0f ? acc[c] / "
    "total : total != "
    "total ? total : 0.0f);\n"
    "  if (sub == 0) lse_store(call, o, row, 0, 0, total > 0.0f ? most + ptc_log(total) : total != "
    "total ? total : "
    "-INFINITY);\n"
    "}\n";

static const char row_sums_text[] =
    "  float *const sums = (float *)call->params[NUM_PARAMS];\n"
    "  if (call->phase == 0) {\n"
    "    const int at = blockIdx.x * 32 + r, o = at / ROWS, row = at % ROWS;\n"
    "    const bool live = at < OUTER * ROWS;\n"
    "    float sum = 0.0f;\n"
    "    for (int c = sub; live && c < OWN; c += 8)\n"
    "      sum = fmaf(dout_load(call, o, row, 0, c), out_load(call, o, row, 0, c), sum);\n"
    "    sum = sum8(sum);\n"
    "    if (live && sub == 0) sums[at] = sum;\n"
    "    return;\n"
    "  }\n";

// Phases 1 and 2 compute, for a tile of rows and keys, P with dropout and dS; the thread owns one row (2) or
// one key (1) and every eighth of the other side.
static const char backward_text[] =
    "  __shared__ float own_a[32][DOT_LD], own_b[32][OWN_LD], other_a[32][DOT_LD], "
    "other_b[32][OWN_LD];\n"
    "  __shared__ float ts[32][40];\n"
    "  const bool by_key = call->phase == 1;\n"
    "  const int own_tiles = by_key ? KEY_TILES : ROW_TILES, own_count = by_key ? KEYS : ROWS;\n"
    "  const int other_count = by_key ? ROWS : KEYS;\n"
    "  const int o = blockIdx.x / own_tiles, own0 = blockIdx.x % own_tiles * 32;\n"
    "  const bool live = own0 + r < own_count;\n"
    // a: q or key; b: dout or val.
    "  FILL(own_a, own0, own_count, DOT,\n"
    "       (by_key ? k_load(call, o, 0, at, c) : q_load(call, o, at, 0, c)))\n"
    "  FILL(own_b, own0, own_count, OWN,\n"
    "       (by_key ? v_load(call, o, 0, at, c) : dout_load(call, o, at, 0, c)))\n";

static const char backward_loop_text[] =
    "  float grad_a[(DOT + 7) / 8] = {}, grad_b[(OWN + 7) / 8] = {};\n"
    "  for (int other0 = 0; other0 < other_count; other0 += 32) {\n"
    "    bool seen[4], any = false;\n"
    "    for (int i = 0; i < 4; ++i) {\n"
    "      const int other = other0 + sub + 8 * i;\n"
    "      seen[i] = live && other < other_count &&\n"
    "                visible(call, o, by_key ? other : own0 + r, by_key ? own0 + r : other);\n"
    "      any |= seen[i];\n"
    "    }\n"
    "    if (!__syncthreads_or(any)) continue;\n"
    "    FILL(other_a, other0, other_count, DOT,\n"
    "         (by_key ? q_load(call, o, at, 0, c) : k_load(call, o, 0, at, c)))\n"
    "    FILL(other_b, other0, other_count, OWN,\n"
    "         (by_key ? dout_load(call, o, at, 0, c) : v_load(call, o, 0, at, c)))\n"
    "    __syncthreads();\n"
    "    float z[4] = {}, dp[4] = {}, ds[4];\n"
    "    for (int c = 0; c < DOT; ++c)\n"
    "#pragma unroll\n"
    "      for (int i = 0; i < 4; ++i) z[i] = fmaf(own_a[r][c], other_a[sub + 8 * i][c], z[i]);\n"
    "    for (int c = 0; c < OWN; ++c)\n"
    "#pragma unroll\n"
    "      for (int i = 0; i < 4; ++i) dp[i] = fmaf(own_b[r][c], other_b[sub + 8 * i][c], dp[i]);\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 4; ++i) {\n"
    "      const int other = other0 + sub + 8 * i;\n"
    "      const int row = by_key ? other : own0 + r, key = by_key ? own0 + r : other;\n"
    "      float p = 0.0f, keep = 0.0f;\n"
    "      ds[i] = 0.0f;\n"
    "      if (seen[i]) {\n"
    "        const float c = capped(z[i]), lse = lse_load(call, o, row, 0, 0);\n"
    "        p = lse == -INFINITY ? 0.0f : ptc_exp(c + bias(call, o, row, key) - lse);\n"
    "        keep = kept(call, o, row, key);\n"
    "        ds[i] = p * (keep * dp[i] - sums[o * ROWS + row]) * slope(c);\n"
    "      }\n"
    "      ts[r][sub + 8 * i] = p * keep;\n"
    "    }\n"
    "    __syncwarp();\n"
    "    if (by_key)\n"
    "      for (int j = 0; j < 32; ++j) {\n"
    "        const float p = ts[r][j];\n"
    "#pragma unroll\n"
    "        for (int c = 0; c < (OWN + 7) / 8; ++c)\n"
    "          if (sub + 8 * c < OWN) grad_b[c] = fmaf(p, other_b[j][sub + 8 * c], grad_b[c]);\n"
    "      }\n"
    "    __syncwarp();\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 4; ++i) ts[r][sub + 8 * i] = ds[i];\n"
    "    __syncwarp();\n"
    "    for (int j = 0; j < 32; ++j) {\n"
    "      const float s = ts[r][j];\n"
    "#pragma unroll\n"
    "      for (int c = 0; c < (DOT + 7) / 8; ++c)\n"
    "        if (sub + 8 * c < DOT) grad_a[c] = fmaf(s, other_a[j][sub + 8 * c], grad_a[c]);\n"
    "    }\n"
    "    __syncthreads();\n"
    "  }\n"
    "  if (!live) return;\n"
    "#pragma unroll\n"
    "  for (int c = 0; c < (DOT + 7) / 8; ++c) {\n"
    "    if (sub + 8 * c >= DOT) continue;\n"
    "    if (by_key) dk_store(call, o, 0, own0 + r, sub + 8 * c, grad_a[c]);\n"
    "    else dq_store(call, o, own0 + r, 0, sub + 8 * c, grad_a[c]);\n"
    "  }\n"
    "  if (by_key)\n"
    "#pragma unroll\n"
    "    for (int c = 0; c < (OWN + 7) / 8; ++c)\n"
    "      if (sub + 8 * c < OWN) dv_store(call, o, 0, own0 + r, sub + 8 * c, grad_b[c]);\n"
    "}\n";

// Whether a tile of each operand fits shared memory whole.
static bool is_wide(const ptc_attention_c_t *self) {
  const int64_t dot = self->dot | 1, own = self->num_own | 1;
  const int64_t floats = self->grad ? 2 * (dot + own) + 40 : 2 * dot + own + 40;
  return floats * TILE * 4 > SHARED_BYTES;
}

// Sums of a row stand in registers.
static ptc_status_t check_size(const ptc_attention_c_t *self) {
  if (self->dot <= MAX_WIDTH && self->num_own <= MAX_WIDTH) return PTC_OK;
  return ptc_error(self->diag, self->kernel->loc, PTC_UNSUPPORTED, "codegen-unsupported",
                   "attention kernel \"%s\" has heads of %" PRId64 " and %" PRId64
                   " elements; CUDA kernels have at most %d: compile with --target cpu",
                   self->kernel->name, self->dot, self->num_own, MAX_WIDTH);
}

static void print_forward(ptc_attention_c_t *self, ptc_kernel_shape_t *out_shape) {
  const bool wide = is_wide(self);
  if (wide)
    ptc_cuda_attention_wide_prelude(self);
  else
    ptc_str_append(self->out, tiles_text);
  print_entry(self, !wide ? 0 : self->num_own <= 256 ? 2 : 1);
  if (wide)
    ptc_cuda_attention_wide_forward(self);
  else
    ptc_str_append(self->out, forward_text);
  const int64_t tiles = self->num_outer * ((self->num_rows + TILE - 1) / TILE);
  *out_shape = ptc_cuda_shape(self->arena, &tiles, 1, 0);
}

static void print_backward(ptc_attention_c_t *self, ptc_kernel_shape_t *out_shape) {
  const bool has_bias = self->dbias.param >= 0, wide = has_bias || is_wide(self);
  int64_t tiles[4] = {(self->num_outer * self->num_rows + TILE - 1) / TILE,
                      self->num_outer * ((self->num_keys + TILE - 1) / TILE),
                      self->num_outer * ((self->num_rows + TILE - 1) / TILE)};
  if (wide)
    ptc_cuda_attention_wide_prelude(self);
  else
    ptc_str_append(self->out, tiles_text);
  if (has_bias) tiles[3] = ptc_cuda_attention_bias_prelude(self);
  print_entry(self, wide ? 1 : 0);
  ptc_str_append(self->out, row_sums_text);
  if (wide) {
    ptc_cuda_attention_wide_backward(self);
  } else {
    ptc_str_append(self->out, backward_text);
    ptc_str_append(self->out, backward_loop_text);
  }
  *out_shape =
      ptc_cuda_shape(self->arena, tiles, has_bias ? 4 : 3, self->num_outer * self->num_rows * 4);
}

ptc_status_t ptc_cuda_attention(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                                ptc_str_t *out, ptc_kernel_shape_t *out_shape) {
  ptc_attention_c_t self;
  PTC_TRY(ptc_attention_roles(&self, diag, arena, kernel, out));
  if (ptc_cuda_flash_fits(&self)) {
    ptc_cuda_flash(&self, out_shape);
    return PTC_OK;
  }
  PTC_TRY(check_size(&self));
  ptc_cuda_attention_common(&self);
  if (self.grad)
    print_backward(&self, out_shape);
  else
    print_forward(&self, out_shape);
  return PTC_OK;
}

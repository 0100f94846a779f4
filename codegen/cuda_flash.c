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
    "}\n"
    "// Scores of 16 rows of the tile, 16 j on: |own| stays in registers, DEPTH times 16 deep.\n"
    "template <int LD, int DEPTH> static inline void add_scores(float (*s)[4], const unsigned "
    "(*own)[4], "
    "const uint16_t *tile, int j) {\n"
    "  unsigned fb[4];\n"
    "#pragma unroll\n"
    "  for (int k = 0; k < DEPTH; ++k) {\n"
    "    fragment<LD>(fb, tile, 16 * j, 16 * k);\n"
    "    mma(s[2 * j], own[k], fb);\n"
    "    mma(s[2 * j + 1], own[k], fb + 2);\n"
    "  }\n"
    "}\n"
    "// The product of these scores and those rows of a tile, in columns |part| on, which are PART "
    "and less than WIDTH.\n"
    "template <int LD, int WIDTH, int PART> static inline void add_product(float (*sums)[4], const "
    "float (*s)[4], const uint16_t *tile, int part, int j) {\n"
    "  unsigned fa[4], fb[4];\n"
    "  as_operand(fa, s, j);\n"
    "#pragma unroll\n"
    "  for (int c = 0; c < PART / 16; ++c) {\n"
    "    if (part + 16 * c >= WIDTH) continue;\n"
    "    fragment_t<LD>(fb, tile, 16 * j, part + 16 * c);\n"
    "    mma(sums[2 * c], fa, fb);\n"
    "    mma(sums[2 * c + 1], fa, fb + 2);\n"
    "  }\n"
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

// --- the kernel

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
  ptc_str_printf(
      self->out,
      "#define HUGE_VAL ((double)INFINITY)\n"
      "enum { OTHERS = %" PRId64 ", DOT_LD = %" PRId64 ", OWN_LD = %" PRId64 ", DOT16 = %" PRId64
      ", OWN16 = %" PRId64 ",\n       ROW_BLOCKS = %" PRId64 ", KEY_BLOCKS = %" PRId64 " };\n",
      s.others, round_up(self->dot, 64), round_up(self->num_own, 64), (self->dot + 15) / 16,
      (self->num_own + 15) / 16, (self->num_rows + s.others - 1) / s.others,
      (self->num_keys + s.others - 1) / s.others);
  print_arithmetic(self);
  ptc_cuda_flash_scores(self);
  print_operand(self, "q", &self->q, by_row, self->num_rows, self->dot);
  print_operand(self, "k", &self->key, by_key, self->num_keys, self->dot);
  print_operand(self, "v", &self->val, by_key, self->num_keys, self->num_own);
  if (!self->grad) {
    print_result(self, "out", &self->out_tensor, &self->own, by_row, self->num_rows, self->num_own);
    ptc_str_printf(self->out, "enum { SPLIT = %" PRId64 " };\n", s.forward_split);
    print_entry(self);
    ptc_cuda_flash_forward(self);
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
  ptc_cuda_flash_grad_prelude(self);
  print_entry(self);
  ptc_str_append(self->out, "  __shared__ float of_row[2][2][OTHERS];\n");
  ptc_cuda_flash_grad(self);
  const int64_t tiles[3] = {(self->num_outer * self->num_rows + 31) / 32,
                            num_tiles(self, self->num_keys, s.key_split),
                            num_tiles(self, self->num_rows, s.row_split)};
  *out_shape = ptc_cuda_shape(self->arena, tiles, 3, self->num_outer * self->num_rows * 4);
}

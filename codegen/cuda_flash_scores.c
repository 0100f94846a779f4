// Attention on tensor cores: what happens to scores between the products. Which blocks the mask lets through; powers of
// two in the place of those of e; the bits of dropout.
#include <inttypes.h>
#include <math.h>

#include "codegen/cuda_attention_impl.h"

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
    "}\n";

// --- powers

static const char power_text[] =
    "static inline float power2(float x) {\n"
    "  float r;\n"
    "  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(x));\n"
    "  return r;\n"
    "}\n"
    "static inline float quad_sum(float x) {\n"
    "  x += __shfl_xor_sync(~0u, x, 1);\n"
    "  return x + __shfl_xor_sync(~0u, x, 2);\n"
    "}\n"
    "static inline float quad_max(float x) {\n"
    "  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));\n"
    "  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));\n"
    "}\n";

// The probability of a score s is 2 ^ (s * EXPONENT + what the row says). PLAIN: s is the product as it is, whose scale
// is in EXPONENT; otherwise the score with its cap and bias. What gradients lack is a factor at the end: of the
// probabilities KEEP, 1 / (1 - p); of the scores GRAD.
static void print_powers(const ptc_attention_c_t *self) {
  const bool plain = self->at->bias == PTC_KX_NONE && self->softcap <= 0 && self->scale > 0;
  const double keep = self->p > 0 ? 1 / (1 - self->p) : 1;
  ptc_str_printf(self->out,
                 "enum { DROPS = %d, PLAIN = %d };\n"
                 "#define LOG2_E %s\n#define EXPONENT %s\n#define KEEP %s\n#define GRAD %s\n",
                 self->p > 0, plain, ptc_attention_float(self->arena, M_LOG2E),
                 ptc_attention_float(self->arena, M_LOG2E * (plain ? self->scale : 1)),
                 ptc_attention_float(self->arena, keep),
                 ptc_attention_float(self->arena, keep * (plain ? self->scale : 1)));
  ptc_str_append(self->out, power_text);
}

// --- dropout

// Whether the random numbers of four keys, the first a multiple of four, come of one run of Philox.
static bool is_drawn_in_fours(const ptc_attention_c_t *self, const ptc_c_affine_t *place) {
  bool four = place->base % 4 == 0 && place->coef[self->at->attend] == 1;
  for (int32_t d = 0; d < self->kernel->num_dims; ++d)
    four &= d == self->at->attend || place->coef[d] % 4 == 0;
  for (int32_t i = 0; i < place->num_terms; ++i) four &= place->term_coef[i] % 4 == 0;
  return four;
}

// kept_four(call, o, row, key): bit x says whether the score of key + x, of which |key| is a multiple of four, is kept.
static void print_kept_four(const ptc_attention_c_t *self) {
  static const char head[] =
      "static inline unsigned kept_four(const ptc_kernel_call_t *call, int o, int row, int key) "
      "{\n";
  const ptc_kexpr_t *e = &self->kernel->exprs[self->random];
  const ptc_c_affine_t place = ptc_c_affine_of(self->kernel, e->args[0]);
  if (!is_drawn_in_fours(self, &place)) {
    ptc_str_append(self->out, head);
    ptc_str_append(self->out,
                   "  unsigned bits = 0;\n"
                   "  for (int x = 0; x < 4; ++x) bits |= (unsigned)(kept(call, o, row, key + x) "
                   "> 0.0f) << x;\n"
                   "  return bits;\n}\n");
    return;
  }
  ptc_c_scope_t scope;
  ptc_cuda_attention_open_score(self, head, &scope);
  for (int32_t i = 0; i < place.num_terms; ++i) ptc_c_eval(&scope, place.terms[i], 2, self->out);
  for (int32_t i = 1; i < 3; ++i) ptc_c_eval(&scope, e->args[i], 2, self->out);
  const char *hash = ptc_c_hash(&scope, self->random, 2, self->out);
  ptc_str_printf(self->out,
                 "  const uint64_t seed = (uint64_t)%s, block = (uint64_t)(%s) / 4;\n"
                 "  const uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);\n"
                 "  uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = "
                 "(uint32_t)%s, c3 = %s;\n"
                 "  PTC_PHILOX_ROUNDS\n"
                 "  const uint32_t least = %.0f;\n"
                 "  return (c0 >> 8 >= least) | (c1 >> 8 >= least) << 1 | (c2 >> 8 >= least) << 2 "
                 "| (c3 >> 8 >= least) << 3;\n}\n",
                 scope.value_text[e->args[1]], ptc_c_affine_text(&scope, &place),
                 scope.value_text[e->args[2]], hash, ceil(self->p * 0x1p24));
}

// The bits of all scores that a lane holds, bit 4 j + e of s[j][e]. The four lanes whose scores are of the same runs of
// Philox make a fourth of these each, in a loop that is not unrolled, and hand the bits round.
static const char kept_text[] =
    "// Of 16 rows from |row| on and OTHERS keys from |key| on.\n"
    "static inline unsigned kept_of_rows(const ptc_kernel_call_t *call, int o, int row, int key) "
    "{\n"
    "  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;\n"
    "  unsigned drawn = 0, bits = 0;\n"
    "#pragma unroll 1\n"
    "  for (int j = 0; j < OTHERS / 8; ++j)\n"
    "    drawn |= kept_four(call, o, row + g + 8 * (t / 2), key + 8 * j + 4 * (t % 2)) << 4 * j;\n"
    "  for (int i = 0; i < 2; ++i)\n"
    "    bits |= (__shfl_sync(~0u, drawn, 4 * g + 2 * i + t / 2) >> 2 * (t % 2) & 0x33333333u) << "
    "2 * i;\n"
    "  return bits;\n"
    "}\n"
    "// Of 16 keys from |key| on and OTHERS rows from |row| on.\n"
    "static inline unsigned kept_of_keys(const ptc_kernel_call_t *call, int o, int row, int key) "
    "{\n"
    "  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;\n"
    "  unsigned drawn = 0, bits = 0;\n"
    "#pragma unroll 1\n"
    "  for (int j = 0; j < OTHERS / 8; ++j)\n"
    "    drawn |= kept_four(call, o, row + 8 * j + 2 * t + g % 2,\n"
    "                       key + g / 4 * 4 + g / 2 % 2 * 8) << 4 * j;\n"
    "  for (int e = 0; e < 4; ++e)\n"
    "    bits |= (__shfl_sync(~0u, drawn, g / 4 * 16 + 4 * e + t) >> g % 4 & 0x11111111u) << e;\n"
    "  return bits;\n"
    "}\n";

static const char no_drops_text[] =
    "static inline unsigned kept_of_rows(const ptc_kernel_call_t *call, int o, int row, int key) "
    "{ return ~0u; }\n"
    "static inline unsigned kept_of_keys(const ptc_kernel_call_t *call, int o, int row, int key) "
    "{ return ~0u; }\n";

void ptc_cuda_flash_scores(ptc_attention_c_t *self) {
  print_block_kind(self);
  ptc_str_append(self->out, blocks_text);
  print_powers(self);
  if (self->p > 0) print_kept_four(self);
  ptc_str_append(self->out, self->p > 0 ? kept_text : no_drops_text);
}

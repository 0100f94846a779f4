// ldmatrix and mma.sync. Fragment layouts as in the PTX ISA, "Matrix fragments for mma"; group = lane / 4,
// t = lane % 4. Products are exact, their sum with C is formed in double and rounded once: within the bounds
// of the hardware, which leaves the order open.
#include "runtime/gpusim/handlers_impl.h"
#include "runtime/gpusim/numbers_impl.h"

void sim_load_matrix(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_matrix_t *matrix = op->extra;
  if (!sim_together(warp, op, UINT32_MAX, mask)) return;
  uint64_t address[SIM_LANES];
  sim_addresses(warp, op, matrix->address_width, matrix->offset, address);
  uint32_t result[4][SIM_LANES];
  for (int32_t x = 0; x < matrix->count; ++x) {
    uint16_t rows[8][8];
    for (uint32_t r = 0; r < 8; ++r) {
      const uint32_t lane = 8 * (uint32_t)x + r;
      const void *from =
          sim_resolve(warp, op, (int32_t)lane, PTX_SPACE_SHARED, address[lane], 16, SIM_READ);
      if (!from) return;
      memcpy(rows[r], from, 16);
    }
    for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
      const uint32_t g = lane / 4, t = lane % 4;
      result[x][lane] = matrix->transposed ? rows[2 * t][g] | (uint32_t)rows[2 * t + 1][g] << 16
                                           : rows[g][2 * t] | (uint32_t)rows[g][2 * t + 1] << 16;
    }
    // The eight rows of a matrix are one pass over the banks.
    if (warp->block->counts) {
      uint64_t eight[SIM_LANES] = {0};
      memcpy(eight, address + 8 * x, 8 * sizeof *eight);
      sim_count_shared(&warp->block->counters, eight, 0xff, 16);
    }
  }
  for (int32_t x = 0; x < matrix->count; ++x)
    for (uint32_t lane = 0; lane < SIM_LANES; ++lane)
      if (mask >> lane & 1) sim_put(warp, matrix->regs[x], PTX_WIDTH_32, lane, result[x][lane]);
}

enum { MAX_M = 16, MAX_N = 8, MAX_K = 32 };

static double element(uint32_t word, uint32_t part, sim_element_t type) {
  switch (type) {
    case SIM_F16: return sim_from_half((uint16_t)(word >> (16 * part)));
    case SIM_BF16: return sim_from_bfloat((uint16_t)(word >> (16 * part)));
    case SIM_TF32: return sim_float(word & 0xffffe000);
    case SIM_S8: return (int8_t)(word >> (8 * part));
    default: return (uint8_t)(word >> (8 * part));
  }
}

// Elements in one 32-bit register.
static uint32_t packed(sim_element_t type) {
  return type == SIM_F16 || type == SIM_BF16 ? 2 : type == SIM_TF32 ? 1 : 4;
}

// A: rows g and g + 8, columns by t; register pairs alternate rows, each further pair is 4 * packed columns on.
static void read_a(const sim_warp_t *warp, const sim_mma_t *mma, double out[MAX_M][MAX_K]) {
  const uint32_t p = packed(mma->a_type), rows = mma->m == 8 ? 1 : 2;
  for (int32_t r = 0; r < mma->num_a; ++r)
    for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
      const uint32_t word = (uint32_t)sim_get(warp, mma->a[r], PTX_WIDTH_32, lane);
      const uint32_t row = lane / 4 + 8 * ((uint32_t)r % rows),
                     column = lane % 4 * p + 4 * p * ((uint32_t)r / rows);
      for (uint32_t e = 0; e < p; ++e) out[row][column + e] = element(word, e, mma->a_type);
    }
}

static void read_b(const sim_warp_t *warp, const sim_mma_t *mma, double out[MAX_K][MAX_N]) {
  const uint32_t p = packed(mma->b_type);
  for (int32_t r = 0; r < mma->num_b; ++r)
    for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
      const uint32_t word = (uint32_t)sim_get(warp, mma->b[r], PTX_WIDTH_32, lane);
      const uint32_t row = lane % 4 * p + 4 * p * (uint32_t)r;
      for (uint32_t e = 0; e < p; ++e) out[row + e][lane / 4] = element(word, e, mma->b_type);
    }
}

static bool is_integer(sim_element_t type) { return type == SIM_S8 || type == SIM_U8; }

static void sum_floats(sim_warp_t *warp, const sim_mma_t *mma, double a[MAX_M][MAX_K],
                       double b[MAX_K][MAX_N]) {
  double sums[8][SIM_LANES];
  const bool integer = is_integer(mma->a_type);
  const int32_t values = mma->half_sums ? 2 * mma->num_c : mma->num_c;
  for (int32_t v = 0; v < values; ++v)
    for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
      const uint32_t row = lane / 4 + 8 * ((uint32_t)v / 2),
                     column = lane % 4 * 2 + (uint32_t)v % 2;
      const uint32_t word =
          (uint32_t)sim_get(warp, mma->c[mma->half_sums ? v / 2 : v], PTX_WIDTH_32, lane);
      double sum = mma->half_sums ? sim_from_half((uint16_t)(word >> (16 * (v % 2))))
                   : integer      ? (double)(int32_t)word
                                  : sim_float(word);
      for (int32_t k = 0; k < mma->k; ++k) sum += a[row][k] * b[k][column];
      sums[v][lane] = sum;
    }
  for (int32_t c = 0; c < mma->num_c; ++c)
    for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
      uint32_t word;
      if (mma->half_sums)
        word = sim_to_half(sums[2 * c][lane], 'n') |
               (uint32_t)sim_to_half(sums[2 * c + 1][lane], 'n') << 16;
      else if (integer)
        word = (uint32_t)(int64_t)sums[c][lane];
      else
        word = sim_bits(sim_nan((float)sums[c][lane]));
      sim_put(warp, mma->d[c], PTX_WIDTH_32, lane, word);
    }
}

// m8n8k4 of f64: one value of A and of B, two of C per lane; a chain of fused multiply-adds.
static void sum_doubles(sim_warp_t *warp, const sim_mma_t *mma) {
  double a[8][4], b[4][8], sums[2][SIM_LANES];
  for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
    a[lane / 4][lane % 4] = sim_double(sim_get(warp, mma->a[0], PTX_WIDTH_64, lane));
    b[lane % 4][lane / 4] = sim_double(sim_get(warp, mma->b[0], PTX_WIDTH_64, lane));
  }
  for (uint32_t v = 0; v < 2; ++v)
    for (uint32_t lane = 0; lane < SIM_LANES; ++lane) {
      double sum = sim_double(sim_get(warp, mma->c[v], PTX_WIDTH_64, lane));
      for (int k = 0; k < 4; ++k) sum = fma(a[lane / 4][k], b[k][lane % 4 * 2 + v], sum);
      sums[v][lane] = sum;
    }
  for (uint32_t v = 0; v < 2; ++v)
    for (uint32_t lane = 0; lane < SIM_LANES; ++lane)
      sim_put(warp, mma->d[v], PTX_WIDTH_64, lane, sim_bits64(sums[v][lane]));
}

void sim_mma(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_mma_t *mma = op->extra;
  if (mask != UINT32_MAX) {
    sim_fault(warp, op, __builtin_ctz(~mask), SIM_FAULT_BARRIER,
              "\"%s\" is not executed by all lanes of the warp", op->opcode);
    return;
  }
  if (mma->a_type == SIM_F64) {
    sum_doubles(warp, mma);
    return;
  }
  double a[MAX_M][MAX_K], b[MAX_K][MAX_N];
  read_a(warp, mma, a);
  read_b(warp, mma, b);
  sum_floats(warp, mma, a, b);
}

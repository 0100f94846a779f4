// Mathematical functions of printed C. Single precision: branch-free polynomials that vectorize, within 2 ulp
// (tests/numerics/c_math_test.c measures them over all exponents); the fits are Chebyshev's, computed to
// 40 digits. Multiplies and adds are apart, so that the results are the same on every machine. Double
// precision calls libm.
#include "codegen/c_math.h"

#include <inttypes.h>

// e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2; ln 2 in two parts, the first of 9 bits, so that n * part
// is exact. Scaling in two steps reaches denormals and infinity.
static const char exp_text[] =
    "static inline float ptc_exp(float x) {\n"
    "  const float y = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;\n"
    "  const float t = y * 0x1.715476p+0f + 0x1.8p+23f;  // its low bits hold n\n"
    "  const float n = t - 0x1.8p+23f;\n"
    "  const float r = (y - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;\n"
    "  float p = 0x1.6d11fdp-10f;\n"
    "  p = p * r + 0x1.120c62p-7f;\n"
    "  p = p * r + 0x1.555518p-5f;\n"
    "  p = p * r + 0x1.5554dcp-3f;\n"
    "  p = p * r + 0x1p-1f;\n"
    "  p = (p * r) * r + r;\n"
    "  const int32_t k = (int32_t)(ptc_bits(t) - 0x4b400000u), half = k >> 1;\n"
    "  const float s0 = ptc_float((uint32_t)(half + 127) << 23);\n"
    "  const float s1 = ptc_float((uint32_t)(k - half + 127) << 23);\n"
    "  return (p * s0 + s0) * s1;\n"
    "}\n";

// log x = e ln 2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt 2).
static const char log_text[] =
    "static inline float ptc_log(float x) {\n"
    "  const bool tiny = x < 0x1p-126f;\n"
    "  const uint32_t u = ptc_bits(tiny ? x * 0x1p23f : x) - 0x3f3504f3u;\n"
    "  const int32_t e = (int32_t)u >> 23;\n"
    "  const float n = (float)(tiny ? e - 23 : e);\n"
    "  const float f = ptc_float((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;\n"
    "  float p = 0x1.1d8ea5p-4f;\n"
    "  p = p * f - 0x1.d635bcp-4f;\n"
    "  p = p * f + 0x1.dea282p-4f;\n"
    "  p = p * f - 0x1.fcf4c6p-4f;\n"
    "  p = p * f + 0x1.23d21ap-3f;\n"
    "  p = p * f - 0x1.555b4ap-3f;\n"
    "  p = p * f + 0x1.999d5ap-3f;\n"
    "  p = p * f - 0x1.fffffcp-3f;\n"
    "  p = p * f + 0x1.555554p-2f;\n"
    "  const float q = f * f;\n"
    "  const float low = (q * f) * p + n * -0x1.bd0106p-13f;\n"
    "  const float y = n * 0x1.63p-1f + (f + (low - 0.5f * q));\n"
    "  return x > 0.0f ? (x < INFINITY ? y : x) : x == 0.0f ? -INFINITY : NAN;\n"
    "}\n";

static const char tanh_text[] =
    "static inline float ptc_tanh(float x) {\n"
    "  const float a = __builtin_fabsf(x), z = x * x;\n"
    "  float p = -0x1.8f8de4p-8f;\n"
    "  p = p * z + 0x1.58048ep-6f;\n"
    "  p = p * z - 0x1.b9258ap-5f;\n"
    "  p = p * z + 0x1.110e1cp-3f;\n"
    "  p = p * z - 0x1.555552p-2f;\n"
    "  const float small = x + x * (z * p);\n"
    "  const float large = 1.0f - 2.0f / (ptc_exp(a + a) + 1.0f);\n"
    "  return a < 0.625f ? small : __builtin_copysignf(large, x);\n"
    "}\n";

// erf x = x + x P(x^2) up to 1, beyond it 1 - e^-Q(|x|); from 4 on it is 1.
static const char erf_text[] =
    "static inline float ptc_erf(float x) {\n"
    "  const float a = __builtin_fabsf(x), z = x * x;\n"
    "  float p = 0x1.4a5690p-14f;\n"
    "  p = p * z - 0x1.a45088p-11f;\n"
    "  p = p * z + 0x1.541270p-8f;\n"
    "  p = p * z - 0x1.b7fabap-6f;\n"
    "  p = p * z + 0x1.ce2d10p-4f;\n"
    "  p = p * z - 0x1.81273ep-2f;\n"
    "  p = p * z + 0x1.06eba8p-3f;\n"
    "  const float c = a > 4.0f ? 4.0f : a;\n"
    "  float q = -0x1.b77830p-20f;\n"
    "  q = q * c + 0x1.825ce4p-15f;\n"
    "  q = q * c - 0x1.38e5e6p-11f;\n"
    "  q = q * c + 0x1.37ecc6p-8f;\n"
    "  q = q * c - 0x1.b0e246p-6f;\n"
    "  q = q * c + 0x1.c2e356p-4f;\n"
    "  q = q * c + 0x1.437eb4p-1f;\n"
    "  q = q * c + 0x1.2156fap+0f;\n"
    "  q = q * c - 0x1.4fb068p-12f;\n"
    "  const float large = __builtin_copysignf(1.0f - ptc_exp(-q), x);\n"
    "  return a >= 1.0f ? large : x + x * p;\n"
    "}\n";

// x = (n + r) pi / 2, |r| <= 1/2. For |x| >= 1/2: x = m 2^k with a 24-bit m; row k + 24 of the table holds
// 2^k 2 / pi mod 4 in three parts of 29, 29 and 53 bits, so that the first two products with m are exact.
static const char sincos_text[] =
    "static inline float ptc_sin_quadrant(float x, int32_t turn) {\n"
    "  const uint32_t u = ptc_bits(x) & 0x7fffffffu;\n"
    "  int32_t row = (int32_t)(u >> 23) - 126;\n"
    "  row = row < 0 ? 0 : row > 128 ? 128 : row;\n"
    "  const double m = (double)(int32_t)((u & 0x7fffffu) | 0x800000u);\n"
    "  const double v = m * ptc_two_over_pi[3 * row], w = m * ptc_two_over_pi[3 * row + 1];\n"
    "  const double magic = (v + w) + 0x1.8p+52, whole = magic - 0x1.8p+52;\n"
    "  const bool small = u < 0x3f000000u;\n"
    "  const double a = (double)ptc_float(u);\n"
    "  const double r = small ? a * 0x1.45f306dc9c883p-1\n"
    "                         : ((v - whole) + w) + m * ptc_two_over_pi[3 * row + 2];\n"
    "  const int32_t n = small ? 0 : (int32_t)(uint32_t)ptc_bits64(magic);\n"
    "  const float t = (float)(r * 0x1.921fb54442d18p+0), z = t * t;\n"
    "  float s = -0x1.9ac9b0p-13f;\n"
    "  s = s * z + 0x1.110c28p-7f;\n"
    "  s = s * z - 0x1.555552p-3f;\n"
    "  s = t + t * (z * s);\n"
    "  float c = 0x1.9bd89cp-16f;\n"
    "  c = c * z - 0x1.6c12d2p-10f;\n"
    "  c = c * z + 0x1.555554p-5f;\n"
    "  c = (1.0f - 0.5f * z) + (z * z) * c;\n"
    "  const bool negative = x < 0.0f;\n"
    "  // sin is odd; the cosine is the sine a quadrant later, of |x|.\n"
    "  const int32_t q = n + turn;\n"
    "  float y = q & 1 ? c : s;\n"
    "  y = q & 2 ? -y : y;\n"
    "  y = (negative & (turn == 0)) ? -y : y;\n"
    "  return u < 0x7f800000u ? y : NAN;\n"
    "}\n"
    "static inline float ptc_sin(float x) { return x == 0.0f ? x : ptc_sin_quadrant(x, 0); }\n"
    "static inline float ptc_cos(float x) { return ptc_sin_quadrant(x, 1); }\n";

static const char pow_text[] =
    "static inline float ptc_pow(float x, float y) { return (float)pow((double)x, (double)y); }\n";

static const char mod_text[] =
    "static inline double ptc_mod64(double x, double y) { return x - floor(x / y) * y; }\n"
    "static inline float ptc_mod(float x, float y) {\n"
    "  const double a = (double)x, b = (double)y;\n"
    "  return (float)(a - __builtin_floor(a / b) * b);\n"
    "}\n";

static const char sigmoid_text[] =
    "static inline float ptc_sigmoid(float x) {\n"
    "  const float e = ptc_exp(-__builtin_fabsf(x));\n"
    "  return (x < 0.0f ? e : 1.0f) / (1.0f + e);\n"
    "}\n";
static const char silu_text[] =
    "static inline float ptc_silu(float x) { return x * ptc_sigmoid(x); }\n"
    "static inline float ptc_silu_grad(float x, float dy) {\n"
    "  const float s = ptc_sigmoid(x);\n"
    "  return dy * (s * (1.0f + x * (1.0f - s)));\n"
    "}\n";
// log(1 + e) where e is rounded when it is added to 1: the error is put back.
static const char softplus_text[] =
    "static inline float ptc_softplus(float x) {\n"
    "  const float e = ptc_exp(-__builtin_fabsf(x)), u = 1.0f + e;\n"
    "  return (x > 0.0f ? x : 0.0f) + (ptc_log(u) - ((u - 1.0f) - e) / u);\n"
    "}\n";
static const char gelu_text[] =
    "static inline float ptc_gelu(float x) {\n"
    "  return 0.5f * x * (1.0f + ptc_erf(x * 0.707106781f));\n"
    "}\n"
    "static inline float ptc_gelu_grad(float x, float dy) {\n"
    "  const float cdf = 0.5f * (1.0f + ptc_erf(x * 0.707106781f));\n"
    "  return dy * (cdf + x * 0.398942280f * ptc_exp(-0.5f * x * x));\n"
    "}\n";
static const char gelu_tanh_text[] =
    "static inline float ptc_gelu_tanh(float x) {\n"
    "  return 0.5f * x * (1.0f + ptc_tanh(0.797884561f * (x + 0.044715f * x * x * x)));\n"
    "}\n"
    "static inline float ptc_gelu_tanh_grad(float x, float dy) {\n"
    "  const float c = x > 16.0f ? 16.0f : x < -16.0f ? -16.0f : x;  // no overflow\n"
    "  const float t = ptc_tanh(0.797884561f * (c + 0.044715f * c * c * c));\n"
    "  const float inner = 0.797884561f * (1.0f + 0.134145f * c * c);\n"
    "  return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner);\n"
    "}\n";

static const char wide_text[] =
    "static inline double ptc_sigmoid64(double x) {\n"
    "  const double e = exp(-fabs(x));\n"
    "  return (x < 0 ? e : 1.0) / (1.0 + e);\n"
    "}\n"
    "static inline double ptc_silu64(double x) { return x * ptc_sigmoid64(x); }\n"
    "static inline double ptc_silu_grad64(double x, double dy) {\n"
    "  const double s = ptc_sigmoid64(x);\n"
    "  return dy * (s * (1 + x * (1 - s)));\n"
    "}\n"
    "static inline double ptc_softplus64(double x) {\n"
    "  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));\n"
    "}\n"
    "static inline double ptc_gelu64(double x) {\n"
    "  return 0.5 * x * (1 + erf(x * 0.70710678118654752440));\n"
    "}\n"
    "static inline double ptc_gelu_grad64(double x, double dy) {\n"
    "  const double cdf = 0.5 * (1 + erf(x * 0.70710678118654752440));\n"
    "  return dy * (cdf + x * 0.39894228040143267794 * exp(-0.5 * x * x));\n"
    "}\n"
    "static inline double ptc_gelu_tanh64(double x) {\n"
    "  return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));\n"
    "}\n"
    "static inline double ptc_gelu_tanh_grad64(double x, double dy) {\n"
    "  const double t = tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));\n"
    "  const double inner = 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);\n"
    "  return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner);\n"
    "}\n";

// --- numbers of 16 bits

static const char bf16_text[] =
    "static inline float ptc_from_bf16(uint16_t h) { return ptc_float((uint32_t)h << 16); }\n"
    "static inline uint32_t ptc_bf16_bits(float x) {  // rounded, in the upper half\n"
    "  const uint32_t u = ptc_bits(x);\n"
    "  const uint32_t r = u + 0x7fffu + ((u >> 16) & 1u);\n"
    "  return (u & 0x7fffffffu) > 0x7f800000u ? u | 0x400000u : r;\n"
    "}\n"
    "static inline uint16_t ptc_to_bf16(float x) { return (uint16_t)(ptc_bf16_bits(x) >> 16); }\n"
    "static inline float ptc_round_bf16(float x) {\n"
    "  return ptc_float(ptc_bf16_bits(x) & 0xffff0000u);\n"
    "}\n";
// A half's bits, shifted to the place of a float's, are its value times 2^-112, denormals included.
static const char f16_text[] =
    "static inline float ptc_from_f16(uint16_t h) {\n"
    "  const uint32_t u = (uint32_t)(h & 0x7fffu) << 13;\n"
    "  const float finite = ptc_float(u) * 0x1p112f;\n"
    "  const uint32_t v = u >= 0x0f800000u ? u | 0x7f800000u : ptc_bits(finite);\n"
    "  return ptc_float(v | (uint32_t)(h & 0x8000u) << 16);\n"
    "}\n"
    "static inline uint16_t ptc_to_f16(float x) {\n"
    "  const uint32_t s = ptc_bits(x) >> 16 & 0x8000u, u = ptc_bits(x) & 0x7fffffffu;\n"
    "  const uint32_t normal = (u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13;\n"
    "  const uint32_t tiny = ptc_bits(ptc_float(u) + 0.5f) - 0x3f000000u;\n"
    "  const uint32_t nan = 0x7e00u | (u >> 13 & 0x3ffu);\n"
    "  uint32_t r = u < 0x38800000u ? tiny : u >= 0x477ff000u ? 0x7c00u : normal;\n"
    "  r = u > 0x7f800000u ? nan : r;\n"
    "  return (uint16_t)(r | s);\n"
    "}\n"
    "static inline float ptc_round_f16(float x) { return ptc_from_f16(ptc_to_f16(x)); }\n";

// --- integers saturate; a cast truncates, NaN gives 0

static const char integer_text[] =
    "static inline int32_t ptc_i32_of_i64(int64_t x) {\n"
    "  return (int32_t)(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);\n"
    "}\n"
    "static inline int32_t ptc_add_i32(int32_t x, int32_t y) { return ptc_i32_of_i64((int64_t)x + "
    "y); "
    "}\n"
    "static inline int32_t ptc_sub_i32(int32_t x, int32_t y) { return ptc_i32_of_i64((int64_t)x - "
    "y); "
    "}\n"
    "static inline int32_t ptc_mul_i32(int32_t x, int32_t y) { return ptc_i32_of_i64((int64_t)x * "
    "y); "
    "}\n"
    "static inline int64_t ptc_add_i64(int64_t x, int64_t y) {\n"
    "  int64_t r;\n"
    "  return __builtin_add_overflow(x, y, &r) ? (x < 0 ? INT64_MIN : INT64_MAX) : r;\n"
    "}\n"
    "static inline int64_t ptc_sub_i64(int64_t x, int64_t y) {\n"
    "  int64_t r;\n"
    "  return __builtin_sub_overflow(x, y, &r) ? (x < 0 ? INT64_MIN : INT64_MAX) : r;\n"
    "}\n"
    "static inline int64_t ptc_mul_i64(int64_t x, int64_t y) {\n"
    "  int64_t r;\n"
    "  return __builtin_mul_overflow(x, y, &r) ? ((x < 0) != (y < 0) ? INT64_MIN : INT64_MAX) : "
    "r;\n"
    "}\n"
    "// The quotient rounded down, and the remainder to it, which has y's sign; 0 where y is 0.\n"
    "static inline int64_t ptc_div_i64(int64_t x, int64_t y) {\n"
    "  if (y == 0) return 0;\n"
    "  if (y == -1) return ptc_sub_i64(0, x);\n"
    "  return x / y - (x % y != 0 && (x < 0) != (y < 0));\n"
    "}\n"
    "static inline int64_t ptc_mod_i64(int64_t x, int64_t y) {\n"
    "  if (y == 0 || y == -1) return 0;\n"
    "  const int64_t r = x % y;\n"
    "  return r != 0 && (r < 0) != (y < 0) ? r + y : r;\n"
    "}\n"
    "static inline int32_t ptc_div_i32(int32_t x, int32_t y) {\n"
    "  return ptc_i32_of_i64(ptc_div_i64(x, y));\n"
    "}\n"
    "static inline int32_t ptc_mod_i32(int32_t x, int32_t y) { return (int32_t)ptc_mod_i64(x, y); "
    "}\n"
    "static inline int32_t ptc_i32_of_float(float x) {\n"
    "  const int32_t r = (int32_t)(((x >= -0x1p31f) & (x < 0x1p31f)) ? x : 0.0f);\n"
    "  return x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : r;\n"
    "}\n"
    "static inline int64_t ptc_i64_of_float(float x) {\n"
    "  const int64_t r = (int64_t)(((x >= -0x1p63f) & (x < 0x1p63f)) ? x : 0.0f);\n"
    "  return x >= 0x1p63f ? INT64_MAX : x < -0x1p63f ? INT64_MIN : r;\n"
    "}\n"
    "static inline int32_t ptc_i32_of_double(double x) {\n"
    "  const int32_t r = (int32_t)(((x > -0x1p31 - 1) & (x < 0x1p31)) ? x : 0.0);\n"
    "  return x >= 0x1p31 ? INT32_MAX : x < -0x1p31 ? INT32_MIN : r;\n"
    "}\n"
    "static inline int64_t ptc_i64_of_double(double x) {\n"
    "  const int64_t r = (int64_t)(((x >= -0x1p63) & (x < 0x1p63)) ? x : 0.0);\n"
    "  return x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : r;\n"
    "}\n";

// --- reductions of a block of up to 512 elements: element i goes to lane i % 32, lanes meet pairwise

static const char sums_text[] =
    "typedef float ptc_v8 __attribute__((vector_size(32)));\n"
    "typedef double ptc_d4 __attribute__((vector_size(32)));\n"
    "// 8 lanes x 4 accumulators.\n"
    "static inline double ptc_block_sum(const float *t, int64_t n) {\n"
    "  ptc_v8 acc[4] = {{0}}, x;\n"
    "  int64_t i = 0;\n"
    "  for (; i + 32 <= n; i += 32) {\n"
    "    memcpy(&x, t + i, 32);\n"
    "    acc[0] += x;\n"
    "    memcpy(&x, t + i + 8, 32);\n"
    "    acc[1] += x;\n"
    "    memcpy(&x, t + i + 16, 32);\n"
    "    acc[2] += x;\n"
    "    memcpy(&x, t + i + 24, 32);\n"
    "    acc[3] += x;\n"
    "  }\n"
    "  if (i < n) {\n"
    "    float tail[32] = {0};\n"
    "    memcpy(tail, t + i, (size_t)(n - i) * sizeof *t);\n"
    "    for (int k = 0; k < 4; ++k) {\n"
    "      memcpy(&x, tail + 8 * k, 32);\n"
    "      acc[k] += x;\n"
    "    }\n"
    "  }\n"
    "  const ptc_v8 s = (acc[0] + acc[1]) + (acc[2] + acc[3]);\n"
    "  return (double)(((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));\n"
    "}\n"
    "static inline double ptc_block_sum64(const double *t, int64_t n) {\n"
    "  ptc_d4 acc[8] = {{0}}, x;\n"
    "  int64_t i = 0;\n"
    "  for (; i + 32 <= n; i += 32)\n"
    "    for (int k = 0; k < 8; ++k) {\n"
    "      memcpy(&x, t + i + 4 * k, 32);\n"
    "      acc[k] += x;\n"
    "    }\n"
    "  if (i < n) {\n"
    "    double tail[32] = {0};\n"
    "    memcpy(tail, t + i, (size_t)(n - i) * sizeof *t);\n"
    "    for (int k = 0; k < 8; ++k) {\n"
    "      memcpy(&x, tail + 4 * k, 32);\n"
    "      acc[k] += x;\n"
    "    }\n"
    "  }\n"
    "  const ptc_d4 s = ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + "
    "acc[7]));\n"
    "  return (s[0] + s[2]) + (s[1] + s[3]);\n"
    "}\n";
static const char max_text[] =
    "// NaN is handed on.\n"
    "static inline float ptc_max(float x, float y) { return ((x > y) | (x != x)) ? x : y; }\n"
    "static inline double ptc_max64(double x, double y) { return ((x > y) | (x != x)) ? x : y; }\n"
    "static inline float ptc_block_max(const float *t, int64_t n) {\n"
    "  float m[32];\n"
    "  for (int k = 0; k < 32; ++k) m[k] = -INFINITY;\n"
    "  int64_t i = 0;\n"
    "  for (; i + 32 <= n; i += 32)\n"
    "    for (int k = 0; k < 32; ++k) m[k] = ptc_max(t[i + k], m[k]);\n"
    "  for (int k = 0; i < n; ++i, ++k) m[k] = ptc_max(t[i], m[k]);\n"
    "  for (int w = 16; w > 0; w /= 2)\n"
    "    for (int k = 0; k < w; ++k) m[k] = ptc_max(m[k + w], m[k]);\n"
    "  return m[0];\n"
    "}\n"
    "static inline double ptc_block_max64(const double *t, int64_t n) {\n"
    "  double m = -(double)INFINITY;\n"
    "  for (int64_t i = 0; i < n; ++i) m = ptc_max64(t[i], m);\n"
    "  return m;\n"
    "}\n"
    "// The first of the largest, NaN being largest; *best is so far at *where, or *where is -1.\n"
    "static inline void ptc_block_argmax(const float *t, int64_t n, int64_t at, float *best,\n"
    "                                    int64_t *where) {\n"
    "  const float m = ptc_block_max(t, n);\n"
    "  if (n == 0 || (*where >= 0 && !(m > *best || (m != m && *best == *best)))) return;\n"
    "  int64_t i = 0;\n"
    "  while (!(t[i] == m || (m != m && t[i] != t[i]))) ++i;\n"
    "  *best = m;\n"
    "  *where = at + i;\n"
    "}\n"
    "static inline void ptc_block_argmax64(const double *t, int64_t n, int64_t at, double *best,\n"
    "                                      int64_t *where) {\n"
    "  for (int64_t i = 0; i < n; ++i)\n"
    "    if (*where < 0 || t[i] > *best || (t[i] != t[i] && *best == *best)) {\n"
    "      *best = t[i];\n"
    "      *where = at + i;\n"
    "    }\n"
    "}\n"
    "static inline int64_t ptc_block_sum_int(const int64_t *t, int64_t n) {\n"
    "  uint64_t s = 0;\n"
    "  for (int64_t i = 0; i < n; ++i) s += (uint64_t)t[i];\n"
    "  return (int64_t)s;\n"
    "}\n"
    "static inline int64_t ptc_block_max_int(const int64_t *t, int64_t n) {\n"
    "  int64_t m = INT64_MIN;\n"
    "  for (int64_t i = 0; i < n; ++i) m = t[i] > m ? t[i] : m;\n"
    "  return m;\n"
    "}\n"
    "static inline void ptc_block_argmax_int(const int64_t *t, int64_t n, int64_t at, int64_t "
    "*best,\n"
    "                                        int64_t *where) {\n"
    "  for (int64_t i = 0; i < n; ++i)\n"
    "    if (*where < 0 || t[i] > *best) {\n"
    "      *best = t[i];\n"
    "      *where = at + i;\n"
    "    }\n"
    "}\n"
    "static inline bool ptc_block_all(const uint8_t *t, int64_t n) { return !memchr(t, 0, "
    "(size_t)n); }\n"
    "// A whole row: block sums are added in double, in groups of 128 blocks.\n"
    "static inline double ptc_row_sum(const float *t, int64_t n) {\n"
    "  double sum = 0, group = 0;\n"
    "  for (int64_t i = 0; i < n; i += 512) {\n"
    "    group += ptc_block_sum(t + i, n - i < 512 ? n - i : 512);\n"
    "    if (i % 65536 == 65024 || i + 512 >= n) sum += group, group = 0;\n"
    "  }\n"
    "  return sum;\n"
    "}\n"
    "static inline double ptc_row_sum64(const double *t, int64_t n) {\n"
    "  double sum = 0, group = 0;\n"
    "  for (int64_t i = 0; i < n; i += 512) {\n"
    "    group += ptc_block_sum64(t + i, n - i < 512 ? n - i : 512);\n"
    "    if (i % 65536 == 65024 || i + 512 >= n) sum += group, group = 0;\n"
    "  }\n"
    "  return sum;\n"
    "}\n";

// --- random numbers: as in ir/base/philox.c and ir/interp_random.c

static const char philox_text[] =
    "// Philox 4x32-10 (Salmon et al. 2011).\n"
    "#define PTC_PHILOX_ROUND(i)                                               \\\n"
    "  {                                                                       \\\n"
    "    const uint64_t p0 = UINT64_C(0xD2511F53) * c0, p1 = UINT64_C(0xCD9E8D57) * c2; \\\n"
    "    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ (k0 + i * 0x9E3779B9u);              \\\n"
    "    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ (k1 + i * 0xBB67AE85u);              \\\n"
    "    c1 = (uint32_t)p1;                                                    \\\n"
    "    c3 = (uint32_t)p0;                                                    \\\n"
    "  }\n"
    "#define PTC_PHILOX_ROUNDS                                                     \\\n"
    "  PTC_PHILOX_ROUND(0u) PTC_PHILOX_ROUND(1u) PTC_PHILOX_ROUND(2u) PTC_PHILOX_ROUND(3u) \\\n"
    "  PTC_PHILOX_ROUND(4u) PTC_PHILOX_ROUND(5u) PTC_PHILOX_ROUND(6u) PTC_PHILOX_ROUND(7u) \\\n"
    "  PTC_PHILOX_ROUND(8u) PTC_PHILOX_ROUND(9u)\n"
    "// The word of one element.\n"
    "static inline uint32_t ptc_philox(uint64_t seed, uint64_t element, uint32_t step, uint32_t "
    "hash) "
    "{\n"
    "  const uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);\n"
    "  const uint64_t block = element / 4;\n"
    "  uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = step, c3 = hash;\n"
    "  PTC_PHILOX_ROUNDS\n"
    "  const uint32_t low = element & 1 ? c1 : c0, high = element & 1 ? c3 : c2;\n"
    "  return element & 2 ? high : low;\n"
    "}\n"
    "static inline float ptc_bits01(uint32_t word) { return (float)(int32_t)(word >> 8) * "
    "0x1p-24f; }\n"
    "static inline double ptc_uniform(uint32_t word) { return (double)(int32_t)(word >> 8) * "
    "0x1p-24; }\n"
    "// CRC-32 of the path, every * of it replaced by a turn.\n"
    "static uint32_t ptc_crc(uint32_t crc, char c) {\n"
    "  crc ^= (unsigned char)c;\n"
    "  for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);\n"
    "  return crc;\n"
    "}\n"
    "static uint32_t ptc_path_hash(const char *path, const int64_t *turns, int32_t num_turns) {\n"
    "  uint32_t crc = 0xffffffffu;\n"
    "  for (int32_t star = 0; *path; ++path) {\n"
    "    if (*path != '*' || star == num_turns) {\n"
    "      crc = ptc_crc(crc, *path);\n"
    "      continue;\n"
    "    }\n"
    "    char digits[24];\n"
    "    int32_t count = 0;\n"
    "    uint64_t rest = (uint64_t)turns[star++];\n"
    "    do digits[count++] = (char)('0' + rest % 10);\n"
    "    while (rest /= 10);\n"
    "    while (count) crc = ptc_crc(crc, digits[--count]);\n"
    "  }\n"
    "  return ~crc;\n"
    "}\n";

static const char words_text[] =
    "// The words of elements 4 * block and following, at least n; |words| has room for n + 3.\n"
    "static void ptc_philox_words(uint32_t *restrict words, int64_t n, uint64_t seed, uint64_t "
    "block,\n"
    "                             uint32_t step, uint32_t hash) {\n"
    "  const uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);\n"
    "  const int64_t blocks = (n + 3) / 4;\n"
    "  int64_t i = 0;\n"
    "#if defined(__AVX2__) && defined(__has_builtin)\n"
    "#if __has_builtin(__builtin_ia32_pmuludq256) && __has_builtin(__builtin_shufflevector)\n"
    "  // Four blocks in a vector, a word in the lower half of each lane; compilers multiply these "
    "poorly.\n"
    "  typedef uint64_t u64x4 __attribute__((vector_size(32)));\n"
    "  typedef int32_t i32x8 __attribute__((vector_size(32)));\n"
    "  const u64x4 zero = {0}, m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;\n"
    "  for (; i + 8 <= blocks; i += 8) {\n"
    "    u64x4 c0[2], c1[2], c2[2], c3[2];\n"
    "    for (int v = 0; v < 2; ++v) {\n"
    "      const u64x4 at = {0, 1, 2, 3};\n"
    "      c0[v] = at + (block + (uint64_t)(i + 4 * v));\n"
    "      c1[v] = c0[v] >> 32;\n"
    "      c2[v] = zero + step;\n"
    "      c3[v] = zero + hash;\n"
    "    }\n"
    "    for (uint32_t r = 0; r < 10; ++r)\n"
    "      for (int v = 0; v < 2; ++v) {\n"
    "        const u64x4 p0 = (u64x4)__builtin_ia32_pmuludq256((i32x8)c0[v], (i32x8)m0);\n"
    "        const u64x4 p1 = (u64x4)__builtin_ia32_pmuludq256((i32x8)c2[v], (i32x8)m1);\n"
    "        c0[v] = p1 >> 32 ^ c1[v] ^ (uint64_t)(k0 + r * 0x9E3779B9u);\n"
    "        c2[v] = p0 >> 32 ^ c3[v] ^ (uint64_t)(k1 + r * 0xBB67AE85u);\n"
    "        c1[v] = p1;\n"
    "        c3[v] = p0;\n"
    "      }\n"
    "    for (int v = 0; v < 2; ++v) {\n"
    "      const u64x4 low = (c0[v] & 0xffffffffu) | c1[v] << 32;\n"
    "      const u64x4 high = (c2[v] & 0xffffffffu) | c3[v] << 32;\n"
    "      const u64x4 first = __builtin_shufflevector(low, high, 0, 4, 1, 5);\n"
    "      const u64x4 second = __builtin_shufflevector(low, high, 2, 6, 3, 7);\n"
    "      memcpy(words + 4 * i + 16 * v, &first, sizeof first);\n"
    "      memcpy(words + 4 * i + 16 * v + 8, &second, sizeof second);\n"
    "    }\n"
    "  }\n"
    "#endif\n"
    "#endif\n"
    "  for (; i < blocks; ++i) {\n"
    "    const uint64_t b = block + (uint64_t)i;\n"
    "    uint32_t c0 = (uint32_t)b, c1 = (uint32_t)(b >> 32), c2 = step, c3 = hash;\n"
    "    PTC_PHILOX_ROUNDS\n"
    "    words[4 * i] = c0;\n"
    "    words[4 * i + 1] = c1;\n"
    "    words[4 * i + 2] = c2;\n"
    "    words[4 * i + 3] = c3;\n"
    "  }\n"
    "}\n";

static const char normal_text[] =
    "// Box and Muller: the words of an even element and its neighbour make a pair.\n"
    "static double ptc_normal(uint32_t even, uint32_t odd, bool is_odd) {\n"
    "  const double angle = 6.28318530717958647693 * (odd * 0x1p-32);\n"
    "  return sqrt(-2 * log((even + 1.0) * 0x1p-32)) * (is_odd ? sin(angle) : cos(angle));\n"
    "}\n"
    "// Of the |n| words from an even element on.\n"
    "static void ptc_normals(double *restrict out, const uint32_t *words, int64_t n) {\n"
    "  for (int64_t i = 0; i < n; i += 2) {\n"
    "    const double angle = 6.28318530717958647693 * (words[i + 1] * 0x1p-32);\n"
    "    const double radius = sqrt(-2 * log((words[i] + 1.0) * 0x1p-32));\n"
    "    out[i] = radius * cos(angle);\n"
    "    out[i + 1] = radius * sin(angle);\n"
    "  }\n"
    "}\n"
    "static double ptc_normal_cdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }\n"
    "// A start by Abramowitz and Stegun 26.2.23, then Halley steps.\n"
    "static double ptc_normal_quantile(double p) {\n"
    "  const double tail = p < 0.5 ? p : 1 - p, t = sqrt(-2 * log(tail));\n"
    "  double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /\n"
    "                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));\n"
    "  z = -z;  // of the lower tail\n"
    "  for (int i = 0; i < 3; ++i) {\n"
    "    const double density = 0.39894228040143267794 * exp(-0.5 * z * z);\n"
    "    const double excess = tail > 0.25 ? 0.5 * erf(z * 0.70710678118654752440) - (tail - 0.5)\n"
    "                                      : ptc_normal_cdf(z) - tail;\n"
    "    const double e = excess / density;\n"
    "    z -= e / (1 + 0.5 * z * e);\n"
    "  }\n"
    "  return p < 0.5 ? z : -z;\n"
    "}\n"
    "// Within two standard deviations.\n"
    "static double ptc_truncated_normal(uint32_t word) {\n"
    "  const double u = (word + 0.5) * 0x1p-32, low = ptc_normal_cdf(-2);\n"
    "  return ptc_normal_quantile(low + u * (ptc_normal_cdf(2) - low));\n"
    "}\n";

const ptc_c_snippet_t ptc_c_snippets[] = {
    {"bf16", "", bf16_text},
    {"f16", "", f16_text},
    {"integer", "", integer_text},
    {"sums", "", sums_text},
    {"rows", "sums", max_text},
    {"exp", "", exp_text},
    {"log", "", log_text},
    {"tanh", "exp", tanh_text},
    {"erf", "exp", erf_text},
    {"sincos", "", sincos_text},
    {"pow", "", pow_text},
    {"mod", "", mod_text},
    {"sigmoid", "exp", sigmoid_text},
    {"silu", "sigmoid exp", silu_text},
    {"softplus", "exp log", softplus_text},
    {"gelu", "erf exp", gelu_text},
    {"gelu_tanh", "tanh exp", gelu_tanh_text},
    {"wide", "", wide_text},
    {"philox_word", "", philox_text},
    {"philox", "philox_word", words_text},
    {"normal", "philox", normal_text},
};
const size_t ptc_c_num_snippets = sizeof ptc_c_snippets / sizeof *ptc_c_snippets;

// --- 2 / pi

static const uint32_t two_over_pi[] = {  // binary digits after the point, 32 a word
    0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
    0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};

// |count| <= 53 digits of 2 / pi from the one of weight 2^-(first + 1) on; those before the point are 0.
static double digits(int32_t first, int32_t count) {
  double value = 0;
  for (int32_t i = first; i < first + count; ++i) {
    const uint32_t bit = i < 0 ? 0 : two_over_pi[i / 32] >> (31 - i % 32) & 1;
    value = 2 * value + bit;
  }
  return value;
}

void ptc_c_pi_table(ptc_str_t *out) {
  ptc_str_append(out, "// Of every k from -24 on: 2^k * 2 / pi mod 4 in three parts.\n");
  ptc_str_append(out, "static const double ptc_two_over_pi[3 * 129] = {\n");
  for (int32_t k = -24; k <= 104; ++k) {
    // The digit of weight 2^1 in the product is the one of weight 2^(1 - k): number k - 2.
    const double high = digits(k - 2, 29) * 0x1p-27, middle = digits(k + 27, 29) * 0x1p-56;
    const double low = digits(k + 56, 53) * 0x1p-109;
    ptc_str_printf(out, "    %a, %a, %a,\n", high, middle, low);
  }
  ptc_str_append(out, "};\n");
}

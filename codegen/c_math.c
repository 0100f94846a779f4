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

static const char sincos64_text[] =
    "static inline double ptc_sin64(double x) { return sin(x); }\n"
    "static inline double ptc_cos64(double x) { return cos(x); }\n";

// CUDA's own read coefficients from a table that depends on the quadrant, so the lanes of a warp read in two places. Here they
// are constants, and the sine and cosine of one angle share nearly all. x = q pi / 2 + t in three parts of pi / 2; the
// rest of the series: within 2e-17 and 2e-18. Errors below 1.5 units of the last place.
static const char sincos64_cuda_text[] =
    "static inline double ptc_sin64_quadrant(double x, int32_t turn) {\n"
    "  if (!(fabs(x) < 0x1p+30)) return turn ? cos(x) : sin(x);\n"
    "  const double magic = fma(x, 0x1.45f306dc9c883p-1, 0x1.8p+52), q = magic - 0x1.8p+52;\n"
    "  double t = fma(q, -0x1.921fb54442d18p+0, x);\n"
    "  t = fma(q, -0x1.1a62633145c07p-54, t);\n"
    "  t = fma(q, 0x1.f1976b7ed8fbcp-110, t);\n"
    "  const double z = t * t;\n"
    "  double s = 0x1.5e0af18733f9ep-33;\n"
    "  s = fma(s, z, -0x1.ae600a926df9ap-26);\n"
    "  s = fma(s, z, 0x1.71de37961e4dcp-19);\n"
    "  s = fma(s, z, -0x1.a01a019e8357dp-13);\n"
    "  s = fma(s, z, 0x1.1111111110bb1p-7);\n"
    "  s = fma(s, z, -0x1.5555555555555p-3);\n"
    "  s = fma(t * z, s, t);\n"
    "  double c = -0x1.907d7aec5a8a3p-37;\n"
    "  c = fma(c, z, 0x1.1eeb68b109cf5p-29);\n"
    "  c = fma(c, z, -0x1.27e4fa17a41bfp-22);\n"
    "  c = fma(c, z, 0x1.a01a019f4e867p-16);\n"
    "  c = fma(c, z, -0x1.6c16c16c16966p-10);\n"
    "  c = fma(c, z, 0x1.5555555555555p-5);\n"
    "  c = fma(z, fma(z, c, -0.5), 1.0);\n"
    "  const int32_t n = (int32_t)(uint32_t)ptc_bits64(magic) + turn;\n"
    "  const double y = n & 1 ? c : s;\n"
    "  return n & 2 ? -y : y;\n"
    "}\n"
    "static inline double ptc_sin64(double x) { return x == 0 ? x : ptc_sin64_quadrant(x, 0); }\n"
    "static inline double ptc_cos64(double x) { return ptc_sin64_quadrant(x, 1); }\n";

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

const ptc_c_snippet_t ptc_c_snippets[] = {
    {"bf16", "", ptc_c_bf16_text, NULL},
    {"f16", "", ptc_c_f16_text, NULL},
    {"integer", "", ptc_c_integer_text, NULL},
    {"sums", "", ptc_c_sums_text, NULL},
    {"rows", "sums", ptc_c_max_text, NULL},
    {"exp", "", exp_text, NULL},
    {"log", "", log_text, NULL},
    {"tanh", "exp", tanh_text, NULL},
    {"erf", "exp", erf_text, NULL},
    {"sincos", "", sincos_text, NULL},
    {"sincos64", "", sincos64_text, sincos64_cuda_text},
    {"pow", "", pow_text, NULL},
    {"mod", "", mod_text, NULL},
    {"sigmoid", "exp", sigmoid_text, NULL},
    {"silu", "sigmoid exp", silu_text, NULL},
    {"softplus", "exp log", softplus_text, NULL},
    {"gelu", "erf exp", gelu_text, NULL},
    {"gelu_tanh", "tanh exp", gelu_tanh_text, NULL},
    {"wide", "", wide_text, NULL},
    {"philox_word", "", ptc_c_philox_text, NULL},
    {"philox", "philox_word", ptc_c_words_text, NULL},
    {"normal", "philox", ptc_c_normal_text, NULL},
    {"limbs", "", ptc_c_limbs_text, NULL},
    {"squares", "limbs", ptc_c_squares_text, NULL},
    {"limbs_value", "limbs", ptc_c_limbs_value_text, NULL},
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

// Proves: attention is the formula of ir/ops.def, spelled out below with plain loops, for all its
// options; attention_grad is its derivative, checked by central differences.
#include <math.h>
#include <stdlib.h>

#include "tests/support/interp_case.h"
#include "tests/support/unit.h"

// q[b, s, n, g, k]  key[b, t, n, k]  val[b, n, t, w]  mask[s, t]  bias[n, t, s]
enum { B = 2, S = 3, N = 2, G = 2, K = 3, T = 4, W = 2 };
enum { NUM_Q = B * S * N * G * K, NUM_KEY = B * T * N * K, NUM_VAL = B * N * T * W };
enum { NUM_MASK = S * T, NUM_BIAS = N * T * S, NUM_OUT = B * S * N * G * W };

typedef struct options_s {
  const char *name;
  bool mask, bias;
  double softcap, p;
} options_t;

static const options_t option_rows[] = {
    {"plain", false, false, 0, 0},     {"mask", true, false, 0, 0},
    {"bias", false, true, 0, 0},       {"softcap", false, false, 1.5, 0},
    {"dropout", false, false, 0, 0.4}, {"all", true, true, 1.5, 0.4},
};
enum { NUM_OPTIONS = sizeof(option_rows) / sizeof(option_rows[0]) };

typedef struct data_s {
  double q[NUM_Q], key[NUM_KEY], val[NUM_VAL], mask[NUM_MASK], bias[NUM_BIAS], dout[NUM_OUT];
} data_t;

static void fill(double *x, int count, uint64_t *random) {
  for (int i = 0; i < count; i++) x[i] = (double)(unit_random(random) >> 11) * 0x1p-52 - 1;
}

// Row 1 of the mask is empty.
static data_t make_data(uint64_t seed) {
  data_t data;
  fill(data.q, NUM_Q, &seed);
  fill(data.key, NUM_KEY, &seed);
  fill(data.val, NUM_VAL, &seed);
  fill(data.bias, NUM_BIAS, &seed);
  fill(data.dout, NUM_OUT, &seed);
  for (int s = 0; s < S; s++)
    for (int t = 0; t < T; t++) data.mask[s * T + t] = s == 1 ? 0 : t <= s + 1;
  return data;
}

static interp_case_t *open_case(const options_t *o) {
  const char *random_in = o->p > 0 ? ", %seed, %step, %turn" : "";
  char operands[128], attrs[256];
  snprintf(operands, sizeof(operands), "%%q, %%key, %%val%s%s", o->mask ? ", %mask" : "",
           o->bias ? ", %bias" : "");
  snprintf(attrs, sizeof(attrs), "{attend = t, dot = k, scale = 0.75%s%s",
           o->mask ? ", mask = true" : "", o->bias ? ", bias = true" : "");
  ptc_str_t more = {0};
  ptc_str_append(&more, attrs);
  if (o->softcap > 0) ptc_str_printf(&more, ", softcap = %g", o->softcap);
  if (o->p > 0) ptc_str_printf(&more, ", p = %g, path = \"block.*.attn\"", o->p);
  ptc_str_append(&more, "}");
  ptc_str_t text = {0};
  ptc_str_append(&text,
                 "module \"t\"\n"
                 "input @q : f64[b=2, s=3, n=2, g=2, k=3]\ninput @key : f64[b=2, t=4, n=2, k=3]\n"
                 "input @val : f64[b=2, n=2, t=4, w=2]\ninput @mask : bool[s=3, t=4]\n"
                 "input @bias : f64[n=2, t=4, s=3]\ninput @dout : f64[b=2, s=3, n=2, g=2, w=2]\n"
                 "setting @seed : i64[] {value = 5}\ncounter @step : i64[] {value = 2}\n"
                 "input @turn : i32[]\n"
                 "func @f(%q = @q, %key = @key, %val = @val, %mask = @mask, %bias = @bias, "
                 "%dout = @dout, %seed = @seed, %step = @step, %turn = @turn) {\n");
  ptc_str_printf(&text,
                 "  %%out, %%lse = attention %s%s %s : f64[b=2, s=3, n=2, g=2, w=2], "
                 "f64[b=2, s=3, n=2, g=2]\n",
                 operands, random_in, more.data);
  ptc_str_printf(
      &text,
      "  %%dq, %%dkey, %%dval%s = attention_grad %s, %%out, %%lse, %%dout%s %s : "
      "f64[b=2, s=3, n=2, g=2, k=3], f64[b=2, t=4, n=2, k=3], f64[b=2, n=2, t=4, w=2]%s\n",
      o->bias ? ", %dbias" : "", operands, random_in, more.data,
      o->bias ? ", f64[n=2, t=4, s=3]" : "");
  ptc_str_printf(&text,
                 "  return output \"out\" = %%out, output \"lse\" = %%lse, output \"dq\" = %%dq, "
                 "output \"dkey\" = %%dkey, output \"dval\" = %%dval%s\n}\n",
                 o->bias ? ", output \"dbias\" = %dbias" : "");
  interp_case_t *c = interp_case_open(text.data, PTC_INTERP_EXACT);
  ptc_str_deinit(&text);
  ptc_str_deinit(&more);
  return c;
}

static void set_data(interp_case_t *c, const data_t *data) {
  interp_case_set(c, "q", data->q, NUM_Q);
  interp_case_set(c, "key", data->key, NUM_KEY);
  interp_case_set(c, "val", data->val, NUM_VAL);
  interp_case_set(c, "mask", data->mask, NUM_MASK);
  interp_case_set(c, "bias", data->bias, NUM_BIAS);
  interp_case_set(c, "dout", data->dout, NUM_OUT);
  interp_case_set(c, "turn", (double[]){7}, 1);
}

// Scores are numbered in the order b, s, n, g, t.
static double keep_factor(const options_t *o, int b, int s, int n, int g, int t) {
  if (o->p == 0) return 1;
  uint64_t element = (uint64_t)((((b * S + s) * N + n) * G + g) * T + t);
  uint32_t word = ptc_philox(5, element, 2, ptc_path_hash("block.7.attn", NULL, 0));
  return (word >> 8) * 0x1p-24 >= o->p ? 1 / (1 - o->p) : 0;
}

// One row of the reference: out[W], and the logarithm of the sum.
static double reference_row(const options_t *o, const data_t *d, int b, int s, int n, int g,
                            double *out) {
  double z[T], sum = 0;
  for (int w = 0; w < W; w++) out[w] = 0;
  for (int t = 0; t < T; t++) {
    double u = 0;
    for (int k = 0; k < K; k++)
      u += d->q[(((b * S + s) * N + n) * G + g) * K + k] * d->key[((b * T + t) * N + n) * K + k];
    u *= 0.75;
    z[t] = o->softcap > 0 ? o->softcap * tanh(u / o->softcap) : u;
    if (o->bias) z[t] += d->bias[(n * T + t) * S + s];
    if (!o->mask || d->mask[s * T + t] != 0) sum += exp(z[t]);
  }
  for (int t = 0; t < T && sum > 0; t++) {
    if (o->mask && d->mask[s * T + t] == 0) continue;
    for (int w = 0; w < W; w++)
      out[w] +=
          exp(z[t]) / sum * keep_factor(o, b, s, n, g, t) * d->val[((b * N + n) * T + t) * W + w];
  }
  return sum > 0 ? log(sum) : -INFINITY;
}

static void test_forward(void) {
  const data_t data = make_data(1);
  for (int r = 0; r < NUM_OPTIONS; r++) {
    const options_t *o = &option_rows[r];
    interp_case_t *c = open_case(o);
    UNIT_CHECK(c != NULL, o->name);
    if (!c) continue;
    set_data(c, &data);
    UNIT_CHECK(ptc_interp_run(c->interp, "f") == PTC_OK, o->name);
    for (int row = 0; row < B * S * N * G; row++) {
      double out[W];
      double lse =
          reference_row(o, &data, row / (S * N * G), row / (N * G) % S, row / G % N, row % G, out);
      UNIT_CHECK(interp_near(interp_case_result(c, 1)[row], lse, 1e-14), o->name);
      for (int w = 0; w < W; w++)
        UNIT_CHECK(interp_near(interp_case_result(c, 0)[row * W + w], out[w], 1e-14), o->name);
    }
    interp_case_close(c);
  }
}

// sum of out * dout
static double loss(const options_t *o, const data_t *data) {
  double sum = 0;
  for (int row = 0; row < B * S * N * G; row++) {
    double out[W];
    reference_row(o, data, row / (S * N * G), row / (N * G) % S, row / G % N, row % G, out);
    for (int w = 0; w < W; w++) sum += out[w] * data->dout[row * W + w];
  }
  return sum;
}

static void check_gradient(const options_t *o, interp_case_t *c, int32_t result, data_t *data,
                           double *x, int count) {
  for (int i = 0; i < count; i++) {
    const double h = 1e-5, old = x[i];
    x[i] = old + h;
    double up = loss(o, data);
    x[i] = old - h;
    double down = loss(o, data);
    x[i] = old;
    UNIT_CHECK(interp_near(interp_case_result(c, result)[i], (up - down) / (2 * h), 1e-8), o->name);
  }
}

static void test_gradient(void) {
  uint64_t seed = unit_seed();
  for (int r = 0; r < NUM_OPTIONS; r++) {
    const options_t *o = &option_rows[r];
    data_t data = make_data(seed + (uint64_t)r);
    interp_case_t *c = open_case(o);
    UNIT_CHECK(c != NULL, o->name);
    if (!c) continue;
    set_data(c, &data);
    UNIT_CHECK(ptc_interp_run(c->interp, "f") == PTC_OK, o->name);
    check_gradient(o, c, 2, &data, data.q, NUM_Q);
    check_gradient(o, c, 3, &data, data.key, NUM_KEY);
    check_gradient(o, c, 4, &data, data.val, NUM_VAL);
    if (o->bias) check_gradient(o, c, 5, &data, data.bias, NUM_BIAS);
    interp_case_close(c);
  }
}

// A bias without batch dims gets the sum over them; a bias of minus infinity masks like a mask.
static void test_infinite_bias(void) {
  const options_t *with_bias = &option_rows[2], *with_mask = &option_rows[1];
  data_t data = make_data(3);
  for (int n = 0; n < N; n++)
    for (int t = 0; t < T; t++)
      for (int s = 0; s < S; s++)
        data.bias[(n * T + t) * S + s] = data.mask[s * T + t] != 0 ? 0 : -INFINITY;
  interp_case_t *a = open_case(with_bias), *b = open_case(with_mask);
  CU_ASSERT_FATAL(a && b);
  set_data(a, &data);
  set_data(b, &data);
  CU_ASSERT_EQUAL(ptc_interp_run(a->interp, "f"), PTC_OK);
  CU_ASSERT_EQUAL(ptc_interp_run(b->interp, "f"), PTC_OK);
  for (int32_t r = 0; r < 5; r++)
    for (int64_t i = 0; i < interp_case_result_count(a, r); i++)
      CU_ASSERT_EQUAL(interp_case_result(a, r)[i], interp_case_result(b, r)[i]);
  interp_case_close(a);
  interp_case_close(b);
}

static const unit_test_t tests[] = {
    {"forward", test_forward},
    {"gradient", test_gradient},
    {"infinite bias", test_infinite_bias},
};
UNIT_MAIN("interp_attention", tests)

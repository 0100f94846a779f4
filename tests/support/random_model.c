#include "tests/support/random_model.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "tests/support/unit.h"

typedef struct maker_s {
  uint64_t *random;
  ptc_str_t *out;
  int64_t *forms;
  int d, heads, k, seq, vocab, batch;
} maker_t;

// A layer x[b, s, d] -> [b, s, d]. |i| makes its name unique.
typedef void (*layer_writer_t)(maker_t *m, int i);

const char *random_model_form_name(random_model_form_t form) {
  static const char *const names[] = {
#define FORM(id, text) text,
      RANDOM_MODEL_FORMS(FORM)
#undef FORM
  };
  return names[form];
}

static int below(maker_t *m, int n) { return (int)(unit_random(m->random) % (uint64_t)n); }
static bool coin(maker_t *m) { return below(m, 2) == 0; }
static void count(maker_t *m, random_model_form_t form) { m->forms[form]++; }

static const char *pick(maker_t *m, const char *const *words, int n) { return words[below(m, n)]; }

static void emit(maker_t *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void emit(maker_t *m, const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  ptc_str_append(m->out, text);
}

static void write_mlp(maker_t *m, int i) {
  static const char *const acts[] = {"gelu(%s)",     "gelu(%s, approx = tanh)",
                                     "silu(%s)",     "relu(%s)",
                                     "sigmoid(%s)",  "tanh(%s)",
                                     "softplus(%s)", "erf(%s)",
                                     "sin(%s)",      "cos(%s)"};
  // Two of them, so that a few hundred models hold each many times.
  char first[64], second[64], act[160];
  snprintf(first, sizeof(first), pick(m, acts, 10), "u[b, s, f]");
  snprintf(second, sizeof(second), pick(m, acts, 10), "u[b, s, f]");
  snprintf(act, sizeof(act), "(%s + 0.5 * %s)", first, second);
  count(m, RANDOM_MODEL_CONTRACTION);
  emit(m,
       "layer l%d(x[b, s, d], width = %d) {\n  dim f = width\n"
       "  param w1[d, f], w2[f, d] ~ normal(0.3)\n  param(decay = on, lr = 0.5) b1[f] ~ "
       "normal(0.1)\n"
       "  u[b, s, f] = x[b, s, d] * w1[d, f] + b1[f]\n  y[b, s, d] = %s * w2[f, d]\n"
       "  return x + y\n}\n",
       i, 2 + below(m, 5), act);
  count(m, RANDOM_MODEL_OPTIONS);
  count(m, RANDOM_MODEL_WHOLE);
}

static void write_attention(maker_t *m, int i) {
  bool self = coin(m), rope = coin(m);
  count(m, RANDOM_MODEL_ATTENTION);
  emit(m,
       "layer l%d(x[b, s, d]) {\n  dim h = %d, k = %d, g = %d, t = s\n"
       "  param wq[d, h, g, k], wk[d, h, k], wv[d, h, k], wo[h, g, k, d] ~ normal(0.3)\n"
       "  q[b, s, h, g, k] = x[b, s, d] * wq[d, h, g, k]\n"
       "  key[b, s, h, k] = x[b, s, d] * wk[d, h, k]\n  val[b, s, h, k] = x[b, s, d] * wv[d, h, "
       "k]\n",
       i, 1 + below(m, 2), 2 + 2 * below(m, 2), 1 + below(m, 2));
  if (rope)
    emit(m,
         "  q = rope[k](q, at = s, base = 100, style = %s, dims = 2)\n"
         "  key = rope[k](key, at = s, base = 100, style = %s, dims = 2)\n",
         i % 2 ? "interleaved" : "half", i % 2 ? "interleaved" : "half");
  const char *dropout = coin(m) ? ", dropout = 0.3" : "", *cap = coin(m) ? ", softcap = 2" : "";
  if (self) {
    emit(m, "  a = attention[s](q, key, val, dot = k, causal%s%s%s)\n",
         coin(m) ? ", window = 2" : "", cap, dropout);
  } else {
    count(m, RANDOM_MODEL_RENAMED);
    emit(m,
         "  param rel[h, g] ~ normal(0.2)\n"
         "  a = attention[t](q, key[b, t, h, k], val[b, t, h, k], dot = k, mask = index(t) <= "
         "index(s) "
         "+ 1 and (index(t) + index(s)) %% 3 != 1, bias = rel[h, g] * (index(t) - index(s))%s%s)\n",
         cap, dropout);
  }
  emit(m, "  y[b, s, d] = a[b, s, h, g, k] * wo[h, g, k, d]\n  return x + y\n}\n");
}

static void write_spelled(maker_t *m, int i) {
  count(m, RANDOM_MODEL_SPELLED);
  count(m, RANDOM_MODEL_WHERE);
  count(m, RANDOM_MODEL_INDEX);
  count(m, RANDOM_MODEL_N_ARY);
  emit(
      m,
      "layer l%d(x[b, s, d]) {\n  dim t = s, k = %d\n  param wq[d, k], wk[d, k], wv[d, k], wo[k, "
      "d] ~ "
      "normal(0.3)\n  q[b, s, k] = x[b, s, d] * wq[d, k]\n  key[b, s, k] = x[b, s, d] * wk[d, k]\n"
      "  val[b, s, k] = x[b, s, d] * wv[d, k]\n  z[b, s, t] = q[b, s, k] * key[b, t, k] / sqrt(k)\n"
      "  m[b, s, t] = where(index(t) <= index(s), z[b, s, t], -inf)\n"
      "  y[b, s, d] = softmax[t](m)[b, s, t] * val[b, t, k] * wo[k, d]\n  return x + y\n}\n",
      i, 1 + below(m, 4));
}

static void write_conv(maker_t *m, int i) {
  count(m, RANDOM_MODEL_SHIFT);
  count(m, RANDOM_MODEL_PADDED);
  count(m, RANDOM_MODEL_CONSTANT_PLACE);
  count(m, RANDOM_MODEL_REVERSED);
  emit(m,
       "layer l%d(x[b, s, d]) {\n  dim w = %d\n  param c[w, d], g[d] ~ normal(0.3)\n"
       "  y[b, s, d] = padded(x[b, s - w, d], 0) * c[w, d]\n"
       "  z[b, s, d] = x[b, 0, d] * g[d] + 0.1 * x[b, %d - s, d]\n"
       "  v[b, s, d] = padded(x[b, 2 * s - 1, d], 0.5)\n  return x + y + z - v\n}\n",
       i, 1 + below(m, 3), m->seq - 1);
}

static void write_routing(maker_t *m, int i) {
  int experts = 2 + below(m, 3), top = 1 + below(m, 2);
  count(m, RANDOM_MODEL_ROUTING);
  count(m, RANDOM_MODEL_GATHERS);
  count(m, RANDOM_MODEL_TURN_LOSS);
  emit(m,
       "layer l%d(x[b, s, d]) {\n  dim e = %d, j = %d, c = %d, f = 3\n"
       "  param router[d, e] : f32 ~ normal(1)\n  param up[e, d, f], down[e, f, d] ~ normal(0.3)\n"
       "  score[b, s, e] = f32(x[b, s, d]) * router[d, e]\n  p = softmax[e](score)\n"
       "  gw[b, s, j], which[b, s, j] = topk[e](p)\n"
       "  xe[b, e, c, d], slot[b, s, j] = dispatch(x, which)\n"
       "  u[b, e, c, f] = xe[b, e, c, d] * up[e, d, f]\n"
       "  ye[b, e, c, d] = silu(u[b, e, c, f]) * down[e, f, d]\n"
       "  y[b, s, d] = gw[b, s, j] * padded(ye[b, which[b, s, j], slot[b, s, j], d], 0)\n"
       "  used[b, e] = mean[s](sum[j](which[b, s, j] == index(e)))\n"
       "  loss balance%d = 0.1 * mean[b](sum[e](used[b, e] * mean[s](p[b, s, e])))\n"
       "  return x + y\n}\n",
       i, experts, top, 1 + below(m, m->seq), i);
}

static void write_scan(maker_t *m, int i) {
  count(m, RANDOM_MODEL_SCAN);
  count(m, RANDOM_MODEL_REDUCTION);
  emit(m,
       "layer l%d(x[b, s, d]) {\n  param a[d] ~ normal(0.3)\n  c = cumsum[s](x%s)\n"
       "  r = cummax[s](x)\n  top = max[d](x) - min[d](x)\n  e = logsumexp[d](x)\n"
       "  y[b, s, d] = a[d] * (c[b, s, d] / %d + r[b, s, d]) + 0.1 * top[b, s] + 0.1 * e[b, s]\n"
       "  return x + 0.5 * y\n}\n",
       i, coin(m) ? ", reverse" : "", m->seq);
}

static void write_tuple(maker_t *m, int i) {
  count(m, RANDOM_MODEL_SPLIT);
  count(m, RANDOM_MODEL_MERGE);
  count(m, RANDOM_MODEL_NORM);
  emit(m,
       "layer l%d(x[b, s, d]) {\n  dim h = %d, k = d / %d\n  q[b, s, h, k] = x[b, s, (h, k)]\n"
       "  n = %s\n  flat[b, s, (h, k)] = n[b, s, h, k] * q[b, s, h, k]\n  y[b, s, d] = flat[b, s, "
       "d]\n"
       "  return x + 0.3 * y\n}\n",
       i, m->heads, m->heads,
       coin(m) ? "rmsnorm[k](q, offset = 1)" : "layernorm[h, k](q, eps = 1e-3)");
}

static void write_concat(maker_t *m, int i) {
  count(m, RANDOM_MODEL_CONCAT);
  count(m, RANDOM_MODEL_DIAGONAL);
  emit(m,
       "layer l%d(x[b, s, d]) {\n  dim p = 1, q = d - 1, e = d\n"
       "  param wp[d, p], wq[d, q] ~ normal(0.3)\n  param sq[d, e] ~ uniform(-0.5, 0.5)\n"
       "  u[b, s, p] = x[b, s, d] * wp[d, p]\n  v[b, s, q] = x[b, s, d] * wq[d, q]\n"
       "  y[b, s, d] = concat[d](u, v)[b, s, d] * sq[d, d]\n  return x + y\n}\n",
       i);
}

static void write_elementwise(maker_t *m, int i) {
  count(m, RANDOM_MODEL_WHERE);
  count(m, RANDOM_MODEL_CAST);
  emit(m,
       "layer l%d(x[b, s, d]) {\n  param a[d] : %s ~ truncated_normal(0.5)\n  param g[] ~ "
       "constant(0.7)\n"
       "  one = exp(-(x ^ 2)) + log(abs(x) + 1) - rsqrt(x * x + 1)\n"
       "  two = min(x, 0.3) * max(x, -0.4) + (abs(x) + 1) ^ 1.5 / 3\n"
       "  odd = x %% 2 + floor(x) - ceil(x) + sign(x) * 0.1 + int(x)\n"
       "  even = not (index(s) %% 2 == 1) or index(s) > 5 and index(s) < 9\n"
       "  three[b, s, d] = where(even[s], one[b, s, d], two[b, s, d]) + a[d] * sqrt(x[b, s, d] ^ 2 "
       "+ 1)\n"
       "  fin = where(is_finite(three), g * three, 0)\n"
       "  return x + 0.2 * fin + 0.1 * odd\n}\n",
       i, coin(m) ? "bf16" : "f32");
}

static void write_norm(maker_t *m, int i) {
  static const char *const norms[] = {"layernorm[d](x)", "rmsnorm[d](x)",
                                      "rmsnorm@n[d](x, offset = 1)",
                                      "layernorm[d](x, affine = off)", "rmsnorm[s, d](x)"};
  count(m, RANDOM_MODEL_NORM);
  emit(m, "layer l%d(x[b, s, d]) {\n  n = %s\n  return x + n\n}\n", i, pick(m, norms, 5));
}

static void write_dropout(maker_t *m, int i) {
  count(m, RANDOM_MODEL_DROPOUT);
  emit(m, "layer l%d(x[b, s, d]) {\n  return dropout(x, 0.2) + dropout(0.5 * x, 0.4)\n}\n", i);
}

static const layer_writer_t writers[] = {
    write_mlp,   write_attention, write_spelled,     write_conv, write_routing, write_scan,
    write_tuple, write_concat,    write_elementwise, write_norm, write_dropout};
enum { NUM_WRITERS = sizeof(writers) / sizeof(*writers) };

static void write_repeats(maker_t *m, int num_layers) {
  int n = 2 + below(m, 4);
  switch (below(m, 6)) {
    case 0:
      count(m, RANDOM_MODEL_REPEAT);
      emit(m, "  repeat %d {\n", n);
      for (int i = 0; i < num_layers; i++) emit(m, "    x = l%d(x)\n", i);
      emit(m, "  }\n");
      return;
    case 1:
      count(m, RANDOM_MODEL_PERIOD);
      count(m, RANDOM_MODEL_IF);
      emit(m, "  repeat %d as i {\n    if i %% 2 == 0 { x = l0(x) } else { x = l%d(x) }\n  }\n",
           2 + 2 * n, num_layers - 1);
      return;
    case 2:
      count(m, RANDOM_MODEL_RUNS);
      count(m, RANDOM_MODEL_IF);
      emit(m, "  repeat %d as i {\n    if i < 1 { x = l%d(x) } else { x = l0(x) }\n  }\n", n + 1,
           num_layers - 1);
      return;
    case 3:
      count(m, RANDOM_MODEL_NESTED);
      emit(m, "  repeat %d {\n    repeat 2 { x = l0(x) }\n    x = l%d@outer(x)\n  }\n", n,
           num_layers - 1);
      return;
    case 4:
      count(m, RANDOM_MODEL_SHARED);
      count(m, RANDOM_MODEL_ALIAS);
      emit(m, "  repeat %d { x = once(x) }\n  x = l%d@two(x)\n  x = l%d@two(x)\n", n,
           num_layers - 1, num_layers - 1);
      return;
    default:
      count(m, RANDOM_MODEL_SIZES);
      count(m, RANDOM_MODEL_BRANCHES);
      emit(m, "  repeat 4 as i { x, z = pair(x, z, sizes[i]) }\n");
      for (int i = 0; i < num_layers; i++) emit(m, "  x = l%d@top%d(x)\n", i, i);
  }
}

static void write_blocks(maker_t *m) {
  static const char *const schedules[] = {"constant(warmup = 2)", "linear(warmup = 1, steps = 9)",
                                          "cosine(warmup = 2, steps = 9, min_lr = 1e-5)",
                                          "wsd(warmup = 1, steps = 9, decay_steps = 4)"};
  static const char *const optimizers[] = {"adamw(lr = 0.01, weight_decay = 0.1)",
                                           "sgd(lr = 0.1, momentum = 0.9, nesterov = on)",
                                           "sgd(lr = 0.1)"};
  static const char *const precisions[] = {"f32", "bf16", "f16"};
  static const char *const recomputes[] = {"none", "full", "selective", "every(2)", "every(3)"};
  emit(m, "train {\n  batch = %d\n  optimizer = %s\n  lr_schedule = %s\n", m->batch,
       pick(m, optimizers, 3), pick(m, schedules, 4));
  emit(m, "  clip = %s\n  precision = %s\n  seed = %d\n}\n", coin(m) ? "0.5" : "0",
       pick(m, precisions, 3), below(m, 1000));
  emit(m, "parallel {\n  recompute = %s\n", pick(m, recomputes, 5));
  if (coin(m)) emit(m, "  micro_batch = %d\n", 1 + below(m, 2));
  emit(m, "}\n");
}

void random_model_write(uint64_t *random, ptc_str_t *out, int64_t forms[RANDOM_MODEL_NUM_FORMS]) {
  maker_t m = {.random = random, .out = out, .forms = forms};
  m.heads = 1 + below(&m, 2);
  m.d = 2 * m.heads * (1 + below(&m, 2));
  m.seq = 3 + below(&m, 4);
  m.vocab = 5 + below(&m, 6);
  m.batch = 2 * (1 + below(&m, 2));
  int num_layers = 1 + below(&m, 3);
  for (int i = 0; i < num_layers; i++) writers[below(&m, NUM_WRITERS)](&m, i);
  emit(&m,
       "layer pair(x[b, s, d], z[b, s, q], width) {\n  dim f = width\n"
       "  param up[d, f], down[f, q], back[q, d] ~ normal(0.2)\n"
       "  y[b, s, q] = tanh(x[b, s, d] * 0.5) * up[d, f] * down[f, q]\n"
       "  w[b, s, d] = z[b, s, q] * back[q, d]\n  return x + w, z + y\n}\n");
  emit(&m,
       "model random(d = %d, seq = %d, vocab = %d, sizes = [2, 2, 3, 3]) {\n"
       "  dim d, b = batch, s = seq, v = vocab, q = 3, kinds = 3, m = 2\n"
       "  layer once = l0\n"
       "  param emb[v, d] ~ normal(0.5)\n  param tab[kinds, m, d] ~ uniform(-0.3, 0.3)\n"
       "  param(frozen = on) still[d] ~ ones\n"
       "  input tokens[b, s] : int from text\n  input targets[b, s] : int from text + 1\n"
       "  input noise[b, s] ~ uniform(0, 1)\n  input dice[b, s] : int ~ uniform(0, kinds)\n"
       "  input extra[b, s, q]\n",
       m.d, m.seq, m.vocab);
  emit(&m,
       "  x[b, s, d] = emb[tokens[b, s], d] + tab[dice[b, s], tokens[b, s] %% 2, d] * still[d]\n"
       "  x = where(noise < 0.9, x, 0.5 * x)\n  z = extra\n");
  count(&m, RANDOM_MODEL_GATHER);
  count(&m, RANDOM_MODEL_GATHERS);
  count(&m, RANDOM_MODEL_RANDOM_INPUT);
  write_repeats(&m, num_layers);
  emit(&m,
       "  logits[b, s, v] = x[b, s, d] * emb[v, d] + mean[q](z[b, s, q])\n"
       "  loss = cross_entropy[v](logits, targets%s)\n  loss size = 0.01 * mean[b, s, d](x ^ 2)\n"
       "  metric hits = mean[b, s](argmax[v](logits)[b, s] == targets[b, s])\n  output logits\n}\n",
       coin(&m) ? ", weight = tokens != 1" : "");
  count(&m, RANDOM_MODEL_TIED);
  count(&m, RANDOM_MODEL_LOSSES);
  count(&m, RANDOM_MODEL_METRIC);
  count(&m, RANDOM_MODEL_OUTPUT);
  write_blocks(&m);
}

static int64_t draw(uint64_t *random, int64_t count) {
  return (int64_t)(unit_random(random) % (uint64_t)count);
}

void random_model_add_mesh(uint64_t *random, ptc_str_t *text) {
  // dp, ep, cp, tp
  static const int meshes[][4] = {
      {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}, {2, 2, 1, 1}, {2, 1, 2, 1},
      {2, 1, 1, 2}, {1, 2, 2, 1}, {1, 2, 1, 2}, {1, 1, 2, 2}, {4, 1, 1, 1}, {1, 1, 4, 1},
      {1, 1, 1, 4}, {1, 1, 3, 1}, {1, 1, 1, 3}, {2, 1, 3, 1}, {2, 1, 1, 3}, {2, 1, 2, 2},
      {1, 2, 2, 2}, {4, 1, 1, 2}, {2, 1, 1, 4}, {1, 1, 2, 3}, {1, 1, 1, 8}, {1, 1, 1, 5}};
  const int *mesh = meshes[draw(random, sizeof meshes / sizeof *meshes)];
  while (text->len && text->data[text->len - 1] != '}') text->len--;
  text->data[--text->len] = '\0';
  ptc_str_printf(text, "  dp = %d\n  ep = %d\n  cp = %d\n  tp = %d\n  zero = %d\n", mesh[0],
                 mesh[1], mesh[2], mesh[3], (int)draw(random, 4));
  if (draw(random, 2)) ptc_str_append(text, "  sequence_parallel = on\n");
  static const char *const ways[] = {"gather", "ring", "all_to_all", "auto"};
  if (mesh[2] > 1) ptc_str_printf(text, "  cp_attention = %s\n", ways[draw(random, 4)]);
  if (mesh[2] > 1 && mesh[3] == 1 && draw(random, 3) == 0)
    ptc_str_append(text, "  cp_order = balanced\n");
  static const char *const schedules[] = {"gpipe", "1f1b", "zero_bubble", "interleaved"};
  if (draw(random, 3) == 0)
    ptc_str_printf(text, "  pp = 2\n  schedule = %s\n", schedules[draw(random, 4)]);
  // A layout that nobody would choose is one, too.
  static const char *const shards[] = {"emb on tp over v", "emb on tp over d", "tab on tp over m"};
  if (mesh[3] > 1 && draw(random, 3) == 0)
    ptc_str_printf(text, "  shard %s\n", shards[draw(random, 3)]);
  ptc_str_append(text, "}\n");
}

void random_model_make_uneven(ptc_str_t *text) {
  static const char before[] = "\n  batch = ";
  char *batch = strstr(text->data, before);
  if (batch) batch[sizeof before - 1]++;
}

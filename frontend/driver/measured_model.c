// The .ptm text of a decoder whose sizes a row of a table gives.
#include <inttypes.h>

#include "frontend/driver/measured_run.h"

static void attention(const ptc_run_shape_t *m, const char *name, int64_t window, ptc_str_t *out) {
  const char *rope[2] = {"q", "key"};
  if (m->ffn_kind != PTC_FFN_GELU) {
    rope[0] = "rope[k](q, at = s)";
    rope[1] = "rope[k](key, at = s)";
  }
  ptc_str_printf(out, "  layer %s(x[b, s, d]) {\n", name);
  ptc_str_append(
      out,
      "    param wq[d, n, g, k], wk[d, n, k], wv[d, n, k], wo[n, g, k, d] ~ normal(0.02)\n"
      "    q[b, s, n, g, k] = x[b, s, d] * wq[d, n, g, k]\n"
      "    key[b, s, n, k] = x[b, s, d] * wk[d, n, k]\n"
      "    val[b, s, n, k] = x[b, s, d] * wv[d, n, k]\n");
  ptc_str_printf(out, "    a = attention[s](%s, %s, val, dot = k, causal", rope[0], rope[1]);
  if (window > 0) ptc_str_printf(out, ", window = %" PRId64, window);
  ptc_str_printf(out, "%s)\n", m->dropout ? ", dropout = 0.1" : "");
  ptc_str_append(out,
                 "    y[b, s, d] = a[b, s, n, g, k] * wo[n, g, k, d]\n"
                 "    return y\n"
                 "  }\n");
}

static void dense(const ptc_run_shape_t *m, ptc_str_t *out) {
  ptc_str_append(out, "  layer mlp(x[b, s, d], width) {\n    dim f = width\n");
  if (m->ffn_kind == PTC_FFN_GATED)
    ptc_str_append(out,
                   "    param gate[d, f], up[d, f], down[f, d] ~ normal(0.02)\n"
                   "    p[b, s, f] = x[b, s, d] * gate[d, f]\n"
                   "    u[b, s, f] = x[b, s, d] * up[d, f]\n"
                   "    y[b, s, d] = silu(p[b, s, f]) * u[b, s, f] * down[f, d]\n");
  else
    ptc_str_append(out,
                   "    param up[d, f], down[f, d] ~ normal(0.02)\n"
                   "    param bias[f]\n"
                   "    u[b, s, f] = x[b, s, d] * up[d, f] + bias[f]\n");
  if (m->ffn_kind == PTC_FFN_GELU)
    ptc_str_append(out, "    y[b, s, d] = gelu(u[b, s, f], approx = tanh) * down[f, d]\n");
  if (m->ffn_kind == PTC_FFN_SQUARED_RELU)
    ptc_str_append(out,
                   "    r = relu(u)\n"
                   "    y[b, s, d] = r[b, s, f] * r[b, s, f] * down[f, d]\n");
  ptc_str_append(out, "    return y\n  }\n");
}

// What an expert computes of its tokens. |t|: more dims that these have.
static void expert_products(const ptc_run_shape_t *m, const char *t, ptc_str_t *out) {
  if (!m->clamps) {
    ptc_str_printf(
        out,
        "    p[b, %se, c, w] = xe[b, %se, c, d] * gate[e, d, w]\n"
        "    h[b, %se, c, w] = xe[b, %se, c, d] * up[e, d, w]\n"
        "    ye[b, %se, c, d] = silu(p[b, %se, c, w]) * h[b, %se, c, w] * down[e, w, d]\n",
        t, t, t, t, t, t, t);
    return;
  }
  ptc_str_printf(out,
                 "    param pb[e, w], hb[e, w], yb[e, d]\n"
                 "    p[b, %se, c, w] = xe[b, %se, c, d] * gate[e, d, w] + pb[e, w]\n"
                 "    h[b, %se, c, w] = xe[b, %se, c, d] * up[e, d, w] + hb[e, w]\n"
                 "    low = min(p, 7)\n"
                 "    near = max(min(h, 7), -7)\n"
                 "    act = low * sigmoid(1.702 * low) * (near + 1)\n"
                 "    ye[b, %se, c, d] = act[b, %se, c, w] * down[e, w, d] + yb[e, d]\n",
                 t, t, t, t, t, t);
}

// Each rank routes the tokens that it has: parts of a sequence that lies on several ranks (cp, sequence parallelism) have
// slots of their own, t parts of u tokens.
static void experts(const ptc_run_shape_t *m, int64_t parts, ptc_str_t *out) {
  const bool whole = parts <= 1 || m->seq % parts;
  const char *at = whole ? "s" : "t, u";
  if (whole)
    ptc_str_append(out, "  dim t = 1, u = s\n");
  else
    ptc_str_printf(out, "  dim t = %" PRId64 ", u = seq / t\n", parts);
  ptc_str_printf(
      out,
      "  dim e = %" PRId64 ", j = %" PRId64 ", w = %" PRId64
      ", c = ceil(u * j / e)\n"
      "  layer moe(x[b, s, d]) {\n"
      "    param router[d, e], gate[e, d, w], up[e, d, w], down[e, w, d] ~ normal(0.02)\n",
      m->experts, m->topk, m->expert_ffn);
  const char *z = whole ? "x" : "z", *t = whole ? "" : "t, ";
  if (!whole) ptc_str_append(out, "    z[b, t, u, d] = x[b, (t, u), d]\n");
  ptc_str_printf(out,
                 "    score[b, %s, e] = %s[b, %s, d] * router[d, e]\n"
                 "    weight[b, %s, j], which[b, %s, j] = topk[e](softmax[e](score))\n"
                 "    xe[b, %se, c, d], slot[b, %s, j] = dispatch(%s, which)\n",
                 at, z, at, at, at, t, at, z);
  expert_products(m, t, out);
  ptc_str_printf(out,
                 "    y[b, %s, d] = weight[b, %s, j] * padded(ye[b, %swhich[b, %s, j], slot[b, %s, "
                 "j], d], 0)\n",
                 at, at, t, at, at);
  if (!whole)
    ptc_str_append(out, "    y[b, (t, u), d] = y[b, t, u, d]\n    y[b, s, d] = y[b, s, d]\n");
  if (m->shared_experts > 0)
    ptc_str_printf(out, "    return y + mlp@shared(x, %" PRId64 ")\n  }\n",
                   m->shared_experts * m->expert_ffn);
  else
    ptc_str_append(out, "    return y\n  }\n");
}

static int64_t routed_parts(const ptc_measured_run_t *run) {
  const int64_t *size = run->choice.size;
  return size[PTC_AXIS_CP] * (run->choice.sequence_parallel ? size[PTC_AXIS_TP] : 1);
}

void ptc_measured_run_model(const ptc_measured_run_t *run, ptc_str_t *out) {
  const ptc_run_shape_t *m = &run->shape;
  const bool gelu = m->ffn_kind == PTC_FFN_GELU;
  const char *norm = gelu ? "layernorm" : "rmsnorm";
  char inner[4][64];
  ptc_str_printf(out, "model run(seq = %" PRId64 ") {\n", m->seq);
  ptc_str_printf(out,
                 "  dim b = batch, s = seq, d = %" PRId64 ", n = %" PRId64 ", g = %" PRId64
                 ", k = %" PRId64 ", v = %" PRId64 "\n",
                 m->d, m->kv_heads, m->heads / m->kv_heads, m->head_dim, m->vocab);
  ptc_str_append(out, "  param wte[v, d] ~ normal(0.02)\n");
  if (!m->tied) ptc_str_append(out, "  param head[v, d] ~ normal(0.02)\n");
  if (gelu) ptc_str_append(out, "  param wpe[s, d] ~ normal(0.02)\n");
  attention(m, "attn", 0, out);
  if (m->window > 0) attention(m, "close", m->window, out);
  if (m->experts <= 1 || m->shared_experts > 0) dense(m, out);
  if (m->experts > 1) experts(m, routed_parts(run), out);
  snprintf(inner[0], sizeof(inner[0]), "attn(%s@n1[d](x))", norm);
  if (m->experts > 1)
    snprintf(inner[1], sizeof(inner[1]), "moe(%s@n2[d](x))", norm);
  else
    snprintf(inner[1], sizeof(inner[1]), "mlp(%s@n2[d](x), %" PRId64 ")", norm, m->ffn);
  const int64_t of_turn = m->window > 0 ? 2 : 1;
  snprintf(inner[2], sizeof(inner[2]), "close(%s@n3[d](x))", norm);
  snprintf(inner[3], sizeof(inner[3]), "%s@second(%s@n4[d](x))", m->experts > 1 ? "moe" : "mlp",
           norm);
  ptc_str_append(
      out, "  input tokens[b, s] : int from text\n  input targets[b, s] : int from text + 1\n");
  ptc_str_printf(out, "  x[b, s, d] = wte[tokens[b, s], d]%s\n", gelu ? " + wpe[s, d]" : "");
  ptc_str_printf(out, "  repeat %" PRId64 " {\n", m->layers / of_turn);
  for (int i = 0; i < 2 * of_turn; i++) {
    ptc_str_append(out, "    x = x + ");
    if (m->dropout)
      ptc_str_printf(out, "dropout(%s, 0.1)", inner[i]);
    else
      ptc_str_append(out, inner[i]);
    ptc_str_append(out, "\n");
  }
  ptc_str_printf(out,
                 "  }\n"
                 "  logits[b, s, v] = %s@norm[d](x)[b, s, d] * %s[v, d]\n"
                 "  loss = cross_entropy[v](logits, targets)\n}\n",
                 norm, m->tied ? "wte" : "head");
  ptc_str_printf(
      out, "train {\n  batch = %" PRId64 "\n  optimizer = adamw(lr = 1e-4)\n  precision = %s\n}\n",
      m->batch, "bf16");
}

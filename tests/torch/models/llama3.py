"""Llama 3 (Dubey et al. 2024): RMSNorm, rotary positions, grouped-query attention, SwiGLU."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=32, d=4096, heads=32, kv_heads=8, ffn=14336, seq=8192, vocab=128256)


def parameters(c):
    d, n, g, k, f = c.d, c.kv_heads, c.heads // c.kv_heads, c.d // c.heads, c.ffn
    small, out = ("normal", 0.02), ("normal", 0.02 / math.sqrt(2 * c.layers))
    yield "embed", (c.vocab, d), small
    yield "head", (d, c.vocab), small
    for i in range(c.layers):
        yield f"attn_norm.{i}.scale", (d,), ("ones",)
        yield f"attn.{i}.wq", (d, n, g, k), small
        yield f"attn.{i}.wk", (d, n, k), small
        yield f"attn.{i}.wv", (d, n, k), small
        yield f"attn.{i}.wo", (n, g, k, d), out
        yield f"mlp_norm.{i}.scale", (d,), ("ones",)
        yield f"mlp.{i}.gate", (d, f), small
        yield f"mlp.{i}.up", (d, f), small
        yield f"mlp.{i}.down", (f, d), out
    yield "norm.scale", (d,), ("ones",)


def decays(path):
    return not path.endswith(".scale")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "targets", (c.batch, c.seq), c.vocab


def rms_norm(x, scale, eps=1e-5):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * scale


def rotate(x, at, base=500000.0):
    """x: [b, s, ..., k]; pairs (i, i + k/2) turn by at[b, s] * base^(-2i/k), as complex numbers."""
    half = x.shape[-1] // 2
    rate = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = at.double().reshape(at.shape + (1,) * (x.dim() - 2)) * rate
    turn = torch.complex(angle.cos().to(x.dtype), angle.sin().to(x.dtype))
    turned = torch.complex(x[..., :half], x[..., half:]) * turn
    return torch.cat([turned.real, turned.imag], dim=-1)


def attention(c, p, path, x, at, allowed):
    """Grouped-query attention on heads laid out [n * g]; allowed: [b, s, t]."""
    b, s, n = c.batch, c.seq, c.kv_heads
    g, k = c.heads // n, c.d // c.heads
    q = (x @ p[f"{path}.wq"].reshape(c.d, -1)).reshape(b, s, n * g, k)
    key = (x @ p[f"{path}.wk"].reshape(c.d, -1)).reshape(b, s, n, k)
    val = (x @ p[f"{path}.wv"].reshape(c.d, -1)).reshape(b, s, n, k)
    q, key = rotate(q, at), rotate(key, at)
    key, val = key.repeat_interleave(g, dim=2), val.repeat_interleave(g, dim=2)
    scores = torch.einsum("bshk,bthk->bhst", q, key) / math.sqrt(k)
    probs = scores.masked_fill(~allowed[:, None], -math.inf).softmax(-1)
    y = torch.einsum("bhst,bthk->bshk", probs, val).reshape(b, s, -1)
    return y @ p[f"{path}.wo"].reshape(-1, c.d)


def mlp(p, path, x):
    return F.silu(x @ p[f"{path}.gate"]) * (x @ p[f"{path}.up"]) @ p[f"{path}.down"]


def logits_of(c, p, tokens, at, allowed):
    h = p["embed"][tokens]
    for i in range(c.layers):
        h = h + attention(c, p, f"attn.{i}", rms_norm(h, p[f"attn_norm.{i}.scale"]), at, allowed)
        h = h + mlp(p, f"mlp.{i}", rms_norm(h, p[f"mlp_norm.{i}.scale"]))
    return rms_norm(h, p["norm.scale"]) @ p["head"]


def forward(c, p, x, random):
    at = torch.arange(c.seq).expand(c.batch, -1)
    causal = torch.ones(c.seq, c.seq, dtype=torch.bool).tril().expand(c.batch, -1, -1)
    logits = logits_of(c, p, x["tokens"], at, causal)
    return {"loss": F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten())}, {}

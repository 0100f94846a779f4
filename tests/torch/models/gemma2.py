"""Gemma-2 (Gemma Team 2024): alternating windows, soft caps, norms before and after each part."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=26, d=2304, heads=8, kv_heads=4, head_dim=256, ffn=9216, seq=8192,
                vocab=256000, window=4096)


def parameters(c):
    d, n, g, k, f = c.d, c.kv_heads, c.heads // c.kv_heads, c.head_dim, c.ffn
    small = ("normal", 0.02)
    yield "wte", (c.vocab, d), small
    for i in range(c.layers):
        for norm in ("pre_attn", "post_attn", "pre_mlp", "post_mlp"):
            yield f"block.{i}.{norm}.scale", (d,), ("zeros",)
        yield f"block.{i}.attn.wq", (d, n, g, k), small
        yield f"block.{i}.attn.wk", (d, n, k), small
        yield f"block.{i}.attn.wv", (d, n, k), small
        yield f"block.{i}.attn.wo", (n, g, k, d), small
        yield f"block.{i}.mlp.gate", (d, f), small
        yield f"block.{i}.mlp.up", (d, f), small
        yield f"block.{i}.mlp.down", (f, d), small
    yield "final.scale", (d,), ("zeros",)


def decays(path):
    """All but the norms' scales."""
    return not path.endswith(".scale")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "targets", (c.batch, c.seq), c.vocab


def rms_norm(x, scale):
    """The stored scale is the distance from one."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * (1.0 + scale)


def rope(x):
    """Rotate-half form: x * cos + rotate_half(x) * sin; x: [b, s, ..., k]."""
    s, k = x.shape[1], x.shape[-1]
    inv_freq = 1.0 / 10000.0 ** (torch.arange(0, k, 2, dtype=torch.float64) / k)
    freqs = torch.outer(torch.arange(s, dtype=torch.float64), inv_freq)
    angle = torch.cat([freqs, freqs], dim=-1).reshape((s,) + (1,) * (x.dim() - 3) + (k,))
    rotated = torch.cat([-x[..., k // 2:], x[..., :k // 2]], dim=-1)
    return x * angle.cos().to(x.dtype) + rotated * angle.sin().to(x.dtype)


def attention(c, p, path, x, window):
    q = rope(torch.einsum("bsd,dngk->bsngk", x, p[f"{path}.wq"]))
    key = rope(torch.einsum("bsd,dnk->bsnk", x, p[f"{path}.wk"]))
    val = torch.einsum("bsd,dnk->bsnk", x, p[f"{path}.wv"])
    scores = torch.einsum("bsngk,btnk->bngst", q, key) / math.sqrt(256)
    scores = 50.0 * torch.tanh(scores / 50.0)
    s, t = torch.arange(c.seq)[:, None], torch.arange(c.seq)[None, :]
    allowed = t <= s if window == 0 else (t <= s) & (s - t < window)
    probs = scores.masked_fill(~allowed, -math.inf).softmax(-1)
    y = torch.einsum("bngst,btnk->bsngk", probs, val)
    return torch.einsum("bsngk,ngkd->bsd", y, p[f"{path}.wo"])


def mlp(p, path, x):
    gate = F.gelu(x @ p[f"{path}.gate"], approximate="tanh")
    return (gate * (x @ p[f"{path}.up"])) @ p[f"{path}.down"]


def forward(c, p, x, random):
    h = p["wte"][x["tokens"]] * math.sqrt(c.d)
    for i in range(c.layers):
        block = f"block.{i}"
        y = attention(c, p, f"{block}.attn", rms_norm(h, p[f"{block}.pre_attn.scale"]),
                      c.window if i % 2 == 0 else 0)
        h = h + rms_norm(y, p[f"{block}.post_attn.scale"])
        y = mlp(p, f"{block}.mlp", rms_norm(h, p[f"{block}.pre_mlp.scale"]))
        h = h + rms_norm(y, p[f"{block}.post_mlp.scale"])
    logits = rms_norm(h, p["final.scale"]) @ p["wte"].T
    logits = 30.0 * torch.tanh(logits / 30.0)
    return {"loss": F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten())}, {}

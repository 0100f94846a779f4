"""Mixtral (Jiang et al. 2024) with a capacity: of each token's top experts, those with a free slot."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=32, d=4096, heads=32, kv_heads=8, ffn=14336, experts=8, top=2, seq=4096,
                vocab=32000)


def parameters(c):
    d, n, g, k = c.d, c.kv_heads, c.heads // c.kv_heads, c.d // c.heads
    small = ("normal", 0.02)
    yield "embed", (c.vocab, d), small
    yield "head", (d, c.vocab), small
    for i in range(c.layers):
        yield f"attn_norm.{i}.scale", (d,), ("ones",)
        yield f"attn.{i}.wq", (d, n, g, k), small
        yield f"attn.{i}.wk", (d, n, k), small
        yield f"attn.{i}.wv", (d, n, k), small
        yield f"attn.{i}.wo", (n, g, k, d), small
        yield f"moe_norm.{i}.scale", (d,), ("ones",)
        yield f"moe.{i}.router", (d, c.experts), small
        yield f"moe.{i}.gate", (c.experts, d, c.ffn), small
        yield f"moe.{i}.up", (c.experts, d, c.ffn), small
        yield f"moe.{i}.down", (c.experts, c.ffn, d), small
    yield "norm.scale", (d,), ("ones",)


def decays(path):
    """All but the norms' scales."""
    return not path.endswith(".scale")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "targets", (c.batch, c.seq), c.vocab


def rms_norm(x, scale):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * scale


def rotate(x):
    """Rotary positions with base 1e6 on x: [b, s, h, k]."""
    half = x.shape[-1] // 2
    at = torch.arange(x.shape[1], dtype=torch.float64)
    angle = torch.outer(at, 1e6 ** (-torch.arange(half, dtype=torch.float64) / half))[:, None, :]
    a, b = x.split(half, dim=-1)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(c, p, path, x):
    n, k = c.kv_heads, c.d // c.heads
    g = c.heads // n
    q, key, val = ((x @ p[f"{path}.{w}"].flatten(1)).unflatten(-1, (-1, k)) for w in
                   ("wq", "wk", "wv"))
    q, key = rotate(q), rotate(key)
    key, val = key.repeat_interleave(g, dim=2), val.repeat_interleave(g, dim=2)
    scores = torch.einsum("bshk,bthk->bhst", q, key) / math.sqrt(k)
    future = torch.ones(c.seq, c.seq, dtype=torch.bool).triu(1)
    probs = scores.masked_fill(future, -math.inf).softmax(-1)
    y = torch.einsum("bhst,bthk->bshk", probs, val)
    return y.flatten(2) @ p[f"{path}.wo"].flatten(0, 2)


def served(which, experts, capacity):
    """Whether each choice [b, s, j] finds a slot: first come, first served within a sequence."""
    kept = torch.zeros_like(which, dtype=torch.bool)
    for b in range(which.shape[0]):
        used = [0] * experts
        for s in range(which.shape[1]):
            for j in range(which.shape[2]):
                expert = int(which[b, s, j])
                kept[b, s, j] = used[expert] < capacity
                used[expert] += 1
    return kept


def moe(c, p, path, x, stats):
    probs = (x @ p[f"{path}.router"]).softmax(-1)
    order = probs.sort(dim=-1, descending=True, stable=True)
    weight, which = order.values[..., :c.top], order.indices[..., :c.top]
    kept = served(which, c.experts, math.ceil(1.25 * c.seq * c.top / c.experts))
    y = torch.zeros_like(x)
    for e in range(c.experts):
        share = (weight * (kept & (which == e))).sum(-1, keepdim=True)
        hidden = F.silu(x @ p[f"{path}.gate"][e]) * (x @ p[f"{path}.up"][e])
        y = y + share * (hidden @ p[f"{path}.down"][e])
    used = F.one_hot(which, c.experts).sum(2).to(x.dtype).mean(1)
    balance = 0.01 * c.experts / c.top * (used * probs.mean(1)).sum(-1).mean()
    stats["dropped"] = stats.get("dropped", 0) + int((~kept).sum())
    return y, balance


def forward(c, p, x, random):
    h, balance, stats = p["embed"][x["tokens"]], 0.0, {}
    for i in range(c.layers):
        h = h + attention(c, p, f"attn.{i}", rms_norm(h, p[f"attn_norm.{i}.scale"]))
        y, part = moe(c, p, f"moe.{i}", rms_norm(h, p[f"moe_norm.{i}.scale"]), stats)
        h, balance = h + y, balance + part
    logits = rms_norm(h, p["norm.scale"]) @ p["head"]
    loss = F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten())
    return {"loss": loss, "balance": balance}, {"(dropped)": stats["dropped"]}

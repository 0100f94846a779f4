"""GPT-J (Wang and Komatsuzaki 2021): attention and MLP side by side, part-rotary interleaved."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=28, d=4096, heads=16, seq=2048, vocab=50400, rotary=64)


def parameters(c):
    d, h, k, f = c.d, c.heads, c.d // c.heads, 4 * c.d
    small = ("normal", 0.02)
    yield "wte", (c.vocab, d), small
    yield "head", (c.vocab, d), small
    yield "bh", (c.vocab,), ("zeros",)
    for i in range(c.layers):
        yield f"block.{i}.layernorm.scale", (d,), ("ones",)
        yield f"block.{i}.layernorm.bias", (d,), ("zeros",)
        for w in ("wq", "wk", "wv"):
            yield f"block.{i}.{w}", (d, h, k), small
        yield f"block.{i}.wo", (h, k, d), small
        yield f"block.{i}.w1", (d, f), small
        yield f"block.{i}.w2", (f, d), small
        yield f"block.{i}.b1", (f,), ("zeros",)
        yield f"block.{i}.b2", (d,), ("zeros",)
    yield "ln_f.scale", (d,), ("ones",)
    yield "ln_f.bias", (d,), ("zeros",)


def decays(path):
    """Matrices do; biases and norms do not."""
    return path.split(".")[-1] in ("wte", "head", "wq", "wk", "wv", "wo", "w1", "w2")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "targets", (c.batch, c.seq), c.vocab


def rotate_every_two(x, rotary):
    """x: [b, s, h, k]; of the first |rotary| elements the pairs (2i, 2i + 1) turn."""
    out = list(x.unbind(-1))
    at = torch.arange(x.shape[1], dtype=torch.float64)[None, :, None]
    for i in range(rotary // 2):
        angle = at * 10000.0 ** (-2.0 * i / rotary)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., 2 * i], x[..., 2 * i + 1]
        out[2 * i] = a * cos - b * sin
        out[2 * i + 1] = b * cos + a * sin
    return torch.stack(out, dim=-1)


def forward(c, p, x, random):
    k = c.d // c.heads
    causal = torch.ones(c.seq, c.seq, dtype=torch.bool).tril()
    h = p["wte"][x["tokens"]]
    for i in range(c.layers):
        w = {name: p[f"block.{i}.{name}"] for name in
             ("layernorm.scale", "layernorm.bias", "wq", "wk", "wv", "wo", "w1", "w2", "b1", "b2")}
        n = F.layer_norm(h, (c.d,), w["layernorm.scale"], w["layernorm.bias"], eps=1e-5)
        q, key, val = (torch.einsum("bsd,dhk->bshk", n, w[name]) for name in ("wq", "wk", "wv"))
        q, key = rotate_every_two(q, c.rotary), rotate_every_two(key, c.rotary)
        scores = torch.einsum("bshk,bthk->bhst", q, key) / math.sqrt(k)
        probs = scores.masked_fill(~causal, -math.inf).softmax(-1)
        a = torch.einsum("bhst,bthk->bshk", probs, val).flatten(2) @ w["wo"].flatten(0, 1)
        m = F.gelu(n @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"]
        h = h + a + m
    h = F.layer_norm(h, (c.d,), p["ln_f.scale"], p["ln_f.bias"], eps=1e-5)
    logits = h @ p["head"].T + p["bh"]
    return {"loss": F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten())}, {}

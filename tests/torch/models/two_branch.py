"""A wide and a narrow branch that exchange through small projections; widths differ by layer."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=6, wide=768, narrow=192, sizes=[1024, 1024, 2048, 2048, 3072, 3072],
                seq=512, vocab=256)
HEADS = {"wide": 12, "narrow": 3}


def parameters(c):
    small = ("normal", 0.02)
    width = {"wide": c.wide, "narrow": c.narrow}
    yield "ew", (c.vocab, c.wide), small
    yield "en", (c.vocab, c.narrow), small
    yield "head", (c.wide, c.vocab), small
    for i in range(c.layers):
        cross = f"cross.{i}"
        yield f"{cross}.down", (c.wide, c.narrow), small
        yield f"{cross}.up", (c.narrow, c.wide), small
        for norm, branch in (("n1", "wide"), ("n2", "narrow"), ("n3", "wide"), ("n4", "narrow")):
            yield f"{cross}.{norm}.scale", (width[branch],), ("ones",)
        for branch, h in HEADS.items():
            d = width[branch]
            for w in ("wq", "wk", "wv"):
                yield f"{cross}.{branch}.{w}", (d, h, d // h), small
            yield f"{cross}.{branch}.wo", (h, d // h, d), small
            f = c.sizes[i] if branch == "wide" else c.sizes[i] // 4
            yield f"{cross}.{branch}_ffn.w1", (d, f), small
            yield f"{cross}.{branch}_ffn.w2", (f, d), small
    yield "norm.scale", (c.wide,), ("ones",)


def decays(path):
    """All but the norms' scales."""
    return not path.endswith(".scale")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "targets", (c.batch, c.seq), c.vocab


def rms_norm(x, scale):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * scale


def rope(x):
    half = x.shape[-1] // 2
    at = torch.arange(x.shape[1], dtype=torch.float64)
    angle = torch.outer(at, 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half))
    cos, sin = (part[:, None, :].to(x.dtype) for part in (angle.cos(), angle.sin()))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def mix(p, path, x):
    q, key, val = (torch.einsum("bsd,dhk->bshk", x, p[f"{path}.{w}"]) for w in ("wq", "wk", "wv"))
    q, key = rope(q), rope(key)
    scores = torch.einsum("bshk,bthk->bhst", q, key) / math.sqrt(q.shape[-1])
    causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    probs = scores.masked_fill(~causal, -math.inf).softmax(-1)
    return torch.einsum("bhst,bthk,hkd->bsd", probs, val, p[f"{path}.wo"])


def ffn(p, path, x):
    return F.gelu(x @ p[f"{path}.w1"]) @ p[f"{path}.w2"]


def forward(c, p, x, random):
    wide, narrow = p["ew"][x["tokens"]], p["en"][x["tokens"]]
    for i in range(c.layers):
        cross = f"cross.{i}"
        scale = [p[f"{cross}.n{n}.scale"] for n in (1, 2, 3, 4)]
        wide = wide + mix(p, f"{cross}.wide", rms_norm(wide, scale[0]))
        narrow = narrow + mix(p, f"{cross}.narrow", rms_norm(narrow, scale[1]))
        narrow2 = narrow + wide @ p[f"{cross}.down"]
        wide2 = wide + narrow @ p[f"{cross}.up"]
        wide = wide2 + ffn(p, f"{cross}.wide_ffn", rms_norm(wide2, scale[2]))
        narrow = narrow2 + ffn(p, f"{cross}.narrow_ffn", rms_norm(narrow2, scale[3]))
    logits = rms_norm(wide, p["norm.scale"]) @ p["head"]
    return {"loss": F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten())}, {}

"""T5 (Raffel et al. 2019) with clipped relative positions (extra/t5.ptm)."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=6, d=512, heads=8, head_dim=64, ffn=2048, src=512, tgt=128, vocab=32128,
                span=16, pad=0)


def parameters(c):
    d, h, k, f = c.d, c.heads, c.head_dim, c.ffn
    yield "wte", (c.vocab, d), ("normal", 1.0)
    yield "enc_rel", (2 * c.span + 1, h), ("normal", 0.1)
    yield "dec_rel", (2 * c.span + 1, h), ("normal", 0.1)
    norms = ["enc_norm", "dec_norm"]
    for i in range(c.layers):
        for part in ("enc", "dec", "cross"):
            yield f"{part}.{i}.wq", (d, h, k), ("normal", 1 / math.sqrt(d * k))
            yield f"{part}.{i}.wk", (d, h, k), ("normal", 1 / math.sqrt(d))
            yield f"{part}.{i}.wv", (d, h, k), ("normal", 1 / math.sqrt(d))
            yield f"{part}.{i}.wo", (h, k, d), ("normal", 1 / math.sqrt(h * k))
        for part in ("enc_mlp", "dec_mlp"):
            yield f"{part}.{i}.w1", (d, f), ("normal", 1 / math.sqrt(d))
            yield f"{part}.{i}.w2", (f, d), ("normal", 1 / math.sqrt(f))
        norms += [f"{name}.{i}" for name in ("enc_n1", "enc_n2", "dec_n1", "dec_n2", "dec_n3")]
    for norm in norms:
        yield f"{norm}.scale", (d,), ("ones",)


def decays(path):
    """Weights do; norms and the learned biases of positions do not."""
    return path.split(".")[-1] in ("wte", "wq", "wk", "wv", "wo", "w1", "w2")


def inputs(c):
    yield "source", (c.batch, c.src), c.vocab
    yield "target", (c.batch, c.tgt), c.vocab


def norm(x, scale):
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * scale


def relative(table, size, span):
    at = torch.arange(size)
    gap = (at[None, :] - at[:, None]).clamp(-span, span) + span
    return table[gap].permute(2, 0, 1)  # [h, query, key]


def attention(p, path, x, memory, bias, seen):
    """seen: [b, 1, query or 1, key]; a row that sees nothing gets zeros."""
    q, key, val = (torch.einsum("bsd,dhk->bhsk", y, p[f"{path}.{w}"]) for y, w in
                   ((x, "wq"), (memory, "wk"), (memory, "wv")))
    scores = q @ key.transpose(-1, -2) + bias
    blind = ~seen.any(-1, keepdim=True)
    probs = scores.masked_fill(~(seen | blind), -math.inf).softmax(-1) * ~blind
    return torch.einsum("bhsk,hkd->bsd", probs @ val, p[f"{path}.wo"])


def mlp(p, path, x):
    return F.relu(x @ p[f"{path}.w1"]) @ p[f"{path}.w2"]


def forward(c, p, x, random):
    source, target = x["source"], x["target"]
    source_ok = (source != c.pad)[:, None, None, :]
    h, bias = p["wte"][source], relative(p["enc_rel"], c.src, c.span)
    for i in range(c.layers):
        n = norm(h, p[f"enc_n1.{i}.scale"])
        h = h + attention(p, f"enc.{i}", n, n, bias, source_ok)
        h = h + mlp(p, f"enc_mlp.{i}", norm(h, p[f"enc_n2.{i}.scale"]))
    memory = norm(h, p["enc_norm.scale"])
    entry = F.pad(target, (1, 0))[:, :-1]
    seen = torch.ones(c.tgt, c.tgt, dtype=torch.bool).tril() & (entry != c.pad)[:, None, None, :]
    h, bias = p["wte"][entry], relative(p["dec_rel"], c.tgt, c.span)
    for i in range(c.layers):
        n = norm(h, p[f"dec_n1.{i}.scale"])
        h = h + attention(p, f"dec.{i}", n, n, bias, seen)
        h = h + attention(p, f"cross.{i}", norm(h, p[f"dec_n2.{i}.scale"]), memory, 0.0, source_ok)
        h = h + mlp(p, f"dec_mlp.{i}", norm(h, p[f"dec_n3.{i}.scale"]))
    logits = norm(h, p["dec_norm.scale"]) @ p["wte"].T / math.sqrt(c.d)
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=c.pad)
    z = 0.01 * logits.logsumexp(-1).square().mean()
    return {"loss": loss, "z": z}, {"(pads)": int((source == c.pad).sum() + (target == c.pad).sum())}

"""GPT-2 (Radford et al. 2019): learned positions, pre-norm, tanh GELU, tied embedding, dropout."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=12, d=768, heads=12, seq=1024, vocab=50257, drop=0.1)


def parameters(c):
    d, h = c.d, c.heads
    k, f = d // h, 4 * d
    small, out = ("normal", 0.02), ("normal", 0.02 / math.sqrt(2 * c.layers))
    yield "wte", (c.vocab, d), small
    yield "wpe", (c.seq, d), ("normal", 0.01)
    for i in range(c.layers):
        for norm in ("ln1", "ln2"):
            yield f"block.{i}.{norm}.scale", (d,), ("ones",)
            yield f"block.{i}.{norm}.bias", (d,), ("zeros",)
        for w, b in (("wq", "bq"), ("wk", "bk"), ("wv", "bv")):
            yield f"block.{i}.attn.{w}", (d, h, k), small
            yield f"block.{i}.attn.{b}", (h, k), ("zeros",)
        yield f"block.{i}.attn.wo", (h, k, d), out
        yield f"block.{i}.attn.bo", (d,), ("zeros",)
        yield f"block.{i}.mlp.w1", (d, f), small
        yield f"block.{i}.mlp.w2", (f, d), out
        yield f"block.{i}.mlp.b1", (f,), ("zeros",)
        yield f"block.{i}.mlp.b2", (d,), ("zeros",)
    yield "ln_f.scale", (d,), ("ones",)
    yield "ln_f.bias", (d,), ("zeros",)


def decays(path):
    """Weights do; biases, norms and positions, which no product contracts, do not."""
    return path.split(".")[-1] in ("wte", "wq", "wk", "wv", "wo", "w1", "w2")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "targets", (c.batch, c.seq), c.vocab


def attention(c, p, path, x, random):
    q, k, v = (torch.einsum("bsd,dhk->bshk", x, p[f"{path}.w{n}"]) + p[f"{path}.b{n}"]
               for n in "qkv")
    scores = torch.einsum("bshk,bthk->bsht", q, k) / math.sqrt(q.shape[-1])
    future = torch.ones(c.seq, c.seq, dtype=torch.bool).triu(1)
    probs = scores.masked_fill(future[None, :, None, :], -math.inf).softmax(-1)
    probs = random.dropout(probs, c.drop, f"{path}.attention")
    y = torch.einsum("bsht,bthk->bshk", probs, v)
    y = torch.einsum("bshk,hkd->bsd", y, p[f"{path}.wo"]) + p[f"{path}.bo"]
    return random.dropout(y, c.drop, f"{path}.dropout")


def mlp(c, p, path, x, random):
    u = F.gelu(x @ p[f"{path}.w1"] + p[f"{path}.b1"], approximate="tanh")
    return random.dropout(u @ p[f"{path}.w2"] + p[f"{path}.b2"], c.drop, f"{path}.dropout")


def forward(c, p, x, random):
    def norm(path, h):
        return F.layer_norm(h, (c.d,), p[f"{path}.scale"], p[f"{path}.bias"], eps=1e-5)

    h = p["wte"][x["tokens"]] + p["wpe"]
    h = random.dropout(h, c.drop, "dropout")
    for i in range(c.layers):
        h = h + attention(c, p, f"block.{i}.attn", norm(f"block.{i}.ln1", h), random)
        h = h + mlp(c, p, f"block.{i}.mlp", norm(f"block.{i}.ln2", h), random)
    logits = norm("ln_f", h) @ p["wte"].T
    loss = F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten())
    hits = (logits.argmax(-1) == x["targets"]).double().mean()
    return {"loss": loss}, {"accuracy": hits}

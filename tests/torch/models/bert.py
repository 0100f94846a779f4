"""BERT (Devlin et al. 2018): encoder, post-norm, masked-token loss with masks drawn each step."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=12, d=768, heads=12, seq=512, vocab=30522, pad=0, mask_id=103, drop=0.1)


def parameters(c):
    d, h, k, f = c.d, c.heads, c.d // c.heads, 4 * c.d
    small = ("truncated_normal", 0.02)
    yield "wte", (c.vocab, d), small
    yield "wpe", (c.seq, d), small
    yield "wse", (2, d), small
    yield "wt", (d, d), small
    yield "bv", (c.vocab,), ("zeros",)
    norms = ["ln0", "ln_t"]
    for i in range(c.layers):
        for name in ("wq", "wk", "wv"):
            yield f"block.{i}.{name}", (d, h, k), small
        yield f"block.{i}.wo", (h, k, d), small
        yield f"block.{i}.w1", (d, f), small
        yield f"block.{i}.w2", (f, d), small
        for name in ("bq", "bk", "bv"):
            yield f"block.{i}.{name}", (h, k), ("zeros",)
        yield f"block.{i}.bo", (d,), ("zeros",)
        yield f"block.{i}.b1", (f,), ("zeros",)
        yield f"block.{i}.b2", (d,), ("zeros",)
        norms += [f"block.{i}.ln1", f"block.{i}.ln2"]
    for norm in norms:
        yield f"{norm}.scale", (d,), ("ones",)
        yield f"{norm}.bias", (d,), ("zeros",)


def decays(path):
    """Weights do; biases, norms and positions, which no product contracts, do not."""
    return path.split(".")[-1] in ("wte", "wse", "wt", "wq", "wk", "wv", "wo", "w1", "w2")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "segment", (c.batch, c.seq), 2


def block(c, p, path, x, valid, random):
    def norm(name, h):
        return F.layer_norm(h, (c.d,), p[f"{path}.{name}.scale"], p[f"{path}.{name}.bias"], 1e-12)

    q, key, val = (torch.einsum("bsd,dhk->bshk", x, p[f"{path}.w{n}"]) + p[f"{path}.b{n}"]
                   for n in "qkv")
    scores = torch.einsum("bshk,bthk->bsht", q, key) / math.sqrt(c.d // c.heads)
    scores = scores.masked_fill(~valid[:, None, None, :], -math.inf)
    probs = random.dropout(scores.softmax(-1), c.drop, f"{path}.attention")
    y = torch.einsum("bsht,bthk->bshk", probs, val)
    y = torch.einsum("bshk,hkd->bsd", y, p[f"{path}.wo"]) + p[f"{path}.bo"]
    x = norm("ln1", x + random.dropout(y, c.drop, f"{path}.dropout"))
    m = F.gelu(x @ p[f"{path}.w1"] + p[f"{path}.b1"]) @ p[f"{path}.w2"] + p[f"{path}.b2"]
    return norm("ln2", x + random.dropout(m, c.drop, f"{path}.dropout_2"))


def forward(c, p, x, random):
    tokens = x["tokens"]
    valid = tokens != c.pad
    pick, kind = (random.uniform(name, tokens.shape, 0.0, 1.0) for name in ("pick", "kind"))
    other = random.uniform("other", tokens.shape, 0.0, float(c.vocab)).floor().long()
    chosen = (pick < 0.15) & valid
    # Of the chosen: 80 % masked, 10 % replaced, 10 % kept.
    seen = tokens.clone()
    seen[chosen & (kind < 0.8)] = c.mask_id
    swap = chosen & (kind >= 0.8) & (kind < 0.9)
    seen[swap] = other[swap]
    h = p["wte"][seen] + p["wpe"] + p["wse"][x["segment"]]
    h = F.layer_norm(h, (c.d,), p["ln0.scale"], p["ln0.bias"], 1e-12)
    h = random.dropout(h, c.drop, "dropout")
    for i in range(c.layers):
        h = block(c, p, f"block.{i}", h, valid, random)
    r = F.layer_norm(F.gelu(h @ p["wt"]), (c.d,), p["ln_t.scale"], p["ln_t.bias"], 1e-5)
    logits = r @ p["wte"].T + p["bv"]
    loss = F.cross_entropy(logits[chosen], tokens[chosen])
    counts = {"(pads)": int((~valid).sum()), "(chosen)": int(chosen.sum()),
              "(swapped)": int(swap.sum())}
    return {"loss": loss}, counts

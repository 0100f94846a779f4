"""The reference of extra/forms.ptm: rarely used forms, in one model."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=4, d=96, heads=8, seq=64, vocab=500, widths=[8, 16, 24, 32], drop=0.1)
FROZEN = {"fixed"}


def parameters(c):
    d = c.d
    yield "wte", (c.vocab, d), ("normal", 1.0)
    yield "shared", (d, d), ("normal", 0.1)
    yield "slope", (c.heads,), ("uniform", 0.1, 1.0)
    yield "fixed", (d, d), ("uniform", -0.5, 0.5)
    for i in range(c.layers):
        yield f"scan.{i}.rate", (d,), ("uniform", -1.0, 1.0)
        for n in range(2):
            yield f"look.{i}.{n}.gain", (c.heads,), ("constant", 1.5)
        if i % 2 == 0:
            yield f"rmsnorm.{i}.scale", (d,), ("ones",)
            yield f"bend.{i}.up", (d, c.widths[i]), ("normal", 0.4)
            yield f"bend.{i}.down", (c.widths[i], d), ("normal", 0.4)
        else:
            yield f"halve.{i}.taps", (3, d), ("uniform", -0.5, 0.5)


def decays(path):
    """What is contracted or gathered."""
    return path.split(".")[-1] in ("wte", "shared", "up", "down", "taps")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "targets", (c.batch, c.seq), c.vocab


def scan(x, rate):
    """Products and maxima of all that came before, one position after the other."""
    keep = torch.sigmoid(x * rate)
    product, high, rows = torch.ones_like(x[:, 0]), x[:, 0], []
    for s in range(x.shape[1]):
        product = product * keep[:, s]
        high = torch.maximum(high, x[:, s]) if s else x[:, 0]
        rows.append(x[:, s] + product * high)
    return torch.stack(rows, dim=1)


def halve(x, taps):
    rows = []
    for s in range(x.shape[1]):
        r, row = s // 2, x[:, s]
        for w in range(3):
            at = 2 * r + w - 1
            if 0 <= at < x.shape[1]:
                row = row + x[:, at] * taps[w]
        rows.append(row)
    return torch.stack(rows, dim=1)


def look(c, p, path, x, far, random):
    q = x.unflatten(-1, (c.heads, c.d // c.heads)) * p[f"{path}.gain"][:, None]
    scores = torch.einsum("bshk,bthk->bsht", q, q) / math.sqrt(q.shape[-1])
    scores = 2.0 * torch.tanh(scores / 2.0)
    gap = torch.arange(c.seq)[:, None] - torch.arange(c.seq)[None, :]  # s - t
    scores = scores - p["slope"][:, None] * gap[:, None, :]
    hidden = (gap < 0) | (gap >= far)
    probs = scores.masked_fill(hidden[:, None, :], -math.inf).softmax(-1)
    probs = random.dropout(probs, c.drop, f"{path}.attention")
    return x + torch.einsum("bsht,bthk->bshk", probs, q).flatten(2) @ p["shared"]


def bend(c, p, path, x, random):
    u = x @ p[f"{path}.up"]
    u = F.leaky_relu(u, 0.1) + 0.5 * torch.sin(2 * u) - torch.tanh(u).pow(3)
    u = (u.clamp(-2, 2) + torch.remainder(u.abs(), 0.7) + (u.square() + 0.5).sqrt() * torch.erf(u)
         - 1 / (u.square() + 1).sqrt())
    u = random.dropout(u, c.drop, f"{path}.dropout")
    return u @ p[f"{path}.down"], 0.1 * u.abs().max(-1).values.mean()


def forward(c, p, x, random):
    h, size = p["wte"][x["tokens"]], 0.0
    for i in range(c.layers):
        h = scan(h, p[f"scan.{i}.rate"])
        for n in range(2):
            h = look(c, p, f"look.{i}.{n}", h, 2 + n, random)
        if i % 2 == 0:
            n = h * (h.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * p[f"rmsnorm.{i}.scale"]
            y, part = bend(c, p, f"bend.{i}", n, random)
            h, size = h + y, size + part
        else:
            h = halve(h, p[f"halve.{i}.taps"])
    logits = F.layer_norm(h, (c.d,), eps=1e-5) @ p["wte"].T / math.sqrt(c.d)
    loss = F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten())
    best, which = logits.sort(dim=-1, descending=True, stable=True)
    margin = 0.1 * (best[..., 0] - best[..., 1]).mean()
    picked = -0.1 * logits.gather(-1, x["targets"][..., None]).mean()
    left, right = h.max(1).values, h[:, 0]
    for _ in range(3):
        left, right = right + (F.relu(left) + F.softplus(left)) @ p["fixed"], left
    tail = 0.1 * torch.log1p(right.square()).mean()
    second = (which[..., 1] == x["targets"]).double().mean()
    return ({"loss": loss, "size": size, "margin": margin, "picked": picked, "tail": tail},
            {"second": second})

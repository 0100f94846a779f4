"""A vision transformer (Dosovitskiy et al. 2020) with some later parts (extra/vit.ptm)."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=12, d=768, heads=12, side=14, patch=16, channels=3, classes=1000, skip=0.1)


def parameters(c):
    d, h, k, f = c.d, c.heads, c.d // c.heads, 2 * c.d
    small = ("truncated_normal", 0.02)
    yield "wp", (c.patch, c.patch, c.channels, d), ("normal", 0.02)
    yield "bp", (d,), ("zeros",)
    yield "cls", (1, d), small
    yield "pos", (c.side**2 + 1, d), small
    yield "head", (d, c.classes), ("uniform", -0.1, 0.1)
    for i in range(c.layers):
        yield f"block.{i}.wqkv", (3, d, h, k), small
        yield f"block.{i}.bqkv", (3, h, k), ("zeros",)
        yield f"block.{i}.wo", (h, k, d), small
        yield f"block.{i}.w1", (d, f), small
        yield f"block.{i}.w2", (f, d), small
        yield f"block.{i}.g1", (d,), ("constant", 0.1)
        yield f"block.{i}.g2", (d,), ("constant", 0.1)
        yield f"block.{i}.qn.scale", (k,), ("ones",)
        yield f"block.{i}.kn.scale", (k,), ("ones",)
        for norm in ("ln1", "ln2"):
            yield f"block.{i}.{norm}.scale", (d,), ("ones",)
            yield f"block.{i}.{norm}.bias", (d,), ("zeros",)
    yield "ln_f.scale", (d,), ("ones",)
    yield "ln_f.bias", (d,), ("zeros",)


def decays(path):
    """What a product contracts; not the class token, positions, biases and scales."""
    return path.split(".")[-1] in ("wp", "head", "wqkv", "wo", "w1", "w2")


def inputs(c):
    side = c.side * c.patch
    yield "image", (c.batch, side, side, c.channels), None
    yield "label", (c.batch,), c.classes


def rms_norm(x, scale):
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * scale


def forward(c, p, x, random):
    def norm(path, h):
        return F.layer_norm(h, (c.d,), p[f"{path}.scale"], p[f"{path}.bias"], eps=1e-5)

    # Patches by a strided convolution: image [b, c, row, col], kernel [d, c, p, q].
    grid = F.conv2d(x["image"].permute(0, 3, 1, 2), p["wp"].permute(3, 2, 0, 1), p["bp"],
                    stride=c.patch)
    h = torch.cat([p["cls"].expand(c.batch, 1, c.d), grid.flatten(2).transpose(1, 2)], dim=1)
    h = h + p["pos"]
    stays = random.uniform("chance", (c.batch,), 0.0, 1.0) >= c.skip
    for i in range(c.layers):
        path = f"block.{i}"
        n = norm(f"{path}.ln1", h)
        q, key, val = (torch.einsum("zdhk,bsd->zbhsk", p[f"{path}.wqkv"], n)
                       + p[f"{path}.bqkv"][:, None, :, None]).unbind(0)
        q, key = rms_norm(q, p[f"{path}.qn.scale"]), rms_norm(key, p[f"{path}.kn.scale"])
        probs = (q @ key.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        h = h + p[f"{path}.g1"] * torch.einsum("bhsk,hkd->bsd", probs @ val, p[f"{path}.wo"])
        m = F.relu(norm(f"{path}.ln2", h) @ p[f"{path}.w1"]).square() @ p[f"{path}.w2"]
        h = h + stays[:, None, None] * p[f"{path}.g2"] * m
    logits = norm("ln_f", h)[:, 0] @ p["head"]
    loss = 0.9 * F.cross_entropy(logits, x["label"])
    smooth = -0.1 * F.log_softmax(logits, -1).mean()
    hits = (logits.argmax(-1) == x["label"]).double().mean()
    return ({"loss": loss, "smooth": smooth},
            {"hits": hits, "(skipped)": int((~stays).sum())})

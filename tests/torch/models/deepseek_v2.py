"""DeepSeek-V2 (2024): multi-head latent attention, shared and routed experts with a capacity."""
import math

import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=27, d=2048, heads=16, q_rank=1536, kv_rank=512, nope=128, rope_dim=64,
                v_dim=128, ffn=10944, moe_ffn=1408, experts=64, top=6, shared=2, dense=1, seq=4096,
                vocab=102400)


def parameters(c):
    d, h, e, f = c.d, c.heads, c.experts, c.moe_ffn
    small = ("normal", 0.006)

    def gated(path, width):
        yield f"{path}.gate", (d, width), small
        yield f"{path}.up", (d, width), small
        yield f"{path}.down", (width, d), small

    yield "embed", (c.vocab, d), small
    yield "head", (c.vocab, d), small
    for i in range(c.layers):
        yield f"attn_norm.{i}.scale", (d,), ("ones",)
        yield f"mla.{i}.wdq", (d, c.q_rank), small
        yield f"mla.{i}.wuq", (c.q_rank, h, c.nope), small
        yield f"mla.{i}.wqr", (c.q_rank, h, c.rope_dim), small
        yield f"mla.{i}.wdkv", (d, c.kv_rank), small
        yield f"mla.{i}.wkr", (d, c.rope_dim), small
        yield f"mla.{i}.wuk", (c.kv_rank, h, c.nope), small
        yield f"mla.{i}.wuv", (c.kv_rank, h, c.v_dim), small
        yield f"mla.{i}.wo", (h, c.v_dim, d), small
        yield f"mla.{i}.q_norm.scale", (c.q_rank,), ("ones",)
        yield f"mla.{i}.kv_norm.scale", (c.kv_rank,), ("ones",)
        yield f"mlp_norm.{i}.scale", (d,), ("ones",)
        if i < c.dense:
            yield from gated(f"mlp.{i}", c.ffn)
        else:
            yield f"moe.{i}.router", (d, e), small
            yield f"moe.{i}.gate", (e, d, f), small
            yield f"moe.{i}.up", (e, d, f), small
            yield f"moe.{i}.down", (e, f, d), small
            yield from gated(f"moe.{i}.shared", c.shared * f)
    yield "norm.scale", (d,), ("ones",)


def decays(path):
    """All but the norms' scales."""
    return not path.endswith(".scale")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "targets", (c.batch, c.seq), c.vocab


def rms_norm(x, scale):
    return x / (x.norm(dim=-1, keepdim=True).square() / x.shape[-1] + 1e-6).sqrt() * scale


def rope(x):
    """x: [b, s, h, kr], pairs (i, i + kr/2)."""
    width = x.shape[-1]
    theta = 10000.0 ** (-2.0 * torch.arange(width // 2, dtype=torch.float64) / width)
    angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None, None] * theta
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def mla(c, p, path, x):
    w = {name: p[f"{path}.{name}"] for name in
         ("wdq", "wuq", "wqr", "wdkv", "wkr", "wuk", "wuv", "wo")}
    lq = rms_norm(x @ w["wdq"], p[f"{path}.q_norm.scale"])
    lkv = rms_norm(x @ w["wdkv"], p[f"{path}.kv_norm.scale"])

    def up(latent, weight):
        return torch.einsum("bsc,chk->bshk", latent, weight)

    shared_key = rope((x @ w["wkr"]).unsqueeze(2))
    # The scores as a sum of their two parts; nothing is concatenated.
    scores = torch.einsum("bshk,bthk->bhst", up(lq, w["wuq"]), up(lkv, w["wuk"]))
    scores = scores + torch.einsum("bshk,btk->bhst", rope(up(lq, w["wqr"])), shared_key.squeeze(2))
    scores = scores / math.sqrt(c.nope + c.rope_dim)
    causal = torch.ones(c.seq, c.seq, dtype=torch.bool).tril()
    probs = torch.where(causal, scores, torch.full_like(scores, -math.inf)).softmax(-1)
    y = torch.einsum("bhst,bthw->bshw", probs, up(lkv, w["wuv"]))
    return torch.einsum("bshw,hwd->bsd", y, w["wo"])


def gated_mlp(gate, up, down, x):
    return (F.silu(x @ gate) * (x @ up)) @ down


def moe(c, p, path, x, stats):
    """Tokens are carried to their experts one by one, in order, while there are slots."""
    capacity = math.ceil(1.25 * c.seq * c.top / c.experts)
    probs = F.softmax(x @ p[f"{path}.router"], dim=-1)
    order = torch.argsort(probs.detach(), dim=-1, descending=True, stable=True)[..., :c.top]
    experts = list(zip(*(p[f"{path}.{name}"].unbind(0) for name in ("gate", "up", "down"))))
    rows = []
    for b in range(c.batch):
        queue = [0] * c.experts
        for s in range(c.seq):
            token, y = x[b, s], torch.zeros(c.d, dtype=x.dtype)
            for e in order[b, s].tolist():
                if queue[e] < capacity:
                    y = y + 16.0 * probs[b, s, e] * gated_mlp(*experts[e], token)
                else:
                    stats["dropped"] = stats.get("dropped", 0) + 1
                queue[e] += 1
            rows.append(y)
    routed = torch.stack(rows).reshape(c.batch, c.seq, c.d)
    used = torch.stack([(order == e).sum((1, 2)) / c.seq for e in range(c.experts)], dim=-1)
    balance = 0.003 * c.experts / c.top * (used.to(x.dtype) * probs.mean(1)).sum(1).mean()
    shared = gated_mlp(p[f"{path}.shared.gate"], p[f"{path}.shared.up"], p[f"{path}.shared.down"],
                       x)
    return routed + shared, balance


def forward(c, p, x, random):
    h, balance, stats = p["embed"][x["tokens"]], 0.0, {}
    for i in range(c.layers):
        h = h + mla(c, p, f"mla.{i}", rms_norm(h, p[f"attn_norm.{i}.scale"]))
        n = rms_norm(h, p[f"mlp_norm.{i}.scale"])
        if i < c.dense:
            h = h + gated_mlp(p[f"mlp.{i}.gate"], p[f"mlp.{i}.up"], p[f"mlp.{i}.down"], n)
        else:
            y, part = moe(c, p, f"moe.{i}", n, stats)
            h, balance = h + y, balance + part
    logits = rms_norm(h, p["norm.scale"]) @ p["head"].T
    loss = F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten())
    return {"loss": loss, "balance": balance}, {"(dropped)": stats.get("dropped", 0)}

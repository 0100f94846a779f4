"""Mamba-2 (Dao and Gu 2024): the state-space layer, here as the recurrence over time it stands for.

ptc's text writes it as one masked matrix product over (s, t); the recurrence
    S[s] = exp(-exp(alog) dt[s]) S[s-1] + dt[s] x[s] (x) B[s],   y[s] = S[s] C[s] + skip x[s]
is the same function.
"""
import torch
import torch.nn.functional as F

DEFAULTS = dict(layers=24, d=768, expand=2, head_dim=64, state=128, conv=4, seq=2048, vocab=50288)


def parameters(c):
    d, n, p, w = c.d, c.state, c.head_dim, c.conv
    h = c.expand * d // p
    small, tap = ("normal", 0.02), ("uniform", -0.5, 0.5)
    yield "wte", (c.vocab, d), small
    for i in range(c.layers):
        yield f"rmsnorm.{i}.scale", (d,), ("ones",)
        yield f"ssd.{i}.wz", (d, h, p), small
        yield f"ssd.{i}.wx", (d, h, p), small
        yield f"ssd.{i}.wb", (d, n), small
        yield f"ssd.{i}.wc", (d, n), small
        yield f"ssd.{i}.wdt", (d, h), small
        yield f"ssd.{i}.wo", (h, p, d), small
        yield f"ssd.{i}.cx", (w, h, p), tap
        yield f"ssd.{i}.cb", (w, n), tap
        yield f"ssd.{i}.cc", (w, n), tap
        yield f"ssd.{i}.dt0", (h,), ("uniform", -7.0, -2.0)
        yield f"ssd.{i}.alog", (h,), ("uniform", 0.0, 2.77)
        yield f"ssd.{i}.skip", (h,), ("ones",)
        yield f"ssd.{i}.rmsnorm.scale", (h, p), ("ones",)
    yield "norm_f.scale", (d,), ("ones",)


def decays(path):
    """Weights and the convolution's taps, which are contracted over their window, do."""
    return path.split(".")[-1] not in ("dt0", "alog", "skip", "scale")


def inputs(c):
    yield "tokens", (c.batch, c.seq), c.vocab
    yield "targets", (c.batch, c.seq), c.vocab


def rms_norm(x, scale):
    """Over as many trailing dims as the scale has."""
    over = tuple(range(-scale.dim(), 0))
    return x / (x.pow(2).mean(over, keepdim=True) + 1e-6).sqrt() * scale


def causal_conv(x, taps):
    """y[s] = sum_w taps[w] x[s - w], each channel on its own; x: [b, s, ...], taps: [w, ...]."""
    flat, kernel = x.flatten(2).transpose(1, 2), taps.flatten(1).T.flip(-1).unsqueeze(1)
    padded = F.pad(flat, (taps.shape[0] - 1, 0))
    y = F.conv1d(padded, kernel, groups=flat.shape[1])
    return F.silu(y).transpose(1, 2).reshape(x.shape)


def ssd(c, p, path, u):
    w = {name: p[f"{path}.{name}"] for name in
         ("wz", "wx", "wb", "wc", "wdt", "wo", "cx", "cb", "cc", "dt0", "alog", "skip")}
    z, x = (torch.einsum("bsd,dhp->bshp", u, w[name]) for name in ("wz", "wx"))
    dt = torch.log1p(torch.exp(u @ w["wdt"] + w["dt0"]))
    x, key, query = (causal_conv(x, w["cx"]), causal_conv(u @ w["wb"], w["cb"]),
                     causal_conv(u @ w["wc"], w["cc"]))
    keep = torch.exp(-torch.exp(w["alog"]) * dt)
    state, rows = 0.0, []
    for s in range(c.seq):
        write = torch.einsum("bh,bhp,bn->bhpn", dt[:, s], x[:, s], key[:, s])
        state = keep[:, s, :, None, None] * state + write
        rows.append(torch.einsum("bhpn,bn->bhp", state, query[:, s]))
    y = torch.stack(rows, dim=1) + w["skip"][:, None] * x
    y = rms_norm(y * F.silu(z), p[f"{path}.rmsnorm.scale"])
    return torch.einsum("bshp,hpd->bsd", y, w["wo"])


def forward(c, p, x, random):
    h = p["wte"][x["tokens"]]
    for i in range(c.layers):
        h = h + ssd(c, p, f"ssd.{i}", rms_norm(h, p[f"rmsnorm.{i}.scale"]))
    logits = rms_norm(h, p["norm_f.scale"]) @ p["wte"].T
    return {"loss": F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten())}, {}

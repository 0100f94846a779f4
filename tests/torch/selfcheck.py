#!/usr/bin/python3
"""Checks the references themselves: directional derivatives, and facts that must hold.

Each fact computes a part of a model by another way: packed documents one at a time, the state-space
layer as the masked matrix product, routed experts through slots, GPT-2's blocks with PyTorch's own.
"""
import math
from types import SimpleNamespace

import torch

import compare
import reference
import safetensors
from models import deepseek_v2, gemma2, gpt2, llama3, llama3_packed, mamba2, mixtral


def setup(name):
    case = reference.find_case(name)
    model, c = reference.config(case)
    params = reference.perturb(reference.init(model, c), case["perturb"])
    return model, c, params, reference.inputs(model, c)


def derivatives():
    """(L(p + hv) - L(p - hv)) / 2h against the gradient, along a random v, extrapolated.

    "forms" has jumps and kinks: its steps are short enough to meet none, and less exact.
    """
    for case in reference.load_cases():
        model, c, params, data = setup(case["name"])
        _, _, grads = reference.run(model, c, params, data)
        torch.manual_seed(1)
        v = {path: torch.randn_like(value) for path, value in params.items()}
        for path in set(params) - set(grads):  # frozen
            v[path].zero_()
        slope = sum((grads[path] * v[path]).sum().item() for path in grads)

        def loss(h):
            moved = {path: value + h * v[path] for path, value in params.items()}
            losses, _ = model.forward(c, moved, data, reference.Random(c.seed))
            return float(sum(losses.values()))

        step, limit = (1e-7, 1e-5) if case["name"] == "forms" else (1e-4, 1e-7)
        central = [(loss(h) - loss(-h)) / (2 * h) for h in (step, step / 2)]
        found = (4 * central[1] - central[0]) / 3
        relative = abs(found - slope) / abs(slope)
        assert relative < limit, (case["name"], found, slope)
        print(f"  {case['name']:14} slope {slope:+.9f}, difference {relative:.1e}")


def packed_documents():
    model, c, p, x = setup("llama3_packed")
    doc, pos = llama3_packed.documents(c, x["tokens"])
    causal = torch.ones(c.seq, c.seq, dtype=torch.bool).tril()
    whole = llama3.logits_of(c, p, x["tokens"], pos, causal & (doc[:, :, None] == doc[:, None, :]))
    count = 0
    for b in range(c.batch):
        for number in doc[b].unique():
            own = doc[b] == number
            length = int(own.sum())
            alone = SimpleNamespace(**dict(vars(c), batch=1, seq=length))
            part = llama3.logits_of(alone, p, x["tokens"][b, own][None],
                                    torch.arange(length)[None],
                                    torch.ones(1, length, length, dtype=torch.bool).tril())
            assert torch.allclose(part[0], whole[b, own], rtol=0, atol=1e-12)
            count += 1
    assert count > 2 * c.batch
    print(f"  {count} packed documents equal the documents alone")


def state_space():
    """The recurrence against y[s] = sum over t <= s of C[s] B[t] exp(cum[s] - cum[t]) dt[t] x[t]."""
    model, c, p, x = setup("mamba2")
    u = p["wte"][x["tokens"]]
    w = {name: p[f"ssd.0.{name}"] for name in
         ("wz", "wx", "wb", "wc", "wdt", "wo", "cx", "cb", "cc", "dt0", "alog", "skip")}

    def conv(value, taps):
        out = torch.zeros_like(value)
        for s in range(c.seq):
            for k in range(c.conv):
                if s - k >= 0:
                    out[:, s] = out[:, s] + value[:, s - k] * taps[k]
        return torch.nn.functional.silu(out)

    xs = conv(torch.einsum("bsd,dhp->bshp", u, w["wx"]), w["cx"])
    bs, cs = conv(u @ w["wb"], w["cb"]), conv(u @ w["wc"], w["cc"])
    dt = torch.nn.functional.softplus(u @ w["wdt"] + w["dt0"])
    cum = torch.cumsum(-torch.exp(w["alog"]) * dt, 1)
    difference = cum[:, :, None] - cum[:, None]
    future = torch.ones(c.seq, c.seq, dtype=torch.bool).triu(1)[None, :, :, None]
    decay = difference.masked_fill(future, -math.inf).exp()
    y = torch.einsum("bsn,btn,bsth,bth,bthp->bshp", cs, bs, decay, dt, xs)
    y = (y + w["skip"][:, None] * xs) * torch.nn.functional.silu(
        torch.einsum("bsd,dhp->bshp", u, w["wz"]))
    y = mamba2.rms_norm(y, p["ssd.0.rmsnorm.scale"])
    want = torch.einsum("bshp,hpd->bsd", y, w["wo"])
    assert torch.allclose(mamba2.ssd(c, p, "ssd.0", u), want, rtol=0, atol=1e-12)
    print("  the state-space recurrence equals the masked matrix product")


def slots():
    """Mixtral's and DeepSeek's layers against explicit buffers of slots."""
    for name, module, path, scale in (("mixtral", mixtral, "moe.0", 1.0),
                                      ("deepseek_v2", deepseek_v2, "moe.1", 16.0)):
        model, c, p, _ = setup(name)
        x = reference.philox.normal("x", (c.batch, c.seq, c.d), 1, 0, 1.0)
        stats = {}
        got, _ = module.moe(c, p, path, x, stats)
        if name == "deepseek_v2":
            got = got - deepseek_v2.gated_mlp(*(p[f"{path}.shared.{n}"] for n in
                                                ("gate", "up", "down")), x)
        capacity = math.ceil(1.25 * c.seq * c.top / c.experts)
        probs = (x @ p[f"{path}.router"]).softmax(-1)
        weight, which = probs.topk(c.top, dim=-1)
        want = torch.zeros_like(x)
        for b in range(c.batch):
            for e in range(c.experts):
                takers = (which[b] == e).nonzero().tolist()[:capacity]
                for s, j in takers:
                    h = torch.nn.functional.silu(x[b, s] @ p[f"{path}.gate"][e])
                    h = h * (x[b, s] @ p[f"{path}.up"][e])
                    want[b, s] += scale * weight[b, s, j] * (h @ p[f"{path}.down"][e])
        assert stats["dropped"] > 0
        assert torch.allclose(got, want, rtol=0, atol=1e-12)
        print(f"  {name}: experts equal the slots' ({stats['dropped']} choices dropped)")


def library_attention():
    """GPT-2's block against torch.nn.MultiheadAttention with the same weights."""
    model, c, p, x = setup("gpt2")
    u = p["wte"][x["tokens"]] + p["wpe"]
    path = "block.0.attn"
    module = torch.nn.MultiheadAttention(c.d, c.heads, batch_first=True).double()
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([p[f"{path}.w{n}"].flatten(1).T for n in "qkv"]))
        module.in_proj_bias.copy_(torch.cat([p[f"{path}.b{n}"].flatten() for n in "qkv"]))
        module.out_proj.weight.copy_(p[f"{path}.wo"].flatten(0, 1).T)
        module.out_proj.bias.copy_(p[f"{path}.bo"])
        want, _ = module(u, u, u, attn_mask=torch.ones(c.seq, c.seq, dtype=torch.bool).triu(1))
    got = gpt2.attention(c, p, path, u, reference.Random(0))
    assert torch.allclose(got, want, rtol=0, atol=1e-12)
    print("  GPT-2's attention equals torch.nn.MultiheadAttention")


def rotations():
    """A rotary score depends on the distance alone."""
    q = reference.philox.normal("q", (1, 1, 1, 8), 1, 0, 1.0).expand(1, 9, 1, 8)
    for rope in (gemma2.rope, lambda v: llama3.rotate(v, torch.arange(9)[None]), mixtral.rotate,
                 deepseek_v2.rope):
        turned = rope(q)[0, :, 0]
        scores = turned @ turned.T
        for distance in range(9):
            line = scores.diagonal(distance)
            assert torch.allclose(line, line[:1].expand_as(line), rtol=0, atol=1e-12)
        assert (scores[0, 1:] - scores[0, 0]).abs().min() > 1e-3
    print("  rotary scores depend on the distance alone")


def masking():
    """BERT's case has padding, and masked, swapped and kept choices."""
    model, c, p, x = setup("bert")
    _, counts = model.forward(c, p, x, reference.Random(c.seed))
    kind = reference.Random(c.seed).uniform("kind", x["tokens"].shape, 0, 1)
    pick = reference.Random(c.seed).uniform("pick", x["tokens"].shape, 0, 1)
    kept = ((pick < 0.15) & (x["tokens"] != c.pad) & (kind >= 0.9)).sum()
    masked = counts["(chosen)"] - counts["(swapped)"] - int(kept)
    assert counts["(pads)"] > 0 and counts["(swapped)"] > 0 and kept > 0 and masked > 0
    print(f"  BERT's case: {counts['(pads)']} pads, {masked} masked, {counts['(swapped)']} swapped, "
          f"{int(kept)} kept")


def comparison(tmp="/tmp/ptc_selfcheck.safetensors"):
    """compare.py passes a dump of the reference and fails one with a single wrong element."""
    case = reference.find_case("llama3")
    compare.write_self(case, tmp)
    dump = safetensors.load(tmp)
    show, compare.print = print, lambda *_: None
    try:
        assert compare.compare(case, dump, 1e-12)
        dump["grad.attn.1.wk"][3, 1, 2] *= 1 + 1e-4
        assert not compare.compare(case, dump, 1e-9)
    finally:
        compare.print = show
    print("  compare.py tells a right dump from one with one wrong element")


if __name__ == "__main__":
    for check in (derivatives, packed_documents, state_space, slots, library_attention, rotations,
                  masking, comparison):
        print(check.__name__)
        check()

#!/usr/bin/python3
"""Trains samples/quickstart.ptm with PyTorch as ptc does: same initial weights, samples and settings.

  quickstart.py WORK STEPS [--sample]   WORK holds train.txt and held_out.txt

Prints the held-out loss after the last step, and with --sample some text.
"""
import os
import sys
from types import SimpleNamespace

import numpy as np
import torch

import data_order
import reference
import training
from models import gpt2

CONFIG = SimpleNamespace(layers=4, d=160, heads=5, seq=128, vocab=256, drop=0, batch=16, seed=1234)
SETTINGS = {"train.optimizer": "adamw", "train.lr": 2e-3, "train.beta1": 0.9, "train.beta2": 0.95,
            "train.eps": 1e-8, "train.weight_decay": 0.1, "train.lr_schedule": "cosine",
            "train.warmup": 20, "train.min_lr": 2e-4, "train.steps": 400, "train.clip": 1.0}


def windows(text, starts):
    """Tokens, and the bytes that follow them."""
    cut = [text[at:at + CONFIG.seq + 1] for at in starts]
    both = torch.from_numpy(np.stack(cut).astype(np.int64))
    return {"tokens": both[:, :-1], "targets": both[:, 1:]}


def loss_of(leaves, data):
    c = SimpleNamespace(**dict(vars(CONFIG), batch=data["tokens"].shape[0]))
    return gpt2.forward(c, leaves, data, None if c.drop else reference.Random(c.seed))[0]["loss"]


def held_out(leaves, text):
    """The mean over all windows that do not overlap."""
    starts = range(0, len(text) - CONFIG.seq, CONFIG.seq)
    total = 0.0
    with torch.no_grad():
        for first in range(0, len(starts), CONFIG.batch):
            part = starts[first:first + CONFIG.batch]
            total += float(loss_of(leaves, windows(text, part))) * len(part)
    return total / len(starts)


def sample(leaves, prompt, count):
    generator = torch.Generator().manual_seed(1)
    text = list(prompt.encode())
    c = SimpleNamespace(**dict(vars(CONFIG), batch=1))
    with torch.no_grad():
        for _ in range(count):
            seen = text[-c.seq:]
            tokens = torch.tensor([seen + [0] * (c.seq - len(seen))])
            h = leaves["wte"][tokens] + leaves["wpe"]
            for i in range(c.layers):
                def norm(path, x):
                    return torch.nn.functional.layer_norm(
                        x, (c.d,), leaves[f"{path}.scale"], leaves[f"{path}.bias"])
                h = h + gpt2.attention(c, leaves, f"block.{i}.attn", norm(f"block.{i}.ln1", h),
                                       reference.Random(0))
                h = h + gpt2.mlp(c, leaves, f"block.{i}.mlp", norm(f"block.{i}.ln2", h),
                                 reference.Random(0))
            logits = norm("ln_f", h)[0, len(seen) - 1] @ leaves["wte"].T
            text.append(int(torch.multinomial((logits / 0.7).softmax(-1), 1, generator=generator)))
    return bytes(text).decode(errors="replace")


def main(work, steps):
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(int(os.environ.get("THREADS", os.cpu_count())))
    texts = {name: np.fromfile(os.path.join(work, name + ".txt"), dtype=np.uint8)
             for name in ("train", "held_out")}
    leaves = {path: value.float().requires_grad_(True)
              for path, value in reference.init(gpt2, CONFIG).items()}
    optim = training.optimizer(gpt2, SETTINGS, leaves)
    rates = torch.optim.lr_scheduler.LambdaLR(optim, training.schedule(SETTINGS))
    order = data_order.Windows(CONFIG.seed, CONFIG.batch,
                               {"text": (len(texts["train"]), CONFIG.seq, 1)})
    for step in range(steps):
        optim.zero_grad()
        loss = loss_of(leaves, windows(texts["train"], order.starts(step, CONFIG.seq)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(leaves.values()), SETTINGS["train.clip"])
        optim.step()
        rates.step()
        if step % 20 == 0 or step + 1 == steps:
            print(f"step {step + 1} loss {float(loss):.4f}", file=sys.stderr, flush=True)
    print(f"{held_out(leaves, texts['held_out']):.6f}")
    return leaves


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    trained = main(sys.argv[1], int(sys.argv[2]))
    if "--sample" in sys.argv:
        print(sample(trained, "The license ", 500))

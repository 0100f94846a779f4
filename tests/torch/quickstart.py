#!/usr/bin/python3
"""Trains samples/quickstart.ptm with PyTorch as ptc does: same initial weights, samples and settings.

  quickstart.py PTC WORK STEPS [--sample]
      PTC is the program, WORK holds train.txt and held_out.txt

Prints the held-out loss after the last step, and with --sample some text.
"""
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import torch

import data_order
import reference
import training
from models import gpt2, quickstart


def read_model(ptc, model):
    """Sizes and train settings, as ptc reads them from the text."""
    text = subprocess.run([ptc, model, "-q", "--print-after=lower", "--stop-after=lower"],
                          check=True, capture_output=True, text=True).stdout
    settings = dict(re.findall(r'(\w+) = "?([\w.+-]+)', re.search(r"^config {(.*)}", text,
                                                                  re.M).group(1)))
    sizes = dict(re.findall(r"\b([a-z]+)=(\d+)", text))
    turns = re.search(r'attn\.wq" turns \(.*?\) : (\d+) x', text)
    config = SimpleNamespace(layers=int(turns.group(1)), d=int(sizes["d"]),
                             heads=int(sizes["h"]), seq=int(sizes["s"]), vocab=int(sizes["v"]),
                             drop=0, batch=int(settings["batch"]), seed=int(settings["seed"]))
    numbers = ("lr", "beta1", "beta2", "eps", "weight_decay", "min_lr", "clip")
    train = {"train." + key: float(settings[key]) for key in numbers}
    train |= {"train." + key: int(settings[key]) for key in ("warmup", "steps")}
    train |= {"train." + key: settings[key] for key in ("optimizer", "lr_schedule")}
    return config, train


def windows(config, text, starts):
    """Tokens, and the bytes that follow them."""
    cut = [text[at:at + config.seq + 1] for at in starts]
    both = torch.from_numpy(np.stack(cut).astype(np.int64))
    return {"tokens": both[:, :-1], "targets": both[:, 1:]}


def loss_of(config, leaves, data):
    c = SimpleNamespace(**dict(vars(config), batch=data["tokens"].shape[0]))
    return gpt2.forward(c, leaves, data, reference.Random(c.seed))[0]["loss"]


def held_out(config, leaves, text):
    """The mean over all windows that do not overlap."""
    starts = range(0, len(text) - config.seq, config.seq)
    total = 0.0
    with torch.no_grad():
        for first in range(0, len(starts), config.batch):
            part = starts[first:first + config.batch]
            total += float(loss_of(config, leaves, windows(config, text, part))) * len(part)
    return total / len(starts)


def sample(config, leaves, prompt, count):
    generator = torch.Generator().manual_seed(1)
    text = list(prompt.encode())
    c = SimpleNamespace(**dict(vars(config), batch=1))
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


def main(ptc, work, steps):
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(int(os.environ.get("THREADS", os.cpu_count())))
    config, settings = read_model(ptc, os.path.join(reference.HERE, "../../samples/quickstart.ptm"))
    texts = {name: np.fromfile(os.path.join(work, name + ".txt"), dtype=np.uint8)
             for name in ("train", "held_out")}
    leaves = {path: value.float().requires_grad_(True)
              for path, value in reference.init(quickstart, config).items()}
    optim = training.optimizer(gpt2, settings, leaves)
    rates = torch.optim.lr_scheduler.LambdaLR(optim, training.schedule(settings))
    order = data_order.Windows(config.seed, config.batch,
                               {"text": (len(texts["train"]), config.seq, 1)})
    for step in range(steps):
        optim.zero_grad()
        starts = order.starts(step, config.seq)
        loss = loss_of(config, leaves, windows(config, texts["train"], starts))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(leaves.values()), settings["train.clip"])
        optim.step()
        rates.step()
        if step % 20 == 0 or step + 1 == steps:
            print(f"step {step + 1} loss {float(loss):.4f}", file=sys.stderr, flush=True)
    print(f"{held_out(config, leaves, texts['held_out']):.6f}")
    return config, leaves


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    model, trained = main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    if "--sample" in sys.argv:
        print(sample(model, trained, "The license ", 500))

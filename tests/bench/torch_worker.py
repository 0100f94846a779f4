#!/usr/bin/env python3
"""PyTorch's side of train.sh: a GPT written the usual way, trained step by step on demand.

  torch_worker.py gpt2|small eager|compile|ddp THREADS

After start-up and two steps it prints a line of JSON that tells its version and settings. Each line
"N" on standard input then runs N + 1 steps and prints the seconds from the end of each to the end of
the next, data and the loss as a number included; the end of the input ends it. ddp: the batch lies on
two processes of THREADS each (DistributedDataParallel over gloo).
"""
import json
import math
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

SIZES = {"gpt2": dict(layers=12, d=768, heads=12, vocab=50257, seq=256, batch=4),
         "small": dict(layers=6, d=384, heads=6, vocab=256, seq=256, batch=12)}


class Block(nn.Module):
    def __init__(self, d, heads, seq):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        if not hasattr(F, "scaled_dot_product_attention"):
            self.register_buffer("future", torch.ones(seq, seq, dtype=torch.bool).triu(1))

    def attention(self, x):
        b, s, d = x.shape
        q, k, v = (part.view(b, s, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(d, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            y = scores.masked_fill(self.future, -math.inf).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, s, d))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, d, heads, vocab, seq, batch):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Parameter(0.01 * torch.randn(seq, d))
        self.blocks = nn.ModuleList(Block(d, heads, seq) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimizer(model):
    options = dict(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    try:
        return torch.optim.AdamW(model.parameters(), fused=True, **options), "fused AdamW"
    except (RuntimeError, TypeError):
        return torch.optim.AdamW(model.parameters(), **options), "AdamW"


def train(name, mode, threads, rank=0, ranks=1, folder=None):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    size = SIZES[name]
    model = GPT(**size)
    optim, kind = optimizer(model)
    step_model = model
    if mode == "compile":
        step_model = torch.compile(model)
    if mode == "ddp":
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
        step_model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    shape = (size["batch"] // ranks, size["seq"])

    def step():
        tokens = torch.randint(size["vocab"], shape)
        targets = torch.randint(size["vocab"], shape)
        optim.zero_grad(set_to_none=True)
        loss = step_model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        loss.item()
        return time.perf_counter()

    def agreed(count):
        """Rank 0's number of steps, on all."""
        if ranks == 1:
            return count
        number = torch.tensor([count])
        dist.broadcast(number, 0)
        return int(number)

    for _ in range(2):
        step()
    if rank:
        while count := agreed(0):
            for _ in range(count):
                step()
        return
    print(json.dumps({"torch": torch.__version__, "mode": mode, "threads": torch.get_num_threads(),
                      "optimizer": kind, "pid": os.getpid(),
                      "parameters": sum(p.numel() for p in model.parameters())}), flush=True)
    for line in sys.stdin:
        ends = [step() for _ in range(agreed(int(line) + 1))]
        print(json.dumps([end - begin for begin, end in zip(ends, ends[1:])]), flush=True)
    agreed(0)


def main(name, mode, threads):
    if mode != "ddp":
        return train(name, mode, threads)
    ranks = 2
    with tempfile.TemporaryDirectory() as folder:
        others = [torch.multiprocessing.get_context("spawn").Process(
            target=train, args=(name, mode, threads, rank, ranks, folder)) for rank in range(1, ranks)]
        for other in others:
            other.start()
        train(name, mode, threads, 0, ranks, folder)
        for other in others:
            other.join()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in SIZES or sys.argv[2] not in ("eager", "compile", "ddp"):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

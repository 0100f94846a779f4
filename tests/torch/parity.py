#!/usr/bin/python3
"""Trains a case of parity.json with PyTorch, from files and to files, and compares what ptc did.

  parity.py list                          the names of the cases
  parity.py options CASE                  model file and --set options, one word a line
  parity.py data CASE DIR                 prints the --data options for the files in DIR
  parity.py torch CASE DIR [--double] [--threads N]
      writes DIR/weights.safetensors and the data, trains on them, writes the results:
      losses.json (by step and name), grads.safetensors (of the first step), final.safetensors.
      What is there already for the same case is kept
  parity.py compare CASE DIR OTHER [--bf16]
      the same three results in OTHER against those in DIR; exit status 1 if they differ too much.
      OTHER may hold metrics.jsonl, a line for each step, instead of losses.json. With --bf16 only
      losses count
"""
import hashlib
import json
import os
import sys

import numpy as np
import torch

import data_order
import parity_compare
import reference
import safetensors
import training

HERE = reference.HERE
ROOT = os.path.dirname(os.path.dirname(HERE))
WEIGHT_SEED, DATA_SEED = 5, 6
OFFSET = 0.02  # what starts at zero or one starts so far from it
RESULTS = ("losses.json", "grads.safetensors", "final.safetensors")


def load():
    with open(os.path.join(HERE, "parity.json")) as file:
        return json.load(file)


def find(name):
    table = load()
    for case in table["cases"]:
        if case["name"] == name:
            case["set"] = {"train." + k: v for k, v in table["train"].items()} | case["set"]
            case["steps"] = table["steps"]
            return case
    sys.exit(f"no case {name} in parity.json; there are: "
             + " ".join(case["name"] for case in table["cases"]))


def options(case):
    """--set words; a list's numbers are joined by commas."""
    for key, value in case["set"].items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        yield f"--set={key}={text}"


# --- weights and data


def weights(model, c, case):
    """Drawn by PyTorch, with the model's distributions; nothing stays at zero or one."""
    generator = torch.Generator().manual_seed(WEIGHT_SEED)
    factor, drawn = case.get("scale", {}), {}
    for path, shape, (kind, *numbers) in model.parameters(c):
        noise = torch.empty(shape, dtype=torch.float32)
        if kind == "uniform":
            value = noise.uniform_(*numbers, generator=generator)
        elif kind in ("normal", "truncated_normal"):
            value = noise.normal_(0.0, numbers[0], generator=generator)
            if kind == "truncated_normal":
                value.clamp_(-2 * numbers[0], 2 * numbers[0])
        else:
            start = {"zeros": 0.0, "ones": 1.0}.get(kind, numbers[0] if numbers else 0.0)
            value = start + noise.normal_(0.0, OFFSET, generator=generator)
        drawn[path] = value * factor.get(path.split(".")[-1], 1.0)
    return drawn


def token_stream(draw, count, vocab):
    """Tokens that a model learns quickly: Zipf's law, and a usual successor of each token."""
    rank = np.arange(vocab)
    chance = 1.0 / (rank + 2.0) ** 1.3
    rare = draw.choice(vocab, size=count, p=chance / chance.sum())
    usual = draw.permutation(vocab)
    follows = draw.random(count) < 0.7
    stream = np.empty(count, dtype=np.uint16)
    last = 0
    for i in range(count):
        last = usual[last] if follows[i] else rare[i]
        stream[i] = last
    return stream


def sources(model, c, case):
    """Source -> array: a stream of tokens, or one row for each sample."""
    draw, count = np.random.default_rng(DATA_SEED), case["steps"] * c.batch
    rows = {}
    if case["reference"] == "vit":  # few classes, each with a picture of its own
        label = draw.integers(0, 8, size=count)
        size = c.side * c.patch
        pictures = draw.normal(size=(8, size, size, c.channels))
        image = pictures[label] + 0.5 * draw.normal(size=(count, size, size, c.channels))
        return {"image": image.astype(np.float32), "label": label.astype(np.uint16)}
    for name, shape, limit in model.inputs(c):
        if name == "targets":
            continue
        source = "text" if name == "tokens" and case["reference"] != "bert" else name
        length = count * shape[1] + (shape[1] + 1 if source == "text" else 0)
        rows[source] = (token_stream(draw, length, limit) if limit > 2
                        else (np.arange(length) % shape[1] >= shape[1] // 2).astype(np.uint16))
    return rows


def data_file(directory, source, array):
    return os.path.join(directory, source + (".npy" if array.dtype == np.float32 else ".bin"))


def windows(model, c, rows):
    """The order in which ptc reads these files."""
    lengths = {}
    for name, shape, _ in model.inputs(c):
        source = "text" if name in ("tokens", "targets") and "text" in rows else name
        length = shape[1] if len(shape) == 2 else 1
        offset = 1 if source == "text" else 0
        lengths[source] = (len(rows[source]), length, offset)
    return data_order.Windows(c.seed, c.batch, lengths)


def batch(model, c, rows, order, step):
    filled = {}
    for name, shape, _ in model.inputs(c):
        array = rows["text" if name in ("tokens", "targets") and "text" in rows else name]
        length = shape[1] if len(shape) == 2 else 1
        places = [start + (name == "targets") for start in order.starts(step, length)]
        parts = [array[at:at + length] if len(shape) == 2 else array[at] for at in places]
        if array.dtype == np.float32:
            filled[name] = torch.from_numpy(np.stack(parts)).to(torch.get_default_dtype())
        else:
            filled[name] = torch.from_numpy(np.stack(parts).astype(np.int64))
    return filled


# --- training


def key_of(case, double):
    """What the results depend on."""
    code = [os.path.join(HERE, name) for name in ("parity.py", "training.py", "data_order.py")]
    code.append(os.path.join(HERE, "models", case["reference"] + ".py"))
    digest = hashlib.sha256()
    for path in code:
        with open(path, "rb") as file:
            digest.update(file.read())
    return {"case": case, "double": double, "code": digest.hexdigest(),
            "torch": torch.__version__}


def train(case, directory, double):
    torch.set_default_dtype(torch.float64 if double else torch.float32)
    os.makedirs(directory, exist_ok=True)
    model, c = reference.config(case)
    start = weights(model, c, case)
    safetensors.save(os.path.join(directory, "weights.safetensors"), start)
    rows = sources(model, c, case)
    for source, array in rows.items():
        path = data_file(directory, source, array)
        np.save(path, array) if path.endswith(".npy") else array.tofile(path)
    kind = torch.get_default_dtype()
    leaves = {path: value.to(kind).requires_grad_(True) for path, value in start.items()}
    optim = training.optimizer(model, case["set"], leaves)
    rates = torch.optim.lr_scheduler.LambdaLR(optim, training.schedule(case["set"]))
    trace, order = [], windows(model, c, rows)
    for step in range(case["steps"]):
        optim.zero_grad()
        losses, _ = model.forward(c, leaves, batch(model, c, rows, order, step),
                                  reference.Random(c.seed, step))
        sum(losses.values()).backward()
        training.unused_get_zeros(leaves)
        trace.append({name: float(value) for name, value in losses.items()})
        if step == 0:
            safetensors.save(os.path.join(directory, "grads.safetensors"),
                             {path: leaf.grad for path, leaf in leaves.items()})
        if case["set"]["train.clip"] > 0:
            torch.nn.utils.clip_grad_norm_(list(leaves.values()), case["set"]["train.clip"])
        optim.step()
        rates.step()
        print(f"\r{case['name']}: PyTorch, step {step + 1} of {case['steps']}, "
              f"loss {sum(trace[-1].values()):.4f} ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    safetensors.save(os.path.join(directory, "final.safetensors"),
                     {path: leaf.detach() for path, leaf in leaves.items()})
    with open(os.path.join(directory, "losses.json"), "w") as file:
        json.dump(trace, file, indent=1)


def train_once(case, directory, double, threads):
    key, path = key_of(case, double), os.path.join(directory, "key.json")
    if os.path.exists(path) and all(os.path.exists(os.path.join(directory, name))
                                    for name in RESULTS):
        with open(path) as file:
            if json.load(file) == key:
                return
    if os.path.exists(path):
        os.remove(path)
    torch.set_num_threads(threads)
    train(case, directory, double)
    with open(path, "w") as file:
        json.dump(key, file)


def main(args):
    flags = [word for word in args if word in ("--double", "--bf16")]
    args = [word for word in args if word not in flags]
    threads = os.cpu_count()
    if "--threads" in args:
        at = args.index("--threads")
        threads = int(args[at + 1])
        del args[at:at + 2]
    if args[:1] == ["list"]:
        print("\n".join(case["name"] for case in load()["cases"]))
        return 0
    if len(args) < 2 or args[0] not in ("options", "data", "torch", "compare"):
        print(__doc__)
        return 2
    case = find(args[1])
    if args[0] == "options":
        print("\n".join([case["model"], *options(case)]))
    elif args[0] == "data":
        model, c = reference.config(case)
        for source in {"vit": ("image", "label"), "bert": ("tokens", "segment"),
                       "t5": ("source", "target")}.get(case["reference"], ("text",)):
            kind = "npy" if source == "image" else "bin"
            print(f"--data={source}={os.path.join(args[2], source)}.{kind}")
    elif args[0] == "torch":
        train_once(case, args[2], "--double" in flags, threads)
    else:
        return parity_compare.compare(case, args[2], args[3], "--bf16" in flags)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

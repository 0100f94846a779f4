"""Trains small models on the CPU and on a GPU, from the same seed and data, and compares the loss of every
step and the gradients of the first.

Called by run.sh. The models are those of ../torch/cases.json at their small sizes, and those of
../torch/parity.json, whose shapes span several tiles. Prints a line per case and "N passed, N failed".
"""
import argparse
import array
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
# Settings whose value is a token with a meaning: the data must have some of each.
SPECIAL = ("eos", "bos", "pad", "mask_id", "sep")

LOSS = {"f32": 1e-4, "tf32": 1e-3, "bf16": 2e-2, "f16": 2e-2}  # relative
GRADS = {"f32": 1e-3, "tf32": 2e-2, "bf16": 5e-2, "f16": 5e-2}  # of max(norm, 1e-2 of the global norm)


def cases():
    small = json.load(open(os.path.join(HERE, "..", "torch", "cases.json")))["cases"]
    large = json.load(open(os.path.join(HERE, "..", "torch", "parity.json")))
    for case in small:
        if case["name"] in ("t5", "vit"):
            continue  # inputs other than streams of tokens of one length
        yield case["name"], case["model"], case["set"]
    for case in large["cases"]:
        if case["name"] in ("t5", "vit", "gpt2"):
            continue
        settings = {"train." + k: v for k, v in large["train"].items()}
        settings.update(case["set"])
        yield case["name"] + "_wide", case["model"], settings
    yield "gpt2_wide", "samples/gpt2.ptm", {
        "layers": 2, "d": 192, "heads": 3, "seq": 256, "vocab": 1000, "train.batch": 4, "drop": 0.1}


def text(value):
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def tokens(path, vocab, special, count, seed):
    """|count| tokens with some order in them, so that a loss has something to fall to; every 30th or so is one
    of |special|."""
    draw = random.Random(seed)
    wide = vocab > 256
    special = [token for token in special if token < vocab]
    data = bytearray()
    last = 0
    for _ in range(count):
        last = (last * 5 + 1) % vocab if draw.random() < 0.7 else draw.randrange(vocab)
        if special and draw.random() < 0.03:
            last = draw.choice(special)
        data += last.to_bytes(2 if wide else 1, "little")
    with open(path, "wb") as file:
        file.write(data)
    return path + (":u16" if wide else ":bytes")


def special_tokens(model, settings):
    """Those that the model names, as set or as its text has them."""
    with open(os.path.join(ROOT, model)) as file:
        head = file.read()
    found = {name: int(value) for name, value in re.findall(r"\b(\w+)\s*=\s*(\d+)", head)}
    return [int(settings.get(name, found.get(name, -1))) for name in SPECIAL
            if name in settings or name in found]


def data_options(options, name, model, settings, plan):
    """`--data SOURCE=FILE` for each source of the plan, in the range that its inputs have."""
    ranges = {}
    with open(os.path.join(plan, "plan.json")) as file:
        for entry in json.load(file)["globals"]:
            if entry["kind"] == "input" and "source" in entry:
                if "range" not in entry:
                    raise Failed("input %s takes other numbers than tokens" % entry["path"])
                source = entry["source"]
                ranges[source] = min(entry["range"], ranges.get(source, entry["range"]))
    words = []
    for number, (source, limit) in enumerate(sorted(ranges.items())):
        path = os.path.join(options.work, "%s.%s.tokens" % (name, source))
        special = special_tokens(model, settings) if limit == int(settings["vocab"]) else []
        words += ["--data", "%s=%s" % (source, tokens(path, limit, special, 40000,
                                                       100 * number + len(name) + limit))]
    return words


def load(path):
    """Name -> numbers of a safetensors file of f32 and f64 tensors."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        first, last = (8 + length + at for at in entry["data_offsets"])
        kind = {"F32": "f", "F64": "d", "BF16": "H", "F16": "e"}[entry["dtype"]]
        if kind == "e":
            tensors[name] = array.array("d", (x for (x,) in struct.iter_unpack("<e", data[first:last])))
            continue
        numbers = array.array(kind, data[first:last])
        if kind == "H":  # the upper half of an f32
            wide = array.array("I", (x << 16 for x in numbers))
            numbers = array.array("f", wide.tobytes())
        tensors[name] = numbers
    return tensors


def norm(numbers):
    return math.sqrt(sum(x * x for x in numbers))


class Failed(Exception):
    pass


def ptc(arguments, log):
    done = subprocess.run(arguments, cwd=ROOT, stdout=log, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        error = next((line for line in lines if "error" in line), lines[-1] if lines else "")
        raise Failed("%s: exit %d: %s" % (arguments[1], done.returncode, error[:240]))


def losses(run):
    out = []
    for line in open(os.path.join(run, "metrics.jsonl")):
        row = json.loads(line)
        if "loss" in row and "step" in row:
            out.append(row["loss"])
    return out


def train(options, name, model, settings, precision, target, log):
    plan = os.path.join(options.work, "%s.%s.%s.plan" % (name, precision, target))
    shutil.rmtree(plan, ignore_errors=True)
    shutil.rmtree(plan + ".run", ignore_errors=True)
    arguments = [options.ptc, model, "-o", plan, "--keep-grads", "--target=" + target, "-q"]
    chosen = {"train.precision": "f32" if precision == "tf32" else precision}
    if precision == "tf32":
        chosen["train.f32_matmul"] = "tf32"
    if options.gemm:
        chosen["train.gemm"] = options.gemm
    for key, value in {**settings, **chosen}.items():
        arguments += ["--set", "%s=%s" % (key, text(value))]
    ptc(arguments, log)
    grads = plan + ".grads.safetensors"
    device = [] if target == "cpu" or options.device == "cuda" else ["--device=" + options.device]
    ptc([options.ptc, "run", plan, "--steps", str(options.steps), "-q", "--restart",
         "--dump-grads", grads, *device, *data_options(options, name, model, settings, plan)], log)
    return losses(plan + ".run"), load(grads)


def worst_gradient(ours, theirs):
    norms = {name: norm(value) for name, value in ours.items()}
    whole = norm(norms.values())
    worst, where = 0.0, ""
    for name, value in ours.items():
        off = norm(a - b for a, b in zip(value, theirs[name]))
        relative = off / max(norms[name], 1e-2 * whole, 1e-30)
        if not relative <= worst:
            worst, where = relative, name
    return worst, where


def run_case(options, name, model, settings, precision, log):
    cpu, cpu_grads = train(options, name, model, settings, precision, "cpu", log)
    gpu, gpu_grads = train(options, name, model, settings, precision, options.target, log)
    if len(cpu) != options.steps or len(gpu) != options.steps:
        raise Failed("%d and %d losses of %d steps" % (len(cpu), len(gpu), options.steps))
    loss = max(abs(a - b) / abs(a) if math.isfinite(b) else math.inf for a, b in zip(cpu, gpu))
    grad, where = worst_gradient(cpu_grads, gpu_grads)
    figures = "loss %.1e, gradients %.1e (%s); %.4f to %.4f" % (loss, grad, where, gpu[0], gpu[-1])
    if not loss <= LOSS[precision] or not grad <= GRADS[precision]:
        raise Failed("differs: " + figures)
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ptc", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--device", choices=("cuda", "gpusim"), default="cuda")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--precision", action="append")
    parser.add_argument("--gemm", choices=("auto", "generated", "cublaslt"))
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    names = [name for name, _, _ in cases()]
    for name in options.only:
        if name not in names:
            parser.error("no case %s; there are: %s" % (name, " ".join(names)))
    options.ptc = os.path.abspath(options.ptc)
    options.work = os.path.abspath(options.work)
    os.makedirs(options.work, exist_ok=True)
    passed = failed = 0
    with open(os.path.join(options.work, "log"), "w") as log:
        for name, model, settings in cases():
            if options.only and name not in options.only:
                continue
            for precision in options.precision or ["f32", "bf16"]:
                try:
                    figures = run_case(options, name, model, settings, precision, log)
                    passed += 1
                    print("pass %-22s %-4s %s" % (name, precision, figures), flush=True)
                except Failed as failure:
                    failed += 1
                    print("FAIL %-22s %-4s %s" % (name, precision, failure), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Times training steps of ptc against the machine's peak and against PyTorch; see train.sh."""
import argparse
import json
import os
import random
import re
import shutil
import struct
import tempfile

import machine

MODELS = {
    "gpt2": dict(gflop=788, about="GPT-2 124M, batch 4 x 256", vocab=50257, goal_peak=0.70,
                 set=["seq=256", "drop=0", "train.batch=4"]),
    "small": dict(gflop=219, about="6 layers, d 384, batch 12 x 256", vocab=256, goal_s=1.5,
                  set=["layers=6", "d=384", "heads=6", "vocab=256", "seq=256", "drop=0",
                       "train.batch=12"]),
}
# What helps PyTorch differs by release and machine: threads that wait asleep or spinning, and a malloc
# that keeps its memory instead of returning it after each large tensor.
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
TUNINGS = [{"OMP_WAIT_POLICY": policy, **memory}
           for policy in ("passive", "active") for memory in ({}, KEEP)]


def arguments():
    parser = argparse.ArgumentParser(prog="train.sh")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--contender", action="append", default=[], metavar="NAME=PYTHON:MODE")
    parser.add_argument("--no-tuning", action="store_true")
    parser.add_argument("--json")
    return parser.parse_args()


def write_tokens(path, vocab, count=1 << 18):
    draw = random.Random(1)
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{count}H", *(draw.randrange(vocab) for _ in range(count))))


def tune(contender, model, args):
    """The environment in which a step takes least, of the eager mode."""
    python, mode = contender
    best = None
    for environment in TUNINGS[:1] if args.no_tuning else TUNINGS:
        worker = machine.Torch(python, model, "eager", args.threads, environment)
        seconds = min(worker.steps(args.steps))
        worker.close()
        text = " ".join(f"{k}={v}" for k, v in environment.items())
        print(f"    {seconds:7.3f} s  {text}", flush=True)
        if best is None or seconds < best[0]:
            best = (seconds, environment)
    return best[1]


def duel(ptc, name, contender, model, environment, args):
    """Rounds in turn; medians of either and of their ratio."""
    python, mode = contender
    worker = machine.Torch(python, model, mode, args.threads, environment)
    mine, theirs, ratios, shares = [], [], [], []
    for _ in range(args.rounds):
        watch = machine.Watch(ptc.pid, worker.pid)
        a, b = ptc.steps(args.steps), worker.steps(args.steps)
        shares.append(watch.others())
        mine += a
        theirs += b
        ratios.append(machine.median(b) / machine.median(a))
    row = {"name": name, "torch": worker.about["torch"], "optimizer": worker.about["optimizer"],
           "ptc_s": machine.median(mine), "torch_s": machine.median(theirs),
           "ratio": machine.median(ratios), "rss": machine.peak_rss(worker.pid),
           "others": max(shares)}
    worker.close()
    print(f"  {name:16} ptc {row['ptc_s']:.3f} s ({machine.spread(mine)})   "
          f"torch {row['torch']} {row['torch_s']:.3f} s ({machine.spread(theirs)}), "
          f"{row['rss'] / 2**30:.2f} GiB   ptc is {row['ratio']:.2f} times as fast   "
          f"[others {row['others']:.0%}]", flush=True)
    return row, mine


def profile(args, plan, data, work):
    """Where the time goes, by kernel."""
    run_dir = os.path.join(work, "profile.run")
    machine.run([args.ptc, "run", plan, f"--data={data}", "--steps=4", "--profile", "-q",
                 f"--threads={args.threads}", f"--run-dir={run_dir}"])
    with open(os.path.join(run_dir, "profile.json")) as file:
        table = json.load(file)
    wall = table["seconds"]
    kernels = sorted(table["kernels"], key=lambda row: -row["seconds"])
    print("  where the time goes:\n    ms/step   share    calls  GFLOP/s     GB/s")
    rest = 0.0
    for i, row in enumerate(kernels):
        if i >= 16:
            rest += row["seconds"]
            continue
        calls, seconds = row["calls"], max(row["seconds"], 1e-9)
        print(f"    {1e3 * seconds / table['steps']:7.1f} {seconds / wall:7.1%} "
              f"{calls / table['steps']:8.0f} {row['flops_per_call'] * calls / seconds / 1e9:8.1f} "
              f"{row['min_bytes_per_call'] * calls / seconds / 1e9:8.1f}  "
              f"{row['kernel']} {row['about'][:60]}")
    total = sum(row["seconds"] for row in kernels)
    print(f"    {1e3 * rest / table['steps']:7.1f} {rest / wall:7.1%}  {max(len(kernels) - 16, 0)} "
          f"others;  outside of kernels {1e3 * (wall - total) / table['steps']:.1f} ms/step",
          flush=True)
    shutil.rmtree(run_dir)
    return table


def measure(model, args, peak_path, work):
    spec = MODELS[model]
    print(f"{model}: {spec['about']}, f32, {args.threads} threads; counted {spec['gflop']} GFLOP",
          flush=True)
    plan, data = os.path.join(work, model + ".plan"), os.path.join(work, model + ".bin")
    write_tokens(data, spec["vocab"])
    text = machine.run([args.ptc, "samples/gpt2.ptm", "-o", plan, "--set=train.precision=f32",
                        "--set=train.steps=1000000", *(f"--set={word}" for word in spec["set"])])
    found = re.search(r"arena takes [^(]*\((\d+) bytes", text)
    arena = int(found.group(1)) if found else 0
    run_dir = os.path.join(work, model + ".run")
    ptc = machine.Ptc([args.ptc, "run", plan, f"--data={data}", "-q", f"--threads={args.threads}",
                       f"--run-dir={run_dir}"], run_dir)
    result = {"model": model, "arena": arena, "duels": []}
    peaks = [machine.peak(peak_path, args.threads, "fma")["fma"]]
    seconds, shares = [], []
    for _ in range(args.rounds):
        watch = machine.Watch(ptc.pid)
        seconds += ptc.steps(args.steps)
        shares.append(watch.others())
        peaks.append(machine.peak(peak_path, args.threads, "fma")["fma"])
    for name, contender in args.contenders.items():
        print(f"  tuning {name}:", flush=True)
        environment = tune(contender, model, args)
        row, mine = duel(ptc, name, contender, model, environment, args)
        result["duels"].append(row)
        seconds += mine
    rss = machine.peak_rss(ptc.pid)
    ptc.close()
    step, top = machine.median(seconds), max(peaks)
    others = max(shares + [row["others"] for row in result["duels"]])
    share = spec["gflop"] / step / top
    result.update(step_s=step, best_s=min(seconds), peak_gflops=top, share_of_peak=share, rss=rss,
                  others=others)
    print(f"  step {step:.3f} s (median of {len(seconds)}; {machine.spread(seconds)}), "
          f"{spec['gflop'] / step:.1f} GFLOP/s = {share:.1%} of the FMA peak {top:.1f} GFLOP/s")
    print(f"  memory: arena {arena / 2**30:.3f} GiB, peak RSS {rss / 2**30:.3f} GiB "
          f"(+{(rss - arena) / 2**20:.0f} MiB)")
    result["profile"] = profile(args, plan, data, work)
    goal = (share >= spec["goal_peak"] if "goal_peak" in spec else step <= spec["goal_s"])
    aim = (f"{spec['goal_peak']:.0%} of the peak" if "goal_peak" in spec
           else f"{spec['goal_s']} s a step")
    if others > machine.BUSY:
        result["verdict"] = "none"
        print(f"  no verdict ({aim}): other programs took up to {others:.0%} of the cores")
    else:
        result["verdict"] = "reached" if goal else "missed"
        print(f"  goal {aim}: {result['verdict']}")
    return result


COUNTED = """\
counted, of ptc and PyTorch alike: the wall time from the end of a step to the end of the next (the
batch, forward, backward, clipping, AdamW, the loss as a number; of ptc the line of metrics, too).
Not counted: start-up, compiling, the first two steps (the system hands out memory), the first step
after a pause; checkpoints and validation, of which there are none. Medians."""


def main():
    args = arguments()
    args.ptc = os.path.join(args.build, "ptc")
    if not os.access(args.ptc, os.X_OK):
        machine.fail(f"{args.ptc} is missing: build first")
    for model in args.models:
        if model not in MODELS:
            machine.fail(f"no model {model}; there are: {' '.join(MODELS)}")
    args.contenders = {}
    for word in args.contender:
        name, _, rest = word.partition("=")
        args.contenders[name] = tuple(rest.rsplit(":", 1))
    peak_path = machine.build_peak()
    print(f"{machine.describe()}; other programs take {machine.idle_share():.0%} of the cores")
    print(COUNTED)
    results = []
    with tempfile.TemporaryDirectory(prefix="ptc-bench-") as work:
        for model in args.models:
            results.append(measure(model, args, peak_path, work))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)
    return 0 if all(row["verdict"] == "reached" for row in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())

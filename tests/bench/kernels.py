#!/usr/bin/env python3
"""Compares the kernels that memory bounds with the machine's stream bandwidth; see kernels.sh."""
import argparse
import json
import os
import tempfile

import machine
import train

OUT_OF_CACHE = 16 << 20  # bytes that one call moves at least; smaller ones may stay in a cache
GOAL = 0.8
# Arithmetic that the counted FLOPs leave out, in FLOP per byte: vector instructions in the compiled loop of 8
# elements (32 bytes read, of the gradient 32 more written), each a slot of an FMA of 16 FLOP.
HIDDEN = {"cross_entropy": 42 * 16 / 32, "cross_entropy_grad": 54 * 16 / 64,  # an exp
          "square_sum": 28 * 16 / 32}  # an exact sum of squares


def arguments():
    parser = argparse.ArgumentParser(prog="kernels.sh")
    parser.add_argument("models", nargs="*", default=["gpt2"])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=6)
    return parser.parse_args()


def rows_of(table):
    for row in table["kernels"]:
        calls, seconds, size = row["calls"], row["seconds"], row["min_bytes_per_call"]
        if calls and seconds > 0 and size > 0 and row["kernel"] != "copies":
            yield {"kernel": row["kernel"], "about": row["about"], "bytes": size,
                   "flops_per_byte": row["flops_per_call"] / size,
                   "hidden": max(HIDDEN.get(op, 0) for op in row["about"].split(", ")),
                   "gbs": size * calls / seconds / 1e9,
                   "ms": 1e3 * seconds / table["steps"]}


def main():
    args = arguments()
    ptc = os.path.join(args.build, "ptc")
    if not os.access(ptc, os.X_OK):
        machine.fail(f"{ptc} is missing: build first")
    peak_path = machine.build_peak()
    print(f"{machine.describe()}; other programs take {machine.idle_share():.0%} of the cores")
    failed = False
    for model in args.models:
        if model not in train.MODELS:
            machine.fail(f"no model {model}; there are: {' '.join(train.MODELS)}")
        spec = train.MODELS[model]
        with tempfile.TemporaryDirectory(prefix="ptc-bench-") as work:
            plan, data, run_dir = (os.path.join(work, name) for name in ("plan", "data.bin", "run"))
            train.write_tokens(data, spec["vocab"])
            machine.run([ptc, "samples/gpt2.ptm", "-o", plan, "--set=train.precision=f32",
                         *(f"--set={word}" for word in spec["set"])])
            before = machine.peak(peak_path, args.threads, "stream")
            watch = machine.Watch()
            machine.run([ptc, "run", plan, f"--data={data}", f"--steps={args.steps}", "--profile",
                         "-q", f"--threads={args.threads}", f"--run-dir={run_dir}"])
            others = watch.others()
            after = machine.peak(peak_path, args.threads, "stream")
            with open(os.path.join(run_dir, "profile.json")) as file:
                table = json.load(file)
        fma = machine.peak(peak_path, args.threads, "fma")["fma"]
        rate = {name: max(before[name], after[name]) for name in ("triad", "triad_nt", "memcpy", "read")}
        ridge = fma / rate["triad"]
        print(f"{model}: triad {rate['triad']:.1f} GB/s (NT stores {rate['triad_nt']:.1f}, memcpy "
              f"{rate['memcpy']:.1f}, read {rate['read']:.1f}); memory-bound below {ridge:.1f} FLOP/byte")
        print("  ms/step  MiB/call     GB/s  of triad")
        slow = 0
        for row in sorted(rows_of(table), key=lambda r: -r["ms"]):
            if row["flops_per_byte"] >= ridge:
                continue
            share = row["gbs"] / rate["triad"]
            bound = row["hidden"] < ridge
            counts = row["bytes"] >= OUT_OF_CACHE and bound
            verdict = "" if not counts else "ok" if share >= GOAL else "below"
            verdict = verdict if bound else "arith"
            slow += verdict == "below"
            print(f"  {row['ms']:7.2f} {row['bytes'] / 2**20:9.2f} {row['gbs']:8.1f} {share:8.0%}  "
                  f"{verdict:5} {row['kernel']} {row['about'][:60]}")
        # The run's own child was waited for, so its time counts as this process's.
        if others > machine.BUSY:
            print(f"  no verdict: other programs took {others:.0%} of the cores")
            failed = True
        else:
            print(f"  {slow} kernels that move {OUT_OF_CACHE >> 20} MiB or more are below {GOAL:.0%}")
            failed = failed or slow > 0
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

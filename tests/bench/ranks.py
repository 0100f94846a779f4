#!/usr/bin/env python3
"""Two ranks beside one, and beside PyTorch's data parallelism; see ranks.sh."""
import argparse
import os
import tempfile

import machine
import train

GOAL_SHARE, GOAL_S = 0.95, 1.6


def main():
    parser = argparse.ArgumentParser(prog="ranks.sh")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--no-torch", action="store_true")
    args = parser.parse_args()
    ptc = os.path.join(args.build, "ptc")
    python = os.path.join(machine.cache_dir(), "torch", "bin", "python")
    if not os.access(ptc, os.X_OK):
        machine.fail(f"{ptc} is missing: build first")
    if not args.no_torch and not os.access(python, os.X_OK):
        machine.fail("PyTorch is missing: run train.sh first, or say --no-torch")
    print(f"{machine.describe()}; other programs take {machine.idle_share():.0%} of the cores")
    contenders, times, shares = {}, {}, []
    with tempfile.TemporaryDirectory(prefix="ptc-bench-") as work:
        data = os.path.join(work, "tokens.bin")
        train.write_tokens(data, 256)
        for name, ranks in (("1 rank x 2 threads", 1), ("2 ranks x 1 thread", 2)):
            plan, run_dir = (os.path.join(work, f"{ranks}.{what}") for what in ("plan", "run"))
            machine.run([ptc, "samples/gpt2.ptm", "-o", plan, "--set=train.precision=f32",
                         "--set=train.steps=1000000", f"--parallel=dp={ranks}",
                         *(f"--set={word}" for word in train.MODELS["small"]["set"])])
            contenders[name] = machine.Ptc([ptc, "run", plan, f"--data={data}", "-q",
                                            "--threads=2", f"--run-dir={run_dir}"], run_dir)
        if not args.no_torch:
            worker = machine.Torch(python, "small", "ddp", 1, train.KEEP)
            contenders[f"PyTorch {worker.about['torch']} DDP, gloo"] = worker
        for _ in range(args.rounds):
            pids = [pid for c in contenders.values() for pid in (c.pids() if hasattr(c, "pids") else [c.pid])]
            watch = machine.Watch(*pids)
            for name, contender in contenders.items():
                times.setdefault(name, []).append(machine.median(contender.steps(args.steps)))
            shares.append(watch.others())
        for contender in contenders.values():
            contender.close()
    one, two, *others = (list(row) for row in times.values())
    for name, row in times.items():
        ratio = machine.median([a / b for a, b in zip(one, row)])
        print(f"  {name:28} {machine.median(row):.3f} s a step ({machine.spread(row)})   "
              f"{ratio:.3f} of the speed of one rank")
    for row in others:
        print(f"  two ranks are {machine.median([b / a for a, b in zip(two, row)]):.2f} times as fast as PyTorch")
    print(f"  others took up to {max(shares):.0%} of the cores")
    share = machine.median([a / b for a, b in zip(one, two)])
    if max(shares) > machine.BUSY:
        print("  no verdict: other programs took too much")
        return 1
    reached = share >= GOAL_SHARE and machine.median(two) <= GOAL_S
    print(f"  goals {GOAL_SHARE:.0%} of one rank and {GOAL_S} s: {'reached' if reached else 'missed'}")
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main())

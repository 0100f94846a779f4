"""Predicted against measured step times of plans on this machine: python3 local.py PTC FOLDER"""
import json, math, os, statistics, subprocess, sys

ptc, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
samples = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples")
small = ["--set", "layers=4", "--set", "d=256", "--set", "heads=4", "--set", "seq=256", "--set", "vocab=4096"]
models = {
    "gpt2": ["gpt2.ptm", *small, "--set", "drop=0"],
    "llama3": ["llama3.ptm", *small, "--set", "kv_heads=2", "--set", "ffn=768"],
}
layouts = [
    (1, "micro_batch=4"), (1, "micro_batch=8"), (1, "micro_batch=4,recompute=full"), (1, "micro_batch=2"),
    (2, "dp=2,micro_batch=4"), (2, "dp=2,micro_batch=2"), (2, "dp=2,zero=1,micro_batch=4"),
    (2, "dp=2,zero=3,micro_batch=4"), (2, "tp=2,micro_batch=4"), (2, "tp=2,micro_batch=8,sequence_parallel=on"),
    (2, "pp=2,micro_batch=2"), (2, "pp=2,micro_batch=1,schedule=zero_bubble"), (2, "cp=2,micro_batch=4"),
]
common = ["--set", "batch=8", "--set", "train.precision=f32"]


def run(*arguments):
    return subprocess.run([ptc, *arguments], check=True, capture_output=True, text=True).stdout


def rank(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0] * len(values)
    for place, i in enumerate(order):
        ranks[i] = place
    return ranks


with open("/usr/share/common-licenses/GPL-3") as text, open(f"{folder}/text.txt", "w") as out:
    out.write(text.read())
pairs = []
for name, (file, *settings) in models.items():
    for number, (ranks, layout) in enumerate(layouts):
        base = [os.path.join(samples, file), *settings, *common, "--parallel", layout]
        plan = f"{folder}/{name}{number}"
        try:
            told = json.loads(run(*base, "-q", "--cluster", f"local:{ranks}", "-n", "--format", "json"))["best"]
            run(*base, "-q", "-o", plan)
            run("run", plan, "-q", "--data", f"{folder}/text.txt", "--steps", "12", "--run-dir", plan + ".run",
                "--threads", "2")
        except subprocess.CalledProcessError as error:
            print(f"{name:8} {layout:44} {error.stderr.strip().splitlines()[-1][:90]}", flush=True)
            continue
        with open(plan + ".run/metrics.jsonl") as lines:
            rows = [json.loads(line) for line in lines]
        times = [8 * 256 / row["tokens_per_s"] for row in rows if row["kind"] == "train"][4:]
        measured = statistics.median(times)
        pairs.append((told["step_s"], measured))
        print(f"{name:8} {layout:44} measured {measured:7.3f} s, predicted {told['step_s']:7.3f} s, "
              f"{100 * (told['step_s'] / measured - 1):+6.1f} %", flush=True)
errors = sorted(abs(p / m - 1) for p, m in pairs)
a, b = rank([p for p, _ in pairs]), rank([m for _, m in pairs])
n = len(pairs)
rho = 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1)) if n > 2 else math.nan
print(f"{n} layouts: median error {100 * statistics.median(errors):.1f} %, largest {100 * errors[-1]:.1f} %, "
      f"rank correlation {rho:.2f}")

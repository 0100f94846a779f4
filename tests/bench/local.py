"""Predicted against measured step times of plans on this machine: python3 local.py PTC FOLDER ROUNDS ONLY

All plans whose model and layout match the regular expression ONLY are made first; then each round runs every plan for
a few steps, so that a slow minute of the machine meets all of them alike. A plan's time is its fastest step: what the
machine does undisturbed, as the rates of the cluster `local` are the best that were seen, too. FOLDER keeps plans and
times: rounds of several calls add up, and count together, as long as the planner splits the model alike.
"""
import json, os, re, statistics, subprocess, sys

ptc, folder, rounds, only = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
samples = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples")
batch, seq, steps, warm = 8, 256, 8, 2  # |warm| steps of each run meet pages that are not there yet
small = ["--set", "layers=4", "--set", "d=256", "--set", f"seq={seq}", "--set", "vocab=4096"]
heads = ["--set", "heads=4"]
models = {
    "gpt2": ["gpt2.ptm", *small, *heads, "--set", "drop=0"],
    "llama3": ["llama3.ptm", *small, *heads, "--set", "kv_heads=2", "--set", "ffn=768"],
    "gptj": ["gptj.ptm", *small, *heads, "--set", "rotary=32"],
    "mamba2": ["mamba2.ptm", *small],
}
many = [
    (1, "micro_batch=8"), (1, "micro_batch=2"), (1, "micro_batch=4,recompute=full"),
    (2, "dp=2,micro_batch=4"), (2, "dp=2,micro_batch=2"), (2, "dp=2,zero=1,micro_batch=4"),
    (2, "dp=2,zero=3,micro_batch=4"), (2, "tp=2,micro_batch=4"), (2, "tp=2,micro_batch=8,sequence_parallel=on"),
    (2, "cp=2,micro_batch=4"), (2, "pp=2,micro_batch=8"), (2, "pp=2,micro_batch=4"), (2, "pp=2,micro_batch=2"),
    (2, "pp=2,micro_batch=1,schedule=zero_bubble"), (2, "pp=2,micro_batch=2,recompute=full"),
]
few = [(1, "micro_batch=8"), (2, "dp=2,micro_batch=4"), (2, "pp=2,micro_batch=2"), (2, "pp=2,micro_batch=4")]
layouts = {"gpt2": many, "llama3": many, "gptj": few, "mamba2": few}
common = ["--set", f"batch={batch}", "--set", "train.precision=f32"]


def run(*arguments):
    return subprocess.run([ptc, *arguments], check=True, capture_output=True, text=True).stdout


def ranks(values):
    """The rank of each value; equal values share the mean of their ranks."""
    order = sorted(values)
    return [order.index(x) + (order.count(x) - 1) / 2 for x in values]


def rank_correlation(a, b):
    return statistics.correlation(ranks(a), ranks(b))


def choice_of(plan):
    """The split of the plan that lies there, as `--format json` tells it."""
    if not os.path.exists(plan + "/why.json"):
        return None
    with open(plan + "/why.json") as why:
        best = json.load(why)["best"]
    return best["choice"], best.get("cuts")


def visit(plan):
    """The seconds of each step of one run."""
    run("run", plan, "-q", "--data", f"{folder}/text.txt", "--steps", str(steps), "--run-dir", plan + ".run",
        "--restart", "--threads", "2")
    with open(plan + ".run/metrics.jsonl") as lines:
        rows = [json.loads(line) for line in lines]
    return [batch * seq / row["tokens_per_s"] for row in rows if row["kind"] == "train"][warm:]


with open("/usr/share/common-licenses/GPL-3") as text, open(f"{folder}/text.txt", "w") as out:
    out.write(text.read())
store = f"{folder}/times.json"
times = json.load(open(store)) if os.path.exists(store) else {}
plans = []
for name, (file, *settings) in models.items():
    for number, (world, layout) in enumerate(layouts[name]):
        if not re.search(only, f"{name} {layout}"):
            continue
        base = [os.path.join(samples, file), *settings, *common, "--parallel", layout, "--cluster", f"local:{world}", "-q"]
        plan = f"{folder}/{name}{number}"
        try:
            told = json.loads(run(*base, "-n", "--format", "json"))["best"]
            if choice_of(plan) != (told["choice"], told.get("cuts")):
                run(*base, "-o", plan)
                times.pop(f"{name} {layout}", None)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{name} {layout}: {error.stderr.strip()}")
        times.setdefault(f"{name} {layout}", [])
        plans.append({"model": name, "layout": layout, "plan": plan, "predicted": told["step_s"],
                      "runs": times[f"{name} {layout}"]})
        print(f"\r{len(plans)} plans", end="", file=sys.stderr, flush=True)
for turn in range(rounds):
    for at, plan in enumerate(plans if turn % 2 == 0 else plans[::-1]):
        plan["runs"].append(visit(plan["plan"]))
        print(f"\rround {turn + 1} of {rounds}: {at + 1} of {len(plans)} plans ", end="", file=sys.stderr, flush=True)
        with open(store, "w") as out:
            json.dump(times, out)
print(file=sys.stderr)
plans = [plan for plan in plans if plan["runs"]]
print(f"{'model':8} {'layout':40} {'best':>7} {'median':>7} {'predicted':>9} {'error':>8}")
for plan in plans:
    steps_s = [step for one in plan["runs"] for step in one]
    plan["best"] = min(steps_s)
    print(f"{plan['model']:8} {plan['layout']:40} {plan['best']:7.3f} {statistics.median(steps_s):7.3f} "
          f"{plan['predicted']:9.3f} {100 * (plan['predicted'] / plan['best'] - 1):+7.1f} %")


def ranks_agree(chosen):
    """The rank correlation; 1 where there is nothing to compare."""
    if len(chosen) < 2:
        return 1
    return rank_correlation([plan["predicted"] for plan in chosen], [plan["best"] for plan in chosen])


def summary(name, chosen):
    if not chosen:
        return 0, 1
    errors = sorted(abs(plan["predicted"] / plan["best"] - 1) for plan in chosen)
    rho = ranks_agree(chosen)
    print(f"{name:8} {len(chosen):3} layouts: error median {100 * statistics.median(errors):4.1f} %, largest "
          f"{100 * errors[-1]:4.1f} %, rank correlation {rho:.2f}")
    return errors[-1], rho


for name in models:
    summary(name, [plan for plan in plans if plan["model"] == name])
largest, rho = summary("all", plans)
sys.exit(0 if largest <= 0.15 and rho >= 0.9 else 1)

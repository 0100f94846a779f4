"""What two trainings of the same case may differ by, and whether they do (parity.py compare)."""
import json
import os

import torch

import safetensors

LOSS, LOSS_BF16 = 1e-5, 2e-2  # relative, each step
FALL = 0.5                    # nats, at least, over the steps
GRAD, GRAD_FLOOR = 1e-4, 1e-3  # of max(the tensor's norm, floor * norm of all)
PARAM = 1e-3                  # of the norm of the change


def read_losses(directory):
    """A list of {"loss": the sum of all, "loss.NAME": each that has a name}, for each step."""
    path = os.path.join(directory, "losses.json")
    if os.path.exists(path):
        with open(path) as file:
            return [{"loss": sum(row.values())}
                    | {"loss." + name: value for name, value in row.items() if name != "loss"}
                    for row in json.load(file)]
    with open(os.path.join(directory, "metrics.jsonl")) as file:
        rows = [row for row in map(json.loads, file) if row["kind"] == "train"]
    return [{"loss": row["loss"]}
            | {"loss." + name: value for name, value in row["losses"].items() if name != "loss"}
            for row in rows]


def check_losses(want, got, limit, report):
    """The sum of the losses; those with names are parts of it, and their errors told."""
    if len(got) != len(want):
        report(False, "losses", f"{len(got)} steps instead of {len(want)}")
        return
    worst = {}
    for step, (a, b) in enumerate(zip(want, got)):
        for name, value in a.items():
            error = abs(b.get(name, float("inf")) - value) / abs(value)
            error = float("inf") if error != error else error
            worst[name] = max(worst.get(name, (-1.0, 0)), (error, step + 1))
    first, last = want[0]["loss"], want[-1]["loss"]
    told = ", ".join(f"{name} {error:.1e} (step {step})" for name, (error, step) in worst.items())
    report(worst["loss"][0] <= limit, "losses",
           f"worst relative difference: {told}; allowed {limit:.0e}")
    report(first - last >= FALL, "fall", f"{first:.4f} -> {last:.4f} in {len(want)} steps")


def norm(tensor):
    return tensor.double().norm().item()


def check_names(want, got, what, report):
    missing = [path for path in want if path not in got]
    wrong = [path for path in want
             if path in got and tuple(got[path].shape) != tuple(want[path].shape)]
    if missing or wrong:
        report(False, what, f"missing: {missing[:5]}, other shapes: {wrong[:5]}")
    return not missing and not wrong


def check_grads(want, got, report):
    got = {path.removeprefix("grad."): value for path, value in got.items()}
    if not check_names(want, got, "gradients", report):
        return
    total = sum(norm(value) ** 2 for value in want.values()) ** 0.5
    rows = [(norm(got[path].double() - value.double()) / max(norm(value), GRAD_FLOOR * total), path)
            for path, value in want.items()]
    rows = [(float("inf") if error != error else error, path) for error, path in rows]
    worst = max(rows)
    report(worst[0] <= GRAD, "gradients",
           f"{len(rows)} tensors, worst {worst[0]:.1e} ({worst[1]}), allowed {GRAD:.0e}")


def check_params(start, want, got, report):
    """The change of all parameters together, and what each tensor contributes to the error."""
    if not check_names(want, got, "parameters", report):
        return
    change = error = 0.0
    rows = []
    for path, value in want.items():
        moved = norm(value.double() - start[path].double())
        off = norm(got[path].double() - value.double())
        change, error = change + moved ** 2, error + off ** 2
        rows.append((off / moved if moved > 0 else float(off > 0), path))
    rows.sort(reverse=True)
    total = (error / change) ** 0.5
    within = sum(ratio <= PARAM for ratio, _ in rows)
    report(total <= PARAM, "parameters",
           f"differ by {total:.1e} of the norm of their change, allowed {PARAM:.0e}; alone, "
           f"{within} of {len(rows)} tensors, worst {rows[0][0]:.1e} ({rows[0][1]})")


def compare(case, directory, other, bf16):
    failed = []

    def report(ok, what, text):
        print(f"{case['name']:14} {'ok    ' if ok else 'FAILED'} {what + ':':11} {text}")
        if not ok:
            failed.append(what)

    check_losses(read_losses(directory), read_losses(other), LOSS_BF16 if bf16 else LOSS, report)
    if not bf16:
        def tensors(place, name):
            return safetensors.load(os.path.join(place, name), keep=True)

        check_grads(tensors(directory, "grads.safetensors"), tensors(other, "grads.safetensors"),
                    report)
        check_params(tensors(directory, "weights.safetensors"),
                     tensors(directory, "final.safetensors"),
                     tensors(other, "final.safetensors"), report)
    return 1 if failed else 0

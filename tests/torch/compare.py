#!/usr/bin/python3
"""Compares ptc's loss and gradients of a case with the PyTorch reference, or records golden values.

  compare.py CASE DUMP.safetensors [DUMP2.safetensors] [--tolerance T]
      takes parameters and inputs from the dump(s), computes everything with PyTorch in float64 and
      prints the error of each tensor; exit status 1 if one is above T (default 1e-9)
  compare.py CASE --self DUMP.safetensors     writes such a dump from the reference itself
  compare.py CASE --record FILE.json          writes the golden values of the case (README.md)
  compare.py --record-all                     all of cases.json into golden/
  compare.py --record-small [CASE...]         golden/small alone
"""
import json
import os
import sys

import torch

import philox
import reference
import safetensors
import training

CHECK_SEED, NUM_DOTS = 1, 2
# Gradients that are zero but for rounding (the key's bias under a softmax) are measured against
# this part of the largest gradient.
FLOOR = 1e-6


def error(got, want, scale):
    """Largest difference over the largest magnitude; infinite where shapes differ."""
    if tuple(got.shape) != tuple(want.shape) or not torch.isfinite(got).all():
        return float("inf")
    if want.numel() == 0:
        return 0.0
    largest = max(want.abs().max().item(), scale)
    difference = (got - want).abs().max().item()
    return difference if largest == 0 else difference / largest


def compare(case, dump, tolerance):
    model, c = reference.config(case)
    shapes = {path: shape for path, shape, _ in model.parameters(c)}
    data = reference.inputs(model, c)
    missing = [name for name in list(shapes) + list(data) + ["loss"] if name not in dump]
    if missing:
        print(f"{case['name']}: the dump lacks {', '.join(missing)}")
        return False
    wrong = [f"{path} {tuple(dump[path].shape)} instead of {tuple(shape)}"
             for path, shape in shapes.items() if tuple(dump[path].shape) != tuple(shape)]
    if wrong:
        print(f"{case['name']}: wrong shapes: {', '.join(wrong)}")
        return False
    rows = []
    initial = reference.init(model, c)
    for path, value in initial.items():
        rows.append((path, error(dump[path], value, 0.0)))
    for name, value in data.items():
        rows.append((name, error(dump[name].double(), value.double(), 0.0)))
    losses, metrics, grads = reference.run(
        model, c, {path: dump[path].double() for path in shapes},
        {name: dump[name].to(value.dtype) for name, value in data.items()})
    for name, value in results(losses, metrics).items():
        rows.append((name, error(dump.get(name, torch.tensor([float("inf")])).reshape(()),
                                 torch.tensor(value), 0.0)))
    largest = max(grad.abs().max().item() for grad in grads.values())
    for path, grad in grads.items():
        got = dump.get("grad." + path)
        if got is None:
            # A parameter that no loss depends on may have no gradient.
            got = torch.zeros_like(grad) if not grad.any() else torch.full((0,), 0.0)
        rows.append(("grad." + path, error(got, grad, FLOOR * largest)))
    for name, value in rows:
        print(f"{case['name']:14} {name:34} {value:9.2e} {'' if value <= tolerance else 'FAIL'}")
    worst = max(rows, key=lambda row: row[1])
    ok = worst[1] <= tolerance
    print(f"{case['name']:14} {'PASS' if ok else 'FAIL'}: {len(rows)} tensors, "
          f"worst {worst[1]:.2e} ({worst[0]}), loss {losses['loss']:.12f}")
    return ok


def results(losses, metrics):
    """Named as in dumps: `loss`, `loss.balance`, `metric.accuracy`; counts in () stay here."""
    named = {name if name == "loss" else "loss." + name: value for name, value in losses.items()}
    named.update({"metric." + name: value for name, value in metrics.items()
                  if not name.startswith("(")})
    return named


def summary(name, tensor):
    """Count, norm, sum, and products with two fixed random vectors."""
    flat = tensor.double().flatten()
    dots = [torch.dot(flat, philox.uniform(f"check.{k}.{name}", (flat.numel(),), CHECK_SEED, 0,
                                           -1.0, 1.0)).item() for k in range(NUM_DOTS)]
    return {"shape": list(tensor.shape), "norm": flat.norm().item(), "sum": flat.sum().item(),
            "dots": dots}


def write_golden(case, path, facts, tensors):
    golden = {key: case[key] for key in ("name", "model", "set", "perturb", "f32_factor")
              if key in case}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in (golden | facts).items()]
    rows = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in tensors.items()]
    with open(path, "w") as file:
        file.write("{\n" + "\n".join(lines) + '\n "tensors": {\n' + ",\n".join(rows) + "\n }\n}\n")


def record(case, path):
    model, c = reference.config(case)
    initial, data = reference.init(model, c), reference.inputs(model, c)
    params = reference.perturb(initial, case["perturb"])
    losses, metrics, grads = reference.run(model, c, params, data)
    tensors = {name: summary(name, value) for name, value in data.items()}
    tensors.update({"init." + name: summary("init." + name, value)
                    for name, value in initial.items()})
    tensors.update({"grad." + name: summary("grad." + name, value)
                    for name, value in grads.items()})
    write_golden(case, path, {"values": results(losses, metrics)}, tensors)
    print(f"{case['name']}: loss {losses['loss']:.12f}, {len(tensors)} tensors -> {path}")


def record_training(case, path):
    trace, _, final = training.train(case)
    rows = {"final." + name: summary("final." + name, value) for name, value in final.items()}
    write_golden(case, path, {"steps": trace}, rows)
    print(f"{case['name']}: loss {trace['loss'][0]:.6f} -> {trace['loss'][-1]:.6f} -> {path}")


def record_small(case, path):
    """Losses, the first gradients, the last parameters; and how far PyTorch's own f32 is from them."""
    trace, grads, final = training.train(case)
    tensors = {"grad." + name: value for name, value in grads.items()}
    tensors.update({"final." + name: value for name, value in final.items()})
    rows = {name: shorter(summary(name, value)) for name, value in tensors.items()}
    write_golden(case, path, {"steps": trace}, rows)
    trace32, grads32, final32 = training.train(case, torch.float32)
    loss = max(abs(b / a - 1) for a, b in zip(trace["loss"], trace32["loss"]))
    largest = max(value.norm().item() for value in grads.values())
    grad = max((grads32[name] - value).norm().item() / max(value.norm().item(), 1e-3 * largest)
               for name, value in grads.items())
    off = max((final32[name] - value).norm().item() / value.norm().item()
              for name, value in final.items())
    print(f"{case['name']}: loss {trace['loss'][0]:.6f} -> {trace['loss'][-1]:.6f}; PyTorch's f32: "
          f"losses {loss:.1e}, gradients {grad:.1e}, parameters {off:.1e} -> {path}")


def shorter(row):
    """Ten digits are enough for f32."""
    return {key: [float(f"{v:.10g}") if key != "shape" else v for v in value]
            if isinstance(value, list) else float(f"{value:.10g}") for key, value in row.items()}


def write_self(case, path):
    model, c = reference.config(case)
    params, data = reference.init(model, c), reference.inputs(model, c)
    losses, metrics, grads = reference.run(model, c, params, data)
    dump = dict(params, **data, **{"grad." + name: grad for name, grad in grads.items()})
    dump.update({name: torch.tensor(value) for name, value in results(losses, metrics).items()})
    safetensors.save(path, dump)


def main(args):
    if args == ["--record-all"]:
        for case in reference.load_cases():
            record(case, os.path.join(reference.HERE, "golden", case["name"] + ".json"))
        for case in reference.load_cases("training"):
            record_training(case, os.path.join(reference.HERE, "golden", "training",
                                               case["name"] + ".json"))
        for case in reference.load_cases("small"):
            record_small(case, os.path.join(reference.HERE, "golden", "small",
                                            case["name"] + ".json"))
        return 0
    if args[:1] == ["--record-small"]:
        for case in reference.load_cases("small"):
            if case["name"] in args[1:] or not args[1:]:
                record_small(case, os.path.join(reference.HERE, "golden", "small",
                                                case["name"] + ".json"))
        return 0
    tolerance = 1e-9
    if "--tolerance" in args:
        at = args.index("--tolerance")
        tolerance = float(args[at + 1])
        del args[at:at + 2]
    if len(args) < 2:
        print(__doc__)
        return 2
    case = reference.find_case(args[0])
    if args[1] in ("--record", "--self"):
        (record if args[1] == "--record" else write_self)(case, args[2])
        return 0
    dump = {}
    for path in args[1:]:
        dump.update(safetensors.load(path))
    return 0 if compare(case, dump, tolerance) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

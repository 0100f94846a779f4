"""Runs a reference model of models/ on a case of cases.json: weights and inputs from seeds or dumps.

The streams (README.md): initial values have the parameter's path as stream, the case's seed, and
step 2^32 - 1; inputs "data.<name>" and perturbations "perturb.<path>" have seed 7 and step 0.
"""
import importlib
import json
import os
import sys
from types import SimpleNamespace

import torch

import philox

HERE = os.path.dirname(os.path.abspath(__file__))
DATA_SEED = 7

sys.path.insert(0, HERE)
torch.set_default_dtype(torch.float64)


class Random:
    """The random ops of one training step."""

    def __init__(self, seed, step=0):
        self.seed, self.step = seed, step

    def uniform(self, path, shape, lo, hi):
        return philox.uniform(path, tuple(shape), self.seed, self.step, lo, hi)

    def dropout(self, x, p, path):
        """Elements with u >= p are kept; the index counts row-major in x's own dims."""
        if p == 0:
            return x
        keep = philox.unit(path, tuple(x.shape), self.seed, self.step) >= p
        return x * keep / (1.0 - p)


def load_cases(kind="cases"):
    with open(os.path.join(HERE, "cases.json")) as file:
        return json.load(file)[kind]


def find_case(name):
    for case in load_cases():
        if case["name"] == name:
            return case
    sys.exit(f"no case {name} in cases.json")


def config(case):
    """The model's module and its numbers: the published ones, overridden by the case's."""
    model = importlib.import_module("models." + case["reference"])
    values = dict(model.DEFAULTS, batch=None, seed=0)
    for key, value in case["set"].items():
        key = key.removeprefix("train.")
        if key in values:
            values[key] = value
    return model, SimpleNamespace(**values)


def initial_value(path, shape, init, seed):
    kind, *numbers = init
    if kind == "zeros":
        return torch.zeros(shape)
    if kind in ("ones", "constant"):
        return torch.full(shape, numbers[0] if numbers else 1.0)
    draw = {"normal": philox.normal, "truncated_normal": philox.truncated_normal,
            "uniform": philox.uniform}[kind]
    return draw(path, shape, seed, philox.INIT_STEP, *numbers)


def init(model, c):
    return {path: initial_value(path, shape, how, c.seed)
            for path, shape, how in model.parameters(c)}


def perturb(params, amplitude):
    """Moves every weight, so that biases, norms and soft caps are at no special point."""
    return {path: value + amplitude * philox.uniform("perturb." + path, tuple(value.shape),
                                                     DATA_SEED, 0, -1.0, 1.0)
            for path, value in params.items()}


def inputs(model, c):
    """Integers below their limit; where there is none, numbers in [-1, 1)."""
    return {name: philox.uniform("data." + name, shape, DATA_SEED, 0, -1.0, 1.0) if limit is None
            else philox.integers("data." + name, shape, DATA_SEED, 0, limit)
            for name, shape, limit in model.inputs(c)}


def run(model, c, params, data, step=0):
    """Losses and metrics by name, and the gradient of the losses' sum by every trained parameter."""
    leaves = {path: value.clone().requires_grad_(True) for path, value in params.items()}
    losses, metrics = model.forward(c, leaves, data, Random(c.seed, step))
    total = sum(losses.values())
    grads = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    grads = {path: torch.zeros_like(leaves[path]) if grad is None else grad
             for path, grad in zip(leaves, grads) if path not in getattr(model, "FROZEN", ())}
    return ({name: float(value) for name, value in losses.items()},
            {name: float(value) for name, value in metrics.items()}, grads)

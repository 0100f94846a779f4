"""Several steps of a case with PyTorch's own optimizers, clipping and schedules."""
import math

import torch

import reference


def schedule(s):
    """Step k (from 0) -> factor of lr, for LambdaLR."""
    lr, warmup, steps = s["train.lr"], s["train.warmup"], s["train.steps"]
    low = lr if s["train.lr_schedule"] == "constant" else s["train.min_lr"]

    def factor(k):
        done = min(max((k - warmup) / (steps - warmup), 0.0), 1.0)
        if s["train.lr_schedule"] == "cosine":
            rate = low + (lr - low) * 0.5 * (1.0 + math.cos(math.pi * done))
        else:
            rate = lr + (low - lr) * done
        return rate / lr * (min(1.0, (k + 1) / warmup) if warmup else 1.0)

    return factor


def optimizer(model, s, leaves):
    groups = [{"params": [leaf for path, leaf in leaves.items() if model.decays(path) == decays],
               "weight_decay": s["train.weight_decay"] if decays else 0.0}
              for decays in (True, False)]
    if s["train.optimizer"] == "adamw":
        return torch.optim.AdamW(groups, lr=s["train.lr"], eps=s["train.eps"],
                                 betas=(s["train.beta1"], s["train.beta2"]))
    return torch.optim.SGD(groups, lr=s["train.lr"], momentum=s["train.momentum"],
                           nesterov=s["train.nesterov"] == "on")


def unused_get_zeros(leaves):
    """A parameter that no loss depends on has the gradient zero, and decays; without a gradient
    PyTorch's optimizers would leave it alone."""
    for leaf in leaves.values():
        if leaf.grad is None:
            leaf.grad = torch.zeros_like(leaf)


def train(case, dtype=torch.float64):
    """Returns the loss, the gradient's norm and lr of each step, the first gradients, and the final
    parameters.

    Every step has the same data; dropout is drawn anew.
    """
    torch.set_default_dtype(dtype)
    model, c = reference.config(case)
    params = reference.perturb(reference.init(model, c), case["perturb"])
    leaves = {path: value.to(dtype).requires_grad_(True) for path, value in params.items()}
    data, s = reference.inputs(model, c), case["set"]
    data = {name: value.to(dtype) if value.is_floating_point() else value
            for name, value in data.items()}
    optim = optimizer(model, s, leaves)
    rates = torch.optim.lr_scheduler.LambdaLR(optim, schedule(s))
    trace = {"loss": [], "grad_norm": [], "lr": []}
    for step in range(case["steps"]):
        optim.zero_grad()
        losses, _ = model.forward(c, leaves, data, reference.Random(c.seed, step))
        total = sum(losses.values())
        total.backward()
        unused_get_zeros(leaves)
        if step == 0:
            grads = {path: leaf.grad.clone() for path, leaf in leaves.items()}
        norm = torch.nn.utils.clip_grad_norm_(list(leaves.values()),
                                              s.get("train.clip", math.inf))
        trace["loss"].append(float(total))
        trace["grad_norm"].append(float(norm))
        trace["lr"].append(optim.param_groups[0]["lr"])
        optim.step()
        rates.step()
    torch.set_default_dtype(torch.float64)
    return trace, grads, {path: leaf.detach() for path, leaf in leaves.items()}

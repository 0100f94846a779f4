"""The model of samples/quickstart.ptm: GPT-2 without dropout, with initial weights by their inputs."""
import math

from models import gpt2

forward = gpt2.forward
decays = gpt2.decays
inputs = gpt2.inputs
DEFAULTS = dict(layers=4, d=160, heads=5, seq=128, vocab=256, drop=0)


def parameters(c):
    """Those of GPT-2; a matrix's standard deviation is 1 / sqrt(its inputs)."""
    scale = {"wte": 0.05, "wpe": 0.02, "w2": 1 / math.sqrt(8 * c.layers * c.d),
             "wo": 1 / math.sqrt(2 * c.layers * c.d)}
    for path, shape, (kind, *_) in gpt2.parameters(c):
        std = scale.get(path.split(".")[-1], 1 / math.sqrt(c.d))
        yield path, shape, (kind, std) if kind == "normal" else (kind,)

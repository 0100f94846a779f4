"""Llama 3 on packed documents: a document ends with its eos; attention and positions stop there."""
import torch
import torch.nn.functional as F

from models import llama3

DEFAULTS = dict(llama3.DEFAULTS, eos=128001)
parameters = llama3.parameters
inputs = llama3.inputs
decays = llama3.decays


def documents(c, tokens):
    """Number of the document and position in it, of each token; eos belongs to the one it ends."""
    doc, pos = torch.zeros_like(tokens), torch.zeros_like(tokens)
    for b in range(tokens.shape[0]):
        number = place = 0
        for s in range(tokens.shape[1]):
            doc[b, s], pos[b, s] = number, place
            place += 1
            if tokens[b, s] == c.eos:
                number, place = number + 1, 0
    return doc, pos


def forward(c, p, x, random):
    doc, pos = documents(c, x["tokens"])
    causal = torch.ones(c.seq, c.seq, dtype=torch.bool).tril()
    allowed = causal & (doc[:, :, None] == doc[:, None, :])
    logits = llama3.logits_of(c, p, x["tokens"], pos, allowed)
    counted = (x["tokens"] != c.eos).flatten()
    nll = F.cross_entropy(logits.flatten(0, 1), x["targets"].flatten(), reduction="none")
    return {"loss": nll[counted].sum() / counted.sum()}, {}

"""Random numbers by global element index: Philox 4x32-10 (Salmon et al. 2011, Random123).

Key: the 64-bit seed. Counter words: element / 4 (low, high), step, CRC-32 of the path; the lane is
element % 4. Written from the specification alone, in numpy; `python3 philox.py` checks it.
"""
import zlib

import numpy as np
import torch

INIT_STEP = 2**32 - 1  # the step under which initial values are drawn
_M = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_W = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def words(c0, c1, c2, c3, seed):
    """The four output words of each counter; c0..c3 are uint64 arrays of 32-bit words."""
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = _M[0] * c0, _M[1] * c2
        c0, c1, c2, c3 = (
            (p1 >> _32) ^ c1 ^ np.uint64(k0), p1 & _LOW,
            (p0 >> _32) ^ c3 ^ np.uint64(k1), p0 & _LOW)
        k0, k1 = (k0 + _W[0]) & 0xFFFFFFFF, (k1 + _W[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def bits(path, count, seed, step):
    """32 random bits for each of the elements 0 .. count - 1 (rounded up to whole blocks of 4)."""
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    full = np.full_like(block, 1)
    lanes = words(block & _LOW, block >> _32, full * np.uint64(step),
                  full * np.uint64(zlib.crc32(path.encode())), seed)
    return np.stack(lanes, axis=1).reshape(-1)


def _shaped(values, shape):
    return torch.from_numpy(values[:_count(shape)].reshape(shape).copy())


def _count(shape):
    return int(np.prod(shape, dtype=np.int64))


def unit(path, shape, seed, step):
    """u in [0, 1) with 24 bits."""
    x = bits(path, _count(shape), seed, step)
    return _shaped((x >> np.uint64(8)).astype(np.float64) * 2.0**-24, shape)


def uniform(path, shape, seed, step, lo, hi):
    return lo + unit(path, shape, seed, step) * (hi - lo)


def integers(path, shape, seed, step, hi):
    """Integers in [0, hi)."""
    return torch.floor(unit(path, shape, seed, step) * hi).to(torch.int64)


def normal(path, shape, seed, step, std, mean=0.0):
    """Box-Muller over the lane pairs (0, 1) and (2, 3)."""
    x = bits(path, _count(shape), seed, step).astype(np.float64)
    radius = np.sqrt(-2.0 * np.log((x[0::2] + 1.0) * 2.0**-32))
    angle = 2.0 * np.pi * (x[1::2] * 2.0**-32)
    z = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
    return _shaped(z * std + mean, shape)


def truncated_normal(path, shape, seed, step, std, mean=0.0):
    """A normal cut at two standard deviations, by the inverse distribution function."""
    x = bits(path, _count(shape), seed, step).astype(np.float64)
    lo, hi = (0.5 * torch.special.erfc(torch.tensor(t, dtype=torch.float64) / 2.0**0.5).item()
              for t in (2.0, -2.0))
    z = torch.special.ndtri(torch.from_numpy(lo + (x + 0.5) * 2.0**-32 * (hi - lo)))
    return _shaped((z * std + mean).numpy(), shape)


def _known_answers():
    """The known answers that come with Random123 (kat_vectors, philox4x32-10)."""
    ones, pi = 0xFFFFFFFF, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    for counter, seed, want in (
            ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
            ((ones,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
            (pi, 0x299F31D0A4093822, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1))):
        got = words(*(np.array([c], dtype=np.uint64) for c in counter), seed)
        assert tuple(int(g[0]) for g in got) == want, (counter, [hex(int(g[0])) for g in got])
    n = normal("n", (100000,), 3, INIT_STEP, 2.0)
    t = truncated_normal("t", (100000,), 3, INIT_STEP, 1.0)
    assert abs(n.std().item() - 2.0) < 0.02 and abs(n.mean().item()) < 0.03
    assert t.abs().max() <= 2.0 and abs(t.std().item() - 0.8796) < 0.01
    print("philox: known answers and moments hold")


if __name__ == "__main__":
    _known_answers()

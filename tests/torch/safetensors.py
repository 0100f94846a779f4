"""Reads and writes safetensors files: 8 bytes of header length, a JSON header, the data."""
import json
import struct

import numpy as np
import torch

_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64,
           "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}


def load(path, keep=False):
    """Name -> tensor. Floats become float64, integers int64; with |keep|, types stay."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        raw = data[8 + length + first:8 + length + last]
        if entry["dtype"] == "BF16":  # the upper half of an f32
            bits = np.frombuffer(raw, dtype=np.uint16).astype(np.uint32) << 16
            raw, entry["dtype"] = bits.tobytes(), "F32"
        array = np.frombuffer(raw, dtype=_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        kind = np.int64 if array.dtype.kind in "iub" else np.float64
        tensors[name] = torch.from_numpy(array.copy() if keep else array.astype(kind))
    return tensors


def save(path, tensors):
    """Floats of 32 bits stay so, others become float64; integers int64."""
    header, blobs, offset = {}, [], 0
    for name, tensor in sorted(tensors.items()):
        integer = not tensor.dtype.is_floating_point
        kind = "I64" if integer else "F32" if tensor.dtype == torch.float32 else "F64"
        array = tensor.detach().contiguous().numpy().astype(_DTYPES[kind], copy=False)
        header[name] = {"dtype": kind, "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        blobs.append(array)
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            file.write(blob.tobytes())

"""Reads and writes safetensors files: 8 bytes of header length, a JSON header, the data."""
import json
import struct

import numpy as np
import torch

_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64,
           "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}


def load(path):
    """Name -> tensor. Floats become float64, integers int64."""
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
        array = np.frombuffer(raw, dtype=_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        kind = np.int64 if array.dtype.kind in "iub" else np.float64
        tensors[name] = torch.from_numpy(array.astype(kind))
    return tensors


def save(path, tensors):
    header, blobs, offset = {}, [], 0
    for name, tensor in sorted(tensors.items()):
        integer = not tensor.dtype.is_floating_point
        array = tensor.detach().numpy().astype(np.int64 if integer else np.float64)
        header[name] = {"dtype": "I64" if integer else "F64", "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        blobs.append(array.tobytes())
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))

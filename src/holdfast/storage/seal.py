"""The seal of a file of tensors, the SHA-256 of everything in it and of its name; checked without torch."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.runtime.doors import read_bytes

SHARD = ".safetensors"
"""Ends the names of files of tensors."""

SEAL = "seal"
"""The fact of a file of tensors that says what else is in it."""

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""Types as the header of such a file names them -> as torch does."""


def seal_of(name: str, facts: Mapping[str, str], shapes: Mapping[str, Any], values: Iterable[Any]) -> str:
    """Return the seal of a file: one in another's place has another."""
    total = hashlib.sha256(json.dumps([name, dict(facts), shapes], sort_keys=True).encode())
    for value in values:
        total.update(value)
    return total.hexdigest()


def intact(path: Path, name: str) -> bool:
    """Whether a file of tensors is as it was written; False too where its header says what is not known here."""
    try:
        data = memoryview(read_bytes(path, None))
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(bytes(data[8:start]))
        facts = header.pop("__metadata__")
        seal = facts.pop(SEAL)
        shapes = {key: [f"torch.{_DTYPES[about['dtype']]}", about["shape"]] for key, about in header.items()}
        spans = [header[key]["data_offsets"] for key in sorted(header)]
        values = [data[start + first : start + last] for first, last in spans]
        return seal == seal_of(name, facts, shapes, values) and sum(map(len, values)) == len(data) - start
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False

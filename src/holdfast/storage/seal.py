"""Seals: the SHA-256 of everything else in a file, by which one that was damaged or changed is told.

Of a record and other JSON, of a report, and of files of tensors, which are checked without torch.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.runtime.doors import read_bytes
from holdfast.storage.record import Record

SHARD = ".safetensors"
"""Ends the names of files of tensors."""

SEAL = "seal"
"""The entry of a JSON file, and the fact of a file of tensors, that says what else is in it."""

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


def add_seal(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON data with a seal: the SHA-256 of all other entries, however they are laid out in a file."""
    return {**data, SEAL: _seal(data)}


def unbroken(data: Any) -> bool:
    """Whether JSON data is an object that is as it was sealed; one without a seal cannot have been."""
    return isinstance(data, dict) and data.get(SEAL) == _seal(data)


def _seal(data: Mapping[str, Any]) -> str:
    entries = {key: value for key, value in data.items() if key != SEAL}
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()


def report_of(record: Record, text: str) -> str:
    """Return a report as it is written: with a seal, which says of which record it is and what is in it."""
    return f"{text}\n<!-- seal {_seal_of_report(record, text)} -->\n"


def is_report_of(text: str, record: Record) -> bool:
    """Whether a report is of a record, and as it was written."""
    body, mark, end = text.rpartition("\n<!-- seal ")
    return bool(mark) and end == f"{_seal_of_report(record, body)} -->\n"


def _seal_of_report(record: Record, text: str) -> str:
    return digest_of(f"{record.seal} {text}".encode(errors="backslashreplace"))


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(data).hexdigest()

"""What a weights file holds: tensors by name, and what it says of itself; read as data, whoever wrote it."""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from holdfast.runtime.doors import open_regular, read_bytes, regular
from holdfast.runtime.errors import BadData, Missing, Unsupported, first_line
from holdfast.sources.encoders.shared.weights import check_file, check_names, read_safetensors
from holdfast.storage.documents import parse_json

INDEX = ".index.json"
"""How the name of a file ends that says which of several files holds which tensor."""

DEPTH = 50
"""Levels of tables in tables that are looked into."""


def read_stored(path: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return (tensors by name, metadata) of a weights file.

    Args:
        path: safetensors, what torch.save wrote, or the index of several such files. The names of tables in tables are
            joined by dots: "state_dict.conv1.weight".

    Raises:
        HoldfastError: no such file, or one that holds more than data.
    """
    check_file(path)
    if path.endswith(INDEX):
        joined: dict[str, Tensor] = {}
        for name, shard in _shards(path).items():
            # An index may point to files of torch as well
            inside = read_stored(str(shard))[0]
            if twice := joined.keys() & inside.keys():
                raise BadData(f"{path!r}: expected each tensor in one file, got {min(twice)!r} again in {name!r}")
            joined |= inside
        if absent := [name for name in _index(path) if name not in joined]:
            raise Missing(f"{path!r}: its files lack {absent[0]!r}, which it lists; fetch them again")
        return joined, {}
    with open_regular(path) as file:
        start = file.read(10)
    # safetensors begins with the length of its JSON header, eight bytes
    if start[8:10] == b'{"' or not start.startswith((b"PK", b"\x80")):  # torch.save writes zip archives or pickles
        return read_safetensors(path)
    found = list(_tensors(_unpickle(path), DEPTH, set()))
    # "a.b" may be a key or a table in a table
    if len(state := dict(found)) < len(found):
        twice = next(name for name, count in Counter(name for name, _ in found).items() if count > 1)
        raise BadData(f"weights file {path!r}: expected each name once, got {twice!r} twice, in tables of its own")
    check_names(state, path)
    return state, {}


def weights_files(weights: str) -> tuple[Path, ...] | None:
    """Return the files that `weights=` names, with those of an index; () of random ones, None of the source's own."""
    if weights in ("default", "random"):
        return () if weights == "random" else None
    return (Path(weights), *(_shards(weights).values() if weights.endswith(INDEX) else ()))


def _index(path: str) -> dict[str, str]:
    """Return name of a tensor -> name of the file that holds it."""
    check_file(path)
    try:
        table = parse_json(read_bytes(path))["weight_map"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadData(f"{path!r}: expected an index with a table 'weight_map', got {first_line(error)}") from error
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        raise BadData(f"{path!r}: expected 'weight_map' to name a file for each tensor, got something else")
    return table


def _shards(path: str) -> dict[str, Path]:
    """Return the files that an index names, in its own folder."""
    names = sorted(set(_index(path).values()))
    # A name with a folder in it could lead anywhere
    if strange := [name for name in names if Path(name).name != name or name.endswith(INDEX)]:
        raise BadData(f"{path!r}: expected names of files beside it, got {strange[0]!r}; put them into one folder")
    return {name: Path(path).parent / name for name in names}


def _unpickle(path: str) -> object:
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):  # the settings that training scripts keep
            return torch.load(regular(path), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever a damaged file leads to
        reason = first_line(error)
        if "TorchScript" in str(error):
            raise Unsupported(
                f"weights file {path!r} is a TorchScript archive, a network with its code; write a function that "
                f"returns torch.jit.load({path!r}) and give py:module:function"
            ) from error
        raise BadData(
            f"weights file {path!r} is not tensors alone, and nothing else is unpickled ({reason}); where you trust "
            "it, load it with torch and write its tensors with safetensors.torch.save_file(state_dict, path)"
        ) from error


def _tensors(held: object, depth: int, met: set[int], start: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield (dotted name, tensor) of a table of tensors and tables, each once; those of optimisers are left out."""
    # A table may hold itself
    if not isinstance(held, dict) or not depth or id(held) in met:
        return
    met.add(id(held))
    for name, value in held.items():
        if isinstance(name, str) and name != "optimizer":
            if isinstance(value, Tensor):
                yield start + name, value
            else:
                yield from _tensors(value, depth - 1, met, f"{start}{name}.")

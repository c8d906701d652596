"""Two run folders hold the same: records but for times, tables and pictures byte by byte, shards number by number."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from test_audit_run import timeless

from holdfast.auditing.partition import MARK

OWN = ("record.json", "report.html")
"""Files that tell of times."""


def record_of(folder: Path) -> dict:
    return json.loads((folder / "record.json").read_text(encoding="utf-8"))


def said(folder: Path) -> dict:
    """What a record says but for times; somebody may commit between two runs."""
    record = timeless(record_of(folder))
    del record["holdfast"]["git"]
    return record


def content(folder: Path) -> dict[str, bytes]:
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in OWN and path.suffix not in (MARK, ".lock")
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def same(one: Path, other: Path) -> None:
    """Fail unless two run folders hold the same; only parts leave marks where they failed."""
    assert said(one) == said(other)
    first, second = content(one), content(other)
    assert first.keys() == second.keys()
    assert any(name.endswith(".parquet") for name in first)
    for name, held in first.items():
        if name.endswith(".safetensors"):  # hold the seconds that they took
            equal(load_file(one / name), load_file(other / name), name)
        else:
            assert held == second[name], name


def equal(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor], name: str) -> None:
    assert one.keys() == other.keys()
    for key, value in one.items():
        assert torch.equal(value.nan_to_num(), other[key].nan_to_num()), (name, key)

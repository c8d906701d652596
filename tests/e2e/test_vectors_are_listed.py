"""Stored vectors are listed and explained like other sources."""

import json

import pytest
from test_command_line import run

from holdfast.sources.vectors.open import ABOUT, ARRAYS, SUFFIXES, TABLES


def test_every_kind_of_file_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    _, listed, _ = run(capsys, "list", "vectors", "--json")
    entries = json.loads(listed)["vectors"]
    assert entries.items() >= ABOUT.items()
    said = " ".join((*entries, *entries.values()))
    assert not [suffix for suffix in (*ARRAYS, *TABLES, *SUFFIXES) if suffix not in said]
    _, whole, _ = run(capsys, "list", "--json")
    assert json.loads(whole)["vectors"] == entries


@pytest.mark.parametrize("name", ["vectors", "vectors:", "vectors:old.npy"])
def test_they_are_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, shown, _ = run(capsys, "show", name)
    assert "?truncate=128" in shown
    assert "vectors:FILE.parquet" in shown

"""The table of known encoders: made of audits, read back as it was, fit to be shown to anybody."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are no part of the package

from benchmarks import references as benchmark
from benchmarks.references import Known, as_toml, audited

from holdfast.core import registry
from holdfast.report.references import Reference, references
from holdfast.storage.record_file import SEAL


def test_a_folder_of_audits_makes_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "MEASURES", [benchmark.MEASURES[0] | {"steps": 10}])
    few = Known("digits", "digits", 16, {"zoo:digits-simclr": "A", "zoo:digits-supervised": "B"})
    record = audited(few, tmp_path)
    rows = list(benchmark.references(few, record))
    assert [(row.name, row.norm) for row in rows] == [("A", "linf"), ("B", "linf")]
    for row in rows:
        assert row.low <= row.value <= row.high
        assert (row.population, row.attacked, row.passes, row.input) == (256, 16, 10, (1, 8, 8))
        assert row.record == record[SEAL]
    # written and read, nothing is lost; a record that is there is not made again
    table = tomllib.loads(as_toml(rows))["reference"]
    assert [Reference(**(row | {"input": tuple(row["input"])})) for row in table] == rows
    monkeypatch.setattr(benchmark, "run_audit", None)
    assert audited(few, tmp_path)[SEAL] == record[SEAL]


def test_what_needs_the_shared_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_SHARED", raising=False)
    with pytest.raises(SystemExit, match="MNIST: set the environment variable HOLDFAST_SHARED"):
        audited(Known("MNIST", "{}/mnist_test.npz", 32, {}), tmp_path)


def test_the_shipped_table_can_be_held_against_audits() -> None:
    known: dict[Any, Reference] = {(row.name, row.images, row.norm): row for row in references()}
    assert len(known) == len(references()) >= 20
    named = {name for one in benchmark.KNOWN for name in one.names.values()}
    for (name, images, norm), row in known.items():
        assert name in named
        assert images in {one.images for one in benchmark.KNOWN}
        assert 0 < row.low <= row.value <= row.high
        assert (row.population, row.passes) == (256, 100)
        assert registry.find("threats", norm)
        assert row.failure["name"] in registry.names("failures")
        assert (len(row.record), len(row.encoder)) == (64, 16)


def test_standard_encoders_are_fragile_and_hardened_ones_are_not() -> None:
    value = {(row.name, row.norm): 255 * row.value for row in references()}
    assert value["MobileNetV2 trained on ImageNet", "linf"] < 1
    assert value["ResNet-20 trained with labels", "linf"] < 1
    assert value["CNN-A trained against attacks", "linf"] > 4
    for norm in ("linf", "l2"):
        hardened, plain = (f"digits_cnn trained by SimCLR{end}" for end in (" against attacks", ""))
        assert value[hardened, norm] > value[plain, norm]

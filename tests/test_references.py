"""The table of known encoders: made of audits, read back as it was, fit to be shown to anybody."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are no part of the package

from benchmarks import references as benchmark
from benchmarks.predictions import predictions
from benchmarks.references import Known, as_toml, audited

from holdfast.core import registry
from holdfast.report.references import Reference, references
from holdfast.storage.record import Record


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Known, Path, Record]:
    """Two encoders, audited by the protocol on few images."""
    folder = tmp_path_factory.mktemp("known") / "audit"
    kind = Known("digits", "digits", {"zoo:digits-simclr": "A", "zoo:digits-supervised": "B"}, 0.025, None, 16, 0)
    short = ["breaking_radius.steps=10", "probabilistic_robustness.estimator.most=4"]
    return kind, folder, audited(kind, folder, settings=short)


@pytest.mark.slow
def test_a_folder_of_audits_makes_the_tables(made: tuple[Known, Path, Record], monkeypatch: pytest.MonkeyPatch) -> None:
    kind, folder, record = made
    rows = list(benchmark.references(kind, record))
    assert {(row.name, row.norm) for row in rows} <= {(name, norm) for name in "AB" for norm in ("linf", "l2")}
    assert rows
    for row in rows:
        assert row.low <= row.value <= row.high
        assert (row.population, row.attacked, row.passes, row.input) == (256, 16, 10, (1, 8, 8))
        assert row.record == record.seal
    # written and read, nothing is lost; a record that is there is not made again
    table = tomllib.loads(as_toml(rows))["reference"]
    assert [Reference(**(row | {"input": tuple(row["input"])})) for row in table] == rows
    monkeypatch.setattr(benchmark, "run_audit", None)
    assert audited(kind, folder).seal == record.seal
    # and all numbers of every encoder
    first, second = benchmark.measured(kind, record)
    assert (first["name"], second["name"]) == ("A", "B")
    assert first["scores"].keys() == second["scores"].keys()
    sizes = [s["ball"]["radius"] for s in first["scores"].values() if s["measure"] == "breakaway_risk"]
    assert sizes == [0.025, 0.05, 0.1, 0.2]


def test_what_needs_the_shared_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_SHARED", raising=False)
    with pytest.raises(SystemExit, match="MNIST: set the environment variable HOLDFAST_SHARED"):
        audited(Known("MNIST", "{}/mnist_test.npz", {}), tmp_path)


def test_predictions_are_correlations_of_what_is_better() -> None:
    """A risk, of which less is better, orders encoders as their accuracy does."""
    risk, accuracy = [0.1, 0.2, 0.3, 0.4, 0.5], [0.9, 0.8, 0.6, 0.7, 0.1]
    encoders = [
        {"images": "x", "scores": {
            "risk": {"value": r, "better": "lower", "needs_labels": False},
            "accuracy": {"value": a, "better": "higher", "needs_labels": True},
        }}
        for r, a in zip(risk, accuracy, strict=True)
    ]  # fmt: skip
    (row,) = predictions(encoders)
    assert row["value"] == pytest.approx(0.9)
    assert row["labels"] == [False, True]
    assert row["low"] < 0.9 < row["high"]
    assert predictions(encoders[:4]) == []


def test_kinds_of_images_are_weighed_by_what_their_encoders_tell() -> None:
    """Two equal correlations give the same one, surer; of two that differ, the kind with more encoders counts more."""

    def kind(images: str, second: list[float]) -> list[dict[str, Any]]:
        return [
            {"images": images, "scores": {
                "a": {"value": float(place), "better": "higher", "needs_labels": False},
                "b": {"value": value, "better": "higher", "needs_labels": False},
            }}
            for place, value in enumerate(second)
        ]  # fmt: skip

    mixed, ordered = [1.0, 0, 2, 4, 3, 5], [0.0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9]
    alone, _, both = predictions(kind("x", mixed) + kind("y", mixed))
    assert (both["images"], both["encoders"], both["value"]) == ("all", 12, alone["value"])
    assert alone["low"] < both["low"] < both["value"] < both["high"] < alone["high"]
    few, many, both = predictions(kind("x", mixed) + kind("y", ordered))
    assert few["value"] < both["value"] < many["value"]
    assert both["value"] > (few["value"] + many["value"]) / 2


def test_the_shipped_table_can_be_held_against_audits() -> None:
    shipped: dict[Any, Reference] = {(row.name, row.images, row.norm): row for row in references()}
    assert len(shipped) == len(references()) >= 20
    named = {name for kind in benchmark.known() for name in kind.encoders.values()}
    for (name, images, norm), row in shipped.items():
        assert name in named
        assert images in {kind.name for kind in benchmark.known()}
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

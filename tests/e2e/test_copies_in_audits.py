"""Audits of images with copies: they are found, told, counted once in every number, and left out where asked for."""

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from rich.console import Console
from torch import Tensor

from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.report.answer import duplicates
from holdfast.report.documents.audit import document
from holdfast.report.render import print_document
from holdfast.sources.data import open_images
from holdfast.sources.data.arrays import Arrays
from holdfast.storage.record import DataEntry
from json_records import run_audit, typed

PICTURES, TIMES = 12, 4
ENCODERS = ["zoo:digits-simclr", "zoo:digits-simclr-adv"]
MEASURES = ["breaking_radius", "nearest_neighbour_accuracy", "breakaway_risk", "universal_quantile"]


def digits() -> Tensor:
    """Twelve digits; the first eight of them four times each, with noise of six grey levels."""
    images = open_images("digits", images=PICTURES)
    pixels = torch.as_tensor(images.batch(0, PICTURES)).float()
    random = torch.Generator().manual_seed(0)
    again = [
        (pixels[:8] + torch.randint(-6, 7, pixels[:8].shape, generator=random) / 255).clamp(0, 1)
        for _ in range(TIMES - 1)
    ]
    return torch.cat([pixels, *again])


def audited(images: Tensor, folder: Path, encoders: list[str] = ENCODERS, **options: Any) -> dict[str, Any]:
    how = {"profile": "quick", "attacked": 20, "eps": 0.1, "examined": 4, **options}
    settings = ["breaking_radius.steps=10", "breaking_radius.certified=4", "nearest_neighbour_accuracy.passes=10"]
    settings += ["*.attack.steps=3"]
    plan = make_plan(AuditRequest(encoders, "copies", measures=MEASURES, settings=settings, **how))
    return run_audit(plan, folder, source=Arrays(images))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="module")
def record(folder: Path) -> dict[str, Any]:
    return audited(digits(), folder / "run")


def test_copies_are_recorded_and_told(record: dict[str, Any]) -> None:
    assert len(record["data"]["duplicates"]) == 8 * (TIMES - 1)
    line = duplicates(typed(record).data)
    assert line.startswith("24 of 36 images are copies of others: values and intervals count 12 pictures.")
    out = Console(file=io.StringIO(), width=400)
    print_document(document(typed(record)), out)
    assert line in out.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_every_number_counts_pictures(record: dict[str, Any]) -> None:
    for encoder in record["encoders"]:
        assert not encoder["error"]
        for name, measure in encoder["measures"].items():
            for score in measure["scores"].values():
                assert score["n"] <= PICTURES, name
                assert "pictures once" in score["interval"], name
    for entry in record["comparison"].values():
        assert all(pair["difference"]["n"] <= PICTURES for pair in entry["pairs"])


def test_copies_are_left_out_where_asked_for(folder: Path) -> None:
    data = audited(digits(), folder / "apart", ENCODERS[:1], skip_duplicates=True, attacked=8)["data"]
    assert data["images"] == PICTURES
    assert data["duplicates_left_out"]
    assert len(data["duplicates"]) == 24
    assert duplicates(msgspec.convert(data, DataEntry)) == ""


def test_without_copies_nothing_is_said(folder: Path) -> None:
    record = audited(digits()[:PICTURES], folder / "alone", ENCODERS[:1], attacked=8)
    assert record["data"]["duplicates"] == []
    scores = [s for e in record["encoders"] for m in e["measures"].values() for s in m["scores"].values()]
    assert not any("pictures" in score["interval"] for score in scores)

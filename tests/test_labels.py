"""Labels on their way from a source to the measures that read them, and what happens where there are none."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.auditing.session import Session
from holdfast.core import Encoder, ImageSource, Score, Subject, Table, registry
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.observations.clean import Clean
from holdfast.runtime.errors import BadPlace, Missing
from holdfast.sources.data import ImageSet
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.folder import Folder
from holdfast.sources.data.webdataset import WebDataset
from holdfast.storage.run_folder import Store
from json_records import run_audit

PIXELS = torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = [0, 1, 2, 0, 1, 2, 2, 2, 1, 1, 0, 0]


@dataclass(frozen=True)
class Classes(CosineToSelf):
    """A measure that reads labels: the share of class 0."""

    reads_labels = True

    def observations(self) -> tuple[Clean, ...]:
        return (Clean(),)

    def observe(self, subject: Subject) -> Table:
        assert subject.labels is not None
        return {self.column: (subject.labels == 0).double()}

    def score(self, table: Table) -> dict[str, Score]:
        share = float(table[self.column].mean())
        return {"share": Score(share, share / 2, min(1.0, 2 * share), len(table[self.column]), "none")}


@pytest.fixture
def classes(monkeypatch: pytest.MonkeyPatch) -> Classes:
    monkeypatch.setattr(registry, "_name_of", _named(registry._name_of))
    return Classes()


def _named(before):
    return lambda cls: ("measures", "classes") if cls is Classes else before(cls)


def encoder() -> Encoder:
    return Encoder(nn.Flatten(), mean=0, std=1)


def audit(folder: Path, source: ImageSource, *measures) -> dict:
    return run_audit(Plan(("it",), "arrays", measures), folder, encoders={"it": encoder()}, source=source)


def test_a_subject_has_the_labels_in_the_order_of_the_audit(tmp_path: Path) -> None:
    images = ImageSet(Arrays(PIXELS, LABELS), images=7, seed=3)
    subject = Session(encoder(), images, attacked=4, seed=3, batch_size=4, device="cpu", store=Store(tmp_path))
    assert isinstance(subject, Subject)
    assert subject.labels is not None
    assert subject.labels.dtype == torch.int64
    assert subject.labels.tolist() == [LABELS[int(name)] for name in images.ids]
    for place, label in enumerate(subject.labels):
        same = [row for row in range(12) if torch.equal(images.batch(place, place + 1)[0], PIXELS[row])]
        assert [LABELS[row] for row in same] == [label]


def test_one_missing_label_is_none() -> None:
    class Holes(Arrays):
        def label(self, index: int) -> int | None:
            return None if index == 5 else 1

    assert ImageSet(Holes(PIXELS)).labels is None
    assert ImageSet(Holes(PIXELS)).labels_fingerprint is None


def test_labels_are_read_once(tmp_path: Path) -> None:
    class Slow(Arrays):
        asked = 0

        def label(self, index: int) -> int | None:
            Slow.asked += 1
            return super().label(index)

    images = ImageSet(Slow(PIXELS, LABELS))
    assert images.with_geometry(None).labels == images.labels
    assert Slow.asked == 12


def test_the_measure_gets_them(tmp_path: Path, classes: Classes) -> None:
    record = audit(tmp_path, Arrays(PIXELS, LABELS), classes)
    assert record["failures"] == []
    assert record["encoders"][0]["measures"]["classes"]["scores"]["share"]["value"] == pytest.approx(4 / 12)


def test_an_audit_without_labels_refuses_before_any_pass(tmp_path: Path, classes: Classes) -> None:
    it = encoder()
    plan = Plan(("it",), "arrays", (classes, CosineToSelf()))
    with pytest.raises(Missing, match="classes"):
        run_audit(plan, tmp_path, encoders={"it": it}, source=Arrays(PIXELS, name="pics"))
    assert it.passes.total == 0


def test_labels_are_told_apart_only_where_they_are_read(tmp_path: Path, classes: Classes) -> None:
    """They are no part of the images' fingerprint: audits that read none stay comparable and can be resumed."""
    one, other = Arrays(PIXELS, LABELS), Arrays(PIXELS, LABELS[::-1])
    fingerprints = [(s.fingerprint, s.labels_fingerprint) for s in map(ImageSet, (one, other))]
    assert fingerprints[0][0] == fingerprints[1][0]
    assert fingerprints[0][1] != fingerprints[1][1]
    quick = CosineToSelf(attack=registry.find("attacks", "pgd")(2))
    first, second = (audit(tmp_path / "without", source, quick) for source in (one, other))
    assert first["data"] == second["data"]
    assert first["data"]["labels"] is None
    with_labels = audit(tmp_path / "with", one, classes)
    assert with_labels["data"]["labels"] == fingerprints[0][1]
    assert with_labels["data"]["fingerprint"] == first["data"]["fingerprint"]
    with pytest.raises(BadPlace):
        audit(tmp_path / "with", other, classes)


def test_order_of_labels_fingerprint_is_that_of_ids() -> None:
    assert (
        ImageSet(Arrays(PIXELS, LABELS), seed=1).labels_fingerprint
        == ImageSet(Arrays(PIXELS, LABELS), seed=2).labels_fingerprint
    )


@pytest.mark.parametrize("nested", [True, False])
def test_folders_know_classes_only_where_there_are_class_folders(tmp_path: Path, nested: bool) -> None:
    for place in range(4):
        path = tmp_path / (f"{'ab'[place % 2]}/{place}.png" if nested else f"{place}.png")
        path.parent.mkdir(exist_ok=True)
        PIL.Image.fromarray(np.full((8, 8), 60 * place, np.uint8)).save(path)
    images = ImageSet(Folder(tmp_path))
    assert images.labels == ([int("b" in name) for name in images.ids] if nested else None)


def test_arrays_without_labels_and_shards_without_classes_have_none(tmp_path: Path) -> None:
    import io
    import tarfile

    assert ImageSet(Arrays(PIXELS)).labels is None
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name in ("a.png", "b.png"):
            held = io.BytesIO()
            PIL.Image.fromarray(np.full((8, 8), ord(name[0]), np.uint8)).save(held, "png")
            member = tarfile.TarInfo(name)
            member.size = held.tell()
            held.seek(0)
            archive.addfile(member, held)
    assert ImageSet(WebDataset(tmp_path / "x.tar")).labels is None


def test_real_labels(shared: Path) -> None:
    path = shared / "data" / "mnist_test.npz"
    images = ImageSet(Arrays.open(path), images=50)
    with np.load(path) as held:
        assert images.labels == [int(held["labels"][int(name)]) for name in images.ids]

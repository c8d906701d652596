"""Probes in whole audits: training images of their own, corrupted training images, classes by name, bad input."""

from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Head, Measure
from holdfast.core.registry import spec
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.measures.corruptions.corrupted_accuracy import CorruptedAccuracy
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.measures.corruptions.neighbour_consistency import NeighbourConsistency
from holdfast.parts.measures.corruptions.relative_drop import RelativeDrop
from holdfast.parts.probes.knn import Knn
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.parts.threats.local_shuffle import LocalShuffle
from holdfast.runtime.errors import BadData, BadValue, Mismatch, Missing, NotEnough
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.digits import Digits
from json_records import run_audit

THREATS = (Gamma(0.2), GlobalShuffle(4), LocalShuffle(8), Gaussian(0.2))
IDENTITY, SHUFFLE = "L8x8", "G4x4"  # on 8 x 8 pixels


def pixels() -> Encoder:
    """The image itself as its representation: a shuffle of all images alike loses nothing."""
    return Encoder(nn.Flatten(), mean=0, std=1, name="pixels")


def digits(part: str) -> Arrays:
    images = ImageSet(open_images(f"digits?part={part}")._choice.source)
    assert images.labels is not None
    return Arrays(images.batch(0, len(images)), images.labels)


def saved(folder: Path, part: str, count: int, **extra) -> str:
    images = open_images(f"digits?part={part}")
    path = folder / f"{part}.npz"
    np.savez(path, images=images.batch(0, count).numpy()[:, 0], labels=images.labels[:count], **extra)
    return str(path)


def audit(folder: Path, *measures: Measure, train: str | None, **plan) -> dict:
    asked = Plan(("pixels",), saved(folder, "heldout", 200), measures, train=train, **plan)
    return run_audit(asked, folder / "out", encoders={"pixels": pixels()}, overwrite=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("probes")
    asked = (
        ProbeAccuracy(Knn(10)),
        ProbeAccuracy(Linear()),
        CorruptedAccuracy(Knn(10), threats=THREATS),
        RelativeDrop(Knn(10), threats=THREATS),
        RelativeDrop(Knn(10), consistent=True, threats=THREATS),
        CorruptionDrift(THREATS),
        NeighbourConsistency(THREATS),
    )
    return folder, audit(folder, *asked, train=saved(folder, "train", 600), batch_size=64)


def scores(record: dict, name: str, **fields) -> dict[str, dict]:
    for entry in record["encoders"][0]["measures"].values():
        part = entry["part"]
        if part["name"] == name and all(part[key] == value for key, value in fields.items()):
            return entry["scores"]
    raise KeyError(name)


def test_all_images_are_tested_and_passes_are_those_predicted(run) -> None:
    _, record = run
    assert record["failures"] == []
    assert record["data"]["attacked"] == 200
    assert record["data"]["train"]["images"] == 600
    passes = record["encoders"][0]["passes"]
    assert passes["predicted"]["forward"] == passes["forward"]
    assert passes["forward"] == 200 * (1 + len(THREATS)) + 600 * (1 + len(THREATS))  # each look once, for all measures


def test_accuracy_is_that_of_scikit_learn(run) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    folder, record = run
    with np.load(folder / "train.npz") as train, np.load(folder / "heldout.npz") as test:
        x, y = train["images"].reshape(600, -1), train["labels"]
        theirs = KNeighborsClassifier(10, metric="cosine", weights=lambda d: np.exp(-d / 0.1)).fit(x, y)
        right = theirs.score(test["images"].reshape(200, -1), test["labels"])
    top = scores(record, "probe_accuracy", probe=spec(Knn(10)))
    assert top["top-1"]["value"] == pytest.approx(right)
    assert top["top-1"]["value"] > 0.9
    assert top["top-5"]["value"] >= top["top-1"]["value"]
    assert [name for name in top if name.startswith("class")] == [f"class {i}" for i in range(10)]


def test_what_changes_nothing_costs_nothing(run) -> None:
    _, record = run
    for consistent in (False, True):
        drop = scores(record, "relative_drop", consistent=consistent)
        assert drop[IDENTITY]["value"] == 0
        assert drop[IDENTITY]["low"] < 0 < drop[IDENTITY]["high"]
    assert scores(record, "corruption_drift")[IDENTITY]["value"] == 0
    assert scores(record, "neighbour_consistency")[IDENTITY]["value"] == 1


def test_a_shuffle_of_training_and_test_images_alike_loses_nothing_for_pixels(run) -> None:
    _, record = run
    assert scores(record, "relative_drop", consistent=True)[SHUFFLE]["value"] == 0
    assert scores(record, "relative_drop", consistent=False)[SHUFFLE]["low"] > 0.3
    assert scores(record, "neighbour_consistency")[SHUFFLE]["value"] < 0.5


def test_drops_are_ratios_of_accuracies_and_average_as_they_should(run) -> None:
    _, record = run
    accuracy, drop = scores(record, "corrupted_accuracy"), scores(record, "relative_drop", consistent=False)
    for name in (*(t for t in drop if t != "average"), "average"):
        clean = accuracy["no corruption"]["value"]
        assert drop[name]["value"] == pytest.approx(1 - accuracy[name]["value"] / clean)
    each = [drop[name]["value"] for name in drop if name != "average"]
    assert drop["average"]["value"] == pytest.approx(sum(each) / len(each))


@pytest.mark.parametrize("size", [pytest.param(7, marks=pytest.mark.slow), 64])
def test_the_same_from_any_batch_size_and_again_from_the_store(run, size: int, tmp_path: Path) -> None:
    folder, record = run
    asked = (RelativeDrop(Knn(10), consistent=True, threats=THREATS), NeighbourConsistency(THREATS))
    train = str(folder / "train.npz")
    other = audit(tmp_path, *asked, train=train, batch_size=size)
    for name in ("relative_drop", "neighbour_consistency"):
        fields = {"consistent": True} if name == "relative_drop" else {}
        assert scores(other, name, **fields) == scores(record, name, **fields)
    again = audit(tmp_path, *asked, train=train, batch_size=size)
    shards = -(-200 // size) + -(-600 // (64 * size))  # tested images a batch at a time, training images 64 batches
    assert again["run"]["resumed_shards"] == shards * (1 + len(THREATS))


def test_without_training_images_probes_learn_from_what_is_not_tested(tmp_path: Path) -> None:
    asked = (ProbeAccuracy(Knn(10)), RelativeDrop(Knn(10), consistent=True, threats=(GlobalShuffle(4),)))
    record = audit(tmp_path, *asked, train=None, attacked=80)
    assert record["failures"] == []
    assert record["data"]["train"] is None
    (entry,) = record["encoders"]
    assert entry["passes"]["forward"] == entry["passes"]["predicted"]["forward"] == 200 + 80 + 120
    table = pq.read_table(tmp_path / "out" / entry["measures"]["probe_accuracy"]["table"])
    assert table.num_rows == 80
    assert sum(dict(zip(table["label"].to_pylist(), table["shots"].to_pylist(), strict=True)).values()) == 120


def test_classes_are_told_by_their_names(tmp_path: Path) -> None:
    """The test folder lacks the first class, so its classes have other numbers."""
    random = np.random.default_rng(0)
    for split, names in (("train", ("ape", "bee", "cat")), ("test", ("bee", "cat"))):
        for name in names:
            folder = tmp_path / split / name
            folder.mkdir(parents=True)
            for i in range(12):
                level = {"ape": 30, "bee": 120, "cat": 220}[name]
                grey = random.integers(level - 20, level + 20, (8, 8))
                grey[: 2 + 2 * ("ape", "bee", "cat").index(name)] //= 4  # what cosines tell apart
                PIL.Image.fromarray(grey.astype(np.uint8)).save(folder / f"{i}.png")
    asked = Plan(("pixels",), str(tmp_path / "test"), (ProbeAccuracy(Knn(5)),), train=str(tmp_path / "train"))
    record = run_audit(asked, tmp_path / "out", encoders={"pixels": pixels()})
    found = record["encoders"][0]["measures"]["probe_accuracy"]["scores"]
    assert found["top-1"]["value"] == 1
    assert "class 0" not in found  # the ape's number
    (tmp_path / "test" / "cat").rename(tmp_path / "test" / "dog")
    with pytest.raises(Mismatch, match="dog"):
        run_audit(asked, tmp_path / "out2", encoders={"pixels": pixels()})


def test_bad_input_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(NotEnough, match="200 of 200"):
        audit(tmp_path, ProbeAccuracy(), train=str(tmp_path / "heldout.npz"))
    bare = tmp_path / "bare.npz"
    np.savez(bare, images=np.random.default_rng(0).random((20, 8, 8)).astype(np.float32))
    with pytest.raises(Missing, match="probe_accuracy"):
        audit(tmp_path, ProbeAccuracy(), CorruptionDrift(THREATS), train=str(bare))
    with pytest.raises(Missing, match="train_images"):
        Plan(("it",), "digits", (ProbeAccuracy(),), train_images=10)
    with pytest.raises(BadValue, match=r"0\.2"):
        CorruptionDrift((Gamma(0.2), Gamma(0.2)))
    with pytest.raises(BadValue, match="threats"):
        RelativeDrop(threats=())
    with pytest.raises(Missing, match="consistent"):
        ProbeAccuracy(consistent=True)
    with pytest.raises(BadValue, match="neighbour_consistency"):
        NeighbourConsistency(k=0)


def test_fewer_training_images_than_votes_are_said(tmp_path: Path) -> None:
    asked = (ProbeAccuracy(Knn(120)), ProbeAccuracy(Knn(100)), CorruptedAccuracy(Knn(120), threats=THREATS))
    record = audit(tmp_path, *asked, train=saved(tmp_path, "train", 110))
    few = scores(record, "probe_accuracy", probe=spec(Knn(120)))["top-1"]["note"]
    assert few == "all 110 training images vote, fewer than k = 120"
    assert scores(record, "probe_accuracy", probe=spec(Knn(100)))["top-1"]["note"] == ""
    assert "all 110 training images vote" in scores(record, "corrupted_accuracy")["average"]["note"]


def test_images_of_the_audit_are_no_training_images(tmp_path: Path) -> None:
    """Half of what is given to learn from is what is tested: it is left out, and the record says so."""
    known = open_images(saved(tmp_path, "heldout", 200))
    mixed = np.concatenate([known.batch(0, 200).numpy()[:, 0], np.load(saved(tmp_path, "train", 150))["images"]])
    labels = np.concatenate([np.array(known.labels), np.load(tmp_path / "train.npz")["labels"]])
    np.savez(tmp_path / "mixed.npz", images=mixed, labels=labels)
    leaky = audit(tmp_path, ProbeAccuracy(Knn(1)), train=str(tmp_path / "mixed.npz"))
    clean = audit(tmp_path, ProbeAccuracy(Knn(1)), train=str(tmp_path / "train.npz"))
    assert leaky["data"]["train"]["images"] == clean["data"]["train"]["images"] == 150
    assert (leaky["data"]["train"]["left_out"], clean["data"]["train"]["left_out"]) == (200, 0)
    assert scores(leaky, "probe_accuracy") == scores(clean, "probe_accuracy")


class Broken(nn.Module):
    """Pixels, but NaN for images that are dark throughout."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.amax((1, 2, 3), keepdim=True) < 0.02, torch.nan, x).flatten(1)


def test_representations_that_are_no_numbers_are_no_answers(tmp_path: Path) -> None:
    asked = Plan(("it",), saved(tmp_path, "heldout", 60), (CorruptionDrift((Gamma(200.0),)), ProbeAccuracy(Knn(3))))
    faint = Arrays(ImageSet(Digits()).batch(0, 60) * 0.97, ImageSet(Digits()).labels[:60])
    record = run_audit(asked, tmp_path / "out", encoders={"it": Encoder(Broken(), mean=0, std=1)}, source=faint)
    (entry,) = record["encoders"]
    assert "60 disturbed images is NaN or infinite (first: " in entry["measures"]["corruption_drift"]["error"]


def test_a_score_that_is_no_number_is_no_right_answer() -> None:
    head = Head(torch.full((3, 2), torch.nan), torch.zeros(3), torch.arange(3))
    assert head.ranks(torch.ones(1, 2), torch.tensor([1])).tolist() == [2]


def test_names_of_classes_that_cannot_tell_them_apart_are_refused(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((30, 8, 8)).astype(np.float32)
    labels = np.arange(30) % 3
    train = {"images": 1 - images, "labels": labels, "classes": np.array(["crane", "bee", "crane"])}
    np.savez(tmp_path / "train.npz", **train)
    for classes, wrong, match in (
        (["bee", "crane", "ape"], labels.clip(0, 1), "crane"),
        (["bee", "crane"], labels, r"\[2\]"),
        (["bee", "crane"], labels - 2, "-2"),
    ):
        np.savez(tmp_path / "test.npz", images=images, labels=wrong, classes=np.array(classes))
        asked = Plan(("it",), str(tmp_path / "test.npz"), (ProbeAccuracy(),), train=str(tmp_path / "train.npz"))
        with pytest.raises(BadData, match=match):
            run_audit(asked, tmp_path / "out", encoders={"it": pixels()}, overwrite=True)


def test_what_does_not_fit_the_images_is_recorded_and_the_rest_goes_on(tmp_path: Path) -> None:
    wrong = CorruptedAccuracy(threats=(GlobalShuffle(3),))
    seldom = np.array([0] * 99 + [1])
    np.savez(
        tmp_path / "few.npz", images=np.random.default_rng(0).random((100, 8, 8)).astype(np.float32), labels=seldom
    )
    asked = (wrong, ProbeAccuracy(), NeighbourConsistency((Gamma(),), k=199), CorruptionDrift((Gamma(),)))
    record = audit(tmp_path, *asked, train=str(tmp_path / "few.npz"))
    errors = {key: entry["error"] for key, entry in record["encoders"][0]["measures"].items()}
    assert "a grid that divides both sides of 8 x 8 images, got 3" in errors["corrupted_accuracy"]
    assert "got none of class 2" in errors["probe_accuracy"]
    assert "expected k below the number of other images, 199, got 199" in errors["neighbour_consistency"]
    assert errors["corruption_drift"] is None

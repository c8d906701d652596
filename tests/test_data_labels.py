"""What counts as the class of an image: whole numbers from 0 on; -1, or nothing, is none; nothing else is a class."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn

import holdfast
import typechecker
from holdfast.core import HoldfastError, ImageSource
from holdfast.runtime.errors import BadData, Missing
from holdfast.sources.data import open_images
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.shared.labels import class_number
from holdfast.sources.data.shared.long_tail import LongTail
from holdfast.sources.data.shared.torch_dataset import TorchDataset

N = 90
VALUES = np.random.default_rng(0).integers(0, 256, (N, 8, 8, 3), dtype=np.uint8)
PICTURES = [PIL.Image.fromarray(values) for values in VALUES]
HALF = [number % 3 if number % 2 else -1 for number in range(N)]
"""Labels of every other image."""


def encoded(picture: PIL.Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def npz(folder: Path, labels: list[Any]) -> str:
    np.savez(folder / "x.npz", images=VALUES, labels=np.array(labels))
    return str(folder / "x.npz")


def shards(folder: Path, labels: list[Any]) -> str:
    with tarfile.open(folder / "x.tar", "w") as archive:
        for number, (picture, label) in enumerate(zip(PICTURES, labels, strict=True)):
            for ending, content in (("png", encoded(picture)), ("cls", str(label).encode())):
                entry = tarfile.TarInfo(f"{number:03d}.{ending}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return str(folder / "x.tar")


def listed(folder: Path, labels: list[Any]) -> str:
    for number, picture in enumerate(PICTURES):
        picture.save(folder / f"{number:03d}.png")
    lines = [f"{number:03d}.png {label}" for number, label in enumerate(labels)]
    (folder / "list.txt").write_text("\n".join(lines))
    return f"list:{folder / 'list.txt'}"


def hugging_face(folder: Path, labels: list[Any]) -> str:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["a", "b", "c"]),
            "text": datasets.Value("string"),
        }
    )
    columns = {"image": PICTURES, "label": labels, "text": ["x"] * N}
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(folder / "hf")
    return f"hf:{folder / 'hf'}"


def dataset(folder: Path, labels: list[Any]) -> Any:
    return TorchDataset(list(zip(PICTURES, labels, strict=True)))


def mapping(folder: Path, labels: list[Any]) -> Any:
    return TorchDataset([{"img": p, "target": torch.tensor(y)} for p, y in zip(PICTURES, labels, strict=True)])


class Own(ImageSource):
    """A source of a user's own."""

    def __init__(self, labels: list[Any]):
        self.labels = labels

    def __len__(self) -> int:
        return N

    def id(self, index: int) -> str:
        return f"{index:06d}"

    def load(self, index: int) -> PIL.Image.Image:
        return PICTURES[index]

    def label(self, index: int) -> Any:
        return self.labels[index]


def own(folder: Path, labels: list[Any]) -> Any:
    return Own(labels)


SOURCES: list[Callable[[Path, list[Any]], Any]] = [npz, shards, listed, hugging_face, dataset, mapping, own]


def ask(images: Any, *measures: str, **options: Any) -> Any:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 8))
    few: dict[str, Any] = {"mean": 0, "std": 1, "attacked": 8, "budget": "none", "quiet": True}
    return holdfast.audit(network, images, measures=list(measures), **few | options)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("source", SOURCES)
def test_minus_one_is_no_label(source: Callable[[Path, list[Any]], Any], tmp_path: Path) -> None:
    """Measures that read labels leave such images out, and say how many; others do not."""
    images = source(tmp_path, HALF)
    record = ask(images, "probe_accuracy", "uniformity")
    scores = record.data["encoders"][0]["measures"]["probe_accuracy"]["scores"]
    assert set() < {name for name in scores if name.startswith("class")} <= {"class 0", "class 1", "class 2"}
    assert record.data["data"]["images"] == N // 2
    (line, *_) = record.data["data"]["notes"]
    assert line.startswith(f"{N // 2} of {N} images of ")
    assert line.endswith("have no label (-1, or nothing) and are left out: probe_accuracy reads labels")
    record = ask(images, "uniformity")
    assert record.data["data"]["images"] == N
    assert f"{N // 2} of {N} images have no label (-1, or nothing): labels are not read" in record.data["data"]["notes"]


@pytest.mark.parametrize("source", SOURCES)
def test_the_rest_is_what_it_is_without_those_images(source: Callable[[Path, list[Any]], Any], tmp_path: Path) -> None:
    images = open_images(source(tmp_path, HALF))
    assert images.leave_out_unlabelled() == N // 2
    assert images.leave_out_unlabelled() == 0
    assert images.labels is not None
    assert len(images) == len(images.ids) == len(images.labels) == N // 2
    for name, label, pixels in zip(images.ids, images.labels, images.batch(0, N // 2), strict=True):
        number = int(name.removesuffix(".png"))
        assert label == HALF[number] >= 0
        assert torch.equal(pixels, torch.from_numpy(VALUES[number]).permute(2, 0, 1) / 255)
    assert not any(how for _, how in images.read_again())


@pytest.mark.parametrize("source", SOURCES)
def test_labels_of_no_image_are_refused_where_they_are_read(
    source: Callable[[Path, list[Any]], Any], tmp_path: Path
) -> None:
    with pytest.raises(Missing, match="probe_accuracy"):
        ask(source(tmp_path, [-1] * N), "probe_accuracy", "uniformity")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("source", [shards, dataset, mapping, own])
def test_other_negatives_are_refused_where_labels_are_read(
    source: Callable[[Path, list[Any]], Any], tmp_path: Path
) -> None:
    images = source(tmp_path, [-2, *HALF[1:]])
    with pytest.raises(Missing, match="probe_accuracy"):
        ask(images, "probe_accuracy")
    (line,) = ask(images, "uniformity").data["data"]["notes"]
    assert line.startswith("labels are not read: ")
    assert "got -2" in line


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "value", [1.0, 0.5, float("nan"), "cat", b"1", [0, 1, 0], torch.tensor([0, 1]), {"a": 1}, -7, 2**70]
)
def test_what_is_no_class_is_never_made_one(value: Any) -> None:
    with pytest.raises(BadData, match="picture"):
        class_number(value, "a picture")
    images = TorchDataset([(picture, value) for picture in PICTURES])
    with pytest.raises(Missing, match="probe_accuracy"):
        ask(images, "probe_accuracy")
    assert ask(images, "uniformity")["uniformity"].value is not None


@pytest.mark.parametrize("value", [3, True, np.int64(3), np.uint8(3), torch.tensor(3), np.array(3), torch.tensor(True)])
def test_whole_numbers_of_any_kind_are_classes(value: Any) -> None:
    assert class_number(value, "it") == int(value)
    assert class_number(None, "it") is class_number(np.int8(-1), "it") is class_number(torch.tensor(-1), "it") is None


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.full(N, -3), "-3"),
        (np.zeros(N - 1, int), f"expected {N} labels, one per image, got {N - 1}"),
        (np.zeros(N + 1, int), f"expected {N} labels, one per image, got {N + 1}"),
        (np.eye(3, dtype=int)[np.arange(N) % 3], r"\[90, 3\]"),
        (np.linspace(0, 2, N), "float64"),
        (np.array(["cat"] * N), "integer"),
        ([[1], [1, 2]] * (N // 2), "lists"),
        ([None, 1] * (N // 2), "object"),
    ],
)
def test_labels_beside_an_array_must_be_classes(labels: Any, words: str) -> None:
    with typechecker.off(), pytest.raises(HoldfastError, match=words):
        Arrays(VALUES, labels, layout="NHWC")


def test_a_long_tail_is_of_labelled_images_alone() -> None:
    with pytest.raises(Missing, match="000000"):
        LongTail(Own(HALF), ratio=2)


def test_training_images_without_a_label_are_left_out_too(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    train = Arrays(255 - VALUES, np.array(HALF), layout="NHWC")
    record = ask(
        TorchDataset(list(zip(PICTURES, [n % 3 for n in range(N)], strict=True))), "probe_accuracy", train=train
    )
    assert record.data["data"]["train"]["images"] == N // 2
    assert record.data["data"]["images"] == N
    (line,) = record.data["data"]["notes"]
    assert "array: 90 images have no label" in line

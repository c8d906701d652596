"""The files of CIFAR-10-C, ImageNet-C and ImageNet-LT, made small: as data, and as threats beside the clean images."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import read_plan
from holdfast.core import Encoder, Geometry, HoldfastError, Rng
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.measures.corruptions.corrupted_accuracy import CorruptedAccuracy
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.probes.knn import Knn
from holdfast.parts.threats.imagenet_c import CORRUPTIONS, ImagenetC
from holdfast.parts.threats.imagenet_c.stored import load_stored
from holdfast.runtime.errors import BadData, BadValue, Conflict, Mismatch, Missing, UnknownName
from holdfast.sources.data import open_images
from holdfast.storage.run_folder import files_read
from json_records import run_audit

COUNT = 24
RECIPE = Path(__file__).parents[1] / "recipes" / "audits" / "cifar10c.toml"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark of 24 images of 8x8 pixels in five severities of noise, and the clean images with their labels."""
    random = np.random.default_rng(0)
    labels = np.arange(COUNT) % 3
    clean = random.integers(0, 256, (3, 8, 8, 3))[labels] // 2 + random.integers(0, 100, (COUNT, 8, 8, 3))
    noisy = [clean + random.normal(0, 8 * severity, clean.shape) for severity in range(1, 6)]
    folder = tmp_path / "C"
    folder.mkdir()
    np.save(folder / "fog.npy", np.concatenate(noisy).clip(0, 255).astype(np.uint8))
    np.save(folder / "labels.npy", np.tile(labels, 5))
    np.savez(tmp_path / "clean.npz", images=clean.astype(np.uint8), labels=labels)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_cifar10_c_as_data(home: Path) -> None:
    images, clean = open_images("cifar10c:C?corruption=fog&severity=4"), open_images("clean.npz")
    stored = np.load("C/fog.npy")[3 * COUNT : 4 * COUNT]
    assert sorted(images.ids) == sorted(clean.ids)  # they are paired with the clean ones
    assert images.classes[:3] == ("airplane", "automobile", "bird")
    x = images.batch(0, COUNT)
    for place, name in enumerate(images.ids):
        assert np.array_equal((255 * x[place]).round().permute(1, 2, 0).numpy(), stored[int(name)])
        assert images.labels is not None
        assert images.labels[place] == int(name) % 3


def test_the_files_as_an_axis_say_what_the_data_says(home: Path) -> None:
    """Accuracy under a threat that reads the files is that on the files as data, by one probe of clean images."""
    encoder = Encoder(nn.Sequential(nn.Flatten()), mean=0, std=1, name="pixels")
    threats = tuple(ImagenetC("fog", severity, files="C") for severity in (1, 5))
    np.savez("other.npz", images=255 - np.load("clean.npz")["images"], labels=np.load("clean.npz")["labels"])

    def scores(data: str, measure: ProbeAccuracy | CorruptedAccuracy) -> dict:
        plan = Plan(("pixels",), data, (measure,), train="other.npz?size=12")
        record = run_audit(plan, home / data.replace("/", "-"), encoders={"pixels": encoder}, overwrite=True)
        assert record["failures"] == []
        (entry,) = record["encoders"][0]["measures"].values()
        return entry["scores"]

    under = scores("clean.npz?size=12", CorruptedAccuracy(Knn(k=1), threats=threats))
    for severity in (1, 5):
        alone = scores(f"cifar10c:C?corruption=fog&severity={severity}&size=12", ProbeAccuracy(Knn(k=1)))
        assert under[f"fog {severity}, published"]["value"] == list(alone.values())[-1]["value"]
    assert under["fog 5, published"]["value"] < 1
    assert files_read({"files": "C", "corruption": "fog", "severity": 1})[0] != files_read({"files": "C"})[0]


@pytest.mark.slow
def test_the_recipe_for_cifar10_c_asks_all_corruptions_and_severities(home: Path) -> None:
    (home / "data").mkdir()
    (home / "C").rename(home / "data" / "CIFAR-10-C")
    for name in CORRUPTIONS:
        (home / "data" / "CIFAR-10-C" / f"{name}.npy").write_bytes((home / "data/CIFAR-10-C/fog.npy").read_bytes())
    np.savez("other.npz", images=255 - np.load("clean.npz")["images"], labels=np.load("clean.npz")["labels"])
    sizes = {"images": COUNT, "attacked": COUNT, "train_images": COUNT}
    own = {"encoders": ("pixels",), "data": "clean.npz", "train": "other.npz"}
    with pytest.raises(Mismatch, match="1x8x8"):
        load_stored(torch.zeros(1, 1, 8, 8), Rng(0, ids=("0",)), "data/CIFAR-10-C", "fog", 1)
    plan = read_plan(RECIPE, {**sizes, **own})
    assert {len(m.threats) for m in plan.measures if isinstance(m, CorruptedAccuracy | CorruptionDrift)} == {75}
    encoder = Encoder(nn.Sequential(nn.Flatten()), mean=0, std=1, name="pixels")
    record = run_audit(plan, home / "run", encoders={"pixels": encoder})
    assert record["failures"] == []
    scores = record["encoders"][0]["measures"]["corrupted_accuracy"]["scores"]
    assert len(scores) == 77
    assert scores["fog 1, published"]["value"] >= scores["fog 5, published"]["value"]


def test_images_must_be_those_that_were_corrupted(home: Path) -> None:
    threat = ImagenetC("fog", 1, files="C")
    names = tuple(f"{place:06d}" for place in range(COUNT))
    x = torch.from_numpy(np.load("clean.npz")["images"]).permute(0, 3, 1, 2) / 255
    assert (threat.sample(x, Rng(0, ids=names)) - x).abs().mean() < 0.04
    wrong = torch.randperm(COUNT, generator=torch.Generator().manual_seed(1))
    other = torch.rand(COUNT, 3, 8, 8, generator=torch.Generator().manual_seed(12))
    np.save("C/fog.npy", np.tile((255 * other[wrong]).byte().permute(0, 2, 3, 1).numpy(), (5, 1, 1, 1)))
    with pytest.raises(Mismatch, match="correlation"):
        threat.sample(other[wrong].roll(1, 0), Rng(0, ids=names))
    with pytest.raises(Mismatch, match="digit-0001"):
        threat.sample(x[:1], Rng(0, ids=("digit-0001",)))
    with pytest.raises(Mismatch, match="3x9x8"):
        threat.sample(torch.rand(1, 3, 9, 8), Rng(0, ids=names[:1]))


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("cifar10c:C?corruption=fog", Missing, "severity"),
        ("cifar10c:C?corruption=fgo&severity=1", UnknownName, r"'fog'\?"),
        ("cifar10c:C?corruption=fog&severity=6", BadValue, "got 6"),
        ("cifar10c:D?corruption=fog&severity=1", Missing, "'D'"),
        ("imagenetc:C?corruption=snow&severity=1", UnknownName, "'C'"),
        ("cifar10c:C?corruption=flat&severity=1", BadData, "severities"),
    ],
)
def test_bad_specs(home: Path, spec: str, kind: type[HoldfastError], message: str) -> None:
    np.save("C/flat.npy", np.zeros((5, 8), np.uint8))
    with pytest.raises(kind, match=message):
        open_images(spec)


def test_bad_fields() -> None:
    with pytest.raises(Conflict):
        ImagenetC("fog", 1, files="C", constants="cifar")


def test_imagenet_c_as_data_and_as_a_threat(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for synset in ("n01", "n02"):
        for number in range(5):
            picture = random.integers(0, 200, (16, 16, 3))
            for place, noise in (("clean", 0), ("C/weather/fog/1", 8), ("C/weather/fog/2", 16)):
                (tmp_path / place / synset).mkdir(parents=True, exist_ok=True)
                changed = (picture + random.normal(0, noise, picture.shape)).clip(0, 255).astype(np.uint8)
                PIL.Image.fromarray(changed).save(tmp_path / place / synset / f"{number}.png")
    images = open_images(f"imagenetc:{tmp_path}/C?corruption=fog&severity=2")
    clean = open_images(f"{tmp_path}/clean", geometry=Geometry((16, 16), 3, None, "bilinear", "test"))
    assert images.ids == clean.ids
    assert images.classes == ("n01", "n02")
    threat = ImagenetC("fog", 2, files=f"{tmp_path}/C", resolution="encoder")
    assert threat.title == "fog 2, published, resized first"
    rng = Rng(0, ids=tuple(clean.ids))
    assert torch.equal(clean.disturb(clean.batch(0, 10), range(10), threat, rng), images.batch(0, 10))
    before = files_read({"files": f"{tmp_path}/C", "corruption": "fog", "severity": 2})
    (tmp_path / "C/weather/fog/2/n01/0.png").write_bytes(b"another")
    assert files_read({"files": f"{tmp_path}/C", "corruption": "fog", "severity": 2}) != before


def test_lists_of_pictures(tmp_path: Path) -> None:
    for name in ("a b.png", "c.png"):
        (tmp_path / "train").mkdir(exist_ok=True)
        PIL.Image.fromarray(np.full((4, 4, 3), len(name), np.uint8)).save(tmp_path / "train" / name)
    (tmp_path / "LT.txt").write_text("train/a b.png 7\n\ntrain/c.png 0\n")
    images = open_images(f"list:{tmp_path}/LT.txt")
    assert sorted(images.ids) == ["train/a b.png", "train/c.png"]
    assert images.labels is not None
    assert dict(zip(images.ids, images.labels, strict=True)) == {"train/a b.png": 7, "train/c.png": 0}
    assert images.batch(0, 2).shape == (2, 3, 4, 4)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "train").rename(tmp_path / "elsewhere" / "train")
    assert open_images(f"list:{tmp_path}/LT.txt?root={tmp_path}/elsewhere").batch(0, 2).shape == (2, 3, 4, 4)
    for text, message in (("a.png\n", "line 1"), ("\n", "empty")):
        (tmp_path / "LT.txt").write_text(text)
        with pytest.raises(BadData, match=message):
            open_images(f"list:{tmp_path}/LT.txt")
    with pytest.raises(BadData):
        open_images(f"list:{tmp_path}/none.txt")

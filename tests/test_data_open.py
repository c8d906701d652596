"""Spec strings open the source they name, or say what is wrong."""

from dataclasses import dataclass

import numpy as np
import PIL.Image
import pytest
import torch

from holdfast.core import Geometry, HoldfastError, registry
from holdfast.runtime.errors import Ambiguous, BadValue, Mismatch, Missing, UnknownName
from holdfast.sources.data import Conversion, open_images
from holdfast.sources.data.digits import Digits


@pytest.fixture
def home(tmp_path, monkeypatch):
    values = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", images=values, other=values[:, :4])
    (tmp_path / "photos").mkdir()
    (tmp_path / "a:b").mkdir()
    for number in range(3):
        PIL.Image.fromarray(values[number]).resize((40, 30)).save(tmp_path / "photos" / f"{number}.png")
        PIL.Image.fromarray(values[number]).save(tmp_path / "a:b" / f"{number}.png")
    (tmp_path / "notes.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "count", "shape"),
    [
        ("digits", 600, (1, 8, 8)),
        ("digits?part=train", 1197, (1, 8, 8)),
        ("digits?channels=3&size=16", 600, (3, 16, 16)),
        ("x.npz", 4, (3, 6, 5)),
        ("x.npz?key=other", 4, (3, 4, 5)),
        ("arrays:x.npz?channels=1", 4, (1, 6, 5)),
        ("x.npz?size=12x9", 4, (3, 12, 9)),
        ("x.npz?size=4", 4, (3, 4, 4)),
        ("photos", 3, (3, 30, 40)),
        ("./photos?size=20", 3, (3, 20, 20)),
        ("folder:photos?size=7x9&channels=1", 3, (1, 7, 9)),
        ("photos?channels=1", 3, (1, 30, 40)),
        ("a:b", 3, (3, 6, 5)),
    ],
)
def test_specs(home, spec, count, shape):
    images = open_images(spec)
    assert len(images) == count
    assert images.shape == shape
    assert images.batch(0, 3).shape == (3, *shape)
    assert str(count) in str(images)


def test_paths_arrays_and_sources(home):
    assert len(open_images(home / "photos")) == 3
    assert len(open_images(home / "x.npz")) == 4
    assert len(open_images(Digits())) == 600
    assert len(open_images(torch.rand(7, 1, 4, 4))) == 7
    assert len(open_images("digits", images=30, seed=4)) == 30
    assert open_images(torch.rand(7, 1, 4, 4), conversion=Conversion(6, 3)).shape == (3, 6, 6)
    assert open_images("digits?channels=3", conversion=Conversion(6, 1)).shape == (3, 6, 6)


def test_what_the_user_asks_for_goes_before_the_encoder(home):
    geometry = Geometry((24, 24), 3, 28, "bicubic", "test")
    assert open_images("photos", geometry=geometry).shape == (3, 24, 24)
    assert open_images("photos?size=10", geometry=geometry).shape == (3, 10, 10)
    assert open_images("photos?channels=1", geometry=geometry).shape == (1, 24, 24)
    with pytest.raises(Mismatch, match=r"\?size=24x24"):
        open_images("x.npz", geometry=geometry).batch(0, 2)
    with pytest.raises(Mismatch, match=r"\?channels=3"):
        open_images("digits", geometry=geometry).batch(0, 2)
    assert open_images("digits?channels=3&size=24", geometry=geometry).shape == (3, 24, 24)


@pytest.mark.parametrize(
    ("spec", "kind", "says"),
    [
        ("digts", UnknownName, r"digits\?"),
        ("photso", UnknownName, r"photos\?"),
        ("./photso", Missing, r"'photos'\?"),
        ("./x.npy", Missing, r"'x\.npz'\?"),
        ("CIFAR-10", UnknownName, "torchvision:CIFAR10"),
        ("ylecun/mnist", Missing, "hf:ylecun/mnist"),
        ("gibberish", UnknownName, "gibberish"),
        ("digits:test", BadValue, "digits:test"),
        ("digits?part=test", BadValue, "heldout"),
        ("digits?prt=train", UnknownName, r"'part'\?"),
        ("torchvison:MNIST", UnknownName, "torchvision:MNIST"),
        ("./nowhere", Missing, "nowhere"),
        ("nowhere.npz", Missing, r"nowhere\.npz"),
        ("notes.txt", BadValue, "expected a folder"),
        ("photos?key=a", UnknownName, "option"),
        ("x.npz?size=big", BadValue, "HxW"),
        ("x.npz?size=0", BadValue, "HxW"),
        ("x.npz?size=1x2x3", BadValue, "HxW"),
        ("x.npz?channels=4", BadValue, "channels=4"),
        ("x.npz?skip_corrupt=maybe", BadValue, "true"),
        ("x.npz?layout=HW", UnknownName, "layout"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong(home, spec, kind: type[HoldfastError], says):
    with pytest.raises(kind, match=says):
        open_images(spec)


def test_sources_are_described():
    more = {"retrieval", "list", "cifar10c", "imagenetc"}
    sources = {name: registry.find("data", name) for name in registry.names("data")}
    assert set(sources) == {"digits", "gaussian", "folder", "arrays", "torchvision", "hf", "webdataset"} | more
    assert all(source.about and "\n" not in source.about for source in sources.values())


OWN = """
from dataclasses import dataclass

import torch

from holdfast.core import registry
from holdfast.extend import DataSource, Options, register, take
from holdfast.sources.data.arrays import Arrays

@register("data")
@dataclass(frozen=True)
class Mine(DataSource):
    "Noise."

    about = "noise, mine:COUNT?side=4"
    suffixes = (".mine",)
    bare = True

    def open(self, name, options):
        side = take(options, "side", int, 4)
        if name == "broken":
            raise ValueError("torn")
        if name == "list":
            return [1, 2]
        count = int(name) if name.isdecimal() else 3
        return Arrays(torch.rand(count, 1, side, side), name="mine")
"""


@pytest.fixture
def own(home, own_parts_forgotten):
    (home / "mine.py").write_text(OWN, encoding="utf-8")
    (home / "x.mine").touch()
    registry.load(home / "mine.py")
    return home


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        ("mine:5", (5, 1, 4, 4)),
        ("MINE:5?side=6", (5, 1, 6, 6)),
        ("mine:5?size=8&channels=3", (5, 3, 8, 8)),
        ("mine", (3, 1, 4, 4)),
        ("mine?side=2", (3, 1, 2, 2)),
        ("x.mine", (3, 1, 4, 4)),
        ("./x.mine?side=5", (3, 1, 5, 5)),
        ("photos", (3, 3, 30, 40)),
    ],
)
def test_a_source_of_ones_own_opens_under_its_name(own, spec, shape):
    images = open_images(spec)
    assert (len(images), *images.shape) == shape


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("mone:5", "unknown data source 'mone'; did you mean mine:5?"),
        ("mne", "did you mean x.mine or mine?"),
        ("mine:5?sde=3", "did you mean 'side'?"),  # which it forgot to refuse itself
        ("mine:5?side=x", "option side=x is not usable"),
        ("mine:broken", "the data source 'mine', while it was opened: ValueError: torn"),
        ("mine:list", "expected an ImageSource from the data source 'mine', got [1, 2]"),
        ("notes.txt", "expected a folder, .npz, .npy, .mine or .tar, got the file 'notes.txt'"),
    ],
)
def test_a_wrong_spec_of_ones_own_source_says_what_is_wrong(own, spec, says):
    with pytest.raises(HoldfastError) as refused:
        open_images(spec)
    assert says in str(refused.value)


@pytest.mark.usefixtures("own")
def test_two_sources_of_one_suffix_are_told_apart_by_their_names():
    @registry.register("data")
    @dataclass(frozen=True)
    class Theirs(registry.find("data", "mine")):
        """Noise."""

    with pytest.raises(Ambiguous) as refused:
        open_images("x.mine")
    assert "write mine:x.mine or theirs:x.mine" in str(refused.value)
    assert len(open_images("theirs:x.mine")) == 3


@pytest.mark.usefixtures("home", "own_parts_forgotten")
def test_what_is_no_source_is_refused_by_its_name():
    @registry.register("data")
    @dataclass(frozen=True)
    class Nothing:
        """No source."""

    for spec in ("nothing:x", "x.npz"):
        with pytest.raises(BadValue) as refused:
            open_images(spec)
        assert "the data source 'nothing': expected a DataSource of holdfast.extend" in str(refused.value)

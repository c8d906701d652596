"""Spec strings open the source they name, or say what is wrong."""

import numpy as np
import PIL.Image
import pytest
import torch

from holdfast.core import Geometry, HoldfastError
from holdfast.sources.data import SOURCES, Conversion, open_images
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
    with pytest.raises(HoldfastError, match=r"'\d+'.*expected 24x24.*\?size=24x24"):
        open_images("x.npz", geometry=geometry).batch(0, 2)
    with pytest.raises(HoldfastError, match=r"'digit-\d+'.*expected 3 channels.*\?channels=3"):
        open_images("digits", geometry=geometry).batch(0, 2)
    assert open_images("digits?channels=3&size=24", geometry=geometry).shape == (3, 24, 24)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("digts", "did you mean digits"),
        ("photso", "did you mean photos"),
        ("./photso", "did you mean 'photos'"),
        ("./x.npy", r"did you mean 'x.npz'"),
        ("CIFAR-10", "did you mean torchvision:CIFAR10"),
        ("ylecun/mnist", "did you mean hf:ylecun/mnist"),
        ("gibberish", "neither a source .* nor a file or folder"),
        ("digits:test", "expected digits or"),
        ("digits?part=test", "one of heldout, train, all"),
        ("digits?prt=train", "did you mean 'part'"),
        ("torchvison:MNIST", "did you mean torchvision:MNIST"),
        ("./nowhere", "no file or folder"),
        ("nowhere.npz", "found none"),
        ("notes.txt", "expected a folder"),
        ("photos?key=a", "unknown option"),
        ("x.npz?size=big", "expected H or HxW"),
        ("x.npz?size=0", "expected H or HxW"),
        ("x.npz?size=1x2x3", "expected H or HxW"),
        ("x.npz?channels=4", "expected 1"),
        ("x.npz?skip_corrupt=maybe", "true or false"),
        ("x.npz?layout=HW", "layout"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong(home, spec, says):
    with pytest.raises(HoldfastError, match=says):
        open_images(spec)


def test_sources_are_described():
    more = {"retrieval", "list", "cifar10c", "imagenetc"}
    assert set(SOURCES) == {"digits", "gaussian", "folder", "arrays", "torchvision", "hf", "webdataset"} | more
    assert all(text and "\n" not in text for text, _ in SOURCES.values())

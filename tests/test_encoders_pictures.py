"""How pictures become an encoder's input: the words of a spec, of an ONNX file's metadata, and what is assumed."""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn

from holdfast.core import Encoder, Geometry, HoldfastError
from holdfast.runtime.errors import BadValue, UnknownName
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder

NETWORKS = """
from torch import nn
from holdfast.core import Encoder

def colour(channels=3):
    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def grey():
    return colour(1)

def encoder():
    return Encoder(colour(), mean=0, std=1)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with networks for `py:` and an ONNX file for 16 x 16 pixels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_networks", raising=False)
    (tmp_path / "own_networks.py").write_text(NETWORKS)
    saved(tmp_path / "m.onnx", {})
    return tmp_path


def saved(path: Path, metadata: Mapping[str, str], size: int | str = 16, channels: int = 3) -> Path:
    """Write an ONNX file whose representation is the mean of each channel."""
    import onnx
    from onnx import TensorProto, helper

    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", channels, size, size])
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["a"]), helper.make_node("Flatten", ["a"], ["reps"])]
    reps = helper.make_tensor_value_info("reps", TensorProto.FLOAT, ["b", channels])
    graph = helper.make_graph(nodes, "tiny", [image], [reps])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {f"holdfast.{key}": value for key, value in metadata.items()})
    onnx.save(model, path)
    return path


def geometry(spec: str) -> Geometry:
    opened = open_encoder(spec).geometry
    assert opened is not None
    return opened


ONNX = "m.onnx?mean=0&std=1"
PY = "py:own_networks:colour?mean=0&std=1"
WORDS = {
    f"{ONNX}&resize=20&crop=12&interpolation=bicubic": ((12, 12), 3, 20, "bicubic"),
    f"{ONNX}&resize=20": ((16, 16), 3, 20, "bilinear"),
    f"{ONNX}&size=12&resize=20": ((12, 12), 3, 20, "bilinear"),
    f"{ONNX}&resize=squash": ((16, 16), 3, None, "bilinear"),
    f"{ONNX}&resize=squash&size=12x20": ((12, 20), 3, None, "bilinear"),
    f"{ONNX}&resize=18x20&crop=12x10": ((12, 10), 3, (18, 20), "bilinear"),
    f"{ONNX}&interpolation=nearest": ((16, 16), 3, 16, "nearest"),
    f"{PY}&resize=20&crop=12x10": ((12, 10), 3, 20, "bilinear"),
    "py:own_networks:grey?mean=0&std=1&resize=squash&size=12": ((12, 12), 1, None, "bilinear"),
    "zoo:digits-simclr?resize=10&crop=8&interpolation=lanczos": ((8, 8), 1, 10, "lanczos"),
    "timm:resnet10t?weights=random&resize=64&crop=48": ((48, 48), 3, 64, "bicubic"),
    "timm:resnet10t?weights=random&size=88": ((88, 88), 3, 100, "bicubic"),  # the share that is cropped stays
    "timm:resnet10t?weights=random&size=44x88": ((44, 88), 3, 100, "bicubic"),  # and no side of a square lacks pixels
}


@pytest.mark.parametrize("spec", WORDS)
def test_words_of_a_spec(spec: str) -> None:
    read = geometry(spec)
    assert (read.size, read.channels, read.resize, read.interpolation) == WORDS[spec]
    assert "given in the spec" in read.source


BAD = {
    f"{ONNX}&size=12&crop=12": "size= and crop= both say how large the input is; leave out size=",
    f"{ONNX}&crop=12": "give both, as in resize=256&crop=224, or size= alone",
    f"{ONNX}&resize=squash&crop=12": "resize=squash crops nothing; give size= in place of crop=",
    f"{ONNX}&resize=10&crop=12": "has no 12x12 pixels to crop; give resize=12 or more",
    f"{ONNX}&resize=10": "has no 16x16 pixels to crop; give resize=16 or more",
    f"{ONNX}&resize=16.5": "expected the pixels of the shorter side, such as 256, HxW to squash to, or the word squash",
    f"{ONNX}&resize=12x18": "squashed to 12x18 has no 16x16 pixels to crop; give resize=16x16 or more",
    f"{ONNX}&resize=0": "resize=0 is not usable",
    f"{ONNX}&resize=20&crop=0": "crop=0 is not usable: expected positive pixels, H or HxW",
    f"{ONNX}&interpolation=linear": "expected nearest, bilinear, bicubic or lanczos",
    f"{ONNX}&interpolate=bilinear": "did you mean 'interpolation'",
    f"{PY}&size=12": "a bare module says nothing of pictures; give all of it",
    f"{PY}&interpolation=bilinear": "a bare module says nothing of pictures; give all of it",
    "py:own_networks:encoder?resize=20&crop=12": "the factory returns an Encoder, which has its own",
}


@pytest.mark.parametrize("spec", BAD)
def test_words_that_cannot_be(spec: str) -> None:
    with pytest.raises(HoldfastError, match=BAD[spec]) as caught:
        open_encoder(spec)
    assert "\n" not in str(caught.value)


def test_the_same_words_in_an_onnx_file(home: Path) -> None:
    path = saved(
        home / "said.onnx", {"mean": "0", "std": "1", "resize": "20", "crop": "16", "interpolation": "bicubic"}
    )
    assert (geometry(f"{path}").resize, geometry(f"{path}").interpolation) == (20, "bicubic")
    assert geometry(f"{path}").source == f"resize=20&crop=16&interpolation=bicubic in its metadata of {path}"
    # the spec wins, word by word
    mixed = geometry(f"{path}?resize=24")
    assert (mixed.size, mixed.resize, mixed.interpolation) == ((16, 16), 24, "bicubic")
    assert "resize=24 given in the spec; else resize=20" in mixed.source
    # a file that leaves its size open says it here
    assert geometry(
        f"{saved(home / 'open.onnx', {'mean': '0', 'std': '1', 'resize': '9', 'crop': '8'}, 'h')}"
    ).size == (8, 8)


@pytest.mark.parametrize(
    ("metadata", "kind", "problem"),
    [
        ({"resize": "big"}, BadValue, "resize=big"),
        ({"mean": "a", "std": "1"}, BadValue, "mean=a"),
        ({"crop": "8"}, BadValue, "crop="),
        ({"interpolate": "bilinear"}, UnknownName, r"interpolate$|interpolate;"),
    ],
)
def test_metadata_that_cannot_be_read(
    home: Path, metadata: dict[str, str], kind: type[HoldfastError], problem: str
) -> None:
    with pytest.raises(kind, match=problem):
        open_encoder(f"{saved(home / 'bad.onnx', metadata)}?mean=0&std=1")


@pytest.mark.parametrize(("size", "resize"), [(224, 256), (96, 110), (64, 64), (8, 8)])
def test_what_is_assumed_of_an_onnx_file(home: Path, size: int, resize: int) -> None:
    read = geometry(f"{saved(home / 'silent.onnx', {}, size)}?mean=0&std=1")
    assert (read.size, read.resize, read.interpolation) == ((size, size), resize, "bilinear")
    assert read.source == "the usual way, for the file does not say; resize=…&crop=… says another"


def test_pictures_of_no_channels_that_pictures_have(home: Path) -> None:
    assert open_encoder(f"{saved(home / 'five.onnx', {}, channels=5)}?mean=0&std=1").geometry is None


@pytest.mark.parametrize(
    "words", ["resize=20&crop=12&interpolation=bilinear", "resize=squash&size=12&interpolation=lanczos"]
)
def test_encoders_see_what_pillow_makes(home: Path, words: str) -> None:
    """The steps written out: scale, cut out the centre, divide by 255."""
    picture = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8))
    (home / "photos").mkdir()
    for name in "ab":  # the fewest that an audit takes
        picture.save(home / "photos" / f"{name}.png")
    if "squash" in words:
        small = picture.resize((12, 12), PIL.Image.Resampling.LANCZOS)
    else:
        small = picture.resize((30, 20), PIL.Image.Resampling.BILINEAR).crop((9, 4, 21, 16))
    expected = torch.tensor(np.asarray(small)).permute(2, 0, 1).float() / 255
    images = open_images("photos", geometry=geometry(f"{ONNX}&{words}"))
    assert torch.equal(images.batch(0, 2), torch.stack([expected, expected]))


def test_geometry_in_python() -> None:
    """What the documentation shows."""
    encoder = Encoder(nn.Flatten(), mean=0.5, std=0.25, geometry=Geometry((224, 224), resize=256))
    assert encoder.geometry == Geometry((224, 224), 3, 256, "bilinear", "given by the caller")
    with pytest.raises(BadValue, match=r"geometry\.interpolation"):
        Geometry((8, 8), interpolation="linear")  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadValue, match=r"geometry\.size"):
        Geometry(224)  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadValue, match=r"geometry\.resize"):
        Geometry((8, 8), resize=0)

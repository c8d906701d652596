"""What an ONNX file says of its preprocessing: metadata properties that begin with `holdfast.`; and what is assumed."""

from collections.abc import Iterable
from typing import Any

from holdfast.core.encoder import Encoder
from holdfast.core.geometry import Geometry
from holdfast.core.source_spec import Options
from holdfast.sources.encoders.shared.assemble import Preprocessing
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.pictures import PICTURES, override_geometry

_PREFIX = "holdfast."
_TAKES = ("mean", "std", *PICTURES)

SHARE = 0.875
"""Share of the shorter side that the centre crop of an ImageNet network's evaluation keeps: 224 of 256."""

SMALL = 96
"""Inputs below this many pixels a side are those of networks for small pictures (CIFAR, MNIST), taken whole."""


def metadata(properties: Iterable[Any], name: str) -> Common:
    """Return `holdfast.mean`, `.std`, and the words about pictures, written as in a spec.

    Args:
        properties: `metadata_props` of an onnx ModelProto.
        name: the file.

    Raises:
        HoldfastError: a word after `holdfast.` that is none of these, or a value that cannot be read.
    """
    said = {entry.key.removeprefix(_PREFIX): entry.value for entry in properties if entry.key.startswith(_PREFIX)}
    return read(Options(said, f"{name} (its metadata {_PREFIX}*)"), takes=_TAKES)


def make_preprocessing(said: Common, shape: tuple[int, int, int], name: str) -> Preprocessing:
    """Return the preprocessing of a file with these metadata."""
    source = f"metadata of {name}"
    geometry = override_geometry(assume_geometry(shape), said.pictures, shape, f"in its {source}", f"{name!r}")
    return Preprocessing(said.mean, said.std, source, shape, geometry)


def with_preprocessing(properties: Iterable[Any], encoder: Encoder) -> dict[str, str]:
    """Return the metadata of a file with the preprocessing of an encoder, as `metadata` reads it."""
    # Other properties of the file stay
    words = {entry.key: entry.value for entry in properties if entry.key.removeprefix(_PREFIX) not in _TAKES}
    words |= {f"{_PREFIX}{key}": ",".join(map(repr, getattr(encoder, key))) for key in ("mean", "std")}
    if (geometry := encoder.geometry) is None:
        return words
    height, width = geometry.size
    # As a spec writes it: 256, 256x320, or squash
    resize = "x".join(map(str, geometry.resize)) if isinstance(geometry.resize, tuple) else geometry.resize or "squash"
    pictures = {"size": f"{height}x{width}", "resize": str(resize), "interpolation": geometry.interpolation}
    # Who scales is said where it is not who mostly does
    pictures |= {} if geometry.resampler == "pillow" else {"resampler": geometry.resampler}
    return words | {f"{_PREFIX}{key}": value for key, value in pictures.items()}


def assume_geometry(shape: tuple[int, int, int]) -> Geometry | None:
    """Return how pictures most likely became an input, where nobody says it: as ImageNet networks are evaluated.

    The shorter side is scaled to 1/0.875 of the input and the centre cropped, bilinear: 256 and 224. An input below 96
    pixels takes the whole shorter side; one that is not a square the whole picture, squashed.

    Args:
        shape: (channels, height, width) of the input; None is returned for channels that pictures do not have.

    Example:
        >>> [assume_geometry((3, *size)).resize for size in ((224, 224), (32, 32), (256, 128))]
        [256, 32, None]
    """
    channels, height, width = shape
    if channels not in (1, 3):
        return None
    # A square that is large enough is cropped, a small one taken whole, another form squashed
    resize = None if height != width else height if height < SMALL else round(height / SHARE)
    return Geometry(
        (height, width),
        channels,
        resize,
        "bilinear",
        "the usual way, for the file does not say; resize=…&crop=… says another",
    )

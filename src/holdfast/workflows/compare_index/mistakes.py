"""The usual mistakes between two builds of one network: what each does to pictures on their way in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import Encoder, Geometry, Images
from holdfast.core.outside import Outside
from holdfast.numerics.shapes import Reps
from holdfast.sources.data import ImageSet

Family = Literal["colours", "normalisation", "orientation", "frame", "filter"]

Channels = Float[Tensor, "channels"]

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in grey, ITU-R BT.601."""

TIMES, IMAGENET, CLIP = (
    ((1 / 255,) * 3),
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
)
"""The standard deviation that leaves pixels from 0 to 255; means and standard deviations of ImageNet and of CLIP."""

OTHER_FILTERS: tuple[tuple[str, Literal["pillow", "opencv"]], ...] = (
    ("nearest", "opencv"),
    ("bilinear", "opencv"),
    ("bicubic", "opencv"),
    ("nearest", "pillow"),
    ("bilinear", "pillow"),
    ("bicubic", "pillow"),
    ("lanczos", "pillow"),
)


def _same(x: Images) -> Images:
    return x


@dataclass(frozen=True)
class Mistake:
    """One thing that may be done otherwise to pictures before they reach a network.

    Attributes:
        family: of several of one family only one is made.
        name: what is done, as a clause: "red and blue are swapped (BGR)".
        pixels: what becomes of the pixels in [0, 1], [B, C, H, W].
        normalised: (mean, std), [C] each, in place of the encoder's.
        geometry: how pictures are rendered, made of how the encoder asks for them; None where it cannot be.
    """

    family: Family
    name: str
    pixels: Callable[[Images], Images] = _same
    normalised: tuple[Channels, Channels] | None = None
    geometry: Callable[[Geometry], Geometry] | None = None


def usual_mistakes(encoder: Encoder, other: Encoder | None, seen: tuple[ImageSet, ImageSet]) -> list[Mistake]:
    """Return the mistakes that may be tried on the images of one encoder, to find what explains the other's vectors.

    Args:
        encoder: whose images are changed.
        other: with whom it is compared; None: stored vectors, of which nobody knows it.
        seen: the images as each of them sees them.
    """
    channels, height, width = seen[0].shape
    found = [*_colours(channels), *_normalisations(encoder, other, channels), *_orientations(channels, height == width)]
    return found + ([] if seen[0].geometry is None else [*_frames(seen), *_filters(seen[0].geometry)])


def render(encoder: Encoder, images: ImageSet, places: Sequence[int], mistakes: Sequence[Mistake]) -> Images:
    """Return images as an encoder gets them where such mistakes are made; it normalises them itself.

    Raises:
        HoldfastError: images that cannot be rendered so.
    """
    # 1. How pictures become pixels: the frame, then the filter
    geometry = images.geometry
    for mistake in sorted(mistakes, key=lambda mistake: mistake.family == "filter"):
        if mistake.geometry is not None and geometry is not None:
            geometry = mistake.geometry(geometry)
    x = images.with_geometry(geometry).pick(places).to(encoder.device)
    # 2. What becomes of the pixels
    for mistake in mistakes:
        x = mistake.pixels(x)
    # 3. Another normalisation: what the encoder's own, (x - mean) / std, makes of this is (x - m) / s
    for mean, std in (mistake.normalised for mistake in mistakes if mistake.normalised is not None):
        shape = (1, -1, 1, 1)
        x = (x - mean.to(x).view(shape)) / std.to(x).view(shape) * encoder.normalisation.std
        x = x + encoder.normalisation.mean
    return x.contiguous()


def represent(encoder: Encoder, x: Images, batch: int) -> Reps:
    """Return representations, a batch at a time."""
    with torch.no_grad():
        return torch.cat([encoder(part) for part in x.split(batch)]).double().cpu()


def _colours(channels: int) -> Iterator[Mistake]:
    # OpenCV reads blue first
    if channels == 3:
        yield Mistake("colours", "red and blue are swapped (BGR)", lambda x: x.flip(1))
        weights = torch.tensor(LUMA).view(1, 3, 1, 1)
        yield Mistake(
            "colours", "colours are turned into grey", lambda x: (x * weights.to(x)).sum(1, keepdim=True).expand_as(x)
        )
    yield Mistake("colours", "light and dark are swapped", lambda x: 1 - x)


def _normalisations(encoder: Encoder, other: Encoder | None, channels: int) -> Iterator[Mistake]:
    """Yield other means and standard deviations; none for what takes pixels of 8 bits, which would be cut off."""
    # Bytes hold no numbers below 0 or above 255
    if any(isinstance(m, Outside) and m.wanted.quantisation is not None for m in encoder.modules()):
        return
    mean, std = (_of_channels(values, channels) for values in (encoder.mean, encoder.std))
    known = [(mean, std)]
    # (x - m) / s in terms of the encoder's own mean and std where it is that which is done twice, or not
    named: list[tuple[str, Channels, Channels]] = [
        ("not normalised, from 0 to 1", torch.zeros(channels), torch.ones(channels)),
        ("not normalised, from 0 to 255", torch.zeros(channels), torch.full((channels,), 1 / 255)),
        ("brought to -1 to 1", torch.full((channels,), 0.5), torch.full((channels,), 0.5)),
        ("normalised twice", mean + std * mean, std * std),
        ("divided by 255 twice before they are normalised", 255 * mean, 255 * std),
        ("not divided by 255 before they are normalised", mean / 255, std / 255),
    ]
    if channels == 3:
        for name, (m, s) in (("ImageNet", IMAGENET), ("CLIP", CLIP)):
            named.append((f"normalised as {name}'s networks want it", torch.tensor(m), torch.tensor(s)))
        named.append(("freed from ImageNet's mean, from 0 to 255", torch.tensor(IMAGENET[0]), torch.tensor(TIMES)))
    if other is not None:
        theirs = _of_channels(other.mean, channels), _of_channels(other.std, channels)
        named.append(("normalised as for the other encoder", *theirs))
    for name, m, s in named:
        # Two names of one normalisation are one mistake, and the encoder's own is none
        if not any(torch.allclose(m, before[0]) and torch.allclose(s, before[1]) for before in known):
            known.append((m, s))
            yield Mistake("normalisation", f"pixels are {name}", normalised=(m, s))


def _of_channels(values: Sequence[float], channels: int) -> Channels:
    return torch.tensor(values).expand(channels)


def _orientations(channels: int, square: bool) -> Iterator[Mistake]:
    yield Mistake("orientation", "pictures are mirrored", lambda x: x.flip(3))
    yield Mistake("orientation", "pictures are upside down", lambda x: x.flip(2))
    yield Mistake("orientation", "pictures are turned by half a turn", lambda x: x.flip(2, 3))
    # Of others the network would see another shape
    if square:
        yield Mistake("orientation", "rows and columns are swapped", lambda x: x.transpose(2, 3))
    # Reshaped in place of transposed: the numbers stay, and mean something else
    if channels > 1:
        yield Mistake(
            "orientation",
            "an array with channels last is read as one with channels first",
            lambda x: x.permute(0, 2, 3, 1).reshape(x.shape),
        )
        yield Mistake(
            "orientation",
            "an array with channels first is read as one with channels last",
            lambda x: x.reshape(len(x), *x.shape[2:], x.shape[1]).permute(0, 3, 1, 2),
        )


def _frames(seen: tuple[ImageSet, ImageSet]) -> Iterator[Mistake]:
    """Yield other choices of what of a picture is seen; the other encoder's first."""
    own, other = seen[0].geometry, seen[1].geometry
    assert own is not None  # whoever calls this has asked
    side = min(own.size)
    # One rendering on both sides, whoever says it, is no mistake
    same = other is not None and replace(other, source=own.source) == own
    if other is not None and other.size == own.size and not same:
        name = f"pictures are rendered as for the other encoder: {other.in_words}"
        yield Mistake("frame", name, geometry=lambda _: other)
    elif other is not None and not same:
        # It may resize what it gets: that, brought to the size of this one
        for how, antialias in (("nearest", False), ("bilinear", False), ("bilinear", True)):
            without = "" if antialias or how == "nearest" else " without antialiasing"
            yield Mistake(
                "frame",
                f"pictures are rendered as for the other encoder and resized once more ({how}{without})",
                pixels=partial(_resize, size=own.size, how=how, antialias=antialias),
                geometry=lambda _: other,
            )
    for name, resize, longest in (
        ("the whole picture is squashed", None, None),
        ("the picture is cropped to a square and nothing else", side, None),
        ("a border of an eighth is cropped", round(side * 8 / 7), None),
        ("the whole picture is put into black", side, side),
    ):
        if (resize, longest) != (own.resize, own.longest):
            yield Mistake("frame", name, geometry=partial(replace, resize=resize, longest=longest))


def _resize(x: Images, size: tuple[int, int], how: str, antialias: bool) -> Images:
    # torch has no choice of antialiasing there
    if how == "nearest":
        return F.interpolate(x, size, mode="nearest")
    return F.interpolate(x, size, mode=how, align_corners=False, antialias=antialias).clamp(0, 1)


def _filters(own: Geometry) -> Iterator[Mistake]:
    for interpolation, resampler in OTHER_FILTERS:
        if (interpolation, resampler) != (own.interpolation, own.resampler):
            name = f"pictures are scaled by another filter: {interpolation}"
            yield Mistake(
                "filter",
                f"{name} without antialiasing" if resampler == "opencv" else name,
                geometry=partial(replace, interpolation=interpolation, resampler=resampler),
            )

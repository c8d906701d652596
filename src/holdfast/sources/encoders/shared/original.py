"""A library's own preprocessing, held against what Holdfast will make of pictures: once, when an encoder is opened."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core.geometry import Geometry
from holdfast.runtime.errors import Failed, HoldfastError, first_line
from holdfast.runtime.foreign import foreign
from holdfast.sources.data.shared.geometry import Pixels, render
from holdfast.sources.encoders.shared.assemble import Preprocessing

NEAR = 1.02 / 255
"""Difference of pixels that counts as none: one of 255 levels. By as much a library rounds apart on another machine, or
where it scales numbers and not bytes; any other filter, size or order is farther away on these pictures."""

BEYOND = "does to pictures what no resize, squash and centre crop repeats"


class Original:
    """A library's own preprocessing, which is asked once for what it makes of a picture.

    Args:
        name: how it is called, such as "BitImageProcessor (torchvision)".
        run: maps an RGB picture to the input of a network, [channel, height, width].
    """

    def __init__(self, name: str, run: Callable[[PIL.Image.Image], Tensor]):
        self.name, self._run = name, run
        self._seen: dict[tuple[int, int], tuple[PIL.Image.Image, Tensor]] = {}

    def __call__(self, picture: PIL.Image.Image) -> Float[Tensor, "channel height width"]:
        """Return what it makes of a picture.

        Raises:
            HoldfastError: it cannot be run on a picture alone.
        """
        try:
            with foreign(self.name, "run on a picture"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the library, about itself
                return self._run(picture)
        except HoldfastError:
            raise
        except Exception as error:  # whatever a foreign library raises
            raise Failed(f"fails on a picture alone ({type(error).__name__}: {first_line(error)})") from error

    def of_noise(self, height: int, width: int) -> tuple[PIL.Image.Image, Float[Tensor, "channel height width"]]:
        """Return a picture of coloured noise, the same for each size, and what it makes of it."""
        # One answer for each size: many candidates are held against it
        if (height, width) not in self._seen:
            noise = np.random.default_rng((height, width)).bytes(height * width * 3)
            picture = PIL.Image.frombytes("RGB", (width, height), noise)
            self._seen[height, width] = picture, self(picture)
        return self._seen[height, width]


def differences(original: Original, ours: Preprocessing) -> Iterator[float]:
    """Yield the largest difference of a pixel in [0, 1] for each of some pictures of odd sizes; inf: other shapes.

    Raises:
        HoldfastError: the original cannot be run.
    """
    assert ours.geometry is not None
    # [C, 1, 1], against what is normalised
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (ours.mean, ours.std))
    for height, width in sizes(ours.geometry):
        picture, theirs = original.of_noise(height, width)
        pixels: Pixels = render(picture, ours.geometry)
        # Into the order of the pixels
        theirs = theirs.flip(0) if ours.reversed else theirs
        same = theirs.shape == pixels.shape
        # Back to pixels in [0, 1], in whose levels the limit is
        yield float((theirs * std + mean - pixels).abs().max()) if same else torch.inf


def equal(original: Original, ours: Preprocessing) -> bool:
    """Whether both make the same of all pictures."""
    return all(difference <= NEAR for difference in differences(original, ours))


def verify_preprocessing(original: Original, ours: Preprocessing) -> Preprocessing:
    """Return a preprocessing that was rebuilt from what a library says, if that is what the library does.

    Otherwise it is returned without geometry and with the problem, so that the user has to say it; so is one that has
    no geometry.
    """
    problem = f"{original.name} {BEYOND}"
    try:
        if ours.geometry is not None and equal(original, ours):
            return ours
    except HoldfastError as error:
        problem = f"{original.name} {error}"
    return replace(ours, geometry=None, problem=problem)


def sizes(geometry: Geometry) -> Iterator[tuple[int, int]]:
    """Yield (height, width) of the pictures by which one geometry is told from others.

    A standing one is enlarged, a lying one reduced; a thin one, in which a limit of the longer side shows; and some
    that leave an odd rest beside the centre, or are an odd number of pixels too short for it, half of which rounds
    apart.
    """
    high, wide = geometry.size
    # Odd sides, for an even rest would hide how halves are rounded
    yield int(0.83 * high) | 1, int(0.57 * wide) | 1
    yield int(1.13 * high) | 1, int(1.61 * wide) | 1
    short, longest, third = geometry.resize, geometry.longest or 0, high // 3 | 1
    if not isinstance(short, int):
        yield third, 4 * third | 1
        yield high + 1, wide + 3
        return
    # Thinner than the limit of the longer side allows
    yield third, int(max(4, longest / short + 0.4) * third) | 1
    yield short, _odd(short, wide)
    if high != wide:
        yield _odd(short, high), short
    if longest:
        lower = min(high, short) - 1
        yield lower - (high - lower + 1) % 2, max(lower, longest)


def _odd(short: int, side: int) -> int:
    """Return a length of at least `short` that is 3, 7, ... more than a side, or 1 less."""
    return max(short, side - 1) if short < side else short + 4 - (short - side + 1) % 4

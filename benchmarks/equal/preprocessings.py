"""How families of preprocessings are compared: on pictures that no opening of an encoder has seen."""

from collections.abc import Callable, Iterator

import numpy as np
import PIL.Image
import torch

from benchmarks.equal.family import Case
from holdfast.runtime.errors import HoldfastError
from holdfast.sources.data.shared.geometry import render
from holdfast.sources.encoders.shared.assemble import Preprocessing
from holdfast.sources.encoders.shared.original import NEAR, Original

UNIT = "levels of 255"
LIMIT = round(NEAR * 255, 3)

SIZES = ((183, 265), (409, 303), (97, 61), (251, 257), (35, 211), (1203, 901))
"""Heights and widths of the pictures: lying, standing, small, nearly square, thin, large."""


def pictures() -> Iterator[PIL.Image.Image]:
    """Yield coloured pictures, noise and as smooth as photos."""
    rng = np.random.default_rng(2)
    for number, (height, width) in enumerate(SIZES):
        coarse = 1 + 6 * (number % 2)
        noise = rng.integers(0, 256, (height // coarse, width // coarse, 3), dtype=np.uint8)
        yield PIL.Image.fromarray(noise).resize((width, height), PIL.Image.Resampling.BICUBIC)


def case(name: str, original: Original, rebuild: Callable[[], Preprocessing]) -> Case:
    """Return how far a library's own preprocessing is from what was rebuilt of it, as an encoder is opened."""
    try:
        ours = rebuild()
    except HoldfastError as error:
        return Case(name, None, str(error))
    if ours.geometry is None:
        return Case(name, None, ours.problem.removeprefix(f"{original.name} "))
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (ours.mean, ours.std))
    largest = 0.0
    for picture in pictures():
        theirs = original(picture)
        pixels = render(picture, ours.geometry)
        theirs = theirs.flip(0) if ours.reversed else theirs
        if theirs.shape != pixels.shape:
            return Case(name, torch.inf)
        largest = max(largest, 255 * float((theirs * std + mean - pixels).abs().max()))
    return Case(name, largest)

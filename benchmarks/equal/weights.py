"""A network opened from a file of weights, against the library's own network for the same weights.

Nothing is downloaded: random weights stand for the published ones, where the library looks for these. The library
builds its own network for them, with all that it does for weights of its own alone; Holdfast opens their file.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.equal.family import Case
from holdfast.core import Encoder, HoldfastError
from holdfast.sources.encoders import open_encoder

MOST = 60e6
"""Parameters of a network, at most: larger ones of a family are made of the same parts."""

UNIT, LIMIT = "of the largest number", 1e-5


def compared(
    name: str, spec: str, state: dict[str, Tensor], path: Path, side: int, theirs: Any, linear: str | None
) -> Case:
    """Return how far a file's network is from the library's, on two random images: of the input of a layer, or all.

    Args:
        name: of the comparison.
        spec: opens the file.
        state: what is written into it.
        path: of the file.
        side: of images, in pixels.
        theirs: the library's network.
        linear: place of the layer; None: what the network gives.
    """
    save_file({name: value.contiguous() for name, value in state.items()}, path)
    try:
        encoder = open_encoder(spec)
    except HoldfastError as error:
        return Case(name, None, str(error).replace(str(path), "FILE"))
    x = torch.rand(2, len(encoder.mean), side, side, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return Case(name, apart(encoder(x), representation(theirs, encoder, x, linear)))


def varied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict with statistics and biases that no fresh network has, each with memory of its own."""
    generator = torch.Generator().manual_seed(0)

    def changed(name: str, value: Tensor) -> Tensor:
        if not value.is_floating_point() or value.ndim > 1:
            return value.clone().contiguous()
        noise = torch.rand(value.shape, generator=generator)
        return noise + 0.5 if "var" in name else value + noise / 10

    copy: Any = OrderedDict((name, changed(name, value)) for name, value in state.items())
    copy._metadata = getattr(state, "_metadata", None)
    return copy


def representation(theirs: Any, encoder: Encoder, x: Tensor, linear: str | None) -> Tensor:
    """Return what the library's network gives for normalised images, or gives its last linear layer."""
    seen: list[Tensor] = []
    if linear is not None:
        theirs.get_submodule(linear).register_forward_hook(lambda part, inputs, output: seen.append(inputs[0]))
    output = theirs(encoder.normalisation(x))
    return (seen[-1] if linear is not None else output).flatten(1)


def apart(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference as a share of the largest number; infinite where shapes differ."""
    if ours.shape != theirs.shape:
        return float("inf")
    return float((ours - theirs).abs().max() / theirs.abs().max())

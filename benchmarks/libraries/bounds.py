"""CROWN of auto_LiRPA on the same networks: lower bounds of nine margins of an image at once."""

import importlib
import math
from functools import partial

import torch
from torch import Tensor

from benchmarks.certified_radius import problem, sequential
from benchmarks.libraries.work import Work
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.threats.linf import Linf

RADII = {"mnist_cnn_a": 0.02, "cifar_cnn_b": 1 / 255}
"""Network -> ε in pixels."""


def crown(name: str) -> Work:
    """Return the bounds of nine margins at one ε, CROWN as published in both."""
    library = importlib.import_module("auto_LiRPA")
    encoder, x, margin = problem(name)
    own, rows, radius = x[:1], margin.part(slice(0, 1)), RADII[name]
    layers, normalised = sequential(encoder)
    bounded = library.BoundedModule(torch.nn.Sequential(*layers).eval(), normalised(own), verbose=0)
    box = {"x_L": normalised((own - radius).clamp(0, 1)), "x_U": normalised((own + radius).clamp(0, 1))}
    ball = library.PerturbationLpNorm(norm=math.inf, **box)

    def ours() -> Tensor:
        return Crown(intervals=False)(encoder, rows, own, Linf(radius)).lower[0]

    def theirs() -> Tensor:
        inputs = (library.BoundedTensor(normalised(own), ball),)
        with torch.no_grad():
            bound = bounded.compute_bounds(x=inputs, C=rows.weights.float(), method="CROWN", bound_upper=False)[0]
        return bound[0].double() + rows.bias[0]

    def apart(mine: Tensor, other: Tensor) -> float:
        return float((mine - other).abs().max() / other.abs().max())

    what = f"CROWN, nine margins of an image, {name}, ℓ∞ {radius:.2g}"
    return Work("auto_LiRPA", what, ours, theirs, apart, "largest relative difference of a bound", "", 1e-5)


WORKS = {f"auto_LiRPA, {name}": partial(crown, name) for name in RADII}

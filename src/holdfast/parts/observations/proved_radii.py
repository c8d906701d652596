"""Proved radii: how far every image may move before anything could make it fail."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Failure, Margin, Passes, PerImage, Shard
from holdfast.core.divergence import require
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.shared.first import OfAnyRadius, OfFirst
from holdfast.parts.observations.shared.margins import pieces
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Unsupported

PROBES = 8
"""Radii probed for each image, about: the search decides how many, so this is an estimate."""


@dataclass(frozen=True)
class ProvedRadii(OfAnyRadius, OfFirst):
    """The largest ε at which no image of the ε-ball is proved to fail, as `radius` [M] in pixels; 0 where none is.

    An image fails where one of the margins of `Failure.rivals` falls below zero, so all of them are bounded together.

    Attributes:
        certifier: how to bound.
        ball: the norm; its radius is not read.
        failure: what counts as broken.
        tolerance: how near to the first radius that is not certified the search ends, in pixels.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf()
    failure: Failure = Nearest()
    tolerance: float = 2e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.tolerance < 1:
            raise BadValue(f"proved_radii: expected a tolerance between 0 and 1, in pixels, got {self.tolerance}")

    @property
    @override
    def title(self) -> str:
        return f"proved radii, {self.failure.title}: {part_name(self.certifier)}, {self.ball.norm}"

    @property
    def adaptive(self) -> bool:
        """The search decides how many radii it probes."""
        return True

    @property
    def passes(self) -> Passes:
        """No encoder pass; an estimate of the bound propagations."""
        return Passes(bounds=PROBES)

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        return {"radius": self.search(shard)}

    def search(self, shard: Shard) -> PerImage:
        """Return the radius of each image of a shard, [B].

        Raises:
            HoldfastError: a failure that no margins describe; see `Certifier` for others.
        """
        rivals = self.failure.rivals(shard)
        if rivals is None:
            raise Unsupported(
                f"proved_radii: expected a failure that margins describe, such as nearest, got {self.failure.title!r}"
            )
        linear = rivals.margins
        if not isinstance(linear, Margin):
            require(linear.divergence, LinearDivergence, "divergence of a certificate")
            raise TypeError("expected linear margins of a linear divergence")
        # margins as distances, so that the smallest of them falls evenly
        length = linear.weights.norm(dim=2)
        scale = 1 / torch.where(length > 0, length, 1.0)
        margins = Margin(linear.weights * scale[..., None], linear.bias * scale)
        # `together`: all margins of an image must be positive, so one radius is
        # searched for it, in fewer probes
        radii = [
            certify_radii(
                self.certifier, shard.encoder, margins.part(part), shard.x[part], self.ball, self.tolerance,
                together=True,
            )
            for part in pieces(shard.x, margins.bias.shape[1])
        ]  # fmt: skip
        return torch.cat(radii).squeeze(1).double().cpu()

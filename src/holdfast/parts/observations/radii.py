"""Certified radii: how far every pair of images is proved to stay apart."""

from dataclasses import dataclass

from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Passes, Shard
from holdfast.core.registry import part_name
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.observations.shared.first import OfAnyRadius
from holdfast.parts.observations.shared.margins import OfMargins
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue

PROBES = 6
"""Radii probed for each pair, about: the search decides how many, so this is an estimate."""


@dataclass(frozen=True)
class Radii(OfAnyRadius, OfMargins):
    """The largest ε found such that min m(x') > 0 over the ball is proved, as `radius` [M, R] in pixels; 0 where none.

    Attributes:
        certifier: how to bound.
        ball: the norm; its radius is not read.
        tolerance: how near to the first radius that is not certified the search ends, in pixels.

    Source: Wang & Liu (2023), Definition 4 and Algorithm 1.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf()
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.tolerance < 1:
            raise BadValue(f"radii: expected a tolerance between 0 and 1, in pixels, got {self.tolerance}")

    @property
    @override
    def title(self) -> str:
        return f"certified radii, {self.rows}: {part_name(self.certifier)}, {self.ball.norm}"

    @property
    def adaptive(self) -> bool:
        """The search decides how many radii it probes."""
        return True

    @property
    def passes(self) -> Passes:
        """No encoder pass; an estimate of the bound propagations."""
        return Passes(bounds=PROBES * (self.comparisons or 10))

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        margin = self.margins(shard)
        # RVCL, Eq. 14, by a search that bounds all rows of an image with each probe
        # (Algorithm 1 takes them one by one)
        radius = certify_radii(self.certifier, shard.encoder, margin, shard.x, self.ball, self.tolerance)
        return {"radius": radius.double().cpu()}

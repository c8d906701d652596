"""Proofs about two encoders: how alike their vectors stay, and up to which change none takes an image for another."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import AnyDivergence, Ball, Passes, Shard
from holdfast.core.divergence import require
from holdfast.core.pair import Pair
from holdfast.core.registry import part_name
from holdfast.numerics.bounds.backward import Region
from holdfast.numerics.bounds.difference import Apart
from holdfast.numerics.bounds.trace import trace
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.by_layers import ByLayers
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.disagreements import LEVEL
from holdfast.parts.observations.proved_radii import PROBES, ProvedRadii
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue

NETWORKS = 3
"""Networks that are bounded for a cosine: both, and their difference."""


@dataclass(frozen=True)
class ProvedAlike(OfFirst):
    """What is proved of the encoders of a `Pair`, whatever change of an image the ball allows.

    `cosine` [M]: what the cosine of both vectors is at least, by their difference, bounded step by step; -1 where
    nothing is proved. `first` and `second` [M], in pixels: the largest radius within which no image of the population
    is nearer to that side's vector than the image itself, see `ProvedRadii`. Within the smaller of them both agree.

    Attributes:
        divergence: by what images are near.
        ball: the norm, and the radius of the cosine.
        certifier: how radii are proved; the cosine may take as much work.
        in_step: whether both are made of the same steps, which a cosine needs; without, it is NaN.
    """

    divergence: AnyDivergence = L2()
    ball: Ball = Linf(LEVEL)
    certifier: ByLayers = Crown(minutes=1.0)
    in_step: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.divergence, LinearDivergence, "divergence of a certificate")

    @property
    @override
    def title(self) -> str:
        return f"what is proved of both, {self.divergence}: {part_name(self.certifier)}, {self.ball}"

    @property
    def adaptive(self) -> bool:
        """The searches decide how many radii they probe."""
        return True

    @property
    def passes(self) -> Passes:
        """No encoder pass; an estimate of the bound propagations."""
        return Passes(bounds=2 * PROBES + NETWORKS * self.in_step)

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        pair = shard.encoder
        assert isinstance(pair, Pair)  # nothing else is asked of two encoders
        assert shard.clean is not None  # clean representations are always known first
        proved = {"cosine": self._cosines(pair, shard.x)}
        nearest = ProvedRadii(self.certifier, self.ball, Nearest(self.divergence), first=self.first)
        # Each side has neighbours of its own, in its own space
        banks = shard.clean.split(pair.widths, 1)
        for name, side, bank in zip(("first", "second"), pair.sides, banks, strict=True):
            proved[name] = nearest.search(replace(shard, encoder=side, clean=bank))
        return proved

    def _cosines(self, pair: Pair, x: Tensor) -> Tensor:
        """Return what the cosine of both vectors of each image is at least, [B]; NaN where none can be proved.

        Raises:
            NotCertified: an encoder whose network cannot be read, or two that are not in step.
        """
        first, second = (trace(side, tuple(x.shape[1:])) for side in pair.sides)
        # Vectors of two lengths have no cosine
        if pair.widths[0] != pair.widths[1] or not self.in_step:
            return torch.full((len(x),), torch.nan, dtype=torch.float64)
        both, radius = Apart(first, second), getattr(self.ball, "radius", None)
        if radius is None:
            raise BadValue(f"proved_alike: expected a ball with a radius, got {self.ball}")
        radii = torch.full((1,), radius, dtype=torch.float64, device=x.device)
        least = []
        # One by one, as the ranges of both decide what their difference is
        for image in x.split(1):
            least.append(both.least_cosine(Region.around(self.ball, image, radii), self.certifier.limit))
            pair.count(Passes(bounds=NETWORKS))
        return torch.cat(least).cpu()

"""Radii from both sides: how far margins are proved to stay positive, and the smallest change that turns each."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Ball, Margin, Passes, Shard
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.minimal import minimal_radius, passes
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.observations.minimal_radii import breaks_of
from holdfast.parts.observations.radii import PROBES
from holdfast.parts.observations.shared.first import OfAnyRadius, OfFirst
from holdfast.parts.observations.shared.margins import confusion, row
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Missing


@dataclass(frozen=True, kw_only=True)
class BothRadii(OfAnyRadius, OfFirst):
    """For margins m of each image, `certificate` and `attack` [M, R] in pixels; min ||x' - x||, m(x') <= 0, is between.

    The certificate is 0 where nothing is proved, the attack inf where nothing was found. Searches begin at images of
    the population as well, which may turn the margin.

    Attributes:
        certifier: how to bound.
        ball: the norm; its radius is not read.
        steps: gradient steps of each search.
        tolerance: how near to the first radius that is not certified the search ends, in pixels.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf()
    steps: int = 40
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1 or not 0 < self.tolerance < 1:
            raise BadValue(
                f"{type(self).__name__}: expected steps >= 1 and a tolerance between 0 and 1, got {self.steps} and "
                f"{self.tolerance:g}"
            )

    @property
    @abstractmethod
    def margins_each(self) -> int:
        """How many margins each image has, about."""

    @abstractmethod
    def compare(self, shard: Shard) -> tuple[Margin, Int[Tensor, "batch rows"]]:
        """Return the margins of a shard's images in float64, and the image where the search for each begins."""

    @property
    def adaptive(self) -> bool:
        """The search for a proved radius decides how many it probes."""
        return True

    @property
    def passes(self) -> Passes:
        """Those of one search for each margin, and an estimate of the bound propagations."""
        return (passes(self.steps, True) + Pgd().choosing(self.ball) + Passes(bounds=PROBES)) * self.margins_each

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Bound and search for one shard."""
        if shard.others is None:
            raise Missing(f"{type(self).__name__}: searches begin at other images, and these cannot be had")
        margin, starts = self.compare(shard)
        # From below: what is proved, all margins of an image at once
        proved = certify_radii(self.certifier, shard.encoder, margin, shard.x, self.ball, self.tolerance)
        sizes = []
        with shard.encoder.exactly():  # every pass decides whether a margin is turned
            # From above: one search for each margin, from the image and from one that may turn it
            for number, others in enumerate(starts.unbind(1)):
                single = row(margin, torch.full_like(others, number))
                goal, breaks = confusion(shard.encoder, single, shard.x), breaks_of(single)
                start = shard.others(others)
                (ball,) = Pgd().at_places(goal, shard.x, self.ball, shard.rng)
                sizes.append(minimal_radius(goal, breaks, shard.x, ball, self.steps, start)[0])
        return {"certificate": proved.double().cpu(), "attack": torch.stack(sizes, 1).double().cpu()}

"""Entry radii: how far an image may change before it could stand among the first results of each search."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import AnyDivergence, Ball, Images, Margin, Passes, Shard
from holdfast.core.divergence import require
from holdfast.core.registry import part_name
from holdfast.core.threat import image_shape
from holdfast.numerics.geometry.divergence import EuclideanDivergence
from holdfast.numerics.geometry.index import Index, exclude
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.margins import clean_of
from holdfast.parts.rescalings.plain import Plain
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count

NEAR = 1.05
"""How many times larger than a radius that is proved the next one may be that is not, for the search to be done."""

FARTHER = 2.0
"""By what the search goes on, outward from what is proved and inward from what is not."""


@dataclass(frozen=True)
class EntryRadii(OfFirst):
    """The largest ε probed at which no image of the ε-ball is proved to enter the first k of a query: `radius` [M, N].

    Every image of the population is a query. An image keeps out as long as its representation lies in the half-space
    of `exclude`, which is one row of a margin, so one bound propagation serves all queries. The first probe is the
    ball's own radius; others go where the queries lie whose radius is not known to 5 % yet. 0 where the image is among
    the first k as it is, or nothing was proved; ∞ against itself.

    Attributes:
        k: how many results are looked at.
        divergence: how representations are compared: l2 or cosine.
        certifier: how to bound.
        ball: the norm, and the radius that is probed first.
        probes: radii that are probed for each image, at most.
    """

    k: Count = 1
    divergence: AnyDivergence = Cosine()
    certifier: Propagation = Crown()
    ball: Ball = Linf()
    probes: Count = 12

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.divergence, EuclideanDivergence, "divergence of entry_radii")

    @property
    @override
    def title(self) -> str:
        return f"radii before the first {self.k}, {self.divergence}: {part_name(self.certifier)}, {self.ball.title}"

    @property
    def adaptive(self) -> bool:
        """The search ends early where all radii are known."""
        return True

    @property
    def passes(self) -> Passes:
        """No encoder pass; the most bound propagations."""
        return Passes(bounds=self.probes)

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        clean = clean_of(shard)
        reach = Index.of(clean.cpu(), self.k, self.divergence, Plain()).reach_without(shard.positions)
        radii = []
        for image, (x, own) in enumerate(zip(shard.x, shard.positions.tolist(), strict=True)):
            # One image at a time: each row takes memory in every layer
            away = reach[[image]].to(clean.device)
            margin = Margin(*exclude(clean, away, clean[[own]], self.divergence.of_directions))
            radii.append(self._search(shard, margin, x[None]))
        return {"radius": torch.stack(radii).masked_fill(reach.isinf(), torch.inf)}

    def _search(self, shard: Shard, margin: Margin, x: Images) -> Float[Tensor, "queries"]:
        """Return the radii of one image, by bisection of all rows at once."""
        proved, end = torch.zeros(margin.bias.shape[1], dtype=torch.float64), self.ball.even(image_shape(x))
        failed, radius = torch.full_like(proved, torch.inf), float(getattr(self.ball, "radius", end))
        # A row without a half-space is proved nowhere
        asked = margin.weights[0].any(1).cpu()
        for _ in range(self.probes):
            # One bound propagation for all queries
            at = torch.tensor([radius], dtype=torch.float64)
            holds = (self.certifier(shard.encoder, margin, x, self.ball, at).lower[0] > 0).cpu() & asked
            # Bounds may jump: what fails below a radius that was proved says nothing
            proved[holds] = proved[holds].clamp_min(radius)
            failed[~holds] = torch.where(proved < radius, failed.clamp_max(radius), failed)[~holds]
            failed = torch.where(failed <= proved, torch.inf, failed)
            left = asked & (failed > NEAR * proved) & (proved < end)
            if not left.any():
                break
            # Outward by a factor, inward to the middle of what is known, in logarithms
            low, high = proved[left], failed[left]
            middle = torch.where(
                low == 0, high / FARTHER, torch.where(high.isinf(), FARTHER * low, (low * high).sqrt())
            )
            # That of the query in the middle, in whose neighbourhood most others are
            radius = min(float(middle.median()), end)
        return proved

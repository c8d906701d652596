"""Drifted too far: f(x') is farther from f(x) than a given share of different images are from each other."""

from dataclasses import dataclass

from typing_extensions import override

from holdfast.core import AnyDivergence, Event, Failure, Shard
from holdfast.core.divergence import require_distance
from holdfast.numerics.geometry import pairwise
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.shared.beyond import distance_beyond
from holdfast.runtime.errors import BadValue, NotEnough

MOST = 2000
"""Images of the population, the first ones, whose pairs say how far apart images are."""


@dataclass(frozen=True)
class Drifted(Failure):
    """d(f(x'), f(x)) > q_share, the `share` quantile of the distances between clean images of the population.

    The value is d / q_share - 1: -1 without a disturbance. The quantile is that of all pairs of the population's first
    2,000 images: a plug-in, the same for every image.

    Attributes:
        share: of the pairs of different images that are nearer to each other than that, in (0, 1).
        divergence: how representations are compared.

    Source: universal quantiles, section 5 of Petrov & Kwiatkowska (2022).

    Example:
        >>> from holdfast.core import Encoder, Rng
        >>> clean, identity = torch.eye(2), Encoder(torch.nn.Flatten(), mean=0, std=1)
        >>> shard = Shard(identity, clean.view(2, 1, 1, 2), torch.arange(2), Rng(0, ids=("a", "b")), clean)
        >>> event = Drifted(share=0.5).bind(shard)
        >>> (event(torch.tensor([[[0.9, 0.1], [-1.0, 1.0]]]), torch.tensor([0])) > 0).tolist()
        [[False, True]]
    """

    share: float = 0.05
    divergence: AnyDivergence = L2()

    def __post_init__(self) -> None:
        require_distance(self.divergence, "the failure drifted")
        if not 0 < self.share < 1:
            raise BadValue(f"the failure drifted: expected a share of pairs in (0, 1), got {self.share}")

    @property
    @override
    def title(self) -> str:
        return f"drifts beyond {100 * self.share:g} % of distances, {self.divergence}"

    def bind(self, shard: Shard) -> Event:
        """Return the event for the distances of this population.

        Raises:
            HoldfastError: a population of one image, or a quantile that is zero: images that are all alike.
        """
        assert shard.clean is not None  # clean representations are always observed first
        clean = shard.clean.to(shard.x.device)
        # The first images alone: a quantile of two million pairs is known well enough,
        # and all pairs would take N² time
        limit = pairwise.quantile(clean[:MOST], self.share, self.divergence)
        if not limit > 0:
            raise NotEnough(
                f"the failure drifted: {100 * self.share:g} % of the images are as good as equal to this encoder "
                f"(distance {limit:g}); raise share, or leave out images that occur twice"
            )
        # Universal quantiles of section 5 without their ranks: the one threshold that the share stands for
        return distance_beyond(self.divergence, clean[shard.positions].double(), limit)

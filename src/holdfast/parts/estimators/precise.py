"""Draws until an image's probability of failing is known to a given precision."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.numerics.statistics import betting
from holdfast.parts.estimators.shared.draws import Draws
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Precise(Draws):
    """Draws until the interval of an image's P[failure] is no wider than twice `precision`, `most` at most.

    Images that never or always fail take few draws, those in between many. The betting bounds of `betting` hold at
    every number of draws, so the interval keeps its level though it decides when to stop.

    Attributes:
        most: draws after which an image's interval stays as wide as it is.
        precision: half of the width that is asked for.
        alpha: the chance that an image's interval misses its probability.

    Source: Waudby-Smith & Ramdas (2024).

    Example:
        >>> Precise(precision=0.05).should_stop(torch.tensor([0, 50]), 100).tolist()
        [True, False]
    """

    most: int = 10_000
    precision: float = 0.02
    alpha: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        betting.check_level(self.alpha, "precise")
        if not 0 < self.precision < 0.5:
            raise BadValue(f"precise: expected a precision in (0, 0.5), got {self.precision}")

    def interval(
        self, failed: Int[Tensor, "images"], drawn: Int[Tensor, "images"]
    ) -> tuple[Float[Tensor, "images"], Float[Tensor, "images"]]:
        """Return lower and upper ends for P[failure] of each image, each at alpha/2."""
        counts = betting.tally_votes(failed, drawn)
        low = betting.lower(counts, self.alpha / 2, self.most)
        # 1 - LEVELS is LEVELS reversed: the flipped tally is that of 1 - x, whose lower end counts
        return low, 1 - betting.lower(counts.flip(-1), self.alpha / 2, self.most)

    def should_stop(self, failed: Int[Tensor, "images"], draws: int) -> Bool[Tensor, "images"]:
        """Images whose interval is narrow enough, or that have had all draws."""
        low, high = self.interval(failed, torch.full_like(failed, draws))
        return (high - low <= 2 * self.precision) | (draws >= self.most)

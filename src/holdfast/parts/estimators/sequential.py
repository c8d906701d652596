"""Draws until it is known whether an image fails more rarely than γ."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.numerics.statistics import betting
from holdfast.parts.estimators.shared.draws import Draws
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Sequential(Draws):
    """Draws until P[failure] <= γ or P[failure] >= γ is proved, `most` at most; images far from γ take few.

    The betting bounds of `betting` hold at every number of draws, so looking often and stopping early cost no
    betting. Only one of both answers can be wrong, so each has the whole of alpha.

    Attributes:
        most: draws after which an image stays undecided.
        gamma: γ, the probability of failure that is tolerated.
        alpha: the chance of a wrong answer, for each image.

    Source: Waudby-Smith & Ramdas (2024).

    Example:
        >>> Sequential(gamma=0.1).should_stop(torch.tensor([0, 10, 50]), 100).tolist()
        [True, False, True]
    """

    most: int = 10_000
    gamma: float = 0.01
    alpha: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        betting.check_level(self.alpha, "sequential")
        if not 0 < self.gamma < 1:
            raise BadValue(f"sequential: expected a tolerated probability gamma in (0, 1), got {self.gamma}")

    def rare(self, failed: Int[Tensor, "images"], drawn: Int[Tensor, "images"]) -> Bool[Tensor, "images"]:
        """Return for which images P[failure] <= γ is proved."""
        counts = betting.tally_votes(failed, drawn)
        return betting.stays_below(counts, self._limit(failed), self.alpha, self.most)

    def frequent(self, failed: Int[Tensor, "images"], drawn: Int[Tensor, "images"]) -> Bool[Tensor, "images"]:
        """Return for which images P[failure] >= γ is proved."""
        counts = betting.tally_votes(failed, drawn)
        return betting.exceeds(counts, self._limit(failed), self.alpha, self.most)

    def should_stop(self, failed: Int[Tensor, "images"], draws: int) -> Bool[Tensor, "images"]:
        """Images that are decided, or have had all their draws."""
        drawn = torch.full_like(failed, draws)
        # Both are looked at after each block, which the bounds allow
        return self.rare(failed, drawn) | self.frequent(failed, drawn) | (drawn >= self.most)

    def _limit(self, failed: Int[Tensor, "images"]) -> Float[Tensor, "images"]:
        return torch.full(failed.shape, self.gamma, dtype=torch.float64)

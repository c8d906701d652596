"""Failures that are too rare to count: adaptive multilevel splitting."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from scipy import stats
from torch import Tensor

from holdfast.core import HoldfastError, PerImage, Rng
from holdfast.estimators._draws import Draws
from holdfast.statistics import clopper_pearson

Value = Callable[[Float[Tensor, "draws numbers"], Int[Tensor, "draws"]], Float[Tensor, "draws"]]
"""(standard normal numbers, of which image) -> a value that is above 0 exactly where the disturbed image fails."""

ROOM = 2**26
"""Numbers that are held at a time; images beyond them wait."""
WISHED = 0.45
"""Share of moves that should be accepted."""
SHORTEST = 0.01


@dataclass(frozen=True)
class Splitting:
    """P[s(z) > 0] for z ~ N(0, I), as a product of larger probabilities, for many images at once.

    A population of N draws climbs levels. Each level L is the largest value of the lowest draws (the share `kill`); those
    with s <= L are replaced by copies of others, which then move: z' = √(1 - β²) z + β ξ, kept where s(z') > L. That leaves
    N(0, I) given s > L as it is. With k draws replaced at each level, p = Π (1 - k/N) · (share with s > 0 at the end).

    For any moves and any s, discontinuous or with ties, the expected p is the probability; only β, which follows the share
    of moves accepted at the level before, adds a bias of order 1/N. Populations are independent, so that the spread of
    their results is an honest error; a region of failure that none of them met is not seen in it.

    Attributes:
        particles: N, draws in each population.
        kill: share of a population that is replaced at a level, in (0, 1).
        moves: how often each copy moves.
        runs: independent populations for each image, at least 2.
        least: probabilities below it are not pursued.

    Source: Guyader, Hengartner & Matzner-Løber (2011); Bréhier et al. (2016), "Unbiasedness of some generalized adaptive
        multilevel splitting algorithms"; Webb et al. (2019) for its use on networks.
    """

    particles: int = 100
    kill: float = 0.5
    moves: int = 4
    runs: int = 6
    least: float = 1e-12

    def __post_init__(self) -> None:
        if self.particles < 2 or self.moves < 1 or self.runs < 2 or not 0 < self.kill < 1 or not 0 < self.least < 1:
            raise HoldfastError(
                "splitting: expected particles >= 2, moves >= 1, runs >= 2, kill in (0, 1) and least in (0, 1), got "
                f"particles={self.particles}, moves={self.moves}, runs={self.runs}, kill={self.kill}, least={self.least}"
            )

    def estimate(
        self, value: Value, numbers: int, rng: Rng, device: torch.device | str = "cpu", confidence: float = 0.95
    ) -> dict[str, PerImage]:
        """Return, for each image that `rng` names:

        - probability: the mean over populations; 0 where none of them reached a failure
        - low, high: its interval. log-normal from the spread between populations (Student's t); exact (Clopper-Pearson)
          where all draws were plain ones; from 0 to what was left to rule out where no population reached a failure
        - relative_variance: of the probability, estimated; NaN where it is 0
        - passes: values that were computed

        Args:
            value: s, [n, numbers] and [n] -> [n]; draws of one image are neighbours.
            numbers: how many standard normal numbers a draw takes.
            rng: random numbers bound to the ids of the images.
            device: where the numbers are.
            confidence: level of the interval.

        Raises:
            HoldfastError: a value that is not a number.
        """
        size = max(1, ROOM // (self.runs * self.particles * numbers))
        blocks = []
        for start in range(0, len(rng.ids), size):
            images = Draws(rng.at(rng.ids[start : start + size]).child("splitting"), numbers, device)
            shifted = lambda z, rows, start=start: _checked(value(z, rows + start))  # noqa: E731
            blocks.append(self._summary(*self._climb(shifted, images), confidence))
        return {key: torch.cat([block[key] for block in blocks]) for key in blocks[0]} if blocks else {}

"""Failures that are too rare to count: adaptive multilevel splitting."""

import math
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from torch import Tensor

from holdfast.core import Rng
from holdfast.numerics.statistics import clopper_pearson
from holdfast.parts.estimators.shared.climb import Climbed, Value, climb
from holdfast.parts.estimators.shared.streams import Streams
from holdfast.runtime.checked import Checked, Count
from holdfast.runtime.errors import BadValue

ROOM = 2**22
"""Numbers that are held at a time; images beyond them wait."""


@dataclass(frozen=True)
class Splitting(metaclass=Checked):
    """P[s(z) > 0] for z ~ N(0, I), as a product of larger probabilities, for many images at once.

    A population of N draws climbs levels. Each level L is the largest value of its lowest draws (the share `kill`);
    those with s <= L are replaced by copies of the others, of each nearly equally many, which then move:
    z' = √(1 - β²) z + β ξ, kept where s(z') > L. That leaves N(0, I) given s > L as it is. If k draws are replaced at a
    level, p = Π (1 - k/N) · (share with s > 0 at the end). The end is when no more than the share `kill` does not fail.

    With β given, the expected p is the probability, for any s, also one that jumps or has ties; β follows the share of
    moves kept at the level before, which can bias p by the order of 1/N. Populations are independent, so that the
    spread of their results is an honest error. A region of failure that none of them met is not seen in it.

    Attributes:
        particles: N, draws in each population.
        kill: share of a population that is replaced at a level, in (0, 1).
        moves: how often each copy moves. Too few leave copies alike: most results then are too low, few much too high.
        runs: independent populations for each image, at least 2.
        least: probabilities below it are not pursued.

    Source: Guyader et al. (2011); Bréhier et al. (2016); Webb et al. (2019) for its use on networks.

    Example:
        >>> beyond = lambda z, images: z[:, 0] - 3  # fails where a normal number exceeds 3
        >>> rare = Splitting(particles=200).estimate(beyond, 1, Rng(0, ids=("a",)))
        >>> bool(rare["low"] < 0.00135 < rare["high"])
        True
    """

    particles: int = 100
    kill: float = 0.5
    moves: Count = 4
    runs: int = 6
    least: float = 1e-12

    def __post_init__(self) -> None:
        if self.particles < 2 or self.runs < 2 or not 0 < self.kill < 1 or not 0 < self.least < 1:
            raise BadValue(
                "splitting: expected particles >= 2, runs >= 2, kill and least in (0, 1), got "
                f"{self.particles}, {self.runs}, {self.kill} and {self.least}"
            )

    def estimate(
        self, value: Value, numbers: int, rng: Rng, device: torch.device | str = "cpu", confidence: float = 0.95
    ) -> dict[str, Tensor]:
        """Estimates for each image that `rng` names, [B] each.

        - probability: the mean over populations; 0 where none of them reached a failure.
        - low, high: its interval. Where levels were climbed, that of a log-normal mean from the spread between
          populations; populations that reached no failure count as 0 for its lower end (which is 0 where they are most)
          and with what remained possible for its upper end. Where all draws were plain ones, the exact binomial one.
        - relative_variance: of the probability, estimated, and no less than with ideal moves, -log p / N for each
          population; NaN where it is 0.
        - levels: the most that a population climbed; 0: plain sampling.
        - passes: values that were computed.

        Args:
            value: s, above 0 where the disturbed image fails: [n, numbers] and which images, [n] -> [n].
            numbers: how many standard normal numbers a draw takes.
            rng: random numbers bound to the ids of the images.
            device: where the numbers are needed.
            confidence: level of the interval.

        Raises:
            HoldfastError: a value that is not a number.
        """
        size = max(1, ROOM // (self.runs * self.particles * numbers))
        summaries: list[dict[str, float]] = []
        for start in range(0, len(rng.ids), size):
            ids = rng.ids[start : start + size]
            # R independent populations for each image, all climbing at once
            owner = torch.arange(len(ids), device=device).repeat_interleave(self.runs)
            climbed = climb(
                lambda z, images, start=start: value(z, images + start),
                Streams(rng.at(ids).child("splitting"), numbers, device),
                owner,
                self.particles,
                min(max(1, round(self.kill * self.particles)), self.particles - 1),
                self.moves,
                self.least,
            )
            for image in range(len(ids)):
                summaries.append(self._summary(climbed, slice(image * self.runs, (image + 1) * self.runs), confidence))
        names = ("probability", "low", "high", "relative_variance", "levels", "passes")
        return {name: torch.tensor([summary[name] for summary in summaries], dtype=torch.float64) for name in names}

    def _summary(self, climbed: Climbed, runs: slice, confidence: float) -> dict[str, float]:
        """Return the estimate of one image from its populations."""
        n, tail = self.particles, (1 - confidence) / 2
        weight, failing = climbed.weight[runs].double().cpu(), climbed.failing[runs].double().cpu()
        levels, extinct = climbed.levels[runs], climbed.extinct[runs].cpu()
        # p of each population: the product of its levels times the share that fails at the end
        results = weight * failing / n
        p, spread = float(results.mean()), _relative_variance(results)
        # plain draws alone: binomial
        if not levels.any():
            low, high = clopper_pearson(float(failing.sum()), n * self.runs, confidence)
            spread = (1 - p) / (p * n * self.runs) if p > 0 else math.nan
        else:  # log-normal, from the spread between populations; those without a failure count with what was possible
            spread = max(spread, -math.log(p) / (n * self.runs)) if p > 0 else spread  # what ideal moves would leave
            limit = 1 - tail ** (1 / (n * self.runs))  # of the share that fails, where no draw does
            possible = torch.where(failing > 0, results, weight * torch.where(extinct, limit, 1.0))
            wide = spread if bool((failing > 0).all()) else _relative_variance(possible)
            high = float(possible.mean()) * _factors(wide, self.runs, tail)[1]
            low = p * _factors(spread, self.runs, tail)[0] if 2 * int((failing > 0).sum()) >= self.runs else 0.0
            high = min(1.0, high)
        return {
            "probability": p,
            "low": low,
            "high": high,
            "relative_variance": spread,
            "levels": float(levels.max()),
            "passes": float(climbed.passes[runs].sum()),
        }


def _relative_variance(results: Tensor) -> float:
    """Return the variance of the mean of independent results, as a share of its square; NaN for a mean of 0."""
    mean = float(results.mean())
    return float(results.var()) / len(results) / mean**2 if mean > 0 else math.nan


def _factors(relative_variance: float, runs: int, tail: float) -> tuple[float, float]:
    """Return by what to multiply a mean for the ends of its interval, where results are log-normal.

    With v = log(1 + variance of a result / mean²) the mean is exp(m + v/2), and m and v are as uncertain as they are
    for R normal numbers: log(mean / estimate) is distributed like Z √(v (R-1) / (R X)) + v ((R-1) / X - 1) / 2, with
    Z normal and X ~ χ² of R - 1 degrees. Results lean to the right, so the upper end is the farther one.

    Source: Krishnamoorthy & Mathew (2003), "Inferences on the means of lognormal distributions using generalized
        p-values and generalized confidence intervals".
    """
    # Quantiles at 400 even places in place of random numbers: the same interval each time
    v, between = math.log1p(relative_variance * runs), (np.arange(400) + 0.5) / 400
    wider = (runs - 1) / scipy.stats.chi2.ppf(between, runs - 1)[:, None]
    # Every Z with every X, [400, 400]
    ratio = scipy.stats.norm.ppf(between) * np.sqrt(v * wider / runs) + v * (wider - 1) / 2
    low, high = np.quantile(ratio, [tail, 1 - tail])
    return math.exp(low), math.exp(min(high, 700.0))  # beyond e^709 a float is infinite

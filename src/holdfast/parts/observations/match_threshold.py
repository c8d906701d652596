"""The threshold of a copy detector: the distance below which two images count as the same."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import AnyDivergence, Observation, Passes, Shard
from holdfast.numerics.geometry.matching import LEAST, images_needed, matches
from holdfast.numerics.statistics import sampled_pairs
from holdfast.numerics.statistics.thresholds import rates
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.observations.shared.all import OfAll
from holdfast.parts.observations.thumbnails import Thumbnails
from holdfast.runtime.errors import NotEnough, no_labels

NOWHERE = 1e-30
"""The low end where so many pairs are at distance 0: only what did not move at all lies below it."""


@dataclass(frozen=True)
class MatchThreshold(OfAll):
    """t, the smallest distance that more than `rate` of the pairs of different clean images reach, see `matches`.

    One row: `threshold`; `low` and `high`, the thresholds at the ends of the interval of the rate, `rate low` and `rate
    high` (95 %, see `rates`); `near` [1, N], the share of each image's own pairs at or below t; `allowed` of `pairs`
    match.

    Attributes:
        rate: of false positives, a share of the pairs of different images.
        divergence: how representations are compared.
        negatives: which pairs are different: "images", all that do not look alike, or "classes", those of two classes.
    """

    rate: float = 1e-3
    divergence: AnyDivergence = L2()
    negatives: Literal["images", "classes"] = "images"

    @property
    @override
    def title(self) -> str:
        return f"threshold at {100 * self.rate:g} % of false positives, {self.divergence}"

    @property
    def needs_labels(self) -> bool:
        """Whether classes say which pairs are different."""
        return self.negatives == "classes"

    @property
    def reads(self) -> tuple[Observation, ...]:
        """Thumbnails, by which look-alikes are known."""
        return (Thumbnails(),)

    def images(self, population: int, attacked: int) -> int:
        """One row, of all images."""
        return 1

    @property
    def passes(self) -> Passes:
        """None: clean representations are compared."""
        return Passes()

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        assert shard.clean is not None  # clean representations are always observed first
        assert shard.read is not None  # thumbnails come first
        if self.needs_labels and shard.labels is None:
            raise no_labels("a threshold with negatives = classes", "the source of images")
        # Look-alikes are no different images, so thumbnails say which pairs count
        clean, (thumbnails,) = shard.clean.cpu().double(), shard.read(Thumbnails()).values()
        labels = shard.labels if self.needs_labels else None
        # The pairs that `matching` compares: they follow from the seed of the run
        circle, none = sampled_pairs.circle(shard.rng.seed, len(clean)), torch.empty(0)
        at = [matches(clean, thumbnails, none, self.rate, self.divergence, labels, circle)]
        if at[0].allowed < LEAST or math.isnan(at[0].threshold):
            raise NotEnough(self._explain(at[0].allowed, at[0].pairs, len(clean)))
        # The thresholds at both ends of the rate's interval hold that of all such images (Woodruff)
        ends = rates(self.rate, at[0].near, at[0].pairs)
        at += [matches(clean, thumbnails, none, rate, self.divergence, labels, circle) for rate in ends]
        own, low, high = (result.threshold for result in at)
        numbers = {
            "threshold": own,
            "low": NOWHERE if math.isnan(low) else low,
            "high": math.inf if math.isnan(high) else high,
            "rate low": ends[0],
            "rate high": ends[1],
            "allowed": float(at[0].allowed),
            "pairs": float(at[0].pairs),
        }
        # One row, since an observation has one for each of its images, and this one has seen them all
        columns = {name: torch.tensor([number], dtype=torch.float64) for name, number in numbers.items()}
        return columns | {"near": at[0].near[None]}

    def _explain(self, allowed: int, pairs: int, images: int) -> str:
        # Too few pairs, which more images mend, or too many that are equal, which they do not
        of = f"{pairs:,} pairs of {images} images"
        if allowed < LEAST:
            return (
                f"match_threshold: a rate of {self.rate:g} leaves {allowed} of {of}, and a threshold needs {LEAST}; "
                f"use {images_needed(self.rate)} images or a larger rate"
            )
        return f"match_threshold: more than a share of {self.rate:g} of {of} are equal to this encoder; raise the rate"

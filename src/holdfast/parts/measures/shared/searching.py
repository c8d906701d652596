"""What the measures of search have in common: an index of clean images, queries, and who is returned for them."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import HoldfastError, Measure, Score, Subject
from holdfast.core.chart import Curves, Line, numbers
from holdfast.core.registry import part_name
from holdfast.numerics import statistics
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.divergences import divergence
from holdfast.numerics.geometry.ranking import ranked
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import unknown

RELEVANT = ("original", "class")
FARTHEST = 100
"""Results that are drawn at most."""

CONDITION = "given this index of images"

Ranks = Float[Tensor, "images"]


@dataclass(frozen=True)
class Searching(Measure):
    """A measure of what a search in an index of clean images, the population, returns for disturbed ones.

    Attributes:
        k: how many results are looked at, the most important number first.
        relevant: what is searched for: "original", the image that was disturbed (known-item search); "class", the other
            images of its class, which reads labels; its own original is then not in the index.
        divergence: how representations are compared.
    """

    k: tuple[Count, ...] = (1, 5, 10)
    relevant: Literal["original", "class"] = "original"
    divergence: str = "l2"

    def __post_init__(self) -> None:
        divergence(self.divergence)
        if self.relevant not in RELEVANT:
            raise unknown(f"relevant of {part_name(self)}", self.relevant, RELEVANT)
        if not self.k or len(set(self.k)) < len(self.k):
            raise HoldfastError(
                f"{part_name(self)}: k: expected one number of results or more, each once, got {self.k}"
            )

    @property
    def needs_labels(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether classes say what is relevant."""
        return self.relevant == "class"

    @property
    def learns(self) -> bool:
        """Labels only judge what is returned."""
        return False

    @property
    def summary(self) -> str:
        """What the mean of `precision` is called."""
        return "mean average precision" if self.relevant == "class" else "mean reciprocal rank"

    def found(self, subject: Subject, reps: Tensor, clean: Tensor) -> tuple[Ranks, Ranks]:
        """Return for each query the rank of the first relevant result, and its average precision.

        Where the original alone is relevant, the average precision is 1 / rank.

        Raises:
            HoldfastError: an index of no more than k others, all of which would be looked at; no labels.
        """
        if max(self.k) > len(clean) - 2:
            raise HoldfastError(
                f"{part_name(self)}: expected k below the number of other images, {len(clean) - 1}, got {max(self.k)}; "
                "lower k or use more images"
            )
        own = torch.arange(len(reps))
        if self.relevant == "class":
            return ranked(reps, clean, own, labels_of(subject), self.divergence)
        nearer, _ = pairwise.closer(reps, clean, own, self.divergence)
        rank = 1.0 + nearer.double()
        return rank, 1 / rank

    def mean(self, values: Float[Tensor, "images"]) -> Score:
        """Return the mean of shares over images."""
        return statistics.mean(values, condition=CONDITION, most=1.0)

    def curve(self, lines: list[list[Ranks]], about: str) -> Curves:
        """Return recall against k.

        Args:
            lines: the first one solid, the second one dashed; each of ranks under one threat or more, whose recall is
                averaged over threats.
            about: what the lines are.
        """
        most = min(FARTHEST, *(len(ranks[0]) for ranks in lines))
        return Curves(
            heading="How many results must be looked at",
            how_to_read=(
                "The share of queries with a relevant image among the first so many results. A search that returns "
                f"anything at random lies near 0 on the left. {about} Bands are 95 % intervals at each number."
            ),
            lines=tuple(
                _line(ranks, most, style) for ranks, style in zip(lines, ("solid", "dashed", "points"), strict=False)
            ),
            across="results that are looked at",
            label="recall",
            unit="share",
            scale="log",
            summary=about,
        )


def hits(ranks: Ranks, k: int) -> Float[Tensor, "images"]:
    """Return 1 where a relevant image is among the first k; NaN where none is in the index."""
    return torch.where(ranks.isnan(), torch.nan, (ranks <= k).double())


def recall(ranks: Ranks, k: int) -> Score:
    """Return the share of queries with a relevant image among the first k."""
    return statistics.share(hits(ranks, k), condition=CONDITION)


def _line(ranks: list[Ranks], most: int, style: Literal["solid", "dashed", "points"]) -> Line:
    """Return recall against k with its intervals, of the mean over threats."""
    at = torch.logspace(0, torch.tensor(float(most)).log10().item(), 25).round().int().unique().tolist()
    if len(ranks) == 1:
        scores = [recall(ranks[0], k) for k in at]
    else:
        shares = [torch.stack([hits(rank, k) for rank in ranks]).mean(0) for k in at]
        scores = [statistics.mean(share, condition=CONDITION, most=1.0) for share in shares]
    ends = ([getattr(score, name) for score in scores] for name in ("value", "low", "high"))
    value, low, high = (numbers(torch.tensor([torch.nan if v is None else v for v in end])) for end in ends)
    return Line(tuple(map(float, at)), value, low, high, style=style)

"""What the measures of search have in common: an index of clean images, queries, and who is returned for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Measure, Subject, Table
from holdfast.core.chart import Curves, Line, numbers
from holdfast.core.registry import part_name
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.ranking import rank_queries, without
from holdfast.numerics.statistics.drawn_pairs import DrawnMean
from holdfast.numerics.statistics.statistic import Mean, Share, Statistic
from holdfast.numerics.statistics.universal import pad_to_population
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.quantities.rank import contribute
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue, NotEnough, unknown

FARTHEST = 100
"""Results that are drawn at most."""

RELEVANT = ("original", "class")
"""What may be searched for among images that are each a query and in the index."""

STYLES: tuple[Literal["solid", "dashed"], ...] = ("solid", "dashed")

CONDITION = "given this index of images"

Ranks = Float[Tensor, "images"]

Recall = Callable[[int], Statistic]
"""k -> the share of queries that find what they should among the first k."""


@dataclass(frozen=True)
class Recalling(Measure):
    """A measure of what a search returns among its first results.

    Attributes:
        k: how many results are looked at, the most important number first.
    """

    k: tuple[Count, ...] = (1, 5, 10)

    def __post_init__(self) -> None:
        if not self.k or len(set(self.k)) < len(self.k):
            raise BadValue(f"{part_name(self)}: k: expected one number of results or more, each once, got {self.k}")

    def fits(self, index: int) -> None:
        """Raise where all other images of an index would be looked at.

        Args:
            index: how many images it has.

        Raises:
            HoldfastError: no more than k others.
        """
        # With the query's own image out, the last place would be found by anything
        if max(self.k) > index - 2:
            raise NotEnough(
                f"{part_name(self)}: expected k below the number of other images, {index - 1}, got {max(self.k)}; "
                "lower k or use more images"
            )

    def curve(self, most: int, recalls: Sequence[Recall], about: str, pursued: bool = False, title: str = "") -> Curves:
        """Return recall against k.

        Args:
            most: results there are.
            recalls: recall at k, of the first line, which is solid, and of the second, which is dashed.
            about: what the lines are.
            pursued: whether a search made recall low at each k; between them it did not.
            title: what is searched, where there are several such charts.
        """
        sought = tuple(sorted(k for k in self.k if k > 1)) if pursued else ()
        return Curves(
            heading="How many results must be looked at",
            how_to_read=(
                "The share of queries with a relevant image among the first so many results. A search that returns "
                "anything at random lies near 0 on the left. Bands are 95 % intervals at each number."
            ),
            title=title,
            lines=tuple(_line(own, min(FARTHEST, most), style) for own, style in zip(recalls, STYLES, strict=False)),
            across="results that are looked at",
            label="recall",
            unit="share",
            scale="log",
            marks=tuple(map(float, sought)),
            named=tuple(f"first {k}" for k in sought),
            summary=about,
            note=about,
        )


@dataclass(frozen=True)
class Searching(Recalling):
    """A measure of what a search in an index of clean images, the population, returns for disturbed ones.

    Attributes:
        relevant: what is searched for: "original", the image that was disturbed (known-item search); "class", the other
            images of its class, which reads labels; its own original is then not in the index.
        divergence: how representations are compared.
    """

    relevant: Literal["original", "class"] = "original"
    divergence: AnyDivergence = L2()

    def __post_init__(self) -> None:
        if self.relevant not in RELEVANT:
            raise unknown(f"relevant of {part_name(self)}", self.relevant, RELEVANT)
        super().__post_init__()

    @property
    def needs_labels(self) -> bool:
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

    def rank_results(self, subject: Subject, reps: Tensor, clean: Tensor) -> tuple[Ranks, Ranks]:
        """Return for each query the rank of the first relevant result, and its average precision.

        Where the original alone is relevant, the average precision is 1 / rank.

        Raises:
            HoldfastError: an index of no more than k others, all of which would be looked at; no labels.
        """
        self.fits(len(clean))
        own = torch.arange(len(reps))
        if self.relevant == "class":
            # With classes the own image is not in the index, and ties share one place
            return rank_queries(reps, clean, own, labels_of(subject), self.divergence)
        nearer, _ = pairwise.closer(reps, clean, own, self.divergence)
        # Only strictly nearer images come before the original
        rank = 1.0 + nearer.double()
        return rank, 1 / rank

    def columns(self, subject: Subject, clean: Tensor, known: Mapping[str, tuple[Ranks, Ranks, Tensor]]) -> Table:
        """Return the columns of some kinds of queries.

        A third column `parts` is what each image contributes to the mean average precision, as a query and as one that
        the index holds. With classes every image of the population has a row, NaN where it is no query. `population` is
        the size of the index.

        Args:
            subject: the encoder that was observed.
            clean: representations of the index.
            known: ranks, average precisions, and the representations that have them.
        """
        if self.relevant == "original":
            table = {f"rank@{query}": rank for query, (rank, _, _) in known.items()}
            table |= {f"precision@{query}": precision for query, (_, precision, _) in known.items()}
            for query, (_, precision, reps) in known.items():
                table[f"parts@{query}"] = contribute(precision, reps, clean, self.divergence)
            return table | {"population": torch.full_like(next(iter(table.values())), len(clean))}
        table, labels = {"population": torch.full((len(clean),), len(clean)).double()}, labels_of(subject)
        for query, (rank, precision, reps) in known.items():
            # How the mean changes where each image in turn is out of
            # the index, as one that is found
            removed = without(reps, clean, torch.arange(len(reps)), labels, self.divergence)
            # How it moves the mean as a query, 0 where it is none
            own = (
                pad_to_population(precision - precision.nanmean(), len(clean)).nan_to_num(0.0)
                / (~precision.isnan()).sum()
            )
            # The score plus N times both influences: values whose mean is the
            # score, and whose spread is its error
            parts = precision.nanmean() + len(clean) * (own - (removed - removed.mean()))
            rows = {
                "rank": pad_to_population(rank, len(clean)),
                "precision": pad_to_population(precision, len(clean)),
                "parts": parts,
            }
            table |= {f"{name}@{query}": values for name, values in rows.items()}
        return table

    def mean(self, table: Table, queries: Sequence[str]) -> Statistic:
        """Return the mean average precision, averaged over some kinds of queries."""
        # The value is a mean of precisions; the interval is of parts
        precision, parts = (self.average_queries(name, table, queries) for name in ("precision", "parts"))
        return DrawnMean(precision, parts, most=1.0)

    def average_queries(self, column: str, table: Table, queries: Sequence[str]) -> Float[Tensor, "rows"]:
        """Return the mean of a column over kinds of queries; of precisions, those that are defined."""
        values = torch.stack([table[f"{column}@{query}"] for query in queries]).mean(0)
        return values[~values.isnan()] if column == "precision" and self.relevant == "class" else values


def hits(ranks: Ranks, k: int) -> Float[Tensor, "images"]:
    """Return 1 where a relevant image is among the first k, NaN where there is none."""
    return (ranks <= k).double().masked_fill(ranks.isnan(), torch.nan)


def recall(ranks: Ranks, k: int) -> Statistic:
    """Return the share of queries with a relevant image among the first k; rows without one do not count."""
    return Share(hits(ranks, k), condition=CONDITION, among=~ranks.isnan())


def recall_over(ranks: list[Ranks], k: int) -> Statistic:
    """Return the mean over threats of that share."""
    shares = torch.stack([hits(values, k) for values in ranks]).mean(0)
    return Mean(shares, condition=CONDITION, most=1.0, among=~shares.isnan())


def _line(recall_at: Recall, most: int, style: Literal["solid", "dashed"]) -> Line:
    """Return recall against k with its intervals."""
    # Evenly on the logarithmic axis, each whole number once
    at = torch.logspace(0, torch.tensor(float(most)).log10().item(), 25).round().int().unique().tolist()
    scores = [recall_at(k).score() for k in at]
    ends = ([getattr(score, name) for score in scores] for name in ("value", "low", "high"))
    value, low, high = (numbers(torch.tensor([torch.nan if v is None else v for v in end])) for end in ends)
    return Line(tuple(map(float, at)), value, low, high, style=style)

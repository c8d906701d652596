"""Edited retrieval: what a search returns for images after everyday edits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Score, Subject, Table, Threat
from holdfast.core.chart import Chart
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.disturbed import AVERAGE, DisturbedMeasure
from holdfast.parts.measures.shared.edits import EDITS
from holdfast.parts.measures.shared.searching import Searching, recall, recall_over


@dataclass(frozen=True)
class EditedRetrieval(Searching, DisturbedMeasure):  # pyright: ignore[reportIncompatibleVariableOverride]
    """recall@k = 1/|D'| Σ_{x∈D'} 1[rank(c(x)) <= k] for each edit c, with the first k; their average is the headline.

    The index is the population of clean images. The mean over edits is told for the other k too, and as the mean
    reciprocal rank (with classes: the mean average precision). See `Retrieval`, of which this is the twin without an
    adversary.

    Table, one row per image: `rank@EDIT` of the first relevant result, `precision@EDIT`, its average precision,
    `found@EDIT`, 1 where the rank is k or less, and `found`, their mean; `population`, the size of the index. With
    classes as in `Retrieval`.
    """

    threats: tuple[Threat, ...] = EDITS

    per_image = "found"
    better = "higher"
    unit = "share"
    question = "How often does a search among clean images return the original of an edited copy?"
    how_to_read = (
        "90 % means that the original comes first for 9 copies in 10 (or among the first k, where the name begins with "
        "a k above 1). The mean reciprocal rank says how early it comes when it is not first."
    )
    reference = "known-item search with edited queries, as in Douze et al. (2021)"

    def __post_init__(self) -> None:
        Searching.__post_init__(self)
        DisturbedMeasure.__post_init__(self)

    def observe(self, subject: Subject) -> Table:
        """Return where every edited image finds what it was."""
        clean, disturbed = self.read_reps(subject)
        clean = clean.double()
        # Rank, precision and the representations that have them, for each edit
        known = {title: (*self.rank_results(subject, reps.double(), clean), reps) for title, reps in disturbed.items()}
        table = self.columns(subject, clean, known)
        found = {title: self._within(table[f"rank@{title}"], self.k[0]) for title in disturbed}
        return table | self.add_average(found)

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the recall under each edit, and the means over edits."""
        titles = self.corruptions
        reduced = {title: self.reduce_column(table, f"{self.per_image}@{title}") for title in titles}
        # The first k is the headline and comes last
        for k in self.k[1:]:
            reduced[f"{AVERAGE}, recall@{k}"] = recall_over([table[f"rank@{title}"] for title in titles], k)
        reduced[f"{AVERAGE}, {self.summary}"] = self.mean(table, titles)
        return reduced | {AVERAGE: self.reduce_column(table, self.per_image)}

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the recall at the first k under an edit, or the mean over edits."""
        if title := column.partition("@")[2]:
            return recall(table[f"rank@{title}"], self.k[0])
        return recall_over([table[f"rank@{title}"] for title in self.corruptions], self.k[0])

    @staticmethod
    def _within(ranks: Float[Tensor, "rows"], k: int) -> Float[Tensor, "rows"]:
        return (ranks <= k).double().masked_fill(ranks.isnan(), torch.nan)

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return recall against k, the mean over edits."""
        about = f"The mean over {len(self.corruptions)} edits."
        recalls = [partial(recall_over, [table[f"rank@{title}"] for title in self.corruptions])]
        return (self.curve(int(table["population"][0]) - 1, recalls, about),)

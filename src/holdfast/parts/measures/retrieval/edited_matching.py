"""Edited matching: whether an image still matches its original after everyday edits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch

from holdfast.core import Observation, Score, Subject, Table, Threat
from holdfast.core.chart import Chart
from holdfast.numerics import statistics
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.disturbed import DisturbedMeasure
from holdfast.parts.measures.shared.edits import EDITS
from holdfast.parts.measures.shared.matched import CONDITION, Matched, above


@dataclass(frozen=True)
class EditedMatching(Matched, DisturbedMeasure):  # pyright: ignore[reportIncompatibleVariableOverride]
    """missed = P[ d(f(c(x)), f(x)) >= t ] for each edit c, and their average.

    The twin of `Matching` without an adversary, with the same threshold: t is the smallest distance that more than
    `rate` of the pairs of different clean images reach, a plug-in estimate from the population, whose error is in the
    intervals.

    Table, one row per image of the population, NaN where it was not edited: `missed@EDIT`, 1 where the copy no longer
    matches; `missed`, their mean; `quantile@EDIT`, the share of the pairs at or below d(f(c(x)), f(x)); `near`, the
    share of an image's own pairs below the threshold; `threshold`, `allowed` and `pairs`.
    """

    threats: tuple[Threat, ...] = EDITS

    per_image = "missed"
    better = "lower"
    unit = "share"
    question = "At a copy-detection threshold, how often does an edited copy no longer match its original?"
    how_to_read = (
        "5 % means that one edited copy in 20 is not recognised. The note gives the threshold's false-positive rate "
        "among pairs of clean images."
    )
    reference = "copy detection at a false positive rate, as in Douze et al. (2021)"

    def __post_init__(self) -> None:
        Matched.__post_init__(self)
        DisturbedMeasure.__post_init__(self)

    def observations(self) -> tuple[Observation, ...]:
        """What the threshold is made of, and edited representations."""
        return *self.threshold_observations(), *self.representations.values()

    def observe(self, subject: Subject) -> Table:
        """Return which edited images no longer match."""
        clean, disturbed = self.read_reps(subject)
        # The same threshold for all edits; a distance is told by its
        # quantile among pairs of clean images
        quantiles, known = self.compute_quantiles(subject, [(reps, clean[: len(reps)]) for reps in disturbed.values()])
        placed = dict(zip(disturbed, quantiles, strict=True))
        missed = self.add_average({title: above(values, self.level) for title, values in placed.items()})
        return missed | {f"quantile@{title}": values for title, values in placed.items()} | known

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the share that an edit takes from its match, or the mean over edits."""
        titles = self.corruptions if column == self.per_image else (column.partition("@")[2],)
        columns = [table[f"quantile@{title}"] for title in titles]
        # One edit is a yes or no for each image, the mean over several is not
        reduce = statistics.share if len(titles) == 1 else partial(statistics.mean, most=1.0)
        # Rows of images that were not edited are NaN; they take part in the threshold only
        edited = ~table[column].isnan()
        return self.at_rate(
            table,
            # The mean over edits as a function of the rate: the threshold moves all of them together
            lambda rate: torch.stack([above(values, rate) for values in columns]).mean(0),
            lambda values: reduce(values[edited], condition=CONDITION),
        )

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return none: the scores of each edit stand in their own table."""
        return ()

"""Naive overstatement: how much farther an attack gets that knows what is random in an encoder."""

from dataclasses import dataclass

import torch

from holdfast.core import Observation, Search, Subject, Table
from holdfast.core.divergence import require_distance
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.numerics.statistics.universal import pad_to_population
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.measures.shared.usual_distance import UNIT, InUnits, usual_distance
from holdfast.parts.observations.naively_attacked import NaivelyAttacked
from holdfast.parts.observations.shared.worst import worst

POINTS = 2000
"""Images, the first ones, of whose distances the unit is the median."""


@dataclass(frozen=True)
class NaiveOverstatement(AttackMeasure):
    """(d(f(x̂), f(x)) - d(f(x̂ₙ), f(x))) / median of d(f(x'), f(x'')) over pairs of images; the score is the mean.

    x̂ is found by an attack that averages k fresh draws in every pass and passes gradients straight through steps that
    have none; x̂ₙ by the same attack from the same start with one draw in each pass, and without such gradients. Both
    are judged by the same draws, which neither has seen. For an encoder without either it is 0. The median is over the
    first 2,000 images; its error is in the intervals, see `usual_distance`.

    Table, one row per image of the population, NaN where it was not attacked: `adaptive@STEP` and `naive@STEP`, the two
    drifts in units of the median, and `overstated@STEP`, their difference; `unit` and `unit moved by`.
    """

    per_image = "overstated"
    statistic = "mean"
    condition = "paired by image"
    better = "lower"
    unit = "ratio"
    question = "By how much does an attack that ignores an encoder's randomness overstate how well it holds?"
    how_to_read = (
        "At 0.3 the adaptive attack moves images farther than the naive one by 0.3 of the usual distance between two "
        "images. At 0 the naive attack would have done. Below 0 it did better: the adaptive one needs more steps."
    )
    reference = "Athalye et al. (2018)"

    @property
    def naive(self) -> tuple[NaivelyAttacked, ...]:
        """The trajectories of the naive attack."""
        # The same attack, ball and objective, so that nothing but the
        # knowledge of the randomness differs
        return tuple(NaivelyAttacked(t.attack, t.ball, t.objective, t.readouts) for t in self.trajectories)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and the trajectories of both attacks."""
        return *super().observations(), *self.naive

    def __post_init__(self) -> None:
        super().__post_init__()
        require_distance(self.divergence, "naive_overstatement")

    def observe(self, subject: Subject) -> Table:
        """Return both drifts of every attacked image, and their difference."""
        clean, adaptive = self.reps(subject)
        # Both are judged by the encoder's own draws
        naive = worst(subject, self.attack, self.naive)
        distance, points = self.divergence, clean[:POINTS]
        # One unit for both drifts, so that its error cannot make a difference where there is none
        table = usual_distance(points, torch.arange(len(points)), len(clean), self.divergence)
        for step in adaptive:
            drifts = {"adaptive": adaptive[step], "naive": naive[step]}
            rows = {name: distance(reps, clean[: len(reps)]) / table[UNIT][0] for name, reps in drifts.items()}
            # Paired by image: what makes an image easy to move is in both
            rows["overstated"] = rows["adaptive"] - rows["naive"]
            table |= {f"{name}@{step}": pad_to_population(row, len(clean)) for name, row in rows.items()}
        return table

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the mean drift of both attacks at the last read-out, then the mean difference at every read-out."""
        drifts = {f"{name} attack": InUnits(table, f"{name}@{self.steps[-1]}") for name in ("naive", "adaptive")}
        return drifts | super().reduce(table)

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the mean over images, in units of the usual distance."""
        return InUnits(table, column, self.condition)

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the adaptive search; the naive one is as weak as it is meant to be."""
        return () if score == "naive attack" else self.searches

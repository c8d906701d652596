"""Alignment: how near the representations of two views of one image are."""

from dataclasses import dataclass

from holdfast.core import Subject, Table, Threat
from holdfast.numerics.geometry import feature_space
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.measures.shared.disturbed import DisturbedMeasure
from holdfast.parts.threats.brightness import Brightness
from holdfast.parts.threats.contrast import Contrast
from holdfast.parts.threats.rotation import Rotation
from holdfast.parts.threats.translation import Translation
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Alignment(DisturbedMeasure):
    """E ||z - z'||^α with z = f(x) / ||f(x)|| and z' that of a view of x, for each kind of view.

    Table, one row per image: `distance@TITLE` for each kind of view, `distance`, their mean.

    Attributes:
        threats: what makes the other view; by default random changes of the kind that contrastive training uses.
        alpha: α, 2 as usual.
    """

    invariant = DIRECTIONS

    threats: tuple[Threat, ...] = (Translation(), Rotation(), Brightness(), Contrast())
    alpha: float = 2.0

    per_image = "distance"
    better = "lower"
    unit = "ratio"
    question = "How close are the representations of two views of one image?"
    how_to_read = (
        "0 means that the representation ignores the difference between the views, 2 that the two are orthogonal. A "
        "constant encoder also scores 0, so read it beside uniformity."
    )
    reference = "Wang & Isola (2020)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.alpha < float("inf"):
            raise BadValue(f"alignment: expected alpha > 0, got {self.alpha}; 2 is usual")

    def observe(self, subject: Subject) -> Table:
        """Return the distance of every image's views."""
        clean, disturbed = self.read_reps(subject)
        return self.add_average(
            {title: feature_space.alignment(reps, clean[: len(reps)], self.alpha) for title, reps in disturbed.items()}
        )

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the mean distance."""
        # Unit vectors are at most 2 apart, so no value is above 2^α
        return Mean(table[column], most=2**self.alpha)

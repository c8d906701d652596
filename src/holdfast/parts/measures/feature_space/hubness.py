"""Hubness: whether a few images stand in the lists of neighbours of many others."""

from dataclasses import dataclass

from holdfast.core import AnyDivergence, Subject, Table
from holdfast.numerics.geometry.hubs import hubness, occurrences
from holdfast.numerics.geometry.neighbour_lists import neighbour_lists
from holdfast.numerics.statistics import jackknife
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.shape import ShapeMeasure
from holdfast.parts.observations.clean import Clean
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue, NotEnough


@dataclass(frozen=True)
class Hubness(ShapeMeasure):
    """min_t ( top N t + Σ_i (N_i - t)⁺ ) / (k N), the share of all places in lists that the top share of images holds.

    N_i is in how many lists of the k nearest others image i stands; the minimum is at the count of the last hub. Beside
    it the share of images that no list holds.

    Table, one row per image: `lists`, N_i; `hubs` and `in no list`, what it contributes to both.

    Attributes:
        k: neighbours in a list.
        top: the share of images that count as hubs.
        divergence: by what images are near.
    """

    k: Count = 10
    top: float = 0.01
    divergence: AnyDivergence = L2()

    better = "lower"
    unit = "share"
    question = "Do a few images stand in the lists of neighbours of many others?"
    how_to_read = (
        "The share `top` itself (1 %) where all images are found alike. Hubs are found whatever is searched, and an "
        "image in no list is hardly ever found. Both grow with the number of images and of dimensions, so compare "
        "encoders on the same images."
    )
    reference = "Radovanović et al. (2010)"

    def __post_init__(self) -> None:
        if not 0 < self.top < 1:
            raise BadValue(f"hubness: top: expected a share of the images in (0, 1), got {self.top:g}")

    @property
    def column(self) -> str:
        """What each image contributes to the share that hubs hold."""
        return "hubs"

    def observe(self, subject: Subject) -> Table:
        """Return what every image contributes, and in how many lists it stands.

        Raises:
            HoldfastError: too few images for lists of k others and one more.
        """
        reps = Clean.of(subject)
        if len(reps) < self.k + 2:
            raise NotEnough(
                f"hubness: expected at least {self.k + 2} images, for lists of {self.k} neighbours, got {len(reps)}; "
                "take more images, or a smaller k"
            )
        # One place more, for who comes in where somebody is left out
        lists = neighbour_lists(reps, self.k + 1, self.divergence)
        table, found = {"lists": occurrences(lists[:, : self.k]).double()}, hubness(lists, self.top)
        for column, name in (("in no list", "antihubs"), ("hubs", "hubs")):
            kept = found[name]
            value = float(kept.values.double().mean())
            # Contributions by the jackknife, so that a plain mean gives the score and its interval
            table[column] = jackknife.of_function(value, kept.without[0].double())
        return table

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the share of images in no list, and the share of places that hubs hold."""
        return {name: self.mean(table[name]) for name in ("in no list", "hubs")}

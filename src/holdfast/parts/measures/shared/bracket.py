"""What the measures that give two answers to one question have in common: what an attack found, what is proved."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Ball, Divergence, Measure, Score, Search, Subject, Table
from holdfast.core.divergence import require
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.numerics.geometry.negatives import negatives_of
from holdfast.numerics.statistics import drawn_pairs, universal
from holdfast.numerics.statistics.drawn_pairs import DrawnMean
from holdfast.numerics.statistics.statistic import Mean, Median, Share, Statistic
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import Failed


@dataclass(frozen=True)
class Bracket(Measure):
    """A measure whose true value, for the strongest possible adversary, lies between two numbers.

    A table holds a column for each side, `attack` and `certificate`, about the same images and the same pairs; for
    each image the certificate is never on the better side of the attack, or `observe` raises. Both scores are estimates
    with intervals of their own: the interval says how well the images represent others, the bracket what is not known
    about these images.

    Attributes:
        certifier: how to bound.
        ball: where x' may be, in pixels of a [0, 1] image.
        first: certify only the first images; None: all that the audit attacks.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf(0.05)
    first: Count | None = field(default=None, kw_only=True)

    statistic: ClassVar[Literal["mean", "share", "median"]] = "mean"
    condition: ClassVar[str] = ""
    most: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        if isinstance(divergence := getattr(self, "divergence", None), Divergence):
            require(divergence, LinearDivergence, f"divergence of {type(self).__name__}")
        for needed in self.observations():
            needed.key()  # builds them, which refuses what they cannot do

    @property
    def column(self) -> str:
        """The certificate's."""
        return "certificate"

    @abstractmethod
    def remarks(self, table: Table) -> str:
        """Return what a reader of the certificate must know, such as how much is vacuous."""

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the searches for the attack's side; nothing else relies on one."""
        return super().relies_on(score) if "attack" in score else ()

    def count_images(self, subject: Subject) -> int:
        """Return how many images both sides are about."""
        return min(self.first or subject.attacked, subject.attacked)

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return both sides; the certificate is the headline."""

        def remark(certificate: Score) -> Score:
            return replace(certificate, note="; ".join(filter(None, [self.remarks(table), certificate.note])))

        # The certificate comes last: it is the headline, and does not
        # rely on how strong a search was
        attack, certificate = (self.reduce_column(table, side) for side in ("attack", "certificate"))
        return {"attack": attack, "certificate": certificate.restate(remark)}

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the `statistic` of a column."""
        # Both images of a pair are one unit
        values, pair = table[column], table.get("pair")
        match self.statistic:
            case "median":
                return Median(values, pair, self.condition)
            case "share":
                return Share(values, pair, self.condition)
            # Images are drawn negatives of others as well, and count in that role too
            case "mean" if (parts := table.get(f"{column} contributes")) is not None:
                return DrawnMean(values, parts, self.condition, self.most)
            case "mean":
                return Mean(values, pair, self.condition, self.most)


def in_order(
    ids: Sequence[str],
    proved: Float[Tensor, "*rows"],
    attacked: Float[Tensor, "*rows"],
    rounding: Float[Tensor, "*rows"] | float,
) -> None:
    """Make sure that nothing was found below what is proved; rows are images.

    Args:
        ids: names of the images.
        proved: lower bounds.
        attacked: values of real images of the ball.
        rounding: by how much float32 may have moved what was found.

    Raises:
        HoldfastError: a bound that an attack refutes. One of the two is wrong, so neither may be reported.
    """
    # Proofs are lower bounds, so none may lie above the value at a real image of the ball
    wrong = (proved > attacked + rounding).flatten(1).any(1) if proved.ndim > 1 else proved > attacked + rounding
    if wrong.any():
        image = int(wrong.nonzero()[0])
        gap = float((proved - attacked)[image].max())
        raise Failed(
            f"the certificate of image {ids[image]!r} (and {int(wrong.sum()) - 1} more) is refuted: "
            f"what is proved lies {gap:.3g} above what an attack found; this is a fault of Holdfast or of an encoder "
            "that gives other numbers in batches of another size: please report it"
        )


def in_both_roles(subject: Subject, table: Table, pairs: Mapping[str, Float[Tensor, "images negatives"]]) -> Table:
    """Return a table with one row per image of the population, and what each contributes to the means of some columns.

    Args:
        subject: whose negatives were drawn.
        table: one row per image that has negatives.
        pairs: the values of columns, image by image and negative by negative.
    """
    population = subject.population
    parts: Table = {}
    for name, values in pairs.items():
        images, count = values.shape
        # Drawn again from seed and ids, and not stored: the same that the observations drew
        negatives = negatives_of(subject.seed, tuple(subject.ids[:images]), population, count)
        parts[f"{name} contributes"] = drawn_pairs.contributions(values, negatives, population)
    return {name: universal.pad_to_population(values, population) for name, values in table.items()} | parts


def format_share(share: Mapping[str, Tensor], column: str, words: str) -> str:
    """Return "12 % of the pairs vacuous", or nothing where there are none."""
    value = float(share[column].nanmean())
    return f"{100 * value:.3g} % {words}" if value > 0 else ""

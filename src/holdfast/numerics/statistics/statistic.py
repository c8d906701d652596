"""A statistic: a number with its interval, and what each unit moves it by, said in one place so that they agree."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.numerics import statistics
from holdfast.numerics.statistics.rows import distinct
from holdfast.numerics.statistics.score import Score

Influence = Float[Tensor, "units"]


class Statistic(ABC):
    """A number with its interval, and the influence of each unit on it; neither is worked out before it is asked for.

    Example:
        >>> held = Share(torch.tensor([1.0, 1.0, 0.0, 1.0]))
        >>> held.score().value, held.influence().tolist()
        (0.75, [0.25, 0.25, -0.75, 0.25])
    """

    @abstractmethod
    def score(self) -> Score:
        """Return the number with its interval."""

    @abstractmethod
    def influence(self) -> Influence:
        """Return each independent unit's influence on the number, up to a factor; 0 of one that takes no part.

        The correlation of two encoders' influences on the same images is what a paired comparison gains. The factor is
        the same for all means and shares of the same units, so that the influence on a difference is the difference.
        """

    def restate(self, change: Callable[[Score], Score]) -> "Statistic":
        """Return a statistic whose score is told in another way, in another unit or with a note.

        Args:
            change: makes another score of ours; its value rises with ours, or falls with it, of every encoder alike.

        Example:
            >>> from dataclasses import replace
            >>> Mean(torch.arange(9.0)).restate(lambda score: replace(score, note="of nine")).score().note
            'of nine'
        """
        # How a number is told changes nothing of who moves it
        return Composed(lambda: change(self.score()), self.influence)

    def say(self, unit: str = "", better: Literal["", "lower", "higher", "neither"] = "") -> "Statistic":
        """Return a statistic whose score says what is not as its measure has it.

        Args:
            unit: "share", "ratio", "similarity" or "pixels".
            better: which direction is more robust; "neither" of what describes and does not judge.

        Example:
            >>> Share(torch.tensor([0.0, 1.0])).say(better="lower").score().better
            'lower'
        """
        return self.restate(lambda score: replace(score, unit=unit or score.unit, better=better or score.better))


@dataclass(frozen=True, eq=False)
class Composed(Statistic):
    """A statistic of a kind of its own.

    Attributes:
        of: makes the score.
        moved: makes the influences.
    """

    of: Callable[[], Score]
    moved: Callable[[], Influence]

    def score(self) -> Score:
        """Return what `of` makes."""
        return self.of()

    def influence(self) -> Influence:
        """Return what `moved` makes."""
        return self.moved()


@dataclass(frozen=True, eq=False)
class Fixed(Statistic):
    """A number that no image moves: it was given, or learned elsewhere.

    Attributes:
        number: as a score without an interval.
    """

    number: Score

    def score(self) -> Score:
        """Return the number."""
        return self.number

    def influence(self) -> Influence:
        """Return zeros."""
        # Nothing that other images could change, so a difference keeps the whole interval
        return torch.zeros(self.number.n, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class OfRows(Statistic):
    """A statistic of one number per row.

    Attributes:
        values: NaN where undefined.
        units: which rows belong together; None where rows are independent.
        condition: what the interval is conditional on.
        among: rows that take part; None: all. Others are not counted as left out.
    """

    values: Float[Tensor, "rows"]
    units: Int[Tensor, "rows"] | None = None
    condition: str = ""
    among: Bool[Tensor, "rows"] | None = field(default=None, kw_only=True)

    def moves(self, values: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """Return the influence of each row: how far it is from the mean, unless said; 0 where undefined."""
        return statistics.influence_of_mean(values)

    def select(self) -> tuple[Float[Tensor, "some"], Int[Tensor, "some"] | None]:
        """Return the rows that take part, and their units."""
        if self.among is None:
            return self.values, self.units
        return self.values[self.among], None if self.units is None else self.units[self.among]

    def influence(self) -> Influence:
        """Return the influence of each row, or of each unit by all of its rows."""
        # One for every row, so that those of two encoders belong to the same images
        values, moved = self.values.double(), torch.zeros(len(self.values), dtype=torch.float64)
        chosen = slice(None) if self.among is None else self.among
        moved[chosen] = self.moves(values[chosen])
        # A unit of several rows moves a mean of rows by the mean of what they move, not by their sum
        return moved if self.units is None else statistics.by_unit(moved, self.units) * _share_of_units(self.units)


def _share_of_units(units: Int[Tensor, "rows"]) -> float:
    return distinct(units) / max(len(units), 1)


@dataclass(frozen=True, eq=False)
class Mean(OfRows):
    """The mean of non-negative values, see `statistics.mean`.

    Attributes:
        most: the largest value possible, where there is one.
    """

    most: float | None = None

    def score(self) -> Score:
        """Return the mean."""
        # Undefined rows that take part are left out there, and counted in the note
        values, units = self.select()
        return statistics.mean(values, units, self.condition, most=self.most)


@dataclass(frozen=True, eq=False)
class Share(OfRows):
    """The share of rows that are 1, the others being 0, see `statistics.share`."""

    def score(self) -> Score:
        """Return the share."""
        values, units = self.select()
        return statistics.share(values, units, self.condition)


@dataclass(frozen=True, eq=False)
class ShareOfDraws(OfRows):
    """The mean of shares, each of so many draws of one image, see `statistics.share_of_draws`.

    Attributes:
        draws: how many of each image.
    """

    draws: int = field(kw_only=True)

    def score(self) -> Score:
        """Return the mean."""
        values, _ = self.select()
        return statistics.share_of_draws(values, self.draws, self.condition)


@dataclass(frozen=True, eq=False)
class Median(OfRows):
    """The median, see `statistics.median`."""

    def score(self) -> Score:
        """Return the median."""
        values, units = self.select()
        return statistics.median(values, units, self.condition)

    def moves(self, values: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """Return on which side of the median each value lies."""
        return statistics.influence_of_median(values)


@dataclass(frozen=True, eq=False)
class PairMean(Statistic):
    """The mean over ordered pairs of images, which are in both places of a pair, see `statistics.pair_mean`.

    Attributes:
        rows: the mean over the pairs in which an image is first, [N]; NaN where it is in none.
        columns: the same where it is second.
    """

    rows: Float[Tensor, "images"]
    columns: Float[Tensor, "images"]

    def score(self) -> Score:
        """Return the mean."""
        return statistics.pair_mean(self.rows, self.columns)

    def influence(self) -> Influence:
        """Return the influence of each image in both places."""
        return statistics.influence_of_pair_mean(self.rows, self.columns)


@dataclass(frozen=True, eq=False)
class Difference(Statistic):
    """The difference of two statistics of the same units, first - second, see `statistics.difference`.

    Attributes:
        first: the minuend.
        second: the subtrahend.
    """

    first: Statistic
    second: Statistic

    def score(self) -> Score:
        """Return the difference with its paired interval."""
        # Errors of the same units go together, which makes their difference surer than either
        rho = statistics.correlation(self.first.influence(), self.second.influence())
        return statistics.difference(self.first.score(), self.second.score(), rho)

    def influence(self) -> Influence:
        """Return the difference of the influences."""
        return self.first.influence().double() - self.second.influence().double()

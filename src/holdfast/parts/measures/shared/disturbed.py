"""What the measures that look at images under several threats have in common."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Measure, Observation, Subject, Table, Threat
from holdfast.core.registry import part_name
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.represented import Represented
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.parts.threats.local_shuffle import LocalShuffle
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue

SIX: tuple[Threat, ...] = (
    Gamma(0.2),
    Gamma(5.0),
    GlobalShuffle(grid=4),
    GlobalShuffle(cell=4),
    LocalShuffle(grid=4),
    LocalShuffle(cell=4),
)
"""The corruptions of the paper's Table 1: 4 x 4 cells, and cells of 4 x 4 pixels."""

AVERAGE = "average"
"""The score over all threats, the headline."""


def index_by_title(measure: Measure, threats: tuple[Threat, ...]) -> dict[str, Threat]:
    """Return the threats of a measure by their titles.

    Raises:
        HoldfastError: none, something else, or one of them twice.
    """
    if not threats or not all(isinstance(threat, Threat) for threat in threats):
        raise BadValue(f"{part_name(measure)}: threats: expected one threat or more, got {threats!r}")
    titles = [threat.title for threat in threats]
    if len(set(titles)) < len(titles) or AVERAGE in titles:
        raise BadValue(f"{part_name(measure)}: threats: expected each once, got {', '.join(titles)}")
    return dict(zip(titles, threats, strict=True))


@dataclass(frozen=True)
class DisturbedMeasure(Measure):
    """A measure that compares images under threats with the images themselves.

    A subclass fills a table with one column `per_image`@TITLE for each threat and their average `per_image`, and
    reduces both in the same way, by `reduce_column`.

    Attributes:
        threats: what befalls the images, one after the other; of a noise, one draw for each image.
        first: how many images; None: all that the audit attacks.
    """

    threats: tuple[Threat, ...] = SIX
    first: Count | None = None

    per_image: ClassVar[str]

    def __post_init__(self) -> None:
        index_by_title(self, self.threats)

    @property
    def corruptions(self) -> tuple[str, ...]:
        """The threats by their titles."""
        return tuple(index_by_title(self, self.threats))

    @property
    def representations(self) -> dict[str, Represented]:
        """The disturbed images that it reads, by the title of their threat."""
        return {
            title: Represented(threat=t, first=self.first) for title, t in index_by_title(self, self.threats).items()
        }

    @property
    def column(self) -> str:
        """The average over the threats."""
        return self.per_image

    def observations(self) -> tuple[Observation, ...]:
        """Clean and disturbed representations."""
        return Clean(), *self.representations.values()

    def read_reps(self, subject: Subject) -> tuple[Tensor, dict[str, Tensor]]:
        """Return clean representations of the population, [N, D], and disturbed ones of each threat, [M, D]."""
        return Clean.of(subject), {t: subject.read(o)["reps"] for t, o in self.representations.items()}

    def add_average(self, columns: dict[str, Float[Tensor, "images"]]) -> Table:
        """Return the table of some columns, one for each threat, and their average."""
        average = sum(columns.values()) / len(columns)
        assert isinstance(average, Tensor)
        return {f"{self.per_image}@{title}": values for title, values in columns.items()} | {self.per_image: average}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the statistic of each threat's column, and the headline: of the average over all."""
        columns = {title: f"{self.per_image}@{title}" for title in self.corruptions}
        # Of one threat the average would say the same again
        headline = {AVERAGE: self.per_image} if len(columns) > 1 else {}
        return {title: self.reduce_column(table, column) for title, column in (columns | headline).items()}

    @abstractmethod
    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the statistic of a column."""

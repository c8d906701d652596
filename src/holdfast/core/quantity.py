"""Quantities: what is asked of an image that something befell, whatever that was."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from holdfast.core.observation import Observation
from holdfast.core.registry import part_name
from holdfast.core.subject import Subject
from holdfast.numerics.shapes import Table
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.runtime.checked import Checked

Moved = Mapping[str, Float[Tensor, "images dim"]]
"""What something is called that befell images -> the representations of the first images of the population then."""


class Quantity(metaclass=Checked):
    """What is asked of an image that something befell; a frozen dataclass whose fields are its parameters.

    It sees representations alone, so it is the same of attacked, corrupted and noisy images: a quantity is a row of the
    table of measures, a `Disturbance` one of its columns, and the measure `under` any cell.

    Attributes:
        per_image: the column of its values.
        better: which direction is more robust.
        unit: of the score.
        question: what it asks, in one sentence, of "a disturbed image".
        how_to_read: what its values mean.
        reference: where it is defined.
        invariant: which changes of the representation change none of its numbers, see `Measure.invariant`.
        needs_labels: whether it reads labels; an audit of images without labels then refuses to start.
    """

    per_image: ClassVar[str]
    better: ClassVar[Literal["lower", "higher"]]
    unit: ClassVar[Literal["share", "ratio", "similarity", "pixels"]]
    question: ClassVar[str]
    how_to_read: ClassVar[str]
    reference: ClassVar[str]
    invariant: ClassVar[frozenset[str] | None] = None
    needs_labels: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """What people call it: the words of its name, where it does not say."""
        return part_name(self).replace("_", " ").capitalize()

    def observations(self) -> tuple[Observation, ...]:
        """Return what must be observed, beside the images before and after: nothing for most."""
        return ()

    @abstractmethod
    def observe(self, subject: Subject, clean: Float[Tensor, "population dim"], moved: Moved) -> Table:
        """Map: the columns of each disturbance, `per_image`@NAME among them; no encoder pass.

        Args:
            subject: the encoder that was observed.
            clean: representations of the population.
            moved: those of its first images after each disturbance.

        Raises:
            HoldfastError: images of which it cannot be asked.
        """

    @abstractmethod
    def reduce(self, table: Table, name: str) -> Statistic:
        """Reduce: the statistic of one disturbance.

        Args:
            table: what it observed.
            name: what the disturbance is called.
        """

    def pairs(self, images: int) -> int:
        """Return how many pairs of clean representations it compares, where these cost time; 0 for most.

        Args:
            images: of the population.
        """
        return 0

"""Disturbances: what befalls images before a quantity is asked of them."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from holdfast.core.observation import Observation, Search
from holdfast.core.registry import part_name
from holdfast.core.subject import Subject
from holdfast.runtime.checked import Checked, Count


@dataclass(frozen=True)
class Disturbance(metaclass=Checked):
    """What befalls images, and how they are then represented; a frozen dataclass whose fields are its parameters.

    It gives representations alone, so every quantity can be asked of them: it is a column of the table of measures, and
    the measure `under` any cell.

    Attributes:
        first: how many images are disturbed; None: all that the audit attacks.
        note: what a score must say of it; "" for most.
    """

    first: Count | None = None

    note: ClassVar[str] = ""

    @property
    def label(self) -> str:
        """What stands behind "under": its name, as it is written in commands."""
        return part_name(self)

    @property
    @abstractmethod
    def title(self) -> str:
        """What befalls the images, in a few words, as the end of "drift under …"."""

    @property
    def name(self) -> str:
        """What it is called in tables and among scores."""
        return self.title

    @property
    def clause(self) -> str:
        """What befell a disturbed image, as the beginning of a question."""
        return self.title

    @property
    def searches(self) -> tuple[Search, ...]:
        """The searches of the audited encoder that its images rely on; none where nothing is searched."""
        return ()

    @abstractmethod
    def observations(self) -> tuple[Observation, ...]:
        """Return what must be observed, beside clean representations; the last one sees the disturbed images."""

    def represent(self, subject: Subject) -> Float[Tensor, "images dim"]:
        """Return the representations of the first images of the population then, in float64; no encoder pass.

        Args:
            subject: the encoder that was observed; the last of the observations has `reps` of it, unless said.
        """
        return subject.read(self.observations()[-1])["reps"].double()

"""Pre-training methods: what an encoder learns from."""

from abc import abstractmethod
from dataclasses import dataclass

from holdfast.core.encoder import Encoder
from holdfast.core.student import Student
from holdfast.runtime.checked import Checked


@dataclass(frozen=True)
class Facts:
    """What a method may know before it begins.

    Attributes:
        dim: size of the representation.
        images: how many images it learns from.
        classes: how many classes they have; None where labels are not known.
        shape: (channels, height, width) of each; None where that is not known.
    """

    dim: int
    images: int
    classes: int | None = None
    shape: tuple[int, int, int] | None = None


class Method(metaclass=Checked):
    """What an encoder learns from: a frozen dataclass of hyper-parameters, one file each.

    Attributes:
        needs_labels: whether it reads labels.
        least: the smallest batch that has a loss.
    """

    needs_labels: bool = False
    least: int = 2

    def fingerprints(self) -> list[str]:
        """Return those of what it learns from beside the images: another encoder's weights."""
        return []

    @abstractmethod
    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """The network that is trained: the encoder with its heads.

        Raises:
            HoldfastError: an encoder or data that the method cannot train on.
        """

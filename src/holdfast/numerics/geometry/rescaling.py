"""Rescaling: distances measured by how near an item is to everybody, so that hubs come less often first."""

from abc import abstractmethod
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from holdfast.runtime.checked import Checked

Local = Float[Tensor, "*items numbers"]


class Rescaling(metaclass=Checked):
    """A distance between a query and an item that knows how far each of both is from the images around it.

    d'(q, z) = g(d(q, z), a_q, a_z): a is what `local` makes of the distances of an image from the others of the index.
    A frozen dataclass.

    Attributes:
        title: what people call it.
        plain: whether it leaves distances as they are, so that nothing need be known of images.
        near: whether `local` reads the nearest images alone, and not all of them.
    """

    title: ClassVar[str] = ""
    plain: ClassVar[bool] = False
    near: ClassVar[bool] = True

    @abstractmethod
    def local(self, distances: Float[Tensor, "*items others"]) -> Local:
        """Return what is known of an image by its distances from the others, differentiable."""

    @abstractmethod
    def __call__(self, apart: Float[Tensor, "*pairs"], query: Local, item: Local) -> Float[Tensor, "*pairs"]:
        """Return the distance d', the smaller the nearer; all three broadcast, but for the numbers of `local`."""

"""What bounds ask of a ball: its box, its support function, and the point of it that is farthest along a gradient."""

from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from holdfast.numerics.bounds.box import Box


@runtime_checkable
class Ball(Protocol):
    """Every ball of `holdfast.core` is one.

    Attributes:
        is_box: whether it is its own box.
    """

    is_box: ClassVar[bool]

    def box(self, x: Tensor, radii: Tensor) -> Box:
        """Return the lowest and the highest value of every pixel of balls of some radii around images, [B, C, H, W]."""
        ...

    def least_on(self, slopes: Tensor, x: Tensor, box: Box, radii: Tensor, shape: tuple[int, int, int]) -> Tensor:
        """Return the minimum of linear functions of the pixels of windows of images of a shape."""
        ...

    def ascend(self, gradient: Tensor) -> Tensor:
        """Return the step of radius 1 along which a linear function rises most."""
        ...

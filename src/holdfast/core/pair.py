"""Two encoders of the same images as one, for what is asked of both together."""

from collections.abc import Callable

import torch
from torch import nn

from holdfast.core.encoder import Encoder, Passes
from holdfast.numerics.shapes import Images, Reps
from holdfast.runtime.errors import Unsupported


def refuse_draws(encoder: Encoder) -> None:
    """Refuse a mean over draws, whose searches would see other draws than its own."""
    if encoder.draws is not None:
        raise Unsupported(
            f"encoder {encoder.name!r}: expected one without random numbers, got the mean of {encoder.draws} "
            "draws; switch them off and leave draws out"
        )


class Member(Encoder):
    """One of two encoders: the same network, whose passes are counted for both together as well as for itself.

    Args:
        encoder: the encoder.
        tell: told of its passes.

    Raises:
        HoldfastError: a mean over draws, whose searches would see other draws than its own.
    """

    def __init__(self, encoder: Encoder, tell: Callable[[Passes], object]):
        refuse_draws(encoder)
        super().__init__(
            encoder.module,
            mean=encoder.mean,
            std=encoder.std,
            geometry=encoder.geometry,
            name=encoder.name,
            origin=encoder.origin,
            root=encoder.root,
            grid=encoder.grid,
        )
        self._tell = tell
        self.to(encoder.device)

    def count(self, passes: Passes) -> None:
        """Count passes, and tell of them."""
        super().count(passes)
        self._tell(passes)


class Pair(Encoder):
    """f(x) = [g(x), h(x)], the vectors of two encoders in a row; its passes are those of both.

    Args:
        first: the one encoder.
        second: the other one.
        widths: how many numbers the vectors of each have.

    Attributes:
        sides: both.
        widths: the same.

    Example:
        >>> double = Encoder(nn.Flatten(), mean=0, std=0.5)
        >>> pair = Pair(Encoder(nn.Flatten(), mean=0, std=1), double, (2, 2))
        >>> pair(torch.full((1, 1, 1, 2), 0.5)).tolist(), pair.passes.forward, double.passes.forward
        ([[0.5, 0.5, 1.0, 1.0]], 2, 0)
    """

    def __init__(self, first: Encoder, second: Encoder, widths: tuple[int, int]):
        # Sides tell of passes only once they are made
        sides = Member(first, self._count_side), Member(second, self._count_side)
        origin = {
            f"{place}, {key}": value
            for place, side in zip(("first", "second"), sides, strict=True)
            for key, value in side.origin.items()
        }
        name = f"{first.name} and {second.name}"
        super().__init__(nn.ModuleList(sides), mean=0.0, std=1.0, geometry=first.geometry, name=name, origin=origin)
        self.sides, self.widths = sides, widths

    def _count_side(self, passes: Passes) -> None:
        self.count(passes)

    def forward(self, x: Images) -> Reps:
        """Map pixels to both vectors; each side counts its own pass."""
        return torch.cat([side(x) for side in self.sides], 1)

    @property
    def differentiable(self) -> bool:
        """Whether a gradient comes back to the pixels through one of them."""
        return any(side.differentiable for side in self.sides)

"""The grid of a dense encoder: how its representation is made of the tokens of patches."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast.runtime.checked import Checked, Count
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Grid(metaclass=Checked):
    """Patches in rows and columns, with a token of `dim` numbers each.

    The representation of an image is one row of D = rows · columns · dim numbers: token after token, each whole, from
    left to right and from top to bottom.

    Attributes:
        rows: of patches, from top to bottom.
        columns: of patches, from left to right.
        dim: numbers in a token.

    Raises:
        HoldfastError: numbers below 1, or a single patch, which has no others to be compared with.

    Example:
        >>> grid = Grid(rows=2, columns=3, dim=4)
        >>> grid.tokens(torch.zeros(5, 24)).shape
        torch.Size([5, 6, 4])
        >>> grid.in_words
        '2 × 3 patches of 4 numbers'
    """

    rows: Count
    columns: Count
    dim: Count

    def __post_init__(self) -> None:
        if self.patches < 2:
            raise BadValue(
                f"grid of patches: expected 2 patches or more, got {self.in_words}; take a layer with more positions"
            )

    @property
    def patches(self) -> int:
        """How many there are."""
        return self.rows * self.columns

    @property
    def size(self) -> int:
        """Numbers in a representation, D."""
        return self.patches * self.dim

    @property
    def in_words(self) -> str:
        """What it is, such as "14 × 14 patches of 768 numbers"."""
        return f"{self.rows} × {self.columns} patches of {self.dim} numbers"

    def tokens(self, reps: Float[Tensor, "*batch values"]) -> Float[Tensor, "*batch patches dim"]:
        """Return representations token by token, from left to right and from top to bottom."""
        return reps.unflatten(-1, (self.patches, self.dim))

    def maps(self, values: Float[Tensor, "*batch patches"]) -> Float[Tensor, "*batch rows columns"]:
        """Return a number of each patch as a map."""
        return values.unflatten(-1, (self.rows, self.columns))

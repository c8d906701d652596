"""Products of two values of a network, elementwise and of matrices: their range, and linear functions around them."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

from holdfast.numerics.bounds.box import Box

IMAGES, ROWS = "N", "R"
"""The letters of images, with which every value begins, and of rows of linear forms, which no equation may use."""

SLIDES = 2**15
"""Products of which the planes are chosen one by one, at most; of more, those that are added up share a choice."""


@dataclass(frozen=True)
class Bilinear:
    """z = Σ x y: an einsum of two values, such as "Nik,Nkj->Nij" for matrices or "Nchw,Nc->Nchw" for a gate.

    With centres c and half-widths w of the boxes of x and y, every product is

        x y = c_y x + c_x y - c_x c_y + δ,    -w_x w_y + s (w_y δ_x + w_x δ_y) <= δ <= w_x w_y + s (w_y δ_x - w_x δ_y)

    for δ_x = x - c_x, δ_y = y - c_y and any s in [-1, 1]: the planes of McCormick at s = ±1, half-way between at 0.
    There a row a of forms passes as a c_y and a c_x, which is the adjoint of the einsum, and costs |a| (w_x w_y).

    Source: McCormick (1976), "Computability of global solutions to factorable nonconvex programs: Part I"; products of
    matrices as in Shi et al. (2020), "Robustness verification for transformers", Section 3.3.

    Example:
        >>> matrices = Bilinear("Nij,Njk->Nik")
        >>> low, high = torch.zeros(1, 1, 2), torch.ones(1, 1, 2)
        >>> [end.item() for end in matrices.box((low, high), (-high.mT, high.mT))]
        [-2.0, 2.0]
    """

    equation: str

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply."""
        return torch.einsum(self.equation, x, y)

    @cached_property
    def letters(self) -> tuple[str, str, str]:
        """The axes of x, y and z; the first is that of images."""
        inputs, _, z = self.equation.partition("->")
        x, _, y = inputs.partition(",")
        return x, y, z

    @cached_property
    def all(self) -> str:
        """The axes of all products: those of z, then those over which they are added up."""
        x, y, z = self.letters
        return z + "".join(letter for letter in dict.fromkeys(x + y) if letter not in z)

    def box(self, x: Box, y: Box) -> Box:
        """Return the range: the sum of the ranges of all products, exact where no value enters twice."""
        in_x, in_y, out = self.letters
        # The axes over which products are added up, and where they stand in x and in y
        added = self.all[len(out) :]
        sizes = [x[0].shape[in_x.index(a)] if a in in_x else y[0].shape[in_y.index(a)] for a in added]
        kept = [[i for i, a in enumerate(axes) if a in added] for axes in (in_x, in_y)]
        # The products of one place along these axes
        one = Bilinear(",".join("".join(a for a in axes if a not in added) for axes in (in_x, in_y)) + "->" + out)
        low: Tensor | float = 0.0
        high: Tensor | float = 0.0
        for place in product(*map(range, sizes)):  # one summand of every z at a time
            at = dict(zip(added, place, strict=True))
            ends = [
                [_at(end, {i: at[axes[i]] for i in axis}) for end in box]
                for box, axes, axis in zip((x, y), (in_x, in_y), kept, strict=True)
            ]
            # [4, *z]: a product has its extremes at corners of its box
            corners = torch.stack([one(a, b) for a in ends[0] for b in ends[1]])
            low, high = low + corners.amin(0), high + corners.amax(0)
        assert isinstance(low, Tensor)
        assert isinstance(high, Tensor)
        return low, high

    def adjoint(self, forms: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return forms [B, R, *z] on x while y is held fixed, and on y while x is."""
        # Forms have an axis of rows behind that of images; values have none
        in_x, in_y, out = (axes[0] + ROWS + axes[1:] for axes in self.letters)
        plain_x, plain_y, _ = self.letters
        return torch.einsum(f"{out},{plain_y}->{in_x}", forms, y), torch.einsum(f"{out},{plain_x}->{in_y}", forms, x)

    def relax_forms(self, forms: Tensor, x: Box, y: Box, alphas: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return forms on x and on y whose sum, plus a constant [B, R], lies below forms on z.

        Args:
            forms: [B, R, *z].
            x: the range of x.
            y: the range of y.
            alphas: (1 + s) / 2 of every product in [0, 1], as `usual` gives them; None: all ½.
        """
        # At s = 0: Σ a c_y x + a c_x y - a c_x c_y - |a| w_x w_y, of which the adjoint sums the first two
        (centre_x, wide_x), (centre_y, wide_y) = (((low + high) / 2, (high - low) / 2) for low, high in (x, y))
        on_x, on_y = self.adjoint(forms, centre_x, centre_y)
        constant = _dot(forms, self(centre_x, centre_y)) + _dot(forms.abs(), self(wide_x, wide_y))
        if alphas is not None:  # the slide from the centre to one of the planes
            in_x, in_y, _ = (axes[0] + ROWS + axes[1:] for axes in self.letters)
            plain_x, plain_y, _ = self.letters
            each = self.all[0] + ROWS + self.all[1:]
            # [B, R, *all]: the coefficient of a sum is that of each product in it
            above = forms.view(*forms.shape, *[1] * (alphas.ndim - forms.ndim))
            slide = 2 * alphas - 1
            # a δ is at least -|a| w_x w_y + s (|a| w_y δ_x + a w_x δ_y): for a < 0 by the other side, with -s
            more_x = _einsum(f"{each},{plain_y}->{in_x}", above.abs() * slide, wide_y)
            more_y = _einsum(f"{each},{plain_x}->{in_y}", above * slide, wide_x)
            # Forms on δ_x and δ_y are those on x and y, less their values at the centres
            constant = constant + _dot(more_x, centre_x) + _dot(more_y, centre_y)
            on_x, on_y = on_x + more_x, on_y + more_y
        return on_x, on_y, -constant

    def usual(self, forms: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return α = ½ for each row and product: [B, R, *all], with 1 for the axes added up where that is too much."""
        in_x, in_y, out = self.letters
        sizes = dict(zip(in_x + in_y, (*x.shape, *y.shape), strict=True))
        added = [sizes[letter] for letter in self.all[len(out) :]]
        # With very many products those of one sum share an α, for which an axis of length 1 stands
        many = torch.Size([sizes[letter] for letter in self.all[1:]]).numel()
        return forms.new_full((len(x), *forms.shape[1:], *(added if many <= SLIDES else [1] * len(added))), 0.5)


def _einsum(equation: str, a: Tensor, b: Tensor) -> Tensor:
    """Return the einsum; axes of length 1 in `a` stand for as many as `b` has."""
    left, _, right = equation.partition("->")
    sizes = dict(zip(left.partition(",")[2], b.shape, strict=True))
    axes = left.partition(",")[0]
    # Expanded without a copy
    wide = [max(size, sizes.get(axis, 1)) for axis, size in zip(axes, a.shape, strict=True)]
    return torch.einsum(f"{left}->{right}", a.expand(wide), b)


def _at(values: Tensor, places: dict[int, int]) -> Tensor:
    """Return the values at some places along some axes."""
    # From the last axis on, so that the numbers of the others stay
    for axis in sorted(places, reverse=True):
        values = values.select(axis, places[axis])
    return values


def _dot(forms: Tensor, values: Tensor) -> Tensor:
    """Return Σ forms · values, [B, R]."""
    return (forms.reshape(*forms.shape[:2], -1) @ values.reshape(len(values), -1, 1)).squeeze(-1)

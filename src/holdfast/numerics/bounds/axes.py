"""Affine operations along the last axis: distances to the mean, differences of all pairs, sums that are known."""

from dataclasses import dataclass

from torch import Tensor

from holdfast.numerics.bounds.affine import Affine


@dataclass(frozen=True, eq=False)
class Centre(Affine):
    """y_k = x_k - mean x along the last axis: LayerNorm."""

    constant = None

    def __call__(self, *values: Tensor) -> Tensor:
        """Subtract the mean."""
        return values[0] - values[0].mean(-1, keepdim=True)

    def spread(self, *widths: Tensor) -> Tensor:
        """Multiply by |1 - 1/n| where y_k reads x_k and by 1/n elsewhere."""
        (width,) = widths
        # (1 - 1/n) w_k + Σ_(j ≠ k) w_j / n; the mean holds w_k / n too, which is therefore taken off twice
        return width * (1 - 2 / width.shape[-1]) + width.mean(-1, keepdim=True)

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Subtract the mean: the matrix is symmetric."""
        return (forms - forms.mean(-1, keepdim=True),)


@dataclass(frozen=True, eq=False)
class Differences(Affine):
    """y_ij = x_j - x_i for all pairs along the last axis, [..., n] → [..., n, n]: softmax."""

    constant = None

    def __call__(self, *values: Tensor) -> Tensor:
        """Subtract each from each."""
        return values[0][..., None, :] - values[0][..., :, None]

    def spread(self, *widths: Tensor) -> Tensor:
        """Add each to each; the difference of a value to itself is zero."""
        width = widths[0][..., None, :] + widths[0][..., :, None]
        width.diagonal(dim1=-2, dim2=-1).zero_()
        return width

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Add the forms that read a value first, less those that read it second."""
        # [..., i, j] reads x_j, so i is summed over, less x_i, so j is
        return (forms.sum(-2) - forms.sum(-1),)


@dataclass(frozen=True)
class Total:
    """The same values, of which it is known that they add up to `total` along the last axis.

    So λ (total - Σ_k x_k) may be added to a form for any λ, a number for each row of values: it takes λ from every
    coefficient. What the relaxations before cost is about Σ_k |a_k - λ| · width_k, least at the weighted median of a.

    Example:
        >>> import torch
        >>> forms, wide = torch.tensor([[[1.0, 2.0, 9.0]]]), torch.ones(1, 3)
        >>> shifted, constant = Total(1.0).subtract_medians(forms, (0 * wide, wide))
        >>> shifted.tolist(), constant.tolist()
        ([[[-1.0, 0.0, 7.0]]], [[2.0]])
    """

    total: float

    def __call__(self, x: Tensor) -> Tensor:
        """Return x."""
        return x

    def box(self, box: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the box, met with what the others leave of the total."""
        # Of any value: the total, less the most (or the least) that all others can be together
        low, high = box
        rest_low = self.total - (high.sum(-1, keepdim=True) - high)
        rest_high = self.total - (low.sum(-1, keepdim=True) - low)
        return low.maximum(rest_low), high.minimum(rest_high)

    def subtract_medians(self, forms: Tensor, box: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the forms [B, R, *shape] less their weighted medians, and what these give, [B, R]."""
        # The weights of the median, [B, R, *shape]: what is wide costs most where its coefficient stays
        wide = (box[1] - box[0])[:, None].expand(len(box[0]), *forms.shape[1:])
        ordered, order = forms.expand_as(wide).sort(-1)
        # Weights added up in the order of the coefficients; the median is where they pass one half
        share = wide.gather(-1, order).cumsum(-1)
        middle = (share < share[..., -1:] / 2).sum(-1, keepdim=True).clamp_max(forms.shape[-1] - 1)
        median = ordered.gather(-1, middle)
        # λ comes off every coefficient, and λ · total, known exactly, takes its place
        return forms - median, self.total * median.flatten(2).sum(2)

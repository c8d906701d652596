"""What all gradient attacks share: value, representation and gradient from one pass."""

import torch

from holdfast.core import Goal, Images, PerImage, Reps
from holdfast.runtime.errors import NotFinite, Unsupported
from holdfast.runtime.waiting import at_hand, expect


def value_and_grad(goal: Goal, x: Images) -> tuple[PerImage, Reps, Images]:
    """Return the goal's values, the representations and the gradient of the values at x.

    One encoder pass forward and one backward to the pixels; weights get no gradient.

    Raises:
        HoldfastError: a goal that is not differentiable.
        NotFinite: a value or a gradient that is not finite; see `expect`.
    """
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        values, reps = goal(x)
        if not values.requires_grad:
            raise Unsupported(
                "the objective has no gradient with respect to the pixels (the encoder detaches them or is not "
                "differentiable); use a gradient-free attack: --set '*.attack=square'"
            )
        # Each value depends on its own image alone, so one pass for the sum gives the gradient of each
        (gradient,) = torch.autograd.grad(values.sum(), x)
    _check_finite(values, gradient)
    return values.detach(), reps.detach(), gradient


@torch.no_grad()
def evaluate(goal: Goal, x: Images) -> tuple[PerImage, Reps]:
    """Return the goal's values and the representations at x, without a gradient.

    Raises:
        NotFinite: a value that is not finite.
    """
    values, reps = goal(x)
    _check_finite(values)
    return values, reps


def _check_finite(values: PerImage, gradient: Images | None = None) -> None:
    # a sum is finite only of finite numbers; one that overflows is looked at more closely
    total = values.sum() if gradient is None else values.sum() + gradient.sum()
    # On a device to read this one number would wait for it too: `expect` looks at the end of the search
    if at_hand(total) and total.isfinite():
        return
    finite = torch.isfinite(values)
    if gradient is not None:
        finite = finite & torch.isfinite(gradient.flatten(1)).all(1)
    expect(finite, _not_finite)


def _not_finite(bad: int, images: int) -> NotFinite:
    return NotFinite(
        f"the objective or its gradient is not finite for {bad} of {images} images; check the encoder's weights and "
        "its precision"
    )


def pick(better: torch.Tensor, new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    """Return `new` for the images where it is better, `old` for the others; one of them itself where that is all."""
    if not at_hand(better):
        return torch.where(better.view(-1, *[1] * (new.ndim - 1)), new, old)
    # a copy of the one with the rows of the other: a choice pixel by pixel takes several times as long
    most, few, rows = (new, old, ~better) if 2 * int(better.sum()) > len(better) else (old, new, better)
    numbers = rows.nonzero().squeeze(1)
    return most.index_copy(0, numbers, few[numbers]) if len(numbers) else most

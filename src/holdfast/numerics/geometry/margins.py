"""Pair margins: "nearer to x⁺ than to x⁻" as a linear function of the representation."""

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.bounds.margin import Margin
from holdfast.numerics.geometry.divergences import unit
from holdfast.numerics.shapes import Reps
from holdfast.runtime.errors import HoldfastError, unknown

DIVERGENCES = ("cosine", "l2")
"""Divergences for which the comparison of two distances is linear in f(x')."""


def between(positive: Reps, negatives: Float[Tensor, "batch rows dim"], divergence: str = "cosine") -> Margin:
    """Return the margins that are positive exactly where f(x') is nearer to `positive` than to each negative.

    cosine: (z⁺ - z⁻) · f(x'), with z = f / ||f||_2. Its value is ||f(x')|| times the difference of similarities.
    l2: 2 (f⁺ - f⁻) · f(x') + ||f⁻||² - ||f⁺||², which is ||f(x') - f⁻||² - ||f(x') - f⁺||².

    Where a negative equals the positive the margin is zero everywhere, so nothing can be certified.

    Args:
        positive: representations of the images x⁺, [B, D].
        negatives: representations of the images that each is compared with, [B, R, D].
        divergence: one of `DIVERGENCES`.

    Raises:
        HoldfastError: another divergence; for cosine, a representation that is zero and so has no direction.

    Source: RVCL, Eq. 11 to 13; Eq. 1 of "Robustness of unsupervised representation learning without labels".

    Example:
        >>> margin = between(torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.0, 1.0]]]))
        >>> margin(torch.tensor([[0.75, 0.25]]).double()).tolist()
        [[0.5]]
    """
    own, rivals = positive.double()[:, None], negatives.double()
    match divergence:
        case "cosine":
            if not (own.any(-1).all() and rivals.any(-1).all()):
                raise HoldfastError(
                    "a representation is zero, so it has no direction and no cosine; choose divergence = l2, or an "
                    "encoder that does not map images to zero"
                )
            # (12) of RVCL: W_CL = ρ̃(f(x⁺)) - ρ̃(f(x⁻)), where ρ̃ makes unit vectors; the sign
            # does not ask for the length of f(x')
            weights = unit(own) - unit(rivals)
            return Margin(weights, torch.zeros_like(weights[..., 0]))
        case "l2":
            # ||f⁻||² - ||f⁺||², without the digits that a large mean takes from two squares
            return Margin(2 * (own - rivals), ((rivals - own) * (rivals + own)).sum(-1))
    raise unknown("divergence with a linear margin", divergence, DIVERGENCES)

"""Two Gaussian classes fitted as the authors of SynBench do: in the directions with more than a given variance."""

import torch
from jaxtyping import Float, Num
from torch import Tensor

from holdfast.numerics.gaussian_classes.robust_bayes import GaussianClasses, directions
from holdfast.runtime.errors import NotEnough

CUTOFF = 1e-6
"""Variances that are no larger are left out."""


def thin_fit(reps: Float[Tensor, "images dim"], signs: Num[Tensor, "images"]) -> GaussianClasses:
    """Return the mixture of F diag(λ) Fᵀ = Σ (x - μ_y)(x - μ_y)ᵀ / (N - 2), λ > 1e-6, and μ̃ = Fᵀ(μ₁ - μ₂)/2.

    What the means differ by outside F is dropped, so classes that differ there alone are not told apart, and 1e-6 is a
    length of the representation's own: multiplied by .001 it may keep no direction. `fit` does neither.

    Args:
        reps: representations, [N, D].
        signs: their classes, ±1.

    Raises:
        HoldfastError: representations that are not finite, signs other than ±1, or fewer than two of a class.

    Source: "SynBench", section 2.2.2, and its authors' code.

    Example:
        >>> reps = torch.tensor([[1.0, 0.1], [1.2, -0.1], [-1.0, 0.1], [-1.2, -0.1]])
        >>> thin_fit(reps, torch.tensor([1, 1, -1, -1])).half.abs().max().item() > 1
        True
    """
    plus, minus = signs.detach().cpu() == 1, signs.detach().cpu() == -1
    if not bool((plus | minus).all()) or min(int(plus.sum()), int(minus.sum())) < 2 or not bool(reps.isfinite().all()):
        raise NotEnough(
            f"mixture: expected finite representations, two or more of each class +1 and -1, got {len(reps)}, "
            f"{int(plus.sum())} and {int(minus.sum())} of these classes; draw more"
        )
    reps = reps.detach().cpu().double()
    means = reps[plus].mean(0), reps[minus].mean(0)
    # All directions first: the authors cut at an absolute variance, `directions` at a share of the largest
    vectors, values, _ = directions(reps - torch.where(plus[:, None], *means), len(reps) - 2, cutoff=0.0)
    vectors, values = vectors[:, values > CUTOFF], values[values > CUTOFF]
    return GaussianClasses((means[0] + means[1]) / 2, vectors, values, (means[0] - means[1]) / 2 @ vectors)

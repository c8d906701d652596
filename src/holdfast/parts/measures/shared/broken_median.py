"""The median of sizes that break images, where some images were not broken at all."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Score
from holdfast.numerics import statistics


def estimate_broken_median(sizes: Float[Tensor, "images"], condition: str) -> Score:
    """Return the median, censored on the right; none where half of the images were not broken.

    Args:
        sizes: what broke each image; inf where nothing did.
        condition: what the interval is conditional on.

    Example:
        >>> score = estimate_broken_median(torch.tensor([1.0, 2.0, torch.inf, torch.inf]), "")
        >>> score.value, score.note
        (None, 'half of the images were not broken at all')
    """
    score = statistics.median(sizes, condition=condition)
    # An infinite median is no size: what broke fewer than half has none
    if score.value is not None and not torch.tensor(score.value).isfinite():
        return replace(score, value=None, low=None, high=None, note="half of the images were not broken at all")
    if score.high is not None and not torch.tensor(score.high).isfinite():
        return replace(score, low=None, high=None, note="too few images were broken for an interval")
    return score

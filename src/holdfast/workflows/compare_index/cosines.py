"""The median of cosines of old and new vectors, which of one build beside itself are all one number."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Median

ROUNDED = 4e-7
"""What rounding to float32 makes of a cosine, at most about: three roundings of 2^-24, both ways."""


def median_cosine(alike: Float[Tensor, "images"]) -> Score:
    """Return the median, whose interval is at least as wide as what rounding makes of one vector."""
    median = Median(alike).score()
    assert median.value is not None  # there are images
    # Too few images for an interval have none of a cosine either, unless all cosines are one number
    spread = alike.amax() - alike.amin()
    if median.low is None and spread > ROUNDED:
        return median
    # Vectors in float32 do not tell one build beside itself more exactly
    low, high = (median.value if end is None else end for end in (median.low, median.high))
    return replace(median, low=low - ROUNDED, high=min(1.0, high + ROUNDED))

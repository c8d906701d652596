"""The median of sizes that break images, where some images were not broken at all."""

import math
from dataclasses import replace

from typing_extensions import override

from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Median


class BrokenMedian(Median):
    """The median of what broke each image, inf where nothing did; none where half of the images were not broken.

    Example:
        >>> score = BrokenMedian(torch.tensor([1.0, 2.0, torch.inf, torch.inf])).score()
        >>> score.value, score.note
        (None, 'half of the images were not broken at all')
    """

    @override
    def score(self) -> Score:
        score = super().score()
        # An infinite median is no size: what broke fewer than half has none
        if score.value is not None and not math.isfinite(score.value):
            return replace(score, value=None, low=None, high=None, note="half of the images were not broken at all")
        if score.high is not None and not math.isfinite(score.high):
            return replace(score, low=None, high=None, note="too few images were broken for an interval")
        return score

"""Numbers made of other numbers of a table: what is lost against another one, and means."""

import math
from collections.abc import Sequence

from holdfast.core import Score
from holdfast.runtime.errors import Missing


def mean(scores: Sequence[Score], apart: bool) -> Score:
    """Return the mean of some scores, with an interval recovered from theirs.

    Each half of the interval is √(Σ a²)/n of the halves a of scores that are independent, and Σ a/n of others: no
    correlation makes it wider.

    Source: Zou & Donner (2008), "Construction of confidence limits about effect measures" (MOVER).
    """
    values = [score.value for score in scores if score.value is not None]
    if not scores or len(values) < len(scores):
        raise Missing("mean: expected scores with values, got none or one without")
    value, n = sum(values) / len(values), min(score.n for score in scores)
    kind = f"mean of {len(values)} scores (MOVER), {'independent' if apart else 'at any correlation'}"
    if any(score.low is None or score.high is None for score in scores):
        return Score(value, None, None, n, kind, note="one of the scores has no interval")
    below = [(score.value or 0.0) - (score.low or 0.0) for score in scores]
    above = [(score.high or 0.0) - (score.value or 0.0) for score in scores]
    low, high = (math.hypot(*halves) if apart else sum(halves) for halves in (below, above))
    return Score(value, value - low / len(values), value + high / len(values), n, kind)

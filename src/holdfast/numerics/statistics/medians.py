"""Medians with order-statistic intervals."""

import math

import scipy
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.proportions import clopper_pearson, effective_size
from holdfast.numerics.statistics.rows import distinct, drop_undefined
from holdfast.numerics.statistics.score import Score


def median(
    values: Float[Tensor, "rows"],
    units: Int[Tensor, "rows"] | None = None,
    condition: str = "",
    confidence: float = 0.95,
) -> Score:
    """Median with an order-statistic interval.

    Independent rows: see `median_ranks`. With units: the ranks are those of Woodruff (1952), from the interval of the
    share below the median with Korn-Graubard's effective size. Where both ends are one value, which many rows have,
    they move on to the nearest values that differ; where none differs there is no interval.

    Args:
        values: one number per row; NaN where undefined.
        units: which rows belong together; None when rows are independent.
        condition: what the interval is conditional on.
        confidence: level of the interval.

    Example:
        >>> score = median(torch.arange(1.0, 12))
        >>> score.value, score.low, score.high
        (6.0, 2.0, 10.0)
    """
    values, units, note = drop_undefined(values, units)
    kind = "order statistics" if units is None else "order statistics with effective size (Woodruff)"
    kind += f", {condition}" if condition else ""
    n = len(values)
    if not n:
        return Score(None, None, None, 0, kind, confidence, note)
    ordered = values.double().sort().values
    value = middle(ordered)

    # the ranks of the interval's ends: binomial, or Woodruff's from the share of rows below the median
    if units is None:
        ranks, count = median_ranks(n, confidence), n
    else:
        # Of as many independent rows as these are worth, half lie below the median
        size = effective_size((values <= value).double(), units, confidence)
        low_share, high_share = clopper_pearson(size / 2, size, confidence)
        ranks, count = (math.floor(n * low_share), math.ceil(n * high_share) + 1), distinct(units)

    # the values at these ranks, which ties may make one
    low, high = at_ranks(ordered, ranks)
    if low is None or high is None:
        words = f"{count} are too few for a {confidence:.0%} interval of a median"
    elif low == high:
        low, high, words = _around(ordered, low)
    else:
        words = ""
    return Score(value, low, high, count, kind, confidence, "; ".join(filter(None, [note, words])))


def middle(ordered: Float[Tensor, "rows"]) -> float:
    """Median of sorted values: the mean of the two in the middle where their number is even.

    Example:
        >>> middle(torch.tensor([1.0, 2.0, 4.0, 9.0]))
        3.0
    """
    n = len(ordered)
    return float((ordered[(n - 1) // 2] + ordered[n // 2]) / 2)


def median_ranks(n: int, confidence: float = 0.95) -> tuple[int, int]:
    """Ranks, counted from 1, of the order statistics that hold the median of n independent values.

    The narrowest symmetric pair whose binomial coverage is at least the level; 0 and n + 1 where there is none.

    Example:
        >>> median_ranks(11), median_ranks(5)
        ((2, 10), (0, 6))
    """
    tail = (1 - level(confidence)) / 2
    # The largest rank below which the median lies with probability α/2 at most, whatever ppf rounds to
    rank = int(scipy.stats.binom.ppf(tail, n, 0.5))
    while rank > 0 and scipy.stats.binom.cdf(rank - 1, n, 0.5) > tail:
        rank -= 1
    return rank, n - rank + 1


def at_ranks(ordered: Float[Tensor, "rows"], ranks: tuple[int, int]) -> tuple[float | None, float | None]:
    """Values at two ranks, counted from 1; None where values are too few to have the rank.

    Example:
        >>> at_ranks(torch.tensor([0.1, 0.2, 0.3]).double(), (0, 2))
        (None, 0.20000000298023224)
    """
    low, high = ranks
    return (
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high - 1]) if high <= len(ordered) else None,
    )


def _around(ordered: Float[Tensor, "rows"], value: float) -> tuple[float | None, float | None, str]:
    """Nearest values that differ from the one that both ends have; no interval where all are equal."""
    below, above = ordered[ordered < value], ordered[ordered > value]
    if not len(below) and not len(above):
        return None, None, f"all {len(ordered)} values are equal, so their spread is unknown: no interval"
    low, high = float(below[-1]) if len(below) else value, float(above[0]) if len(above) else value
    return low, high, "the middle values are all equal: the interval ends at the nearest that differ"


def influence_of_median(values: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """Influence of each row on the median, up to a factor: sign(value - median); 0 where undefined.

    Example:
        >>> influence_of_median(torch.tensor([1.0, 2.0, 7.0])).tolist()
        [-1.0, 0.0, 1.0]
    """
    return (values - values.nanmedian()).sign().nan_to_num(0.0)

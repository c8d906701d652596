"""How many units it takes to tell a difference from zero."""

import math

import scipy

from holdfast.numerics.statistics.differences import combine_reaches
from holdfast.numerics.statistics.levels import reach
from holdfast.numerics.statistics.score import Score

MOST = 1e6
"""Times as many units; beyond, no number is given."""


def times_needed(
    gap: float, first: Score, second: Score, correlation: float, *, scale: float, level: float, power: float = 0.8
) -> float | None:
    """How many times as many units would tell a true gap from zero with a given power; None where none would.

    Solves |gap| = r(level) + r(2 (1 - power)) for the number of units, where r(α) is how far the interval of the
    difference reaches toward zero that misses the truth with probability α: the estimate falls short of the truth by
    no more than the second term with the power that is wanted, and what is left of it then exceeds the first. For a
    normal mean that is n = ((z_{1-α/2} + z_power) σ / gap)². Intervals shrink as `reach` says, and the correlation may
    come as near to 1 as more units let it (see `statistics.difference`).

    It takes the gap that is given for the truth. Of an estimated gap the answer is as uncertain as its square.

    Args:
        gap: first - scale · second, with whatever is added to it; the true one.
        first: a score.
        second: another one.
        correlation: of their influences.
        scale: what the second score is multiplied by, above 0.
        level: 1 - level of the interval that must exclude zero.
        power: with which probability it must.

    Example:
        >>> first, second = (Score(v, v - 0.1, v + 0.1, 100, "t", 0.95, "") for v in (0.8, 0.7))
        >>> round(times_needed(0.1, first, second, 0.0, scale=1.0, level=0.05), 1)
        4.1
    """
    n = max(min(first.n, second.n), 1)

    def short(log_times: float) -> float:
        """How much farther intervals would have to reach."""
        # Falls with the number of units, so a root can be bracketed
        times = math.exp(log_times)
        a, b = reach(first, times), reach(second, times)
        if a is None or b is None:
            return math.inf
        rho, total = min(correlation, 1 - 1 / (n * times)), 0.0
        # What the interval reaches towards 0, and how short the estimate may fall
        for alpha in (level, 2 * (1 - power)):
            (below, above), (other_below, other_above) = a.at(alpha), b.scale(scale).at(alpha)
            ends = (below, other_above) if gap > 0 else (above, other_below)
            total += combine_reaches(*ends, rho)
        return total - abs(gap)

    # From two units on; the search is in the logarithm, as `reach` is about a power of it
    ends = math.log(2 / n), math.log(MOST)
    if gap == 0 or short(ends[1]) > 0:
        return None
    if short(ends[0]) <= 0:
        return 2 / n
    root = scipy.optimize.brentq(short, *ends, xtol=1e-3)
    assert isinstance(root, float)
    return math.exp(root)

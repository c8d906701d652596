"""Intervals: exact where trials are independent, honest about pairs that share an image, never of zero width.

Every estimate is a `Score` that says what kind of interval it carries. Values that are NaN are undefined for their
image; they are left out and counted in the note.

A module here never has the name of a function here: importing the module would put it in the function's place.
"""

from holdfast.numerics.statistics.differences import centre, combine_reaches, correlation, correlation_of, difference
from holdfast.numerics.statistics.means import influence_of_mean, mean
from holdfast.numerics.statistics.medians import at_ranks, influence_of_median, median, median_ranks
from holdfast.numerics.statistics.pairs import influence_of_pair_mean, pair_mean
from holdfast.numerics.statistics.proportions import clopper_pearson, effective_size, share, share_of_draws
from holdfast.numerics.statistics.rows import by_unit

__all__ = [
    "at_ranks",
    "by_unit",
    "centre",
    "clopper_pearson",
    "combine_reaches",
    "correlation",
    "correlation_of",
    "difference",
    "effective_size",
    "influence_of_mean",
    "influence_of_median",
    "influence_of_pair_mean",
    "mean",
    "median",
    "median_ranks",
    "pair_mean",
    "share",
    "share_of_draws",
]

"""Intervals: exact where trials are independent, honest about pairs that share an image, never of zero width.

Every estimate is a `Score` that says what kind of interval it carries. Values that are NaN are undefined for their
image; they are left out and counted in the note.

A module here never has the name of a function here: importing the module would put it in the function's place.
"""

from typing import TYPE_CHECKING

from holdfast.runtime.lazy import lazy

if TYPE_CHECKING:
    from holdfast.numerics.statistics.differences import (
        centre,
        combine_reaches,
        correlation,
        correlation_of,
        difference,
    )
    from holdfast.numerics.statistics.means import influence_of_mean, mean
    from holdfast.numerics.statistics.medians import at_ranks, influence_of_median, median, median_ranks
    from holdfast.numerics.statistics.pairs import influence_of_pair_mean, pair_mean
    from holdfast.numerics.statistics.proportions import clopper_pearson, effective_size, share, share_of_draws
    from holdfast.numerics.statistics.rows import by_unit

__all__ = [
    "at_ranks", "by_unit", "centre", "clopper_pearson", "combine_reaches", "correlation", "correlation_of",
    "difference", "effective_size", "influence_of_mean", "influence_of_median", "influence_of_pair_mean", "mean",
    "median", "median_ranks", "pair_mean", "share", "share_of_draws",
]  # fmt: skip

_HOMES = {
    "differences": "centre combine_reaches correlation correlation_of difference",
    "means": "influence_of_mean mean",
    "medians": "at_ranks influence_of_median median median_ranks",
    "pairs": "influence_of_pair_mean pair_mean",
    "proportions": "clopper_pearson effective_size share share_of_draws",
    "rows": "by_unit",
}
"""File of this folder -> its names, imported when they are first used: a `Score` is read without torch."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__, {name: f"{__name__}.{file}" for file, names in _HOMES.items() for name in names.split()}
    )

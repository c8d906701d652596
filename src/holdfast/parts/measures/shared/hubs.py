"""What the measures of hubs have in common: which queries are taken by which hub, in columns, and means over both."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Score, Table
from holdfast.numerics.statistics.statistic import Composed, Statistic
from holdfast.numerics.statistics.two_way import TwoWayMean

HUBS = 16
"""Images of which each is made a hub, unless said."""


def columns(name: str, values: Float[Tensor, "hubs queries"]) -> Table:
    """Return a column for each hub: 1 where it takes the query, NaN where that is not asked."""
    return {f"{name} by {number}": row.double() for number, row in enumerate(values)}


def index_size(table: Table) -> int:
    """Return how many images the index has: every one of them has a row."""
    return len(next(iter(table.values())))


def mean_over_hubs(table: Table, name: str, condition: str) -> Statistic:
    """Return the mean over queries and hubs, about other queries and other hubs.

    Queries of whom something is not asked of every hub, such as a hub's own, are left out.
    """
    hits = torch.stack([values for column, values in table.items() if column.startswith(f"{name} by ")], 1)
    # Images of whom nothing is asked take no part, and move nothing
    judging = hits[~hits.isnan().all(1)]
    asked = TwoWayMean(judging, condition, most=1.0)

    def tell() -> Score:
        score = asked.score()
        return score if len(judging) else replace(score, note="no search is left that judges")

    return Composed(tell, TwoWayMean(hits).influence)

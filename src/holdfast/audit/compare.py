"""Encoders side by side: paired differences on the same images, and a best one only where they show it."""

import math
from collections.abc import Mapping, Set
from dataclasses import asdict
from typing import Any

from holdfast import statistics
from holdfast.core import Measure, Score, Table


def compare(
    measure: Measure, found: Mapping[str, tuple[Table, Score]], unfit: Set[str] = frozenset()
) -> dict[str, Any]:
    """Return the paired differences of a measure between all encoders, and the best encoder or None.

    The best is better than *each* other one by a paired 95 % interval that excludes zero. That needs no correction
    for the number of encoders (every single comparison must succeed); none is made for the number of measures.

    Args:
        measure: the measure.
        found: for every encoder its table and its headline score; all on the same images.
        unfit: encoders that cannot be best, because a check found that their numbers mean nothing.
    """
    names, pairs = list(found), []
    beaten: dict[str, set[str]] = {name: set() for name in names}
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            (table_a, score_a), (table_b, score_b) = found[first], found[second]
            rho = statistics.correlation(measure.influence(table_a), measure.influence(table_b))
            gap = statistics.difference(score_a, score_b, rho)
            pairs.append({"first": first, "second": second, "difference": asdict(gap)})
            if gap.low is None or gap.high is None or math.isnan(gap.low + gap.high):
                continue
            if gap.low > 0 or gap.high < 0:
                higher, lower = (first, second) if gap.low > 0 else (second, first)
                winner, loser = (higher, lower) if measure.better == "higher" else (lower, higher)
                beaten[winner].add(loser)
    best = [name for name in names if name not in unfit and len(names) > 1 and len(beaten[name]) == len(names) - 1]
    return {"best": best[0] if best else None, "pairs": pairs}

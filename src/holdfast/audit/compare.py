"""Encoders side by side: paired differences on the same images, and a best one only where they show it."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from holdfast import statistics
from holdfast.core import Measure, Score, Table

Influence = Float[Tensor, "units"]


@dataclass(frozen=True)
class Pair:
    """Two encoders on one measure.

    Attributes:
        first: name of one of them.
        second: name of the other.
        gap: first minus second, with its paired interval.
        correlation: of their per-image influences.
    """

    first: str
    second: str
    gap: Score
    correlation: float

    def winner(self, better: str) -> str | None:
        """Return which encoder the interval favours ("lower" or "higher" is better); None where it holds zero."""
        low, high = self.gap.low, self.gap.high
        if low is None or high is None or math.isnan(low + high) or low <= 0 <= high:
            return None
        return self.first if (low > 0) == (better == "higher") else self.second


def paired(found: Mapping[str, tuple[Influence, Score]]) -> Iterator[Pair]:
    """Yield the paired difference of every two encoders.

    Args:
        found: for every encoder each unit's influence on its headline score, and that score; all on the same images.
    """
    for first, second in itertools.combinations(found, 2):
        (influence_a, score_a), (influence_b, score_b) = found[first], found[second]
        rho = statistics.correlation(influence_a, influence_b)
        yield Pair(first, second, statistics.difference(score_a, score_b, rho), rho)


def beats(names: Iterable[str], wins: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return whom each encoder beats, from (winner, loser) of the pairs that are decided."""
    beaten: dict[str, set[str]] = {name: set() for name in names}
    for winner, loser in wins:
        beaten[winner].add(loser)
    return beaten


def best_of(beaten: Mapping[str, Collection[str]], unfit: Set[str] = frozenset()) -> str | None:
    """Return the encoder that beats each other one; None where there is none, or no other.

    That needs no correction for the number of encoders: every single comparison must succeed.

    Args:
        beaten: whom each encoder beats.
        unfit: encoders that cannot be best.
    """
    rivals = len(beaten) - 1
    return next((name for name, those in beaten.items() if name not in unfit and 0 < rivals == len(those)), None)


def compare(
    measure: Measure, found: Mapping[str, tuple[Table, Score]], unfit: Set[str] = frozenset()
) -> dict[str, Any]:
    """Return the paired differences of a measure between all encoders, and the best encoder or None.

    The best is better than *each* other one by a paired 95 % interval that excludes zero; see `best_of`. No correction
    is made for the number of measures.

    Args:
        measure: the measure.
        found: for every encoder its table and its headline score; all on the same images.
        unfit: encoders that cannot be best, because a check found that their numbers mean nothing.
    """
    pairs = list(paired({name: (measure.influence(table), score) for name, (table, score) in found.items()}))
    wins = [(w, p.second if w == p.first else p.first) for p in pairs if (w := p.winner(measure.better))]
    said = [{"first": pair.first, "second": pair.second, "difference": asdict(pair.gap)} for pair in pairs]
    return {"best": best_of(beats(found, wins), unfit), "pairs": said}


def faults(entry: Mapping[str, Any]) -> list[str]:
    """Return the checks by which an encoder's numbers mean nothing: it is constant, or another function each time."""
    checks = entry.get("checks", {})
    return [name for name in ("collapse", "frozen") if checks.get(name, {}).get("status") == "fail"]

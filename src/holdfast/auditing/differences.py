"""Encoders side by side: paired differences on the same images, and a best one only where they show it."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from holdfast.auditing.record import chart_entry
from holdfast.core import Measure, Score, Table
from holdfast.numerics import statistics
from holdfast.numerics.statistics.looks import looking
from holdfast.storage.record import Compared, ContrastEntry, PairEntry
from holdfast.storage.standing import SOUND, VOID, may_lose, may_win

Influence = Float[Tensor, "units"]

CONTRASTS = 6
"""Pairs of which there is a chart, at most."""


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


def compare_pairs(scored: Mapping[str, tuple[Influence, Score]], better: str) -> Iterator[Pair]:
    """Yield the paired difference of every two encoders.

    A number whose check failed is a bound on one side. A difference that this bound may have made has no value: what
    flatters does not win, what is void is compared with nothing.
    """
    spread = {name: statistics.centre(influence) for name, (influence, _) in scored.items()}
    for first, second in itertools.combinations(scored, 2):
        score_a, score_b = scored[first][1], scored[second][1]
        rho = statistics.correlation_of(spread[first], spread[second])
        gap = statistics.difference(score_a, score_b, rho)
        if gap.value is not None and not _tells(gap.value, score_a, score_b, better):
            gap = replace(gap, value=None, low=None, high=None, note=_one_sided(first, score_a, second, score_b))
        yield Pair(first, second, gap, rho)


def _tells(gap: float, first: Score, second: Score, better: str) -> bool:
    """Return whether a difference is none that a failed check may have made."""
    if SOUND == first.standing == second.standing:
        return True
    winner, loser = (first, second) if (gap > 0) == (better == "higher") else (second, first)
    return may_win(winner.standing, better) and may_lose(loser.standing, better)


def _one_sided(first: str, first_score: Score, second: str, second_score: Score) -> str:
    """Say why two numbers are not compared."""
    reasons = [
        f"{name} is {'void' if score.standing == VOID else 'known on one side'} ({', '.join(score.because)} failed)"
        for name, score in ((first, first_score), (second, second_score))
        if score.standing != SOUND
    ]
    return f"not compared: {'; '.join(reasons)}"


def beats(names: Iterable[str], wins: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return whom each encoder beats, from (winner, loser) of the pairs that are decided."""
    beaten: dict[str, set[str]] = {name: set() for name in names}
    for winner, loser in wins:
        beaten[winner].add(loser)
    return beaten


def best_of(beaten: Mapping[str, Collection[str]]) -> str | None:
    """Return the encoder that beats each other one; None where there is none, or no other.

    That needs no correction for the number of encoders: every single comparison must succeed.
    """
    rivals = len(beaten) - 1
    return next((name for name, losers in beaten.items() if 0 < rivals == len(losers)), None)


def contrasts(
    measure: Measure, scored: Mapping[str, tuple[Table, Score]], pairs: Collection[Pair], barred: Collection[str] = ()
) -> list[ContrastEntry]:
    """Return what the report draws of pairs: the encoder with the best value, of those not barred, beside others."""
    sign = -1 if measure.better == "higher" else 1
    values = {name: math.inf if (v := score.value) is None else sign * v for name, (_, score) in scored.items()}
    order = sorted(scored, key=lambda name: (name in barred, values[name]))
    told = {frozenset((pair.first, pair.second)) for pair in pairs if pair.gap.value is not None}
    charts = []
    for other in order[1 : 1 + CONTRASTS]:
        best = order[0]
        sound = all(scored[name][1].standing == SOUND for name in (best, other))
        if frozenset((best, other)) in told or sound:  # else one owes it to a failed check
            chart = measure.contrast((scored[best][0], scored[other][0]), (best, other))
            charts += [] if chart is None else [ContrastEntry(first=best, second=other, chart=chart_entry(chart))]
    return charts


def compare(
    measure: Measure, scored: Mapping[str, tuple[Table, Score]], barred: Collection[str] = (), look: int = 0
) -> Compared:
    """Return the paired differences of a measure between all encoders, and the best encoder or None.

    The best is better than *each* other one by a paired 95 % interval that excludes zero; see `best_of`. No correction
    is made for the number of measures. Encoders whose number is void are left out: they are no rivals; nor are those
    that are `barred`, of which only the differences are told.
    """
    rivals = {name: (table, score) for name, (table, score) in scored.items() if score.standing != VOID}
    influences = {name: (measure.influence(table), score) for name, (table, score) in rivals.items()}
    pairs = list(compare_pairs(influences, measure.better))
    wins = [(w, p.second if w == p.first else p.first) for p in pairs if (w := p.winner(measure.better))]
    with looking(look):
        charts = contrasts(measure, rivals, pairs, barred)
    return Compared(
        best=best_of(beats(influences.keys() - set(barred), [win for win in wins if not set(win) & set(barred)])),
        pairs=[PairEntry(first=pair.first, second=pair.second, difference=pair.gap) for pair in pairs],
        charts=charts,
    )

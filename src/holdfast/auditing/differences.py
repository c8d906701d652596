"""Encoders side by side: paired differences on the same images, and a best one only where they show it."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from holdfast.auditing.record import chart_entry
from holdfast.core import Measure, Score, Table
from holdfast.core.doubts import say_failed
from holdfast.numerics import statistics
from holdfast.numerics.statistics.levels import FLOOR, p_value, reach
from holdfast.numerics.statistics.looks import looking
from holdfast.numerics.statistics.multiple_testing import adjust_p_values
from holdfast.storage.record import Compared, ContrastEntry, PairEntry
from holdfast.storage.standing import SOUND, VOID, may_lose, may_win

LEVEL = 0.05
"""Adjusted p-values up to this are verdicts."""

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
        p: 1 - the highest level at which that interval excludes zero; None where there is none.
        correlation: of their per-image influences; None where each is of several encoders.
        p_adjusted: p after the correction for many comparisons; None before.
        winner: who is better by it, see `decide`; None where that is open.
    """

    first: str
    second: str
    gap: Score
    p: float | None
    correlation: float | None = None
    p_adjusted: float | None = None
    winner: str | None = None


def compare_pairs(scored: Mapping[str, tuple[Influence, Score]], better: str) -> Iterator[Pair]:
    """Yield the paired difference of every two encoders.

    A number whose check failed is a bound on one side. A difference that this bound may have made has no value: what
    flatters does not win, what is void is compared with nothing.
    """
    spread = {name: statistics.centre(influence) for name, (influence, _) in scored.items()}
    scores = {name: score for name, (_, score) in scored.items()}
    reaches = {name: reach(score) for name, score in scores.items()}
    for first, second in itertools.combinations(scored, 2):
        rho = statistics.correlation_of(spread[first], spread[second])
        gap, p = statistics.difference(scores[first], scores[second], rho), None
        if gap.value is not None and (a := reaches[first]) and (b := reaches[second]):
            p = p_value(gap.value, a, b, rho, gap.n)
        yield withhold_doubtful(Pair(first, second, gap, p, rho), scores, better)


def withhold_doubtful(pair: Pair, scores: Mapping[str, Score], better: str) -> Pair:
    """Return a pair whose difference has no value where a failed check may have made it."""
    first, second = scores[pair.first], scores[pair.second]
    if pair.gap.value is None or _tells(pair.gap.value, first, second, better):
        return pair
    note = _one_sided(pair.first, first, pair.second, second)
    return replace(pair, gap=replace(pair.gap, value=None, low=None, high=None, note=note), p=None)


def _tells(gap: float, first: Score, second: Score, better: str) -> bool:
    """Return whether a difference is none that a failed check may have made."""
    if SOUND == first.standing == second.standing:
        return True
    winner, loser = (first, second) if (gap > 0) == (better == "higher") else (second, first)
    return may_win(winner.standing, better) and may_lose(loser.standing, better)


def _one_sided(first: str, first_score: Score, second: str, second_score: Score) -> str:
    """Say why two numbers are not compared."""
    reasons = [
        f"{name} is {'void' if score.standing == VOID else 'known on one side'}, for {say_failed(score.because)}"
        for name, score in ((first, first_score), (second, second_score))
        if score.standing != SOUND
    ]
    return f"not compared: {'; '.join(reasons)}"


def decide(measures: Mapping[str, tuple[str, Sequence[Pair]]], correction: str = "holm") -> dict[str, list[Pair]]:
    """Return the pairs of each measure with their verdicts, of audits and comparisons alike.

    p-values are adjusted over all pairs of all measures together, those without one counting as undecided (p = 1). Who
    is better by an adjusted p up to `LEVEL` wins.

    Args:
        measures: name -> which direction is better, and the pairs.
        correction: "holm", "bh" or "none".
    """
    # one family, in the order of the measures, in which the adjusted ones are handed out again
    p_values = [1.0 if pair.p is None else pair.p for _, pairs in measures.values() for pair in pairs]
    adjusted = iter(adjust_p_values(p_values, correction))
    return {
        name: [_decide(pair, next(adjusted), better) for pair in pairs] for name, (better, pairs) in measures.items()
    }


def _decide(pair: Pair, adjusted: float, better: str) -> Pair:
    gap = pair.gap.value
    if pair.p is None or gap is None:
        return pair
    winner = pair.first if (gap > 0) == (better == "higher") else pair.second
    return replace(pair, p_adjusted=max(adjusted, FLOOR), winner=winner if adjusted <= LEVEL else None)


def find_beaten(scores: Mapping[str, Score], pairs: Iterable[Pair], no_rivals: Collection[str]) -> dict[str, set[str]]:
    """Return whom each ranked encoder beats on a measure, by the verdicts of its pairs.

    Ranked are rivals with a number that is not void, in the order of the scores.
    """
    valued = {name for name, score in scores.items() if score.value is not None and score.standing != VOID}
    ranked = [name for name in scores if name in valued and name not in no_rivals]
    # a pair with one who is not ranked is told, and places nobody
    wins = [(w, pair.second if w == pair.first else pair.first) for pair in pairs if (w := pair.winner)]
    return beats(ranked, [win for win in wins if set(win) <= set(ranked)])


def beats(names: Iterable[str], wins: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return whom each encoder beats, from (winner, loser) of the pairs that are decided."""
    beaten: dict[str, set[str]] = {name: set() for name in names}
    for winner, loser in wins:
        beaten[winner].add(loser)
    return beaten


def best_of(beaten: Mapping[str, Collection[str]], barred: Collection[str] = ()) -> str | None:
    """Return the encoder that beats each other one; None where there is none, no other, or it is barred."""
    rivals = len(beaten) - 1
    best = next((name for name, losers in beaten.items() if 0 < rivals == len(losers)), None)
    return None if best in barred else best


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


@dataclass(frozen=True)
class Contest:
    """A measure on which all encoders of an audit are compared.

    Attributes:
        better: which direction is better.
        pairs: every two encoders.
        charts: of some pairs.
        scores: of the encoders.
    """

    better: str
    pairs: list[Pair]
    charts: list[ContrastEntry]
    scores: Mapping[str, Score]

    def conclude(self, pairs: Sequence[Pair], no_rivals: Collection[str], barred: Collection[str]) -> Compared:
        """Return what a record says of it.

        Args:
            pairs: with their verdicts.
            no_rivals: encoders that are not ranked, such as untrained ones.
            barred: encoders that are called best on nothing.
        """
        void = {name for name, score in self.scores.items() if score.standing == VOID}
        return Compared(
            best=best_of(find_beaten(self.scores, pairs, no_rivals), barred),
            pairs=[
                PairEntry(first=p.first, second=p.second, difference=p.gap, winner=p.winner)
                for p in pairs
                if not void & {p.first, p.second}
            ],
            charts=self.charts,
        )


def compare(
    measure: Measure, scored: Mapping[str, tuple[Table, Score]], no_rivals: Collection[str] = (), look: int = 0
) -> Contest:
    """Return the paired differences of a measure between all encoders.

    Of encoders that are `no_rivals` only the differences are told; a number that is void differs from none.
    """
    influences = {name: (measure.influence(table), score) for name, (table, score) in scored.items()}
    pairs = list(compare_pairs(influences, measure.better))
    drawn = {name: (table, score) for name, (table, score) in scored.items() if score.standing != VOID}
    with looking(look):
        charts = contrasts(measure, drawn, pairs, no_rivals)
    return Contest(measure.better, pairs, charts, {name: score for name, (_, score) in scored.items()})

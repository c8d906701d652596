"""The scorecard as data: one card per measure, one row per encoder, all rows of a card on one axis."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from holdfast.core.doubts import say_failed
from holdfast.numerics.statistics.score import Score
from holdfast.report.bibliography import spell_out
from holdfast.report.brief import best_first, explain_doubt
from holdfast.report.cells import NO_SCORE
from holdfast.report.folder import nice_ticks
from holdfast.report.numbers import bracket, finite, format_score, format_score_inline, listing, part
from holdfast.report.verdict import find_best, titles
from holdfast.storage.comparison import ComparedPair
from holdfast.storage.record import MeasureEntry, PairEntry, Record
from holdfast.storage.standing import SOUND, VOID, is_rival

FURTHER = "Further measures"
"""Heading of measures that belong to no family."""


@dataclass(frozen=True)
class Row:
    """One encoder on one measure: text, and positions on the card's axis in percent (None: nothing to draw).

    `doubt`: what the warnings found that concern the number.
    """

    name: str
    series: int
    value: str
    interval: str
    note: str
    best: bool
    error: str | None
    at: float | None
    start: float | None
    end: float | None
    uncertified: str | None = None
    attack: "Side | None" = None
    doubt: str = ""


@dataclass(frozen=True)
class Side:
    """What the attack says beside the certificate: positions on the card's axis in percent."""

    at: float
    start: float | None
    end: float | None

    def gap(self, certificate: float) -> tuple[float, float]:
        """Return left end and width of what is open between the two."""
        return min(self.at, certificate), round(abs(self.at - certificate), 2)


@dataclass(frozen=True)
class Card:
    """One measure of the scorecard.

    Attributes:
        rows: one per encoder that was asked.
        ticks: (position in percent, label) of the axis.
        readouts: names of all scores; `table` holds one list of texts per encoder in that order.
        pairs: paired differences (first, second, text, what it says).
        n: how many independent units, images or pairs of them, are behind the headline.
        anchor: its name in links.
    """

    key: str
    title: str
    family: str
    question: str
    how_to_read: str
    reference: str
    better: str
    unit: str
    headline: str
    spec: str
    interval_kind: str
    rows: list[Row]
    ticks: list[tuple[float, str]]
    readouts: list[str]
    table: list[tuple[str, list[str]]]
    pairs: list[tuple[str, str, str, str]]
    n: int
    anchor: str


def cards(record: Record) -> list[Card]:
    """Return one card per measure that any encoder of the record was asked."""
    return [_card(record, key) for key in titles(record)]


def families(cards: Iterable[Card]) -> dict[str, list[Card]]:
    """Return the cards of each family, in the order in which they are first met."""
    together: dict[str, list[Card]] = {}
    for card in cards:
        together.setdefault(card.family, []).append(card)
    return together


def _card(record: Record, key: str) -> Card:
    asked = [(i, e) for i, e in best_first(record) if key in e.measures]
    answers = [(i, e.name, e.measures[key]) for i, e in asked]
    # The description comes from a measure that worked, where there is one: it knows its headline.
    about = next((m for _, _, m in answers if not m.error), answers[0][2])
    unit, headline = about.unit, about.headline or ""
    levels = any(m.levels for _, _, m in answers)
    scores = [m.scores.get(headline) for _, _, m in answers]
    drawn = [*scores, *(m.scores["attack"] for _, _, m in answers if _two_sided(m))]
    ends = [end for s in drawn if s for end in (s.value, s.low, s.high) if finite(end)]
    ticks = [tick / 255 for tick in axis([255 * end for end in ends], unit)] if levels else axis(ends, unit)
    best = find_best(record, key)
    rows = [
        replace(_row(i, e.name, e.measures[key], s, unit, levels, ticks, best), doubt=explain_doubt(e, s or NO_SCORE))
        for (i, e), s in zip(asked, scores, strict=True)
    ]
    readouts = list(dict.fromkeys(name for _, _, m in answers for name in m.scores))
    table = [
        (name, [format_score_inline(m.scores[r], unit, levels) if r in m.scores else "–" for r in readouts])
        for _, name, m in answers
        if m.scores
    ]
    kinds = dict.fromkeys(s.interval for _, _, m in answers for s in m.scores.values() if s.interval)
    return Card(
        key=key, title=about.title, family=about.family or FURTHER,
        question=about.question, how_to_read=about.how_to_read,
        reference=spell_out(about.reference), better=about.better, unit=unit,
        headline=headline, spec=part(about.part), interval_kind="; ".join(kinds), rows=rows,
        ticks=[(place(t, ticks) or 0.0, _tick(t, unit, levels, ticks)) for t in ticks], readouts=readouts, table=table,
        pairs=_pairs(record, key, unit, levels), n=max(s.n if s else 0 for s in scores),
        anchor=f"measure-{list(titles(record)).index(key) + 1}",
    )  # fmt: skip


def axis(ends: list[int | float], unit: str) -> list[int | float]:
    """Return ticks that enclose every interval, from zero where zero is near."""
    if not ends:
        return []
    low, high = min(ends), max(ends)
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    if unit == "share" and low >= 0:
        high = min(high, 1.0)
    if unit == "share" and high - low < 1e-9:
        low, high = (0.0, max(0.01, high)) if high < 0.5 else (low - 0.01, high)
    ticks = nice_ticks(low, high)
    return [t for t in ticks if t <= 1 + 1e-9] if unit == "share" and 0 <= low <= high <= 1 else ticks


def place(value: int | float | None, ticks: list[int | float]) -> float | None:
    """Return where a value lies between the first and the last tick, in percent; None where it has no place."""
    if not finite(value) or len(ticks) < 2:
        return None
    return round(100 * min(1.0, max(0.0, (value - ticks[0]) / (ticks[-1] - ticks[0]))), 2)


def _tick(value: int | float, unit: str, levels: bool, ticks: list[int | float]) -> str:
    scale, suffix = (255, "/255") if levels else (100, " %") if unit == "share" else (1, "")
    return f"{value * scale:.6g}".replace("-", "−") + (suffix if value == ticks[-1] else "")


def _row(
    series: int,
    name: str,
    m: MeasureEntry,
    score: Score | None,
    unit: str,
    levels: bool,
    ticks: list[int | float],
    best: str | None,
) -> Row:
    uncertified, s = m.not_certified, score or NO_SCORE
    error = m.error or (None if score or uncertified else "no score at this read-out")
    both = _two_sided(m)
    at, attack = place(s.value, ticks), m.scores["attack"] if both else NO_SCORE
    attacked = place(attack.value, ticks)
    ends = place(attack.low, ticks), place(attack.high, ticks)
    side = None if attacked is None or at is None else Side(attacked, *ends)
    text, interval = format_score(s, unit, levels)
    if both:
        text, interval = bracket(m.scores, unit, m.better, levels), f"mark: {interval}" if interval else ""
    note = "; ".join(filter(None, [flaw(s), s.note]))
    start, end = place_ends(s, ticks)
    return Row(
        name=name, series=series, value=text, interval=interval, note=note, best=name == best, error=error,
        at=None if s.standing == VOID else at, start=start, end=end, uncertified=uncertified, attack=side,
    )  # fmt: skip


def place_ends(s: Score, ticks: list[int | float]) -> tuple[float | None, float | None]:
    """Return where the interval of a score is drawn; nowhere where the number is a bound on one side, or void."""
    if s.standing != SOUND:
        return None, None
    return place(s.low, ticks), place(s.high, ticks)


def flaw(s: Score) -> str:
    """Return why a number is void, or a bound on one side; "" where it is sound."""
    return say_failed(s.because) if s.because else ""


def _two_sided(m: MeasureEntry) -> bool:
    return bool(bracket(m.scores, m.unit, m.better))


def _pairs(record: Record, key: str, unit: str, levels: bool) -> list[tuple[str, str, str, str]]:
    compared = record.comparison.get(key)
    out = {e.name for e in record.encoders if not is_rival(e, record.plan.allow)}
    return [
        (
            pair.first, pair.second, format_score_inline(pair.difference, unit, levels),
            say_unranked(pair, out) or favours(pair),
        )
        for pair in (compared.pairs if compared else [])
    ]  # fmt: skip


def say_unranked(pair: PairEntry | ComparedPair, out: Collection[str]) -> str:
    """Return who of a pair is `out` of the ranks, so that their difference is told and no verdict; "" for nobody."""
    names = [name for name in (pair.first, pair.second) if name in out]
    return f"not ranked: {listing(names)}" if names else ""


def favours(pair: PairEntry) -> str:
    """Return which encoder a paired difference favours, after correction."""
    if not finite(pair.difference.low) or not finite(pair.difference.high):
        return "undefined"
    return f"favours {pair.winner}" if pair.winner else "no clear difference"

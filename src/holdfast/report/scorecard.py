"""The scorecard as data: one card per measure, one row per encoder, all rows of a card on one axis."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.report.brief import in_levels
from holdfast.report.folder import nice_ticks
from holdfast.report.leader import format_score, format_score_inline
from holdfast.report.numbers import bracket, finite, listing, part
from holdfast.report.verdict import titles
from holdfast.storage.standing import SOUND, VOID

FURTHER = "Further measures"
"""Heading of measures that belong to no family."""


@dataclass(frozen=True)
class Row:
    """One encoder on one measure: text, and positions on the card's axis in percent (None: nothing to draw)."""

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
    formula: str
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


def cards(record: Mapping[str, Any]) -> list[Card]:
    """Return one card per measure that any encoder of the record was asked."""
    return [_card(record, key) for key in titles(record)]


def families(cards: Iterable[Card]) -> dict[str, list[Card]]:
    """Return the cards of each family, in the order in which they are first met."""
    together: dict[str, list[Card]] = {}
    for card in cards:
        together.setdefault(card.family, []).append(card)
    return together


def _card(record: Mapping[str, Any], key: str) -> Card:
    answers = [
        (i, e["name"], e["measures"][key]) for i, e in enumerate(record["encoders"]) if key in e.get("measures", {})
    ]
    # The description comes from a measure that worked, where there is one: it knows its headline.
    about = next((m for _, _, m in answers if not m.get("error")), answers[0][2])
    unit, headline = about["unit"], about.get("headline") or ""
    levels = any(in_levels(m) for _, _, m in answers)
    scores = [m["scores"].get(headline, {}) for _, _, m in answers]
    drawn = [*scores, *(m["scores"]["attack"] for _, _, m in answers if _two_sided(m))]
    ends = [s.get(k) for s in drawn for k in ("value", "low", "high") if finite(s.get(k))]
    ticks = [tick / 255 for tick in axis([255 * end for end in ends], unit)] if levels else axis(ends, unit)
    best = record["comparison"].get(key, {}).get("best")
    rows = [_row(i, name, m, s, unit, levels, ticks, best) for (i, name, m), s in zip(answers, scores, strict=True)]
    readouts = list(dict.fromkeys(name for _, _, m in answers for name in m["scores"]))
    table = [
        (name, [format_score_inline(m["scores"][r], unit, levels) if r in m["scores"] else "–" for r in readouts])
        for _, name, m in answers
        if m["scores"]
    ]
    kinds = dict.fromkeys(s["interval"] for _, _, m in answers for s in m["scores"].values() if s.get("interval"))
    return Card(
        key=key, title=about["title"], family=about.get("family") or FURTHER,
        question=about.get("question", ""), how_to_read=about.get("how_to_read", ""),
        formula=about.get("formula", ""), reference=about.get("reference", ""), better=about["better"], unit=unit,
        headline=headline, spec=part(about.get("part", {})), interval_kind="; ".join(kinds), rows=rows,
        ticks=[(place(t, ticks) or 0.0, _tick(t, unit, levels, ticks)) for t in ticks], readouts=readouts, table=table,
        pairs=_pairs(record, key, about["better"], unit, levels), n=max(s.get("n", 0) for s in scores),
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
    m: Mapping[str, Any],
    s: Mapping[str, Any],
    unit: str,
    levels: bool,
    ticks: list[int | float],
    best: str | None,
) -> Row:
    uncertified = m.get("not_certified")
    error = m.get("error") or (None if s or uncertified else "no score at this read-out")
    both = _two_sided(m)
    at, attack = place(s.get("value"), ticks), m["scores"].get("attack", {}) if both else {}
    attacked = place(attack.get("value"), ticks)
    ends = place(attack.get("low"), ticks), place(attack.get("high"), ticks)
    side = None if attacked is None or at is None else Side(attacked, *ends)
    text, interval = format_score(s, unit, levels)
    if both:
        text, interval = bracket(m["scores"], unit, m["better"]), f"mark: {interval}" if interval else ""
    note = "; ".join(filter(None, [flaw(s), s.get("note")]))
    start, end = place_ends(s, ticks)
    return Row(
        name=name, series=series, value=text, interval=interval, note=note, best=name == best, error=error,
        at=None if s.get("standing") == VOID else at, start=start, end=end, uncertified=uncertified, attack=side,
    )  # fmt: skip


def place_ends(s: Mapping[str, Any], ticks: list[int | float]) -> tuple[float | None, float | None]:
    """Return where the interval of a score is drawn; nowhere where the number is a bound on one side, or void."""
    if s.get("standing", SOUND) != SOUND:
        return None, None
    return place(s.get("low"), ticks), place(s.get("high"), ticks)


def flaw(s: Mapping[str, Any]) -> str:
    """Return why a number is void, or a bound on one side; "" where it is sound."""
    return f"{listing(s['because'])} failed" if s.get("because") else ""


def _two_sided(m: Mapping[str, Any]) -> bool:
    return bool(bracket(m["scores"], m["unit"], m["better"]))


def _pairs(
    record: Mapping[str, Any], key: str, better: str, unit: str, levels: bool
) -> list[tuple[str, str, str, str]]:
    pairs = []
    for pair in record["comparison"].get(key, {}).get("pairs", []):
        difference = pair["difference"]
        pairs.append(
            (pair["first"], pair["second"], format_score_inline(difference, unit, levels), favours(pair, better))
        )
    return pairs


def favours(pair: Mapping[str, Any], better: str) -> str:
    """Return which encoder a paired difference (first minus second) favours; open where its interval holds zero."""
    low, high = pair["difference"].get("low"), pair["difference"].get("high")
    if not finite(low) or not finite(high):
        return "undefined"
    if low <= 0 <= high:
        return "no clear difference"
    return f"favours {pair['first'] if (low > 0) == (better == 'higher') else pair['second']}"

"""Numbers as people read them; the one place where terminal and HTML agree on digits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.numerics.statistics.score import Score
from holdfast.runtime.digits import ALMOST_ALL, UNDEFINED, Number, ends, finite, number
from holdfast.storage.sides import SIDES
from holdfast.storage.standing import SOUND, VOID

BETTER = {"lower": "↓ lower is better", "higher": "↑ higher is better"}


def format_bound(bound: str, text: str) -> str:
    """Return "at most 12 %": a number behind what says of which side it is a bound.

    Example:
        >>> format_bound("≤", "12 %"), format_bound("≤", "> 99.9999 %"), format_bound("at least", "> 99.9999 %")
        ('≤ 12 %', '< 100 %', '> 99.9999 %')
    """
    if not text.startswith(ALMOST_ALL):
        return f"{bound} {text}"
    return text if bound == "at least" else "< 100 %"


def interval(score: Score, unit: str = "ratio", digits: int | None = None) -> str:
    """Return "[low, high]" of a score, see `ends`; "" where it has no interval."""
    pair = ends(score.value, score.low, score.high, unit, digits)
    return f"[{pair[0]}, {pair[1]}]" if pair else ""


def statement(entry: Score, unit: str, digits: int | None = None) -> tuple[str, str]:
    """Return what one score of a record says: its value, and its interval where it has one.

    Where a check that it depends on failed that is what is left of it: "at least 0.13 %", or "void".

    Args:
        entry: the score.
        unit: its measure's; a score that has another one says so itself.
        digits: significant digits of the value; None: by the interval.
    """
    unit, standing = entry.unit or unit, entry.standing
    value = number(entry.value, unit, entry.low, entry.high, digits)
    if standing == VOID:
        return VOID, ""
    if standing != SOUND and value != UNDEFINED:
        return format_bound(standing, value), ""
    return value, interval(entry, unit, digits)


def score(entry: Score, unit: str) -> str:
    """Return "12.3 % [9.1, 15.2]" for one score of a record; see `statement`."""
    return " ".join(filter(None, statement(entry, unit)))


def format_score(score: Score, unit: str, levels: bool, digits: int | None = None) -> tuple[str, str]:
    """Return a score's value and interval as `statement` does, or as n/255: ("20.0/255", "[19.1, 20.6]")."""
    if not levels or score.unit not in ("", unit):
        return statement(score, unit, digits)
    value, low, high = (255 * end if finite(end) else None for end in (score.value, score.low, score.high))
    text, interval = statement(replace(score, value=value, low=low, high=high), unit, digits)
    return text if value is None or text == VOID else f"{text}/255", interval


def format_score_inline(score: Score, unit: str, levels: bool, digits: int | None = None) -> str:
    """Return what `format_score` does as one text: "20.0/255 [19.1, 20.6]"."""
    return " ".join(filter(None, format_score(score, unit, levels, digits)))


def choice(entry: Score) -> str:
    """Return "0.2 [0, 0.3]" for a score that is one of some given values, which are written as they were given."""
    if entry.standing == VOID:
        return VOID
    if not finite(entry.value):
        return UNDEFINED
    ends = f" [{entry.low:g}, {entry.high:g}]" if finite(entry.low) and finite(entry.high) else ""
    return f"{entry.value:g}{ends}"


BEST_BUDGET = "best ε"
"""The score that is a choice among given values: shown below the headline wherever there is one."""


def bracket(scores: Mapping[str, Score], unit: str, better: str, levels: bool = False) -> str:
    """Return "proved 22.4/255, broken at 44.1/255" of a measure that attack and certificate answer; "" of all others.

    A proof of no more than what is true of every encoder is "nothing proved".
    """
    if any(side not in scores for side in SIDES):
        return ""
    attack, proof = (scores[side] for side in SIDES)
    if VOID in (attack.standing, proof.standing):
        return VOID
    bare = (replace(side, standing=SOUND) for side in (attack, proof))
    attacked, proved = (format_score(side, unit, levels)[0] for side in bare)
    nothing = vacuous(proof, unit, better)
    if better == "lower":
        return f"attack finds {attacked}, {'nothing proved' if nothing else 'proved ' + format_bound('≤', proved)}"
    broken = f"broken at {attacked}" if unit == "pixels" else f"attack leaves {attacked}"
    return f"{'nothing proved' if nothing else f'proved {proved}'}, {broken}"


def vacuous(proof: Score, unit: str, better: str) -> bool:
    """Return whether a proof says no more than what is true of every encoder."""
    value = proof.value
    return value is not None and (value >= 1 if better == "lower" and unit == "share" else value <= 0)


def count(value: int | None) -> str:
    """Return a count with thousands separators, "-" for None."""
    return "-" if value is None else f"{value:,}"


def duration(seconds: Number | None) -> str:
    """Return a time as "0.3 s", "3 min 12 s" or "1 h 4 min"; "2 min" of exactly so much."""
    if not finite(seconds):
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, remainder = divmod(round(seconds), 60)
    big, small = (f"{minutes} min", f"{remainder} s") if minutes < 60 else (f"{minutes // 60} h", f"{minutes % 60} min")
    return big if small.startswith("0 ") else f"{big} {small}"


def part(data: Any) -> str:
    """Return a part's spec as one would write it: "pgd(steps=50, step=0.001)"."""
    if isinstance(data, Mapping):
        fields = ", ".join(f"{key}={part(value)}" for key, value in data.items() if key not in ("kind", "name"))
        return f"{data.get('name', '')}({fields})"
    if isinstance(data, (list, tuple)):
        return "[" + ", ".join(part(item) for item in data) + "]"
    return f"{data:g}" if isinstance(data, float) else str(data)


def decapitalise(text: str) -> str:
    """Return a text as it stands within a sentence."""
    return text[:1].lower() + text[1:]


def listing(names: Sequence[str], limit: int = 5) -> str:
    """Return "a, b and c", or "a, b, c and 9 more" beyond the limit."""
    shown = list(names) if len(names) <= limit else [*names[: limit - 1], f"{len(names) - limit + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""


def plural(n: int, word: str) -> str:
    """Return "1 check" or "2 checks"."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"

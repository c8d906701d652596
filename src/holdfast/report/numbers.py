"""Numbers as people read them; the one place where terminal and HTML agree on digits."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from holdfast.numerics.statistics.score import Score
from holdfast.storage.sides import SIDES
from holdfast.storage.standing import SOUND, VOID

Number = int | float
"""JSON writes 1.0 as 1 at times; both are numbers here."""
_SMALLEST = 1e-12
"""What is nearer to zero is a rounding error."""
_LARGEST = 1e300
"""Beyond, percents and widths are no numbers any more."""
_BELOW_ALL = 1e-4
"""Percents by which a share must be below all for digits to say it."""
UNDEFINED = "undefined"
ALMOST_ALL = "> 99.9999"
"""A share that is nearer to 100 % than that, but below it: rounded it would be 100 %."""
BETTER = {"lower": "↓ lower is better", "higher": "↑ higher is better"}


def finite(value: Any) -> TypeGuard[float]:
    """Return whether this is a number that can be shown: not None, NaN or infinite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _first_digit(value: Number) -> int:
    """Return how many decimals show the first significant digit of a positive number."""
    return -math.floor(math.log10(value))


def _decimals(value: Number, low: Number | None, high: Number | None, top: Number | None) -> int:
    """Return decimals: one or two digits of the interval's half-width, at least one of the value.

    The half-width keeps two digits below 3.55 and one above (as the Particle Data Group rounds uncertainties);
    without an interval the value keeps three, shares two. Near the end of a scale (100 %) the distance to that
    end counts as the value, so 99.97 % is not 100 %; below 0.0001 it no longer counts, nor does such a half-width.
    """
    at_top = top is not None and abs(top - value) < _BELOW_ALL
    parts = [abs(value)] if top is None or at_top else [abs(value), abs(top - value)]
    smallest = min((p for p in parts if p > _SMALLEST), default=0.0)
    half = high / 2 - low / 2 if low is not None and high is not None else 0.0
    if at_top and half < _BELOW_ALL:
        return 0
    if half > _SMALLEST:
        digits = _first_digit(half) + (half * 10 ** _first_digit(half) < 3.55)
    else:
        digits = _first_digit(smallest) + (2 if top is None else 1) if smallest else 0
    if smallest:
        digits = max(digits, _first_digit(smallest))
    return max(0, digits)


def number(
    value: Number | None,
    unit: str = "ratio",
    low: Number | None = None,
    high: Number | None = None,
    digits: int | None = None,
) -> str:
    """Return a value with as many digits as its interval supports; shares as percent; "undefined" for None.

    No share below 100 % is rounded to it: `ALMOST_ALL` is the last one before.

    Args:
        value: the number.
        unit: of it.
        low: lower end of its interval.
        high: upper end.
        digits: significant digits; None: by the interval.
    """
    if value is None or not finite(value):
        return UNDEFINED
    text = _write(value, unit, _digits(value, unit, low, high, digits))
    return _not_all(text, value, unit) + (" %" if unit == "share" else "")


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
    """Return "[low, high]" with the digits of the value, or "" where the score has no interval.

    An end that is not zero has as many digits as it takes not to look like zero, a lower one that is not 100 % not to
    look like that.
    """
    value, low, high = score.value, score.low, score.high
    if not finite(low) or not finite(high):
        return ""
    decimals = _digits(value if finite(value) else low, unit, low, high, digits)
    return f"[{_not_all(_end(low, unit, decimals), low, unit)}, {_end(high, unit, decimals)}]"


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


def _digits(value: Number, unit: str, low: Number | None, high: Number | None, significant: int | None = None) -> int:
    scale = 100.0 if unit == "share" else 1.0
    if abs(value) > _LARGEST:
        return 0
    if significant is not None:
        return max(0, significant - 1 + (_first_digit(abs(value) * scale) if value else 0))
    low, high = (end if finite(end) and abs(end) <= _LARGEST else None for end in (low, high))
    ends = (low * scale, high * scale) if finite(low) and finite(high) else (None, None)
    return _decimals(value * scale, *ends, top=100.0 if unit == "share" and 0 <= value <= 1 else None)


def _end(value: Number, unit: str, decimals: int) -> str:
    scaled = abs(value) * (100 if unit == "share" else 1)
    vanishes = _SMALLEST < scaled < 1 and float(f"{scaled:.{min(decimals, 6)}f}") == 0
    return _write(value, unit, _first_digit(scaled) if vanishes else decimals)


def _not_all(text: str, value: Number, unit: str) -> str:
    """Return what was written of a share that is below 100 %, with more digits where it looks like that."""
    below = 100 - 100 * value if unit == "share" and 0 <= value <= 1 else 0.0
    if below <= _SMALLEST or float(text) < 100:
        return text
    return ALMOST_ALL if below < _BELOW_ALL else _write(value, unit, _first_digit(below))


def _write(value: Number, unit: str, decimals: int) -> str:
    scaled = value * 100 if unit == "share" and abs(value) <= _LARGEST else value
    if abs(scaled) >= 1e6 or (decimals > 6 and abs(scaled) < 1e-3):
        text = f"{scaled:.2g}"
        return text[1:] if scaled == 0 and text.startswith("-") else re.sub("^-", "−", text)
    text = f"{scaled:.{min(decimals, 6)}f}"
    return text.lstrip("-") if not text.strip("-0.") else text.replace("-", "−")


def count(value: int | None) -> str:
    """Return a count with thousands separators, "-" for None."""
    return "-" if value is None else f"{value:,}"


def duration(seconds: Number | None) -> str:
    """Return a time as "0.3 s", "3 min 12 s" or "1 h 4 min"."""
    if not finite(seconds):
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


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

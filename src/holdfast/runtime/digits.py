"""How many digits of a number its interval supports: the one rule of tables, pages and sentences."""

import math
import re
from typing import Any, TypeGuard

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


def ends(
    value: Number | None, low: Number | None, high: Number | None, unit: str = "ratio", digits: int | None = None
) -> tuple[str, str] | None:
    """Return the ends of an interval with the digits of its value; None where it has none.

    An end that is not zero has as many digits as it takes not to look like zero, a lower one that is not 100 % not to
    look like that.
    """
    if not finite(low) or not finite(high):
        return None
    decimals = _digits(value if finite(value) else low, unit, low, high, digits)
    return _not_all(_end(low, unit, decimals), low, unit), _end(high, unit, decimals)


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

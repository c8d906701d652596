"""Times as people write them: 90s, 30m, 1h30m; and as they read them: 40 s, 17 min, 1 h 30 min."""

import re

from holdfast.runtime.errors import BadValue

UNITS = (3600, 60, 1)
"""Seconds of an hour, a minute and a second."""


def seconds(text: str, what: str = "budget") -> float:
    """Read a time: 90s, 30m, 2h, 1h30m.

    Example:
        >>> seconds("1h30m")
        5400.0
    """
    # Few digits, so that every number is a float
    one = r"(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)"
    # Each unit may be missing, but the order is fixed
    match = re.fullmatch(rf"{one}h)?{one}m)?{one}s)?", text.strip())
    if match is None or not any(match.groups()):
        raise BadValue(f"{what}: expected a time such as 90s, 30m or 1h30m, got {text!r}")
    return sum(float(number) * unit for number, unit in zip(match.groups(), UNITS, strict=True) if number)


def format_duration(seconds: float) -> str:
    """Return a time as people read it.

    Example:
        >>> format_duration(40.4), format_duration(1020), format_duration(5400)
        ('40 s', '17 min', '1 h 30 min')
    """
    minutes = round(seconds / 60)
    # Below that, "1 min" or "2 min" would say too little
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"

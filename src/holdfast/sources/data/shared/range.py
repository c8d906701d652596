"""What is said of pixels that are not in [0, 1], and of numbers that none can be."""

from typing import NoReturn

import numpy as np

from holdfast.runtime.errors import BadData

_DARK = 64
"""Where the largest value is no larger, bytes are so unlikely that it is asked what white is."""


def check_range(low: float, high: float, name: str) -> None:
    """Raise unless the values of `name`, from `low` to `high`, are pixels in [0, 1]."""
    if low < 0 or high > 1:
        advice = _advise(low, high, "divide 0-255 floats by 255, or store them as uint8")
        raise BadData(f"{name}: expected pixels in [0, 1], got {low:g} to {high:g}; {advice}")


def refuse_type(values: np.ndarray, name: str, expected: str, for_bytes: str) -> NoReturn:
    """Raise for `values` of a type that pixels cannot have; `for_bytes`: what to do with 0 to 255."""
    got, advice = str(values.dtype), f"convert 0-255 integers with {for_bytes}"
    if values.dtype.kind in "iu" and values.size:
        low, high = int(values.min()), int(values.max())
        got, advice = f"{got} of {low} to {high}", _advise(low, high, advice)
    raise BadData(f"{name}: expected {expected}, got {got}; {advice}")


def _advise(low: float, high: float, for_bytes: str) -> str:
    """Return how values from `low` to `high` become pixels in [0, 1]; `for_bytes`: where they are bytes."""
    # No known range: neither bytes nor shares
    if low < 0 or high > 255:
        return "rescale them"
    if high <= 1:
        return "convert them to float32"
    # Digits of 0 to 16, or dark bytes: who has them knows
    return for_bytes if high > _DARK else f"divide by {high:g} if that is white; if 255 is, {for_bytes}"

"""The one sentence about pixels that are not in [0, 1]."""

from holdfast.runtime.errors import HoldfastError


def check_range(low: float, high: float, name: str) -> None:
    """Raise unless the values of `name`, from `low` to `high`, are pixels in [0, 1]."""
    if low < 0 or high > 1:
        advice = "divide 0-255 floats by 255, or store them as uint8" if low >= 0 and high <= 255 else "rescale them"
        raise HoldfastError(f"{name}: expected pixels in [0, 1], got {low:g} to {high:g}; {advice}")

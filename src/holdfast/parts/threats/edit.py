"""Edit: one threat from a mild to a heavy amount, a family with a strength."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from holdfast.core import Corruption, HoldfastError, Images, Rng, Threat, registry
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.runtime.checked import describe_value
from holdfast.runtime.errors import BadValue

DIGITS = 3
"""Significant digits of an amount, so that what a title says is what was done."""

SIDE = 32
"""Pixels of the side of the picture on which mild is held against heavy."""


@dataclass(frozen=True)
class Edit(Threat):
    """The threats between two of one kind: each number a of `mild` becomes a + s (b - a), b of `heavy`, s in [0, 1].

    `at(s)` is one of them, s the strength. As a threat itself: one of them for each image, s uniform in [0, 1]. Whole
    numbers are rounded, others have three significant digits.

    Attributes:
        mild: where it begins.
        heavy: where it ends: the same threat with other numbers.
        label: what people call it; "" for what the titles of both say.

    Source: corruptions with a continuous severity; one parameter of an edit, from mild to heavy.

    Example:
        >>> edit = Edit(Jpeg(95), Jpeg(10))
        >>> edit.title, edit.at(0.5).title, edit.amount(0.5)
        ('JPEG 95 to 10', 'JPEG 52', 52.0)
    """

    mild: Corruption = Jpeg(95)
    heavy: Corruption = Jpeg(10)
    label: str = ""

    def __post_init__(self) -> None:
        numbers = self._numbers
        if not numbers:
            raise BadValue(f"edit: expected mild and heavy with numbers that differ, got {self.mild.title} twice")
        # Which one is heavier is measured, since of some numbers less is
        # more, such as a JPEG's quality
        changed = _measure_change(self.mild), _measure_change(self.heavy)
        if changed[0] > changed[1]:
            raise BadValue(
                f"edit: expected heavy to change a picture more than mild, got {self.mild.title} as mild and "
                f"{self.heavy.title} as heavy; swap them"
            )

    @property
    def _numbers(self) -> list[tuple[str, float, float]]:
        # Specs are plain tables of all parameters, nested parts
        # included, so any threat can be compared
        return list(_differences(registry.spec(self.mild), registry.spec(self.heavy)))

    @property
    def title(self) -> str:
        """Its label, or the words of both titles: "JPEG 95 to 10"."""
        if self.label:
            return self.label
        begin, end = self.mild.title.split(), self.heavy.title.split()
        if len(begin) != len(end):
            return f"{self.mild.title} to {self.heavy.title}"
        return " ".join(a if a == b else f"{a} to {b}" for a, b in zip(begin, end, strict=True))

    @property
    def parameter(self) -> str:
        """The number that differs, such as "quality"; "" where several do."""
        numbers = self._numbers
        return numbers[0][0] if len(numbers) == 1 else ""

    def amount(self, strength: float) -> float:
        """Return the parameter at a strength in [0, 1]; where several differ, the strength itself."""
        if not self.parameter:
            return strength
        _, begin, end = self._numbers[0]
        return float(_between(begin, end, strength))

    def at(self, strength: float) -> Corruption:
        """Return the threat of a strength.

        Args:
            strength: from 0, `mild`, to 1, `heavy`.

        Raises:
            HoldfastError: a strength outside [0, 1].
        """
        if not 0 <= strength <= 1:
            raise BadValue(f"edit: expected a strength from 0 (mild) to 1 (heavy), got {describe_value(strength)}")
        return registry.build(_interpolate(registry.spec(self.mild), registry.spec(self.heavy), strength))

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the images under threats of strengths that are drawn, one for each.

        Raises:
            HoldfastError: images that the threat does not fit.
        """
        strengths = rng.child("edit").uniform(1)[:, 0].tolist()
        # Image by image, as each one meets a threat of its own
        edited = [self.at(strength).sample(x[[row]], rng.at([rng.ids[row]])) for row, strength in enumerate(strengths)]
        return torch.cat(edited)


def _between(begin: float, end: float, strength: float) -> float:
    """Return begin + strength (end - begin), whole between whole numbers, else of three digits; the ends are exact."""
    if strength in (0, 1):
        return end if strength else begin
    value = begin + strength * (end - begin)
    whole = isinstance(begin, int) and isinstance(end, int)
    return round(value) if whole else float(f"{value:.{DIGITS}g}")


def _differences(mild: Any, heavy: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the numbers in which two specs differ, with the names of their fields."""
    if isinstance(mild, Mapping) and isinstance(heavy, Mapping):
        if mild["name"] != heavy["name"]:
            raise _other(f"{mild['name']} and {heavy['name']}")
        for key in mild:
            yield from _differences(mild[key], heavy[key], key)
    elif isinstance(mild, list) and isinstance(heavy, list) and len(mild) == len(heavy):
        for begin, end in zip(mild, heavy, strict=True):
            yield from _differences(begin, end, name)
    elif mild != heavy:
        # By type and not by isinstance: True is an int, and there is nothing between True and False
        if not all(type(value) in (int, float) for value in (mild, heavy)):
            raise _other(f"{name} {describe_value(mild)} and {describe_value(heavy)}")
        yield name, mild, heavy


def _other(what: str) -> BadValue:
    return BadValue(f"edit: expected the same threat as mild and as heavy, with other numbers, got {what}")


def _interpolate(mild: Any, heavy: Any, strength: float) -> Any:
    """Return the spec between two, which differ in numbers alone."""
    if isinstance(mild, Mapping):
        return {key: _interpolate(mild[key], heavy[key], strength) for key in mild}
    if isinstance(mild, list):
        return [_interpolate(begin, end, strength) for begin, end in zip(mild, heavy, strict=True)]
    return mild if mild == heavy else _between(mild, heavy, strength)


@cache
def _measure_change(threat: Corruption) -> float:
    """Return the mean |x' - x| of a picture with details of all sizes; 0 where the threat does not fit it."""
    generator = torch.Generator().manual_seed(0)
    # Cells of 1, 2, 4, 8 and 16 pixels, the larger the stronger: amplitudes of
    # photographs fall as 1 / frequency
    sides = [SIDE // 2**level for level in range(5)]
    layers = [torch.rand(1, 3, side, side, generator=generator).mul(SIDE / side) for side in sides]
    x = sum(torch.nn.functional.interpolate(layer, SIDE, mode="nearest") for layer in layers)
    assert isinstance(x, torch.Tensor)
    x = (x - x.min()) / (x.max() - x.min())
    try:
        return float((threat.sample(x, Rng(0, ids=("picture",))) - x).abs().mean())
    except HoldfastError:
        return 0.0

"""What somebody may have meant by a name that nothing has."""

import math
import os
import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from pathlib import Path

ALIKE = 0.6
"""How alike a name is, at least, that is offered as what was meant."""


def likeness(meant: str, name: str) -> float:
    """Return how alike two names are, from 0 to 1: capitals and punctuation do not count, a common beginning does.

    Example:
        >>> likeness("CIFAR-10", "cifar10"), likeness("break", "breakaway_risk") > ALIKE
        (1.0, True)
    """
    first, second = _plain(meant), _plain(name)
    if first == second:
        return 1.0
    # What somebody has begun to type: the nearer to its end, the likelier
    if len(first) > 2 and second.startswith(first):
        return 0.8 + 0.2 * len(first) / len(second)
    matcher = SequenceMatcher(None, first, second)
    # quick_ratio is a cheap upper bound of ratio
    return matcher.ratio() if matcher.quick_ratio() > 0.3 else 0.0


def nearest(meant: str, names: Iterable[str], count: int = 1, least: float = ALIKE) -> list[str]:
    """Return the names most like one, best first; of names alike those that begin with the same letter.

    Names of which only the numbers differ come first, by how far their numbers are from those that were meant.

    Example:
        >>> nearest("blocks.12", ["blocks.1", "blocks.2", "blocks.11"], 2)
        ['blocks.11', 'blocks.2']
    """
    shape, numbers = _split_numbers(meant)

    def rank(scored: tuple[float, str]) -> tuple[list[float], float, bool, str]:
        likely, name = scored
        form, own = _split_numbers(name)
        away = [math.inf]  # where names differ in more than numbers, these say nothing
        if form == shape and own:
            # Digits that have changed places are the same number, mistyped
            away = [0.0 if _digits(a) == _digits(b) else float(abs(a - b)) for a, b in zip(own, numbers, strict=True)]
        return away, -likely, name[:1].lower() != meant[:1].lower(), name

    scored = sorted(((likeness(meant, name), name) for name in names), key=rank)
    return [name for likely, name in scored if likely >= least][:count]


def _split_numbers(name: str) -> tuple[str, list[int]]:
    """Return a name without its numbers, and these."""
    return _plain(re.sub(r"[0-9]+", "0", name)), [int(digits[:18]) for digits in re.findall(r"[0-9]+", name)]


def _digits(number: int) -> list[str]:
    return sorted(str(number))


def format_suggestions(names: Iterable[str]) -> str:
    """Return "; did you mean ...?" of some names, or nothing."""
    return f"; did you mean {' or '.join(listed)}?" if (listed := list(names)) else ""


def path_meant(path: str | os.PathLike[str], advice: str = "check the path") -> str:
    """Return "did you mean ...?" of a file or folder beside one that is not there; else the advice."""
    missing = Path(path).expanduser()
    try:
        there = [entry.name for entry in missing.parent.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return advice
    near = nearest(missing.name, there)
    return f"did you mean {str(missing.parent / near[0])!r}?" if near else advice


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower() or name

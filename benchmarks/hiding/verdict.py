"""What counts: a number that flatters without a mark, and an honest encoder that is under suspicion."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.hiding.audit import ACCURACY, RADIUS, Audit

ROUNDING = 1e-6
"""Pixels by which a change may be larger than the ball."""

NEARLY = 0.01
"""Share of a radius that is no difference."""

FLATTERS, TRUE, BOUND, VOID, NONE, UNKNOWN = "flatters", "true", "bound", "void", "no number", "no truth"
"""Verdicts on what hides: from the worst on; "true" is a plain number whose interval does not exclude the truth."""

PLAIN, ALARM = "plain", "false alarm"
"""Verdicts on honest encoders, beside "flatters"."""

ORDER = (FLATTERS, UNKNOWN, TRUE, BOUND, VOID, NONE)


@dataclass(frozen=True)
class Truth:
    """What an adaptive attack found.

    Attributes:
        radii: of each attacked image the smallest change that breaks it, in pixels; the truth is at most that.
        seconds: that took so long.
    """

    radii: tuple[float, ...]
    seconds: float = 0.0

    @property
    def radius(self) -> float:
        """The median breaking radius is at most this."""
        return median(self.radii)

    def accuracy(self, eps: float) -> float:
        """Return what the nearest-neighbour accuracy in a ball is at most."""
        return sum(radius > eps + ROUNDING for radius in self.radii) / len(self.radii)

    def improved(self, other: "Truth | None") -> "Truth":
        """Return the smallest changes of two."""
        if other is None or len(other.radii) != len(self.radii):
            return self
        return Truth(tuple(map(min, self.radii, other.radii)), self.seconds)


def flattering(audit: Audit, truth: Truth, eps: float) -> dict[str, float]:
    """Return the plain numbers whose interval excludes the truth on the flattering side, and that truth.

    Of shares by more than one image, since an interval of one image in 40 excludes 0; of radii by more than a percent,
    since those of rounded pixels are all the same.

    Example:
        >>> from benchmarks.hiding.audit import Number
        >>> said = Audit({RADIUS: Number(0.2, 0.1, 0.3, "sound")})
        >>> flattering(said, Truth((0.05, 0.05)), 0.1)
        {'breaking_radius: median': 0.05}
    """
    known = {RADIUS: (truth.radius, NEARLY * truth.radius), ACCURACY: (truth.accuracy(eps), 1 / len(truth.radii))}
    return {
        name: most
        for name, (most, slack) in known.items()
        if (number := audit.numbers.get(name)) is not None
        and number.plain
        and number.low is not None
        and number.low > most + slack + ROUNDING
    }


def verdict(audit: Audit, truth: Truth | None, eps: float, hides: bool) -> str:
    """Return what an audit is worth, in a word or two."""
    if truth is not None and flattering(audit, truth, eps):
        return FLATTERS
    if not hides:
        return PLAIN if not marked(audit) and audit.numbers else ALARM
    return max((_standing(audit, name, truth) for name in (RADIUS, ACCURACY)), key=_plainness)


def marked(audit: Audit) -> tuple[str, ...]:
    """Return the checks by which any number is not plain, and errors."""
    because = [check for number in audit.numbers.values() for check in number.because]
    return tuple(dict.fromkeys([*because, *audit.errors]))


def _standing(audit: Audit, name: str, truth: Truth | None) -> str:
    number = audit.numbers.get(name)
    if number is None or (number.value is None and number.standing != VOID):
        return NONE
    if number.plain:
        return TRUE if truth is not None else UNKNOWN
    return VOID if number.standing == VOID else BOUND


def _plainness(said: str) -> int:
    return -ORDER.index(said)


def worse(audit: Audit, truth: Truth, eps: float) -> bool:
    """Whether an audit found clearly more than the attack that knows: then that is too weak."""
    radius, accuracy = audit.numbers.get(RADIUS), audit.numbers.get(ACCURACY)
    return any(
        number is not None and number.value is not None and math.isfinite(most) and number.value < most * share - step
        for number, most, share, step in ((radius, truth.radius, 0.98, 0.0), (accuracy, truth.accuracy(eps), 1.0, 0.01))
    )


def names(values: Sequence[str]) -> str:
    """Return names in a cell, each once, without what stands in brackets."""
    return ", ".join(dict.fromkeys(value.partition("[")[0] for value in values))

"""From what was timed on some images to what all of them take."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from holdfast.auditing.estimate.time_passes import PassTimes
from holdfast.auditing.estimate.time_shards import Timing
from holdfast.core import Observation, Passes


@dataclass(frozen=True)
class Cost:
    """What one part of an audit is expected to take on one worker.

    Attributes:
        title: the part, in a few words.
        images: how many images (or rows) it sees.
        passes: encoder passes; the most where `at_most`.
        seconds: expected time.
        low: two standard errors below, by what was timed; says nothing of what else the machine will do.
        high: two above.
        how: what the time is taken from.
        serves: measures and checks that read it.
        at_most: whether it may end before it has made all passes that were timed.
        at_least: whether the times are lower bounds: it was stopped before anything of it was done, or was not begun.
        guessed: whether nothing of it was timed, so that the time is that of its passes, or pairs, alone.
        stored: bytes of what is seen.
    """

    title: str
    images: int
    passes: Passes
    seconds: float
    low: float
    high: float
    how: str
    serves: tuple[str, ...] = ()
    at_most: bool = False
    at_least: bool = False
    guessed: bool = False
    stored: int = 0


def extrapolate(
    observation: Observation,
    images: int,
    timing: Timing,
    passes: PassTimes,
    precision: str,
    readers: tuple[str, ...],
    draws: int | None = None,
) -> Cost:
    """Return what an observation takes.

    What was not timed takes as long as its encoder passes do, a bound propagation at least as long as one of them.
    """
    each = observation.passes_at(precision, draws)
    total, guessed, seconds, how = each * images, timing.seconds is None, timing.seconds, timing.how
    if seconds is None:
        seconds, how = passes.seconds(each + Passes(forward=each.bounds)), f"passes alone, not timed: {timing.how}"
    low, high = relative_range(timing.paces)
    row = 4 * passes.dim if timing.rows is None else sum(t.nbytes for t in timing.rows.values()) / max(1, timing.images)
    return Cost(
        observation.title,
        images,
        total,
        seconds * images,
        seconds * images * low,
        seconds * images * high,
        how,
        readers,
        observation.adaptive and not guessed,
        timing.at_least or guessed,
        guessed,
        int(row * images),
    )


def relative_range(paces: Sequence[float]) -> tuple[float, float]:
    """Return two standard errors below and above the mean of some paces, relative to it."""
    if len(paces) < 2 or not (mean := fmean(paces)) > 0:
        return 1.0, 1.0
    error = 2 * stdev(paces) / sqrt(len(paces)) / mean
    return max(0.0, 1 - error), 1 + error

"""From what was timed on some images to what all of them take."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

from holdfast.auditing.estimate.time_passes import PassTimes
from holdfast.auditing.estimate.time_shards import Timing
from holdfast.core import Observation, Passes
from holdfast.storage.estimate import PartEstimate, Work


def extrapolate(
    observation: Observation,
    images: int,
    timing: Timing,
    passes: PassTimes,
    precision: str,
    readers: tuple[str, ...],
    draws: int | None = None,
) -> PartEstimate:
    """Return what an observation takes.

    What was not timed takes as long as its encoder passes do, a bound propagation at least as long as one of them.
    """
    each = observation.passes_at(precision, draws)
    guessed, seconds, how = timing.seconds is None, timing.seconds, timing.how
    if seconds is None:
        # a bound propagation takes a pass at the very least
        seconds = passes.seconds(each + Passes(forward=each.bounds))
        how = f"not timed: {timing.how}; estimated from its encoder passes"
    # by the spread of what was timed; of what was not, by nothing
    low, high = relative_range(timing.paces)
    row = 4 * passes.dim if timing.rows is None else sum(t.nbytes for t in timing.rows.values()) / max(1, timing.images)
    return PartEstimate(
        kind="observation",
        title=observation.title,
        images=images,
        passes=work_of(each * images),
        seconds=seconds * images,
        low=seconds * images * low,
        high=seconds * images * high,
        how=how,
        serves=readers,
        at_most=observation.adaptive and not guessed,
        at_least=timing.at_least or guessed,
        guessed=guessed,
        stored=int(row * images),
    )


def work_of(passes: Passes) -> Work:
    """Return passes as an estimate has them, with what they are worth."""
    return Work(forward=passes.forward, backward=passes.backward, bounds=passes.bounds, work=passes.work)


def relative_range(paces: Sequence[float]) -> tuple[float, float]:
    """Return two standard errors below and above the mean of some paces, relative to it."""
    if len(paces) < 2 or not (mean := fmean(paces)) > 0:
        return 1.0, 1.0
    error = 2 * stdev(paces) / sqrt(len(paces)) / mean
    return max(0.0, 1 - error), 1 + error

"""Rehearsing an observation: it is run for real on some images, and stopped when its time is over."""

import itertools
import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from torch import Tensor

from holdfast.auditing.estimate.stand_in import StandIn
from holdfast.core import Observation, Passes, Scope
from holdfast.numerics.bounds.effort import listening
from holdfast.parts.estimators.counting import Counting
from holdfast.parts.observations.logit_radii import LogitRadii
from holdfast.parts.observations.radii import Radii
from holdfast.parts.observations.rare_failures import RareFailures
from holdfast.parts.observations.robust_head import RobustHead
from holdfast.parts.observations.sampled import Sampled
from holdfast.parts.observations.smoothed import Smoothed

Clock = Callable[[], float]

ADAPTIVE = (Radii, LogitRadii, RareFailures, RobustHead, Smoothed)
"""Observations that may end early, whatever they ask; see `at_most`."""

ONE_BY_ONE = (RareFailures, Smoothed)
"""Observations that take one image after the other, as certificates do."""

PATIENCE = 3
"""How many times longer than its share of the time a rehearsal may take that makes no encoder pass in between."""

BEGINNING = 10
"""How many times longer still where a bound propagation has not yet said how much there is to do."""

CHUNKS = 4
"""Stretches of a rehearsal whose pace is compared."""


class Enough(BaseException):
    """The time of a rehearsal is over; not an `Exception`, which observations may catch."""


@dataclass(frozen=True)
class Pace:
    """What a rehearsal found.

    Attributes:
        seconds: expected for all images of the observation in the audit, on one worker.
        low: two standard errors below, by the stretches or rounds of the rehearsal.
        high: two above.
        row_bytes: what is kept of each image; None where the rehearsal did not get so far.
        how: what was rehearsed, in a few words.
        at_least: whether nothing was done to its end in the rehearsal, so that the times are lower bounds.
    """

    seconds: float
    low: float
    high: float
    row_bytes: float | None
    how: str
    at_least: bool = False


@dataclass(frozen=True)
class _Course:
    """One stretch of an observation.

    Attributes:
        images: how many it was run on.
        moments: (seconds since the beginning, work done by then).
        took: seconds, what came after the last moment included.
        share: of the first bound propagation that was done by then.
        seen: its result; None where it was stopped.
    """

    images: int
    moments: tuple[tuple[float, float], ...]
    took: float
    share: float
    seen: dict[str, Tensor] | None


def at_most(observation: Observation) -> bool:
    """Whether an observation may end before it has made the passes that the plan counts."""
    if isinstance(observation, Sampled):
        return any(not isinstance(rule, Counting) for _, rule in observation.asks)
    return isinstance(observation, ADAPTIVE)


def rehearse(
    stand_in: StandIn, observation: Observation, extent: int, batch_size: int, seconds: float, clock: Clock
) -> Pace | None:
    """Return how long an observation of `extent` images takes, from a rehearsal of about so many seconds.

    What takes one image after the other is rehearsed on one to the end, then on twice as many while there is time; the
    others on a whole batch, and stopped. What was stopped before its first propagation ended takes at least so long
    for each image. None where nothing could be learned.

    Args:
        stand_in: gives the images.
        observation: what to rehearse.
        extent: how many images it sees in the audit.
        batch_size: images of a shard.
        seconds: how long to rehearse; one pass of the encoder, or one propagation, is not interrupted within
            `PATIENCE` times that.
        clock: gives the time in seconds.

    Raises:
        Exception: whatever the observation raises.
    """
    piecewise = isinstance(observation, ONE_BY_ONE) or bool(observation.passes.bounds)
    most = min(extent, batch_size * 2 if observation.scope is Scope.ALL_TRAINING else batch_size)
    most = 1 if observation.scope is Scope.SYNTHETIC else extent if observation.scope is Scope.LAST else most
    stand_in.prepare(observation)
    began, count, start, best = clock(), 1 if piecewise and not observation.scope.at_once else most, 0, None
    paces: list[float] = []
    while True:
        left = seconds - (clock() - began)
        course = _run(stand_in, observation, (start, min(start + count, extent)), extent, left, clock)
        if course.seen is None:
            each = observation.passes_in(stand_in.encoder.precision)
            return best or _interrupted(course, observation, each, extent, batch_size)
        took = course.moments[-1][0]
        paces.append(took / course.images)
        best = _finished(course, observation, extent, paces[-2:])
        start, count = (start + count) % extent, min(2 * count, most)
        if course.images >= most or start + count > extent or clock() - began + 2.5 * took > seconds:
            return best


def _run(
    stand_in: StandIn, observation: Observation, span: tuple[int, int], extent: int, seconds: float, clock: Clock
) -> _Course:
    """Run an observation on some images until it is done or the time is over."""
    encoder, shard = stand_in.encoder, stand_in.shard_of(observation, *span, extent)
    before, began = encoder.passes, clock()
    moments: list[tuple[float, float]] = [(0.0, 0.0)]
    forward, shares = before.forward, list[float]()

    def heard(work: int) -> None:
        """Note the time: a forward pass is heard of when it begins, anything else when it is done."""
        nonlocal forward
        begins = encoder.passes.forward - forward
        forward = encoder.passes.forward
        done = encoder.passes - before - Passes(forward=begins)
        moments.append((clock() - began, float(done.work)))
        if begins and moments[-1][0] > seconds:
            raise Enough

    def deadline() -> float:
        """Return when to stop: what is refused, or how far it came, is known once a propagation has begun."""
        waits = bool(observation.passes.bounds) and not shares
        return began + PATIENCE * max(seconds, 0.1) * (BEGINNING if waits else 1)

    seen = None
    try:
        encoder.watch = heard
        with _alarm(deadline, clock), listening(shares.append):
            seen = observation.run(shard)
        moments.append((clock() - began, float((encoder.passes - before).work)))
    except Enough:
        pass
    finally:
        encoder.watch, encoder.passes = None, before
    return _Course(span[1] - span[0], tuple(moments), clock() - began, max(shares, default=0.0), seen)


def _finished(course: _Course, observation: Observation, extent: int, paces: list[float]) -> Pace:
    """Return the pace of images that were observed to the end."""
    scale = extent / course.images
    took = course.moments[-1][0]
    if len(paces) > 1:
        low, high = min(paces) * extent, max(paces) * extent
    else:
        slow, fast = _spread(course)
        low, high = took * scale * fast, took * scale * slow
    kept = sum(t.numel() * t.element_size() for t in (course.seen or {}).values()) / course.images
    what = "row" if observation.scope is Scope.SYNTHETIC else "image"
    how = f"{course.images:,} {what}{'s' if course.images > 1 else ''} to the end"
    return Pace(took * scale, min(low, took * scale), max(high, took * scale), kept, how)


def _interrupted(course: _Course, observation: Observation, each: Passes, extent: int, batch_size: int) -> Pace | None:
    """Return the pace of what was stopped; None where not even one pass was done.

    What comes before the first pass comes once in every shard.
    """
    took, done = course.moments[-1]
    whole = float((each * extent).work)
    if done <= 0 and each.bounds:
        return _unfinished(course, extent)
    if done <= 0 or not whole:
        return None
    share = (each * course.images).work
    before = course.moments[1][0] if course.moments[1][1] == 0 else 0.0
    slow, fast = _spread(course)
    one = observation.scope.at_once or observation.scope is Scope.SYNTHETIC
    shards = 1 if one else math.ceil(extent / batch_size)
    pace = (took - before) / done * whole
    how = f"{done / share:.1%} of a batch of {course.images:,}"
    return Pace(before * shards + pace, before * shards + pace * fast, before * shards + pace * slow, None, how)


def _unfinished(course: _Course, extent: int) -> Pace:
    """Return the least that an observation takes of which not one bound propagation was done in time.

    Each image takes as long as what was waited for; where the propagation told its progress, longer accordingly.
    """
    seconds = course.took / (course.share or 1.0) * extent / course.images
    done = f"{course.share:.2g} of the first bound propagation" if course.share else "not one bound propagation"
    return Pace(seconds, seconds, seconds, None, f"{done} was done in {course.took:.1f} s", at_least=True)


def _spread(course: _Course) -> tuple[float, float]:
    """Return two standard errors above and below the mean pace of stretches of a rehearsal, relative to it."""
    took, done = course.moments[-1]
    heard = course.moments[1:]
    marks = [heard[i * (len(heard) - 1) // CHUNKS] for i in range(CHUNKS + 1)]
    took, done = took - heard[0][0], done - heard[0][1]
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(marks) if b[1] > a[1]]
    if len(steps) < 2 or done <= 0 or took <= 0:
        return 1.0, 1.0
    paces = [seconds / work * done / took for seconds, work in steps]
    mean = sum(paces) / len(paces)
    error = (sum((pace - mean) ** 2 for pace in paces) / (len(paces) - 1) / len(paces)) ** 0.5
    return 1 + 2 * error, max(0.0, 1 - 2 * error)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def _alarm(deadline: Callable[[], float], clock: Clock) -> Iterator[None]:
    """Raise `Enough` after the deadline, even where no encoder pass is made; in the main thread, where there is one.

    Never while something is imported, of which half would be left. The timer counts processor time, for the one that
    counts seconds may be somebody else's, and asks the clock again and again.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        if clock() > deadline() and not _importing(frame):
            raise Enough

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.2, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

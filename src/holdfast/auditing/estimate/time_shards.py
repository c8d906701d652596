"""The first shards of every observation, made and timed; an audit in the same folder goes on from them."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import TypeVar

from torch import Tensor

from holdfast.auditing.bound_progress import estimate_remaining
from holdfast.auditing.estimate.time_passes import Clock
from holdfast.auditing.plan import Plan
from holdfast.auditing.session import Session
from holdfast.auditing.shards import ShardFile
from holdfast.core import Encoder, Observation, Passes
from holdfast.numerics.bounds.effort import Standing, listening
from holdfast.runtime.errors import NotCertified, NotEnough, first_line
from holdfast.runtime.foreign import Ended
from holdfast.storage.run_folder import Store, StoreError

T = TypeVar("T")

STRETCHES = 4
"""Stretches of one shard whose paces are compared where no other shard was made."""


SPARED = 0.6
"""What a bound propagation of a search takes of the first one: what is known of one radius helps at the next."""

UNTIMED = "its share of --calibrate is too short for a few passes"


class TimeUp(Ended):
    """The time of an observation is over; no code that is running then is to blame."""


class Stopwatch:
    """Hears of encoder passes and of bound propagations, and stops an observation between two of them.

    Args:
        encoder: whose passes are heard of.
        clock: gives the time in seconds.

    Attributes:
        deadline: when to stop, by the clock.
        moments: (time, work done by then in encoder passes) of what is running.
        standing: how far its last bound propagation is; None where none began.
        begun: when that began.
    """

    def __init__(self, encoder: Encoder, clock: Clock):
        self._encoder, self._clock = encoder, clock
        self.deadline = float("inf")
        self._start()

    def _start(self) -> None:
        self._before = self._last = self._encoder.passes
        self.moments: list[tuple[float, int]] = [(self._clock(), 0)]
        self.standing: Standing | None = None
        self.begun = 0.0

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - self._clock()

    @property
    def duration(self) -> float:
        """Seconds since what is running, or was stopped, began."""
        return self._clock() - self.moments[0][0]

    def time(self, run: Callable[[], T]) -> tuple[float, T]:
        """Run something; return the seconds that it took, and its result."""
        self._start()
        with listening(self._note_propagation):
            result = run()
        return self.duration, result

    def advance(self, work: int) -> None:
        """Hear of passes: of one forward when it begins, of anything else when it is done."""
        if self._encoder.watch is None:
            return  # a shard that is done, or was stored
        added, self._last = self._encoder.passes - self._last, self._encoder.passes
        done = (self._last - self._before).work
        self.moments.append((self._clock(), done - added.forward))
        if not added.backward:  # autograd is left in peace
            self._check()

    def _note_propagation(self, standing: Standing) -> None:
        if not standing.total:
            self.begun = self._clock()
        self.standing = standing
        self._check()

    @property
    def propagation(self) -> float | None:
        """Seconds that the last bound propagation of an image takes in all, about; None where it is not foretold."""
        if self.standing is None or not self.standing.total:
            return None
        lasted = self._clock() - self.begun
        return (lasted + estimate_remaining(self.standing, lasted)) / self.standing.images

    def _check(self) -> None:
        if self.remaining < 0:
            raise TimeUp

    def paces(self) -> list[float]:
        """Return the seconds per pass of some stretches of what ran last."""
        heard = self.moments[1:]
        marks = [heard[i * (len(heard) - 1) // STRETCHES] for i in range(STRETCHES + 1)] if heard else []
        steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(marks)]
        return [seconds / work for seconds, work in steps if work > 0]


@dataclass(frozen=True)
class Timing:
    """What was timed of an observation.

    Attributes:
        seconds: of one image; None where nothing was done of which the time can be told.
        paces: of the shards, runs or stretches that it is the mean of, in any unit.
        how: what was timed, or why nothing was.
        rows: what was seen of some images; None where none was observed to the end.
        images: how many these are.
        at_least: whether it takes longer: it was stopped before anything of it was done.
    """

    seconds: float | None
    paces: tuple[float, ...]
    how: str
    rows: dict[str, Tensor] | None = None
    images: int = 0
    at_least: bool = False


def time_shards(
    session: Session,
    store: Store,
    plan: Plan,
    predicted: Mapping[Observation, float],
    step: float,
    end: float,
    watch: Stopwatch,
) -> dict[Observation, Timing]:
    """Time every observation of an encoder whose time comes, the cheapest first.

    What others read is completed where that fits. All others have shares of the time that grow as the roots of what
    they cost, and leave what they do not need to dearer ones.

    Args:
        session: the encoder and its images.
        store: where it keeps its shards.
        plan: the audit.
        predicted: about how many seconds each observation takes.
        step: seconds of one pass of a batch forward and backward; what has no time for three is not begun.
        end: of the time, by the clock of `watch`.
        watch: stops them.
    """
    order, needed = list(plan.observations), plan.dependencies
    waiting, complete = set(range(len(order))), set[int]()
    timings: dict[Observation, Timing] = {}
    while ready := [number for number in waiting if needed[number] <= complete]:
        # The cheapest, and its share of the time
        number = min(ready, key=lambda number: (predicted[order[number]], number))
        observation, read = order[number], any(number in needed[reader] for reader in waiting)
        watch.deadline = end
        costs = {candidate: predicted[order[candidate]] for candidate in waiting}
        if read and costs[number] > 0.8 * watch.remaining:
            watch.deadline -= watch.remaining / 2
        elif not read and 2 * sum(costs.values()) > watch.remaining:  # else all of them will be done
            roots = {candidate: sqrt(cost) + 1e-9 for candidate, cost in costs.items()}
            watch.deadline -= watch.remaining * (1 - roots[number] / sum(roots.values()))
        waiting.remove(number)

        # Its first shards; all of them where others read it
        try:
            if observation.passes.total and not observation.adaptive and costs[number] > watch.remaining < 3 * step:
                raise NotEnough(UNTIMED)
            timing = time_observation(session, store, observation, watch)
            watch.deadline = float("inf")
            if read and all(store.exists(shard.file) for shard in session.shard_files(observation)):
                session.observe(observation)
                complete.add(number)
        except StoreError:
            raise
        except NotCertified as error:
            timing = Timing(0.0, (), str(error))
        except Exception as error:
            timing = Timing(None, (), first_line(error))
        timings[observation] = timing

    # What reads an observation that is not complete
    for number in waiting:
        missing = ", ".join(order[read].title for read in sorted(needed[number] - complete))
        timings[order[number]] = Timing(None, (), f"it needs {missing} first")
    return timings


def time_observation(session: Session, store: Store, observation: Observation, watch: Stopwatch) -> Timing:
    """Time one observation until the deadline of a watch, on shards that are not stored yet.

    What makes exactly its passes is stopped within its first shard if need be, and how far it came tells the rest. What
    may end early, and a proof, is first run on one image to the end, then on twice as many, and so on, until a shard
    can be expected to be done in time.
    """
    shards = session.shard_files(observation)
    missing = [shard for shard in shards if not store.exists(shard.file)]
    if not missing:
        return _time_stored(store, shards) if shards else Timing(0.0, (), "no images")
    start, stop, file = missing[0]
    piecewise = (observation.adaptive or observation.passes.bounds) and not observation.scope.at_once
    count, rows = 1 if piecewise else stop - start, None
    trials, runs = list[tuple[int, float]](), list[tuple[int, float]]()  # images, seconds
    try:
        # A few images, until it is clear whether a shard will be done in time
        while start + count < stop and not (trials and _predict_seconds(trials[-1], stop - start) < watch.remaining):
            if trials and _predict_seconds(trials[-1], count) > watch.remaining:
                return _mean(trials[-2:], watch, f"{trials[-1][0]:,} images to the end", rows, trials[-1][0])
            seconds, rows = watch.time(partial(session.run, observation, start, start + count))
            trials.append((count, seconds))
            start, count = start + count, 2 * count
        # Shards, which are kept
        for shard in missing:
            size = shard.stop - shard.start
            if runs and _predict_seconds(runs[-1], size) > watch.remaining:
                break
            seconds, _ = watch.time(partial(session.make, observation, shard))
            runs.append((size, seconds))
    except TimeUp:
        if not (runs or trials):
            return _time_stopped(observation, observation.passes_of(session.encoder), count, watch)
    if not runs:
        return _mean(trials[-2:], watch, f"{trials[-1][0]:,} images to the end", rows, trials[-1][0])
    stored = store.read_tensors(file)
    return _mean(runs, watch, f"shards made: {len(runs)}", stored and stored[0], runs[0][0])


def _predict_seconds(run: tuple[int, float], images: int) -> float:
    """Return the seconds that some images take at the pace of a run."""
    return run[1] / run[0] * images


def _mean(
    runs: Sequence[tuple[int, float]], watch: Stopwatch, how: str, rows: dict[str, Tensor] | None, images: int
) -> Timing:
    """Return the mean pace of some runs; where there is one, with the paces of its stretches."""
    paces = [seconds / images for images, seconds in runs] if len(runs) > 1 else watch.paces()
    seconds = sum(seconds for _, seconds in runs) / sum(images for images, _ in runs)
    return Timing(seconds, tuple(paces), how, rows, images)


def _time_stored(store: Store, shards: Sequence[ShardFile]) -> Timing:
    """Return what the first shards took that an earlier run has stored."""
    files = [(shard.stop - shard.start, store.read_tensors(shard.file)) for shard in shards[:STRETCHES]]
    sound = [(images, *stored) for images, stored in files if stored is not None]
    if not sound:
        return Timing(None, (), "its stored shards are damaged")
    paces = tuple(float(facts["seconds"]) / images for images, _, facts in sound)
    return Timing(sum(paces) / len(paces), paces, "stored already", sound[0][1], sound[0][0])


def _time_stopped(observation: Observation, each: Passes, images: int, watch: Stopwatch) -> Timing:
    """Return what is known of an observation that was stopped before its first images were done."""
    (began, _), (last, done) = watch.moments[0], watch.moments[-1]
    if done > 0:
        share = done / (each.work * images)
        return Timing((last - began) / share / images, tuple(watch.paces()), f"{share:.2g} of a shard of {images:,}")
    if not each.bounds:
        return Timing(None, (), UNTIMED)
    if (seconds := watch.propagation) is None:
        how = f"nothing of the first bound propagation was done in {watch.duration:.1f} s"
        return Timing(watch.duration / images, (), how, at_least=True)
    assert watch.standing is not None
    number = each.bounds * (SPARED if observation.adaptive else 1)
    how = f"{watch.standing.share:.2g} of a bound propagation was done, the rest is foretold"
    return Timing(seconds * number, (), how)

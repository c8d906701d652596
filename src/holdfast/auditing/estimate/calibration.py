"""A calibration: times of single passes, then a rehearsal of each observation and of the comparisons of measures."""

import math
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from holdfast.auditing.estimate.rehearsal import Clock, Pace, rehearse
from holdfast.auditing.estimate.stand_in import StandIn
from holdfast.auditing.stretch import on_device
from holdfast.core import Encoder, HoldfastError, Images, Measure, Observation, Passes, PerImage, Reps
from holdfast.core.encoder import BOUND
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.attacks.shared.gradient import climb
from holdfast.runtime.errors import NotCertified
from holdfast.sources.data import ImageSet
from holdfast.storage.run_folder import Store

ROUNDS = 2
"""Rounds in which each kind of pass is timed at least."""

FIRST_SHARE = 0.25
"""Share of the time in which single passes are timed; the rest is for rehearsals."""

SCORES = 0.2
"""Share of the time in which comparisons of representations are timed, beyond it."""

SMALL, LARGE = 512, 2048
"""Populations on which comparisons are timed where the audit's is larger; what grows as a square is extrapolated."""


@dataclass(frozen=True)
class UnitTimes:
    """Seconds of one image, in every round, at the audit's batch size.

    Attributes:
        forward: one forward pass.
        both: a forward pass and the backward pass to the pixels.
        read: reading and converting an image that was not read before.
        again: one that was: decoded pictures are kept while they fit into memory.
    """

    forward: tuple[float, ...]
    both: tuple[float, ...]
    read: tuple[float, ...]
    again: tuple[float, ...]

    @property
    def reading_again(self) -> float:
        """Mean of reading what was read before."""
        return _mean(self.again)

    @property
    def reading(self) -> float:
        """Mean of reading."""
        return _mean(self.read)

    @property
    def spread_of_reading(self) -> tuple[float, float]:
        """Two standard errors below and above it, relative to it."""
        return _relative(self.read)

    def means(self) -> dict[str, float]:
        """Return the means over rounds, in seconds."""
        both = _mean(self.both)
        return {"forward": _mean(self.forward), "forward_and_backward": both, "read": self.reading}

    def pace(self, passes: Passes, why: str) -> Pace:
        """Return what passes take that could not be rehearsed."""
        forward, both = _mean(self.forward), _mean(self.both)
        backward = max(both - forward, 0.0)
        seconds = passes.forward * forward + passes.backward * backward + passes.bounds * BOUND * forward
        low, high = _relative(self.both if passes.backward else self.forward)
        return Pace(seconds, seconds * low, seconds * high, None, f"times of single passes ({why})")


class Calibration:
    """Times an encoder on an audit's own images, at its batch size, where it will run.

    Args:
        encoder: the encoder, on its device.
        images: the population, rendered for it.
        batch_size: images per encoder pass.
        device: where it runs.
        clock: gives the time in seconds, when everything is done that was asked for.
    """

    def __init__(self, encoder: Encoder, images: ImageSet, batch_size: int, device: str, clock: Clock):
        self._encoder, self._images, self._device, self._clock = encoder, images, device, clock
        self._batch_size = min(batch_size, len(images))
        self.began = clock()  # set anew when the network is traced

    def unit_times(self, seconds: float, backward: bool = True) -> tuple[UnitTimes, Reps]:
        """Return the times of single passes, and representations of one batch.

        Args:
            seconds: of the whole calibration; a share of it is taken, and more only for two rounds of each kind.
            backward: whether passes back to the pixels are timed too; else they count as forward ones.

        Raises:
            HoldfastError: representations that are not finite, or no gradient where one is needed.
        """
        encoder, size = self._encoder, self._batch_size
        before, budget = encoder.passes, seconds * FIRST_SHARE / 3
        read: list[float] = []
        for start in range(0, len(self._images) - size + 1, size):  # each batch once: what was read may be kept
            began = self._clock()
            self._images.pick(range(start, start + size))
            read.append(self._clock() - began)
            if len(read) >= ROUNDS and sum(read) > budget:
                break
        again = self._rounds(lambda turn: self._images.pick(range(size)), budget / 4)
        x = on_device(self._images.pick(range(size)), self._device)
        with torch.no_grad():
            real = encoder(x).float().cpu()
            if not real.isfinite().all():
                raise HoldfastError(
                    f"encoder {encoder.name!r}: expected finite representations, got NaN or infinity; check its "
                    "weights and its normalisation"
                )
            forward = self._rounds(lambda turn: encoder(x), budget)
        both = self._rounds(lambda turn: _gradient(encoder, x), budget) if backward else forward
        encoder.passes = before
        return UnitTimes(*(tuple(t / size for t in times) for times in (forward, both, read, again))), real

    def _rounds(self, do: Callable[[int], object], seconds: float) -> list[float]:
        """Return the times of so many rounds as fit, two at least; the first one may have to set things up."""
        times: list[float] = []
        began, turn = self._clock(), 0
        while len(times) < ROUNDS or (self._clock() - began < seconds and len(times) < 20):
            start = self._clock()
            do(turn)
            took, turn = self._clock() - start, turn + 1
            if turn > 1 or took > seconds:
                times.append(took)
        return times

    def storing(self, real: Reps, shards: int) -> Pace:
        """Return what writing and reading so many shards takes, from a few; in a folder of its own."""
        with tempfile.TemporaryDirectory(prefix="holdfast-") as beside:
            store = Store(beside)

            def once(turn: int) -> None:
                store.write_tensors(f"cache/{turn}.safetensors", {"reps": real}, {})
                store.read_tensors(f"cache/{turn}.safetensors")

            times = self._rounds(once, 0.1)
        seconds, (low, high) = _mean(times) * shards, _relative(times)
        return Pace(seconds, seconds * low, seconds * high, None, "a few in another folder")

    def trace(self) -> Pace | None:
        """Trace the network, as bound propagation does once before the first one; None where that cannot be done."""
        start = self._clock()
        try:
            trace(self._encoder, self._images.shape)
        except Exception:  # the rehearsals of certificates say why
            return None
        self.began = self._clock()
        took = self.began - start
        return Pace(took, took, took, None, "traced")

    def paces(
        self, stand_in: StandIn, extents: Mapping[Observation, int], units: UnitTimes, seconds: float
    ) -> dict[Observation, Pace]:
        """Return the pace of every observation: cheap ones are rehearsed first and leave their time to dearer ones."""
        precision = self._encoder.precision
        costs = {one: units.pace(one.passes_in(precision) * count, "").seconds for one, count in extents.items()}
        weights = {one: math.sqrt(cost) + 1e-9 for one, cost in costs.items()}
        began, found = self._clock(), dict[Observation, Pace]()
        for one in sorted(extents, key=costs.__getitem__):
            left = seconds - (self._clock() - began)
            share = left * weights[one] / sum(weight for other, weight in weights.items() if other not in found)
            found[one] = self._pace(stand_in, one, extents[one], units, share)
        return {one: found[one] for one in extents}

    def _pace(self, stand_in: StandIn, one: Observation, count: int, units: UnitTimes, share: float) -> Pace:
        """Rehearse one observation; where that cannot be done, take the times of single passes."""
        if not count:
            return Pace(0.0, 0.0, 0.0, None, "no images")
        passes = one.passes_in(self._encoder.precision) * count
        step = min(count, self._batch_size) * (_mean(units.both) if passes.backward else _mean(units.forward))
        if passes.total and share < step:
            return units.pace(passes, "one step takes longer than its share of the rehearsal")
        before = self._encoder.passes
        try:
            pace = rehearse(stand_in, one, count, self._batch_size, share, self._clock)
        except NotCertified as error:
            return Pace(0.0, 0.0, 0.0, None, str(error))
        except Exception as error:
            least = Passes(passes.forward + passes.bounds, passes.backward)  # a propagation takes longer than a pass
            why = f"not rehearsed: {str(error).partition(';')[0] or type(error).__name__}"
            return replace(units.pace(least, why), at_least=bool(passes.bounds))
        finally:
            self._encoder.passes = before
        return pace or units.pace(passes, "no step of it ended in time")

    def scores(self, stand_in: StandIn, measures: Mapping[str, Measure], population: int) -> dict[str, Pace]:
        """Return what measures take that compare representations, each on made-up ones.

        Where the population is larger than `LARGE`, two smaller ones are timed and a + b · n² is put through them.
        Measures that read something else than representations are left out: they are fast.
        """
        found = {}
        sizes = [population] if population <= LARGE else [SMALL, LARGE]
        parts = [(n, _Part(stand_in, n, population)) for n in sizes]
        for name, measure in measures.items():
            times = []
            try:
                for _, part in parts:
                    start = self._clock()
                    measure.score(measure.observe(part))
                    times.append(self._clock() - start)
            except Exception:  # it reads what is not made up: certificates, probes, draws
                continue
            if len(times) == 1:
                found[name] = Pace(times[0], times[0], times[0], None, f"{population:,} images")
                continue
            slope = max(0.0, (times[1] - times[0]) / (LARGE**2 - SMALL**2))
            total = times[1] + slope * (population**2 - LARGE**2)
            linear = times[1] * population / LARGE
            how = f"{SMALL:,} and {LARGE:,} images, extrapolated by n²"
            found[name] = Pace(total, min(linear, total), total, None, how)
        return found


class _Part(StandIn):
    """The first images of a stand-in, as measures see them: as large a share of them is attacked."""

    def __init__(self, whole: StandIn, size: int, population: int):
        self.__dict__.update(whole.__dict__)
        self.population = min(size, whole.population)
        self.clean = whole.clean[: self.population]
        share = self.population / population
        self.attacked = max(2, int(whole.attacked * share) // 2 * 2)
        self.labels = None if whole.labels is None else whole.labels[: self.population]


def peak_memory(device: str) -> tuple[int, int | None]:
    """Return the most memory that this process has taken so far, in bytes, and on its accelerator (None on a CPU)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return peak, torch.cuda.max_memory_allocated(device) if torch.device(device).type == "cuda" else None


def _gradient(encoder: Encoder, x: Images) -> None:
    def goal(images: Images) -> tuple[PerImage, Reps]:
        reps = encoder(images)
        return reps.square().sum(1), reps

    climb(goal, x)


def _mean(times: Sequence[float]) -> float:
    return sum(times) / len(times)


def _relative(times: Sequence[float]) -> tuple[float, float]:
    """Return two standard errors below and above the mean of some rounds, relative to it."""
    if len(times) < 2 or not (mean := _mean(times)) > 0:
        return 1.0, 1.0
    error = statistics.stdev(times) / math.sqrt(len(times)) / mean
    return max(0.0, 1 - 2 * error), 1 + 2 * error

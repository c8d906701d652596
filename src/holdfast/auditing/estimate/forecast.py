"""What an audit will take before it is run: passes, memory and time, from a rehearsal of about ten seconds."""

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from holdfast.auditing.estimate.calibration import Calibration, UnitTimes, peak_memory
from holdfast.auditing.estimate.expected import Cost, EncoderForecast, Forecast
from holdfast.auditing.estimate.rehearsal import Clock, Pace, at_most
from holdfast.auditing.estimate.stand_in import StandIn
from holdfast.auditing.plan import Plan, batch_size_for, extent, named
from holdfast.auditing.run import label
from holdfast.auditing.session import Session, memory_format
from holdfast.auditing.shards import spans
from holdfast.core import Encoder, HoldfastError, ImageSource, Observation, Passes, Scope
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.shared.some import SomeMargins
from holdfast.runtime.errors import first_line, no_labels
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.data.shared.cache import LIMIT
from holdfast.sources.encoders import open_encoder
from holdfast.storage.filesystem import Folder
from holdfast.storage.run_folder import Store

SECONDS = 10.0
"""How long all encoders together are rehearsed, about."""


def forecast(
    plan: Plan,
    folder: str | Path,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    source: ImageSource | None = None,
    seconds: float = SECONDS,
    workers: int = 1,
    clock: Clock = time.perf_counter,
    say: Callable[[str], object] = lambda text: None,
) -> Forecast:
    """Return what an audit will take; nothing is written to its folder.

    Every observation of every encoder is run on a few images of the audit and stopped when its share of the time is
    over, dearer ones later and longer; what is too dear for that is estimated from the times of single passes. So the
    time that attacks, noise and bound propagations take beside the encoder is in the numbers; the start of the program,
    pictures and the report are not.

    Args:
        plan: the audit.
        folder: its run folder; shards that are there already are counted.
        encoders: encoders that are open already, as in `run_audit`.
        source: images that are open already.
        seconds: how long to rehearse, all encoders together; every encoder gets two passes of each kind at least.
        workers: processes among which the observations are divided.
        clock: gives the time in seconds.
        say: told what is being done.

    Raises:
        HoldfastError: images or a device that cannot be used, or no time or no worker.
    """
    if not seconds > 0 or workers < 1:
        raise HoldfastError(
            f"forecast: expected seconds above 0 and at least 1 worker, got {seconds:g} and {workers}; change "
            "--calibrate or --workers"
        )
    began = clock()
    images, train = _images(plan, source)
    if (readers := plan.labelled()) and images.labels is None:
        raise no_labels(", ".join(readers), str(images))
    found = []
    for spec in plan.encoders:
        given = (encoders or {}).get(spec, spec)
        name = spec if spec in (encoders or {}) else label(spec)
        say(f"rehearsing {name}")
        job = _Job(plan, images, train, Folder(folder), seconds / len(plan.encoders), clock)
        try:
            found.append(job.run(name, given))
        except Exception as error:
            found.append(EncoderForecast(name, error=first_line(error)))
    attacked = plan.attacked_of(len(images))
    return Forecast(tuple(found), len(images), attacked, workers, clock() - began, str(folder), plan.device)


@dataclass(frozen=True)
class _Job:
    """The rehearsal of one encoder."""

    plan: Plan
    images: ImageSet
    train: ImageSet | None
    folder: Folder
    seconds: float
    clock: Clock

    def run(self, name: str, given: Encoder | str) -> EncoderForecast:
        """Return what its audit will take."""
        plan, start = self.plan, self.clock()
        encoder = (open_encoder(given) if isinstance(given, str) else given).to(plan.device)
        encoder.prepare(precision=plan.precision, compiled=plan.compiled)
        encoder.to(memory_format=memory_format(encoder))  # pyright: ignore[reportCallIssue] torch has no stub for it
        opening = self.clock() - start
        images = self.images.with_geometry(encoder.geometry)
        train = None if self.train is None else self.train.with_geometry(encoder.geometry)
        batch_size = plan.batch_size or batch_size_for(images.shape, plan.device)
        attacked = plan.attacked_of(len(images))
        clock = _synchronised(self.clock, plan.device)
        calibration = Calibration(encoder, images, batch_size, plan.device, clock)
        traced = calibration.trace() if any(one.passes.bounds for one in plan.observations) else None
        units, real = calibration.unit_times(self.seconds, any(one.passes.backward for one in plan.observations))
        stand_in = StandIn(
            encoder, images, attacked=attacked, seed=plan.seed, device=plan.device, real=real, train=train
        )
        extents = {
            one: extent(one, len(images), attacked, None if train is None else len(train)) for one in plan.observations
        }
        left = max(0.0, self.seconds - (clock() - calibration.began))
        paces = calibration.paces(stand_in, extents, units, left)
        readers = plan.observations
        costs = tuple(_cost(one, extents[one], pace, readers[one], plan.precision) for one, pace in paces.items())
        scores = tuple(
            Cost(name, len(images), Passes(), pace.seconds, pace.low, pace.high, pace.how)
            for name, pace in calibration.scores(stand_in, named(plan.measures), len(images)).items()
        )
        shards, stored = self._shards(encoder, images, train, batch_size, attacked)
        kept = sum(_row_bytes(one, pace, real.shape[1]) * extents[one] for one, pace in paces.items())
        memory, device_memory = peak_memory(plan.device)
        return EncoderForecast(
            name,
            batch_size=batch_size,
            dim=real.shape[1],
            shards=shards,
            stored=stored,
            units=units,
            observations=costs,
            scores=scores,
            once=(
                _once("opening the encoder", Pace(opening, opening, opening, None, "opened")),
                *([_once("tracing the network for bound propagation", traced)] if traced else []),
            ),
            reading=_reading(units, extents, costs, images.shape, len(images), batch_size, plan.device == "cpu"),
            storing=_once(f"writing and reading {shards:,} shards", calibration.storing(real, shards)),
            kept=int(kept),
            memory=memory + int(kept),
            device_memory=device_memory,
        )

    def _shards(
        self, encoder: Encoder, images: ImageSet, train: ImageSet | None, batch_size: int, attacked: int
    ) -> tuple[int, int]:
        """Return how many shard files there will be, and how many are stored already.

        Their names depend on all images, which are read only where something is stored.
        """
        observations = self.plan.observations
        try:
            known = {name for name in self.folder.files("cache") if name.endswith(".safetensors")}
        except OSError:
            known = set()
        if not known:
            sizes = {
                one: extent(one, len(images), attacked, None if train is None else len(train)) for one in observations
            }
            return sum(_files(one, count, batch_size) for one, count in sizes.items()), 0
        with tempfile.TemporaryDirectory(prefix="holdfast-") as beside:
            subject = Session(
                encoder,
                images,
                attacked=attacked,
                seed=self.plan.seed,
                batch_size=batch_size,
                device=self.plan.device,
                store=Store(beside),
                train=train,
            )
            files = [unit.file for one in observations for unit in subject.shard_files(one)]
        return len(files), sum(file in known for file in files)


def _files(observation: Observation, images: int, batch_size: int) -> int:
    """Return how many files an observation takes."""
    return len(spans(observation.scope, images, images, batch_size))


def _images(plan: Plan, source: ImageSource | None) -> tuple[ImageSet, ImageSet | None]:
    """Open the images and the training images; of these the audit leaves out what is among the others."""
    how = {"seed": plan.seed, "skip_corrupt": plan.skip_corrupt}
    if source is None:
        images = open_images(plan.data, size=plan.images, **how)
    else:
        images = ImageSet(source, size=plan.images, **how)
    return images, None if plan.train is None else open_images(plan.train, size=plan.train_images, **how)


def _cost(observation: Observation, images: int, pace: Pace, readers: tuple[str, ...], precision: str) -> Cost:
    return Cost(
        observation.title,
        images,
        observation.passes_in(precision) * images,
        pace.seconds,
        pace.low,
        pace.high,
        pace.how,
        readers,
        at_most(observation),
        pace.at_least,
    )


def _row_bytes(observation: Observation, pace: Pace, dim: int) -> float:
    """Return what is kept in memory of each image, in bytes; of training images nothing is."""
    if observation.scope.training:
        return 0.0
    if pace.row_bytes is not None:
        return pace.row_bytes
    readouts = len(observation.steps) if isinstance(observation, Attacked) else 1
    rows = (observation.compared or 1) if isinstance(observation, SomeMargins) else 0
    return 4.0 * (readouts * dim + 2 * rows)


def _once(title: str, pace: Pace) -> Cost:
    return Cost(title, 0, Passes(), pace.seconds, pace.low, pace.high, pace.how)


def _reading(
    units: UnitTimes, extents: Mapping[Observation, int], costs: tuple[Cost, ...], shape: tuple[int, ...], images: int,
    batch_size: int, cpu: bool,
) -> Cost:  # fmt: skip
    """Return what reading adds: all images once, before any pass, then those of every observation.

    The first observation reads anew, for its encoder's geometry; the others find what was kept. While an accelerator
    observes a batch, the next one is read; a CPU does both by itself.
    """
    kept = min(1.0, LIMIT / (images * math.prod(shape)))  # a byte for each value
    again = kept * units.reading_again + (1 - kept) * units.reading
    seconds, total, fresh = units.reading * images, images, 0
    for cost, (one, count) in zip(costs, extents.items(), strict=True):
        if one.scope is Scope.SYNTHETIC or not count:
            continue
        new, total = max(0, count - fresh), total + count
        took, fresh = units.reading * new + again * (count - new), fresh + new
        later = 0 if cpu else max(0, count - batch_size) / count  # share of the images that are read ahead
        seconds += took - min(took, cost.seconds) * later
    low, high = units.spread_of_reading
    return Cost("reading images", total, Passes(), seconds, seconds * low, seconds * high, "times of single images")


def _synchronised(clock: Clock, device: str) -> Clock:
    """Return a clock that waits for what an accelerator still has to do."""
    kind = torch.device(device).type
    if kind == "cpu":
        return clock

    def waiting() -> float:
        getattr(torch, kind).synchronize()
        return clock()

    return waiting

"""What an audit will take: passes, time, memory and disk, from its first shards, which a later audit goes on from."""

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal

import torch

from holdfast.auditing.balls import describe_balls, shape_of
from holdfast.auditing.estimate.extrapolate import extrapolate, relative_range, work_of
from holdfast.auditing.estimate.rescale import Timed, foresee_budget
from holdfast.auditing.estimate.time_passes import Clock, PassTimes, synchronise_clock, time_passes
from holdfast.auditing.estimate.time_shards import Stopwatch, Timing, time_shards
from holdfast.auditing.images import AuditImages, memory_format, open_all, open_unread
from holdfast.auditing.plan import Plan
from holdfast.auditing.prepare import check_encoders
from holdfast.auditing.schedule import Part, own_shards
from holdfast.auditing.services import Sending, foresee
from holdfast.auditing.session import Session
from holdfast.auditing.work import session_of
from holdfast.core import Encoder, ImageSource, Observation, Passes
from holdfast.core.divergence import read_divergence
from holdfast.core.encoder import BOUND
from holdfast.core.source_spec import label
from holdfast.numerics.bounds.footprint import memory
from holdfast.numerics.bounds.trace import trace
from holdfast.numerics.geometry.pairwise import near
from holdfast.runtime.errors import BadValue, NotCertified, first_line, no_labels
from holdfast.sources.data import ImageSet
from holdfast.sources.encoders import open_encoder
from holdfast.storage.estimate import Budget, EncoderEstimate, Estimate, MoreImages, PartEstimate, Seconds, Work
from holdfast.storage.run_folder import Store, StoreError

SECONDS = 15.0
"""How long shards of each encoder are timed, about."""

COMPARED, PLACED = 1500, 2
"""Representations that are compared to time pairs; and how often a measure goes through all pairs, at least."""

ASKED = 8
"""Images of a service that are timed, twice."""

FIRST = 0.5
"""Share of that time in which all images must be read and represented; else fewer are taken, and no shard is kept."""


def estimate(
    plan: Plan,
    folder: str | Path,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    source: ImageSource | None = None,
    seconds: float = SECONDS,
    workers: int = 1,
    part: Part | None = None,
    clock: Clock = time.perf_counter,
    say: Callable[[str], object] = lambda text: None,
) -> Estimate:
    """Return what an audit will take.

    The first shards of every observation are made as the audit makes them and stay in the run folder, where it goes on
    from them; no record is written. The start of the program, pictures and the report are not estimated.

    Args:
        plan: the audit.
        folder: its run folder.
        encoders: encoders that are open already, as in `run_audit`.
        source: images that are open already.
        seconds: how long to time shards of each encoder.
        workers: processes among which the observations are divided.
        part: the part of the shards that is made; None: all.
        clock: gives the time in seconds.
        say: told what is being done.
    """
    if not seconds > 0 or workers < 1:
        raise BadValue(
            f"estimate: expected seconds above 0 and at least 1 worker, got {seconds:g} and {workers}; change "
            "--calibrate or --workers"
        )

    # Each encoder; one that cannot be opened after all says why, as it will in the audit
    began, opened, rows = clock(), encoders or {}, list[EncoderEstimate]()
    check_encoders(plan, opened)
    estimator = _Estimator(plan, folder, source, seconds, workers, part, clock, opened)
    images = estimator.unread.tested
    plan = estimator.plan = plan.attacking(images.queries)
    if (readers := plan.find_label_readers()) and images.labels is None:
        raise no_labels(", ".join(readers), str(images), problem=images.label_coverage[1])
    if readers := plan.find_relevance_readers():
        images.check_relevance(", ".join(readers))
    for number, spec in enumerate(plan.encoders):
        name = spec if spec in opened else label(spec)
        say(f"timing {name}")
        try:
            rows.append(estimator.encoder(number, name, opened.get(spec, spec)))
        except StoreError:
            raise
        except Exception as error:
            rows.append(EncoderEstimate(name=name, error=first_line(error)))

    # Their sums; of no encoder one would look like an estimate
    usable = [row for row in rows if row.error is None]
    expected = _sum_seconds(row.seconds for row in usable) if usable else None
    return Estimate(
        images=len(images),
        more=estimator.foresee_more_images() if usable else None,
        budget=estimator.foresee_budget() if usable else None,
        attacked=plan.count_attacked(len(images)),
        balls=describe_balls(plan.measures, shape_of(images)),
        device=plan.device,
        workers=workers,
        shard=None if part is None else str(part),
        folder=str(folder),
        calibration_seconds=clock() - began,
        bound=BOUND,
        passes=_sum_work(row.passes for row in rows),
        seconds=expected,
        at_least=any(row.at_least for row in usable),
        memory_bytes=workers * max(row.memory_bytes for row in usable) if usable else None,
        disk_bytes=sum(row.disk_bytes for row in usable),
        encoders=rows,
    )


@dataclass
class _Estimator:
    """Estimates the audits of the encoders of a plan, one after the other."""

    plan: Plan
    folder: str | Path
    source: ImageSource | None
    seconds: float
    workers: int
    part: Part | None
    clock: Clock
    opened: Mapping[str, Encoder]

    def __post_init__(self) -> None:
        self._counted: set[str] = set()  # shards that encoders have in common
        self._timed: list[Timed] = []  # of each encoder

    @cached_property
    def unread(self) -> AuditImages:
        """The images, of which none is read yet; all are where those without a label are left out."""
        images = open_unread(self.plan, self.source)
        some_labelled = (
            0 < images.tested.label_coverage[0] < len(images.tested) if self.plan.find_label_readers() else False
        )
        return self.read if some_labelled else images

    @cached_property
    def read(self) -> AuditImages:
        """The images as the audit takes them, all of them read."""
        return open_all(self.plan, self.source)

    def foresee_budget(self) -> Budget | None:
        """Return how far the audit comes within its budget; None without one.

        A part of an audit has none: all of its shards are made.
        """
        plan, images = self.plan, self.unread.tested
        if plan.budget is None or self.part is not None:
            return None
        seconds = [timed.seconds for timed in self._timed]
        return foresee_budget(plan, plan.budget, len(images), images.shape, seconds)

    def foresee_more_images(self) -> MoreImages | None:
        """Return what as many images as were asked for would take; None where there are as many."""
        plan, asked = self.plan, self.plan.images
        if asked is None or asked <= len(self.unread.tested) or self.part is not None:
            return None
        seconds = sum(timed.seconds(plan, asked) for timed in self._timed)
        return MoreImages(images=asked, attacked=plan.count_attacked(asked), seconds=seconds)

    def encoder(self, number: int, name: str, opened: Encoder | str) -> EncoderEstimate:
        """Return what the audit of one encoder takes; it is open already, or a spec."""
        plan, clock = self.plan, synchronise_clock(self.plan.device, self.clock)

        # The encoder, and its single passes
        opening = clock()
        encoder = (open_encoder(opened) if isinstance(opened, str) else opened).to(plan.device)
        encoder.prepare(precision=plan.precision, compiled=plan.compiled, seed=plan.seed)
        encoder.to(memory_format=memory_format(encoder))  # pyright: ignore[reportCallIssue] torch has no stub for it
        began, before = clock(), encoder.passes
        once = [_make_part("once", "opening the encoder", began - opening)]
        images = self.unread.render(encoder.geometry).tested
        batch_size = plan.batch_size_of(images.shape)
        backward = any(observation.passes.backward for observation in plan.observations)
        # A service is asked for a few images alone: nobody has said yet that it may be asked for more
        sends = [str(sent) for sent in self._foresee(images) if sent.encoder == name]
        seconds, at_once = (0.0, min(batch_size, ASKED)) if sends else (self.seconds / 50, batch_size)
        passes = time_passes(encoder, images, at_once, plan.device, backward, seconds, clock)
        bounding, held = 0, peak_memory(plan.device)
        if any(observation.passes.bounds for observation in plan.observations):
            traced = clock()
            with suppress(NotCertified):  # the certificates say why
                bounding = memory(trace(encoder, images.shape))
                once.append(_make_part("once", "tracing the network for bound propagation", clock() - traced))
            began += clock() - traced

        with tempfile.TemporaryDirectory(prefix="holdfast-") as beside:
            # Its first shards, which stay in the run folder if all images can be read and represented in time
            reading = fmean(passes.read) * (len(images) + len(self.unread.train or ()))
            first = reading + passes.seconds(Passes(1).of_draws(encoder.draws)) * len(images)
            lasting = first < FIRST * self.seconds and not sends
            store, watch = Store(self.folder if lasting else beside), Stopwatch(encoder, clock)
            size = max(2 * batch_size, int(len(images) * FIRST / 2 * self.seconds / first))
            session = self._session(encoder, None if lasting else size, store, watch)
            population, train = len(images), len(self.unread.train) if self.unread.train else None
            if lasting:
                population, train = session.population, session.split.train
            split = plan.split(population, train)
            extents = {o: split.extent(o) for o in plan.observations}
            per_image = {o: o.passes_of(encoder) for o in extents}
            predicted = {
                o: passes.seconds(per_image[o] + Passes(BOUND * per_image[o].bounds)) * count
                for o, count in extents.items()
            }
            step = passes.seconds(Passes(1, 1).of_draws(encoder.draws)) * batch_size
            timings = (
                dict.fromkeys(extents, Timing(None, (), "a service is asked by the audit alone"))
                if sends
                else time_shards(session, store, plan, predicted, step, began + self.seconds, watch)
            )
            encoder.passes = before

            # From these to all shards, or to those of one part; what encoders have in common counts once
            files = [[shard.file for shard in session.shard_files(o)] for o in extents]
            stored = [[store.exists(file) for file in shards] for shards in files]
            own_of = own_shards(files, number, self.part or Part(1, 1))
            mine = [[shards[own] for own in owned] for owned, shards in zip(own_of, files, strict=True)]
            new = [[file for file in shards if file not in self._counted] for shards in mine]
            self._counted.update(file for shards in mine for file in shards)
            shares = [len(own) / max(1, len(shards)) for own, shards in zip(new, files, strict=True)]
            extents = {o: round(extents[o] * share) for o, share in zip(extents, shares, strict=True)}
            costs = {
                o: extrapolate(o, extents[o], timings[o], passes, plan.precision, readers, encoder.draws)
                for o, readers in plan.observations.items()
            }
            complete = [o for o, shards in zip(extents, stored, strict=True) if all(shards)]
            scores = self._scores(session, complete) if lasting and self.part is None else []
            if self.part is None:
                scores += self._pairs(len(images), passes.dim, timed={cost.title for cost in scores})
        host, device_memory = peak_memory(plan.device)
        if device_memory is None:  # what was stopped in the middle may not have held all that it will hold
            host = max(host, held[0] + bounding)
        else:
            device_memory = max(device_memory, (held[1] or 0) + bounding)
        host += sum(cost.stored for o, cost in costs.items() if not (o.scope.training or o.in_files))
        others = (*once, _reading(passes, reading), *scores)
        if self.part is None:
            self._timed.append(Timed(plan, population, train, costs, others, passes, self.workers, encoder.draws))
            others = (*others, _checking(passes, plan.predict_checks(population, encoder.draws)))
        parts = (*costs.values(), *others)
        return EncoderEstimate(
            name=name,
            batch_size=batch_size,
            dim=passes.dim,
            shards=sum(map(len, files)),
            stored=sum(map(sum, stored)) if lasting else None,
            unit_seconds=passes.means,
            parts=parts,
            memory_bytes=host,
            device_memory_bytes=device_memory,
            passes=_sum_work(part.passes for part in parts),
            at_most=any(part.at_most for part in parts),
            at_least=any(part.at_least for part in parts),
            seconds=_sum_seconds(self._share(part) for part in parts),
            disk_bytes=sum(part.stored for part in parts),
            sends="".join(sends),
        )

    def _foresee(self, images: ImageSet) -> list[Sending]:
        """Return what the plan sends to services."""
        train = None if self.unread.train is None else len(self.unread.train)
        return foresee(self.plan, len(images), train, images.shape)

    def _share(self, part: PartEstimate) -> Seconds:
        """Return the time of a part on all workers, which share what they observe and read."""
        workers = self.workers if part.kind in ("observation", "reading") else 1
        return Seconds(expected=part.seconds / workers, low=part.low / workers, high=part.high / workers)

    def _session(self, encoder: Encoder, size: int | None, store: Store, watch: Stopwatch) -> Session:
        """Return the encoder with its images; of a size, with the first of them, without a fingerprint."""
        images = (self.unread if size else self.read).render(encoder.geometry)
        population = len(images.tested)
        attacked = self.plan.count_attacked(population)
        if size and size < population:
            attacked = max(2, attacked * size // population // 2 * 2)
        images = images.first(size) if size else images
        return session_of(self.plan, encoder, images, store, watch.advance, attacked, self.opened)

    def _scores(self, session: Session, complete: Sequence[Observation]) -> list[PartEstimate]:
        """Return what the measures take of which all that they read is stored; of many pairs some are compared."""
        readers = self.plan.observations
        waiting = {name for observation in readers.keys() - complete for name in readers[observation]}
        costs = []
        for name, measure in self.plan.measures_by_name.items():
            if name in waiting:
                continue
            with suppress(Exception):  # the audit says why
                for observation in complete:
                    if observation not in session.costs and name in readers[observation]:
                        session.observe(observation)
                fewer, times = measure.shrink_for_timing(session)
                began = self.clock()
                fewer.score(fewer.observe(session))
                costs.append(_make_part("scores", name, times * (self.clock() - began)))
        return costs

    def _pairs(self, images: int, dim: int, timed: set[str]) -> list[PartEstimate]:
        """Return what comparing all pairs takes at least, of measures that were not timed."""
        pairs = {
            name: measure.pairs(images) for name, measure in self.plan.measures_by_name.items() if name not in timed
        }
        if not any(pairs.values()):
            return []
        some = torch.randn(COMPARED, dim, generator=torch.Generator().manual_seed(0))
        began = self.clock()
        near(some, torch.tensor([0.0]), read_divergence("l2"))
        each = PLACED * (self.clock() - began) / (COMPARED * (COMPARED - 1) / 2)
        how = "not timed: it needs all representations first; estimated from its number of pairs"
        times = {name: each * count for name, count in pairs.items() if count}
        return [
            PartEstimate(
                kind="scores", title=name, seconds=took, low=took, high=took, how=how, at_least=True, guessed=True
            )
            for name, took in times.items()
        ]


def peak_memory(device: str) -> tuple[int, int | None]:
    """Return the most memory that this process has taken so far, in bytes, and on its accelerator (None on a CPU)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return peak, torch.cuda.max_memory_allocated(device) if torch.device(device).type == "cuda" else None


def _make_part(kind: Literal["once", "scores"], title: str, seconds: float) -> PartEstimate:
    return PartEstimate(kind=kind, title=title, seconds=seconds, low=seconds, high=seconds, how="timed once")


def _reading(passes: PassTimes, seconds: float) -> PartEstimate:
    low, high = relative_range(passes.read)
    return PartEstimate(
        kind="reading", title="reading images", seconds=seconds, low=seconds * low, high=seconds * high,
        how="times of single images",
    )  # fmt: skip


def _checking(passes: PassTimes, own: Passes) -> PartEstimate:
    """Return what checks take for passes of their own."""
    seconds = passes.seconds(own)
    return PartEstimate(
        kind="checks", title="checks", passes=work_of(own), seconds=seconds, low=seconds, high=seconds,
        how="times of passes",
    )  # fmt: skip


def _sum_work(made: Iterable[Work]) -> Work:
    made = list(made)
    return Work(**{key: sum(getattr(one, key) for one in made) for key in Work.__struct_fields__})


def _sum_seconds(taken: Iterable[Seconds]) -> Seconds:
    taken = list(taken)
    return Seconds(**{key: sum(getattr(one, key) for one in taken) for key in Seconds.__struct_fields__})

"""The units of an audit, and what does them: an encoder opened, a shard observed, an encoder scored.

A unit leaves its result in the run folder, where any other process finds it; so it may be done anywhere, in any order
that its dependencies allow, and again after it was lost.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.auditing.audit_encoder import EncoderAudit
from holdfast.auditing.images import AuditImages, open_known
from holdfast.auditing.plan import Plan
from holdfast.auditing.session import Session
from holdfast.core import Encoder, HoldfastError, ImageSource, Observation, Score, Table
from holdfast.runtime.listener import Listener, Silent
from holdfast.sources.data import Known
from holdfast.storage.filesystem import Folder
from holdfast.storage.run_folder import Store

ENCODER = -1
"""Stands for the whole encoder among the observations that were lost."""

PLAN = "plan.json"
"""The file by which a run folder is known."""

CACHE = "cache"
"""The subfolder of its shards."""


class Task(NamedTuple):
    """A unit of work.

    Attributes:
        encoder: its number in the plan.
        observation: its number among those of the plan, of which shard `shard` is to be made; None: see `lost`.
        shard: which shard.
        lost: None: the encoder is to be opened. Else it is to be scored, and these observations (by number, or
            `ENCODER`) could not be made, for these reasons.
    """

    encoder: int
    observation: int | None = None
    shard: int = 0
    lost: Mapping[int, str] | None = None


class Layout(NamedTuple):
    """What there is to do for an encoder.

    Attributes:
        work: of each shard of each observation, in encoder passes.
        stored: which of them are stored already.
        remade: how many were stored, and are of no use: they are made again.
    """

    work: list[list[int]]
    stored: list[list[bool]]
    remade: int = 0


@dataclass(frozen=True)
class Audited:
    """What came out of an encoder's audit.

    Attributes:
        row: its entry in the record.
        failures: one sentence for everything that failed.
        log: tracebacks of what should not have failed.
        scored: tables and headline scores of the measures that succeeded.
        resumed: how many shards were found stored.
        remade: how many were stored, and were made again: damaged, or made by other code.
    """

    row: dict[str, Any]
    failures: list[str] = field(default_factory=list)
    log: str = ""
    scored: dict[str, tuple[Table, Score]] = field(default_factory=dict)
    resumed: int = 0
    remade: int = 0


def audited(audit: EncoderAudit, row: dict[str, Any]) -> Audited:
    """Return what came out of an encoder's audit that has run."""
    return Audited(row, audit.failures, audit.log, audit.scored, audit.resumed, audit.remade)


@dataclass(frozen=True)
class Job:
    """What is the same for all units of an audit; makes what does them. Can be sent to other processes.

    Attributes:
        plan: the plan.
        names: of the encoders in the record.
        slugs: of the encoders in files.
        place: the run folder.
        known: what reading all images has found.
        encoders: encoders that are open already, by the plan's name for them.
        source: images that are open already.
        training: training images that are open already.
        home: the folder in which paths of specs begin.
        recorded: what the encoders were of which the folder holds a record that is not to be replaced, by name.
    """

    plan: Plan
    names: tuple[str, ...]
    slugs: tuple[str, ...]
    place: str
    known: tuple[Known, Known | None]
    encoders: Mapping[str, Encoder] = field(default_factory=dict)
    source: ImageSource | None = None
    training: ImageSource | None = None
    home: str = field(default_factory=os.getcwd)
    recorded: Mapping[str, str] = field(default_factory=dict)

    def audit(self, number: int, store: Store, listener: Listener) -> EncoderAudit:
        """Return the audit of an encoder."""
        name = self.names[number]
        return EncoderAudit(self.plan, name, self.slugs[number], store, listener, self.recorded.get(name))

    def encoder(self, number: int) -> Encoder | str:
        """Return an encoder of the plan, or its spec."""
        spec = self.plan.encoders[number]
        return self.encoders.get(spec, spec)

    def __call__(self) -> "Worker":
        """Return what does the units, in this process."""
        if os.path.isdir(self.home):  # on another machine it may not be there: then only whole paths and URLs work
            os.chdir(self.home)
        place = self.place if "://" in self.place else os.path.join(self.home, self.place)
        if not Folder(place).exists(PLAN):
            raise HoldfastError(
                f"expected workers to see the run folder, got none on {socket.gethostname()}: {place!r}; choose an "
                "--out that all of them see: a shared file system, or s3://BUCKET/RUN"
            )
        return Worker(self, open_known(self.plan, self.source, self.known, self.training), Store(place))


class Worker:
    """Does units of an audit, one after the other; keeps the encoder of the last one open."""

    def __init__(self, job: Job, images: AuditImages, store: Store):
        self._job, self._images, self._store = job, images, store
        self._order = tuple(job.plan.observations)
        self._opened: tuple[int, Session] | None = None

    def __call__(self, task: Task) -> Any:
        """Do a unit.

        Returns:
            A `Layout` of an encoder that is opened, an `Audited` of one that is scored, None of a shard.
        """
        if task.lost is not None:
            audit = self._audit(task.encoder)
            lost = {self._key(number): reason for number, reason in task.lost.items()}
            row = audit.run(self._encoder(task.encoder), self._images, lost)
            return audited(audit, row)
        subject = self.subject(task.encoder)
        if task.observation is None:
            remade = self._audit(task.encoder).forget_stale(subject)
            return self.layout(subject)._replace(remade=remade)
        observation = self._order[task.observation]
        for number in sorted(self._job.plan.dependencies[task.observation]):
            if self._order[number] not in subject.costs:
                subject.observe(self._order[number])
        subject.make(observation, subject.shard_files(observation)[task.shard])
        return None

    def _key(self, number: int) -> Observation | None:
        return None if number == ENCODER else self._order[number].key()

    def layout(self, subject: Session) -> Layout:
        """Return what there is to do, and what is stored."""
        stored, precision = set(self._store.names("cache")), subject.encoder.precision
        units = {one: subject.shard_files(one) for one in self._order}
        each = [one.passes_at(precision) for one in self._order]
        work = [
            [(e * (unit.stop - unit.start)).work for unit in units[o]] for o, e in zip(self._order, each, strict=True)
        ]
        return Layout(work, [[unit.file in stored for unit in units[one]] for one in self._order])

    def subject(self, encoder: int) -> Session:
        """Return an encoder of the plan as it is observed; opened unless it was the last one."""
        if self._opened is None or self._opened[0] != encoder:
            self._opened = None  # two encoders may not fit into memory
            self._opened = encoder, self._audit(encoder).open(self._encoder(encoder), self._images)
        return self._opened[1]

    def _encoder(self, number: int) -> Encoder | str:
        """Return an encoder that is open already, or its spec."""
        if self._opened is not None and self._opened[0] == number:
            return self._opened[1].encoder
        return self._job.encoder(number)

    def _audit(self, encoder: int) -> EncoderAudit:
        return self._job.audit(encoder, self._store, Silent())

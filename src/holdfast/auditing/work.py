"""The work items of an audit, and what does them: an encoder opened, a shard observed, an encoder scored.

A work item leaves its result in the run folder, where any other process finds it; so it may be done anywhere, in any
order that its dependencies allow, and again after it was lost.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from holdfast.auditing.bound_progress import BoundProgress
from holdfast.auditing.encoder_result import EncoderResult, ItemError, make_failed_result
from holdfast.auditing.images import AuditImages
from holdfast.auditing.plan import Plan
from holdfast.auditing.prepare import PreparedAudit
from holdfast.auditing.score import Scoring
from holdfast.auditing.session import Progress, Session, forget_stale
from holdfast.auditing.shards import ShardFile, cuts_of
from holdfast.core import Encoder
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import FailureListener, Listener
from holdfast.sources.encoders import open_encoder
from holdfast.storage.answers import Answers, counting
from holdfast.storage.run_folder import OtherEncoder, Store, StoreError


class Step(Enum):
    """What a work item does with its encoder."""

    OPEN = auto()
    OBSERVE = auto()
    SCORE = auto()


class WorkItem(NamedTuple):
    """A work item.

    Attributes:
        encoder: its number in the plan.
        step: what to do.
        observation: the number of the observation of which a shard is to be made.
        shard: which shard.
        lost: why observations of this encoder could not be made, by number.
    """

    encoder: int
    step: Step
    observation: int = 0
    shard: int = 0
    lost: Mapping[int, ItemError] = {}


class OpenedEncoder(NamedTuple):
    """What there is to do for an encoder.

    Attributes:
        shards: of each observation.
        work: of each of these shards, in encoder passes.
        remade: how many shards were stored by other code of the encoder, and are forgotten.
    """

    shards: list[list[ShardFile]]
    work: list[list[int]]
    remade: int = 0


def session_of(
    plan: Plan,
    encoder: Encoder,
    images: AuditImages,
    store: Store,
    progress: Progress,
    attacked: int | None = None,
    opened: Mapping[str, Encoder] | None = None,
) -> Session:
    """Return an encoder with the images of a plan.

    Args:
        plan: the plan.
        encoder: the encoder, on its device.
        images: rendered for it.
        store: where its shards are kept.
        progress: told how much work is done.
        attacked: how many images are attacked; None: as the plan says.
        opened: encoders that are open already, by the plan's name for them.
    """
    encoder.keep_unused()
    batch_size = plan.batch_size_of(images.tested.shape)
    split = plan.split(len(images.tested))
    return Session(
        encoder,
        images.tested,
        attacked=split.attacked if attacked is None else attacked,
        reserved=split.reserved if attacked is None else attacked,
        cuts=cuts_of(split.reserved, batch_size) if plan.in_rounds else (),
        seed=plan.seed,
        batch_size=batch_size,
        device=plan.device,
        store=store,
        progress=progress,
        train=images.train,
        opened=opened,
    )


def _say(listener: Listener) -> Callable[[str], object]:
    """Return what tells people something that should not pass by, as stages do."""
    return listener.report_failure if isinstance(listener, FailureListener) else listener.stage


class Worker:
    """Does work items, one after the other; keeps the encoder of the last one open.

    Args:
        audit: what is the same for all of them.
    """

    def __init__(self, audit: PreparedAudit):
        self._audit = audit
        self._opened: tuple[int, Session] | None = None
        self._progress = BoundProgress(audit.listener)
        self._answers = Answers(audit.store.files, audit.calls_end, _say(audit.listener))

    def __call__(self, item: WorkItem) -> OpenedEncoder | EncoderResult | ItemError | None:
        """Do a work item; None: the shard is stored."""
        with counting(self._answers):
            return self._do(item)

    def _do(self, item: WorkItem) -> OpenedEncoder | EncoderResult | ItemError | None:
        try:
            match item.step:
                case Step.OPEN:
                    return self._open(item.encoder)
                case Step.OBSERVE:
                    return self._observe(item)
                case Step.SCORE:
                    session = self.session(item.encoder)
        except StoreError:
            raise
        except Exception as error:
            reason = ItemError.of(error, item.shard)
            name, slug = self._audit.names[item.encoder], self._audit.slugs[item.encoder]
            return make_failed_result(name, slug, reason) if item.step is Step.SCORE else reason
        return self._scoring(item, session).run()

    def _open(self, encoder: int) -> OpenedEncoder:
        """Open an encoder, forget what other code of it has stored, and list its shards."""
        session, order, name = self.session(encoder), self._audit.plan.order, self._audit.names[encoder]
        remade = forget_stale(session, self._audit.plan, self._audit.store, name in self._audit.recorded)
        if remade is None:
            raise OtherEncoder.of(name)
        shards = [session.shard_files(observation) for observation in order]
        passes = [observation.passes_of(session.encoder) for observation in order]
        work = [
            [(each * (shard.stop - shard.start)).work for shard in files]
            for each, files in zip(passes, shards, strict=True)
        ]
        return OpenedEncoder(shards, work, remade)

    def _observe(self, item: WorkItem) -> None:
        """Make a shard, after what it reads has been put together."""
        plan, session = self._audit.plan, self.session(item.encoder)
        observation = plan.order[item.observation]
        self._audit.listener.stage(observation.title)
        with foreign(observation.title, "run"), self._progress.telling(observation.title):
            needed = plan.dependencies[item.observation] - item.lost.keys()
            for number in sorted(needed, key=lambda number: (len(plan.dependencies[number]), number)):
                session.observe(plan.order[number])
            session.make(observation, session.shard_files(observation)[item.shard])

    def _scoring(self, item: WorkItem, session: Session) -> Scoring:
        audit = self._audit
        name, slug = audit.names[item.encoder], audit.slugs[item.encoder]
        lost = {audit.plan.order[number].key(): error for number, error in item.lost.items()}
        return Scoring(audit.plan, name, slug, audit.store, audit.listener, session, lost)

    def session(self, number: int) -> Session:
        """Return an encoder of the plan as it is observed; opened unless it was the last one."""
        if self._opened is None or self._opened[0] != number:
            self._opened = None  # two encoders may not fit into memory
            with foreign(f"encoder {self._audit.names[number]!r}", "opened"):
                self._opened = number, self._new_session(number)
        return self._opened[1]

    def _new_session(self, number: int) -> Session:
        audit, plan = self._audit, self._audit.plan
        audit.listener.stage("opening the encoder")
        spec = plan.encoders[number]
        encoder = (audit.encoders[spec] if spec in audit.encoders else open_encoder(spec)).to(plan.device)
        encoder.prepare(precision=plan.precision, compiled=plan.compiled, seed=plan.seed)
        images = audit.images.render(encoder.geometry)
        session = session_of(plan, encoder, images, audit.store, self._progress.advance, opened=audit.encoders)
        if audit.recorded.get(audit.names[number]) not in (None, session.identity):
            raise OtherEncoder.of(audit.names[number])
        return session

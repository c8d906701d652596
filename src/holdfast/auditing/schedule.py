"""Which work item of an audit is next: what it depends on comes first, and what is lost is tried again."""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from holdfast.auditing.encoder_result import EncoderResult, ItemError
from holdfast.auditing.shards import ShardFile
from holdfast.auditing.work import OpenedEncoder, Step, WorkItem
from holdfast.runtime.errors import BadValue

ATTEMPTS = 3
"""How often a work item is tried that ends its worker."""

Look = Callable[[Sequence[ShardFile], Collection[int]], set[int]]
"""Tells which shards of an observation are stored now; of those whose numbers are given, whole as they were written."""


@dataclass(frozen=True)
class Part:
    """Which share of the shards is made: every `count`-th, from the `number`-th on.

    Attributes:
        number: from 1.
        count: how many parts there are.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise BadValue(f"shard: expected a number from 1 to the count, such as 2/8, got {self}")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def own_shards(shards: Sequence[Sequence[object]], encoder: int, part: Part) -> list[list[int]]:
    """Return the numbers of the shards of each observation that belong to a part; encoders begin with other parts."""
    places, first = itertools.count(encoder), part.number - 1
    return [[shard for shard in range(len(files)) if next(places) % part.count == first] for files in shards]


@dataclass
class _Encoder:
    """How far the audit of one encoder has come."""

    step: Step | None = Step.OPEN  # None: it is finished
    assigned: bool = False  # whether its opening, or its scoring, has been given to a worker
    shards: list[list[ShardFile]] = field(default_factory=list)
    work: list[list[int]] = field(default_factory=list)
    waiting: list[list[int]] = field(default_factory=list)  # shards of each observation to be made, the next one last
    elsewhere: list[list[int]] = field(default_factory=list)  # shards that other parts are to make
    running: Counter[int] = field(default_factory=Counter)  # of each observation, shards that are being made
    lost: dict[int, ItemError] = field(default_factory=dict)  # why observations could not be made
    total: int = 0  # work that it takes
    reported: int = 0  # work that progress has heard of
    stored: int = 0  # shards that were there
    remade: int = 0
    error: ItemError | None = None  # why it could not be opened, or scored
    result: EncoderResult | None = None

    def over(self, observation: int) -> bool:
        """Whether nothing of an observation is to be made any more."""
        return not (self.waiting[observation] or self.running[observation] or self.elsewhere[observation])


class Schedule:
    """The work items of an audit, or of one part of it: which is next, and what came out.

    Args:
        dependencies: for each observation, the numbers of those that must be over before; see `Plan.dependencies`.
        requirements: those of them without which it is not tried; see `Plan.requirements`.
        work: that each encoder takes, in passes of its own.
        look: tells which shards are stored.
        part: which shards are made, and no encoder is scored; None: all are, and each encoder is.

    Attributes:
        deaths: how many workers died.
        shards: how many shards were made.
    """

    def __init__(
        self,
        dependencies: Sequence[set[int]],
        requirements: Sequence[set[int]],
        work: Sequence[int],
        look: Look,
        part: Part | None = None,
    ):
        self._dependencies, self._requirements = dependencies, requirements
        self._look, self._part = look, part
        self.encoders = [_Encoder(total=total) for total in work]
        self._attempts: Counter[tuple[int, Step, int, int]] = Counter()
        self._made: set[str] = set()  # files of shards, which encoders may have in common
        self.deaths = self.shards = 0

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do for any encoder."""
        return all(encoder.step is None for encoder in self.encoders)

    @property
    def n_stored(self) -> int:
        """How many shards were there already, of those that were to be made."""
        return sum(encoder.stored for encoder in self.encoders)

    def next(self, last: int | None = None) -> WorkItem | None:
        """Return the next work item, of the encoder that was open last where it has one; None: none is ready."""
        order = sorted(range(len(self.encoders)), key=lambda number: (number != last, number))
        return next(filter(None, map(self._next, order)), None)

    def _next(self, number: int) -> WorkItem | None:
        encoder = self.encoders[number]
        if encoder.step is Step.OBSERVE:
            return self._ready(number, encoder) or self._of_others(number, encoder)
        if encoder.step is None or encoder.assigned:
            return None
        encoder.assigned = True
        return WorkItem(number, encoder.step, lost=encoder.lost)

    def _ready(self, number: int, encoder: _Encoder) -> WorkItem | None:
        """Return the first shard whose dependencies are over."""
        for observation, shards in enumerate(encoder.waiting):
            if shards and all(map(encoder.over, self._dependencies[observation])):
                return self._give(number, encoder, observation, shards)
        return None

    def _of_others(self, number: int, encoder: _Encoder) -> WorkItem | None:
        """Return a shard of other parts that this one waits for and nobody has made yet.

        Parts that begin at different shards seldom make one twice.
        """
        if self._part is None or encoder.running.total():
            return None
        blocked = next(observation for observation, shards in enumerate(encoder.waiting) if shards)
        for observation in sorted(self._dependencies[blocked], key=lambda o: (len(self._dependencies[o]), o)):
            files, shards = encoder.shards[observation], encoder.elsewhere[observation]
            if shards:
                stored = self._look(files, ())
                shards[:] = [shard for shard in shards if shard not in stored]
            if shards:
                first = len(files) * (self._part.number - 1) // self._part.count
                shards.sort(key=lambda shard: (shard < first, shard), reverse=True)
                return self._give(number, encoder, observation, shards)
        return self._ready(number, encoder)

    @staticmethod
    def _give(number: int, encoder: _Encoder, observation: int, shards: list[int]) -> WorkItem:
        encoder.running[observation] += 1
        return WorkItem(number, Step.OBSERVE, observation, shards.pop(), encoder.lost)

    def record_outcome(self, item: WorkItem, value: OpenedEncoder | EncoderResult | ItemError | None) -> int:
        """Note what came out of a work item; return how much work is done with it, or left out, in encoder passes."""
        encoder, work = self.encoders[item.encoder], 0
        match value:
            case OpenedEncoder():
                work = self._open(item.encoder, encoder, value)
            case EncoderResult():
                # the worker that scores finds all shards stored, whoever made them
                again = value.remade
                encoder.result = replace(value, resumed=encoder.stored - again, remade=again + encoder.remade)
                encoder.step = None
            case ItemError() if item.step is Step.OPEN:
                encoder.error, encoder.step = value, None
            case ItemError():
                encoder.running[item.observation] -= 1
                self._lose(encoder, item.observation, value)
            case None:
                encoder.running[item.observation] -= 1
                self.shards += 1
                self._made.add(encoder.shards[item.observation][item.shard].file)
                work = encoder.work[item.observation][item.shard]
        return self._report(encoder, work)

    def _open(self, number: int, encoder: _Encoder, opened: OpenedEncoder) -> int:
        """Note which shards of an encoder are to be made; return the work of those that are stored."""
        encoder.step, encoder.assigned = Step.OBSERVE, False
        encoder.shards, encoder.work, encoder.remade = opened.shards, opened.work, opened.remade
        work, own_of = 0, map(set, own_shards(opened.shards, number, self._part or Part(1, 1)))
        for files, passes, own in zip(opened.shards, opened.work, own_of, strict=True):
            stored = self._look(files, own if self._part else ())
            missing = [shard for shard in range(len(files)) if shard not in stored]
            encoder.waiting.append([shard for shard in reversed(missing) if shard in own])
            encoder.elsewhere.append([shard for shard in missing if shard not in own])
            encoder.stored += sum(files[shard].file not in self._made for shard in stored.intersection(own))
            work += sum(passes[shard] for shard in stored.intersection(own))
        return work

    def _report(self, encoder: _Encoder, work: int) -> int:
        """Go on to the next step where all shards are over; return the work, and at the end what was left out."""
        if encoder.step is Step.OBSERVE and not any(encoder.waiting) and not encoder.running.total():
            encoder.step = Step.SCORE if self._part is None else None
        if encoder.step is None:
            work = encoder.total - encoder.reported
        encoder.reported += work
        return work

    def died(self, item: WorkItem, cause: str) -> int:
        """Note that an item's worker died: it is tried again up to `ATTEMPTS` times; returns as `record_outcome`."""
        # Count its attempts
        self.deaths += 1
        self._attempts[item[:4]] += 1
        encoder, retry = self.encoders[item.encoder], self._attempts[item[:4]] < ATTEMPTS
        reason = (
            f"its worker died {ATTEMPTS} times: {cause}; give it more memory, fewer workers or a smaller --batch-size"
        )

        # A shard waits again, or its observation is lost; so it is with an encoder's opening and scoring
        if item.step is Step.OBSERVE:
            encoder.running[item.observation] -= 1
            if not retry:
                self._lose(encoder, item.observation, ItemError(reason, shard=item.shard))
            elif item.observation not in encoder.lost:
                encoder.waiting[item.observation].append(item.shard)
        elif retry:
            encoder.assigned = False
        else:
            doing = "opening" if item.step is Step.OPEN else "scoring"
            encoder.error, encoder.step = ItemError(f"{doing} it: {reason}"), None
        return self._report(encoder, 0)

    def _lose(self, encoder: _Encoder, observation: int, error: ItemError) -> None:
        """Leave out an observation and what cannot be made without it; of its errors keep that of the first shard."""
        earlier = encoder.lost.get(observation)
        if error.shard < (inf if earlier is None else earlier.shard):
            encoder.lost[observation] = error
        for dependent, needed in enumerate(self._requirements):
            if dependent == observation or observation in needed:
                encoder.waiting[dependent] = []
                encoder.elsewhere[dependent] = []

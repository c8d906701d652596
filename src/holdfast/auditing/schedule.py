"""Which unit of an audit is next: what it depends on comes first, and what is lost is tried again."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.auditing.units import ENCODER, Audited, Layout, Task
from holdfast.core import HoldfastError
from holdfast.storage.run_folder import StoreError

ATTEMPTS = 3
"""How often a unit is tried that ends its worker."""


@dataclass
class _Progress:
    """How far the audit of one encoder has come."""

    opened: bool | None = None  # None: not yet begun
    waiting: list[list[int]] = field(default_factory=list)  # shards of each observation that are to be made
    layout: Layout = field(default_factory=lambda: Layout([], []))
    given: Counter[int] = field(default_factory=Counter)  # of each observation, shards that are being made
    broken: set[int] = field(default_factory=set)  # observations that fail: scoring finds out how
    lost: dict[int, str] = field(default_factory=dict)  # observations, or ENCODER, that ended their workers
    work: int = 0  # that has been told
    scoring: bool = False
    result: Audited | None = None


class Schedule:
    """The units of an audit: which is next, and what came out.

    Args:
        encoders: how many there are.
        needed: for each observation, the numbers of those that must be complete first; see `dependencies`.
        work: that each encoder takes, in encoder passes.

    Attributes:
        deaths: how many workers died.
    """

    def __init__(self, encoders: int, needed: Sequence[set[int]], work: int):
        self._needed, self._work = needed, work
        self._encoders = [_Progress() for _ in range(encoders)]
        self._attempts: Counter[tuple[int, int | None, int, bool | None]] = Counter()
        self.deaths = 0

    @property
    def finished(self) -> bool:
        """Whether every encoder has been scored."""
        return all(one.result is not None for one in self._encoders)

    @property
    def results(self) -> list[Audited]:
        """What came out, in the order of the encoders."""
        return [one.result for one in self._encoders if one.result is not None]

    def next(self, last: int | None = None) -> Task | None:
        """Return the next unit, of the encoder that was open last where it has one; None: none is ready.

        Args:
            last: the encoder that whoever does the unit has open.
        """
        order = sorted(range(len(self._encoders)), key=lambda number: (number != last, number))
        return next(filter(None, map(self._next, order)), None)

    def _next(self, number: int) -> Task | None:
        one = self._encoders[number]
        if one.opened is None:
            one.opened = False
            return Task(number)
        if not one.opened or one.scoring:
            return None
        for observation, shards in enumerate(one.waiting):
            if shards and all(self._complete(one, other) for other in self._needed[observation]):
                one.given[observation] += 1
                return Task(number, observation, shards.pop(0))
        if any(one.waiting) or one.given.total():
            return None
        one.scoring = True
        return Task(number, lost=one.lost)

    @staticmethod
    def _complete(one: _Progress, observation: int) -> bool:
        return not one.waiting[observation] and not one.given[observation] and observation not in one.broken

    def done(self, task: Task, value: Any) -> int:
        """Note what came out of a unit; return how much work is done with it, or left out, in encoder passes."""
        one = self._encoders[task.encoder]
        work = self._done(one, task, value)
        one.work += work
        return work

    def _done(self, one: _Progress, task: Task, value: Any) -> int:
        if isinstance(value, Layout):
            one.opened, one.layout = True, value
            one.waiting = [[shard for shard, there in enumerate(stored) if not there] for stored in value.stored]
            return sum(
                w for ws, ss in zip(value.work, value.stored, strict=True) for w, s in zip(ws, ss, strict=True) if s
            )
        if isinstance(value, Audited):
            stored = sum(sum(there) for there in one.layout.stored)
            # the worker that scores finds all of them stored
            one.result = replace(value, resumed=stored, remade=value.remade + one.layout.remade)
            return self._work - one.work
        assert task.observation is not None  # what else there is
        one.given[task.observation] -= 1
        return one.layout.work[task.observation][task.shard]

    def failed(self, task: Task, error: Exception) -> None:
        """Note that a unit failed: what depends on it is left out, and scoring meets the same error.

        Raises:
            HoldfastError: a folder that cannot be written, or what no part of an audit should raise.
        """
        if isinstance(error, StoreError) or task.lost is not None:
            raise error
        one = self._encoders[task.encoder]
        if task.observation is None:
            one.opened, one.waiting = True, []
            return
        one.given[task.observation] -= 1
        self._drop(one, task.observation)

    def died(self, task: Task, how: str) -> None:
        """Note that the worker of a unit died: it is tried again, up to `ATTEMPTS` times.

        Raises:
            HoldfastError: the worker died even though it had no encoder to open.
        """
        self.deaths += 1
        unit = *task[:3], None if task.lost is None else ENCODER in task.lost
        self._attempts[unit] += 1
        one, again = self._encoders[task.encoder], self._attempts[unit] < ATTEMPTS
        why = f"its worker died {ATTEMPTS} times: {how}; give it more memory, fewer workers or a smaller --batch-size"
        if task.observation is not None:
            one.given[task.observation] -= 1
            if task.observation in one.broken:
                return
            if again:
                one.waiting[task.observation].insert(0, task.shard)
            else:
                one.lost[task.observation] = why
                self._drop(one, task.observation)
        elif again:
            one.opened, one.scoring = one.opened or None, False
        elif task.lost is not None and ENCODER in task.lost:
            raise HoldfastError(f"encoder {task.encoder + 1}: {why}; what is already stored is kept")
        else:
            one.opened, one.scoring = True, False
            one.lost = {ENCODER: f"{'opening' if task.lost is None else 'scoring'} it: {why}"}

    def _drop(self, one: _Progress, observation: int) -> None:
        """Leave out an observation, and what needs it: scoring says so."""
        one.broken.add(observation)
        for other, needed in enumerate(self._needed):
            if other == observation or observation in needed:
                one.waiting[other] = []
                one.broken.add(other)

"""One part of an audit's shards, for machines that start many processes by themselves: `--shard 2/8`."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.auditing.units import Job, Layout, Task, Worker
from holdfast.core import HoldfastError
from holdfast.runtime.errors import NotCertified, first_line
from holdfast.runtime.listener import Listener
from holdfast.storage.run_folder import Store, StoreError

MARK = ".failed"
"""Ends the name of a file that stands for a shard which could not be made, and tells why."""


def mark_of(file: str) -> str:
    """Return the name of the file that says that a shard could not be made."""
    return file.rpartition(".")[0] + MARK


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
            raise HoldfastError(f"shard: expected a number from 1 to the count, such as 2/8, got {self}")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def part_of(text: str) -> Part:
    """Read "2/8".

    Raises:
        HoldfastError: something else.
    """
    number, slash, count = text.partition("/")
    if not slash or not number.strip().isdecimal() or not count.strip().isdecimal():
        raise HoldfastError(f"shard: expected NUMBER/COUNT such as 2/8, got {text!r}")
    return Part(int(number), int(count))


def own_shards(shards: Sequence[Sequence[object]], encoder: int, part: Part) -> list[list[int]]:
    """Return the numbers of the shards of each observation that belong to a part; encoders begin with different parts.

    Args:
        shards: something for each shard of each observation.
        encoder: its number in the plan.
        part: the part.
    """
    places, mine = itertools.count(encoder), part.number - 1
    return [[shard for shard in range(len(each)) if next(places) % part.count == mine] for each in shards]


@dataclass
class Made:
    """What one process has done for an audit.

    Attributes:
        units: shards that it made.
        stored: shards of its own that were there already.
        failures: one sentence for everything that failed; `merge` meets it again and records it. What cannot be
            certified is no failure.
    """

    units: int
    stored: int
    failures: list[str]


def make_part(job: Job, worker: Worker, store: Store, part: Part, listener: Listener) -> Made:
    """Make one part of the shards of every encoder.

    What others need as a whole (clean representations, what probes learn from) is made together: who finds some of it
    missing when nothing else is left to do makes that too. So parts may run at the same time in one folder, one after
    the other, or in folders of their own.

    Raises:
        StoreError: a folder that cannot be written.
    """
    made = Made(0, 0, [])
    for number, name in enumerate(job.names):
        listener.stage(f"opening {name}")
        try:
            layout = worker(Task(number))
        except StoreError:
            raise
        except Exception as error:
            made.failures.append(f"{name}: {first_line(error)}")
            continue
        _Encoder(job, worker, store, part, listener, made, number, layout).run()
    return made


@dataclass
class _Encoder:
    """The part of one encoder's shards."""

    job: Job
    worker: Worker
    store: Store
    part: Part
    listener: Listener
    made: Made
    number: int
    layout: Layout

    def __post_init__(self) -> None:
        self.order = tuple(self.job.plan.observations)
        self.needed = self.job.plan.dependencies
        self.files = [[unit.file for unit in self.worker.subject(self.number).shard_files(one)] for one in self.order]
        self.broken: set[int] = set()

    def run(self) -> None:
        own = self._own()
        left = sum(self.layout.work[o][s] for o, shards in enumerate(own) for s in shards)
        self.listener.begin(self.job.names[self.number], left)
        waiting = [number for number, shards in enumerate(own) if shards]
        while waiting:
            ready = next((o for o in waiting if all(not self._missing(other) for other in self.needed[o])), None)
            if ready is None:
                self._fill(waiting[0])
            else:
                for shard in own[ready]:
                    if self._make(ready, shard):
                        left -= self.layout.work[ready][shard]
                        self.listener.advance(self.layout.work[ready][shard])
                waiting.remove(ready)
            waiting = [o for o in waiting if o not in self.broken and not self.needed[o] & self.broken]
        self.listener.advance(left)  # of what failed

    def _own(self) -> list[list[int]]:
        """Return the numbers of the shards of each observation that belong to this part."""
        return own_shards(self.layout.work, self.number, self.part)

    def _missing(self, observation: int) -> list[int]:
        """Return the shards of an observation that nobody has made yet."""
        files = self.files[observation]
        there = set(self.store.names(files[0].rpartition("/")[0])) if files else ()
        return [shard for shard, file in enumerate(files) if file not in there]

    def _fill(self, observation: int) -> None:
        """Make one shard that an observation waits for, the first one that this part comes to."""
        for other in sorted(self.needed[observation], key=lambda o: (len(self.needed[o]), o)):
            if missing := self._missing(other):
                at = len(self.files[other]) * (self.part.number - 1) // self.part.count
                self._make(other, min(missing, key=lambda shard: (shard < at, shard)), own=False)
                return

    def _make(self, observation: int, shard: int, own: bool = True) -> bool:
        """Make a shard unless it is there; return whether it is there now."""
        if observation in self.broken:
            return False
        self.listener.stage(self.order[observation].title)
        file = self.files[observation][shard]
        there = self.store.read_tensors(file) is not None
        try:
            if not there:
                self.store.delete(file)  # one that is damaged
                self.worker(Task(self.number, observation, shard))
                self.store.delete(mark_of(file))
        except StoreError:
            raise
        except Exception as error:
            self.broken.add(observation)
            why = f"{self.job.names[self.number]}, {self.order[observation].title}: {first_line(error)}"
            self.store.write(mark_of(file), lambda path: path.write_text(why, encoding="utf-8"))
            if not isinstance(error, NotCertified):
                self.made.failures.append(why)
            return False
        self.made.units += not there
        self.made.stored += there and own
        return True

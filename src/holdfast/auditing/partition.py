"""One part of an audit's shards, for machines that start many processes by themselves: `--shard 2/8`."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from holdfast.auditing.execute import INLINE, execute
from holdfast.auditing.prepare import CACHE, PreparedAudit
from holdfast.auditing.schedule import Part, Schedule
from holdfast.core.engine import Engine
from holdfast.runtime.errors import BadValue
from holdfast.storage.seal import SHARD

MARK = ".failed"
"""Ends the name of a file that stands for a shard which could not be made, and tells why."""


def mark_of(file: str) -> str:
    """Return the name of the file that says that a shard could not be made."""
    return file.rpartition(".")[0] + MARK


def part_of(text: str) -> Part:
    """Read "2/8"."""
    number, slash, count = text.partition("/")
    if not slash or not number.strip().isdecimal() or not count.strip().isdecimal():
        raise BadValue(f"shard: expected NUMBER/COUNT such as 2/8, got {text!r}")
    return Part(int(number), int(count))


@dataclass(frozen=True)
class PartResult:
    """What one process has done for an audit.

    Attributes:
        shards: how many shards it made.
        stored: shards of its own that were there already.
        failures: one sentence for everything that failed; `merge` meets it again and records it. What cannot be
            certified is no failure.
    """

    shards: int
    stored: int
    failures: list[str]


def make_part(audit: PreparedAudit, part: Part, engine: Engine = INLINE) -> PartResult:
    """Make one part of the shards of every encoder.

    What others need as a whole (clean representations, what probes learn from) is made together: who finds some of it
    missing when nothing else is left to do makes that too. So parts may run at the same time in one folder, one after
    the other, or in folders of their own.
    """
    with closing(audit.claim):
        return _update_marks(audit, execute(audit, engine, part))


def _update_marks(audit: PreparedAudit, schedule: Schedule) -> PartResult:
    """Mark what could not be made, so that merging does not wait for it; forget the marks of what is there now."""
    failures, store = list[str](), audit.store
    for mark, sentence, is_failure in _find_lost(audit, schedule):
        if mark is not None:
            store.write_text(mark, sentence)
        failures += [sentence] if is_failure else []
    names = set(store.names(CACHE))
    for name in names:
        if name.endswith(MARK) and name.removesuffix(MARK) + SHARD in names:
            store.delete(name)
    return PartResult(schedule.shards, schedule.n_stored, failures)


def _find_lost(audit: PreparedAudit, schedule: Schedule) -> Iterator[tuple[str | None, str, bool]]:
    """Yield what could not be made: the name of its mark, a sentence, and whether it is a failure."""
    for name, encoder in zip(audit.names, schedule.encoders, strict=True):
        if encoder.error is not None:
            yield None, f"{name}: {encoder.error.reason}", True
        for number, error in encoder.lost.items():
            where = f"{name}, {audit.plan.order[number].title}"
            yield mark_of(encoder.shards[number][error.shard].file), f"{where}: {error.reason}", not error.not_certified

"""All records below a folder, in groups that can be compared."""

import json
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from holdfast.comparison.compare import compare_runs
from holdfast.comparison.pareto import axes
from holdfast.comparison.records import Run, open_run
from holdfast.core import HoldfastError
from holdfast.numerics.statistics.multiple_testing import CORRECTIONS
from holdfast.runtime.errors import UnreadableRecord, describe_error, os_reason, unknown
from holdfast.runtime.freed_memory import many_objects
from holdfast.runtime.privacy import public
from holdfast.storage.comparison import Comparison, Leaderboard, Pareto, Unreadable
from holdfast.storage.conditions import conditions, question
from holdfast.storage.filesystem import Folder
from holdfast.storage.record_file import RECORD
from holdfast.storage.standing import refuse_unknown


def leaderboard(
    place: str,
    *,
    correction: str = "holm",
    x: str | None = None,
    y: str | None = None,
    allow: Sequence[str] = (),
) -> Leaderboard:
    """Return a comparison for each group of audits that can be compared, largest first, and what could not be read.

    Audits are of one group where images, attacked images, seed and precision are the same and a chain of measures with
    one spec connects them. p-values are adjusted within each group. An audit that compares with no other stands alone.
    """
    if correction not in CORRECTIONS:
        raise unknown("correction", correction, CORRECTIONS)
    folder = Folder(place)
    try:
        records = [name for name in folder.files() if PurePosixPath(name).name == RECORD]
    except OSError as error:
        raise UnreadableRecord(
            f"expected a folder of audits, got {place!r}, which cannot be read: {os_reason(error)}"
        ) from error
    if not records:
        raise UnreadableRecord(
            f"expected a folder with audits in it, got {place!r} without any {RECORD}; give the folder above the run "
            "folders of `holdfast audit`"
        )
    # read all records
    runs: list[Run] = []
    unreadable: list[Unreadable] = []
    for name in records:
        inside = str(PurePosixPath(name).parent)  # the page may go elsewhere: no paths of this machine
        name_on_page = PurePosixPath(place).name or place if inside == "." else inside
        try:
            runs.append(open_run(folder.format_path(name).removesuffix(f"/{RECORD}"), name_on_page, allow))
        except HoldfastError as error:
            reason = str(error).replace(f"{place.rstrip('/')}/", "")
            unreadable.append(Unreadable(place=name_on_page, reason=reason))
    refuse_unknown(allow, [run.record for run in runs])
    tables, lost = in_groups(runs, correction, x, y)
    return Leaderboard(place=public(place), groups=tables, unreadable=unreadable + lost)


def in_groups(
    runs: Sequence[Run], correction: str = "holm", x: str | None = None, y: str | None = None
) -> tuple[list[Comparison], list[Unreadable]]:
    """Return a comparison for each group of audits that can be compared, largest first, and what could not be."""
    tables: list[Comparison] = []
    unreadable: list[Unreadable] = []
    with many_objects():
        for group in groups(runs):
            comparisons, lost = _tables(group, lambda members: _table(members, correction, x, y))
            tables += comparisons
            unreadable += lost
    if tables and (x or y):
        axes({name: m for table in tables for name, m in table.measures.items()}, x, y)  # refuses unknown names
    return sorted(tables, key=lambda table: -len(table.encoders)), unreadable


def groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Return audits in groups that can be compared: the same conditions, and a measure in common with another one."""
    connected: list[tuple[set[str], list[Run]]] = []
    for run in runs:
        questions = _questions(run)
        joined = [group for group in connected if group[0] & questions]
        members = [member for _, group in joined for member in group]
        merged = questions.union(*(keys for keys, _ in joined)), [*members, run]
        connected = [group for group in connected if group not in joined] + [merged]
    return [sorted(members, key=lambda run: run.place) for _, members in connected]


def _questions(run: Run) -> set[str]:
    """Return the measures of an audit with everything that they must share with others'; a key of its own without."""
    shared = json.dumps(conditions(run.record), sort_keys=True)
    encoders = [encoder for encoder in run.record.encoders if not encoder.error]
    keys = {shared + question(run.record, m) for encoder in encoders for m in encoder.measures.values()}
    return keys or {run.place}


def _tables(
    group: Sequence[Run], compare: Callable[[Sequence[Run]], Comparison]
) -> tuple[list[Comparison], list[Unreadable]]:
    """Return the comparison of a group; where one of its audits is in the way, that one is named and left out."""
    try:
        return [compare(group)], []
    except Exception as error:
        if len(group) == 1:
            return [], [Unreadable(place=group[0].place, reason=describe_error(error))]
    alone = {run.place: _tables([run], compare) for run in group}
    fit = [run for run in group if alone[run.place][0]]
    lost = [entry for _, entries in alone.values() for entry in entries]
    if lost:
        return (_tables(fit, compare) if fit else ([], []))[0], lost
    return [table for tables, _ in alone.values() for table in tables], []  # only together they do not fit


def _table(group: Sequence[Run], correction: str, x: str | None, y: str | None) -> Comparison:
    """Compare a group; a measure for an axis that it does not have leaves the choice to the comparison."""
    try:
        return compare_runs(group, correction=correction, x=x, y=y, fewest=1)
    except HoldfastError:
        if x is None and y is None:
            raise
        table = compare_runs(group, correction=correction, fewest=1)
        names = ", ".join(name for name in (x, y) if name)
        return replace(table, pareto=Pareto(x=None, y=None, why_not=f"its measures have no {names}", points=[]))

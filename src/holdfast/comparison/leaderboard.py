"""All records below a folder, in groups that can be compared."""

import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from holdfast.comparison.compare import compare_runs
from holdfast.comparison.conditions import conditions, learned_from
from holdfast.comparison.records import RECORD, Run, open_run
from holdfast.core import HoldfastError
from holdfast.errors import UnreadableRecord, os_reason
from holdfast.folders import Folder


def leaderboard(place: str, *, correction: str = "holm", x: str | None = None, y: str | None = None) -> dict[str, Any]:
    """Return a comparison for each group of audits that can be compared, largest first, and what could not be read.

    Audits are of one group where images, attacked images, seed and precision are the same and a chain of measures with
    one spec connects them. p-values are adjusted within each group. An audit that compares with no other stands alone.

    Args:
        place: folder, local or remote; records at any depth are found.
        correction: see `compare_runs`.
        x: measure that is drawn across, where a group has it; see `pareto.axes`.
        y: measure that is drawn up.

    Raises:
        HoldfastError: a folder that cannot be read, or without any record.
    """
    folder = Folder(place)
    try:
        found = [name for name in folder.files() if PurePosixPath(name).name == RECORD]
    except OSError as error:
        raise UnreadableRecord(
            f"expected a folder of audits, got {place!r}, which cannot be read: {os_reason(error)}"
        ) from error
    if not found:
        raise UnreadableRecord(
            f"expected a folder with audits in it, got {place!r} without any {RECORD}; give the folder above the run "
            "folders of `holdfast audit`"
        )
    runs: list[Run] = []
    unreadable: list[dict[str, str]] = []
    for name in found:
        inside = str(PurePosixPath(name).parent)  # the page may go elsewhere: no paths of this machine
        called = PurePosixPath(place).name or place if inside == "." else inside
        try:
            runs.append(open_run(folder.named(name).removesuffix(f"/{RECORD}"), called))
        except HoldfastError as error:
            unreadable.append({"place": called, "reason": str(error).replace(f"{place.rstrip('/')}/", "")})
    tables = []
    for group in groups(runs):
        try:
            tables.append(_table(group, correction, x, y))
        except HoldfastError as error:
            unreadable += [{"place": run.place, "reason": str(error)} for run in group]
    tables.sort(key=lambda table: -len(table["encoders"]))
    return {"place": place, "groups": tables, "unreadable": unreadable}


def groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Return audits in groups that can be compared: the same conditions, and a measure in common with another one."""
    found: list[tuple[set[str], list[Run]]] = []
    for run in runs:
        asked = _questions(run)
        joined = [group for group in found if group[0] & asked]
        merged = set(asked).union(*(keys for keys, _ in joined)), [r for _, mine in joined for r in mine] + [run]
        found = [group for group in found if group not in joined] + [merged]
    return [sorted(members, key=lambda run: run.place) for _, members in found]


def _questions(run: Run) -> set[str]:
    """Return the measures of an audit with everything that they must share with others'; a key of its own without."""
    mine, labels = conditions(run.record), learned_from(run.record)
    asked = {
        json.dumps([mine, m["part"], labels if m["needs_labels"] else None], sort_keys=True)
        for entry in run.record["encoders"]
        for m in entry.get("measures", {}).values()
        if not entry.get("error")
    }
    return asked or {run.place}


def _table(group: Sequence[Run], correction: str, x: str | None, y: str | None) -> dict[str, Any]:
    """Compare a group; a measure for an axis that it does not have leaves the choice to the comparison."""
    try:
        return compare_runs(group, correction=correction, x=x, y=y, fewest=1)
    except HoldfastError:
        if x is None and y is None:
            raise
        table = compare_runs(group, correction=correction, fewest=1)
        said = ", ".join(name for name in (x, y) if name)
        pareto = {"x": None, "y": None, "why_not": f"its measures have no {said}", "points": []}
        return table | {"pareto": pareto}

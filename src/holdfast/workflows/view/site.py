"""The pages of a viewed folder by their addresses: what the server answers, and what `--out` writes."""

import math
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from holdfast.report.page import script_digest
from holdfast.runtime.doors import read_text
from holdfast.runtime.errors import HoldfastError
from holdfast.storage.comparison import Leaderboard, Unreadable
from holdfast.storage.entry import as_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.index_file import read_index
from holdfast.storage.record_file import RunFiles, files_of, read_record, run_files
from holdfast.storage.seal import is_report_of
from holdfast.workflows.view import pages
from holdfast.workflows.view.images import PICTURE, SideBySide, side_by_side
from holdfast.workflows.view.runs import FRESH, Run, Runs
from holdfast.workflows.view.upgrades import Upgrade, find_upgrades

INDEX, LEADERBOARD, REPORT = "index.html", "leaderboard.html", "report.html"

DRAWING = threading.Lock()
"""Charts are drawn one at a time: matplotlib is not made for several threads."""

KEPT = 16
"""Pages that are kept until the records that they show change, the last ones."""


@dataclass(frozen=True)
class Page:
    """What stands at an address.

    Attributes:
        content: its bytes.
        kind: media type.
        policy: what a browser may load for it (Content-Security-Policy).
    """

    content: bytes
    kind: str = "text/html; charset=utf-8"
    policy: str = "default-src 'none'"


class Site:
    """All pages of a folder of runs.

    An address names a run that the folder holds now and a file that its record names, or it names nothing: no path is
    ever made of it.

    Args:
        root: the folder.
        live: whether pages ask again for what changes; else they are a snapshot.

    Raises:
        HoldfastError: no folder, or one that cannot be read.
    """

    def __init__(self, root: Path, live: bool):
        self.runs, self._live = Runs(root), live
        self._since = FRESH if live else math.inf
        self._kept: dict[Any, Page] = {}
        self._named: dict[str, tuple[Any, tuple[RunFiles, frozenset[str]]]] = {}
        self._making: defaultdict[Any, threading.Lock] = defaultdict(threading.Lock)

    def page(self, address: str) -> Page | None:
        """Return what stands at an address, relative to the top; None where nothing does."""
        if address in ("", INDEX):
            runs, root = self.runs.all(self._since), self.runs.root
            return _viewer(pages.index(runs, find_upgrades(root), root.name, self._live), pages.INDEX_SCRIPTS)
        if address == "index.json":
            return _json(pages.index_rows(self.runs.all(self._since)))
        self.runs.wait()
        runs = self.runs.all(self._since)
        if address == LEADERBOARD:
            readable = [run for run in runs if run.stamp]
            return self._keep(("leaderboard", *_stamps(runs)), partial(_leaderboard, runs)) if readable else None
        if match := re.fullmatch(r"images-([0-9a-f]{10})\.html", address):
            group = _group(runs, match[1])
            return self._keep(("images", *_stamps(group)), partial(_images, group)) if group else None
        if match := re.fullmatch(r"upgrades/([A-Za-z0-9_-]+)/report\.html", address):
            known = (one for one in find_upgrades(self.runs.root) if one.id == match[1] and one.readable)
            return next(map(_upgrade, known), None)
        if match := re.fullmatch(r"runs/([A-Za-z0-9_-]+)/(.+)", address):
            run = next((run for run in runs if run.id == match[1]), None)
            return None if run is None else self._of_run(run, match[2])
        return None

    def addresses(self) -> Iterator[str]:
        """Yield the addresses of all pages, and of the pictures that they show."""
        runs = self.runs.all(self._since)
        yield INDEX
        readable = [run for run in runs if run.stamp and run.facts]
        if readable:
            yield LEADERBOARD
        for run in runs:
            yield f"runs/{run.id}/{INDEX}"
            if run in readable:
                yield f"runs/{run.id}/{REPORT}"
        yield from (f"upgrades/{one.id}/{REPORT}" for one in find_upgrades(self.runs.root) if one.readable)
        for conditions in dict.fromkeys(run.facts.conditions for run in readable if run.facts):
            yield f"images-{conditions}.html"
            yield from map(unquote, _pictures(side_by_side(_group(runs, conditions))))

    def _of_run(self, run: Run, name: str) -> Page | None:
        """Return a page of one run."""
        if name == INDEX:
            return _viewer(pages.run(run, self._live), pages.RUN_SCRIPTS)
        if name == "progress.json":
            return _json(pages.run_state(run))
        if run.stamp is None:
            return None
        if name == REPORT:
            return self._keep(("report", run.id, run.stamp), partial(_report, run))
        if PICTURE.fullmatch(name):
            files, named = self._files(run)
            return Page(files.read(name, "a PNG picture"), "image/png") if name in named else None
        return None

    def _files(self, run: Run) -> tuple[RunFiles, frozenset[str]]:
        """Return the files of a run, and the names of those that its record names."""
        if run.id not in self._named or self._named[run.id][0] != run.stamp:
            folder = Folder(run.folder)
            record = read_record(folder)
            named = frozenset(files_of(as_json(record)))
            self._named[run.id] = run.stamp, (run_files(folder, record), named)
        return self._named[run.id][1]

    def _keep(self, key: Any, make: Callable[[], Page]) -> Page:
        """Return a page, made anew where the records that it shows have changed."""
        with self._making[key]:  # made once, whoever asks meanwhile; other pages do not wait
            if (page := self._kept.get(key)) is None:
                page = self._kept[key] = make()
                for old in list(self._kept)[:-KEPT]:
                    self._kept.pop(old, None)
            return page


def _viewer(text: str, scripts: tuple[str, ...]) -> Page:
    return Page(text.encode(errors="replace"), policy=pages.policy(scripts))


def _json(text: str) -> Page:
    return Page(text.encode(errors="replace"), "application/json")


def _alone(text: str, scripts: tuple[str, ...]) -> Page:
    """Return a page that loads nothing, whoever wrote it."""
    digest = script_digest(scripts)
    return Page(
        text.encode(errors="replace"),
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
    )


def _stamps(runs: Sequence[Run]) -> tuple[Any, ...]:
    return tuple((run.id, run.stamp) for run in runs)


def _group(runs: Sequence[Run], conditions: str) -> list[Run]:
    return [run for run in runs if run.stamp and run.facts and run.facts.conditions == conditions]


def _images(runs: Sequence[Run]) -> Page:
    return _viewer(pages.images(side_by_side(runs), runs), pages.IMAGES_SCRIPTS)


def _pictures(shown: SideBySide) -> list[str]:
    """Return the addresses of all pictures of a page."""
    attacked = (address for entries in shown.attacked.values() for entry in entries for address in entry[2:])
    addresses = [*shown.clean.values(), *(text for text in attacked if text and text.startswith("runs/"))]
    return list(dict.fromkeys(addresses))


def _leaderboard(runs: Sequence[Run]) -> Page:
    """Return the comparison of all records, and why some are not in it."""
    from holdfast.comparison.leaderboard import in_groups  # they bring torch, which no other page needs
    from holdfast.comparison.records import open_run
    from holdfast.report import leaderboard as board

    readable, unreadable = [], [Unreadable(place=run.place, reason=run.reason) for run in runs if run.stamp is None]
    for run in runs:
        if run.stamp is not None:
            try:
                readable.append(open_run(str(run.folder), run.place))
            except HoldfastError as error:
                unreadable.append(Unreadable(place=run.place, reason=str(error)))
    groups, lost = in_groups(readable)
    with DRAWING:
        return _alone(board.render(Leaderboard(groups=groups, unreadable=unreadable + lost)), board.SCRIPTS)


def _upgrade(upgrade: Upgrade) -> Page:
    """Return the report of a comparison of an index, made of its record."""
    from holdfast.report import index_upgrade  # brings matplotlib

    folder = Folder(upgrade.folder)
    with DRAWING:
        return _alone(index_upgrade.render(read_index(folder), RunFiles(folder, {})), index_upgrade.SCRIPTS)


def _report(run: Run) -> Page:
    """Return the report that stands in a run folder, or one made now where it is absent, changed, or another's."""
    from holdfast.report import html  # brings matplotlib, which the index does not need

    folder, path = Folder(run.folder), run.folder / html.REPORT
    record = read_record(folder)
    with suppress(OSError, ValueError):  # else it is made now
        text = "" if path.is_symlink() else read_text(path)
        if is_report_of(text, record) and script_digest(html.SCRIPTS) in text:
            return _alone(text, html.SCRIPTS)
    with DRAWING:
        return _alone(html.render(record, run_files(folder, record)), html.SCRIPTS)

"""The viewer's own pages as HTML: the index, a run at work, images side by side."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from markupsafe import Markup

from holdfast.report.names import short_names
from holdfast.report.numbers import BETTER, count, duration, format_score, plural
from holdfast.report.page import fragment, page, script_digest
from holdfast.storage.filesystem import Folder
from holdfast.storage.progress_file import Round, round_of
from holdfast.storage.record_file import read_record
from holdfast.workflows.view.images import SideBySide
from holdfast.workflows.view.runs import STATES, Run
from holdfast.workflows.view.upgrades import Upgrade

INDEX_SCRIPTS = ("script.js", "sort.js", "view_index.js", "view_live.js")
RUN_SCRIPTS = ("script.js", "view_live.js")
IMAGES_SCRIPTS = ("script.js", "view_images.js")
STYLES = ("style.css", "view.css")

LOADS = (
    "default-src 'self'; img-src 'self' data: file:; style-src 'unsafe-inline'; script-src 'sha256-{}'; "
    "base-uri 'none'; form-action 'none'"
)
"""What pages may load: what stands beside them, be it on this server or on this disk."""

EVERY = {"index": 5.0, "run": 2.0}
"""Seconds between two looks at what changes."""


def policy(scripts: tuple[str, ...]) -> str:
    """Return what a page with these scripts may load."""
    return LOADS.format(script_digest(scripts))


def _view(template: str, scripts: tuple[str, ...], top: str, **values: Any) -> str:
    """Return one of the viewer's pages; `top` leads from it to the index."""
    return page(template, scripts, STYLES, policy=policy(scripts), top=top, **values)


def index(runs: Sequence[Run], upgrades: Sequence[Upgrade], title: str, live: bool) -> str:
    """Return the page of all runs, and of all comparisons of an index."""
    choices = {
        "state": [state for state in STATES if any(run.state == state for run in runs)],
        "data": _choices(run.facts.data for run in runs if run.facts),
        "profile": _choices(run.facts.profile for run in runs if run.facts),
    }
    return _view(
        "view_index.html",
        INDEX_SCRIPTS,
        "",
        title=title,
        choices=choices,
        upgrades=upgrades,
        leaderboard=any(run.stamp for run in runs),
        poll=("index.json", EVERY["index"]) if live else None,
        **_rows(runs),
    )


def index_rows(runs: Sequence[Run]) -> str:
    """Return the rows of the index as JSON, for pages that are open."""
    return json.dumps({"html": fragment("view_rows.html", **_rows(runs))})


def _rows(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the runs, the latest first, and which of them stand side by side with how many encoders."""
    groups: dict[str, int] = {}
    for run in runs:
        if run.stamp and run.facts:
            groups[run.facts.conditions] = groups.get(run.facts.conditions, 0) + len(run.facts.encoders)
    at_work = [run for run in runs if run.state == "running"]
    others = [run for run in runs if run.state != "running"]
    others.sort(key=lambda run: run.facts.date if run.facts else "", reverse=True)
    return {"runs": at_work + others, "groups": groups, "shares": {run.id: _share(run) for run in at_work}}


def _choices(values: Any) -> list[str]:
    return sorted({value for value in values if value})


def _share(run: Run) -> float | None:
    """Return which share of its round a run has done; None where that is not known."""
    bars = run.progress.bars if run.progress else []
    if not run.progress or not bars or not (total := bars[-1].total):
        return None
    together = bars[-1].name not in run.progress.encoders  # one bar for all encoders
    whole = total if together else total * len(run.progress.encoders)
    return min(1.0, sum(bar.done for bar in bars) / whole)


@dataclass(frozen=True)
class Ready:
    """The scores of a measure after each round.

    Attributes:
        title: of the measure.
        better: which way is more robust.
        rows: encoder -> (value, interval) after each round, None where it was not asked then.
    """

    title: str
    better: str
    rows: dict[str, list[tuple[str, str] | None]]


def run(run: Run, live: bool) -> str:
    """Return the page of one run: how far it is, and which scores are ready."""
    poll = ("progress.json", EVERY["run"]) if live else None
    return _view("view_run.html", RUN_SCRIPTS, "../../", poll=poll, **_state(run))


def run_state(run: Run) -> str:
    """Return what changes of the page of a run as JSON, for pages that are open."""
    return json.dumps({"html": fragment("view_state.html", top="../../", **_state(run))})


def _state(run: Run) -> dict[str, Any]:
    record = read_record(Folder(run.folder)) if run.stamp else None
    rounds = run.progress.rounds if run.progress else []
    if not rounds and record is not None:
        rounds = [round_of(record)]
    failures = [*(run.progress.failures if run.progress else []), *(record.failures if record else [])]
    short = {whole: name for name, whole in (run.facts.encoders if run.facts else {}).items()}
    return {
        "run": run,
        "short": short,
        "share": _share(run) if run.progress else None,
        "rounds": [(r.number, r.attacked, duration(r.seconds)) for r in rounds],
        "ready": _ready(rounds),
        "failures": list(dict.fromkeys(failures)),
        "now": time.strftime("%H:%M:%S", time.gmtime()),
    }


def _ready(rounds: Sequence[Round]) -> list[Ready]:
    """Return the scores of each measure, a column for each round."""
    names = short_names(list(dict.fromkeys(s.encoder for r in rounds for s in r.scores)))
    measures: dict[str, Ready] = {}
    for place, each in enumerate(rounds):
        for s in each.scores:
            ready = measures.setdefault(s.measure, Ready(s.title, BETTER[s.better], {}))
            cells = ready.rows.setdefault(names[s.encoder], [None] * len(rounds))
            cells[place] = format_score(s.score, s.unit, s.levels)
    return list(measures.values())


def images(shown: SideBySide, runs: Sequence[Run]) -> str:
    """Return the page of images side by side."""
    facts = runs[0].facts
    assert facts is not None  # runs of a group have a record
    data = {key: value for key, value in asdict(shown).items() if key != "problems"}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    with_pictures = len(shown.clean.keys() | shown.attacked.keys())
    return _view(
        "view_images.html",
        IMAGES_SCRIPTS,
        "",
        facts=facts,
        runs=runs,
        shown=shown,
        kept=f"{count(with_pictures)} of {plural(len(shown.ids), 'image')}",
        data=Markup(text),
    )

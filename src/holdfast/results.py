"""What `holdfast.audit`, `compare` and `check` return: records, comparisons and verdicts that print and convert."""

import io
import os
import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast.comparison.compare import compare_runs
from holdfast.comparison.exports import long_table
from holdfast.comparison.records import Run, open_run, score_of
from holdfast.config.overrides import holds
from holdfast.core import HoldfastError, Score
from holdfast.report import html, leaderboard
from holdfast.report.comparison import print_comparison
from holdfast.report.gate import markdown, print_gate
from holdfast.report.junit import junit
from holdfast.report.notebook import comparison_html, gate_html, record_html
from holdfast.report.terminal import print_record
from holdfast.runtime.checked import checked
from holdfast.runtime.console import Screen
from holdfast.runtime.errors import missing, os_reason, unknown
from holdfast.storage.filesystem import Folder, write_text
from holdfast.storage.record_file import RECORD, run_files
from holdfast.storage.standing import allowing, refuse_unknown
from holdfast.workflows.gate import hold

CACHE = "cache/"
"""What a run folder keeps to continue from; no part of what is saved."""


class Record:
    """The result of an audit. Print it, show it in a notebook, ask it for scores.

    `record["breakaway_risk"]` is the headline `Score` of a measure, `record["breakaway_risk[attack.steps=50]"]` that of
    one with these fields; where several encoders were audited, `record["encoder", "breakaway_risk"]`.

    Args:
        run: the run folder with its record.
        temporary: whether the folder is deleted when this object is, at the latest when Python ends.

    Attributes:
        run: the same.
    """

    def __init__(self, run: Run, *, temporary: bool = False):
        self.run = run
        if temporary and run.folder.local is not None:
            weakref.finalize(self, _remove, run.folder.local, os.getpid())

    @property
    def data(self) -> Mapping[str, Any]:
        """The record as JSON data, as it stands in `record.json`."""
        return self.run.record

    @property
    def folder(self) -> str:
        """The run folder: record, tables, pictures, and what is needed to continue."""
        return self.run.folder.place

    @property
    def encoders(self) -> tuple[str, ...]:
        """Names of the encoders, those that could not be audited included."""
        return tuple(encoder["name"] for encoder in self.data["encoders"])

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures, those that failed included."""
        return tuple(dict.fromkeys(name for e in self.data["encoders"] for name in e.get("measures", {})))

    @property
    def failures(self) -> tuple[str, ...]:
        """A sentence for everything that failed; empty where all was measured."""
        return tuple(self.data["failures"])

    def __getitem__(self, key: str | tuple[str, str]) -> Score:
        """Return the headline score of a measure, or of (encoder, measure).

        Raises:
            HoldfastError: a name that is not in the record, a measure that failed, or several encoders and none named.
        """
        measure, encoder = (key, None) if isinstance(key, str) else (key[1], key[0])
        entry = self._measure(measure, encoder)
        return score_of(entry["scores"][entry["headline"]])

    def scores(self, measure: str, encoder: str | None = None) -> dict[str, Score]:
        """Return all scores of a measure by name, the headline last.

        Args:
            measure: the measure.
            encoder: of which encoder; needed where there are several.

        Raises:
            HoldfastError: as `record[measure]`.
        """
        return {name: score_of(score) for name, score in self._measure(measure, encoder)["scores"].items()}

    def _measure(self, name: str, encoder: str | None) -> Mapping[str, Any]:
        entries = {entry["name"]: entry for entry in self.data["encoders"]}
        first = next(iter(entries))
        if encoder is None and len(entries) > 1:
            raise HoldfastError(
                f"expected an encoder and a measure, since this record is of {len(entries)} encoders: "
                f"record[{first!r}, {name!r}]"
            )
        chosen = str(first if encoder is None else encoder)
        if chosen not in entries:
            raise unknown("encoder of this record", chosen, entries)
        entry = entries[chosen]
        if entry.get("error"):
            raise HoldfastError(f"{chosen} could not be audited: {entry['error']}")
        measures = entry["measures"]
        if name not in measures:
            alike = [key for key, m in measures.items() if "[" in name and holds(name, m["part"])]
            if len(alike) != 1:
                raise unknown("measure of this record", name, alike or measures)
            name = alike[0]
        measure = measures[name]
        if reason := measure.get("error") or measure.get("not_certified"):
            raise HoldfastError(f"{name} of {chosen} has no score: {reason}")
        return measure

    def to_pandas(self, measure: str | None = None) -> Any:
        """Return a pandas DataFrame with a row for each score of each encoder, as `holdfast compare --csv` writes them.

        Args:
            measure: return this measure's table instead: a row for each image of each encoder, with its id.

        Raises:
            HoldfastError: no pandas, or a measure that is not in the record.
        """
        pandas = _pandas()
        if measure is None:
            return _frame(compare_runs([self.run], fewest=1))
        frames = []
        for encoder in self.encoders:
            ids, table = self.run.table(self._measure(measure, encoder)["table"])
            columns = {key: column.numpy() for key, column in table.items()}
            frames.append(pandas.DataFrame({"encoder": encoder, "id": ids, **columns}))
        return pandas.concat(frames, ignore_index=True)

    def report(self, path: str | os.PathLike[str], *, pictures: bool = True) -> str:
        """Write the report, one HTML file that opens offline, and return where it is.

        Args:
            path: of the file.
            pictures: show pictures of images; False for readers who may not see these.

        Raises:
            HoldfastError: a place that cannot be written, or a run folder that is gone.
        """
        try:
            missing = not self.run.folder.exists(RECORD)
        except OSError as error:
            raise HoldfastError(f"cannot read the run folder {self.folder!r}: {os_reason(error)}") from error
        if missing:
            raise HoldfastError(f"cannot read the run folder {self.folder!r}: it is gone; audit again")
        return _written(path, html.render(self.data, run_files(self.run.folder, self.data), with_pictures=pictures))

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> "Record":
        """Copy the record with its tables and pictures to another folder, or URL, and return the record there.

        Args:
            folder: where to; `holdfast.open` reads it again, and so do all commands.
            overwrite: replace another record.

        Raises:
            HoldfastError: a folder that holds a record already, or that cannot be written.
        """
        target = Folder(os.fspath(folder))
        try:
            if target.exists(RECORD) and not overwrite:
                raise HoldfastError(
                    f"expected a folder without a record, got {target.place!r}; choose another, or say overwrite=True"
                )
            names = [name for name in self.run.folder.files() if not name.startswith(CACHE)]
            for name in sorted(names, key=RECORD.__eq__):  # the record last: where it is, all is
                data = self.run.folder.read(name)
                target.write(name, lambda copy, data=data: copy.write_bytes(data))
        except OSError as error:
            raise HoldfastError(f"cannot copy {self.folder!r} to {target.place!r}: {os_reason(error)}") from error
        return Record(open_run(target.place))

    def __str__(self) -> str:
        return _text(lambda console: print_record(self.data, console))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return record_html(self.data)

    def _ipython_key_completions_(self) -> list[Any]:
        if len(self.encoders) == 1:
            return list(self.measures)
        return [(encoder, measure) for encoder in self.encoders for measure in self.measures]


class Comparison:
    """Encoders of several audits side by side: paired intervals, corrected verdicts, ranks with uncertainty.

    Args:
        data: the comparison, see `holdfast.comparison.compare.compare_runs`.

    Attributes:
        data: the same, JSON data.
    """

    def __init__(self, data: Mapping[str, Any]):
        self.data = data

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row for each score of each encoder, with ranks and differences.

        Raises:
            HoldfastError: no pandas.
        """
        return _frame(self.data)

    def report(self, path: str | os.PathLike[str]) -> str:
        """Write one HTML page that opens offline, and return where it is.

        Raises:
            HoldfastError: a place that cannot be written.
        """
        return _written(path, leaderboard.render({"groups": [self.data], "unreadable": []}, "Comparison"))

    def __str__(self) -> str:
        return _text(lambda console: print_comparison(self.data, console))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return comparison_html(self.data)


class CheckResult:
    """What a record is found to be against requirements and an earlier record.

    Args:
        data: see `holdfast.workflows.gate.hold`.

    Attributes:
        data: the same, JSON data.
    """

    def __init__(self, data: Mapping[str, Any]):
        self.data = data

    @property
    def passed(self) -> bool:
        """Whether all requirements are met and nothing is shown to be worse."""
        return bool(self.data["passed"])

    @property
    def findings(self) -> tuple[Mapping[str, Any], ...]:
        """Whether each requirement is `met`, and the `reason` where it is not."""
        return tuple(self.data["findings"])

    @property
    def verdicts(self) -> tuple[Mapping[str, Any], ...]:
        """Of each score held against the baseline its `verdict`; see `holdfast.comparison.regression.regressions`."""
        return tuple(self.data["regression"]["verdicts"]) if self.data["regression"] else ()

    def markdown(self) -> str:
        """Return it as Markdown."""
        return markdown(self.data)

    def junit(self, path: str | os.PathLike[str]) -> str:
        """Write it as JUnit XML, and return where it is.

        Raises:
            HoldfastError: a place that cannot be written.
        """
        return _written(path, junit(self.data))

    def __str__(self) -> str:
        return _text(lambda console: print_gate(self.data, console))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return gate_html(self.data)


def compared(runs: Sequence[Run], measures: Sequence[str], correction: str) -> Comparison:
    """Return the comparison of some runs; see `holdfast.compare`."""
    return Comparison(compare_runs(runs, measures=measures, correction=correction))


@checked
def check(
    record: Record | str | os.PathLike[str],
    *,
    require: str | Sequence[str] = (),
    baseline: Record | str | os.PathLike[str] | None = None,
    allow_drop: str | Sequence[str] = (),
    match: Mapping[str, str] | None = None,
    encoders: str | Sequence[str] = (),
    allow: Sequence[str] = (),
    strict: bool = False,
) -> CheckResult:
    """Hold an audit against requirements, and against an earlier one; the same as the command `holdfast check`.

    Args:
        record: the record, or its run folder.
        require: what must hold, "breakaway_risk < 5 %"; see `holdfast.config.requirements`.
        baseline: an earlier record, than which nothing may be shown to be worse.
        allow_drop: how much worse it may be, "breaking_radius 5 %", or "5 %" for all; see `holdfast.config.margins`.
        match: new names of encoders with those in the baseline; where None, equal names, or one encoder in each.
        encoders: which encoders are held; all where none is given.
        allow: checks whose failure is accepted.
        strict: whether what cannot be told does not pass.

    Raises:
        HoldfastError: nothing to hold it against, audits that cannot be compared, an unknown name, or a request that
            cannot be read.
    """
    run, before = _run(record), None if baseline is None else _run(baseline)
    refuse_unknown(allow, [known.record for known in (run, before) if known is not None])
    now, earlier = (known and replace(known, record=allowing(known.record, allow)) for known in (run, before))
    assert now is not None
    several = ([words] if isinstance(words, str) else words for words in (require, allow_drop, encoders))
    requirements, drops, names = several
    data = hold(now, requirements, earlier, allow_drop=drops, match=match or {}, encoders=names, strict=strict)
    return CheckResult(data)


def _run(record: Record | str | os.PathLike[str]) -> Run:
    return record.run if isinstance(record, Record) else open_run(os.fspath(record))


def _text(show: Callable[[Console], object]) -> str:
    """Return the text that `show` prints, without colours, as wide as the terminal is."""
    out = io.StringIO()
    show(Screen(file=out, width=max(60, shutil.get_terminal_size((100, 24)).columns), force_jupyter=False))
    return out.getvalue().rstrip("\n")


def _written(path: str | os.PathLike[str], text: str) -> str:
    place = os.fspath(path)
    write_text(place, text)
    return place


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise missing("pandas", "pandas", "to_pandas()") from error
    return pandas


def _frame(data: Mapping[str, Any]) -> Any:
    """Return the long table of a comparison as a DataFrame, every column with its type."""
    _pandas()
    return long_table(data).to_pandas()


def _remove(folder: Path, process: int) -> None:
    """Delete a temporary folder; only in the process that made it, for copies of it may end earlier."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)

"""Audits that were made: their records and tables, read from run folders."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from holdfast.runtime.doors import real
from holdfast.runtime.errors import BadValue, UnreadableRecord, first_line
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import EncoderEntry, MeasureEntry, Record
from holdfast.storage.record_file import read_record, run_files
from holdfast.storage.standing import allowing, refuse_unknown

if TYPE_CHECKING:  # a record is read without torch
    from holdfast.core import Table


@dataclass(frozen=True)
class Run:
    """A run folder with its record.

    Attributes:
        place: the folder, as it was given.
        folder: the folder.
        record: what `record.json` holds.
    """

    place: str
    folder: Folder
    record: Record

    def table(self, name: str | None) -> "tuple[list[str], Table]":
        """Return the names of the rows of a table, and its columns."""
        if name is None:
            raise UnreadableRecord(
                f"expected a table of the measure in {self.place!r}, it has none; run the audit again"
            )
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq
        import torch

        data = run_files(self.folder, self.record).read(name, "a Parquet table")
        try:
            columns = pq.ParquetFile(io.BytesIO(data)).read()
            ids = columns["id"].to_pylist()
            values = {key: np.array(columns[key].to_numpy()) for key in columns.column_names if key != "id"}
            table = {key: torch.from_numpy(value) for key, value in values.items()}  # copies, which may be written
        except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
            # pyarrow's exceptions are no OSError where the file is no Parquet at all
            raise UnreadableRecord(
                f"expected a Parquet table {name} in {self.place!r}, it cannot be read ({first_line(error)}); run the "
                "audit again"
            ) from error
        return ids, table


def open_run(place: str, title: str | None = None, allow: Iterable[str] = ()) -> Run:
    """Read the record of a run folder, local or remote."""
    folder = Folder(place)
    return Run(title or place, folder, allowing(read_record(folder, place), allow))


def open_runs(places: Iterable[str], fewest: int = 2, allow: Sequence[str] = ()) -> tuple[list[Run], list[str]]:
    """Read the records of run folders; see `open_run`.

    Returns:
        The records, and a sentence for each that cannot be read.
    """
    runs: dict[str, Run | None] = {}
    lost: list[str] = []
    for place in places:
        folder = Folder(place)
        name = folder.place if folder.local is None else str(real(folder.local))
        if name in runs:
            raise BadValue(f"expected different run folders, got {place!r} twice; give each once")
        try:
            runs[name] = open_run(place, allow=allow)
        except UnreadableRecord as error:
            runs[name] = None
            lost.append(f"{place} is left out: {error}")
    readable = [run for run in runs.values() if run is not None]
    if lost and len(readable) < fewest:
        raise UnreadableRecord("; ".join(line.replace(" is left out: ", " cannot be read: ", 1) for line in lost))
    refuse_unknown(allow, [run.record for run in readable])
    return readable, lost


@dataclass(frozen=True)
class Audited:
    """An encoder of a run.

    Attributes:
        name: told apart from the encoders of the other runs.
        run: where it was audited.
        entry: what the record says about it.
    """

    name: str
    run: Run
    entry: EncoderEntry

    @property
    def allow(self) -> list[str]:
        """The checks whose failure is accepted."""
        return self.run.record.plan.allow

    def measure(self, spec: Any) -> MeasureEntry | None:
        """Return the entry of the measure of a spec; None where it was not asked."""
        return next((m for m in self.entry.measures.values() if m.part == spec), None)


def last_look(encoders: Iterable[Audited]) -> int:
    """Return how many looks the intervals of some encoders hold at; 0: they were made in one go."""
    rounds = (encoder.run.record.run.rounds for encoder in encoders)
    return max((each.look for each in rounds if each), default=0)


def encoders_of(runs: Iterable[Run]) -> tuple[list[Audited], list[str]]:
    """Return all encoders of some runs, and a sentence for each that could not be audited.

    Encoders of one name in several folders are told apart by the folders' names, by their paths where these are alike.
    """
    runs = list(runs)
    entries = [(run, entry) for run in runs for entry in run.record.encoders]
    ends = {run.place: PurePosixPath(run.place.rstrip("/")).name or run.place for run in runs}
    everyone = [entry.name for _, entry in entries]

    def name(run: Run, entry: EncoderEntry) -> str:
        if everyone.count(entry.name) == 1:
            return entry.name
        alike = list(ends.values()).count(ends[run.place]) > 1
        return f"{entry.name} ({run.place if alike else ends[run.place]})"

    fit = [Audited(name(run, entry), run, entry) for run, entry in entries if not entry.error]
    lost = [
        f"{name(run, entry)} is left out: it could not be audited ({entry.error})"
        for run, entry in entries
        if entry.error
    ]
    return fit, lost

"""Audits that were made: their records and tables, read from run folders."""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from holdfast.audit.record import SCHEMA
from holdfast.core import HoldfastError, Score, Table
from holdfast.errors import UnreadableRecord, os_reason
from holdfast.folders import Folder

RECORD = "record.json"

NEEDED: dict[str, tuple[Any, ...]] = {
    "plan": (dict, "seed"),
    "data": (dict, "fingerprint", "images", "attacked", "spec"),
    "encoders": (list,),
    "holdfast": (dict, "version"),
    "environment": (dict, "torch"),
    "run": (dict, "finished"),
}
"""What a comparison reads of a record: the kind of each entry, and what is in it."""


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
    record: Mapping[str, Any]

    def table(self, name: str) -> tuple[list[str], Table]:
        """Return the names of the rows of a table, and its columns.

        Raises:
            HoldfastError: a table that is missing, damaged, or outside the folder.
        """
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise UnreadableRecord(
                f"expected a table inside {self.place!r}, got {name!r}; the record was changed by hand"
            )
        try:
            columns = pq.read_table(io.BytesIO(self.folder.read(name)))
            ids = columns["id"].to_pylist()
            table = {key: _tensor(columns[key]) for key in columns.column_names if key != "id"}
        except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
            # pyarrow's exceptions are no OSError where the file is no Parquet at all
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise UnreadableRecord(
                f"expected a Parquet table {name} in {self.place!r}, it cannot be read ({reason}); run the audit again"
            ) from error
        return ids, table


def _tensor(column: pa.ChunkedArray) -> torch.Tensor:
    return torch.from_numpy(np.array(column.to_numpy()))  # a copy: torch wants memory that it may write


def open_run(place: str, called: str | None = None) -> Run:
    """Read the record of a run folder, local or remote.

    Args:
        place: the folder.
        called: how it is called in what is said; as given where nothing else is.

    Raises:
        HoldfastError: no record that can be read, one of another schema, or one that is not of an audit.
    """
    folder = Folder(place)
    try:
        record = json.loads(folder.read(RECORD))
    except OSError as error:
        raise UnreadableRecord(
            f"expected a run folder with a readable {RECORD}, got {place!r} ({os_reason(error)}); give the "
            "folder that `holdfast audit` wrote"
        ) from error
    except ValueError as error:
        raise UnreadableRecord(
            f"expected JSON in {RECORD} of {place!r}, got something else; run the audit again"
        ) from error
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise UnreadableRecord(
            f"expected a record of schema {SCHEMA} in {place!r}, got schema {schema!r}; audit again with this version "
            "of Holdfast, or compare with the one that wrote it"
        )
    if missing := list(_missing(record)):
        raise UnreadableRecord(
            f"expected the record of an audit in {place!r}, got one without {', '.join(missing[:3])}; give the folder "
            "that `holdfast audit` wrote"
        )
    return Run(called or place, folder, record)


def open_runs(places: Iterable[str]) -> list[Run]:
    """Read the records of run folders; see `open_run`.

    Raises:
        HoldfastError: see `open_run`; and a folder given twice.
    """
    runs: dict[str, Run] = {}
    for place in places:
        folder = Folder(place)
        name = folder.place if folder.local is None else str(folder.local.resolve())
        if name in runs:
            raise HoldfastError(f"expected different run folders, got {place!r} twice; give each once")
        runs[name] = open_run(place)
    return list(runs.values())


def _missing(record: Mapping[str, Any]) -> Iterable[str]:
    """Yield what a comparison reads and a record lacks, so that no later line meets a strange record."""
    for key, (kind, *inner) in NEEDED.items():
        if not isinstance(record.get(key), kind):
            yield key
        else:
            yield from (f"{key}.{name}" for name in inner if name not in record[key])
    entries = record.get("encoders")
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict) or "name" not in entry:
            yield f"encoders[{number}].name"
        elif not entry.get("error"):
            needed = (("fingerprint", str), ("origin", dict), ("measures", dict), ("checks", dict))
            yield from (f"{entry['name']}.{key}" for key, kind in needed if not isinstance(entry.get(key), kind))
            measures = entry.get("measures")
            for name, m in measures.items() if isinstance(measures, dict) else ():
                yield from (f"{entry['name']}.{name}.{key}" for key in _missing_of_measure(m))


def _missing_of_measure(m: Any) -> Iterable[str]:
    if not isinstance(m, dict):
        return ["part"]
    keys = ("part", "title", "better", "unit", "needs_labels", "scores", "headline", "table")
    if absent := [key for key in keys if key not in m]:
        return absent
    return [f"scores.{m['headline']}"] if m["headline"] and m["headline"] not in m["scores"] else []


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
    entry: Mapping[str, Any]

    def measure(self, spec: Any) -> Mapping[str, Any] | None:
        """Return what the record says about the measure of a spec; None where it was not asked."""
        return next((m for m in self.entry["measures"].values() if m["part"] == spec), None)


def score_of(data: Mapping[str, Any]) -> Score:
    """Return a score of a record."""
    return Score(**{field.name: data[field.name] for field in fields(Score) if field.name in data})


def encoders_of(runs: Iterable[Run]) -> tuple[list[Audited], list[str]]:
    """Return all encoders of some runs, and a sentence for each that could not be audited.

    Encoders of one name in several folders are told apart by the folders' names, by their paths where these are alike.
    """
    runs = list(runs)
    found = [(run, entry) for run in runs for entry in run.record["encoders"]]
    ends = {run.place: PurePosixPath(run.place.rstrip("/")).name or run.place for run in runs}
    everyone = [entry["name"] for _, entry in found]

    def name(run: Run, entry: Mapping[str, Any]) -> str:
        if everyone.count(entry["name"]) == 1:
            return entry["name"]
        alike = list(ends.values()).count(ends[run.place]) > 1
        return f"{entry['name']} ({run.place if alike else ends[run.place]})"

    fit = [Audited(name(run, entry), run, entry) for run, entry in found if not entry.get("error")]
    lost = [
        f"{name(run, entry)} is left out: it could not be audited ({entry['error']})"
        for run, entry in found
        if entry.get("error")
    ]
    return fit, lost

"""Images of audits side by side: a row for each image, a column for each encoder of every run on the same images."""

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.report.names import short_names
from holdfast.report.numbers import finite, number
from holdfast.report.pictures import change_in_words
from holdfast.runtime.errors import HoldfastError, UnreadableRecord
from holdfast.runtime.sizes import format_size
from holdfast.storage.conditions import question
from holdfast.storage.filesystem import Folder
from holdfast.storage.pictured import Neighbour
from holdfast.storage.record import EncoderEntry, MeasureEntry, Record
from holdfast.storage.record_file import RunFiles, read_record, run_files
from holdfast.workflows.view.runs import Run

DIGITS = 4
"""Of a value of one image; three are shown."""

PICTURE = re.compile(r"pictures/[^\0]+\.png")
"""The names of files of a record that pages show."""


@dataclass
class SideBySide:
    """What runs on the same images know of each image, as JSON data.

    Attributes:
        ids: of the images, in the order of the audits.
        encoders: what the columns are: `name`, `whole`, `run` (its id) and `place`.
        measures: `title`, `better`, `unit`, how a value is written (`times`, `after`), when an image is broken
            (`breaks`: `above` a number or not, `at` which), and `values`: for each encoder one for each image, up to
            the last that was examined, or None where it was not asked. A value is a number, "∞", or None where the
            image was not examined.
        clean: pictures of images as they are, by their numbers in `ids`.
        attacked: number of an image -> [number of an encoder, what it is, picture, difference, whom it is taken for,
            picture of that], with None for what is not stored.
        problems: tables that could not be read, a sentence each.
    """

    ids: list[str] = field(default_factory=list)
    encoders: list[dict[str, str]] = field(default_factory=list)
    measures: list[dict[str, Any]] = field(default_factory=list)
    clean: dict[str, str] = field(default_factory=dict)
    attacked: dict[str, list[list[Any]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Column:
    """One encoder of one run."""

    run: Run
    record: Record
    entry: EncoderEntry
    files: RunFiles


def side_by_side(runs: Sequence[Run]) -> SideBySide:
    """Return what runs on the same images, attacked in the same way, know of each image."""
    shown = SideBySide()
    columns: list[_Column] = []
    for run in runs:
        try:
            record = read_record(folder := Folder(run.folder), run.place)
        except HoldfastError as error:
            shown.problems.append(str(error))
            continue
        files = run_files(folder, record)
        columns += [_Column(run, record, entry, files) for entry in record.encoders if not entry.error]
    shown.encoders = _name_columns(columns)
    _add_values(shown, columns)
    _add_pictures(shown, columns)
    return shown


def _name_columns(columns: Sequence[_Column]) -> list[dict[str, str]]:
    """Return what the columns are called; encoders of one name in several runs by their runs too."""
    names = [column.entry.name for column in columns]
    short = short_names(list(dict.fromkeys(names)))
    return [
        {
            "name": short[name] if names.count(name) == 1 else f"{short[name]} ({column.run.place})",
            "whole": name,
            "run": column.run.id,
            "place": column.run.place,
        }
        for name, column in zip(names, columns, strict=True)
    ]


def _add_values(shown: SideBySide, columns: Sequence[_Column]) -> None:
    """Add the measures that have a value for each image, and the ids of the images."""
    tables: dict[str, dict[int, tuple[list[str], np.ndarray]]] = {}
    about: dict[str, tuple[str, MeasureEntry]] = {}
    for place, column in enumerate(columns):
        read: dict[str, tuple[list[str], np.ndarray]] = {}
        for name, m in column.entry.measures.items():
            if m.table and m.column:
                try:
                    read[name] = _column(column.files, m.table, m.column)
                except UnreadableRecord as error:
                    at_work = "; a round is being written there now" if column.run.state == "running" else ""
                    shown.problems.append(f"{column.run.place}: {error}{at_work}")
        # rows of a table are the first images, but for a few measures whose rows are something else
        firsts = Counter(ids[0] for ids, _ in read.values() if ids)
        for name, (ids, values) in read.items():
            if ids and ids[0] == firsts.most_common(1)[0][0]:
                key = name + question(column.record, column.entry.measures[name])
                tables.setdefault(key, {})[place] = ids, values
                about.setdefault(key, (name, column.entry.measures[name]))
    # all images, and for each measure a list of values for each encoder
    orders = sorted((ids for by in tables.values() for ids, _ in by.values()), key=len, reverse=True)
    shown.ids = list(dict.fromkeys(id for ids in orders for id in ids))
    titles = Counter(m.title for _, m in about.values())
    for key, by in tables.items():
        name, m = about[key]
        title = m.title if titles[m.title] == 1 else f"{m.title} ({name})"
        values = [_align_values(shown.ids, *by[place]) if place in by else None for place in range(len(columns))]
        shown.measures.append(
            {"title": title, "values": values, **_describe_units(m), "breaks": _breaks(m, by.values())}
        )


def _column(files: RunFiles, table: str, column: str) -> tuple[list[str], np.ndarray]:
    """Return the ids of the rows of a table, and the values of a column as floats."""
    data = files.read(table, "a Parquet table")
    try:
        rows = pq.read_table(io.BytesIO(data), columns=["id", column])
        return [str(id) for id in rows["id"].to_pylist()], rows[column].to_numpy().astype(float)
    except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise UnreadableRecord(
            f"expected a Parquet table with a column {column!r} at {table}, it cannot be read; run the audit again"
        ) from error


def _align_values(ids: Sequence[str], own: Sequence[str], values: np.ndarray) -> list[float | str | None]:
    """Return the values of all images up to the last that has one: of very many images few are attacked."""
    known = {id: value for id, value in zip(own, values.tolist(), strict=True) if not np.isnan(value)}
    last = max((place for place, id in enumerate(ids) if id in known), default=-1)
    return [_round_value(known[id]) if id in known else None for id in ids[: last + 1]]


def _round_value(value: float) -> float | str | None:
    if value == float("inf"):
        return "∞"
    return float(f"{value:.{DIGITS}g}") if finite(value) else None


def _describe_units(m: MeasureEntry) -> dict[str, Any]:
    """Return how values of a measure are written, and what they mean."""
    times, after = (100, " %") if m.unit == "share" else (255, "/255") if m.levels else (1, "")
    return {"better": m.better, "question": m.question, "times": times, "after": after}


def _breaks(m: MeasureEntry, tables: Any) -> dict[str, Any] | None:
    """Return when an image is broken: `above` a value, or at most there; None where the measure does not tell.

    It tells where an image has either held or not, where the column is called "broken", and by the radius of its ball.
    """
    values = np.concatenate([values for _, values in tables])
    values = values[~np.isnan(values)]
    if len(values) and np.isin(values, (0.0, 1.0)).all():
        return {"above": m.better == "lower", "at": 0.5, "words": ["broken", "held"]}
    if (m.column or "").startswith("broken") and m.unit == "share":
        return {"above": True, "at": 0.0, "words": ["broken", "held"]}
    radius = (m.part.get("ball") or {}).get("radius")
    if m.unit != "pixels" or not finite(radius):
        return None
    ball = format_size(radius)
    if m.column == "broken":
        return {"above": False, "at": radius, "words": [f"broken within ε {ball}", f"held within ε {ball}"]}
    return {"above": False, "at": radius, "words": [f"at most ε {ball}", f"beyond ε {ball}"]}


def _add_pictures(shown: SideBySide, columns: Sequence[_Column]) -> None:
    """Add the pictures that the runs keep of the images."""
    numbers = {id: str(place) for place, id in enumerate(shown.ids)}
    for place, column in enumerate(columns):
        for id, name in _clean(column.entry):
            if id in numbers and (address := _address(column, name)):
                shown.clean.setdefault(numbers[id], address)
        for id, what, attacked, difference, rival in _list_attacks(column.entry):
            if id in numbers:
                known = [_address(column, attacked), _address(column, difference)]
                other = [None, None] if rival is None else [rival.id, _address(column, rival.picture)]
                shown.attacked.setdefault(numbers[id], []).append([place, what, *known, *other])


def _clean(entry: EncoderEntry) -> Iterator[tuple[str, str]]:
    """Yield the ids and pictures of images as they are."""
    for change in entry.changes:
        yield change.id, change.clean
        if change.rival is not None:
            yield change.rival.id, change.rival.picture
    for moved in entry.gallery:
        yield moved.id, moved.clean
        for near in [*moved.before, *moved.after]:
            yield near.id, near.picture
    for extreme in [*entry.extremes.least, *entry.extremes.most]:
        yield extreme.id, extreme.picture


def _list_attacks(entry: EncoderEntry) -> Iterator[tuple[str, str, str, str, Neighbour | None]]:
    """Yield id, what it is, picture of the attacked image, of the difference, and the image that it is taken for."""
    for change in entry.changes:
        what = f"smallest change, {change_in_words(change)}"
        yield change.id, what, change.attacked, change.difference, change.rival
    for moved in entry.gallery:
        nearest = moved.after[0] if moved.after else None
        drift = f", drift {number(moved.drift)}" if finite(moved.drift) else ""
        yield moved.id, f"attack{drift}", moved.attacked, moved.difference, nearest


def _address(column: _Column, name: str) -> str | None:
    """Return the address of a picture from the top of the pages; None for what is none of an audit's pictures."""
    return f"runs/{column.run.id}/{quote(name)}" if PICTURE.fullmatch(name) else None

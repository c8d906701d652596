"""What a paper's table asks: inputs, audits, studies; where each number stands, what was published and claimed."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import holdfast
from holdfast.config.reader import arguments
from holdfast.config.reader import read as read_table
from holdfast.config.tables import Table, over, resolve_inheritance, spread
from holdfast.runtime.errors import BadValue, Conflict, Missing, pick, unknown
from holdfast.storage.documents import read_toml
from holdfast.workflows.reproduce.cells import APART, OTHERS
from holdfast.workflows.reproduce.claim import KINDS, Claim
from holdfast.workflows.reproduce.figures import Panel, read_panel
from holdfast.workflows.reproduce.rows import spread as spread_rows

FULL = "full"
"""The profile with the paper's own parameters."""

TEXTS = ("paper", "where", "title", "units")
"""What a recipe has to say of itself."""

KEYS: dict[str, Any] = {
    **dict.fromkeys((*TEXTS, "notes"), str), "minutes": float, "seeds": tuple[int, ...],
    **dict.fromkeys(("inputs", "trainings", "audits", "studies", "profiles"), dict),
    **dict.fromkeys(("columns", "rows", "figures", "claims"), tuple[dict, ...]),
}  # fmt: skip
"""Keys of a recipe and their types."""


@dataclass(frozen=True)
class Input:
    """Something that a reproduction begins with: images, an encoder, or a training that makes one.

    Attributes:
        about: what it is in the paper.
        spec: an encoder or data spec; None where the profile has none.
        train: the recipe of a training that makes the encoder; None where there is none.
        says: what stands in for the paper's, where another thing does.
        real: whether that is a network, or images, that people work with: sentences can be tried on it.
    """

    about: str
    spec: str | None = None
    train: Mapping[str, Any] | None = None
    says: str = ""
    real: bool = False


@dataclass(frozen=True)
class Line:
    """A row or a column of the table: its name, and what it says of where its numbers are found.

    Attributes:
        name: as in the paper.
        at: where: `audit`, `encoder`, `measure`, `score` of an audit; `study`, `method`, `probe`, `setting`, `of`,
            `version` of a study. `score` may be several names of which the measure has one; a column's `encoder` with
            "{encoder}" in it is made of the row's. Of an audit also: `quantile`, of the measure's column `values` over
            images; `cost`, of an `observation` per image; `noise`, what is known of one that the measure learned,
            `along` its training; `fluctuation`, of the accuracies of a training's checkpoints; `attention`, of maps
            under a corruption (of a `reading`) with those that it moves; `bound`, the expected one of SynBench's
            classes at a threshold accuracy and an `epsilon`; `less`, another column whose number is taken away; `over`,
            one by whose number it is divided; `drop`, one of whose number it says which share is lost: all three of the
            same row, or of the row that they are `from`; `mean`, columns whose mean it is; `correlates`, a column with
            which its own one is correlated `among` the rows named; where a row names these for all of its cells, the
            others stay empty; `trainings` = "std", of which it is the standard deviation between the trainings.
        scale: by what the paper's numbers are larger than ours: 100 of percent, 255 of pixel values from 0 to 255.
        published: of a row, the paper's number in each column; None where it has none.
        cells: of a row, what single columns say otherwise than the column itself, by its name.
        unit: of a column's numbers as printed.
        ours: of a column, whether the paper has none such: a control, say. Rows publish nothing for it.
        behind: how many images the published numbers are of, of a row before a column; None where nobody says.
    """

    name: str
    at: Mapping[str, Any]
    scale: float = 1.0
    published: tuple[float | None, ...] = ()
    cells: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unit: str = ""
    ours: bool = False
    behind: int | None = None


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a paper, in one profile.

    Attributes:
        name: of its file.
        profile: "full" has the paper's parameters; the others are smaller.
        paper: title of the paper.
        where: which table or figure.
        title: what it shows.
        units: of ε, radii and scores, in the paper and here.
        notes: what is done otherwise than in the paper, and why.
        seeds: one training of everything that is trained for each, added to the run's seed; none: one training.
        minutes: how long this profile takes on two slow cores; None where nobody has tried.
        inputs: those that are read, by name; audits, studies and trainings name them in braces, "{images}". A training
            that is `like` one of the file's [trainings] says only what is its own.
        audits: plan tables by name, whose encoders are names of inputs; one may be `like` another.
        studies: study tables by name.
        columns: of the table.
        rows: of the table.
        figures: panels that are drawn of it.
        claims: of the text.
    """

    name: str
    profile: str
    paper: str
    where: str
    title: str
    units: str
    notes: str
    minutes: float | None
    seeds: tuple[int, ...]
    inputs: Mapping[str, Input]
    audits: Mapping[str, Mapping[str, Any]]
    studies: Mapping[str, Mapping[str, Any]]
    columns: tuple[Line, ...]
    rows: tuple[Line, ...]
    figures: tuple[Panel, ...]
    claims: tuple[Claim, ...]


def folder() -> Path:
    """Return the folder of recipes: beside the package where it is installed, or in its checkout."""
    package = Path(holdfast.__file__).parent
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parents[1] / "recipes" / "papers"


def names() -> list[str]:
    """Return the names of all tables and figures that can be reproduced."""
    return sorted(path.stem for path in folder().glob("*.toml"))


def read(name: str, profile: str = FULL) -> Reproduction:
    """Return a table of a paper in one profile."""
    path = Path(name) if name.endswith(".toml") else folder() / f"{name}.toml"
    if not name.endswith(".toml") and name not in names():
        raise unknown("table", name, names())
    values = read_file(path)
    return assemble(values, path.stem, profile)


def read_file(path: Path) -> Table:
    """Return the tables of a recipe file, laid over the file beside it that it is `like`."""
    return resolve_inheritance(
        {"like": path.stem}, lambda like: read_toml(path.with_name(f"{like}.toml"), "recipe"), path.stem
    )


def profiles(values: Mapping[str, Any]) -> list[str]:
    """Return the profiles of a recipe, see `read_file`."""
    return [FULL, *(name for name in values.get("profiles", {}) if name != FULL)]


def assemble(values: Mapping[str, Any], name: str, profile: str) -> Reproduction:
    """Return the reproduction that the tables of a file describe, in one profile.

    `[profiles.small]` lies over the file, see `over`; "" instead of an input, an audit or a study leaves it out. A
    measure with `each` stands for several, see `holdfast.config.tables.spread`. A row of several `scores` stands for
    one row of each, see `holdfast.workflows.reproduce.rows.spread`.
    """
    # The file, under its profile
    table = arguments(KEYS, values, name)
    if profile not in profiles(table):
        raise unknown(f"profile of {name}", profile, profiles(table))
    above = table.get("profiles", {}).get(profile, {})
    table = over(table, arguments(KEYS, above, f"{name}: profiles.{profile}"))
    table |= spread_rows(table, name)
    for key in TEXTS:
        if key not in table:
            raise Missing(f"{name}: expected a text {key!r}, got none")
    # The table to fill, and what is claimed of it
    columns = tuple(_line(column, f"{name}: columns") for column in table.get("columns", ()))
    lines, panels = (table.get(key, ()) for key in ("rows", "figures"))
    rows = tuple(_line(row, f"{name}: rows", columns) for row in lines)
    if not columns or not rows:
        raise Missing(f"{name}: expected [[columns]] and [[rows]], got none")
    _check_names(columns, rows)
    claims = [_claim(claim, f"{name}: claims", rows, columns, profile) for claim in table.get("claims", ())]
    # What has to be run for it
    kinds = ("inputs", "audits", "studies")
    inputs, audits, studies = ({key: own for key, own in table.get(kind, {}).items() if own != ""} for kind in kinds)
    trainings = table.get("trainings", {})
    inputs = {key: _input(own, f"{name}: inputs.{key}", trainings) for key, own in inputs.items()}
    audits = {key: _audit(own, f"{name}: audits.{key}", audits) for key, own in audits.items()}
    named = [row.name for row in rows], [column.name for column in columns]
    return Reproduction(
        name,
        profile,
        **{key: table[key] for key in TEXTS},
        notes=table.get("notes", ""),
        minutes=table.get("minutes"),
        seeds=_seeds(table.get("seeds", ()), name),
        inputs=_select_inputs(inputs, audits, studies),
        audits=audits,
        studies=studies,
        columns=columns,
        rows=rows,
        figures=tuple(read_panel(panel, f"{name}: figures", *named, audits) for panel in panels),
        claims=tuple(claim for claim in claims if claim is not None),
    )


def _seeds(seeds: Sequence[int], name: str) -> tuple[int, ...]:
    if len(seeds) == 1 or len(set(seeds)) < len(seeds):
        raise BadValue(f"{name}: seeds: expected two different ones or more, got {list(seeds)}; or leave them out")
    return tuple(seeds)


def fill_placeholders(value: Any, specs: Mapping[str, str]) -> Any:
    """Return plain data with every "{name}" in a text replaced by that input's spec."""
    if isinstance(value, Mapping):
        return {key: fill_placeholders(inner, specs) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill_placeholders(inner, specs) for inner in value]
    if not isinstance(value, str):
        return value

    return re.sub(r"\{(\w+)\}", lambda match: pick("input", match[1], specs), value)


def find_placeholders(value: Any) -> list[str]:
    """Return the names in braces of plain data, see `fill_placeholders`."""
    return re.findall(r"\{(\w+)\}", json.dumps(value))


def _select_inputs(
    inputs: Mapping[str, Input], audits: Mapping[str, Mapping[str, Any]], studies: Mapping[str, Any]
) -> dict[str, Input]:
    """Return the inputs that audits and studies read, and those that these are trained with or made of."""
    names = [name for table in audits.values() for name in table.get("encoders", ())] + find_placeholders(
        [audits, studies]
    )
    needed: set[str] = set()
    while names:
        if (name := names.pop()) in inputs and name not in needed:
            needed.add(name)
            names += find_placeholders([inputs[name].spec, inputs[name].train])
    return {name: source for name, source in inputs.items() if name in needed}


def _audit(table: Any, where: str, audits: Mapping[str, Any]) -> Table:
    """Return the table of a plan, laid over the audit that it is like; a measure with `each` stands for several.

    A profile says "" of what it leaves out.
    """
    table = resolve_inheritance(table, lambda like: pick(f"audit that {where} is like", like, audits), where)
    table = {key: value for key, value in table.items() if value != ""}
    return table | ({"measures": spread(table["measures"])} if "measures" in table else {})


def _input(table: Any, where: str, trainings: Mapping[str, Any]) -> Input:
    values = arguments({"about": str, "spec": str, "train": dict | str, "says": str, "real": bool}, table, where)
    values["spec"], train = values.get("spec") or None, values.get("train") or None
    if values["spec"] and train:
        raise Conflict(f"{where}: expected a spec or a training, got both; a profile says spec = '' to have none")
    if train:
        train = resolve_inheritance(
            train, lambda like: pick(f"training that {where} is like", like, trainings), f"{where}: train"
        )
    return read_table(Input, values | {"train": train}, where)


AT = (
    "audit", "encoder", "measure", "score", "study", "method", "probe", "setting", "of", "version", *sorted(APART),
    "values", "observation", "along", "from", "reading", "epsilon",
)  # fmt: skip
"""Keys that say where a number is found, see `Line.at`."""

LINE: dict[str, Any] = dict.fromkeys(AT, Any) | {
    "name": str, "published": tuple[float | Literal["-"], ...], "cells": dict, "scale": float, "unit": str,
    "ours": bool, "behind": int,
}  # fmt: skip
"""Keys of a row or a column."""

CLAIM: dict[str, Any] = dict.fromkeys(KINDS, Any) | {
    "text": str, "profiles": tuple[str, ...], "row": str, "column": str, "rows": tuple[str, ...],
    "columns": tuple[str, ...],
}  # fmt: skip
"""Keys of a claim."""


def _line(table: Any, where: str, columns: tuple[Line, ...] = ()) -> Line:
    values = arguments(LINE, table, where)
    at = {key: values.pop(key) for key in AT if key in values}
    line: Line = read_table(Line, values | {"at": at, "published": _numbers(values.get("published", ()))}, where)
    if not columns:
        return line
    # Published numbers are those of the paper's own columns
    theirs = [column for column in columns if not column.ours]
    if line.published and len(line.published) != len(theirs):
        raise BadValue(
            f"{where}: {line.name!r}: expected {len(theirs)} published numbers, one for each column of the paper's "
            f"('-' for none), got {len(line.published)}"
        )
    if line.published:
        numbers = iter(line.published)
        line = replace(line, published=tuple(None if column.ours else next(numbers) for column in columns))
    for name in line.cells:
        pick(f"column of {line.name!r}", name, {column.name: column for column in columns})
    return line


def _numbers(published: Iterable[float | str]) -> tuple[float | None, ...]:
    return tuple(None if number == "-" else float(number) for number in published)


def _check_names(columns: Sequence[Line], rows: Sequence[Line]) -> None:
    """Refuse rows and columns that are made of others which the table does not have."""
    names_of_columns, names_of_rows = ({line.name: line for line in lines} for lines in (columns, rows))
    for line in (*columns, *rows):
        for at, key in itertools.product((line.at, *line.cells.values()), (*OTHERS, "mean", "correlates")):
            read = at.get(key, [])
            for column in read if isinstance(read, list) else [read]:
                pick(f"column of {line.name!r}: {key}", column, names_of_columns)
        for key in ("from", "among"):
            read = line.at.get(key, [])
            for row in read if isinstance(read, list) else [read]:
                pick(f"row of {line.name!r}: {key}", row, names_of_rows)


def _claim(table: Any, where: str, rows: Sequence[Line], columns: Sequence[Line], profile: str) -> Claim | None:
    """Return a claim; None where it is tried in other `profiles` only."""
    # Its sentence, and the one kind that it is of
    values = arguments(CLAIM, table, where)
    if "text" not in values:
        raise Missing(f"{where}: expected a text, got none")
    where = f"{where}: {values['text']!r}"
    if profile not in values.get("profiles", (profile,)):
        return None
    kinds = [kind for kind in KINDS if kind in values]
    if len(kinds) != 1:
        raise BadValue(f"{where}: expected one of {', '.join(KINDS)}, got {kinds}")

    # The rows and columns that it is about, which the table must have
    places = {f"{key}s": values.get(f"{key}s", (values[key],) if key in values else ()) for key in ("row", "column")}
    claim = Claim(values["text"], kinds[0], values[kinds[0]], **places)
    claim.check([row.name for row in rows], [column.name for column in columns])
    return claim

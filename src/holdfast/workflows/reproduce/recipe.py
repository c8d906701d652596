"""What a paper's table asks: inputs, audits, studies; where each number stands, what was published and claimed."""

import copy
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import holdfast
from holdfast.core import HoldfastError
from holdfast.runtime.errors import unknown
from holdfast.storage.documents import read_toml
from holdfast.workflows.reproduce.cells import APART, OTHERS
from holdfast.workflows.reproduce.claims import KINDS, Claim
from holdfast.workflows.reproduce.rows import spread

FULL = "full"
"""The profile with the paper's own parameters."""

NEEDED = ("paper", "where", "title", "units")
KEYS = {
    "paper", "where", "title", "units", "notes", "minutes", "inputs", "trainings", "audits", "studies", "columns",
    "rows", "claims", "profiles",
}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """Something that a reproduction begins with: images, an encoder, or a training that makes one.

    Attributes:
        about: what it is in the paper.
        spec: an encoder or data spec; None where the profile has none.
        train: the recipe of a training that makes the encoder; None where there is none.
        says: what stands in for the paper's, where another thing does.
    """

    about: str
    spec: str | None = None
    train: Mapping[str, Any] | None = None
    says: str = ""


@dataclass(frozen=True)
class Line:
    """A row or a column of the table: its name, and what it says of where its numbers are found.

    Attributes:
        name: as in the paper.
        at: where: `audit`, `encoder`, `measure`, `score` of an audit; `study`, `method`, `probe`, `setting`, `of`,
            `version` of a study. `score` may be several names of which the measure has one. Of an audit also:
            `against`, `against_score`, whose correlation with the measure over its encoders is the number; `quantile`,
            of the measure's column `values` over images; `cost`, of an `observation` per image; `noise`, what is known
            of one that the measure learned, `along` its training; `fluctuation`, of the accuracies of a training's
            checkpoints; `less`, another column whose number is taken away; `over`, one by whose number it is divided;
            `drop`, one of whose number it says which share is lost: all three of the same row, or of the row that they
            are `from`; `mean`, columns whose mean it is.
        scale: by what the paper's numbers are larger than ours: 100 of percent, 255 of pixel values from 0 to 255.
        published: of a row, the paper's number in each column; None where it has none.
        cells: of a row, what single columns say otherwise than the column itself, by its name.
        unit: of a column's numbers as printed.
    """

    name: str
    at: Mapping[str, Any]
    scale: float = 1.0
    published: tuple[float | None, ...] = ()
    cells: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unit: str = ""


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
        minutes: how long this profile takes on two slow cores; None where nobody has tried.
        inputs: those that are read, by name; audits, studies and trainings name them in braces, "{images}". A training
            that is `like` one of the file's [trainings] says only what is its own.
        audits: plan tables by name, whose encoders are names of inputs; one may be `like` another.
        studies: study tables by name.
        columns: of the table.
        rows: of the table.
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
    inputs: Mapping[str, Input]
    audits: Mapping[str, Mapping[str, Any]]
    studies: Mapping[str, Mapping[str, Any]]
    columns: tuple[Line, ...]
    rows: tuple[Line, ...]
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
    """Return a table of a paper in one profile.

    Args:
        name: see `names`; or the path of a TOML file.
        profile: "full", or one of the file's own.

    Raises:
        HoldfastError: a name or a profile that nobody knows, a file that is not TOML, or that says what nobody knows.
    """
    path = Path(name) if name.endswith(".toml") else folder() / f"{name}.toml"
    if not name.endswith(".toml") and name not in names():
        raise unknown("table", name, names())
    values = read_file(path)
    return made(values, path.stem, profile)


def read_file(path: Path, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what a recipe file says, laid over the file beside it that it is `like`.

    Args:
        path: the file.
        above: the files that are laid over it.

    Raises:
        HoldfastError: a file that cannot be read, is not TOML, or is like itself.
    """
    values = read_toml(path, "recipe")
    above = (*above, path.stem)
    if (like := values.pop("like", None)) is None:
        return values
    if not isinstance(like, str) or like in above:
        raise HoldfastError(f"{path.stem}: like: expected the name of another table beside it, got {like!r}")
    return over(read_file(path.with_name(f"{like}.toml"), above), values)


def profiles(values: Mapping[str, Any]) -> list[str]:
    """Return the profiles of a recipe, see `read_file`."""
    return [FULL, *(name for name in values.get("profiles", {}) if name != FULL)]


def made(values: Mapping[str, Any], name: str, profile: str) -> Reproduction:
    """Return what the tables of a file say in one profile.

    `[profiles.small]` lies over the file: its tables are joined with those of the file, its other values take the
    place of theirs; "" in the place of an input, an audit or a study leaves it out. A measure of an audit that says
    `each = { "attack.steps" = [5, 10] }` stands for one measure with each of these values, or with each combination.
    A row of several `scores` stands for one row of each, see `spread`.

    Raises:
        HoldfastError: keys that nobody knows, or that are missing.
    """
    for key in values:
        if key not in KEYS:
            raise unknown(f"key of {name}", key, KEYS)
    if profile not in profiles(values):
        raise unknown(f"profile of {name}", profile, profiles(values))
    values = over(values, values.get("profiles", {}).get(profile, {}))
    values |= spread(values, name)
    for key in NEEDED:
        if not isinstance(values.get(key), str):
            raise HoldfastError(f"{name}: expected a text {key!r}, got {values.get(key)!r}")
    columns = tuple(_line(one, f"{name}: columns") for one in values.get("columns", ()))
    rows = tuple(_line(one, f"{name}: rows", columns) for one in values.get("rows", ()))
    if not columns or not rows:
        raise HoldfastError(f"{name}: expected [[columns]] and [[rows]], got none")
    for line in (*columns, *rows):
        for key in (*OTHERS, "mean"):
            named = line.at.get(key, [])
            for one in named if isinstance(named, list) else [named]:
                if one not in {column.name for column in columns}:
                    raise unknown(f"column that {line.name!r} is {key}", str(one), [column.name for column in columns])
        if line.at.get("from", rows[0].name) not in {row.name for row in rows}:
            raise unknown(f"row that {line.name!r} is from", line.at["from"], [row.name for row in rows])
    tried = [_claim(one, name, rows, columns, profile) for one in values.get("claims", ())]
    claims = tuple(claim for claim in tried if claim is not None)
    trainings = values.get("trainings", {})
    inputs = {key: _input(one, f"{name}: inputs.{key}", trainings) for key, one in _kept(values, "inputs").items()}
    audits = _kept(values, "audits")
    audits = {key: _alike(one, f"{name}: audits.{key}", "audit", audits) for key, one in audits.items()}
    audits = {key: _spread(one, f"{name}: audits.{key}") for key, one in audits.items()}
    studies = _kept(values, "studies")
    told = {key: values[key] for key in NEEDED}
    return Reproduction(
        name,
        profile,
        **told,
        notes=values.get("notes", ""),
        minutes=values.get("minutes"),
        inputs=_needed(inputs, audits, studies),
        audits=audits,
        studies=studies,
        columns=columns,
        rows=rows,
        claims=claims,
    )


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables joined, at any depth; where both have a value that is no table, that of the upper one."""
    joined = copy.deepcopy(dict(below))
    for key, value in above.items():
        tables = isinstance(value, Mapping) and isinstance(joined.get(key), Mapping)
        joined[key] = over(joined[key], value) if tables else copy.deepcopy(value)
    return joined


def filled(value: Any, specs: Mapping[str, str]) -> Any:
    """Return plain data with every "{name}" in a text replaced by that input's spec.

    Raises:
        HoldfastError: a name that is no input.
    """
    if isinstance(value, Mapping):
        return {key: filled(inner, specs) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, specs) for inner in value]
    if not isinstance(value, str):
        return value

    def spec(match: re.Match[str]) -> str:
        if match[1] not in specs:
            raise unknown("input", match[1], specs)
        return specs[match[1]]

    return re.sub(r"\{(\w+)\}", spec, value)


def named(value: Any) -> list[str]:
    """Return the names in braces of plain data, see `filled`."""
    return re.findall(r"\{(\w+)\}", json.dumps(value))


def _kept(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the tables of one kind but those that a profile leaves out."""
    return {name: one for name, one in values.get(key, {}).items() if one != ""}


def _needed(
    inputs: Mapping[str, Input], audits: Mapping[str, Mapping[str, Any]], studies: Mapping[str, Any]
) -> dict[str, Input]:
    """Return the inputs that audits and studies read, and those that these are trained with or made of."""
    wanted = [name for one in audits.values() for name in one.get("encoders", ())] + named([audits, studies])
    found: set[str] = set()
    while wanted:
        if (name := wanted.pop()) in inputs and name not in found:
            found.add(name)
            wanted += named([inputs[name].spec, inputs[name].train])
    return {name: one for name, one in inputs.items() if name in found}


def _spread(audit: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the table of a plan with a measure for each combination of the values that it says `each` of.

    Raises:
        HoldfastError: values that are no lists, or a place for them that is no table.
    """
    found = []
    for measure in audit.get("measures", ()):
        each = measure.get("each", {})
        if not isinstance(each, Mapping) or not all(isinstance(values, list) and values for values in each.values()):
            raise HoldfastError(f'{where}: each: expected a table of lists, {{ "attack.steps" = [5] }}, got {each!r}')
        for values in itertools.product(*each.values()):
            one = copy.deepcopy({key: value for key, value in measure.items() if key != "each"})
            for path, value in zip(each, values, strict=True):
                *parts, last = path.split(".")
                place = one
                for part in parts:
                    place = place.setdefault(part, {})
                    if not isinstance(place, dict):
                        raise HoldfastError(f"{where}: each: {path}: expected a table {part!r}, got {place!r}")
                place[last] = value
            found.append(one)
    return {**audit, "measures": found} if found else dict(audit)


def _input(table: Any, where: str, trainings: Mapping[str, Any]) -> Input:
    known = {"about", "spec", "train", "says"}
    if not isinstance(table, Mapping) or not isinstance(table.get("about"), str):
        raise HoldfastError(f"{where}: expected a table with 'about', what it is, got {table!r}")
    for key in table:
        if key not in known:
            raise unknown(f"key of {where}", key, known)
    if isinstance(table.get("spec"), str) and table.get("spec") and table.get("train"):
        raise HoldfastError(f"{where}: expected a spec or a training, got both; a profile says spec = '' to have none")
    train = _alike(table["train"], f"{where}: train", "training", trainings) if table.get("train") else None
    return Input(table["about"], table.get("spec") or None, train, table.get("says", ""))


def _alike(table: Any, where: str, what: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table laid over that of the known ones which it says that it is `like`."""
    if not isinstance(table, Mapping):
        raise HoldfastError(f"{where}: expected a table, got {table!r}")
    own = {key: value for key, value in table.items() if key != "like"}
    if (like := table.get("like")) is None:
        return own
    if like not in known:
        raise unknown(f"{what} that {where} is like", str(like), known)
    above = {key: one for key, one in known.items() if key != like}  # none is like itself
    return over(_alike(known[like], f"{what}s.{like}", what, above), own)


AT = (
    "audit", "encoder", "measure", "score", "study", "method", "probe", "setting", "of", "version", *sorted(APART),
    "against_score", "values", "observation", "along", "from",
)  # fmt: skip
"""Keys that say where a number is found, see `Line.at`."""


def _line(table: Any, where: str, columns: tuple[Line, ...] = ()) -> Line:
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise HoldfastError(f"{where}: expected tables with a name, got {table!r}")
    values = dict(table)
    name, published, cells = values.pop("name"), values.pop("published", []), values.pop("cells", {})
    scale, unit = values.pop("scale", 1.0), values.pop("unit", "")
    for key in values:
        if key not in AT:
            raise unknown(f"key of {where}", key, (*AT, "name", "published", "cells", "scale", "unit"))
    if columns and published and len(published) != len(columns):
        raise HoldfastError(
            f"{where}: {name!r}: expected {len(columns)} published numbers, one for each column ('-' for none), got "
            f"{len(published)}"
        )
    for column in cells:
        if column not in {one.name for one in columns}:
            raise unknown(f"column of {name!r}", column, [one.name for one in columns])
    numbers = tuple(None if value == "-" else float(value) for value in published)
    return Line(name, values, float(scale), numbers, cells, unit)


def _claim(table: Any, where: str, rows: tuple[Line, ...], columns: tuple[Line, ...], profile: str) -> Claim | None:
    """Return a claim; None where it is tried in other `profiles` only."""
    if not isinstance(table, Mapping) or not isinstance(table.get("text"), str):
        raise HoldfastError(f"{where}: claims: expected tables with a text, got {table!r}")
    values = dict(table)
    text, tried = values.pop("text"), values.pop("profiles", [profile])
    if profile not in tried:
        return None
    kinds = [kind for kind in KINDS if kind in values]
    if len(kinds) != 1:
        raise HoldfastError(f"{where}: claim {text!r}: expected one of {', '.join(KINDS)}, got {kinds}")
    for one, several in (("row", "rows"), ("column", "columns")):
        values[several] = tuple(values.get(several, [values[one]] if one in values else ()))
        values.pop(one, None)
    for key in values:
        if key not in ("rows", "columns", kinds[0]):
            raise unknown(f"key of the claim {text!r}", key, ("text", "profiles", "row", "rows", "column", "columns"))
    claim = Claim(text, kinds[0], values.pop(kinds[0]), **values)
    claim.check([one.name for one in rows], [one.name for one in columns])
    told = [row.published for row in rows if row.published and row.name in (claim.rows or (row.name,))]
    known = {one.name for row in told for one, number in zip(columns, row, strict=True) if number is not None}
    if claim.kind == "agrees" and not known.intersection(claim.columns):
        raise HoldfastError(f"{where}: claim {text!r}: agrees: expected published numbers to agree with, got none")
    return claim

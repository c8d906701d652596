"""What a recipe says of its figure: which numbers of its table, of its images or of its audits are drawn, and how."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from holdfast.config.reader import read
from holdfast.runtime.errors import BadValue, Missing, UnknownName, unknown

Kind = Literal["curves", "points", "histogram", "images", "scatter", "audit"]

_TABLE = frozenset(("rows", "columns", "label"))
TAKES: dict[Kind, frozenset[str]] = {
    "curves": _TABLE | {"across", "at", "lines", "scale"}, "points": _TABLE | {"lines"},
    "histogram": _TABLE | {"marks"}, "images": _TABLE, "scatter": _TABLE | {"across", "values"},
    "audit": frozenset(("audit", "charts")),
}  # fmt: skip
"""Kinds of panels, and what is said of each beside its title."""

NEEDS: dict[Kind, tuple[str, ...]] = {
    "curves": ("label", "across"), "points": ("label",), "histogram": ("label",), "images": ("label",),
    "scatter": ("label", "across", "values"), "audit": ("audit", "charts"),
}  # fmt: skip
"""What has to be said of each."""

OF_TABLE, OF_IMAGES = ("curves", "points"), ("histogram", "images", "scatter")
"""Kinds that show numbers of the table, and those that show the values of images behind them."""

NUMBER = re.compile(r"(?<![\w.])(-?\d*\.?\d+)(?:/(\d+))?\D*$")
"""The last number of a name, or the last fraction."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel of a figure: what a `[[figures]]` of a recipe says.

    A name in `rows`, `columns` or `lines` stands for the one so called; where there is none, for all that begin with it
    and a comma.

    Attributes:
        title: what it shows, such as "(a) radii".
        kind: "curves" join numbers of the table over numbers, "points" stand beside their names; "histogram" and
            "images" are of the values of images behind each number, "scatter" of two columns of its measure's table;
            "audit" has charts of an audit.
        rows: of the table, those that are drawn; all where none is named.
        columns: likewise.
        lines: what has a colour of its own: "columns", "rows", or groups of rows by what their names begin with.
        at: where the numbers of each line stand; none: at the last numbers of their names.
        across: what the horizontal axis shows.
        label: what the numbers are.
        scale: of the horizontal axis.
        values: the two columns of a scatter plot, that across first.
        marks: columns whose published numbers are marked in a histogram.
        audit: whose charts are drawn.
        charts: their names, as `holdfast figures` gives them.
    """

    title: str
    kind: Kind
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    lines: Literal["columns", "rows"] | tuple[str, ...] = "columns"
    at: Annotated[tuple[float, ...], "signed"] = ()
    across: str = ""
    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    values: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    audit: str = ""
    charts: tuple[str, ...] = ()


@dataclass(frozen=True)
class DrawnLine:
    """A line, or what else has one colour: where its numbers stand in the table.

    Attributes:
        name: in the legend.
        places: (row, column) of each number.
        names: of the numbers.
    """

    name: str
    places: tuple[tuple[str, str], ...]
    names: tuple[str, ...]


def read_panel(
    table: object, where: str, rows: Sequence[str], columns: Sequence[str], audits: Collection[str]
) -> Panel:
    """Return a panel, checked against the names of its table and of what is run for it."""
    panel: Panel = read(Panel, table, where)
    where = f"{where}: {panel.title!r}"
    # What the panel says, against what its kind takes and needs
    said = {field.name for field in fields(panel) if getattr(panel, field.name) != field.default} - {"title", "kind"}
    if extra := sorted(said - TAKES[panel.kind]):
        raise UnknownName(f"{where}: {unknown(f'key of {panel.kind}', extra[0], TAKES[panel.kind])}")
    if missing := [key for key in NEEDS[panel.kind] if key not in said]:
        raise Missing(f"{where}: expected {missing[0]!r} of {panel.kind}, got none")
    if panel.kind == "audit":
        if panel.audit not in audits:
            raise UnknownName(f"{where}: {unknown('audit', panel.audit, audits)}")
        return panel
    # Every name and number once, so that a bad one is told before anything is run
    for line in list_lines(panel, rows, columns, where):
        if panel.kind == "curves":
            places_of(panel, line, where)
    select(panel.marks, columns, "column", where)
    if panel.kind == "scatter" and len(panel.values) != 2:
        raise BadValue(f"{where}: values: expected two columns of the measure's table, got {len(panel.values)}")
    return panel


def list_lines(panel: Panel, rows: Sequence[str], columns: Sequence[str], where: str) -> list[DrawnLine]:
    """Return all lines of a panel, in the order of the table."""
    chosen_rows = select(panel.rows, rows, "row", where)
    chosen_columns = select(panel.columns, columns, "column", where)
    if panel.lines == "columns":
        return [DrawnLine(c, tuple((r, c) for r in chosen_rows), tuple(chosen_rows)) for c in chosen_columns]
    if panel.lines == "rows":
        return [DrawnLine(r, tuple((r, c) for c in chosen_columns), tuple(chosen_columns)) for r in chosen_rows]
    # Groups of rows, whose names are told apart by what is left of them
    if len(chosen_columns) != 1:
        raise BadValue(f"{where}: expected one column where lines are groups of rows, got {len(chosen_columns)}")
    groups = {name: select((name,), chosen_rows, "row", where) for name in panel.lines}
    return [
        DrawnLine(name, tuple((r, chosen_columns[0]) for r in group), tuple(r.removeprefix(f"{name}, ") for r in group))
        for name, group in groups.items()
    ]


def select(names: Sequence[str], known: Sequence[str], what: str, where: str) -> list[str]:
    """Return those that names stand for, in their own order; all where there is no name."""
    if not names:
        return list(known)
    # A name that is none begins those of several, "drift" of "drift, 5 steps"
    chosen = []
    for name in names:
        begun = [name] if name in known else [one for one in known if one.startswith(f"{name}, ")]
        if not begun:
            raise UnknownName(f"{where}: {unknown(f'{what} of a figure', name, known)}")
        chosen += begun
    return list(dict.fromkeys(chosen))


def places_of(panel: Panel, line: DrawnLine, where: str) -> tuple[float, ...]:
    """Return where the numbers of a line stand on the horizontal axis."""
    # Said by the recipe, or read off the names
    numbers = [NUMBER.search(name) for name in line.names]
    at = panel.at or tuple(float(number[1]) / float(number[2] or 1) for number in numbers if number)
    if len(at) != len(line.names):
        kind = "numbers `at`" if panel.at else "a number in each name, or `at`"
        raise BadValue(f"{where}: expected {kind}, one for each of {len(line.names)} in {line.name!r}, got {len(at)}")
    if panel.scale == "log" and min(at) <= 0:
        raise BadValue(f"{where}: expected places above 0 on a logarithmic axis, got {min(at):g}")
    return at

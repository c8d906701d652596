"""Find a table's numbers in the records of what it asked for."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.comparison.records import Run
from holdfast.core import HoldfastError, Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.ratios import relative_drop
from holdfast.runtime.errors import pick, unknown
from holdfast.storage.reproduction import Network
from holdfast.storage.study import StudyRecord
from holdfast.workflows.reproduce.cells import (
    APART,
    NUMBERS,
    OTHERS,
    entry_of,
    find_score,
    measure_of,
    ratio,
    read_table,
    select_headline,
)
from holdfast.workflows.reproduce.claim import NETWORKS, STAND_IN, THEIRS, TRAINED, Cell
from holdfast.workflows.reproduce.derived import mean
from holdfast.workflows.reproduce.recipe import Line, Reproduction, find_placeholders
from holdfast.workflows.study.plan import ORIGINAL

REFERENCE = "the others are compared with it"
"""Why a cell has no number that needs none."""


def table_of(
    recipe: Reproduction,
    runs: Mapping[str, Run | str],
    studies: Mapping[str, StudyRecord | str],
    problems: Mapping[str, str],
) -> dict[tuple[str, str], Cell]:
    """Return every cell by (row, column): its number, or why there is none."""
    cells = {
        (row.name, column.name): _cell(recipe, row, column, place, runs, studies, problems)
        for row in recipe.rows
        for place, column in enumerate(recipe.columns)
    }
    cells |= _differences(recipe, cells, runs)
    return cells | _means(recipe, cells, runs)


def _cell(
    recipe: Reproduction,
    row: Line,
    column: Line,
    place: int,
    runs: Mapping[str, Run | str],
    studies: Mapping[str, StudyRecord | str],
    problems: Mapping[str, str],
) -> Cell:
    """Return one number of the table, or why there is none."""
    at = at_of(row, column)
    published = row.published[place] if row.published else None
    network = _network(recipe, at)
    cell = Cell(row.name, column.name, None, published, row.scale * column.scale, network=network)
    if at.get("encoder") in problems:
        return replace(cell, why=problems[at["encoder"]])
    if "mean" in at:
        return cell  # made of others, see `_means`
    try:
        score = _study_score(at, studies) if "study" in at else _score(at, runs)
    except HoldfastError as error:
        return replace(cell, why=str(error))
    why = score.note if score.value is None else ""
    return replace(cell, score=score, why=why, of=_identity(at, runs))


def _network(recipe: Reproduction, at: Mapping[str, Any]) -> Network:
    """Return whose network a number is of, by the inputs behind it, see `NETWORKS`."""
    table = dict(recipe.audits.get(at.get("audit", ""), {})) | dict(recipe.studies.get(at.get("study", ""), {}))
    encoders = [at["encoder"]] if "encoder" in at else table.get("encoders", [])
    others = find_placeholders({key: value for key, value in table.items() if key != "encoders"})
    inputs = [recipe.inputs[name] for name in (*encoders, *others) if name in recipe.inputs]
    if any(source.says for source in inputs):
        return STAND_IN
    trained = "study" in at or any(source.train for source in inputs)
    return TRAINED if trained else THEIRS


def _identity(at: Mapping[str, Any], runs: Mapping[str, Run | str]) -> str:
    """Return a key of a number: the network by its weights, not by its name, and all that was asked of it."""
    run = runs.get(at.get("audit", ""))
    if not isinstance(run, Run) or "encoder" not in at or "against" in at:
        return ""
    fingerprints = {entry.name: entry.fingerprint for entry in run.record.encoders}
    question = {key: value for key, value in at.items() if key != "encoder"}
    weights = fingerprints.get(at["encoder"])
    return json.dumps([weights, question], sort_keys=True, default=str) if weights else ""


def alike(cells: Mapping[tuple[str, str], Cell]) -> list[list[str]]:
    """Return the rows that one network stands for: those whose every number is one and the same."""
    rows: dict[str, list[str]] = {}
    for (row, _), cell in cells.items():
        rows.setdefault(row, []).append(cell.of)
    groups: dict[tuple[str, ...], list[str]] = {}
    for row, numbers in rows.items():
        if any(numbers):
            groups.setdefault(tuple(numbers), []).append(row)
    return [group for group in groups.values() if len(group) > 1]


def at_of(row: Line, column: Line) -> dict[str, Any]:
    """Return the place of a number: the column's keys, under those of the row, under those of the cell."""
    return {**column.at, **row.at, **row.cells.get(column.name, {})}


def _score(at: Mapping[str, Any], runs: Mapping[str, Run | str]) -> Score:
    """Return the number of a cell from a record: a score of a measure, or one of `NUMBERS`."""
    run = entry_of("audit", at, runs)
    if isinstance(run, str):
        raise HoldfastError(run)
    return next((number for key, number in NUMBERS.items() if key in at), find_score)(run, at)


def _differences(
    recipe: Reproduction, cells: Mapping[tuple[str, str], Cell], runs: Mapping[str, Run | str]
) -> dict[tuple[str, str], Cell]:
    """Return the cells that are their own number less that of another column, over it, or the share of it that is lost.

    The other column's number is that of the same row, or of the row that they are `from`.
    """
    derived = {}
    for row, column in itertools.product(recipe.rows, recipe.columns):
        at, cell = at_of(row, column), cells[row.name, column.name]
        if (name := next((at[key] for key in OTHERS if key in at), None)) is None:
            continue
        reference = cells[at.get("from", row.name), name]
        # cells that have nothing to be compared with
        if at.get("from") == row.name:
            cell = replace(cell, score=None, why=REFERENCE)
        elif cell.score is None or reference.score is None or None in (cell.value, reference.value):
            cell = replace(cell, score=None, why=cell.why or reference.why)
        # a ratio has no scale
        elif "over" in at:
            share = ratio(cell.score, reference.score)
            cell = replace(cell, score=share, scale=1.0, why=share.note if share.value is None else "")
        # a difference, absolute or relative, of scores of the same images
        elif cell.scale != reference.scale:
            raise HoldfastError(f"{row.name}: {column.name} less {name}: expected one scale, got two")
        else:
            combined = relative_drop if "drop" in at else statistics.difference
            paired = correlation(recipe, cell, reference, runs, between=frozenset(OTHERS))
            cell = replace(cell, score=combined(cell.score, reference.score, paired), why="")
        derived[row.name, column.name] = cell
    return derived


def _means(
    recipe: Reproduction, cells: Mapping[tuple[str, str], Cell], runs: Mapping[str, Run | str]
) -> dict[tuple[str, str], Cell]:
    """Return the cells that are the mean of other columns in the same row."""
    columns, means = {column.name: column for column in recipe.columns}, {}
    for row, column in itertools.product(recipe.rows, recipe.columns):
        at, cell = at_of(row, column), cells[row.name, column.name]
        if "mean" not in at:
            continue
        members = [cells[row.name, name] for name in at["mean"]]
        if lost := next((member for member in members if member.value is None), None):
            means[row.name, column.name] = replace(cell, score=None, why=lost.why)
            continue
        if {member.scale for member in members} != {cell.scale}:
            raise HoldfastError(f"{row.name}: {column.name}: expected the scale of those that it is the mean of")
        # scores of different images are independent
        audits = [runs.get(at_of(row, columns[name]).get("audit", "")) for name in at["mean"]]
        data = {run.record.data.spec for run in audits if isinstance(run, Run)}
        score = mean([member.score for member in members if member.score], apart=len(data) == len(members))
        network = max((member.network for member in members), key=NETWORKS.index)
        means[row.name, column.name] = replace(cell, score=score, why="", network=network)
    return means


def _study_score(at: Mapping[str, Any], studies: Mapping[str, StudyRecord | str]) -> Score:
    """Return a score of a study."""
    study = entry_of("study", at, studies)
    if isinstance(study, str):
        raise HoldfastError(study)
    rows = {(row.method, row.probe, row.setting): row for row in study.rows}
    key = at.get("method", ""), at.get("probe", next(iter(rows))[1]), at.get("setting", "same")
    if key not in rows:
        raise unknown("row of the study", " / ".join(key), [" / ".join(k) for k in rows])
    row, of = rows[key], at.get("of", "accuracy")
    if of == "average":
        score = row.average
    else:
        if of not in ("accuracy", "drop"):
            raise unknown("of", of, ("accuracy", "drop", "average"))
        version = at.get("version", ORIGINAL.title)
        if problem := row.problems.get(version):
            raise HoldfastError(problem)
        score = pick("version", version, row.accuracy if of == "accuracy" else row.drop)
    if score is None:
        raise HoldfastError("a training behind it failed")
    return score


def correlation(
    recipe: Reproduction, a: Cell, b: Cell, runs: Mapping[str, Run | str], between: frozenset[str] = frozenset()
) -> float:
    """Return the correlation of two cells' scores by their tables; 0 where they are of different images.

    Scores that `select_headline` finds no measure for have none, nor have cells that are no scores, but for those whose
    keys are named in `between`.
    """
    columns, rows = ({line.name: line for line in lines} for lines in (recipe.columns, recipe.rows))
    where = [at_of(rows[cell.row], columns[cell.column]) for cell in (a, b)]
    if any("study" in at or at.keys() & (APART - between) for at in where) or where[0]["audit"] != where[1]["audit"]:
        return 0.0
    influences = []
    for at in where:
        run = runs[at["audit"]]
        assert isinstance(run, Run)  # its cells have numbers
        entry = measure_of(run, at)
        if (measure := select_headline(entry, at.get("score", entry.headline))) is None:
            return 0.0
        ids, table = read_table(run, entry)
        influences.append((ids, measure.influence(table)))
    (ids_a, first), (ids_b, second) = influences
    return statistics.correlation(first, second) if ids_a == ids_b and len(first) == len(second) else 0.0

"""Find a table's numbers in the records of what it asked for."""

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from holdfast.comparison.records import Run
from holdfast.core import HoldfastError, Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.ratios import relative_drop
from holdfast.runtime.errors import Failed, Mismatch, pick, unknown
from holdfast.storage.reproduction import UNASKED, Network
from holdfast.storage.study import StudyRecord
from holdfast.workflows.reproduce.cells import (
    APART,
    NUMBERS,
    OTHERS,
    entry_of,
    find_score,
    measure_of,
    ratio,
)
from holdfast.workflows.reproduce.claim import NETWORKS, REAL, STAND_IN, THEIRS, TRAINED, Cell
from holdfast.workflows.reproduce.correlation import Estimate, correlate, estimate
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
    cells |= _correlations(recipe, cells, runs)
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
    behind = column.behind if row.behind is None else row.behind
    cell = Cell(row.name, column.name, None, published, row.scale * column.scale, network=network, behind=behind)
    if at.get("encoder") in problems:
        return replace(cell, why=problems[at["encoder"]])
    if not at.keys().isdisjoint(("mean", "correlates")):
        return cell  # made of others, see `_means` and `_correlations`
    if "among" in at:
        return replace(cell, why=UNASKED)
    try:
        score = _study_score(at, studies) if "study" in at else _score(at, runs)
    except HoldfastError as error:
        return replace(cell, why=str(error))
    why = score.note if score.value is None else ""
    return replace(cell, score=score, why=why, of=_identity(at, runs))


def _network(recipe: Reproduction, at: Mapping[str, Any]) -> Network:
    """Return whose network a number is of, by the inputs behind it, see `NETWORKS`."""
    table = dict(recipe.audits.get(at.get("audit", ""), {})) | dict(recipe.studies.get(at.get("study", ""), {}))
    # A checkpoint, "moco/epoch-0040", is of the network that is called so before the slash
    encoders = [at["encoder"].partition("/")[0]] if "encoder" in at else table.get("encoders", [])
    others = find_placeholders({key: value for key, value in table.items() if key != "encoders"})
    inputs = [recipe.inputs[name] for name in _inputs_behind(recipe, [*encoders, *others])]
    if any(source.says and not source.real for source in inputs):
        return STAND_IN
    # Other images of the kind leave a network whose it is
    if any(recipe.inputs[name].says for name in _inputs_behind(recipe, encoders)):
        return REAL
    trained = "study" in at or any(source.train for source in inputs)
    return TRAINED if trained else THEIRS


def _inputs_behind(recipe: Reproduction, names: Iterable[str]) -> list[str]:
    """Return inputs, and those that they are made of or trained from."""
    # Each once, from the last name on, as one may be made of another
    found: list[str] = []
    left = list(names)
    while left:
        if (name := left.pop()) in recipe.inputs and name not in found:
            found.append(name)
            left += find_placeholders([recipe.inputs[name].spec, recipe.inputs[name].train])
    return found


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
    """Return the place of a number: the column's keys, under those of the row, under those of the cell.

    A column's `encoder` with "{encoder}" in it is made of the row's.
    """
    at = {**column.at, **row.at, **row.cells.get(column.name, {})}
    if "{encoder}" in (template := column.at.get("encoder", "")):
        at["encoder"] = template.format_map(at)
    return at


def _score(at: Mapping[str, Any], runs: Mapping[str, Run | str]) -> Score:
    """Return the number of a cell from a record: a score of a measure, or one of `NUMBERS`."""
    run = entry_of("audit", at, runs)
    if isinstance(run, str):
        raise Failed(run)
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
            raise Mismatch(f"{row.name}: {column.name} less {name}: expected one scale, got two")
        else:
            combined = relative_drop if "drop" in at else statistics.difference
            paired = correlation(recipe, cell, reference, runs, between=frozenset(OTHERS))
            cell = replace(cell, score=combined(cell.score, reference.score, paired), why="")
        derived[row.name, column.name] = cell
    return derived


def _correlations(
    recipe: Reproduction, cells: Mapping[tuple[str, str], Cell], runs: Mapping[str, Run | str]
) -> dict[tuple[str, str], Cell]:
    """Return the cells that are the correlation of their column with another one, `among` the rows that they name."""
    made = {}
    for row, column in itertools.product(recipe.rows, recipe.columns):
        at, cell = at_of(row, column), cells[row.name, column.name]
        if (other := at.get("correlates")) is None:
            continue
        # A row's two numbers, of which all have to be there
        pairs = [(cells[name, column.name], cells[name, other]) for name in at["among"]]
        both = [each for pair in pairs for each in pair]
        if lost := next((each for each in both if each.value is None), None):
            made[row.name, column.name] = replace(cell, why=lost.why)
            continue
        first, second = ([_estimate(recipe, each, runs) for each in column] for column in zip(*pairs, strict=True))
        score, network = correlate(first, second), max((each.network for each in both), key=NETWORKS.index)
        why = score.note if score.value is None else ""
        made[row.name, column.name] = replace(cell, score=score, scale=1.0, why=why, network=network)
    return made


def _means(
    recipe: Reproduction, cells: Mapping[tuple[str, str], Cell], runs: Mapping[str, Run | str]
) -> dict[tuple[str, str], Cell]:
    """Return the cells that are the mean of other columns in the same row."""
    columns, means = {column.name: column for column in recipe.columns}, {}
    for row, column in itertools.product(recipe.rows, recipe.columns):
        at, cell = at_of(row, column), cells[row.name, column.name]
        if (of := at.get("mean")) is None:
            continue
        members = [cells[row.name, name] for name in of]
        if lost := next((member for member in members if member.value is None), None):
            means[row.name, column.name] = replace(cell, score=None, why=lost.why)
            continue
        if {member.scale for member in members} != {cell.scale}:
            raise Mismatch(f"{row.name}: {column.name}: expected the scale of those that it is the mean of")
        # scores of different images are independent
        audits = [runs.get(at_of(row, columns[name]).get("audit", "")) for name in of]
        data = {run.record.data.spec for run in audits if isinstance(run, Run)}
        score = mean([member.score for member in members if member.score], apart=len(data) == len(members))
        network = max((member.network for member in members), key=NETWORKS.index)
        means[row.name, column.name] = replace(cell, score=score, why="", network=network)
    return means


def _study_score(at: Mapping[str, Any], studies: Mapping[str, StudyRecord | str]) -> Score:
    """Return a score of a study."""
    study = entry_of("study", at, studies)
    if isinstance(study, str):
        raise Failed(study)
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
            raise Failed(problem)
        score = pick("version", version, row.accuracy if of == "accuracy" else row.drop)
    if score is None:
        raise Failed("a training behind it failed")
    return score


def correlation(
    recipe: Reproduction, a: Cell, b: Cell, runs: Mapping[str, Run | str], between: frozenset[str] = frozenset()
) -> float:
    """Return the correlation of two cells' errors, by the images that both are of; 0 where they have none in common.

    Scores whose influences no measure knows have none, nor have cells that are no scores, but for those whose keys are
    named in `between`.
    """
    return _estimate(recipe, a, runs, between).correlation(_estimate(recipe, b, runs, between))


def _estimate(
    recipe: Reproduction, cell: Cell, runs: Mapping[str, Run | str], between: frozenset[str] = frozenset()
) -> Estimate:
    """Return the number of a cell with what each image moves it by, where that is known; see `correlation`."""
    columns, rows = ({line.name: line for line in lines} for lines in (recipe.columns, recipe.rows))
    at = at_of(rows[cell.row], columns[cell.column])
    assert cell.score is not None  # it has a number
    if "study" in at or at.keys() & (APART - between):
        return Estimate(cell.score)
    run = runs[at["audit"]]
    assert isinstance(run, Run)  # its cells have numbers
    known = estimate(run, measure_of(run, at), at.get("score"))
    # Images are the same where they are of one source
    images = tuple(f"{run.record.data.spec} {image}" for image in known.images)
    return replace(known, score=cell.score, images=images)

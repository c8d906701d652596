"""Run what a table asks, find its numbers in the records, and judge the paper's claims by them."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast import statistics
from holdfast.audit.plan_file import plan_from
from holdfast.audit.record import environment, finite, software
from holdfast.audit.run import run_audit
from holdfast.audit.series import PREFIX as SERIES
from holdfast.comparison.records import Run, open_run, score_of
from holdfast.core import HoldfastError, Score
from holdfast.engines._pool import Engine
from holdfast.errors import unknown
from holdfast.listener import Listener, Silent
from holdfast.ratios import relative_drop
from holdfast.reproduce.cells import APART, OTHERS, correlated, cost, fluctuation, headed, noise, quantile, ratio
from holdfast.reproduce.claims import Cell, judge
from holdfast.reproduce.derived import mean
from holdfast.reproduce.recipe import Line, Reproduction, filled, named
from holdfast.store import Store
from holdfast.study.file import make_study
from holdfast.study.plan import ORIGINAL
from holdfast.study.run import run_study
from holdfast.training.loop import train
from holdfast.training.recipe_file import make_recipe

RECORD = "reproduction.json"


class LeftOut(str):
    """Why something is missing that nobody wants, which is no failure."""

    __slots__ = ()


def reproduce(
    asked: Reproduction,
    folder: Path,
    *,
    inputs: Mapping[str, str] | None = None,
    device: str = "cpu",
    seed: int = 0,
    engine: Engine | None = None,
    listener: Listener | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Run a paper's table and return it beside ours; also written to `folder/reproduction.json`.

    Trainings, audits and studies have folders of their own in `folder`, and go on where they were interrupted. What
    fails leaves its cells empty, with the reason, and the claims that need them not shown.

    Args:
        asked: the table.
        folder: where all of it goes.
        inputs: specs by the names of inputs, instead of the profile's.
        device: where encoders run.
        seed: the one seed of trainings and audits.
        engine: workers of the audits; None: this process.
        listener: told about progress.
        command: how to do it again, for the record.

    Raises:
        HoldfastError: inputs that are not known or missing, a folder that cannot be written.
    """
    listener, began, store = listener or Silent(), time.perf_counter(), Store(folder)
    specs, problems = _inputs(asked, store.folder, inputs or {}, device, seed, listener)
    runs: dict[str, Run | str] = {}
    for name, table in asked.audits.items():
        place = store.folder / "audits" / name
        if why := _missing(table, problems):
            runs[name] = why
            continue
        try:
            plan = plan_from(_audit(table, specs, problems, device, seed), f"{asked.name}: audits.{name}")
            run_audit(plan, place, engine=engine, listener=listener, command=command)
            runs[name] = open_run(str(place))
        except HoldfastError as error:
            runs[name] = str(error)
    studies: dict[str, Mapping[str, Any] | str] = {}
    for name, table in asked.studies.items():
        if why := _missing(table, problems):
            studies[name] = why
            continue
        try:
            study = make_study(filled(table, specs) | {"device": device, "seed": seed}, f"{asked.name}: studies.{name}")
            studies[name] = run_study(study, store.folder / "studies" / name, listener=listener, command=command)
        except HoldfastError as error:
            studies[name] = str(error)
    cells = {
        (row.name, column.name): _cell(row, column, place, runs, studies, problems)
        for row in asked.rows
        for place, column in enumerate(asked.columns)
    }
    cells |= _differences(asked, cells, runs)
    cells |= _means(asked, cells, runs)
    verdicts = [judge(claim, cells, lambda a, b: _correlation(asked, a, b, runs)) for claim in asked.claims]
    found = {
        "schema": 1,
        "holdfast": software(),
        "environment": environment(),
        "command": command,
        "seconds": round(time.perf_counter() - began, 3),
        "reproduction": {
            key: getattr(asked, key) for key in ("name", "profile", "paper", "where", "title", "units", "notes")
        },
        "inputs": {
            name: {"about": one.about, "says": one.says, "spec": specs.get(name), "problem": problems.get(name)}
            for name, one in asked.inputs.items()
        },
        "columns": [{"name": column.name, "unit": column.unit} for column in asked.columns],
        "rows": [
            {"name": row.name, "cells": [_told(cells[row.name, column.name]) for column in asked.columns]}
            for row in asked.rows
        ],
        "claims": [asdict(verdict) for verdict in verdicts],
        "failures": _failures(problems, runs, studies),
    }
    found = finite(json.loads(json.dumps(found)))
    store.write_json(RECORD, found)
    return found


def _inputs(
    asked: Reproduction, folder: Path, given: Mapping[str, str], device: str, seed: int, listener: Listener
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the spec of every input, trained where the recipe says so, and why others have none.

    A training that keeps snapshots gives all of these, as encoders NAME/epoch-0001 and so on.
    """
    for name in given:
        if name not in asked.inputs:
            raise unknown(f"input of {asked.name}", name, asked.inputs)
    specs: dict[str, str] = {}
    problems: dict[str, str] = {}
    for name, one in asked.inputs.items():
        spec = given.get(name) or one.spec
        if spec == "none":
            problems[name] = LeftOut(f"left out, as asked: {name} is none")
        elif why := _missing({"made of": spec or one.train}, problems):
            problems[name] = why
        elif spec is not None:
            specs[name] = filled(spec, specs)
        elif one.train is None:
            raise HoldfastError(
                f"{asked.name}: input {name!r} is needed: {one.about}; give it as --input {name}=SPEC, or leave its "
                f"numbers out with --input {name}=none"
            )
        else:
            try:
                recipe = make_recipe(filled(one.train, specs) | {"device": device, "seed": seed}, where=name)
                specs[name] = train(recipe, folder / "inputs" / name, listener=listener).spec
                if recipe.snapshots:
                    specs[name] = f"{SERIES}:{folder / 'inputs' / name / 'snapshots'}"
            except HoldfastError as error:
                problems[name] = str(error)
    return specs, problems


def _missing(table: Mapping[str, Any], problems: Mapping[str, str]) -> str | None:
    """Return why a table has no input that it reads, or none of its encoders where nobody wants them; else None."""
    encoders = [problems.get(name) for name in table.get("encoders", ())]
    unwanted = encoders if all(isinstance(why, LeftOut) for why in encoders) else []
    return next((problems[name] for name in named(table) if name in problems), unwanted[0] if unwanted else None)


def _audit(
    table: Mapping[str, Any], specs: Mapping[str, str], problems: Mapping[str, str], device: str, seed: int
) -> dict[str, Any]:
    """Return the table of a plan with specs in the place of inputs' names; an input that failed is left out."""
    values = {key: filled(value, specs) for key, value in table.items() if key != "encoders"}
    encoders = []
    for name in table.get("encoders", []):
        if name in problems:
            continue
        if name not in specs:
            raise unknown("input", name, specs)
        spec = specs[name]
        encoders.append(f"{spec}{'&' if '?' in spec else '?'}label={quote(name)}")
    if not encoders:
        raise HoldfastError("no encoder is left: all were left out or could not be trained")
    return {"seed": seed, "device": device} | values | {"encoders": encoders}


def _cell(
    row: Line,
    column: Line,
    place: int,
    runs: Mapping[str, Run | str],
    studies: Mapping[str, Mapping[str, Any] | str],
    problems: Mapping[str, str],
) -> Cell:
    """Return one number of the table, or why there is none."""
    at = at_of(row, column)
    published = row.published[place] if row.published else None
    cell = Cell(row.name, column.name, None, published, row.scale * column.scale)
    if at.get("encoder") in problems:
        return replace(cell, why=problems[at["encoder"]])
    try:
        found = _study_score(at, studies) if "study" in at else _score(at, runs)
    except HoldfastError as error:
        return replace(cell, why=str(error))
    return replace(cell, score=found, why=found.note if found.value is None else "")


def at_of(row: Line, column: Line) -> dict[str, Any]:
    """Return where a number is found: what the column says, the row over it, and the cell over both."""
    return {**column.at, **row.at, **row.cells.get(column.name, {})}


def _score(at: Mapping[str, Any], runs: Mapping[str, Run | str]) -> Score:
    """Return the number of a cell from a record: a score of a measure, or something of `cells`."""
    if not at.keys() & APART.difference(OTHERS):
        return score_of(_entry(at, runs)[1])
    run = _named("audit", at, runs)
    if isinstance(run, str):
        raise HoldfastError(run)
    if "fluctuation" in at:
        return fluctuation(run, at)
    entries = {entry["name"]: entry for entry in run.record["encoders"] if not entry.get("error")}
    if "against" in at:
        return correlated(entries, at)
    if "noise" in at:
        return noise(_named("encoder", at, entries), at)
    return cost(run, _named("encoder", at, entries), at) if "cost" in at else quantile(run, _entry(at, runs)[0], at)


def _differences(
    asked: Reproduction, cells: Mapping[tuple[str, str], Cell], runs: Mapping[str, Run | str]
) -> dict[tuple[str, str], Cell]:
    """Return the cells that are their own number less that of another column, over it, or the share of it that is lost.

    The other column's number is that of the same row, or of the row that they are `from`.
    """
    found = {}
    for row in asked.rows:
        for column in asked.columns:
            at = at_of(row, column)
            if (other := next((at[key] for key in OTHERS if key in at), None)) is None:
                continue
            upper, lower = cells[row.name, column.name], cells[at.get("from", row.name), other]
            if at.get("from") == row.name:
                found[row.name, column.name] = replace(upper, score=None, why="the others are compared with it")
                continue
            if upper.score is None or lower.score is None or None in (upper.score.value, lower.score.value):
                found[row.name, column.name] = replace(upper, score=None, why=upper.why or lower.why)
                continue
            if "over" in at:
                share = ratio(upper.score, lower.score)
                why = share.note if share.value is None else ""
                found[row.name, column.name] = replace(upper, score=share, scale=1.0, why=why)
                continue
            if upper.scale != lower.scale:
                raise HoldfastError(f"{row.name}: {column.name} less {other}: expected one scale, got two")
            together = _correlation(asked, upper, lower, runs, between=frozenset(OTHERS))
            combined = relative_drop if "drop" in at else statistics.difference
            gap = combined(upper.score, lower.score, together)
            found[row.name, column.name] = replace(upper, score=gap, why="")
    return found


def _means(
    asked: Reproduction, cells: Mapping[tuple[str, str], Cell], runs: Mapping[str, Run | str]
) -> dict[tuple[str, str], Cell]:
    """Return the cells that are the mean of other columns in the same row."""
    columns, found = {one.name: one for one in asked.columns}, {}
    for row in asked.rows:
        for column in asked.columns:
            at, cell = at_of(row, column), cells[row.name, column.name]
            if "mean" not in at:
                continue
            others = [cells[row.name, name] for name in at["mean"]]
            if lost := next((one for one in others if one.score is None or one.score.value is None), None):
                found[row.name, column.name] = replace(cell, score=None, why=lost.why)
                continue
            if {one.scale for one in others} != {cell.scale}:
                raise HoldfastError(f"{row.name}: {column.name}: expected the scale of those that it is the mean of")
            read = [runs.get(at_of(row, columns[name]).get("audit", "")) for name in at["mean"]]
            data = {run.record["data"]["spec"] for run in read if isinstance(run, Run)}
            score = mean([one.score for one in others if one.score], apart=len(data) == len(others))
            found[row.name, column.name] = replace(cell, score=score, why="")
    return found


def _entry(at: Mapping[str, Any], runs: Mapping[str, Run | str]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the entry of a measure in a record, and that of its score."""
    run = _named("audit", at, runs)
    if isinstance(run, str):
        raise HoldfastError(run)
    entries = {entry["name"]: entry for entry in run.record["encoders"]}
    encoder = _named("encoder", at, entries)
    if encoder.get("error"):
        raise HoldfastError(encoder["error"])
    measure = _named("measure", at, encoder["measures"])
    if problem := measure["error"] or measure["not_certified"]:
        raise HoldfastError(problem)
    score = at.get("score") or measure["headline"]
    if isinstance(score, list):
        score = next((name for name in score if name in measure["scores"]), score[0])
    return measure, _named("score", {"score": score}, measure["scores"])


def _study_score(at: Mapping[str, Any], studies: Mapping[str, Mapping[str, Any] | str]) -> Score:
    """Return a score of a study."""
    study = _named("study", at, studies)
    if isinstance(study, str):
        raise HoldfastError(study)
    rows = {(row["method"], row["probe"], row["setting"]): row for row in study["rows"]}
    key = at.get("method", ""), at.get("probe", next(iter(rows))[1]), at.get("setting", "same")
    if key not in rows:
        raise unknown("row of the study", " / ".join(key), [" / ".join(k) for k in rows])
    row, of = rows[key], at.get("of", "accuracy")
    if of == "average":
        found = row["average"]
    else:
        if of not in ("accuracy", "drop"):
            raise unknown("of", of, ("accuracy", "drop", "average"))
        version = at.get("version", ORIGINAL.title)
        if problem := row["problems"].get(version):
            raise HoldfastError(problem)
        found = _named("version", {"version": version}, row[of])
    if found is None:
        raise HoldfastError("a training behind it failed")
    return score_of(found)


def _named(kind: str, at: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    if kind not in at:
        raise HoldfastError(f"the recipe does not say which {kind}")
    if at[kind] not in known:
        raise unknown(kind, at[kind], known)
    return known[at[kind]]


def _correlation(
    asked: Reproduction, a: Cell, b: Cell, runs: Mapping[str, Run | str], between: frozenset[str] = frozenset()
) -> float:
    """Return the correlation of two cells' scores by their tables; 0 where they are of different images.

    Scores that are neither headlines nor read-outs of an attack have none, nor have cells that are no scores, but for
    those whose keys are named in `between`.
    """
    columns, rows = {one.name: one for one in asked.columns}, {one.name: one for one in asked.rows}
    where = [at_of(rows[cell.row], columns[cell.column]) for cell in (a, b)]
    if any("study" in at or at.keys() & (APART - between) for at in where) or where[0]["audit"] != where[1]["audit"]:
        return 0.0
    influences = []
    for at in where:
        entry, _ = _entry(at, runs)
        if (measure := headed(entry, at.get("score", entry["headline"]))) is None:
            return 0.0
        run = runs[at["audit"]]
        assert isinstance(run, Run)  # its cells have numbers
        ids, table = run.table(entry["table"])
        influences.append((ids, measure.influence(table)))
    (ids_a, first), (ids_b, second) = influences
    return statistics.correlation(first, second) if ids_a == ids_b and len(first) == len(second) else 0.0


def _told(cell: Cell) -> dict[str, Any]:
    score = None if cell.score is None else asdict(cell.score)
    return {"published": cell.published, "scale": cell.scale, "score": score, "why": cell.why}


def _failures(problems: Mapping[str, str], *made: Mapping[str, Any]) -> list[str]:
    """Return one sentence for all that failed."""
    found = [f"{name}: {why}" for name, why in problems.items() if not isinstance(why, LeftOut)]
    for one in made:
        for name, run in one.items():
            if isinstance(run, LeftOut):
                continue
            if isinstance(run, str):
                found.append(f"{name}: {run}")
            elif isinstance(run, Run):
                found += [f"{name}: {why}" for why in run.record["failures"]]
            else:
                found += [f"{name}: {why}" for row in run["rows"] for why in row["problems"].values()]
    return list(dict.fromkeys(found))

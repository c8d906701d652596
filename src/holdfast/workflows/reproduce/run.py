"""Run what a paper's table asks, and judge its claims by the numbers."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.auditing.plan_file import plan_from
from holdfast.auditing.record import environment, finite, software
from holdfast.auditing.run import check_device, run_audit
from holdfast.auditing.series import PREFIX as SERIES
from holdfast.comparison.records import Run, open_run
from holdfast.core import HoldfastError
from holdfast.parts.engines.shared.pool import Engine
from holdfast.runtime.errors import pick
from holdfast.runtime.listener import Listener, Silent
from holdfast.storage.run_folder import Store
from holdfast.training.loop import train
from holdfast.training.recipe_file import make_recipe
from holdfast.workflows.reproduce.claims import Cell, judged
from holdfast.workflows.reproduce.recipe import Reproduction, filled, named
from holdfast.workflows.reproduce.table import alike, correlation, table_of
from holdfast.workflows.study.file import make_study
from holdfast.workflows.study.run import run_study

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

    Its `seconds` are those of all runs of the table in the folder that came to an end.

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
    check_device(device)
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
    cells = table_of(asked, runs, studies, problems)
    verdicts = judged(asked.claims, cells, lambda a, b: correlation(asked, a, b, runs))
    found = {
        "schema": 1,
        "holdfast": software(),
        "environment": environment(),
        "command": command,
        "seconds": round(_before(store, asked) + time.perf_counter() - began, 3),
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
        "alike": alike(cells),
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
        pick(f"input of {asked.name}", name, asked.inputs)
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
        if name not in problems:
            spec = pick("input", name, specs)
            encoders.append(f"{spec}{'&' if '?' in spec else '?'}label={quote(name)}")
    if not encoders:
        raise HoldfastError("no encoder is left: all were left out or could not be trained")
    own = {"seed": seed, "device": device, "shared_searches": False}  # a paper's number is that of its own attack
    return own | values | {"encoders": encoders}


def _before(store: Store, asked: Reproduction) -> float:
    """Return how long the runs before took whose trainings and audits are read again."""
    found = store.read_json(RECORD) or {}
    same = [found.get("reproduction", {}).get(key) for key in ("name", "profile")] == [asked.name, asked.profile]
    return found["seconds"] if same else 0.0


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

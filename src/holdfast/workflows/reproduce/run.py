"""Run what a paper's table asks, and judge its claims by the numbers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from holdfast.auditing.execute import INLINE
from holdfast.auditing.plan_file import plan_from
from holdfast.auditing.prepare import check_device
from holdfast.auditing.record import environment, software
from holdfast.auditing.run import run_audit
from holdfast.auditing.series import PREFIX as SERIES
from holdfast.comparison.records import Run, open_run
from holdfast.core import HoldfastError
from holdfast.core.engine import Engine
from holdfast.runtime.errors import BadData, Missing, pick
from holdfast.runtime.listener import Listener, Silent
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.reproduction import CellEntry, ColumnEntry, InputEntry, PaperTable, ReproductionRecord, RowEntry
from holdfast.storage.run_folder import Store
from holdfast.storage.study import StudyRecord
from holdfast.training.loop import train
from holdfast.training.recipe_file import make_recipe
from holdfast.workflows.reproduce.agreement import compare_with_published
from holdfast.workflows.reproduce.claim import Cell
from holdfast.workflows.reproduce.recipe import Reproduction, fill_placeholders, find_placeholders
from holdfast.workflows.reproduce.table import alike, correlation, table_of
from holdfast.workflows.reproduce.trainings import together
from holdfast.workflows.reproduce.verdict import judge_claims
from holdfast.workflows.study.file import make_study
from holdfast.workflows.study.run import run_study

EPS = 0.05
"""Radius of the ℓ∞ ball of audits that name none: that of the label-free risks' paper, whatever the images are."""

RECORD = "reproduction.json"


class LeftOut(str):
    """Why something is missing that nobody wants, which is no failure."""

    __slots__ = ()


class Filled(NamedTuple):
    """A table that was filled once.

    Attributes:
        specs: of the inputs, by name.
        problems: why others have none.
        runs: the audits by name, or why there is none.
        studies: the records of studies by name, or why there is none.
        cells: of the table.
    """

    specs: dict[str, str]
    problems: dict[str, str]
    runs: Mapping[str, Run | str]
    studies: Mapping[str, StudyRecord | str]
    cells: dict[tuple[str, str], Cell]


def reproduce(
    recipe: Reproduction,
    folder: Path,
    *,
    inputs: Mapping[str, str] | None = None,
    says: Mapping[str, str] | None = None,
    device: str = "cpu",
    seed: int = 0,
    engine: Engine = INLINE,
    listener: Listener | None = None,
    command: str = "",
) -> ReproductionRecord:
    """Run a paper's table and return it beside ours; also written to `folder/reproduction.json`.

    Its `seconds` are those of all runs of the table in the folder that came to an end.

    Trainings, audits and studies have folders of their own in `folder`, and go on where they were interrupted. What
    fails leaves its cells empty, with the reason, and the claims that need them not shown.

    `inputs` take the place of the recipe's. Where they are not the paper's own, `says` has what they are, and they
    count as real ones.

    A recipe with `seeds` is done once for each of them, in a folder of its own: everything that it trains learns anew,
    and all are tested on the same images. Cells then hold the mean, see `together`.
    """
    listener, began, store = listener or Silent(), time.perf_counter(), Store(folder)
    check_device(device)
    recipe = _say(recipe, says or {})
    earlier = _before(store, recipe)

    def fill_once(place: Path, trained: int) -> Filled:
        # encoders and images, trained where the recipe says so
        specs, problems = _inputs(recipe, place, inputs or {}, device, trained, listener)

        def audit(name: str, table: Mapping[str, Any]) -> Run:
            plan = plan_from(_audit(table, specs, problems, device, seed), f"{recipe.name}: audits.{name}")
            run_audit(plan, place / "audits" / name, engine=engine, listener=listener, command=command, some=True)
            return open_run(str(place / "audits" / name))

        def study(name: str, table: Mapping[str, Any]) -> StudyRecord:
            own = {"device": device, "seed": trained}
            plan = make_study(fill_placeholders(table, specs) | own, f"{recipe.name}: studies.{name}")
            return run_study(plan, place / "studies" / name, listener=listener, command=command).found

        # audits and studies, and their numbers in the table
        runs = {name: _attempt(audit, name, table, problems) for name, table in recipe.audits.items()}
        studies = {name: _attempt(study, name, table, problems) for name, table in recipe.studies.items()}
        return Filled(specs, problems, runs, studies, table_of(recipe, runs, studies, problems))

    # the table, once for each seed of the trainings, and the claims on it
    seeds = [seed + own for own in recipe.seeds]
    tables = [fill_once(store.folder / f"seed-{own}", own) for own in seeds] or [fill_once(store.folder, seed)]
    specs, problems, runs, *_, cells = tables[0]
    cells = together(recipe, [table.cells for table in tables], seeds) if seeds else cells
    record = ReproductionRecord(
        holdfast=software(),
        environment=environment(),
        command=command,
        seconds=round(earlier + time.perf_counter() - began, 3),
        reproduction=PaperTable(**{key: getattr(recipe, key) for key in PaperTable.__struct_fields__}),
        inputs={
            name: InputEntry(about=i.about, says=i.says, spec=specs.get(name), problem=problems.get(name))
            for name, i in recipe.inputs.items()
        },
        columns=[ColumnEntry(name=column.name, unit=column.unit) for column in recipe.columns],
        rows=[
            RowEntry(name=row.name, cells=[_entry(cells[row.name, column.name]) for column in recipe.columns])
            for row in recipe.rows
        ],
        alike=alike(cells),
        seeds=seeds,
        claims=judge_claims(recipe.claims, cells, lambda a, b: correlation(recipe, a, b, runs)),
        agreement=compare_with_published(cells.values()),
        failures=list(dict.fromkeys(why for table in tables for why in _failures(table))),
    )
    store.write_json(RECORD, as_json(record))
    return record


def _say(recipe: Reproduction, says: Mapping[str, str]) -> Reproduction:
    """Return a recipe some of whose inputs are others than the paper's, as these sentences say."""
    # Real, for somebody gave them on purpose and says what they are
    inputs = dict(recipe.inputs)
    for name, text in says.items():
        inputs[name] = replace(pick(f"input of {recipe.name}", name, inputs), says=text, real=True)
    return replace(recipe, inputs=inputs)


def _inputs(
    recipe: Reproduction, folder: Path, replacements: Mapping[str, str], device: str, seed: int, listener: Listener
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the spec of every input, trained where the recipe says so, and why others have none.

    A training that keeps snapshots gives all of these, as encoders NAME/epoch-0001 and so on.
    """
    for name in replacements:
        pick(f"input of {recipe.name}", name, recipe.inputs)
    # in the order of the file: a later input may be made of earlier ones
    specs: dict[str, str] = {}
    problems: dict[str, str] = {}
    for name, source in recipe.inputs.items():
        spec = replacements.get(name) or source.spec
        if spec == "none":
            problems[name] = LeftOut(f"left out, as asked: {name} is none")
        elif why := _missing({"made of": spec or source.train}, problems):
            problems[name] = why
        elif spec is not None:
            specs[name] = fill_placeholders(spec, specs)
        elif source.train is None:
            raise Missing(
                f"{recipe.name}: input {name!r} is needed: {source.about}; give it as --input {name}=SPEC, or leave "
                f"its numbers out with --input {name}=none"
            )
        else:
            try:
                training = make_recipe(
                    fill_placeholders(source.train, specs) | {"device": device, "seed": seed}, where=name
                )
                if training.adversary is not None:  # the paper's attack, however coarse, as its authors had it
                    training = replace(training, adversary=replace(training.adversary, mend=False))
                specs[name] = train(training, folder / "inputs" / name, listener=listener).spec
                if training.snapshots:
                    specs[name] = f"{SERIES}:{folder / 'inputs' / name / 'snapshots'}"
            except HoldfastError as error:
                problems[name] = str(error)
    return specs, problems


def _attempt(run: Callable[..., Any], name: str, table: Mapping[str, Any], problems: Mapping[str, str]) -> Any:
    """Return the result of a run, or why there is none."""
    try:
        return _missing(table, problems) or run(name, table)
    except HoldfastError as error:
        return str(error)


def _missing(table: Mapping[str, Any], problems: Mapping[str, str]) -> str | None:
    """Return why a table lacks an input that it reads, or all of its encoders as asked; None where it has them."""
    encoders = [problems.get(name) for name in table.get("encoders", ())]
    unwanted = encoders if all(isinstance(why, LeftOut) for why in encoders) else []
    return next(
        (problems[name] for name in find_placeholders(table) if name in problems), unwanted[0] if unwanted else None
    )


def _audit(
    table: Mapping[str, Any], specs: Mapping[str, str], problems: Mapping[str, str], device: str, seed: int
) -> dict[str, Any]:
    """Return the table of a plan with specs instead of inputs' names; an input that failed is left out."""
    values = {key: fill_placeholders(value, specs) for key, value in table.items() if key != "encoders"}
    encoders = []
    for name in table.get("encoders", []):
        if name not in problems:
            spec = pick("input", name, specs)
            encoders.append(f"{spec}{'&' if '?' in spec else '?'}label={quote(name)}")
    if not encoders:
        raise Missing("no encoder is left: all were left out or could not be trained")
    own = {"seed": seed, "device": device, "shared_searches": False}  # a paper's number is that of its own attack
    own |= {} if "norm" in values else {"eps": EPS}
    return own | values | {"encoders": encoders}


def _before(store: Store, recipe: Reproduction) -> float:
    """Return the seconds of earlier runs whose trainings and audits are read again."""
    if (data := store.read_json(RECORD)) is None:
        return 0.0
    try:
        before = read_json(data, ReproductionRecord)
    except ValueError as error:
        raise BadData(
            f"expected a {RECORD} that `holdfast reproduce` wrote in {str(store.folder)!r}, got one where {error}; "
            "delete it, or choose another folder"
        ) from error
    about = before.reproduction
    return before.seconds if (about.name, about.profile) == (recipe.name, recipe.profile) else 0.0


def _entry(cell: Cell) -> CellEntry:
    each = tuple(score.value for score in cell.each if score.value is not None)
    return CellEntry(published=cell.published, scale=cell.scale, score=cell.score, why=cell.why, each=each)


def _failures(filled: Filled) -> list[str]:
    """Return one sentence for all that failed."""
    failures = [f"{name}: {why}" for name, why in filled.problems.items() if not isinstance(why, LeftOut)]
    for group in (filled.runs, filled.studies):
        for name, run in group.items():
            if isinstance(run, LeftOut):
                continue
            if isinstance(run, str):
                failures.append(f"{name}: {run}")
            elif isinstance(run, Run):
                failures += [f"{name}: {why}" for why in run.record.failures]
            else:
                failures += [f"{name}: {why}" for row in run.rows for why in row.problems.values()]
    return list(dict.fromkeys(failures))

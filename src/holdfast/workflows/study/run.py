"""Run a study: train every method on every version of the data, test all encoders, and say what is lost."""

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import torch

from holdfast.auditing.plan import Plan
from holdfast.auditing.record import slugs
from holdfast.auditing.run import run_audit
from holdfast.core import HoldfastError, Measure, registry
from holdfast.core.naming import name_parts
from holdfast.runtime.doors import read_bytes, regular
from holdfast.runtime.errors import BadData, BadPlace, Failed, Missing
from holdfast.runtime.listener import Listener, Silent
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage import study as stored
from holdfast.storage.documents import parse_json
from holdfast.storage.entry import Spec, as_json, read_json
from holdfast.storage.run_folder import Store, StoreError, digest
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe, entry
from holdfast.workflows.study.outcome import StudyRecord
from holdfast.workflows.study.plan import ORIGINAL, UNTRAINED, Column, Study
from holdfast.workflows.study.scores import Answers, score_row

SETTINGS = {
    "same": "the probe learns from, and is tested on, images corrupted as those of the training (Table 2)",
    "clean": "the probe learns from clean images, and is tested on clean ones (Table D.7)",
    "moved": "the probe learns from clean images, and is tested on corrupted ones",
}
"""How encoders are tested."""


def run_study(study: Study, folder: Path, *, listener: Listener | None = None, command: str = "") -> StudyRecord:
    """Train every method on every version of the data, test them, and return the record.

    It is written to `folder/study.json`; every training and its audits have a folder of their own. Interrupted, the
    same call goes on. A training that fails is recorded, and the others go on.
    """
    _check_study(study, folder / "study.json")
    store, listener = Store(folder), listener or Silent()
    columns, rows = (ORIGINAL, *study.columns), {UNTRAINED: None, **study.recipes}
    places = slugs([column.title for column in columns])
    record = stored.StudyRecord(command=command, study=_describe_study(study), rows=[])
    # one row of the table for each method, stored as soon as it is done
    for (row, recipe), slug in zip(rows.items(), slugs(list(rows)), strict=True):
        answers: dict[str, Answers | str] = {}
        for column, place in zip(columns, places, strict=True):
            try:
                answers[column.title] = _train_seeds(study, recipe, column, folder / slug / place, listener)
            except StoreError:
                raise
            except HoldfastError as error:
                answers[column.title] = str(error)
        # accuracies by probe and setting; the untrained network has no clean and moved ones
        settings = SETTINGS if recipe else {"same": ""}
        scored = [
            score_row(study, row, answers, probe, setting)
            for probe, setting in product(name_parts(study.probes), settings)
        ]
        record = msgspec.structs.replace(record, rows=[*record.rows, *scored])
        store.write_json("study.json", as_json(record))
    return StudyRecord(record)


def _check_study(study: Study, before: Path) -> None:
    """Refuse before the first training what no row could be made of."""
    first = next(iter(study.recipes.values()))
    geometry = open_encoder(first.encoder).geometry
    for data, images in ((first.data, first.images), (study.test, study.test_images)):
        if open_images(data, images=images, seed=study.test_seed, geometry=geometry).labels is None:
            raise Missing(f"study: expected images with labels, for probes; got some or all without in {data}")
    trained = _read_methods(before) if before.exists() else {}
    for title, recipe in study.recipes.items():
        if title in trained and trained[title] != entry(recipe):
            raise BadPlace(
                f"{str(before)!r} tells of {title!r} by another recipe; choose another --out, or call it otherwise"
            )


def _read_methods(path: Path) -> dict[str, Spec]:
    """Return the recipes of an earlier study."""
    try:
        return read_json(parse_json(read_bytes(path)), stored.StudyRecord).study.methods
    except ValueError as error:
        raise BadData(f"{str(path)!r} is not the record of a study ({error}); choose another --out") from error


def _train_seeds(study: Study, recipe: Recipe | None, column: Column, folder: Path, listener: Listener) -> Answers:
    """Train one method on one version of the data with every seed (the untrained encoder: not at all), and test it."""
    if recipe is None or not study.seeds:
        return _cell(study, recipe, column, folder, listener)
    cells = []
    for seed in study.seeds:
        try:
            cells.append(_cell(study, replace(recipe, seed=seed), column, folder / f"seed-{seed}", listener))
        except StoreError:
            raise
        except HoldfastError as error:
            raise error.retell(f"seed {seed}: {error}") from error
    return {key: torch.cat([cell[key] for cell in cells]) for key in cells[0]}


def _cell(study: Study, recipe: Recipe | None, column: Column, folder: Path, listener: Listener) -> Answers:
    """Train one method on one version of the data once, and test it."""
    original = next(iter(study.recipes.values()))
    if recipe is None:
        encoder = open_encoder(original.encoder)
    else:
        encoder = train(column.recipe(recipe), folder, listener=listener).encoder
    # an audit for each set of images that probes learn from
    answers: Answers = {}
    for data, questions in _questions(study, column, original.data).items():
        measures = tuple(dict.fromkeys(questions.values()))
        plan = Plan(
            ("encoder",),
            study.test,
            measures,
            images=study.test_images,
            seed=study.test_seed,
            device=original.device,
            train=data,
            train_images=original.images,
        )
        place = folder / f"audit-{digest(data)}"
        audited = run_audit(plan, place, encoders={"encoder": encoder}, listener=listener).encoders[0]
        if audited.error:
            raise Failed(audited.error)
        titles = {measure: title for title, measure in name_parts(measures).items()}
        for key, measure in questions.items():
            row = audited.measures[titles[measure]]
            if row.table is None:
                raise Failed(row.failure)
            right = pq.read_table(regular(place / row.table))["right"].to_numpy()
            answers[key] = torch.from_numpy(right.copy())[None]
    return answers


def _questions(study: Study, column: Column, data: str) -> dict[str, dict[tuple[str, str], Measure]]:
    """Return the questions to an encoder, as (probe, setting) -> measure, by the data that the probe learns from."""
    questions: dict[str, dict[tuple[str, str], Measure]] = {data: {}}
    accuracy = partial(registry.part, "measures", "probe_accuracy")
    for name, probe in name_parts(study.probes).items():
        questions[data][name, "clean"] = accuracy(probe=probe)
        if column.corruption is None:
            questions.setdefault(column.data or data, {})[name, "same"] = accuracy(probe=probe)
        else:
            questions[data][name, "same"] = accuracy(probe=probe, consistent=True, threat=column.corruption)
            questions[data][name, "moved"] = accuracy(probe=probe, threat=column.corruption)
    return questions


def _describe_study(study: Study) -> stored.StudyEntry:
    return stored.StudyEntry(
        methods={title: entry(recipe) for title, recipe in study.recipes.items()},
        columns=[
            stored.ColumnEntry(
                title=c.title,
                corruption=registry.spec(c.corruption) if c.corruption else None,
                data=c.data,
                averaged=c.averaged,
            )
            for c in (ORIGINAL, *study.columns)
        ],
        test=study.test,
        test_images=study.test_images,
        test_seed=study.test_seed,
        seeds=list(study.seeds) or [next(iter(study.recipes.values())).seed],
        probes=[registry.spec(probe) for probe in study.probes],
        settings=SETTINGS,
    )

"""Run a study: train every method on every version of the data, test all encoders, and say what is lost."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast import registry, statistics
from holdfast.audit.plan import Plan, named
from holdfast.audit.record import slugs
from holdfast.audit.run import run_audit
from holdfast.core import HoldfastError, Score
from holdfast.data import open_images
from holdfast.encoders import open_encoder
from holdfast.listener import Listener, Silent
from holdfast.measures.probe_accuracy import ProbeAccuracy
from holdfast.ratios import relative_drop
from holdfast.store import Store, StoreError, digest
from holdfast.study.plan import ORIGINAL, UNTRAINED, Column, Study
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe, entry

SETTINGS = {
    "same": "the probe learns from, and is tested on, images corrupted as those of the training (Table 2)",
    "clean": "the probe learns from clean images, and is tested on clean ones (Table D.7)",
    "moved": "the probe learns from clean images, and is tested on corrupted ones",
}
"""How encoders are tested."""

GIVEN = "given the trained encoders and what the probes learned"

Right = Float[Tensor, "images"]
Answers = dict[tuple[str, str], Right]
"""Whether each tested image is classified rightly, by (probe, setting)."""


def run_study(study: Study, folder: Path, *, listener: Listener | None = None, command: str = "") -> dict[str, Any]:
    """Train every method on every version of the data, test them, and return the record.

    It is written to `folder/study.json`; every training and its audits have a folder of their own. Interrupted, the
    same call goes on. A training that fails is recorded, and the others go on.

    Args:
        study: what is compared.
        folder: the run folder.
        listener: told about progress.
        command: how to do it again, for the record.

    Raises:
        HoldfastError: an encoder or images that cannot be opened, images without labels, a folder that cannot be
            written, or one in which a method of the same name was trained by another recipe.
    """
    _checked(study, folder / "study.json")
    store, listener = Store(folder), listener or Silent()
    columns, rows = (ORIGINAL, *study.columns), {UNTRAINED: None, **study.recipes}
    places = slugs([column.title for column in columns])
    record: dict[str, Any] = {"command": command, "study": _described(study), "rows": []}
    for (row, recipe), slug in zip(rows.items(), slugs(list(rows)), strict=True):
        found: dict[str, Answers | str] = {}
        for column, place in zip(columns, places, strict=True):
            try:
                found[column.title] = _cell(study, recipe, column, folder / slug / place, listener)
            except StoreError:
                raise
            except HoldfastError as error:
                found[column.title] = str(error)
        settings = SETTINGS if recipe else {"same": ""}
        record["rows"] += [
            {"method": row, "probe": probe, "setting": setting, **_scored(study, found, probe, setting)}
            for probe in named(study.probes)
            for setting in settings
        ]
        store.write_json("study.json", record)
    return record


def _checked(study: Study, before: Path) -> None:
    """Refuse before the first training what no row could be made of."""
    first = next(iter(study.recipes.values()))
    geometry = open_encoder(first.encoder).geometry
    for data, size in ((first.data, first.images), (study.test, study.test_images)):
        if open_images(data, size=size, seed=first.seed, geometry=geometry).labels is None:
            raise HoldfastError(f"study: expected images with labels, for probes; got some or all without in {data}")
    held = json.loads(before.read_text(encoding="utf-8"))["study"]["methods"] if before.exists() else {}
    for title, recipe in study.recipes.items():
        if title in held and held[title] != entry(recipe):
            raise HoldfastError(
                f"{str(before)!r} tells of {title!r} by another recipe; choose another --out, or call it otherwise"
            )


def _cell(study: Study, recipe: Recipe | None, column: Column, folder: Path, listener: Listener) -> Answers:
    """Train one method on one version of the data (the untrained encoder: none), and test it.

    Raises:
        HoldfastError: a training or a test that fails.
    """
    original = next(iter(study.recipes.values()))
    if recipe is None:
        encoder = open_encoder(original.encoder)
    else:
        encoder = train(column.recipe(recipe), folder, listener=listener).encoder
    found: Answers = {}
    for data, asked in _questions(study, column, original.data).items():
        measures = tuple(dict.fromkeys(asked.values()))
        plan = Plan(
            ("encoder",),
            study.test,
            measures,
            images=study.test_images,
            seed=original.seed,
            device=original.device,
            train=data,
            train_images=original.images,
        )
        place = folder / f"audit-{digest(data)}"
        audited = run_audit(plan, place, encoders={"encoder": encoder}, listener=listener)["encoders"][0]
        titles = {measure: title for title, measure in named(measures).items()}
        for key, measure in asked.items():
            told = audited["measures"].get(titles[measure], {})
            if problem := audited["error"] or told["error"]:
                raise HoldfastError(problem)
            found[key] = torch.from_numpy(pq.read_table(place / told["table"])["right"].to_numpy().copy())
    return found


def _questions(study: Study, column: Column, data: str) -> dict[str, dict[tuple[str, str], ProbeAccuracy]]:
    """Return what is asked of an encoder, as (probe, setting) -> measure, by the data that the probe learns from."""
    asked: dict[str, dict[tuple[str, str], ProbeAccuracy]] = {data: {}}
    for name, probe in named(study.probes).items():
        asked[data][name, "clean"] = ProbeAccuracy(probe)
        if column.corruption is None:
            asked.setdefault(column.data or data, {})[name, "same"] = ProbeAccuracy(probe)
        else:
            asked[data][name, "same"] = ProbeAccuracy(probe, consistent=True, threat=column.corruption)
            asked[data][name, "moved"] = ProbeAccuracy(probe, threat=column.corruption)
    return asked


def _scored(study: Study, found: Mapping[str, Answers | str], probe: str, setting: str) -> dict[str, Any]:
    """Return one row of the table: accuracies, what they lose, and the average loss, as plain data."""
    known = {title: answers for title, answers in found.items() if not isinstance(answers, str)}
    right = {title: answers[probe, setting] for title, answers in known.items() if (probe, setting) in answers}
    if setting == "moved" and ORIGINAL.title in known:  # its images are not corrupted: where it learned and is tested
        right[ORIGINAL.title] = known[ORIGINAL.title][probe, "clean"]
    scores = {title: statistics.share(hits, given=GIVEN) for title, hits in right.items()}
    row: dict[str, Any] = {
        "accuracy": {title: asdict(score) for title, score in scores.items()},
        "drop": {},
        "average": None,
        "problems": {title: answers for title, answers in found.items() if isinstance(answers, str)},
    }
    if ORIGINAL.title not in right:
        return row

    def drop(hits: Right, score: Score) -> dict[str, Any]:
        influences = statistics.influence_of_mean(hits), statistics.influence_of_mean(right[ORIGINAL.title])
        return asdict(relative_drop(score, scores[ORIGINAL.title], statistics.correlation(*influences)))

    row["drop"] = {title: drop(hits, scores[title]) for title, hits in right.items() if title != ORIGINAL.title}
    counted = [c for c in study.columns if c.averaged]
    averaged = [c.title for c in counted if c.corruption] or [c.title for c in counted]
    if all(title in right for title in averaged):
        hits = torch.stack([right[title] for title in averaged])
        units = torch.arange(hits.shape[1]).repeat(len(hits))  # one image under all of them is a cluster
        row["average"] = drop(hits.mean(0), statistics.share(hits.flatten(), units, given=GIVEN))
    return row


def _described(study: Study) -> dict[str, Any]:
    return {
        "methods": {title: entry(recipe) for title, recipe in study.recipes.items()},
        "columns": [
            {
                "title": c.title,
                "corruption": registry.spec(c.corruption) if c.corruption else None,
                "data": c.data,
                "averaged": c.averaged,
            }
            for c in (ORIGINAL, *study.columns)
        ],
        "test": study.test,
        "test_images": study.test_images,
        "probes": [registry.spec(probe) for probe in study.probes],
        "settings": SETTINGS,
    }

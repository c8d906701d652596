"""Scores as MTEB reads them: a results folder of `mteb`, one JSON file for each encoder and measure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.auditing.record import slugs
from holdfast.comparison.conditions import software
from holdfast.comparison.records import Run
from holdfast.runtime.errors import Missing
from holdfast.storage.conditions import conditions
from holdfast.storage.entry import as_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import write_inside
from holdfast.storage.record import EncoderEntry, Record
from holdfast.storage.standing import SOUND, void_checks

OF_ORGANISATION = re.compile(r"[\w.-]+/[\w.-]+")
"""Names as the Hub has them, organisation/name."""


def write_mteb_results(run: Run, folder: str) -> list[str]:
    """Write `FOLDER/results/MODEL/REVISION/TASK.json` for each encoder and measure of an audit; return the files.

    MODEL is the encoder's name where that is organisation/name (?label=organisation/name), else holdfast/NAME, with __
    for the stroke; REVISION the fingerprint of its weights, described in model_meta.json; TASK `holdfast_MEASURE`.
    Folders of several audits may be one. A file is MTEB's `TaskResult`: `dataset_revision` is the fingerprint of the
    images, `mteb_version` is null, for MTEB did not run, and the one split `test` has the headline. MTEB takes more to
    be better, so its `main_score` is the value where more is more robust, 1 - value of a share where less is, and else
    -value; `main_score_is` says which. Beside it stand `value`, `low`, `high` and all else that the record says of it,
    `scores` with the measure's other scores, and `conditions`. Numbers that mean nothing, bounds on one side, which
    would be read as numbers, and undefined ones are left out.

    Source: mteb 2.26, `mteb.results.TaskResult` and `mteb.cache.ResultCache`.
    """
    record, written = run.record, []
    encoders = [e for e in record.encoders if not e.error]
    for encoder, model in zip(encoders, slugs([e.name for e in encoders]), strict=True):
        results = list(_results(record, encoder))
        name = encoder.name if OF_ORGANISATION.fullmatch(encoder.name) else f"holdfast/{model}"
        place = f"results/{name.replace('/', '__')}/{encoder.fingerprint}"
        for (_, result), task in zip(results, slugs([measure for measure, _ in results]), strict=True):
            result["task_name"] = f"holdfast_{task}"
            written.append(_write(folder, f"{place}/{result['task_name']}.json", result))
        if results:
            written.append(_write(folder, f"{place}/model_meta.json", _model(encoder, name)))
    if not written:
        raise Missing(
            f"expected an encoder with a number that no failed check takes away, got none in {run.place!r}; see "
            "holdfast report"
        )
    return written


def _write(folder: str, name: str, data: Mapping[str, Any]) -> str:
    return write_inside(Folder(folder), name, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _model(encoder: EncoderEntry, name: str) -> dict[str, Any]:
    """Return MTEB's `ModelMeta` of an encoder, as far as an audit knows it; it cannot be loaded from there."""
    unknown = (
        "loader", "release_date", "languages", "memory_usage_mb", "max_tokens", "license", "open_weights",
        "public_training_code", "public_training_data", "similarity_fn_name", "use_instructions", "training_datasets",
    )  # fmt: skip
    known = {"n_parameters": encoder.parameters, "embed_dim": encoder.dim, "framework": ["PyTorch"]}
    about = {"name": name, "revision": encoder.fingerprint, "modalities": ["image"]}
    return about | known | dict.fromkeys(unknown)


def _results(record: Record, encoder: EncoderEntry) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the sound headlines of an encoder: measure -> `TaskResult`, all but its name."""
    if void_checks(encoder, record.plan.allow):
        return
    about = conditions(record) | {"data": record.data.spec, "holdfast": software(record)}
    for name, m in encoder.measures.items():
        headline = m.headline_score
        if headline is None or headline.value is None or headline.standing != SOUND:
            continue
        main, how = _upwards(headline.value, m.better, headline.unit or m.unit)
        facts = {"measure": name, "title": m.title, "question": m.question, "better": m.better}
        scores = {"main_score": main, "hf_subset": "default", "languages": ["zxx-Zxxx"], "main_score_is": how}
        scores |= {**as_json(headline), "unit": headline.unit or m.unit, **facts}
        scores |= {"scores": as_json({key: s for key, s in m.scores.items() if key != m.headline})}
        scores |= {"conditions": about}
        yield (
            name,
            {
                "task_name": "",
                "dataset_revision": record.data.fingerprint,
                "mteb_version": None,
                "date": record.run.finished,
                "evaluation_time": sum(o.seconds for o in encoder.observations if name in o.serves),
                "kg_co2_emissions": None,
                "scores": {"test": [scores]},
            },
        )


def _upwards(value: float, better: str, unit: str) -> tuple[float, str]:
    """Return a value of which more is better, and how it is made."""
    if better == "higher":
        return value, "value"
    return (1 - value, "1 - value") if unit == "share" else (-value, "-value")

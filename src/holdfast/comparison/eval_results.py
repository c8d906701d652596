"""Scores as the Hugging Face Hub reads them: `.eval_results/*.yaml` of a model repository."""

import re
from typing import Any

from holdfast.auditing.record import slugs
from holdfast.runtime.errors import BadValue, Conflict
from holdfast.storage.comparison import Comparison
from holdfast.storage.documents import quote_yaml
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import write_inside
from holdfast.storage.standing import SOUND


def write_eval_results(data: Comparison, folder: str, benchmark: str | None, source: str | None = None) -> list[str]:
    """Write one YAML file for each encoder, to be put into `.eval_results/` of its model repository; return the files.

    Each headline score is one entry: `dataset.id`, `dataset.task_id` (the measure's name), `value`, `date`, `source`
    and, as `notes`, interval and conditions. The Hub shows entries whose dataset is registered as a Benchmark and whose
    task is declared in that dataset's eval.yaml; both are its owner's to do. Encoders whose checks say that their
    numbers mean nothing, and undefined scores, are left out.

    Source: huggingface/hub-docs, eval_results.yaml (2026).
    """
    if benchmark is None or not re.fullmatch(r"[\w.-]+/[\w.-]+", benchmark):
        raise BadValue(
            f"expected the Hub dataset that holds the leaderboard as organisation/name, got {benchmark!r}; give "
            "--benchmark: Hugging Face shows results of datasets registered as a Benchmark only"
        )
    if any(encoder.seeds for encoder in data.encoders):
        raise Conflict("--eval-results: expected encoders, each of which has a repository; leave out --groups")
    if source is not None and not re.match(r"https?://\S+$", source):
        raise BadValue(f"expected the address of the results' source, https://…, got {source!r}")
    finished = {run.place: run.finished for run in data.runs}
    written = []
    encoders = [encoder for encoder in data.encoders if not encoder.unfit]
    for encoder, slug in zip(encoders, slugs([encoder.name for encoder in encoders]), strict=True):
        entries = list(_entries(data, encoder.name, benchmark, source, finished[encoder.run]))
        if entries:
            written.append(write_inside(Folder(folder), f"{slug}.yaml", "\n".join(entries)))
    return written


def _entries(data: Comparison, encoder: str, benchmark: str, source: str | None, date: str | None) -> Any:
    conditions = data.conditions
    where = (
        f"{conditions['number of images']} images of {conditions['data']}, {conditions['attacked images']} attacked, "
        f"seed {conditions['seed']}, {conditions['precision']}"
    )
    for name, m in data.measures.items():
        score = next((row.score for row in m.rows if row.encoder == encoder), None)
        if not score or score.value is None or score.standing != SOUND:  # a bound would be read as the number
            continue
        ends = "" if score.low is None or score.high is None else f"[{score.low:.6g}, {score.high:.6g}] "
        level = f"{score.confidence:.0%} interval {ends}({score.interval})" if ends else "no interval"
        notes = f"{m.title}, {m.better} is better, unit {score.unit or m.unit}; {level}; {where}; Holdfast"
        lines = ["- dataset:", f"    id: {quote_yaml(benchmark)}", f"    task_id: {quote_yaml(name)}"]
        lines += [f"  value: {score.value!r}"]
        lines += [f"  date: {quote_yaml(date)}"] if date else []
        lines += ["  source:", f"    url: {quote_yaml(source)}", '    name: "Holdfast audit"'] if source else []
        yield "\n".join([*lines, f"  notes: {quote_yaml(notes)}", ""])

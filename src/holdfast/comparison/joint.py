"""The encoders of several audits as one record, so that what each audit draws can be drawn together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.comparison.questions import questions
from holdfast.comparison.records import Audited, Run, encoders_of
from holdfast.runtime.privacy import distinct
from holdfast.storage.filesystem import Folder
from holdfast.storage.record_file import RunFiles, run_files


@dataclass(frozen=True)
class JointFiles(RunFiles):
    """The files of several run folders; the name of each begins with the number of its folder.

    Attributes:
        each: the files of each folder.
    """

    each: tuple[RunFiles, ...] = ()

    def read(self, name: str, kind: str = "a file") -> bytes:
        """Return the bytes of a file, see `RunFiles.read`."""
        number, _, own = name.partition("/")
        return self.each[int(number)].read(own, kind)


def joint(runs: Sequence[Run], data: Mapping[str, Any]) -> tuple[dict[str, Any], JointFiles]:
    """Return the encoders of some audits with the measures compared, as records have them, and their files."""
    places = distinct([run.place for run in runs])
    runs = [replace(run, place=place) for run, place in zip(runs, places, strict=True)]
    encoders, _ = encoders_of(runs)
    shared, _ = questions(encoders, 2)
    asked = {question.name: question for question in shared if question.name in data["measures"]}
    measures: dict[str, dict[str, Any]] = {encoder.name: {} for encoder in encoders}
    for name, question in asked.items():
        for encoder, entry in question.answers:
            table = entry["table"] and f"{places.index(encoder.run.place)}/{entry['table']}"
            measures[encoder.name][name] = {**entry, "table": table}
    record = {
        "data": runs[0].record["data"] if runs else {},
        "encoders": [_entry(encoder, measures[encoder.name]) for encoder in encoders],
        "comparison": {name: {"charts": m["charts"]} for name, m in data["measures"].items()},
    }
    files = tuple(run_files(run.folder, run.record) for run in runs)
    return record, JointFiles(Folder("."), {}, files)


def _entry(encoder: Audited, measures: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": encoder.name, "measures": measures, "observations": encoder.entry.get("observations", [])}

"""The encoders of several audits as one record, so that what each audit draws can be drawn together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from holdfast.comparison.questions import questions
from holdfast.comparison.records import Run, encoders_of
from holdfast.runtime.privacy import distinct
from holdfast.storage.comparison import Comparison
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import Compared, MeasureEntry, Record
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


def joint(runs: Sequence[Run], data: Comparison) -> tuple[Record | None, JointFiles]:
    """Return the encoders of some audits with the measures compared, as a record, and their files; None of none."""
    places = distinct([run.place for run in runs])
    runs = [replace(run, place=place) for run, place in zip(runs, places, strict=True)]
    encoders, _ = encoders_of(runs)
    shared, _ = questions(encoders, 2)
    asked = {question.name: question for question in shared if question.name in data.measures}
    measures: dict[str, dict[str, MeasureEntry]] = {encoder.name: {} for encoder in encoders}
    for name, question in asked.items():
        for encoder, entry in question.answers:
            table = entry.table and f"{places.index(encoder.run.place)}/{entry.table}"
            measures[encoder.name][name] = structs.replace(entry, table=table)
    files = JointFiles(Folder("."), {}, tuple(run_files(run.folder, run.record) for run in runs))
    if not encoders:
        return None, files
    record = structs.replace(
        runs[0].record,
        encoders=[structs.replace(e.entry, name=e.name, measures=measures[e.name]) for e in encoders],
        comparison={name: Compared(best=m.best, pairs=[], charts=m.charts) for name, m in data.measures.items()},
        relations=[],
        series=[],
    )
    return record, files

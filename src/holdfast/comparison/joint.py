"""The encoders of several audits as one record, so that what each audit draws can be drawn together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from holdfast.comparison.groups import Group, average_seeds
from holdfast.comparison.questions import questions
from holdfast.comparison.records import Audited, Run, encoders_of, last_look
from holdfast.core import Score
from holdfast.numerics.statistics.looks import looking
from holdfast.runtime.privacy import distinct
from holdfast.storage.chart import CellsEntry, ReadoutsEntry, RowEntry, ShadesEntry
from holdfast.storage.comparison import Comparison
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import Compared, MeasureEntry, Record
from holdfast.storage.record_file import RunFiles, run_files

Measures = dict[str, dict[str, MeasureEntry]]
"""Encoder -> measure -> its entry."""

OF_SCORES = (ReadoutsEntry, RowEntry, CellsEntry, ShadesEntry)
"""Charts that are drawn of scores, which have means; others are of each encoder's own images."""


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
    """Return the encoders of some audits, or the methods, with the measures compared, as a record, and their files."""
    places = distinct([run.place for run in runs])
    runs = [replace(run, place=place) for run, place in zip(runs, places, strict=True)]
    encoders, _ = encoders_of(runs)
    shared, _ = questions(encoders, 2)
    asked = {question.name: question for question in shared if question.name in data.measures}
    measures: Measures = {encoder.name: {} for encoder in encoders}
    for name, question in asked.items():
        for encoder, entry in question.answers:
            table = entry.table and f"{places.index(encoder.run.place)}/{entry.table}"
            measures[encoder.name][name] = structs.replace(entry, table=table)
    if any(encoder.seeds for encoder in data.encoders):
        encoders, measures = _methods(encoders, measures, data)
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


def _methods(encoders: Sequence[Audited], measures: Measures, data: Comparison) -> tuple[list[Audited], Measures]:
    """Return the methods of a comparison in place of their seeds, with the means of all scores that every seed has.

    Charts are kept that are drawn of scores. The headline is that of the comparison; how images contribute to other
    scores is not known here, so their intervals are the widest that there may be.
    """
    known = {encoder.name: encoder for encoder in encoders}
    methods, answers = list[Audited](), Measures()
    for method in data.encoders:
        seeds = [known[seed.name] for seed in method.seeds]
        whole = Group(method.name, tuple(seeds)).whole
        # a record wants an encoder, of which figures show no fact: the first seed stands for it
        entry = structs.replace(seeds[0].entry, checks=whole.entry.checks, observations=[])
        methods.append(replace(whole, entry=entry))
        answers[method.name] = {}
        for name, compared in data.measures.items():
            # the means of all that every seed of the method has
            entries = [entry for seed in seeds if (entry := measures[seed.name].get(name)) is not None]
            row = next(row for row in compared.rows if row.encoder == method.name)
            # A mean over some of the seeds would be that of another method
            if len(entries) == len(seeds) and row.score is not None:
                # Intervals as wide as those of the audits, which may have looked several times
                with looking(last_look(seeds)):
                    scores = _average(entries)
                answers[method.name][name] = structs.replace(
                    entries[0], scores=scores | {str(row.headline): row.score}, headline=row.headline, table=None,
                    charts=[chart for chart in entries[0].charts if isinstance(chart, OF_SCORES)],
                )  # fmt: skip
    return methods, answers


def _average(entries: Sequence[MeasureEntry]) -> dict[str, Score]:
    """Return the mean over seeds of each score that all of them have."""
    each = {name: [entry.scores[name] for entry in entries if name in entry.scores] for name in entries[0].scores}
    return {
        name: average_seeds(scores, entries[0].unit)
        for name, scores in each.items()
        if len(scores) == len(entries) and all(score.value is not None for score in scores)
    }

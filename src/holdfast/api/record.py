"""The result of an audit, as an object."""

import os
import shutil
import weakref
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any

from holdfast.api.outputs import frame, import_pandas, save_text
from holdfast.api.score import read_score
from holdfast.comparison.compare import compare_runs
from holdfast.comparison.records import Run, open_run
from holdfast.config.overrides import holds
from holdfast.core import Score
from holdfast.report import bibliography, html
from holdfast.report.document import Document
from holdfast.report.documents.audit import document
from holdfast.report.documents.comparison_table import Layout, latex
from holdfast.report.documents.comparison_table import document as table_document
from holdfast.report.model_card import write_model_card
from holdfast.report.paper.figure import Figure
from holdfast.report.paper.gather import Figures, figures_of_record
from holdfast.report.paper.style import Style
from holdfast.report.render import Shown, to_markdown
from holdfast.runtime.checked import check_arguments, describe_value
from holdfast.runtime.errors import (
    Ambiguous,
    BadData,
    BadPlace,
    BadValue,
    Failed,
    Missing,
    Unwritable,
    os_reason,
    unknown,
)
from holdfast.storage import record as stored
from holdfast.storage.comparison import Comparison
from holdfast.storage.entry import as_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import write_inside
from holdfast.storage.record_file import RECORD, run_files

CACHE = "cache/"
"""What a run folder keeps to continue from; no part of what is saved."""
TABLES = "tables/"
"""Where tables are in a run folder."""


class Record(Shown):
    """The result of an audit. Print it, show it in a notebook, ask it for scores.

    `record["breakaway_risk"]` is the headline `Score` of a measure, `record["breakaway_risk[attack.steps=50]"]` that of
    one with these fields; where several encoders were audited, `record["encoder", "breakaway_risk"]`.

    Args:
        run: the run folder with its record.
        temporary: whether the folder is deleted when this object is, at the latest when Python ends.

    Attributes:
        run: the same.
    """

    def __init__(self, run: Run, *, temporary: bool = False):
        self.run = run
        self._temporary = temporary
        if temporary and run.folder.local is not None:
            weakref.finalize(self, _remove, run.folder.local, os.getpid())

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The record as JSON data, as it stands in `record.json`."""
        return as_json(self._record)

    @property
    def _record(self) -> stored.Record:
        return self.run.record

    @property
    def folder(self) -> str:
        """The run folder: record, tables, pictures, and what is needed to continue."""
        return self.run.folder.place

    @property
    def encoders(self) -> tuple[str, ...]:
        """Names of the encoders, those that could not be audited included."""
        return tuple(encoder.name for encoder in self._record.encoders)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures, those that failed included."""
        return tuple(dict.fromkeys(name for encoder in self._record.encoders for name in encoder.measures))

    @property
    def failures(self) -> tuple[str, ...]:
        """A sentence for everything that failed; empty where all was measured."""
        return tuple(self._record.failures)

    def __getitem__(self, key: str | tuple[str, str]) -> Score:
        """Return the headline score of a measure, or of (encoder, measure).

        Raises:
            HoldfastError: a name that is not in the record, a measure that failed, or several encoders and none named.
        """
        pair: Any = (None, key) if isinstance(key, str) else key
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(name, (str, NoneType)) for name in pair):
            raise BadValue(
                "record[...]: expected the name of a measure, or of an encoder and a measure, got "
                f"{describe_value(key)}; this record has {', '.join(self.measures)}"
            )
        encoder, measure = pair
        entry = self._measure(measure, encoder)
        return read_score(self._resolve_encoder(encoder), entry, str(entry.headline))

    @check_arguments
    def scores(self, measure: str, encoder: str | None = None) -> dict[str, Score]:
        """Return all scores of a measure by name, the headline last.

        Args:
            measure: the measure.
            encoder: of which encoder; needed where there are several.

        Raises:
            HoldfastError: as `record[measure]`.
        """
        entry = self._measure(measure, encoder)
        return {name: read_score(self._resolve_encoder(encoder), entry, name) for name in entry.scores}

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures, such as "curve": what `figure` takes."""
        return tuple(self._gather_figures().by_name)

    @check_arguments
    def figure(self, name: str, **style: Any) -> Figure:
        """Return a figure for a paper; `record.figure("curve").save("curve.pdf")`.

        Args:
            name: one of `figures`.
            style: width ("column", "page" or inches), height, font ("serif" or "sans"), size (points), marks,
                editable; see `holdfast.report.paper.style.Style`.

        Raises:
            HoldfastError: a figure that the record has not, or a style that no figure can have.
        """
        return self._gather_figures().pick(name, Style(**style))

    def _gather_figures(self) -> Figures:
        """Return all figures by their names, and what cannot be drawn."""
        return figures_of_record(self._record, run_files(self.run.folder, self._record))

    def _resolve_encoder(self, encoder: str | None) -> str:
        return self.encoders[0] if encoder is None else encoder

    def _measure(self, name: str, encoder: str | None) -> stored.MeasureEntry:
        entries = {entry.name: entry for entry in self._record.encoders}
        first = next(iter(entries))
        if encoder is None and len(entries) > 1:
            raise Ambiguous(
                f"expected an encoder and a measure, since this record is of {len(entries)} encoders: "
                f"record[{first!r}, {name!r}]"
            )
        chosen = str(first if encoder is None else encoder)
        if chosen not in entries:
            raise unknown("encoder of this record", chosen, entries)
        entry = entries[chosen]
        if entry.error:
            raise Failed(f"{chosen} could not be audited: {entry.error}")
        measures = entry.measures
        if name not in measures:
            alike = [key for key, m in measures.items() if "[" in name and holds(name, m.part)]
            if len(alike) != 1:
                raise unknown("measure of this record", name, alike or measures)
            name = alike[0]
        measure = measures[name]
        if measure.failure:
            raise Failed(f"{name} of {chosen} has no score: {measure.failure}")
        return measure

    @check_arguments
    def to_pandas(self, measure: str | None = None) -> Any:
        """Return a pandas DataFrame with a row for each score of each encoder, as `holdfast compare --csv` writes them.

        Its `run` is the run folder, empty where that is a temporary one.

        Args:
            measure: return this measure's table instead: a row for each image of each encoder, with its id.

        Raises:
            HoldfastError: no pandas, or a measure that is not in the record.
        """
        pandas = import_pandas()
        if measure is None:
            scores = frame(self._compare_encoders())
            return scores.assign(run="") if self._temporary else scores  # the folder is gone before the table
        frames = []
        for encoder in self.encoders:
            ids, table = self.run.table(self._measure(measure, encoder).table)
            columns = {key: column.numpy() for key, column in table.items()}
            frames.append(pandas.DataFrame({"encoder": encoder, "id": ids, **columns}))
        return pandas.concat(frames, ignore_index=True)

    @check_arguments
    def to_latex(self, *, digits: int | None = None, transpose: bool = False) -> str:
        """Return encoders against measures as a LaTeX table (booktabs); see `Comparison.to_latex`.

        Raises:
            HoldfastError: digits that are no whole number above 0, or no encoder that could be audited.
        """
        return latex(self._compare_encoders(), Layout(digits=digits, transpose=transpose))

    @check_arguments
    def to_markdown(self, *, digits: int | None = None, transpose: bool = False) -> str:
        """Return encoders against measures as Markdown; see `to_latex`."""
        return to_markdown(table_document(self._compare_encoders(), Layout(digits=digits, transpose=transpose)))

    def _compare_encoders(self) -> Comparison:
        return compare_runs([self.run], fewest=1)

    def cite(self) -> str:
        """Return BibTeX of Holdfast and of each work behind the scores, with the measures that rest on it.

        Behind a score are the works that define the measure, its attack, its certifier, and every other part of it.
        """
        return bibliography.cite(self._record)

    @check_arguments
    def report(self, path: str | os.PathLike[str], *, pictures: bool = True) -> str:
        """Write the report, one HTML file that opens offline, and return where it is.

        Args:
            path: of the file.
            pictures: show pictures of images; False for readers who may not see these.

        Raises:
            HoldfastError: a place that cannot be written, or a run folder that is gone.
        """
        try:
            missing = not self.run.folder.exists(RECORD)
        except OSError as error:
            raise BadData(f"cannot read the run folder {self.folder!r}: {os_reason(error)}") from error
        if missing:
            raise Missing(f"cannot read the run folder {self.folder!r}: it is gone; audit again")
        return save_text(
            path, html.render(self._record, run_files(self.run.folder, self._record), with_pictures=pictures)
        )

    @check_arguments
    def model_card(self, path: str | os.PathLike[str], *, encoder: str | None = None) -> list[str]:
        """Write a section of a model card, with metadata for the Hugging Face Hub and a figure beside it.

        Args:
            path: of the Markdown file.
            encoder: whose card it is; needed where there are several.

        Returns:
            The files: the card, and the figure where there is one.

        Raises:
            HoldfastError: several encoders and none named, or a place that cannot be written.
        """
        return write_model_card(self._record, run_files(self.run.folder, self._record), os.fspath(path), encoder)

    @check_arguments
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False, pictures: bool = True) -> "Record":
        """Copy the record with its tables and pictures to another folder, or URL, and return the record there.

        Args:
            folder: where to; `holdfast.open` reads it again, and so do all commands.
            overwrite: replace another record.
            pictures: copy pictures and the report that shows them too; False copies the record and its tables alone,
                which hold no pixels and are what a baseline needs.

        Raises:
            HoldfastError: a folder that holds a record already, or that cannot be written.
        """
        target = Folder(os.fspath(folder))
        try:
            if target.exists(RECORD) and not overwrite:
                raise BadPlace(
                    f"expected a folder without a record, got {target.place!r}; choose another, or say overwrite=True"
                )
            names = [name for name in self.run.folder.files() if not name.startswith(CACHE)]
            if not pictures:
                names = [name for name in names if name == RECORD or name.startswith(TABLES)]
            for name in sorted(names, key=RECORD.__eq__):  # the record last: where it is, all is
                data = self.run.folder.read(name)
                write_inside(target, name, data)
        except OSError as error:
            raise Unwritable(f"cannot copy {self.folder!r} to {target.place!r}: {os_reason(error)}") from error
        return Record(open_run(target.place))

    def _document(self) -> Document:
        return document(self._record)

    def _ipython_key_completions_(self) -> list[Any]:
        if len(self.encoders) == 1:
            return list(self.measures)
        return [(encoder, measure) for encoder in self.encoders for measure in self.measures]


def _remove(folder: Path, process: int) -> None:
    """Delete a temporary folder; only in the process that made it, for copies of it may end earlier."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@check_arguments
def open(folder: str | os.PathLike[str]) -> Record:
    """Return the record in a run folder, or at its URL.

    Args:
        folder: what `holdfast audit` or `Record.save` wrote.

    Raises:
        HoldfastError: no record that can be read.
    """
    return Record(open_run(os.fspath(folder)))

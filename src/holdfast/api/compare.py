"""`holdfast.compare`: several audits side by side."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from holdfast.api.outputs import frame, pairs_frame, save_text
from holdfast.api.record import Record
from holdfast.comparison.compare import compare_runs
from holdfast.comparison.groups import Globs
from holdfast.comparison.joint import joint
from holdfast.comparison.records import Run, open_run
from holdfast.report import bibliography, leaderboard
from holdfast.report.document import Document
from holdfast.report.documents.comparison import document
from holdfast.report.documents.comparison_table import Layout, latex
from holdfast.report.documents.comparison_table import document as table_document
from holdfast.report.paper.figure import Figure
from holdfast.report.paper.gather import Figures, figures_of_comparison
from holdfast.report.paper.style import Style
from holdfast.report.render import Shown, to_html, to_markdown
from holdfast.runtime.checked import check_arguments, describe_value
from holdfast.runtime.errors import BadValue
from holdfast.storage import comparison as stored
from holdfast.storage.entry import as_json
from holdfast.storage.standing import allowing, refuse_unknown


class Comparison(Shown):
    """Encoders of several audits side by side: paired intervals, corrected verdicts, ranks with uncertainty.

    Args:
        compared: the comparison, see `holdfast.comparison.compare.compare_runs`.
        runs: what was compared, for the figures of all of them.

    Attributes:
        runs: the same.
    """

    def __init__(self, compared: stored.Comparison, runs: Sequence[Run] = ()):
        self._compared = compared
        self.runs = tuple(runs)

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The comparison as JSON data."""
        return as_json(self._compared)

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures: those of the records, drawn together, and what sets encoders apart."""
        return tuple(self._gather_figures().by_name)

    @check_arguments
    def figure(self, name: str, **style: Any) -> Figure:
        """Return a figure for a paper, see `Record.figure`.

        Raises:
            HoldfastError: a figure that the comparison has not, or a style that no figure can have.
        """
        return self._gather_figures().pick(name, Style(**style))

    def _gather_figures(self) -> Figures:
        """Return all figures by their names, and what cannot be drawn."""
        return figures_of_comparison(self._compared, *joint(self.runs, self._compared))

    @check_arguments
    def to_pandas(self, table: Literal["scores", "pairs"] = "scores") -> Any:
        """Return a pandas DataFrame with a row for each score of each encoder, with ranks and differences.

        Args:
            table: "pairs": a row for every two encoders on each measure instead, with their paired difference, its
                interval, p, the corrected p, and who wins.

        Raises:
            HoldfastError: no pandas, or another table.
        """
        return {"scores": frame, "pairs": pairs_frame}[table](self._compared)

    @check_arguments
    def to_latex(self, *, digits: int | None = None, transpose: bool = False, p_values: bool = False) -> str:
        """Return encoders against measures as a LaTeX table (booktabs).

        Args:
            digits: significant digits of each value; as many as its interval supports where None.
            transpose: measures down and encoders across.
            p_values: a column beside each measure with the corrected p-value against the first.

        Raises:
            HoldfastError: digits that are no whole number above 0.
        """
        return latex(self._compared, Layout(digits=digits, transpose=transpose, p_values=p_values))

    @check_arguments
    def to_markdown(self, *, digits: int | None = None, transpose: bool = False, p_values: bool = False) -> str:
        """Return encoders against measures as Markdown; see `to_latex`."""
        layout = Layout(digits=digits, transpose=transpose, p_values=p_values)
        return to_markdown(table_document(self._compared, layout))

    def cite(self) -> str:
        """Return BibTeX of Holdfast and of each work behind what is compared; see `Record.cite`."""
        among = [measure.part for measure in self._compared.measures.values()]
        return bibliography.cite(*(run.record for run in self.runs), among=among)

    @check_arguments
    def report(self, path: str | os.PathLike[str]) -> str:
        """Write one HTML page that opens offline, and return where it is.

        Raises:
            HoldfastError: a place that cannot be written.
        """
        return save_text(path, leaderboard.render(stored.Leaderboard(groups=[self._compared]), "Comparison"))

    def _document(self) -> Document:
        return document(self._compared)

    def _repr_html_(self) -> str:
        return to_html(table_document(self._compared))  # a page has room for encoders down and measures across


def build_comparison(
    runs: Sequence[Run], measures: Sequence[str], correction: str, groups: Globs | None = None
) -> Comparison:
    """Return the comparison of some runs; see `holdfast.compare`."""
    return Comparison(compare_runs(runs, measures=measures, correction=correction, groups=groups), runs)


@check_arguments
def compare(
    *records: Record | str | os.PathLike[str] | Mapping[str, Record | str | os.PathLike[str]],
    measures: Sequence[str] = (),
    correction: str = "holm",
    groups: Mapping[str, str | Sequence[str]] | None = None,
    allow: Sequence[str] = (),
) -> Comparison:
    """Compare the encoders of several audits on the same images: paired intervals, corrected verdicts, ranks.

    Args:
        records: records or run folders; or one dict of them, whose keys tell encoders of one name apart.
        measures: which measures; all that they share where none is given.
        correction: for many comparisons at once: "holm", "bh" or "none".
        groups: methods of several seeds each, by name: the names of their encoders or run folders, or one with
            wildcards, such as "simclr-*". Methods are then compared by the means of their seeds, with intervals over
            images and seeds.
        allow: checks whose failure is accepted; the numbers that depend on them are then compared as they are.

    Raises:
        HoldfastError: audits that cannot be compared, with what differs, fewer than two encoders, or groups that match
            nothing, one seed alone, or an encoder twice.
    """
    runs: dict[str, Run] = {}
    for argument in records:
        named = argument.items() if isinstance(argument, Mapping) else [(None, argument)]
        for name, record in named:
            if not isinstance(record, (Record, str, os.PathLike)):
                raise BadValue(f"compare: expected records or their folders, got {describe_value(record)}")
            run = record.run if isinstance(record, Record) else open_run(os.fspath(record))
            place = run.place if name is None else str(name)
            if place in runs:
                raise BadValue(f"expected different records, got {place!r} twice; give each once")
            runs[place] = replace(run, place=place, record=allowing(run.record, allow))
    refuse_unknown(allow, [run.record for run in runs.values()])
    return build_comparison(list(runs.values()), measures, correction, groups)

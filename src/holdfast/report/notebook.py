"""Records, comparisons and checks in a notebook: what the terminal shows, in the colours of the page around it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from holdfast.report import comparison as compared
from holdfast.report import gate, hardening, index_upgrade, study
from holdfast.report.comparison_table import grid, keys
from holdfast.report.names import shorten_names
from holdfast.report.page import fragment
from holdfast.report.table import Table
from holdfast.report.terminal import blocks, side_by_side
from holdfast.storage.comparison import Comparison
from holdfast.storage.gate import Gate
from holdfast.storage.hardening import HardeningRecord
from holdfast.storage.record import Record
from holdfast.storage.study import StudyRecord


def record_html(record: Record) -> str:
    """Return a record as a piece of HTML, without scripts; every text of it is escaped."""
    record, wholes = shorten_names(record)
    return _html([b if isinstance(b, Text) else side_by_side(record, b) for b in blocks(record, wholes) if b])


def comparison_html(data: Comparison) -> str:
    """Return a comparison as a piece of HTML: encoders down, measures across; see `record_html`."""
    data, _ = shorten_names(data)
    sentences = [Text(sentence, style=style) for sentence, style in compared.sentences(data)]
    return _html([*compared.opening(data), grid(data), *(Text(key, "dim") for key in keys(data)), *sentences])


def gate_html(data: Gate) -> str:
    """Return what the gate found as a piece of HTML; see `record_html`."""
    blocks: list[Text | Table] = [gate.outcome(data)]
    blocks += [*gate.requirements(data.findings), *gate.index(data)]
    if regression := data.regression:
        blocks.append(Text(gate.against(regression), "bold"))
        for encoder, rows in gate.by_encoder(regression):
            blocks += [Text(encoder), gate.table("", rows)]
        blocks += gate.notes(regression)
    return _html(blocks)


def hardening_html(data: HardeningRecord) -> str:
    """Return what hardening did as a piece of HTML; see `record_html`."""
    return _html(hardening.blocks(data))


def study_html(data: StudyRecord) -> str:
    """Return the tables of a corruption study as a piece of HTML; see `record_html`."""
    blocks: list[Text | Table] = []
    for title, head, lines in study.tables(data):
        blocks += [Text(title, "bold"), Table(head, lines)]
    blocks += [Text(line, "dim") for line in study.intervals(data)]
    return _html([*blocks, *(Text(problem, "bold red") for problem in study.problems(data))])


def upgrade_html(data: Mapping[str, Any]) -> str:
    """Return what changes with the encoder of an index as a piece of HTML; see `record_html`."""
    said = [Text(sentence) for sentence in index_upgrade.sentences(data)]
    tables = [index_upgrade.tabulate_overlap(data), index_upgrade.sides_table(data)]
    listed = [Text(index_upgrade.canary(row)) for row in index_upgrade.canaries(data)]
    return _html(
        [*said, *tables, *listed, *gate.requirements(index_upgrade.findings(data)), index_upgrade.outcome(data)]
    )


def lines_html(lines: Iterable[Sequence[tuple[str, str]]]) -> str:
    """Return lines of (text, style) as a piece of HTML; see `record_html`."""
    return _html([Text.assemble(*pieces) for pieces in lines])


def _html(blocks: Sequence[Text | Table]) -> str:
    return fragment("notebook.html", blocks=[(isinstance(b, Table), b) for b in blocks], pieces=_pieces)


def _pieces(text: str | Text) -> Markup:
    """Return styled text as spans whose classes are the words of the styles."""
    text = Text(text) if isinstance(text, str) else text
    html = Markup("")
    base = _PLAIN.get_style(text.style)
    for piece, own, _ in text.render(_PLAIN):
        style = own or base  # text of one style alone comes without it
        if not piece.strip():
            html += piece
            continue
        words = [word for word, is_so in (("bold", style.bold), ("dim", style.dim)) if is_so]
        words += [style.color.name] if style.color is not None else []
        html += Markup('<span class="{}">{}</span>').format(" ".join(words), piece) if words else piece
    return html


_PLAIN = Console()

"""Studies and index upgrades in a notebook."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from holdfast.report import gate, index_upgrade, study
from holdfast.report.document import Block
from holdfast.report.media import to_html
from holdfast.report.table import Table


def study_html(data: Mapping[str, Any]) -> str:
    """Return the tables of a corruption study as a piece of HTML; see `record_html`."""
    blocks: list[Block] = []
    for title, head, lines in study.tables(data):
        blocks += [Text(title, "bold"), Table(head, lines)]
    blocks += [Text(line, "dim") for line in study.intervals(data)]
    return to_html([*blocks, *(Text(problem, "bold red") for problem in study.problems(data))])


def upgrade_html(data: Mapping[str, Any]) -> str:
    """Return what changes with the encoder of an index as a piece of HTML; see `record_html`."""
    said = [Text(sentence) for sentence in index_upgrade.sentences(data)]
    tables = [index_upgrade.tabulate_overlap(data), index_upgrade.sides_table(data)]
    listed = [Text(index_upgrade.canary(row)) for row in index_upgrade.canaries(data)]
    return to_html(
        [*said, *tables, *listed, *gate.requirements(index_upgrade.findings(data)), index_upgrade.outcome(data)]
    )

"""Studies in a notebook."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from holdfast.report import study
from holdfast.report.document import Block
from holdfast.report.media import to_html
from holdfast.report.table import Table


def study_html(data: Mapping[str, Any]) -> str:
    """Return the tables of a corruption study as a piece of HTML."""
    blocks: list[Block] = []
    for title, head, lines in study.tables(data):
        blocks += [Text(title, "bold"), Table(head, lines)]
    blocks += [Text(line, "dim") for line in study.intervals(data)]
    return to_html([*blocks, *(Text(problem, "bold red") for problem in study.problems(data))])

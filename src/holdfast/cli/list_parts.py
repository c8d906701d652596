"""holdfast list: what there is."""

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.common import JsonOption, answer, out
from holdfast.runtime.errors import unknown


def list_parts(
    kind: Annotated[str | None, typer.Argument(help="encoders, data, profiles, or a kind of part.")] = None,
    json_output: JsonOption = False,
) -> None:
    """List what there is: encoders, data, threats, attacks, certifiers, measures, checks, profiles and more."""
    from holdfast.report.parts import catalogue

    known = catalogue()
    if kind is not None and kind not in known:
        raise unknown("kind", kind, known)
    shown = {kind: known[kind]} if kind else known
    if json_output:
        answer(shown)
        return
    for name, entries in shown.items():
        table = Table("name", "", title=name, title_justify="left", box=None, pad_edge=False, show_header=False)
        for key, line in entries.items():
            table.add_row(Text(key, "bold"), line)
        out.print(table, "")

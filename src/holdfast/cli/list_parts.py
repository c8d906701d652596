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
    """List encoders, data, threats, attacks, certifiers, measures, checks, profiles and more."""
    if kind == "profiles":  # which are read at once, without the parts that they name
        from holdfast.auditing.profile_files import descriptions

        parts = {kind: descriptions()}
    else:
        from holdfast.report.parts import LISTED, catalogue

        if kind is not None and kind not in LISTED:
            raise unknown("kind", kind, LISTED)
        parts = catalogue([kind] if kind else LISTED)
    if json_output:
        answer(parts)
        return
    for name, entries in parts.items():
        table = Table("name", "", title=name, title_justify="left", box=None, pad_edge=False, show_header=False)
        for key, line in entries.items():
            table.add_row(Text(key, "bold"), line)
        out.print(table, "")

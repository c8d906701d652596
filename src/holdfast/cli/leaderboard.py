"""holdfast leaderboard: all audits below a folder on one page."""

from typing import Annotated

import typer
from rich.text import Text

from holdfast.cli.common import (
    AllowOption,
    CorrectionOption,
    JsonOption,
    QuietOption,
    XOption,
    YOption,
    answer,
    listening,
    out,
)


def leaderboard(
    folder: Annotated[str, typer.Argument(help="Folder that contains run folders, at any depth.")],
    out_file: Annotated[str, typer.Option("--out", help="The page.")] = "leaderboard.html",
    correction: CorrectionOption = "holm",
    x: XOption = None,
    y: YOption = None,
    allow: AllowOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a leaderboard: one table per group of comparable audits, ranks with their uncertainty."""
    from holdfast.comparison.leaderboard import leaderboard as read
    from holdfast.report.documents.comparison import scope
    from holdfast.report.leaderboard import render
    from holdfast.report.numbers import plural
    from holdfast.storage.outputs import write_text

    with listening(quiet) as bars:
        bars.stage(f"reading the audits below {folder}")
        data = read(folder, correction=correction, x=x, y=y, allow=allow or ())
        bars.stage("writing the page")
        page = render(data)
    write_text(out_file, page)
    if json_output:
        answer(data)
        return
    # Each group, what is wrong with it, and what is on no table
    for group in data.groups:
        out.print(scope(group), soft_wrap=True, highlight=False)
        for text in group.problems:
            out.print(Text(text, "bold red"), soft_wrap=True, highlight=False)
    for run in data.unreadable:
        out.print(Text(f"not shown: {run.place}: {run.reason}", "yellow"), soft_wrap=True)
    encoders = plural(sum(len(group.encoders) for group in data.groups), "encoder")
    groups = plural(len(data.groups), "group")
    out.print(Text.assemble(f"{encoders} in {groups}: ", (out_file, "bold")), soft_wrap=True)

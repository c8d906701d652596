"""holdfast leaderboard: all audits below a folder on one page."""

from typing import Annotated

import typer

from holdfast.cli.common import (
    AllowOption,
    CorrectionOption,
    JsonOption,
    QuietOption,
    XOption,
    YOption,
    listening,
    show,
)


def leaderboard(
    folder: Annotated[str, typer.Argument(help="Folder that contains run folders, at any depth.")],
    out_file: Annotated[
        str, typer.Option("--out", help="The page; a file of that name is replaced.")
    ] = "leaderboard.html",
    correction: CorrectionOption = "holm",
    x: XOption = None,
    y: YOption = None,
    allow: AllowOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a leaderboard: one table per group of comparable audits, ranks with their uncertainty."""
    from holdfast.comparison.leaderboard import leaderboard as read
    from holdfast.report.documents.leaderboard import document
    from holdfast.report.leaderboard import render
    from holdfast.storage.outputs import write_text

    with listening(quiet) as bars:
        bars.stage(f"reading the audits below {folder}")
        data = read(folder, correction=correction, x=x, y=y, allow=allow or ())
        bars.stage("writing the page")
        page = render(data)
    write_text(out_file, page)
    show(data, json_output, lambda: document(data, out_file))

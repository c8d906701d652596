"""holdfast leaderboard: all audits below a folder on one page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from holdfast.cli.common import AllowOption, QuietOption, answer, listening, out
from holdfast.cli.compare import CorrectionOption, XOption, YOption


def leaderboard(
    folder: Annotated[str, typer.Argument(help="A folder with run folders in it, at any depth.")],
    out_file: Annotated[str, typer.Option("--out", help="The page.")] = "leaderboard.html",
    correction: CorrectionOption = "holm",
    x: XOption = None,
    y: YOption = None,
    allow: AllowOption = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON, and nothing else.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Write a leaderboard: audits that can be compared in one table each, with ranks and their uncertainty."""
    from holdfast.comparison.leaderboard import leaderboard as read
    from holdfast.report.comparison import scope
    from holdfast.report.leaderboard import render
    from holdfast.report.numbers import plural
    from holdfast.storage.filesystem import write_file

    with listening(quiet) as bars:
        bars.stage(f"reading the audits below {folder}")
        data = read(folder, correction=correction, x=x, y=y, allow=allow or ())
        bars.stage("writing the page")
        page = render(data)
    write_file(out_file, lambda path: Path(path).write_text(page, encoding="utf-8"))
    if json_output:
        answer(data)
        return
    for group in data["groups"]:
        out.print(scope(group), soft_wrap=True, highlight=False)
        for text in group["problems"]:
            out.print(Text(text, "bold red"), soft_wrap=True, highlight=False)
    for one in data["unreadable"]:
        out.print(Text(f"not shown: {one['place']}: {one['reason']}", "yellow"), soft_wrap=True)
    shown = plural(sum(len(group["encoders"]) for group in data["groups"]), "encoder")
    groups = plural(len(data["groups"]), "group")
    out.print(Text.assemble(f"{shown} in {groups}: ", (out_file, "bold")), soft_wrap=True)

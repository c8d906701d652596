"""holdfast study: several methods on versions of the data."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.common import QuietOption, answer, command_line, listening, out
from holdfast.runtime.errors import Status
from holdfast.runtime.privacy import public
from holdfast.storage.filesystem import local_folder


def study(
    file: Annotated[Path, typer.Argument(help="A study.toml: methods, versions of the data; see recipes/studies/.")],
    data: Annotated[str | None, typer.Option(help="Images to learn from, instead of the file's.")] = None,
    test: Annotated[str | None, typer.Option(help="Labelled images to test on, instead of the file's.")] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", parser=local_folder, help="Run folder; an interrupted study resumes.")
    ] = Path("holdfast-study"),
    json_output: Annotated[bool, typer.Option("--json", help="Print the record as JSON, and nothing else.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Train several methods on corrupted data, and say what each loses in accuracy."""
    from holdfast.report.study import markdown, print_study, problems
    from holdfast.storage.run_folder import Store
    from holdfast.workflows.study.file import read_study
    from holdfast.workflows.study.run import run_study

    asked = read_study(file, data=data, test=test)
    with listening(quiet) as bars:
        record = run_study(asked, out_folder, listener=bars, command=command_line())
    Store(out_folder).write("study.md", lambda path: path.write_text(public(markdown(record)), encoding="utf-8"))
    if json_output:
        answer(record)
    else:
        print_study(record, out)
        out.print(f"as Markdown: {out_folder / 'study.md'}", soft_wrap=True)
    if problems(record):
        raise typer.Exit(Status.UNMET)

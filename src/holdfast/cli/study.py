"""holdfast study: several methods on versions of the data."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.common import JsonOption, QuietOption, command_line, listening, partly, show_markdown
from holdfast.storage.filesystem import local_folder


def study(
    file: Annotated[Path, typer.Argument(help="A study.toml: methods, versions of the data; see recipes/studies/.")],
    data: Annotated[str | None, typer.Option(help="Images to learn from, instead of the file's.")] = None,
    test: Annotated[str | None, typer.Option(help="Labelled images to test on, instead of the file's.")] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", parser=local_folder, help="Run folder; an interrupted study resumes.")
    ] = Path("holdfast-study"),
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train several methods on corrupted data, and report the accuracy that each loses."""
    from holdfast.report.documents.study import document, problems
    from holdfast.workflows.study.file import read_study
    from holdfast.workflows.study.run import run_study

    plan = read_study(file, data=data, test=test)
    with listening(quiet) as bars:
        record = run_study(plan, out_folder, listener=bars, command=command_line())
    place = out_folder / "study.md"
    show_markdown(record, json_output, document(record.found), place)
    partly(problems(record.found), True)

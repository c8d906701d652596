"""holdfast compare-index: a new encoder instead of the one behind an index."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.common import JsonOption, QuietOption, brief, command_line, listening, remark, show
from holdfast.cli.options import Given, asks
from holdfast.storage.filesystem import local_folder
from holdfast.workflows.compare_index.request import IndexRequest

OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace another comparison in the same folder.")]


@asks(IndexRequest)
def compare_index(
    given: Given,
    out_folder: Annotated[
        Path, typer.Option("--out", parser=local_folder, help="Folder: record, representations, report.")
    ] = Path("holdfast-index"),
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare the encoder behind an index with its successor: neighbours kept, thresholds moved, canaries.

    Exit status 1 where a requirement is not met, or a canary is right with the old encoder and wrong with the new one.
    """
    compare(given, out_folder, overwrite, json_output, quiet)


def compare(given: Given, out_folder: Path, overwrite: bool, json_output: bool, quiet: bool) -> None:
    """Compare two encoders as was asked, and show what was found."""
    from holdfast.report.documents.index_upgrade import document
    from holdfast.report.index_upgrade import publish
    from holdfast.workflows.compare_index.plan import IndexPlan
    from holdfast.workflows.compare_index.run import compare_index as run

    plan = IndexPlan(**given)
    with listening(quiet) as bars:
        say = (lambda text: None) if quiet else remark
        record = run(plan, out_folder, listener=bars, overwrite=overwrite, command=command_line(), say=say)
        bars.stage("writing the report")
        report = publish(out_folder, record)

    show(record, json_output, lambda: document(record, brief(report)))
    if not record.passed:
        raise typer.Exit(record.status)

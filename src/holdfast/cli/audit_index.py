"""holdfast audit-index: one index by itself, of stored vectors."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.common import JsonOption, QuietOption, brief, command_line, listening, show
from holdfast.cli.options import Given, asks
from holdfast.storage.filesystem import local_folder
from holdfast.workflows.audit_index.request import VectorRequest


@asks(VectorRequest)
def audit_index(
    given: Given,
    out_folder: Annotated[Path, typer.Option("--out", parser=local_folder, help="Folder: record, report.")] = Path(
        "holdfast-index-audit"
    ),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another audit in the same folder.")] = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Look at one index of stored vectors: hubs, near-duplicates, directions in use, a threshold.

    Exit status 1 where a requirement is not met.
    """
    # Imported where they are used, so that --help does not wait for torch
    from holdfast.report.documents.index_audit import document
    from holdfast.report.index_audit import publish
    from holdfast.workflows.audit_index.plan import VectorPlan
    from holdfast.workflows.audit_index.run import audit_index as run

    with listening(quiet) as bars:
        record = run(VectorPlan(**given), out_folder, listener=bars, overwrite=overwrite, command=command_line())
        bars.stage("writing the report")
        report = publish(out_folder, record)

    # The record alone with --json, else what it says
    show(record, json_output, lambda: document(record, brief(report)))
    if not record.passed:
        raise typer.Exit(record.status)

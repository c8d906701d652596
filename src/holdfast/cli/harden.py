"""holdfast harden: a training between two audits."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.common import JsonOption, QuietOption, listening, partly, show
from holdfast.cli.options import Given, asks
from holdfast.storage.filesystem import local_folder
from holdfast.workflows.harden.request import HardenRequest


@asks(HardenRequest)
def harden(
    given: Given,
    pace: Annotated[
        Path | None, typer.Option(help="harden.json of an earlier run with a budget: repeat exactly its steps.")
    ] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", parser=local_folder, help="Run folder; an interrupted run resumes.")
    ] = Path("holdfast-harden"),
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make an encoder more robust, without labels, and audit it before and after; torchrun starts several processes."""
    from holdfast.report.documents.hardening import document, has_measurements
    from holdfast.runtime.distributed import leads
    from holdfast.workflows.harden.plan import Hardening, read_pace
    from holdfast.workflows.harden.run import harden as run

    again: dict[str, Any] = {}
    if pace is not None:
        again["steps"], again["pace"] = read_pace(pace)
    with listening(quiet) as bars:
        hardened = run(Hardening(**{**given, **again}), out_folder, listener=bars if leads() else None)
    if hardened is None:  # a process that only helped to train
        return
    record = hardened.record
    show(record, json_output, lambda: document(record))
    partly(record.failures, has_measurements(record))

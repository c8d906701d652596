"""holdfast merge: parts of an audit become its record."""

from typing import Annotated

import typer

from holdfast.cli.common import JsonOption, QuietOption, StrictOption, command_line, listening, tell, write_report
from holdfast.cli.workers import engine_of


def merge(
    folder: Annotated[str, typer.Argument(help="Run folder with the parts, or to collect them in.")],
    others: Annotated[list[str] | None, typer.Argument(help="More folders with parts of the same audit.")] = None,
    complete: Annotated[bool, typer.Option("--complete", help="Compute missing shards.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the record of other weights.")] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run code that the plan in the folder names (py:, trust_remote_code).")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Worker processes that share the scoring.")] = None,
    strict: StrictOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score the shards that `holdfast audit --shard I/N` computed, and write record and report."""
    from holdfast.auditing.merge import merge_parts

    options = {"complete": complete, "overwrite": overwrite, "trust": trust, "engine": engine_of(None, workers, "cpu")}
    with listening(quiet) as bars:
        record = merge_parts(folder, others or (), **options, listener=bars, command=command_line())
        report = write_report(folder, bars)
    tell(record, folder, report, json_output, strict)

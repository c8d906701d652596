"""holdfast report: what a run folder holds."""

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli._common import JsonOption, out


def report(
    folder: Annotated[Path, typer.Argument(help="Run folder of an audit.")], json_output: JsonOption = False
) -> None:
    """Print the summary of a run folder again, and write its report anew."""
    from holdfast.report.html import write_report
    from holdfast.report.terminal import print_record

    written = write_report(folder)
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    if json_output:
        print(json.dumps(record, allow_nan=False))
    else:
        print_record(record, out, written)

"""What the commands share: consoles, options, and how an audit is run and an interrupt met."""

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

out, err = Console(), Console(stderr=True)

OutOption = Annotated[
    str, typer.Option("--out", help="Run folder, or s3://BUCKET/RUN: record, tables, report. A killed audit resumes.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the record as JSON, and nothing else, on stdout.")]
SeedOption = Annotated[int | None, typer.Option(help="The one seed that decides everything. (default: 0)")]


def number(text: str) -> float:
    """Read 0.05 or 4/255."""
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError) as error:
        raise typer.BadParameter(f"expected a number such as 0.05 or 4/255, got {text!r}") from error


def run_plan(plan: Any, folder: str, json_output: bool, overwrite: bool = False, engine: Any = None) -> None:
    """Run an audit, print what it found and write its report; a part that failed ends the command with status 1."""
    from holdfast.audit.run import run_audit
    from holdfast.report.html import publish

    with interruptible() as bars:
        record = run_audit(plan, folder, engine=engine, listener=bars, command=command_line(), overwrite=overwrite)
        bars.stage("writing the report")
        report = publish(folder)
    tell(record, report, json_output)


def tell(record: Any, report: str, json_output: bool) -> None:
    """Print what an audit found; a failure ends the command with status 1."""
    from holdfast.report.terminal import print_record

    if json_output:
        print(json.dumps(record, allow_nan=False))
    else:
        print_record(record, out, report)
    if record["failures"]:
        raise typer.Exit(1)


def foretell(plan: Any, folder: Path | str, seconds: float, json_output: bool, workers: int = 1) -> None:
    """Print what an audit will take; encoders that cannot be opened or run end the command with status 1."""
    from holdfast.audit.expected import as_data
    from holdfast.audit.forecast import forecast
    from holdfast.report.forecast import print_forecast

    with err.status("") as status:
        found = as_data(forecast(plan, folder, seconds=seconds, workers=workers, say=status.update))
    if json_output:
        print(json.dumps(found, allow_nan=False))
    else:
        print_forecast(found, out)
    if any(encoder["error"] for encoder in found["encoders"]):
        raise typer.Exit(1)


@contextmanager
def interruptible() -> Iterator[Any]:
    """Show bars; an interrupt ends the command with status 130."""
    from holdfast.progress import Bars

    try:
        with Bars(err) as bars:
            yield bars
    except KeyboardInterrupt:
        err.print("[bold red]interrupted:[/] what is done is stored; the same command continues", soft_wrap=True)
        raise typer.Exit(130) from None


def command_line() -> str:
    """Return the command that is being run, for records."""
    return shlex.join(["holdfast", *sys.argv[1:]])

"""What the commands share: consoles, options, and how an audit is run and an interrupt met."""

import json
import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from holdfast.errors import Status

out, err = Console(), Console(stderr=True)

STATUSES = (
    "Exit status: 0 done and met; 1 a requirement is not met, or a part failed; 2 wrong usage or an unknown name; "
    "3 nothing could be audited, or a run folder cannot be read or written; 4 a fault of Holdfast; 130 interrupted."
)

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
    """Run an audit, print what it found and write its report; the status is that of `tell`."""
    from holdfast.audit.run import run_audit
    from holdfast.report.html import publish

    with interruptible() as bars:
        record = run_audit(plan, folder, engine=engine, listener=bars, command=command_line(), overwrite=overwrite)
        bars.stage("writing the report")
        report = publish(folder)
    tell(record, report, json_output)


def tell(record: Any, report: str, json_output: bool) -> None:
    """Print what an audit found; where a part failed, the command ends with the status of `partly`."""
    from holdfast.report.terminal import print_record

    if json_output:
        print(json.dumps(record, allow_nan=False))
    else:
        print_record(record, out, report)
    answers = [row.get("measures", {}).values() for row in record["encoders"]]
    partly(record["failures"], any(one["scores"] or one["not_certified"] for row in answers for one in row))


def partly(failures: Collection[object], any_answer: bool) -> None:
    """End a command in which parts failed: with status 1 where others gave an answer, with 3 where none did."""
    if failures:
        raise typer.Exit(Status.UNMET if any_answer else Status.NOTHING)


def foretell(plan: Any, folder: Path | str, seconds: float, json_output: bool, workers: int = 1) -> None:
    """Print what an audit will take; encoders that cannot be opened or run end the command as `partly` says."""
    from holdfast.audit.expected import as_data
    from holdfast.audit.forecast import forecast
    from holdfast.report.forecast import print_forecast

    with err.status("") as status:
        found = as_data(forecast(plan, folder, seconds=seconds, workers=workers, say=status.update))
    if json_output:
        print(json.dumps(found, allow_nan=False))
    else:
        print_forecast(found, out)
    broken = [encoder["error"] for encoder in found["encoders"] if encoder["error"]]
    partly(broken, len(broken) < len(found["encoders"]))


@contextmanager
def interruptible() -> Iterator[Any]:
    """Show bars."""
    from holdfast.progress import Bars

    with Bars(err) as bars:
        yield bars


def command_line() -> str:
    """Return the command that is being run, for records."""
    return shlex.join(["holdfast", *sys.argv[1:]])

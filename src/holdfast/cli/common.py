"""What the commands share: consoles, options, and how an audit is run and an interrupt met."""

import json
import os
import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperCommand

from holdfast.runtime.checked import LARGEST
from holdfast.runtime.checked import number as read_number
from holdfast.runtime.console import Screen
from holdfast.runtime.errors import HoldfastError, Status, first_line
from holdfast.runtime.foreign import foreign
from holdfast.runtime.privacy import brief, concealed, public
from holdfast.storage.standing import failed_checks

out, err = Screen(), Screen(stderr=True)
"""What the commands print on: answers, and everything else. Nothing else of Holdfast prints."""

STATUSES = (
    "Exit status: 0 done and met; 1 a requirement is not met, or a part failed; 2 wrong usage or an unknown name; "
    "3 nothing could be audited, or a run folder cannot be read or written; 4 a fault of Holdfast; 130 interrupted."
)

OutOption = Annotated[
    str, typer.Option("--out", help="Run folder, or s3://BUCKET/RUN: record, tables, report. A killed audit resumes.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the record as JSON, and nothing else, on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr while at work.")]
AllowOption = Annotated[
    list[str] | None, typer.Option("--allow", metavar="CHECK", help="Take numbers as they are though this check fails.")
]
StrictOption = Annotated[bool, typer.Option("--strict", help="End with status 1 where a validity check fails.")]
SeedOption = Annotated[
    int | None, typer.Option(min=0, max=LARGEST, help="The one seed that decides everything. (default: 0)")
]


class Command(TyperCommand):
    """A command whose stdout is its answer: what other code prints, encoders and data sets too, goes to stderr."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with answering(), foreign("code that this command called", "run"):
            return super().invoke(ctx)


@contextmanager
def answering() -> Iterator[None]:
    """Keep stdout for `out`; prints of other code go to stderr, also below Python and in processes that it starts."""
    real, low = sys.stdout, None
    with suppress(OSError, ValueError, AttributeError):
        if real.fileno() == 1 and sys.stderr.fileno() == 2:
            real.flush()
            low = os.dup(1)
            os.dup2(2, 1)
    answers = real if low is None else os.fdopen(low, "w", encoding=real.encoding, errors=real.errors, closefd=False)
    out.point(answers)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = real
        with suppress(OSError):  # whoever read the answer has gone
            answers.flush()
        out.point(None)
        if low is not None:
            os.dup2(low, 1)
            os.close(low)


def answer(data: Any) -> None:
    """Print an answer as JSON on stdout."""
    out.file.write(concealed(json.dumps(data, allow_nan=False)) + "\n")


def warned(strong: str, text: str = "") -> None:
    """Print a line on stderr, whose beginning stands out."""
    said = Text.assemble((brief(strong), "bold red"), f" {brief(text)}" if text else "")
    err.print(said, soft_wrap=True, highlight=False)


def number(text: str | float) -> float:
    """Read 0.05 or 4/255; typer hands over defaults too, which are numbers already."""
    try:
        return read_number(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def run_plan(
    plan: Any,
    folder: str,
    json_output: bool,
    overwrite: bool = False,
    engine: Any = None,
    quiet: bool = False,
    strict: bool = False,
) -> None:
    """Run an audit, print what it found and write its report; the status is that of `tell`."""
    from holdfast.auditing.run import run_audit

    with listening(quiet) as bars:
        record = run_audit(plan, folder, engine=engine, listener=bars, command=command_line(), overwrite=overwrite)
        bars.stage("writing the report")
        report = drawn(folder)
    tell(record, report, json_output, folder, strict)


def drawn(folder: str) -> str | None:
    """Write the report of a record that is written, and return where it is; None, and a word, where it cannot be."""
    from holdfast.report.html import publish

    try:
        return publish(folder)
    except Exception as error:
        _undrawn("the report", error, folder)
        return None


def tell(record: Any, report: str | None, json_output: bool, folder: str = "", strict: bool = False) -> None:
    """Print what an audit found; where a part failed, the command ends with the status of `partly`.

    Strictly, a failed check ends it with status 1, unless the audit allows it.
    """
    from holdfast.report.terminal import print_record

    if json_output:
        answer(record)
    else:
        try:
            print_record(record, out, None if report is None else brief(report))
        except BrokenPipeError:
            raise
        except Exception as error:
            _undrawn("the table", error, folder)
    answers = [row.get("measures", {}).values() for row in record["encoders"]]
    partly(record["failures"], any(one["scores"] or one["not_certified"] for row in answers for one in row))
    if strict and (failed := list(failed_checks(record))):
        for encoder, check in failed:
            warned(f"{encoder}: the check {check} failed")
        raise typer.Exit(Status.UNMET)


def _undrawn(what: str, error: Exception, folder: str) -> None:
    """Say that something could not be drawn, of a record that is written all the same."""
    said = str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {first_line(error)}"
    warned(f"{what} could not be drawn:", f"{said}; the record is written: {folder}/record.json")


def partly(failures: Collection[object], any_answer: bool) -> None:
    """End a command in which parts failed: with status 1 where others gave an answer, with 3 where none did."""
    if failures:
        raise typer.Exit(Status.UNMET if any_answer else Status.NOTHING)


@contextmanager
def listening(quiet: bool) -> Iterator[Any]:
    """Show bars on a terminal and lines in a log, or nothing."""
    from holdfast.runtime.progress import Bars

    with Bars(err, quiet) as bars:
        yield bars


def command_line() -> str:
    """Return the command that is being run, for records."""
    return public(shlex.join(["holdfast", *sys.argv[1:]]))

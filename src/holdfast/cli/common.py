"""What the commands share: consoles, options, and how an audit is run and an interrupt met."""

import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.text import Text
from typer.core import TyperCommand

from holdfast.cli import completion
from holdfast.cli.options import of_audit
from holdfast.runtime.doors import real
from holdfast.runtime.errors import Unwritable, describe_error
from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.foreign import foreign
from holdfast.runtime.option import set_signature
from holdfast.runtime.privacy import brief, public, public_command, redact_secrets
from holdfast.runtime.screen import Screen
from holdfast.runtime.streams import answering

if TYPE_CHECKING:  # the command line begins without what is shown
    from holdfast.report.document import Document

out, err = Screen(), Screen(stderr=True)
"""What the commands print on: answers, and everything else. Nothing else of Holdfast prints."""


LONG = 2.0
"""Seconds after which something that is mostly done at once shows how far it is."""

REPORT_EVERY = 10.0
"""Seconds between the reports of rounds: sooner, drawing one takes as long as the round that replaces it."""


PartsOption = Annotated[
    list[Path] | None,
    typer.Option("--parts", help="Python file with parts of your own, run here and in workers; repeatable."),
]
OutOption = Annotated[
    str, typer.Option("--out", help="Run folder, or s3://BUCKET/RUN: record, tables, report. A killed audit resumes.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print no progress on stderr.")]
AllowOption = Annotated[list[str] | None, of_audit("allow")]
StrictOption = Annotated[bool, typer.Option("--strict", help="Exit with status 1 if a validity check fails.")]
SeedOption = Annotated[int | None, of_audit("seed")]
DeviceOption = Annotated[str | None, of_audit("device")]
EpsOption = Annotated[float | None, of_audit("eps")]
CorrectionOption = Annotated[
    str,
    typer.Option(
        autocompletion=completion.offer_words(*completion.CORRECTIONS),
        help="Correction for multiple comparisons: holm, bh or none.",
    ),
]
GroupsOption = Annotated[
    str | None,
    typer.Option(
        help="Compare methods of several seeds each: NAME=GLOB of encoders or run folders, several separated by "
        "commas, such as 'simclr=simclr-*,byol=byol-*'."
    ),
]
XOption = Annotated[
    str | None,
    typer.Option(
        "--x",
        autocompletion=completion.of_kind("measures"),
        help="Measure on the horizontal axis. (default: clean kNN accuracy)",
    ),
]
YOption = Annotated[
    str | None,
    typer.Option(
        "--y",
        autocompletion=completion.of_kind("measures"),
        help="Measure on the vertical axis. (default: a measure of robustness)",
    ),
]


def with_parts(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that takes `--parts` as well, as `holdfast` does before the command."""

    @wraps(command)
    def run(*arguments: Any, parts: list[Path] | None = None, **named: Any) -> Any:
        run_parts(parts or ())
        return command(*arguments, **named)

    signature = inspect.signature(command)
    option = inspect.Parameter("parts", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=PartsOption)
    set_signature(run, signature.replace(parameters=[*signature.parameters.values(), option]))
    return run


def run_parts(paths: Sequence[Path]) -> None:
    """Run files of parts, beside those that `HOLDFAST_PARTS` names; an error in one comes before anything else."""
    if paths:
        from holdfast.core import registry

        own = [real(path.expanduser()) for path in paths]
        for path in own:
            registry.load(path)
        os.environ[registry.OWN] = os.pathsep.join(filter(None, [os.environ.get(registry.OWN, ""), *map(str, own)]))
        registry.forget()
        registry.names("measures")


class Command(TyperCommand):
    """A command whose stdout is its answer: what other code prints, encoders and data sets too, goes to stderr."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with answering(out.point), foreign("code that this command called", "run"):
            return super().invoke(ctx)


def answer(data: Any) -> None:
    """Print an answer as JSON on stdout."""
    from holdfast.storage.entry import as_json

    out.file.write(redact_secrets(json.dumps(as_json(data), allow_nan=False)) + "\n")


def show(data: Any, json_output: bool, document: Callable[[], "Document"]) -> None:
    """Print an answer: as JSON where that is wanted, else as the document that says it."""
    from holdfast.report.render import print_document

    if json_output:
        answer(data)
    else:
        print_document(document(), out)


def show_markdown(record: Any, json_output: bool, document: "Document", place: Path) -> None:
    """Write a document as Markdown into its run folder, and print it, with the place of the Markdown."""
    from holdfast.report.document import ToCopy
    from holdfast.report.render import to_markdown
    from holdfast.storage.run_folder import Store

    Store(place.parent).write_text(place.name, to_markdown(document, public))
    show(record, json_output, lambda: [*document, ToCopy({"as Markdown": str(place)})])


def warn(strong: str, text: str = "") -> None:
    """Print a line on stderr, whose beginning stands out."""
    line = Text.assemble((brief(strong), "bold red"), f" {brief(text)}" if text else "")
    err.print(line, soft_wrap=True, highlight=False)


def remark(line: str) -> None:
    """Print what people should know beside the answer."""
    err.print(brief(line), soft_wrap=True, highlight=False)


def run_plan(
    plan: Any,
    folder: str,
    json_output: bool,
    overwrite: bool = False,
    engine: Any = None,
    quiet: bool = False,
    strict: bool = False,
    request: Any = None,
) -> None:
    """Run an audit, say what each round answers, write its report, and print its record, see `tell`.

    A `request` leaves a receipt: by it `standing_answer` knows the record again.
    """
    from holdfast.auditing.execute import INLINE
    from holdfast.auditing.prepare import prepare
    from holdfast.auditing.rounds import run_rounds
    from holdfast.auditing.services import foresee_audit

    drawn, engine = time.monotonic(), engine or INLINE
    record: Any = None
    with listening(quiet) as bars:
        audit = prepare(plan, folder, overwrite=overwrite, engine=engine, listener=bars)
        for line in () if quiet else map(str, foresee_audit(audit)):
            remark(line)
        records = run_rounds(audit, engine, command_line())
        for record in records:
            try:
                drawn = _show_round(record, folder, drawn, quiet)
            except KeyboardInterrupt as stop:
                record = records.throw(stop)  # which ends the audit with what is there
        report = write_report(folder, bars)
        if report.place is not None and request is not None:
            with _drawing("the receipt", folder, "written"):
                from holdfast.auditing.inputs import leave_receipt

                with patiently("hashing the inputs, for the receipt", quiet) as heard:
                    leave_receipt(audit, record, request, heard)
    tell(record, folder, report, json_output, strict)


def _show_round(record: Any, folder: str, drawn: float, quiet: bool) -> float:
    """Say what a round answers, and write its report unless one was drawn just now; return when the last one was."""
    from holdfast.auditing.rounds import complete, is_last

    if is_last(record):  # its report is written when all is over
        return drawn
    if not complete(record) and time.monotonic() - drawn >= REPORT_EVERY:
        drawn = time.monotonic()
        with _drawing("the report", folder):
            from holdfast.report.html import publish  # brings matplotlib: after the first image, not before it

            publish(folder)
    if not quiet:
        from holdfast.report.documents.audit import round_lines

        for line in round_lines(record):
            remark(line)
    return drawn


class Report(NamedTuple):
    """The report of a record.

    Attributes:
        place: where it is; None: it could not be drawn.
        refused: whether the disk has refused it.
    """

    place: str | None
    refused: bool = False


def write_report(folder: str, bars: Any) -> Report:
    """Write the report of the record in a folder; one that cannot be drawn is a warning, for the record is written."""
    bars.stage("writing the report")
    place = None
    with _drawing("the report", folder) as problems:
        from holdfast.report.html import publish  # brings matplotlib: after the first image, not before it

        place = publish(folder)
    return Report(place, any(isinstance(problem, Unwritable) for problem in problems))


def standing_answer(request: Any, folder: str, json_output: bool, quiet: bool, strict: bool) -> bool:
    """Print the record that answers a request, if the folder holds it and nothing that it depends on has changed."""
    from holdfast.storage.filesystem import Folder
    from holdfast.storage.receipt import standing
    from holdfast.storage.record_file import REPORT

    with patiently("comparing the files with the receipt", quiet) as heard:
        record = standing(place := Folder(folder), request, heard)
    if record is None:
        return False
    if not quiet:
        err.print(f"nothing has changed since {record.run.finished}: the record stands", soft_wrap=True)
    tell(record, folder, Report(place.format_path(REPORT)), json_output, strict)
    return True


def tell(record: Any, folder: str, report: Report, json_output: bool, strict: bool) -> None:
    """Print a record; where a part failed, `partly` ends the command.

    Strictly, a failed check ends it with status 1, unless the audit allows it; a report that the disk refuses with 3.
    """
    from holdfast.core.doubts import say_failed
    from holdfast.storage.record_file import LOG
    from holdfast.storage.standing import base, find_failed_checks

    if json_output:
        answer(record)
    else:
        with _drawing("the table", folder):
            from holdfast.report.documents.audit import document
            from holdfast.report.render import print_document

            print_document(document(record, brief(report.place) if report.place else None), out)
    if record.failures and (log := Path(folder, LOG)).is_file():
        warn("tracebacks:", str(log))
    # The status: an interrupt, then what could not be measured, then the checks
    if record.run.rounds is not None and record.run.rounds.ended == "interrupted":
        raise typer.Exit(ExitStatus.INTERRUPTED)
    measures = [entry for encoder in record.encoders for entry in encoder.measures.values()]
    partly(record.failures, any(entry.scores or entry.not_certified for entry in measures))
    if strict and (failed := list(find_failed_checks(record))):
        for encoder, check in failed:
            warn(f"{encoder}: {say_failed([check])}; --allow {base(check)} accepts it")
        raise typer.Exit(ExitStatus.UNMET)
    if report.refused:
        raise typer.Exit(ExitStatus.NOTHING)


@contextmanager
def _drawing(title: str, folder: str, done: str = "drawn") -> Iterator[list[Exception]]:
    """Warn of what could not be drawn, or done otherwise, of a record that is written all the same; give why not."""
    problems: list[Exception] = []
    try:
        yield problems
    except BrokenPipeError:
        raise
    except Exception as error:
        problems.append(error)
        warn(f"{title} could not be {done}:", f"{describe_error(error)}; the record is written: {folder}/record.json")


def partly(failures: Collection[object], any_answer: bool) -> None:
    """End a command in which parts failed: with status 1 where others gave an answer, with 3 where none did."""
    if failures:
        raise typer.Exit(ExitStatus.UNMET if any_answer else ExitStatus.NOTHING)


@contextmanager
def patiently(title: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Give what is told how much is done, and of how much; what takes longer than `LONG` has a bar.

    What draws it is imported then: mostly nothing takes so long.
    """
    began, bars, before = time.monotonic(), None, 0

    def update_bar(done: int, total: int) -> None:
        nonlocal bars, before
        if bars is None and not quiet and time.monotonic() - began >= LONG:
            bars = drawn.enter_context(listening(quiet))
            bars.begin(title, total)
        if bars is not None:
            bars.advance(done - before)
            before = done

    with ExitStack() as drawn:
        yield update_bar


@contextmanager
def listening(quiet: bool) -> Iterator[Any]:
    """Show bars on a terminal and lines in a log, or nothing."""
    from holdfast.runtime.progress import Bars

    with Bars(err, quiet) as bars:
        yield bars


def command_line() -> str:
    """Return the command that is being run, for records."""
    return public_command(["holdfast", *sys.argv[1:]])

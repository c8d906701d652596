"""holdfast check: a run held against requirements, and against an earlier run."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.common import AllowOption, JsonOption, err, listening, out, show
from holdfast.cli.options import number
from holdfast.runtime.doors import read_list, real
from holdfast.runtime.errors import BadData, os_reason
from holdfast.runtime.exit_status import ExitStatus

if TYPE_CHECKING:  # the command line begins without what reads records
    from holdfast.storage.gate import Gate

DROP = "allow-drop "
"""How a line of a file begins that says what may be lost."""


def check(
    folder: Annotated[str, typer.Argument(help="Run folder of an audit: a path or a URL.")],
    require: Annotated[
        list[str] | None,
        typer.Option(
            help="MEASURE[.SCORE][.value|low|high|n] OP NUMBER[%], or checks.NAME == pass; without a field the end of "
            "the interval that must hold: high for <, low for >. All of several must be met."
        ),
    ] = None,
    require_file: Annotated[
        Path | None,
        typer.Option(
            help="A text file with one requirement per line, or allow-drop MEASURE AMOUNT; # starts a comment."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Run folder of an earlier audit; nothing may be shown to be worse than there.")
    ] = None,
    allow_drop: Annotated[
        list[str] | None,
        typer.Option(
            help="[MEASURE[.SCORE]] 5%|5% relative|5 points|0.02|1/255: how much worse than the baseline it may be. "
            "For shares 5% means percentage points. An amount without a measure applies to all headlines. "
            "(default: all headlines, 0)"
        ),
    ] = None,
    match: Annotated[
        list[str] | None, typer.Option(help="NEW=OLD: compare this encoder of the run with that one of the baseline.")
    ] = None,
    canaries: Annotated[
        Path | None,
        typer.Option(help="CSV file of pairs by image id: first,second,together or first,second,apart."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(parser=number, help="Share of false positives at which canaries are judged. (default: 0.001)"),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            parser=number, help="The baseline's threshold instead of --rate: a distance, or for dot an inner product."
        ),
    ] = None,
    divergence: Annotated[
        str | None, typer.Option(help="Distance of representations for --canaries and overlap@10: l2, cosine, dot, ...")
    ] = None,
    encoder: Annotated[list[str] | None, typer.Option(help="Encoders to check. (default: all)")] = None,
    allow: AllowOption = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with status 1 also if the data cannot tell whether something is worse."),
    ] = False,
    junit: Annotated[str | None, typer.Option(help="Write JUnit XML with one test case per verdict.")] = None,
    summary: Annotated[
        Path | None, typer.Option(help="Write a Markdown summary; appends if the file is $GITHUB_STEP_SUMMARY.")
    ] = None,
    annotate: Annotated[
        bool, typer.Option("--annotate", help="Print GitHub workflow commands for everything that fails.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Check a run against requirements or an earlier run: status 0 if all hold, 1 if one does not."""
    from holdfast.comparison.records import open_run
    from holdfast.report.annotations import annotations
    from holdfast.report.document import Verbatim
    from holdfast.report.documents.gate import document
    from holdfast.report.render import print_document
    from holdfast.storage.standing import refuse_unknown
    from holdfast.workflows.gate import hold
    from holdfast.workflows.index_gate import IndexQuestions

    lines = _lines(require_file) if require_file else []
    drops = [*(allow_drop or []), *(line.removeprefix(DROP).strip() for line in lines if line.startswith(DROP))]
    requirements = [*(require or []), *(line for line in lines if not line.startswith(DROP))]
    run = open_run(folder, allow=allow or ())
    before = None if baseline is None else open_run(baseline, allow=allow or ())
    refuse_unknown(allow or (), [known.record for known in (run, before) if known])
    index = IndexQuestions(None if canaries is None else str(canaries), rate, threshold, divergence)
    with listening(json_output) as bars:
        data = hold(
            run,
            requirements,
            before,
            allow_drop=drops,
            match=match or (),
            encoders=encoder or [],
            strict=strict,
            index=index,
            listener=bars,
        )
    show(data, json_output, lambda: document(data))
    if annotate:
        print_document([Verbatim(command) for command in annotations(data)], err if json_output else out)
    _write(data, junit, summary)
    if not data.passed:
        raise typer.Exit(ExitStatus.UNMET)


def _write(data: "Gate", junit_file: str | None, summary: Path | None) -> None:
    """Write what other programs show."""
    from holdfast.report.documents.gate import summarise
    from holdfast.report.junit import junit
    from holdfast.report.render import to_markdown
    from holdfast.storage.outputs import append_text, write_text

    if junit_file is not None:
        write_text(junit_file, junit(data))
    if summary is None:
        return
    shared = os.environ.get("GITHUB_STEP_SUMMARY")
    if not shared or real(summary) != real(shared):
        write_text(str(summary), to_markdown(summarise(data)))
        return
    append_text(str(summary), to_markdown(summarise(data)))  # other steps of the job have written before


def _lines(path: Path) -> list[str]:
    """Return the requirements in a file."""
    try:
        lines = read_list(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(f"cannot read the requirements {str(path)!r}: {os_reason(error)}; give a text file") from error
    if not (requirements := [text for line in lines if (text := line.partition("#")[0].strip())]):
        raise BadData(f"expected requirements in {str(path)!r}, one in each line, got none")
    return requirements

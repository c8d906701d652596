"""holdfast check: a run held against requirements."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.common import AllowOption, answer, out
from holdfast.runtime.errors import HoldfastError, Status, os_reason
from holdfast.storage.filesystem import Folder


def check(
    folder: Annotated[str, typer.Argument(help="Run folder of an audit: a path or a URL.")],
    require: Annotated[
        list[str] | None,
        typer.Option(
            help="MEASURE[.SCORE][.value|low|high|n] OP NUMBER[%], or checks.NAME == pass; without a field the end of "
            "the interval that must hold: high for <, low for >. Several are all asked."
        ),
    ] = None,
    require_file: Annotated[
        Path | None, typer.Option(help="A text file with one requirement in each line; # begins a comment.")
    ] = None,
    encoder: Annotated[list[str] | None, typer.Option(help="Which encoders must meet them. (default: all)")] = None,
    allow: AllowOption = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the findings as JSON, and nothing else.")] = False,
) -> None:
    """Hold a run against requirements: status 0 where all are met, 1 where one is not; see below for others."""
    from holdfast.config.requirements import judge
    from holdfast.report.gate import as_data, print_findings
    from holdfast.storage.standing import allowing, refuse_unknown

    asked = [*(require or []), *(_lines(require_file) if require_file else [])]
    record = _record(folder)
    refuse_unknown(allow or (), [record])
    findings = judge(allowing(record, allow or ()), asked, encoder or [])
    if json_output:
        answer({"record": folder, **as_data(findings)})
    else:
        print_findings(findings, out)
    if not all(finding.met for finding in findings):
        raise typer.Exit(Status.UNMET)


def _record(place: str) -> dict[str, Any]:
    """Return the record of a run folder, wherever it is."""
    from holdfast.storage.record_file import read_record

    return read_record(Folder(place), place)


def _lines(path: Path) -> list[str]:
    """Return the requirements in a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(
            f"cannot read the requirements {str(path)!r}: {os_reason(error)}; give a text file"
        ) from error
    if not (asked := [text for line in lines if (text := line.partition("#")[0].strip())]):
        raise HoldfastError(f"expected requirements in {str(path)!r}, one in each line, got none")
    return asked

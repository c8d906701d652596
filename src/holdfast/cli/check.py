"""holdfast check: a run held against requirements."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.common import AllowOption, JsonOption, out, show
from holdfast.runtime.errors import HoldfastError, os_reason
from holdfast.runtime.exit_status import ExitStatus
from holdfast.storage.filesystem import Folder


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
        Path | None, typer.Option(help="A text file with one requirement in each line; # begins a comment.")
    ] = None,
    encoder: Annotated[list[str] | None, typer.Option(help="Which encoders must meet them. (default: all)")] = None,
    allow: AllowOption = None,
    json_output: JsonOption = False,
) -> None:
    """Hold a run against requirements: status 0 where all are met, 1 where one is not; see below for others."""
    from holdfast.config.requirements import judge
    from holdfast.report.gate import as_data, print_findings
    from holdfast.storage.record_file import read_record
    from holdfast.storage.standing import allowing, refuse_unknown

    requirements = [*(require or []), *(_lines(require_file) if require_file else [])]
    record = read_record(Folder(folder), folder)
    refuse_unknown(allow or (), [record])
    findings = judge(allowing(record, allow or ()), requirements, encoder or [])
    show({"record": folder, **as_data(findings)}, json_output, lambda: print_findings(findings, out))
    if not all(finding.met for finding in findings):
        raise typer.Exit(ExitStatus.UNMET)


def _lines(path: Path) -> list[str]:
    """Return the requirements in a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(
            f"cannot read the requirements {str(path)!r}: {os_reason(error)}; give a text file"
        ) from error
    if not (requirements := [text for line in lines if (text := line.partition("#")[0].strip())]):
        raise HoldfastError(f"expected requirements in {str(path)!r}, one in each line, got none")
    return requirements

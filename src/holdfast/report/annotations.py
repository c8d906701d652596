"""What the gate found as GitHub workflow commands, which appear beside a pull request."""

from collections.abc import Iterator

from holdfast.report.documents.gate import actually, holds, statement, title
from holdfast.storage.gate import Gate


def annotations(data: Gate) -> Iterator[str]:
    """Yield a command for each requirement that is not met and each verdict that does not hold.

    What cannot be told is a warning, or an error under --strict.

    Source: GitHub, "Workflow commands for GitHub Actions"; what is escaped follows its toolkit's command.ts.
    """
    for finding in data.findings:
        if not finding.met:
            message = f"{finding.encoder}: {finding.compared}: {actually(finding)}"
            yield _command("error", f"not met: {finding.requirement}", message)
    for row in data.regression.verdicts if data.regression else ():
        if not holds(row):
            level = "warning" if holds(row) is None and not data.strict else "error"
            yield _command(level, f"{row.verdict}: {title(row)}", statement(row))


def _command(level: str, heading: str, message: str) -> str:
    heading = _escape(heading).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={heading}::{_escape(message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

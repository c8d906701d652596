"""holdfast doctor: what is installed."""

from holdfast.cli.common import JsonOption, partly, show


def doctor(json_output: JsonOption = False) -> None:
    """Show what is installed and what works; the last line says ready, or what to type."""
    from holdfast.report.documents.diagnosis import document
    from holdfast.sources.encoders import advise
    from holdfast.sources.encoders import doctor as examine

    findings = examine()
    data = [dict(zip(("name", "status", "detail"), finding, strict=True)) for finding in findings]
    show(data, json_output, lambda: document(findings, *advise(findings)))
    partly([name for name, status, _ in findings if status == "broken"], True)

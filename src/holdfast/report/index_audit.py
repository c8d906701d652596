"""One index by itself, as a page that opens offline."""

from pathlib import Path

from holdfast.report.documents.gate import write_out
from holdfast.report.documents.index_audit import name_found, sentences, tabulate
from holdfast.report.page import page
from holdfast.storage.filesystem import Folder
from holdfast.storage.index_audit import IndexAudit
from holdfast.storage.outputs import write_inside

REPORT = "report.html"

NAMED = 10
"""Hubs, pairs and groups of copies on the page."""


def publish(place: Path | str, record: IndexAudit) -> str:
    """Write `report.html` into a run folder, and return where it is; the file loads nothing."""
    text = page(
        "index_audit.html",
        record=record,
        sentences=sentences(record),
        findings=list(map(write_out, record.findings)),
        table=tabulate(record),
        named=name_found(record, NAMED),
    )
    return write_inside(Folder(place), REPORT, text)

"""One index by itself, as a page that opens offline."""

from pathlib import Path

from markupsafe import Markup

from holdfast.report.documents.index_audit import document
from holdfast.report.page import page
from holdfast.report.render import to_html
from holdfast.storage.filesystem import Folder
from holdfast.storage.index_audit import IndexAudit
from holdfast.storage.outputs import write_inside

REPORT = "report.html"

NAMED = 10
"""Hubs, pairs and groups of copies on the page."""


def publish(place: Path | str, record: IndexAudit) -> str:
    """Write `report.html` into a run folder, and return where it is; the file loads nothing."""
    # every text of a document is escaped
    shown = Markup(to_html(document(record, named=NAMED)))
    return write_inside(Folder(place), REPORT, page("index_audit.html", record=record, shown=shown))

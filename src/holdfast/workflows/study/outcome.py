"""What a study found: JSON data that prints its tables and draws itself in a notebook."""

from typing import Any

from holdfast.report.document import Document
from holdfast.report.documents.study import document
from holdfast.report.render import Shown
from holdfast.storage import study as stored
from holdfast.storage.entry import as_json


class StudyRecord(Shown, dict[str, Any]):
    """What `study.json` holds: the study, and a row for each method, probe and setting.

    Args:
        found: what the study found.

    Attributes:
        found: the same, typed.
    """

    def __init__(self, found: stored.StudyRecord):
        super().__init__(as_json(found))
        self.found = found

    def _document(self) -> Document:
        return document(self.found)

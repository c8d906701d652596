"""What a study found: JSON data that prints its tables and draws itself in a notebook."""

import io
from typing import Any

from holdfast.report.notebook import study_html
from holdfast.report.study import print_study
from holdfast.runtime.console import Screen
from holdfast.storage import study as stored
from holdfast.storage.entry import as_json


class StudyRecord(dict[str, Any]):
    """What `study.json` holds: the study, and a row for each method, probe and setting.

    Args:
        found: what the study found.

    Attributes:
        found: the same, typed.
    """

    def __init__(self, found: stored.StudyRecord):
        super().__init__(as_json(found))
        self.found = found

    def __str__(self) -> str:
        out = io.StringIO()
        print_study(self.found, Screen(file=out, width=110, force_jupyter=False))
        return out.getvalue().rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return study_html(self.found)

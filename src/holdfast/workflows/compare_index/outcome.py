"""What the comparison of two encoders of an index found: JSON data that prints itself."""

import io
from typing import Any

from holdfast.report.index_upgrade import print_upgrade
from holdfast.report.notebook import upgrade_html
from holdfast.runtime.console import Screen


class IndexRecord(dict[str, Any]):
    """What `index.json` holds; see `holdfast.workflows.compare_index.run.compare_index`."""

    def __str__(self) -> str:
        out = io.StringIO()
        print_upgrade(self, Screen(file=out, width=110, force_jupyter=False))
        return out.getvalue().rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return upgrade_html(self)

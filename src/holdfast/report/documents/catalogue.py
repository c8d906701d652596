"""What can be named, kind by kind: each name with what is said of it."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from holdfast.report.document import Block, Document, Heading
from holdfast.report.table import Table


def document(kinds: Mapping[str, Sequence[Sequence[str]]]) -> Document:
    """Return a list for each kind, in rows that begin with a name."""
    shown: list[Block] = []
    for kind, rows in kinds.items():
        cells = [[Text(name, "bold"), *words] for name, *words in rows]
        columns = range(max(map(len, cells), default=0))
        shown += [Heading(kind), Table([""] * len(columns), cells, words=columns)]
    return shown

"""A leaderboard outside its page: what each group compares, what is wrong with it, and what is on no table."""

from rich.text import Text

from holdfast.report.document import Block, Document, ToCopy
from holdfast.report.documents.comparison import scope
from holdfast.report.numbers import plural
from holdfast.storage.comparison import Leaderboard


def document(data: Leaderboard, page: str) -> Document:
    """Return the groups, what could not be read, and where the page is."""
    shown: list[Block] = []
    for group in data.groups:
        shown += [Text(scope(group)), *(Text(problem, "bold red") for problem in group.problems)]
    shown += [Text(f"not shown: {run.place}: {run.reason}", "yellow") for run in data.unreadable]
    encoders = plural(sum(len(group.encoders) for group in data.groups), "encoder")
    return [*shown, ToCopy({f"{encoders} in {plural(len(data.groups), 'group')}": page})]

"""One image against others: what is proved, what was found, and what lies between."""

from collections.abc import Sequence

from rich.text import Text

from holdfast.report.document import Document, ToCopy
from holdfast.report.pair_sentences import COLOURS, cells, head, headline, sentences
from holdfast.report.table import Table
from holdfast.storage.certified_pair import CertifiedPair, FailedPair


def document(answer: CertifiedPair, report: str | None = None) -> Document:
    """Return what is known of a pair.

    Args:
        answer: what is known.
        report: where its page is; not said where None.
    """
    # The answer stands out, what limits it follows
    first, *rest = sentences(answer)
    rows = [[one.name, *cells(one, answer.box)] for one in answer.against]
    table = Table(["against", *head(answer)], [[Text(cell, COLOURS.get(cell, "")) for cell in row] for row in rows])
    shown = [Text(first, "bold"), *map(Text, rest), table]
    return shown if report is None else [*shown, ToCopy({"Report": report})]


def in_a_line(answer: CertifiedPair | FailedPair) -> Text:
    """Return what is known of a pair of a list."""
    if isinstance(answer, FailedPair):
        return Text(f"{answer.image} against {', '.join(answer.against)}: {answer.error}", "red")
    # The colour is that of the worst that is known of it
    return Text(headline(answer), _worst(list(answer.verdicts.values())))


def _worst(verdicts: Sequence[str]) -> str:
    return "red" if "broken" in verdicts else "yellow" if "undecided" in verdicts else ""

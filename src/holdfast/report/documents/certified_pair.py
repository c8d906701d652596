"""One image against others: what is proved, what was found, and what lies between."""

from rich.text import Text

from holdfast.report.document import Document, ToCopy, Verbatim
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


def line(answer: CertifiedPair | FailedPair) -> Document:
    """Return what is known of a pair of a list, on a line that is not broken."""
    if isinstance(answer, FailedPair):
        return [Verbatim(f"{answer.image} against {', '.join(answer.against)}: {answer.error}")]
    return [Verbatim(headline(answer))]

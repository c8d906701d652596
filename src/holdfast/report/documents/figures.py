"""The figures that were written for a paper: what each shows, and where it is."""

from collections.abc import Sequence

from rich.text import Text

from holdfast.report.document import Block, Document, Verbatim
from holdfast.report.paper.figure import Figure


def document(written: Sequence[tuple[Figure, list[str]]], folder: str) -> Document:
    """Return each figure with its files, and where the captions are."""
    shown: list[Block] = []
    for figure, places in written:
        shown += [Text.assemble((figure.name, "bold"), f": {figure.subject}"), Verbatim(f"  {', '.join(places)}")]
    return [*shown, Verbatim(f"captions: {folder}/captions.txt, and captions.tex for LaTeX")]

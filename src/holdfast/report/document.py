"""What is shown of a record, a comparison or a verdict, whatever shows it; `holdfast.report.render` does.

Text is rich's: its styles are those of the terminal. Other media read "bold", "dim", "code" and the colours from them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from holdfast.report.table import Table


@dataclass(frozen=True)
class Heading:
    """The title of what follows.

    Attributes:
        text: in words.
        level: 1 for the document, 2 for its parts.
    """

    text: str | Text
    level: int = 2


@dataclass(frozen=True)
class Items:
    """Sentences of one kind: a list, or lines of a terminal."""

    lines: Sequence[Text]


@dataclass(frozen=True)
class ToCopy:
    """Specs, commands and files by what they are called: nobody can copy a line that is broken."""

    lines: Mapping[str, str]


@dataclass(frozen=True)
class Verbatim:
    """Lines that stay as they are, however long: an example, commands for a program, places."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A picture in a file beside the document.

    Attributes:
        path: of the file, from the document.
        alt: what it says to those who cannot see it.
        caption: what it shows.
    """

    path: str
    alt: str
    caption: str


Block = Heading | Text | Items | Table | ToCopy | Verbatim | Picture
"""A piece of a document; a `Text` is a sentence, or some of them."""

Document = Sequence[Block]
"""All that is shown, in its order."""


def list_items(lines: Sequence[str], style: str = "") -> list[Items]:
    """Return a list of sentences in one style; nothing where there are none."""
    return [Items([Text(line, style) for line in lines])] if lines else []

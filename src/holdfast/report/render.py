"""A document in a terminal, as plain text, as Markdown, and as a piece of HTML for the pages of others."""

import io
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from holdfast.report.document import Block, Document, Heading, Items, Picture, ToCopy, Verbatim
from holdfast.report.table import Table, markdown_text
from holdfast.runtime.privacy import redact_secrets
from holdfast.runtime.screen import Screen

CLASSES = ("bold", "dim", "red", "yellow", "green")
"""Words of styles that pages know."""


def print_document(document: Document, console: Console) -> None:
    """Print a document; its colours follow the console: none when the output is piped."""
    for block in document:
        match block := _hide_in(block, redact_secrets):
            case Table() if console.width < block.wide:
                print_document(block.narrow, console)
            case Table():
                console.print(block.terminal())
            case Heading():
                console.print(Text.assemble(block.text, style="" if block.level == 1 else "bold"))
            case Items():
                for line in block.lines:
                    console.print(line)
            case ToCopy():
                for name, line in block.lines.items():
                    console.print(Text.assemble(f"{name}: ", (line, "bold")), soft_wrap=True)
            case Verbatim():
                console.print(Text(block.text), soft_wrap=True)
            case Picture():
                console.print(Text.assemble((f"{block.caption} ", "dim"), block.path))
            case Text():
                console.print(block)


def to_text(document: Document) -> str:
    """Return a document as text without colours, as wide as the terminal is."""
    out = io.StringIO()
    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    # said here, because rich asks the environment otherwise, and a Jupyter kernel sets FORCE_COLOR
    print_document(
        document, Screen(file=out, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    )
    return out.getvalue().rstrip("\n")


def to_markdown(document: Document, hide: Callable[[str], str] = redact_secrets) -> str:
    """Return a document as Markdown; every text of it is escaped.

    Args:
        document: what is said.
        hide: takes out of each text what nobody else may read; before it is escaped, for a credential that is escaped
            looks like none.
    """
    return "\n\n".join(_markdown(_hide_in(block, hide)) for block in document) + "\n"


def to_html(document: Document) -> str:
    """Return a document as a piece of HTML, without scripts and credentials; every text of it is escaped."""
    from holdfast.report.page import fragment  # brings jinja2, which no terminal needs

    blocks = [(type(block).__name__, _hide_in(block, redact_secrets)) for block in document]
    return fragment("document.html", blocks=blocks, pieces=_html)


def _hide_in(block: Block, hide: Callable[[str], str]) -> Block:
    """Return a block without what is to be hidden in its texts."""

    def conceal(text: str | Text) -> Text:
        text = Text(text) if isinstance(text, str) else text
        if (whole := hide(text.plain)) == text.plain:
            return text
        # In the styles of its pieces, unless what is hidden lies across some
        parts = [(hide(piece), " ".join(words)) for piece, words in _pieces(text)]
        styled = Text.assemble(*parts, style=text.style)
        return styled if styled.plain == whole else Text(whole, text.style)

    match block:
        case Table():
            rows = [[conceal(cell) for cell in row] for row in block.rows]
            return replace(block, title=hide(block.title), head=[conceal(cell) for cell in block.head], rows=rows)
        case Heading():
            return replace(block, text=conceal(block.text))
        case Items():
            return Items([conceal(line) for line in block.lines])
        case ToCopy():
            return ToCopy({hide(name): hide(line) for name, line in block.lines.items()})
        case Verbatim():
            return Verbatim(hide(block.text))
        case Picture():
            return replace(block, alt=hide(block.alt), caption=hide(block.caption))
        case Text():
            return conceal(block)


def _markdown(block: Block) -> str:
    match block:
        case Table():
            return "\n\n".join([*([f"**{markdown_text(block.title)}**"] if block.title else []), block.markdown()])
        case Heading():
            return f"{'#' * (block.level + 1)} {markdown_text(str(block.text))}"
        case Items():
            # What is indented is a list in a list
            return "\n".join(f"{'  ' * line.plain.startswith('  ')}- {_sentence(line)}" for line in block.lines)
        case ToCopy():
            return "\n".join(f"- {markdown_text(name)}: {_code(line)}" for name, line in block.lines.items())
        case Verbatim():
            return f"{(fence := _fence(block.text, 3))}\n{block.text.rstrip()}\n{fence}"
        case Picture():
            return f"![{markdown_text(block.alt)}]({block.path})\n\n{markdown_text(block.caption)}"
        case Text():
            return _sentence(block)


def _sentence(text: Text) -> str:
    """Return styled text as Markdown: what is bold, or code, as such."""
    pieces = []
    for piece, words in _pieces(text):
        # Marks touch the words that they are about
        inner = piece.strip()
        shown = _code(inner) if "code" in words else markdown_text(inner)
        shown = f"**{shown}**" if "bold" in words else shown
        pieces.append(f"{' ' * piece[:1].isspace()}{shown}{' ' * piece[-1:].isspace()}" if inner else " ")
    # What begins like a list, or underlines what is above it, is neither
    return re.sub(r"^(\d*)([-.)=])(?=[\s=-]|$)", r"\1\\\2", "".join(pieces).strip())


def _code(text: str) -> str:
    """Return text as Markdown's code, between more backticks than it has in a row itself."""
    line = " ".join(text.split())
    fence = _fence(line, 1)
    return f"{fence}{line}{fence}" if len(fence) == 1 else f"{fence} {line} {fence}"


def _fence(text: str, least: int) -> str:
    """Return more backticks than a text has in a row itself."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def _html(text: str | Text) -> Markup:
    """Return styled text as spans whose classes are the words of the styles."""
    html = Markup("")
    for piece, words in _pieces(Text(text) if isinstance(text, str) else text):
        known = " ".join(word for word in words if word in CLASSES)
        html += Markup('<span class="{}">{}</span>').format(known, piece) if known and piece.strip() else piece
    return html.replace("\n", Markup("<br>"))


def _pieces(text: Text) -> Iterator[tuple[str, list[str]]]:
    """Yield the pieces of a text, each with the words of its styles."""
    ends = sorted({0, len(text), *(end for span in text.spans for end in (span.start, span.end))})
    for start, stop in pairwise(ends):
        styles = [text.style, *(span.style for span in text.spans if span.start <= start and stop <= span.end)]
        yield text.plain[start:stop], " ".join(map(str, styles)).split()


class Shown:
    """What prints itself, and draws itself in a notebook, as the document that it is shown as."""

    def _document(self) -> Document:
        raise NotImplementedError

    def __str__(self) -> str:
        return to_text(self._document())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return to_html(self._document())

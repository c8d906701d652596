"""One table, for the terminal, Markdown and LaTeX: the first column says what a row is, the others hold numbers."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

WORD = 20
"""Letters of the longest word that is not folded in a first column: "Nearest-neighbour"."""


@dataclass(frozen=True)
class Table:
    """A head and rows of cells; styles are those of the terminal, and bold cells are bold everywhere.

    Attributes:
        head: titles of the columns; all empty where rows need none.
        rows: as many cells each.
        title: above it; "" for none.
        words: places of columns that hold words: from the left, folded, and escaped where they might be markup.
        narrow: what a terminal of fewer than `wide` columns shows in its place.
        wide: see `narrow`.
    """

    head: Sequence[str | Text]
    rows: Sequence[Sequence[str | Text]]
    title: str = ""
    words: Collection[int] = (0,)
    narrow: "Sequence[Text | Table]" = ()
    wide: float = 0

    @property
    def is_headed(self) -> bool:
        """Whether any column has a title."""
        return any(map(str, self.head))

    def terminal(self) -> RichTable | Group:
        """Return it for the terminal; long names are folded, between words where these are no longer than `WORD`."""
        title = {"title": Text(self.title), "title_justify": "left"} if self.title else {}
        lines = box.SIMPLE_HEAD if self.is_headed else None
        table = RichTable(box=lines, pad_edge=False, show_header=self.is_headed, **title)
        rows = [list(map(_text, row)) for row in self.rows]
        words = [word for row in rows for word in str(row[0]).split()]
        for place, name in enumerate(self.head):
            least = None if place else min(WORD, max(map(len, words), default=0))
            justify = "left" if place in self.words else "right"
            table.add_column(_text(name), justify=justify, overflow="fold", min_width=least)
        for row in rows:
            table.add_row(*row)
        return table if self.is_headed else Group(table, "")  # an empty line after it, as the lines of a head bring

    def markdown(self) -> str:
        """Return it as Markdown."""
        rule = ["---" if place in self.words else "---:" for place in range(len(self.head))]
        head = [_cell(str(cell), markdown_text, "{}") for cell in self.head]
        # numbers are ours, words may be anybody's
        escape = [markdown_text if place in self.words else _bars for place in range(len(self.head))]
        rows = [[_cell(cell, how, "**{}**") for cell, how in zip(row, escape, strict=True)] for row in self.rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])

    def latex(self) -> str:
        r"""Return it as a booktabs table."""
        rows = [[_cell(cell, latex_text, r"\textbf{{{}}}") for cell in row] for row in (self.head, *self.rows)]
        head, *lines = (" & ".join(row) + r" \\" for row in rows)
        begin = rf"\begin{{tabular}}{{{''.join('l' if at in self.words else 'r' for at in range(len(self.head)))}}}"
        return "\n".join([begin, r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"])


def _text(cell: str | Text) -> Text:
    return Text(cell) if isinstance(cell, str) else cell


def _cell(cell: str | Text, escape: Callable[[str], str], bold: str) -> str:
    text = escape(", ".join(line.strip() for line in str(cell).strip().splitlines()))
    return bold.format(text) if isinstance(cell, Text) and "bold" in str(cell.style) else text


def _bars(text: str) -> str:
    return text.replace("|", "/")


def markdown_text(text: str) -> str:
    """Return text that Markdown and the HTML in it show as it is, on one line."""
    line = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>#+!|~$&])", r"\\\1", line)


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "−": r"$-$", "σ": r"$\sigma$", "ε": r"$\varepsilon$", "ℓ": r"$\ell$",
    "∞": r"$\infty$", "≤": r"$\le$", "≥": r"$\ge$", "×": r"$\times$", "±": r"$\pm$", "²": r"$^2$", "Δ": r"$\Delta$",
    "Ψ": r"$\Psi$", "δ": r"$\delta$", "α": r"$\alpha$", "…": r"\ldots{}", "“": "``", "”": "''",
}  # fmt: skip


def latex_text(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    line = " ".join(text.split())
    start = "{}" if line.startswith(("[", "*")) else ""  # else an argument of the line break before it
    return start + "".join(_LATEX.get(letter, letter) for letter in line)

"""Puts the figures of papers on the pages of `reproductions`: `python docs/draw_figures.py [RUN...]`.

The page of a run folder of `holdfast reproduce` comes with its pictures. On every other page, panels are drawn from the
numbers of the page's own table; those that show more than it need a run, and the page says so.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.core import BadData, Score
from holdfast.report.document import Heading
from holdfast.report.render import to_markdown
from holdfast.storage.documents import parse_json
from holdfast.storage.entry import read_json
from holdfast.storage.reproduction import UNASKED, CellEntry, ReproductionRecord
from holdfast.workflows.reproduce.figures import OF_TABLE
from holdfast.workflows.reproduce.pictures import draw
from holdfast.workflows.reproduce.recipe import Reproduction, read

PAGES = Path(__file__).parent / "reproductions"
CELL = re.compile(r"(?:(\S+) / )?(\S+)(?: \[(\S+), (\S+)\])?")
"""A cell as `holdfast reproduce` writes it: published / ours [interval], the first where there is one."""

FIGURE = re.compile(r"^### The figure\n.*?^### The table\n\n", re.MULTILINE | re.DOTALL)


def cells_of(page: str, recipe: Reproduction) -> dict[tuple[str, str], CellEntry]:
    """Return the cells of a page's first table by (row, column)."""
    head, _, *rows = map(_split, re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)[0].splitlines())
    names = {f"{column.name} ({column.unit})": column.name for column in recipe.columns}
    columns = [names.get(column, column) for column in head[1:]]
    return {(row, name): cell_of(text) for row, *cells in rows for name, text in zip(columns, cells, strict=True)}


def _split(line: str) -> list[str]:
    """Return the cells of a line of a table, without what Markdown escapes."""
    cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    return [re.sub(r"\\(.)", r"\1", cell).strip() for cell in cells]


def cell_of(text: str) -> CellEntry:
    """Return the numbers of a cell, in the paper's scale; an empty one asks nothing."""
    if not text:
        return CellEntry(published=None, scale=1.0, score=None, why=UNASKED)
    found = CELL.fullmatch(text)
    if found is None:
        raise BadData(f"expected a cell as holdfast reproduce writes it, got {text!r}")
    paper, ours, low, high = (None if text in (None, "none") else float(text) for text in found.groups())
    return CellEntry(published=paper, scale=1.0, score=Score(ours, low, high, 0, "as printed"), why="")


def drawn_anew(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield a page with the panels that its table has the numbers of, and their pictures."""
    name, _, profile = page.stem.rpartition("-")
    text = FIGURE.sub("", page.read_text(encoding="utf-8"))
    recipe = read(name, profile)
    blocks, pictures = draw(recipe, cells_of(text, recipe), {})
    if blocks:
        above, below = re.split(r"^(?=\|)", text, maxsplit=1, flags=re.MULTILINE)
        yield page, f"{above}{to_markdown([*blocks, Heading('The table')])}\n{below}"
    for picture, svg in pictures.items():
        yield page.with_name(picture), svg


def of_run(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the page of a run, and its pictures."""
    record = read_json(parse_json((folder / "reproduction.json").read_bytes()), ReproductionRecord)
    name = f"{record.reproduction.name}-{record.reproduction.profile}"
    yield PAGES / f"{name}.md", (folder / "reproduction.md").read_text(encoding="utf-8")
    for picture in sorted(folder.glob(f"{name}-*.svg")):
        yield PAGES / picture.name, picture.read_text(encoding="utf-8")


def needs_run(page: Path) -> bool:
    """Return whether a page has pictures of a run, which its table has not the numbers of."""
    name, _, profile = page.stem.rpartition("-")
    others = [panel.title for panel in read(name, profile).figures if panel.kind not in OF_TABLE]
    text = page.read_text(encoding="utf-8")
    return bool(others) and "### The figure" in text and "is not drawn" not in text


def main() -> None:
    """Write the pages of the runs that are named; without any, draw those anew that need no run."""
    pages = [page for page in sorted(PAGES.glob("*-*.md")) if not needs_run(page)]
    for files in map(of_run, map(Path, sys.argv[1:])) if sys.argv[1:] else map(drawn_anew, pages):
        for place, text in files:
            place.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

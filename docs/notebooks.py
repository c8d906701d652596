"""A hook of MkDocs: runs the tutorials and shows what came out.

A tutorial is plain Markdown, `tutorials/NAME.md`. Its blocks of Python are the cells of a notebook, which is run and
can be downloaded; what a cell prints and draws is put below it. What has been run is kept in `build/notebooks` for as
long as page and package stay as they are, so that tests and site share one run.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import holdfast

DOCS = Path(__file__).parent
KEPT = DOCS.parent / "build/notebooks"
CELL = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DRAWN = re.compile(r"!\[(?:svg|png)\]\(")
LIMIT = 120
"""Seconds that a cell may take."""
SETTING = """
import matplotlib
from matplotlib_inline.backend_inline import set_matplotlib_formats
set_matplotlib_formats("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "holdfast", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "figure.constrained_layout.use": True,
    "axes.prop_cycle": matplotlib.cycler(color=["#0067a5", "#c2570c", "#2d7d46", "#8a8f94", "#b3202c"])})
"""
"""What is run before the first cell: drawings in the colours that `look.py` knows."""

shown: dict[str, str] = {}
"""Tutorial -> its Markdown with what came out."""


def on_files(files: Any, config: Any) -> Any:
    """Run the tutorials, and add their notebooks and drawings to the site."""
    from mkdocs.structure.files import File

    with ThreadPoolExecutor(2) as pool:
        notebooks = dict(zip(pages(), pool.map(executed, pages()), strict=True))
    for page, notebook in notebooks.items():
        import nbformat

        name = f"tutorials/{page.stem}"
        files.append(File.generated(config, f"{name}.ipynb", content=str(nbformat.writes(notebook))))
        shown[f"{name}.md"], drawings = as_markdown(notebook, page.stem)
        for drawing, data in drawings.items():
            files.append(File.generated(config, f"tutorials/{drawing}", content=data))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Show a tutorial with what came out, and where its notebook is."""
    if page.file.src_uri not in shown:
        return markdown
    title, rest = shown[page.file.src_uri].split("\n", 1)
    return f"{title}\n\n[Download this page as a notebook]({Path(page.file.src_uri).stem}.ipynb)\n{rest}"


def pages() -> list[Path]:
    """Return the tutorials."""
    return sorted(path for path in (DOCS / "tutorials").glob("*.md") if path.stem != "index")


def executed(page: Path) -> Any:
    """Return a tutorial as a notebook that has been run.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell that raised.
        ValueError: a cell that warned, which a reader would wonder about.
    """
    import nbformat
    from nbclient import NotebookClient

    kept = KEPT / f"{page.stem}-{_digest(page)}.ipynb"
    if kept.is_file():
        return nbformat.read(kept, as_version=4)
    cells = [nbformat.v4.new_code_cell(SETTING), *_cells(page.read_text(encoding="utf-8"))]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with tempfile.TemporaryDirectory() as folder:
        # the kernel would warn that it is spoken to by an address of this machine
        client = NotebookClient(notebook, timeout=LIMIT, extra_arguments=["--log-level=ERROR"])
        client.resources = {"metadata": {"path": folder}}
        client.execute()
    notebook.cells = notebook.cells[1:]
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
        if cell.cell_type == "code":
            cell.outputs = list(_read(cell.outputs, page))
    KEPT.mkdir(parents=True, exist_ok=True)
    for older in KEPT.glob(f"{page.stem}-*"):
        older.unlink(missing_ok=True)
    half = kept.with_suffix(f".{os.getpid()}")
    nbformat.write(notebook, half)
    half.rename(kept)
    return notebook


def as_markdown(notebook: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its drawings by their names."""
    from nbconvert import MarkdownExporter

    text, resources = MarkdownExporter().from_notebook_node(notebook, resources={"unique_key": name})
    return DRAWN.sub("![what the code above draws](", text.strip()), resources.get("outputs", {})


def _cells(text: str) -> Iterator[Any]:
    import nbformat

    for number, piece in enumerate(CELL.split(text)):
        if piece.strip():
            make = nbformat.v4.new_code_cell if number % 2 else nbformat.v4.new_markdown_cell
            yield make(piece.strip())


def _read(outputs: Any, page: Path) -> Iterator[Any]:
    """Return what came out of a cell, each drawing once, without progress on stderr."""
    for output in outputs:
        if "image/svg+xml" in output.get("data", {}):  # a figure offers both
            output["data"].pop("image/png", None)
        if output.get("name") != "stderr":
            yield output
        elif "Warning" in output["text"]:
            raise ValueError(f"{page.name}: expected no warning, got {output['text'].strip()!r}; mend the page")


def _digest(page: Path) -> str:
    """Return what decides the run: the page, this file, and the package."""
    digest = hashlib.sha256()
    package = Path(holdfast.__file__).parent
    for path in [page, Path(__file__), *sorted(path for path in package.rglob("*") if path.suffix in (".py", ".toml"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]

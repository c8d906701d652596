"""Pictures of a paper's figure: what a recipe may say of them, and that they show the numbers of its table."""

import importlib.util
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.core import HoldfastError, Score
from holdfast.report.charts.forest import Forest
from holdfast.report.charts.lines import Lines
from holdfast.report.document import Picture
from holdfast.storage.reproduction import CellEntry
from holdfast.workflows.reproduce import recipe as recipes
from holdfast.workflows.reproduce.pictures import _figures, draw
from holdfast.workflows.reproduce.recipe import Reproduction, assemble, names, read

DOCS = Path(__file__).parents[2] / "docs"
PAGES = DOCS / "reproductions"

TABLE = """
paper = "A paper"
where = "Figure 1"
title = "Risks"
units = "none"
columns = [{ name = "first" }, { name = "second, 2" }, { name = "second, 4" }]
rows = [
  { name = "<b> & c, .5", published = [1, "-", 3] },
  { name = "<b> & c, 3/4" },
  { name = "last" },
]
[audits.main]
encoders = []
"""

CURVES = {"title": "T", "kind": "curves", "label": "y", "across": "x", "rows": ["<b> & c"], "columns": ["first"]}


def recipe_of(*panels: Mapping[str, object]) -> Reproduction:
    return assemble({**tomllib.loads(TABLE), "figures": list(panels)}, "t", "full")


def cell(value: float | None, *ends: float, published: float | None = None) -> CellEntry:
    low, high = ends or (None, None)
    score = None if value is None else Score(value, low, high, 10, "kind")
    return CellEntry(published=published, scale=100.0, score=score, why="")


def cells_of(recipe: Reproduction) -> dict[tuple[str, str], CellEntry]:
    """Return a number for every cell: hundredths of its place, half as much at its lower end."""
    places = [(row.name, column.name) for row in recipe.rows for column in recipe.columns]
    return {place: cell(0.01 * n, 0.005 * n, 0.02 * n) for n, place in enumerate(places, 1)}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "curve"}, "curves"),
        ({"titel": "x"}, "did you mean 'title'"),
        ({"label": ""}, "'T': expected 'label' of curves, got none"),
        ({"marks": ["first"]}, "unknown key of curves 'marks'"),
        ({"rows": ["lst"]}, "unknown row of a figure 'lst'; did you mean 'last'"),
        ({"columns": ["firs"]}, "unknown column of a figure 'firs'; did you mean 'first'"),
        ({"at": [1]}, "expected numbers `at`, one for each of 2 in 'first', got 1"),
        ({"rows": ["last"]}, "expected a number in each name, or `at`, one for each of 1 in 'first', got 0"),
        ({"at": [0, 1], "scale": "log"}, "expected places above 0 on a logarithmic axis, got 0"),
        ({"lines": ["<b> & c"], "columns": ["second"]}, "expected one column where lines are groups of rows, got 2"),
        ({"lines": "diagonals"}, "lines"),
    ],
)
def test_what_no_panel_is_says_so_before_anything_is_run(change: Mapping[str, object], says: str) -> None:
    with pytest.raises(HoldfastError) as error:
        recipe_of({**CURVES, **change})
    assert says in str(error.value)
    assert str(error.value).startswith(("t: figures", "unknown key of t: figures"))


@pytest.mark.parametrize(
    ("panel", "says"),
    [
        ({"kind": "scatter", "label": "y", "across": "x", "values": ["one"]}, "expected two columns of the measure's"),
        ({"kind": "histogram", "label": "y", "marks": ["third"]}, "unknown column of a figure 'third'"),
        ({"kind": "audit", "audit": "mian", "charts": ["curve"]}, "unknown audit 'mian'; did you mean 'main'"),
        ({"kind": "audit", "audit": "main"}, "expected 'charts' of audit, got none"),
    ],
)
def test_panels_of_more_than_the_table_are_checked_too(panel: Mapping[str, object], says: str) -> None:
    with pytest.raises(HoldfastError) as error:
        recipe_of({"title": "T", **panel})
    assert says in str(error.value)


def drawing_of(recipe: Reproduction, cells: Mapping[tuple[str, str], CellEntry]) -> tuple[str, Any]:
    source, (figure,) = _figures(recipe, recipe.figures[0], cells, {})
    return source, figure.drawing


def test_curves_are_the_numbers_of_the_table() -> None:
    recipe = recipe_of(CURVES | {"columns": ["first", "second"]})
    cells = cells_of(recipe)
    above, below = ("<b> & c, .5", "first"), ("<b> & c, 3/4", "second, 4")
    cells |= {above: cell(0.01, 0.005, 0.02, published=1.5), below: cell(None)}
    source, drawing = drawing_of(recipe, cells)
    assert isinstance(drawing, Lines)
    rows = list(drawing.rows())
    assert [row["x"] for row in rows[:2]] == [0.5, 0.75]  # the last number of each name, or fraction
    order = ["first", "second, 2", "second, 4", "first, published"]
    assert list(dict.fromkeys(row["name"] for row in rows)) == order
    ours = {(row["name"], row["x"]): (row["y"], row["low"], row["high"], row["bound"]) for row in rows}
    assert ours["first", 0.5] == pytest.approx((1, 0.5, 2, 0))  # in the paper's scale
    assert ours["first", 0.75] == pytest.approx((4, 2, 8, 0))
    assert ours["second, 4", 0.75][0] is None  # a gap
    assert ours["first, published", 0.5] == (1.5, None, None, 1)  # hollow
    assert "bands from their 95 % intervals" in source
    assert "Hollow: the paper's numbers." in source


def test_a_number_without_an_interval_has_no_band() -> None:
    recipe = recipe_of(CURVES)
    source, drawing = drawing_of(recipe, cells_of(recipe) | {("<b> & c, .5", "first"): cell(0.01)})
    first, second = drawing.rows()
    assert (first["low"], first["high"]) == (None, None)
    assert second["low"] is not None
    assert "The paper prints no number of it." in source


def test_lines_may_be_rows_and_groups_of_rows() -> None:
    by_row = recipe_of(CURVES | {"lines": "rows", "rows": ["last"], "columns": ["second"]})
    rows = list(drawing_of(by_row, cells_of(by_row))[1].rows())
    assert [(row["name"], row["x"], row["y"]) for row in rows] == [("last", 2, 8.0), ("last", 4, 9.0)]
    grouped = recipe_of(CURVES | {"lines": ["<b> & c"], "at": [7, 8]})
    rows = list(drawing_of(grouped, cells_of(grouped))[1].rows())
    assert [(row["name"], row["x"]) for row in rows] == [("<b> & c", 7), ("<b> & c", 8)]


def test_points_stand_beside_their_names() -> None:
    recipe = recipe_of({"title": "T", "kind": "points", "label": "y", "columns": ["first"]})
    cells = cells_of(recipe) | {("last", "first"): cell(None, published=2.0)}
    _, drawing = drawing_of(recipe, cells)
    assert isinstance(drawing, Forest)
    rows = [(row["title"], row["x"], row["low"], row["bound"]) for row in drawing.rows()]
    assert rows == [("<b> & c, .5", 1.0, 0.5, 0), ("<b> & c, 3/4", 4.0, 2.0, 0), ("last", 2.0, 2.0, 1)]


def test_names_are_escaped_and_ids_are_the_pictures_own() -> None:
    recipe = recipe_of(CURVES | {"title": "<i>T</i>", "lines": "rows", "columns": ["second"]}, CURVES)
    blocks, pictures = draw(recipe, cells_of(recipe), {})
    assert list(pictures) == ["t-full-1.svg", "t-full-2.svg"]
    assert [block.path for block in blocks if isinstance(block, Picture)] == list(pictures)
    ids: list[str] = []
    for name, svg in pictures.items():
        tree = ElementTree.fromstring(svg)
        ids += [element.attrib["id"] for element in tree.iter() if "id" in element.attrib]
        assert all(one.startswith(name.removesuffix(".svg")) for one in ids[-1:])
        used = re.findall(r'(?:xlink:href="|url\()#([\w.-]+)', svg)
        assert used
        assert set(used) <= set(ids)
        assert "<b>" not in svg
    assert len(ids) == len(set(ids))
    assert "&lt;b&gt; &amp; c, .5" in pictures["t-full-1.svg"]


def test_what_cannot_be_drawn_is_said_and_nothing_else_is_lost() -> None:
    histogram = {"title": "H", "kind": "histogram", "label": "y"}
    recipe = recipe_of(histogram, CURVES, CURVES | {"title": "U"})
    cells = {place: cell(None) if place[1] == "first" else one for place, one in cells_of(recipe).items()}
    blocks, pictures = draw(recipe, cells, {})
    said = [str(line) for block in blocks for line in getattr(block, "lines", ())]
    assert len(said) == 3
    assert said[0].startswith("H is not drawn: ")
    assert said[1] == "T is not drawn: none of its numbers could be found"
    assert pictures == {}


RUN = """
paper = "A paper"
where = "Figure 1"
title = "Risks"
units = "none"
inputs = { a = { about = "a", spec = "zoo:digits-supervised" } }
columns = [{ name = "UQ", scale = 100 }]
rows = [{ name = "a", audit = "main", encoder = "a", measure = "universal_quantile", published = [3] }]
[audits.main]
data = "digits"
encoders = ["a"]
images = 40
attacked = 12
set = ["*.ball.radius=0.2"]
measures = [{ name = "universal_quantile", attack = { name = "pgd", steps = 4 } }]
[[figures]]
title = "Table"
kind = "points"
label = "UQ (%)"
[[figures]]
title = "Spread"
kind = "histogram"
label = "UQ (%)"
marks = ["UQ"]
[[figures]]
title = "One by one"
kind = "images"
label = "UQ (%)"
[[figures]]
title = "Itself"
kind = "scatter"
label = "y"
across = "x"
values = ["drift@4", "quantile@4"]
[[figures]]
title = "Own"
kind = "audit"
audit = "main"
charts = ["images"]
[[figures]]
title = "Nobody's"
kind = "audit"
audit = "main"
charts = ["imags"]
"""


@pytest.mark.slow
def test_the_command_draws_what_the_run_knows(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(RUN, encoding="utf-8")
    words = ["reproduce", str(tmp_path / "t.toml"), "--out", str(tmp_path / "run")]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    text = (tmp_path / "run/reproduction.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[(.+)\]\((.+)\)\n\n(.+)", text)
    assert [path for _, path, _ in shown] == [f"t-full-{n}.svg" for n in range(1, 6)]
    assert {path.name for path in (tmp_path / "run").glob("*.svg")} == {path for _, path, _ in shown}
    captions = [caption for *_, caption in shown]
    assert "by Scott's rule; the mark is the median. Dotted: numbers of the paper's text." in captions[1]
    assert captions[1].startswith("Spread. 12 images.")
    assert captions[4].startswith("Own: Per image")
    assert "Nobody's is not drawn: unknown figure 'imags'; did you mean 'images'" in text
    assert text.index("### The figure") < text.index("### The table") < text.index("| a | 3 ")
    assert "t-full-1.svg" in said.output
    histogram, images = ((tmp_path / "run" / f"t-full-{n}.svg").read_text(encoding="utf-8") for n in (2, 3))
    assert ">UQ</text>" in histogram  # the published number, marked
    assert ">image 12</text>" in images


@cache
def figures() -> list[str]:
    """Return the names of the recipes of figures, which take seconds to read."""
    return [name for name in names() if "Figure" in read(name).where]


def test_every_recipe_of_a_figure_draws_it(subtests: pytest.Subtests) -> None:
    assert len(figures()) >= 21
    for name in figures():
        for profile in recipes.profiles(recipes.read_file(recipes.folder() / f"{name}.toml")):
            with subtests.test(f"{name} {profile}"):
                assert read(name, profile).figures


def test_every_page_of_a_figure_shows_its_pictures_and_no_picture_is_left_over(subtests: pytest.Subtests) -> None:
    shown: list[str] = []
    for page in sorted(PAGES.glob("*-*.md")):
        text = page.read_text(encoding="utf-8")
        pictures = re.findall(r"^!\[.+\]\((.+\.svg)\)$", text, re.MULTILINE)
        with subtests.test(page.stem):
            drawn = page.stem.rpartition("-")[0] in figures()
            assert ("### The figure" in text) == drawn
            assert not drawn or pictures or "is not drawn" in text
            assert all((PAGES / picture).is_file() for picture in pictures)
        shown += pictures
    assert sorted(shown) == sorted(path.name for path in PAGES.glob("*.svg"))


def script() -> Any:
    """Return the script that puts figures on the pages."""
    sys.path.insert(0, str(DOCS))
    try:
        found = importlib.util.spec_from_file_location("draw_figures", DOCS / "draw_figures.py")
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(DOCS))


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("stem", ["contrastive-fige5-small", pytest.param("", marks=pytest.mark.slow(minutes=1))])
def test_pages_are_drawn_from_their_own_tables(stem: str, subtests: pytest.Subtests) -> None:
    """The tables of pages are read back, so that a page that changes without its pictures is seen."""
    made = script()
    pages = [page for page in sorted(PAGES.glob("*-*.md")) if stem in ("", page.stem) and not made.needs_run(page)]
    assert pages
    for page in pages:
        with subtests.test(page.stem):
            for place, text in made.drawn_anew(page):
                there = place.read_text(encoding="utf-8")
                assert (there if place.suffix == ".md" else texts(there)) == (
                    text if place.suffix == ".md" else texts(text)
                )


def test_the_cells_of_a_page_are_read_as_they_were_written() -> None:
    made = script()
    full = made.cell_of("96.9 / 98.5 [95.7, 1e+02]")
    assert (full.published, full.score.value, full.score.low, full.score.high) == (96.9, 98.5, 95.7, 100)
    alone = made.cell_of("98.5 [95.7, 1e+02]")
    assert (alone.published, alone.score.value, alone.score.high) == (None, 98.5, 100)
    assert (made.cell_of("30 / none").published, made.cell_of("none").score.value) == (30, None)
    with pytest.raises(HoldfastError) as error:
        made.cell_of("about 3")
    assert "got 'about 3'" in str(error.value)

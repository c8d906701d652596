"""Figures for papers: every format, the same file every time, the numbers that are drawn, names and captions."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from matplotlib.colors import to_rgb
from msgspec import structs
from typer.testing import CliRunner

import holdfast
from holdfast.api.compare import Comparison
from holdfast.api.record import Record
from holdfast.cli import app
from holdfast.comparison.compare import compare_runs
from holdfast.core import HoldfastError
from holdfast.numerics.geometry.colour import lab
from holdfast.report.charts.bars import Bars
from holdfast.report.charts.figure import PAGE, Drawing
from holdfast.report.charts.forest import Forest, Row
from holdfast.report.charts.heat import Heat
from holdfast.report.charts.histogram import Histogram, Spread
from holdfast.report.charts.lines import Curve, Horizontal, Lines
from holdfast.report.charts.points import Cloud, Cross, Front, Scattered
from holdfast.report.panel import Panel
from holdfast.report.paper.figure import Figure
from holdfast.report.paper.style import COLOURS, Style
from holdfast.runtime.errors import BadPlace, BadValue, Missing, UnknownName
from holdfast.storage.filesystem import Folder

VALUES = np.linspace(0.1, 0.9, 9)
DRAWINGS: dict[str, Drawing] = {
    "lines": Lines(
        "k", [Curve((1, 2), (0.5, np.nan), (0.4, np.nan), (0.6, np.nan), "#0c0100", "o", name="timm:a_b, 50 % & more"),
              Curve((1, 2), (0.2, 0.1), (), (), "#0c0280", style="dashed", hollow=(True, False), name="=b")],
        Horizontal("x"), label="y", unit="share"),
    "scattered": Scattered("k", [Cloud(0, VALUES, VALUES**2, name="a")], across="x", label="y", diagonal=True),
    "front": Front("k", [Cross(0, (0.5, 0.4, 0.6), (1.0, 0.9, 1.1), True, "a")], across="x", label="y",
                   units=("share", "ratio"), better=("higher", "lower")),
    "histogram": Histogram("k", [Spread(0, VALUES, name="a"), Spread(1, VALUES**2, True, "b")], label="x", bins=4),
    "forest": Forest("k", [Row("uniform", 0, [(0, 0.5, 0.4, 0.6, False)])] * 2, across="x", names={0: "a"}),
    "heat": Heat("k", VALUES.reshape(3, 3) - 0.5, x="x"),
    "bars": Bars("k", ["all", "some"], np.array([[0.25, 0.75], [0.5, 0.5]])),
}  # fmt: skip


def figure_of(kind: str, **style: object) -> Figure:
    return Figure(kind, "It", "How.", Panel("", DRAWINGS[kind]), Style(**style))  # type: ignore[arg-type]


def numbers(figure: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(figure.csv())))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", DRAWINGS)
def test_every_kind_is_a_file_of_every_format_and_the_same_every_time(kind: str, tmp_path: Path) -> None:
    figure = figure_of(kind)
    for form, begins in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG"), ("csv", b"")):
        files = [Path(figure.save(tmp_path / f"{n}.{form}", dpi=100)).read_bytes() for n in range(2)]
        assert files[0].startswith(begins)
        assert files[0] == files[1]
        assert not re.search(rb"CreationDate|<dc:date|matplotlib v", files[0])
    with PIL.Image.open(tmp_path / "0.png") as picture:
        assert picture.width == 330
        assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    pdf = (tmp_path / "0.pdf").read_bytes()
    assert b"/FontFile2" in pdf  # TrueType, whole letters and no pictures of them
    assert b"/Type3" not in pdf
    assert not re.search(r"var\(|#0c0", (tmp_path / "0.svg").read_text())


def test_the_style_is_the_size_the_font_and_letters_as_text() -> None:
    wide = figure_of("lines", width="page", height=2, font="sans", editable=True)._repr_svg_()
    assert 'width="496.8pt" height="144pt"' in wide
    assert ">y</text>" in wide
    assert "DejaVu Sans" in wide
    assert "<text" not in figure_of("lines")._repr_svg_()


@pytest.mark.slow
def test_long_legends_fit_and_leave_the_axes_their_height() -> None:
    long = "torchvision:resnet50?weights=IMAGENET1K_V2&layer=" + 20 * "deep"
    names = [long, "b", "c", "d"]
    curves = [Curve((1, 2), (0.5, 0.6), (), (), f"#0c010{i}", "o", name=name) for i, name in enumerate(names)]
    lines = Lines("k", curves, Horizontal("x"), label="y", unit="ratio")
    short, tall, fixed = (
        Figure("a", "It", "", Panel("", replace(lines, curves=chosen)), style)._repr_svg_()
        for chosen, style in ((curves[1:], Style()), (curves, Style()), (curves, Style(height=2.0)))
    )
    sizes = [re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', text) for text in (short, tall, fixed)]
    widths, heights = zip(*(map(float, size.groups()) for size in sizes if size), strict=True)
    assert set(widths) == {237.6}
    assert heights[0] == pytest.approx(157.68, abs=2)
    assert heights[1] > heights[0] + 30
    assert heights[2] == 144


@pytest.mark.parametrize(
    ("style", "kind", "says"),
    [
        ({"width": "colum"}, BadValue, "column"),
        ({"width": 0.5}, BadValue, "width"),
        ({"width": float("nan")}, BadValue, "finite"),
        ({"font": "comic"}, BadValue, "serif"),
        ({"size": 80}, BadValue, "4 to 24 points"),
        ({"colour": "red"}, UnknownName, "colour"),
    ],
)
def test_styles_that_no_figure_has(style: dict[str, object], kind: type[HoldfastError], says: str) -> None:
    with pytest.raises(kind, match=says):
        Style(**style)  # type: ignore[arg-type]


def test_places_and_formats_that_cannot_be_written(tmp_path: Path) -> None:
    figure = figure_of("bars")
    for place, kind, says in (("a.pfd", UnknownName, r"'pdf'\?"), ("a", UnknownName, "format"),
                        ("file/a.svg", BadPlace, r"a\.svg")):  # fmt: skip
        (tmp_path / "file").touch()
        with pytest.raises(kind, match=says):
            figure.save(tmp_path / place)
    with pytest.raises(BadValue, match="dpi"):
        figure.save(tmp_path / "a.png", dpi=1e9)


def test_the_numbers_that_are_drawn_are_one_table_that_tex_reads() -> None:
    rows = numbers(figure_of("lines"))
    assert rows[0] == {"series": "0", "name": "timm:a_b 50 more", "style": "solid", "x": "1.0", "y": "0.5",
                       "low": "0.4", "high": "0.6", "bound": "0"}  # fmt: skip
    assert (rows[1]["y"], rows[1]["low"]) == ("nan", "nan")
    assert (rows[2]["name"], rows[2]["bound"], rows[2]["low"]) == ("'=b", "1", "nan")
    for kind in DRAWINGS:
        lines = figure_of(kind).csv().splitlines()
        assert len({line.count(",") for line in lines}) == 1
        assert not re.search(r"[\"%#{}\\$&]", figure_of(kind).csv())
    shares = [float(row["y"]) for row in numbers(figure_of("histogram"))]
    assert sum(shares) == pytest.approx(2)
    assert len(numbers(figure_of("heat"))) == 9
    assert list(figure_of("front").to_pandas()["x_high"]) == [0.6]


def test_colours_differ_in_greyscale() -> None:
    light = sorted(float(lab(torch.tensor(to_rgb(colour)).view(1, 3, 1, 1))[0, 0]) for colour in COLOURS[:4])
    assert min(np.diff(light)) > 19
    assert max(light) < 70


def test_a_smooth_curve_is_a_kernel_density_estimate_by_scotts_rule() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=50)
    drawing = Histogram("k", [Spread(0, values)], label="x", bins=10, smooth=True)
    ((along, heights),) = drawing._densities()
    width = values.std(ddof=1) * len(values) ** -0.2
    kernels = np.exp(-(((along[:, None] - values) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
    bin_width = np.ptp(values) / 10
    assert heights == pytest.approx(bin_width * kernels.mean(1))
    assert np.trapezoid(heights, along) == pytest.approx(bin_width, rel=0.01)  # the area of the shares
    ((_, flat),) = Histogram("k", [Spread(0, np.ones(5))], label="x", smooth=True)._densities()
    assert not flat.any()


def test_marks_of_a_histogram_have_room_for_their_names() -> None:
    values = np.linspace(0, 1, 20)
    plain = Histogram("k", [Spread(0, values)], label="x", smooth=True)
    marks = [(0.5, "median"), (0.505, "mean"), (0.51, "other")]
    marked = Histogram("k", [Spread(0, values)], label="x", smooth=True, marks=marks)
    assert marked.height(PAGE) > plain.height(PAGE) + 3 * PAGE.small / 72  # in three rows, for they would touch
    assert all(f">{name}</text>" in marked.svg() for _, name in marks)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    options = {
        "measures": ["breaking_radius", "universal_quantile"],
        "images": 24,
        "attacked": 8,
        "budget": "none",
        "quiet": True,
    }
    return [holdfast.audit(f"zoo:digits-{name}", "digits", **options) for name in ("simclr", "supervised")]


def test_a_record_has_figures_by_short_names(records: list[Record]) -> None:
    record = records[0]
    assert record.figures == ("steps", "curve", "objective", "images")
    figure = record.figure("curve", width=4.5)
    assert figure.style.inches == 4.5
    assert figure.caption.startswith("How many images hold: Breaking radius. The share of images that still hold")
    assert "Encoder: digits-simclr. Images: " in figure.caption
    sizes = [len(record.figure("curve", marks=marks)._repr_svg_()) for marks in (True, False)]
    assert sizes[1] < sizes[0]
    (chart,) = record.data["encoders"][0]["measures"]["breaking_radius"]["charts"]
    line = chart["lines"][0]
    rows = numbers(figure)
    assert [float(row["y"]) for row in rows if row["style"] == "solid"] == line["y"]
    assert [float(row["low"]) for row in rows if row["style"] == "solid"] == line["low"]
    assert {row["name"] for row in rows} == {"digits-simclr"}
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert repr(figure).startswith("Figure 'curve': How many images hold")
    label = record.figure("images").drawing
    assert isinstance(label, Histogram)
    assert label.label == "Universal quantile of each image"
    with pytest.raises(UnknownName, match=r"'curve'\?"):
        record.figure("curv")


def test_a_comparison_draws_encoders_of_several_records_together(records: list[Record], tmp_path: Path) -> None:
    comparison = holdfast.compare(*records)
    assert {"curve", "curve-difference", "images"} <= set(comparison.figures)
    assert "Encoders: digits-simclr, digits-sup" in comparison.figure("curve").caption
    rows = numbers(comparison.figure("curve"))
    assert {row["name"] for row in rows} == {"digits-simclr", "digits-supervised"}
    drawing = comparison.figure("images").drawing  # read from two run folders
    assert isinstance(drawing, Histogram)
    assert [len(spread.values) for spread in drawing.spreads] == [8, 8]
    svg = comparison.figure("curve", editable=True)._repr_svg_()
    assert all(f">{name}</text>" in svg for name in ("digits-simclr", "digits-supervised"))
    alone = Comparison(compare_runs([record.run for record in records]))
    assert alone.figures == ()


def test_a_record_without_charts_says_so(records: list[Record]) -> None:
    run = records[0].run
    encoder = structs.replace(run.record.encoders[0], measures={}, observations=[])
    bare = Record(replace(run, place="here", record=structs.replace(run.record, encoders=[encoder])))
    assert bare.figures == ()
    with pytest.raises(Missing):
        bare.figure("curve")


def run(*words: str) -> tuple[int, str]:
    """Return the status of the command, and what it prints or why it ends."""
    result = CliRunner().invoke(app, ["figures", *words])
    if isinstance(result.exception, HoldfastError):
        return int(result.exception.status), str(result.exception)
    return result.exit_code, result.stdout


def test_the_command_writes_all_figures_with_their_captions(records: list[Record], tmp_path: Path) -> None:
    folders = [record.folder for record in records]
    status, said = run(folders[0], "--out", str(tmp_path / "one"), "--format", "csv,.SVG", "--width", "3")
    assert status == 0
    names = {f"{name}.{kind}" for name in records[0].figures for kind in ("csv", "svg")}
    assert {path.name for path in (tmp_path / "one").iterdir()} == {*names, "captions.txt", "captions.tex"}
    assert (tmp_path / "one" / "curve.csv").read_text() == records[0].figure("curve").csv()
    assert "curve: How many images hold: Breaking radius" in said
    captions = (tmp_path / "one" / "captions.tex").read_text()
    assert captions.count("\\caption{") == 4
    assert "95 \\% confidence" in captions
    assert captions.isascii()
    run(*folders, "--out", "memory://figures", "--only", "curve", "--format", "csv")
    text = Folder("memory://figures").read("curve.csv").decode()
    assert {line.split(",")[1] for line in text.splitlines()[1:]} == {"digits-simclr", "digits-supervised"}


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--format", "pfd"], "did you mean 'pdf'"), (["--only", "curv"], "did you mean 'curve'"),
     (["--width", "3,3"], "known: column, page, or inches"), (["--height", "nan"], "finite"),
     (["--dpi", "1"], "20 to 2400"), (["--out", "{file}/inside"], "cannot write")],
)  # fmt: skip
def test_what_the_command_refuses(records: list[Record], tmp_path: Path, words: list[str], says: str) -> None:
    (tmp_path / "file").touch()
    words = [word.format(file=tmp_path / "file") for word in ["--out", str(tmp_path / "out"), *words]]
    status, said = run(records[0].folder, "--format", "csv", *words)
    assert status == 2
    assert says in said
    assert run(str(tmp_path))[0] == 3

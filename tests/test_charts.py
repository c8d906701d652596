"""Charts as data: a measure of one's own appears with its charts; what failed a check is marked in every kind."""

import copy
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec import structs

import holdfast
from holdfast.core import Chart, Score, Table, registry
from holdfast.core.chart import Cells, Curves, Distribution, Line, Readouts, Row, Scatter, chart_data, numbers
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.report.apart import Apart
from holdfast.report.charts.kinds import Contribution, draw_together
from holdfast.report.charts.sections import chart_sections
from holdfast.report.panel import Panel
from holdfast.runtime.errors import BadValue, UnknownName
from holdfast.storage.chart import CurvesEntry
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.record_file import RunFiles
from json_records import typed
from report_fixture import make_run

WORDS = {"heading": "Mine", "how_to_read": "Up is <up>."}
FILES = RunFiles(Folder("."), {})


@dataclass(frozen=True)
class Drawing(CosineToSelf):
    """A measure with a chart of its own."""

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        line = Line((0, 1, 2), (-0.5, None, 0.5), (-0.6, None, 0.4), (-0.4, None, 0.6))
        return (Curves(**WORDS, lines=(line,), across="my <axis>", label="mine", summary="it rises"),)


@dataclass(frozen=True)
class Misdrawn(CosineToSelf):
    """A measure whose chart names a column that is not there."""

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        return (Distribution(column="similarty@20"),)


def test_a_measure_of_ones_own_appears_with_its_chart(own_parts_forgotten, tmp_path: Path) -> None:
    for cls in (Drawing, Misdrawn):
        registry.register("measures")(cls)
    encoders = ["zoo:digits-simclr", "zoo:digits-supervised"]
    record = holdfast.audit(
        encoders, "digits", measures=["drawing", "misdrawn"], profile="quick", images=16, attacked=4, budget="none"
    )
    page = Path(record.report(tmp_path / "report.html")).read_text(encoding="utf-8")
    assert ">Mine</h3>" in page
    assert "Up is &lt;up&gt;." in page
    assert "my &lt;axis&gt;" in page
    assert 'aria-label="Drawing. it rises, 2 encoders."' in page
    # a chart that cannot be drawn is told of, and costs no score
    assert len(record.failures) == 2
    assert all("charts of misdrawn" in text and "did you mean" in text for text in record.failures)
    assert record[encoders[0], "misdrawn"].value is not None


@pytest.mark.parametrize(
    "chart",
    [Distribution(column="b"), Scatter(**WORDS, x="a", y="b", across="", label=""),
     Readouts(**WORDS, scores=("one", "two"), at=(1, 2), across=""), Distribution(column="a", score="two"),
     Readouts(**WORDS, scores=("one",), at=(1,), across="", choice="two"),
     Cells(**WORDS, rows=("r",), columns=("c",), scores=(("two",),), corner="")],
)  # fmt: skip
def test_charts_name_only_what_is_there(chart: Chart) -> None:
    with pytest.raises(UnknownName, match=r"(column|score)"):
        chart_data(chart, ["a"], ["one"])
    assert chart_data(replace(chart), ["a", "b"], ["one", "two"])["kind"] == type(chart).__name__.lower()


def test_lines_are_as_long_as_their_bands_and_leave_gaps() -> None:
    assert numbers(torch.tensor([0.1, torch.nan, torch.inf])) == (0.1, None, None)
    with pytest.raises(BadValue):
        Line((0, 1), (0.5,))
    with pytest.raises(BadValue):
        Line((0, 1), (0.5, 0.5), low=(0.5,))


NAMES = ("5 steps", "50 steps")


def charts() -> dict[str, Chart]:
    line, column = Line((0, 1), (0.2, 0.4)), "share_closer"
    return {
        "readouts": Readouts(**WORDS, scores=NAMES, at=(5, 50), across="steps"),
        "curves": Curves(**WORDS, lines=(line,), across="x", label="y"),
        "curves of one": Curves(
            **WORDS, lines=(replace(line, name="a"), replace(line, name="b")), across="x", label=""
        ),
        "distribution": Distribution(column=column),
        "scatter": Scatter(**WORDS, x=column, y=column, across="x", label="y"),
        "row": Row(**WORDS, name="r", place=(0,), across="x", setting=()),
    }


def drawn(folder: Path, run: dict, chart: Chart, standing: str) -> list[Panel]:
    """Draw a chart of two encoders, of which the first has a flaw."""
    run = copy.deepcopy(run)
    for encoder in run["encoders"]:
        risk = encoder["measures"]["breakaway_risk"]
        risk["charts"] = as_json([chart_data(chart, ["share_closer"], NAMES)])
        encoder |= {"measures": {"m": risk, "n": {**risk, "part": {"name": "n"}}}, "observations": []}
    for measure in run["encoders"][0]["measures"].values():
        for score in measure["scores"].values():
            score |= {"standing": standing, "because": ["masking"] if standing != "sound" else []}
    apart = Apart()
    sections = chart_sections(typed(run), RunFiles(Folder(folder), {}), apart)
    assert apart.problems == []
    return [panel for section in sections for panel in section.panels]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", charts())
def test_what_failed_a_check_is_marked_in_every_kind_of_chart(kind: str, tmp_path: Path) -> None:
    run, chart = make_run(tmp_path, 2), charts()[kind]
    first = run["encoders"][0]["name"]
    sound, bound, void = (drawn(tmp_path, run, chart, standing) for standing in ("sound", "at least", "void"))
    assert not any(panel.notes for panel in sound)
    notes = " ".join(note for panel in bound for note in panel.notes)
    assert first in notes
    assert "hollow: a check failed (misleading gradients), so the truth is at least what is drawn" in notes
    assert [panel.svg for panel in bound] != [panel.svg for panel in sound]
    assert "left out: void, a check failed (misleading gradients)" in " ".join(
        note for panel in void for note in panel.notes
    )
    if kind != "curves of one":
        assert "var(--s0)" in sound[0].svg
        assert "var(--s0)" not in void[0].svg
    else:
        assert len(void) == len(sound) / 2


def test_headings_gather_charts_of_several_measures(tmp_path: Path, undrawn: None) -> None:
    run = make_run(tmp_path, 2)
    sections = chart_sections(typed(run), RunFiles(Folder(tmp_path), {}), Apart())
    headings = [section.heading for section in sections]
    assert headings == ["Scores against attack steps", "What the attacks maximised", "Per image"]
    assert [len(section.panels) for section in sections] == [7, 2, 5]
    assert np.unique([section.key for section in sections]).size == 3


MARKS = ((1 / 255, "1/255"), (4 / 255, "4/255"), (0.0175, "visible"), (8 / 255, "8/255"), (0.035, "sensor noise"))


def curve(name: str, *marks: tuple[float, str]) -> Contribution[CurvesEntry]:
    """Return what an encoder contributes to a chart of curves on a logarithmic axis."""
    line = Line((0.001, 0.01, 0.1), (1.0, 0.5, 0.0), (0.8, 0.3, 0.0), (1.0, 0.7, 0.2))
    places, names = zip(*marks, strict=True)
    chart = Curves(
        **WORDS, lines=(line,), across="size", label="hold", unit="share", scale="log", marks=places, named=names,
        note="A note.",
    )  # fmt: skip
    return Contribution(0, name, read_json(as_json(chart_data(chart)), CurvesEntry), None)


def test_names_of_marks_do_not_touch() -> None:
    panel = draw_together("k", "Curve", [curve("a", *MARKS, (0.037, "JPEG 90"))])
    boxes = []
    for _, name in (*MARKS, (0.037, "JPEG 90")):
        (place,) = re.findall(rf'<text[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>{name}</text>', panel.svg)
        x, y = map(float, place)
        boxes.append((x - 2 * len(name), x + 2 * len(name), y))  # 7 pixels high, and letters of 4 pixels
    for (left, right, y), (other_left, other_right, other_y) in itertools.combinations(boxes, 2):
        assert right < other_left or other_right < left or abs(y - other_y) >= 7


def test_marks_of_several_encoders_are_drawn_once() -> None:
    first, second = curve("a", (0.004, "1/255"), (0.03, "JPEG 90")), curve("b", (0.004, "1/255"), (0.06, "JPEG 90"))
    panel = draw_together("k", "Curve", [first, second])
    assert panel.svg.count(">1/255</text>") == 1
    assert panel.svg.count(">JPEG 90</text>") == 1
    assert panel.drawing is not None
    assert {name: at for at, name in panel.drawing.across.marks}["JPEG 90"] == pytest.approx(0.045)
    assert panel.notes == ["A note."]


def test_sizes_of_a_box_are_drawn_as_255ths() -> None:
    part = curve("a", (0.004, "JPEG 90"))
    boxed = replace(part, chart=structs.replace(part.chart, in_255ths=True))
    panel = draw_together("k", "Curve", [boxed])
    assert "/255</text>" in panel.svg
    assert "/255</text>" not in draw_together("k", "Curve", [part]).svg
    rows = list(panel.drawing.rows()) if panel.drawing else []
    assert [float(row["x"]) for row in rows] == pytest.approx([255 * x for x in part.chart.lines[0].x])


def test_a_band_that_crosses_zero_is_drawn_whole() -> None:
    part = curve("a", (0.004, "1/255"))
    line = structs.replace(part.chart.lines[0], y=[0.0, 0.5, 0.0], low=[-0.2, 0.3, -0.2], high=[0.2, 0.7, 0.2])
    panel = draw_together("k", "Curve", [replace(part, chart=structs.replace(part.chart, lines=[line]))])
    assert ">-20 %</text>" in panel.svg.replace("−", "-")

"""Corruptions, relations and certified radii in the report: right numbers in right places, nothing invented."""

from pathlib import Path

import pytest
import torch
from scipy import stats

from holdfast.parts.measures.shared.reach import chart_certificates
from holdfast.report.corruptions import corruption_grids, relation_charts, relation_rows
from holdfast.report.html import write_report
from holdfast.report.verdict import winners
from holdfast.storage.record import Record
from json_records import make_record
from report_fixture import SOUND, make_run, write_record

NAMES = ["γ 0.2", "G4x4", "<fog>"]


def score(value: float | None, half: float = 0.01) -> dict:
    ends = {end: None if value is None else value + sign * half for end, sign in (("low", -1), ("high", 1))}
    return {"value": value, **ends, "n": 100, "interval": "", "confidence": 0.95, "note": "", "unit": "", **SOUND}


def measure(title: str, values: list[float | None], **more) -> dict:
    scores = {name: score(value) for name, value in zip([*NAMES, "average"], values, strict=True)}
    return {
        "part": {"kind": "measures", "name": "m"}, "title": title, "unit": "share", "error": None, "scores": scores,
        "headline": "average", "corruptions": NAMES, "needs_labels": False, "better": "lower", **more,
    }  # fmt: skip


def relation(over: str, spearman: float | None, encoder: str | None = None) -> dict:
    pair = {"first": "drift", "second": "drop"}
    return {"over": over, "encoder": encoder, **pair, "points": 3, "pearson": score(0.5), "spearman": score(spearman)}


def encoders() -> list[dict]:
    first = {"drift": measure("Drift", [0.1, 0.2, 0.3, 0.2]), "drop": measure("Drop", [0.01, 0.5, None, 0.25])}
    second = {"drift": measure("Drift", [0.4, 0.5, 0.6, 0.5])}
    return [{"name": "a", "measures": first}, {"name": "b", "measures": second}, {"name": "c", "measures": {}}]


def record(encoders: list[dict]) -> Record:
    relations = [relation("corruptions", 0.3, "a"), relation("corruptions", -0.9, "b"), relation("encoders", None)]
    return make_record(encoders, relations=relations)


def test_each_encoder_has_a_table_with_a_row_for_each_corruption() -> None:
    grids = corruption_grids(record(encoders()))
    assert [(grid.name, grid.columns) for grid in grids] == [("a", ["Drift ↓", "Drop ↓"]), ("b", ["Drift ↓"])]
    rows = dict(grids[0].rows)
    assert list(rows) == [*NAMES, "average"]
    assert rows["G4x4"] == ["20.0 % [19.0, 21.0]", "50.0 % [49.0, 51.0]"]
    assert rows["<fog>"][1] == "undefined"


def test_relations_come_strongest_first_and_draw_only_what_is_known() -> None:
    rows = relation_rows(record(encoders()), "corruptions")
    assert [row.where for row in rows] == ["b", "a"]
    assert rows[0].spearman.startswith("−0.9")
    assert relation_rows(record(encoders()), "encoders")[0].spearman == "undefined"
    (chart,) = relation_charts(record(encoders()), "corruptions")
    assert "2 points" in chart.alt  # "a" has no drop of the third, "b" has none at all
    (chart,) = relation_charts(record(encoders()), "encoders")
    assert "1 point," in chart.alt


def test_names_are_escaped_and_the_section_is_there_only_where_it_has_something_to_say(tmp_path: Path) -> None:
    made = make_run(tmp_path)
    assert 'id="corruptions"' not in write_report(tmp_path).read_text()
    kept = dict(next(iter(made["encoders"][0]["measures"].values())))
    for key, entry in encoders()[0]["measures"].items():
        made["encoders"][0]["measures"][key] = kept | entry | {"table": None, "column": None, "part": kept["part"]}
    made["relations"] = [relation("corruptions", 0.3, "a")]
    write_record(tmp_path, made)
    page = write_report(tmp_path).read_text()
    assert 'id="corruptions"' in page
    assert "&lt;fog&gt;" in page
    assert "<fog>" not in page
    assert "Does the label-free number predict" in page


def test_the_winner_of_two_measures_is_best_on_both() -> None:
    def entry(name: str) -> dict:
        return {"name": name, "measures": {key: measure(key, [0.1] * 4) for key in ("drift", "drop")}}

    def said(*best: str | None) -> str:
        comparison = {key: {"best": name, "pairs": []} for key, name in zip(("drift", "drop"), best, strict=True)}
        return winners(make_record([entry("a"), entry("b")], comparison=comparison))[0].text

    assert said("a", "a") == "a is best on both measures, image by image, after correction."
    assert said("a", None) == "a is best on drift, image by image, after correction."


def test_the_curve_of_certified_radii_begins_at_the_share_of_right_answers_and_has_exact_intervals() -> None:
    right, radius = torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor([0.0, 0.2, 0.4, 0.7])
    chart = chart_certificates(right, radius)
    (curve,) = chart.lines
    assert (curve.y[0], curve.y[-1]) == (0.75, 0.0)
    at = next(i for i, x in enumerate(curve.x) if x > 0.21)
    assert curve.y[at] == 0.25
    exact = stats.binomtest(1, 4).proportion_ci(0.95)
    assert (curve.low[at], curve.high[at]) == pytest.approx((exact.low, exact.high), rel=1e-6)
    assert (curve.low[-1], curve.high[-1]) == pytest.approx(tuple(stats.binomtest(0, 4).proportion_ci(0.95)))
    assert chart.summary == "75 % certified at 0, average radius 0.15"  # the wrong answer's radius does not count


def test_points_of_bounds_are_hollow() -> None:
    flawed = encoders()
    flawed[0]["measures"]["drift"]["scores"]["γ 0.2"] |= {"standing": "at least", "because": ["reach"]}
    (chart,) = relation_charts(record(flawed), "corruptions")
    assert "Hollow: a check failed" in chart.notes[0]
    assert relation_charts(record(encoders()), "corruptions")[0].notes == []

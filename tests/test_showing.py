"""Results draw themselves in a notebook: a score in a line, tables of records, comparisons and studies."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast
from holdfast.api.record import Record
from holdfast.storage import study as stored
from holdfast.storage.entry import as_json
from holdfast.storage.study import ColumnEntry, StudyEntry, StudyRow
from holdfast.workflows.study.outcome import StudyRecord
from report_fixture import NAMES, make_run, make_score


@pytest.fixture
def record(tmp_path: Path) -> Record:
    make_run(tmp_path / "run")
    return holdfast.open(tmp_path / "run")


def test_a_score_says_in_a_line_what_it_is_of(record: Record) -> None:
    score = record[NAMES[1], "breakaway_risk"]
    value, ends = f"{100 * score.value:.0f}", f"n = {score.n}"  # type: ignore[operator]
    assert "\n" not in repr(score)
    assert repr(score).startswith(f"Breakaway risk, 50 steps, of {NAMES[1]}: {value}")
    assert f"%, {ends}); ↓ lower is better" in repr(score)
    assert score.unit == "share"
    html = score._repr_html_()
    assert '<span class="bold">' in html
    assert f"of {NAMES[1]}" in html
    assert score == replace(score, encoder="another")
    assert score != replace(score, value=0.5)
    undefined = record[NAMES[1], "relative_quantile"]
    assert "undefined; n = 200; ↑ higher is better; undefined: 3 pairs" in str(undefined)
    assert list(record.scores("breakaway_risk", NAMES[1]))[-1] == "50 steps"


def test_a_study_draws_its_tables(tmp_path: Path) -> None:
    columns = [ColumnEntry(title=title, corruption=None, data=None, averaged=True) for title in ("original", "fog")]
    asked = StudyEntry(
        methods={}, columns=columns, test="digits", test_images=None, test_seed=0, seeds=[0], probes=[],
        settings={"same": "as it is"},
    )  # fmt: skip
    row = StudyRow(
        method="<b>", probe="knn", setting="same", accuracy={"original": make_score(0.5, 0.4, 0.6)}, drop={},
        average=None, problems={"fog": "it <failed>"},
    )  # fmt: skip
    found = stored.StudyRecord(command="", study=asked, rows=[row])
    study = StudyRecord(found)
    assert "50 % [40, 60]" in str(study)
    html = study._repr_html_()
    assert "&lt;b&gt;" in html
    assert "it &lt;failed&gt;" in html
    assert "<b>" not in html
    assert dict(study) == json.loads(json.dumps(study)) == as_json(found)
    assert study["rows"][0]["accuracy"]["original"]["low"] == 0.4

"""The answers that begin a report: in words, what they are like, their standing, and what the checks say."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.report import references
from holdfast.report.answer import answers
from holdfast.report.references import Reference
from holdfast.storage.record import Alike, Record
from json_records import make_record
from report_fixture import make_score

FAILURE = {"name": "nearest", "divergence": "l2"}


def record(standing: str = "sound", called: str = "", **checks: str) -> Record:
    """Return a record of an encoder that says something in words, with a standing and the statuses of checks."""
    because = "collapse" if standing == "void" else "smaller_change[ball=l2]"
    headline = make_score(0.02, 0.016, 0.025, standing=standing, because=(because,))
    radius = {
        "title": "Breaking radius",
        "better": "higher",
        "unit": "pixels",
        "in_words": {
            "says": "half hold up to 5/255",
            "further": ["Proved: nothing."],
        },
        "levels": True,
        "headline": "median",
        "scores": {"median": headline},
        "part": {"name": "breaking_radius", "ball": {"name": "linf", "radius": 0.05}, "failure": FAILURE, "steps": 100},
    }
    silent = radius | {"title": "Other", "in_words": None}
    failed = silent | {"title": "Failed", "headline": None, "scores": {}, "error": "out of memory"}
    named = {
        name: {
            "title": name.capitalize(), "status": status, "called": called if status != "pass" else "", "finding": "",
            "meaning": "", "consequence": "caution", "details": {},
        }
        for name, status in checks.items()
    }  # fmt: skip
    measures = {"a": radius, "b": silent, "c": failed}
    encoder = {"name": "e", "measures": measures, "checks": named, "input": [3, 32, 32], "fingerprint": "own"}
    return make_record([encoder], data={"images": 256})


@pytest.mark.parametrize(
    ("standing", "called", "checks", "tone", "text"),
    [
        (
            "sound", "", {"frozen": "pass", "reach": "skip"}, "plain",
            "Half hold up to 5/255. Proved: nothing. Trust: all checks passed.",
        ),
        (
            "sound", "", {"frozen": "pass", "other": "warn"}, "plain",
            "Half hold up to 5/255. Proved: nothing. Trust: warnings of other.",
        ),
        ("sound", "", {}, "plain", "Half hold up to 5/255. Proved: nothing. Trust: no check was run."),
        (
            "at most", "", {"frozen": "pass", "other": "warn", "masking": "fail"}, "warn",
            "Half hold up to 5/255. This is only a limit, because a check failed (smaller changes exist): the truth "
            "may be far smaller. Proved: nothing. Trust: masking failed; warnings of other.",
        ),
        (
            "at most", "Hides its gradient", {"frozen": "pass", "gradient": "fail"}, "warn",
            "Hides its gradient: half hold up to 5/255. This is only a limit, because a check failed (smaller changes "
            "exist): the truth may be far smaller. Proved: nothing. Trust: gradient failed.",
        ),
        (
            "sound", "Looks untrained", {"frozen": "pass", "trained": "warn"}, "bad",
            "Looks untrained: half hold up to 5/255: for such an encoder this means little. Proved: nothing. "
            "Trust: warnings of trained.",
        ),
        (
            "void", "Collapsed", {"frozen": "pass", "collapse": "fail"}, "bad",
            "Collapsed: breaking radius means nothing here: a check failed (nearly one representation for all images). "
            "Trust: collapse failed.",
        ),
        (
            "void", "", {"frozen": "pass", "input_range": "fail"}, "bad",
            "Breaking radius means nothing here: a check failed (nearly one representation for all images). "
            "Trust: input_range failed.",
        ),
    ],
)  # fmt: skip
def test_an_answer_says_how_far_it_may_be_believed(
    standing: str, called: str, checks: dict[str, str], tone: str, text: str
) -> None:
    ((name, answer),) = answers(record(standing, called, **checks))
    assert name == "e"
    assert answer.text == text
    assert answer.tone == tone


def test_what_looks_alike_is_told_unless_it_was_left_out() -> None:
    audit = record(frozen="pass")
    duplicates = [Alike(image="a", like="b", levels=0), Alike(image="c", like="b", levels=5)]
    ((_, answer),) = answers(replace(audit, data=replace(audit.data, duplicates=duplicates)))
    assert "are copies of others" in answer.text
    assert "--skip-duplicates" in answer.text
    without = replace(audit.data, duplicates=duplicates, duplicates_left_out=True)
    ((_, answer),) = answers(replace(audit, data=without))
    assert "copies" not in answer.text


def known(name: str, value: float, **other: Any) -> Reference:
    fields: dict[str, Any] = {
        "name": name, "images": "photos", "measure": "breaking_radius", "norm": "linf", "failure": FAILURE,
        "input": (3, 32, 32), "population": 256, "attacked": 32, "passes": 100, "value": value, "low": 0.9 * value,
        "high": 1.1 * value, "encoder": name, "record": "",
    }  # fmt: skip
    return Reference(**(fields | other))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([known("A", 0.0145), known("B", 0.019), known("C", 0.023)], "With the same settings: B 4.8/255 on photos."),
        (
            [known("A", 0.001), known("B", 0.002), known("C", 0.1)],
            "With the same settings: B 0.51/255 on photos, C 26/255 on photos.",
        ),
        ([known("A", 0.001)], "Proved: nothing. Trust:"),
        ([known("A", 0.1)], "Proved: nothing. Trust:"),
        ([known("A", 0.02, population=500)], "Proved: nothing. Trust:"),
        ([known("A", 0.02, norm="l2")], "Proved: nothing. Trust:"),
        ([known("A", 0.02, passes=300)], "Proved: nothing. Trust:"),
        ([known("A", 0.02, input=(3, 224, 224))], "Proved: nothing. Trust:"),
        ([known("A", 0.02, failure=FAILURE | {"divergence": "cosine"})], "Proved: nothing. Trust:"),
        ([known("A", 0.02, encoder="own")], "Proved: nothing. Trust:"),
    ],
)
def test_an_answer_is_held_against_encoders_that_people_know(
    table: list[Reference], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "references", lambda: table)
    ((_, answer),) = answers(record(frozen="pass"))
    assert words in answer.text
    ((_, doubtful),) = answers(record("at most", frozen="pass"))
    assert "same settings" not in doubtful.text

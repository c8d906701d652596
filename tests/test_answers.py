"""The answers that begin a report: in words, with their standing, and what the checks say."""

from typing import Any

import pytest

from holdfast.report.verdict import answers


def record(standing: str = "sound", **checks: str) -> dict[str, Any]:
    """Return as much of a record as answers read."""
    headline = {"standing": standing, "because": ("smaller_change[ball=l2]",)}
    radius = {
        "title": "Breaking radius",
        "in_words": "Half hold.",
        "headline": "median",
        "scores": {"median": headline},
    }
    silent = {"title": "Other", "in_words": "", "headline": "x", "scores": {"x": {}}}
    failed = {"title": "Failed", "in_words": "", "headline": None, "scores": {}}
    named = {name: {"title": name.capitalize(), "status": status} for name, status in checks.items()}
    return {"encoders": [{"name": "e", "measures": {"a": radius, "b": silent, "c": failed}, "checks": named}]}


@pytest.mark.parametrize(
    ("standing", "checks", "text"),
    [
        ("sound", {"frozen": "pass", "reach": "skip"}, "Half hold. Trust: all checks passed."),
        ("sound", {"frozen": "pass", "trained": "warn"}, "Half hold. Trust: warnings of trained."),
        ("sound", {}, "Half hold. Trust: no check was run."),
        (
            "at most", {"frozen": "pass", "trained": "warn", "masking": "fail"},
            "Half hold. The truth is at most that: the check smaller change failed. "
            "Trust: masking failed; warnings of trained.",
        ),
        (
            "void", {"frozen": "pass", "collapse": "fail"},
            "Breaking radius means nothing here: the check smaller change failed. Trust: collapse failed.",
        ),
    ],
)  # fmt: skip
def test_an_answer_says_how_far_it_may_be_believed(standing: str, checks: dict[str, str], text: str) -> None:
    ((name, answer),) = answers(record(standing, **checks))
    assert name == "e"
    assert answer.text == text

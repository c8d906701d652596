"""Rows that are several scores of one measure: spread in the table, named together by claims. Inputs that are read."""

from typing import Any

import pytest

from holdfast.runtime.errors import BadValue
from holdfast.workflows.reproduce.recipe import assemble
from holdfast.workflows.reproduce.rows import spread

DRIFT = {"name": "drift", "measure": "universal_quantile", "scores": ["5 steps", "10 steps"], "scale": 100}


def test_scores_become_rows() -> None:
    rows = spread({"rows": [{"name": "first"}, {**DRIFT, "published": [[1.0, "-"], [2.0, 3.0]]}]}, "t")["rows"]
    assert [row["name"] for row in rows] == ["first", "drift, 5 steps", "drift, 10 steps"]
    assert [row["score"] for row in rows[1:]] == ["5 steps", "10 steps"]
    assert [row["published"] for row in rows[1:]] == [[1.0, "-"], [2.0, 3.0]]
    assert all(row["scale"] == 100 and "scores" not in row for row in rows[1:])


def test_quantiles_become_rows() -> None:
    row = {"name": "radius", "measure": "center_smoothing", "quantiles": ["0.1", "0.5"]}
    rows = spread({"rows": [row], "claims": [{"text": "a", "row": "radius"}]}, "t")
    common = {"measure": "center_smoothing", "published": []}
    assert rows["rows"] == [
        {"name": "radius, 0.1", "quantile": "0.1", **common}, {"name": "radius, 0.5", "quantile": "0.5", **common}
    ]  # fmt: skip
    assert rows["claims"] == [{"text": "a", "rows": ["radius, 0.1", "radius, 0.5"]}]


def test_a_claim_names_them_together() -> None:
    claims = [{"text": "a", "rows": ["first", "drift"]}, {"text": "b", "row": "drift"}, {"text": "c", "row": "first"}]
    told = spread({"rows": [{"name": "first"}, DRIFT], "claims": claims}, "t")["claims"]
    assert told[0]["rows"] == ["first", "drift, 5 steps", "drift, 10 steps"]
    assert told[1] == {"text": "b", "rows": ["drift, 5 steps", "drift, 10 steps"]}
    assert told[2] == claims[2]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**DRIFT, "scores": "5 steps"}, "scores"),
        ({**DRIFT, "scores": []}, "scores"),
        ({"name": "drift", "quantiles": "0.1"}, "quantiles"),
        ({**DRIFT, "quantiles": ["0.1"]}, r"scores .*quantiles"),
        ({**DRIFT, "published": [[1.0]]}, "2 lists"),
        ({**DRIFT, "published": [1.0, 2.0]}, "2 lists"),
    ],
)
def test_scores_without_their_numbers_are_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        spread({"rows": [row]}, "t")


def test_inputs_that_nothing_reads_are_left_out() -> None:
    training = {"encoder": "{base}", "data": "{train}"}
    inputs = {
        "images": {}, "train": {}, "base": {"spec": "{other}?layer=x"}, "other": {}, "tuned": {"train": training},
        "lost": {},
    }  # fmt: skip
    values = {
        **dict.fromkeys(("paper", "where", "title", "units"), "x"),
        "inputs": {name: {"about": name, **one} for name, one in inputs.items()},
        "audits": {"a": {"data": "{images}", "encoders": ["tuned"]}, "b": ""},
        "columns": [{"name": "c"}],
        "rows": [{"name": "r"}],
    }
    assert list(assemble(values, "t", "full").inputs) == ["images", "train", "base", "other", "tuned"]
    assert list(assemble({**values, "audits": {"a": {"data": "{lost}"}}}, "t", "full").inputs) == ["lost"]


def test_a_control_has_no_published_numbers() -> None:
    """A column that the paper does not have takes none of a row's numbers, wherever it stands."""
    values: dict[str, Any] = {
        **dict.fromkeys(("paper", "where", "title", "units"), "x"),
        "columns": [{"name": "before"}, {"name": "control", "ours": True}, {"name": "after"}],
        "rows": [{"name": "r", "published": [1.0, "-"]}, {"name": "s", "published": ["-", 2.0]}, {"name": "t"}],
    }
    rows = assemble(values, "t", "full").rows
    assert [row.published for row in rows] == [(1.0, None, None), (None, None, 2.0), ()]
    values["rows"][0]["published"] = [1.0, 2.0, 3.0]
    with pytest.raises(BadValue, match="published"):
        assemble(values, "t", "full")

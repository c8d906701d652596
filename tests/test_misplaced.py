"""Parameters of measures that are given to the whole audit: errors say where they belong, and that works."""

import re

import pytest

import holdfast
from holdfast import cli
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.runtime.errors import UnknownName

GIVEN = {
    "attack_steps": ("attack.steps", 10),
    "steps": ("attack.steps", 10),
    "attack": ("attack", "pgd"),
    "ball": ("ball", "l2"),
    "divergence": ("divergence", "cosine"),
}


@pytest.mark.parametrize("key", GIVEN)
def test_a_parameter_of_measures_is_told_from_one_of_the_audit(key: str) -> None:
    path, value = GIVEN[key]
    with pytest.raises(UnknownName) as caught:
        holdfast.audit("zoo:digits-simclr", "digits", **{key: value})
    said = str(caught.value)
    assert f"unknown parameter of audit '{key}'; {path} is a" in said
    assert f"settings={{'*.{path}': {value!r}}}" in said
    assert "attacked" not in said
    found = re.search(r"measures='(.+?)' in one", said)
    assert found is not None
    plan = make_plan(AuditRequest(("zoo:digits-simclr",), "digits", measures=(found[1],)))
    assert len(plan.measures) == 1


def test_what_is_no_parameter_of_anything_is_told_as_before() -> None:
    with pytest.raises(UnknownName, match=r"'attacked'\?"):
        holdfast.audit("zoo:digits-simclr", "digits", atacked=10)  # type: ignore[call-arg]


@pytest.mark.parametrize("words", [["--attack-steps", "10"], ["--attack-steps=10"], ["--steps", "10"]])
def test_an_option_that_is_a_parameter_of_measures_is_given_with_set(words: list[str], capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["holdfast", "audit", "zoo:digits-simclr", "--data", "digits", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "--set '*.attack.steps=10'" in said
    assert "attacked" not in said

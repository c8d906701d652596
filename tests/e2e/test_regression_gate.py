"""The gate against an earlier run: noise in the weights is caught, identical runs pass, and pipelines can read it."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from test_command_line import refused, run

import holdfast
from holdfast.report.annotations import annotations
from holdfast.report.documents.gate import summarise
from holdfast.report.junit import junit
from holdfast.report.render import to_markdown
from holdfast.runtime.errors import BadValue, Missing
from holdfast.sources.encoders import open_encoder
from holdfast.storage.finding import Finding
from holdfast.storage.gate import Gate

NOISE = 0.4
"""Standard deviation of what is added to each weight, in that of its tensor."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An encoder, the same, the same with noise in its weights, and on other images."""
    place = tmp_path_factory.mktemp("regression")
    encoder = open_encoder("zoo:digits-simclr-adv")
    torch.manual_seed(0)
    noisy = open_encoder("zoo:digits-simclr-adv")
    with torch.no_grad():
        for weight in noisy.parameters():
            weight.add_(torch.randn_like(weight) * weight.std() * NOISE) if weight.numel() > 1 else None
    how = {
        "images": 40,
        "attacked": 24,
        "quiet": True,
        "measures": ["breaking_radius", "breakaway_risk"],
        "examined": 4,
    }
    how["settings"] = {
        "breakaway_risk.attack.steps": 3,
        "breaking_radius.steps": 50,
        "breaking_radius.certified": 0,
    }
    for name, model, seed in (("last", encoder, 0), ("same", encoder, 0), ("noisy", noisy, 0), ("other", encoder, 1)):
        holdfast.audit({"net": model}, "digits", out=place / name, seed=seed, **how)
    return {name: str(place / name) for name in ("last", "same", "noisy", "other")}


@pytest.mark.slow
def test_noise_in_the_weights_is_caught(runs, capsys) -> None:
    code, out, _ = run(capsys, "check", runs["noisy"], "--baseline", runs["last"], "--allow-drop", "breaking_radius 5%")
    assert code == 1
    assert "Breaking radius" in out
    assert "worse ✗" in out
    assert out.splitlines()[-1] == "FAILED: 1 worse"
    code, out, _ = run(capsys, "check", runs["last"], "--baseline", runs["noisy"], "--json")
    verdicts = {row["measure"]: row["verdict"] for row in json.loads(out)["regression"]["verdicts"]}
    assert (code, verdicts["breaking_radius"]) == (0, "better")


def test_identical_runs_pass_even_strictly(runs, capsys) -> None:
    code, out, _ = run(capsys, "check", runs["same"], "--baseline", runs["last"], "--strict")
    assert (code, out.splitlines()[-1]) == (0, "passed")


def test_what_cannot_be_told_fails_strictly_alone(runs, capsys) -> None:
    arguments = ["check", runs["other"], "--baseline", runs["last"], "--allow-drop", "breaking_radius 0.01%"]
    code, out, _ = run(capsys, *arguments)
    assert (code, out.splitlines()[-1]) == (0, "passed, but undecided: 1")
    assert "unpaired: other images" in out
    text = " ".join(out.split())
    assert "cannot tell. To decide with 80 % power" in text
    assert "takes more than the 600 images available: allow a larger drop, or use more data" in text
    assert "is 1 here and 0 in the baseline: use the same --seed to compare image by image" in text
    code, out, _ = run(capsys, *arguments, "--json")
    assert (json.loads(out)["status"], json.loads(out)["verdict"]) == (code, "undecided") == (0, "undecided")
    code, out, _ = run(capsys, *arguments, "--strict")
    assert (code, out.splitlines()[-1]) == (1, "FAILED: 1 undecided (--strict)")


def test_requirements_and_a_baseline_in_one_call(runs, capsys, tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    file.write_text("breakaway_risk < 100%\nallow-drop breaking_radius 5%  # and no more\n")
    arguments = ["check", runs["noisy"], "--baseline", runs["last"], "--require-file", str(file)]
    code, out, _ = run(capsys, *arguments, "--json")
    data = json.loads(out)
    assert (code, data["status"], data["verdict"], data["met"], data["passed"]) == (1, 1, "failed", True, False)
    assert [row["measure"] for row in data["regression"]["verdicts"]] == ["breaking_radius"]
    result = holdfast.check(
        runs["noisy"],
        require="breakaway_risk < 100%",
        baseline=holdfast.open(runs["last"]),
        allow_drop="breaking_radius 5%",
    )
    assert not result.passed
    assert [row["verdict"] for row in result.verdicts] == ["worse"]
    assert [finding["met"] for finding in result.findings] == [True]
    assert str(result).splitlines()[-1] == "FAILED: 1 worse; requirements met"
    assert "worse ✗" in result._repr_html_()
    assert data["regression"]["verdicts"] == list(result.verdicts)


def test_pipelines_read_it(runs, capsys, tmp_path: Path, monkeypatch) -> None:
    summary, xml = tmp_path / "summary.md", tmp_path / "gate.xml"
    summary.write_text("before\n")
    arguments = ["check", runs["noisy"], "--baseline", runs["last"], "--require", "breakaway_risk < 0"]
    arguments += ["--summary", str(summary), "--junit", str(xml), "--annotate"]
    _, out, _ = run(capsys, *arguments)
    commands = [line for line in out.splitlines() if line.startswith("::")]
    assert [line.partition(" title=")[0] for line in commands] == ["::error", "::error", "::warning"]
    assert commands[0].startswith("::error title=not met%3A breakaway_risk < 0::net: breakaway_risk, 3 steps, high end")
    assert " %25" in commands[0]
    root = ElementTree.parse(xml).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("3", "2", "1")
    assert {case.get("classname") for case in root.iter("testcase")} == {"net"}
    assert summary.read_text().startswith("## ✗ holdfast check")
    assert "**worse ✗**" in summary.read_text()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    summary.write_text("before\n")
    run(capsys, *arguments)
    assert summary.read_text().startswith("before\n## ✗ holdfast check")


def test_what_pipelines_could_misread_is_escaped() -> None:
    name = "a,b: 100 %\n::error::<x> & \x00 | `y`"
    finding = Finding(requirement=name, encoder=name, met=False, compared="c", found=None, bound="", reason="no")
    data = Gate(
        record=name, status=1, passed=False, verdict="failed", met=False, findings=[finding], regression=None, index=[],
        strict=False,
    )  # fmt: skip
    (command,) = annotations(data)
    assert "\n" not in command
    assert "title=not met%3A a%2Cb%3A 100 %25%0A%3A%3Aerror%3A%3A<x>" in command
    (case,) = ElementTree.fromstring(junit(data).encode()).iter("testcase")
    assert case.get("classname") == "a,b: 100 %\n::error::<x> & � | `y`"
    assert "<x>" not in to_markdown(summarise(data)).replace("\\<x", "")
    assert len(to_markdown(summarise(data)).splitlines()) == 6


def test_radii_are_said_in_grey_levels(runs, capsys) -> None:
    _, out, _ = run(capsys, "check", runs["same"], "--require", "breaking_radius > 250/255")
    low = holdfast.open(runs["same"])["breaking_radius"].low
    assert low is not None
    assert f"{255 * low:.3g}/255 is not > 250/255" in " ".join(out.split())
    assert "did you mean 22/255?" in refused(capsys, "check", runs["same"], "--require", "breaking_radius > 22")


def test_bad_input_is_one_line(runs, capsys, tmp_path: Path) -> None:
    last = ["--baseline", runs["last"]]
    assert "add --baseline RUN" in refused(capsys, "check", runs["same"], "--allow-drop", "5%")
    assert "record.json" in refused(capsys, "check", runs["same"], "--baseline", str(tmp_path), status=3)
    assert "did you mean 'breaking_radius'" in refused(
        capsys, "check", runs["same"], *last, "--allow-drop", "breaking_radios 5%"
    )
    assert "expected NEW=OLD" in refused(capsys, "check", runs["same"], *last, "--match", "net")
    for option in ("--junit", "--summary"):
        assert "nowhere" in refused(capsys, "check", runs["same"], *last, option, "/proc/nowhere/x")
        assert "name of a file" in refused(capsys, "check", runs["same"], *last, option, ".")
    with pytest.raises(Missing, match="baseline=RUN"):
        holdfast.check(runs["same"])
    with pytest.raises(BadValue, match=r"check\.baseline"):
        holdfast.check(runs["same"], baseline=3)  # pyright: ignore

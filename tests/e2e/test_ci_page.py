"""The how-to of pipelines, end to end: every command on it does what the page says, with the encoders that it makes."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from test_action import ACTION, Runner

PAGE = (Path(__file__).parents[2] / "docs/howto/ci.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:<!-- (?P<note>[^>]+) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = [(match["language"], match["note"] or "", match["code"]) for match in BLOCK.finditer(PAGE)]
WORKFLOWS = [yaml.safe_load(code) for language, _, code in BLOCKS if language == "yaml"]
FILE = "not run: the file "
"""Begins the note of a block that commands after it read as a file."""


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script with this Python's commands, but a pip that installs nothing."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    pytest_here = f'exec {sys.executable} -m pytest -p no:holdfast -p holdfast.pytest_plugin "$@"'
    for name, command in {"pip": "true", "pytest": pytest_here}.items():
        (tools / name).write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    env = os.environ | {"PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-e", "-c", script]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_workflows_ask_the_action_for_what_it_has() -> None:
    jobs = [workflow["jobs"]["holdfast"] for workflow in WORKFLOWS if "jobs" in workflow]
    assert len(jobs) == 2
    for workflow, job in zip(WORKFLOWS, jobs, strict=False):
        assert workflow["permissions"] == {"contents": "read"}
        checkout, audit = job["steps"]
        assert re.fullmatch(r"actions/checkout@v\d+\.\d+\.\d+", checkout["uses"])
        assert set(audit["with"]) <= set(ACTION["inputs"])
    for name in re.findall(r"`(\w[\w-]*): \w+`", PAGE):
        assert name in ACTION["inputs"] or name == "actions"


@pytest.mark.slow
def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    log = []
    for language, note, code in BLOCKS:
        if note.startswith(FILE):
            (tmp_path / note.removeprefix(FILE)).write_text(code, encoding="utf-8")
        elif language in ("python", "sh") and not note.startswith("not run"):
            script = f"{sys.executable} - <<'END'\n{code}\nEND" if language == "python" else code
            ended = shell(script, tmp_path)
            expected = int(note.removeprefix("status: ")) if note.startswith("status: ") else 0
            assert ended.returncode == expected, f"{code}\n{ended.stdout}{ended.stderr}"
            log.append(ended.stdout)

    # the two changes
    text = "".join(log)
    assert "\npassed\n" in text
    assert "FAILED: 1 worse" in text
    shown = re.findall(r"(?<=^      baseline )[^;]+", PAGE, re.MULTILINE)
    assert len(shown) == 1
    assert " ".join(shown[0].split()) in " ".join(text.split()), "the page shows what the command says"
    for name, failures in {"harmless": "0", "broken": "1"}.items():
        assert ElementTree.parse(tmp_path / f"{name}.xml").getroot().get("failures") == failures
        assert ("worse ✗" in (tmp_path / f"{name}.md").read_text(encoding="utf-8")) == (failures == "1")

    # the plugin
    assert text.count("2 passed") == 2
    assert "test_it_became_no_worse: 1 no worse" in text
    assert "test_it_became_no_worse: wrote the baseline baseline" in text

    # GitLab, and the action as the pull request asks it
    (gitlab,) = [workflow["robustness"] for workflow in WORKFLOWS if "robustness" in workflow]
    ended = shell("\n".join(gitlab["script"]), tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / gitlab["artifacts"]["reports"]["junit"]).is_file()
    inputs = WORKFLOWS[0]["jobs"]["holdfast"]["steps"][1]["with"]
    runner = Runner(tmp_path, {name: str(value) for name, value in inputs.items()})
    assert runner.run("Audit") == 0, runner.log
    assert runner.run("Check") == 0, runner.log
    assert runner.outputs["check"] == {"status": "0", "verdict": "passed"}

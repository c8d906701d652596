"""What is shipped: packages, and the files that tell people about them."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import holdfast
from holdfast.runtime.version import VERSION

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_version_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert PROJECT["dynamic"] == ["version"]
    assert VERSION == holdfast.__version__ == cited["version"] == changes[0]


def test_the_citation_is_complete() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "type", "license"} <= set(cited)
    assert cited["license"] == PROJECT["license"]
    assert [one["name"] for one in cited["authors"]] == [one["name"] for one in PROJECT["authors"]]


def test_extras_are_told() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    told = {name for page in pages for name in re.findall(r"^\| `(\w+)` \|", page.read_text("utf-8"), re.MULTILINE)}
    assert set(PROJECT["optional-dependencies"]) - {"test", "bench", "docs"} - told == set()  # those three: make brings


def test_extras_that_errors_name_exist() -> None:
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "holdfast[" not in text, f"{path}: `format_install` says how extras are installed"
        if not re.search(r"\b(missing|format_install)\(", text):
            continue
        for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
            place = {"missing": 1, "format_install": 0}.get(getattr(call.func, "id", ""))
            if place is not None and isinstance(extra := call.args[place], ast.Constant):
                named.add(extra.value)
    assert {"pandas", "onnx"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_the_one_check_command_exists() -> None:
    (command,) = re.findall(r"^    (make \w+)$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert command.removeprefix("make ") in targets


def test_hooks_run_what_the_check_runs() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repo["repo"] == "local"
    assert [hook["name"] for hook in repo["hooks"]] == ["ruff check", "ruff format"]
    assert all(hook["entry"].startswith(f".venv/bin/{hook['name']}") for hook in repo["hooks"])


def test_types_are_shipped() -> None:
    assert (Path(holdfast.__file__).parent / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


@pytest.mark.parametrize("script", ["run", "package", "versions"])
def test_scripts_are_shell(script: str) -> None:
    path = ROOT / ".ci" / script
    assert path.stat().st_mode & 0o111
    ended = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_shells_complete_commands() -> None:
    asked = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": "holdfast lea", "COMP_CWORD": "1"}
    command = Path(sys.executable).parent / "holdfast"
    ended = subprocess.run([command], capture_output=True, text=True, check=False, env=os.environ | asked)
    assert ended.stdout.split() == ["leaderboard"], ended.stderr


@pytest.mark.slow(minutes=5)
def test_packages_are_built_installed_and_used() -> None:
    ended = subprocess.run(["bash", ROOT / ".ci/package", sys.executable], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"built, installed and used: holdfast-\S+\.whl holdfast-\S+\.tar\.gz", ended.stdout)

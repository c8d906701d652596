"""What is deprecated warns its caller, is said once on a terminal, and goes in the version that was announced."""

import inspect
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Annotated

import pytest
import typer
from packaging.version import Version
from typer.testing import CliRunner

import holdfast
from holdfast.cli.common import Command
from holdfast.core import HoldfastError
from holdfast.runtime import deprecation
from holdfast.runtime.checked import checked
from holdfast.runtime.deprecation import DEPRECATED, Deprecation, HoldfastDeprecationWarning, renamed, warn_deprecated


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    old = {"draw(size=)": Deprecation("count=", "9.0"), "--size": Deprecation("--count", "9.0")}
    monkeypatch.setattr(deprecation, "DEPRECATED", old)


@renamed(size="count")
@checked
def draw(count: int = 1) -> int:
    return count


def test_what_was_to_be_removed_is_removed() -> None:
    version = Version(holdfast.__version__)
    late = {name: entry.removed_in for name, entry in DEPRECATED.items() if version >= Version(entry.removed_in)}
    assert not late, f"remove what this version was announced to be without: {late}"


@pytest.mark.usefixtures("listed")
def test_an_old_argument_works_and_warns_its_caller() -> None:
    with pytest.warns(HoldfastDeprecationWarning) as caught:
        assert draw(size=3) == 3  # pyright: ignore[reportCallIssue]
    line = "draw(size=) is deprecated and will be removed in Holdfast 9.0; write count="
    assert [str(warning.message) for warning in caught] == [line]
    assert list(inspect.signature(draw).parameters) == ["count"], "the old name is not advertised"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw(count=2) == 2


def test_the_warning_is_shown_by_default_at_the_line_that_called_holdfast(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from holdfast.runtime import deprecation\n"
        "deprecation.DEPRECATED = {'draw(size=)': deprecation.Deprecation('count=', '9.0')}\n"
        "@deprecation.renamed(size='count')\n"
        "def draw(count): ...\n"
        "draw(size=3)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stderr.startswith(f"{script}:5: HoldfastDeprecationWarning: draw(size=) is deprecated")


@pytest.mark.usefixtures("listed")
def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(HoldfastError, match="draw: expected count, got size, its old name, as well; leave out size"):
        draw(count=1, size=2)  # pyright: ignore[reportCallIssue]


def test_only_what_is_listed_can_be_deprecated() -> None:
    with pytest.raises(KeyError):
        warn_deprecated("--size")


@pytest.mark.usefixtures("listed")
def test_a_command_says_it_once_on_stderr() -> None:
    app = typer.Typer()

    @app.command(cls=Command)
    def command(size: Annotated[int, typer.Option("--size")] = 0) -> None:
        for _ in range(size):
            warn_deprecated("--size")
        warnings.warn("of something else", RuntimeWarning, stacklevel=1)

    with pytest.warns(RuntimeWarning, match="of something else"):
        done = CliRunner().invoke(app, ["--size", "2"])
    assert done.exit_code == 0
    assert done.stdout == ""
    line = "deprecated: --size is deprecated and will be removed in Holdfast 9.0; write --count"
    assert done.stderr.splitlines() == [line]

"""What others depend on changes only where somebody says so, in a line of a diff."""

import difflib
import inspect
import sys

import pytest
import typer
from msgspec.inspect import type_info

import holdfast
import surface
from holdfast.core import registry
from holdfast.storage.entry import Count, Entry


def test_the_surface_is_the_one_that_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:  # as where no test has registered parts
        patch.setattr(registry, "_here", {kind: {} for kind in registry.KINDS})
        registry.forget()
        now = surface.surface()
    registry.forget()
    written = surface.WRITTEN.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(written, now.splitlines(), "written down", "in the code", lineterm="", n=0))
    assert not changes, "\n".join(
        [
            "what others depend on has changed. Where that is meant, type `make surface` (or python tests/surface.py), "
            "commit tests/surface.txt, and say it in CHANGELOG.md; docs/stability.md says what a release may change:",
            *changes,
        ]
    )


def test_all_public_names_can_be_imported() -> None:
    assert len(list(surface.python())) > 100
    for module in surface.MODULES:
        scope: dict[str, object] = {}
        exec(f"from {module} import *", scope)
        assert set(sys.modules[module].__all__) <= set(scope)


@pytest.mark.parametrize("name", [name for name in holdfast.__all__ if inspect.isfunction(getattr(holdfast, name))])
def test_a_function_that_people_call_says_what_it_takes_and_what_it_refuses(name: str) -> None:
    text = inspect.getdoc(getattr(holdfast, name)) or ""
    assert "\nArgs:\n" in text
    assert "\nRaises:\n" in text


def test_what_the_package_holds_is_what_it_names() -> None:
    assert set(holdfast.__all__) == {*holdfast._HOME, "__version__"}


class Small(Entry, kw_only=True):
    """An entry."""

    a: list[str]
    b: dict[str, Count] | None = None


def test_an_entry_of_the_record_is_a_line() -> None:
    assert list(surface.entries(type_info(Small), "")) == ["a[]: text", "b?: may be null", "b?.*: count"]


def test_options_and_required_arguments_are_lines() -> None:
    app = typer.Typer()

    @app.command()
    def go(place: str, *, count: int = 3, fast: bool = False) -> None: ...

    lines = list(surface.commands(typer.main.get_command(app), "go"))
    assert lines[:2] == ["go <place> (required)", "go --count=3"]
    assert lines[2].startswith("go --fast")

"""What may be asked is said once: a request's fields become arguments, keys of files and options of a command."""

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from holdfast import HoldfastError
from holdfast.cli.options import Given, asks
from holdfast.config.reader import read
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import UnknownName
from holdfast.runtime.option import Option, convert, fields_of, takes


@dataclass(frozen=True, kw_only=True)
class Options(metaclass=Checked):
    called = "ask"

    eps: Annotated[float | str | None, Option("The radius.", default="what is usual")] = None
    changes: Annotated[Any, Option("One change[of=this].", flag="set", key="set")] = ()
    loud: Annotated[bool, Option("Say more.")] = False
    rounds: Annotated[int, Option("How often.", least=0)] = 3
    rare: Annotated[int | None, Option("Hardly ever asked.", command=False)] = None


@dataclass(frozen=True)
class InText(Options):
    who: Annotated[str, Option("Who.", argument=True)]
    _: KW_ONLY
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class InPython(Options):
    who: Annotated[object, Option("Who, or what.")]


@takes(InPython)
def ask(asked: InPython) -> InText:
    """Ask.

    Raises:
        HoldfastError: never.
    """
    return convert(asked, InText, who=str(asked.who))


def test_a_field_keeps_what_its_base_says_of_it() -> None:
    changes = next(field for field in fields_of(InText) if field.name == "changes")
    assert (changes.kind, changes.key, changes.option.help) == (tuple[str, ...], "set", "One change[of=this].")
    assert [field.name for field in fields_of(InText)] == ["who", "eps", "changes", "loud", "rounds", "rare"]


def test_a_function_takes_the_fields_and_describes_them() -> None:
    assert str(inspect.signature(ask)).startswith("(who: object, *, eps: float | str | None = None, changes: Any = ()")
    about, ends = (ask.__doc__ or "").split("Raises:")
    assert "    eps: The radius. (default: what is usual)" in about
    assert ends.strip() == "HoldfastError: never."
    assert ask(5, eps=0.1, changes=["a"]) == InText("5", eps=0.1, changes=("a",))
    with pytest.raises(UnknownName) as refused:
        ask(5, ep=0.1)  # pyright: ignore
    assert "unknown parameter of ask 'ep'; did you mean 'eps'" in str(refused.value)


def test_a_file_has_the_keys_and_no_others() -> None:
    assert read(InText, {"who": "me", "set": ["a"], "rare": 2}, "f") == InText("me", changes=("a",), rare=2)
    for table, message in (
        ({}, "f: expected 'who', got none"),
        ({"who": "me", "changes": []}, "unknown key of f 'changes'"),
        ({"who": "me", "eps": []}, "f: eps: expected a finite number or text, got []"),
    ):
        with pytest.raises(HoldfastError) as refused:
            read(InText, table, "f")
        assert message in str(refused.value)


def test_a_command_hands_on_what_was_given_and_no_defaults() -> None:
    seen: list[Given] = []
    app = typer.Typer()

    @app.command()
    @asks(InText)
    def command(given: Given, twice: bool = False) -> None:
        seen.append(given)

    run = CliRunner()
    assert run.invoke(app, ["me"]).exit_code == 0
    assert (
        run.invoke(app, ["me", "--eps", "4/255", "--set", "a", "--set", "b", "--loud", "--rounds", "0"]).exit_code == 0
    )
    assert seen == [{"who": "me"}, {"who": "me", "eps": 4 / 255, "changes": ["a", "b"], "loud": True, "rounds": 0}]
    assert run.invoke(app, ["me", "--rounds", "-1"]).exit_code == 2
    assert run.invoke(app, ["me", "--rare", "1"]).exit_code == 2
    told = " ".join(run.invoke(app, ["--help"], env={"COLUMNS": "160"}).output.split())
    assert "One change[of=this]." in told
    assert "How often. (default: 3)" in told

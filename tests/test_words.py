"""One word for one thing: what an audit takes is called alike in Python, on the command line and in a plan file."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text

import holdfast
from holdfast.auditing.plan_file import KEYS, make_plan
from holdfast.cli import app
from holdfast.workflows.monitor import monitor

OWN_WORD = {"model": "encoders", "settings": "set"}
"""A word of Python's own, where the others would be odd there: the word of the command line and of plan files."""

ONE_BY_ONE = {"measure": "measures", "surrogate": "surrogates"}
"""An option that may be repeated: the list that it makes."""

PYTHON_ALONE = {
    "mean", "std", "labels", "train_labels",  # of networks and arrays in memory
}  # fmt: skip
COMMAND_ALONE = {
    "engine", "address", "gpus", "shard",  # other processes and machines
    "parts",  # code of your own, which Python runs by itself
    "strict", "dry-run", "calibrate", "json",  # what the command answers
}  # fmt: skip
HOW = {"out", "overwrite", "workers", "quiet"}
"""Where and how it runs, which a plan file does not say: another run of the same plan answers the same."""

RARE = {"examined", "queries", "shared_searches"}
"""What a plan file and Python say, and the command line need not."""


def python(function: Any) -> set[str]:
    return {OWN_WORD.get(name, name) for name in inspect.signature(function).parameters}


def options(command: str) -> set[str]:
    """Return the words of a command, arguments and options, without their dashes."""
    found = typer.main.get_command(app).commands[command]  # pyright: ignore[reportAttributeAccessIssue]
    shown = [p for p in found.params if not getattr(p, "hidden", False) and p.name != "help"]
    words = {str(p.name) if p.param_type_name == "argument" else max(p.opts, key=len).removeprefix("--") for p in shown}
    return {ONE_BY_ONE.get(word, word) for word in words}


def spelt(words: set[str]) -> set[str]:
    """Return words as options write them."""
    return {word.replace("_", "-") for word in words}


def test_an_audit_is_asked_for_in_the_same_words_everywhere() -> None:
    in_python, in_files, on_the_line = python(holdfast.audit), set(KEYS), options("audit")
    assert in_python - PYTHON_ALONE - HOW == in_files
    assert on_the_line - COMMAND_ALONE - RARE == spelt(in_python - PYTHON_ALONE - RARE)
    assert {OWN_WORD.get(name, name) for name in inspect.signature(make_plan).parameters} - {"source"} == in_files


def test_a_hardening_is_asked_for_in_the_same_words() -> None:
    in_python = {"encoder" if word == "encoders" else word for word in python(holdfast.harden)}
    alone = {"mean", "std", "labels", "test_labels", "train_labels"}
    assert options("harden") - {"json", "pace", "parts"} == spelt(in_python - alone)


def test_no_public_function_hides_what_it_takes() -> None:
    for function in (
        holdfast.audit,
        holdfast.check,
        holdfast.compare,
        holdfast.harden,
        holdfast.open,
        make_plan,
        monitor,
    ):
        kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
        assert inspect.Parameter.VAR_KEYWORD not in kinds, function


def test_what_an_audit_takes_is_described() -> None:
    for function in (holdfast.audit, holdfast.harden, make_plan):
        described = inspect.getdoc(function) or ""
        missing = [name for name in inspect.signature(function).parameters if f"    {name}: " not in described]
        assert not missing, function


def test_a_number_of_images_that_is_none_is_an_error() -> None:
    with pytest.raises(holdfast.HoldfastError, match=r"audit.images: expected a whole number or None, got 'many'"):
        holdfast.audit("zoo:digits-simclr", "digits", images="many")  # pyright: ignore


def test_the_page_of_words_names_all_of_them() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "words.md").read_text(encoding="utf-8")
    rows = [line.split("|")[2:5] for line in page.splitlines() if line.startswith("| ")][1:]
    assert set(re.findall(r"`(\w+)`", " ".join(row[0] for row in rows))) == set(
        inspect.signature(holdfast.audit).parameters
    )
    said = {ONE_BY_ONE.get(word, word) for word in re.findall(r"`--([\w-]+)`", " ".join(row[1] for row in rows))}
    assert said == options("audit") - COMMAND_ALONE - {"encoders"}


def test_no_help_loses_its_brackets() -> None:
    """Help is drawn by Rich, which takes [such text] for markup and leaves it out."""
    commands = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    texts = {
        (name, parameter.name): parameter.help
        for name, command in commands.items()
        for parameter in command.params
        if getattr(parameter, "help", None)
    }
    lost = {place for place, text in texts.items() if Text.from_markup(text).plain != text.replace("\\[", "[")}
    assert texts
    assert not lost, "write \\[ where a bracket is meant"

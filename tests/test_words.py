"""One word for one thing: what an audit takes is called alike in Python, on the command line and in a plan file."""

import inspect
from dataclasses import MISSING
from typing import Any

import pytest
import typer
from rich.text import Text

import holdfast
from holdfast.api.audit import Audit
from holdfast.api.audit_index import AuditIndex
from holdfast.api.certify import Certify
from holdfast.api.compare_index import CompareIndex
from holdfast.api.harden import Harden
from holdfast.auditing.request import AuditRequest
from holdfast.cli import app
from holdfast.runtime.errors import BadValue
from holdfast.runtime.option import fields_of
from holdfast.workflows.audit_index.request import VectorRequest
from holdfast.workflows.certify.request import CertifyRequest
from holdfast.workflows.compare_index.request import IndexRequest
from holdfast.workflows.harden.request import HardenRequest
from holdfast.workflows.monitor import monitor

DOORS = {
    "audit": (Audit, AuditRequest),
    "harden": (Harden, HardenRequest),
    "compare-index": (CompareIndex, IndexRequest),
    "audit-index": (AuditIndex, VectorRequest),
    "certify": (Certify, CertifyRequest),
}
"""Of each command, what is asked in Python, and in text."""

IN_MEMORY = {"mean", "std", "labels", "train_labels", "test_labels"}
"""What networks and arrays in memory need beside."""

IN_FILES = {"pairs", "data"}
"""What stands for lists and arrays in text, where a pair is asked about."""

HOW = {"out", "overwrite", "workers", "quiet", "parts", "json"}
"""How it runs: another run of the same request answers the same."""


@pytest.mark.parametrize("name", DOORS)
def test_what_is_asked_is_called_alike_everywhere(name: str) -> None:
    in_python, in_text = DOORS[name]
    model = "encoder" if name == "harden" else "encoders"  # a word of Python's own
    words = {model if field.name == "model" else field.name for field in fields_of(in_python)}
    text = {field.name for field in fields_of(in_text)}
    assert words - IN_MEMORY - HOW == text - (IN_FILES if name == "certify" else set())


@pytest.mark.parametrize("name", DOORS)
def test_the_command_line_offers_what_is_asked_as_it_is(name: str) -> None:
    command: Any = typer.main.get_command(app).commands[name]  # pyright: ignore[reportAttributeAccessIssue]
    options = {parameter.name: parameter for parameter in command.params}
    for field in fields_of(DOORS[name][1]):
        assert (field.name in options) == field.option.command, field.name
        if field.option.command:
            assert Text.from_markup(options[field.name].help).plain.startswith(field.option.help)
            assert options[field.name].required == (field.default is MISSING)


def test_no_public_function_hides_what_it_takes() -> None:
    for function in (
        holdfast.audit,
        holdfast.check,
        holdfast.compare,
        holdfast.harden,
        holdfast.open,
        holdfast.compare_index,
        holdfast.audit_index,
        holdfast.certify,
        monitor,
    ):
        kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
        assert inspect.Parameter.VAR_KEYWORD not in kinds, function


def test_what_an_audit_takes_is_described() -> None:
    for function in (holdfast.audit, holdfast.harden, holdfast.compare_index, holdfast.audit_index, holdfast.certify):
        described = inspect.getdoc(function) or ""
        missing = [name for name in inspect.signature(function).parameters if f"    {name}: " not in described]
        assert not missing, function


def test_a_number_of_images_that_is_none_is_an_error() -> None:
    with pytest.raises(BadValue, match=r"audit\.images"):
        holdfast.audit("zoo:digits-simclr", "digits", images="many")  # pyright: ignore


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

"""The options of a command that asks something, made of the fields of its request."""

import inspect
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING
from functools import wraps
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from rich.markup import escape

from holdfast.auditing.request import AuditRequest
from holdfast.cli import completion
from holdfast.runtime.checked import LARGEST
from holdfast.runtime.checked import number as read_number
from holdfast.runtime.option import Field, fields_of, set_signature

SPECS = {"encoders": completion.encoders, "data": completion.data, "profiles": completion.profiles}
"""What offers words that are neither written down nor the names of parts."""


def number(text: str | float) -> float:
    """Read 0.05 or 4/255; typer hands over defaults too, which are numbers already."""
    try:
        return read_number(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def asks(request: type, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what makes a command of a request one that takes its fields as options.

    The command's first argument is then what was given, by the names of the fields: a file may say the others.

    Args:
        request: whose fields become options.
        without: those that the command itself decides.
    """
    fields = [field for field in fields_of(request) if field.option.command and field.name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**named: Any) -> None:
            values = {field.name: named.pop(field.name) for field in fields}
            command({name: value for name, value in values.items() if value is not None and value != []}, **named)

        signature = inspect.signature(command)
        _, *own = signature.parameters.values()
        parameters = [*map(_parameter, fields), *own]
        set_signature(run, signature.replace(parameters=parameters))
        return run

    return decorate


def of_audit(name: str) -> Any:
    """Return the option of an audit, for a command that asks the same beside other things."""
    return _option(next(field for field in fields_of(AuditRequest) if field.name == name))


def _parameter(field: Field) -> inspect.Parameter:
    """Return an option as typer reads it; one that is not given is None, whatever the field's default is."""
    needed, kind = field.default is MISSING, _kind(field.kind)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=inspect.Parameter.empty if needed else None,
        annotation=Annotated[kind if needed else kind | None, _option(field)],
    )


def _option(field: Field) -> Any:
    option = field.option
    flag = [] if option.argument else [f"--{(option.flag or field.name).replace('_', '-')}"]
    return (typer.Argument if option.argument else typer.Option)(
        *flag,
        help=_help(field),
        metavar=option.metavar,
        autocompletion=_offers(option.offers),
        parser=number if _kind(field.kind) is float else None,
        min=option.least,
        max=None if option.least is None else LARGEST,
    )


def _kind(kind: Any) -> Any:
    """Return the type of an option: of several, the first; text for what may be an object in Python."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType, Annotated):
        return _kind(inner[0])
    if origin is tuple:
        return list[_kind(inner[0])]
    return str if kind is Any else kind


def _help(field: Field) -> str:
    """Return what an option is, and what holds where it is not given."""
    usual = field.option.default
    if not usual and not any(field.default is nothing for nothing in (MISSING, None, False, ())):
        several = field.default if isinstance(field.default, tuple) else (field.default,)
        usual = ", ".join(map(str, several))
    return escape(field.option.help + (f" (default: {usual})" if usual else ""))


def _offers(words: str | tuple[str, ...]) -> Callable[[str], list[str]] | None:
    if not words:
        return None
    if isinstance(words, tuple):
        return completion.offer_words(*words)
    return SPECS.get(words) or completion.of_kind(words)


Given = Mapping[str, Any]
"""What was given on the command line, by the names of a request's fields."""

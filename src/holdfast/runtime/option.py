"""What may be asked, said once: each field of a request is an option, wherever somebody asks it.

A request is a dataclass whose annotations say what its fields are for, `Annotated[int | None, Option("How many.")]`.
The command line makes its options of them (`cli.options`), TOML files their keys (`config.reader`), and Python
functions their arguments (`takes`); a field of a subclass keeps what its base says.
"""

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import Annotated, Any, NamedTuple, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

WIDTH = 100
"""Columns of a docstring that is made."""


@dataclass(frozen=True)
class Option:
    """What a field of a request is for.

    Attributes:
        help: what it is, in a sentence or two.
        default: what holds where it is left out, in words; "": its default says it.
        offers: what the shell's Tab offers: a function of `cli.completion`, a kind of parts, or some words.
        flag: what it is called on the command line, where that is another word; of lists, which are given one by one.
        key: what it is called in a file, where that is another word.
        metavar: what stands for its value in the help of the command.
        least: the smallest number that it may be; None: any.
        argument: whether the command line takes it by its place, without a flag.
        command: whether the command line takes it at all.
        hint: what to do instead, at the end of the error for a value of another type.
    """

    help: str
    default: str = ""
    offers: str | tuple[str, ...] = ""
    flag: str = ""
    key: str = ""
    metavar: str | None = None
    least: int | None = None
    argument: bool = False
    command: bool = True
    hint: str = ""


class Field(NamedTuple):
    """A field of a request.

    Attributes:
        name: in Python.
        kind: its annotation, without the option.
        option: what it is for.
        default: what holds where it is left out; `dataclasses.MISSING` where it must be given.
        positional: whether it may be given by its place alone.
    """

    name: str
    kind: Any
    option: Option
    default: Any
    positional: bool

    @property
    def key(self) -> str:
        """What it is called in a file."""
        return self.option.key or self.name


@cache
def fields_of(request: type) -> tuple[Field, ...]:
    """Return the fields of a request that have an option, in the order in which its `__init__` takes them."""
    several = [_read_field(request, field) for field in dataclasses.fields(request)]
    return tuple(sorted(filter(None, several), key=lambda field: not field.positional))


def _read_field(request: type, field: Any) -> Field | None:
    # The annotation of the class itself, and the option of the nearest base that has one
    hints = [hint for base in request.__mro__ if (hint := _hints(base).get(field.name)) is not None]
    option = next((extra for hint in hints for extra in get_args(hint)[1:] if isinstance(extra, Option)), None)
    if option is None:
        return None
    default = field.default_factory() if callable(field.default_factory) else field.default
    return Field(field.name, without_option(hints[0]), option, default, not field.kw_only)


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    return get_type_hints(cls, include_extras=True) if dataclasses.is_dataclass(cls) else {}


def without_option(kind: Any) -> Any:
    """Return an annotation without its option."""
    if get_origin(kind) is not Annotated:
        return kind
    inner, *extras = get_args(kind)
    return inner if any(isinstance(extra, Option) for extra in extras) else kind


def convert(request: Any, kind: Callable[..., R], **changes: Any) -> R:
    """Return a request of another kind: what both have, as it is but for the changes."""
    alike = {field.name: getattr(request, field.name) for field in fields_of(kind) if hasattr(request, field.name)}
    return kind(**{**alike, **changes})


def takes(request: Callable[P, R]) -> Callable[[Callable[[R], T]], Callable[P, T]]:
    """Return what makes a function of a request one that takes its fields as arguments, described as they are."""

    def decorate(function: Callable[[R], T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(request(*args, **kwargs))

        taken = [
            one.replace(annotation=without_option(one.annotation))
            for one in inspect.signature(request).parameters.values()
        ]
        returns = inspect.signature(function).return_annotation
        set_signature(call, inspect.Signature(taken, return_annotation=returns))
        call.__doc__ = _describe(inspect.getdoc(function) or "", request)
        return call

    return decorate


def set_signature(function: Callable[..., Any], signature: inspect.Signature) -> None:
    """Let a function that takes anything say what it takes."""
    vars(function)["__signature__"] = signature
    function.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}


def _describe(doc: str, request: Any) -> str:
    """Return a docstring with the arguments that a request stands for, before what the function returns or raises."""
    lines = ["Args:"]
    for name, text in _explain(request).items():
        lines += textwrap.wrap(
            f"{name}: {text}", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False
        )
    ends = [place for word in ("\nReturns:", "\nRaises:") if (place := doc.find(word)) >= 0]
    place = min(ends, default=len(doc))
    return f"{doc[:place].rstrip()}\n\n" + "\n".join(lines) + f"\n\n{doc[place:].lstrip()}"


def _explain(request: type) -> dict[str, str]:
    """Return what each field of a request is, in words."""
    return {
        field.name: field.option.help + (f" (default: {field.option.default})" if field.option.default else "")
        for field in fields_of(request)
    }

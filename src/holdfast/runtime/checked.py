"""Arguments held against their annotations: parts, plans and functions take what they say that they take.

A class with the metaclass `Checked` (any dataclass of the library) and a function under `check_arguments` refuse, in
one line, unknown and missing arguments, values of another type, numbers that are not finite, and text that cannot be
written. NumPy's and torch's single numbers become Python's, so that what is recorded does not depend on who counted.
"""

import dataclasses
import inspect
import math
import re
import reprlib
import types
import typing
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from holdfast.runtime.errors import BadValue, HoldfastError, UnknownName, unknown

P = ParamSpec("P")
T = TypeVar("T")

OrInfinity = Annotated[float, math.inf]
"""A number that may be infinite; all others are finite."""

Positive = Annotated[float, "above 0"]
"""A number above 0."""

Count = Annotated[int, "above 0"]
"""A whole number above 0."""

Signed = Annotated[float, "signed"]
"""A number of a part of ours that may be below 0; the others may not."""


@dataclasses.dataclass(frozen=True)
class Reads:
    """In an annotation: what a value may be given as, and what makes the value of it.

    Attributes:
        read: returns the value that is meant; of what it does not know, that itself.
    """

    read: Callable[[Any], Any]


LARGEST = 2**63 - 1
"""The largest whole number: that of torch, NumPy and Parquet."""

_WORDS = {
    int: "a whole number", float: "a finite number", bool: "True or False", str: "text", dict: "a table",
    type(None): "None",
}  # fmt: skip


class Checked(ABCMeta):
    """Makes classes whose instances are made of checked arguments only; for dataclasses, before `__post_init__`.

    Errors call a class as its name is written, or as its attribute `called` says. A static method `explain_unknown` of
    a parameter's name and value says where one belongs that the class does not take; "" where it knows nothing.
    """

    @property
    def __signature__(cls) -> inspect.Signature:
        """The signature of the class, which its metaclass would hide from `inspect`."""
        return _without_self(cls)

    if not typing.TYPE_CHECKING:  # the signature stays that of the class

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Make an instance."""
            if dataclasses.is_dataclass(cls):
                args, kwargs = _bound(cls, getattr(cls, "called", derive_name(cls)), args, kwargs)
            return super().__call__(*args, **kwargs)


def check_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that is called with checked arguments only."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        sound, named = _bound(function, function.__name__, args, kwargs)
        return function(*sound, **named)  # pyright: ignore[reportCallIssue] the same arguments, converted

    return call


def number(text: str) -> float:
    """Return the number that a text says, 0.05, 5e-2 or 4/255."""
    above, slash, below = text.partition("/")
    try:
        value = float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number such as 0.05 or 4/255, got {describe_value(text)}")
    return value


def integer(text: str) -> int:
    """Return the whole number that a text says."""
    # Nineteen digits hold 2^63 - 1; longer texts are not made a number at all
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text.strip()) or abs(int(text)) > LARGEST:
        raise ValueError(f"expected a whole number, got {describe_value(text)}")
    return int(text)


@cache
def derive_name(cls: type) -> str:
    """Return the name by which a class goes in specs and messages: `RelativeDrift` as "relative_drift"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()


def fitting(value: Any, kind: Any, where: str) -> Any:
    """Return a value as its annotation wants it: 3 for np.int64(3), a tuple for a list, 1.0 for 1 of a float."""
    try:
        return _fit(plain(value), kind)
    except _Misfit as misfit:
        raise BadValue(f"{where}: expected {misfit}, got {describe_value(value)}") from None


def describe_value(value: Any) -> str:
    """Return a value in a few words of one line: short ones as they are, of others the type."""
    if isinstance(value, type):
        return f"the class {value.__name__}; write {value.__name__}()"
    if value is None or isinstance(value, (str, int, float, list, tuple, dict)):
        # Cut short, and of one line whatever characters are in it
        return reprlib.repr(value).encode("utf-8", "backslashreplace").decode()
    if (single := plain(value)) is not value:
        return repr(single)
    if dataclasses.is_dataclass(value):
        return derive_name(type(value))
    article = "an" if type(value).__name__[0] in "AEIOUaeiou" else "a"
    return f"{article} {type(value).__name__}"


class _Misfit(Exception):
    """What was expected instead: an annotation, which is put into words where somebody reads them, or words."""

    def __str__(self) -> str:
        """Return it in words."""
        expected = self.args[0]
        return expected if isinstance(expected, str) else _words(expected)


def _bound(
    target: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call as their annotations want them."""
    signature, kinds, takes, several, signed = _signature(target)
    own = isinstance(target, type) and target.__module__.startswith("holdfast.")
    # Before `bind`, whose error would name no near name
    for key in kwargs:
        if key not in takes and not several:
            if elsewhere := getattr(target, "explain_unknown", lambda *_: "")(key, kwargs[key]):
                raise UnknownName(f"unknown parameter of {name} {key!r}; {elsewhere}")
            raise unknown(f"parameter of {name}", key, takes)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise BadValue(f"{name}: {error}; it takes {', '.join(takes)}") from None
    for key, value in bound.arguments.items():
        # Its annotation is that of each member
        if signature.parameters[key].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        try:
            bound.arguments[key] = fit = fitting(value, kinds.get(key, Any), f"{name}.{key}")
        except HoldfastError as error:
            hints = [hint for extra in get_args(kinds.get(key))[1:] if (hint := getattr(extra, "hint", ""))]
            raise BadValue("; ".join([str(error), *hints])) from None
        # Parts of ours have no use for numbers below 0, unless an annotation says so
        if own and key not in signed and any(number < 0 for number in _numbers(fit)):
            raise BadValue(f"{name}.{key}: expected 0 or more, got {describe_value(value)}")
    return bound.args, bound.kwargs


@cache
def _signature(target: Any) -> tuple[inspect.Signature, dict[str, Any], list[str], bool, set[str]]:
    """Return the signature of a class or function.

    Returns:
        The signature; its annotations, those in quotes too; the names of what it takes; whether it takes any name;
        which of them may be below 0.
    """
    call = target.__init__ if isinstance(target, type) else target
    try:
        # With the extras of annotations, such as "above 0"
        kinds = get_type_hints(target if isinstance(target, type) else call, include_extras=True)
    except NameError:  # quoted names that only a type checker sees
        kinds = {key: kind for key, kind in getattr(target, "__annotations__", {}).items() if not isinstance(kind, str)}
    signature = _without_self(target) if isinstance(target, type) else inspect.signature(call)
    parameters = signature.parameters.values()
    takes = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    takes = [name for name in takes if name != "self"]  # of a method, before it is one of an object
    several = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return signature, kinds, takes, several, {key for key, kind in kinds.items() if "signed" in get_args(kind)}


def _without_self(cls: type) -> inspect.Signature:
    signature = inspect.signature(cls.__init__)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def plain(value: Any) -> Any:
    """Return a single number or text of NumPy or torch as Python's; anything else as it is."""
    if type(value) in (int, float, bool, str, type(None)):  # most values, and the test is cheap
        return value
    single = getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None))
    return value.item() if single else value


def _fit(value: Any, kind: Any) -> Any:
    """Return a value as an annotation wants it; raise `_Misfit` with what was expected."""
    if kind in (int, float, bool, str):  # most annotations, and the test is cheap
        return _simple(value, kind)
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or isinstance(kind, (str, TypeVar, ParamSpec)):
        return value
    if origin in (Union, types.UnionType):
        return _one_of(value, kind)
    if origin is Annotated:
        for extra in inner[1:]:
            value = extra.read(value) if isinstance(extra, Reads) else value
        # Infinite only where the annotation says so; NaN never
        infinite = math.inf in inner[1:] and isinstance(value, float) and math.isinf(value)
        fit = value if infinite else _fit(value, inner[0])
        if "above 0" in inner[1:] and fit <= 0:
            raise _Misfit(kind)
        return fit
    if origin is Literal:
        # By type too, since 1 == True == 1.0
        if not any(type(value) is type(choice) and value == choice for choice in inner):
            raise _Misfit(kind)
        return value
    if origin is tuple:
        return _tuple(value, inner)
    if origin is Sequence and isinstance(value, (list, tuple)):
        # A class of somebody's own stays
        return type(value)(_tuple(value, (*inner, Ellipsis))) if type(value) in (list, tuple) else value
    if kind is None or kind is type(None):
        fits = value is None
    # Classes can be called, but are hardly meant
    elif origin is Callable or origin is typing.get_origin(typing.Callable):
        fits = callable(value) and not isinstance(value, type)
    else:
        fits = _is(value, origin or kind)
    if not fits:
        raise _Misfit(kind)
    return value


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a class; a text is no sequence, and what cannot be tested fits."""
    if kind in (Sequence, Iterable) and isinstance(value, (str, bytes, Mapping)):
        return False
    # What NumPy can read counts
    if getattr(kind, "__name__", "") == "ndarray" and hasattr(value, "__array__"):
        return True
    try:
        return isinstance(value, kind)
    except TypeError:  # protocols that are not for run time, and the like
        return True


def _one_of(value: Any, union: Any) -> Any:
    # The first one that fits, in the order of the annotation
    for kind in get_args(union):
        try:
            return _fit(value, kind)
        except _Misfit:
            continue
    raise _Misfit(union)


def _tuple(value: Any, kinds: Sequence[Any]) -> tuple[Any, ...]:
    expected = tuple[kinds]  # pyright: ignore[reportInvalidTypeArguments]
    if hasattr(value, "tolist") and not isinstance(value, (list, tuple)):  # an array or a tensor of numbers
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise _Misfit(expected)
    members = [kinds[0]] * len(value) if len(kinds) == 2 and kinds[1] is Ellipsis else list(kinds)
    if len(members) != len(value):
        raise _Misfit(expected)
    try:
        return tuple(_fit(plain(item), kind) for item, kind in zip(value, members, strict=True))
    except _Misfit as misfit:
        raise _Misfit(f"{_words(expected)} (one member is not {misfit})") from None


def _simple(value: Any, kind: type) -> Any:
    """Return a number, a text or a truth value; a truth value is no number."""
    # True is an int for Python, and would pass as 1
    if kind is bool or kind is str or isinstance(value, bool):
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _Misfit(kind)
        if isinstance(value, str) and _surrogates(value):
            raise _Misfit("text that UTF-8 can write")
        return value
    if not isinstance(value, (int, float) if kind is float else int):
        raise _Misfit(kind)
    if kind is int and not -LARGEST <= value <= LARGEST:
        raise _Misfit("a whole number below 2^63")
    try:
        number = kind(value)
    except OverflowError:  # a whole number beyond those of floats
        number = math.inf
    if not math.isfinite(number):
        raise _Misfit(kind)
    return number


def _numbers(value: Any) -> Iterator[float]:
    """Yield the numbers of a value, those in lists too."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, (int, float)):
        yield value


def _surrogates(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def _words(kind: Any) -> str:
    """Return an annotation in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_words, inner)))
    if origin is Annotated:
        return (
            "a number" if math.inf in inner[1:] else _words(inner[0]) + (" above 0" if "above 0" in inner[1:] else "")
        )
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is tuple and inner:
        if len(inner) == 2 and inner[1] is Ellipsis:
            # "a list of texts or numbers"
            members = get_args(inner[0]) if get_origin(inner[0]) in (Union, types.UnionType) else (inner[0],)
            singular = (_words(member).removeprefix("an ").removeprefix("a ") for member in members)
            return f"a list of {' or '.join(f'{word}s' for word in singular)}"
        return f"a list of {len(inner)}: {', '.join(map(_words, inner))}"
    if kind in _WORDS:
        return _WORDS[kind]
    if origin is not None and getattr(origin, "__name__", "") == "Callable":
        return "a function"
    name = getattr(origin or kind, "__name__", str(kind))
    article = "an" if name[0] in "AEIOUaeiou" else "a"
    return f"{article} {name}"

"""The grammar of spec strings, shared by encoders and data: `source:name?key=value&key=value`."""

import math
import re
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote

from holdfast.runtime.errors import BadValue, HoldfastError, UnknownName, unknown

T = TypeVar("T")
D = TypeVar("D")

VALUES = 2**28
"""The most values that one image may have: 16,384 x 16,384 grey pixels, 1 GiB in float32."""

_PREFIX = re.compile(r"([a-z][a-z0-9_-]+):(?=.)", re.IGNORECASE)  # two letters or more: C:\images is a path


class Options(dict[str, str]):
    """The options of a spec string, read one by one with `take`; `finish` complains about those left over.

    Attributes:
        spec: the whole spec string, for errors.
        taken: the names that `take` has looked for so far.
    """

    def __init__(self, values: dict[str, str] | None = None, spec: str = ""):
        super().__init__(values or {})
        self.spec = spec
        self.taken: list[str] = []


def parse(text: str) -> tuple[str | None, str, Options]:
    """Split a spec string into (source prefix or None, name, options), values URL-unquoted.

    `parse("hf:org/name?split=test")` is `("hf", "org/name", {"split": "test"})`; the name ends at the first "?".

    Raises:
        HoldfastError: an empty name, an option that is not key=value, is empty, not printable, or given twice.
    """
    head, mark, tail = text.strip().partition("?")
    match = _PREFIX.match(head)
    source, name = (match[1].lower(), head[match.end() :]) if match else (None, head)
    if not name:
        raise BadValue(f"spec {text!r}: expected source:name?key=value&..., got an empty name; see holdfast list")
    values: dict[str, str] = {}
    for item in tail.split("&") if mark else ():
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise BadValue(f"spec {text!r}: expected options as key=value joined by '&', got {item!r}")
        if not value.strip():
            raise BadValue(f"spec {text!r}: expected a value for the option {key!r}, got none; leave it out")
        if key in values:
            raise BadValue(f"spec {text!r}: option {key!r} is given twice; keep one")
        values[key] = unquote(value)  # after the split, so that values may hold "&" and "?"
        if not values[key].isprintable():
            raise BadValue(f"spec {text!r}: expected printable text for the option {key!r}, got {values[key]!r}")
    return source, name, Options(values, text)


def label(spec: str) -> str:
    """Return how an encoder is called: by the label in its spec, or by its spec.

    Example:
        >>> label("zoo:digits-simclr"), label("zoo:digits-simclr?label=mine")
        ('zoo:digits-simclr', 'mine')
    """
    try:
        return parse(spec)[2].get("label", spec)
    except HoldfastError:  # the name of one that is open already
        return spec


def take(options: Options, name: str, convert: Callable[[str], T], default: D) -> T | D:
    """Remove option `name` and return it converted, or return the default where it is absent.

    Raises:
        HoldfastError: a value that `convert` rejects with a ValueError.
    """
    options.taken.append(name)  # absent ones too: `finish` names what could have been given
    if name not in options:
        return default
    value = options.pop(name)
    try:
        return convert(value)
    except ValueError as error:
        raise BadValue(f"spec {options.spec!r}: option {name}={value} is not usable: {error}") from error


def finish(options: Options) -> None:
    """Raise "unknown option, did you mean ..." if an option was never taken."""
    for name in options:
        if not options.taken:
            raise UnknownName(f"spec {options.spec!r} takes no options, got {name!r}; leave it out")
        raise unknown(f"option of {options.spec!r}", name, options.taken)


def boolean(value: str) -> bool:
    """Convert true/false, yes/no or 1/0; for `take`."""
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if value.lower() not in words:
        raise ValueError("expected true or false")
    return words[value.lower()]


def sides(value: str, wanted: str = "positive numbers such as 16 or 3x32x32") -> tuple[int, ...]:
    """Convert a shape such as 16 or 3x32x32; for `take`. One image has at most `VALUES` values."""
    parts = value.lower().split("x")
    # Few digits, so that no number is huge before its product is looked at
    if not all(re.fullmatch("[0-9]{1,9}", part) and int(part) > 0 for part in parts):
        raise ValueError(f"expected {wanted}")
    shape = tuple(map(int, parts))
    if math.prod(shape) > VALUES:
        raise ValueError(f"an image of {math.prod(shape):,} values is too large; expected at most {VALUES:,}")
    return shape


def positive(value: str) -> int:
    """Convert a whole number above 0; for `take`."""
    if not re.fullmatch("[0-9]{1,9}", value) or int(value) < 1:
        raise ValueError("expected a whole number above 0")
    return int(value)


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a converter that accepts only these words; for `take`."""

    def convert(value: str) -> str:
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return value

    return convert

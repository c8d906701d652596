"""What a document of Holdfast is made of: objects with types, which JSON data is read into and written from."""

import json
import math
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta

DEEPEST = 24
"""Levels to which entries may nest; those of Holdfast need a dozen."""

Number = int | float
"""A finite number; `is_bounded_json` makes sure of it."""

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]

Values = list[Number | None]
"""Numbers, some of which are not defined."""

Spec = dict[str, Any]
"""A part as plans name it: its `name`, and its parameters."""


NO_JSON = (bytes, bytearray, memoryview, Decimal, UUID, datetime, date, time, timedelta)
"""What msgspec would write as texts, which nobody could tell from others again."""


class Entry(msgspec.Struct, frozen=True):
    """An object of a document."""


class PassesEntry(Entry, frozen=True, kw_only=True):
    """Encoder passes, of images; `bounds`: bound propagations."""

    forward: Count
    backward: Count
    bounds: Count = 0


class BallEntry(Entry, frozen=True, kw_only=True):
    """A ball: the name of its norm, and its radius."""

    name: str
    radius: Number


def is_bounded_json(value: Any, levels: int = DEEPEST) -> bool:
    """Whether JSON data nests no deeper than so many levels, and all numbers in it can be computed with."""
    if isinstance(value, (dict, list)):
        inside = value.values() if isinstance(value, dict) else value
        return levels > 0 and all(is_bounded_json(inner, levels - 1) for inner in inside)
    if type(value) in (int, float):
        try:
            return math.isfinite(value)
        except OverflowError:  # a whole number beyond all floats
            return False
    return value is None or isinstance(value, (str, bool))


def check_spec(spec: Spec) -> None:
    """Make sure that a part, and those among its parameters, have names."""
    for part in (spec, *(value for value in spec.values() if isinstance(value, dict))):
        if not isinstance(part.get("name"), str):
            raise ValueError("expected a part, an object with a name")


def as_json(value: Any) -> Any:
    """Return entries, and what holds them, as JSON data, which has no word for numbers that are not finite: None.

    Raises:
        TypeError: something that is no entry and that JSON does not have.
    """
    # Written by Python, for names of files may hold surrogates, which UTF-8 does not have
    text = json.dumps(msgspec.to_builtins(value, builtin_types=NO_JSON, enc_hook=_plain))
    return json.loads(text, parse_constant=lambda constant: None)


def _plain(value: Any) -> Any:
    """Return a text or a number of another library as a plain one."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON has")


Kind = TypeVar("Kind", bound=Entry)


def read_json(data: Any, kind: type[Kind]) -> Kind:
    """Return an entry from JSON data.

    Raises:
        ValueError: data that are none of this kind; it says in a few words what is wrong.
    """
    if not is_bounded_json(data):
        raise ValueError("something is nested too deeply, or a number that no computer can compute with")
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        place = place.strip("`").removeprefix("$").removeprefix(".")
        if missing := re.fullmatch("Object missing required field `(.*)`", text):
            raise ValueError(f"{'.'.join(filter(None, [place, missing[1]]))} is missing") from error
        raise ValueError(f"{place}: {text[:1].lower()}{text[1:]}" if place else text) from error

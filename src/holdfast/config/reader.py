"""The one reader of configuration: from the tables of a TOML file to the dataclasses that they describe.

What a file may say is what a dataclass has: its fields are the keys, its annotations the types. `Checked` holds values
against these; here tables become parts and dataclasses, and errors say where in which file.
"""

import dataclasses
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from holdfast.core import HoldfastError, registry
from holdfast.runtime.checked import derive_name, describe_value, fitting
from holdfast.runtime.errors import BadValue, Missing, unknown
from holdfast.runtime.option import fields_of, without_option


def read(kind: Any, value: Any, where: str) -> Any:
    """Return plain data as an annotation wants them."""
    kind = kind if value is None else _without_none(without_option(kind))
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and inner[1:] == (Ellipsis,) and isinstance(value, (list, tuple)):
        return tuple(read(inner[0], item, where) for item in value)
    # Of several kinds, the first that is a part or a dataclass makes something of what is no such object yet
    for choice in inner if origin in (Union, types.UnionType) else (kind,):
        if value is None or choice is Any or not isinstance(choice, type) or isinstance(value, choice):
            continue
        if (family := _family(choice)) is not None:
            return _part(family, value, where)
        if dataclasses.is_dataclass(choice):
            return _dataclass(choice, value, where)
    return fitting(value, kind, where)


def arguments(kinds: Mapping[str, Any], table: Any, where: str) -> dict[str, Any]:
    """Return the values of a table, each as the annotation of its key wants it; see `read`."""
    if not isinstance(table, Mapping):
        raise BadValue(f"{where}: expected a table, got {describe_value(table)}")
    for key in table:
        if key not in kinds:
            raise unknown(f"key of {where}", str(key), kinds)
    return {key: read(kinds[key], value, f"{where}: {key}") for key, value in table.items()}


@contextmanager
def locate_errors(where: str) -> Iterator[None]:
    """Say in errors where in which file they are."""
    try:
        yield
    except HoldfastError as error:
        raise error.retell(f"{where}: {error}") from error


def _without_none(kind: Any) -> Any:
    """Return what else than None an annotation takes, for a file has no None."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    return Union[tuple(inner for inner in get_args(kind) if inner is not type(None))]  # noqa: UP007 made here


def _dataclass(cls: type, table: Any, where: str) -> Any:
    keys = _keys(cls)
    values = arguments(kinds_of(cls), table, where)
    for field in dataclasses.fields(cls):
        # Said here with the file, where the class would say it with its own name
        if keys[field.name] not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise Missing(f"{where}: expected {keys[field.name]!r}, got none")
    with locate_errors(where):
        return cls(**{name: values[key] for name, key in keys.items() if key in values})


def _part(family: str, value: Any, where: str) -> Any:
    table = {"name": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise BadValue(
            f"{where}: expected one of the {family}, a name or a table with one, got {describe_value(value)}"
        )
    with locate_errors(where):
        return registry.build({**table, "kind": family})


@cache
def kinds_of(cls: type) -> dict[str, Any]:
    """Return the keys of a dataclass in a file, with the annotations of its fields."""
    # With the extras of annotations, such as "above 0"
    hints = get_type_hints(cls, include_extras=True)
    return {key: hints[name] for name, key in _keys(cls).items()}


@cache
def _keys(cls: type) -> dict[str, str]:
    """Return what the fields of a dataclass are called in a file, by their names."""
    other = {field.name: field.key for field in fields_of(cls)}
    return {field.name: other.get(field.name, field.name) for field in dataclasses.fields(cls)}


@cache
def _family(cls: type) -> str | None:
    """Return the kind of part that a class is, "attacks" of `Attack` and its subclasses; None for no part."""
    return next((name for base in cls.__mro__ if (name := f"{derive_name(base)}s") in registry.KINDS), None)

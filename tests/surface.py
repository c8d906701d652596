"""What Holdfast promises, in lines of text: Python names, commands, keys, parts, the record, exit statuses.

`make surface` writes them into `tests/surface.txt`, so that each change of what others depend on is a line of a diff;
`docs/stability.md` says what is promised about them.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec.inspect as types
import typer
from msgspec.inspect import type_info

from holdfast.auditing import profile
from holdfast.auditing.request import AuditRequest
from holdfast.cli import app
from holdfast.config.reader import kinds_of
from holdfast.core import registry
from holdfast.runtime.errors import find_kinds
from holdfast.runtime.exit_status import ExitStatus
from holdfast.storage.chart import AnyChart
from holdfast.storage.record import SCHEMA, Record
from holdfast.training.recipe import Recipe
from holdfast.workflows.monitor import training_monitor
from holdfast.workflows.reproduce import recipe
from holdfast.workflows.reproduce.figures import Panel
from holdfast.workflows.study.plan import Study

WRITTEN = Path(__file__).with_suffix(".txt")

MODULES = ("holdfast", "holdfast.extend", "holdfast.workflows.monitor")
"""All that their `__all__` names is public."""

NOUNS = "holdfast.core"
"""Of what its `__all__` names, that is public which a part of one's own must define."""

FILES: dict[str, Mapping[str, Any]] = {
    "plan": kinds_of(AuditRequest), "profile": profile.KEYS, "[monitor]": training_monitor.KEYS,
    "recipe of a training": dict.fromkeys(field.name for field in fields(Recipe)),
    "study": dict.fromkeys(field.name for field in fields(Study)),
    "recipe of a table": recipe.KEYS, "recipe of a table, line": recipe.LINE, "recipe of a table, claim": recipe.CLAIM,
    "recipe of a table, figure": kinds_of(Panel),
}  # fmt: skip
"""The keys of each kind of TOML file."""


def surface() -> str:
    """Return all of it, a line each."""
    groups = {
        "Python": python(), "Commands": commands(app_command(), "holdfast"), "Keys of TOML files": keys(),
        "Parts": parts(), f"record.json, schema {SCHEMA}": entries(type_info(Record), ""),
        "Charts of a record": charts(), "Exit statuses": (f"{status.value} {status.name}" for status in ExitStatus),
        "Codes of errors": (kind.code for kind in find_kinds()),
    }  # fmt: skip
    return "\n".join(f"# {title}\n\n" + "".join(f"{line}\n" for line in lines) for title, lines in groups.items())


def python() -> Iterator[str]:
    """Yield names with their signatures: of classes their making, and what they are the first to define."""
    for module in MODULES:
        for name in sorted(import_module(module).__all__):
            thing = getattr(import_module(module), name)
            yield f"{module}.{name}{signature(thing)}"
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                first = {
                    member for member in vars(thing) if not any(member in vars(base) for base in thing.__mro__[1:])
                }
                first -= set(getattr(thing, "__dataclass_fields__", ()))  # its signature has them
                yield from members(thing, f"{module}.{name}", sorted({*first, *abstract(thing)}))
    for name in sorted(import_module(NOUNS).__all__):
        thing = getattr(import_module(NOUNS), name)
        yield from members(thing, f"{NOUNS}.{name}", sorted(abstract(thing)))


def abstract(thing: Any) -> Iterable[str]:
    """Return the names of what subclasses must define."""
    return getattr(thing, "__abstractmethods__", ())


def members(cls: type, place: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the public ones among the members of a class that Holdfast defines, with their signatures."""
    for name in names:
        home = next(base for base in (*cls.__mro__, object) if name in vars(base) or base is object)
        if home.__module__.startswith("holdfast.") and (name == "__call__" or not name.startswith("_")):
            yield f"{place}.{name}{signature(getattr(cls, name))}"


def signature(thing: Any) -> str:
    """Return the arguments of a function or a class with their defaults; "" of anything else."""
    ours = inspect.isclass(thing) and thing.__module__.startswith("holdfast.") and not issubclass(thing, Exception)
    if isinstance(thing, cached_property) or not (inspect.isroutine(thing) or ours):
        return ""
    arguments = inspect.signature(thing).parameters.values()
    bare = [one.replace(annotation=one.empty, default=Shown.of(one.default)) for one in arguments]
    return str(inspect.Signature(bare))


class Shown(str):
    """A default as it is printed, the same in every process."""

    @classmethod
    def of(cls, default: Any) -> Any:
        """Return it; no default stays none."""
        if default is inspect.Parameter.empty:
            return default
        named = isinstance(default, type) or inspect.isroutine(default)
        return cls(default.__name__ if named else str(default) if isinstance(default, Enum) else repr(default))

    def __repr__(self) -> str:
        return str(self)


def app_command() -> Any:
    """Return the command line as click has it."""
    return typer.main.get_command(app)


def commands(command: Any, name: str) -> Iterator[str]:
    """Yield each argument and option of a command and of those below it, with defaults as they are written."""
    usual = inspect.signature(inspect.unwrap(command.callback)).parameters if command.callback else {}
    for parameter in command.params:
        shown = "/".join([*parameter.opts, *parameter.secondary_opts])
        if parameter.param_type_name == "argument":
            shown = f"<{parameter.name}>"
        default = usual[parameter.name].default if parameter.name in usual else None
        known = isinstance(default, (str, int, float)) and not isinstance(default, bool)
        yield " ".join(
            [name, shown + (f"={default}" if known else ""), *(["(required)"] if parameter.required else []),
             *(["(hidden)"] if getattr(parameter, "hidden", False) else [])]
        )  # fmt: skip
    for below, inner in sorted(getattr(command, "commands", {}).items()):
        yield f"{name} {below}"
        yield from commands(inner, f"{name} {below}")


def keys() -> Iterator[str]:
    """Yield the keys of each kind of file."""
    for kind, known in FILES.items():
        yield from (f"{kind}: {key}" for key in sorted(known))


def parts() -> Iterator[str]:
    """Yield the parts with their parameters, as plans name them."""
    for kind in registry.KINDS:
        for name in sorted(registry.names(kind)):
            yield f"{kind} {name}{signature(registry.find(kind, name))}"


def entries(info: Any, where: str) -> Iterator[str]:
    """Yield the entries of a record, with what each holds."""
    match info:
        case types.UnionType():
            kinds = [inner for inner in info.types if not isinstance(inner, types.NoneType)]
            if len(kinds) < len(info.types):
                yield f"{where}: may be null"
            if all(isinstance(kind, types.StructType) for kind in kinds) and len(kinds) > 1:
                yield f"{where}: a chart"
            elif all(isinstance(kind, (types.IntType, types.FloatType)) for kind in kinds):
                yield f"{where}: number"
            else:
                for kind in kinds:
                    yield from entries(kind, where)
        case types.ListType() | types.VarTupleType():
            yield from entries(info.item_type, f"{where}[{getattr(info, 'max_length', None) or ''}]")
        case types.TupleType():
            yield from entries(info.item_types[0], f"{where}[{len(info.item_types)}]")
        case types.DictType():
            yield from entries(info.value_type, f"{where}.*")
        case types.StructType() | types.DataclassType():
            for field in sorted(info.fields, key=lambda field: field.name):
                yield from entries(field.type, f"{where}.{field.name}{'' if field.required else '?'}".removeprefix("."))
        case types.LiteralType():
            yield f"{where}: one of {', '.join(map(str, info.values))}"
        case _:
            yield f"{where}: {KINDS[type(info)]}"


KINDS = {
    types.StrType: "text", types.FloatType: "number", types.IntType: "count", types.BoolType: "true or false",
    types.AnyType: "anything", types.NoneType: "null",
}  # fmt: skip
"""What a value of a record is called."""


def charts() -> Iterator[str]:
    """Yield the entries of each kind of chart."""
    for chart in type_info(AnyChart).types:
        yield from entries(chart, chart.tag)


if __name__ == "__main__":
    WRITTEN.write_text(surface(), encoding="utf-8")

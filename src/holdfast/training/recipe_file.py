"""From a TOML file, or what a user says on the command line, to a recipe."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from holdfast.core import HoldfastError, registry
from holdfast.runtime.checked import fitting, shown
from holdfast.runtime.errors import unknown
from holdfast.storage.documents import TooDeep, parse_json, read_toml
from holdfast.training.adversary import Adversary
from holdfast.training.optimiser import Optimiser
from holdfast.training.recipe import Recipe
from holdfast.training.views import Views

PARTS = {
    "method": "methods",
    "threat": "threats",
    "corruption": "threats",
    "attack": "attacks",
    "objective": "objectives",
}
"""Keys that name a part -> its kind."""

TABLES = {"views": Views, "optimiser": Optimiser, "adversary": Adversary}

BESIDE = ("monitor", "track")
"""Keys of a recipe file that decide no weights: what looks at the training, and who is told."""


def read_recipe(path: Path, settings: Sequence[str] = (), **overrides: Any) -> Recipe:
    """Return the recipe in a TOML file.

    Args:
        path: the file; its keys are the attributes of `Recipe`, tables those of `Views`, `Optimiser` and `Adversary`.
        settings: changes, "adversary.threat.radius=0.1".
        overrides: top-level keys that win over the file where they are not None.

    Raises:
        HoldfastError: a file that cannot be read, is not TOML, or says what nobody knows.
    """
    values = _read(path, settings, overrides)
    return make_recipe({key: value for key, value in values.items() if key not in BESIDE}, where=path.name)


def read_beside(path: Path, settings: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a recipe file says under `BESIDE`, as plain data; see `read_recipe`."""
    beside = {key: value for key, value in _read(path, settings, {}).items() if key in BESIDE}
    track = beside.get("track", [])
    if not isinstance(track, list) or not all(isinstance(name, str) for name in track):
        raise HoldfastError(f"{path.name}: track: expected a list of names, got {track!r}")
    return beside


def _read(path: Path, settings: Sequence[str], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a TOML file, changed as asked."""
    values = read_toml(path, "recipe")
    values |= {key: value for key, value in overrides.items() if value is not None}
    for setting in settings:
        _set(values, setting)
    known = {*(field.name for field in dataclasses.fields(Recipe)), *BESIDE}
    for key in values:
        if key not in known:
            raise unknown(f"key of {path.name}", key, known)
    return values


def make_recipe(values: Mapping[str, Any], settings: Sequence[str] = (), where: str = "the recipe") -> Recipe:
    """Return the recipe that plain data describe; see `read_recipe`."""

    def told(name: str) -> float:
        if name == "NaN":
            raise HoldfastError(f"{where}: expected numbers, got nan")
        return float(name)

    data = json.loads(json.dumps(dict(values), default=str), parse_constant=told)
    for setting in settings:
        _set(data, setting)
    for key in ("encoder", "data", "method"):
        if key not in data:
            raise HoldfastError(f"{where}: expected {key!r}, got none")
    return _made(Recipe, data, where)


def _made(cls: type, values: Mapping[str, Any], where: str) -> Any:
    """Return a dataclass from plain data, with parts and tables inside."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    built = {}
    for key, value in values.items():
        if key not in fields:
            raise unknown(f"key of {where}", key, fields)
        if value is None and type(None) in get_args(fields[key].type):
            built[key] = None
        elif key in PARTS:
            built[key] = _part(key, value, where)
        elif key in TABLES:
            if not isinstance(value, Mapping):
                raise HoldfastError(f"{where}: {key}: expected a table, got {value!r}")
            built[key] = _made(TABLES[key], value, f"{where}: {key}")
        else:
            built[key] = fitting(value, fields[key].type, f"{where}: {key}")
    return cls(**built)


def _part(key: str, value: Any, where: str) -> Any:
    if key == "objective" and value == "loss":
        return None
    data = {"name": value} if isinstance(value, str) else value
    if not isinstance(data, Mapping) or "name" not in data:
        raise HoldfastError(f"{where}: {key}: expected a name or a table with one, got {value!r}")
    return registry.build({**data, "kind": PARTS[key]})


def _set(data: dict[str, Any], setting: str) -> None:
    """Change one value, given as a dotted key: `adversary.threat.radius=0.1`."""
    path, equals, text = setting.partition("=")
    if not equals or not path:
        raise HoldfastError(f"--set {setting!r}: expected key=value, for example adversary.threat.radius=0.1")
    try:
        value = parse_json(text)
    except TooDeep as error:
        raise HoldfastError(f"--set {shown(setting)}: {error}; write it flatter") from None
    except ValueError:
        value = text
    *above, last = path.split(".")
    for key in above:
        inner = data.setdefault(key, {})
        if isinstance(inner, str):
            inner = data[key] = {"name": inner}
        if not isinstance(inner, dict):
            raise HoldfastError(f"--set {setting!r}: {key!r} has no parts of its own")
        data = inner
    data[last] = value

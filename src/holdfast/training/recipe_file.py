"""From a TOML file, or what a user says on the command line, to a recipe."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from holdfast.config.part_syntax import setting
from holdfast.config.reader import read
from holdfast.config.tables import over
from holdfast.runtime.errors import unknown
from holdfast.storage.documents import read_toml
from holdfast.training.recipe import Recipe

BESIDE = ("monitor", "track")
"""Keys of a recipe file that decide no weights: what looks at the training, and who is told."""


def read_recipe(path: Path, settings: Sequence[str] = (), **overrides: Any) -> Recipe:
    """Return the recipe in a TOML file.

    Args:
        path: the file; its keys are the attributes of `Recipe`, tables those of `Views`, `Optimiser` and `Adversary`.
        settings: changes, "adversary.threat.radius=0.1".
        overrides: top-level keys that win over the file where they are not None.
    """
    table = _table(path, settings, overrides)
    return make_recipe({key: value for key, value in table.items() if key not in BESIDE}, where=path.name)


def read_beside(path: Path, settings: Sequence[str] = ()) -> dict[str, Any]:
    """Content of a recipe file under `BESIDE`, as plain data; see `read_recipe`."""
    table = _table(path, settings, {})
    track = read(tuple[str, ...], table.get("track", ()), f"{path.name}: track")
    return {key: table[key] for key in BESIDE if key in table} | ({"track": list(track)} if track else {})


def make_recipe(table: Mapping[str, Any], settings: Sequence[str] = (), where: str = "the recipe") -> Recipe:
    """Return the recipe that plain data describe; see `read_recipe`."""
    # In the order given, so that a later change may be of what an earlier one brought
    table = reduce(over, map(setting, settings), table)
    adversary = table.get("adversary")
    if isinstance(adversary, Mapping) and adversary.get("objective") == "loss":  # no objective: the training loss
        table = {**table, "adversary": {**adversary, "objective": None}}
    return read(Recipe, table, where)


def _table(path: Path, settings: Sequence[str], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Content of a TOML file, with changes."""
    table = read_toml(path, "recipe") | {key: value for key, value in overrides.items() if value is not None}
    table = reduce(over, map(setting, settings), table)
    # `Recipe` would refuse the keys in `BESIDE` too, so unknown ones are looked for here
    keys = {*(field.name for field in dataclasses.fields(Recipe)), *BESIDE}
    for key in table:
        if key not in keys:
            raise unknown(f"key of {path.name}", key, keys)
    return table

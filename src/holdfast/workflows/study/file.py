"""From a TOML file to a study."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.core import HoldfastError, registry
from holdfast.runtime.errors import unknown
from holdfast.storage.documents import read_toml
from holdfast.training.recipe_file import TABLES, make_recipe
from holdfast.workflows.study.plan import TABLE_2, Column, Study


def read_study(path: Path, **overrides: Any) -> Study:
    """Return the study in a TOML file; `overrides` that are not None win over its keys; see `make_study`.

    Raises:
        HoldfastError: a file that cannot be read or is not TOML; and as `make_study`.
    """
    values = read_toml(path, "study")
    return make_study(values | {key: value for key, value in overrides.items() if value is not None}, path.name)


def make_study(data: Mapping[str, Any], where: str) -> Study:
    """Return the study that plain data describe.

    Its keys are those of `Study` and of a recipe, which all methods share; `[[methods]]` have a `title` and what is
    their own; `[[columns]]` a `title`, a `corruption` or `data`, and whether it is `averaged`.

    Raises:
        HoldfastError: data that say what nobody knows.
    """
    values = dict(data)
    kinds = {"methods": list, "columns": list, "probes": list, "test": str, "test_images": int}
    kinds |= {"test_seed": int, "seeds": list}
    own = {key: values.pop(key) for key in kinds if key in values}
    for key, kind in kinds.items():
        if key in own and type(own[key]) is not kind:
            raise HoldfastError(f"{where}: {key}: expected {kind.__name__}, got {own[key]!r}")
    if "test" not in own or not own.get("methods"):
        raise HoldfastError(f"{where}: expected 'test' images and at least one [[methods]]")
    recipes = {}
    for method in own["methods"]:
        title, changes = _titled(method, f"{where}: methods")
        if title in recipes:
            raise HoldfastError(f"{where}: methods: expected different titles, got {title!r} twice")
        recipes[title] = make_recipe(_joined(values, changes), where=f"{where}: {title}")
    columns = tuple(_column(one, where) for one in own["columns"]) if "columns" in own else TABLE_2
    given = {key: own[key] for key in ("test", "test_images", "test_seed") if key in own}
    if any(type(seed) is not int for seed in own.get("seeds", ())):
        raise HoldfastError(f"{where}: seeds: expected whole numbers, got {own['seeds']!r}")
    given |= {"seeds": tuple(own["seeds"])} if "seeds" in own else {}
    if "probes" in own:
        given["probes"] = tuple(_part("probes", probe, where) for probe in own["probes"])
    return Study(recipes, columns=columns, **given)


def _joined(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what all methods share with one's own words over it, also inside tables."""
    both = {key for key in TABLES if isinstance(own.get(key), dict) and isinstance(shared.get(key), dict)}
    return {**shared, **own, **{key: {**shared[key], **own[key]} for key in both}}


def _titled(table: Any, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(table, dict) or not isinstance(table.get("title"), str):
        raise HoldfastError(f"{where}: expected tables with a title, got {table!r}")
    return table["title"], {key: value for key, value in table.items() if key != "title"}


def _column(table: Any, where: str) -> Column:
    title, values = _titled(table, f"{where}: columns")
    for key in values:
        if key not in ("corruption", "data", "averaged"):
            raise unknown(f"key of a column of {where}", key, ("title", "corruption", "data", "averaged"))
    if not values.keys() - {"averaged"}:
        raise HoldfastError(f"{where}: column {title!r}: expected a corruption or data, got neither")
    if not isinstance(values.get("data", ""), str):
        raise HoldfastError(f"{where}: column {title!r}: expected a data spec, got {values['data']!r}")
    averaged = values.get("averaged", True)
    if not isinstance(averaged, bool):
        raise HoldfastError(f"{where}: column {title!r}: averaged: expected true or false, got {averaged!r}")
    corruption = _part("threats", values["corruption"], where) if "corruption" in values else None
    return Column(title, corruption, values.get("data"), averaged)


def _part(kind: str, value: Any, where: str) -> Any:
    data = {"name": value} if isinstance(value, str) else value
    if not isinstance(data, dict) or "name" not in data:
        raise HoldfastError(f"{where}: {kind}: expected a name or a table with one, got {value!r}")
    return registry.build({**data, "kind": kind})

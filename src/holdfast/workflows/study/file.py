"""From a TOML file to a study."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.config.reader import read
from holdfast.config.tables import over
from holdfast.runtime.checked import describe_value
from holdfast.runtime.errors import BadValue, Missing
from holdfast.storage.documents import read_toml
from holdfast.training.recipe_file import make_recipe
from holdfast.workflows.study.plan import Study


def read_study(path: Path, **overrides: Any) -> Study:
    """Return the study in a TOML file; `overrides` that are not None win over its keys; see `make_study`."""
    values = read_toml(path, "study")
    return make_study(values | {key: value for key, value in overrides.items() if value is not None}, path.name)


def make_study(data: Mapping[str, Any], where: str) -> Study:
    """Return the study that plain data describe.

    Its keys are those of `Study` and of a recipe, which all methods share; `[[methods]]` have a `title` and what is
    their own; `[[columns]]` are as `Column`, with a corruption or data.
    """
    own = {field.name for field in dataclasses.fields(Study)}
    study = {key: value for key, value in data.items() if key in own}
    shared = {key: value for key, value in data.items() if key not in {"methods", *own}}
    methods, recipes = data.get("methods"), {}
    if not isinstance(methods, list) or not methods or "test" not in study:
        raise BadValue(f"{where}: expected 'test' images and at least one [[methods]], got {describe_value(methods)}")
    for method in methods:
        if not isinstance(method, Mapping) or not isinstance(title := method.get("title"), str):
            raise BadValue(f"{where}: methods: expected tables with a title, got {describe_value(method)}")
        if title in recipes:
            raise BadValue(f"{where}: methods: expected different titles, got {title!r} twice")
        changes = {key: value for key, value in method.items() if key != "title"}
        recipes[title] = make_recipe(over(shared, changes), where=f"{where}: {title}")
    plan: Study = read(Study, study | {"recipes": recipes}, where)
    if bare := [column.title for column in plan.columns if column.corruption is None and column.data is None]:
        raise Missing(f"{where}: columns: expected a corruption or data, got neither for {', '.join(bare)}")
    return plan

"""Tables as people write them: laid over each other, spread over values, nested."""

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from holdfast.core import registry
from holdfast.runtime.checked import describe_value
from holdfast.runtime.errors import BadValue

Table = dict[str, Any]
"""Keys and values as TOML and JSON have them."""


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> Table:
    """Return one table laid over another: tables in both are joined, at any depth; else the upper value counts.

    A part may be its name alone, `"pgd"` for `{ name = "pgd" }`. One of another name takes the place of the part below.
    """
    # Copies, so that a profile is not changed by who lays something over it
    joined = copy.deepcopy(dict(below))
    for key, value in above.items():
        under = joined.get(key)
        if isinstance(under, str) and isinstance(value, Mapping):  # a part by its name alone
            under = {"name": under}
        if isinstance(under, Mapping) and isinstance(value, Mapping) and not _another_part(under, value):
            joined[key] = over(under, value)
        else:
            joined[key] = copy.deepcopy(value)
    return joined


def _another_part(below: Mapping[str, Any], above: Mapping[str, Any]) -> bool:
    # Only the name of a part: other tables may have a key that is called so
    name = above.get("name", below.get("name"))
    return name != below.get("name") and any(name in registry.names(kind) for kind in registry.KINDS)


def resolve_inheritance(table: Any, find: Callable[[str], Any], where: str, above: tuple[str, ...] = ()) -> Table:
    """Return a table laid over the one that it says it is `like`, which may be like another."""
    if not isinstance(table, Mapping):
        raise BadValue(f"{where}: expected a table, got {describe_value(table)}")
    own = {key: value for key, value in table.items() if key != "like"}
    if (like := table.get("like")) is None:
        return own
    if not isinstance(like, str) or like in above:  # a circle
        raise BadValue(f"{where}: like: expected the name of another table, got {describe_value(like)}")
    return over(resolve_inheritance(find(like), find, where, (*above, like)), own)


def spread(tables: Iterable[Any]) -> list[Any]:
    """Return a list in which a table with `each` stands for one table per combination of the values it lists.

    `{ name = "breakaway_risk", each = { "attack.steps" = [5, 10] } }` is two measures.
    """
    every: list[Any] = []
    for table in tables:
        axes = table.get("each", {}) if isinstance(table, Mapping) else {}
        if not isinstance(axes, Mapping) or not all(isinstance(values, list) and values for values in axes.values()):
            raise BadValue(f'each: expected a table of lists, {{ "attack.steps" = [5] }}, got {describe_value(axes)}')
        if not axes:
            every.append(table)
            continue
        common = {key: value for key, value in table.items() if key != "each"}
        # In the order of the keys, the last one fastest
        for values in itertools.product(*axes.values()):
            every.append(reduce(over, map(nest, axes, values), common))
    return every


def nest(path: str, value: Any) -> Table:
    """Return the table that a dotted key stands for: `{"attack": {"steps": 5}}` for "attack.steps"."""
    return reduce(lambda inner, key: {key: inner}, reversed(path.split(".")), value)

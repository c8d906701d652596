"""Changing the measures of a profile, field by field: what is not written stays as the profile has it."""

import dataclasses
import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.config.part_syntax import part_table, setting
from holdfast.config.tables import nest, over, spread
from holdfast.core import Ball, Measure, registry
from holdfast.core.naming import flatten, name_parts
from holdfast.runtime.checked import Positive, describe_value, fitting
from holdfast.runtime.errors import Ambiguous, BadValue, unknown
from holdfast.runtime.guess import nearest

Spec = dict[str, Any]
"""A part as plain data, see `registry.spec`."""

Change = str | Mapping[str, Any] | Measure
"""A measure by its name, with the fields to change, as a text or a table, or the measure itself; see `part_table`."""


def apply_changes(profile: Iterable[Measure], changes: Iterable[Change], ball: Ball) -> tuple[Measure, ...]:
    """Return the measures that are named, as the profile has them but for the fields that are written.

    A text and a table of the same are the same, see `part_table`. A measure that the profile has several times is
    changed each time; where a table names a part that only some of them have, only these are, and a name that tells
    one from its twins, see `name_parts`, is that one. Measures that become equal are asked once. One that the profile
    lacks begins with the defaults of its class, in the audit's ball. A table with `each` stands for several, see
    `spread`.
    """
    measures, profile = list[Measure](), tuple(profile)
    # A twin's name looks like a part with fields, so it is looked up first
    twins = {name: twin for name, twin in name_parts(profile).items() if "[" in name}
    usual = [registry.spec(measure) for measure in profile]
    # Spread twice: a text is a table only afterwards, and may list values too
    tables = (twins[c] if isinstance(c, str) and c in twins else _table(c) for c in spread(changes))
    for change in spread(tables):
        if isinstance(change, Measure):
            measures.append(change)
            continue
        own = [spec for spec in usual if spec["name"] == change["name"]]
        # Those that have the parts it names, else all of its name, else the defaults of its class
        own = [spec for spec in own if _has(spec, change)] or own or [None]
        measures += (registry.build(_resolve_spec(change, spec, registry.spec(ball))) for spec in own)
    return distinct(measures)


def holds(text: str, spec: Mapping[str, Any]) -> bool:
    """Return whether a part is of the name, and has the fields, that a text writes, see `part_table`."""
    table = part_table(text)
    return table["name"] == spec["name"] and _resolve_spec(table, spec, {}) == spec  # what differs needs no ball


def set_parameters(measures: Iterable[Measure], settings: Iterable[str], ball: Ball) -> tuple[Measure, ...]:
    """Return the measures with settings such as "universal_quantile.attack.steps=20" applied.

    "*" as the measure means all of them that have the parameter. "breakaway_risk.attack.steps=20" says the same as the
    table { name = "breakaway_risk", attack = { steps = 20 } }, see `part`. Measures that become equal are asked once.
    """
    specs = [registry.spec(measure) for measure in measures]
    for text in settings:
        ((name, table),) = setting(text).items()
        if not isinstance(table, Mapping) or not table.keys().isdisjoint(("kind", "name")):
            raise BadValue(f"--set: expected measure.parameter=value, got {describe_value(text)}")
        chosen = [number for number, spec in enumerate(specs) if name in ("*", spec["name"])]
        if not chosen:
            raise unknown("measure of this plan", name, {spec["name"] for spec in specs})
        if name == "*":  # where none has it, the error says what there is
            # Measures that lack the parameter are left as they are
            chosen = [number for number in chosen if table.keys() <= specs[number].keys()] or chosen
        # An end of a key is found in one measure, and could be another thing in each of all
        lay = part if name == "*" else _resolve_spec
        for number in chosen:
            specs[number] = lay(table, specs[number], registry.spec(ball))
    return distinct(map(registry.build, specs))


def distinct(measures: Iterable[Measure]) -> tuple[Measure, ...]:
    """Return measures in their order, equal ones once."""
    measures = tuple(measures)
    return tuple(measure for number, measure in enumerate(measures) if measure not in measures[:number])


def _table(change: Change) -> Spec | Measure:
    if isinstance(change, Measure):
        return change
    table = part_table(change) if isinstance(change, str) else change
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise BadValue(f"measures: expected names, or tables with a name, got {change!r}")
    if table.get("kind", "measures") != "measures":
        raise BadValue(f"measures: expected a measure, got {table['name']!r} of the {table['kind']}")
    return {"kind": "measures", **table}


def _resolve_spec(table: Mapping[str, Any], before: Any, ball: Mapping[str, Any]) -> Any:
    """Return `part` of a table in which the end of a key stands for all of it, `steps` for `attack.steps`."""
    name = table.get("name", before and before["name"])
    own = {field.name for field in dataclasses.fields(registry.find("measures", name))} | {"kind", "name"}
    # Its own fields first: another part among them decides which ends there are
    spec = part({key: value for key, value in table.items() if key in own}, before, ball)
    rest: Spec = {}
    # Then what is the end of a path inside
    for key, value in table.items():
        ends = [path for path in flatten(spec) if path.endswith(f".{key}")]
        if key in own:
            continue
        if len(ends) > 1:
            raise Ambiguous(
                f"{name}: expected one parameter, got {key!r}, the end of {len(ends)}; write {' or '.join(ends)}"
            )
        # A word that is most like an end inside was meant there
        if not ends and (inner := _inner(key, spec, own)):
            raise unknown(f"parameter of {name}", key, own - {"kind", "name"}, inner)
        rest = over(rest, nest(ends[0] if ends else key, value))
    return part(rest, spec, ball) if rest else spec


def _inner(key: str, spec: Mapping[str, Any], own: Iterable[str]) -> str:
    """Return the parameter of an inner part whose end is most like a key; "" where one of the part's own is."""
    paths = [path for path in flatten(spec) if "." in path]
    if meant := [path for path in paths if path.replace(".", "_") == key]:
        return meant[0]
    ends = {path.rpartition(".")[2]: path for path in paths}
    (best,) = nearest(key, {*ends, *own}) or [""]
    return ends.get(best, "") if best not in own else ""


def _has(spec: Mapping[str, Any], table: Mapping[str, Any]) -> bool:
    """Return whether a part has the parts that a table names, at any depth."""
    for key, value in table.items():
        inner = spec.get(key)
        if isinstance(value, str) and isinstance(inner, Mapping):  # a part by its name alone
            value = {"name": value}
        if isinstance(value, Mapping):
            if not _has(inner if isinstance(inner, Mapping) else {}, value):
                return False
        elif key == "name" and value != spec.get("name"):
            return False
    return True


def part(value: Any, before: Any, ball: Mapping[str, Any]) -> Any:
    """Return the spec of what is written instead of something; a table changes the part of its name there.

    A part of another name begins with its defaults, and in the ball in which the one before searches. Its name alone
    stands for a table of its name, one value for a list of one. In the place of a list of parts, a table without a name
    changes all that have its fields. Pixels may be written in radii ε of the ball around them: `{ eps = 2 }` is 2 ε,
    `{ eps = 0.04, most = 0.002 }` is 0.04 ε but at most 0.002.
    """
    # Lists item by item; names as tables; pixels in radii of the ball
    if isinstance(before, list) and isinstance(value, Mapping) and value.keys().isdisjoint(("name", "each", "eps")):
        # Parts of the list that lack the field are none of those that are meant
        has = [isinstance(item, Mapping) and value.keys() <= item.keys() for item in before]
        if any(has):
            return [part(value, item, ball) if own else item for item, own in zip(before, has, strict=True)]
    if isinstance(before, list) and not isinstance(value, list):
        value = [value]
    if isinstance(value, list):
        kind = before[0].get("kind") if isinstance(before, list) and before and isinstance(before[0], Mapping) else None
        return [part(item, kind and {"kind": kind}, ball) for item in spread(value)]
    if isinstance(value, str) and isinstance(before, Mapping):
        value = {"name": value}
    if inspect.isfunction(value) and isinstance(before, Mapping):  # a divergence may stand as a function
        raise BadValue("expected a part, its name or a table, got a function; make it one: holdfast.loss(function)")
    if not isinstance(value, Mapping):
        return value
    if "eps" in value and value.keys() <= {"eps", "most"}:
        radii = {key: fitting(number, Positive, key) for key, number in value.items()}
        return min(ball["radius"] / (1 / radii["eps"]), radii.get("most", math.inf))  # ε / 25 for 0.04, rounded once

    # The part that is meant: the one before, or another of its kind
    old = before if isinstance(before, Mapping) else {}
    kind, name = value.get("kind", old.get("kind")), value.get("name", old.get("name"))
    if kind is None or name is None:
        return dict(value)  # `build` says what is missing
    if not isinstance(kind, str) or not isinstance(name, str):
        raise BadValue(f"a part needs a 'kind' and a 'name', got {dict(value)}")
    fields = [field.name for field in dataclasses.fields(registry.find(kind, name))]
    for key in value:
        if key not in ("kind", "name", *fields):
            raise unknown(f"parameter of {name}", key, fields)

    # Its fields, as they were or as the class has them; its ball first, for those inside
    same = (kind, name) == (old.get("kind"), old.get("name"))
    usual = dict(old) if same else defaults(kind, name, ball)
    own = part(value["ball"], usual.get("ball"), ball) if "ball" in value else usual.get("ball")
    inner = own if isinstance(own, Mapping) else ball
    return usual | {key: own if key == "ball" else part(item, usual.get(key), inner) for key, item in value.items()}


def defaults(kind: str, name: str, ball: Mapping[str, Any]) -> Spec:
    """Return the spec of a part as its class has it, but with another ball wherever it has one.

    The balls of observations stay: what these make, such as negatives, lies where they say; so do those
    that are written beside a function, see `FunctionPart`. Fields without a default are left out.
    """
    spec: Spec = {"kind": kind, "name": name}
    written: set[str] = set()
    for field in dataclasses.fields(registry.find(kind, name)):
        if field.default is not dataclasses.MISSING:
            spec[field.name] = registry.spec(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            spec[field.name] = registry.spec(field.default_factory())
        if field.metadata.get("written"):
            written.add(field.name)
    stay = spec.keys() if kind == "observations" else written
    return {key: value if key in stay else _inside(value, ball) for key, value in spec.items()}


def _inside(data: Any, ball: Mapping[str, Any]) -> Any:
    if isinstance(data, list):
        return [_inside(item, ball) for item in data]
    if not isinstance(data, Mapping) or data.get("kind") == "observations":
        return data
    if data.get("kind") == "threats" and issubclass(registry.find("threats", data["name"]), Ball):
        return dict(ball)
    return {key: _inside(value, ball) for key, value in data.items()}

"""Which measures of several audits are one question: equal specs, and equal labels where they read any."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.auditing.plan import flatten, named
from holdfast.comparison.conditions import learned_from, short
from holdfast.comparison.records import Audited
from holdfast.core import Measure, registry
from holdfast.runtime.errors import first_line


@dataclass(frozen=True)
class Question:
    """A measure that some encoders were asked alike.

    Attributes:
        name: of the measure among all questions.
        measure: the measure, built from its spec.
        asked: the encoders, each with what its record says about the measure.
    """

    name: str
    measure: Measure
    asked: list[tuple[Audited, Any]]


def questions(encoders: Sequence[Audited], fewest: int) -> tuple[list[Question], list[str]]:
    """Return the measures that at least so many encoders were asked alike, and why others are left out.

    Args:
        encoders: of audits on the same images.
        fewest: encoders.
    """
    groups: dict[str, list[tuple[Audited, Any]]] = {}
    for one in encoders:
        for m in one.entry["measures"].values():
            key = json.dumps(
                [m["part"], learned_from(one.run.record) if m.get("needs_labels") else None], sort_keys=True
            )
            groups.setdefault(key, []).append((one, m))
    left_out, built = [], {}
    for key, asked in groups.items():
        if len(asked) < fewest:
            left_out.append(_alone(key, asked, groups))
            continue
        try:
            built[key] = registry.build(asked[0][1]["part"])
        except Exception as error:
            name, where = asked[0][1]["part"].get("name"), asked[0][0].run.place
            left_out.append(f"{name} is left out: its spec in {where!r} cannot be built ({first_line(error)})")
    labels = {json.dumps(registry.spec(part)): name for name, part in named(dict.fromkeys(built.values())).items()}
    found: dict[str, Question] = {}
    for key, measure in built.items():
        name = labels[json.dumps(registry.spec(measure))]
        if name in found:  # one measure, other labels
            name += f" ({groups[key][0][0].run.place})"
        found[name] = Question(name, measure, groups[key])
    return list(found.values()), left_out


def _alone(key: str, asked: list[tuple[Audited, Any]], groups: dict[str, list[tuple[Audited, Any]]]) -> str:
    """Return why a measure that few were asked is left out: nobody else was asked, or others with other parameters."""
    (one, m), name = asked[0], asked[0][1]["part"]["name"]
    who = f"{name} of {', '.join(a.name for a, _ in asked)} is left out: "
    others = [(k, g) for k, g in groups.items() if k != key and g[0][1]["part"]["name"] == name]
    if not others:
        return f"{who}no other encoder was asked"
    other, theirs = max(others, key=lambda item: len(item[1]))[1][0]
    mine, them = flatten(m["part"]), flatten(theirs["part"])
    if mine == them:
        mine, them = learned_from(one.run.record), learned_from(other.run.record)
    differing = [k for k in dict.fromkeys((*mine, *them)) if mine.get(k) != them.get(k)]
    said = ", ".join(f"{k} is {short(mine.get(k))} and {short(them.get(k))}" for k in differing[:4])
    return f"{who}{said} in {one.run.place!r} and {other.run.place!r}"

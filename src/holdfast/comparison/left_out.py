"""Measures that a run and its baseline were not asked alike, each reason said once for all of them."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from holdfast.comparison.conditions import short
from holdfast.comparison.records import Audited
from holdfast.config.margins import parse
from holdfast.config.requirements import measure_of
from holdfast.core.naming import flatten
from holdfast.storage.conditions import question, read_supervision
from holdfast.storage.record import MeasureEntry


def list_exclusions(pairs: Iterable[tuple[Audited, Audited]], allow_drop: Iterable[str]) -> list[str]:
    """Return which measures are left out and why: other parameters, other labels, or only one run was asked."""
    subjects = [parse(text).subject for text in allow_drop]
    reasons: dict[str, dict[str, None]] = {}
    for new, old in pairs:
        now, before = new.entry.measures, old.entry.measures
        if new.entry.error:
            continue
        named = {measure_of(subject, {**before, **now}) for subject in subjects}
        wanted = None if not subjects or not all(subjects) else named
        for name, reason in _unlike(new, old, now, before):
            if wanted is None or name in wanted:
                reasons.setdefault(reason, {})[name] = None
    return [f"{', '.join(names)} left out: {reason}" for reason, names in reasons.items()]


def _unlike(
    new: Audited, old: Audited, now: Mapping[str, MeasureEntry], before: Mapping[str, MeasureEntry]
) -> Iterable[tuple[str, str]]:
    """Yield the measures that have no equal in the other run, each with the reason."""
    keys, other_keys = (
        {question(encoder.run.record, entry): name for name, entry in entries.items()}
        for encoder, entries in ((new, now), (old, before))
    )
    rest = [name for key, name in other_keys.items() if key not in keys]
    for key, name in keys.items():
        if key in other_keys:
            continue
        part = now[name].part["name"]
        rival = next((other for other in rest if before[other].part["name"] == part), None)
        if rival is None:
            yield name, "the baseline was not asked"
            continue
        rest.remove(rival)
        yield name, _difference(new, old, now[name], before[rival])
    for name in rest:
        yield name, "the run was not asked"


def _difference(new: Audited, old: Audited, entry: MeasureEntry, rival: MeasureEntry) -> str:
    """Return in what two entries of one measure differ, the run's value first."""
    a, b = flatten(entry.part), flatten(rival.part)
    if a == b:
        a, b = read_supervision(new.run.record), read_supervision(old.run.record)
    differing = [key for key in dict.fromkeys((*a, *b)) if a.get(key) != b.get(key)]
    return ", ".join(_pair(key, a.get(key), b.get(key), {a.get("ball"), b.get("ball")}) for key in differing[:4])


def _pair(key: str, value: Any, other: Any, balls: Collection[Any]) -> str:
    if key == "ball.radius":
        return f"--eps: {_radius(value, balls)} and {_radius(other, balls)}"
    return f"{key} is {short(value)} and {short(other)}"


def _radius(value: Any, balls: Collection[Any]) -> str:
    """Return a radius as one writes it: in grey levels where it is a whole number of them."""
    levels = 255 * value if isinstance(value, float) and set(balls) == {"linf"} else 0.5
    whole = abs(levels - round(levels)) < 1e-6
    return f"{round(levels)}/255" if whole else f"{value:g}" if isinstance(value, float) else str(value)

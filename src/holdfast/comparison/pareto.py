"""Two measures against each other: which encoders are not dominated."""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.config.overrides import holds
from holdfast.runtime.errors import BadValue, unknown
from holdfast.storage.comparison import ComparedMeasure
from holdfast.storage.entry import Spec

FITNESS = ("probe_accuracy",)
ROBUSTNESS = ("breakaway_risk", "nearest_neighbour_accuracy", "adversarial_robustness", "robust_accuracy")
"""Measures that are drawn against the accuracy unless others are named; the first one that is there."""


def find_dominators(
    beaten_x: Mapping[str, Iterable[str]], beaten_y: Mapping[str, Iterable[str]]
) -> dict[str, list[str]]:
    """Return for each encoder those by which it is dominated: better than it on both measures, by verdicts on each.

    The others make the front. It holds the true Pareto front with the confidence of the verdicts: an encoder on the
    true front has no other that is truly better on both. It may hold more, where the verdicts leave it open.
    """
    both = [name for name in beaten_x if name in beaten_y]
    won = {name: set(beaten_x[name]) & set(beaten_y[name]) for name in both}
    return {name: [rival for rival in both if name in won[rival]] for name in both}


def axes(
    measures: Mapping[str, ComparedMeasure], x: str | None, y: str | None
) -> tuple[str | None, str | None, str | None]:
    """Return the measures that are drawn across and up, and why not where one of them is missing.

    Without names: the clean accuracy of a kNN probe, and the first of `ROBUSTNESS`, or of all others without labels.

    Args:
        measures: of a comparison, by name.
        x: name of the measure across, or None.
        y: name of the measure up, or None.
    """
    parts = {name: m.part for name, m in measures.items()}
    across = pick(parts, [x])[0] if x else next(filter(None, (_knn(name, part) for name, part in parts.items())), None)
    if y:
        up = pick(parts, [y])[0]
    else:
        free = [name for name, m in measures.items() if not m.needs_labels and name != across]
        usual = [name for kind in ROBUSTNESS for name in free if parts[name]["name"] == kind]
        up = next(iter(usual or free), None)
    if across is not None and across == up:
        raise BadValue(f"expected two different measures for --x and --y, got {across} twice")
    if across is None:
        return None, None, "no clean accuracy of a kNN probe is compared; name a measure with --x"
    return across, up, None if up else "no second measure is compared; audit with one, or name it with --y"


def _knn(name: str, part: Spec) -> str | None:
    clean = part["name"] in FITNESS and not part.get("threat")
    return name if clean and part.get("probe", {}).get("name") == "knn" else None


def pick(parts: Mapping[str, Spec], names: Sequence[str]) -> list[str]:
    """Return the measures that names mean: their full name, or that of the part, which may be several measures'.

    `breakaway_risk[attack.steps=50]` means those that have these fields.
    """
    picked: dict[str, None] = {}
    for name in names:
        own = [key for key, part in parts.items() if name in (key, part["name"])]
        own = own or [key for key, part in parts.items() if "[" in name and holds(name, part)]
        if not own:
            raise unknown("measure of the comparison", name, parts)
        picked |= dict.fromkeys(own)
    return list(picked)

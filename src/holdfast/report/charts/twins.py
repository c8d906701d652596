"""Names of things that read the same, told apart by their parameters."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.report import numbers


def disambiguate(names: Iterable[str], parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return names; those that read the same get the first parameters that set them apart."""
    names, flats = list(names), [_flat(each) for each in parameters]
    longer = []
    for name, flat in zip(names, flats, strict=True):
        twins = [candidate for n, candidate in zip(names, flats, strict=True) if n == name]
        words = []
        # keep only the twins that agree on the parameters so far, until none but itself is left
        for key in dict.fromkeys(key for twin in twins for key in twin):
            alike = [twin for twin in twins if twin.get(key) == flat.get(key)]
            if len(alike) < len(twins) and key in flat:
                words.append(f"{key.rpartition('.')[2].replace('_', ' ')} {flat[key]}")
            twins = alike
        longer.append(f"{name}, {', '.join(words)}" if words else name)
    return longer


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested parts as dotted parameters: {"attack.steps": "50", ...}; a part's name stands for the part."""
    flat: dict[str, str] = {}
    for key, value in data.items():
        path = prefix.rstrip(".") if key == "name" and prefix else prefix + key
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{path}.")
        elif key != "kind" and value is not None:
            flat[path] = numbers.part(value)
    return flat

"""What the parts of a plan are called: by their names, twins by what sets them apart."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.core import registry
from holdfast.core.observation import Reader
from holdfast.runtime.sizes import format_size


def name_parts(parts: Iterable[Any]) -> dict[str, Any]:
    """Return parts by name; twins are told apart by the first parameters in which they differ.

    For example "universal_quantile[radius=4/255,divergence=linf]".
    """
    parts = list(parts)
    labels: dict[int, str] = {}
    for name in {_label(part) for part in parts}:
        # Places in the list of the parts of one name
        twins = [i for i, part in enumerate(parts) if _label(part) == name]
        flats = {i: flatten(registry.spec(parts[i])) for i in twins}
        differences = _differences(flats)
        labels |= {i: f"{name}[{','.join(differences[i])}]" if differences[i] else name for i in twins}
    return {labels[i]: part for i, part in enumerate(parts)}


def _label(part: object) -> str:
    # A measure may be called by two parts of it, which tells more than its own name
    return part.label if isinstance(part, Reader) else registry.part_name(part)


def _differences(flats: Mapping[int, Mapping[str, Any]]) -> dict[int, list[str]]:
    """Return for each twin the parameters that set it apart, going through them in order."""
    # All parameters that any twin has, in order; parts of one name may be made of different parts
    keys = list(dict.fromkeys(key for flat in flats.values() for key in flat))
    # The last word of a path is enough where no other path ends so
    ends = [key.rpartition(".")[2] for key in keys]
    differences: dict[int, list[str]] = {i: [] for i in flats}
    groups = [list(flats)]  # twins that cannot be told apart yet
    # Each parameter splits the groups that were left; what splits none is not said
    for key, end in zip(keys, ends, strict=True):
        split: list[list[int]] = []
        for group in groups:
            by_value: dict[Any, list[int]] = {}
            for i in group:
                by_value.setdefault(flats[i].get(key), []).append(i)
            split += by_value.values()
            words = _words(by_value)
            if len(by_value) > 1:
                for i in group:
                    if key in flats[i]:  # a twin without the parameter says nothing of it
                        differences[i].append(f"{end if ends.count(end) == 1 else key}={words[flats[i][key]]}")
        groups = split
    return differences


def _words(values: Iterable[Any]) -> dict[Any, str]:
    """Return what each value of a parameter is called: lists by their first members, numbered where these are alike."""
    words: dict[Any, str] = {}
    for value in values:
        text = format_size(value) if isinstance(value, float) else str(value)
        if isinstance(value, tuple):
            names = [item.partition("-")[0] for item in value]
            text = "+".join(names[:2]) + (f"+{len(names) - 2} more" if len(names) > 2 else "")
        # Two long lists may begin alike
        same = sum(word.partition(" no. ")[0] == text for word in words.values())
        words[value] = f"{text} no. {same + 1}" if same else text
    return words


def flatten(data: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested specs as dotted parameters: {"attack.steps": 50, ...}; kinds are left out, lists are tuples."""
    if isinstance(data, list):
        return {prefix: tuple("-".join(map(str, flatten(item).values())) for item in data)}
    if not isinstance(data, Mapping):
        return {prefix: data}
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if key == "kind":
            continue
        path = (prefix or key) if key == "name" else f"{prefix}.{key}" if prefix else key
        flat |= flatten(value, path)
    return flat


def titles(parts: Mapping[str, Reader]) -> dict[str, str]:
    """Return what people call parts, by their names: twins by every parameter in which any two of them differ.

    A name says only what tells a part from its twins; who reads a table wants each row's own value of all that differs.
    """
    flats = {name: flatten(registry.spec(part)) for name, part in parts.items()}
    said: dict[str, str] = {}
    for name, part in parts.items():
        twins = [flats[other] for other in parts if _label(parts[other]) == _label(part)]
        details = [f"{key}={words}" for key, words in _find_differing(flats[name], twins)]
        said[name] = title(part, f"{name.partition('[')[0]}[{','.join(details)}]" if details else name)
    return said


def _find_differing(flat: Mapping[str, object], twins: Sequence[Mapping[str, object]]) -> list[tuple[str, str]]:
    """Return the parameters of a part in which any of its twins differ, and its own values of them in words."""
    # every parameter that any of them has, and which of these differ among those that have it
    values = {key: [twin.get(key) for twin in twins if key in twin] for twin in twins for key in twin}
    # In what at least two of them differ
    differing = {key for key, known in values.items() if len(set(known)) > 1}
    # The last word of a path is enough where no other parameter has it
    ends = [key.rpartition(".")[2] for key in values]
    found = []
    for key in values:
        # a part without the parameter, or with none given, says nothing of it
        end = key.rpartition(".")[2]
        if key not in differing or flat.get(key) in (None, ()):
            continue
        # what follows another parameter of that name wherever it goes, as an objective's divergence does, is said once
        if end != key and all(
            key in twin and twin[key] == twin.get(end) for twin in twins if end in twin or key in twin
        ):
            continue
        found.append(
            (end if ends.count(end) == 1 or end == key else key, _words(dict.fromkeys(values[key]))[flat[key]])
        )
    return found


def title(part: Reader, name: str) -> str:
    """Return what people call a part: "overlap_risk[radius=0.1]" is "Overlap risk (radius 0.1)".

    Args:
        part: a measure or a check.
        name: by which it is told from its twins, see `name_parts`.
    """
    details = name.partition("[")[2].rstrip("]")
    # Truth values read as words: "exact" and "not exact"
    details = re.sub(r"([\w.]+)=(True|False)", lambda m: ("" if m[2] == "True" else "not ") + m[1], details)
    return f"{part.title} ({re.sub('[_=]', ' ', details).replace(',', ', ')})" if details else part.title

"""Short names of encoders: of each spec as much as tells it from the others; the one place that shortens them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.storage.comparison import ComparedMeasure, Comparison, Pareto
from holdfast.storage.entry import as_json
from holdfast.storage.record import Compared, Record, RelationEntry, SeriesEntry

Document = TypeVar("Document", Record, Comparison)

LONGEST = 60
"""Characters of a short name, at most; what is cut is the middle."""


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return name -> short name, all different; labels, which have no source before a ":", stay as they are.

    For example "zoo:digits-simclr" is "digits-simclr", and "file:runs/a/last.pt" beside "file:runs/b/last.pt" is
    "a/last.pt": a longer end of the path, then its options, are shown where the shorter ones leave two names alike.
    """
    ladders = {name: _ladder(name) for name in names}
    short = {name: ladder[0] for name, ladder in ladders.items()}
    twins = [name for name in short if Counter(short.values())[short[name]] > 1]
    for group in {short[name]: [n for n in twins if short[n] == short[name]] for name in twins}.values():
        # the first step at which all of the group differ; the names themselves do
        for step in range(max(len(ladders[name]) for name in group)):
            texts = [ladders[name][min(step, len(ladders[name]) - 1)] for name in group]
            if len(set(texts)) == len(group):
                short |= dict(zip(group, texts, strict=True))
                break
    cut = {name: _cut(text) for name, text in short.items()}
    for candidate in (cut, short):
        if len(set(candidate.values())) == len(candidate):
            return candidate
    return {name: name for name in names}


def _ladder(name: str) -> list[str]:
    """Return what a name may be shortened to, from the shortest to itself: ends of its path, with its options next."""
    source, colon, rest = name.partition(":")
    if not colon or not re.fullmatch(r"[a-z_]+", source):
        return [name]
    spec, gap, run = rest.partition(" (")  # encoders of several audits are told apart by their folders
    place, mark, options = spec.partition("?")
    pieces = [piece for piece in re.split(r"(?<=[/:\\])", place) if piece]
    tails = ["".join(pieces[-depth:]) for depth in range(1, len(pieces) + 1)]
    return [f"{text}{gap}{run}" for tail in tails for text in (tail, f"{tail}{mark}{options}")] + [name]


def _cut(text: str) -> str:
    """Return a text of which the middle is left out where it is long."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2 - 1]}…{text[-(LONGEST // 2) :]}"


NAMING: dict[str, type] = {
    "comparison": dict[str, Compared],
    "relations": list[RelationEntry],
    "series": list[SeriesEntry],
    "measures": dict[str, ComparedMeasure],
    "pareto": Pareto,
}
"""Entries of documents that name encoders, beside those of the encoders themselves, and what they are."""


def shorten_names(document: Document) -> tuple[Document, dict[str, str]]:
    """Return a record or a comparison for people, in which encoders have short names, and the whole name of each."""
    names = short_names([encoder.name for encoder in document.encoders])
    encoders = [replace(encoder, name=names[encoder.name]) for encoder in document.encoders]
    others = {
        key: _rename(getattr(document, key), names, kind) for key, kind in NAMING.items() if hasattr(document, key)
    }
    return replace(document, encoders=encoders, **others), {short: name for name, short in names.items()}


def _rename(entries: Any, names: Mapping[str, str], kind: type) -> Any:
    """Return entries of a kind in which each name of an encoder is its short one."""
    return msgspec.convert(_replace_names(as_json(entries), names), kind)


def _replace_names(data: Any, names: Mapping[str, str]) -> Any:
    """Return JSON data in which each text that is the name of an encoder is its short one; all else is the same.

    In charts, whose texts speak of encoders, names inside of a text are short too.
    """
    if isinstance(data, Mapping):
        return {
            key: _shorten_texts(value, names) if key == "chart" else _replace_names(value, names)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [_replace_names(value, names) for value in data]
    return names.get(data, data) if isinstance(data, str) else data


def _shorten_texts(chart: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a chart with every name in its texts short; of names that begin alike the longest that fits."""
    whole = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    return {
        key: whole.sub(lambda name: names[name[0]], value) if isinstance(value, str) else value
        for key, value in chart.items()
    }

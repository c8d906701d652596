"""A run beside an earlier one: whether they can be compared, and which encoder is held against which."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from holdfast.comparison.conditions import short
from holdfast.comparison.records import Audited, Run
from holdfast.runtime.errors import BadValue, Failed, Mismatch, UnknownName, unknown
from holdfast.storage.conditions import conditions

PAIRED = "images (fingerprint)"
"""The condition without which nothing is compared image by image."""

FREE = (PAIRED, "attacked images", "seed")
"""Conditions that a run and its baseline need not share: they decide which images of a source are attacked, and how."""


def same_images(now: Run, before: Run) -> bool:
    """Return whether two runs are on the same images, so that these can be paired; else on others of one source."""
    first, second = conditions(now.record), conditions(before.record)
    paired = first[PAIRED] == second[PAIRED]
    pairs = [(name, first[name], second[name]) for name in first if name not in FREE]
    if not paired:
        pairs.append(("images", now.record.data.spec, before.record.data.spec))
    if differing := [f"{name}: {short(a)} and {short(b)}" for name, a, b in pairs if a != b]:
        raise Mismatch(
            f"expected a baseline that can be compared, but {now.place!r} and {before.place!r} differ in "
            f"{'; '.join(differing)}; audit both with the same --data, --images and precision"
        )
    return paired


def without_labels(run: Run) -> Run:
    """Return a run whose images' labels count for nothing: other images have other labels."""
    data = structs.replace(run.record.data, labels=None)
    return replace(run, record=structs.replace(run.record, data=data))


def couples(
    now: Run, before: Run, chosen: Collection[str] = (), match: Mapping[str, str] | Iterable[str] = ()
) -> list[tuple[Audited, Audited]]:
    """Return each encoder of a run with that of the baseline it is held against.

    That is the one of the same name; where each run has one alone, these two; or what `match` says.
    """
    new = {entry.name: entry for entry in now.record.encoders}
    old = {entry.name: entry for entry in before.record.encoders}
    for name in chosen:
        if name not in new:
            raise unknown("encoder", name, new)
    partners = {name: name for name in new if name in old}
    if len(new) == len(old) == 1:
        partners = dict(zip(new, old, strict=True))
    said = match if isinstance(match, Mapping) else dict(_pair(text, new, old) for text in match)
    for name, partner in said.items():
        if name not in new or partner not in old:
            raise unknown("encoder to match", *((partner, old) if name in new else (name, new)))
    partners |= said
    pairs = []
    for name in chosen or new:
        if name not in partners:
            raise UnknownName(
                f"expected an encoder {name!r} in the baseline {before.place!r}, which has {', '.join(old) or 'none'}; "
                f"name the one to compare it with: --match '{name}=OLD'"
            )
        entry = old[partners[name]]
        if entry.error:
            raise Failed(
                f"expected an audited encoder {partners[name]!r} in the baseline {before.place!r}, it could not be "
                f"audited ({entry.error}); take another baseline"
            )
        pairs.append((Audited(name, now, new[name]), Audited(f"{partners[name]} (baseline)", before, entry)))
    return pairs


def _pair(text: str, new: Collection[str], old: Collection[str]) -> tuple[str, str]:
    """Return the names in "NEW=OLD"; either may hold a "=" of its own."""
    parts = text.split("=")
    splits: Sequence[tuple[str, str]] = [
        ("=".join(parts[:place]).strip(), "=".join(parts[place:]).strip()) for place in range(1, len(parts))
    ]
    if not splits:
        raise BadValue(f"match: expected NEW=OLD, the names of an encoder in both runs, got {text!r}")
    return next((pair for pair in splits if pair[0] in new and pair[1] in old), splits[0])

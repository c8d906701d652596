"""The pictures of a run, as data for the report: worst images, extremes, impersonations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.report.folder import Picture, read_picture
from holdfast.report.numbers import finite, number, plural
from holdfast.runtime.errors import HoldfastError
from holdfast.storage.record_file import RunFiles


@dataclass(frozen=True)
class Shot:
    """One picture of the gallery; `picture` is None where the file is missing, `problem` says so."""

    caption: str
    alt: str
    picture: Picture | None
    problem: str = ""


@dataclass(frozen=True)
class Worst:
    """One attacked image: the three pictures of it, its clean neighbours before and after, a number to sort it by."""

    id: str
    text: str
    shots: list[Shot]
    before: list[Shot]
    after: list[Shot]
    sort: float | None = None


@dataclass(frozen=True)
class Impersonations:
    """One attack that gives images the representations of another class: rows of pictures, a pair in each column."""

    title: str
    text: str
    rows: dict[str, list[Shot]]


def extremes(encoder: Mapping[str, Any], folder: RunFiles) -> dict[str, list[Shot]]:
    """Return pictures of the least and of the most robust images of one encoder, with their radii."""
    entries = encoder.get("extremes") or {}
    return {
        title: [
            shot(
                folder,
                e["picture"],
                f"proved {_short(e['certificate'])}, broken at {_short(e['attack'])}",
                f"{e['id']}: certified radius {_short(e['certificate'])}",
            )
            for e in entries.get(side, [])
        ]
        for side, title in (("least", "least robust"), ("most", "most robust"))
    }


def impersonations(encoder: Mapping[str, Any], folder: RunFiles) -> list[Impersonations]:
    """Return the attacks of one encoder that impersonate, with pictures of some pairs, where there are any."""
    entries = encoder.get("impersonations") or []
    return [_impersonations(entry, folder) for entry in entries if any(entry["sides"])]


def _impersonations(entry: Mapping[str, Any], folder: RunFiles) -> Impersonations:
    rows, taken, shown = {}, 0, 0
    classes, sides = entry["classes"], entry["sides"]
    for own, target, side in zip(classes, classes[::-1], sides, strict=True):
        rows[f"class {own}"] = [shot(folder, e["clean"], e["id"], f"{e['id']}, of class {own}") for e in side]
        rows[f"class {own}, given the representation of class {target}"] = [
            shot(folder, e["attacked"], f"probe says {e['said']}", f"{e['id']} attacked: the probe says {e['said']}")
            for e in side
        ]
        taken, shown = taken + sum(e["said"] == target for e in side), shown + len(side)
    text = f"{taken} of these {plural(shown, 'image')} are taken for the other class."
    return Impersonations(entry["title"], text, rows)


def _short(radius: Any) -> str:
    return f"{radius:.2g}" if finite(radius) else "–"


def gallery(encoder: Mapping[str, Any], folder: RunFiles) -> list[Worst]:
    """Return the worst images of one encoder with their pictures embedded."""
    return [_worst(entry, folder) for entry in encoder.get("gallery") or []]


def _worst(entry: Mapping[str, Any], folder: RunFiles) -> Worst:
    name = entry["id"]
    shots = [
        shot(folder, entry[kind], caption, f"{name}: {alt}")
        for kind, caption, alt in (
            ("clean", "clean", "clean image"),
            ("attacked", "attacked", "attacked twin"),
            ("difference", "difference", "difference of the two, amplified"),
        )
    ]
    sides = [
        [
            shot(folder, n["picture"], n["id"], f"clean image {n['id']}, neighbour {side} the attack")
            for n in entry[side]
        ]
        for side in ("before", "after")
    ]
    text = f"drift {number(entry.get('drift'))}"
    if finite(entry.get("quantile")):
        text += f", beyond {number(entry['quantile'], 'share')} of the distances between clean images"
    drift = entry.get("drift")
    return Worst(name, text, shots, sides[0], sides[1], drift if finite(drift) else None)


def shot(folder: RunFiles, relative: str, caption: str, alt: str) -> Shot:
    """Return a picture of the run; one that cannot be read says why."""
    try:
        return Shot(caption, alt, read_picture(folder, relative))
    except HoldfastError as error:
        return Shot(caption, alt, None, str(error))

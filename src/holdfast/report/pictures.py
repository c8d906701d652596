"""The pictures of a run, as data for the report: smallest changes, worst images, extremes, and more."""

from dataclasses import dataclass

from holdfast.report.folder import Picture, read_picture
from holdfast.report.numbers import finite, number, plural
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.sizes import size_in_words
from holdfast.storage.entry import Number
from holdfast.storage.pictured import Broken, HubEntry, Impersonation, Moved, Perturbation
from holdfast.storage.record import EncoderEntry
from holdfast.storage.record_file import RunFiles

SIDE, SPARSE, TINY = 176, 112, 104
"""Pixels of a side at most: of photos, of differences, which no compression makes small, of neighbours."""

CHANGES, WORST = 24, 12
"""Pictures of all encoders together: smallest changes, and worst images; a report of few encoders shows all."""

FEWEST = 2
"""Of each encoder at least."""


@dataclass(frozen=True)
class Shot:
    """One picture of the gallery; `picture` is None where the file is missing, `problem` says so."""

    caption: str
    alt: str
    picture: Picture | None
    problem: str = ""


@dataclass(frozen=True)
class Worst:
    """One attacked image: pictures of it, its clean neighbours before and after, a number to sort it by."""

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


@dataclass(frozen=True)
class Perturbed:
    """One perturbation for all images: its picture, and images under it, a pair in each column."""

    title: str
    text: str
    shots: list[Shot]
    rows: dict[str, list[Shot]]


def extremes(encoder: EncoderEntry, folder: RunFiles) -> dict[str, list[Shot]]:
    """Return pictures of the least and of the most robust images of one encoder, with their radii."""
    sides = {"least robust": encoder.extremes.least, "most robust": encoder.extremes.most}
    return {
        title: [
            shot(
                folder,
                e.picture,
                f"proved {_short(e.certificate)}, broken at {_short(e.attack)}",
                f"{e.id}: certified radius {_short(e.certificate)}",
            )
            for e in side
        ]
        for title, side in sides.items()
    }


def impersonations(encoder: EncoderEntry, folder: RunFiles) -> list[Impersonations]:
    """Return the attacks of one encoder that impersonate, with pictures of some pairs, where there are any."""
    return [_impersonations(entry, folder) for entry in encoder.impersonations if any(entry.sides)]


def _impersonations(entry: Impersonation, folder: RunFiles) -> Impersonations:
    # Each class above what was made of it; a target is the other class of the pair
    rows, taken, shown = {}, 0, 0
    for own, target, side in zip(entry.classes, entry.classes[::-1], entry.sides, strict=True):
        rows[f"class {own}"] = [shot(folder, e.clean, e.id, f"{e.id}, of class {own}") for e in side]
        rows[f"class {own}, given the representation of class {target}"] = [
            shot(folder, e.attacked, f"probe says {e.said}", f"{e.id} attacked: the probe says {e.said}") for e in side
        ]
        taken += sum(e.said == target if e.taken is None else e.taken for e in side)
        shown += len(side)
    text = f"{taken} of these {plural(shown, 'image')} are taken for the other class."
    return Impersonations(entry.title, text, rows)


def perturbations(encoder: EncoderEntry, folder: RunFiles) -> list[Perturbed]:
    """Return the perturbations that were learned for all images of one encoder."""
    return [_perturbation(entry, folder) for entry in encoder.perturbations]


def _perturbation(entry: Perturbation, folder: RunFiles) -> Perturbed:
    times = number(entry.amplified, low=0, high=entry.amplified)
    alt = f"the perturbation, {times} times, around grey"
    rows = {
        "as they are": [shot(folder, e.clean, e.id, f"{e.id}, as they are") for e in entry.pictures],
        "under it": [shot(folder, e.disturbed, e.id, f"{e.id}, under it") for e in entry.pictures],
    }
    text = "Read from a file."
    if entry.learned_on:
        text = f"Learned on {plural(entry.learned_on, 'image')}, none of those below."
    return Perturbed(entry.title, text, [shot(folder, entry.picture, f"× {times}", alt, SPARSE, sparse=True)], rows)


def _short(radius: Number | None) -> str:
    return f"{radius:.2g}" if finite(radius) else "–"


def changes(encoder: EncoderEntry, folder: RunFiles, encoders: int) -> list[Worst]:
    """Return the smallest changes that broke images of one encoder, from the smallest to the largest."""
    entries = encoder.changes
    # As many in all, however many encoders share the page; spread from the smallest to the largest
    count = min(len(entries), max(FEWEST, CHANGES // max(1, encoders)))
    return [_change(entries[round(i * (len(entries) - 1) / max(1, count - 1))], folder) for i in range(count)]


def _change(entry: Broken, folder: RunFiles) -> Worst:
    name, rival = entry.id, entry.rival
    times = number(entry.amplified, low=0, high=entry.amplified)
    shots = [
        shot(folder, entry.clean, "before", f"{name}: before", SIDE),
        shot(folder, entry.attacked, "after", f"{name}: after the change", SIDE),
        shot(folder, entry.difference, f"× {times}", f"{name}: the change, {times} times", SPARSE, sparse=True),
    ]
    if rival:
        shots.append(shot(folder, rival.picture, "taken for", f"{rival.id}, which {name} is taken for", SIDE))
    text = change_in_words(entry) + (f", taken for {rival.id}" if rival else "")
    return Worst(name, text, shots, [], [], entry.radius)


def change_in_words(entry: Broken) -> str:
    """Return what a smallest change is: the edit, or its size in a norm."""
    return entry.edit or f"{size_in_words(entry.radius, entry.levels is not None)} in {entry.norm}"


def hubs(encoder: EncoderEntry, folder: RunFiles) -> list[Worst]:
    """Return the hubs of one encoder, and images whose searches they take."""
    return [_hub(entry, folder) for entry in encoder.hubs]


def _hub(entry: HubEntry, folder: RunFiles) -> Worst:
    name, times = entry.id, number(entry.amplified, low=0, high=entry.amplified)
    shots = [
        shot(folder, entry.clean, "before", f"{name}: before", SIDE),
        shot(folder, entry.attacked, "after", f"{name}: after the change", SIDE),
        shot(folder, entry.difference, f"× {times}", f"{name}: the change, {times} times", SPARSE, sparse=True),
    ]
    queries = [
        shot(folder, query.picture, query.id, f"{query.id}, whose search returns {name} once it is changed", TINY)
        for query in entry.queries
    ]
    share = number(entry.taken / max(1, entry.asked), "share")
    text = f"takes {entry.taken:,} of {entry.asked:,} searches ({share}), among them those that the attack knew"
    return Worst(name, f"{text}; {entry.title}", shots, [], queries, entry.taken)


def gallery(encoder: EncoderEntry, folder: RunFiles, encoders: int) -> list[Worst]:
    """Return the worst images of one encoder with their pictures embedded; see `changes`."""
    count = max(FEWEST, WORST // max(1, encoders))
    return [_worst(entry, folder) for entry in encoder.gallery[:count]]


def _worst(entry: Moved, folder: RunFiles) -> Worst:
    name = entry.id
    shots = [
        shot(folder, entry.clean, "clean", f"{name}: clean image", SIDE),
        shot(folder, entry.attacked, "attacked", f"{name}: attacked twin", SIDE),
        shot(folder, entry.difference, "difference", f"{name}: difference of the two, amplified", SPARSE, sparse=True),
    ]
    if entry.drift_map:
        shots.append(shot(folder, entry.drift_map, "drift of patches", f"{name}: how far each patch moved", SIDE))
    before, after = (
        [shot(folder, n.picture, n.id, f"clean image {n.id}, neighbour {side} the attack", TINY) for n in neighbours]
        for side, neighbours in (("before", entry.before), ("after", entry.after))
    )
    text = f"drift {number(entry.drift)}"
    # Of many images the quantile was found among some, which is said
    if finite(entry.quantile):
        images = "clean images" if entry.placed_among is None else f"{entry.placed_among:,} of the clean images"
        text += f", beyond {number(entry.quantile, 'share')} of the distances between {images}"
    return Worst(name, text, shots, before, after, entry.drift)


def shot(
    folder: RunFiles, relative: str, caption: str, alt: str, most: int | None = None, *, sparse: bool = False
) -> Shot:
    """Return a picture of the run, see `read_picture`; one that cannot be read says why."""
    try:
        return Shot(caption, alt, read_picture(folder, relative, most, sparse=sparse))
    except HoldfastError as error:
        return Shot(caption, alt, None, str(error))

"""What becomes of an index when another encoder represents its images, measured on representations alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.config.requirements import judge, parse
from holdfast.core import HoldfastError
from holdfast.numerics.geometry.image_pairs import ImagePairs
from holdfast.numerics.geometry.neighbour_lists import Kept, Lists
from holdfast.runtime.errors import NotEnough
from holdfast.runtime.listener import Listener, Silent
from holdfast.storage.finding import Finding
from holdfast.storage.index_upgrade import IndexMeasure, JudgedCanary, TranslatedThreshold
from holdfast.storage.record import EncoderEntry, MeasureEntry
from holdfast.storage.standing import VOID
from holdfast.workflows.compare_index import measures
from holdfast.workflows.compare_index.canaries import Canary, collect_known_copies, judge_canaries
from holdfast.workflows.compare_index.disturbed import of_disturbed
from holdfast.workflows.compare_index.plan import RATE, IndexPlan
from holdfast.workflows.compare_index.thresholds import (
    Distanced,
    Thresholds,
    enough,
    thresholds_at,
    thresholds_for,
    translation,
)

PAIRED = 4000
"""Images whose pairs are compared: 8 million pairs. Lists of neighbours are those of all images."""


@dataclass(frozen=True)
class Represented:
    """What one encoder makes of the images of an index.

    Attributes:
        reps: representations, [N, D].
        edited: representations of edited copies, by the title of the edit, each [N, D].
        labels: a class for each image; None where there is none.
        disturbed: representations of the first images after each disturbance, by its title, each [M, D].
        finds: what an index itself finds, where that is not exact; None: nothing of its own.
    """

    reps: Float[Tensor, "images dim"]
    edited: Mapping[str, Float[Tensor, "images dim"]] = field(default_factory=dict)
    labels: Sequence[int] | None = None
    disturbed: Mapping[str, Float[Tensor, "some dim"]] = field(default_factory=dict)
    finds: measures.Finds | None = None


@dataclass(frozen=True)
class Drawn:
    """Which of very many items are looked at.

    Attributes:
        queries: those whose lists are compared, in rising order; None: all.
        paired: those whose pairs are.
    """

    queries: Int[Tensor, "queries"] | None
    paired: Int[Tensor, "paired"]


@dataclass(frozen=True)
class Upgrade:
    """What changes where a new encoder takes the place of an old one.

    Attributes:
        measures: by name.
        each: what each image keeps of its neighbours, by the name of the measure.
        lists: nearest neighbours of each image by both encoders.
        pairs: the pairs of different images.
        threshold: why there is no threshold; "" where there is one.
        translation: distances of both encoders at the same rates of false positives.
        canaries: on which side of the thresholds each lies.
    """

    measures: measures.Entries
    each: dict[str, Kept]
    lists: tuple[Lists, Lists]
    pairs: ImagePairs
    threshold: str
    translation: list[TranslatedThreshold]
    canaries: list[JudgedCanary]


def refuse_too_few(plan: IndexPlan, images: int, canaries: Sequence[Canary]) -> None:
    """Refuse questions that so many images cannot answer."""
    if max(plan.k) > images - 2:
        raise NotEnough(
            f"k: expected fewer neighbours than the {images - 1} other {plan.noun}s have places, got "
            f"{max(plan.k)}; lower k or use more {plan.noun}s"
        )
    paired = min(images, PAIRED)
    if plan.rate is not None and (why := enough(paired, plan.rate, plan.noun)):
        raise NotEnough(f"rate: {why}")
    if canaries and plan.rate is None and plan.threshold is None and (why := enough(paired, RATE, plan.noun)):
        raise NotEnough(f"canaries are judged at a threshold: {why}; or give --rate or --threshold")


def upgrade(
    plan: IndexPlan,
    old: Represented,
    new: Represented,
    alike: Int[Tensor, "pairs 2"],
    canaries: Sequence[Canary] = (),
    ids: Sequence[str] = (),
    listener: Listener | None = None,
    drawn: Drawn | None = None,
) -> Upgrade:
    """Return what changes: neighbours, distances, thresholds, canaries. Not a pass is made."""
    refuse_too_few(plan, len(old.reps), canaries)
    listener = listener or Silent()
    # neighbours of all images
    queries = None if drawn is None else drawn.queries
    finds = old.finds, new.finds
    entries, each, lists = measures.of_lists(plan, old.reps, new.reps, listener, queries, finds)
    entries |= measures.of_vectors(old.reps, new.reps, plan.noun)
    entries |= of_disturbed(old.disturbed, new.disturbed)
    listener.stage("comparing distances")
    # distances of pairs that show different things, and the thresholds which they give
    paired = torch.arange(len(old.reps))[:PAIRED] if drawn is None else drawn.paired
    distanced = _measure_distances(plan, torch.cat([alike, collect_known_copies(canaries)]), old, new, paired)
    thresholds, why = _thresholds(plan, distanced, needed=bool(canaries))
    entries |= measures.of_distances(distanced)
    if thresholds is not None:
        entries |= measures.of_thresholds(thresholds, plan.compared_by, plan.noun)
    # what needs more than images: edited copies, classes, canaries
    if old.edited:
        entries |= measures.of_copies(plan, (old.reps, new.reps), (old.edited, new.edited), distanced, thresholds)
    if old.labels is not None and len(set(old.labels)) > 1:
        entries |= measures.of_classes(plan, lists, torch.tensor(old.labels))
    sides = (
        judge_canaries(canaries, ids, (old.reps, new.reps), thresholds, plan.compared_by)
        if canaries and thresholds is not None
        else []
    )
    return Upgrade(entries, each, lists, distanced.pairs, why, translation(distanced), sides)


def findings(
    encoder: str, entries: measures.Entries, no_threshold: str, requirements: Collection[str], distance: str
) -> list[Finding]:
    """Return whether the new encoder meets each requirement, and by which distance."""
    for requirement in requirements if no_threshold else ():
        if parse(requirement).subject.partition(".")[0] in ("threshold", "false_positives"):
            raise NotEnough(f"requirement {requirement!r}: {no_threshold}; or give --rate or --threshold")
    row = EncoderEntry(name=encoder, measures={name: _as_in_records(name, entry) for name, entry in entries.items()})
    answers = judge([row], requirements) if requirements else []
    return [msgspec.structs.replace(answer, compared=f"{answer.compared}; by {distance}") for answer in answers]


def _as_in_records(name: str, entry: IndexMeasure) -> MeasureEntry:
    """Return a measure as records have it; which way is better the requirements say."""
    return MeasureEntry(
        title=entry.title,
        better="higher",
        unit=entry.unit,
        part={"name": name},
        scores={title: replace(score, if_weak=VOID) for title, score in entry.scores.items()},
        headline=entry.headline,
        levels=entry.unit == "pixels",
    )


def _measure_distances(
    plan: IndexPlan, copies: Int[Tensor, "pairs 2"], old: Represented, new: Represented, paired: Int[Tensor, "paired"]
) -> Distanced:
    """Return distances of pairs of different images: those that are no copies of each other."""
    # where each image stands among those whose pairs are compared
    place = torch.full((len(old.reps),), -1).scatter(0, paired, torch.arange(len(paired)))
    places = place[copies]
    pairs = ImagePairs(len(paired), places[(places >= 0).all(1)])
    if not pairs.count:
        raise NotEnough(f"expected different {plan.noun}s, got none but look-alikes; use other {plan.noun}s")
    old_apart, new_apart = (pairs.distances(side.reps[paired], plan.compared_by) for side in (old, new))
    return Distanced(pairs, old_apart, new_apart, plan.compared_by, plan.noun)


def _thresholds(plan: IndexPlan, distanced: Distanced, needed: bool) -> tuple[Thresholds | None, str]:
    """Return the thresholds, or why there are none where nobody asked for any."""
    if plan.threshold is not None:
        return thresholds_for(distanced, plan.compared_by.show(plan.threshold)), ""
    try:
        return thresholds_at(distanced, plan.rate or RATE), ""
    except HoldfastError as error:
        if plan.rate is not None or needed:
            raise
        return None, str(error)

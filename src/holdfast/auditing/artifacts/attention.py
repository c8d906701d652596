"""Attention maps of a few images, clean and under the corruptions of an audit: strips of pictures."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from msgspec.structs import replace
from torch import Tensor

from holdfast.auditing.artifacts.grad_cam import Maps, attention
from holdfast.auditing.plan import CLEAN
from holdfast.auditing.record import passes_entry
from holdfast.auditing.session import Session
from holdfast.core import HoldfastError, Images, LinearProbe, Measure, Reps, Rng, Scope, Threat, registry
from holdfast.numerics.geometry.pictures import glowing, shrunk
from holdfast.storage.entry import as_json
from holdfast.storage.pictured import AttentionEntry, StripEntry
from holdfast.storage.run_folder import Store, StoreError

IMAGES, STRIPS = 8, 12
"""Images of a strip, the first that are attacked; strips, the one of clean images among them."""
SIDE, GAP = 64, 4
"""Largest side of a picture in a strip, and what is between pictures, in pixels."""


@dataclass(frozen=True)
class _Reading:
    """What is asked of the images: directions of the representation, [B, D], and the probe that they come from."""

    name: str
    directions: Reps
    probe: LinearProbe | None = None


def write_attention(store: Store, subject: Session, slug: str, measures: Iterable[Measure]) -> AttentionEntry:
    """Write strips of attention maps, one for each corruption that was observed; return the record's entry.

    Empty where no measure looks at corrupted images. An encoder without maps has an entry that says why. The passes are
    made here and counted apart from those of observations.
    """
    disturbed = [observation.sole_threat for observation in subject.costs if observation.scope is Scope.FIRST]
    threats = {threat.title: threat for threat in disturbed if threat is not None}
    if not threats:
        return AttentionEntry()
    chosen = _spread(list(threats), STRIPS - 1)
    before = subject.encoder.passes
    try:
        readings = [_own(subject), *_classes(subject, measures)]
        entry = _strips(store, f"pictures/{slug}/attention", subject, readings, {t: threats[t] for t in chosen})
    except StoreError:
        raise
    except HoldfastError as error:
        entry = AttentionEntry(problem=str(error), strips=[])
    return replace(
        entry,
        images=list(subject.ids[: _count(subject)]),
        left_out=[title for title in threats if title not in chosen],
        passes=passes_entry(subject.encoder.passes - before),
    )


def _count(subject: Session) -> int:
    return min(IMAGES, subject.attacked)


def _spread(titles: list[str], most: int) -> list[str]:
    """Return so many at most, evenly spread: severities of one corruption often stand together."""
    count = min(most, len(titles))
    return [titles[i * len(titles) // count] for i in range(count)]


def _own(subject: Session) -> _Reading:
    """What sets the representation of each image apart from the mean of all; no label is read."""
    reps = subject.read(CLEAN)["reps"]
    return _Reading("representation", reps[: _count(subject)] - reps.mean(0))


def _classes(subject: Session, measures: Iterable[Measure]) -> list[_Reading]:
    """The logit of each image's class, less the mean of all logits (which no training decides), by the first probe."""
    for measure in measures:
        if (probe := measure.attention_probe) is not None and subject.labels is not None:
            try:
                head = subject.head(probe)
                own = head.numbers(subject.labels[: _count(subject)])
            except HoldfastError:  # the measure's own entry says what is wrong with this probe
                continue
            return [_Reading("class", (head.weights - head.weights.mean(0))[own].float(), probe)]
    return []


def _strips(
    store: Store, folder: str, subject: Session, readings: list[_Reading], threats: dict[str, Threat]
) -> AttentionEntry:
    # Maps of the clean images
    x = subject.batch(0, _count(subject))
    rng = Rng(subject.seed, ids=tuple(subject.ids[: len(x)])).child("represented")  # the draws of `Represented`
    undisturbed = [attention(subject.encoder, x, reading.directions) for reading in readings]
    clean_maps = [attended.upsample(*x.shape[2:]).cpu() for attended in undisturbed]
    strips = [_strip(store, f"{folder}-0.png", "clean", x, clean_maps)]

    # Maps under each corruption, of the same layers, and how much they agree with the clean ones
    for number, (title, threat) in enumerate(threats.items(), 1):
        corrupted = subject.images.disturb(x, range(len(x)), threat, rng)
        maps = [
            attention(subject.encoder, corrupted, reading.directions, attended.layer).upsample(*x.shape[2:]).cpu()
            for reading, attended in zip(readings, undisturbed, strict=True)
        ]
        agreement = {
            reading.name: as_json(alike(corrupted_map, warp_maps(subject, threat, clean_map, rng)).tolist())
            for reading, corrupted_map, clean_map in zip(readings, maps, clean_maps, strict=True)
        }
        strips.append(replace(_strip(store, f"{folder}-{number}.png", title, corrupted, maps), agreement=agreement))
    probes = [registry.spec(reading.probe) for reading in readings if reading.probe]
    return AttentionEntry(
        layer=undisturbed[0].layer,
        readings=[reading.name for reading in readings],
        probe=probes[0] if probes else None,
        strips=strips,
    )


def warp_maps(subject: Session, threat: Threat, maps: Maps, rng: Rng) -> Maps:
    """Return maps moved as a corruption moves pixels; as they are where it moves none (or by chance).

    The map of an encoder that is equivariant to a shuffle moves with it. NaN where the encoder sees a part of an image
    only, into which the corruption moves others.
    """
    if not threat.moves_pixels:
        return maps
    maps = maps / maps.amax((1, 2), keepdim=True).clamp_min(torch.finfo(maps.dtype).tiny)  # resized like pixels
    return subject.images.disturb(maps[:, None], range(len(maps)), threat, rng, as_maps=True)[:, 0]


def alike(maps: Maps, others: Maps) -> Float[Tensor, "batch"]:
    """Return the correlation over pixels of two maps of each image; NaN where one of them is flat."""
    a, b = (m.double().flatten(1) - m.double().flatten(1).mean(1, keepdim=True) for m in (maps, others))
    return (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))


def _strip(store: Store, name: str, title: str, x: Images, maps: list[Maps]) -> StripEntry:
    """Write images in a row, with a row of each kind of map on them below."""
    x = x.cpu()
    colours = x if x.shape[1] == 3 else x.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    rows = [colours, *(glowing(colours, each) for each in maps)]
    store.write_picture(name, _tiles([_resize(row) for row in rows]))
    return StripEntry(title=title, picture=name, agreement={})


def _resize(x: Images) -> Float[Tensor, "batch channel rows columns"]:
    """Return images of about SIDE pixels: large ones averaged, small ones repeated pixel by pixel."""
    times = max(1, SIDE // max(x.shape[2:]))
    return shrunk(x, SIDE).repeat_interleave(times, 2).repeat_interleave(times, 3)


def _tiles(rows: list[Images]) -> Float[Tensor, "4 rows columns"]:
    """Return rows of pictures as one; between them it is transparent."""
    count, _, height, width = rows[0].shape
    canvas = torch.zeros(4, len(rows) * (height + GAP) - GAP, count * (width + GAP) - GAP)
    for i, row in enumerate(rows):
        for j, picture in enumerate(row):
            top, left = i * (height + GAP), j * (width + GAP)
            canvas[:3, top : top + height, left : left + width] = picture
            canvas[3, top : top + height, left : left + width] = 1
    return canvas

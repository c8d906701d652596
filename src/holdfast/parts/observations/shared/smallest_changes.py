"""Pictures of the smallest changes that break images: before, after, the difference, and what it is taken for."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from holdfast.core import Album, Images, Positions
from holdfast.core.album import Entries
from holdfast.parts.observations.shared.stored_changes import pack_changes, rows_of, write_change

KEPT = 256
"""Images of the population, the first ones, whose changes are kept: a byte for each number, 38 MB at 224 pixels."""

SHOWN = 12
"""Of them so many are shown."""


def pack_first_changes(delta: Images, positions: Positions, most: int = KEPT) -> dict[str, Tensor]:
    """Return the changes of the first images of the population, to be stored, however these are cut into shards.

    Args:
        delta: the changes of a shard's images.
        positions: where these stand in the population.
        most: how many images of the population, the first ones, are meant.
    """
    first = (positions < most).nonzero().flatten()
    return pack_changes(delta[first.to(delta.device)], positions[first])


def smallest_changes(
    results: Mapping[str, Tensor], album: Album, size: Callable[[float], dict[str, Any]], most: int = SHOWN
) -> Entries:
    """Write pictures of some images, evenly from the smallest radius to the largest; return the record's entries.

    Args:
        results: what broke: `radius` and `rival` of every image, and what `pack_first_changes` returned.
        album: the images, and where files go.
        size: what the record says of a radius: its norm, its grey levels, or which edit it is.
        most: how many images.
    """
    # of the images whose change was kept and broke them: the smallest, the largest, and evenly between, by rank
    rows = rows_of(results)
    radii = results["radius"]
    changed = results["gallery.largest"] > 0
    broken = [p for p in sorted(rows) if p < len(radii) and changed[rows[p]] and float(radii[p]) < torch.inf]
    order = sorted(broken, key=lambda position: float(radii[position]))
    # Evenly spaced by rank, so that a few very large radii do not take all places
    ranks = torch.linspace(0, len(order) - 1, min(most, len(order))).round().long().tolist()
    if not order or album.picture(order[0]).shape[0] not in (1, 3):
        return []
    # pictures and an entry for each of them
    folder = f"pictures/{album.slug}"
    entries: Entries = []
    for place, position in enumerate(order[rank] for rank in ranks):
        largest, files = write_change(results, position, album, f"{folder}/change{album.number}-{place}")
        rival, radius = int(results["rival"][position]), float(radii[position])
        entries.append(
            {
                "id": album.ids[position],
                "radius": radius,
                **size(radius),
                "amplified": 0.5 / largest,
                "rival": None if rival < 0 else _rival(rival, album, folder),
                **files,
            }
        )
    return entries


def _rival(position: int, album: Album, folder: str) -> dict[str, str]:
    """Return the entry of an image that others are taken for, with its picture."""
    name = f"{folder}/rival-{position}.png"
    album.files.write_picture(name, album.picture(position))
    return {"id": album.ids[position], "picture": name}

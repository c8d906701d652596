"""A gallery: the images that an attack moved farthest, and what they are near to."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Album, Grid, Images, Positions, Rng
from holdfast.core.album import Picture
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.nearest import nearest
from holdfast.numerics.geometry.pictures import glowing
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.observations.shared.stored_changes import pack_changes, unpack_change

WORST = 8
NEIGHBOURS = 3
PAIRS_OF = 10_000
"""Images among whose pairs drifts are placed, at most: a caption may not take longer than the attack."""


def farthest(
    reps: Float[Tensor, "rows dim"], clean: Float[Tensor, "rows dim"], delta: Images, positions: Positions
) -> dict[str, Tensor]:
    """Return the changes that moved images of a shard farthest, to be stored: enough of them, however shards are cut.

    Args:
        reps: f(x') of the shard's images.
        clean: f(x).
        delta: x' - x, in pixels.
        positions: where the images stand in the population.
    """
    # The farthest of every shard: the farthest of all are among them, wherever shards begin
    rows = _order(reps, clean)
    return pack_changes(delta[rows.to(delta.device)], positions[rows.to(positions.device)])


def _order(reps: Float[Tensor, "rows dim"], clean: Float[Tensor, "rows dim"]) -> Int[Tensor, "worst"]:
    """Return the rows that moved farthest in ℓ2, the farthest first, and of equal ones the first."""
    drift = L2()(reps.cpu().double(), clean.cpu().double())
    # Stable, so that the choice among equals does not depend on the batch size
    return drift.sort(descending=True, stable=True).indices[:WORST]


def _draw_subset(seed: int, images: int) -> Int[Tensor, "drawn"]:
    """Return the images among whose pairs drifts are placed."""
    random = Rng(seed).child("gallery").generator()
    return torch.randperm(images, generator=random)[:PAIRS_OF].sort().values


def gallery(results: Mapping[str, Tensor], album: Album) -> list[dict[str, Any]]:
    """Write pictures of the images with the largest drift by ℓ2 distance, and return the record's entries for them.

    Of an encoder of patches with maps of how far each of them moved.

    Args:
        results: of `attacked`, an untargeted trajectory, with what `farthest` kept of every shard.
        album: the images, and where files go.
    """
    # the images that the last read-out moved farthest, among those whose pictures were kept
    clean = album.clean
    last = max((key for key in results if key.startswith("reps@")), key=lambda key: int(key.removeprefix("reps@")))
    drift = L2()(results[last].double(), clean[: len(results[last])].double())
    kept, rows = results["gallery.position"].sort()
    order = _order(results[last][kept], clean[kept])
    positions, rows = kept[order], rows[order].tolist()
    # how far that is among clean distances, and which images are near, before and after
    among = clean[_draw_subset(album.seed, len(clean))]
    # The universal quantile of each drift: the share of pairs that are nearer to each other
    quantiles = pairwise.share_below(among, drift[positions], L2())
    placed_among = {} if len(among) == len(clean) else {"placed_among": len(among)}
    # One more, as the image itself is its own nearest
    before = nearest(clean[positions], clean, NEIGHBOURS + 1, L2())
    after = nearest(results[last][positions], clean, NEIGHBOURS, L2())
    # pictures and an entry for each of them
    folder, ids, entries, neighbours = f"pictures/{album.slug}", album.ids, [], set[int]()
    for rank, position in enumerate(positions.tolist()):
        x = album.picture(position)
        largest, share = unpack_change(results, rows[rank])
        shown = {"clean": x, "attacked": x + largest * share, "difference": 0.5 + share / 2}
        if album.grid is not None:
            shown["drift_map"] = _drift_map(album.grid, x, results[last][position], clean[position])
        files = {name: f"{folder}/{rank}-{name}.png" for name in shown}
        for name, pixels in shown.items():
            album.files.write_picture(files[name], pixels)
        others = {
            "before": [p for p in before[rank].tolist() if p != position][:NEIGHBOURS],
            "after": after[rank].tolist(),
        }
        near: dict[str, list[dict[str, str]]] = {}
        for side, places in others.items():
            near[side] = [{"id": ids[int(p)], "picture": f"{folder}/neighbour-{p}.png"} for p in places]
            neighbours.update(places)
        numbers = {"drift": float(drift[position]), "quantile": float(quantiles[rank])}
        entries.append({"id": ids[position]} | numbers | placed_among | files | near)
    # Once each, however many images they are near to
    for p in sorted(neighbours):
        album.files.write_picture(f"{folder}/neighbour-{p}.png", album.picture(p))
    return entries


def _drift_map(grid: Grid, x: Picture, moved: Tensor, clean: Tensor) -> Float[Tensor, "3 height width"]:
    """Return an image in grey that glows where its patches moved, in units of the one that moved farthest (ℓ2)."""
    drift = grid.maps(L2()(grid.tokens(moved), grid.tokens(clean)))
    enlarged = F.interpolate(drift[None, None], size=x.shape[1:], mode="nearest")[0]
    return glowing(x[None], enlarged)[0]

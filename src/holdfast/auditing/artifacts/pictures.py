"""Pictures: images that an attack moved farthest, with what they are near to; impersonators; least and most robust."""

from typing import Any

import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.auditing.session import Session
from holdfast.core import Table
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.divergences import divergence
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.impersonated import Impersonated
from holdfast.storage.run_folder import Store

WORST = 8
NEIGHBOURS = 3
EXTREMES = 6


def write_gallery(store: Store, subject: Session, slug: str) -> list[dict[str, Any]]:
    """Write pictures of the images with the largest drift, and return the record's entries for them.

    The trajectory is the untargeted one of the largest cost; the order is by ℓ2 drift.
    """
    attacks = [o for o in subject.costs if isinstance(o, Attacked) and o.first is None]
    runs = [o for o in attacks if isinstance(o.objective, Untargeted)]
    if not runs:
        return []
    seen = subject.read(max(runs, key=lambda o: o.passes.total))
    clean = subject.read(Clean())["reps"]
    last = max((key for key in seen if key.startswith("reps@")), key=lambda key: int(key.removeprefix("reps@")))
    drift = divergence("l2")(seen[last].double(), clean[: len(seen[last])].double())
    kept = seen["gallery.position"]
    order = drift[kept].sort(descending=True, stable=True).indices[:WORST]
    positions = kept[order]
    quantiles = pairwise.share_below(clean, drift[positions])
    before = pairwise.nearest(clean[positions], clean, NEIGHBOURS + 1)
    after = pairwise.nearest(seen[last][positions], clean, NEIGHBOURS)
    folder, ids, entries = f"pictures/{slug}", subject.images.ids, []
    for rank, position in enumerate(positions.tolist()):
        x, attacked = subject.images.batch(position, position + 1)[0], seen["gallery.image"][order[rank]]
        delta = attacked - x
        shown = {"clean": x, "attacked": attacked, "difference": 0.5 + delta / (2 * delta.abs().max().clamp_min(1e-9))}
        files = {name: f"{folder}/{rank}-{name}.png" for name in shown}
        for name, pixels in shown.items():
            write_png(store, files[name], pixels)
        others = {
            "before": [p for p in before[rank].tolist() if p != position][:NEIGHBOURS],
            "after": after[rank].tolist(),
        }
        near: dict[str, list[dict[str, str]]] = {}
        for side, places in others.items():
            near[side] = [{"id": ids[p], "picture": f"{folder}/neighbour-{p}.png"} for p in places]
            for p in places:
                write_png(store, f"{folder}/neighbour-{p}.png", subject.images.batch(p, p + 1)[0])
        entries.append(
            {"id": ids[position], "drift": float(drift[position]), "quantile": float(quantiles[rank])} | files | near
        )
    return entries


def write_impersonations(store: Store, subject: Session, slug: str) -> list[dict[str, Any]]:
    """Write pictures of the first pairs of every attack that impersonates; return the record's entries for them.

    An entry holds the attack's title, its classes, and for each class the pictures `clean` and `attacked` of its half
    of every pair, in one order, with the class that the probe gives the attacked image.
    """
    attacks = [o for o in subject.costs if isinstance(o, Impersonated)]
    return [_impersonation(store, subject, f"pictures/{slug}/pair-{i}", o) for i, o in enumerate(attacks)]


def _impersonation(store: Store, subject: Session, name: str, observation: Impersonated) -> dict[str, Any]:
    seen = subject.read(observation)
    images = dict(zip(seen["gallery.position"].tolist(), seen["gallery.image"], strict=True))
    labels, sides = subject.labels, []
    assert labels is not None  # the observation needs them too
    for own in observation.classes:
        side = []
        for position in sorted(images):  # the i-th of one class is paired with the i-th of the other
            if labels[position] != own or int(seen["partner"][position]) not in images:
                continue
            files = {kind: f"{name}-{position}-{kind}.png" for kind in ("clean", "attacked")}
            write_png(store, files["clean"], subject.images.batch(position, position + 1)[0])
            write_png(store, files["attacked"], images[position])
            side.append({"id": subject.ids[position], "said": int(seen["said"][position])} | files)
        sides.append(side)
    return {"title": observation.title, "classes": list(observation.classes), "sides": sides}


def write_extremes(store: Store, subject: Session, slug: str, table: Table) -> dict[str, list[dict[str, Any]]]:
    """Write pictures of the images with the smallest and the largest certified radius; return the record's entries.

    Args:
        store: where pictures go.
        subject: the encoder and its images.
        slug: the encoder's name in files.
        table: what a measure observed, with the columns `certificate` and `attack`.
    """
    order = table["certificate"].argsort(stable=True)[: int((~table["certificate"].isnan()).sum())]
    count = min(EXTREMES, len(order) // 2)
    found: dict[str, list[dict[str, Any]]] = {}
    for side, positions in (("least", order[:count]), ("most", order.flip(0)[:count])):
        found[side] = []
        for position in positions.tolist():
            picture = f"pictures/{slug}/radius-{position}.png"
            write_png(store, picture, subject.images.batch(position, position + 1)[0])
            radii = {column: float(table[column][position]) for column in ("certificate", "attack")}
            found[side].append({"id": subject.ids[position], "picture": picture} | radii)
    return found


def write_png(store: Store, name: str, pixels: Float[Tensor, "channels height width"]) -> None:
    """Write pixels in [0, 1] as a PNG picture."""
    values = (pixels.clamp(0, 1) * 255).round().to(torch.uint8).cpu()
    picture = PIL.Image.fromarray((values[0] if len(values) == 1 else values.permute(1, 2, 0)).numpy())
    store.write(name, lambda path: picture.save(path, format="PNG"))

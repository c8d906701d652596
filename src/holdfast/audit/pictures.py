"""The gallery: the images that an attack moved farthest, their attacked twins, and what they are near to."""

from typing import Any

import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast import neighbours
from holdfast.audit.store import Store
from holdfast.audit.subject import AuditSubject
from holdfast.divergences import divergence
from holdfast.objectives.untargeted import Untargeted
from holdfast.observations.attacked import Attacked
from holdfast.observations.clean import Clean

WORST = 8
NEIGHBOURS = 3


def write_gallery(store: Store, subject: AuditSubject, slug: str) -> list[dict[str, Any]]:
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
    quantiles = neighbours.share_below(clean, drift[positions])
    before = neighbours.nearest(clean[positions], clean, NEIGHBOURS + 1)
    after = neighbours.nearest(seen[last][positions], clean, NEIGHBOURS)
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


def write_png(store: Store, name: str, pixels: Float[Tensor, "channels height width"]) -> None:
    """Write pixels in [0, 1] as a PNG picture."""
    values = (pixels.clamp(0, 1) * 255).round().to(torch.uint8).cpu()
    picture = PIL.Image.fromarray((values[0] if len(values) == 1 else values.permute(1, 2, 0)).numpy())
    store.write(name, lambda path: picture.save(path, format="PNG"))

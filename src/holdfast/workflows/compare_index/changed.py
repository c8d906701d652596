"""The images whose neighbours changed most, with pictures of what stood first before and after."""

from jaxtyping import Float, Int
from torch import Tensor

from holdfast.sources.data import ImageSet
from holdfast.storage.index_upgrade import ChangedImage, PicturedImage
from holdfast.storage.run_folder import Store

SHOWN, NEIGHBOURS = 12, 5
"""Images that are shown, and neighbours of each."""


def most_changed(
    store: Store,
    images: tuple[ImageSet, ImageSet],
    kept: Float[Tensor, "images"],
    k: int,
    lists: tuple[Int[Tensor, "images places"], Int[Tensor, "images places"]],
) -> list[ChangedImage]:
    """Write the pictures, and return the images that keep least of their neighbours, worst first.

    Images are shown as the encoder sees them that sees more of their pixels. Those that keep all are not shown.
    """
    order = kept.argsort(stable=True)[:SHOWN].tolist()
    worst = [place for place in order if kept[place] < 1]
    sharper = max(images, key=lambda seen: seen.shape[1] * seen.shape[2])
    written: dict[int, str] = {}

    def picture(place: int) -> PicturedImage:
        if place not in written:
            written[place] = f"pictures/{place:07d}.png"
            store.write_picture(written[place], sharper.pick([place])[0])
        return PicturedImage(id=images[0].ids[place], picture=written[place])

    def entry(place: int) -> ChangedImage:
        shown = picture(place)
        before, after = ([picture(other) for other in places[place, :NEIGHBOURS].tolist()] for places in lists)
        first, second = (set(places[place, :k].tolist()) for places in lists)
        return ChangedImage(
            id=shown.id,
            picture=shown.picture,
            kept=float(kept[place]),
            k=k,
            stay=len(first & second),
            before=before,
            after=after,
        )

    return [entry(place) for place in worst]

"""The images whose neighbours changed most, with pictures of what stood first before and after."""

from collections.abc import Callable, Sequence
from functools import cache

from jaxtyping import Float, Int
from torch import Tensor

from holdfast.sources.data import ImageSet
from holdfast.storage.index_upgrade import ChangedImage, PicturedImage
from holdfast.storage.run_folder import Store

SHOWN, NEIGHBOURS = 12, 5
"""Images that are shown, and neighbours of each."""


def most_changed(
    ids: Sequence[str],
    draw: Callable[[int], str],
    kept: Float[Tensor, "images"],
    k: int,
    lists: tuple[Int[Tensor, "images places"], Int[Tensor, "images places"]],
    places: Int[Tensor, "images"] | None = None,
) -> list[ChangedImage]:
    """Return the images that keep least of their neighbours, worst first; those that keep all are not shown.

    Args:
        ids: of all images.
        draw: returns the file with the picture of one, "" where there is none.
        kept: how much each image keeps.
        k: of how many neighbours it is told how many stay.
        lists: of both encoders; what is in neither index is below 0.
        places: where the images with lists stand among all; None: they are all.
    """
    order = kept.argsort(stable=True)[:SHOWN].tolist()
    worst = [row for row in order if kept[row] < 1]

    def picture(place: int) -> PicturedImage:
        return PicturedImage(id=ids[place], picture=draw(place))

    def entry(row: int) -> ChangedImage:
        shown = picture(row if places is None else int(places[row]))
        before, after = (
            [picture(other) for other in lists_of[row, :NEIGHBOURS].tolist() if other >= 0] for lists_of in lists
        )
        first, second = (set(lists_of[row, :k].tolist()) for lists_of in lists)
        return ChangedImage(
            id=shown.id,
            picture=shown.picture,
            kept=float(kept[row]),
            k=k,
            stay=sum(other >= 0 for other in first & second),
            before=before,
            after=after,
        )

    return [entry(row) for row in worst]


def draw_into(store: Store, images: tuple[ImageSet, ImageSet]) -> Callable[[int], str]:
    """Return what writes the picture of an image once, and gives its file.

    Images are shown as the encoder sees them that sees more of their pixels.
    """
    sharper = max(images, key=lambda seen: seen.shape[1] * seen.shape[2])

    @cache
    def draw(place: int) -> str:
        name = f"pictures/{place:07d}.png"
        store.write_picture(name, sharper.pick([place])[0])
        return name

    return draw

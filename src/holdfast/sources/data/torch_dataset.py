"""Images of a torch Dataset, or of any other collection with a length and numbered items."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import ImageSource
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.foreign import foreign
from holdfast.sources.data.shared.in_words import named
from holdfast.sources.data.shared.labels import class_number
from holdfast.sources.data.shared.range import check_range
from holdfast.sources.data.shared.reader import copied

IMAGE = ("image", "img", "pixel_values", "jpg", "png")
LABEL = ("label", "labels", "target", "fine_label", "cls")
"""Names that items which are mappings have for the picture and for its class, the first that is there."""

READ_TWICE = 8
"""Items that are read twice at the beginning, to find out whether they stay the same."""


class TorchDataset(ImageSource):
    """Items of a map-style dataset: a picture, (picture, class), or a mapping with "image" and perhaps "label".

    A picture is Pillow's, a tensor [C, H, W] or [H, W], or a NumPy array [H, W, C] or [H, W]; uint8, or floats in
    [0, 1]. An item must be the same whenever it is read: leave out random augmentation, and normalisation, which
    is the encoder's.

    Args:
        items: what has `len(items)` and `items[index]`.
        name: what the images are called in reports.

    Raises:
        HoldfastError: no such collection, or items that change.
    """

    concurrent = True  # items are read in their turn, and made into images side by side

    def __init__(self, items: Any, name: str = ""):
        self.name = name or f"a {type(items).__name__}"
        if not hasattr(items, "__getitem__") or not hasattr(items, "__len__"):
            hint = "; give its .dataset" if hasattr(items, "dataset") else ""
            raise HoldfastError(
                f"images: expected a dataset with a length and numbered items, got {type(items).__name__}{hint}"
            )
        self._items = items
        self._labels: dict[int, int | HoldfastError | None] = {}
        names = getattr(items, "classes", None)
        self.classes = tuple(map(str, names)) if isinstance(names, (list, tuple)) else ()
        self.notes = self._parts_in_words() if len(self) else ()
        for index in range(min(READ_TWICE, len(self))):
            if not _same(self.load(index), self.load(index)):
                raise HoldfastError(
                    f"{self}: expected the same image whenever it is read, image {index} changed; leave random "
                    "augmentation out of the dataset's transform"
                )

    def __len__(self) -> int:
        return len(self._items)

    def __str__(self) -> str:
        return f"{self.name}: {len(self)} images"

    def id(self, index: int) -> str:
        """Return the index padded with zeros."""
        return f"{index:0{max(6, len(str(len(self) - 1)))}d}"

    def load(self, index: int) -> PIL.Image.Image | Float[Tensor, "channel height width"]:
        """Return the picture of an item."""
        picture, self._labels[index] = self._item(index)
        if isinstance(picture, PIL.Image.Image):
            return picture
        item = f"{self.name}, item {index}"
        if isinstance(picture, np.ndarray):
            if picture.ndim == 3:
                picture = picture.transpose(2, 0, 1)
            picture = torch.from_numpy(np.ascontiguousarray(picture))
        if not isinstance(picture, Tensor):
            raise HoldfastError(
                f"{item}: expected a picture, tensor or array, got {type(picture).__name__}; an item is an image, "
                f"(image, class) or a mapping with one of {', '.join(IMAGE)}"
            )
        return _pixels(picture, item)

    def label(self, index: int) -> int | None:
        """Return the class of an item, where it says one; reads the item."""
        if index not in self._labels:
            self._labels[index] = self._item(index)[1]
        if isinstance(label := self._labels[index], HoldfastError):
            raise label
        return label

    def _parts_in_words(self) -> tuple[str, ...]:
        """Return which parts of items are read, where they have others, or names."""
        with foreign(f"{self.name}, item 0", "read", wrap=True, alone=True):
            item = self._items[0]
            names = [str(key) for key in item] if isinstance(item, Mapping) else []
            count = len(item) if isinstance(item, (tuple, list)) else 0
        if count > 2:
            return (f"the first 2 of {count} parts of items are read, as image and class",)
        read = [next((name for name in known if name in names), "") for known in (IMAGE, LABEL)]
        if len(names) <= sum(map(bool, read)) or not read[0]:
            return ()
        as_class = f", {read[1]!r} as the class" if read[1] else ""
        return (
            f"of items {read[0]!r} is read as the image{as_class}; not read: "
            f"{named([name for name in names if name not in read])}",
        )

    def _item(self, index: int) -> tuple[Any, int | HoldfastError | None]:
        """Return the picture of an item, which nobody else has, and its class, or what is wrong with it."""
        where = f"{self.name}, item {index}"
        with foreign(where, "read", wrap=True, alone=True):
            picture, label = _parts(self._items[index])
            picture = copied(picture)
            try:
                return picture, class_number(label, where)
            except HoldfastError as error:  # which is told where a measure reads classes
                return picture, error


def _pixels(values: Tensor, item: str) -> Tensor:
    """Return the pixels of a tensor [C, H, W] or [H, W] in [0, 1]."""
    values = values.detach().cpu()
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[0] not in (1, 3):
        raise HoldfastError(
            f"{item}: expected a tensor [C, H, W] or an array [H, W, C] with C = 1 or 3, got {list(values.shape)}"
        )
    if values.dtype in (torch.uint8, torch.bool):
        return values.float() / (255 if values.dtype == torch.uint8 else 1)
    if not values.is_floating_point():
        raise HoldfastError(f"{item}: expected uint8 or floats in [0, 1], got {values.dtype}; convert them to uint8")
    values = values.float()
    try:
        check_range(float(values.min()), float(values.max()), item)
    except HoldfastError as error:
        raise HoldfastError(
            f"{error}; a Normalize in the dataset's transform belongs to the encoder: give mean and std instead"
        ) from error
    return values


def _parts(item: Any) -> tuple[Any, Any]:
    """Return the picture of an item, and what it says of its class; None for what it does not have."""
    if isinstance(item, (tuple, list)):
        return (item[0] if item else None), (item[1] if len(item) > 1 else None)
    if isinstance(item, Mapping):
        picture, label = (next((item[key] for key in keys if key in item), None) for keys in (IMAGE, LABEL))
        return picture, label
    return item, None


def _same(first: Any, second: Any) -> bool:
    return np.array_equal(np.asarray(first), np.asarray(second), equal_nan=not isinstance(first, PIL.Image.Image))

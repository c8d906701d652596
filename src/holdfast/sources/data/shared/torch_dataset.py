"""Images of a torch Dataset, or of any other collection with a length and numbered items."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import ImageSource
from holdfast.runtime.checked import check_arguments
from holdfast.runtime.errors import BadData, BadValue, Failed, HoldfastError
from holdfast.runtime.foreign import foreign
from holdfast.sources.data.shared.in_processes import InProcesses
from holdfast.sources.data.shared.in_words import join_names
from holdfast.sources.data.shared.labels import class_number
from holdfast.sources.data.shared.range import check_range, refuse_type
from holdfast.sources.data.shared.reader import copy_picture

T = TypeVar("T")

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
        items: what has `len(items)` and `items[index]`; it is called by one thread at a time.
        name: what the images are called in reports.
        processes: how many processes read it, as `num_workers` of a DataLoader; 0: this one.

    Raises:
        HoldfastError: no such collection, or items that change.
    """

    concurrent = True  # items are read in their turn, and made into images side by side

    @check_arguments
    def __init__(self, items: Any, name: str = "", *, processes: int = 0):
        self.name = name or f"a {type(items).__name__}"
        if not hasattr(items, "__getitem__") or not hasattr(items, "__len__"):
            hint = "; give its .dataset" if hasattr(items, "dataset") else ""
            raise BadValue(
                f"images: expected a dataset with a length and numbered items, got {type(items).__name__}{hint}"
            )
        if processes < 0:
            raise BadValue(f"{self.name}: expected 0 or more processes, got {processes}")
        # Its length may be code of the user's too
        with foreign(self.name, "asked for its length", wrap=True, alone=True):
            self._items, self._count = items, len(items)
        self._processes = InProcesses(items, processes) if processes else None
        self._labels: dict[int, int | HoldfastError | None] = {}
        names = getattr(items, "classes", None)
        self.classes = tuple(map(str, names)) if isinstance(names, (list, tuple)) else ()
        # The first item tells which parts of items are not read
        self.notes = self._make_each([0], _unread)[0] if len(self) else ()
        # What draws anew shows it soon; to read all twice would double the time
        for index in range(min(READ_TWICE, len(self))):
            if not _same(self.load(index), self.load(index)):
                raise Failed(
                    f"{self}: expected the same image whenever it is read, image {index} changed; leave random "
                    "augmentation out of the dataset's transform"
                )

    def __len__(self) -> int:
        return self._count

    def __str__(self) -> str:
        return f"{self.name}: {len(self)} images"

    def id(self, index: int) -> str:
        """Return the index padded with zeros."""
        return f"{index:0{max(6, len(str(len(self) - 1)))}d}"

    def load(self, index: int) -> PIL.Image.Image | Float[Tensor, "channel height width"]:
        """Return the picture of an item."""
        return self._images([index])[0]

    def load_several(self, indices: Sequence[int]) -> Sequence[PIL.Image.Image | Tensor] | None:
        """Return the pictures of several items, which processes read side by side; None where there are none."""
        return None if self._processes is None else self._images(indices)

    def label(self, index: int) -> int | None:
        """Return the class of an item, where it says one; reads the item."""
        if index not in self._labels:
            # Noted, since an item gives its picture and its class together
            self._labels[index] = self._make_each([index], _parse_item)[0][1]
        if isinstance(label := self._labels[index], HoldfastError):
            raise label
        return label

    def _images(self, indices: Sequence[int]) -> list[PIL.Image.Image | Tensor]:
        """Return the pictures of some items, and note their classes."""
        given = self._make_each(indices, _parse_item)
        self._labels.update((index, label) for index, (_, label) in zip(indices, given, strict=True))
        return [_image(picture, self._describe_item(index)) for index, (picture, _) in zip(indices, given, strict=True)]

    def _make_each(self, indices: Sequence[int], make: Callable[[Any, str], T]) -> list[T]:
        """Return what is made of some items and their names, while nobody else may read one."""
        if self._processes is None:
            made = []
            for index in indices:
                # What is made of an item is copied before another thread may read the next one
                with foreign(self._describe_item(index), "read", wrap=True, alone=True):
                    made.append(make(self._items[index], self._describe_item(index)))
            return made
        answers = list(zip(indices, self._processes.read(indices), strict=True))
        for index, (_, problem) in answers:
            if problem:
                raise Failed(f"{self._describe_item(index)}, while it was read: {problem}")
        return [make(item, self._describe_item(index)) for index, (item, _) in answers]

    def _describe_item(self, index: int) -> str:
        return f"{self.name}, item {index}"


def _parse_item(item: Any, name: str) -> tuple[Any, int | HoldfastError | None]:
    """Return the picture of an item, which nobody else has, and its class, or what is wrong with that."""
    picture, label = item, None
    if isinstance(item, (tuple, list)):
        picture, label = (item[0] if item else None), (item[1] if len(item) > 1 else None)
    elif isinstance(item, Mapping):
        picture, label = (next((item[key] for key in keys if key in item), None) for keys in (IMAGE, LABEL))
    try:
        return copy_picture(picture), class_number(label, name)
    except HoldfastError as error:  # which is told where a measure reads classes
        return copy_picture(picture), error


def _unread(item: Any, name: str) -> tuple[str, ...]:
    """Return a line on which parts of an item are read, where it has others."""
    if isinstance(item, (tuple, list)) and len(item) > 2:
        return (f"the first 2 of {len(item)} parts of items are read, as image and class",)
    names = [str(key) for key in item] if isinstance(item, Mapping) else []
    image, label = (next((name for name in known if name in names), "") for known in (IMAGE, LABEL))
    others = [name for name in names if name not in (image, label)]
    if not image or not others:
        return ()
    as_class = f", {label!r} as the class" if label else ""
    return (f"of items {image!r} is read as the image{as_class}; not read: {join_names(others)}",)


def _image(picture: Any, item: str) -> PIL.Image.Image | Float[Tensor, "channel height width"]:
    """Return the picture of an item as Pillow's, or as pixels."""
    if isinstance(picture, PIL.Image.Image):
        return picture
    if isinstance(picture, np.ndarray):
        # [H, W, C] to [C, H, W]
        if picture.ndim == 3:
            picture = picture.transpose(2, 0, 1)
        picture = torch.from_numpy(np.ascontiguousarray(picture))
    if not isinstance(picture, Tensor):
        raise BadData(
            f"{item}: expected a picture, tensor or array, got {type(picture).__name__}; an item is an image, "
            f"(image, class) or a mapping with one of {', '.join(IMAGE)}"
        )
    return _pixels(picture, item)


def _pixels(values: Tensor, item: str) -> Tensor:
    """Return the pixels of a tensor [C, H, W] or [H, W] in [0, 1]."""
    # In this process, for it may have come from a device
    values = values.detach().cpu()
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[0] not in (1, 3):
        raise BadData(
            f"{item}: expected a tensor [C, H, W] or an array [H, W, C] with C = 1 or 3, got {list(values.shape)}"
        )
    if values.dtype in (torch.uint8, torch.bool):
        return values.float() / (255 if values.dtype == torch.uint8 else 1)
    if not values.is_floating_point():
        refuse_type(values.numpy(), item, "uint8 or floats in [0, 1]", ".to(torch.uint8)")
    values = values.float()
    try:
        check_range(float(values.min()), float(values.max()), item)
    except HoldfastError as error:
        raise error.retell(
            f"{error}; a Normalize in the dataset's transform belongs to the encoder: give mean and std instead"
        ) from error
    return values


def _same(first: Any, second: Any) -> bool:
    # NaN equals itself in floats; bytes of pictures have none
    return np.array_equal(np.asarray(first), np.asarray(second), equal_nan=not isinstance(first, PIL.Image.Image))

"""Where images come from."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import PIL.ExifTags
import PIL.Image
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.relevance import Relevance

GREY = ("1", "L", "LA", "La", "F")
"""Modes of pictures without colours, beside those of integers."""


class ImageSource(ABC):
    """Where images come from: a numbered collection whose pictures are read when asked for.

    A file that cannot be read raises `HoldfastError` naming it; `holdfast.sources.data.open_images` decides whether
    such files may be skipped.

    A source is called by one thread at a time, and what it hands out is copied before it is called again, unless it
    says that it is made for several threads (`concurrent`).
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def id(self, index: int) -> str:
        """Return a stable, unique name of image `index`: the same in every run, on every machine."""

    @abstractmethod
    def load(self, index: int) -> PIL.Image.Image | Float[Tensor, "channel height width"]:
        """Return image `index`: a picture of any size and mode, or pixels in [0, 1]."""

    def load_several(
        self, indices: Sequence[int]
    ) -> Float[Tensor, "n channels height width"] | Sequence[PIL.Image.Image | Tensor] | None:
        """Return several images as `load` does, or the pixels of all, where together is faster; None: one by one."""
        return None

    def shape(self, index: int) -> tuple[int, int, int] | None:
        """Return (channels, height, width) of picture `index`, from its header where that is enough; None of pixels."""
        image = self.load(index)
        return shape_of_picture(image) if isinstance(image, PIL.Image.Image) else None

    def label(self, index: int) -> int | None:
        """Return the class of image `index`, from 0 on, where the source knows it (used by probes only).

        Image sets of others have -1 where there is none, which is the same as None.
        """
        return None

    def files(self, indices: Sequence[int]) -> Sequence[Path] | None:
        """Return the files that some images are read from, and folders whose names decide which there are.

        None: they are not known, beside those of installed packages. Where they are known, and have not changed, an
        audit that is made is known to be the answer still.
        """
        return None

    concurrent: bool = False
    """Whether several threads may call it at once, and what it hands out is never changed by it afterwards."""

    notes: Sequence[str] = ()
    """What lies beside its images and is not read, and what it chose where there was a choice: a line each."""

    classes: Sequence[str] = ()
    """Names of the classes by their numbers; empty where the source does not know them."""

    runs: int = 0
    """How many run folders of Holdfast lie among its files; what audits wrote there is none of its images."""

    relevance: Relevance | None = None
    """Which of its images are relevant to which, where they are the queries and the corpus of a retrieval task."""

    sized: bool = True
    """Whether its images have a size of their own; else each encoder's geometry gives them one."""


def shape_of_picture(picture: PIL.Image.Image) -> tuple[int, int, int]:
    """Return (channels, height, width) of a picture as a viewer shows it; nothing is decoded."""
    width, height = picture.size
    stored = getattr(picture, "tag_v2", {})  # of a TIFF: some versions of Pillow tell its size as it will be turned
    is_turned = bool(stored) and picture.size != (stored.get(256), stored.get(257))
    if not is_turned and picture.getexif().get(PIL.ExifTags.Base.Orientation, 1) in (5, 6, 7, 8):  # by 90 degrees
        width, height = height, width
    return 1 if picture.mode in GREY or picture.mode.startswith("I") else 3, height, width

"""Images in one array: .npz and .npy files, NumPy arrays and tensors in memory."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import ImageSource
from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options, finish, take
from holdfast.runtime.errors import Ambiguous, BadData, Conflict, Mismatch, unknown
from holdfast.sources.data.shared.array_file import ArrayFile, map_array
from holdfast.sources.data.shared.in_words import join_names, plural
from holdfast.sources.data.shared.labels import NONE, class_number
from holdfast.sources.data.shared.range import check_range, refuse_type
from holdfast.sources.data.shared.reader import copy_picture

LAYOUTS = ("NHW", "NHWC", "NCHW")
_SCALE = {"uint8": 255.0, "uint16": 65535.0, "bool": 1.0, "float16": 1.0, "float32": 1.0, "float64": 1.0}

_SMALL = 2**20
"""Values of several images that are read together."""


@dataclass(frozen=True)
class ArraysSource(DataSource):
    """Images in one array of a file."""

    about = ".npz and .npy files; ?key= layout=NHW|NHWC|NCHW; the path alone will do"
    suffixes = (".npz", ".npy")

    def open(self, name: str, options: Options) -> "Arrays":
        """Open `arrays:FILE?key=NAME`."""
        key, layout = take(options, "key", str, None), take(options, "layout", str, None)
        finish(options)
        return Arrays.open(name, key=key, layout=layout)


class Arrays(ImageSource):
    """Images in one array, uint8 (divided by 255), uint16 (by 65535) or floats in [0, 1].

    Args:
        images: [N, H, W], [N, H, W, C] or [N, C, H, W] with C = 1 or 3.
        labels: N integers.
        ids: N unique names; "000000", "000001", ... where absent.
        layout: "NHW", "NHWC" or "NCHW"; needed where the shape fits more than one.
        name: what the images are called in reports.
        classes: names of the labels 0, 1, ...

    Raises:
        HoldfastError: an ambiguous or impossible shape, another type, floats beyond [0, 1], labels or ids of
            another length.
    """

    concurrent = True

    def __init__(
        self,
        images: np.ndarray | Tensor,
        labels: np.ndarray | Tensor | Sequence[int] | None = None,
        ids: np.ndarray | Sequence[str] | None = None,
        *,
        layout: str | None = None,
        name: str = "array",
        classes: np.ndarray | Sequence[str] = (),
    ):
        self.name, self.classes = name, tuple(map(str, np.atleast_1d(np.asarray(classes))))
        self._images = _array(images, name) if isinstance(images, Tensor) else images
        if self._images.dtype.name not in _SCALE:
            for_bytes = ".to(torch.uint8)" if isinstance(images, Tensor) else ".astype('uint8')"
            refuse_type(self._images[:1000], name, "uint8, uint16 or floats in [0, 1]", for_bytes)
        self.layout = _layout(self._images.shape, layout, name)
        self._labels = None if labels is None else self._column(labels, "labels")
        if self._labels is not None and self._labels.dtype.kind not in "iub":
            raise BadData(f"{name}: expected integer labels, -1 for none, got {self._labels.dtype}; number the classes")
        if self._labels is not None and len(self._labels) and self._labels.min() < NONE:
            raise BadData(f"{name}: expected labels from 0 on, or -1 for none, got {self._labels.min()}")
        self._ids = None if ids is None else [str(value) for value in self._column(ids, "ids")]
        self._file: Path | None = None
        self._width = max(6, len(str(len(self) - 1)))
        first = np.asarray(self._images[:16])  # a wrong scale shows at once; every image is checked when read
        if first.dtype.kind == "f":
            # Values that are not finite are told with the image that has them
            finite = first[np.isfinite(first)]
            check_range(float(finite.min(initial=0)), float(finite.max(initial=0)), name)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, key: str | None = None, layout: str | None = None) -> "Arrays":
        """Open a .npy file (not read into memory) or a .npz file.

        A .npz file holds "images" (or `key`, or one single array of three or four dimensions), and may hold
        "labels", "ids" and "classes" (names of the labels 0, 1, ...).

        Raises:
            HoldfastError: a file that is not there, not NumPy's, holds pickles, or has no such key.
        """
        file = Path(path)
        if file.suffix == ".npz":
            with ArrayFile(file) as held:
                chosen = _key(held, key, file.name)
                images = held.read(chosen)
                extra: dict[str, Any] = {name: held.read(name) for name in ("labels", "ids", "classes") if name in held}
                others = [name for name in held if name not in (chosen, *extra)]
            opened = cls(images, **extra, layout=layout, name=file.name)
            notes = [] if chosen in ("images", key) else [f"the array {chosen!r} is read as the images"]
            notes += [f"{plural(len(others), 'array')} not read: {join_names(others)}"] if others else []
            opened.notes = tuple(notes)
        elif key is not None:
            raise Conflict(f"{file.name} holds one array without a name; leave out key={key}")
        else:
            opened = cls(map_array(file), layout=layout, name=file.name)
        opened._file = file
        return opened

    def __len__(self) -> int:
        return len(self._images)

    def __str__(self) -> str:
        return f"{self.name}: {len(self)} images"

    def id(self, index: int) -> str:
        """Return the given id, or the index padded with zeros."""
        return self._ids[index] if self._ids is not None else f"{index:0{self._width}d}"

    def load(self, index: int) -> Float[Tensor, "channel height width"]:
        """Return the pixels as float32; 8- and 16-bit values divided by their largest."""
        return self._pixels(self._images[index][None])[0]

    def load_several(self, indices: Sequence[int]) -> Float[Tensor, "n channel height width"] | None:
        """Return several images; None of large ones, whose own bytes take the time."""
        several = None if len(indices) * self._images[0].size > _SMALL else self._images[list(indices)]
        return None if several is None else self._pixels(several)

    def _pixels(self, images: np.ndarray) -> Float[Tensor, "n channel height width"]:
        # To [N, C, H, W]
        images = images[:, None] if self.layout == "NHW" else images
        images = images.transpose(0, 3, 1, 2) if self.layout == "NHWC" else images
        pixels = torch.from_numpy(np.ascontiguousarray(images).astype(np.float32))  # quicker than both at once
        scale = _SCALE[self._images.dtype.name]
        return pixels if scale == 1 else pixels.div_(scale)  # in place, for astype has copied

    def files(self, indices: Sequence[int]) -> tuple[Path, ...] | None:
        """Return the file; None of an array in memory."""
        return None if self._file is None else (self._file,)

    def label(self, index: int) -> int | None:
        """Return the label, where labels were given."""
        return None if self._labels is None else class_number(self._labels[index], f"{self.name}, image {index}")

    def _column(self, values: Any, name: str) -> np.ndarray:
        try:
            values = copy_picture(values)  # which its owner may change
            column = values.numpy() if isinstance(values, Tensor) else np.asarray(values)
        except ValueError as error:  # rows of several lengths
            raise BadData(f"{self.name}: expected {len(self)} {name}, one per image, got lists") from error
        if column.size != len(self):
            got = len(column) if column.ndim == 1 else f"the shape {list(column.shape)}"
            advice = "; of one-hot rows take .argmax(1)" if column.ndim == 2 and name == "labels" else ""
            raise Mismatch(f"{self.name}: expected {len(self)} {name}, one per image, got {got}{advice}")
        return column.reshape(-1)


def _array(images: Tensor, name: str) -> np.ndarray:
    """Return the values of a tensor."""
    try:
        return images.detach().cpu().numpy()
    except (TypeError, RuntimeError, NotImplementedError) as error:
        kind = "no values (meta)" if images.is_meta else f"{str(images.layout).removeprefix('torch.')} {images.dtype}"
        raise BadData(
            f"{name}: expected a dense tensor of uint8 or floats in [0, 1], got {kind}; give images.to_dense().float()"
        ) from error


def _key(held: ArrayFile, key: str | None, name: str) -> str:
    if key is not None:
        if key not in held:
            raise unknown(f"key of {name}", key, held)
        return key
    if "images" in held:
        return "images"
    # Labels and boxes have fewer axes
    candidates = [name for name in held if len(held.shape(name)) in (3, 4)]
    if len(candidates) != 1:
        raise Ambiguous(f"{name}: expected an array called 'images', found {', '.join(held)}; choose with ?key=NAME")
    return candidates[0]


def _layout(shape: tuple[int, ...], layout: str | None, name: str) -> str:
    if layout is not None and layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS)
    fits = {
        "NHW": len(shape) == 3,
        "NHWC": len(shape) == 4 and shape[-1] in (1, 3),
        "NCHW": len(shape) == 4 and shape[1] in (1, 3),
    }
    options = [each for each in LAYOUTS if fits[each] and layout in (None, each)]
    # [32, 32, 3] is one colour image more often than 32 images three pixels wide
    single = options == ["NHW"] and layout is None and (shape[-1] in (1, 3) or shape[0] in (1, 3))
    if 0 in shape or not options:
        expected = layout or "[N, H, W], [N, H, W, C] or [N, C, H, W] with C = 1 or 3"
        how = "permute their axes; reshape would scramble the pixels" if len(shape) == 4 else "reshape them"
        raise BadData(f"{name}: expected images {expected}, got the shape {list(shape)}; {how}")
    if len(options) > 1 or single:
        choices = " or ".join(f"layout={option}" for option in options)
        hint = f"; if it is a single image, it cannot be audited; else say {choices}" if single else f"; say {choices}"
        raise Ambiguous(f"{name}: the shape {list(shape)} is ambiguous{hint}")
    return options[0]

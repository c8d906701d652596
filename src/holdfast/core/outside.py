"""Encoders outside torch: a runtime, a service, a function of arrays. They have values, and no gradient."""

import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.core.representation import no_tensor
from holdfast.runtime.errors import Failed

Call = Callable[[np.ndarray], Any]
"""Maps an array of images, as its `Wanted` says, to a vector for each, in any library's arrays."""


BYTES = (1 / 255, 0)
"""The quantisation of a picture of 8 bits."""


@dataclass(frozen=True)
class Wanted:
    """How something outside torch wants its images.

    Attributes:
        layout: order of the axes: channels first, or last.
        channels: order of the colours.
        dtype: of the array.
        batch: how many images it takes at a time, always; None: any number.
        quantisation: (scale, zero) of numbers q that stand for scale · (q - zero), such as (1/255, 0) for pixels from 0
            to 255; None: they stand for themselves.
    """

    layout: Literal["nchw", "nhwc"] = "nchw"
    channels: Literal["rgb", "bgr"] = "rgb"
    dtype: str = "float32"
    batch: int | None = None
    quantisation: tuple[float, int] | None = None

    def array(self, x: Tensor) -> np.ndarray:
        """Return images as such an array.

        Args:
            x: [B, C, H, W], normalised, on the CPU.

        Example:
            >>> Wanted("nhwc", "bgr", "uint8", quantisation=BYTES).array(torch.tensor([[[[0.0]], [[0.5]], [[1.0]]]]))
            array([[[[255, 128,   0]]]], dtype=uint8)
        """
        if self.channels == "bgr":
            x = x.flip(1)
        if self.layout == "nhwc":
            x = x.permute(0, 2, 3, 1)
        values, kind = x.contiguous().numpy(), np.dtype(self.dtype)
        if self.quantisation is not None:
            scale, zero = self.quantisation
            # In float64, so that scaling rounds as little as it can
            values = values.astype(np.float64) / scale + zero
        if kind.kind in "iu":
            # To the nearest one; what lies beyond the ends would wrap around
            values = np.floor(values + 0.5).clip(np.iinfo(kind).min, np.iinfo(kind).max)
        return values.astype(kind)


class Outside(nn.Module):
    """Something outside torch, as a network: it maps normalised images [B, C, H, W] to representations [B, D].

    Args:
        start: starts it anew, with nothing of the images that it saw before, and returns what maps images to vectors.
        wanted: how it wants its images.
        identity: bytes that differ where it may compute something else: of its file, its code, its options.
    """

    differentiable = False
    identity: Tensor

    def __init__(self, start: Callable[[], Call], wanted: Wanted, identity: bytes):
        super().__init__()
        self._start, self.wanted, self._call = start, wanted, start()
        # A buffer, so that the fingerprint of an encoder holds it as it does weights
        digest = hashlib.sha256(identity + repr(wanted).encode()).digest()
        self.register_buffer("identity", torch.tensor(list(digest), dtype=torch.uint8))

    def __getstate__(self) -> Any:
        """Leave out what runs: a copy, or another process, starts it once more."""
        return {**self.__dict__, "_call": None}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._call = self._start()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Outside":
        """Share how it is started, which cannot be copied and which no image changes."""
        memo[id(self._start)] = self._start
        twin = object.__new__(Outside)
        twin.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return twin

    def forward(self, x: Tensor) -> Tensor:
        """Return representations, one for each image; no gradient comes back."""
        # NumPy has arrays on the CPU alone
        own = x.detach().to("cpu", torch.float32)
        rows = [self._rows(part) for part in self._batches(own)]
        return torch.cat(rows).to(x.device)

    def _batches(self, x: Tensor) -> Iterator[Tensor]:
        """Yield images in batches of the size that is wanted; the last one may be smaller."""
        yield from (x,) if self.wanted.batch is None else x.split(self.wanted.batch)

    def _rows(self, x: Tensor) -> Tensor:
        count, batch = len(x), self.wanted.batch
        if batch is not None and count < batch:
            # Filled with the last image, whose further vectors are dropped
            x = torch.cat([x, x[-1:].expand(batch - count, *x.shape[1:])])
        vectors = as_tensor(self._call(self.wanted.array(x)))
        # One image at a time: its vector may come alone
        if batch == 1 and vectors.ndim == 1 and len(vectors) != 1:
            vectors = vectors[None]
        if vectors.ndim == 0 or len(vectors) != len(x):
            raise Failed(
                f"expected one vector for each of {len(x)} images, got {list(vectors.shape)}; return [images, numbers]"
            )
        return vectors[:count]


def as_tensor(values: Any) -> Tensor:
    """Return an array of any library, or a list of numbers, as a tensor in float32 on the CPU.

    Whole numbers and truth values stand for themselves: there is no gradient that they could lack.

    Raises:
        HoldfastError: no array of real numbers.

    Example:
        >>> as_tensor([[1, 2], [3, 4]]).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    # torch's own first: NumPy lacks bfloat16
    if isinstance(values, Tensor):
        tensor = values.detach().cpu()
    else:
        if isinstance(values, (dict, set, str, bytes)) or values is None:
            raise Failed(f"expected an array of vectors, got {no_tensor(values)}")
        # Arrays of accelerators refuse `np.asarray`, and most of them can be had by `numpy` or `get`
        on_host = next((getattr(values, name) for name in ("numpy", "get") if hasattr(values, name)), None)
        try:
            array = np.asarray(values if on_host is None or isinstance(values, np.ndarray) else on_host())
        except (ValueError, TypeError) as error:  # lists of different lengths
            raise Failed(
                f"expected an array of vectors, all of one length, got {describe(values)} ({error})"
            ) from error
        if array.dtype.kind not in "fiub":
            raise Failed(f"expected an array of real numbers, got {describe(values)} of {array.dtype}")
        tensor = torch.from_numpy(np.array(array, dtype=np.float32))  # a copy: runtimes reuse their buffers
    if tensor.is_complex():
        raise Failed(f"expected real numbers, got {tensor.dtype}")
    return tensor.float()


def describe(values: Any) -> str:
    """Return what came, in words: its type, and its length where it has one."""
    length = f" of {len(values)}" if isinstance(values, Sequence) else ""
    return f"{type(values).__name__}{length}"

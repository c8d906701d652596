"""Normalisation of pixels: what an encoder subtracts from them and divides them by, channel by channel."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.runtime.checked import describe_value
from holdfast.runtime.errors import BadValue

LARGEST = 2.0
"""Above it no mean or standard deviation is one of pixels in [0, 1], but one of pixels in [0, 255]."""


class Normalisation(nn.Module):
    """x ↦ (x - mean) / std for pixels x in [0, 1], [B, C, H, W]; inside the encoder, so that radii are in pixels.

    Args:
        mean: of each channel, or of all (0 for none); numbers, or an array or tensor of them, [C] or [1, C, 1, 1].
        std: of each channel, or of all (1 for none).
        name: of the encoder, for errors.

    Attributes:
        means: the means as numbers; of each channel where either says something of each.
        stds: the standard deviations as numbers, as many.
        mean: the means, [1, C, 1, 1], on the encoder's device.
        std: the standard deviations, [1, C, 1, 1].
        identity: whether it changes nothing.

    Raises:
        HoldfastError: mean and std that are not finite, not positive (std), of several different lengths, or beyond
            `LARGEST`.

    Example:
        >>> Normalisation([0.485, 0.456, 0.406], 0.25, "mine").stds
        [0.25, 0.25, 0.25]
    """

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float], name: str):
        super().__init__()
        self.means, self.stds = _numbers(mean, f"mean of {name!r}"), _numbers(std, f"std of {name!r}")
        lengths = {len(self.means), len(self.stds)}
        bad_std = any(s <= 0 or not math.isfinite(s) for s in self.stds)
        if 0 in lengths or len(lengths - {1}) > 1 or bad_std or not all(math.isfinite(m) for m in self.means):
            raise BadValue(
                f"normalisation of {name!r}: expected finite means and positive stds, one number or one per channel, "
                f"got mean={self.means}, std={self.stds}; give both in units of [0, 1] pixels"
            )
        # Numbers of pixels in [0, 255]: radii would be 255 times as large as they seem
        if max(map(abs, self.means)) > LARGEST or max(self.stds) > LARGEST:
            means, stds = (",".join(f"{value / 255:.3g}" for value in values) for values in (self.means, self.stds))
            raise BadValue(
                f"normalisation of {name!r}: expected mean and std of pixels in [0, 1], got mean={self.means}, "
                f"std={self.stds}; did you mean mean={means} and std={stds}: divided by 255?"
            )
        # One number holds for all channels where the other has one for each
        self.means, self.stds = (values * (max(lengths) // len(values)) for values in (self.means, self.stds))
        self.mean: Tensor
        self.std: Tensor
        # Not persistent: a state dict has the entries of the network alone
        self.register_buffer("mean", torch.tensor(self.means).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(self.stds).view(1, -1, 1, 1), persistent=False)
        self.identity = all(m == 0 for m in self.means) and all(s == 1 for s in self.stds)

    def forward(self, x: Tensor) -> Tensor:
        """Return normalised pixels; a copy even where nothing is to be done, for a module may change its input."""
        return x.clone() if self.identity else (x - self.mean) / self.std


def _numbers(values: Any, what: str) -> list[float]:
    """Return one number or one per channel as a list, whatever holds them."""
    held = values.detach().cpu().double() if isinstance(values, Tensor) else values
    try:
        array = np.asarray(held, dtype=float)
    except (TypeError, ValueError):
        array = None
    if array is None or max(array.shape, default=1) != array.size:  # more than one side above 1
        got = describe_value(values) if array is None else f"the shape {list(array.shape)}"
        raise BadValue(f"{what}: expected one number or one per channel, got {got}; give for example [0.5, 0.5, 0.5]")
    return array.reshape(-1).tolist()

"""Batches taken a few images at a time, and images that are too small."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from holdfast.core import HoldfastError, Images, Rng

Function = Callable[..., Images]


def in_parts(values: int) -> Callable[[Function], Function]:
    """Run a corruption on as many images at a time as have so many values; on other devices than a CPU on all at once.

    What was just written is then still in a processor's cache, and memory that was given back is used again: asking
    for a batch anew can take longer than to corrupt it.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def whole(x: Images, rng: Rng, constants: tuple[float, ...], **more: Any) -> Images:
            size = max(1, values // x[0].numel()) if x.device.type == "cpu" else len(x)
            if size >= len(x):
                return function(x, rng, constants, **more)
            out = torch.empty_like(x)
            for first in range(0, len(x), size):
                part = slice(first, first + size)
                out[part] = function(x[part], rng.at(rng.ids[part]), constants, **more)
            return out

        return whole

    return decorate


def too_small(corruption: str, x: Images, side: int) -> HoldfastError:
    """Return the error about images whose sides are not at least so many pixels."""
    return HoldfastError(
        f"{corruption}: expected sides of at least {side} pixels, got {x.shape[2]} x {x.shape[3]}; leave it out or use "
        "larger images"
    )

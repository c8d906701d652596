"""Batches taken a few images at a time, and images that are too small."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import torch

from holdfast.core import Images, Rng
from holdfast.runtime.errors import Unsupported

KEPT = 2**25 - 2**16
"""Bytes; the largest blocks that glibc may keep are of 2²⁵."""

Function = Callable[..., Images]


def in_parts(values: int) -> Callable[[Function], Function]:
    """Run a corruption on as many images at a time as have so many values; on other devices than a CPU on all at once.

    What was just written is then still in a processor's cache, and memory that was given back is used again: asking
    the system for that of a batch can take longer than to corrupt it. Where a large block was given back once, glibc
    keeps what is smaller; and NumPy, of which the result's memory is asked, asks Linux for large pages.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def in_blocks(x: Images, rng: Rng, constants: tuple[float, ...], **more: Any) -> Images:
            # Accelerators want large batches, and have no such cache to stay in
            size = max(1, values // x[0].numel()) if x.device.type == "cpu" else len(x)
            if size >= len(x):
                return function(x, rng, constants, **more)
            # Given back at once: from here on glibc keeps freed blocks up to this
            # size instead of returning them
            torch.empty(KEPT, dtype=torch.uint8)
            out = torch.from_numpy(np.empty(x.shape, str(x.dtype).removeprefix("torch.")))
            for first in range(0, len(x), size):
                part = slice(first, first + size)
                # By the ids of the part, so that each image draws what it would in one batch
                out[part] = function(x[part], rng.at(rng.ids[part]), constants, **more)
            return out

        return in_blocks

    return decorate


def too_small(corruption: str, x: Images, side: int) -> Unsupported:
    """Return the error about images whose sides are not at least so many pixels."""
    return Unsupported(
        f"{corruption}: expected sides of at least {side} pixels, got {x.shape[2]} x {x.shape[3]}; leave it out or use "
        "larger images"
    )

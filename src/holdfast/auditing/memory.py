"""How many images fit into a device's memory together: found out once, not again at every shard."""

import gc
from collections.abc import Callable

import torch
from torch import Tensor

from holdfast.auditing.shards import join_rows
from holdfast.core import Encoder, HoldfastError, Observation
from holdfast.core.registry import part_name
from holdfast.runtime.errors import NotEnough, Unsupported, first_line

SIGNS = (
    "out of memory",  # CUDA and MPS, where torch has no error of its own for it
    "can't allocate memory",  # the CPU's allocator
    "not enough memory: you tried to allocate",  # the same on Windows
    "STATUS_ALLOC_FAILED",  # cuBLAS and cuDNN
)
"""What errors say that mean that memory is short."""

Run = Callable[[int, int], dict[str, Tensor]]
"""Observes the images from the first one to the last (exclusive) together."""


class MemoryLimits:
    """How many images of one encoder each kind of observation can take at a time.

    Where memory is short, images are observed in two halves, those in two again, and so on; what fitted is where the
    next shard begins. Images do not know of each other, so only rounding depends on it. Only what succeeded is counted.

    Args:
        encoder: whose passes are counted.
    """

    def __init__(self, encoder: Encoder):
        self._encoder = encoder
        self._limits: dict[type[Observation], int] = {}

    def limit(self, observation: Observation) -> int | None:
        """Return how many images fit for observations of this kind; None while nothing has been too much."""
        return self._limits.get(type(observation))

    def run(self, observation: Observation, start: int, stop: int, run: Run) -> dict[str, Tensor]:
        """Observe some images, together or in parts that fit."""
        if observation.scope.at_once:  # of no image too: it says what it lacks
            tensors = self._try_run(observation, start, stop, run)
            assert tensors is not None  # what does not fit is refused
            return tensors
        size = min(stop - start, self.limit(observation) or stop - start)
        parts: list[dict[str, Tensor]] = []
        while start < stop:
            if (part := self._try_run(observation, start, min(start + size, stop), run)) is None:
                size = self._limits[type(observation)] = min(size, stop - start) // 2
                continue
            parts.append(part)
            start += size
        return join_rows(parts)

    def _try_run(self, observation: Observation, start: int, stop: int, run: Run) -> dict[str, Tensor] | None:
        """Return what was seen, or None where it did not fit; then nothing of it is counted."""
        before = self._encoder.passes
        try:
            return run(start, stop)
        except TypeError as error:
            if "MPS" in str(error) and "float64" in str(error):
                name = part_name(observation)
                raise Unsupported(
                    f"{name}: expected a device with float64, in which margins, failures and proofs are computed, and "
                    f"MPS has none; run what reads {name} with --device cpu"
                ) from error
            raise
        except (RuntimeError, MemoryError, HoldfastError) as error:
            # retry with fewer images only after an out-of-memory error
            if not short_of_memory(error):
                raise
            if stop - start < 2 or observation.scope.at_once:
                raise self._build_error(observation, error) from error

        # Take back the passes that were counted
        undone = self._encoder.passes - before
        self._encoder.passes = before
        if self._encoder.watch is not None:
            self._encoder.watch(-undone.work)
        # Outside of `except`, which would keep the tensors of the failed pass alive; so would a cycle of references
        gc.collect()
        return None

    def _build_error(self, observation: Observation, error: Exception) -> NotEnough:
        too_much = "all its images together do" if observation.scope.at_once else "a single image does"
        name = part_name(observation)
        return NotEnough(
            f"{name}: expected room in the device's memory, but {too_much} not fit ({first_line(_causes(error)[-1])}); "
            f"free memory there, take another --device, or change what {name} keeps at a time (fewer images to learn "
            "from, negatives or draws)"
        )


def short_of_memory(error: BaseException) -> bool:
    """Whether an error, or one that it was raised from, says that memory is short."""
    return any(
        isinstance(cause, (torch.OutOfMemoryError, MemoryError))
        or (isinstance(cause, RuntimeError) and any(sign in str(cause) for sign in SIGNS))
        for cause in _causes(error)
    )


def _causes(error: BaseException) -> list[Exception]:
    """Return an error and what it was raised from, the first cause last."""
    causes: list[Exception] = []
    cause: BaseException | None = error
    while isinstance(cause, Exception):
        causes.append(cause)
        cause = cause.__cause__
    return causes

"""What an attack has found so far, read out at the step counts that were asked for."""

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.core import Images, PerImage, Reps, Trajectory
from holdfast.parts.attacks.shared.gradient import pick
from holdfast.runtime.errors import BadValue


def check_readouts(readouts: Sequence[int], steps: int) -> tuple[int, ...]:
    """Return the sorted read-outs, the last step when none are asked for.

    Raises:
        HoldfastError: a read-out that is not one of 0 ... steps.
    """
    read_at = tuple(sorted(set(readouts))) or (steps,)
    if read_at[0] < 0 or read_at[-1] > steps:
        raise BadValue(f"read-outs: expected step counts from 0 to {steps}, got {list(readouts)}")
    return read_at


class Readout:
    """Collects iterates; keeps the best (or the current) one of each image, over steps and restarts."""

    def __init__(self, read_at: Sequence[int], keep_best: bool = True):
        self._read_at, self._keep_best = set(read_at), keep_best
        self._images: dict[int, Tensor] = {}
        self._reps: dict[int, Tensor] = {}
        self._values: dict[int, Tensor] = {}
        self._now: tuple[Tensor, Tensor, Tensor] | None = None

    def restart(self) -> None:
        """Begin another search; what the searches before it found still counts at every read-out."""
        self._now = None

    def see(self, step: int, x: Images, values: PerImage, reps: Reps) -> tuple[PerImage, Images]:
        """Take note of the iterate after `step` steps; return values and images that are kept of this search."""
        now = (values, x, reps)
        # Within one search: the best up to this step, or the iterate itself
        if self._keep_best and self._now is not None:
            now = _best(self._now, now)
        self._now = now
        # Across restarts: at each step count the best of all searches. The search itself goes on from its
        # own best, so `_now` is not merged with what earlier ones found.
        before = self._values.get(step)
        self._values[step] = now[0] if before is None else torch.maximum(before, now[0])
        if step in self._read_at:
            if before is not None:
                now = _best((before, self._images[step], self._reps[step]), now)
            self._images[step], self._reps[step] = now[1], now[2]
        return self._now[0], self._now[1]

    def trajectory(self) -> Trajectory:
        """Return everything that was found."""
        values = torch.stack([self._values[step] for step in sorted(self._values)])
        return Trajectory(self._images, self._reps, values)


def _best(old: tuple[Tensor, Tensor, Tensor], new: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    # Of equal values the earlier image stays
    better = new[0] > old[0]
    return torch.maximum(old[0], new[0]), pick(better, new[1], old[1]), pick(better, new[2], old[2])

"""Single passes of an encoder, timed: they tell what fits into an estimate's time, and what could not be timed."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean

import torch

from holdfast.auditing.images import memory_format, move_to_device
from holdfast.core import Encoder, Images, Passes
from holdfast.runtime.errors import NotFinite
from holdfast.sources.data import ImageSet
from holdfast.storage.estimate import UnitSeconds

Clock = Callable[[], float]

ROUNDS = 20
"""Rounds in which each kind of pass is timed at most."""


@dataclass(frozen=True)
class PassTimes:
    """Seconds of one image (of one draw of it) at the audit's batch size, in every round.

    Attributes:
        read: reading and converting it.
        forward: one forward pass.
        both: a forward pass and the backward pass to the pixels.
        dim: of the representation.
    """

    read: tuple[float, ...]
    forward: tuple[float, ...]
    both: tuple[float, ...]
    dim: int

    @property
    def means(self) -> UnitSeconds:
        """Means over the rounds."""
        both = fmean(self.both)
        return UnitSeconds(read=fmean(self.read), forward=fmean(self.forward), forward_and_backward=both)

    def seconds(self, passes: Passes) -> float:
        """Return what some encoder passes take."""
        forward = fmean(self.forward)
        return passes.forward * forward + passes.backward * max(0.0, fmean(self.both) - forward)


def time_passes(
    encoder: Encoder, images: ImageSet, batch_size: int, device: str, backward: bool, seconds: float, clock: Clock
) -> PassTimes:
    """Return the times of single passes on the first batch.

    Args:
        encoder: the encoder, on its device.
        images: the population, rendered for it.
        batch_size: images of a pass.
        device: where it runs.
        backward: whether to time passes back to the pixels; else they count as forward ones.
        seconds: how long to repeat each kind; at least one round is timed, after one that sets things up.
        clock: gives the time in seconds.
    """
    size = min(batch_size, len(images))
    began = clock()
    x = move_to_device(images.pick(range(size)), device, memory_format(encoder))
    read = clock() - began
    with torch.no_grad():
        reps = encoder(x)
        if not reps.isfinite().all():
            raise NotFinite(
                f"encoder {encoder.name!r}: expected finite representations, got NaN or infinity; check its weights "
                "and its normalisation"
            )
        forward = both = _rounds(lambda: encoder(x), seconds, clock)
    if backward:
        with suppress(Exception):  # the attacks themselves say why there is no gradient
            _gradient(encoder, x)
            both = _rounds(lambda: _gradient(encoder, x), seconds, clock)
    times = [tuple(t / size / (encoder.draws or 1) for t in rounds) for rounds in (forward, both)]
    return PassTimes((read / size,), *times, dim=reps.shape[1])


def synchronise_clock(device: str, clock: Clock = time.perf_counter) -> Clock:
    """Return a clock that waits for what an accelerator still has to do."""
    kind = torch.device(device).type

    def waiting() -> float:
        getattr(torch, kind).synchronize()
        return clock()

    return clock if kind == "cpu" else waiting


def _rounds(run: Callable[[], object], seconds: float, clock: Clock) -> list[float]:
    times: list[float] = []
    while not times or (sum(times) < seconds and len(times) < ROUNDS):
        began = clock()
        run()
        times.append(clock() - began)
    return times


def _gradient(encoder: Encoder, x: Images) -> None:
    x = x.detach().requires_grad_()
    torch.autograd.grad(encoder(x).square().sum(), x)

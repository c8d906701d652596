"""Time an attack step by step against a floor that is measured between its steps.

Processor time of this process, not time on the wall: on one thread they are equal while nobody else wants the core.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import process_time

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Timing:
    """What one run of an attack took, in seconds.

    Attributes:
        steps: from the start of a counted pass to the start of the next pass, without the floors between them.
        floors: beside each step, the mean of the floor before it and the floor after it.
        whole: the whole call, without the floors.
    """

    steps: list[float]
    floors: list[float]
    whole: float

    @property
    def ratios(self) -> list[float]:
        """Each step divided by the floor beside it; the first, a warm-up, left out."""
        return [step / floor for step, floor in zip(self.steps, self.floors, strict=True)][1:]

    def whole_ratio(self, steps: int) -> float:
        """Return the whole call per step, set-up and last evaluation included, divided by the median floor."""
        return self.whole / steps / median(self.floors)


def beside(step: Callable[[], object], floor: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Return the ratios of some steps to the floors beside them, A B A B, and the floors; one step is a warm-up."""
    seconds(step)
    floors, steps = [seconds(floor)], []
    for _ in range(rounds):
        steps.append(seconds(step))
        floors.append(seconds(floor))
    return [2 * s / (a + b) for s, (a, b) in zip(steps, pairwise(floors), strict=True)], floors


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of some work."""
    began = process_time()
    work()
    return process_time() - began


class Paced(nn.Module):
    """A network that times one floor before every pass that an attack makes through it.

    Attack and floor alternate A B A B, step by step, so both see the same machine: neighbours who come and go, a
    clock that throttles, warm caches.

    Args:
        network: maps images [B, C, H, W] to representations [B, D].
        floor: the work to compare with, done on the same images.
        gradient: count passes that a gradient follows (else those that none follows); others only end a step.
    """

    def __init__(self, network: nn.Module, floor: Callable[[Tensor], object], gradient: bool = True):
        super().__init__()
        self.network, self._floor, self._gradient = network, floor, gradient
        self.eval()
        self._passes: list[tuple[float, float, float, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        """Pass images through the network, after one floor."""
        arrived = process_time()
        self._floor(x.detach())
        began = process_time()
        self._passes.append((arrived, began, began - arrived, torch.is_grad_enabled() == self._gradient))
        return self.network(x)

    def time(self, attack: Callable[[], object]) -> Timing:
        """Run an attack on this network; its last pass starts no step, it only ends one."""
        self._passes = []
        began = process_time()
        attack()
        spent = process_time() - began - sum(floor for _, _, floor, _ in self._passes)
        counted = [(now, later) for now, later in pairwise(self._passes) if now[3]]
        steps = [later[0] - now[1] for now, later in counted]
        return Timing(steps, [(now[2] + later[2]) / 2 for now, later in counted], spent)

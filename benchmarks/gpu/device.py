"""The device that is measured: the first GPU, or the CPU for a rehearsal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch

REHEARSAL = "CPU rehearsal: no GPU; the figures say nothing about one"


@dataclass(frozen=True)
class Device:
    """Where work runs, and how its time is taken.

    Attributes:
        name: as torch names it.
    """

    name: str

    @property
    def is_gpu(self) -> bool:
        """Whether it is one."""
        return self.name.startswith("cuda")

    @property
    def title(self) -> str:
        """The GPU's name and memory; for a rehearsal, that it is one."""
        if not self.is_gpu:
            return REHEARSAL
        properties = torch.cuda.get_device_properties(self.name)
        return f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"

    def seconds(self, work: Callable[[], object]) -> float:
        """Return the time that work takes: between two events of the device, or on the wall of a CPU."""
        if not self.is_gpu:
            began = time.perf_counter()
            work()
            return time.perf_counter() - began
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(self.name)
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000

    def beside(self, work: Callable[[], object], floor: Callable[[], object], rounds: int) -> list[float]:
        """Return work's time as a multiple of the floor's, in turns, after one round that warms up."""
        ratios = []
        for number in range(rounds + 1):
            spent, bare = self.seconds(work), self.seconds(floor)
            if number:
                ratios.append(spent / bare)
        return ratios

    @contextmanager
    def peak(self) -> Iterator[list[int]]:
        """Yield a list that afterwards holds the most bytes that tensors took; empty on a CPU."""
        taken: list[int] = []
        if self.is_gpu:
            torch.cuda.reset_peak_memory_stats(self.name)
        yield taken
        if self.is_gpu:
            taken.append(torch.cuda.max_memory_allocated(self.name))


def here(rehearse: bool) -> Device:
    """Return the first GPU; the CPU where there is none, or a rehearsal is asked for."""
    return Device("cuda:0" if torch.cuda.is_available() and not rehearse else "cpu")


def spread(values: list[float]) -> str:
    """Return the median, and the ends."""
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"

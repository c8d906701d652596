"""The device that is measured: the first GPU, or the CPU for a rehearsal."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch

from benchmarks import store

REHEARSAL = "CPU rehearsal: no GPU; the figures say nothing about one"


@dataclass(frozen=True)
class Machine:
    """Where and when something was measured.

    Attributes:
        gpu: the card's name, memory and CUDA; "" for a rehearsal.
        cores: of the processor beside it.
        python: its version.
        torch: its version.
        date: when it began, in UTC, as YYYY-MM-DDTHH:MM.
        commit: short name of the state of the code.
    """

    gpu: str
    cores: int
    python: str
    torch: str
    date: str
    commit: str

    @property
    def title(self) -> str:
        """All of it in a line."""
        return f"{self.gpu or REHEARSAL}; {self.cores} cores, Python {self.python}, torch {self.torch}"


@dataclass(frozen=True)
class Device:
    """Where work runs, and how its time is taken.

    Attributes:
        name: as torch names it.
    """

    name: str

    @property
    def is_gpu(self) -> bool:
        """Whether it is one; else all is made in small."""
        return self.name.startswith("cuda")

    def machine(self, commit: str = "") -> Machine:
        """Return what it is, and the state of the code: the one named, or the repository's."""
        gpu = ""
        if self.is_gpu:
            about = torch.cuda.get_device_properties(self.name)
            gpu = f"{about.name}, {about.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
        cores, python = os.cpu_count() or 1, platform.python_version()
        return Machine(gpu, cores, python, torch.__version__, store.now(), commit or store.commit())

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
    def peak(self) -> Iterator[list[float]]:
        """Yield a list that afterwards holds the GiB that tensors took at most; empty on a CPU."""
        taken: list[float] = []
        if self.is_gpu:
            torch.cuda.init()  # nothing may have run there before, and statistics of no context are an error
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.name)
        yield taken
        if self.is_gpu:
            taken.append(torch.cuda.max_memory_allocated(self.name) / 2**30)

    def lost(self) -> bool:
        """Whether an error has left the GPU without use for this process, as a bad access in a kernel does."""
        if not self.is_gpu:
            return False
        try:
            torch.cuda.synchronize(self.name)
            return float(torch.ones(1, device=self.name) + 1) != 2
        except RuntimeError:
            return True


def here(rehearse: bool) -> Device:
    """Return the first GPU; the CPU where there is none, or a rehearsal is asked for."""
    return Device("cuda:0" if torch.cuda.is_available() and not rehearse else "cpu")


def spread(values: list[float]) -> str:
    """Return the median, and the ends."""
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"

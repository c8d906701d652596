"""How a cost grows: a curve, the slope of its logarithms, its picture, and peak memory in fresh processes."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import linear_regression
from typing import Any, TypeVar

Answer = TypeVar("Answer")
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Curve:
    """A cost at several sizes.

    Attributes:
        title: what it is, also the name of its picture.
        x: what the sizes count.
        y: what was measured, with its unit.
        sizes: rising.
        values: one for each size.
    """

    title: str
    x: str
    y: str
    sizes: tuple[int, ...]
    values: tuple[float, ...]

    def exponent(self) -> float:
        """Return b of the least-squares fit log y = a + b log x over all sizes; 1 is linear.

        Raises:
            ValueError: values that are not above 0, whose logarithm there is not.
        """
        if min(self.values) <= 0:
            raise ValueError(f"{self.title}: expected values above 0, got {self.values}; measure longer")
        return linear_regression([math.log(x) for x in self.sizes], [math.log(y) for y in self.values]).slope

    def text(self) -> str:
        """Return the points in one line."""
        return ", ".join(f"{size:,}: {value:.3g}" for size, value in zip(self.sizes, self.values, strict=True))


def draw(curves: Sequence[Curve], folder: Path) -> list[Path]:
    """Draw every curve on logarithmic axes into `folder`/TITLE.svg; return the files."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for curve in curves:
        figure = Figure(figsize=(4.8, 3.2), layout="constrained")
        axes = figure.subplots()
        axes.loglog(curve.sizes, curve.values, "o-")
        axes.set(title=curve.title, xlabel=curve.x, ylabel=curve.y)
        axes.grid(alpha=0.3)
        files.append(folder / f"{'_'.join(''.join(c if c.isalnum() else ' ' for c in curve.title).split())}.svg")
        figure.savefig(files[-1], metadata={"Date": None})
    return files


def kib(field: str) -> int:
    """Return what Linux says of this process's memory: VmRSS now, VmHWM at most."""
    return next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))


def fresh(call: Callable[..., Answer], *arguments: Any) -> Answer:
    """Return what a function of a module returns in a process of its own, whose peak memory nobody else raised."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(call, *arguments).result()
